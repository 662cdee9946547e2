//! `scream:d00`: Self-Clocked Rate Adaptation for Multimedia as it was first described, draft-johansson-rmcat-scream-cc-00 (June
//! 2014), as it is meant: to the letter it does not run.
//!
//! | part | section | file |
//! |---|---|---|
//! | constants | §9.1.2 to §9.1.6 | `config.rs` |
//! | the congestion window and its validation | §9.1.4, §3.1 | `window.rs` |
//! | the delay target among flows that compete | §3.1 | `../competing.rs`, as in RFC 8298 |
//! | the media rate | §9.1.6 | `media_rate.rs` |
//! | one for each source | §3, Figure 2 | `streams.rs` |
//! | lost packets | §9.1.3, `isLossEvent` | `../losses.rs`, as in RFC 8298 |
//! | the message | §3, Figure 1 | [`ScreamFeedback`](giusto_rtp::rtcp::ScreamFeedback) |
//! | when it leaves | §9.2.1, §10 | `giusto_session::media::MediaReceiver` |
//! | packets that wait, and frames that are too old | §9.1.1, §3.3 | `giusto_session::media::MediaSender`, [`ControllerKind::staleness`](crate::ControllerKind::staleness) |
//!
//! # Corrections
//!
//! The pseudo-code does not run as written. Its 29 defects, and our corrections:
//!
//! | | pseudo-code | here |
//! |---|---|---|
//! | 1 | `item.SN <= rtcp.SSRC` | compared with the sequence number |
//! | 2 | sequence numbers do not wrap | unwrapped numbers |
//! | 3 | a list loses items while it is iterated | the sender keeps the list |
//! | 4 | `bytesNewlyAcked` is never reset | the bytes that this feedback acknowledges |
//! | 5 | it includes lost bytes | kept, as RFC 8298 §4.1.2 does on purpose: lost bytes have left the path |
//! | 6 | `lastLossEvent`, `lastLostEvent` | one variable |
//! | 7 | `TX_Rx`, `TS_Rx` | the arrival time |
//! | 8 | `updatedOwd`, `isLossEvent`, `rtt`, `getRtt` are undefined | RFC 6817 §2.4.2; RFC 8298 §4.1.2.4; RFC 6298 §2 |
//! | 9 | `cwnd` has no initial value | its minimum |
//! | 10 | `mtuMax` is undefined, and 3 · `mtuMax` contradicts `cwndMin` | the largest packet sent; three of them, the greater of the two |
//! | 11 | `if` without parentheses, `max` of one argument, `new list` | the evident meaning |
//! | 12 | a null check after the use | the sender asks only if there is a packet |
//! | 13 | a queue item is used as a packet | the sender's queue holds packets |
//! | 14 | whether the window is used is tested after the acknowledged bytes are subtracted | before |
//! | 15 | the window may grow in the call that reduced it | it does not |
//! | 16 | quick and slow decrease are equal up to an RTT of 100 ms | the slow one is half of the quick one |
//! | 17 | lost feedback stops the sender for ever | a minimum rate (`../flight.rs`) |
//! | 18 | 1 ms between packets limits the rate to 9.6 Mbit/s | packets are paced exactly |
//! | 19 | a vector of 33 packets overflows | a message leaves before, whatever the RTCP bandwidth; packets that no message covers are neither lost nor received |
//! | 20 | the last and the highest sequence number are confused; `find()` may return nothing | the highest packet with its own arrival time; a message about a packet that was not sent is ignored |
//! | 21 | the RTT includes the time for which feedback was held back | the RTT of the highest packet, which was held back least |
//! | 22 | `rtpSn` grows for ever | the receiver remembers the 33 packets of a message |
//! | 23 | "every RTT" against the frame period; `lastTimeAdjustVideoBitrate` is never written | every RTT, and at most once per frame; the increase is proportional to time |
//! | 24 | names of `scaleFactorMin`; `rampUpTime`, `skipFrameTh` undefined, `rampUpSlowDown` without initial value | the limits; 4 s; 100 ms; 1 |
//! | 25 | `1.0 − age` has no unit | seconds |
//! | 26 | `encode()` returns one packet per frame | the packetizer returns several |
//! | 27 | losses never change the media rate | × 0.9, as in RFC 8298 §4.1.3 ([`D00Config::beta_rate`]) |
//! | 28 | `age` is a method and a field; one queue or several | the age of the oldest packet; one queue and one rate control for each stream |
//! | 29 | audio may bypass the window, and nothing counts it | it may; it counts as in flight, and as part of the target |
//!
//! # Named and not described
//!
//! | the draft | here |
//! |---|---|
//! | fast start (§3.1, §9) | the window grows by the acknowledged bytes until the delay exceeds a fifth of its target |
//! | adjustment to competing flows (§3.1, §9) | RFC 8298 §4.1.2.3 ([`D00Config::compensate`]) |
//! | congestion window validation (§3.1, §9) | RFC 7661 (`window.rs`) |
//! | frame skipping and discarding (§3.3, §9) | by the sender, after 100 ms (§10) and 400 ms |
//! | ECN echo (§3) | a count of marks; a mark counts as a loss event (RFC 3168 §5), once per RTT |
//! | source quench (§3) | counts as a loss event, once per RTT, unless something else has reduced the window in it |
//! | priorities of streams (§3, arrow 5 of Figure 2) | weights of the scheduler, and shares of the media rates |
//!
//! # Deviations
//!
//! - While the delay exceeds its target, the window follows the arrival rate ([`D00Config::follow`]): §1.1 wants a reaction within an RTT,
//!   and the draft's window falls by a packet or two in one.
//! - `bytesInFlight + size < cwnd` is ≤ here.
//! - The media rate is not changed while there is nothing to send.

mod config;
mod media_rate;
mod streams;
mod window;

pub use config::D00Config;

use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use self::{
    streams::MediaRates,
    window::{Acknowledged, Window},
};
use super::{
    competing::DelayTarget,
    decided::Decided,
    flight::Flight,
    follow::{Follow, Path},
    losses::Losses,
    queue_delay::QueueDelay,
};
use crate::{Cause, Controller, Decision, Feedback, QueueState, SentPacket, Signal, StreamState, Target};

/// It wants to be woken no more often than this, however short a frame is.
const SHORTEST: TimeDelta = TimeDelta::from_millis(25);
/// A change of what the streams can use is a decision from this share of the target on.
pub(super) const NOTICED: f64 = 0.01;
/// Taken as the round trip before one is known, for what is counted once in a round trip.
const FIRST_ROUND_TRIP: f64 = 0.1;

/// SCReAM as draft-johansson-rmcat-scream-cc-00 means it.
///
/// In [`Cause::Delay`] the trend is the queue delay, and the threshold its target.
#[derive(Debug, Clone)]
pub struct ScreamD00 {
    config: D00Config,
    decided: Decided,
    flight: Flight,
    losses: Losses,
    queue_delay: QueueDelay,
    /// `owd`, in seconds.
    delay: f64,
    delay_target: DelayTarget,
    follow: Follow,
    window: Window,
    media: MediaRates,
    /// When the window was last lowered by an event, whichever.
    lowered: Option<Timestamp>,
    processed: Timestamp,
}

impl ScreamD00 {
    /// With nothing sent.
    pub fn new(config: D00Config) -> Self {
        let decided = Decided::new(config.limits);
        let start = decided.target().as_bps() as f64;
        let media = MediaRates::new(config, decided.limits(), start);
        let (least, most) = (config.delay_target.as_seconds(), config.delay_target_most.as_seconds());
        Self {
            config,
            decided,
            flight: Flight::default(),
            losses: Losses::default(),
            queue_delay: QueueDelay::default(),
            delay: 0.0,
            follow: Follow::default(),
            delay_target: DelayTarget::new((least, most), config.compensate, config.evidence),
            window: Window::new(config),
            media,
            lowered: None,
            processed: Timestamp::ZERO,
        }
    }

    /// How long packets queue on the path.
    pub fn queue_delay(&self) -> TimeDelta {
        TimeDelta::from_seconds_f64(self.delay)
    }

    /// How long they should at most.
    pub fn queue_delay_target(&self) -> TimeDelta {
        TimeDelta::from_seconds_f64(self.delay_target.seconds())
    }

    /// The congestion window.
    pub fn congestion_window(&self) -> DataSize {
        DataSize::from_bytes(self.window.bytes() as u64)
    }

    /// Whether it is in fast start.
    pub fn is_in_fast_start(&self) -> bool {
        self.window.is_fast()
    }

    /// The window follows what arrives, if packets queue for too long. What it does not let out waits at the sender, which the media rates
    /// heed.
    fn follow(&mut self, now: Timestamp, round_trip: TimeDelta) {
        let (round_trip, delay_target) = (round_trip.as_seconds(), self.delay_target.seconds());
        let path = Path { round_trip, delay: self.delay, delay_target };
        if let Some(enough) = self.follow.on_delay(now, &path).filter(|_| self.config.follow) {
            self.window.follow(enough.window);
        }
    }

    fn round_trip(&self) -> f64 {
        self.flight.round_trip().unwrap_or(FIRST_ROUND_TRIP)
    }

    /// What was lost or marked, or that the receiver asks for less, if that counts; says whether it did.
    fn on_congestion(&mut self, now: Timestamp, marks: Option<f64>, quench: bool) -> bool {
        let round_trip = self.round_trip();
        // Once in a round trip, whatever it is (§9.1.3, RFC 3168 §6.1.2).
        let recent = self.lowered.is_some_and(|last| now.saturating_since(last).as_seconds() < round_trip);
        let cause = match (self.losses.event(now, round_trip), marks) {
            _ if recent => return false,
            (Some(ratio), _) => Cause::Loss { ratio },
            (None, Some(ratio)) => Cause::Marks { ratio },
            _ if quench => Cause::SourceQuench,
            _ => return false,
        };
        self.lowered = Some(now);
        self.window.on_loss();
        self.media.on_loss();
        self.decided.settle(self.media.bps(), cause);
        true
    }
}

impl Controller for ScreamD00 {
    fn on_sent(&mut self, now: Timestamp, packet: &SentPacket) {
        let now = self.decided.advance(now);
        self.flight.on_sent(now, packet);
        self.window.on_sent(packet.size);
        self.media.on_sent();
    }

    fn on_feedback(&mut self, now: Timestamp, feedback: &Feedback<'_>) {
        let now = self.decided.advance(now);
        if feedback.packets.is_empty() {
            if feedback.quench {
                self.on_congestion(now, None, true);
            }
            return;
        }
        let in_flight = self.flight.bytes();
        self.window.on_in_flight(now, in_flight, self.round_trip());
        let bytes = self.flight.on_feedback(now, feedback);
        self.losses.on_packets(now, feedback.packets);
        let arrived = || feedback.packets.iter().filter_map(|packet| Some((packet, packet.arrival?)));
        let size = arrived().fold(DataSize::ZERO, |size, (packet, _)| size + packet.sent.size);
        self.follow.on_arrived(now, size);
        if let Some((packet, arrival)) = arrived().max_by_key(|(packet, _)| packet.sent.sequence)
            && self.flight.on_arrival(now, &packet.sent)
        {
            self.delay = self.queue_delay.on_packet(now, packet.sent.at, arrival).as_seconds();
            self.follow(now, now.saturating_since(packet.sent.at));
        }
        let marks = arrived().filter(|(packet, _)| packet.ecn == Ecn::Ce).count();
        let marks = (marks > 0).then(|| marks as f64 / feedback.packets.len() as f64);
        if !self.on_congestion(now, marks, feedback.quench) {
            self.window.on_acknowledged(&Acknowledged {
                bytes,
                in_flight,
                delay: self.delay,
                round_trip: self.round_trip(),
                delay_target: self.delay_target.seconds(),
            });
        }
        self.delay_target.on_sample(self.delay, self.losses.event_rate());
    }

    fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        let now = self.decided.advance(now);
        self.processed = now;
        self.window.validate(now);
        self.on_congestion(now, None, false);
        if self.flight.gives_up(now) {
            self.window.on_silence();
            self.media.on_silence();
            self.decided.settle(self.media.bps(), Cause::Silence);
        }
        let target = self.delay_target.seconds();
        if let Some(lowered) = self.media.update(now, self.round_trip(), queue, self.delay / target) {
            let cause = if lowered {
                Cause::SenderQueue { waited_ms: self.media.age() * 1e3 }
            } else {
                let (trend_ms, threshold_ms) = (self.delay * 1e3, target * 1e3);
                Cause::Delay { signal: Signal::Normal, trend_ms, threshold_ms }
            };
            self.decided.settle(self.media.bps(), cause);
        }
    }

    fn next_timeout(&self) -> Option<Timestamp> {
        let wake = self.config.frame_period.max(SHORTEST);
        Some(if self.decided.has_begun() { self.processed + wake } else { Timestamp::ZERO })
    }

    fn on_streams(&mut self, now: Timestamp, streams: &[StreamState]) {
        self.decided.advance(now);
        self.media.on_streams(streams);
        let (now_bps, before) = (self.media.bps(), self.decided.target().as_bps() as f64);
        // What they can use may have changed; by how much headers are of a packet does not count.
        if !self.media.targets().is_empty() && (now_bps - before).abs() > NOTICED * before {
            self.decided.settle(now_bps, Cause::ApplicationLimited);
        }
    }

    fn stream_targets(&self) -> &[DataRate] {
        self.media.targets()
    }

    /// Packets are paced at the window in a round trip (§9.1.2).
    fn target(&self) -> Target {
        let media = self.decided.target();
        let pacing = match self.flight.round_trip() {
            Some(round_trip) => DataRate::from_bps((self.window.bytes() * 8.0 / round_trip) as u64),
            None => media,
        };
        Target {
            media,
            pacing: pacing.max(self.config.min_pacing),
            padding: DataRate::ZERO,
            window: Some(self.flight.window(self.window.bytes())),
        }
    }

    fn decision(&self) -> &Decision {
        self.decided.decision()
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests;
