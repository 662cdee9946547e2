//! The session that measures a stream.

use std::{net::SocketAddr, sync::atomic::AtomicBool};

use giusto::{
    measured::{
        RunError,
        live::Client,
        plan::{Layout, Media, StreamPlan, Tempo},
        send::Destination,
        stamp::StampClient,
        streams::{Direction, Streams},
        tcp::TcpLoad,
    },
    scenario::WatchedKind,
};
use giusto_net::{PathOptions, TrafficClass};
use giusto_pace::Limits;
use giusto_session::{
    keys::KeyRing,
    probe::payload::PayloadSizes,
    stamp::{packet::Mode, time::TimestampFormat},
};
use giusto_units::{DataSize, TimeDelta};

use crate::{
    engine::Job,
    sample::{Sample, of_tcp, samples},
};

/// The port of `giusto recv`.
const PORT: u16 = 5005;

/// What came of a session: of the direction that was asked for, and of the way back where it is measured as well.
pub type Samples = (Sample, Option<Sample>);

/// A session that measures a stream with any far end.
pub trait Session {
    /// Holds it with that of a far end's addresses which answers first.
    ///
    /// # Errors
    ///
    /// [`RunError`] where it could not begin.
    fn hold(&self, addresses: &[SocketAddr], stop: &AtomicBool) -> Result<Samples, RunError>;
}

impl<C: Client> Session for C {
    fn hold(&self, addresses: &[SocketAddr], stop: &AtomicBool) -> Result<Samples, RunError> {
        let (to, outcome) = self.run(addresses, stop, &mut |_| {})?;
        Ok(samples(outcome, &to.to_string()))
    }
}

/// Load by TCP.
struct Tcp(TcpLoad);

impl Session for Tcp {
    fn hold(&self, addresses: &[SocketAddr], stop: &AtomicBool) -> Result<Samples, RunError> {
        let result = self.0.run(addresses, stop, |_| {})?;
        Ok((of_tcp(&result, &result.to), None))
    }
}

/// Whether a session measures the way back as well.
pub(super) fn is_both_ways(job: &Job) -> bool {
    matches!(job.stream.kind, WatchedKind::Stamp { .. })
}

/// The host, with the port of its address except for STAMP, whose port is that of the stream.
pub(super) fn target(job: &Job) -> &str {
    let address = job.target.address.as_str();
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    if !is_both_ways(job) || bare.parse::<std::net::IpAddr>().is_ok() {
        return address;
    }
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// The session, and the port of the far end where its address has none.
pub(super) fn session(job: &Job, keys: Option<KeyRing>) -> (Box<dyn Session>, u16) {
    let traffic_class = TrafficClass::from_byte(job.stream.dscp << 2);
    let plan = |media, tempo| StreamPlan {
        media,
        tempo,
        ..StreamPlan::constant(
            None,
            DataSize::ZERO,
            Limits::default().with_duration(Some(job.stream.duration)),
        )
    };
    let plan = match job.stream.kind {
        WatchedKind::Tcp { connections } => {
            let (duration, interval) = (job.stream.duration, TimeDelta::from_seconds(1));
            return (Box::new(Tcp(TcpLoad { connections, duration, interval, ..TcpLoad::default() })), PORT);
        }
        WatchedKind::Stamp { port, per_second } => {
            let mode = if keys.is_some() { Mode::Authenticated } else { Mode::Unauthenticated };
            let size = DataSize::from_bytes(mode.base_bytes() as u64);
            let stream =
                plan(Media::Filler(Layout::Raw, PayloadSizes::Fixed(size)), Tempo::PerSecond(per_second));
            let client = StampClient {
                stream,
                keys,
                format: TimestampFormat::Ntp,
                traffic_class,
                path: PathOptions::default(),
                interval: None,
            };
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
