//! `tempo` in situations in which congestion signals are not its own doing.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on should end")]

use giusto::{
    record::{RunRecord, TimelineOptions},
    run::{self, RecordOptions},
    scenario::Scenario,
};
use giusto_congestion::Cause;
use giusto_units::TimeDelta;

/// A call of `tempo` over 30 s, with these keys of the link, of the call, and more flows. Windows of 100 ms.
fn seeded(seed: u64, link: &str, keys: &str, more: &str) -> RunRecord {
    let text = format!(
        r#"
        duration = "30 s"
        [[link]]
        id = "path"
        from = "here"
        to = "there"
        {link}
        reverse = {{ rate = "unlimited", loss = 0, queue = "drop-tail" }}
        [[flow]]
        id = "call"
        kind = "media"
        controller = "tempo"
        max-rate = "20 Mbit/s"
        video = {{ model = "statistical", max = "20 Mbit/s" }}
        {keys}
        {more}
        "#
    );
    let options = RecordOptions::with_timeline(TimelineOptions::every(TimeDelta::from_millis(100)));
    run::simulate(&Scenario::parse(&text, "tempo.toml").unwrap(), seed, options, &mut ())
}

/// Ends of a flow where there are several.
const ENDS: &str = "from = \"here\"\nto = \"there\"";

/// A TCP connection beside the call.
fn tcp(control: &str) -> String {
    format!("[[flow]]\nid = \"tcp\"\nkind = \"tcp\"\ncontrol = \"{control}\"\n{ENDS}")
}

/// Share of `mbps` that the call receives between two times in seconds.
fn used(record: &RunRecord, mbps: f64, from: usize, to: usize) -> f64 {
    let bytes = &record.timeline.as_ref().unwrap().flows[0].received_bytes[from * 10..to * 10];
    bytes.iter().sum::<u64>() as f64 * 8.0 / 1e6 / mbps / (to - from) as f64
}

#[test]
fn packets_lost_for_a_while_are_no_policer() {
    for (share, after) in [(1.0, 3), (0.9, 9)] {
        let loss = format!("loss = {{ steps = [[\"0 s\", 0.0], [\"15 s\", {share}], [\"16 s\", 0.0]] }}");
        let record = seeded(3, &format!("rate = \"7 Mbit/s\"\ndelay = \"20 ms\"\n{loss}"), "", "");
        let (before, during, later) =
            (used(&record, 7.0, 8, 15), used(&record, 7.0, 15, 16), used(&record, 7.0, 16 + after, 30));
        assert!(during < 0.2 && (0.8..=1.0).contains(&before), "{share}: {before} {during}");
        assert!((0.8..=1.0).contains(&later), "{share}: {later}");
    }
}

#[test]
fn marks_for_the_queue_of_a_flow_that_takes_none_leave_a_share() {
    let link = "rate = \"10 Mbit/s\"\ndelay = \"3 ms\"\nqueue = { kind = \"step-mark\", limit = \"700 kB\" }";
    let beside = |seed, ecn: &str, more: &str| seeded(seed, link, &format!("{ENDS}\necn = \"{ecn}\""), more);
    let mean = |ecn: &str| {
        let share = |seed| {
            let record = beside(seed, ecn, &tcp("bbr"));
            assert!(ecn == "off" || record.flows[0].marked_ratio.is_some_and(|marked| marked > 0.8), "{ecn}");
            used(&record, 10.0, 15, 30)
        };
        (1..=4).map(share).sum::<f64>() / 4.0
    };
    // Half is fair. With marks that were taken for ours the share was 0.003.
    let [unmarked, graded, classic] = ["off", "ect1", "ect0"].map(mean);
    assert!((0.4..0.7).contains(&unmarked), "{unmarked}");
    assert!((0.4..0.7).contains(&graded) && (0.3..0.6).contains(&classic), "{graded} {classic}");
    // Alone on the same queue graded marks hold it short.
    let alone = beside(3, "ect1", "");
    let (share, queue) = (used(&alone, 10.0, 15, 30), alone.flows[0].queue_delay_ms.as_ref().unwrap().p95);
    assert!((0.75..=1.0).contains(&share) && queue < 3.0, "{share} {queue}");
}

#[test]
fn a_small_share_beside_tcp_in_a_managed_queue_is_not_given_up() {
    let link = "rate = \"30 Mbit/s\"\ndelay = \"50 ms\"\nqueue = \"pie\"";
    let tcp = tcp("cubic");
    for seed in 1..=12 {
        // Half is fair. A queue that others hold at its limit is not drained by who has 3 % of it: seeds 7 and 10 had 0.02 and 0.07.
        let share = used(&seeded(seed, link, ENDS, &tcp), 30.0, 0, 30);
        assert!((0.12..0.6).contains(&share), "{seed}: {share}");
    }
}

#[test]
fn beside_tcp_a_share_is_held_without_overflows() {
    let runs = |mbps: f64, delay: u32, kilobytes: u32, control: &str| -> Vec<RunRecord> {
        let queue = format!("queue = {{ kind = \"drop-tail\", limit = \"{kilobytes} kB\" }}");
        let link = format!("rate = \"{mbps} Mbit/s\"\ndelay = \"{delay} ms\"\n{queue}");
        (1..=8).map(|seed| seeded(seed, &link, ENDS, &tcp(control))).collect()
    };
    // A sawtooth of 16 packets leaves the queue empty for a moment, sooner than tempo's patience ends: in seven of eight runs it had a tenth.
    let small = runs(1.5, 18, 24, "new-reno");
    let shares: Vec<f64> = small.iter().map(|run| used(run, 1.5, 10, 30)).collect();
    assert!(shares.iter().all(|share| (0.2..0.5).contains(share)), "{shares:?}");
    // A deep queue: what rises above its share overflows it; three of eight runs lost more than 1 %.
    for run in runs(8.0, 35, 260, "cubic") {
        let (share, loss) = (used(&run, 8.0, 10, 30), run.flows[0].loss_ratio.unwrap());
        assert!((0.2..0.5).contains(&share) && loss < 0.008, "{share} {loss}");
    }
}

#[test]
fn beside_tcp_a_lower_rate_has_a_true_cause() {
    let link = "rate = \"3 Mbit/s\"\ndelay = \"20 ms\"\nqueue = { kind = \"drop-tail\", limit = \"100 kB\" }";
    let record = seeded(1, link, ENDS, &tcp("cubic"));
    let timeline = record.timeline.unwrap();
    let causes = timeline.flows[0].media.as_ref().unwrap().decisions.iter().map(|decision| &decision.cause);
    let ratios: Vec<f64> = causes
        .clone()
        .filter_map(|cause| if let Cause::Loss { ratio } = cause { Some(*ratio) } else { None })
        .collect();
    assert!(!ratios.is_empty() && ratios.iter().all(|ratio| (1e-4..0.5).contains(ratio)), "{ratios:?}");
    // The window over a longer round-trip time.
    assert!(causes.filter(|cause| **cause == Cause::Rtt).count() > ratios.len());
}

#[test]
fn jitter_that_keeps_the_order_of_packets_is_no_queue() {
    // It makes all frames of a window late together.
    let link = "rate = \"20 Mbit/s\"\ndelay = \"20 ms\"\njitter = { kind = \"uniform\", max = \"110 ms\" }";
    let runs: Vec<RunRecord> = (1..=8).map(|seed| seeded(seed, link, ENDS, "")).collect();
    let mean = runs.iter().map(|run| used(run, 20.0, 5, 30)).sum::<f64>() / 8.0;
    assert!((0.65..0.95).contains(&mean), "{mean}");
    for run in &runs {
        // Nor does it hide one: alone the queue stays short.
        let queue = run.flows[0].queue_delay_ms.as_ref().unwrap().p95;
        assert!(queue < 60.0, "{queue}");
    }
}
