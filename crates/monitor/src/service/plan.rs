//! The session that measures a stream.

use giusto::{
    measured::{
        live::Client,
        plan::{Layout, Media, Pacing, StreamPlan, Tempo},
        send::Destination,
        stamp::StampClient,
        streams::{Direction, Streams},
    },
    scenario::WatchedKind,
};
use giusto_net::TrafficClass;
use giusto_pace::{HeaderLayer, Limits};
use giusto_session::{
    keys::KeyRing,
    probe::payload::PayloadSizes,
    stamp::{packet::Mode, time::TimestampFormat},
};
use giusto_units::DataSize;

use crate::engine::Job;

/// The port of `giusto recv`.
const PORT: u16 = 5005;

/// Whether a session measures the way back as well.
pub(super) fn is_both_ways(job: &Job) -> bool {
    matches!(job.stream.kind, WatchedKind::Stamp { .. })
}

/// The session, and the port of the far end where its address has none.
pub(super) fn client(job: &Job, keys: Option<KeyRing>) -> (Box<dyn Client>, u16) {
    let traffic_class = TrafficClass::from_byte(job.stream.dscp << 2);
    let plan = |media, tempo| StreamPlan {
        media,
        tempo,
        layer: HeaderLayer::Payload,
        pacing: Pacing::default(),
        limits: Limits::default().with_duration(Some(job.stream.duration)),
        dont_fragment: false,
        seed: 1,
    };
    let plan = match job.stream.kind {
        WatchedKind::Stamp { port, per_second } => {
            let mode = if keys.is_some() { Mode::Authenticated } else { Mode::Unauthenticated };
            let size = DataSize::from_bytes(mode.base_bytes() as u64);
            let stream =
                plan(Media::Filler(Layout::Raw, PayloadSizes::Fixed(size)), Tempo::PerSecond(per_second));
            let client =
                StampClient { stream, keys, format: TimestampFormat::Ntp, traffic_class, interval: None };
            return (Box::new(client), port);
        }
        WatchedKind::Voice(format) => plan(Media::Voice(format, Vec::new()), Tempo::Media),
        WatchedKind::Cbr { rate, size, .. } => {
            let layout = if keys.is_some() { Layout::Authenticated } else { Layout::Giusto };
            plan(Media::Filler(layout, PayloadSizes::Fixed(size)), Tempo::Rate(rate))
        }
    };
    let direction = if job.reverse { Direction::Reverse } else { Direction::Forward };
    // RTP carries no authentication.
    let keys = keys.filter(|_| !matches!(job.stream.kind, WatchedKind::Voice(_)));
    // Each address of the host has its turn.
    let destination = Destination { traffic_class, keys, ..Destination::new(([0; 4], 0).into()) };
    (Box::new(Streams { plan, direction, destination }), PORT)
}
