//! What happens to a series: outages, changes of the path, bounds that are crossed and kept again.

use std::collections::VecDeque;

use giusto::scenario::Thresholds;
use giusto_units::TimeDelta;

use crate::{
    metric::{Figures, Metric},
    sample::{Path, Sample},
};

/// So many shortest round-trip times on either side show a shift.
const SHIFT: usize = 3;
/// The smallest shift of the shortest round-trip time, in ms and as a share of it.
const SHIFT_MS: f64 = 0.5;
const SHIFT_SHARE: f64 = 0.1;

/// A bound of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// There are results at all.
    Reachable,
    /// Loss.
    Loss,
    /// 99th percentile of the round-trip time.
    RttP99,
    /// 99th percentile of the one-way delay.
    DelayP99,
    /// 99th percentile of the frame delay of a call.
    FrameDelayP99,
    /// Mean opinion score.
    Mos,
}

giusto_units::names!(Bound {
    Reachable = "reachable",
    Loss = "loss",
    RttP99 = "rtt_p99",
    DelayP99 = "delay_p99",
    FrameDelayP99 = "frame_delay_p99",
    Mos = "mos",
});

impl Bound {
    /// The value and the limit, where there are both, and whether the value is out of bounds.
    fn judge(self, figures: &Figures, thresholds: &Thresholds) -> Option<(f64, f64, bool)> {
        let above = |metric, limit: Option<f64>| {
            let (value, limit) = figures.of(metric).zip(limit)?;
            Some((value, limit, value > limit))
        };
        match self {
            Self::Reachable => None,
            Self::Loss => above(Metric::Loss, thresholds.loss),
            Self::RttP99 => above(Metric::RttP99, thresholds.rtt_p99.map(TimeDelta::as_millis)),
            Self::DelayP99 => above(Metric::DelayP99, thresholds.delay_p99.map(TimeDelta::as_millis)),
            Self::FrameDelayP99 => {
                above(Metric::FrameDelayP99, thresholds.frame_delay_p99.map(TimeDelta::as_millis))
            }
            Self::Mos => {
                let (value, limit) = figures.of(Metric::Mos).zip(thresholds.mos)?;
                Some((value, limit, value < limit))
            }
        }
    }
}

/// What has happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// From this slot on there are no results.
    OutageBegan(String),
    /// There are results again.
    OutageEnded,
    /// Datagrams were lost without interruption for so many seconds.
    Hole(f64),
    /// The path is another one.
    Path(String),
    /// A bound is crossed, or kept again.
    Bound {
        /// Which.
        bound: Bound,
        /// It is crossed.
        crossed: bool,
        /// The value that decided; `None` for [`Bound::Reachable`].
        value: Option<f64>,
        /// The limit.
        limit: Option<f64>,
        /// Why there is no result, or why the value may be wrong.
        reason: Option<String>,
    },
}

/// The state of a series.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    out: bool,
    bounds: [BoundState; Bound::ALL.len()],
    path: Path,
    /// The latest shortest round-trip times.
    shortest: VecDeque<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct BoundState {
    crossed: bool,
    /// Results in a row that say the contrary.
    contrary: u32,
}

impl BoundState {
    /// Whether the state changes with a result that is out of bounds or not.
    fn changes(&mut self, is_out: bool, after: u32) -> bool {
        if is_out == self.crossed {
            self.contrary = 0;
            return false;
        }
        self.contrary += 1;
        let changes = self.contrary >= after.max(1);
        if changes {
            *self = Self { crossed: is_out, contrary: 0 };
        }
        changes
    }
}

impl Watch {
    /// A series that was left with an outage or with crossed bounds.
    pub fn resumed(out: bool, crossed: impl IntoIterator<Item = Bound>) -> Self {
        let mut watch = Self { out, ..Self::default() };
        for bound in crossed {
            watch.state(bound).crossed = true;
        }
        watch
    }

    /// Whether this bound is crossed.
    pub fn is_crossed(&self, bound: Bound) -> bool {
        self.bounds.get(bound as usize).is_some_and(|state| state.crossed)
    }

    /// The changes that would end what goes on: an outage and crossed bounds.
    pub fn goes_on(&self) -> impl Iterator<Item = Change> {
        let bounds = Bound::ALL.into_iter().filter(|bound| self.is_crossed(*bound));
        let kept = bounds.map(|bound| Change::Bound {
            bound,
            crossed: false,
            value: None,
            limit: None,
            reason: None,
        });
        self.out.then_some(Change::OutageEnded).into_iter().chain(kept)
    }

    fn state(&mut self, bound: Bound) -> &mut BoundState {
        let [reachable, loss, rtt, delay, frame_delay, mos] = &mut self.bounds;
        match bound {
            Bound::Reachable => reachable,
            Bound::Loss => loss,
            Bound::RttP99 => rtt,
            Bound::DelayP99 => delay,
            Bound::FrameDelayP99 => frame_delay,
            Bound::Mos => mos,
        }
    }

    /// What a sample changes.
    pub fn on_sample(&mut self, sample: &Sample, thresholds: &Thresholds) -> Vec<Change> {
        let mut changes = Vec::new();
        let is_out = matches!(sample, Sample::Unknown(_));
        let reason = if let Sample::Unknown(reason) = sample { Some(reason.clone()) } else { None };
        if is_out != self.out {
            self.out = is_out;
            changes.push(match &reason {
                Some(reason) => Change::OutageBegan(reason.clone()),
                None => Change::OutageEnded,
            });
        }
        if self.state(Bound::Reachable).changes(is_out, thresholds.after) {
            let (value, limit) = (None, None);
            changes.push(Change::Bound { bound: Bound::Reachable, crossed: is_out, value, limit, reason });
        }
        let Sample::Measured(measured) = sample else { return changes };
        changes.extend(measured.hole_s.map(Change::Hole));
        changes.extend(self.path_change(&measured.path).map(Change::Path));
        let figures = measured.all();
        changes
            .extend(figures.of(Metric::RttMin).and_then(|shortest| self.shift(shortest)).map(Change::Path));
        for bound in Bound::ALL {
            let judged = bound.judge(&figures, thresholds);
            let is_out = judged.is_some_and(|(_, _, is_out)| is_out);
            // A bound that was taken away is kept; a figure that is missing says nothing.
            if bound == Bound::Reachable || (judged.is_none() && bound.has_limit(thresholds)) {
                continue;
            }
            if self.state(bound).changes(is_out, thresholds.after) {
                let (value, limit) = (judged.map(|(value, ..)| value), judged.map(|(_, limit, _)| limit));
                let reason = (!measured.doubts.is_empty()).then(|| measured.doubts.join("; "));
                changes.push(Change::Bound { bound, crossed: is_out, value, limit, reason });
            }
        }
        changes
    }

    fn path_change(&mut self, new: &Path) -> Option<String> {
        fn changed<T: PartialEq + ToString + Clone>(
            name: &str,
            old: &mut Option<T>,
            new: Option<&T>,
        ) -> Option<String> {
            let new = new?;
            let before = old.replace(new.clone())?;
            (before != *new).then(|| format!("{name} {} → {}", before.to_string(), new.to_string()))
        }
        let old = &mut self.path;
        let parts = [
            changed("address", &mut old.address, new.address.as_ref()),
            changed("MTU", &mut old.mtu, new.mtu.as_ref()),
            changed("DSCP", &mut old.dscp, new.dscp.as_ref()),
            changed("TTL", &mut old.ttl, new.ttl.as_ref()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Whether the latest shortest round-trip times are all above, or all below, those before by more than they differ among themselves.
    fn shift(&mut self, shortest: f64) -> Option<String> {
        self.shortest.push_back(shortest);
        if self.shortest.len() > 2 * SHIFT {
            self.shortest.pop_front();
        }
        let all: Vec<f64> = self.shortest.iter().copied().collect();
        let (before, after) = all.split_at_checked(SHIFT).filter(|(_, after)| after.len() == SHIFT)?;
        let ends = |of: &[f64]| {
            of.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &x| (low.min(x), high.max(x)))
        };
        let ((low, high), (new_low, new_high)) = (ends(before), ends(after));
        let step = if new_low > high { new_low - high } else { low - new_high };
        if step <= SHIFT_MS.max(SHIFT_SHARE * low.min(new_low))
            || step <= (high - low).max(new_high - new_low)
        {
            return None;
        }
        // The next shift is one against the new path.
        self.shortest.drain(..SHIFT);
        let middle = |of: &[f64]| of.iter().sum::<f64>() / SHIFT as f64;
        Some(format!("shortest RTT {:.2} ms → {:.2} ms", middle(before), middle(after)))
    }
}

impl Bound {
    fn has_limit(self, thresholds: &Thresholds) -> bool {
        match self {
            Self::Reachable => true,
            Self::Loss => thresholds.loss.is_some(),
            Self::RttP99 => thresholds.rtt_p99.is_some(),
            Self::DelayP99 => thresholds.delay_p99.is_some(),
            Self::FrameDelayP99 => thresholds.frame_delay_p99.is_some(),
            Self::Mos => thresholds.mos.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Measured;

    fn sample(sent: u64, lost: u64, rtt_ms: f64) -> Sample {
        let figures =
            Figures::default().with(Metric::RttMin, Some(rtt_ms)).with(Metric::RttP99, Some(rtt_ms));
        let (sent, lost) = (Some(sent), Some(lost));
        Sample::Measured(Box::new(Measured { sent, lost, figures, ..Measured::default() }))
    }

    fn down() -> Sample {
        Sample::Unknown("no answer".to_owned())
    }

    fn bounds(changes: &[Change]) -> Vec<(Bound, bool)> {
        let bound = |change: &Change| match change {
            Change::Bound { bound, crossed, .. } => Some((*bound, *crossed)),
            _ => None,
        };
        changes.iter().filter_map(bound).collect()
    }

    #[test]
    fn a_bound_is_reported_once_for_each_change_of_state() {
        let thresholds = Thresholds { loss: Some(0.01), after: 2, ..Thresholds::default() };
        let mut watch = Watch::default();
        let mut on = |lost| bounds(&watch.on_sample(&sample(1000, lost, 5.0), &thresholds));
        // 1 % is within the bound, a single result above it is none.
        for lost in [10, 11, 10, 11] {
            assert_eq!(on(lost), [], "{lost}");
        }
        assert_eq!(on(11), [(Bound::Loss, true)]);
        assert_eq!(on(500), []);
        assert_eq!(on(0), []);
        assert_eq!(on(0), [(Bound::Loss, false)]);
    }

    #[test]
    fn an_outage_is_unknown_and_leaves_other_bounds_as_they_are() {
        let thresholds =
            Thresholds { loss: Some(0.0), rtt_p99: Some(TimeDelta::from_millis(4)), ..Thresholds::default() };
        let mut watch = Watch::default();
        let first = watch.on_sample(&sample(10, 0, 5.0), &thresholds);
        assert_eq!(bounds(&first), [(Bound::RttP99, true)]);
        let began = watch.on_sample(&down(), &thresholds);
        assert_eq!(began.first(), Some(&Change::OutageBegan("no answer".to_owned())));
        assert_eq!(bounds(&began), [(Bound::Reachable, true)]);
        assert!(watch.is_crossed(Bound::RttP99) && !watch.is_crossed(Bound::Loss));
        assert_eq!(watch.on_sample(&down(), &thresholds), []);
        let ended = watch.on_sample(&sample(10, 0, 5.0), &thresholds);
        assert_eq!(ended.first(), Some(&Change::OutageEnded));
        assert_eq!(bounds(&ended), [(Bound::Reachable, false)]);
        // After a restart nothing is reported again.
        let mut again = Watch::resumed(true, [Bound::Reachable, Bound::RttP99]);
        assert_eq!(again.on_sample(&down(), &thresholds), []);
        // A bound that is taken away is kept again.
        let mut watch = Watch::resumed(false, [Bound::Loss]);
        let changes = watch.on_sample(&sample(10, 10, 5.0), &Thresholds::default());
        assert_eq!(bounds(&changes), [(Bound::Loss, false)]);
    }

    #[test]
    fn a_path_changes_by_its_marks_or_by_its_shortest_time() {
        let mut watch = Watch::default();
        let none = Thresholds::default();
        let mut paths = |rtt: f64, ttl: u8| {
            let Sample::Measured(mut measured) = sample(10, 0, rtt) else { unreachable!() };
            measured.path.ttl = Some(ttl);
            let changes = watch.on_sample(&Sample::Measured(measured), &none).into_iter();
            let path = |change| if let Change::Path(text) = change { Some(text) } else { None };
            changes.filter_map(path).collect::<Vec<_>>()
        };
        for rtt in [10.0, 10.2, 10.1, 10.3, 10.0] {
            assert_eq!(paths(rtt, 60), [] as [&str; 0], "{rtt}");
        }
        assert_eq!(paths(10.1, 58), ["TTL 60 → 58"]);
        // One slow result is no other path; three are.
        for rtt in [14.0, 10.1, 10.2, 10.1, 14.1, 14.0] {
            assert_eq!(paths(rtt, 58), [] as [&str; 0], "{rtt}");
        }
        assert_eq!(paths(14.2, 58), ["shortest RTT 10.13 ms → 14.10 ms"]);
        assert_eq!((paths(14.1, 58), paths(14.0, 58)), (vec![], vec![]));
    }
}
