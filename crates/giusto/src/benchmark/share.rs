//! The max-min fair share of the bottleneck of each judged flow.

use giusto_units::{TimeDelta, Timestamp};

use super::family::{BOTTLENECK, JUDGED};
use crate::scenario::{FlowKind, FlowSpec, LinkSpec, MediaSpec, QueueSpec, Scenario, Start, Transfers};

/// Width of the bins of shares and of received data.
pub(crate) const BIN: TimeDelta = TimeDelta::from_millis(100);

/// Start-up of a judged flow that no figure contains.
pub(crate) const START_UP: TimeDelta = TimeDelta::from_seconds(5);

/// What the judged flows of a scenario could carry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FairShares {
    /// The judged flows, in the order of the scenario.
    pub(crate) flows: Vec<FairShare>,
    /// Whether nothing competes with the only judged flow.
    pub(crate) is_alone: bool,
    /// Whether a long TCP connection or another call is there, which more than the fair share harms.
    pub(crate) competes: bool,
    /// End of the run.
    pub(crate) end: Timestamp,
}

/// What one flow could carry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FairShare {
    /// Where the figures begin.
    pub(crate) from: Timestamp,
    /// Bits that could arrive in each bin of the run; 0 before the figures begin.
    pub(crate) bits: Vec<f64>,
    /// Intervals in which its video pauses.
    pub(crate) pauses: Vec<(Timestamp, Timestamp)>,
}

/// The demand of a flow in bit/s; `None` if it takes what there is.
fn demand(flow: &FlowSpec, at: Timestamp) -> Option<f64> {
    match &flow.kind {
        FlowKind::Media(media) if is_paused(media, at) => {
            Some(media.audio.map_or(0.0, |audio| audio.rate.as_bps() as f64))
        }
        FlowKind::Media(media) => Some(media.limits.max.as_bps() as f64),
        FlowKind::Tcp { transfers: Transfers::Unlimited, .. } => None,
        FlowKind::Tcp { transfers: Transfers::Short { sizes, idle, .. }, .. } => {
            let mean_bits = (sizes.0 + sizes.1) as f64 * 4.0;
            Some(mean_bits / idle.as_seconds().max(1e-3))
        }
        _ => Some(0.0),
    }
}

fn is_paused(media: &MediaSpec, at: Timestamp) -> bool {
    media.pauses.iter().any(|&(from, to)| (from..to).contains(&at))
}

fn start_of(flow: &FlowSpec) -> Timestamp {
    match flow.start {
        Start::At(at) => at,
        Start::Uniform(_) => Timestamp::ZERO,
    }
}

/// The number of bins of this width in the run.
fn bins(scenario: &Scenario, width: TimeDelta) -> usize {
    usize::try_from(scenario.duration().as_nanos() / width.as_nanos()).unwrap_or(0)
}

/// The judged link.
fn bottleneck(scenario: &Scenario) -> Option<&LinkSpec> {
    scenario.links().iter().find(|link| link.id == BOTTLENECK)
}

/// The flows that share it.
fn sharing(scenario: &Scenario) -> Vec<&FlowSpec> {
    let link = bottleneck(scenario);
    scenario.flows().iter().filter(|flow| link.is_none_or(|link| flow.to == link.to)).collect()
}

/// The bits that the link can carry in each bin of this width.
fn capacities(link: &LinkSpec, bins: usize, width: TimeDelta) -> Vec<f64> {
    let mut before = 0.0;
    let policed = match &link.queue {
        QueueSpec::Policer(config) => config.rate.as_bps() as f64 * width.as_seconds(),
        _ => f64::INFINITY,
    };
    let bin = |number: usize| {
        let until = Timestamp::ZERO + width * (number as i64 + 1);
        // In whole bytes, with which results were published.
        let bits = link.config.rate.bits_between(Timestamp::ZERO, until);
        let now = bits.map_or(f64::INFINITY, |bits| (bits / 8.0).floor() * 8.0);
        let own = (now - before).max(0.0).min(policed);
        before = now;
        own
    };
    (0..bins).map(bin).collect()
}

/// The bits that each of these flows could send in each bin of this width; of one of `awake` also while it pauses.
fn divided(
    scenario: &Scenario,
    flows: &[&FlowSpec],
    width: TimeDelta,
    awake: impl Fn(&FlowSpec) -> bool,
) -> Vec<Vec<f64>> {
    let bins = bins(scenario, width);
    let capacities = bottleneck(scenario).map(|link| capacities(link, bins, width)).unwrap_or_default();
    let mut shares: Vec<Vec<f64>> = flows.iter().map(|_| Vec::with_capacity(bins)).collect();
    for (number, capacity) in capacities.into_iter().enumerate() {
        let at = Timestamp::ZERO + width * number as i64;
        let demand = |flow: &&FlowSpec| {
            let bps = match &flow.kind {
                _ if start_of(flow) > at => Some(0.0),
                FlowKind::Media(media) if awake(flow) => Some(media.limits.max.as_bps() as f64),
                _ => demand(flow, at),
            };
            bps.map(|bps| bps * width.as_seconds() * f64::from(flow.count))
        };
        let demands: Vec<Option<f64>> = flows.iter().map(demand).collect();
        for (share, bits) in shares.iter_mut().zip(max_min(capacity, &demands)) {
            share.push(bits);
        }
    }
    shares
}

/// The bits that each judged flow could send in each bin of this width, by its id: its fair share before losses, as if it did not pause.
pub(super) fn sendable(scenario: &Scenario, width: TimeDelta) -> Vec<(String, Vec<f64>)> {
    let flows = sharing(scenario);
    let is_judged = |flow: &FlowSpec| flow.id.starts_with(JUDGED);
    let shares = divided(scenario, &flows, width, is_judged);
    let judged = flows.iter().zip(shares).filter(|(flow, _)| is_judged(flow));
    judged.map(|(flow, bits)| (flow.id.clone(), bits)).collect()
}

/// The max-min fair shares of `capacity` for flows of these demands; `None` is without bound.
pub(super) fn max_min(capacity: f64, demands: &[Option<f64>]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    let demand = |place: usize| demands.get(place).copied().flatten().unwrap_or(f64::INFINITY);
    crate::order::sort_by(&mut order, |&a, &b| demand(a).total_cmp(&demand(b)));
    let (mut left, mut shares) = (capacity, vec![0.0; demands.len()]);
    for (done, &place) in order.iter().enumerate() {
        let share = demand(place).min(left / (order.len() - done) as f64);
        left -= share;
        if let Some(own) = shares.get_mut(place) {
            *own = share;
        }
    }
    shares
}

impl FairShares {
    /// Those of the judged flows of a drawn scenario.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        Self::of_flows(scenario, START_UP, |flow| flow.id.starts_with(JUDGED))
    }

    /// Those of the flows towards the end of the bottleneck for which `is_judged` is true, from `start_up` after their start on.
    pub(crate) fn of_flows(
        scenario: &Scenario,
        start_up: TimeDelta,
        is_judged: impl Fn(&FlowSpec) -> bool,
    ) -> Self {
        let (bins, link, flows) = (bins(scenario, BIN), bottleneck(scenario), sharing(scenario));
        let own = |(flow, sendable): (&&FlowSpec, Vec<f64>)| {
            let from = start_of(flow) + start_up;
            let mut bits = vec![0.0; bins];
            for (number, (bin, sendable)) in bits.iter_mut().zip(sendable).enumerate() {
                let at = Timestamp::ZERO + BIN * number as i64;
                if at >= from {
                    *bin = sendable * (1.0 - link.map_or(0.0, |link| link.config.loss.ratio_at(at)));
                }
            }
            let pauses = match &flow.kind {
                FlowKind::Media(media) => media.pauses.clone(),
                _ => Vec::new(),
            };
            FairShare { from, bits, pauses }
        };
        let divided = divided(scenario, &flows, BIN, |_| false);
        let shares: Vec<FairShare> = flows.iter().zip(divided).map(own).collect();
        let others = flows.iter().any(|flow| !is_judged(flow));
        let judged: Vec<FairShare> =
            flows.iter().zip(shares).filter(|(flow, _)| is_judged(flow)).map(|(_, share)| share).collect();
        let several = judged.len() > 1;
        let elastic = flows.iter().any(|flow| !is_judged(flow) && demand(flow, scenario.end()).is_none());
        let calls = flows.iter().filter(|flow| matches!(flow.kind, FlowKind::Media(_))).count();
        Self {
            is_alone: !others && !several,
            competes: elastic || calls > 1,
            flows: judged,
            end: scenario.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_sim::link::rate::RateProfile;

    use super::*;

    #[test]
    fn capacity_that_a_flow_cannot_use_goes_to_the_others() {
        assert_eq!(max_min(9.0, &[None, None, None]), [3.0, 3.0, 3.0]);
        assert_eq!(max_min(9.0, &[None, Some(1.0), None]), [4.0, 1.0, 4.0]);
        assert_eq!(max_min(9.0, &[Some(2.0), Some(3.5), Some(8.0)]), [2.0, 3.5, 3.5]);
        assert_eq!(max_min(9.0, &[Some(1.0), Some(2.0)]), [1.0, 2.0]);
        assert_eq!(max_min(9.0, &[]), Vec::<f64>::new());
    }

    #[test]
    fn an_opportunity_at_the_edge_of_a_bin_is_of_the_later_one() {
        let text = "duration = \"1 s\"\n[[link]]\nid = \"bottleneck\"\nfrom = \"a\"\nto = \"b\"\n\
                    [[flow]]\nkind = \"cbr\"\nid = \"voice\"\nrate = \"64 kbit/s\"\nsize = \"200 B\"\n";
        let mut link = bottleneck(&Scenario::parse(text, "s").unwrap()).unwrap().clone();
        let at = [100, 150].map(|millis| Timestamp::ZERO + TimeDelta::from_millis(millis)).to_vec();
        link.config.rate = RateProfile::Opportunities { at, bytes: 1504 };
        // At 100, 150, 250 and 300 ms: the bin that ends at 100 ms has none.
        assert_eq!(capacities(&link, 4, BIN), [0.0, 2.0, 1.0, 1.0].map(|count| count * 1504.0 * 8.0));
    }
}
