//! Table 3: one RRTCC flow and five of TCP on one link (§2.3), which the thesis cites and has not run.

use super::statements::Spread;

/// The scenario: `{delay}` is the delay of the shared link in milliseconds, `{seed}` the run's seed.
///
/// What §2.3 leaves open is chosen: the queue's 50 are packets, TCP is NewReno and is on all the time (its Table 3 speaks of an
/// "ON time" that it does not give), and a run lasts five minutes.
pub(super) const SCENARIO: &str = r#"
name = "rrtcc-fairness"
duration = "300s"
seed = {seed}

[[link]]
id = "bottleneck"
from = "left"
to = "right"
rate = "5 Mbit/s"
delay = "{delay} ms"
queue = { kind = "drop-tail", packets = 50 }

[[link]]
id = "back"
from = "right"
to = "left"
delay = "{delay} ms"

[[flow]]
id = "rrtcc"
kind = "media"
controller = "gcc:draft-02"
from = "left"
to = "right"
start-rate = "128 kbit/s"

[[flow]]
id = "tcp"
kind = "tcp"
controller = "newreno"
count = 5
from = "left"
to = "right"
"#;

/// What came of it, for each cell of Table 3 and each delay.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Shares {
    cells: Vec<(&'static str, u64, Spread)>,
}

impl Shares {
    /// The cell called `id` with a link delay of `delay_ms`.
    pub(super) fn of(&self, id: &str, delay_ms: u64) -> Option<Spread> {
        let cell = self.cells.iter().find(|(cell, delay, _)| *cell == id && *delay == delay_ms);
        cell.map(|(_, _, spread)| *spread)
    }
}

/// Runs Table 3; `None` where it cannot be run.
pub(super) fn fairness() -> Option<Shares> {
    None
}

/// Why a cell of Table 3 does not agree.
pub(super) const fn why(measured: bool) -> &'static str {
    if measured {
        "Cited from another work, whose media source, on and off times and version of the algorithm are not given."
    } else {
        "Not run: it takes media flows in the simulator. By its own figures the fair share is 5 Mbit/s over 11 flows, not 6."
    }
}
