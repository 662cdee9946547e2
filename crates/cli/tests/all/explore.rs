//! `giusto explore` in a headless Chromium: a reader turns values, draws a rate, saves a scenario and runs it.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::common::{Folder, browser::Browser, chromium::Chromium, get, giusto, text};
use serde_json::Value;

pub(crate) const CALL: &str = r#"
# A comment that stays.
duration = "10 s"

[[link]]
id = "wire"
from = "a"
to = "b"
rate = "2 Mbit/s" # the knob
delay = "20 ms"
duplex = true

[[flow]]
id = "call"
kind = "media"
from = "a"
to = "b"

[[flow]]
id = "download"
kind = "tcp"
from = "a"
to = "b"

[[expect]]
link = "wire"
metric = "utilisation"
min = 0.5
max = 1.0
"#;

/// The command while it serves its page.
pub(crate) struct Serving(Child, pub(crate) String);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Serving {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let all = [&["explore", "--no-open"], arguments].concat();
        let mut child = giusto(&all).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        Self(child, url.trim_end().to_owned())
    }

    /// The status and the body of an answer.
    fn post(&self, path: &str, body: &str) -> (u16, String) {
        let (host, token) = self.1.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let head = format!(
            "POST /{token}{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

/// Waits until the page shows the last picture of the newest question, and no other is under way.
pub(crate) const SETTLED: &str = r#"(() => {
    const results = document.querySelector(".results");
    return results?.dataset.last === "true" && results.getAttribute("aria-busy") === "false"
        && document.querySelector(".plot .main-svg") !== null;
})()"#;

/// The value that a control shows.
pub(crate) fn value(path: &str) -> String {
    format!(r#"document.querySelector('input[type=text][data-path="{path}"]')?.value"#)
}

pub(crate) fn settled_as(browser: &mut impl Browser, condition: &str) {
    browser.wait(SETTLED);
    browser.wait(&format!("Boolean({condition})"));
    browser.wait(SETTLED);
}

pub(crate) fn downloaded(folder: &Path, extension: &str) -> std::path::PathBuf {
    let began = Instant::now();
    loop {
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        if let Some(file) =
            files.into_iter().find(|file| file.extension().is_some_and(|own| own == extension))
        {
            return file;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was saved");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_reader_turns_a_value_draws_a_rate_and_runs_what_was_saved() {
    let folder = Folder::with(CALL);
    let downloads = tempfile::tempdir().unwrap();
    let file = folder.path("s.toml").display().to_string();
    let Some(mut browser) = Chromium::start("a_reader_turns_a_value") else { return };
    browser.save_to(downloads.path());
    let page = Serving::start(&[&file]);
    browser.open(&page.1);
    browser.wait(SETTLED);
    assert_eq!(browser.evaluate(&value("link.wire.rate")), "2 Mbit/s");

    // The table of a chart that is far below the window.
    let table = "[...document.querySelectorAll('.behind')].at(-1)";
    browser.evaluate(&format!("{table}.open = true;"));
    browser.wait(&format!("{table}.querySelectorAll('tr').length > 5"));
    let before = browser.evaluate(&format!("{table}.textContent"));

    // A slider, by the keyboard.
    browser.evaluate(r#"document.querySelector('input[type=range][data-path="link.wire.rate"]').focus();"#);
    for _ in 0..5 {
        browser.press("ArrowLeft");
    }
    settled_as(&mut browser, "record.runs?.[0].links[0].rate.startsWith('1.9')");
    let turned = browser.evaluate(&value("link.wire.rate"));
    assert!(turned.as_str().unwrap().starts_with("1.9") && turned != "2 Mbit/s", "{turned}");
    browser.wait(&format!("{table}.textContent !== {before}"));
    assert_eq!(browser.evaluate(&format!("{table}.querySelectorAll('tr').length > 5")), true);
    let drawn = browser.evaluate("document.querySelector('.drawing svg').getAttribute('aria-label')");
    assert!(drawn.as_str().unwrap().contains("a to b (1.9"), "{drawn}");

    // Undo, by the keyboard too: a step for each key.
    browser.evaluate("document.activeElement.blur();");
    for _ in 0..5 {
        browser.evaluate("dispatchEvent(new KeyboardEvent('keydown', { key: 'z', ctrlKey: true }));");
    }
    settled_as(&mut browser, "record.runs?.[0].links[0].rate === '2 Mbit/s'");

    // The capacity, drawn by the mouse from the left end of a chart to its right end, downwards.
    browser.evaluate("document.querySelector('.pencil').scrollIntoView({ block: 'start' }); document.querySelector('.pencil').click();");
    let corner = browser.wait(
        "{ const { left, top, width, height } = document.querySelector('.paper')?.getBoundingClientRect() ?? {}; \
         width && [left, top, width, height].map(Math.round); }",
    );
    let [left, top, width, height] = [0, 1, 2, 3].map(|place| corner[place].as_i64().unwrap());
    let points: Vec<(i64, i64)> = (0..20)
        .map(|step| (left + 60 + step * (width - 80) / 19, top + 30 + step * (height - 120) / 19))
        .collect();
    browser.drag(&points);
    settled_as(
        &mut browser,
        "record.runs?.[0].links[0].rate.includes('steps') || state.sides[0].settings.length",
    );
    let steps = browser.wait(&value("link.wire.rate"));
    let steps = steps.as_str().unwrap();
    assert!(steps.starts_with("{ steps = [[\"0 s\", ") && steps.matches("kbit/s").count() >= 10, "{steps}");

    // What is saved runs as on the page, and keeps its comments.
    browser.wait(SETTLED);
    let shown = browser
        .evaluate("[record.runs[0].flows[0].received_rate_bps, record.runs[0].flows[1].received_rate_bps]");
    browser.evaluate("[...document.querySelectorAll('.tools button')].find((own) => own.textContent === 'Save as TOML').click();");
    let saved = downloaded(downloads.path(), "toml");
    let text_of = fs::read_to_string(&saved).unwrap();
    assert!(text_of.contains("# A comment that stays.") && text_of.contains("# the knob"), "{text_of}");
    let output = giusto(&["sim", saved.to_str().unwrap(), "--json"]).output().unwrap();
    let run: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    for place in [0, 1] {
        assert_eq!(run["flows"][place]["received_rate_bps"].as_f64(), shown[place].as_f64(), "{text_of}");
    }

    // A chart as a figure: the browser writes both files.
    for format in ["svg", "png"] {
        browser.evaluate("[...document.querySelectorAll('.tools button')].find((own) => own.textContent === 'Save figure').click();");
        browser.evaluate(&format!("document.querySelector('.figures [data-format={format}]').click();"));
    }
    let svg = fs::read_to_string(downloaded(downloads.path(), "svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.ends_with("</svg>") && svg.contains("<text"), "{svg}");
    let png = fs::read(downloaded(downloads.path(), "png")).unwrap();
    let width = png.get(16..20).and_then(<[u8]>::first_chunk).copied().map(u32::from_be_bytes);
    // 85 mm at 300 dots per inch, of whole pixels of the screen.
    assert!(png.starts_with(b"\x89PNG") && width.is_some_and(|width| width.abs_diff(1004) <= 4), "{width:?}");

    // The link restores the state.
    let link = browser.evaluate("location.href");
    browser.open("about:blank");
    browser.open(link.as_str().unwrap());
    browser.wait(SETTLED);
    assert_eq!(browser.evaluate(&value("link.wire.rate")), steps);

    // One that cannot run says so, and not that its run is on its way.
    browser.open("about:blank");
    browser
        .open(&format!("{}#q={{%22sides%22:[{{%22settings%22:[[%22wire.rate%22,%22fast%22]]}}]}}", page.1));
    browser.wait("document.querySelector('.problems p') !== null");
    assert_eq!(browser.evaluate("document.querySelector('.headline').textContent"), "Nothing has run yet.");
}

#[test]
fn controllers_seeds_and_a_second_scenario_stand_side_by_side() {
    let folder = Folder::with(CALL);
    let file = folder.path("s.toml").display().to_string();
    let Some(mut browser) = Chromium::start("controllers_seeds_and_a_second_scenario") else { return };
    let page = Serving::start(&[&file, "--controller", "gcc:remb,scream:v2", "--seeds", "3"]);
    browser.open(&page.1);
    browser.wait(SETTLED);
    // As many as --seeds takes.
    assert_eq!(browser.evaluate("document.querySelector('#seeds').max"), "50");
    let lines = "[...document.querySelectorAll('.cursor tbody th')].map((own) => own.textContent)";
    assert_eq!(browser.evaluate(lines), serde_json::json!(["gcc:remb", "scream:v2"]));
    let bands = "[...entries.values()].some(({ model }) => model.series.some(({ kind }) => kind === 'band'))";
    assert_eq!(browser.evaluate(bands), true);
    let decision = browser.evaluate("document.querySelector('.cursor td.decision').textContent");
    assert!(decision.as_str().unwrap().contains("ago"), "{decision}");

    browser.evaluate("document.querySelector('[data-name=beside]').click();");
    settled_as(&mut browser, "record.runs?.length === 4");
    let four = ["A: gcc:remb", "A: scream:v2", "B: gcc:remb", "B: scream:v2"];
    assert_eq!(browser.evaluate(lines), serde_json::json!(four));

    // Those of a shorter run end before the others.
    browser.evaluate("set('duration', '5 s');");
    settled_as(&mut browser, "record.runs?.[3].duration_s === 5");
    let ended = "{ const slider = document.querySelector('.cursor input[type=range]'); slider.value = slider.max; \
                 slider.dispatchEvent(new Event('input')); \
                 [...document.querySelectorAll('.cursor tbody tr')].map((row) => row.cells[1].textContent === '–'); }";
    assert_eq!(browser.evaluate(ended), serde_json::json!([false, false, true, true]));

    // On a phone the page is no wider than the screen, and everything to turn has a name.
    browser.resize(400, 900);
    browser.wait("document.documentElement.scrollWidth <= 400");
    let unnamed = "[...document.querySelectorAll('input, select, button')].filter((own) => own.checkVisibility() && \
                   !own.labels?.length && !own.getAttribute('aria-label') && !own.textContent.trim()).map((own) => own.outerHTML)";
    assert_eq!(browser.evaluate(unnamed), serde_json::json!([]));
}

#[test]
fn what_is_wrong_is_answered_with_the_problem() {
    let folder = Folder::with(CALL);
    let file = folder.path("s.toml").display().to_string();
    // The page knows whole paths: it can take back what a flag has set by a short one.
    let page = Serving::start(&[&file, "--set", "wire.rate=3M"]);
    let (host, token) = page.1.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let html = get(host, &format!("/{token}"));
    assert!(html.contains(r#"[["link.wire.rate","3M"]]"#), "{html:.900}");
    let page = Serving::start(&[&file]);
    let (status, body) = page.post("run", r#"{"sides": [{"settings": [["wire.rate", "fast"]]}]}"#);
    let line: Value =
        serde_json::from_str(body.lines().nth(1).unwrap_or(&body)).unwrap_or_else(|_| panic!("{body}"));
    assert_eq!((status, line["kind"].as_str()), (200, Some("problems")), "{body}");
    assert!(line["problems"][0].as_str().unwrap().contains("rate: \"fast\""), "{line}");
    let (status, body) = page.post("save", r#"{"settings": [["wire.delay", "-1 s"]]}"#);
    assert_eq!(status, 200);
    assert!(body.contains("problems") && !body.contains("\"text\""), "{body}");
    assert_eq!(page.post("run", "{").0, 400);
    assert_eq!(page.post("run", r#"{"sides": [{}], "more": 1}"#).0, 400);
    assert_eq!(page.post("nothing", "{}").0, 404);
}
