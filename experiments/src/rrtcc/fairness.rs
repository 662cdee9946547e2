//! Table 3: one RRTCC flow and five TCP flows on one link (§2.3). The thesis cites it from V. Singh, "Fairness of RRTCC".

use std::collections::BTreeMap;

use giusto_congestion::Algorithm;

use crate::item::{Item, Rule, Spread, Statement};
use giusto::{
    record::RunRecord,
    run::{self, RecordOptions},
    scenario::Scenario,
};

/// The judged controller: the version of the algorithm that the thesis cites.
const JUDGED: &str = "gcc:draft-02+giusto";

/// Measured besides, not judged.
const BESIDE: &str = "gcc:libwebrtc+giusto";

/// A row of Table 3.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    id: &'static str,
    what: &'static str,
    unit: &'static str,
    /// With a link delay of 50 ms and of 100 ms.
    published: [f64; 2],
    /// The deviations printed with them.
    deviation: [f64; 2],
}

const fn row(
    id: &'static str,
    what: &'static str,
    unit: &'static str,
    published: [f64; 2],
    deviation: [f64; 2],
) -> Row {
    Row { id, what, unit, published, deviation }
}

/// Table 3. The last deviation, 0.21 %, is in another unit than its neighbour: it stands as printed.
const TABLE_3: [Row; 4] = [
    row("goodput", "goodput of RRTCC", "bit/s", [3_593_000.0, 3_700_000.0], [279_000.0, 420_000.0]),
    row("loss", "loss of RRTCC", "ratio", [0.0368, 0.04], [0.0026, 0.0019]),
    row("tcp", "throughput of a TCP flow", "bit/s", [688_500.0, 323_000.0], [53_000.0, 111_000.0]),
    row("tfs", "TCP throughput over its fair share", "ratio", [1.51, 0.72], [0.08, 0.0021]),
];

/// The delays of Table 3, in ms.
const DELAYS_MS: [u64; 2] = [50, 100];

/// Rate of the shared link of Table 3 (§2.3), in bit/s.
const LINK_BPS: f64 = 5e6;

const WHY: &str = "Its rows exclude each other: 3.6 and five times 0.69 are 7 Mbit/s on a link of 5. On and off times are not given.";

/// The scenario. Where §2.3 leaves a choice: the queue's 50 are packets, TCP is `NewReno` and always on (the table's "ON time" is
/// not given), the encoder follows its target up to 6 Mbit/s, and the other links are ideal.
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

/// The rows of Table 3, in their order, for each delay.
type Shares = [[Spread; 4]; 2];

/// What was run of Table 3.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Fairness {
    judged: Option<Shares>,
    beside: Option<Shares>,
}

/// Runs Table 3 with `seeds` seeds, each for `duration_s`.
pub(super) fn fairness(seeds: u64, duration_s: u64) -> Fairness {
    let known = JUDGED.parse::<Algorithm>().is_ok();
    Fairness {
        judged: known.then(|| shares(JUDGED, seeds, duration_s)).flatten(),
        beside: shares(BESIDE, seeds, duration_s),
    }
}

impl Fairness {
    /// The cells of Table 3. They agree within two of the printed deviations.
    pub(super) fn items(&self) -> Vec<Item> {
        let item = |(place, delay): (usize, u64), (number, row): (usize, &Row)| {
            let ours = self.judged.and_then(|shares| shares.get(place)?.get(number).copied());
            let (published, deviation) = (*row.published.get(place)?, *row.deviation.get(place)?);
            let (id, what) =
                (format!("table3-{}-{delay}ms", row.id), format!("Table 3, {delay} ms: {}", row.what));
            let statement = Statement::ratio(id, what, published, Rule::Within(2.0 * deviation), ());
            let item = statement.in_unit(row.unit).because(WHY).judge(ours);
            Some(Item { comparable: ours.is_some(), ..item })
        };
        let delays = DELAYS_MS.into_iter().enumerate();
        delays.flat_map(|delay| TABLE_3.iter().enumerate().filter_map(move |row| item(delay, row))).collect()
    }

    /// The medians of the controller that is not judged.
    pub(super) fn beside(&self) -> BTreeMap<String, f64> {
        let of_delay = |(delay, spreads): (u64, [Spread; 4])| {
            TABLE_3.iter().zip(spreads).map(move |(row, spread)| {
                let unit = if row.unit == "bit/s" { "bps" } else { row.unit };
                (format!("table3_libwebrtc_{}_{delay}ms_{unit}", row.id), spread.median)
            })
        };
        self.beside
            .into_iter()
            .flat_map(|shares| DELAYS_MS.into_iter().zip(shares))
            .flat_map(of_delay)
            .collect()
    }
}

fn shares(controller: &str, seeds: u64, duration_s: u64) -> Option<Shares> {
    let of_delay = |delay| {
        let scenario = Scenario::parse(&scenario(controller, delay, duration_s), "rrtcc").ok()?;
        let run = |seed| cells(&run::simulate(&scenario, seed, RecordOptions::default(), &mut ()));
        let runs: Vec<[f64; 4]> = (1..=seeds).filter_map(run).collect();
        let spread = |cell: fn(&[f64; 4]) -> f64| Spread::of(runs.iter().map(cell));
        Some([spread(|run| run[0])?, spread(|run| run[1])?, spread(|run| run[2])?, spread(|run| run[3])?])
    };
    let [short, long] = DELAYS_MS;
    Some([of_delay(short)?, of_delay(long)?])
}

/// The rows of Table 3 from one run. The last is the throughput of a TCP flow over the total by the number of flows (§2.3).
fn cells(result: &RunRecord) -> Option<[f64; 4]> {
    let media = result.flows.iter().find(|flow| flow.kind == "media")?;
    let tcp = result.flows.iter().filter(|flow| flow.kind == "tcp").map(|flow| flow.received_rate_bps);
    let (flows, sum) = tcp.fold((0.0, 0.0), |(flows, sum), rate| (flows + 1.0, sum + rate));
    let fair = (sum + media.received_rate_bps) / (flows + 1.0);
    Some([media.received_rate_bps, media.loss_ratio?, sum / flows, sum / flows / fair])
}

/// The number of flows by which Table 3 computes the fair share: `TFS · 5 Mbit/s / TCP throughput`, the mean of both columns.
pub(super) fn flows_of_table_3() -> f64 {
    let [_, _, tcp, tfs] = TABLE_3.map(|row| row.published);
    LINK_BPS * f64::midpoint(tfs[0] / tcp[0], tfs[1] / tcp[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_flows_share_the_link_and_no_more() {
        let shares = shares(BESIDE, 1, 30).unwrap();
        for (delay, spreads) in DELAYS_MS.into_iter().zip(shares) {
            let [goodput, loss, tcp, tfs] = spreads.map(|spread| spread.median);
            let all = goodput + 5.0 * tcp;
            // The connections begin within a second, and measurement begins with them: up to 1 s of 20 apart.
            assert!((4.0e6..5.0e6 * 21.0 / 20.0).contains(&all), "{delay} ms: {all}");
            assert!((tfs - tcp * 6.0 / all).abs() < 1e-9);
            assert!((0.0..0.2).contains(&loss), "{loss}");
        }
        let fairness = Fairness { judged: None, beside: Some(shares) };
        assert_eq!(fairness.beside().len(), 8);
        assert!(fairness.items().iter().all(|item| !item.comparable));
    }

    #[test]
    fn table_3_divides_by_eleven_flows() {
        // 1.51 · 5 / 0.6885 = 10.97 and 0.72 · 5 / 0.323 = 11.15.
        assert!((flows_of_table_3() - 11.06).abs() < 0.01, "{}", flows_of_table_3());
    }
}
