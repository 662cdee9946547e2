//! The publisher.

use std::{
    fmt,
    net::SocketAddr,
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use moq_net::{Client, Timescale, Timestamp, group, origin, time, track};
use quinn::{Endpoint, VarInt};
use web_transport_quinn::Session;

use crate::{Error, baseline::Side, film::Film, quic};

/// The names of the broadcast and its track.
pub(crate) const BROADCAST: &str = "film";
pub(crate) const TRACK: &str = "video";
/// Frames that have waited for so long are given up with the rest of their group: the next group begins at once.
const GIVE_UP: Duration = Duration::from_millis(400);
/// How long a relay may hold a group.
const MAX_AGE: Duration = Duration::from_secs(2);

/// What was published.
#[derive(Debug, Default)]
pub(crate) struct Published {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// Frames left out because others waited.
    pub(crate) skipped: u64,
    pub(crate) groups: u64,
    /// Groups whose streams were reset.
    pub(crate) given_up: u64,
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, bytes, skipped, groups, given_up } = self;
        write!(
            f,
            "{frames} frames of {bytes} bytes in {groups} groups, {given_up} groups given up, {skipped} frames skipped"
        )
    }
}

/// The time of capture, by the system's clock when the program began, and the clock of the connections since then.
pub(crate) fn now() -> Duration {
    static START: LazyLock<(Duration, std::time::Instant)> =
        LazyLock::new(|| (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(), quic::now()));
    START.0 + quic::now().saturating_duration_since(START.1)
}

/// Publishes `film` for `duration` by a relay, and calls `report` each second.
pub(crate) async fn publish(
    endpoint: &Endpoint,
    relay: SocketAddr,
    controller: &str,
    mut film: Film,
    duration: Duration,
    mut report: impl FnMut(String),
) -> Result<Published, Error> {
    let connection = quic::connect(endpoint, relay, controller).await?;
    tokio::spawn(quic::tend(connection.clone()));
    let (origin, driver) = origin::Producer::new(origin::Config::new(moq_net::Hop::random()));
    let origin_driver = tokio::spawn(time::run(driver));
    let broadcast = origin.publish(BROADCAST, origin::Route::default())?;
    let info = track::Info::default().with_timescale(Timescale::MICRO).with_max_age(MAX_AGE);
    let track = broadcast.create_track(TRACK, info)?;
    let client = Client::new().with_publisher(&origin);
    let (session, driver) = client.connect(quic::now(), Session::raw(connection.clone())).await?;
    let session_driver = tokio::spawn(time::run(driver));
    // Frames that nobody wants are not sent: the film begins with the first subscription.
    tokio::time::timeout(Duration::from_secs(10), track.used()).await??;

    let side = Side::of(&*connection.congestion_state());
    let media = side.media();
    let mut published = Published::default();
    let mut frames = tokio::time::interval(film.interval());
    let begin = quic::now();
    let mut second = 0;
    let mut group: Option<group::Producer> = None;
    while quic::now() < begin + duration && connection.close_reason().is_none() {
        frames.tick().await;
        let at = quic::now();
        let rate = side.frame_rate().min(quic::MAX_RATE);
        if (at - begin).as_secs() >= second {
            let reason = if matches!(side, Side::Giusto(_)) { media.decision_text() } else { String::new() };
            report(format!("{second} s: {:.0} kbit/s; {published}; {reason}", rate.as_bps() as f64 / 1e3));
            second += 1;
        }
        if media.waiting(at).1 > GIVE_UP
            && let Some(late) = group.take()
        {
            late.abort(moq_net::Error::Old)?;
            media.on_discarded();
            film.request_key_frame();
            published.given_up += 1;
        }
        if media.should_skip(at) {
            film.skip();
            published.skipped += 1;
            continue;
        }
        let Some(frame) = film.next_frame(rate) else { break };
        if frame.is_key || group.is_none() {
            if let Some(whole) = group.take() {
                whole.finish()?;
            }
            published.groups += 1;
        }
        if group.is_none() {
            group = Some(track.append_group()?);
        }
        published.frames += 1;
        published.bytes += frame.bytes.len() as u64;
        media.on_frame(at, frame.bytes.len());
        if let Some(group) = &mut group {
            group.write_frame(Timestamp::from_micros(now().as_micros() as u64)?, frame.bytes)?;
        }
    }
    if let Some(whole) = group.take() {
        whole.finish()?;
    }
    track.finish()?;
    // What is on its way arrives.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    drop((track, broadcast, session));
    connection.close(VarInt::from_u32(0), b"the end");
    endpoint.wait_idle().await;
    session_driver.abort();
    origin_driver.abort();
    Ok(published)
}
