//! What the page of a comparison needs of each run.

use giusto_sim::{
    observe::Timeline,
    packet::FlowId,
    trace::{Event, Observer},
};
use giusto_units::Timestamp;

use crate::{scenario::Scenario, view::page::PageObserver};

/// Watches one of the runs.
#[derive(Debug)]
pub struct RunObserver {
    /// What the page of a single run is made from.
    pub page: PageObserver,
    /// What was dropped, and when.
    pub losses: Losses,
}

impl RunObserver {
    /// An observer of a run of `scenario` with `seed`.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        let page = PageObserver::new(scenario, seed);
        let losses = Losses::new(&page.observers.1);
        Self { page, losses }
    }

    /// What is to see every event of the run.
    pub fn observers(&mut self) -> impl Observer + '_ {
        (&mut self.page.observers, &mut self.losses)
    }
}

/// How many packets of each flow were dropped within each window of a [`Timeline`].
#[derive(Debug, Clone, Default)]
pub struct Losses {
    width_ns: u64,
    windows: usize,
    /// Of each flow; of most flows nothing.
    flows: Vec<Vec<u64>>,
}

impl Losses {
    /// None yet, in windows as those of `timeline`.
    pub fn new(timeline: &Timeline) -> Self {
        let width_ns = timeline.width().as_nanos().max(1).unsigned_abs();
        Self { width_ns, windows: timeline.len(), flows: Vec::new() }
    }

    /// Window by window; none if nothing of the flow was dropped.
    pub fn flow(&self, flow: FlowId) -> &[u64] {
        self.flows.get(flow.0 as usize).map_or(&[], Vec::as_slice)
    }
}

impl Observer for Losses {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        let Event::Dropped { packet, .. } = event else { return };
        let flow = packet.flow.0 as usize;
        if self.flows.len() <= flow {
            self.flows.resize(flow + 1, Vec::new());
        }
        let Some(windows) = self.flows.get_mut(flow) else { return };
        if windows.is_empty() {
            windows.resize(self.windows, 0);
        }
        // What happens at the very end belongs to the last window.
        let place = ((now.as_nanos() / self.width_ns) as usize).min(self.windows.saturating_sub(1));
        if let Some(dropped) = windows.get_mut(place) {
            *dropped += 1;
        }
    }
}
