//! The algorithm of a thesis: Hoang Thanh Tam, "An Implementation of Receiver-side Real-time Congestion Control for
//! Simulations using `SimPy`", Vietnam National University, Hanoi, 2017.
//!
//! It is draft-ietf-rmcat-gcc-02 with deviations, in the first of that draft's two arrangements: both
//! controllers are at the sender, and a report every 3 s gives the arrival time of each packet (§2.2.2.2,
//! §3.4.3.1, §5.2). What the thesis does not specify is taken from the draft, which it cites.
//!
//! | here | thesis | section |
//! |---|---|---|
//! | delay variation | `d(i) = t(i) − t(i−1) − (T(i) − T(i−1))`, of packets, without groups | §3.4.3.1 |
//! | delay variation of a lost packet | that of the previous packet | §3.3 |
//! | trend | `m(i)` of `d = dL/C + m + v`, a Kalman filter of `1/C` and `m` | §2.2.2.3 |
//! | threshold | `th(i) = th(i−1) + (t(i) − t(i−1))·K(i)·(|m(i)| − th(i−1))`; first 12.5 ms | §3.4.3.1, Table 6 |
//! | its gains | K_u = 0.01 for a trend outside it, K_d = 0.00018 within; the text exchanges them | Table 6 |
//! | over-use | `m(i) > th(i)`, unless `m(i) < m(i−1)`; immediate, because the thesis specifies no minimum time | §3.4.3.1 |
//! | under-use | `m(i) < −th(i)` | §3.4.3.1 |
//! | states | as in the draft | Table 1 |
//! | "when m(i) is zero … the old rate is kept" | then the estimate does not change | §2.2.2.3 |
//! | increase | ×1.08^min(Δt, 1 s), or half a packet per 100 ms + RTT, at least 1000 bit/s | §2.2.2.3 |
//! | decrease | `A_r = β·R`, β = 0.95, R over T = 0.5 s | §2.2.2.3, Table 6 |
//! | loss | `A_s = 1.05·A_s + 1000`, `A_s`, `A_s·(1 − 0.5·p)` for p < 2 %, up to 10 %, and above | §2.2.2.4 |
//! | rate | `A = min(A_s, A_r)`, between 3 and 10 Mbit/s | §2.2.2.2, Table 7 |
//!
//! # What the thesis leaves open
//!
//! - The constants of its filter, for which it used a library. Here they are the draft's ([`filter`]). Its
//!   packets all have the same size, so `1/C` is never learned, and the filter estimates `m` alone.
//! - Whether the state changes with each packet or with each report ([`Pace`]). With a report, the signal is
//!   that of its last packet.
//! - The packets over which `p` is computed ([`LossWindow`]): Table 6 says 0.5 s, §3.4.3.1 the last
//!   `RTCP_limit` packets, a number that is not given.
//! - The limits of the threshold and the exclusion of spikes: the draft's, 6 to 600 ms and 15 ms.
//! - A ceiling of 1.5·R. The draft has it, the thesis does not mention it: [`aimd`] does not use it,
//!   [`AimdConfig::thesis`] does.

use alloc::collections::VecDeque;

use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

use crate::{
    feedback::{LossReport, PacketReport},
    gcc::{
        delay::{Detection, Detector, DetectorConfig, GroupDelta, KalmanTwoState, KalmanTwoStateConfig},
        loss::{ByReport, Increase, ReportConfig},
        rate::{Aimd, AimdConfig, Observation, WindowedRate},
    },
    target::{Cause, Signal},
};

/// Interval of reports (Table 7).
pub const REPORT_INTERVAL: TimeDelta = TimeDelta::from_seconds(3);

/// Initial rate (Table 7).
pub const START: DataRate = DataRate::from_bps(7_200_000);

/// `T`: the window of R (§3.4.3.1) and of p (Table 6).
pub const WINDOW: TimeDelta = TimeDelta::from_millis(500);

/// When the state and the delay-based estimate are updated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Pace {
    /// Once per report, with the signal after its last packet.
    #[default]
    Report,
    /// With each packet of a report, as if it had been reported immediately.
    Packet,
}

/// The reported packets over which the loss ratio is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossWindow {
    /// Packets sent within this time before the last one (Table 6: 0.5 s).
    Last(TimeDelta),
    /// Packets of the latest report.
    Report,
    /// All packets.
    All,
}

giusto_units::defaults! {
    /// The constants of [`Thesis`].
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct ThesisConfig {
        /// The filter of the delay variation.
        pub filter: KalmanTwoStateConfig = filter(),
        /// The detector that compares the trend with a threshold.
        pub detector: DetectorConfig = detector(),
        /// The delay-based rate control.
        pub aimd: AimdConfig = aimd(),
        /// The loss-based rate control.
        pub loss: ReportConfig = loss(),
        /// Window of the received rate. Default 0.5 s (Table 6).
        pub window: TimeDelta = WINDOW,
        /// Window of the loss ratio. Default 0.5 s (Table 6).
        pub loss_window: LossWindow = LossWindow::Last(WINDOW),
        /// When the delay-based estimate is updated. Default with each report.
        pub pace: Pace = Pace::Report,
    }
}

/// The filter of `1/C` and `m` (§2.2.2.3), with the constants of draft-ietf-rmcat-gcc-02 §5.3 and §5.6 as far
/// as those of a filter with one state apply: `q` 1e-3, `e(0)` 0.1, initial noise 1 ms², `chi` 0.001, no
/// amplification.
pub fn filter() -> KalmanTwoStateConfig {
    KalmanTwoStateConfig {
        process_variances: [1e-13, 1e-3],
        initial_variances: [100.0, 0.1],
        turning_boost: 0.0,
        initial_noise_variance: 1.0,
        startup_noise_smoothing: 0.001,
        noise_smoothing: 0.001,
        rate_history: 60,
        amplification: None,
        ..KalmanTwoStateConfig::default()
    }
}

/// The threshold (Table 6), with immediate over-use.
pub fn detector() -> DetectorConfig {
    DetectorConfig {
        initial_threshold_ms: 12.5,
        rise: 0.01,
        fall: 0.000_18,
        longest_step: TimeDelta::MAX,
        // "Longer than": a time of zero is longer than a negative time.
        over_use_time: TimeDelta::from_nanos(-1),
        over_use_groups: 1,
        min_samples: 1,
        ..DetectorConfig::draft_02()
    }
}

/// Delay-based rate control (§2.2.2.3, Tables 6 and 7): [`AimdConfig::thesis`] without the draft's ceiling.
pub fn aimd() -> AimdConfig {
    AimdConfig { ceiling: 0.0, ceiling_offset: DataRate::from_bps(1_000_000_000_000), ..AimdConfig::thesis() }
}

/// Loss-based rate control (§2.2.2.4), within the limits of Table 7.
pub(super) fn loss() -> ReportConfig {
    ReportConfig {
        increase: Increase::PerReport { factor: 1.05, plus: DataRate::from_bps(1000) },
        min: DataRate::from_bps(3_000_000),
        max: DataRate::from_bps(10_000_000),
        ..ReportConfig::draft()
    }
}

/// Both controllers at the sender. Input: reports. Output: a rate.
///
/// Each packet is reported once, in the order of sending. Time that runs backwards counts as no time.
#[derive(Debug, Clone)]
pub struct Thesis {
    config: ThesisConfig,
    delay: Delay,
    aimd: Aimd,
    loss: ByReport,
    /// Send time of each reported packet, and whether it was lost, for the packets in the window of losses.
    fates: VecDeque<(Timestamp, bool)>,
    /// Total number of reported packets, and how many of them were lost.
    all: (u64, u64),
    loss_ratio: f64,
}

impl Thesis {
    /// Both estimates start at `start`.
    pub fn new(config: &ThesisConfig, start: DataRate) -> Self {
        Self {
            config: *config,
            delay: Delay::new(config),
            aimd: Aimd::new(config.aimd, start),
            loss: ByReport::new(config.loss, start),
            fates: VecDeque::new(),
            all: (0, 0),
            loss_ratio: 0.0,
        }
    }

    /// Sets new limits and applies them to both estimates.
    pub fn set_limits(&mut self, min: DataRate, max: DataRate) {
        self.aimd.set_limits(min, max);
        self.loss.set_limits(min, max);
    }

    /// Sets the RTT.
    pub fn on_rtt(&mut self, rtt: TimeDelta) {
        self.aimd.on_rtt(rtt);
    }

    /// Handles a report with the fate of `packets`. Without packets it has no effect.
    pub fn on_report(&mut self, now: Timestamp, packets: &[PacketReport]) {
        if packets.is_empty() {
            return;
        }
        for packet in packets {
            self.delay.on_packet(packet);
            if self.config.pace == Pace::Packet {
                self.move_by_delay(packet.sent.at);
            }
        }
        if self.config.pace == Pace::Report {
            self.move_by_delay(now);
        }
        let report = self.count(packets);
        self.loss_ratio = report.ratio;
        self.loss.on_report(now, &report, None);
    }

    /// `A`: the minimum of both estimates.
    pub fn rate(&self) -> DataRate {
        self.delay_based().min(self.loss_based())
    }

    /// `A_r`: the delay-based rate.
    pub fn delay_based(&self) -> DataRate {
        self.aimd.rate()
    }

    /// `A_s`: the loss-based rate.
    pub fn loss_based(&self) -> DataRate {
        self.loss.rate()
    }

    /// `p`: the loss ratio as of the last report, 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        self.loss_ratio
    }

    /// The latest delay detection.
    pub(crate) fn detection(&self) -> Detection {
        Detection { signal: self.delay.signal, ..self.delay.detector.detection() }
    }

    /// The latest delay detection as the cause of a decision.
    pub fn delay_cause(&self) -> Cause {
        self.detection().cause()
    }

    /// Number of packets so far whose signal was over-use.
    pub fn over_uses(&self) -> u64 {
        self.delay.over_uses
    }

    fn move_by_delay(&mut self, now: Timestamp) {
        let delay = self.detection();
        // §2.2.2.3: "When m(i) is zero, it is considered a stable situation and the old rate is kept."
        if delay.trend_ms == 0.0 {
            return;
        }
        let acknowledged = self.delay.received.rate();
        self.aimd.update(now, &Observation { delay, acknowledged, ..Observation::default() });
    }

    /// Number of lost packets in the window, after `packets` were added.
    fn count(&mut self, packets: &[PacketReport]) -> LossReport {
        let is_lost = |packet: &PacketReport| packet.arrival.is_none();
        let lost = packets.iter().filter(|packet| is_lost(packet)).count() as u64;
        self.all = (self.all.0 + packets.len() as u64, self.all.1 + lost);
        let (expected_packets, lost) = match self.config.loss_window {
            LossWindow::All => self.all,
            LossWindow::Report => (packets.len() as u64, lost),
            LossWindow::Last(window) => {
                self.fates.extend(packets.iter().map(|packet| (packet.sent.at, is_lost(packet))));
                let last = self.fates.back().map_or(Timestamp::ZERO, |&(at, _)| at);
                while self.fates.front().is_some_and(|&(at, _)| last.saturating_since(at) >= window) {
                    self.fates.pop_front();
                }
                (self.fates.len() as u64, self.fates.iter().filter(|(_, lost)| *lost).count() as u64)
            }
        };
        LossReport { ratio: lost as f64 / expected_packets.max(1) as f64, expected_packets }
    }
}

giusto_units::defaults! {
    /// Converts delays to a signal.
    #[derive(Debug, Clone)]
    struct Delay {
        filter: KalmanTwoState = KalmanTwoState::new(config.filter),
        detector: Detector = Detector::new(config.detector),
        received: WindowedRate = WindowedRate::new(config.window),
        /// The last packet that arrived: send time, arrival time, size.
        last: Option<(Timestamp, PeerTimestamp, DataSize)> = None,
        /// The last difference, used for lost packets.
        delta: Option<GroupDelta> = None,
        trend: f64 = 0.0,
        signal: Signal = Signal::Normal,
        over_uses: u64 = 0,
    }
    fn new(config: &ThesisConfig);
}

impl Delay {
    fn on_packet(&mut self, packet: &PacketReport) {
        let (sent, size) = (packet.sent.at, packet.sent.size);
        let delta = match packet.arrival {
            Some(arrival) => {
                self.received.on_packet(arrival, size);
                let before = self.last.replace((sent, arrival, size));
                let delta = before.map(|before| difference(before, (sent, arrival, size)));
                self.delta = delta.or(self.delta);
                delta
            }
            // §3.3: "the inter-group delay variation of this packet is assigned with the value of the
            // previous packet (except the first one)". The threshold's time does not advance, because nothing
            // arrived.
            None => self.delta,
        };
        let Some(delta) = delta else { return };
        let output = self.filter.on_delta(&delta, self.signal);
        let signal = self.detector.on_output(output, delta.departure, delta.arrived_at);
        // §3.4.3.1: everything but over-use and under-use is normal, so a falling trend is no longer
        // over-use.
        let falls = output.raw < self.trend;
        self.trend = output.raw;
        self.signal = if signal == Signal::OverUse && falls { Signal::Normal } else { signal };
        self.over_uses += u64::from(self.signal == Signal::OverUse);
    }
}

fn difference(
    before: (Timestamp, PeerTimestamp, DataSize),
    after: (Timestamp, PeerTimestamp, DataSize),
) -> GroupDelta {
    let bytes = |size: DataSize| i64::try_from(size.as_bytes()).unwrap_or(i64::MAX);
    GroupDelta {
        departure: after.0 - before.0,
        arrival: after.1 - before.1,
        size_bytes: bytes(after.2).saturating_sub(bytes(before.2)),
        arrived_at: after.1,
        closed_at: after.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feedback::SentPacket;
    use crate::testing::group_delta;

    fn packet(sequence: u64, sent_us: u64, arrival_us: Option<u64>) -> PacketReport {
        let at = Timestamp::from_nanos(sent_us * 1000);
        let sent = SentPacket::new(sequence, at, DataSize::from_bytes(45_000));
        PacketReport::new(sent, arrival_us.map(|us| PeerTimestamp::from_nanos(us * 1000)))
    }

    fn fresh() -> Thesis {
        Thesis::new(&ThesisConfig::default(), START)
    }

    /// After a report of these packets at 3 s.
    fn after(packets: &[PacketReport]) -> Thesis {
        let mut thesis = fresh();
        thesis.on_report(seconds(3), packets);
        thesis
    }

    /// The variation between two packets that left 50 ms apart and arrived this much later.
    fn delta(arrival: TimeDelta) -> GroupDelta {
        group_delta(TimeDelta::from_millis(50), arrival)
    }

    fn seconds(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    /// A report of 60 packets, one every 50 ms (7.2 Mbit/s). The last `lost` of each ten are lost. The delay
    /// grows slightly from packet to packet.
    fn report(number: u64, lost: u64) -> Vec<PacketReport> {
        (number * 60..(number + 1) * 60)
            .map(|k| packet(k, k * 50_000, (k % 10 < 10 - lost).then_some(k * 50_000 + 10_000 + k % 2)))
            .collect()
    }

    #[test]
    fn the_loss_controller_is_that_of_section_2_2_2_4() {
        let mut thesis = fresh();
        // By hand: 20 % of the last 0.5 s: × 0.9; 10 %: the same; none: × 1.05 + 1000.
        for (number, (lost, rate)) in
            [(2, 6_480_000), (1, 6_480_000), (0, 6_805_000), (0, 7_146_250)].into_iter().enumerate()
        {
            let number = number as u64;
            thesis.on_report(seconds(3 * (number + 1)), &report(number, lost));
            assert!((thesis.loss_ratio() - lost as f64 / 10.0).abs() < 1e-12);
            assert_eq!(thesis.loss_based().as_bps(), rate, "after {lost} of 10");
            // The rate does not change without a report.
            thesis.on_report(seconds(3 * (number + 1) + 1), &[]);
            assert_eq!(thesis.loss_based().as_bps(), rate);
        }
    }

    #[test]
    fn the_bounds_of_table_7_hold() {
        let mut thesis = fresh();
        for number in 0..10 {
            thesis.on_report(seconds(3 * (number + 1)), &report(number, 10));
        }
        assert_eq!(thesis.rate().as_bps(), 3_000_000);
        for number in 10..60 {
            thesis.on_report(seconds(3 * (number + 1)), &report(number, 0));
        }
        assert_eq!(thesis.rate().as_bps(), 10_000_000);
    }

    /// η is at most 1.08 per report: reports are 3 s apart, and an update covers at most one second. The
    /// first one covers no time.
    #[test]
    fn the_delay_based_rate_grows_by_8_percent_per_report() {
        for (pace, rates) in [
            (Pace::Report, [7_200_000.0, 7_776_000.0, 8_398_080.0]),
            // From the second packet on, 50 ms per packet: 58 steps, then 118.
            (Pace::Packet, [58, 118, 178].map(|steps| 7.2e6 * 1.08_f64.powf(f64::from(steps) * 0.05))),
        ] {
            let mut thesis = Thesis::new(&ThesisConfig { pace, ..ThesisConfig::default() }, START);
            for (number, rate) in rates.into_iter().enumerate() {
                thesis.on_report(seconds(3 * (number as u64 + 1)), &report(number as u64, 0));
                let found = thesis.delay_based().as_bps() as f64;
                let expected = f64::min(rate, 10e6);
                assert!(
                    (found / expected - 1.0).abs() < 1e-6,
                    "{pace:?}, report {number}: {found}, {expected}"
                );
            }
        }
    }

    #[test]
    fn a_trend_of_zero_keeps_the_rate() {
        let mut thesis = fresh();
        for number in 0..4 {
            let packets = (number * 60..(number + 1) * 60)
                .map(|k| packet(k, k * 50_000, Some(k * 50_000 + 10_000)))
                .collect::<Vec<_>>();
            thesis.on_report(seconds(3 * (number + 1)), &packets);
            assert_eq!((thesis.detection().trend_ms, thesis.delay_based()), (0.0, START));
        }
    }

    /// The delay grows by 40 ms per packet. m approaches 40, which is more than 15 above 12.5, so the
    /// threshold does not change, and `A_r` is β·R. Arrivals are 90 ms apart: six within 0.5 s, 4.32 Mbit/s.
    #[test]
    fn growth_above_the_threshold_per_packet_is_over_use() {
        let packets: Vec<_> = (0..60).map(|k| packet(k, k * 50_000, Some(k * 90_000 + 10_000))).collect();
        let thesis = after(&packets);
        let Detection { signal, trend_ms, .. } = thesis.detection();
        assert_eq!(signal, Signal::OverUse);
        assert!((27.5..40.0).contains(&trend_ms), "{trend_ms}");
        assert_eq!(thesis.delay_based().as_bps(), 4_104_000);
        assert_eq!(thesis.rate(), thesis.delay_based());
        assert!(thesis.over_uses() > 0);
    }

    #[test]
    fn a_trend_that_falls_is_normal_even_above_the_threshold() {
        // The second packet takes a second longer than the first, which is a spike for the threshold; the
        // third takes as long as the second.
        let packets = [
            packet(0, 0, Some(10_000)),
            packet(1, 50_000, Some(1_060_000)),
            packet(2, 100_000, Some(1_110_000)),
        ];
        assert_eq!(after(&packets[..2]).detection().signal, Signal::OverUse);
        let thesis = after(&packets);
        let Detection { signal, trend_ms, threshold_ms } = thesis.detection();
        assert!(trend_ms > threshold_ms, "{trend_ms} and {threshold_ms}");
        assert_eq!((signal, thesis.delay_based()), (Signal::Normal, START));
    }

    /// The threshold follows `th + Δt·K·(|m| − th)`, where m comes from an independent filter.
    #[test]
    fn the_threshold_moves_by_table_6() {
        let mut thesis = fresh();
        let mut filter = KalmanTwoState::new(super::filter());
        let mut threshold: f64 = 12.5;
        // The delay varies within the threshold, and then exceeds it by less than 15 ms.
        let mut arrival = 10_000;
        let mut packets = vec![packet(0, 0, Some(arrival))];
        for k in 1..200_u64 {
            let later_us = if k < 100 { 1000 * (k % 7) } else { 18_000 };
            arrival += 50_000 + later_us;
            packets.push(packet(k, k * 50_000, Some(arrival)));
            let delta = delta(TimeDelta::from_micros((50_000 + later_us) as i64));
            let m = filter.on_delta(&delta, thesis.detection().signal).raw.abs();
            let gain = if m < threshold { 0.000_18 } else { 0.01 };
            let elapsed = if k == 1 { 0.0 } else { 50.0 + later_us as f64 / 1000.0 };
            threshold = (threshold + elapsed * gain * (m - threshold)).max(6.0);
            thesis.on_report(seconds(k), packets.last().map(std::slice::from_ref).unwrap());
            if k == 1 {
                thesis = fresh();
                thesis.on_report(seconds(1), &packets);
            }
            let found = thesis.delay.detector.threshold_ms();
            assert!((found - threshold).abs() < 1e-9, "packet {k}: {found} and {threshold}");
        }
        assert!(threshold > 6.0 && (threshold - 12.5).abs() > 1.0, "{threshold}");
    }

    #[test]
    fn a_lost_packet_repeats_the_previous_delay_variation() {
        let run = |lost: bool| {
            let mut packets = vec![packet(0, 0, Some(10_000)), packet(1, 50_000, Some(90_000))];
            packets.extend((2..6).filter(|_| lost).map(|k| packet(k, k * 50_000, None)));
            let thesis = after(&packets);
            (thesis.detection().trend_ms, thesis.delay.filter.clone())
        };
        let (without, mut filter) = run(false);
        let (with, _) = run(true);
        // 30 ms, four times more.
        let delta = delta(TimeDelta::from_millis(80));
        let again = (0..4).map(|_| filter.on_delta(&delta, Signal::Normal).raw).last().unwrap();
        assert!(with > without && (with - again).abs() < 1e-12, "{without}, {with}, {again}");
        // Losses before any difference have no effect.
        let one = after(&[packet(0, 0, None), packet(1, 50_000, Some(60_000)), packet(2, 100_000, None)]);
        assert!(one.detection().trend_ms.abs() < f64::EPSILON);
    }

    #[test]
    fn the_loss_window_is_as_configured() {
        for (window, ratio) in
            [(LossWindow::Last(WINDOW), 0.0), (LossWindow::Report, 0.1), (LossWindow::All, 0.3)]
        {
            let mut thesis =
                Thesis::new(&ThesisConfig { loss_window: window, ..ThesisConfig::default() }, START);
            thesis.on_report(seconds(3), &report(0, 5));
            let mut second = report(1, 0);
            for packet in second.iter_mut().take(6) {
                packet.arrival = None;
            }
            thesis.on_report(seconds(6), &second);
            assert!((thesis.loss_ratio() - ratio).abs() < 1e-12, "{window:?}: {}", thesis.loss_ratio());
        }
    }
}
