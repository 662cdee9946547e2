//! `giusto sim --session-log`, `--pcap` and `--chrome-trace`, and `giusto replay`, as users run them.

use std::fs;

use crate::common::{
    Folder, count, json,
    shark::{Packet, packets},
    text,
};
use serde_json::Value;

/// Long enough for the first estimate of a receiver (REMB).
const CALL: &str = r#"duration = "8 s"
link = [{ id = "wire", from = "here", to = "there", rate = "1 Mbit/s", delay = "20 ms", duplex = true }]
[[flow]]
id = "call"
kind = "media"
controller = "gcc:libwebrtc"
"#;

#[test]
fn tshark_dissects_a_capture_without_complaint() {
    for (controller, feedback, [field, value]) in [
        ("gcc:libwebrtc", "transport-wide", ["rtcp.rtpfb.fmt", "15"]),
        ("scream:v2", "rfc8888", ["rtcp.rtpfb.fmt", "11"]),
        ("gcc:remb", "remb", ["rtcp.psfb.remb.identifier", "REMB"]),
    ] {
        let folder = Folder::with(&format!("{CALL}feedback = \"{feedback}\"\n"));
        let set = format!("call.controller={controller}");
        let output = folder.run(&["sim", "s.toml", "--set", &set, "--pcap", "a.pcapng", "--json"]);
        let sent = count(&json(&output)["flows"][0]["sent_packets"]);
        let Some(all) = packets(&folder.path("a.pcapng"), 5004) else { return };
        let number = |is: &dyn Fn(&Packet) -> bool| all.iter().filter(|packet| is(packet)).count() as u64;
        let is_of_sender = |packet: &Packet| packet.has("ip.src", "192.0.2.1");
        // The window of the record ends before the last instant.
        assert_eq!(number(&|packet| is_of_sender(packet) && packet.time() < 8.0), sent, "{controller}");
        let is_rtp = |packet: &Packet| packet.has("rtp.version", "2");
        let is_rtcp = |packet: &Packet| packet.has("rtcp.version", "2");
        assert!(
            all.iter().all(|packet| is_rtp(packet) || is_rtcp(packet)),
            "{controller}: every datagram is dissected"
        );
        let reports = number(&|packet| is_of_sender(packet) && packet.has("rtcp.pt", "200"));
        assert_eq!(number(&is_rtp) + reports, number(&is_of_sender), "{controller}");
        assert!((7..12).contains(&reports), "{controller}: a sender report each second, {reports}");
        let shown = number(&|packet| packet.has(field, value));
        assert!((4..600).contains(&shown), "{controller}: {shown}");
        let times = || all.iter().map(|packet| packet.field("frame.time_epoch"));
        assert!(times().any(|time| time.len() == 11 && !time.ends_with("000")), "{controller}");
    }
}

#[test]
fn a_recorded_call_is_replayed() {
    let folder = Folder::with(CALL);
    let output =
        folder.run(&["sim", "s.toml", "--session-log", "a.jsonl", "--chrome-trace", "a.json", "--json"]);
    let recorded = json(&output);
    assert!(text(&output.stderr).contains("wrote a.jsonl") && text(&output.stderr).contains("wrote a.json"));
    let trace: Value = serde_json::from_slice(&fs::read(folder.path("a.json")).unwrap()).unwrap();
    assert!(trace.as_array().unwrap().len() > 300);
    let same = folder.run(&["replay", "a.jsonl", "--json"]);
    assert_eq!(same.status.code(), Some(0));
    let same = json(&same);
    assert_eq!((&same["controllers"][0]["identical"], &same["open_loop"]), (&true.into(), &true.into()));
    // The session log has RTP, the record RTCP too.
    let sent = [&same["sent_packets"], &recorded["flows"][0]["sent_packets"]].map(count);
    assert!((sent[0]..sent[0] + 16).contains(&sent[1]), "{sent:?}");
    let files = ["--out", "r.html", "--trace", "t.csv"];
    let other = folder.run(&[&["replay", "a.jsonl", "--controller", "fixed,gcc:remb"], &files[..]].concat());
    let shown = text(&other.stdout);
    for words in [
        "Open loop",
        "gcc:libwebrtc (recorded)",
        "parts at 0.",
        "not replayed: it needs feedback",
        "start rate",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let page = fs::read_to_string(folder.path("r.html")).unwrap();
    assert!(
        page.contains("does not react") && page.contains("fixed was more than 10.0 % from gcc:libwebrtc")
    );
    let rows = fs::read_to_string(folder.path("t.csv")).unwrap();
    assert!(
        rows.lines().skip(1).all(|row| row.split(',').count() == 9) && rows.contains(",recorded,decision,")
    );
    // A log of somebody else gives no orders to the terminal.
    let log = fs::read_to_string(folder.path("a.jsonl")).unwrap();
    let log = log.replacen("\"name\":\"call\"", "\"name\":\"\\u001b[2Jcall\"", 1);
    fs::write(folder.path("a.jsonl"), log).unwrap();
    let shown = text(&folder.run(&["replay", "a.jsonl"]).stdout);
    assert!(shown.starts_with("[2Jcall, recorded by giusto "), "{shown}");
    assert!(!shown.contains(|letter: char| letter.is_control() && letter != '\n'), "{shown:?}");
    assert_eq!(json(&folder.run(&["replay", "a.jsonl", "--json"]))["session"], "\u{1b}[2Jcall");
}

#[test]
fn wrong_usage_is_one_line_with_the_fix() {
    let two = CALL.replace("kind = \"media\"", "kind = \"media\"\ncount = 2");
    for (file, args, words) in [
        (CALL, "sim s.toml s.toml --pcap a.pcapng", "--pcap: the file is of one scenario: give one FILE"),
        (
            &two,
            "sim s.toml --session-log a.jsonl",
            "--session-log: the scenario has 2 media flows: choose one with --flow: call-1, call-2",
        ),
        (CALL, "sim first --pcap a.pcapng", "--pcap: this scenario has no flow of kind media"),
        (CALL, "sim s.toml --session-log a.jsonl --flow cal", "known are call"),
        (
            CALL,
            "sim s.toml --flow call",
            "--flow: it chooses a flow for --why, --session-log or --controller",
        ),
        (CALL, "sim s.toml --pcap none/a.pcapng", "create the directory first"),
        (
            CALL,
            "replay s.toml",
            "this is neither a session log nor an RTC event log: give the FILE of --session-log",
        ),
        (CALL, "replay s.toml --out s.toml", "--out s.toml: this file is in use twice: give another"),
        (CALL, "sim s.toml --session-log a.jsonl --pcap ./a.jsonl", "in use twice"),
        (CALL, "replay s.toml --apart much", "\"much\" is not a share"),
    ] {
        let folder = Folder::with(file);
        let output = folder.run(&args.split(' ').collect::<Vec<_>>());
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {complaint}");
        assert!(
            complaint.contains(words) && complaint.trim_end().lines().count() == 1,
            "{args:?}: {complaint}"
        );
        assert_eq!(text(&output.stdout), "");
    }
}
