//! `giusto call --pcap`, read by tshark.

use std::{fs, thread};

use crate::common::{
    Folder, count, finished, key_file,
    process::Listener,
    shark::{Packet, packets},
    text,
};

#[test]
fn tshark_dissects_the_captures_of_both_ends() {
    thread::scope(|scope| {
        for (controller, feedback, protection) in [
            ("gcc:libwebrtc", "15", &["--insecure"][..]),
            ("scream:v2", "11", &["--key-file", "keys"]),
            ("gcc:libwebrtc", "15", &[]),
        ] {
            scope.spawn(move || assert_dissected(controller, feedback, protection));
        }
    });
}

fn assert_dissected(controller: &str, feedback: &str, protection: &[&str]) {
    let folder = Folder::with("");
    fs::write(folder.path("keys"), key_file("11")).unwrap();
    let listen = ["call", "--listen", "127.0.0.1:0", "--once", "--json", "--pcap", "listener.pcapng"];
    let listener = Listener::by(folder.command(&[&listen[..], protection].concat()));
    let (to, port) = (listener.to(), listener.address.port());
    let call = ["call", &to, "--controller", controller, "--audio", "-t", "4", "--ecn", "ect0", "--json"];
    let output = folder.run(&[&call[..], &["--pcap", "caller.pcapng"], protection].concat());
    let record = finished(&output);
    assert!(text(&output.stderr).contains("wrote "), "{record}");
    listener.result();
    let sent = count(&record["flows"][0]["sent_packets"]);
    for file in ["caller.pcapng", "listener.pcapng"] {
        let what = format!("{file} of {controller} {protection:?}");
        let Some(all) = packets(&folder.path(file), port) else { return };
        let number = |is: &dyn Fn(&Packet) -> bool| all.iter().filter(|packet| is(packet)).count() as u64;
        let comment = |words: &str| number(&|packet| packet.field("frame.comment").contains(words));
        let is_rtp = |packet: &Packet| packet.has("rtp.version", "2");
        let is_media = |packet: &Packet| is_rtp(packet) || packet.has("rtcp.version", "2");
        // What is not RTP or RTCP says so, and nothing else does.
        let (ours, media) = (comment("neither RTP nor RTCP"), number(&is_media));
        let first_version = number(&|packet| packet.has("rtp.version", "1"));
        assert_eq!((ours + media, first_version), (all.len() as u64, ours), "{what}");
        assert!((8..60).contains(&ours), "{what}: {ours}");
        let left_out = comment("without its number and MAC");
        assert_eq!(left_out, if protection == ["--insecure"] { 0 } else { media }, "{what}");
        // The record counts media and the sender's reports; only media have its ECN codepoint.
        let to_far_end = |packet: &Packet| packet.has("udp.dstport", &port.to_string());
        let of_sender = number(&|packet| to_far_end(packet) && is_media(packet));
        let marked =
            number(&|packet| to_far_end(packet) && is_rtp(packet) && packet.has("ip.dsfield.ecn", "2"));
        assert!((sent - 3..=sent).contains(&of_sender), "{what}: {of_sender} of {sent}");
        assert!((of_sender - 12..of_sender).contains(&marked), "{what}: {marked} of {sent}");
        // A report each second.
        assert!((4..20).contains(&number(&|packet| packet.has("rtcp.pt", "200"))), "{what}");
        let reports = number(&|packet| packet.has("rtcp.rtpfb.fmt", feedback));
        assert!((20..2000).contains(&reports), "{what}: {reports}");
        if feedback == "15" {
            // Each transport-wide feedback states how many packets it is about.
            let stated =
                all.iter().flat_map(|packet| packet.field("rtcp.rtpfb.transportcc.statuscount").split(','));
            let packets: u64 = stated.filter_map(|count| count.parse::<u64>().ok()).sum();
            assert!((sent * 8 / 10..=sent * 13 / 10).contains(&packets), "{packets} of {sent}");
        }
        // Times are those of day, in nanoseconds.
        assert!(all.iter().all(|packet| packet.time() > 1.6e9), "{what}");
        assert!(all.iter().any(|packet| !packet.field("frame.time_epoch").ends_with("000")), "{what}");
    }
}

#[test]
fn a_refused_command_leaves_earlier_recordings() {
    let folder = Folder::with("");
    let names = ["call.pcapng", "call.jsonl", "trace.json", "trace.csv", "new.pcapng", "new.jsonl"];
    for name in &names[..4] {
        fs::write(folder.path(name), "earlier").unwrap();
    }
    let cases = [
        "call --listen 127.0.0.1:0 --save new.ivf --trace trace.txt",
        "call --listen 127.0.0.1:0 --save new.ivf --pcap missing/call.pcapng",
        "call 127.0.0.1:9 --pcap call.pcapng --trace trace.txt",
        "call 127.0.0.1:9 --pcap new.pcapng --trace trace.txt",
        "call 127.0.0.1:9 --pcap call.pcapng --session-log missing/call.jsonl",
        "call 127.0.0.1:9 --pcap call.pcapng --session-log call.jsonl --media missing.ivf",
        "sim media --session-log call.jsonl --pcap missing/call.pcapng",
        "sim media --session-log call.jsonl --pcap call.pcapng --chrome-trace missing/trace.json",
        "sim media --session-log new.jsonl --chrome-trace trace.json --pcap missing/p",
    ];
    for case in cases {
        let refused = folder.run(&case.split(' ').collect::<Vec<_>>());
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
    let cases = [
        "sim media --session-log /dev/full",
        "sim media --pcap /dev/full",
        "sim media --chrome-trace /dev/full",
        "replay call.jsonl --out /dev/full",
        "call 127.0.0.1:9 --video 0 --audio --pcap /dev/full",
    ];
    for case in cases {
        let failed = folder.run(&case.split(' ').collect::<Vec<_>>());
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{case:?} {said}");
        assert!(said.contains("free some space or choose another disk"), "{case:?} {said}");
    }
}
