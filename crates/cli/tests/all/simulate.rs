//! `giusto sim`, as users and scripts run it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::common::{Folder, assert_has, count, json, text};
use giusto::{run, scenario::Scenario};
use serde_json::{Value, json};

/// A valid scenario; each invalid one is made of it.
pub(crate) const GOOD: &str = r#"duration = "2 s"
[[link]]
id = "wire"
from = "here"
to = "there"
rate = "1 Mbit/s"
delay = "20 ms"
[[flow]]
id = "voice"
kind = "cbr"
rate = "64 kbit/s"
size = "200 B"
"#;

/// The error of `giusto sim` for an invalid file; nothing is written.
fn complaint(file: &str, more: &[&str]) -> String {
    let folder = Folder::with(file);
    let output = folder.run(&[&["sim", "s.toml", "--out", "out"], more].concat());
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
    assert_eq!(folder.others(), Vec::<String>::new());
    text(&output.stderr).trim_end().to_owned()
}

pub(crate) fn with(line: &str, instead_of: &str) -> String {
    assert!(GOOD.contains(instead_of), "{instead_of}");
    GOOD.replacen(instead_of, line, 1)
}

#[test]
fn built_in_scenarios_run_by_name_where_there_is_no_such_file() {
    let folder = Folder::with(GOOD);
    // With a trace, in a folder of the gallery, and beside the results of an earlier run.
    for name in ["rate-trace", "lessons/02-many-flows", "first", "first"] {
        let output =
            folder.run(&["sim", name, "--set", "duration=12s", "--set", "expect=[]", "--out", "first"]);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    }
    assert!(folder.run(&["sweep", "codel", "--set", "duration=12s", "--seeds", "1..2"]).status.success());
    // A file comes first.
    fs::write(folder.path("codel"), GOOD).unwrap();
    assert_eq!(json(&folder.run(&["sim", "codel", "--json"]))["flows"][0]["id"], "voice");

    let output = folder.run(&["sim", "scenarios/queues/codel.toml", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    let (known, unknown) =
        ("no such file: the built-in scenario is called \"queues/codel\"\n", "nothing: cannot be read");
    assert!(text(&output.stderr).contains(known), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(unknown), "{}", text(&output.stderr));
}

#[test]
fn a_bad_link_is_refused_with_its_line_and_the_fix() {
    let rate = "rate = \"1 Mbit/s\"";
    insta::assert_snapshot!(complaint(&with("rate = \"0 Mbit/s\"", rate), &[]), @r#"error: s.toml:6: link "wire": rate: must be above 0 bit/s, found "0 Mbit/s""#);
    insta::assert_snapshot!(complaint(&with("rate = { token-bucket = \"1 Mbit/s\", burst = \"3 kB\", peek = \"2 Mbit/s\" }", rate), &[]), @r#"error: s.toml:6: link "wire": rate: unknown key "peek": did you mean "peak"?"#);
    insta::assert_snapshot!(complaint(&with("rate = { token-bucket = \"1 Mbit/s\" }", rate), &[]), @r#"error: s.toml:6: link "wire": rate: burst is missing: add burst = "30 kB""#);
    insta::assert_snapshot!(complaint(&with("rate = { token-bucket = \"1 Mbit/s\", burst = \"3 kB\", peak = \"1 Mbit/s\" }", rate), &[]), @r#"error: s.toml:6: link "wire": the peak rate must be above the token rate, 1 Mbit/s, found "1 Mbit/s": raise it, or leave it out"#);
    insta::assert_snapshot!(complaint(&with("size = { exponential = \"500 B\", max = \"200 B\" }", "size = \"200 B\""), &[]), @r#"error: s.toml:12: flow "voice": the mean packet size must lie between min, 1 B, and max, 200 B, found "500 B""#);
    insta::assert_snapshot!(complaint(&with("rate = { steps = [[\"1 s\", \"1 Mbit/s\"], [\"1 s\", \"2 Mbit/s\"]] }", rate), &[]), @r#"error: s.toml:6: link "wire": each time must be later than the one before, found 1.000000000 s behind 1.000000000 s: sort by time"#);
    insta::assert_snapshot!(complaint(&with("rate = \"5\"", rate), &[]), @r#"error: s.toml:6: link "wire": rate: expected a rate with its unit, such as "5 Mbit/s", found "5""#);
    insta::assert_snapshot!(complaint(&with("loss = 1.5", rate), &[]), @r#"error: s.toml:6: link "wire": loss: must be 0 to 1, found 1.5: the default is 0"#);
    insta::assert_snapshot!(complaint(&with("raet = \"1 Mbit/s\"", rate), &[]), @r#"error: s.toml:6: link "wire": unknown key "raet": did you mean "rate"?"#);
    insta::assert_snapshot!(complaint(&with("delay = \"20\"", "delay = \"20 ms\""), &[]), @r#"error: s.toml:7: link "wire": delay: "20": duration needs one of the units ns, us, ms, s, min, h, such as "50 ms""#);
    insta::assert_snapshot!(complaint(&with("queue = \"codle\"", rate), &[]), @r#"error: s.toml:6: link "wire": queue: unknown name "codle": did you mean "codel"? use one of drop-tail, codel, fq-codel, pie, red, dualpi2, step-mark, delay-threshold, policer"#);
    insta::assert_snapshot!(complaint(&with("queue = { kind = \"drop-tail\", limit = 100 }", rate), &[]), @r#"error: s.toml:6: link "wire": queue: limit: expected "100 packets", "64 kB", "300 ms" or "unlimited", found 100"#);
    insta::assert_snapshot!(complaint(&with("queue = { kind = \"codel\", target = \"0 ms\" }", rate), &[]), @r#"error: s.toml:6: link "wire": queue: target: must be above 0 s, found "0 ms": the default is "5 ms""#);
    insta::assert_snapshot!(complaint(&with("queue = { kind = \"codel\", quantum = \"1 kB\" }", rate), &[]), @r#"error: s.toml:6: link "wire": queue: unknown key "quantum": known keys are kind, target, interval, max-packet, ecn, limit"#);
    insta::assert_snapshot!(complaint(&with("to = \"here\"", "to = \"there\""), &[]), @r#"error: s.toml:5: link "wire": it starts and ends at "here": name two nodes"#);
}

#[test]
fn a_bad_flow_is_refused_with_its_line_and_the_fix() {
    let kind = "kind = \"cbr\"";
    insta::assert_snapshot!(complaint(&with("kind = \"cbr\"\nvia = [\"wrie\"]", kind), &[]), @r#"error: s.toml:11: flow "voice": via: unknown link "wrie": did you mean "wire"? use one of wire"#
    );
    insta::assert_snapshot!(complaint(&with("kind = \"tcp\"", "kind = \"cbr\"\nrate = \"64 kbit/s\"\nsize = \"200 B\""), &[]), @r#"error: s.toml:8: flow "voice": no route: no links lead from "there" to "here": add one, or name other ends; packets of the receiver need a way back: give the link duplex = true or a reverse"#
    );
    insta::assert_snapshot!(complaint(&with("kind = \"udp\"", kind), &[]), @r#"error: s.toml:10: flow "voice": kind: unknown name "udp": use one of cbr, on-off, poisson, pareto, tcp, short-flows, paced, media"#);
    insta::assert_snapshot!(complaint(&with("", "size = \"200 B\"\n"), &[]), @r#"error: s.toml:8: flow "voice": size is missing: add size = "1200 B""#);
    insta::assert_snapshot!(complaint(&with("start = \"3 s\"\nkind = \"cbr\"", kind), &[]), @r#"error: s.toml:10: flow "voice": start must be before the end of the run, 2 s"#);
    insta::assert_snapshot!(complaint(&with("kind = \"cbr\"\nmss = \"536 B\"", kind), &[]), @r#"error: s.toml:11: flow "voice": unknown key "mss": known keys are kind, id, via, back, from, to, count, start, stop, rate, size, ecn"#);
}

#[test]
fn a_bad_change_or_expectation_is_refused_with_its_line_and_the_fix() {
    let and = |more: &str| complaint(&format!("{GOOD}{more}"), &[]);
    insta::assert_snapshot!(and("[[change]]\nat = \"-1 s\"\nlink = \"wire\"\nrate = \"2 Mbit/s\"\n"), @r#"error: s.toml:14: change 1: at: must be at least 0 s, found "-1 s""#);
    insta::assert_snapshot!(and("[[change]]\nat = \"2 s\"\nlink = \"wire\"\nrate = \"2 Mbit/s\"\n"), @"error: s.toml:14: change 1: it must be before the end of the run, 2 s");
    insta::assert_snapshot!(and("[[change]]\nat = \"1 s\"\nlink = \"wier\"\nrate = \"2 Mbit/s\"\n"), @r#"error: s.toml:15: change 1: unknown link "wier": did you mean "wire"? use one of wire"#
    );
    insta::assert_snapshot!(and("[[change]]\nat = \"1 s\"\nlink = \"wire\"\n"), @"error: s.toml:14: change 1: nothing changes: add rate or delay");
    insta::assert_snapshot!(and("[[expect]]\nflow = \"video\"\nmetric = \"loss\"\nmax = 0.1\n"), @r#"error: s.toml:14: expect of flow "video": unknown flow "video": use one of voice"#
    );
    insta::assert_snapshot!(and("[[expect]]\nflow = \"voice\"\nmetric = \"utilisation\"\nmax = 0.1\n"), @r#"error: s.toml:15: expect of flow "voice": metric: unknown name "utilisation": use one of sent-rate, received-rate, goodput, sent-packets, received-packets, loss, marked, delay-mean, delay-p50, delay-p95, delay-p99, delay-max, queue-delay-mean, queue-delay-p50, queue-delay-p95, queue-delay-p99, queue-delay-max, fairness, time-to-rate, target-rate, decisions, stream-fairness, frames, frame-delay-mean, frame-delay-p50, frame-delay-p95, frame-delay-p99, frame-delay-max, late-frames, repaired-frames, requested-packets, repair-rate"#);
    insta::assert_snapshot!(and("[[expect]]\nflow = \"voice\"\nmetric = \"loss\"\n"), @"error: s.toml:15: expect of flow voice: loss: no bounds: add min, max or both");
    insta::assert_snapshot!(and("[[expect]]\nflow = \"voice\"\nmetric = \"loss\"\nmax = 0.1\nto = \"3 s\"\n"), @"error: s.toml:17: expect of flow voice: loss until 3 s: to must not be after the end of the run, 2 s");
}

#[test]
fn why_without_media_flows_is_refused_with_the_fix() {
    insta::assert_snapshot!(complaint(GOOD, &["--why", "1s"]), @"error: --why: no flow of this scenario has a controller whose decisions are recorded: ask for a scenario with a flow of kind media");
    insta::assert_snapshot!(complaint(GOOD, &["--why", "2.5 s"]), @"error: --why 2.5 s: the run ends at 2 s: ask for an earlier moment");
    insta::assert_snapshot!(complaint(GOOD, &["s.toml", "--why", "1s"]), @"error: --why looks into one scenario: give one FILE");
    let early = complaint(GOOD, &["--why", "-1s"]);
    assert!(early.contains("it lies before the start: use \"0 s\" or later"), "{early}");
    let bare = complaint(GOOD, &["--why", "3"]);
    assert!(bare.contains("--why 3 s: the run ends at 2 s"), "a bare number is a time in seconds: {bare}");
}

#[test]
fn time_to_rate_needs_a_rate_and_only_media_have_frames() {
    let and = |more: &str| complaint(&format!("{GOOD}[[expect]]\nflow = \"voice\"\n{more}\n"), &[]);
    insta::assert_snapshot!(and("metric = \"time-to-rate\"\nmax = \"1 s\""), @r#"error: s.toml:13: expect of flow "voice": rate is missing: add rate = "5 Mbit/s""#);
    insta::assert_snapshot!(and("metric = \"loss\"\nmax = 0.1\nrate = \"1 Mbit/s\""), @r#"error: s.toml:17: expect of flow "voice": rate: only metric = "time-to-rate" has it: remove it"#);
    insta::assert_snapshot!(and("metric = \"frames\"\nmin = 1"), @r#"error: s.toml:15: expect of flow "voice": frames needs a flow of kind media, found cbr"#);
    // A packet of 200 B each 25 ms: 20 of them within half a second are 64 kbit/s.
    let text = format!(
        "{GOOD}[[expect]]\nflow = \"voice\"\nmetric = \"time-to-rate\"\nrate = \"64 kbit/s\"\nmin = \"0.5 s\"\nmax = \"0.5 s\"\n"
    );
    let result = json(&Folder::with(&text).run(&["sim", "s.toml", "--json"]));
    let name = "flow voice: time-to-rate of 64 kbit/s";
    assert_has(&result["checks"][0], &json!({ "value": 500.0, "unit": "ms", "name": name }));
    let never = Folder::with(&text.replace("= \"64 kbit/s\"\nmin", "= \"65 kbit/s\"\nmin"));
    let output = never.run(&["sim", "s.toml", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_has(&json(&output)["checks"][0], &json!({ "value": null, "passed": false }));
    assert_eq!(result["flows"][0].get("frames"), None);
}

#[test]
fn ambiguous_values_are_refused() {
    let and = |more: &str| complaint(&format!("{GOOD}{more}"), &[]);
    let change = |at: &str| format!("[[change]]\nat = \"{at}\"\nlink = \"wire\"\nrate = \"2 Mbit/s\"\n");
    insta::assert_snapshot!(and(&change("0 s")), @"error: s.toml:14: change 1: it must be after 0 s: set the first value in the link itself");
    insta::assert_snapshot!(and(&change("1 s").repeat(2)), @"error: s.toml:18: change 2: change 1 changes the same link at the same time: remove one");
    insta::assert_snapshot!(and("count = 1000000000\n"), @r#"error: s.toml:13: flow "voice": at most 100000 flows fit into a scenario, found 1000000000 so far"#);
    insta::assert_snapshot!(complaint(&with("kind = \"cbr\"\nrate = \"0 bit/s\"", "kind = \"cbr\"\nrate = \"64 kbit/s\""), &[]), @r#"error: s.toml:11: flow "voice": rate: must be above 0 bit/s, found "0 bit/s": try "64 kbit/s""#);
    insta::assert_snapshot!(complaint(&with("kind = \"cbr\"\nrate = \"unlimited\"", "kind = \"cbr\"\nrate = \"64 kbit/s\""), &[]), @r#"error: s.toml:11: flow "voice": rate: a source needs one, found "unlimited": give one such as "5 Mbit/s""#);
    let pauses = "kind = \"on-off\"\non = \"1 s\"\noff = \"0 s\"";
    insta::assert_snapshot!(complaint(&with(pauses, "kind = \"cbr\""), &[]), @r#"error: s.toml:12: flow "voice": off: must be above 0 s, found "0 s": try "1 s""#);
    insta::assert_snapshot!(complaint(&format!("seed = \"abc\"\n{GOOD}"), &[]), @r#"error: s.toml:1: seed: expected a whole number from 0 to 18446744073709551615, found "abc""#);
    insta::assert_snapshot!(and("size = \"1 B\"\n"), @"error: s.toml:13: size is set twice: remove one");
    let short = |keys: &str| {
        let flow = format!("[[flow]]\nid = \"web\"\nkind = \"short-flows\"\n{keys}");
        complaint(&format!("{}{flow}", with("duplex = true", "rate = \"1 Mbit/s\"")), &[])
    };
    insta::assert_snapshot!(short("size = [\"50 kB\", \"30 kB\"]\n"), @r#"error: s.toml:16: flow "web": size runs from 50000 B down to 30000 B: swap them"#);
    insta::assert_snapshot!(short("count = 2\nstarting-on = 3\n"), @r#"error: s.toml:17: flow "web": starting-on must be at most count, 2, found 3"#);
    // The name becomes a directory within --out.
    insta::assert_snapshot!(complaint(&format!("name = \"../up\"\n{GOOD}"), &[]), @r#"error: s.toml:1: name "../up" cannot be the name of a folder: use letters, digits and spaces"#);
    insta::assert_snapshot!(complaint(&format!("name = \"a\\u001b[31m\"\n{GOOD}"), &[]), @r#"error: s.toml:1: name "a\u{1b}[31m" cannot be the name of a folder: use letters, digits and spaces"#);
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_name_need_not_be_utf8() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let folder = Folder::with(GOOD);
    let name = OsStr::from_bytes(b"s\xff.toml");
    fs::rename(folder.path("s.toml"), folder.0.path().join(name)).unwrap();
    let output = folder.command(&["sim", "--out", "out"]).arg(name).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(folder.path("out/report.html").is_file());
}

#[test]
fn a_bad_trace_is_refused_with_its_own_line() {
    let complaint = |rate: &str, trace: &str| {
        let folder = Folder::with(&with(rate, "rate = \"1 Mbit/s\""));
        fs::write(folder.path("trace"), trace).unwrap();
        let output = folder.run(&["sim", "s.toml", "--out", "out"]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(folder.others(), ["trace"]);
        text(&output.stderr).trim_end().to_owned()
    };
    let csv = "rate = { trace = \"trace\" }";
    insta::assert_snapshot!(complaint(csv, "time_s,rate_bps\n"), @r#"error: s.toml:6: link "wire": rate: trace:1: the trace is empty: write lines of time_s,rate_bps, such as 12.5,3000000"#);
    insta::assert_snapshot!(complaint(csv, "time_s,rate_bps\n0,1e6\n2,1e6\n1,1e6\n"), @r#"error: s.toml:6: link "wire": rate: trace:4: times must increase, found 1 s after 2 s"#);
    insta::assert_snapshot!(complaint(csv, "0,0\n"), @r#"error: s.toml:6: link "wire": rate: trace:1: rate must be above 0 bit/s, found "0 bit/s": leave the link out, or give a loss of 1"#);
    insta::assert_snapshot!(complaint("rate = { trace = \"missing\" }", ""), @r#"error: s.toml:6: link "wire": rate: missing: cannot be read (No such file or directory (os error 2)): check the name"#
    );
}

#[test]
fn several_problems_are_reported_at_once() {
    let two = with("rate = \"0 kbit/s\"", "rate = \"1 Mbit/s\"").replace("size =", "sice =");
    insta::assert_snapshot!(complaint(&two, &[]), @r#"
    error: s.toml:6: link "wire": rate: must be above 0 bit/s, found "0 kbit/s"
    error: s.toml:8: flow "voice": size is missing: add size = "1200 B"
    error: s.toml:12: flow "voice": unknown key "sice": did you mean "size"?
    "#);
    insta::assert_snapshot!(complaint("duration = \n", &[]), @"error: s.toml:1: string values must be quoted, expected literal string");
    insta::assert_snapshot!(complaint("", &[]), @r#"error: s.toml:1: duration is missing: add duration = "60 s""#);
}

#[test]
fn a_setting_is_checked_as_the_file_is() {
    insta::assert_snapshot!(complaint(GOOD, &["--set", "wire.rate=0"]), @r#"error: s.toml: --set wire.rate=0: link "wire": rate: expected a rate with its unit, such as "5 Mbit/s", found 0"#);
    insta::assert_snapshot!(complaint(GOOD, &["--set", "voice.raet=1M"]), @r#"error: s.toml: --set voice.raet=1M: flow "voice": unknown key "raet": did you mean "rate"?"#);
    let folder = Folder::with(GOOD);
    let result =
        json(&folder.run(&["sim", "s.toml", "--json", "--set", "wire.delay=30ms", "--set", "duration=1 s"]));
    assert_eq!(result["duration_s"], 1.0);
    assert_eq!(result["flows"][0]["delay_ms"]["max"], 31.6);
}

#[test]
fn the_json_has_the_promised_fields() {
    let folder = Folder::with(&format!(
        "{GOOD}[[expect]]\nlink = \"wire\"\nmetric = \"utilisation\"\nmin = 0.05\nmax = 0.1\n"
    ));
    let output = folder.run(&["sim", "s.toml", "--json", "--seed", "18446744073709551615"]);
    let result = json(&output);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
    assert_eq!((&result["scenario"], &result["seed"]), (&"s".into(), &"18446744073709551615".into()));
    assert!(result["wall_s"].as_f64().unwrap() > 0.0);
    // 40 packets a second for 2 s.
    let flow = &result["flows"][0];
    assert_has(
        flow,
        &json!({ "id": "voice", "kind": "cbr", "controller": null, "sent_rate_bps": 64_000.0, "loss_ratio": 0.0,
            "lost_packets": 0, "duplicate_packets": 0, "goodput_bps": null, "path": ["wire"] }),
    );
    assert_eq!(flow["queue_delay_ms"]["p50"], 0.0);
    assert_eq!(flow["delay_ms"]["p95"], flow["delay_ms"]["max"]);
    assert_eq!(result["timeline"], Value::Null);
    assert_has(
        &result["links"][0],
        &json!({ "id": "wire", "offered_packets": 80, "delivered_packets": 80, "dropped_packets": 0, "marked_packets": 0,
            "in_flight_packets": 0, "utilisation_ratio": 0.064 }),
    );
    assert_has(
        &result["checks"][0],
        &json!({ "name": "link wire: utilisation", "passed": true, "value": 0.064, "bound": "0.05 to 0.1" }),
    );
    assert!(result["events"].as_u64().unwrap() > 80);
}

#[test]
fn an_expectation_that_is_not_met_ends_with_1_and_says_so() {
    let folder = Folder::with(&format!(
        "{GOOD}[[expect]]\nflow = \"voice\"\nmetric = \"delay-max\"\nmin = \"30 ms\"\n"
    ));
    let output = folder.run(&["sim", "s.toml"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.contains("✗ flow voice: delay-max: 21.6 ms, NOT MET: expected at least 30 ms"), "{shown}");
}

#[test]
fn a_note_is_in_the_record_and_on_standard_error() {
    // The queue of the link is shorter than a packet.
    let folder = Folder::with(
        "duration = \"5 s\"\n[[link]]\nid = \"wire\"\nfrom = \"a\"\nto = \"b\"\nrate = \"20 kbit/s\"\n\
         [[flow]]\nid = \"own\"\nkind = \"cbr\"\nrate = \"10 kbit/s\"\nsize = \"751 B\"\n",
    );
    let output = folder.run(&["sim", "s.toml", "--json"]);
    let notes = json(&output)["notes"].clone();
    assert!(text(&output.stderr).contains(&format!("note: {}", notes[0].as_str().unwrap())), "{notes}");
    let fits = json(&folder.run(&["sim", "s.toml", "--json", "--set", "own.size=750B"]));
    assert!(fits.get("notes").is_none(), "{}", fits["notes"]);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_does_not() {
    let noisy = with("rate = \"1 Mbit/s\"\nloss = 0.1\njitter = \"rfc8868\"", "rate = \"1 Mbit/s\"")
        .replace("kind = \"cbr\"", "kind = \"poisson\"");
    let folder = Folder::with(&noisy);
    let run = |seed: &str| {
        let output = text(&folder.run(&["sim", "s.toml", "--json", "--seed", seed]).stdout);
        output.lines().filter(|line| !line.contains("\"wall_s\"")).collect::<String>()
    };
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7").replace("\"seed\": \"7\"", ""), run("8").replace("\"seed\": \"8\"", ""));
}

#[test]
fn another_link_does_not_change_the_losses_of_a_link() {
    use giusto_sim::trace::{Event, Observer};

    /// Sequence numbers that a flow lost.
    struct Lost(Vec<u64>);
    impl Observer for Lost {
        fn on_event(&mut self, _now: giusto_units::Timestamp, event: &Event) {
            if let Event::Dropped { packet, .. } = event
                && packet.flow.0 == 0
            {
                self.0.push(packet.sequence);
            }
        }
    }
    let lost = |file: &str| {
        let mut lost = Lost(Vec::new());
        run::simulate(&Scenario::parse(file, "s.toml").unwrap(), 5, run::RecordOptions::default(), &mut lost);
        lost.0
    };
    let lossy = with("rate = \"1 Mbit/s\"\nloss = 0.2", "rate = \"1 Mbit/s\"")
        .replace("kind = \"cbr\"", "from = \"here\"\nto = \"there\"\nkind = \"cbr\"");
    let more = format!(
        "{lossy}count = 1\n[[link]]\nid = \"other\"\nfrom = \"x\"\nto = \"y\"\nrate = \"1 Mbit/s\"\nloss = 0.3\njitter = \"rfc8868\"\n\
         [[flow]]\nid = \"noise\"\nkind = \"poisson\"\nfrom = \"x\"\nto = \"y\"\nrate = \"500 kbit/s\"\nsize = \"500 B\"\n"
    );
    let alone = lost(&lossy);
    assert!((8..=25).contains(&alone.len()), "{alone:?}");
    assert_eq!(alone, lost(&more));
}

#[test]
fn a_scenario_comes_from_standard_input() {
    let folder = Folder::with(GOOD);
    let file = fs::File::open(folder.path("s.toml")).unwrap();
    let piped = crate::common::giusto(&["sim", "-", "--json"]).stdin(file).output().unwrap();
    assert_eq!(json(&piped)["flows"], json(&folder.run(&["sim", "s.toml", "--json"]))["flows"]);
    let empty = crate::common::run(&["sim", "-"]);
    assert_eq!(empty.status.code(), Some(2));
    assert!(text(&empty.stderr).contains("stdin"), "{}", text(&empty.stderr));
}

#[test]
fn an_unwritable_result_is_reported_and_no_partial_file_remains() {
    let folder = Folder::with(GOOD);
    let out = |out: &str| folder.run(&["sim", "s.toml", "--trace", "csv", "--out", out]);
    let output = out("new/folder");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(folder.path("new/folder/result.json").is_file());
    // A directory of that name prevents the result.
    fs::create_dir_all(folder.path("out/result.json")).unwrap();
    let output = out("out");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("this is a directory"), "{}", text(&output.stderr));
    let left = fs::read_dir(folder.path("out")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["result.json"]);
}

#[test]
fn out_writes_the_result_and_the_trace() {
    let folder = Folder::with(GOOD);
    let output = folder.run(&["sim", "s.toml", "--json", "--out", "out", "--trace", "csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut written: Value =
        serde_json::from_slice(&fs::read(folder.path("out/result.json")).unwrap()).unwrap();
    // The file has the timeline as well.
    let timeline = written.as_object_mut().unwrap().remove("timeline").unwrap();
    assert_eq!(timeline["t_s"].as_array().unwrap().len(), 200);
    assert_eq!(written, json(&output));
    let trace = fs::read_to_string(folder.path("out/trace.csv")).unwrap();
    // A header, and four events of each packet: sent, queued, dequeued, delivered.
    assert_eq!(trace.lines().count(), 1 + 4 * 80);
}

/// Three videos that never adapt over a link that carries them all, and a flow of another kind.
const STREAMS: &str = r#"duration = "10 s"
[[link]]
id = "wire"
from = "here"
to = "there"
rate = "10 Mbit/s"
delay = "20 ms"
duplex = true
[[flow]]
id = "call"
kind = "media"
controller = "fixed"
start-rate = "1.2 Mbit/s"
audio = "20 kbit/s"
video = [
    { id = "screen", model = "fixed", rate = "400 kbit/s", size = "1 kB", priority = 2, pauses = [["6 s", "10 s"]] },
    { id = "left", model = "fixed", rate = "400 kbit/s", size = "1 kB" },
    { id = "right", model = "fixed", rate = "400 kbit/s", size = "1 kB" },
]
[[flow]]
id = "voice"
kind = "cbr"
from = "here"
to = "there"
rate = "64 kbit/s"
size = "200 B"
"#;

#[test]
fn an_invalid_expectation_of_a_stream_is_refused_with_the_fix() {
    let line = STREAMS.lines().count() + 1;
    let and = |more: &str| {
        let message = complaint(&format!("{STREAMS}[[expect]]\n{more}\n"), &[]);
        let at = |line: usize| format!("s.toml:{line}:");
        (1..=4).fold(message, |message, more| message.replace(&at(line + more), &format!("s.toml:+{more}:")))
    };
    insta::assert_snapshot!(and("flow = \"call\"\nstream = \"scren\"\nmetric = \"frames\""), @r#"error: s.toml:+2: expect of flow "call": unknown stream "scren": did you mean "screen"? use one of screen, left, right, audio"#);
    insta::assert_snapshot!(and("flow = \"voice\"\nmax = \"1 Mbit/s\"\nmetric = \"received-rate\"\nstream = \"audio\""), @r#"error: s.toml:+4: expect of flow "voice": only flows of kind media have streams, found cbr: remove stream"#);
    insta::assert_snapshot!(and("flow = \"call\"\nmetric = \"loss\"\nstream = \"left\""), @r#"error: s.toml:+2: expect of flow "call": loss is not a metric of streams: use one of received-rate, frames, frame-delay-mean, frame-delay-p50, frame-delay-p95, frame-delay-p99, frame-delay-max, late-frames, repaired-frames, requested-packets, repair-rate"#);
    insta::assert_snapshot!(and("link = \"wire\"\nstream = \"left\"\nmetric = \"dropped\""), @r#"error: s.toml:+2: expect of link "wire": stream: links have no streams: remove it"#);
    let alone = STREAMS.replace("{ id = \"left\"", "#").replace("{ id = \"right\"", "#");
    let alone = alone.replace("1.2 Mbit/s", "400 kbit/s");
    let fairness = "[[expect]]\nflow = \"call\"\nmetric = \"stream-fairness\"\nmin = 0\n";
    let message = complaint(&format!("{alone}{fairness}"), &[]);
    assert!(message.contains("stream-fairness needs at least 2 videos, found 1"), "{message}");
}

#[test]
fn each_stream_of_a_flow_is_shown_and_can_have_expectations() {
    // Over three seconds in which nothing pauses; 50 frames of 1000 B in a second are 400 kbit/s.
    let checks = [
        ("stream = \"left\"\nmetric = \"received-rate\"", 0.4e6),
        ("stream = \"left\"\nmetric = \"frames\"", 150.0),
        ("stream = \"audio\"\nmetric = \"frames\"", 150.0),
        // One has half of its share: (200 + 400 + 400)² / (3 (200² + 400² + 400²)).
        ("metric = \"stream-fairness\"", 1e6 / 1.08e6),
    ];
    let late = "flow = \"call\"\nstream = \"screen\"\nmetric = \"frames\"\nfrom = \"7 s\"\nmin = 0\nmax = 0";
    let expect = |(what, value): (&str, f64)| {
        let bound = |value: f64| {
            if what.contains("rate") { format!("\"{value} bit/s\"") } else { value.to_string() }
        };
        let (min, max) = (bound(value * 0.99), bound(value * 1.01));
        let time = "from = \"2 s\"\nto = \"5 s\"";
        format!("[[expect]]\nflow = \"call\"\n{what}\n{time}\nmin = {min}\nmax = {max}\n")
    };
    let text = format!("{STREAMS}[[expect]]\n{late}\n{}", checks.map(expect).concat());
    let folder = Folder::with(&text);
    let output = folder.run(&["sim", "s.toml", "--json"]);
    let result = json(&output);
    assert_eq!(output.status.code(), Some(0), "{:#}", result["checks"]);
    let streams = result["flows"][0]["streams"].as_array().unwrap();
    let of = |key: &str| streams.iter().map(|stream| stream[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("id"), ["audio", "screen", "left", "right"]);
    assert_eq!(of("kind"), ["audio", "video", "video", "video"]);
    assert_eq!(of("ssrc"), [1, 2, 3, 4]);
    assert_eq!(of("priority"), [Value::Null, 2.0.into(), 1.0.into(), 1.0.into()]);
    assert_eq!(result["flows"][1]["streams"], Value::Null);
    let table = self::text(&folder.run(&["sim", "s.toml"]).stdout);
    assert!(table.contains("call: screen") && table.contains("call: audio"), "{table}");
    // A setting reaches one of them by its name or by its number.
    for path in ["call.video.screen.priority", "flow.call.video.1.priority"] {
        let changed = json(&folder.run(&["sim", "s.toml", "--json", "--set", &format!("{path}=1")]));
        assert_eq!(changed["flows"][0]["streams"][1]["priority"], 1.0, "{path}");
        assert!((changed["checks"][4]["value"].as_f64().unwrap() - 1.0).abs() < 1e-3, "{path}");
    }
}

#[test]
fn skipped_frames_of_a_single_video_are_shown() {
    let text = r#"
duration = "5 s"
[[link]]
id = "wire"
from = "here"
to = "there"
rate = "300 kbit/s"
duplex = true
[[flow]]
id = "call"
kind = "media"
from = "here"
to = "there"
controller = "scream:d00+giusto"
video = { model = "perfect", min = "600 kbit/s", max = "1 Mbit/s", start = "600 kbit/s" }
"#;
    let folder = Folder::with(text);
    let table = |set: &[&str]| self::text(&folder.run(&[&["sim", "s.toml"], set].concat()).stdout);
    assert!(table(&[]).contains("call: video"), "{}", table(&[]));
    let enough = table(&["--set", "wire.rate=5M"]);
    assert!(!enough.contains("call: video"), "{enough}");
    // A frame every 33 ms is encoded, or skipped; the last ones may be on their way.
    let stream = &json(&folder.run(&["sim", "s.toml", "--json"]))["flows"][0]["streams"][0];
    let [frames, skipped] = ["frames", "skipped_frames"].map(|key| count(&stream[key]));
    assert!(skipped > 20 && (135..=151).contains(&(frames + skipped)), "{frames} and {skipped}");
}

#[test]
fn every_scenario_of_the_project_meets_its_expectations() {
    use rayon::prelude::*;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files: Vec<PathBuf> = ["queues", "tcp", "paths", "media"]
        .iter()
        .flat_map(|subject| fs::read_dir(folder.join(subject)).unwrap())
        .map(|entry| entry.unwrap().path())
        .chain([folder.join("first.toml")])
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    assert!(files.len() >= 40, "{files:?}");
    let wrong: Vec<String> = files
        .par_iter()
        .flat_map_iter(|path| {
            let scenario = Scenario::load(path).unwrap();
            assert!(!scenario.description().is_empty(), "{}", path.display());
            assert!(!scenario.expectations().is_empty(), "{}", path.display());
            for expectation in scenario.expectations() {
                assert!(expectation.min.is_some() && expectation.max.is_some(), "{}", path.display());
            }
            let result = run::simulate(&scenario, scenario.seed(), run::RecordOptions::default(), &mut ());
            let failed = result.checks.into_iter().filter(|check| !check.passed);
            failed.map(move |check| format!("{}: {check:?}", path.display())).collect::<Vec<_>>()
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
