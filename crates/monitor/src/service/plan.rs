//! The session that measures a stream.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
};

use giusto::{
    call::{
        CallPlan, CallRunError, CallSettings, Caller, Direction as Way, MediaPlan, PlanError,
        race::first_listener,
    },
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
use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::{
    engine::Job,
    sample::{Sample, of_call, of_tcp, samples},
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
    /// [`HoldError`] where it could not begin.
    fn hold(&self, addresses: &[SocketAddr], stop: &AtomicBool) -> Result<Samples, HoldError>;
}

/// Why a session could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HoldError {
    /// A stream.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A call.
    #[error(transparent)]
    Call(#[from] CallRunError),
    /// A call that cannot be planned.
    #[error("{0}")]
    Plan(String),
}

impl<C: Client> Session for C {
    fn hold(&self, addresses: &[SocketAddr], stop: &AtomicBool) -> Result<Samples, HoldError> {
        let (to, outcome) = self.run(addresses, stop, &mut |_| {})?;
        Ok(samples(outcome, &to.to_string()))
    }
}

/// Load by TCP.
struct Tcp(TcpLoad);

impl Session for Tcp {
    fn hold(&self, addresses: &[SocketAddr], stop: &AtomicBool) -> Result<Samples, HoldError> {
        let result = self.0.run(addresses, stop, |_| {})?;
        Ok((of_tcp(&result, &result.to), None))
    }
}

/// A media call.
struct MediaCall {
    plan: Result<CallPlan, PlanError>,
    keys: Option<KeyRing>,
    max_rate: DataRate,
    mtu_discovery: bool,
}

impl Session for MediaCall {
    fn hold(&self, addresses: &[SocketAddr], stop: &AtomicBool) -> Result<Samples, HoldError> {
        let settings = || CallSettings {
            keys: self.keys.clone(),
            mtu_discovery: self.mtu_discovery,
            ..CallSettings::default()
        };
        let none = || {
            let far_end = ("listener", "giusto call --listen");
            if stop.load(Ordering::Relaxed) {
                RunError::Interrupted
            } else {
                RunError::NoneAnswers { far_end, addresses: addresses.to_vec() }
            }
        };
        let to = match addresses {
            [only] => *only,
            several => first_listener(several, &settings(), stop)?.ok_or_else(none)?,
        };
        let plan = self.plan.as_ref().map_err(|error| HoldError::Plan(error.to_string()))?;
        let caller = Caller::open(to, plan.clone(), settings())?;
        let mut records = caller.run(1, (None, &mut ()), || stop.load(Ordering::Relaxed), |_| {})?;
        let record = records.pop().ok_or(CallRunError::Interrupted)?;
        Ok((of_call(&record, self.max_rate), None))
    }
}

/// Whether a session measures the way back as well.
pub(super) fn is_both_ways(job: &Job) -> bool {
    matches!(job.stream.kind, WatchedKind::Stamp { .. })
}

/// The host, with the port of its address except for STAMP and calls, whose port is that of the stream.
pub(super) fn target(job: &Job) -> &str {
    let address = job.target.address.as_str();
    let bare = address.trim_start_matches('[').trim_end_matches(']');
    let has_port = matches!(job.stream.kind, WatchedKind::Stamp { .. } | WatchedKind::Call { .. });
    if !has_port || bare.parse::<std::net::IpAddr>().is_ok() {
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
        mtu_discovery: job.stream.mtu_discovery && !job.reverse,
        ..StreamPlan::constant(
            None,
            DataSize::ZERO,
            Limits::default().with_duration(Some(job.stream.duration)),
        )
    };
    let plan = match job.stream.kind {
        WatchedKind::Tcp { connections } => {
            let (duration, interval) = (job.stream.duration, TimeDelta::from_seconds(1));
            let load = TcpLoad { connections, duration, interval, traffic_class, ..TcpLoad::default() };
            return (Box::new(Tcp(load)), PORT);
        }
        WatchedKind::Call { port, controller, max_rate, .. } => {
            let media = MediaPlan { controller, max_rate, ..MediaPlan::default() };
            let direction = if job.reverse { Way::Reverse } else { Way::Forward };
            let plan = CallPlan::new(&media, direction, job.stream.duration, job.time);
            let mtu_discovery = job.stream.mtu_discovery;
            return (Box::new(MediaCall { plan, keys, max_rate, mtu_discovery }), port);
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
                // Its name is resolved before each stream.
                resolver: None,
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
