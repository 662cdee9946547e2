use giusto_congestion::{Cause, Signal};

use super::*;
use crate::{
    record::{
        DecisionRecord, FlowTimeline, MediaTimeline, StreamKind, StreamRecord, StreamTimeline,
        TimelineOptions,
    },
    run::{self, RecordOptions},
    scenario::Scenario,
    view::html::{Section, Series},
};

/// `sources` sources of 400 kbit/s each over two links of 1 Mbit/s and 100 Mbit/s, for 5 s; the second loses packets.
fn run(sources: u32) -> RunRecord {
    let text = format!(
        r#"
        duration = "5 s"
        link = [
            {{ id = "narrow", from = "home", to = "router", rate = "1 Mbit/s", delay = "20 ms", queue = {{ kind = "drop-tail", limit = "10 packets" }} }},
            {{ id = "wide", from = "router", to = "<far>", rate = "100 Mbit/s", delay = "20 ms", loss = 0.05 }},
        ]
        flow = [{{ id = "camera", kind = "cbr", from = "home", to = "<far>", rate = "400 kbit/s", size = "500 B", count = {sources} }}]
        "#
    );
    let scenario = Scenario::parse(&text, "test.toml").unwrap();
    let options =
        RecordOptions::with_timeline(TimelineOptions { max_flows: 6, ..TimelineOptions::default() });
    run::simulate(&scenario, 1, options, &mut ())
}

fn timeline(record: &mut RunRecord) -> &mut FlowTimeline {
    &mut record.timeline.as_mut().unwrap().flows[0]
}

fn report(record: &RunRecord) -> Report {
    simulation(record, "giusto sim test.toml")
}

fn drawn(report: &Report) -> impl Iterator<Item = &Chart> {
    report.sections.iter().filter_map(|section| match section {
        Section::Chart(chart) => Some(&**chart),
        _ => None,
    })
}

fn names_of(chart: &Chart) -> Vec<String> {
    let series = serde_json::to_value(&chart.series).unwrap();
    series.as_array().unwrap().iter().map(|series| series["name"].as_str().unwrap().to_owned()).collect()
}

fn charts(report: &Report) -> Vec<(&str, Vec<String>)> {
    drawn(report).map(|chart| (chart.title.as_str(), names_of(chart))).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn check(passed: bool, value: Option<f64>) -> Check {
    let [name, bound, unit] = ["delay of camera", "at most 100", "ms"].map(str::to_owned);
    Check { name, passed, value, bound, unit }
}

#[test]
fn a_page_shows_each_flow_and_each_busy_link() {
    let report = report(&run(3));
    let flows = names(&["camera-1", "camera-2", "camera-3"]);
    let with_capacity = [flows.clone(), names(&["all together", "capacity of narrow"])].concat();
    assert_eq!(
        charts(&report),
        [
            ("Received rate", with_capacity),
            ("One-way delay", flows.clone()),
            ("One-way delay, distribution", flows),
            ("Queueing delay", names(&["narrow"])),
            ("Queue length", names(&["narrow"])),
            ("Drops and marks", names(&["dropped from queues", "lost on the wire"])),
        ]
    );
    let model = serde_json::to_string(&report).unwrap();
    for wanted in ["giusto sim test.toml", "3 × camera", "<far>"] {
        assert!(model.contains(wanted), "{wanted}");
    }
}

#[test]
fn tables_begin_with_what_matters() {
    let page = report(&run(1));
    let heads = page.sections.iter().filter_map(|section| match section {
        Section::Table(table) => Some((table.title.as_str(), table.columns.get(..3)?)),
        _ => None,
    });
    let heads = heads.map(|(title, columns)| (title, [0, 1, 2].map(|place| columns[place].name.as_str())));
    let heads: Vec<_> = heads.collect();
    let wanted = [
        ("Flows", ["flow", "received rate", "loss"]),
        ("Links", ["link", "utilisation", "queueing delay ms mean / p95 / max"]),
    ];
    assert_eq!(heads, wanted);
    // What a narrow terminal leaves out stands last.
    let columns: [Column<()>; 4] = [("a", 0), ("b", 3), ("c-\nd", 0), ("e", 1)]
        .map(|(header, dispensable)| Column::words(header, dispensable, |()| String::new()));
    let names: Vec<_> =
        Table::of("", "", &columns, []).columns.into_iter().map(|column| column.name).collect();
    assert_eq!(names, ["a", "cd", "e", "b"]);
}

/// The series of the chart of received rates.
fn received(text: &str) -> Vec<String> {
    let scenario = Scenario::parse(text, "test.toml").unwrap();
    let options = RecordOptions::with_timeline(TimelineOptions::default());
    let record = run::simulate(&scenario, 1, options, &mut ());
    charts(&report(&record)).into_iter().find(|(title, _)| *title == "Received rate").unwrap().1
}

#[test]
fn a_rate_is_drawn_with_the_capacity_of_its_own_direction() {
    let text = |flows: &str| {
        format!(
            r#"
            duration = "5 s"
            link = [{{ id = "down", from = "server", to = "home", rate = "10 Mbit/s", reverse = {{ rate = "50 kbit/s", queue = {{ kind = "drop-tail", limit = "20 packets" }} }} }}]
            flow = [{flows}]
            "#
        )
    };
    let tcp = |id: &str, from: &str, to: &str| {
        format!("{{ id = {id:?}, kind = \"tcp\", control = \"new-reno\", from = {from:?}, to = {to:?} }},")
    };
    // The queue of the acknowledgements is the longest, but they are not drawn.
    let (download, upload) = (tcp("download", "server", "home"), tcp("upload", "home", "server"));
    assert_eq!(received(&text(&download)), ["download", "capacity of down"]);
    assert_eq!(received(&text(&upload)), ["upload", "capacity of down:reverse"]);
    // The other direction is hardly used: the upload's queue delays the acknowledgements of the download.
    let both = ["download", "upload", "capacity of down:reverse"];
    assert_eq!(received(&text(&(download + &upload))), both);
}

#[test]
fn links_that_are_the_slowest_at_different_times_are_both_drawn() {
    let text = r#"
        duration = "6 s"
        link = [
            { id = "first", from = "here", to = "middle", rate = { steps = [["0 s", "1 Mbit/s"], ["2 s", "5 Mbit/s"]] }, duplex = true },
            { id = "second", from = "middle", to = "there", rate = { steps = [["0 s", "3 Mbit/s"], ["4 s", "500 kbit/s"]] }, duplex = true },
            { id = "third", from = "there", to = "end", rate = "5 Mbit/s", duplex = true },
        ]
        flow = [{ id = "tcp", kind = "tcp", control = "new-reno", from = "here", to = "end" }]
    "#;
    let mut drawn = received(text);
    drawn.sort();
    assert_eq!(drawn, ["capacity of first", "capacity of second", "tcp"]);
}

#[test]
fn a_media_flow_has_its_target_decisions_and_frames_drawn() {
    let mut record = run(1);
    let delay = |signal| Cause::Delay { signal, trend_ms: 14.2, threshold_ms: 12.5 };
    let decisions = [
        (1.0, 0, 300, Cause::Start),
        (2.0, 300, 500, delay(Signal::Normal)),
        (3.0, 500, 400, delay(Signal::OverUse)),
        (4.0, 400, 400, Cause::ProbeSuppressed),
    ];
    let decision = |(at_s, from, to, cause)| DecisionRecord {
        at_s,
        from_bps: from * 1000_u64,
        to_bps: to * 1000_u64,
        cause,
    };
    let windows = timeline(&mut record).sent_packets.len();
    timeline(&mut record).media = Some(MediaTimeline {
        target_rate_bps: vec![Some(400_000.0); windows],
        frame_delay_max_ms: vec![Some(40.0); windows],
        decisions: decisions.map(decision).to_vec(),
        ..MediaTimeline::default()
    });
    (record.flows[0].target_rate_bps, record.flows[0].decisions) = (Some(390_625.0), Some(3));
    let page = report(&record);
    let kinds = ["target", "sent", "received", "start", "delay normal", "over-use", "probe suppressed"];
    let all = names(&[kinds.as_slice(), &["capacity of narrow"]].concat());
    assert_eq!(charts(&page)[0], ("camera: target and rates", all));
    assert_eq!(charts(&page)[1], ("Frame delay", names(&["camera"])));
    let model = serde_json::to_string(&page).unwrap();
    assert!(model.contains("over-use, trend 14.2 ms above threshold 12.5 ms: 500.000 → 400.000 kbit/s"));
    // Very many are thinned, and the caption gives their number.
    let media = timeline(&mut record).media.as_mut().unwrap();
    media.decisions.extend((1..=5_000).map(|place| {
        let cause = delay(if place % 2 == 0 { Signal::Normal } else { Signal::OverUse });
        let at_s = 4.0 + f64::from(place) * 1e-9;
        DecisionRecord { at_s, from_bps: 400_000, to_bps: 400_001, cause }
    }));
    let page = report(&record);
    let chart = drawn(&page).next().unwrap();
    let events = |series: &Series| if let Series::Events { events, .. } = series { events.len() } else { 0 };
    assert_eq!(chart.series.iter().map(events).sum::<usize>(), 150);
    let omitted = "4,854 decisions with the smallest changes are left out";
    assert!(chart.caption.contains(omitted), "{}", chart.caption);
}

#[test]
fn an_end_that_only_receives_has_no_chart_of_a_target() {
    let mut record = run(1);
    let windows = timeline(&mut record).sent_packets.len();
    let frame_delay_max_ms = vec![Some(40.0); windows];
    timeline(&mut record).media = Some(MediaTimeline { frame_delay_max_ms, ..MediaTimeline::default() });
    record.flows[0].feedback_rate_bps = Some(9_000.0);
    let page = report(&record);
    let text = serde_json::to_string(&page.sections).unwrap();
    assert!(!text.contains("target rate is") && !text.contains("controller's target rate"), "{text}");
    let titles: Vec<&str> = charts(&page).into_iter().map(|(title, _)| title).take(2).collect();
    assert_eq!(titles, ["Frame delay", "Received rate"]);
}

#[test]
fn of_several_videos_each_is_drawn_and_has_its_row() {
    let mut record = run(1);
    let windows = timeline(&mut record).sent_packets.len();
    let streams = [(2, 320_000), (3, 80_000)].map(|(ssrc, bps)| StreamTimeline {
        ssrc,
        goodput_bps: vec![bps; windows],
        ..StreamTimeline::default()
    });
    timeline(&mut record).media =
        Some(MediaTimeline { streams: streams.to_vec(), ..MediaTimeline::default() });
    record.flows[0].decisions = Some(0);
    let stream = |id: &str, ssrc| StreamRecord::new(id, ssrc, StreamKind::Video);
    // A single video is shown with its flow.
    record.flows[0].streams = vec![stream("camera", 2)];
    assert!(charts(&report(&record)).iter().all(|(title, _)| !title.contains("each stream")));
    record.flows[0].streams.push(stream("<screen>", 3));
    let report = report(&record);
    let chart = drawn(&report).find(|chart| chart.title == "camera: goodput of each stream").unwrap();
    assert_eq!(names_of(chart), ["camera", "<screen>"]);
    let Series::Line { points, .. } = &chart.series[0] else { panic!("a line") };
    let goodput = "/timeline/flows/0/media/streams/0/goodput_bps";
    assert_eq!(*points, Points::in_record("/timeline/t_s", goodput));
    let of = |section: &Section| match section {
        Section::Table(table) if table.title == "Streams" => Some(table.rows.len()),
        _ => None,
    };
    assert_eq!(report.sections.iter().find_map(of), Some(2));
}

#[test]
fn of_many_flows_equal_ones_are_drawn_as_one_and_small_groups_together() {
    assert_eq!(charts(&report(&run(8)))[0], ("Received rate", names(&["8 × camera", "capacity of narrow"])));
    let mut record = run(1);
    let flows = &mut record.timeline.as_mut().unwrap().flows;
    *flows = (1..=8).map(|number| FlowTimeline { id: format!("c{number}"), ..flows[0].clone() }).collect();
    let report = report(&record);
    assert_eq!(charts(&report)[0].1, ["c1", "c2", "c3", "c4", "c5", "3 others"]);
}

#[test]
fn a_headline_names_failed_expectations_first() {
    let of = |checks: Vec<Check>| {
        let mut record = run(1);
        record.checks = checks;
        report(&record).headline
    };
    let plain = of(Vec::new());
    assert!(
        plain.starts_with("camera received 3")
            && plain.contains("utilisation of narrow; its queueing delay was"),
        "{plain}"
    );
    assert_eq!(of(vec![check(true, Some(80.0)), check(true, Some(80.0))]), plain);
    insta::assert_snapshot!(of(vec![check(false, Some(123.4))]), @"1 of 1 expectation failed: delay of camera is 123 ms, expected at most 100 ms.");
    insta::assert_snapshot!(of(vec![check(true, Some(80.0)), check(false, Some(123.4)), check(false, None)]), @"2 of 3 expectations failed, the first: delay of camera is 123 ms, expected at most 100 ms.");
    let mut interrupted = run(1);
    interrupted.interrupted = true;
    let ended = format!("Interrupted after 5.0 s, so no expectation was checked. {plain}");
    assert_eq!(report(&interrupted).headline, ended);
}

#[test]
fn a_headline_states_rates_and_delays() {
    let flow = |id: &str, kind: &str, mbits: f64, p95: f64| FlowRecord {
        id: id.to_owned(),
        kind: kind.to_owned(),
        path: vec!["wire".to_owned()],
        received_rate_bps: mbits * 1e6,
        queue_delay_ms: Some(Distribution { p95, p99: 2.0 * p95, ..Distribution::default() }),
        ..FlowRecord::default()
    };
    let link = LinkRecord {
        id: "wire".to_owned(),
        utilisation_ratio: Some(0.94),
        capacity_bps: Some(3e6),
        ..LinkRecord::default()
    };
    let of = |flows: &[FlowRecord]| {
        headline(&RunRecord { flows: flows.to_vec(), links: vec![link.clone()], ..RunRecord::default() })
    };
    let call = FlowRecord {
        controller: Some("gcc:libwebrtc".to_owned()),
        decisions: Some(7),
        frame_delay_ms: Some(Distribution { p95: 120.0, ..Distribution::default() }),
        ..flow("call", "media", 2.8, 40.0)
    };
    insta::assert_snapshot!(of(std::slice::from_ref(&call)), @"gcc:libwebrtc used 94.0 % of wire at 40.0 ms queueing delay (p95) and 120 ms frame delay (p95).");
    let tcp = flow("tcp", "tcp", 1.0, 60.0);
    insta::assert_snapshot!(of(&[call, tcp.clone()]), @"gcc:libwebrtc received 2.80 Mbit/s beside 1 other flow at 40.0 ms queueing delay (p95) and 120 ms frame delay (p95).");
    let voice = flow("voice", "cbr", 0.1, 3.0);
    assert_eq!(of(&[voice, tcp.clone()]), "voice waited 6.0 ms at p99 beside 1 TCP flow.");
    insta::assert_snapshot!(of(&[flow("cubic", "tcp", 2.0, 50.0), tcp]), @"Received rates range from 1.00 (tcp) to 2.00 Mbit/s (cubic); queueing delay p95 from 50.0 (cubic) to 60.0 ms (tcp). Utilisation of wire was 94.0 %.");
    let same = [flow("a", "cbr", 1.0, 97.38), flow("b", "cbr", 1.5, 97.41)];
    insta::assert_snapshot!(of(&same), @"Received rates range from 1.00 (a) to 1.50 Mbit/s (b); queueing delay p95 is 97.4 ms for all. Utilisation of wire was 94.0 %.");
    assert_eq!(of(&[]), "The scenario has no flows.");
}

#[test]
fn series_point_into_the_embedded_record() {
    let report = report(&run(3));
    let embedded = report.record.as_ref().unwrap();
    let mut pointed = 0;
    for series in drawn(&report).flat_map(|chart| &chart.series) {
        let Series::Line { points: Points::InRecord { x, y, .. }, .. } = series else { continue };
        let length = |pointer: &str| embedded.pointer(pointer).unwrap().as_array().unwrap().len();
        assert_eq!(length(x), length(y), "{y}");
        pointed += 1;
    }
    // Four rates, three delays, three distributions, a queueing delay and a queue length.
    assert_eq!(pointed, 12);
    assert!(embedded.pointer("/timeline/flows/0/sent_packets").is_none());
    assert_eq!(embedded.pointer("/flows/0/id"), Some(&"camera-1".into()));
}

#[test]
fn bounds_and_values_are_written_alike() {
    let row = |value: f64, bound: &str, unit: &str| {
        let (bound, unit) = (bound.to_owned(), unit.to_owned());
        let check = Check { value: Some(value), bound, unit, ..Check::default() };
        (found(&check), crate::view::html::finding::bound(&check))
    };
    let pair = |found: &str, bound: &str| (found.to_owned(), bound.to_owned());
    let rates = "1.2 Mbit/s to 1.5 Mbit/s";
    assert_eq!(row(1.5e6, rates, "bit/s"), pair("1.500 Mbit/s", rates));
    assert_eq!(row(0.0, "0 to 3", "frames"), pair("0", "0 to 3 frames"));
    assert_eq!(row(0.98, "0.82 to 1", "ratio"), pair("0.9800", "0.82 to 1"));
    assert_eq!(row(20.0, "at most 1 s", "ms"), pair("20.0 ms", "at most 1 s"));
}

#[test]
fn a_wide_table_does_not_widen_the_page() {
    // Hidden words are positioned against the nearest box that is positioned itself: it must be the one that scrolls.
    let style = include_str!("../page.css");
    let rule = |name: &str| style.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(rule(".hidden {").contains("position: absolute"));
    assert!(rule(".scroll {").contains("position: relative"));
}

#[test]
fn an_empty_record_is_still_a_page() {
    let report = report(&RunRecord::default());
    assert!(charts(&report).is_empty());
    assert!(report.headline.contains("no flows"));
}
