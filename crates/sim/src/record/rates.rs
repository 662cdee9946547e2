//! Rates and losses over time, and several flows or links as one.

use serde::Serialize;

use super::types::{FlowTimeline, LinkTimeline, StreamTimeline, Timeline};

/// A rate is a mean over as many windows as hold so many packets: over fewer, its steps are those of single packets.
const PACKETS_PER_RATE: u64 = 25;

/// A rate is a mean over at least so many windows.
const MIN_SPAN: usize = 3;

/// A rate is a mean over at most the run divided by this.
const MIN_SPANS: usize = 60;

/// The rate of a stream is a mean over at least so long: some 15 frames.
const MIN_STREAM_SPAN_S: f64 = 0.5;

/// Flows and links taken together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Overview {
    /// The places of the flows that have most bytes received, the largest first; if all are here, in the order of the timeline.
    pub largest: Vec<usize>,
    /// All other flows as one.
    pub others: Option<FlowTimeline>,
    /// All flows as one.
    pub all: FlowTimeline,
    /// Packets dropped at all links: full queues and active queue management.
    pub dropped_packets: Vec<u64>,
    /// Packets lost on the wires of all links.
    pub lost_packets: Vec<u64>,
    /// Packets marked at all links.
    pub marked_packets: Vec<u64>,
}

impl Timeline {
    /// The `max_flows` largest flows; if there are more, one fewer and the rest as one.
    pub fn overview(&self, max_flows: usize) -> Overview {
        let mut largest: Vec<usize> = (0..self.flows.len()).collect();
        let mut rest = Vec::new();
        if largest.len() > max_flows {
            let bytes = |flow: &FlowTimeline| flow.received_bytes.iter().sum::<u64>();
            largest.sort_by_key(|&place| std::cmp::Reverse(self.flows.get(place).map(bytes)));
            rest = largest.split_off(max_flows.saturating_sub(1));
        }
        let rest: Vec<&FlowTimeline> = rest.into_iter().filter_map(|place| self.flows.get(place)).collect();
        let at_links = |of: fn(&LinkTimeline) -> &Vec<u64>| sums(self.links.iter().map(of));
        Overview {
            largest,
            others: (!rest.is_empty()).then(|| self.as_one("others", &rest)),
            all: self.as_one("all", &self.flows.iter().collect::<Vec<_>>()),
            dropped_packets: at_links(|link| &link.dropped_packets),
            lost_packets: at_links(|link| &link.lost_packets),
            marked_packets: at_links(|link| &link.marked_packets),
        }
    }

    /// Several flows as one: counts are added, mean delays are weighted by packets.
    fn as_one(&self, id: &str, flows: &[&FlowTimeline]) -> FlowTimeline {
        let column = |of: fn(&FlowTimeline) -> &Vec<u64>| sums(flows.iter().map(|flow| of(flow)));
        let delay = |place: usize| {
            let of_flow = |flow: &&FlowTimeline| {
                let packets = *flow.received_packets.get(place)? as f64;
                Some((flow.delay_mean_ms.get(place).copied()?? * packets, packets))
            };
            let known = flows.iter().filter_map(of_flow);
            let (sum, packets) = known.fold((0.0, 0.0), |all, own| (all.0 + own.0, all.1 + own.1));
            (packets > 0.0).then(|| sum / packets)
        };
        let mut one = FlowTimeline {
            id: id.to_owned(),
            members: flows.iter().map(|flow| flow.members).sum(),
            sent_packets: column(|flow| &flow.sent_packets),
            sent_bytes: column(|flow| &flow.sent_bytes),
            received_packets: column(|flow| &flow.received_packets),
            received_bytes: column(|flow| &flow.received_bytes),
            goodput_bytes: column(|flow| &flow.goodput_bytes),
            dropped_packets: column(|flow| &flow.dropped_packets),
            delay_mean_ms: (0..self.t_s.len()).map(delay).collect(),
            ..FlowTimeline::default()
        };
        one.fill_rates(&self.t_s, self.width_s);
        one
    }

    /// Fills the rates and losses of all flows.
    pub(super) fn fill_rates(&mut self) {
        for flow in &mut self.flows {
            flow.fill_rates(&self.t_s, self.width_s);
        }
    }
}

impl FlowTimeline {
    fn fill_rates(&mut self, t_s: &[f64], width_s: f64) {
        let active = self.received_packets.iter().filter(|&&packets| packets > 0).count() as u64;
        let mean = self.received_packets.iter().sum::<u64>() / active.max(1);
        let needed = PACKETS_PER_RATE.div_ceil(mean.max(1)) as usize;
        let span = needed.min(t_s.len() / MIN_SPANS).max(MIN_SPAN);
        self.sent_rate_bps = rates(&self.sent_bytes, span, t_s, width_s);
        self.received_rate_bps = rates(&self.received_bytes, span, t_s, width_s);
        let [dropped, received] = [&self.dropped_packets, &self.received_packets]
            .map(|packets| moving(packets, span).map(|(_, sum)| sum).collect::<Vec<u64>>());
        let loss = |(dropped, received): (u64, u64)| {
            let all = dropped + received;
            (all > 0).then(|| dropped as f64 / all as f64)
        };
        self.loss_ratio = dropped.into_iter().zip(received).map(loss).collect();
        let stream_span = ((MIN_STREAM_SPAN_S / width_s.max(1e-9)) as usize).min(t_s.len() / 2);
        let goodput_span = if self.media.is_some() { span.max(stream_span) } else { span };
        self.goodput_bps = rates(&self.goodput_bytes, goodput_span, t_s, width_s);
        for StreamTimeline { frame_bytes, goodput_bps, .. } in
            self.media.iter_mut().flat_map(|media| &mut media.streams)
        {
            *goodput_bps = rates(frame_bytes, stream_span, t_s, width_s);
        }
    }
}

/// The sums of several columns.
fn sums<'a>(columns: impl Iterator<Item = &'a Vec<u64>>) -> Vec<u64> {
    columns.fold(Vec::new(), |mut sums, column| {
        sums.resize(sums.len().max(column.len()), 0);
        sums.iter_mut().zip(column).for_each(|(sum, value)| *sum += value);
        sums
    })
}

/// For each window, the bounds of the `span` windows around it, as far as there are so many, and the sum of their values.
fn moving(values: &[u64], span: usize) -> impl Iterator<Item = ((usize, usize), u64)> {
    let (before, after) = (span / 2, span.div_ceil(2).max(1));
    (0..values.len()).map(move |place| {
        let (first, end) = (place.saturating_sub(before), (place + after).min(values.len()));
        ((first, end), values.get(first..end).unwrap_or_default().iter().sum())
    })
}

/// The rate of so many bytes in each window, in bit/s, as a moving mean over `span` windows.
fn rates(bytes: &[u64], span: usize, t_s: &[f64], width_s: f64) -> Vec<u64> {
    // The last window may be shorter than the others.
    let begin = |place: usize| place as f64 * width_s;
    let end = |place: usize| t_s.get(place).map_or(begin(place), |middle| 2.0 * middle - begin(place));
    let rate = |((first, past), bytes): ((usize, usize), u64)| {
        let seconds = end(past - 1) - begin(first);
        if seconds > 0.0 { (bytes as f64 * 8.0 / seconds).round() as u64 } else { 0 }
    };
    moving(bytes, span).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow that receives so many packets of 125 B in each of the windows of 10 ms; the last lasts 5 ms.
    fn timeline(flows: &[&[u64]]) -> Timeline {
        let windows = flows[0].len();
        let flow = |packets: &&[u64]| FlowTimeline {
            members: 1,
            received_packets: packets.to_vec(),
            received_bytes: packets.iter().map(|packets| packets * 125).collect(),
            dropped_packets: packets.iter().map(|packets| packets / 3).collect(),
            delay_mean_ms: packets.iter().map(|&packets| (packets > 0).then_some(packets as f64)).collect(),
            ..FlowTimeline::default()
        };
        let mut t_s: Vec<f64> = (0..windows).map(|place| (place as f64 + 0.5) / 100.0).collect();
        *t_s.last_mut().unwrap() -= 0.0025;
        let mut timeline =
            Timeline { width_s: 0.01, t_s, flows: flows.iter().map(flow).collect(), links: Vec::new() };
        timeline.fill_rates();
        timeline
    }

    #[test]
    fn a_rate_is_a_moving_mean_and_knows_the_short_last_window() {
        let flow = &timeline(&[&[30, 30, 0, 0, 30]]).flows[0];
        // 60 packets of 1000 bit in 20 ms, 60 in 30 ms, 30 in 30 ms, 30 in 25 ms, 30 in 15 ms.
        assert_eq!(flow.received_rate_bps, [3_000_000, 2_000_000, 1_000_000, 1_200_000, 2_000_000]);
        assert_eq!(flow.loss_ratio, [Some(0.25); 5]);
        assert_eq!(timeline(&[&[0; 4]]).flows[0].loss_ratio, [None; 4]);
    }

    #[test]
    fn few_packets_are_averaged_over_more_windows() {
        let packets: Vec<u64> = (0..600).map(|place| u64::from(place % 4 == 0)).collect();
        let rates = &timeline(&[&packets]).flows[0].received_rate_bps;
        // A packet in 40 ms is 25 kbit/s. A span of 10 windows holds two or three.
        assert!(rates[20..580].iter().all(|bps| (20_000..=30_000).contains(bps)), "{rates:?}");
    }

    #[test]
    fn the_smallest_flows_are_taken_together() {
        let timeline = timeline(&[&[3, 0], &[30, 30], &[6, 9], &[0, 0]]);
        let all = timeline.overview(4);
        assert_eq!((all.largest, all.others), (vec![0, 1, 2, 3], None));
        let overview = timeline.overview(3);
        assert_eq!(overview.largest, [1, 2]);
        let others = overview.others.unwrap();
        assert_eq!((others.members, others.received_packets), (2, vec![3, 0]));
        assert_eq!(overview.all.received_packets, [39, 39]);
        // 3 packets of 3 ms, 30 of 30 ms and 6 of 6 ms.
        assert_eq!(overview.all.delay_mean_ms[0], Some(945.0 / 39.0));
        assert_eq!(others.delay_mean_ms, [Some(3.0), None]);
    }
}
