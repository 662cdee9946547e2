//! The clock of the sender and of its media, from its reports.

use giusto_measure::InterarrivalJitter;
use giusto_rtp::{NtpDelay, NtpShort, NtpTimestamp, rtcp::SenderReport};
use giusto_units::{NANOS_PER_SECOND, PeerTimestamp, TimeDelta, Timestamp};

/// Two reports teach the clock rate if they were made so long one after the other: a tick of 90 kHz is then 22 ppm at most.
const LEAST_BASE: TimeDelta = TimeDelta::from_millis(500);
/// A first timestamp is taken as if it had wrapped once, so that earlier ones lie above zero.
const FIRST_CYCLE: u64 = 1 << 32;

/// So many reports in a row that go back in time are those of a sender that has begun anew.
const MOST_STALE: u32 = 5;

/// The clocks of a sender, from its reports (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SenderClock {
    first: Option<Reported>,
    last: Option<Reported>,
    learnt_rate: Option<u32>,
    /// How many reports in a row were no later than the last one that counted.
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
        // A repeat, or one that was overtaken, says nothing; many of them in a row are another clock.
        if self.last.is_some_and(|last| report.time.to_bits() <= last.time.to_bits()) {
            self.stale += 1;
            if self.stale < MOST_STALE {
                return;
            }
            *self = Self::default();
        }
        self.stale = 0;
        let first = self.first.get_or_insert(reported);
        self.last = Some(reported);
        if self.learnt_rate.is_some() {
            return;
        }
        let span = reported.time.to_peer() - first.time.to_peer();
        if span >= LEAST_BASE {
            let ticks = reported.rtp_timestamp.wrapping_sub(first.rtp_timestamp);
            let rate = (f64::from(ticks) / span.as_seconds()).round();
            self.learnt_rate = (rate >= 1.0).then_some(rate as u32);
        }
    }

    /// Ticks of the media clock in a second, as two reports have it.
    pub(super) const fn learnt_rate(&self) -> Option<u32> {
        self.learnt_rate
    }

    /// LSR and DLSR (RFC 3550 §6.4.1).
    pub(super) fn last_report(&self, now: Timestamp) -> (Option<NtpShort>, NtpDelay) {
        self.last.map_or((None, NtpDelay::default()), |last| {
            (Some(last.time.short()), NtpDelay::from_delta(now - last.at))
        })
    }

    /// When media with this timestamp was captured, on the sender's clock, by its last report; `None` before the first.
    pub(super) fn capture(&self, timestamp: u32, rate: u32) -> Option<PeerTimestamp> {
        let last = self.last?;
        let ticks = i128::from(timestamp.wrapping_sub(last.rtp_timestamp) as i32);
        let span = (ticks * i128::from(NANOS_PER_SECOND)).checked_div(i128::from(rate))?;
        let nanos = i128::from(last.time.to_peer().as_nanos()) + span;
        u64::try_from(nanos).ok().map(PeerTimestamp::from_nanos)
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
    /// A packet came, in the order of arrival. Another clock rate begins anew.
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

    /// The same in units of the timestamp, rounded down; zero before the second packet.
    pub(super) fn ticks(&self) -> u32 {
        let ticks = self.jitter().unwrap_or_default().as_seconds() * f64::from(self.rate);
        // What does not fit is the largest.
        ticks as u32
    }
}
