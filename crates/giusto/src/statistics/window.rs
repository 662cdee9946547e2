//! What an expectation measures: flows, their streams or a link in a window.

use giusto_sim::record::{FlowFigures, LinkFigures, StreamFigures};
use giusto_units::DataRate;

use crate::record::Distribution;

/// Figures of flows or of a link in the window of an expectation.
#[derive(Debug, Clone, Default)]
pub struct Window<'a> {
    /// Each flow.
    pub flows: Vec<FlowWindow<'a>>,
    /// One-way delay of the packets of all flows.
    pub delay_ms: Option<Distribution>,
    /// Queueing delay of the packets of all flows.
    pub queue_delay_ms: Option<Distribution>,
    /// Frame delay of the streams.
    pub frame_delay_ms: Option<Distribution>,
    /// The rate to reach.
    pub wanted: Option<DataRate>,
    /// The link.
    pub link: Option<&'a LinkFigures>,
}

/// A flow in a window.
#[derive(Debug, Clone)]
pub struct FlowWindow<'a> {
    /// Its figures.
    pub figures: &'a FlowFigures,
    /// The streams that count, as far as they are known.
    pub streams: Vec<&'a StreamFigures>,
    /// The received rate of each video in bit/s, and its priority.
    pub videos: Vec<(f64, f64)>,
}

impl Window<'_> {
    /// The figures of each flow.
    pub(super) fn figures(&self) -> impl Iterator<Item = &FlowFigures> {
        self.flows.iter().map(|flow| flow.figures)
    }

    /// The sum over all flows.
    pub(super) fn sum(&self, of: fn(&FlowFigures) -> u64) -> u64 {
        self.figures().map(of).sum()
    }

    /// The rate of each flow in bit/s.
    pub(super) fn rates(&self, bytes: fn(&FlowFigures) -> u64) -> impl Iterator<Item = f64> {
        self.figures().map(move |flow| flow.rate_bps(bytes(flow)))
    }

    /// The sum of these.
    pub(super) fn rate(&self, bytes: fn(&FlowFigures) -> u64) -> f64 {
        self.rates(bytes).sum()
    }

    /// The sum over all streams.
    pub(super) fn stream_sum(&self, of: fn(&StreamFigures) -> u64) -> f64 {
        self.flows.iter().flat_map(|flow| &flow.streams).map(|stream| of(stream)).sum::<u64>() as f64
    }

    /// The rate of all streams in bit/s.
    pub(super) fn stream_rate(&self, bytes: fn(&StreamFigures) -> u64) -> f64 {
        let of = |flow: &FlowWindow<'_>| flow.streams.iter().map(|stream| bytes(stream)).sum();
        self.flows.iter().map(|flow| flow.figures.rate_bps(of(flow))).sum()
    }

    /// The rate of each video over its priority.
    pub(super) fn rates_by_priority(&self) -> impl Iterator<Item = f64> {
        self.flows.iter().flat_map(|flow| &flow.videos).map(|(rate, priority)| rate / priority)
    }

    /// When the flows together first received `rate` for a whole [`FlowFigures::STEP`], in milliseconds from the start of the window.
    pub(super) fn time_to_rate(&self, rate: DataRate) -> Option<f64> {
        let step_s = FlowFigures::STEP.as_seconds();
        let most = self.figures().map(|flow| flow.step_bytes.len()).max()?;
        let whole = (self.figures().next()?.seconds / step_s).floor().max(0.0) as usize;
        let wanted = rate.as_bps() as f64 * step_s;
        let received = |step: usize| {
            self.figures().filter_map(|flow| flow.step_bytes.get(step)).sum::<u64>() as f64 * 8.0
        };
        let first = (0..most.min(whole)).find(|&step| received(step) >= wanted)?;
        Some(FlowFigures::STEP.as_millis() * (first + 1) as f64)
    }
}

/// Jain's index of fairness, `(Σx)² / (n·Σx²)`.
pub(super) fn jain(rates: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum, squares) = rates.fold((0.0, 0.0, 0.0), |(count, sum, squares), rate| {
        (count + 1.0, sum + rate, squares + rate * rate)
    });
    (squares > 0.0).then(|| sum * sum / (count * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_reached_at_the_end_of_the_first_full_step() {
        // 500, 750 and 1000 B in steps of half a second: 8, 12 and 16 kbit/s; the last step has 20 kbit/s.
        let mut step_bytes = vec![0; 18];
        step_bytes.splice(..3, [500, 750, 1000]);
        *step_bytes.last_mut().unwrap() = 1250;
        let when = |rate, seconds, flows| {
            let figures = FlowFigures { seconds, step_bytes: step_bytes.clone(), ..FlowFigures::default() };
            let flow = FlowWindow { figures: &figures, streams: Vec::new(), videos: Vec::new() };
            Window { flows: vec![flow; flows], ..Window::default() }.time_to_rate(DataRate::from_bps(rate))
        };
        assert_eq!(when(8_000, 9.0, 1), Some(500.0));
        assert_eq!(when(8_001, 9.0, 1), Some(1000.0));
        assert_eq!(when(16_000, 9.0, 1), Some(1500.0));
        assert_eq!(when(20_000, 9.0, 1), Some(9000.0));
        // The last step is not over.
        assert_eq!(when(20_000, 8.9, 1), None);
        assert_eq!(when(20_001, 9.0, 1), None);
        // Two of them together get there sooner.
        assert_eq!(when(16_000, 9.0, 2), Some(500.0));
        assert_eq!(when(1, 9.0, 0), None);
    }
}
