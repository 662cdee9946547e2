//! What the command prints, and how it ends: lines, CSV, JSON, interrupts, outputs that cannot be written.
//!
//! No test depends on how fast this machine is.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::UdpSocket,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    common::{
        Folder, assert_measured, finished, giusto, intervals_and_results, json,
        process::{Listener, signal},
        run, skip, text, total,
    },
    habits::Receiver,
};
use serde_json::Value;

#[test]
fn intervals_add_up_to_the_result_at_both_ends() {
    let flags = ["--interval", "0.5", "--json-lines"];
    let mut receiver = Receiver::start("127.0.0.1:0", &[&["--once"], &flags[..]].concat());
    let to = receiver.to();
    let mut send = giusto(&[&["send", &to, "-b", "800k", "-l", "500", "-t", "2.2"], &flags[..]].concat());
    let mut sender = send.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The first interval is there before the run has ended.
    let first = receiver.line();
    assert!(first.contains("\"interval\""), "{first}");
    assert!(sender.try_wait().unwrap().is_none(), "the interval came after the end");
    let sent = text(&sender.wait_with_output().unwrap().stdout);
    let (rest, code) = receiver.rest();
    let received = first + &rest;
    assert_measured(Some(code), &Value::from(intervals_and_results(&received).1));
    for (end, lines) in [("sender", &sent), ("receiver", &received)] {
        let (intervals, results) = intervals_and_results(lines);
        assert!(results.len() == 1 && intervals.len() >= 2, "{end}: {lines}");
        let result = &results[0];
        for field in ["received_packets", "lost_packets"] {
            assert_eq!(total(&intervals, field), result[field].as_i64().unwrap(), "{end}: {field}: {lines}");
        }
        assert_eq!(result["received_packets"], 440, "{end}");
        assert_eq!(total(&intervals, "received_bytes"), 440 * 500, "{end}: {lines}");
        for pair in intervals.windows(2) {
            assert_eq!(pair[0]["end_s"], pair[1]["start_s"], "{end}: {lines}");
            assert!(pair[0]["end_s"].as_f64() > pair[0]["start_s"].as_f64(), "{end}: {lines}");
        }
        assert!(lines.lines().last().unwrap().starts_with("{\"result\""), "{end}: {lines}");
    }
    let (intervals, _) = intervals_and_results(&sent);
    assert_eq!((total(&intervals, "sent_packets"), total(&intervals, "sent_bytes")), (440, 220_000));
}

#[test]
fn verbose_adds_the_deviations_of_gaps() {
    for flags in [&["-v"][..], &[]] {
        let receiver = Receiver::start("127.0.0.1:0", &[&["--once"], flags].concat());
        let sent = text(&run(&[&["send", &receiver.to(), "--count", "20"], flags].concat()).stdout);
        let received = receiver.rest().0;
        assert_eq!([sent, received].map(|words| words.contains("gap error")), [!flags.is_empty(); 2]);
    }
}

#[test]
fn csv_has_one_header_and_a_row_for_each_record() {
    let receiver = Receiver::start("127.0.0.1:0", &["--once", "--csv"]);
    let to = receiver.to();
    let sent = run(&["send", &to, "-b", "800k", "-l", "500", "-t", "1.2", "-i", "0.5", "--csv"]);
    let cbr = run(&["cbr", "-b", "1M", "-l", "200,400", "-t", "0.2", "--csv"]);
    for (table, results, intervals) in
        [(sent.stdout, 1, 1..=4), (receiver.rest().0.into_bytes(), 1, 0..=0), (cbr.stdout, 2, 0..=0)]
    {
        let mut reader = csv::Reader::from_reader(&table[..]);
        let names = reader.headers().unwrap().clone();
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        let of = |kind: &str| rows.iter().filter(|row| &row[0] == kind).count();
        assert_eq!(of("result"), results, "{}", text(&table));
        assert!(intervals.contains(&of("interval")) && of("result") + of("interval") == rows.len());
        let column = names.iter().position(|name| name == "received_packets").unwrap();
        assert!(rows.last().unwrap()[column].parse::<u64>().unwrap() > 0);
        let is_measured = |name: &&str| ["rate", "delay", "error"].iter().any(|what| name.contains(what));
        for name in names.iter().filter(is_measured) {
            assert!(["_bps", "_ms", "_us", "_basis"].iter().any(|unit| name.ends_with(unit)), "{name}");
        }
    }
}

#[test]
fn json_holds_the_intervals_too() {
    let receiver = Receiver::start("127.0.0.1:0", &["--once", "-J", "-i", "0.5"]);
    let sent = json(&run(&["send", &receiver.to(), "-b", "1M", "-t", "1.2", "-i", "0.5", "-J"]));
    let received: Value = serde_json::from_str(&receiver.rest().0).unwrap();
    for end in [sent, received] {
        assert!(!end["intervals"].as_array().unwrap().is_empty(), "{end}");
    }
}

#[test]
fn a_closed_pipe_ends_a_live_run() {
    let receiver = Receiver::start("127.0.0.1:0", &[]);
    let to = receiver.to();
    let mut send = giusto(&["send", &to, "-t", "60", "-i", "0.5"]);
    let mut sender = send.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(sender.stdout.take().unwrap());
    lines.read_line(&mut String::new()).unwrap();
    drop(lines);
    let code = sender.wait().unwrap().code();
    assert!(matches!(code, Some(0 | 3)), "{code:?}");
    // Without a reader of its messages nothing panics either.
    for args in [&["completions", "bash"][..], &["--help"], &["frobnicate"], &["send", "127.0.0.1:"]] {
        let mut command = giusto(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        assert!(matches!(child.wait().unwrap().code(), Some(0 | 2)), "{args:?}");
    }
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let commands = "cbr -b 1M -l 200 -t 0.1; cbr -b 1M -l 200 -t 0.1 --json; --help; --version; send --help; \
                    completions bash; schema; sim first --json; compare compare --controller tempo,nada";
    for args in commands.split("; ") {
        let words: Vec<&str> = args.split(' ').collect();
        let output = giusto(&words).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args}");
        let complaint = text(&output.stderr);
        assert!(complaint.contains("error: standard output cannot be written: "), "{args}: {complaint}");
    }
    // A service ends with its first result that is lost.
    let mut recv = giusto(&["recv", "127.0.0.1:0", "-t", "120"]);
    let mut recv = recv.stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut complaints, mut first) = (BufReader::new(recv.stderr.take().unwrap()), String::new());
    complaints.read_line(&mut first).unwrap();
    let (to, begun) = (first.split(' ').nth(2).unwrap(), Instant::now());
    run(&["send", to, "-t", "0.2"]);
    assert_eq!((recv.wait().unwrap().code(), begun.elapsed() < Duration::from_secs(60)), (Some(1), true));
}

#[test]
fn a_full_standard_output_costs_no_file() {
    let folder = Folder::with("");
    for (args, file) in [
        (&["sweep", "first", "--seeds", "1..2", "--out", "kept"][..], "kept/flows.csv"),
        (&["cbr", "-b", "1M", "-l", "200", "-t", "0.1", "--out", "cbr.html"], "cbr.html"),
        (&["reproduce", "shaper", "--quick", "--markdown", "shaper.md"], "shaper.md"),
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = folder.command(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(text(&output.stderr).contains("standard output cannot be written"), "{args:?}");
        assert!(folder.path(file).exists(), "{args:?}");
    }
}

/// Where files end at 4 kB a run in real time still prints its result, which cannot be had again.
#[test]
fn a_full_disk_costs_no_result() {
    let folder = Folder::with(
        r#"duration = "2 s"
        link = [{ id = "wire", from = "a", to = "b", rate = "1 Mbit/s", delay = "20 ms", reverse = {} }]
        flow = [{ id = "call", kind = "media", from = "a", to = "b" }]"#,
    );
    let log = folder.run(&["sim", "s.toml", "--session-log", "log.jsonl"]);
    assert_eq!(log.status.code(), Some(0), "{}", text(&log.stderr));
    let listener = Listener::of(&["call", "--listen", "127.0.0.1:0"]);
    let limited = |args: &str| {
        let args = args.replace("TO", &listener.to());
        let script = "trap '' XFSZ; ulimit -f 8; exec \"$@\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_giusto")]).args(args.split(' '));
        let output = shell.current_dir(folder.0.path()).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args}: {said}");
        assert!(said.contains("choose another place"), "{args}: {said}");
        (json(&output), said)
    };
    for args in [
        "call TO -t 2 --json --out c.html",
        "call TO -t 2 --json --session-log c.jsonl",
        "call TO -t 2 --json --trace c.csv",
    ] {
        let (record, _) = limited(args);
        assert!(record["flows"][0]["sent_packets"].as_u64() > Some(20), "{args}: {record}");
    }
    let (compared, _) = limited("compare s.toml --live --controller fixed --json --out compared");
    assert_eq!(compared["runs"].as_array().unwrap().len(), 2, "{compared}");
    for args in ["replay log.jsonl --json --out r.html", "replay log.jsonl --json --trace r.csv"] {
        assert!(limited(args).0["sent_packets"].as_u64() > Some(20), "{args}");
    }
    // The end that listens.
    let full = Listener::call(&["--out", "/dev/full"]);
    finished(&run(&["call", &full.to(), "-t", "1", "--json"]));
    let (record, status) = full.result();
    assert!(status == 1 && record["flows"][0]["received_packets"].as_u64() > Some(20), "{record}");
}

#[test]
fn an_interrupted_list_of_runs_is_printed() {
    for form in ["--json", "--csv"] {
        let mut cbr = giusto(&["cbr", "-b", "100k,200k,300k", "-l", "200", "-t", "20", form]);
        let child = cbr.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        signal(&child, "INT");
        let output = child.wait_with_output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
        if form == "--json" {
            let all = json(&output);
            assert_eq!((&all["interrupted"], all["runs"].as_array().unwrap().len()), (&Value::from(true), 1));
            assert_eq!(all["runs"][0]["ended"], "interrupted");
        } else {
            assert_eq!(text(&output.stdout).lines().count(), 2, "{}", text(&output.stdout));
        }
    }
    if Command::new("iperf3").arg("--version").output().is_err() {
        return skip("an_interrupted_list_of_runs_is_printed", "iperf3 is not installed");
    }
    let mut cbr =
        giusto(&["cbr", "-b", "1M", "-l", "200", "-t", "1", "--repeat", "20", "--against", "iperf3"]);
    let child = cbr.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2200));
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("grid") && table.contains("interrupted: "), "{table}");
}

#[test]
fn a_second_interrupt_ends_at_once() {
    // An interrupted STAMP sender waits 2 s for late answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = silent.local_addr().unwrap().to_string();
    let interrupted = |pause: &str| {
        let mut send = giusto(&["send", &to, "--protocol", "stamp", "-t", "60"]);
        let child = send.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(400));
        let id = child.id();
        let twice = format!("kill -INT {id}; {pause} kill -TERM {id}");
        assert!(Command::new("sh").args(["-c", &twice]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        (output.status.code(), text(&output.stdout))
    };
    // On a busy machine the second signal may come too late: a few attempts.
    let at_once = (0..5).any(|_| interrupted("sleep 0.5;") == (Some(130), String::new()));
    assert!(at_once);
    // `timeout` sends its signal to the program and to the process group: that is one request.
    let printed = (0..5).any(|_| {
        let (status, stdout) = interrupted("");
        status == Some(1) && stdout.contains("packets")
    });
    assert!(printed);
}

#[test]
fn reports_that_cannot_be_written_fail_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().to_str().unwrap();
    // A file system that is read-only also for root.
    fs::write(folder.path().join("old.html"), "old").unwrap();
    let program = env!("CARGO_BIN_EXE_giusto");
    for target in ["new.html", "old.html"] {
        let script = format!(
            "mount --bind {directory} {directory} && mount -o remount,ro,bind {directory} || exit 77; \
             exec {program} demo --out {directory}/{target}"
        );
        let output = Command::new("unshare").args(["-rm", "sh", "-c", &script]).output();
        match output {
            Ok(output)
                if !matches!(output.status.code(), Some(77 | 126 | 127))
                    && !text(&output.stderr).contains("unshare") =>
            {
                assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
                assert!(output.stdout.is_empty());
            }
            _ => skip("reports_that_cannot_be_written_fail_before_the_run", "no mount namespace"),
        }
    }
}
