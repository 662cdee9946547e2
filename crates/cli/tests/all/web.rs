//! The page of `giusto explore --out`, which has the simulator in it, from a file in a headless
//! Chromium and Firefox. `make web` writes the simulator
//! to where the command looks for it.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    common::{Folder, browser::Browser, chromium::Chromium, firefox::Firefox, giusto, json, run, text},
    explore::{SETTLED, downloaded, settled_as, value},
};

const CALL: &str = r#"
duration = "10 s"
link = [{ id = "wire", from = "a", to = "b", rate = { trace = "own.csv" }, delay = "20 ms", duplex = true }]
flow = [{ id = "call", kind = "media", from = "a", to = "b" }]
"#;

const TRACE: &str = "t_s,rate_bps\n0,1500000\n5,700000\n";

/// Scenarios of each folder of the gallery.
const SAMPLE: [&str; 6] = [
    "media/media-vs-cubic",
    "lessons/12-wifi-and-lte",
    "queues/fq-codel",
    "paths/gilbert-elliott",
    "tcp/bbr-vs-cubic",
    "rfc8867/5.4-same-algorithm",
];

/// The page of `arguments`, and its address.
fn page(folder: &Folder, arguments: &[&str]) -> (PathBuf, String) {
    let page = folder.path("page.html");
    let output = run(&[&["explore", "--out", page.to_str().unwrap()], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let address = format!("file://{}", page.display());
    (page, address)
}

/// The same with all numbers as a browser has them.
fn in_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(items) => items.into_iter().map(in_floats).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, field)| (name, in_floats(field))).collect(),
        other => other,
    }
}

#[test]
#[ignore = "make web comes first"]
fn a_page_from_a_file_simulates_as_the_command_does() {
    let Some(mut browser) = Chromium::start("a_page_from_a_file") else { return };
    assert_simulates_as_the_command_does(&mut browser);
    browser.resize(400, 900);
    browser.wait("document.documentElement.scrollWidth <= 400");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
#[ignore = "make web comes first"]
fn a_page_from_a_file_in_firefox_simulates_as_the_command_does() {
    let Some(mut browser) = Firefox::start("a_page_from_a_file_in_firefox") else { return };
    assert_simulates_as_the_command_does(&mut browser);
}

fn assert_simulates_as_the_command_does(browser: &mut impl Browser) {
    let folder = Folder::with("");
    let (path, address) = page(&folder, &[]);
    let bytes = fs::metadata(path).unwrap().len();
    assert!((1_000_000..=3_000_000).contains(&bytes), "{bytes} B");
    browser.open(&address);
    // The gallery, with pictures that the engine has made.
    browser.wait("document.querySelectorAll('.gallery .sketch svg').length >= 4");
    for name in SAMPLE {
        let question = json!({ "sides": [{ "scenario": name, "settings": [["seed", "1"]] }], "controllers": [], "seeds": 1 });
        browser.evaluate(&format!("location.hash = '#q=' + encodeURIComponent(JSON.stringify({question}));"));
        let stem = name.rsplit('/').next().unwrap();
        settled_as(
            browser,
            &format!("record.runs?.length === 1 && record.scenario.endsWith({})", json!(stem)),
        );
        let shown = browser.evaluate(
            "(({ flows, links, checks, events }) => [flows, links, checks, events])(record.runs[0])",
        );
        let record = json(&run(&["sim", name, "--json"]));
        let expected = json!([record["flows"], record["links"], record["checks"], record["events"]]);
        assert!(shown[0].as_array().is_some_and(|flows| !flows.is_empty()), "{shown}");
        assert_eq!(in_floats(shown), in_floats(expected), "{name}");
    }
    // A lesson, whose packets come from the engine, too.
    browser.evaluate("openLesson(lessons[0]);");
    browser.wait("Number(learning.place.dataset.films) > 0");
    browser.evaluate("document.querySelector('[data-guess]').click(); document.querySelector('.turn [value=\"1\"]').click();");
    browser.wait("document.querySelector('.say')?.textContent.includes('fell from')");
    browser.evaluate("leaveLesson();");
    // Two controllers, three seeds, several workers.
    browser.evaluate("change({ sides: [{ scenario: 'media/media', settings: [] }], controllers: ['gcc:remb', 'nada'], seeds: 3 });");
    settled_as(browser, "record.runs?.length === 2 && record.bands?.length > 0");
    let compared = json(&run(&["compare", "media", "--controller", "gcc:remb,nada", "--json"]));
    let rates = |runs: &Value| -> Vec<Value> {
        (0..2).map(|place| runs[place]["flows"][0]["received_rate_bps"].clone()).collect()
    };
    let shown = browser.evaluate("record.runs.map(({ flows }) => ({ flows }))");
    assert_eq!(rates(&shown), rates(&compared["runs"]));
    assert_eq!(browser.errors(), [""; 0]);
}

#[test]
#[ignore = "make web comes first"]
fn a_command_of_the_documents_opens_its_scenario_on_the_site() {
    let Some(mut browser) = Chromium::start("a_command_of_the_documents") else { return };
    let folder = Folder::with("");
    let (path, address) = page(&folder, &[]);
    fs::create_dir(folder.path("web")).unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(repository.join("docs/how-to/compare.md")).unwrap();
    let chapter = json!({ "Chapter": { "content": text, "path": "how-to/compare.md", "sub_items": [] } });
    let fitted = || {
        // The preprocessor of mdBook, as the book calls it.
        let mut command = Command::new("python3");
        command.arg("lab/site.py").current_dir(&repository).env("CARGO_TARGET_DIR", folder.path(""));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        write!(child.stdin.take().unwrap(), "{}", json!([{}, { "items": [chapter] }])).unwrap();
        let book = child.wait_with_output().unwrap().stdout;
        let book: Value = serde_json::from_slice(&book).unwrap();
        book["items"][0]["Chapter"]["content"].as_str().unwrap().to_owned()
    };
    assert!(!fitted().contains("explore.html"), "there is no such page");
    fs::copy(path, folder.path("web/explore.html")).unwrap();
    let fitted = fitted();
    // `giusto sim codel --set bottleneck.rate=10M --seed 7`, and three controllers.
    let links: Vec<&str> =
        fitted.split("](../explore.html#").skip(1).map(|rest| rest.split(')').next().unwrap()).collect();
    let opened = |browser: &mut Chromium, scenario: &str, nth: usize| {
        let label = format!("[{scenario}](../explore.html#");
        assert!(fitted.contains(&format!("{label}{}", links[nth])), "{scenario}: {}", links[nth]);
        browser.open("about:blank");
        browser.open(&format!("{address}#{}", links[nth]));
        browser.wait(SETTLED);
        browser.evaluate("record.runs.map(({ controller, duration_s }) => [controller, duration_s])")
    };
    opened(&mut browser, "queues/codel", 0);
    assert_eq!(browser.evaluate(&value("link.bottleneck.rate")), "10M");
    let compared = json(&run(&["sim", "codel", "--set", "bottleneck.rate=10M", "--seed", "7", "--json"]));
    let shown = browser.evaluate("record.runs[0].flows.map((flow) => flow.received_rate_bps)");
    let expected: Vec<&Value> =
        compared["flows"].as_array().unwrap().iter().map(|flow| &flow["received_rate_bps"]).collect();
    assert_eq!(in_floats(shown), in_floats(json!(expected)));
    let place = links.iter().position(|link| link.contains("media-step")).unwrap();
    let runs = opened(&mut browser, "media/media-step", place);
    let names: Vec<&Value> = runs.as_array().unwrap().iter().map(|run| &run[0]).collect();
    assert_eq!(json!(names), json!(["gcc:libwebrtc", "scream:v2", "tempo"]));
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
#[ignore = "make web comes first"]
fn a_page_opens_files_saves_them_and_survives_a_failure() {
    let Some(mut browser) = Chromium::start("a_page_opens_files") else { return };
    let downloads = tempfile::tempdir().unwrap();
    browser.save_to(downloads.path());
    let folder = Folder::with(CALL);
    fs::write(folder.path("own.csv"), TRACE).unwrap();
    let file = folder.path("s.toml").display().to_string();
    let (_, address) = page(&folder, &[&file, "--controller", "nada"]);
    // The trace is in the page.
    fs::remove_file(folder.path("own.csv")).unwrap();
    // A worker that fails in the middle of a request.
    browser.precede(
        "window.Worker = class extends Worker { postMessage(message) { \
         if (message.request?.includes('\"seed\",\"666\"')) this.onmessage({ data: { failed: 'out of memory' } }); \
         else super.postMessage(message); } };",
    );
    browser.open(&address);
    browser.wait(SETTLED);
    assert_eq!(browser.evaluate("record.runs.map(({ controller }) => controller)"), json!(["nada"]));
    let steps = browser.evaluate("record.runs[0].links[0].rate");
    assert!(steps.as_str().unwrap().contains("700 kbit/s"), "{steps}");

    let problem = "document.querySelector('.problems').textContent";
    browser.evaluate("set('seed', '666');");
    browser.wait(&format!("{problem}.includes('s.toml: the simulation failed: out of memory')"));
    browser.evaluate("set('seed', '7');");
    settled_as(&mut browser, &format!("{problem} === '' && record.seed === '7'"));
    browser.evaluate("set('link.wire.delay', '-1 s');");
    browser.wait(&format!("{problem}.includes('delay')"));
    browser.evaluate("set('link.wire.delay', '30 ms');");
    settled_as(&mut browser, &format!("{problem} === ''"));
    let shown = browser.evaluate("record.runs[0].flows[0].received_rate_bps");
    browser.evaluate("[...document.querySelectorAll('.tools button')].find((own) => own.textContent === 'Save as TOML').click();");
    let saved = downloaded(downloads.path(), "toml");
    fs::write(downloads.path().join("own.csv"), TRACE).unwrap();
    let record = json(&run(&["sim", saved.to_str().unwrap(), "--set", "call.controller=nada", "--json"]));
    assert_eq!(record["flows"][0]["received_rate_bps"], shown);

    // Other files, by name: a scenario without its trace, then with it.
    let other = json!(CALL.replace("10 s", "8 s"));
    browser.evaluate(&format!(
        "openFiles([new File([{other}.replace('own.csv', 'folder/other.csv')], 'other.toml')]);"
    ));
    browser.wait(&format!("{problem}.includes('other.csv') && {problem}.includes('open it together')"));
    let trace = json!(TRACE);
    browser.evaluate(&format!("openFiles([new File([{trace}], 'other.csv')]);"));
    settled_as(&mut browser, &format!("{problem} === '' && record.runs?.[0].duration_s === 8"));
    assert_eq!(browser.evaluate(&value("duration")), "8 s");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn a_page_without_an_engine_is_refused_with_the_fix() {
    let folder = Folder::with(CALL);
    let page = folder.path("page.html");
    let refused = |engine: &Path| {
        let [out, engine] = [&page, engine].map(|path| path.to_str().unwrap());
        let output = giusto(&["explore", "media", "--out", out, "--engine", engine]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        assert!(!page.exists());
        text(&output.stderr)
    };
    let missing = refused(Path::new("nowhere.gz"));
    assert!(missing.contains("--engine: nowhere.gz: cannot be read"), "{missing}");
    let other = refused(&folder.path("s.toml"));
    assert!(other.contains("s.toml: is not compressed by gzip") && other.contains("make web"), "{other}");
}

#[test]
#[ignore = "make web comes first"]
fn a_report_with_a_live_page_is_changed_by_its_readers() {
    let Some(mut browser) = Chromium::start("a_report_with_a_live_page") else { return };
    let folder = Folder::with(CALL);
    fs::write(folder.path("own.csv"), TRACE).unwrap();
    let compared =
        "compare s.toml --controller nada,tempo --set wire.delay=30ms --seed 7 --out out --live-page";
    let compared: Vec<&str> = compared.split(' ').collect();
    assert!(folder.run(&compared).status.success());
    let result: Value = serde_json::from_slice(&fs::read(folder.path("out/result.json")).unwrap()).unwrap();
    browser.open(&format!("file://{}", folder.path("out/live.html").display()));
    settled_as(&mut browser, "record.runs?.length === 2");
    let shown = browser.evaluate("record.runs.map(({ controller, flows }) => [controller, flows])");
    let expected = ["0", "1"].map(|place| {
        let run = &result["runs"][place.parse::<usize>().unwrap()];
        json!([run["controller"], run["flows"]])
    });
    assert_eq!(in_floats(shown), in_floats(json!(expected)));
    browser.evaluate("set('link.wire.delay', '80 ms');");
    settled_as(&mut browser, "record.runs?.[0].flows[0].delay_ms.p50 > 80");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn a_live_page_holds_what_was_run() {
    let folder = Folder::with(CALL);
    fs::write(folder.path("own.csv"), TRACE).unwrap();
    // A page does not look into the engine.
    fs::write(folder.path("engine.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
    let live = |arguments: &[&str], place: &str| {
        let rest = ["--out", "out", "--live-page", "--engine", "engine.gz"];
        let output = folder.run(&[arguments, &rest].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("live.html"), "{}", text(&output.stderr));
        fs::read_to_string(folder.path(&format!("out/{place}live.html"))).unwrap()
    };
    let has = |page: &str, parts: &[&str]| {
        for part in parts {
            assert!(page.contains(part), "{part}");
        }
    };
    let page =
        live(&["sim", "s.toml", "--set", "wire.delay=30ms", "--seed", "7", "--controller", "nada"], "");
    has(&page, &["own.csv", "1500000", "[\"link.wire.delay\",\"30ms\"]"]);
    has(&page, &["[\"seed\",\"7\"]", "\"controllers\":[\"nada\"]"]);
    let page = live(&["sim", "s.toml", "--controller", "nada", "--flow", "call"], "");
    has(&page, &["[\"flow.call.controller\",\"nada\"]", "\"controllers\":[]"]);
    let page = live(&["compare", "s.toml", "--controller", "nada,tempo"], "");
    has(&page, &["\"controllers\":[\"nada\",\"tempo\"]"]);
    let page = live(&["benchmark", "--seed", "a", "--replay", "0", "--controller", "nada"], "");
    has(&page, &["scenario 0 of seed"]);

    for (command, expected) in [
        ("compare s.toml --flow call", "--live-page changes the controllers of all media flows"),
        ("benchmark --scenarios 1", "--live-page shows one run: name it with --replay"),
        ("benchmark --replay 0 --controller bound:causal", "a page cannot run a bound"),
        // Before the runs.
        ("compare media --controller all", "--live-page: controllers: 18: choose at most 8"),
        ("sim s.toml --engine nowhere.gz", "nowhere.gz: cannot be read"),
        ("sim s.toml", "--out"),
    ] {
        let out: &[&str] = if expected == "--out" { &[] } else { &["--out", "new"] };
        let engine: &[&str] = if command.contains("--engine") { &[] } else { &["--engine", "engine.gz"] };
        let words: Vec<&str> = command.split(' ').collect();
        let output = folder.run(&[&words, &["--live-page"][..], out, engine].concat());
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(expected), "{command}: {error}");
    }
    assert!(!folder.path("new").exists());
}
