//! The path of a scenario: capacity, round-trip time and queue.

use giusto_lte::{
    radio::{link::Direction, propagation::Deployment},
    trace::{OPPORTUNITY_BYTES, Position, Trace, TraceConfig},
};
use giusto_units::{DataRate, TimeDelta};

use super::super::draw::{Draw, rate, size, steps, time};
use super::BOTTLENECK;

/// Base round-trip time, s.
const RTT: (f64, f64) = (0.004, 0.4);

/// Queue, in time at the capacity, s.
const QUEUE: (f64, f64) = (0.05, 2.0);

/// The least queue, bytes: four large packets. On slow links it is longer in time.
const LEAST_QUEUE: f64 = 6000.0;

/// The queue of the bottleneck.
pub(super) enum QueueChoice {
    /// Drop-tail, or with the same probability one of all kinds of active queue management.
    Any,
    /// This one.
    Given(String),
}

giusto_units::defaults! {
    /// The path. Both directions have the same delay; the way back is not limited unless `back` says so.
    pub(super) struct Path {
        /// Capacity, or its mean, bit/s.
        pub(super) capacity: f64 = capacity,
        /// Base round-trip time, s.
        pub(super) rtt: f64 = rtt,
        /// Queue in time at the capacity, s.
        queue_time: f64 = queue_time,
        pub(super) queue: QueueChoice = QueueChoice::Any,
        /// Codepoint of the packets of media whose controller reacts to marks.
        pub(super) ecn: &'static str = "off",
        /// The rate as text; empty: the capacity.
        pub(super) rate: String = String::new(),
        /// The delay as text; empty: half of the round-trip time.
        pub(super) delay: String = String::new(),
        /// Further keys of the link.
        pub(super) more: Vec<String> = Vec::new(),
        /// Keys of the way back.
        pub(super) back: Vec<String> = Vec::new(),
        kind: u64 = 0,
        marks: u64 = 0,
    }
    /// A path without chance, with a drop-tail queue of this time at the capacity.
    pub(super) fn plain(capacity: f64, rtt: f64, queue_time: f64);
}

impl Path {
    pub(super) fn draw(draw: &mut Draw, low: f64, high: f64) -> Self {
        let capacity = draw.log_uniform(low, high);
        let (rtt, queue_time) = (draw.log_uniform(RTT.0, RTT.1), draw.log_uniform(QUEUE.0, QUEUE.1));
        // Half of the queues are drop-tail.
        let kind = if draw.chance(0.5) { 0 } else { draw.whole(1, 7) };
        let marks = draw.whole(0, 3);
        Self { kind, marks, ..Self::plain(capacity, rtt, queue_time) }
    }

    /// The capacity of the queue in bytes.
    pub(super) fn queue_bytes(&self) -> f64 {
        (self.capacity / 8.0 * self.queue_time).max(LEAST_QUEUE)
    }

    /// Makes the queue from its choice, when the capacity is known.
    pub(super) fn decide(&mut self) {
        if matches!(self.queue, QueueChoice::Given(_)) {
            return;
        }
        let limit = size(self.queue_bytes());
        // Of those that can mark, half do.
        let marks = self.marks < 2;
        let classic = if marks { "ect0" } else { "off" };
        let (text, ecn) = match self.kind {
            1 => (format!("{{ kind = \"codel\", limit = {limit} }}"), classic),
            2 => {
                let packets = (self.queue_bytes() / 1200.0).round().max(8.0) as u64;
                (format!("{{ kind = \"fq-codel\", limit = \"{packets} packets\" }}"), classic)
            }
            3 => (format!("{{ kind = \"pie\", limit = {limit} }}"), classic),
            4 => (format!("{{ kind = \"red\", limit = {limit} }}"), classic),
            5 => {
                let ecn = ["ect1", "ect0", "off", "off"].get(self.marks as usize).copied();
                (format!("{{ kind = \"dualpi2\", limit = {limit} }}"), ecn.unwrap_or("off"))
            }
            6 => (format!("{{ kind = \"step-mark\", limit = {limit} }}"), if marks { "ect1" } else { "off" }),
            7 => (format!("{{ kind = \"delay-threshold\", limit = {limit}, ecn = {marks} }}"), classic),
            _ => (format!("{{ kind = \"drop-tail\", limit = {limit} }}"), "off"),
        };
        (self.queue, self.ecn) = (QueueChoice::Given(text), ecn);
    }

    /// The link of a scenario file.
    pub(super) fn text(&self) -> String {
        let or = |text: &String, otherwise: String| if text.is_empty() { otherwise } else { text.clone() };
        let rate = or(&self.rate, rate(self.capacity));
        let delay = or(&self.delay, time(self.rtt / 2.0));
        let queue = match &self.queue {
            QueueChoice::Given(text) => text.as_str(),
            QueueChoice::Any => "\"drop-tail\"",
        };
        let more = self.more.iter().fold(String::new(), |text, key| text + key + "\n");
        let defaults = ["rate = \"unlimited\"", "queue = \"drop-tail\"", "loss = 0.0"];
        let key = |text: &str| text.split('=').next().unwrap_or_default().to_owned();
        let given: Vec<String> = self.back.iter().map(|text| key(text)).collect();
        let defaults =
            defaults.iter().filter(|text| !given.contains(&key(text))).map(|text| (*text).to_owned());
        let back: Vec<String> = self.back.iter().cloned().chain(defaults).collect();
        format!(
            "[[link]]\nid = \"{BOTTLENECK}\"\nfrom = \"sender\"\nto = \"receiver\"\nrate = {rate}\ndelay = {delay}\nqueue = {queue}\n{more}\
             reverse = {{ {}, jitter = \"none\", reorder = false }}\n\n",
            back.join(", ")
        )
    }
}

/// Width of the steps of an LTE trace, ms.
const LTE_STEP_MS: u32 = 20;

/// The rate of a user of a simulated LTE network as text, its mean and its maximum over a second, bit/s.
/// `None` if `ends` was true before it was simulated.
pub(super) fn lte(draw: &mut Draw, duration: f64, ends: &dyn Fn() -> bool) -> Option<(String, f64, f64)> {
    let down = draw.chance(0.7);
    let load = if down { draw.uniform(0.0, 10e6) } else { draw.uniform(0.0, 4e6) };
    let speed_kmh = draw.pick(&[3.0, 30.0, 120.0], 3.0);
    let position = draw.pick(&Position::ALL, Position::Middle);
    let config = TraceConfig {
        seed: draw.bits(),
        direction: if down { Direction::Downlink } else { Direction::Uplink },
        position,
        load: DataRate::from_bps(load as u64),
        duration: TimeDelta::from_seconds_f64(duration),
        deployment: Deployment { speed_mps: speed_kmh / 3.6, ..Deployment::case_1() },
        ..TraceConfig::default()
    };
    // All settings are within their ranges: a test finds no empty trace.
    let trace = Trace::new_unless(&config, ends).transpose()?;
    let deliveries = trace.map(|trace| trace.deliveries_ms).unwrap_or_default();
    let windows = (duration * 1e3) as u32 / LTE_STEP_MS;
    let in_window = |from: u32, width: u32| {
        let until = |ms: u32| deliveries.partition_point(|&at| at <= ms);
        let packets = until(from + width).saturating_sub(until(from)) as f64;
        packets * f64::from(OPPORTUNITY_BYTES * 8) / f64::from(width) * 1e3
    };
    let mean = in_window(0, windows * LTE_STEP_MS).max(50e3);
    let seconds = 0..windows * LTE_STEP_MS / 1000;
    let peak = seconds.map(|second| in_window(second * 1000, 1000)).fold(mean, f64::max);
    let mut rates: Vec<(f64, String)> = Vec::new();
    for window in 0..windows {
        let bps = in_window(window * LTE_STEP_MS, LTE_STEP_MS);
        let text = if bps > 0.0 { rate(bps) } else { "\"0\"".to_owned() };
        if rates.last().is_none_or(|(_, before)| *before != text) {
            rates.push((f64::from(window * LTE_STEP_MS) / 1e3, text));
        }
    }
    // An outage must end, if only after the run.
    rates.push((duration, rate(mean)));
    Some((steps(rates), mean, peak))
}
