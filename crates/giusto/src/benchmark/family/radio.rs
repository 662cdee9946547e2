//! Families after measurements of radio links and outages. `docs/reference/benchmark.md` names the sources.

use giusto_units::math;

use super::{
    super::draw::{rate, steps, time},
    Sketch,
};

/// What a sketch has for a time without service.
const NONE: &str = "\"0\"";

/// Rates over time as they are drawn: a list of times in s and rates as text.
type Rates = Vec<(f64, String)>;

impl Sketch {
    /// The link is down at the start, once, or again and again.
    pub(super) fn outages(&mut self) {
        let whole = rate(self.path.capacity);
        let kind = self.own.whole(0, 2);
        let every = self.own.log_uniform(5.0, 20.0);
        let mut from = match kind {
            0 => 0.0,
            _ => self.own.uniform(7.0, 15.0),
        };
        let mut rates: Rates = vec![(0.0, whole.clone())];
        while from < self.duration - 8.0 {
            let until = from + self.own.log_uniform(0.3, 5.0);
            if from <= 0.0 {
                rates.clear();
            }
            rates.push((from, NONE.to_owned()));
            rates.push((until, whole.clone()));
            from = if kind == 2 { until + every * self.own.uniform(0.5, 1.5) } else { f64::INFINITY };
        }
        self.alone_on(steps(rates), self.path.capacity);
    }

    /// Jitter of more than a frame interval that keeps the order: whole frames are delayed together.
    pub(super) fn in_order_jitter(&mut self) {
        let spread = self.own.uniform(0.02, 0.06);
        self.path.more.push(if self.own.chance(0.5) {
            format!("jitter = {{ kind = \"truncated-gaussian\", std = {} }}", time(spread))
        } else {
            format!("jitter = {{ kind = \"uniform\", max = {} }}", time(2.0 * spread))
        });
        self.alone();
    }

    /// Aggregates between the transmissions of others that contend, and droughts.
    pub(super) fn wifi(&mut self) {
        let draw = &mut self.own;
        let (low, high) = (1e6, 50e6);
        self.path.capacity = draw.log_uniform(low, high);
        // Of a cycle, the part of one among this many stations is ours.
        let usual = draw.whole(2, 6);
        let physical = self.path.capacity * (usual + 1) as f64;
        let drought_every = draw.log_uniform(3.0, 20.0);
        let mut rates: Rates = Vec::new();
        let (mut now, mut others, mut changes) = (0.0, usual, 0.0);
        let mut drought = draw.exponential(drought_every);
        while now < self.duration {
            if now >= changes {
                // Others come and go.
                others = draw.whole(usual - 1, usual + 1);
                changes = now + draw.uniform(0.5, 3.0);
            }
            rates.push((now, rate(physical)));
            now += draw.uniform(0.001, 0.004);
            rates.push((now, NONE.to_owned()));
            now += (0..others).map(|_| draw.uniform(0.001, 0.004) + draw.exponential(0.000_1)).sum::<f64>();
            if now >= drought {
                now += draw.log_uniform(0.05, 0.4);
                drought = now + draw.exponential(drought_every);
            }
        }
        // An outage must end, if only after the run.
        rates.push((now, rate(self.path.capacity)));
        self.alone_on(steps(rates), self.path.capacity);
    }

    /// Every 15 s another satellite: capacity and delay change, after an interruption.
    pub(super) fn starlink(&mut self) {
        let draw = &mut self.own;
        self.duration = STARLINK_DURATION;
        self.path.capacity = draw.log_uniform(2e6, 50e6);
        self.path.rtt = draw.uniform(0.025, 0.06);
        let mut peak = self.path.capacity;
        let (mut rates, mut delays): (Rates, Rates) = (Vec::new(), Vec::new());
        let (mut from, mut until) = (0.0, draw.uniform(1.0, RECONFIGURATION));
        while from < self.duration {
            let ratio = math::exp(0.35 * draw.normal()).clamp(0.4, 2.0);
            let one_way = (self.path.rtt / 2.0 + draw.uniform(-0.006, 0.012)).max(0.01);
            delays.push((from, time(one_way)));
            let mut now = from;
            if from > 0.0 {
                rates.push((from, NONE.to_owned()));
                // Most are short; outages of a second or more are rare.
                now += if draw.chance(0.05) { draw.uniform(1.0, 2.0) } else { draw.log_uniform(0.02, 0.15) };
            }
            while now < until {
                let bps = self.path.capacity * ratio * math::exp(0.1 * draw.normal());
                peak = peak.max(bps);
                rates.push((now, rate(bps)));
                now += 0.2;
            }
            (from, until) = (until, until + RECONFIGURATION);
        }
        self.path.delay = steps(delays);
        self.alone_on(steps(rates), peak);
    }

    /// Cells whose capacities differ up to tenfold, with an interruption between them.
    pub(super) fn handovers(&mut self) {
        let draw = &mut self.own;
        let most = self.path.capacity.max(1e6);
        let dwell = draw.log_uniform(3.0, 15.0);
        let mut rates: Rates = Vec::new();
        let (mut now, mut carried) = (0.0, 0.0);
        while now < self.duration {
            let cell = most / math::exp(draw.uniform(0.0, math::ln(10.0)));
            if now > 0.0 {
                rates.push((now, NONE.to_owned()));
                now += draw.log_uniform(0.03, 0.5);
            }
            let until = now + dwell * draw.uniform(0.5, 1.5);
            while now < until {
                let bps = cell * math::exp(0.15 * draw.normal());
                rates.push((now, rate(bps)));
                carried += 0.2 * bps;
                now += 0.2;
            }
        }
        self.path.capacity = carried / now;
        self.alone_on(steps(rates), most);
    }
}

/// Simulated time of a run with satellites, s, and the time from one to the next.
const STARLINK_DURATION: f64 = 60.0;
const RECONFIGURATION: f64 = 15.0;
