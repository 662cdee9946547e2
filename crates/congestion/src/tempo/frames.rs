//! Frames as they arrive: packets that left without a pause between them.
//!
//! The packets of a frame leave together, faster than the media rate. How fast they arrive shows the capacity. The one that waited least
//! shows what earlier frames left in the queue.

use alloc::collections::VecDeque;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

use super::{bps, jitter::Jitter};

/// Frames that are kept after their end: more than 0.45 s at 120 Hz.
const MAX_FRAMES: usize = 63;
/// A frame ends at a gap that is longer than pacing explains by this factor and this time, which covers a sender's timer; in seconds. With
/// a longer one, frames at 60 Hz that leave at little more than the media rate are taken for one, whose rate is that of the media.
const PAUSE: f64 = 1.3;
const TIMER: f64 = 0.001;
/// No gap within a frame is longer than three frames at 30 Hz, in seconds.
const MAX_PAUSE: f64 = 0.1;
/// Packets that leave evenly are taken for a frame in each such time.
const MAX_DURATION: TimeDelta = TimeDelta::from_millis(40);

/// Frames of this time make a train rate: about a dozen.
const TRAINS: TimeDelta = TimeDelta::from_millis(400);
/// At least so many, and so much time of arrivals: timestamps of RFC 8888 have steps of 1 ms, so that 8 ms are within 12 %.
const MIN_TRAINS: usize = 3;
const MIN_SPAN: TimeDelta = TimeDelta::from_millis(8);
/// Packets of a train, at least: one gap. At low rates a frame has no more, and [`MIN_SPAN`] says how many such trains are needed.
const MIN_TRAIN: u32 = 2;

/// Window of the standing queue: three frames at 30 Hz.
const WINDOW: TimeDelta = TimeDelta::from_millis(100);
/// The window is longer after a gap without arrivals, such as a stall of a radio link: what comes at once after it has waited for the
/// link, not in a queue. At most this, so that a queue that stays is seen.
const MAX_WINDOW: TimeDelta = TimeDelta::from_millis(450);
/// With fewer packets in the window, older frames up to [`MAX_AGE`] are taken.
const MIN_PACKETS: u32 = 4;
const MAX_AGE: TimeDelta = TimeDelta::from_millis(400);

/// Sending and arrival rate of the latest trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TrainRate {
    pub(super) sent: DataRate,
    pub(super) arrived: DataRate,
}

impl TrainRate {
    /// Whether the path carried the train as fast as it was sent: there is room for more. 4 % are two steps of the
    /// timestamps in the trains of [`TRAINS`].
    pub(super) fn is_open(&self) -> bool {
        bps(self.arrived) > 0.96 * bps(self.sent)
    }
}

/// Queueing delay of the latest window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StandingQueue {
    /// Lowest queueing delay: what waits although a whole window has passed.
    pub(super) delay: TimeDelta,
    /// Frames and packets it was taken from.
    pub(super) frames: u32,
    pub(super) packets: u32,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    first_sent: Timestamp,
    last_sent: Timestamp,
    first_arrival: PeerTimestamp,
    last_arrival: PeerTimestamp,
    /// Size of the packets after the first.
    size: DataSize,
    last_size: DataSize,
    packets: u32,
    /// Number of the last packet, and whether all between it and the first have arrived, in their order.
    last: u64,
    is_whole: bool,
    min_delay: TimeDelta,
    /// Time of the feedback that ended it.
    ended: Timestamp,
}

/// A frame, from its first packet that arrived on without a gap to the first of the frame after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Passage {
    /// How long its packets took to leave and to arrive, and from its first packet to that of the next frame at the receiver; in seconds.
    pub(super) sent: f64,
    pub(super) arrived: f64,
    pub(super) period: f64,
    /// Its bits.
    pub(super) size: f64,
    /// When its last packet left.
    pub(super) left: Timestamp,
    /// The least delay of its packets and the first of the next frame: what all of them have waited.
    pub(super) least_delay: TimeDelta,
}

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) sequence: u64,
    pub(super) sent: Timestamp,
    pub(super) arrival: PeerTimestamp,
    /// One-way delay, up to a constant.
    pub(super) delay: TimeDelta,
    pub(super) size: DataSize,
}

impl Frame {
    /// Its passage, if this packet left right after it.
    fn before(&self, next: &Arrived) -> Option<Passage> {
        let is_next =
            self.is_whole && self.packets >= MIN_TRAIN && next.sequence == self.last.wrapping_add(1);
        // A packet takes as long as the gap after it: there is one more than there are gaps.
        let all = f64::from(self.packets) / f64::from(self.packets - 1);
        is_next.then(|| Passage {
            sent: all * self.last_sent.saturating_since(self.first_sent).as_seconds(),
            arrived: all * (self.last_arrival - self.first_arrival).as_seconds(),
            period: (next.arrival - self.first_arrival).as_seconds(),
            size: all * self.size.as_bits() as f64,
            left: self.last_sent,
            least_delay: self.min_delay.min(next.delay),
        })
    }
}

/// The frames that arrived lately.
#[derive(Debug, Clone, Default)]
pub(super) struct Frames {
    /// Those that have ended, the newest last, and the one after them.
    ended: VecDeque<Frame>,
    current: Option<Frame>,
    jitter: Jitter,
}

impl Frames {
    /// Handles a packet, in the order of departure, and returns the frame before it where this is the first of a frame that left right after
    /// that. `pacing`: the rate at which packets leave, in bit/s. `is_calm`: no congestion makes the delay vary.
    pub(super) fn push(
        &mut self,
        now: Timestamp,
        packet: Arrived,
        pacing: f64,
        is_calm: bool,
    ) -> Option<Passage> {
        let Arrived { sequence, sent, arrival, delay, size } = packet;
        let mut passage = None;
        if let Some(frame) = &mut self.current {
            let gap = sent.saturating_since(frame.last_sent);
            // Both sides in bits, which saves a division for each packet. What arrives for longer than the window is parted: its first
            // packets would hide the queue that the later ones meet.
            let own = frame.last_size.as_bits() as f64;
            let pause = (PAUSE * own).min(MAX_PAUSE * pacing) + TIMER * pacing;
            if gap.as_nanos() as f64 * 1e-9 * pacing <= pause
                && sent >= frame.last_sent
                && sent.saturating_since(frame.first_sent) < MAX_DURATION
                && arrival - frame.first_arrival < WINDOW
            {
                frame.last_sent = sent;
                frame.last_arrival = frame.last_arrival.max(arrival);
                frame.size += size;
                frame.last_size = size;
                frame.packets = frame.packets.saturating_add(1);
                frame.min_delay = frame.min_delay.min(delay);
                frame.is_whole &= sequence == frame.last.wrapping_add(1);
                frame.last = sequence;
                return None;
            }
            let frame = Frame { ended: now, ..*frame };
            passage = frame.before(&packet);
            self.end(frame, is_calm);
        }
        self.current = Some(Frame {
            first_sent: sent,
            last_sent: sent,
            first_arrival: arrival,
            last_arrival: arrival,
            size: DataSize::ZERO,
            last_size: size,
            packets: 1,
            last: sequence,
            is_whole: true,
            min_delay: delay,
            ended: now,
        });
        passage
    }

    /// Handles a frame that has ended.
    #[inline(never)]
    fn end(&mut self, frame: Frame, is_calm: bool) {
        if is_calm && let Some(before) = self.ended.back() {
            self.jitter.on_frame(before.min_delay, frame.min_delay);
        }
        if self.ended.len() >= MAX_FRAMES {
            self.ended.pop_front();
        }
        self.ended.push_back(frame);
    }

    pub(super) fn jitter(&self) -> &Jitter {
        &self.jitter
    }

    /// The queue above a base delay. `None` without any arrival.
    pub(super) fn queue(&self, base: TimeDelta) -> Option<StandingQueue> {
        let current = self.current.as_ref()?;
        let newest = current.last_arrival;
        let (mut frames, mut packets, mut min) = (0_u32, 0_u32, TimeDelta::MAX);
        let (mut window, mut later) = (WINDOW, None);
        for frame in core::iter::once(current).chain(self.ended.iter().rev()) {
            if let Some(later) = later {
                window = window.max(WINDOW + (later - frame.last_arrival)).min(MAX_WINDOW);
            }
            later = Some(frame.first_arrival);
            let age = newest - frame.first_arrival;
            if age > window && (packets >= MIN_PACKETS || age > MAX_AGE) {
                break;
            }
            frames += 1;
            packets = packets.saturating_add(frame.packets);
            min = min.min(frame.min_delay);
        }
        (packets > 0).then(|| StandingQueue { delay: (min - base).max(TimeDelta::ZERO), frames, packets })
    }

    /// The rates of the latest trains; `None` if there are too few.
    pub(super) fn train_rate(&self, now: Timestamp) -> Option<TrainRate> {
        let (mut trains, mut size) = (0, DataSize::ZERO);
        let (mut sent, mut arrived) = (TimeDelta::ZERO, TimeDelta::ZERO);
        for frame in self.ended.iter().rev().take_while(|frame| now.saturating_since(frame.ended) <= TRAINS) {
            if frame.packets < MIN_TRAIN {
                continue;
            }
            trains += 1;
            size += frame.size;
            sent += frame.last_sent.saturating_since(frame.first_sent).max(TimeDelta::from_micros(10));
            arrived += (frame.last_arrival - frame.first_arrival).max(TimeDelta::from_micros(500));
        }
        if trains < MIN_TRAINS || arrived < MIN_SPAN {
            return None;
        }
        Some(TrainRate { sent: DataRate::of(size, sent)?, arrived: DataRate::of(size, arrived)? })
    }
}

#[cfg(test)]
impl Passage {
    /// A frame of `size` bits that took so many seconds to leave and to arrive, after which the next one arrived.
    pub(super) fn example(sent: f64, arrived: f64, size: f64) -> Self {
        Self { sent, arrived, period: arrived, size, left: Timestamp::ZERO, least_delay: TimeDelta::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::within;

    /// Its number is the time at which it left, so that it has a gap before it.
    fn packet(sent_us: u64, delay_us: u64) -> Arrived {
        let arrival = PeerTimestamp::from_nanos((sent_us + delay_us) * 1000);
        let (sent, delay) = (Timestamp::from_nanos(sent_us * 1000), TimeDelta::from_micros(delay_us as i64));
        Arrived { sequence: sent_us, sent, arrival, delay, size: DataSize::from_bytes(1250) }
    }

    /// Frames each 33 ms, whose packets leave 2 ms apart at 5 Mbit/s with these delays in ms.
    fn frames(delays: impl IntoIterator<Item = Vec<u64>>) -> Frames {
        let mut frames = Frames::default();
        for (frame, delays) in (0..).zip(delays) {
            for (number, delay) in (0..).zip(delays) {
                let packet = packet(1_000_000 + frame * 33_000 + number * 2000, delay * 1000);
                frames.push(packet.sent + TimeDelta::from_millis(60), packet, 5e6, true);
            }
        }
        frames
    }

    fn queue(frames: &Frames) -> StandingQueue {
        frames.queue(TimeDelta::from_millis(20)).unwrap()
    }

    #[test]
    fn a_frame_that_waits_for_itself_is_no_standing_queue() {
        // Frames of four packets, whose last waits 12 ms; then the same on a queue of 15 ms.
        let own = |low: u64| frames((0..30).map(|_| (0..4).map(|packet| 20 + low + packet * 4).collect()));
        assert_eq!(queue(&own(0)).delay, TimeDelta::ZERO);
        assert_eq!(queue(&own(15)).delay, TimeDelta::from_millis(15));
        assert!(own(15).jitter.by_chance(TimeDelta::from_millis(20), 3, 0.003).0 < 1e-12);
        // Those that began to arrive within 100 ms.
        assert_eq!((queue(&own(0)).frames, queue(&own(0)).packets), (3, 12));
    }

    #[test]
    fn the_burst_after_a_stall_is_no_standing_queue() {
        // The link stops for 200 ms: six frames wait for it and arrive together.
        let stalled = |frame: u64| if (20..26).contains(&frame) { 220 - (frame - 20) * 33 } else { 20 };
        let after =
            |queue: u64, end| frames((0..end).map(|n| vec![if n < 26 { stalled(n) } else { 20 + queue }; 2]));
        assert_eq!(queue(&after(0, 26)).delay, TimeDelta::ZERO);
        // Without the gap the same delay is a queue. One that stays is seen when the gap is out of the window.
        assert_eq!(queue(&frames((0..10).map(|_| vec![60; 2]))).delay, TimeDelta::from_millis(40));
        assert_eq!(queue(&after(50, 50)).delay, TimeDelta::from_millis(50));
    }

    #[test]
    fn a_frame_that_arrives_for_longer_than_the_window_hides_no_queue() {
        // The link slows down within a frame: its first packets waited for nothing, the others longer and longer.
        let mut slow = frames((0..10).map(|_| vec![20; 4]));
        for number in 0..20 {
            let packet = packet(1_330_000 + number * 500, 20_000 + number * 15_000);
            slow.push(packet.sent, packet, 5e6, true);
        }
        // The packets of the latest 100 ms: the first of them waited 195 ms.
        within(queue(&slow).delay.as_millis(), 95.0..=210.0);
        // Where they arrive within 100 ms, the first packet counts: the frame waits for itself.
        let itself = frames((0..30).map(|_| (0..4).map(|n| 20 + n * 25).collect()));
        assert_eq!(queue(&itself).delay, TimeDelta::ZERO);
    }

    #[test]
    fn few_packets_make_the_window_longer() {
        let mut frames = Frames::default();
        for (number, delay) in [20_000, 50_000, 50_000, 50_000].into_iter().enumerate() {
            let packet = packet(1_000_000 + number as u64 * 80_000, delay);
            frames.push(packet.sent, packet, 5e6, true);
        }
        assert_eq!((queue(&frames).packets, queue(&frames).delay), (4, TimeDelta::ZERO));
    }

    /// Frames of so many packets of 10 000 bits each 33 ms, which leave `sent_us` apart and arrive `arrived_us` apart.
    fn rate(count: u64, packets: u64, sent_us: u64, arrived_us: u64) -> Option<TrainRate> {
        let (mut frames, mut now) = (Frames::default(), Timestamp::ZERO);
        for frame in 0..count {
            for number in 0..packets {
                let sent = frame * 33_000 + number * sent_us;
                let packet = packet(sent, 50_000 + number * arrived_us - number * sent_us.min(arrived_us));
                let arrival =
                    PeerTimestamp::from_nanos((frame * 33_000 + 50_000 + number * arrived_us) * 1000);
                now = packet.sent + TimeDelta::from_millis(60);
                frames.push(now, Arrived { arrival, ..packet }, 1e10 / sent_us as f64, true);
            }
        }
        frames.train_rate(now)
    }

    #[test]
    fn a_train_measures_the_slower_of_sender_and_path() {
        let through = rate(8, 5, 2000, 4000).unwrap();
        assert_eq!((through.sent.as_bps(), through.arrived.as_bps()), (5_000_000, 2_500_000));
        assert!(!through.is_open());
        assert!(rate(8, 5, 2000, 2050).unwrap().is_open());
        // A compressed train says no more than that there is room.
        assert!(rate(8, 5, 2000, 700).unwrap().is_open());
    }

    #[test]
    fn few_or_short_trains_say_nothing() {
        assert_eq!(rate(3, 5, 2000, 4000), None, "two have ended");
        assert_eq!(rate(8, 1, 2000, 4000), None, "no gap is no train");
        assert_eq!(rate(8, 2, 2000, 4000), rate(8, 5, 2000, 4000), "one gap is one");
        assert_eq!(rate(8, 5, 200, 200), None, "7 × 0.8 ms");
    }

    #[test]
    fn frames_with_a_short_pause_between_them_are_trains_of_their_own() {
        // 60 Hz: four packets 3.5 ms apart, then 6.2 ms. Together they would measure 2.4 Mbit/s.
        let (mut frames, mut now) = (Frames::default(), Timestamp::ZERO);
        for frame in 0..20 {
            for number in 0..4 {
                let packet = packet(frame * 16_700 + number * 3500, 30_000);
                now = packet.sent + TimeDelta::from_millis(60);
                frames.push(now, packet, 1e4 / 0.0035, true);
            }
        }
        let sent = frames.train_rate(now).unwrap().sent.as_bps();
        assert!((2_850_000..=2_860_000).contains(&sent), "{sent}");
    }

    /// The passages of two frames of four packets and the first packet of a third. Each leaves 2 ms apart, and arrives 3 ms apart from 50 ms
    /// on. These packets are lost.
    fn passages(lost: &[u64]) -> Vec<Passage> {
        let mut frames = Frames::default();
        let push = |number: u64| {
            let (frame, place) = (number / 4, number % 4);
            let packet = packet(frame * 33_000 + place * 2000, 50_000 + place * 1000);
            frames.push(packet.sent, Arrived { sequence: number, ..packet }, 2e6, true)
        };
        (0..9).filter(|number| !lost.contains(number)).filter_map(push).collect()
    }

    #[test]
    fn a_frame_passes_from_its_first_packet_to_the_next_frame() {
        let first = passages(&[])[0];
        let expected = [0.008, 0.012, 0.033, 40_000.0];
        for (own, expected) in [first.sent, first.arrived, first.period, first.size].into_iter().zip(expected)
        {
            crate::testing::near(own, expected, 1e-9);
        }
        assert_eq!(first.left, Timestamp::from_nanos(6_000_000));
        assert_eq!(first.least_delay, TimeDelta::from_millis(50));
        assert_eq!(passages(&[]).len(), 2);
        // A frame with a gap in or after it says nothing, nor does a single packet.
        for lost in 5..9 {
            assert_eq!(passages(&[lost]), [first], "{lost}");
        }
        assert_eq!(passages(&[0, 1, 2]).len(), 1);
        // After a gap, the rest of a frame counts.
        crate::testing::near(passages(&[4])[0].sent, 0.006, 1e-9);
    }

    #[test]
    fn packets_that_leave_evenly_are_frames_of_40_ms() {
        let mut frames = Frames::default();
        for number in 0..100 {
            let packet = packet(number * 5000, 30_000);
            frames.push(packet.sent, packet, 2e6, true);
        }
        // 100 packets of 5 ms.
        assert_eq!(frames.ended.len(), 12);
    }
}
