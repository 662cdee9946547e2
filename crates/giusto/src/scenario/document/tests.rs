use std::fs;

use super::*;

const FILE: &str = "duration = \"5 s\"
[[link]]
id = \"wire\"
from = \"here\"
to = \"there\"
rate = \"1 Mbit/s\"
duplex = true
queue = \"codel\"
[[flow]]
id = \"voice\"
kind = \"cbr\"
rate = \"64 kbit/s\"
size = \"200 B\"
[[flow]]
id = \"call\"
kind = \"media\"
video = [{ id = \"a\", model = \"perfect\" }, \"perfect\"]
pauses = [[\"1 s\", \"2 s\"]]
";

fn with(settings: &[&str]) -> Result<Scenario, ScenarioError> {
    let settings: Vec<Setting> = settings.iter().map(|text| text.parse().unwrap()).collect();
    Document::parse(FILE, "s.toml").unwrap().scenario(&settings)
}

fn error(setting: &str) -> String {
    with(&[setting]).unwrap_err().to_string()
}

/// Asserts that the settings change the digest as replacing `old` by `new` in the file does.
fn assert_same(settings: &[&str], old: &str, new: &str) {
    let edited = FILE.replacen(old, new, 1);
    assert_ne!(edited, FILE);
    let edited = Scenario::parse(&edited, "s.toml").unwrap();
    assert_eq!(with(settings).unwrap(), edited, "{settings:?}");
    assert_ne!(with(&[]).unwrap(), edited, "{settings:?}");
}

#[test]
fn a_setting_does_what_an_edit_of_the_file_does() {
    let rate = ("\"1 Mbit/s\"", "\"5 Mbit/s\"");
    for setting in ["wire.rate=5M", "link.wire.rate=\"5 Mbit/s\"", "wire.rate = 5 Mbit/s"] {
        assert_same(&[setting], rate.0, rate.1);
    }
    assert_same(&["duration=7 s"], "5 s", "7 s");
    assert_same(&["flow.voice.count=3"], "id = \"voice\"", "id = \"voice\"\ncount = 3");
    assert_same(&["wire.rate=2M", "wire.rate=5M"], rate.0, rate.1);
    let queue = "{ kind = \"codel\", target = \"9 ms\" }";
    assert_same(&["wire.queue.target=9 ms"], "\"codel\"", queue);
    assert_same(&[&format!("wire.queue={queue}")], "\"codel\"", queue);
}

#[test]
fn a_media_flow_may_name_a_controller_of_the_callers_own() {
    use giusto_congestion::{Algorithm, Fixed, Requirements};

    let own =
        Algorithm::custom("my:own", Requirements::DEFAULT, |limits, _| Box::new(Fixed::new(limits.max)));
    let settings = ["call.controller=my:own".parse().unwrap()];
    let plain = Document::parse(FILE, "s.toml").unwrap();
    let complaint = plain.scenario(&settings).unwrap_err().to_string();
    assert!(complaint.contains("unknown name \"my:own\""), "{complaint}");
    let scenario = plain.with_algorithms(vec![own]).scenario(&settings).unwrap();
    assert_eq!(scenario, with(&[]).unwrap().with_controller("call", own).unwrap());
    assert_ne!(scenario, with(&[]).unwrap());
}

#[test]
fn a_setting_reaches_into_a_list_by_id_or_by_number() {
    for path in ["call.video.a", "call.video.1", "flow.call.video.1"] {
        assert_same(&[&format!("{path}.priority=3")], "\"a\",", "\"a\", priority = 3,");
    }
    let second = ("\"perfect\"]", "{ model = \"perfect\", lag = \"5 ms\" }]");
    assert_same(&["call.video.2.lag=5 ms"], second.0, second.1);
    assert_same(&["call.pauses.1.2=3 s"], "\"2 s\"]", "\"3 s\"]");
    insta::assert_snapshot!(error("call.video.3.lag=5 ms"), @r#"s.toml: --set call.video.3.lag=5 ms: no video 3: there are 2, numbered from 1"#);
    insta::assert_snapshot!(error("call.video.0.lag=5 ms"), @r#"s.toml: --set call.video.0.lag=5 ms: no video 0: there are 2, numbered from 1"#);
}

#[test]
fn a_wrong_setting_is_named_with_what_there_is() {
    insta::assert_snapshot!(error("wier.rate=1"), @r#"s.toml: --set wier.rate=1: nothing is called "wier": use one of link.wire, flow.voice, flow.call, duration, warmup, seed"#);
    insta::assert_snapshot!(error("flow.udp.rate=1"), @r#"s.toml: --set flow.udp.rate=1: no flow is called "udp": use one of link.wire, flow.voice, flow.call, duration, warmup, seed"#);
    insta::assert_snapshot!(error("expect.1.min=1"), @"s.toml: --set expect.1.min=1: no expect 1: there are 0, numbered from 1");
    insta::assert_snapshot!(error("link.wire=1"), @"s.toml: --set link.wire=1: which key of it? Write link.ID.KEY=VALUE");
    insta::assert_snapshot!(error("flow=1"), @"s.toml: --set flow=1: which key of it? Write flow.ID.KEY=VALUE");
    insta::assert_snapshot!(error("link..rate=1"), @"s.toml: --set link..rate=1: a path is names with dots between them, such as link.bottleneck.rate");
    insta::assert_snapshot!(error("wire.queue={ kind = "), @"s.toml: --set wire.queue={ kind =: unclosed inline table, expected `}`");
    insta::assert_snapshot!(error("wire.queue={ kind = \"codel\", tarket = \"1 ms\" }"), @r#"s.toml: --set wire.queue={ kind = "codel", tarket = "1 ms" }: link "wire": queue: unknown key "tarket": did you mean "target"?"#);
    insta::assert_snapshot!(error("wire.queue.tarket=1 ms"), @r#"s.toml: --set wire.queue.tarket=1 ms: link "wire": queue: unknown key "tarket": did you mean "target"?"#);
    insta::assert_snapshot!(error("duration=0 s"), @r#"s.toml: --set duration=0 s: duration: must be above 0 s, found "0 s": try "60 s""#);
    insta::assert_snapshot!(error("seed=-1"), @"s.toml: --set seed=-1: seed: must be at least 0, found -1: the default is 1");
    let two = with(&["wire.rate=fast", "voice.size=1"]).unwrap_err();
    insta::assert_snapshot!(two.to_string(), @r#"
    s.toml: --set wire.rate=fast: link "wire": rate: "fast" is not a rate: write a number and a unit, such as "3 Mbit/s"
    s.toml: --set voice.size=1: flow "voice": size: expected a size with its unit, such as "1200 B", found 1
    "#);
}

#[test]
fn the_fingerprint_is_that_of_the_values() {
    let of = |text: &str| Scenario::parse(text, "s.toml").unwrap().fingerprint();
    let before = of(FILE);
    assert_eq!(before.len(), 64);
    let moved = "duplex = true # both ways\n\nrate = '1000 kbit/s'";
    assert_eq!(of(&FILE.replacen("rate = \"1 Mbit/s\"\nduplex = true", moved, 1)), before);
    assert_eq!(of(&FILE.replacen("\"codel\"", "{ kind = \"codel\", target = \"5 ms\" }", 1)), before);
    assert_eq!(of(&format!("seed = 7\n{FILE}")), before);
    for (old, new) in [
        ("5 s", "6 s"),
        ("\"codel\"", "{ kind = \"codel\", target = \"6 ms\" }"),
        ("size = \"200 B\"", "size = \"201 B\""),
        ("model = \"perfect\"", "model = \"perfect\", priority = 2"),
        ("duplex", "loss = 0.01\nduplex"),
    ] {
        assert_ne!(of(&FILE.replacen(old, new, 1)), before, "{new}");
    }
}

#[test]
fn the_fingerprint_depends_on_the_content_of_traces() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    fs::write(&file, FILE.replacen("\"1 Mbit/s\"", "{ trace = \"rates.csv\" }", 1)).unwrap();
    let with_trace = |content: &str| {
        fs::write(folder.path().join("rates.csv"), content).unwrap();
        Scenario::load(&file).unwrap().fingerprint()
    };
    let before = with_trace("0,1000000\n1,2000000\n");
    assert_eq!(with_trace("time_s,rate_bps\n0,1e6 # first\n1,2e6\n"), before);
    assert_ne!(with_trace("0,1000000\n1,2000001\n"), before);
}

#[test]
fn an_error_lists_a_bounded_number_of_problems() {
    let keys = (0..3_000).map(|n| format!("key-{n} = {n}\n")).collect::<Vec<_>>().concat();
    let error = Scenario::parse(&format!("{FILE}\n[settings]\n{keys}"), "s.toml").unwrap_err();
    assert_eq!(error.to_string().lines().count(), 1, "a table is one problem");
    let flow = |n| format!("[[flow]]\nid = \"f{n}\"\nkind = \"none\"\n");
    let flows = (0..3_000).map(flow).collect::<Vec<_>>().concat();
    let error = Scenario::parse(&format!("{FILE}\n{flows}"), "s.toml").unwrap_err().to_string();
    assert_eq!(error.lines().count(), MAX_PROBLEMS + 1);
    let rest = format!("s.toml: {} more problems are not listed", 3_000 - MAX_PROBLEMS);
    assert!(error.ends_with(&rest), "{error}");
}

const LESSON: &str = "
[lesson]
title = \"Shorter\"
question = \"How long?\"
answer = \"It depends.\"
[[lesson.step]]
text = \"Faster.\"
set = [\"wire.rate=5M\", 'voice.size=100 B']
expect = [
    { link = \"wire\", metric = \"utilisation\", min = 0, max = 0.5 },
]
";

#[test]
fn a_step_of_a_lesson_is_the_file_with_its_settings_and_expectations() {
    let file = format!("{FILE}[[expect]]\nflow = \"voice\"\nmetric = \"loss\"\nmax = 0\n{LESSON}");
    let document = Document::parse(&file, "s.toml").unwrap();
    let lesson = document.lesson().unwrap().unwrap();
    assert_eq!((lesson.title.as_str(), lesson.answer.as_str()), ("Shorter", "It depends."));
    let [step] = &lesson.steps[..] else { panic!("{lesson:?}") };
    assert_eq!(step.text, "Faster.");
    let expect = "[[expect]]\nlink = \"wire\"\nmetric = \"utilisation\"\nmin = 0\nmax = 0.5\n";
    let edited = FILE.replacen("1 Mbit/s", "5 Mbit/s", 1).replacen("200 B", "100 B", 1) + expect;
    assert_eq!(document.scenario(&step.settings).unwrap(), Scenario::parse(&edited, "s.toml").unwrap());
    // The file itself has its own, with or without a lesson.
    let alone = Document::parse(file.strip_suffix(LESSON).unwrap(), "s.toml").unwrap();
    assert_eq!(document.scenario(&[]).unwrap(), alone.scenario(&[]).unwrap());
    assert_eq!(alone.lesson().unwrap(), None);
}

#[test]
fn what_is_wrong_with_a_lesson_is_found_with_the_scenario() {
    let error = |old: &str, new: &str| {
        let changed = LESSON.replacen(old, new, 1);
        assert_ne!(changed, LESSON);
        let document = Document::parse(&format!("{FILE}{changed}"), "s.toml").unwrap();
        let error = document.scenario(&[]).unwrap_err();
        assert_eq!(document.lesson().unwrap_err(), error);
        error.to_string()
    };
    for (old, new, expected) in [
        ("answer = \"It depends.\"\n", "", "s.toml:20: lesson: answer is missing: add answer = \"NAME\""),
        ("wire.rate=5M", "wire.rate", "lesson: step 1: set 1: expected KEY=VALUE"),
        ("utilisation", "utilization", "lesson: step 1: expect of link \"wire\": metric: unknown name"),
        ("text =", "txt =", "unknown key \"txt\": did you mean \"text\"?"),
    ] {
        let found = error(old, new);
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn settings_are_written_into_the_text_of_a_file() {
    let text = r#"# first
duration = "10 s" # short
[[link]]
id = "wire" # named
from = "a"
to = "b"
duplex = true
rate = "5 Mbit/s"
queue = "codel"
[[flow]]
id = "call"
kind = "media"
video = [{ id = "camera", model = "perfect" }]
[[expect]]
link = "wire"
metric = "utilisation"
max = 1.0
"#;
    let document = Document::parse(text, "s.toml").unwrap();
    let parsed =
        |settings: &[&str]| settings.iter().map(|own| own.parse().unwrap()).collect::<Vec<Setting>>();
    let settings = parsed(&[
        "seed=7",
        "wire.queue.target=10 ms",
        "wire.reverse.delay=5 ms",
        "call.video.camera.max=2 Mbit/s",
        "wire.rate={ steps = [[\"0 s\", \"1 Mbit/s\"]] }",
        "expect.1.max=0.5",
    ]);
    let changed = document.text_with(&settings).unwrap();
    for line in [
        "# first",
        "duration = \"10 s\" # short",
        "seed = 7",
        "id = \"wire\" # named",
        "queue = { kind = \"codel\", target = \"10 ms\" }",
        "reverse = { delay = \"5 ms\" }",
        "rate = { steps = [[\"0 s\", \"1 Mbit/s\"]] }",
        "max = 0.5",
    ] {
        assert_eq!(changed.lines().filter(|own| *own == line).count(), 1, "{line}: {changed}");
    }
    let saved = Scenario::parse(&changed, "s.toml").unwrap();
    assert_eq!(saved, document.scenario(&settings).unwrap());
    assert_eq!(document.text_with(&[]).unwrap(), text);
    let refused = document.text_with(&parsed(&["wire.rat=1M"])).unwrap_err();
    assert!(refused.to_string().contains("rat"), "{refused}");
    // The list of expectations can be replaced; that of links can not.
    let expect = parsed(&["expect=[{ link = \"wire\", metric = \"utilisation\", max = 0.5 }]"]);
    let bounds =
        document.scenario(&expect).unwrap().expectations().iter().map(|own| own.max).collect::<Vec<_>>();
    assert_eq!(bounds, [Some(0.5)]);
    let whole = document.scenario(&parsed(&["link=[]"])).unwrap_err().to_string();
    assert_eq!(whole, "s.toml: --set link=[]: which key of it? Write link.ID.KEY=VALUE");
}
