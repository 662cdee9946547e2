//! The clocks of the sender and of its media, from its reports or from its packets.

use giusto_measure::InterarrivalJitter;
use giusto_rtp::{NtpDelay, NtpShort, NtpTimestamp, rtcp::SenderReport};
use giusto_units::{NANOS_PER_SECOND, PeerTimestamp, TimeDelta, Timestamp};

/// Minimum time between two reports from which the clock rate is determined: a tick of 90 kHz is then at most
/// 22 ppm.
const MIN_BASE: TimeDelta = TimeDelta::from_millis(500);
/// The first timestamp is treated as if it had wrapped once, so that earlier ones are above zero.
const FIRST_CYCLE: u64 = 1 << 32;

/// Number of consecutive reports with earlier times after which the sender is assumed to have restarted.
const MAX_STALE: u32 = 5;

/// The clocks of a sender, from its reports (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SenderClock {
    first: Option<Reported>,
    last: Option<Reported>,
    /// The latest capture time in a packet, and the RTP timestamp of that packet (RFC 6051 §3.3).
    in_band: Option<(NtpTimestamp, u32)>,
    learnt_rate: Option<u32>,
    /// Number of consecutive reports that were not later than the last one used.
    stale: u32,
}

#[derive(Debug, Clone, Copy)]
struct Reported {
    time: NtpTimestamp,
    rtp_timestamp: u32,
    at: Timestamp,
}

impl SenderClock {
    pub(super) fn on_report(&mut self, now: Timestamp, report: &SenderReport) {
        let reported = Reported { time: report.time, rtp_timestamp: report.rtp_timestamp, at: now };
        // A repeated or reordered report is ignored; many of them in a row mean a new clock.
        if self.last.is_some_and(|last| report.time.to_bits() <= last.time.to_bits()) {
            self.stale += 1;
            if self.stale < MAX_STALE {
                return;
            }
            *self = Self { in_band: self.in_band, ..Self::default() };
        }
        self.stale = 0;
        let first = self.first.get_or_insert(reported);
        self.last = Some(reported);
        if self.learnt_rate.is_some() {
            return;
        }
        let span = reported.time.to_peer() - first.time.to_peer();
        if span >= MIN_BASE {
            let ticks = reported.rtp_timestamp.wrapping_sub(first.rtp_timestamp);
            let rate = (f64::from(ticks) / span.as_seconds()).round();
            self.learnt_rate = (rate >= 1.0).then_some(rate as u32);
        }
    }

    /// Handles the capture time in a packet with this RTP timestamp.
    pub(super) fn on_capture_time(&mut self, time: NtpTimestamp, rtp_timestamp: u32) {
        self.in_band = Some((time, rtp_timestamp));
    }

    /// Ticks of the media clock per second, determined from two reports.
    pub(super) const fn learnt_rate(&self) -> Option<u32> {
        self.learnt_rate
    }

    /// LSR and DLSR (RFC 3550 §6.4.1).
    pub(super) fn last_report(&self, now: Timestamp) -> (Option<NtpShort>, NtpDelay) {
        self.last.map_or((None, NtpDelay::default()), |last| {
            (Some(last.time.short()), NtpDelay::from_delta(now - last.at))
        })
    }

    /// Capture time of media with this timestamp, on the sender's clock, by its last report, or by the last capture time in a packet
    /// if there is no report; `None` before the first of either.
    pub(super) fn capture(&self, timestamp: u32, rate: u32) -> Option<PeerTimestamp> {
        let reported = self.last.map(|last| (last.time, last.rtp_timestamp));
        let (time, rtp_timestamp) = reported.or(self.in_band)?;
        let ticks = i128::from(timestamp.wrapping_sub(rtp_timestamp) as i32);
        let span = (ticks * i128::from(NANOS_PER_SECOND)).checked_div(i128::from(rate))?;
        let nanos = i128::from(time.to_peer().as_nanos()) + span;
        u64::try_from(nanos).ok().map(PeerTimestamp::from_nanos)
    }
}

/// Time in which the minimum frame delay is that of one window; the minimum is over the current window and the one
/// before, so that it follows clocks that drift. Chosen by us.
const PLAYOUT_WINDOW: TimeDelta = TimeDelta::from_seconds(30);

/// The minimum frame delay, from which playout deadlines count. The offset of the clocks is part of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Playout {
    since: Timestamp,
    current: Option<TimeDelta>,
    before: Option<TimeDelta>,
}

impl Playout {
    /// Handles a frame that was not repaired. Returns by how much its delay exceeds the minimum.
    pub(super) fn on_frame(&mut self, now: Timestamp, delay: TimeDelta) -> TimeDelta {
        if now.saturating_since(self.since) >= PLAYOUT_WINDOW {
            (self.since, self.before) = (now, self.current.take());
        }
        self.current = Some(self.current.map_or(delay, |least| least.min(delay)));
        self.excess(delay)
    }

    /// By how much a delay exceeds the minimum; zero before it is known.
    pub(super) fn excess(&self, delay: TimeDelta) -> TimeDelta {
        let least = [self.current, self.before].into_iter().flatten().min();
        least.map_or(TimeDelta::ZERO, |least| delay - least).max(TimeDelta::ZERO)
    }
}

/// Interarrival jitter of media whose clock rate is known (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MediaJitter {
    jitter: InterarrivalJitter,
    rate: u32,
    latest: Option<u64>,
}

impl MediaJitter {
    /// Handles a packet, in the order of arrival. A different clock rate restarts the estimate.
    pub(super) fn on_packet(&mut self, now: Timestamp, timestamp: u32, rate: u32) {
        if rate != self.rate {
            *self = Self { rate, ..Self::default() };
        }
        let ticks = self.latest.map_or(FIRST_CYCLE + u64::from(timestamp), |latest| {
            latest.saturating_add_signed(i64::from(timestamp.wrapping_sub(latest as u32) as i32))
        });
        self.latest = Some(ticks);
        let nanos = u128::from(ticks) * u128::from(NANOS_PER_SECOND);
        let sampled = nanos.checked_div(u128::from(rate)).and_then(|nanos| u64::try_from(nanos).ok());
        if let Some(sampled) = sampled {
            self.jitter.on_packet(now, PeerTimestamp::from_nanos(sampled));
        }
    }

    /// The estimate; `None` before the second packet.
    pub(super) fn jitter(&self) -> Option<TimeDelta> {
        self.jitter.jitter()
    }

    /// The jitter in units of the timestamp, rounded down; zero before the second packet.
    pub(super) fn ticks(&self) -> u32 {
        let ticks = self.jitter().unwrap_or_default().as_seconds() * f64::from(self.rate);
        // Larger values are limited to the maximum.
        ticks as u32
    }
}
