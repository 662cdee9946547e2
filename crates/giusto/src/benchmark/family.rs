//! The families of scenarios, and the distributions that they are drawn from.

mod media;
mod path;
mod radio;
mod recorded;

use giusto_congestion::Algorithm;
use serde::{Deserialize, Serialize};

pub(super) use self::recorded::{OF_WINDOW, RecordedWindow, of_recording};
use self::{
    media::{Call, Encoder},
    path::{Path, QueueChoice},
};
use super::{
    VERSION,
    draw::{Draw, rate, ratio, seed_of, size, steps, time},
};
use crate::scenario::{Scenario, ScenarioError};

/// The prefix of the ids of the judged flows.
pub(crate) const JUDGED: &str = "call";

/// The id of the judged link.
pub(crate) const BOTTLENECK: &str = "bottleneck";

/// The stand-ins in the text of a scenario for what depends on the controller: its name, and the codepoint of its packets.
const CONTROLLER: &str = "@controller@";
const ECN: &str = "@ecn ";

/// Capacity of the bottleneck, bit/s.
const CAPACITY: (f64, f64) = (0.1e6, 50e6);

/// Simulated time of a run, s, and of one in which flows share.
const DURATION: f64 = 40.0;
const SHARED_DURATION: f64 = 80.0;

/// A family for each row: its variant, its name, and what happens in it, in Markdown.
macro_rules! families {
    ($($variant:ident $name:literal $happens:literal)*) => {
        /// A family of scenarios.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Family {
            $(#[doc = $happens] $variant,)*
        }

        giusto_units::names!(Family { $($variant = $name),* });

        /// The names and what happens, in the order of [`Family::ALL`].
        #[cfg(test)]
        pub(super) const FAMILIES: [(&str, &str); 23] = [$(($name, $happens)),*];
    };
}

families! {
    Static "static" "nothing changes"
    StepUp "step-up" "at 14–18 s the capacity is multiplied by log 1.5–6"
    StepDown "step-down" "at 14–18 s the capacity is divided by log 1.5–6"
    Fades "fades" "a random walk; fades of 0.1–1 s to log 0.02–0.4"
    Lte "lte" "a user in a new LTE network"
    Stalls "stalls" "the link stops for log 20–300 ms, once in log 0.3–4 s"
    RandomLoss "random-loss" "½ lose log 0.1–6 %, ½ 6–20 %"
    BurstLoss "burst-loss" "Gilbert–Elliott: mean log 0.5–10 %, bursts of log 2–20 packets"
    Jitter "jitter" "jitter of log 1–30 ms; ½ reorders packets"
    ReturnPath "return-path" "feedback: loss log 2–50 %, or log 64–1000 kbit/s with other traffic, or both"
    Policer "policer" "a token bucket of rate *C* and burst log 10–300 ms"
    LongTcp "long-tcp" "one CUBIC, NewReno, BBR or Prague connection"
    ShortTcp "short-tcp" "2–10 senders of short transfers"
    EqualCalls "equal-calls" "2–8 calls"
    MixedCalls "mixed-calls" "1–3 judged calls and 1–3 of `gcc:libwebrtc`, `scream:v2` or `nada`"
    ApplicationLimited "application-limited" "an encoder below *C*, or pauses of log 0.5–8 s, or both"
    RouteChange "route-change" "at 14–18 s capacity (log 0.25–4 times), RTT and loss change; half are notified"
    L4s "l4s" "DualPI2, ECT(1)"
    Outages "outages" "down for log 0.3–5 s: at the start, once, or every log 5–20 s"
    InOrderJitter "in-order-jitter" "jitter of 20–60 ms, without reordering"
    Wifi "wifi" "*C* from 1 Mbit/s; aggregates of 1–4 ms between those of 1–7 others; droughts of log 50–400 ms each log 3–20 s"
    Starlink "starlink" "*C* from 2 Mbit/s, RTT 25–60 ms; every 15 s down for log 20–150 ms (1 of 20: 1–2 s), then another capacity and delay; 60 s"
    Handovers "handovers" "cells of 1 to 1/10 of *C* for 1.5–22 s; down for log 30–500 ms between them"
}

impl Family {
    /// The family of scenario number `number`.
    pub fn of(number: u64) -> Self {
        let place = number % Self::ALL.len() as u64;
        Self::ALL.get(place as usize).copied().unwrap_or(Self::Static)
    }
}

/// A drawn scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// Its seed; empty with a recording.
    pub seed: String,
    /// Its number.
    pub number: u64,
    /// Its family: [`Family::name`], or what a recording belongs to.
    pub family: String,
    /// The window of a recording that its link repeats.
    pub recording: Option<String>,
    /// The moment at which the path changes, in seconds, if it changes once.
    pub change_s: Option<f64>,
    /// Ratio of the capacity after the change to that before, if it changes once.
    pub change_ratio: Option<f64>,
    /// Base round-trip time before any change, ms.
    pub rtt_ms: f64,
    /// What the judged flows share the bottleneck with: `cubic`, ….
    pub rival: Option<String>,
    /// Share of packets that the path loses, where the family is that of independent losses.
    pub random_loss: Option<f64>,
    text: String,
}

impl Drawn {
    /// The scenario as a file, in which `controller` is judged.
    ///
    /// The packets of a controller that does not react to congestion marks do not carry an ECN codepoint.
    pub fn text(&self, controller: Algorithm) -> String {
        self.written(controller.name(), controller.requirements().marks)
    }

    pub(super) fn written(&self, controller: &str, marks: bool) -> String {
        let mut text = self.text.replace(CONTROLLER, controller);
        for own in ["off", "ect0", "ect1"] {
            let codepoint = if marks { own } else { "off" };
            text = text.replace(&format!("{ECN}{own}@"), codepoint);
        }
        text
    }

    /// The scenario, in which `controller` is judged.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] if the scenario is not valid, which is a bug.
    pub fn scenario(&self, controller: Algorithm) -> Result<Scenario, ScenarioError> {
        let text = self.written("fixed", controller.requirements().marks);
        let scenario = Scenario::parse(&text, "benchmark")?;
        let judged: Vec<String> = judged(&scenario).map(str::to_owned).collect();
        judged.iter().try_fold(scenario, |scenario, id| scenario.with_controller(id, controller))
    }
}

/// The ids of the judged flows.
pub(super) fn judged(scenario: &Scenario) -> impl Iterator<Item = &str> {
    scenario.flows().iter().map(|flow| flow.id.as_str()).filter(|id| id.starts_with(JUDGED))
}

/// Draws scenario number `number` of `seed`.
#[expect(clippy::expect_used, reason = "only an end that is asked for leaves nothing")]
#[expect(clippy::missing_panics_doc, reason = "nothing ends it")]
pub fn draw(seed: &str, number: u64) -> Drawn {
    draw_unless(seed, number, &|| false).expect("nothing ends it")
}

/// Draws scenario number `number` of `seed`; `None` if `ends` was true before it was drawn. A scenario of `lte` takes seconds.
pub fn draw_unless(seed: &str, number: u64, ends: &dyn Fn() -> bool) -> Option<Drawn> {
    let family = Family::of(number);
    let mut sketch = Sketch::new(seed_of(seed, number));
    sketch.fill(family, ends)?;
    let rtt_ms = sketch.path.rtt * 1e3;
    let text = format!(
        "# giusto benchmark, version {VERSION}: scenario {number} of seed {seed:?}\n\
         name = \"{} {number}\"\nduration = {}\nseed = {}\n\n{}{}",
        family.name(),
        time(sketch.duration),
        sketch.seed,
        sketch.path.text(),
        sketch.flows.concat(),
    );
    Some(Drawn {
        seed: seed.to_owned(),
        number,
        family: family.name().to_owned(),
        recording: None,
        change_s: sketch.change.map(|(at, _)| at),
        change_ratio: sketch.change.map(|(_, ratio)| ratio),
        rtt_ms,
        rival: sketch.rival.map(str::to_owned),
        random_loss: sketch.lost,
        text,
    })
}

/// A scenario that is being drawn.
struct Sketch {
    seed: u64,
    duration: f64,
    path: Path,
    encoder: Encoder,
    flows: Vec<String>,
    change: Option<(f64, f64)>,
    rival: Option<&'static str>,
    lost: Option<f64>,
    /// The random numbers of what distinguishes the family.
    own: Draw,
}

impl Sketch {
    fn new(seed: u64) -> Self {
        let path = Path::draw(&mut Draw::new(seed, "path"), CAPACITY.0, CAPACITY.1);
        let encoder = Encoder::draw(&mut Draw::new(seed, "encoder"));
        let own = Draw::new(seed, "family");
        Self {
            seed,
            duration: DURATION,
            path,
            encoder,
            flows: Vec::new(),
            change: None,
            rival: None,
            lost: None,
            own,
        }
    }

    /// `None` if `ends` was true before it was filled.
    fn fill(&mut self, family: Family, ends: &dyn Fn() -> bool) -> Option<()> {
        match family {
            Family::Static => self.alone(),
            Family::StepUp => self.step(true),
            Family::StepDown => self.step(false),
            Family::Fades => self.fades(),
            Family::Lte => self.lte(ends)?,
            Family::Stalls => self.stalls(),
            Family::RandomLoss => self.random_loss(),
            Family::BurstLoss => self.burst_loss(),
            Family::Jitter => self.jitter(),
            Family::ReturnPath => self.return_path(),
            Family::Policer => self.policer(),
            Family::LongTcp => self.long_tcp(),
            Family::ShortTcp => self.short_tcp(),
            Family::EqualCalls => self.equal_calls(),
            Family::MixedCalls => self.mixed_calls(),
            Family::ApplicationLimited => self.application_limited(),
            Family::RouteChange => self.route_change(),
            Family::L4s => self.l4s(),
            Family::Outages => self.outages(),
            Family::InOrderJitter => self.in_order_jitter(),
            Family::Wifi => self.wifi(),
            Family::Starlink => self.starlink(),
            Family::Handovers => self.handovers(),
        }
        Some(())
    }

    /// One call that uses at most `peak` bit/s.
    fn call_up_to(&mut self, peak: f64) {
        let call = Call { share: self.path.capacity, peak, ecn: self.path.ecn, ..Call::new(JUDGED) };
        self.flows.push(self.encoder.text(&call));
    }

    /// One call, and a queue of any kind.
    fn alone(&mut self) {
        self.path.decide();
        self.call_up_to(self.path.capacity);
    }

    /// One call on a capacity that varies.
    fn alone_on(&mut self, rates: String, peak: f64) {
        self.path.decide();
        self.path.rate = rates;
        self.call_up_to(peak);
    }

    fn step(&mut self, up: bool) {
        let ratio = if up {
            self.own.log_uniform(1.5, 6.0)
        } else if self.own.chance(0.5) {
            3.0
        } else {
            self.own.log_uniform(1.5, 6.0)
        };
        // Both rates are within the range of capacities.
        let low = lower_capacity(&mut self.own, ratio);
        let (before, after) = if up { (low, low * ratio) } else { (low * ratio, low) };
        let at = self.own.uniform(14.0, 18.0);
        self.path.capacity = before;
        self.change = Some((at, after / before));
        self.alone_on(steps([(0.0, rate(before)), (at, rate(after))]), low * ratio);
    }

    /// A random walk of the logarithm, every 100 ms, that returns to its mean, with fades.
    fn fades(&mut self) {
        let draw = &mut self.own;
        let (pull, spread) = (draw.log_uniform(0.01, 0.2), draw.uniform(0.03, 0.2));
        let every = draw.log_uniform(2.0, 15.0);
        let (mut walk, mut fade_for, mut depth) = (0.0_f64, 0_u64, 1.0_f64);
        let mut peak = self.path.capacity;
        let mut rates = Vec::new();
        for step in 0..(DURATION * 10.0) as u32 {
            walk += spread * draw.normal() - pull * walk;
            walk = walk.clamp(-1.5, 1.0);
            if fade_for > 0 {
                fade_for -= 1;
            } else if draw.chance(0.1 / every) {
                (fade_for, depth) = (draw.whole(0, 9), draw.log_uniform(0.02, 0.4));
            } else {
                depth = 1.0;
            }
            let bps = (self.path.capacity * giusto_units::math::exp(walk) * depth).clamp(5e3, 50e6);
            peak = peak.max(bps);
            rates.push((f64::from(step) / 10.0, rate(bps)));
        }
        self.alone_on(steps(rates), peak);
    }

    fn lte(&mut self, ends: &dyn Fn() -> bool) -> Option<()> {
        let (rates, mean, peak) = path::lte(&mut self.own, self.duration, ends)?;
        self.path.capacity = mean;
        self.alone_on(rates, peak);
        Some(())
    }

    fn stalls(&mut self) {
        let (every, length) = (self.own.log_uniform(0.3, 4.0), self.own.log_uniform(0.02, 0.3));
        let whole = rate(self.path.capacity);
        let mut rates = vec![(0.0, whole.clone())];
        let mut now = 1.0 + self.own.exponential(every);
        while now < self.duration - 1.0 {
            let until = now + (length * self.own.uniform(0.3, 1.7)).max(0.005);
            rates.push((now, "\"0\"".to_owned()));
            rates.push((until, whole.clone()));
            now = until + 0.02 + self.own.exponential(every);
        }
        self.alone_on(steps(rates), self.path.capacity);
    }

    fn random_loss(&mut self) {
        let lost = if self.own.chance(0.5) {
            self.own.log_uniform(0.001, 0.06)
        } else {
            self.own.uniform(0.06, 0.2)
        };
        self.lost = Some(lost);
        self.path.more.push(format!("loss = {}", ratio(lost)));
        self.repair_mostly();
        self.alone();
    }

    fn burst_loss(&mut self) {
        let (mean, packets) = (self.own.log_uniform(0.005, 0.1), self.own.log_uniform(2.0, 20.0));
        // In the bad state 70 to 100 % are lost; the share of the bad state follows from the mean.
        let bad = self.own.uniform(0.7, 1.0);
        let (to_good, in_bad) = (1.0 / packets, mean / bad);
        let to_bad = to_good * in_bad / (1.0 - in_bad);
        self.path.more.push(format!(
            "loss = {{ kind = \"gilbert-elliott\", to-bad = {}, to-good = {}, bad = {} }}",
            ratio(to_bad),
            ratio(to_good),
            ratio(bad)
        ));
        self.repair_mostly();
        self.alone();
    }

    /// Where every controller loses packets, most calls repair them: without it, so few frames are whole that nothing else counts.
    fn repair_mostly(&mut self) {
        self.encoder.repair = self.own.chance(0.8);
    }

    fn jitter(&mut self) {
        let spread = self.own.log_uniform(0.001, 0.03);
        self.path.more.push(if self.own.chance(0.5) {
            format!("jitter = {{ kind = \"truncated-gaussian\", std = {} }}", time(spread))
        } else {
            format!("jitter = {{ kind = \"uniform\", max = {} }}", time(2.0 * spread))
        });
        if self.own.chance(0.5) {
            self.path.more.push("reorder = true".to_owned());
        }
        self.alone();
    }

    fn return_path(&mut self) {
        let kind = self.own.whole(0, 2);
        if kind != 1 {
            self.path.back.push(format!("loss = {}", ratio(self.own.log_uniform(0.02, 0.5))));
        }
        if kind != 0 {
            let back = self.own.log_uniform(64e3, 1e6);
            let queue = self.own.log_uniform(0.05, 0.5);
            self.path.back.push(format!("rate = {}", rate(back)));
            self.path.back.push(format!("queue = {{ kind = \"drop-tail\", limit = {} }}", time(queue)));
            let (load, on, off) =
                (self.own.uniform(0.7, 1.3), self.own.uniform(0.3, 4.0), self.own.uniform(0.3, 4.0));
            self.flows.push(format!(
                "[[flow]]\nid = \"cross\"\nkind = \"on-off\"\nfrom = \"receiver\"\nto = \"sender\"\nrate = {}\nsize = \"1000 B\"\n\
                 on = {{ exponential = {} }}\noff = {{ exponential = {} }}\n\n",
                rate(back * load),
                time(on),
                time(off)
            ));
        }
        self.alone();
    }

    fn policer(&mut self) {
        let (burst, faster) = (self.own.log_uniform(0.01, 0.3), self.own.log_uniform(1.5, 10.0));
        let bytes = (self.path.capacity / 8.0 * burst).max(6000.0);
        self.path.queue = QueueChoice::Given(format!(
            "{{ kind = \"policer\", rate = {}, burst = {} }}",
            rate(self.path.capacity),
            size(bytes)
        ));
        self.path.decide();
        self.path.rate = rate(self.path.capacity * faster);
        self.call_up_to(self.path.capacity);
    }

    fn long_tcp(&mut self) {
        self.share(0.3e6);
        let control = self.own.pick(&["cubic", "new-reno", "bbr", "prague", "cubic", "new-reno"], "cubic");
        self.rival = Some(control);
        let start = if self.own.chance(0.5) { 0.0 } else { self.own.uniform(0.0, 15.0) };
        self.flows.push(format!(
            "[[flow]]\nid = \"tcp\"\nkind = \"tcp\"\ncontrol = \"{control}\"\nfrom = \"sender\"\nto = \"receiver\"\nstart = {}\n\n",
            time(start)
        ));
        self.path.decide();
        let call = Call {
            share: self.path.capacity / 2.0,
            peak: self.path.capacity,
            ecn: self.path.ecn,
            ..Call::new(JUDGED)
        };
        self.flows.push(self.encoder.text(&call));
    }

    fn short_tcp(&mut self) {
        self.share(0.3e6);
        let count = self.own.whole(2, 10);
        let load = self.own.uniform(0.1, 0.4);
        let idle = self.own.log_uniform(1.0, 8.0);
        // Each flow has one transfer in about its idle time, so that all together offer `load` of the capacity.
        let mean = (self.path.capacity * load / count as f64 * idle / 8.0).max(3000.0);
        let control = self.own.pick(&["cubic", "new-reno", "bbr"], "cubic");
        self.rival = Some(control);
        self.flows.push(format!(
            "[[flow]]\nid = \"short\"\nkind = \"short-flows\"\ncontrol = \"{control}\"\nfrom = \"sender\"\nto = \"receiver\"\ncount = {count}\n\
             size = [{}, {}]\nidle = {}\n\n",
            size(mean * 0.5),
            size(mean * 1.5),
            time(idle)
        ));
        self.alone();
    }

    /// The capacity and the duration of scenarios in which several flows share.
    fn share(&mut self, least: f64) {
        self.duration = SHARED_DURATION;
        let draw = &mut Draw::new(self.seed, "shared capacity");
        self.path.capacity = draw.log_uniform(least, CAPACITY.1);
    }

    fn equal_calls(&mut self) {
        let count = self.own.whole(2, 8);
        self.share(0.15e6 * count as f64);
        self.calls(JUDGED, CONTROLLER, count, count);
    }

    fn mixed_calls(&mut self) {
        let (own, others) = (self.own.whole(1, 3), self.own.whole(1, 3));
        self.share(0.15e6 * (own + others) as f64);
        let other = self.own.pick(&["gcc:libwebrtc", "scream:v2", "nada"], "gcc:libwebrtc");
        self.rival = Some(other);
        self.calls(JUDGED, CONTROLLER, own, own + others);
        self.calls("other", other, others, own + others);
    }

    /// `count` calls among `all`, half of which start at once and the others within 30 s.
    fn calls(&mut self, id: &str, controller: &str, count: u64, all: u64) {
        self.path.decide();
        let capacity = self.path.capacity;
        for number in 1..=count {
            let late = number > count.div_ceil(2) || self.own.chance(0.2);
            let start = if late { self.own.uniform(5.0, 30.0) } else { self.own.uniform(0.0, 1.0) };
            let id = format!("{id}-{number}");
            let call =
                Call { start, controller, share: capacity / all as f64, peak: capacity, ..Call::new(&id) };
            // Only the judged controller has the codepoint of its own.
            let ecn = if controller == CONTROLLER { self.path.ecn } else { "off" };
            self.flows.push(self.encoder.text(&Call { ecn, ..call }));
        }
    }

    fn application_limited(&mut self) {
        self.encoder.limited = self.own.chance(0.5).then(|| self.own.uniform(0.2, 0.9));
        if self.encoder.limited.is_none() || self.own.chance(0.5) {
            let mut pauses = Vec::new();
            let mut now = self.own.uniform(6.0, 12.0);
            while now < self.duration - 4.0 {
                let until = (now + self.own.log_uniform(0.5, 8.0)).min(self.duration - 2.0);
                pauses.push(format!("[{}, {}]", time(now), time(until)));
                now = until + self.own.uniform(2.0, 10.0);
            }
            self.encoder.more.push(format!("pauses = [{}]", pauses.join(", ")));
        }
        if self.own.chance(0.5) {
            self.encoder.more.push("audio = \"20 kbit/s\"".to_owned());
        }
        self.alone();
    }

    fn route_change(&mut self) {
        let draw = &mut self.own;
        let at = draw.uniform(14.0, 18.0);
        let before = self.path.capacity;
        let after = (before * draw.log_uniform(0.25, 4.0)).clamp(CAPACITY.0, CAPACITY.1);
        let rtt = draw.log_uniform(0.004, 0.4);
        let mut lost = [0.0; 2];
        for lost in &mut lost {
            *lost = if draw.chance(0.5) { 0.0 } else { draw.log_uniform(0.001, 0.05) };
        }
        let [from, to] = lost.map(ratio);
        self.path.more.push(format!("loss = {}", steps([(0.0, from), (at, to)])));
        let delays = [(0.0, time(self.path.rtt / 2.0)), (at, time(rtt / 2.0))];
        self.path.delay = steps(delays);
        if draw.chance(0.5) {
            self.encoder.more.push(format!("route-changes = [{}]", time(at)));
        }
        self.change = Some((at, after / before));
        self.alone_on(steps([(0.0, rate(before)), (at, rate(after))]), before.max(after));
    }

    fn l4s(&mut self) {
        let bytes = self.path.queue_bytes();
        self.path.queue = QueueChoice::Given(format!("{{ kind = \"dualpi2\", limit = {} }}", size(bytes)));
        self.path.decide();
        self.path.ecn = "ect1";
        self.call_up_to(self.path.capacity);
    }
}

/// The lower of two capacities of this ratio, log-uniform.
fn lower_capacity(draw: &mut Draw, ratio: f64) -> f64 {
    draw.log_uniform(CAPACITY.0, CAPACITY.1 / ratio)
}
