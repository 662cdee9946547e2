//! `giusto call --pcap`, read by tshark.

use std::{fs, io::Write, process::Command};

use crate::common::{Folder, json, process::Listener, text};

/// tshark on a capture whose RTP is at `port`.
struct Shark {
    file: String,
    port: u16,
}

impl Shark {
    /// The lines of its output; `None` where there is no tshark.
    fn lines(&self, args: &[&str]) -> Option<Vec<String>> {
        let decode = format!("udp.port=={},rtp", self.port);
        let checks = ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
        let output =
            Command::new("tshark").args(["-r", &self.file, "-d", &decode]).args(checks).args(args).output();
        let Ok(output) = output else {
            // Also where the output of tests is captured.
            let _ =
                writeln!(std::io::stderr(), "SKIPPED captures of calls in tshark: tshark is not installed");
            return None;
        };
        assert!(output.status.success(), "{}", text(&output.stderr));
        Some(text(&output.stdout).lines().map(str::to_owned).collect())
    }

    fn count(&self, filter: &str) -> u64 {
        self.lines(&["-Y", filter]).unwrap().len() as u64
    }
}

#[test]
fn tshark_dissects_the_captures_of_both_ends() {
    const KEY: &str = "1 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
    for (controller, feedback, protection) in
        [("gcc:libwebrtc", 15, "--insecure"), ("scream:v2", 11, "--key-file"), ("gcc:libwebrtc", 15, "")]
    {
        let folder = Folder::with("");
        fs::write(folder.path("keys"), KEY).unwrap();
        let path = |name: &str| folder.path(name).to_str().unwrap().to_owned();
        let (keys, there, here) = (path("keys"), path("listener.pcapng"), path("caller.pcapng"));
        let keys: &[&str] = match protection {
            "--key-file" => &["--key-file", &keys],
            "" => &[],
            flag => &[flag],
        };
        let listen = ["call", "--listen", "127.0.0.1:0", "--once", "--json", "--pcap", &there];
        let listener = Listener::of(&[&listen[..], keys].concat());
        let to = listener.address.to_string();
        let call = ["call", &to, "--controller", controller, "--audio", "-t", "4", "--ecn", "ect0"];
        let output = folder.run(&[&call[..], &["--json", "--pcap", &here], keys].concat());
        let record = json(&output);
        assert!(
            text(&output.stderr).contains("wrote ") && matches!(output.status.code(), Some(0 | 3)),
            "{record}"
        );
        listener.result();
        let sent = record["flows"][0]["sent_packets"].as_u64().unwrap();
        let port = to.rsplit(':').next().unwrap().parse().unwrap();
        for file in [here, there] {
            let shark = Shark { file, port };
            let Some(all) = shark.lines(&[]) else { return };
            let all = all.len() as u64;
            let bad = "_ws.malformed || ip.checksum.status == 0 || udp.checksum.status == 0";
            assert_eq!(shark.count(bad), 0, "{controller}: {:?}", shark.lines(&["-Y", bad]));
            // What is not RTP or RTCP says so, and nothing else does.
            let ours = shark.count("frame.comment contains \"neither RTP nor RTCP\"");
            let media = shark.count("rtp.version == 2 || rtcp.version == 2");
            assert_eq!((ours + media, shark.count("rtp.version == 1")), (all, ours), "{controller}");
            assert!((8..60).contains(&ours), "{controller}: {ours}");
            let left_out = shark.count("frame.comment contains \"without its number and MAC\"");
            assert_eq!(left_out, if protection == "--insecure" { 0 } else { media }, "{controller}");
            // The record counts media and the sender's reports; only media have its ECN codepoint.
            let towards = format!("udp.dstport == {port}");
            let of_sender = shark.count(&format!("{towards} && (rtp.version == 2 || rtcp)"));
            let marked = shark.count(&format!("{towards} && rtp.version == 2 && ip.dsfield.ecn == 2"));
            assert!((sent - 3..=sent).contains(&of_sender), "{controller}: {of_sender} of {sent}");
            assert!((of_sender - 12..of_sender).contains(&marked), "{controller}: {marked} of {sent}");
            // A report each second.
            assert!((4..20).contains(&shark.count("rtcp.pt == 200")), "{controller}");
            let feedback = shark.count(&format!("rtcp.rtpfb.fmt == {feedback}"));
            assert!((20..2000).contains(&feedback), "{controller}: {feedback}");
            if controller == "gcc:libwebrtc" {
                // Each transport-wide feedback states how many packets it is about.
                let fields = [
                    "-Y",
                    "rtcp.rtpfb.fmt == 15",
                    "-T",
                    "fields",
                    "-e",
                    "rtcp.rtpfb.transportcc.statuscount",
                ];
                let stated = shark.lines(&fields).unwrap();
                let packets: u64 = stated.iter().map(|count| count.trim().parse::<u64>().unwrap()).sum();
                assert!((sent * 8 / 10..=sent * 13 / 10).contains(&packets), "{packets} of {sent}");
            }
            // Times are those of day, in nanoseconds.
            let times = shark.lines(&["-T", "fields", "-e", "frame.time_epoch"]).unwrap();
            assert!(times.iter().all(|time| time.parse::<f64>().unwrap() > 1.6e9), "{:?}", times.first());
            assert!(times.iter().any(|time| !time.ends_with("000")), "{:?}", times.first());
        }
    }
}

#[test]
fn a_refused_command_leaves_earlier_recordings() {
    let folder = Folder::with("");
    let names = ["call.pcapng", "call.jsonl", "trace.json", "trace.csv", "new.pcapng", "new.jsonl"];
    for name in &names[..4] {
        fs::write(folder.path(name), "earlier").unwrap();
    }
    let call = ["call", "127.0.0.1:9", "--pcap"];
    let sim = ["sim", "media", "--session-log", "call.jsonl"];
    let listen = ["call", "--listen", "127.0.0.1:0", "--save"];
    let cases: [&[&str]; 9] = [
        &[&listen[..], &["new.ivf", "--trace", "trace.txt"]].concat(),
        &[&listen[..], &["new.ivf", "--pcap", "missing/call.pcapng"]].concat(),
        &[&call[..], &["call.pcapng", "--trace", "trace.txt"]].concat(),
        &[&call[..], &["new.pcapng", "--trace", "trace.txt"]].concat(),
        &[&call[..], &["call.pcapng", "--session-log", "missing/call.jsonl"]].concat(),
        &[&call[..], &["call.pcapng", "--session-log", "call.jsonl", "--media", "missing.ivf"]].concat(),
        &[&sim[..], &["--pcap", "missing/call.pcapng"]].concat(),
        &[&sim[..], &["--pcap", "call.pcapng", "--chrome-trace", "missing/trace.json"]].concat(),
        &[
            "sim",
            "media",
            "--session-log",
            "new.jsonl",
            "--chrome-trace",
            "trace.json",
            "--pcap",
            "missing/p",
        ],
    ];
    for case in cases {
        let refused = folder.run(case);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{case:?} {said}");
        assert!(!said.contains("wrote"), "{case:?} {said}");
        let mut found = folder.others();
        found.sort();
        assert_eq!(found, ["call.jsonl", "call.pcapng", "trace.csv", "trace.json"], "{case:?}");
        for name in &names[..4] {
            assert_eq!(fs::read_to_string(folder.path(name)).unwrap(), "earlier", "{case:?}");
        }
    }
}

#[test]
fn a_full_disk_is_a_failure_whatever_is_written() {
    let folder = Folder::with("");
    let session = ["sim", "media", "--session-log", "call.jsonl", "--set", "duration=40s"];
    assert_eq!(folder.run(&session).status.code(), Some(0));
    let cases: [&[&str]; 5] = [
        &["sim", "media", "--session-log", "/dev/full"],
        &["sim", "media", "--pcap", "/dev/full"],
        &["sim", "media", "--chrome-trace", "/dev/full"],
        &["replay", "call.jsonl", "--out", "/dev/full"],
        &["call", "127.0.0.1:9", "--video", "0", "--audio", "--pcap", "/dev/full"],
    ];
    for case in cases {
        let failed = folder.run(case);
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{case:?} {said}");
        assert!(said.contains("free some space or choose another disk"), "{case:?} {said}");
    }
}
