//! `--live`: a page follows a run.

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, ChildStderr, Stdio},
    time::{Duration, Instant},
};

use crate::common::{
    assert_has, chromium::Chromium, get, giusto, namespace::in_namespace, number, process::Listener, text,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

/// Time for what happens soon on an idle machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A command with a page. It is killed with the test.
struct Live {
    child: Child,
    stderr: BufReader<ChildStderr>,
    page: String,
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Live {
    fn start(args: &[&str]) -> Self {
        let mut command = giusto(&[args, &["--live", "--no-open"]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut live = Self { child, stderr, page: String::new() };
        live.page = live.said("live page at ");
        live
    }

    /// What follows `words` in the next line of standard error that begins with them.
    fn said(&mut self, words: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "{words}");
            if let Some(rest) = line.trim().strip_prefix(words) {
                return rest.to_owned();
            }
        }
    }

    /// A receiver, and its address.
    fn recv(args: &[&str]) -> (Self, String) {
        let mut live = Self::start(&[&["recv", "127.0.0.1:0", "--json"], args].concat());
        let listening = live.said("listening on ");
        let address = listening.split_once(" (UDP)").unwrap().0.to_owned();
        (live, address)
    }

    /// Standard output after the end, and the exit status.
    fn end(mut self) -> (Value, Option<i32>) {
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        let status = self.child.wait().unwrap().code();
        (serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}")), status)
    }

    fn stop(&self) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).unwrap();
    }

    /// All events until the end: the names, and the data.
    fn events(&self) -> Vec<(String, Value)> {
        let answer = page(&self.page, "events");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("text/event-stream"), "{head}");
        let events = body.split("\n\n").filter_map(|event| {
            let (name, data) = event.strip_prefix("event: ")?.split_once("\ndata: ")?;
            Some((name.to_owned(), serde_json::from_str(data).unwrap()))
        });
        events.collect()
    }
}

/// What a page answers at its address, or below it.
fn page(address: &str, below: &str) -> String {
    let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    get(host, &format!("/{path}{below}"))
}

fn sender(to: &str, args: &[&str]) -> Child {
    let mut command = giusto(&[&["send", to], args].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The known values of `quantity` in the updates of `kind`, in the history and since.
fn values(events: &[(String, Value)], kind: &str, quantity: &str) -> Vec<f64> {
    let history = &events[0].1;
    let names = history["quantities"].as_array().unwrap();
    let place = names.iter().position(|name| name == quantity).unwrap();
    let before = history[kind].as_array().unwrap();
    let since = events.iter().filter(|(name, _)| name == kind).map(|(_, update)| update);
    let samples = before.iter().chain(since).flat_map(|update| update["s"].as_array().unwrap());
    samples.filter_map(|sample| sample[1][place].as_f64()).collect()
}

/// The names of the streams, in the history and since.
fn names(events: &[(String, Value)]) -> Vec<&str> {
    let history = events[0].1["streams"].as_array().unwrap().iter();
    let since = events.iter().filter(|(name, _)| name == "name").map(|(_, stream)| stream);
    history.chain(since).map(|stream| stream["name"].as_str().unwrap()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The result of the run and its end are the last events.
fn ended(events: &[(String, Value)]) -> &Value {
    let [.., (result, report), (end, _)] = events else { panic!("{events:?}") };
    assert_eq!((result.as_str(), end.as_str()), ("result", "end"));
    assert!(!report["sections"].as_array().unwrap().is_empty(), "{report}");
    report
}

#[test]
fn the_events_of_both_ends_have_the_figures_of_each_stream() {
    let (receiver, address) = Live::recv(&["--once"]);
    let sender = Live::start(&["send", &address, "-b", "400k", "-l", "500", "-t", "4", "--json"]);
    let (received, sent) = std::thread::scope(|scope| {
        let received = scope.spawn(|| receiver.events());
        let sent = sender.events();
        (received.join().unwrap(), sent)
    });
    let (result, status) = receiver.end();
    assert!(matches!(status, Some(0 | 3)), "{status:?}");
    assert_eq!(received[0].0, "history");
    let (fine, coarse) =
        (values(&received, "fine", "received_rate_bps"), values(&received, "coarse", "received_rate_bps"));
    assert!((20..=60).contains(&fine.len()) && (3..=8).contains(&coarse.len()), "{fine:?} {coarse:?}");
    let wanted = number(&result["rx_rate_bps"]);
    assert!((0.9..1.1).contains(&(mean(&fine) / wanted)), "{wanted}: {fine:?}");
    assert!(values(&received, "fine", "jitter_ms").iter().all(|jitter| (0.0..1_000.0).contains(jitter)));
    let delays = values(&received, "coarse", "delay_ms");
    assert!(delays.len() >= 3 && delays.iter().all(|delay| (0.0..1_000.0).contains(delay)), "{delays:?}");
    let (own, _) = sender.end();
    for (events, result) in [(&sent, &own), (&received, &result)] {
        let headline = ended(events)["headline"].as_str().unwrap();
        // The first doubt of the result takes the place of the figures.
        if let Some(doubt) = result["doubts"][0].as_str() {
            assert_eq!(headline, format!("The figures cannot be trusted: {doubt}."));
        } else {
            assert!(headline.contains("100 datagrams/s"), "{headline}");
        }
    }
    assert!(received.iter().any(|(name, _)| name == "close"));
    for quantity in ["sent_rate_bps", "received_rate_bps"] {
        let rates = values(&sent, "coarse", quantity);
        assert!(rates.len() >= 3 && (0.32e6..0.44e6).contains(&mean(&rates)), "{quantity}: {rates:?}");
    }
    assert!(number(&own["sent_packets"]) > 0.0);
}

#[test]
fn the_events_of_cbr_have_a_stream_for_each_run() {
    let live = Live::start(&["cbr", "--rate", "100k,200k", "--size", "200", "-t", "2", "--json"]);
    let events = live.events();
    assert_eq!(live.end().0["runs"].as_array().map(Vec::len), Some(2));
    assert_eq!(names(&events), ["1: grid at 100 kbit/s, 200 B", "2: grid at 200 kbit/s, 200 B"]);
    let rates = values(&events, "coarse", "received_rate_bps");
    assert!((0.12e6..0.18e6).contains(&mean(&rates)), "{rates:?}");
    ended(&events);
}

#[test]
fn the_events_of_a_call_have_target_queue_and_decisions() {
    let listener = Listener::call(&[]);
    let live = Live::start(&["call", &listener.to(), "-t", "4", "--max-rate", "800k", "--bidir", "--json"]);
    let events = live.events();
    let (record, _) = live.end();
    let targets = values(&events, "fine", "target_rate_bps");
    assert!(targets.iter().all(|target| (30e3..=800e3).contains(target)), "{targets:?}");
    assert!(targets.iter().any(|target| *target > 300e3), "{targets:?}");
    let queues = values(&events, "fine", "sender_queue_ms");
    assert!(queues.len() >= 20 && queues.iter().all(|queue| (0.0..5_000.0).contains(queue)), "{queues:?}");
    for quantity in ["sent_rate_bps", "received_rate_bps"] {
        let rates = values(&events, "coarse", quantity);
        assert!(rates.len() >= 3 && (100e3..1.2e6).contains(&mean(&rates)), "{quantity}: {rates:?}");
    }
    for quantity in ["frame_delay_ms", "rtt_ms", "loss_ratio"] {
        let known = values(&events, "coarse", quantity);
        let within = known.iter().all(|value| (0.0..5_000.0).contains(value));
        assert!(known.len() >= 3 && within, "{quantity}: {known:?}");
    }
    let decisions: Vec<&Value> =
        events.iter().filter(|(name, _)| name == "decision").map(|(_, decision)| decision).collect();
    let before = events[0].1["decisions"].as_array().unwrap();
    let count = (decisions.len() + before.len()) as u64;
    let changes: u64 =
        record["flows"].as_array().unwrap().iter().filter_map(|flow| flow["decisions"].as_u64()).sum();
    assert!(count > 0 && (changes == 0 || count.abs_diff(changes) <= 2), "{count} {changes}");
    let first = before.first().or(decisions.first().copied()).unwrap();
    assert!(!first["cause"].as_str().unwrap().is_empty() && first["from_bps"] != first["to_bps"], "{first}");
    ended(&events);
    drop(listener);
}

/// A folder with a program in place of `xdg-open`, which writes down how it was called.
struct Desktop(tempfile::TempDir);

impl Desktop {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = "#!/bin/sh\n\
            stat -c %a \"$1\" > \"$NOTES/mode\"; cat \"$1\" > \"$NOTES/page\"; echo \"$@\" > \"$NOTES/new\"; mv \"$NOTES/new\" \"$NOTES/arguments\"\n";
        let program = folder.path().join("xdg-open");
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        Self(folder)
    }

    /// Starts a command that has a display.
    fn start(&self, args: &[&str]) -> Child {
        let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap());
        let mut command = giusto(args);
        command.env("PATH", path).env("NOTES", self.0.path()).env("DISPLAY", ":none");
        command.env("XDG_RUNTIME_DIR", self.0.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.0.path().join(name)).ok()
    }

    /// The file that the browser was given, once it was.
    fn opened(&self) -> PathBuf {
        let began = Instant::now();
        loop {
            if let Some(arguments) = self.read("arguments") {
                return PathBuf::from(arguments.trim());
            }
            assert!(began.elapsed() < PATIENCE, "no browser was opened");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The address of the page, in a line of standard error or of standard output.
fn page_in(output: &str) -> &str {
    output.split_whitespace().find(|word| word.starts_with("http://127.0.0.1:")).unwrap()
}

#[test]
fn a_browser_gets_a_private_file_in_place_of_the_address() {
    for args in [&["recv", "127.0.0.1:0", "--live"][..], &["explore"]] {
        let desktop = Desktop::new();
        let child = desktop.start(args);
        let file = desktop.opened();
        assert_eq!(file.parent(), Some(desktop.0.path()), "{}", file.display());
        assert_eq!(desktop.read("mode").unwrap().trim(), "600");
        let page = desktop.read("page").unwrap();
        assert!(file.exists());
        kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(!file.exists(), "{} is left", file.display());
        let said = text(&[output.stdout, output.stderr].concat());
        let url = page_in(&said);
        assert!(page.contains(&format!("http-equiv=\"refresh\" content=\"0;url={url}\"")), "{page}");
        // The token is nowhere in the arguments.
        let token = url.trim_end_matches('/').rsplit('/').next().unwrap();
        assert!(token.len() == 32 && !desktop.read("arguments").unwrap().contains(token), "{url}");
    }
}

#[test]
fn a_browser_is_opened_once_the_far_end_has_answered() {
    let desktop = Desktop::new();
    // Nobody answers at this address.
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap().to_string();
    for command in ["call", "send"] {
        let output = desktop.start(&[command, &to, "--live", "-t", "1"]).wait_with_output().unwrap();
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains("live page at "), "{}", text(&output.stderr));
        assert_eq!(desktop.read("arguments"), None, "{command}");
    }
    let listener = Listener::call(&[]);
    let child = desktop.start(&["call", &listener.address.to_string(), "--live", "-t", "60", "--json"]);
    let file = desktop.opened();
    assert!(file.exists());
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    child.wait_with_output().unwrap();
    assert!(!file.exists());
    listener.result();
}

#[test]
fn a_page_says_what_it_waits_for_and_why_the_run_failed() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap().to_string();
    let mut live = Live::start(&["call", &to, "-t", "1"]);
    let page = page(&live.page, "");
    assert!(page.contains(&format!("Waiting for {to} to answer.")), "{page}");
    let events = live.events();
    let [.., (failed, why), (end, _)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((failed.as_str(), end.as_str()), ("failed", "end"));
    assert!(why["error"].as_str().unwrap().contains(&to), "{why}");
    assert!(!live.child.wait().unwrap().success());
}

/// The error of a run that failed, and whether the page has the result before it.
fn failed(events: &[(String, Value)]) -> (&str, bool) {
    let [.., (before, _), (failed, why), (end, _)] = events else { panic!("{events:?}") };
    assert_eq!((failed.as_str(), end.as_str()), ("failed", "end"));
    (why["error"].as_str().unwrap(), before == "result")
}

#[test]
fn a_page_has_the_error_of_a_run_beside_its_result() {
    in_namespace("live: errors", 1500, || {
        let (mut live, address) = Live::recv(&["--once", "--idle", "2s"]);
        let mut sender = sender(&address, &["-b", "100k", "-l", "200", "-t", "600"]);
        live.said("127.0.0.1:");
        std::thread::sleep(Duration::from_millis(700));
        sender.kill().unwrap();
        sender.wait().unwrap();
        let events = live.events();
        let (error, has_result) = failed(&events);
        assert!(error.contains("the sender disappeared") && has_result, "{error}");
        let (received, status) = live.end();
        // Whether more was sent is unknown.
        assert_has(&received, &json!({ "lost_packets": null, "loss_ratio": null }));
        assert!(status == Some(1) && number(&received["received_packets"]) > 0.0, "{received}");
        // The second run cannot send.
        let args = ["cbr", "--rate", "100k", "--size", "1200,3000", "--dont-fragment", "-t", "2", "--json"];
        let live = Live::start(&args);
        let events = live.events();
        let (error, has_result) = failed(&events);
        assert!(error.contains("3000 B") && has_result, "{error}");
        assert_eq!(names(&events)[0], "1: grid at 100 kbit/s, 1200 B");
        assert_eq!(live.end().1, Some(1));
    });
}

#[test]
fn a_browser_that_starts_late_gets_the_error_too() {
    in_namespace("live: late browser", 1500, || {
        let desktop = Desktop::new();
        let args = ["cbr", "--rate", "100k", "--size", "3000", "--dont-fragment", "-t", "1", "--live"];
        let child = desktop.start(&args);
        desktop.opened();
        let page = desktop.read("page").unwrap();
        let (_, url) = page.split_once("url=").unwrap();
        std::thread::sleep(Duration::from_secs(3));
        let answer = self::page(url.split('"').next().unwrap(), "events");
        // The run ends once a browser is there: before or after that has read the history.
        let has_ended = answer.contains("\"ended\":true}") || answer.contains("event: end");
        assert!(answer.contains("3000 B") && has_ended, "{answer}");
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    });
}

/// The received rate that the row of each stream shows, in kbit/s.
const RATES: &str = "[...document.querySelectorAll('.now tbody tr')].map((row) => {
    const [value, unit] = row.cells[1].textContent.split(' ');
    return value * (unit === 'Mbit/s' ? 1e3 : unit === 'kbit/s' ? 1 : NaN);
})";

#[test]
fn chromium_follows_recv_with_two_senders() {
    let (live, address) = Live::recv(&[]);
    let Some(mut page) = Chromium::start("chromium_follows_recv_with_two_senders") else { return };
    page.open(&live.page);
    page.wait("document.querySelector('.state')?.textContent === '○ waiting'");
    let mut senders = [("400k", "500"), ("160k", "200")]
        .map(|(rate, size)| sender(&address, &["-b", rate, "-l", size, "-t", "600"]));
    page.wait("document.querySelector('.state').textContent === '● live'");
    page.wait(&format!("{RATES}.length === 2"));
    // Of both, about what was asked for. On a busy machine single values differ.
    page.wait(&format!(
        "{{ const [one, other] = {RATES}.sort((a, b) => b - a); 360 < one && one < 440 && 140 < other && other < 180 }}"
    ));
    page.wait("/^2 streams, .* received, /.test(document.querySelector('.headline').textContent)");
    // A line for each stream in each chart that is drawn.
    page.wait("document.querySelectorAll('.plot .main-svg').length > 0");
    page.wait(
        "document.querySelector('.plot').querySelectorAll('.scatterlayer .trace path.js-line').length === 2",
    );
    let line = "document.querySelector('.plot').querySelector('path.js-line').getAttribute('d')";
    let before = page.evaluate(line);
    page.wait(&format!("{line} !== {before}"));
    // While it is paused the picture stays, and what comes is kept.
    page.evaluate("document.querySelector('.controls button').click()");
    let shown = page.evaluate(&format!("[{line}, document.querySelector('.now').innerText]"));
    let kept = page.evaluate("lastUpdate").as_f64().unwrap();
    page.wait(&format!("lastUpdate > {kept} + 2"));
    assert_eq!(page.evaluate(&format!("[{line}, document.querySelector('.now').innerText]")), shown);
    page.evaluate("document.querySelector('.controls button').click()");
    page.wait(&format!("{line} !== {}", shown[0]));
    let length = page.evaluate("[...streams.values()][0].fine.length").as_u64().unwrap();
    assert!((30..=600).contains(&length), "{length}");
    // A hidden line stays hidden, and its button keeps the focus.
    let legend = "document.querySelector('.legend button')";
    page.evaluate(&format!("{legend}.focus(); {legend}.click()"));
    page.wait("document.querySelector('.plot').querySelectorAll('path.js-line').length === 1");
    let kept = page.evaluate("lastUpdate").as_f64().unwrap();
    page.wait(&format!("lastUpdate > {kept} + 1"));
    assert_eq!(page.evaluate(&format!("document.activeElement === {legend}")), true);
    assert_eq!(page.evaluate("document.querySelector('.plot').querySelectorAll('path.js-line').length"), 1);
    // A page that comes later has the history.
    page.reload();
    page.wait(&format!("streams.size === 2 && [...streams.values()][0].fine.length >= {length}"));
    // One sender ends; then the receiver does.
    senders[1].kill().unwrap();
    page.wait("document.querySelectorAll('.now .over').length === 1");
    live.stop();
    page.wait("document.querySelector('.state').textContent === '■ ended'");
    page.wait("document.querySelectorAll('.result tbody tr').length === 2");
    page.wait("document.querySelector('.plot').querySelectorAll('path.js-line').length === 2");
    let (result, _) = live.end();
    assert_eq!(result["runs"].as_array().unwrap().len(), 2);
    assert_eq!(page.errors, Vec::<String>::new());
    for sender in &mut senders {
        let _ = sender.kill();
        sender.wait().unwrap();
    }
}

#[test]
fn a_lost_connection_leaves_the_last_picture() {
    let (live, address) = Live::recv(&[]);
    let Some(mut page) = Chromium::start("a_lost_connection_leaves_the_last_picture") else { return };
    page.open(&live.page);
    page.evaluate("pause.click()");
    let mut sender = sender(&address, &["-b", "100k", "-l", "200", "-t", "600"]);
    page.wait("charts.size > 1");
    page.evaluate("pause.click()");
    // What came while the page was paused has its headings.
    page.wait("nowHead.cells.length > 2 && nowHead.cells.length === nowBody.rows[0]?.cells.length");
    page.wait("document.querySelectorAll('.plot path.js-line').length > 0");
    drop(live);
    page.wait("document.querySelector('.state').textContent === '! connection lost'");
    let rows = page.evaluate("document.querySelectorAll('.now tbody tr').length");
    assert_eq!(rows, 1);
    assert_eq!(page.evaluate("document.querySelectorAll('.plot path.js-line').length > 0"), true);
    let _ = sender.kill();
    sender.wait().unwrap();
}
