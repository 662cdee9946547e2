//! The figures in the documents are those of the runs that the documents name.

use std::{fs, path::PathBuf};

use crate::common::{Folder, json, run, text};
use serde_json::Value;

/// A path in the repository.
fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    fs::read_to_string(repository(path)).unwrap()
}

/// A document whose sentences are looked for without regard to its line breaks.
struct Page(&'static str, String);

impl Page {
    fn new(path: &'static str) -> Self {
        Self(path, one_line(&read(path)))
    }

    fn says(&self, wanted: &str) {
        assert!(self.1.contains(&one_line(wanted)), "{} does not say: {wanted}", self.0);
    }
}

/// Without line breaks, and without the signs of a comment at the beginning of lines.
fn one_line(text: &str) -> String {
    let lines = text.lines().map(|line| line.trim_start_matches('#').trim());
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// The blocks of a language in a page.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(fence.as_str()).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// A scenario of the repository with settings.
fn simulated(scenario: &str, settings: &[&str]) -> Value {
    let file = repository(scenario);
    let mut args = vec!["sim", file.to_str().unwrap(), "--json"];
    args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    json(&run(&args))
}

fn check(run: &Value, place: usize) -> f64 {
    run["checks"][place]["value"].as_f64().unwrap()
}

#[test]
fn the_tutorial_shows_the_figures_of_its_runs() {
    let (text_of_page, page) = (read("docs/tutorial.md"), Page::new("docs/tutorial.md"));
    let blocks = blocks(&text_of_page, "toml call.toml");
    let alone = json(&Folder::with(blocks[0]).run(&["sim", "s.toml", "--json"]));
    let call = &alone["flows"][0];
    assert_eq!((&call["sent_packets"], &call["delay_ms"]["max"]), (&1200.into(), &20.32.into()));
    assert_eq!(call["received_packets"], 1200);
    page.says("all 1,200 packets arrived, each with a one-way delay of 20.3 ms: 0.32 ms to transmit");

    let beside = json(&Folder::with(&blocks[..2].concat()).run(&["sim", "s.toml", "--json"]));
    let longest = beside["flows"][0]["queue_delay_ms"]["max"].as_f64().unwrap();
    assert!((290.0..300.0).contains(&longest), "{longest}");
    page.says("The queueing delay of the call is now up to 300 ms");

    let folder = Folder::with(&blocks.concat());
    let p95 = |queue: &str, status: i32| {
        let output = folder.run(&["sim", "s.toml", "--json", "--set", &format!("home.queue={queue}")]);
        assert_eq!(output.status.code(), Some(status), "{queue}");
        json(&output)["flows"][0]["queue_delay_ms"]["p95"].as_f64().unwrap()
    };
    page.says(&format!("the first expectation fails: the 95th percentile is {:.0} ms", p95("drop-tail", 1)));
    let [codel, fq_codel] = ["codel", "fq-codel"].map(|queue| p95(queue, 0));
    page.says(&format!("With CoDel the 95th percentile is {codel:.1} ms, with FQ-CoDel {fq_codel:.1} ms"));

    let output = folder.run(&["sim", "s.toml", "--set", "home.rate=0 Mbit/s"]);
    page.says(&text(&output.stderr).replace("s.toml", "call.toml"));

    // The queue of the file is drop-tail: runs with another one are not judged.
    let sweep = ["sweep", "s.toml", "--set", "home.queue=drop-tail,codel,fq-codel", "--seeds", "1..10"];
    let output = folder.run(&sweep);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    let repeat = "giusto sim s.toml --seed 7 --set home.queue=drop-tail";
    assert!(message.contains(&format!("expectation not met: {repeat}: ")), "{message}");
    page.says(&repeat.replace("s.toml", "call.toml"));
    assert!(message.contains("20 of 30 runs have other values and are not judged"), "{message}");
    assert!(!message.contains("--set home.queue=codel"), "{message}");
}

#[test]
fn the_decisions_in_the_documents_are_those_of_the_run() {
    let media = repository("scenarios/media/media.toml");
    let shown = text(&run(&["sim", media.to_str().unwrap(), "--why", "2.6s"]).stdout);
    let page = read("docs/reference/controllers.md");
    let quoted = blocks(&page, "text").into_iter().find(|block| block.contains("over-use")).unwrap();
    assert!(quoted.lines().count() == 2 && shown.contains(quoted), "{quoted}{shown}");
}

#[test]
fn the_replays_in_the_documents_are_those_of_the_recordings() {
    let page = Page::new("docs/how-to/replay.md");
    for (recording, feedback) in
        [("chromium-gcc", "with [transport-wide"), ("chromium-gcc-rfc8888", "with RFC 8888")]
    {
        let log = repository(&format!("crates/giusto/tests/data/{recording}.rtclog"));
        let replay =
            json(&run(&["replay", log.to_str().unwrap(), "--controller", "gcc:libwebrtc", "--json"]));
        let apart = replay["controllers"][0]["apart_ratio"].as_f64().unwrap() * 100.0;
        page.says(&format!("for {apart:.1} % of the time {feedback}"));
    }
}

#[test]
fn the_equilibrium_in_the_documents_is_that_of_the_run() {
    let run = simulated("scenarios/media/nada-priority.toml", &[]);
    Page::new("docs/explanation/other-controllers.md").says(&format!(
        "give {:.2} and {:.2} Mbit/s of 3 from 60 s on, and a queueing delay of {:.0} ms",
        check(&run, 0) / 1e6,
        check(&run, 1) / 1e6,
        run["flows"][0]["queue_delay_ms"]["p50"].as_f64().unwrap()
    ));
}

#[test]
fn the_delays_of_scream_in_the_documents_are_those_of_the_runs() {
    let of = |target: &str, lag: &str| {
        let set = [format!("call.delay-target={target}"), format!("call.video.lag={lag}")];
        let run = simulated("scenarios/media/scream-fifo.toml", &[&set[0], &set[1]]);
        let used = run["links"][0]["utilisation_ratio"].as_f64().unwrap() * 100.0;
        (used, run["flows"][0]["queue_delay_ms"]["p95"].as_f64().unwrap())
    };
    let ((used, p95), (short, short_p95)) = (of("60 ms", "0 ms"), of("20 ms", "0 ms"));
    Page::new("docs/explanation/scream.md").says(&format!(
        "{short:.0} % used at a delay p95 of {short_p95:.0} ms; {used:.0} % at {p95:.0} ms without its `delay-target`"
    ));
    let (_, slightly_late) = of("20 ms", "20 ms");
    let file = Page::new("scenarios/media/scream-fifo.toml");
    file.says(&format!("with 20 ms as the target the link is as full, and the queue {short_p95:.0} ms."));
    file.says(&format!("with 20 ms of lag it is {slightly_late:.0} ms"));
}

/// Pages quote the scoreboard, which `giusto reproduce rfc8867` writes.
#[test]
fn quoted_scores_are_those_of_the_scoreboard() {
    let board = read("docs/reproduce/rfc8867.md");
    let cells = |start: &str| {
        let line = board.lines().find(|line| line.starts_with(start)).unwrap();
        line.trim_matches('|').split('|').map(|cell| cell.trim_matches('`').to_owned()).collect::<Vec<_>>()
    };
    let (names, scores) = (cells("|case|of|"), cells("|all|"));
    let score = |name: &str| &scores[names.iter().position(|known| known == name).unwrap()];
    let of = &scores[1];
    let page = Page::new("docs/explanation/gcc.md");
    for name in ["gcc:libwebrtc", "gcc:draft-02"] {
        let own = score(&format!("{name}+giusto"));
        page.says(&format!("| `{name}` | {} of {of} | {own} |", score(name)));
    }
}
