//! The clocks of the sender and of its media, from its reports or from its packets.

use giusto_measure::InterarrivalJitter;
use giusto_rtp::{NtpDelay, NtpShort, NtpTimestamp, rtcp::SenderReport};
use giusto_units::{NANOS_PER_SECOND, PeerTimestamp, TimeDelta, Timestamp};

/// Minimum time between two reports from which the clock rate is determined: a tick of 90 kHz is then at most
/// 22 ppm.
const MIN_BASE: TimeDelta = TimeDelta::from_millis(500);
/// The first timestamp is treated as if it had wrapped once, so that earlier ones are above zero.
const FIRST_CYCLE: u64 = 1 << 32;

/// Number of consecutive reports with earlier or impossible times after which the sender is assumed to have restarted. Also that of
/// packets with impossible timestamps.
const MAX_STALE: u32 = 5;
/// A frame that was captured this much later than the sender's clock could show has a damaged timestamp, or the clock's report has: both
/// are delayed by the path, but hardly by more. Chosen by us.
const MAX_EARLY: TimeDelta = TimeDelta::from_seconds(10);
/// So has a frame that is this much older than its sender's clock: senders discard packets after 10 s. Chosen by us.
const MAX_AGE: TimeDelta = TimeDelta::from_seconds(60);
/// Change from one report to the next of the difference between the two clocks of the sender, or between its clock and ours, above which
/// the report is doubted. Chosen by us.
const MAX_SHIFT: TimeDelta = TimeDelta::from_seconds(60);
const MAX_MEDIA_SHIFT: TimeDelta = TimeDelta::from_seconds(5);
/// Clock rates that media have: 8 kHz of voice to 192 kHz of audio (RFC 3551, RFC 4856), with room on both sides.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=1_000_000;

/// The clocks of a sender, from its reports (RFC 3550 §6.4.1).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SenderClock {
    first: Option<Reported>,
    last: Option<Reported>,
    /// The latest capture time in a packet, and the RTP timestamp of that packet (RFC 6051 §3.3).
    in_band: Option<Reported>,
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
        // A repeated, reordered or damaged report is ignored; many of them in a row mean a new clock.
        if self.last.is_some_and(|last| !reported.may_follow(&last, self.learnt_rate)) {
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
            // A rate beyond the range of integers becomes the nearest one, which is refused.
            self.learnt_rate = Some(rate as u32).filter(|rate| RATES.contains(rate));
        }
    }

    /// Handles the capture time in a packet with this RTP timestamp.
    pub(super) fn on_capture_time(&mut self, now: Timestamp, time: NtpTimestamp, rtp_timestamp: u32) {
        self.in_band = Some(Reported { time, rtp_timestamp, at: now });
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

    /// Delay of media with this timestamp at `now`, from its capture on the sender's clock, by its last report, or by the last capture
    /// time in a packet if there is no report; `None` before the first of either, and if the timestamp and the report contradict each
    /// other.
    pub(super) fn delay(&self, now: Timestamp, timestamp: u32, rate: u32) -> Option<TimeDelta> {
        let Reported { time, rtp_timestamp, at } = self.last.or(self.in_band)?;
        let ticks = i128::from(timestamp.wrapping_sub(rtp_timestamp) as i32);
        let span = (ticks * i128::from(NANOS_PER_SECOND)).checked_div(i128::from(rate))?;
        let nanos = i128::from(time.to_peer().as_nanos()) + span;
        let captured = u64::try_from(nanos).ok().map(PeerTimestamp::from_nanos)?;
        // The age on the sender's clock, if the report took no time.
        let age = i128::from((now - at).as_nanos()) - span;
        let is_possible = (-i128::from(MAX_EARLY.as_nanos())..=i128::from(MAX_AGE.as_nanos())).contains(&age);
        is_possible.then(|| captured.apparent_delay(now))
    }
}

impl Reported {
    /// Whether it may be the report after `last`, of the same clocks.
    fn may_follow(&self, last: &Self, rate: Option<u32>) -> bool {
        let spans = |reported: &Self| {
            i128::from(reported.time.to_peer().as_nanos()) - i128::from(reported.at.as_nanos())
        };
        let within = |shift: i128, max: TimeDelta| shift.abs() <= i128::from(max.as_nanos());
        let passed = i128::from((self.time.to_peer() - last.time.to_peer()).as_nanos());
        let ticks = i128::from(self.rtp_timestamp.wrapping_sub(last.rtp_timestamp) as i32);
        let media =
            rate.and_then(|rate| (ticks * i128::from(NANOS_PER_SECOND)).checked_div(i128::from(rate)));
        self.time.to_bits() > last.time.to_bits()
            && within(spans(self) - spans(last), MAX_SHIFT)
            && media.is_none_or(|media| within(media - passed, MAX_MEDIA_SHIFT))
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
    /// The unwrapped timestamp of the latest packet, and its arrival.
    latest: Option<(u64, Timestamp)>,
    /// Number of consecutive packets with impossible timestamps.
    stale: u32,
}

impl MediaJitter {
    /// Handles a packet, in the order of arrival. A different clock rate restarts the estimate, and so do several timestamps in a row
    /// that are impossible; one alone is ignored.
    pub(super) fn on_packet(&mut self, now: Timestamp, timestamp: u32, rate: u32) {
        if rate != self.rate {
            *self = Self { rate, ..Self::default() };
        }
        let ticks = self.latest.map_or(FIRST_CYCLE + u64::from(timestamp), |(latest, at)| {
            let step = i64::from(timestamp.wrapping_sub(latest as u32) as i32);
            let passed = (now - at).as_seconds() * f64::from(rate);
            let is_possible = (step as f64 - passed).abs() <= MAX_EARLY.as_seconds() * f64::from(rate);
            self.stale = if is_possible { 0 } else { self.stale + 1 };
            latest.saturating_add_signed(step)
        });
        if self.stale >= MAX_STALE {
            *self = Self { rate, ..Self::default() };
        } else if self.stale > 0 {
            return;
        }
        self.latest = Some((ticks, now));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    const RATE: u32 = 90_000;

    fn report(ms: u64) -> SenderReport {
        let time = NtpTimestamp::from_timestamp(at(ms));
        SenderReport { ssrc: 7, time, rtp_timestamp: (ms * 90) as u32, ..SenderReport::default() }
    }

    #[test]
    fn one_wrong_bit_makes_no_impossible_delay() {
        // A report each second, a frame each 100 ms, all 30 ms on their way. In turn, each bit of a timestamp or of a report is wrong.
        for wrong in 0..32 + 64 + 32 {
            let (mut clock, mut known) = (SenderClock::default(), 0);
            for ms in (0..12_000).step_by(100) {
                if ms % 1000 == 0 {
                    let mut sent = report(ms);
                    if ms == 5000 && wrong >= 32 {
                        let bit = wrong - 32;
                        let changed = 1_u64.checked_shl(bit).unwrap_or(0);
                        sent.time = NtpTimestamp::from_bits(sent.time.to_bits() ^ changed);
                        sent.rtp_timestamp ^= bit.checked_sub(64).map_or(0, |bit| 1 << bit);
                    }
                    clock.on_report(at(ms + 30), &sent);
                }
                let bit = if wrong < 32 && ms == 5000 { 1 << wrong } else { 0 };
                let delay = clock.delay(at(ms + 30), (ms * 90) as u32 ^ bit, RATE);
                if let Some(delay) = delay {
                    known += 1;
                    let ms = delay.as_millis();
                    assert!((-61_000.0..=61_000.0).contains(&ms), "bit {wrong}: {ms} ms");
                }
            }
            assert!(known >= 119, "bit {wrong}: {known} frames of 120 have a delay");
            let end = clock.delay(at(12_030), 12_000 * 90, RATE).unwrap();
            assert!((end.as_millis() - 30.0).abs() < 0.1, "bit {wrong}: {end}");
            assert_eq!(clock.learnt_rate(), Some(RATE), "bit {wrong}");
        }
    }

    #[test]
    fn clocks_that_were_set_are_used_after_five_reports() {
        let mut clock = SenderClock::default();
        (0..5).for_each(|second| clock.on_report(at(second * 1000), &report(second * 1000)));
        // The sender's clock was set forward by an hour.
        for second in 5..12_u64 {
            let sent =
                SenderReport { rtp_timestamp: (second * 90_000) as u32, ..report((second + 3600) * 1000) };
            clock.on_report(at(second * 1000), &sent);
        }
        let delay = clock.delay(at(12_000), 12_000 * 90, RATE).unwrap();
        assert!((-3601.0..-3599.0).contains(&delay.as_seconds()), "{delay:?}");
    }

    #[test]
    fn one_wrong_timestamp_changes_no_jitter_and_a_new_clock_restarts_it() {
        let mut jitter = MediaJitter::default();
        for frame in 0..100_u64 {
            let wrong = if frame == 50 { 0x4000_0000 } else { 0 };
            jitter.on_packet(at(frame * 40 + frame % 2), (frame * 3600) as u32 ^ wrong, RATE);
        }
        let usual = jitter.jitter().unwrap();
        assert!((0.5..1.5).contains(&usual.as_millis()), "{usual}");
        for frame in 100..200_u64 {
            jitter.on_packet(at(frame * 40 + frame % 2), 0x8000_0000 + (frame * 3600) as u32, RATE);
        }
        let after = jitter.jitter().unwrap();
        assert!((0.5..1.5).contains(&after.as_millis()), "{after}");
    }
}
