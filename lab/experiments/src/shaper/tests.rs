use super::{
    simulated::{Algorithm, FIGURE_7_PACKETS, RATE, SEND_TIME, Trial},
    statements::statements,
    *,
};
use std::collections::BTreeSet;

use crate::{item::Item, page::Findings};

fn nothing_measured() -> Shaper {
    run(Plan::QUICK, |_| None)
}

fn item(id: &str) -> Item {
    let items = nothing_measured().reproduction().items;
    items.into_iter().find(|item| item.id == id).unwrap_or_else(|| panic!("no item {id}"))
}

#[test]
fn figure_7_matches_manual_calculation() {
    // DT0 at 500 B: 5 ms asked of the first sleep, for it knows of no send yet, then 3 ms in every other cycle of 50.
    let asked = TimeDelta::from_millis(5 + 49 * 3);
    // Rounded up, each of 50 lasts 10 ms. To ticks, the first begins at 2 ms and ends at 20, the others begin 4 ms after a tick.
    let slept = [50 * 10, 18 + 49 * 16].map(TimeDelta::from_millis);
    for (model, slept) in SleepModel::ALL.into_iter().zip(slept) {
        let record = Trial::new(Algorithm::DT0, model, 500, RATE).file(FIGURE_7_PACKETS);
        assert_eq!((record.sleeps, record.requested_sleep, record.actual_sleep), (50, asked, slept));
    }
    assert_eq!(item("fig7a-requested-500-ticks").ours, Some(152.0));
    // 7 ms in each of 50 sleeps, as the text has it, are not the 667 ms of its figure.
    assert_eq!(item("fig7a-oversleep-500-rounds-up").ours, Some(f64::from(50 * 10 - 152)));
}

#[test]
fn the_plateau_of_figure_6b_is_two_packets_a_sleep() {
    // 2 · 1400 B in 2 · 2 ms and a sleep: of 10 ms, or of 16 ms.
    for (model, plateau) in SleepModel::ALL.into_iter().zip([200_000.0, 140_000.0]) {
        let reached = Trial::new(Algorithm::DT0, model, 1400, 400_000).throughput();
        assert!((reached / plateau - 1.0).abs() < 0.005, "{}: {reached}", model.name());
    }
}

#[test]
fn dt0_as_printed_is_not_what_the_paper_measured() {
    for model in SleepModel::ALL {
        let ratio = |algorithm| Trial::new(algorithm, model, 500, RATE).ratio();
        assert!(ratio(Algorithm::Dt0AsPrinted) > 0.99);
        assert!((0.45..0.75).contains(&ratio(Algorithm::DT0)));
    }
    let shown = item("fig7a-requested-500-as-printed-rounds-up");
    assert!(shown.agrees.is_none() && !shown.comparable && shown.why.is_some());
}

#[test]
fn published_numbers_follow_the_paper_s_formulas() {
    let rate = RATE as f64;
    for (size, id) in [(300.0, "section4-n-300"), (500.0, "section4-n-500"), (1000.0, "section4-n-1000")] {
        let n = rate * 0.010 / (size - rate * SEND_TIME);
        let published = item(&format!("{id}-ticks")).published;
        assert!((published - n).abs() < 1e-9, "{id}: {n}");
    }
    let published = |id| item(id).published;
    assert!((published("fig4-smallest-size-ticks") - rate * SEND_TIME).abs() < 1e-9);
    assert!((published("fig4-largest-rate-ticks") - 1400.0 / SEND_TIME).abs() < 1e-6);
}

#[test]
fn items_that_differ_say_why() {
    let all = nothing_measured().reproduction();
    assert_eq!(all.items.len(), 2 * statements().len());
    for item in &all.items {
        assert_eq!(item.does_agree(), item.why.is_none(), "{}", item.id);
        assert!(item.why.as_ref().is_none_or(|why| !why.is_empty()), "{} has no reason", item.id);
        assert!(item.ours.is_some_and(f64::is_finite), "{}", item.id);
    }
    let ids: BTreeSet<&str> = all.items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(ids.len(), all.items.len());
    assert_eq!(all.judged(), 64);
    assert!(all.beside.is_empty());
}

#[test]
fn an_interrupted_measurement_keeps_its_runs() {
    let mut made = 0;
    let shaper = run(Plan::QUICK, |_| {
        made += 1;
        let reached = Plan::RATE.as_bps() as f64 * 0.75;
        (made < 3).then(|| RunResult { tx_rate_bps: Some(reached), ..RunResult::default() })
    });
    assert_eq!((made, shaper.measured.len()), (3, 2));
    let beside = shaper.reproduction().beside;
    assert_eq!(beside.get("own_clock_dt0_600_B_ratio"), Some(&0.75));
    assert_eq!(beside.len(), 2);
    let table = shaper.page().table(86);
    assert!(table.contains("This machine's clock") && table.contains("75.0 %"), "{table}");
}

/// The page has the verdict on each statement.
#[test]
fn the_committed_page_is_the_generated_one() {
    let page = nothing_measured().page();
    assert_eq!(include_str!("../../../../docs/reproduce/shaper.md"), page.markdown());
    let table = page.table(100);
    let rows = || table.lines().take_while(|line| !line.is_empty());
    assert!(
        rows().count() == 3 + statements().len() && rows().all(|line| line.chars().count() <= 100),
        "{table}"
    );
}

#[test]
fn the_page_shows_every_figure() {
    let model = serde_json::to_string(&nothing_measured().page().report("giusto reproduce shaper")).unwrap();
    for text in [
        "Figure 4 (a)",
        "Figure 5",
        "Figure 6 (b)",
        "Figure 7 (a)",
        "Figure 12 (b): by rate, sleep to ticks",
        "Figure 14",
        "R_max",
        "packets for each sleep",
        "819",
    ] {
        assert!(model.contains(text), "the page lacks {text}");
    }
    assert!(!model.contains("This machine's clock"));
}
