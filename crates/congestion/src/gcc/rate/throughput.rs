//! Received rate from packet reports.

use alloc::collections::VecDeque;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

use crate::gcc::by_arrival::Arrived;

giusto_units::defaults! {
    /// Configuration of the received rate. The defaults are libwebrtc's
    /// (`goog_cc/acknowledged_bitrate_estimator_interface.h`, `robust_throughput_estimator.cc`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct RobustThroughputConfig {
        /// Minimum number of packets in the window; more while it is shorter than `min_window`. Default 20.
        pub packets: usize = 20,
        /// Maximum number of packets in the window. Default 500.
        pub max_packets: usize = 500,
        /// Minimum length of the window, if there are enough packets. Default 1 s.
        pub min_window: TimeDelta = TimeDelta::from_seconds(1),
        /// Maximum length of the window. Default 5 s.
        pub max_window: TimeDelta = TimeDelta::from_seconds(5),
        /// Minimum number of packets for a rate, at least 2. Default 10.
        pub required: usize = 10,
        /// An arrival earlier than the latest one by more than this indicates a clock jump: the window is
        /// cleared. Default 1 s.
        pub reordering: TimeDelta = TimeDelta::from_seconds(1),
    }
}

/// The rate at which sent packets arrive: the minimum of the sent rate and the received rate of the same
/// packets.
///
/// The largest gap between two arrivals is replaced by the second largest, so that a path which stops briefly
/// and then delivers all packets at once does not appear slow. The result may be too high; the sent rate
/// limits it. `n` packets span `n − 1` intervals: the first packet to arrive and the last one sent are not
/// counted.
///
/// Packets that were sent before one that has already left the window are late and do not count towards the
/// sent rate.
#[derive(Debug, Clone)]
pub(crate) struct RobustThroughput {
    config: RobustThroughputConfig,
    /// In order of arrival.
    window: VecDeque<Arrived>,
    /// Their bytes.
    arrived: DataSize,
    blocks: Blocks,
    /// Latest send time of the packets that have left the window.
    left: Timestamp,
}

/// Minimum length of a span; shorter spans count as this.
const SHORTEST: TimeDelta = TimeDelta::from_millis(1);

impl RobustThroughput {
    /// An estimator without packets.
    pub(crate) fn new(config: RobustThroughputConfig) -> Self {
        Self {
            config,
            window: VecDeque::new(),
            arrived: DataSize::ZERO,
            blocks: Blocks::default(),
            left: Timestamp::ZERO,
        }
    }

    /// Handles the arrived packets of one feedback message, in order of arrival.
    pub(in crate::gcc) fn on_arrived(&mut self, packets: &[Arrived]) {
        let mut in_order = true;
        for &packet in packets {
            let last = self.window.back().map_or(packet.arrival, |last| last.arrival);
            if last - packet.arrival > self.config.reordering {
                *self = Self::new(self.config);
                in_order = true;
            }
            self.arrived += packet.size;
            if last <= packet.arrival || self.window.is_empty() {
                self.blocks.push(gap(last, packet.arrival), packet.sent);
                self.window.push_back(packet);
            } else {
                let place = self.window.iter().rposition(|earlier| earlier.arrival <= packet.arrival);
                self.window.insert(place.map_or(0, |place| place + 1), packet);
                in_order = false;
            }
        }
        if !in_order {
            self.blocks = Blocks::default();
            let mut last = self.window.front().map(|first| first.arrival).unwrap_or_default();
            for packet in &self.window {
                self.blocks.push(gap(last, packet.arrival), packet.sent);
                last = packet.arrival;
            }
        }
        while self.is_too_much()
            && let Some(oldest) = self.window.pop_front()
        {
            self.arrived = self.arrived.saturating_sub(oldest.size);
            self.left = self.left.max(oldest.sent);
            self.blocks.pop();
        }
    }

    /// The rate; `None` if there are too few packets in the window. Takes a pass over the blocks of 32 packets in the window, and one over
    /// the packets of some.
    pub(crate) fn rate(&self) -> Option<DataRate> {
        let required = self.config.required.max(2);
        let (first, last) = (self.window.front()?, self.window.back()?);
        if self.window.len() < required {
            return None;
        }
        let [largest, second] =
            self.largest_gaps().map(|gap| TimeDelta::from_nanos(i64::try_from(gap).unwrap_or(i64::MAX)));
        let time = (last.arrival - first.arrival) - largest + second;
        let arrived = DataRate::of(self.arrived.saturating_sub(first.size), time.max(SHORTEST))?;
        let sent = self.sent();
        if sent.packets < required { Some(arrived) } else { Some(arrived.min(sent.rate()?)) }
    }

    /// The two largest gaps between arrivals in the window.
    fn largest_gaps(&self) -> [u64; 2] {
        let oldest = self.window.range(..self.blocks.in_first(self.window.len()));
        let pairs = oldest.clone().zip(oldest.skip(1));
        let gaps = pairs.map(|(earlier, later)| gap(earlier.arrival, later.arrival));
        let later = self.blocks.whole().flat_map(|(_, block)| block.gaps);
        gaps.chain(later).fold([0, 0], larger)
    }

    /// The span of the sent packets.
    fn sent(&self) -> Span {
        let since = self.left;
        let mut span = Span {
            first: Timestamp::from_nanos(u64::MAX),
            last: since,
            last_size: DataSize::ZERO,
            sum: self.arrived,
            packets: self.window.len(),
        };
        // Most blocks contain no late packet.
        let add = |span: &mut Span, packets: core::ops::Range<usize>| {
            for packet in self.window.range(packets) {
                if packet.sent < since {
                    span.sum = span.sum.saturating_sub(packet.size);
                    span.packets -= 1;
                } else {
                    span.first = span.first.min(packet.sent);
                    span.last = span.last.max(packet.sent);
                }
            }
        };
        add(&mut span, 0..self.blocks.in_first(self.window.len()));
        for (start, block) in self.blocks.whole() {
            if block.first_sent < since {
                add(&mut span, start..(start + BLOCK).min(self.window.len()));
            } else {
                span.first = span.first.min(block.first_sent);
                span.last = span.last.max(block.last_sent);
            }
        }
        // Of several packets sent last at the same time, the one that arrived first counts.
        let mut whole = self.blocks.whole().filter(|(_, block)| block.last_sent == span.last);
        let starts = [Some(0), whole.next().map(|(start, _)| start)];
        let mut packets =
            starts.into_iter().flatten().flat_map(|start| self.window.range(start..).take(BLOCK));
        span.last_size =
            packets.find(|packet| packet.sent == span.last).map_or(DataSize::ZERO, |last| last.size);
        span
    }

    /// Number of packets in the window.
    #[cfg(test)]
    pub(crate) fn packets(&self) -> usize {
        self.window.len()
    }

    fn is_too_much(&self) -> bool {
        let (Some(first), Some(last)) = (self.window.front(), self.window.back()) else { return false };
        let (packets, time) = (self.window.len(), last.arrival - first.arrival);
        packets > self.config.max_packets
            || time > self.config.max_window
            || packets > self.config.packets && time > self.config.min_window
    }
}

impl Default for RobustThroughput {
    fn default() -> Self {
        Self::new(RobustThroughputConfig::default())
    }
}

/// The packets of the window that were sent no earlier than one that has left.
#[derive(Debug)]
struct Span {
    first: Timestamp,
    last: Timestamp,
    last_size: DataSize,
    sum: DataSize,
    packets: usize,
}

impl Span {
    fn rate(&self) -> Option<DataRate> {
        DataRate::of(self.sum.saturating_sub(self.last_size), (self.last - self.first).max(SHORTEST))
    }
}

/// Summaries of blocks of the window, so that a rate does not take a pass over all its packets.
#[derive(Debug, Clone, Default)]
struct Blocks {
    /// In order of arrival. The first one also counts packets that have left, and so is not used.
    kept: VecDeque<Block>,
    /// Number of packets of the first block that have left, and of packets in the last one.
    left: usize,
    in_last: usize,
}

/// Number of packets in a block.
const BLOCK: usize = 32;

#[derive(Debug, Clone, Copy)]
struct Block {
    /// The two largest gaps before its packets, in ns.
    gaps: [u64; 2],
    first_sent: Timestamp,
    last_sent: Timestamp,
}

impl Blocks {
    /// Adds a packet that arrived `gap` after the previous one.
    fn push(&mut self, gap: u64, sent: Timestamp) {
        match self.kept.back_mut() {
            Some(block) if self.in_last < BLOCK => {
                block.gaps = larger(block.gaps, gap);
                block.first_sent = block.first_sent.min(sent);
                block.last_sent = block.last_sent.max(sent);
                self.in_last += 1;
            }
            _ => {
                self.kept.push_back(Block { gaps: [gap, 0], first_sent: sent, last_sent: sent });
                self.in_last = 1;
            }
        }
    }

    /// Removes the oldest packet.
    fn pop(&mut self) {
        self.left += 1;
        if self.left == BLOCK {
            self.kept.pop_front();
            self.left = 0;
        }
    }

    /// Number of packets in the first block, in a window of this many.
    fn in_first(&self, packets: usize) -> usize {
        packets.min(BLOCK - self.left)
    }

    /// The blocks after the first, each with the place of its first packet in the window.
    fn whole(&self) -> impl Iterator<Item = (usize, &Block)> {
        (BLOCK - self.left..).step_by(BLOCK).zip(self.kept.iter().skip(1))
    }
}

/// The time between two arrivals in ns; the order of arrival makes it positive.
fn gap(earlier: PeerTimestamp, later: PeerTimestamp) -> u64 {
    later.as_nanos().saturating_sub(earlier.as_nanos())
}

/// The two largest gaps of three.
fn larger([largest, second]: [u64; 2], gap: u64) -> [u64; 2] {
    [gap.max(largest), gap.min(largest).max(second)]
}

#[cfg(test)]
mod tests {
    //! Numbers of libwebrtc's `goog_cc/robust_throughput_estimator_unittest.cc`; each test states the name of
    //! its case. The rates there are in bytes per second: 100 000 there is 800 kbit/s here.

    use proptest::prelude::*;

    use super::*;
    use crate::{gcc::by_arrival::ByArrival, testing::prelude::*};

    fn on_feedback(throughput: &mut RobustThroughput, packets: &[PacketReport]) {
        let mut by_arrival = ByArrival::default();
        by_arrival.fill(packets);
        throughput.on_arrived(by_arrival.packets());
    }

    /// Packets of 1000 bytes, with independent sent and received rates.
    struct Path {
        sent: Timestamp,
        arrival: PeerTimestamp,
        throughput: RobustThroughput,
    }

    fn later(at: PeerTimestamp, by: TimeDelta) -> PeerTimestamp {
        PeerTimestamp::from_nanos(at.as_nanos().saturating_add_signed(by.as_nanos()))
    }

    fn report(sent: Timestamp, arrival: PeerTimestamp, size: u64) -> PacketReport {
        PacketReport::new(SentPacket::new(0, sent, DataSize::from_bytes(size)), Some(arrival))
    }

    impl Path {
        fn new(min_window_ms: i64) -> Self {
            let min_window = TimeDelta::from_millis(min_window_ms);
            let config = RobustThroughputConfig { min_window, ..RobustThroughputConfig::default() };
            Self {
                sent: Timestamp::from_nanos(100_000_000_000),
                arrival: PeerTimestamp::from_nanos(10_000_000_000),
                throughput: RobustThroughput::new(config),
            }
        }

        fn packets(&mut self, count: usize, send_kbps: u64, receive_kbps: u64) -> Vec<PacketReport> {
            let interval = |kbps: u64| TimeDelta::from_nanos(8_000_000_000 / kbps as i64);
            (0..count)
                .map(|_| {
                    let sent = self.sent;
                    self.sent += interval(send_kbps);
                    self.arrival = later(self.arrival, interval(receive_kbps));
                    report(sent, self.arrival, 1000)
                })
                .collect()
        }

        /// Sends packets and returns the estimate in kbit/s.
        fn run(&mut self, count: usize, send_kbps: u64, receive_kbps: u64) -> Option<f64> {
            let packets = self.packets(count, send_kbps, receive_kbps);
            self.on_feedback(&packets)
        }

        fn on_feedback(&mut self, packets: &[PacketReport]) -> Option<f64> {
            on_feedback(&mut self.throughput, packets);
            self.throughput.rate().map(|rate| rate.as_bps() as f64 / 1e3)
        }
    }

    fn about(kbps: Option<f64>, expected: f64) -> bool {
        kbps.is_some_and(|kbps| (kbps - expected).abs() <= 0.05 * expected)
    }

    #[test]
    fn ten_packets_give_the_first_rate() {
        // InitialEstimate
        let mut path = Path::new(1000);
        assert_eq!(path.run(9, 800, 800), None);
        assert_eq!(path.run(1, 800, 800), Some(800.0));
        assert_eq!(path.run(15, 800, 800), Some(800.0));
    }

    #[test]
    fn it_follows_the_rate_within_a_second() {
        // EstimateAdapts
        let mut path = Path::new(1000);
        assert!((0..10).all(|_| path.run(10, 800, 800) == Some(800.0)));
        assert!(
            (0..20).all(|_| path.run(10, 1600, 1600).is_some_and(|kbps| (800.0..=1600.0).contains(&kbps)))
        );
        assert!((0..20).all(|_| path.run(10, 1600, 1600) == Some(1600.0)));
        assert!((0..5).all(|_| path.run(10, 400, 400).is_some_and(|kbps| (400.0..=1600.0).contains(&kbps))));
        assert!((0..5).all(|_| path.run(10, 400, 400) == Some(400.0)));
    }

    #[test]
    fn the_minimum_of_sent_and_received_rate_counts() {
        // CappedByReceiveRate, CappedBySendRate
        assert!(about(Path::new(1000).run(20, 800, 200), 200.0));
        assert!(about(Path::new(1000).run(20, 400, 800), 400.0));
    }

    #[test]
    fn a_delay_spike_has_no_effect() {
        // DelaySpike
        let mut path = Path::new(500);
        assert_eq!(path.run(20, 800, 800), Some(800.0));
        path.arrival = later(path.arrival, TimeDelta::from_millis(250));
        assert!((0..30).all(|_| about(path.run(1, 800, 4800), 800.0)));
        assert!((0..20).all(|_| about(path.run(5, 800, 800), 800.0)));
    }

    #[test]
    fn lost_packets_do_not_count() {
        // HighLoss
        let mut path = Path::new(1000);
        let mut packets = path.packets(20, 800, 800);
        packets.iter_mut().skip(1).step_by(2).for_each(|report| report.arrival = None);
        assert!(about(path.on_feedback(&packets), 400.0));
    }

    #[test]
    fn reordered_feedback_reduces_the_rate_temporarily() {
        // ReorderedFeedback
        let mut path = Path::new(1000);
        assert_eq!(path.run(20, 800, 800), Some(800.0));
        let (late, early) = (path.packets(10, 800, 800), path.packets(10, 800, 800));
        assert!(path.on_feedback(&early).is_some_and(|kbps| kbps < 800.0));
        assert_eq!(path.on_feedback(&late), Some(800.0));
        assert!((0..10).all(|_| path.run(15, 800, 800) == Some(800.0)));
    }

    #[test]
    fn a_packet_a_second_late_does_not_stretch_the_sending() {
        // DeepReordering
        let mut path = Path::new(500);
        let mut late = path.packets(1, 800, 800);
        assert!((0..10).all(|_| path.run(10, 800, 800) == Some(800.0)));
        late[0].arrival = Some(path.arrival);
        assert!(about(path.on_feedback(&late), 800.0));
        assert!((0..10).all(|_| about(path.run(10, 800, 800), 800.0)));
    }

    #[test]
    fn a_backward_jump_of_the_receive_clock_resets_the_window() {
        // ResetsIfReceiveClockChangeBackwards
        let mut path = Path::new(1000);
        assert_eq!(path.run(20, 800, 800), Some(800.0));
        path.arrival = later(path.arrival, TimeDelta::from_seconds(-2));
        assert_eq!(path.run(20, 1600, 1600), Some(1600.0));
        assert_eq!(path.throughput.packets(), 20);
    }

    #[test]
    fn a_pause_of_a_minute_is_ignored() {
        // StreamPausedAndResumed
        let mut path = Path::new(1000);
        assert!(about(path.run(20, 800, 800), 800.0));
        path.sent += TimeDelta::from_seconds(60);
        path.arrival = later(path.arrival, TimeDelta::from_seconds(60));
        assert_eq!(path.run(5, 800, 800), None);
        assert!((0..4).all(|_| path.run(5, 800, 800) == Some(800.0)));
    }

    #[test]
    fn the_window_has_at_most_500_packets() {
        let mut path = Path::new(1000);
        path.run(700, 80_000, 80_000);
        assert_eq!(path.throughput.packets(), 500);
    }

    /// The definition, literally: sums and gaps over the packets of a window, in order of arrival.
    fn by_definition(throughput: &RobustThroughput) -> Option<DataRate> {
        let window: Vec<Arrived> = throughput.window.iter().copied().collect();
        let mut gaps: Vec<_> = window.windows(2).map(|pair| pair[1].arrival - pair[0].arrival).collect();
        gaps.sort();
        let (first, last) = (window.first()?, window.last()?);
        if window.len() < 10 {
            return None;
        }
        let size = |packets: &[Arrived]| packets.iter().map(|packet| packet.size).sum::<DataSize>();
        let time = last.arrival - first.arrival - gaps[gaps.len() - 1] + gaps[gaps.len() - 2];
        let arrived = DataRate::of(size(&window[1..]), time.max(SHORTEST))?;
        let mut sent = window.clone();
        sent.retain(|packet| packet.sent >= throughput.left);
        if sent.len() < 10 {
            return Some(arrived);
        }
        // Of packets sent at the same time, the first to arrive is the last: the sort is stable.
        sent.sort_by_key(|packet| std::cmp::Reverse(packet.sent));
        let time = sent[0].sent - sent[sent.len() - 1].sent;
        Some(arrived.min(DataRate::of(size(&sent[1..]), time.max(SHORTEST))?))
    }

    proptest! {
        #[test]
        fn the_rate_is_that_of_the_definition(
            mut messages in prop::collection::vec(prop::collection::vec((0u64..40, 0u64..60, 1u64..1500), 1..40), 1..8),
            ordered: bool,
        ) {
            if ordered {
                for message in &mut messages {
                    let mut arrivals: Vec<_> = message.iter().map(|&(_, arrival, _)| arrival / 2).collect();
                    arrivals.sort_unstable();
                    message.sort_unstable_by_key(|&(sent, ..)| sent);
                    for (packet, arrival) in message.iter_mut().zip(arrivals) {
                        (packet.0, packet.1) = (packet.0 / 2, arrival);
                    }
                }
            }
            let mut throughput = RobustThroughput::default();
            for (number, message) in messages.iter().enumerate() {
                let at = |ms: u64| (number as u64 * 300 + ms * 10) * 1_000_000;
                let packets: Vec<_> = message
                    .iter()
                    .map(|&(sent, arrival, size)| {
                        report(Timestamp::from_nanos(at(sent)), PeerTimestamp::from_nanos(at(arrival)), size)
                    })
                    .collect();
                on_feedback(&mut throughput, &packets);
                prop_assert_eq!(throughput.rate(), by_definition(&throughput));
            }
        }
    }
}
