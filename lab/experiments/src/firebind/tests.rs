use super::*;
use crate::page::Findings;
use giusto::measured::result::Quantiles;

/// The published row of a run, and the duration of the run.
fn row_of(plan: &StreamPlan) -> (Row, TimeDelta) {
    let duration = plan.limits.duration.unwrap();
    let is_of = |row: &Row| format!("{:?}", row.stream_plan(duration)) == format!("{plan:?}");
    (PUBLISHED.into_iter().find(is_of).unwrap(), duration)
}

/// The result of a sender whose run is longer by `late` than its row says.
fn on_time(plan: &StreamPlan, late: TimeDelta) -> RunResult {
    let (row, duration) = row_of(plan);
    let cycles = row.cycles_in(duration);
    let n = u64::from(row.packets_per_cycle);
    let packets = cycles * n;
    let span = row.period().as_nanos() as f64 * (cycles - 1) as f64 + late.as_nanos() as f64;
    let bits_per_second = |packets: u64| (packets * row.size.as_bits()) as f64 * 1e9 / span;
    RunResult {
        strategy: row.strategy.name().to_owned(),
        rate_bps: Some(row.rate.as_bps()),
        size_bytes: Some(row.size.as_bytes()),
        packets_per_cycle: Some(row.packets_per_cycle),
        sent_packets: Some(packets),
        received_packets: Some(packets),
        lost_packets: Some(0),
        rx_rate_bps: Some(bits_per_second((cycles - 1) * n)),
        fencepost_rate_bps: Some(bits_per_second(packets)),
        schedule_error_us: Quantiles { p50: Some(0.2), ..Quantiles::default() },
        ..RunResult::default()
    }
}

fn reproduced(plan: Plan, late: TimeDelta) -> Firebind {
    run(plan, |stream| Some(on_time(stream, late)))
}

/// The rows of which each is changed by this.
fn changed(change: impl Fn(&Row, &mut RunResult), late: TimeDelta) -> Firebind {
    run(Plan::FULL, |stream| {
        let mut result = on_time(stream, late);
        change(&row_of(stream).0, &mut result);
        Some(result)
    })
}

fn item(firebind: &Firebind, id: &str) -> Item {
    firebind.reproduction().items.into_iter().find(|item| item.id == id).unwrap()
}

const ROWS_ON_TIME: [&str; 5] = [
    "send-sleep-10k-200",
    "send-sleep-1M-200",
    "send-compare-10k-200",
    "send-compare-1M-200",
    "send-compare-100M-200",
];

#[test]
fn a_sender_on_time_agrees_with_all_rows_but_one() {
    for plan in [Plan::FULL, Plan::QUICK] {
        let firebind = reproduced(plan, TimeDelta::ZERO);
        for id in ROWS_ON_TIME {
            let item = item(&firebind, id);
            assert!(item.does_agree() && item.comparable && item.why.is_none(), "{item:?}");
        }
    }
    let slow = item(&reproduced(Plan::FULL, TimeDelta::ZERO), "send-sleep-100M-200");
    assert!(slow.agrees == Some(false));
    let why = slow.why.unwrap();
    assert!(why.contains("theirs reads -772 ppm, ours 0 ppm"), "{why}");
    assert!(why.contains("0.88 µs in each cycle there, 0 ns in virtual time"), "{why}");
}

/// The verdict on the measured runs of the row called `id`.
fn measured(firebind: &Firebind, id: &str) -> &'static str {
    let outcome = firebind.rows.iter().find(|outcome| outcome.row.id() == id).unwrap();
    firebind.measured_verdict(outcome)
}

#[test]
fn virtual_time_reads_what_the_counting_rule_predicts() {
    for row in PUBLISHED.iter().filter(|row| row.fits_link()) {
        // Counting one period more or less always shows.
        assert!(row.period() > TOLERANCE, "{}", row.id());
        let (ours, predicted) = (row.virtual_bps().unwrap(), row.predicted_bps(PUBLISHED_DURATION).unwrap());
        // The loop that watches the clock looks every 10 µs: that is 1 ppm of 10 s.
        assert!((ours / predicted - 1.0).abs() < 2e-6, "{}: {ours} {predicted}", row.id());
    }
}

#[test]
fn measured_runs_are_refuted_from_both_sides() {
    // 1.5 ms in 10 s, longer or shorter, is more than the bound and the published rests together.
    for (nanos, verdict) in [(0, "agrees"), (1_500_000, "differs"), (-1_500_000, "differs")] {
        let firebind = reproduced(Plan::FULL, TimeDelta::from_nanos(nanos));
        for id in ROWS_ON_TIME {
            assert_eq!(measured(&firebind, id), verdict, "{id} at {nanos} ns");
            // The judgement in virtual time does not depend on it.
            assert!(item(&firebind, id).does_agree());
        }
    }
    // A receiver that counts right does not read what was published.
    let right = changed(|row, own| own.fencepost_rate_bps = Some(row.rate.as_bps() as f64), TimeDelta::ZERO);
    for id in ROWS_ON_TIME {
        assert_eq!(measured(&right, id), "differs", "{id} agrees without the counting rule");
    }
}

#[test]
fn runs_on_a_busy_machine_are_not_judged() {
    for (cpu_ratio, verdict, said) in [(0.96, "differs", None), (0.94, "not judged", Some(0.94))] {
        let firebind = changed(|_, own| own.sender_cpu_ratio = Some(cpu_ratio), TimeDelta::from_millis(20));
        assert_eq!(firebind.busy_cpu_ratio(), said);
        for id in ROWS_ON_TIME {
            assert_eq!(measured(&firebind, id), verdict, "{id}");
            assert!(item(&firebind, id).does_agree(), "{id}");
        }
        assert_eq!(firebind.page().table(120).contains("Not judged: this machine was busy."), said.is_some());
    }
}

#[test]
fn only_readings_by_their_formula_have_the_error() {
    let firebind = reproduced(Plan::FULL, TimeDelta::ZERO);
    let item = item(&firebind, "send-sleep-1M-200");
    assert!((item.ours.unwrap() - 1_011_363.6).abs() < 0.1, "{item:?}");
    assert!((item.figures["ours_rx_rate_bps"] - 1e6).abs() < 0.1, "{item:?}");
    assert!(item.figures["ours_error_ppm"].abs() < 0.1, "{item:?}");
    assert!((item.figures["published_rest_ppm"] - 35.0).abs() < 0.5, "{item:?}");
}

#[test]
fn rows_above_the_link_never_agree_even_by_chance() {
    let firebind = changed(|row, own| own.fencepost_rate_bps = Some(row.published_bps()), TimeDelta::ZERO);
    let all = firebind.reproduction();
    let above: Vec<&Item> = all.items.iter().filter(|item| !item.comparable).collect();
    let is_left_out =
        |own: &&Item| own.agrees.is_none() && own.why.as_ref().unwrap().contains("Gigabit link");
    assert_eq!((above.len(), above.into_iter().filter(is_left_out).count()), (6, 6));
    assert_eq!((all.agreeing(), all.judged(), all.items.len()), (7, 9, 15));
}

#[test]
fn statements_are_judged_by_their_own_bounds() {
    let firebind = reproduced(Plan::FULL, TimeDelta::ZERO);
    let matching = item(&firebind, "strategies-match");
    assert!(matching.does_agree() && (matching.published - 815.9).abs() < 0.1, "{matching:?}");
    assert!(item(&firebind, "link-efficiency-1200").does_agree());
    let small = item(&firebind, "link-efficiency-200");
    assert!(small.agrees == Some(false) && small.why.unwrap().contains("75.2 %"));
}

#[test]
fn an_interrupted_reproduction_keeps_its_runs() {
    let mut made = 0;
    let firebind = run(Plan::FULL, |stream| {
        made += 1;
        (made < 5).then(|| on_time(stream, TimeDelta::ZERO))
    });
    assert_eq!(made, 5);
    assert_eq!(firebind.rows.iter().map(|outcome| outcome.runs.len()).sum::<usize>(), 4);
    assert_eq!(measured(&firebind, "send-sleep-1M-200"), "agrees");
    assert_eq!(measured(&firebind, "send-compare-1M-200"), "not measured");
    assert!(item(&firebind, "send-compare-1M-200").does_agree(), "virtual time needs no run");
}

#[test]
fn the_committed_page_holds_all_items() {
    let committed = include_str!("../../../../docs/reproduce/firebind.md");
    for item in reproduced(Plan::FULL, TimeDelta::ZERO).reproduction().items {
        let start = format!("|{}|{}|", item.what, crate::page::in_unit(item.published, &item.unit));
        assert!(committed.lines().any(|line| line.starts_with(&start)), "no line {start}");
    }
}

#[test]
fn the_table_fits_and_the_page_shows_the_figures() {
    let firebind = reproduced(Plan::FULL, TimeDelta::from_micros(-400));
    let rows = |width| firebind.page().tables[0].grid.text(width);
    let wide = rows(120);
    assert!(wide.lines().all(|line| line.chars().count() <= 120), "{wide}");
    insta::assert_snapshot!(wide, @"
    strategy            rate  size   n    published    predicted     ours, their  verdict               measured  measured
                                 B            bit/s        bit/s         formula                           (N-1)  verdict
    ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
    send-sleep     10 kbit/s   200   1       10,161       10,161          10,161  agrees                  10,000  agrees
    send-sleep      1 Mbit/s   200  71    1,011,399    1,011,364       1,011,364  agrees               1,000,040  agrees
    send-sleep    100 Mbit/s   200  71   99,934,183  100,011,361     100,011,361  differs            100,004,001  differs
    send-sleep      1 Gbit/s   200  71  726,826,893            –   1,000,051,362  not comparable   1,000,040,002  –
    send-sleep      1 Gbit/s  1200  13  939,121,731            –   1,000,052,482  not comparable   1,000,040,002  –
    send-sleep     10 Gbit/s  1200  13  939,231,796            –  10,000,412,497  not comparable  10,000,400,016  –
    send-compare   10 kbit/s   200   1       10,161       10,161          10,161  agrees                  10,000  agrees
    send-compare    1 Mbit/s   200  71    1,011,406    1,011,364       1,011,363  agrees               1,000,040  agrees
    send-compare  100 Mbit/s   200  71  100,015,791  100,011,361     100,011,281  agrees             100,004,001  agrees
    send-compare    1 Gbit/s   200  71  726,879,468            –   1,000,051,362  not comparable   1,000,040,002  –
    send-compare    1 Gbit/s  1200  13  938,451,573            –   1,000,052,482  not comparable   1,000,040,002  –
    send-compare   10 Gbit/s  1200  13  938,829,083            –  10,000,412,497  not comparable  10,000,400,016  –
    ");
    let narrow = rows(80);
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    let model = serde_json::to_string(&firebind.page().report("giusto reproduce firebind")).unwrap();
    for text in
        ["1,011,399", "1,011,364", "100 ppm of the published one", "751.880 Mbit/s", "reproduce firebind"]
    {
        assert!(model.contains(text), "the page lacks {text}");
    }
}
