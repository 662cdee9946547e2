//! Controller, pacer and sent packets together, without `GStreamer` and without a clock.

use std::collections::VecDeque;

use giusto_congestion::{
    Algorithm, Controller, Feedback, FeedbackKind, Limits, PacketReport, QueueState, Target,
};
use giusto_pace::media::{Pacer, PacerConfig, Permit, Probe, Resume};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use crate::sent::{Report, Sent};

/// The longest time that a packet waits for the pacer or for the window. Then it leaves in any case, so that the queue of an encoder
/// that does not follow the target stays bounded.
pub(crate) const MAX_WAIT: TimeDelta = TimeDelta::from_seconds(1);

/// The least burst, in time at the pacing rate: a thread that wakes this late still sends at the rate. The burst time of
/// draft-ietf-rmcat-gcc-02 §4.
const LATENESS: TimeDelta = TimeDelta::from_millis(5);

/// Time over which loss and received rate are computed.
const WINDOW: TimeDelta = TimeDelta::from_seconds(1);

/// The algorithm of this name, if it works with transport-wide feedback.
pub(crate) fn algorithm(name: &str) -> Result<Algorithm, String> {
    let usable = |algorithm: &Algorithm| algorithm.requirements().accepts(FeedbackKind::TransportWide);
    let names = || Algorithm::all().filter(usable).map(Algorithm::name).collect::<Vec<_>>().join(", ");
    match name.parse::<Algorithm>() {
        Ok(algorithm) if usable(&algorithm) => Ok(algorithm),
        Ok(_) => Err(format!(
            "controller \"{name}\" does not work with transport-wide feedback: expected one of {}",
            names()
        )),
        Err(_) => Err(format!("unknown controller \"{name}\": expected one of {}", names())),
    }
}

/// What the property `stats` shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures {
    pub(crate) target: Target,
    pub(crate) in_flight: DataSize,
    /// From the departure of the packet reported last until its report.
    pub(crate) rtt: Option<TimeDelta>,
    /// Share of the packets reported in the last second that are lost.
    pub(crate) loss: f64,
    /// Rate of the packets that were reported as received in the last second.
    pub(crate) received: DataRate,
    pub(crate) sent_packets: u64,
    pub(crate) lost_packets: u64,
    pub(crate) feedback_messages: u64,
    pub(crate) unmatched_reports: u64,
    pub(crate) decision: String,
}

/// The sender's side of congestion control.
#[derive(Debug)]
pub(crate) struct Engine {
    controller: Box<dyn Controller>,
    pacer: Pacer,
    sent: Sent,
    reports: Vec<PacketReport>,
    /// Of each message in the last second: when it came, and its packets received, their size, and packets lost.
    recent: VecDeque<(Timestamp, u64, DataSize, u64)>,
    rtt: Option<TimeDelta>,
    sent_packets: u64,
    lost_packets: u64,
    feedback_messages: u64,
}

impl Engine {
    /// Begins the session.
    pub(crate) fn new(now: Timestamp, algorithm: Algorithm, limits: Limits) -> Self {
        let controller = algorithm.build(limits);
        let burst = controller.requirements().pacer.burst.max(LATENESS);
        let config = PacerConfig::libwebrtc().with_burst(burst).with_resume(Resume::Room);
        let pacer = Pacer::new(config, controller.target().pacing);
        let mut engine = Self {
            controller,
            pacer,
            sent: Sent::default(),
            reports: Vec::new(),
            recent: VecDeque::new(),
            rtt: None,
            sent_packets: 0,
            lost_packets: 0,
            feedback_messages: 0,
        };
        engine.on_timeout(now, &QueueState::default());
        engine
    }

    /// Media rate of the controller, in bit/s, as the property has it.
    pub(crate) fn estimate(&self) -> u32 {
        u32::try_from(self.controller.target().media.as_bps()).unwrap_or(u32::MAX).max(1)
    }

    /// When [`on_timeout`](Self::on_timeout) must be called.
    pub(crate) fn next_timeout(&self) -> Option<Timestamp> {
        self.controller.next_timeout()
    }

    /// Handles the controller's deadline.
    pub(crate) fn on_timeout(&mut self, now: Timestamp, queue: &QueueState) {
        self.controller.on_timeout(now, queue);
        self.follow(now);
    }

    /// Sets new limits.
    pub(crate) fn set_limits(&mut self, now: Timestamp, limits: Limits) {
        self.controller.set_limits(now, limits);
        self.follow(now);
    }

    /// Whether a packet of `size` that has been queued since `queued` may leave.
    pub(crate) fn permit(&self, now: Timestamp, size: DataSize, queued: Timestamp) -> Permit {
        let latest = queued + MAX_WAIT;
        match self.pacer.next_send(now, size) {
            Permit::Now => Permit::Now,
            _ if latest <= now => Permit::Now,
            Permit::At(at) => Permit::At(at.min(latest)),
            Permit::Blocked => Permit::At(latest),
        }
    }

    /// Handles a packet of `size` that leaves now.
    pub(crate) fn on_leaving(&mut self, now: Timestamp, size: DataSize) {
        let probe = self.pacer.on_sent(now, size);
        let packet = self.sent.on_leaving(now, size, probe);
        self.pacer.on_in_flight(packet.in_flight);
        self.sent_packets += 1;
        self.controller.on_sent(now, &packet);
        self.follow(now);
    }

    /// The elements behind us have handled the latest packet.
    pub(crate) fn on_handled(&mut self, now: Timestamp) {
        self.sent.on_handled(now);
    }

    /// Handles the reports of one feedback message.
    pub(crate) fn on_feedback(&mut self, now: Timestamp, reports: &[Report]) {
        self.feedback_messages += 1;
        self.sent.on_reports(reports, &mut self.reports);
        let in_flight = self.sent.in_flight();
        self.pacer.on_in_flight(in_flight);
        if self.reports.is_empty() {
            return;
        }
        let mut received = self.reports.iter().filter(|report| report.arrival.is_some());
        let size = received.clone().fold(DataSize::ZERO, |sum, report| sum + report.sent.size);
        let count = received.clone().count() as u64;
        let lost = self.reports.len() as u64 - count;
        if let Some(last) = received.next_back() {
            self.rtt = Some(now.saturating_since(last.sent.at));
        }
        self.lost_packets += lost;
        self.recent.push_back((now, count, size, lost));
        self.controller.on_feedback(now, &Feedback::new(&self.reports, in_flight));
        self.follow(now);
        self.forget(now);
    }

    /// The figures for `stats`.
    pub(crate) fn figures(&mut self, now: Timestamp) -> Figures {
        self.forget(now);
        let (mut received, mut size, mut lost) = (0, DataSize::ZERO, 0);
        for (_, more, bytes, missing) in &self.recent {
            received += more;
            size += *bytes;
            lost += missing;
        }
        Figures {
            target: self.controller.target(),
            in_flight: self.sent.in_flight(),
            rtt: self.rtt,
            loss: lost as f64 / ((received + lost) as f64).max(1.0),
            received: DataRate::of(size, WINDOW).unwrap_or(DataRate::ZERO),
            sent_packets: self.sent_packets,
            lost_packets: self.lost_packets,
            feedback_messages: self.feedback_messages,
            unmatched_reports: self.sent.unmatched(),
            decision: self.controller.decision().to_string(),
        }
    }

    fn forget(&mut self, now: Timestamp) {
        while self.recent.front().is_some_and(|(at, ..)| now.saturating_since(*at) > WINDOW) {
            self.recent.pop_front();
        }
    }

    /// Passes rate, window and probes to the pacer.
    fn follow(&mut self, now: Timestamp) {
        let target = self.controller.target();
        self.pacer.on_target(now, target.pacing, target.window);
        while let Some(probe) = self.controller.next_probe() {
            let (cluster, packets) = (probe.cluster, probe.packets);
            self.pacer.on_probe(now, Probe::new(cluster, probe.rate, probe.duration, packets, probe.batch));
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::PeerTimestamp;

    use super::*;

    const SIZE: DataSize = DataSize::from_bytes(1000);

    fn at(micros: u64) -> Timestamp {
        Timestamp::from_nanos(micros * 1000)
    }

    fn engine(name: &str, kbps: u64) -> Engine {
        let rate = DataRate::from_bps(kbps * 1000);
        let limits = Limits::DEFAULT.with_start(rate).with_max(DataRate::from_bps(8_000_000));
        Engine::new(at(0), algorithm(name).unwrap(), limits)
    }

    #[test]
    fn a_controller_without_transport_wide_feedback_is_refused() {
        let remb = algorithm("gcc:remb").unwrap_err();
        assert!(remb.starts_with("controller \"gcc:remb\" does not work with transport-wide"), "{remb}");
        assert!(remb.contains("tempo") && !remb.contains("gcc:remb,"), "{remb}");
        let unknown = algorithm("gcc").unwrap_err();
        assert!(unknown.starts_with("unknown controller \"gcc\": expected one of "), "{unknown}");
    }

    #[test]
    fn packets_leave_at_the_pacing_rate_however_late_the_thread_wakes() {
        // 1 Mbit/s of media are paced at 2.5 Mbit/s: 3.2 ms for each packet, and the burst of libwebrtc, 12.5 kB.
        for late in [0, 4_000] {
            let mut engine = engine("fixed", 1000);
            let mut now = at(0);
            for _ in 0..100 {
                if let Permit::At(due) = engine.permit(now, SIZE, now) {
                    now = due + TimeDelta::from_micros(late);
                }
                engine.on_leaving(now, SIZE);
            }
            let expected = (100.0 - 12.5 - 1.0) * 3.2;
            let took = (now - at(0)).as_millis();
            assert!((expected - 3.3..=expected + 4.0 + 3.3).contains(&took), "{late}: {took} ms");
        }
    }

    #[test]
    fn no_packet_waits_for_longer_than_a_second() {
        let mut engine = engine("fixed", 30);
        for _ in 0..50 {
            engine.on_leaving(at(0), SIZE);
        }
        let Permit::At(due) = engine.permit(at(10), SIZE, at(10)) else {
            panic!("50 kB are above the burst")
        };
        // At 75 kbit/s the pacer is at its largest debt, half a second.
        assert!(due > at(400_000) && due <= at(1_000_010), "{due:?}");
        let waited = at(1_000_010);
        engine.on_leaving(at(1_000_000), SIZE * 100);
        assert_eq!(engine.permit(waited, SIZE, at(10)), Permit::Now);
    }

    /// Sends for this many seconds at the target over a queue of this rate and 300 ms, with feedback each 50 ms after 50 ms. Returns the
    /// mean rate that arrives in the last half.
    fn over_a_queue(name: &str, bps: u64, seconds: u64) -> f64 {
        let mut engine = engine(name, 300);
        let (mut now, mut free, mut owed, mut arrived) = (at(0), at(0), 0.0, 0u64);
        let mut reports: VecDeque<(Timestamp, Report)> = VecDeque::new();
        for step in 0..seconds * 1000 {
            now = at(step * 1000);
            if engine.next_timeout().is_some_and(|due| due <= now) {
                engine.on_timeout(now, &QueueState::default());
            }
            owed += f64::from(engine.estimate()) / 8e6;
            while owed >= 1.0 {
                owed -= 1.0;
                let passed = now + TimeDelta::from_nanos(1);
                engine.on_leaving(now, SIZE);
                engine.on_handled(passed);
                now += TimeDelta::from_nanos(10);
                let is_lost = free.saturating_since(now) > TimeDelta::from_millis(300);
                if !is_lost {
                    free = free.max(now) + DataRate::from_bps(bps).time_for(SIZE).unwrap();
                }
                let number = engine.sent_packets as u16;
                let arrived = (!is_lost).then(|| PeerTimestamp::from_nanos(free.as_nanos() + 77));
                let report = Report { number, passed: Some(passed), arrived };
                reports.push_back((free + TimeDelta::from_millis(50), report));
            }
            if step % 50 == 0 {
                let due = reports.partition_point(|(at, _)| *at <= now);
                let message: Vec<_> = reports.drain(..due).map(|(_, report)| report).collect();
                if !message.is_empty() {
                    engine.on_feedback(now, &message);
                    let there = message.iter().filter(|report| report.arrived.is_some()).count() as u64;
                    arrived += if step >= seconds * 500 { there } else { 0 };
                }
            }
        }
        let figures = engine.figures(now);
        assert_eq!(figures.unmatched_reports, 0, "{name}");
        assert!(figures.lost_packets * 20 < figures.sent_packets, "{name}: {figures:?}");
        assert!(figures.rtt.is_some_and(|rtt| rtt > TimeDelta::from_millis(50)), "{:?}", figures.rtt);
        arrived as f64 * 8000.0 / (seconds as f64 / 2.0)
    }

    #[test]
    fn every_adaptive_controller_follows_a_capacity() {
        for name in ["tempo", "scream:v2", "scream:rfc8298", "gcc:libwebrtc", "gcc:draft-02", "bbr", "copa"] {
            let rate = over_a_queue(name, 1_500_000, 60);
            assert!((900e3..=1_501e3).contains(&rate), "{name}: {rate}");
        }
    }
}
