//! Figures of a machine that is late now and then are marked, and the exit status is 3: in every command on the wire.
//!
//! The process is stopped for 40 ms about twice a second, as the scheduler of a busy machine does. Most of its wake-ups are in time:
//! the median does not show it.

use std::{
    fs,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use crate::common::{
    Folder, assert_measured_text, count, giusto, json,
    process::{Listener, signal},
    skip, text,
};
use serde_json::Value;

const GOES: Duration = Duration::from_millis(400);
/// Longer than the period of any strategy here, 113.6 ms: a wake-up falls into it.
const STANDS: Duration = Duration::from_millis(130);

/// Stops the process again and again until it ends.
fn stutter(mut child: Child) -> Output {
    let readers = [
        child.stdout.take().map(|pipe| thread::spawn(|| whole(pipe))),
        child.stderr.take().map(|pipe| thread::spawn(|| whole(pipe))),
    ];
    while child.try_wait().unwrap().is_none() {
        thread::sleep(GOES);
        signal_if_alive(&mut child, "STOP");
        thread::sleep(STANDS);
        signal_if_alive(&mut child, "CONT");
    }
    let [stdout, stderr] =
        readers.map(|reader| reader.map_or_else(Vec::new, |reader| reader.join().unwrap()));
    Output { status: child.wait().unwrap(), stdout, stderr }
}

fn whole(mut pipe: impl std::io::Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).unwrap();
    bytes
}

fn signal_if_alive(child: &mut Child, name: &str) {
    // Until it is waited for, its id belongs to no other process.
    if child.try_wait().unwrap().is_none() {
        signal(child, name);
    }
}

fn stuttering(args: &[&str]) -> Output {
    stutter(giusto(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// The figures are doubted because of late datagrams, by the exit status and in `result`.
#[track_caller]
fn assert_doubted(code: Option<i32>, result: &Value) {
    let doubt = result["doubts"][0].as_str().unwrap_or_default();
    assert!(doubt.contains("machine was overloaded: ") && doubt.contains(" late, where "), "{result}");
    assert_eq!(code, Some(3), "{result}");
}

#[test]
fn cbr_doubts_a_late_tail() {
    let args = ["cbr", "-b", "1M", "-l", "200", "-t", "3"];
    let output = stuttering(&[&args[..], &["--json"]].concat());
    assert_doubted(output.status.code(), &json(&output)["runs"][0]);
    let output = stuttering(&args);
    let printed = text(&output.stdout);
    assert!(printed.starts_with("warning: this machine was overloaded: "), "{printed}");
    assert_measured_text(&output);
}

#[test]
fn another_program_is_doubted_as_well() {
    if Command::new("iperf3").arg("--version").output().is_err() {
        return skip("another_program_is_doubted_as_well", "iperf3 is not installed");
    }
    let output = stuttering(&["cbr", "-b", "1M", "-l", "200", "-t", "3", "--against", "iperf3", "--json"]);
    let all = json(&output);
    assert!(all["runs"][1]["peer"].as_str().unwrap().starts_with("iperf3"), "{all}");
    for run in all["runs"].as_array().unwrap() {
        assert_doubted(output.status.code(), run);
    }
}

#[test]
fn both_ends_of_a_stream_doubt_a_late_sender() {
    let receiver = Listener::start(&["127.0.0.1:0", "--once", "--json"]);
    let to = receiver.to();
    let output = stuttering(&["send", &to, "-b", "1M", "-l", "200", "-t", "3", "--json"]);
    assert_doubted(output.status.code(), &json(&output));
    let (received, code) = receiver.result();
    assert_doubted(Some(code), &received);
    assert!(received["doubts"][0].as_str().unwrap().starts_with("the sender's machine"), "{received}");
}

/// These are late by design, so that their wake-ups are judged, which only the sender sees.
#[test]
fn a_receiver_doubts_late_wake_ups_of_the_sender() {
    let receiver = Listener::start(&["127.0.0.1:0", "--once", "--json"]);
    let to = receiver.to();
    let send = ["send", &to, "-b", "1M", "-l", "200", "-t", "8", "--strategy", "send-sleep", "--json"];
    let output = stuttering(&send);
    assert_doubted(output.status.code(), &json(&output));
    let (received, code) = receiver.result();
    assert_doubted(Some(code), &received);
    assert!(received["doubts"][0].as_str().unwrap().contains("% of the wake-ups"), "{received}");
}

/// The sender stands still for 1.2 s, and catches nothing up.
#[test]
fn both_ends_doubt_a_stream_of_which_a_part_was_never_sent() {
    let receiver = Listener::start(&["127.0.0.1:0", "--once", "--json"]);
    let to = receiver.to();
    let send = ["send", &to, "-b", "400k", "-l", "200", "-t", "4", "--catch-up", "skip", "--json"];
    let sender = giusto(&send).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(1500));
    signal(&sender, "STOP");
    thread::sleep(Duration::from_millis(1200));
    signal(&sender, "CONT");
    let output = sender.wait_with_output().unwrap();
    let sent = json(&output);
    let skipped = count(&sent["slips"]["skipped_packets"]);
    assert!((200..900).contains(&skipped), "{sent}");
    let never = format!("{skipped} of 1000 datagrams were never sent");
    let (received, code) = receiver.result();
    assert_eq!(received["slips"], sent["slips"], "{received}");
    for (code, result) in [(output.status.code(), sent), (Some(code), received)] {
        assert!(result["doubts"][0].as_str().unwrap_or_default().contains(&never), "{result}");
        assert_eq!(code, Some(3), "{result}");
    }
}

#[test]
fn stamp_doubts_a_late_sender() {
    let reflector = Listener::start(&["127.0.0.1:0", "--accept", "stamp"]);
    let to = reflector.address.to_string();
    let output = stuttering(&["send", &to, "--protocol", "stamp", "-b", "1M", "-t", "3", "--json"]);
    assert_doubted(output.status.code(), &json(&output));
}

#[test]
fn a_late_caller_and_its_page_are_doubted() {
    let folder = Folder::with("");
    let page = folder.path("call.html").display().to_string();
    let listener = Listener::call(&[]);
    let to = listener.to();
    let call =
        ["call", &to, "--controller", "fixed", "--max-rate", "2M", "-t", "4", "--json", "--out", &page];
    let output = stuttering(&call);
    assert_doubted(output.status.code(), &json(&output)["call"]);
    assert_heading_doubts(&fs::read_to_string(page).unwrap());
}

/// Asserts that the heading of a page begins with its doubts.
#[track_caller]
fn assert_heading_doubts(page: &str) {
    let (_, heading) = page.split_once("<h1").unwrap();
    assert!(heading.find("cannot be trusted").is_some_and(|place| place < 500), "{}", &heading[..700]);
}

#[test]
fn a_listener_that_goes_on_ends_with_the_doubts_of_its_calls() {
    let listener = Listener::of(&["call", "--listen", "127.0.0.1:0"]);
    let to = listener.address.to_string();
    let caller = ["call", &to, "--controller", "fixed", "--max-rate", "2M", "-t", "4"];
    let mut caller = giusto(&caller).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut child = listener.process;
    while caller.try_wait().unwrap().is_none() {
        thread::sleep(GOES);
        child.signal("STOP");
        thread::sleep(STANDS);
        child.signal("CONT");
    }
    child.signal("TERM");
    let printed = whole(child.0.stdout.take().unwrap());
    let code = child.0.wait().unwrap().code();
    assert!(text(&printed).starts_with("warning: this machine was overloaded"), "{}", text(&printed));
    assert_eq!(code, Some(3), "{}", text(&printed));
}

#[test]
fn the_headline_of_a_demo_says_what_cannot_be_trusted() {
    let folder = Folder::with("");
    let mut demo = folder.command(&["demo", "--quick", "--out", "demo.html"]);
    let output = stutter(demo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let printed = text(&output.stdout);
    assert!(printed.starts_with("warning: "), "{printed}");
    // The calls as well: their verdict is marked.
    assert!(printed.contains(" live: caller: this machine was overloaded"), "{printed}");
    assert!(printed.contains(", doubtful"), "{printed}");
    assert_measured_text(&output);
    assert_heading_doubts(&fs::read_to_string(folder.path("demo.html")).unwrap());
}
