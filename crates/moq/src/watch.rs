//! The subscriber.

use std::{fmt, net::SocketAddr, time::Duration};

use bytes::Bytes;
use moq_net::{Client, group, origin, time, track::Subscription};
use quinn::Endpoint;
use tokio::sync::mpsc;
use web_transport_quinn::Session;

use crate::{
    Error,
    publish::{BROADCAST, TRACK, now},
    quic,
};

/// Groups that are this much behind the newest frame are given up.
const MAX_AGE: Duration = Duration::from_secs(1);

/// A frame that arrived whole. Times are of the system's clock.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) group: u64,
    pub(crate) index: u64,
    pub(crate) captured: Duration,
    pub(crate) delay: Duration,
    pub(crate) bytes: Bytes,
}

/// Subscribes by a relay until the track ends. Frames are in the order of their capture.
pub(crate) async fn watch(endpoint: &Endpoint, relay: SocketAddr) -> Result<Vec<Frame>, Error> {
    let connection = quic::connect(endpoint, relay, "tempo").await?;
    tokio::spawn(quic::tend(connection.clone()));
    let (origin, driver) = origin::Producer::new(origin::Config::new(moq_net::Hop::random()));
    let origin_driver = tokio::spawn(time::run(driver));
    let client = Client::new().with_subscriber(origin.clone());
    let (session, driver) = client.connect(quic::now(), Session::raw(connection)).await?;
    let session_driver = tokio::spawn(time::run(driver));
    let track = origin.consume().routed_broadcast(BROADCAST).await?.track(TRACK)?;
    let mut groups = track.subscribe(Subscription::default().with_max_age(MAX_AGE)).await?;
    let (found, mut frames) = mpsc::unbounded_channel();
    while let Ok(Some(group)) = groups.recv_group().await {
        tokio::spawn(read(group, found.clone()));
    }
    drop(found);
    let mut all = Vec::new();
    while let Some(frame) = frames.recv().await {
        all.push(frame);
    }
    all.sort_by_key(|frame: &Frame| (frame.group, frame.index));
    drop(session);
    session_driver.abort();
    origin_driver.abort();
    Ok(all)
}

/// Reads the frames of a group until its end or until it is given up.
async fn read(mut group: group::Consumer, found: mpsc::UnboundedSender<Frame>) {
    let sequence = group.sequence;
    let mut index = 0;
    while let Ok(Some(frame)) = group.read_frame().await {
        let captured = Duration::from_micros(frame.timestamp.as_micros() as u64);
        let delay = now().saturating_sub(captured);
        let _ = found.send(Frame { group: sequence, index, captured, delay, bytes: frame.payload });
        index += 1;
    }
}

/// Goodput, and percentiles of the delay of frames.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figures {
    pub(crate) frames: usize,
    pub(crate) goodput_mbps: f64,
    pub(crate) p50: Duration,
    pub(crate) p95: Duration,
    pub(crate) p99: Duration,
}

impl Figures {
    pub(crate) fn of(frames: &[Frame]) -> Self {
        let (Some(first), Some(last)) = (frames.first(), frames.last()) else { return Self::default() };
        let bytes: usize = frames.iter().map(|frame| frame.bytes.len()).sum();
        let time = last.captured.saturating_sub(first.captured).as_secs_f64().max(1e-3);
        let mut delays: Vec<_> = frames.iter().map(|frame| frame.delay).collect();
        delays.sort_unstable();
        let at = |percent: usize| {
            delays.get((delays.len() * percent).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
        };
        Self {
            frames: frames.len(),
            goodput_mbps: bytes as f64 * 8e-6 / time,
            p50: at(50),
            p95: at(95),
            p99: at(99),
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, goodput_mbps, p50, p95, p99 } = self;
        let ms = Duration::as_millis;
        write!(
            f,
            "{frames} frames, goodput {goodput_mbps:.2} Mbit/s, frame delay p50 / p95 / p99 {} / {} / {} ms",
            ms(p50),
            ms(p95),
            ms(p99)
        )
    }
}
