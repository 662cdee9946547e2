//! Table 3: one RRTCC flow and five of TCP on one link (§2.3), which the thesis cites and has not run itself.

use std::collections::BTreeMap;

use giusto_congestion::Algorithm;

use super::{
    published::{TABLE_3, TABLE_3_DELAYS_MS},
    statements::Spread,
};
use giusto::{
    record::RunRecord,
    run::{self, RecordOptions},
    scenario::Scenario,
};

/// The controller that the table is about: the version of the algorithm that the thesis cites.
const JUDGED: &str = "gcc:draft-02+giusto";

/// What stands in for it beside the items, not judged.
const BESIDE: &str = "gcc:libwebrtc+giusto";

/// The scenario. What §2.3 leaves open is chosen: the queue's 50 are packets, TCP is NewReno and on all the time (the table speaks of
/// an "ON time" that it does not give), the encoder follows its target at up to 6 Mbit/s, and links beside the shared one are
/// ideal.
fn scenario(controller: &str, delay_ms: u64, duration_s: u64) -> String {
    format!(
        r#"
        description = "one media flow and five of TCP share 5 Mbit/s"
        duration = "{duration_s} s"
        warmup = "10 s"

        [[link]]
        id = "shared"
        from = "senders"
        to = "receivers"
        rate = "5 Mbit/s"
        delay = "{delay_ms} ms"
        queue = {{ kind = "drop-tail", limit = "50 packets" }}
        reverse = {{ rate = "unlimited", delay = "{delay_ms} ms" }}

        [[flow]]
        id = "rrtcc"
        kind = "media"
        from = "senders"
        to = "receivers"
        controller = "{controller}"
        start-rate = "128 kbit/s"
        video = {{ model = "perfect", min = "50 kbit/s", max = "6 Mbit/s" }}

        [[flow]]
        id = "tcp"
        kind = "tcp"
        control = "new-reno"
        count = 5
        from = "senders"
        to = "receivers"
        start = {{ uniform = "1 s" }}
        "#
    )
}

/// What came of one controller, for each cell of Table 3 and each delay.
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

    /// For those who read JSON.
    pub(super) fn beside(&self) -> BTreeMap<String, f64> {
        let units = |id: &str| if matches!(id, "goodput" | "tcp") { "bps" } else { "ratio" };
        let named = |(id, delay, spread): &(&str, u64, Spread)| {
            (format!("table3_libwebrtc_{id}_{delay}ms_{}", units(id)), spread.median)
        };
        self.cells.iter().map(named).collect()
    }
}

/// What was run of Table 3.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fairness {
    /// With the algorithm that the thesis cites, where it can be had by name.
    pub(super) judged: Option<Shares>,
    /// With today's.
    pub(super) beside: Option<Shares>,
}

/// Runs Table 3 with `seeds` seeds, each for `duration_s`.
pub(super) fn fairness(seeds: u64, duration_s: u64) -> Fairness {
    let known = JUDGED.parse::<Algorithm>().is_ok();
    Fairness {
        judged: known.then(|| shares(JUDGED, seeds, duration_s)).flatten(),
        beside: shares(BESIDE, seeds, duration_s),
    }
}

fn shares(controller: &str, seeds: u64, duration_s: u64) -> Option<Shares> {
    let mut cells = Vec::new();
    for delay in TABLE_3_DELAYS_MS {
        let scenario = Scenario::parse(&scenario(controller, delay, duration_s), "rrtcc").ok()?;
        let run = |seed| cells_of(&run::simulate(&scenario, seed, RecordOptions::default(), &mut ()));
        let runs: Vec<[(&str, f64); 4]> = (1..=seeds).filter_map(run).collect();
        for cell in &TABLE_3 {
            let values = runs.iter().flatten().filter(|(id, _)| *id == cell.id).map(|(_, value)| *value);
            cells.push((cell.id, delay, Spread::of(values)?));
        }
    }
    Some(Shares { cells })
}

/// The cells of Table 3 from one run. TFS is the throughput of a TCP flow over the total by the number of flows (§2.3).
fn cells_of(result: &RunRecord) -> Option<[(&'static str, f64); 4]> {
    let media = result.flows.iter().find(|flow| flow.kind == "media")?;
    let tcp: Vec<f64> =
        result.flows.iter().filter(|flow| flow.kind == "tcp").map(|flow| flow.received_rate_bps).collect();
    let all = tcp.iter().sum::<f64>();
    let (mean, flows) = (all / tcp.len() as f64, (tcp.len() + 1) as f64);
    let fair = (all + media.received_rate_bps) / flows;
    Some([
        ("goodput", media.received_rate_bps),
        ("loss", media.loss_ratio?),
        ("tcp", mean),
        ("tfs", mean / fair),
    ])
}

/// Why a cell of Table 3 does not agree.
pub(super) const fn why(measured: bool) -> &'static str {
    if measured {
        "Its own rows exclude each other with six flows at all times: 3.6 Mbit/s and five times 0.69 are 7 Mbit/s on a link of 5. \
         Sources, on and off times and the version of the algorithm are not given."
    } else {
        "Not run: the reproduction was ended early."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_shares_the_link_and_no_more() {
        let shares = shares(BESIDE, 1, 30).unwrap();
        for delay in TABLE_3_DELAYS_MS {
            let of = |id| shares.of(id, delay).unwrap().median;
            let all = of("goodput") + 5.0 * of("tcp");
            // The connections begin within a second, and the time that counts begins with them: up to 1 s of 20 apart.
            assert!((4.0e6..5.0e6 * 21.0 / 20.0).contains(&all), "{delay} ms: {all}");
            assert!((of("tfs") - of("tcp") * 6.0 / all).abs() < 1e-9);
            assert!((0.0..0.2).contains(&of("loss")), "{}", of("loss"));
        }
        assert_eq!(shares.beside().len(), 8);
        assert!(shares.of("goodput", 51).is_none());
    }
}
