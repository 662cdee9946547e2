//! Tests of captures and Chrome traces.

use std::{collections::BTreeMap, fs, ops::ControlFlow};

use serde_json::Value;

use super::{ChromeTrace, Outputs};
use crate::{
    record::RunRecord,
    run::{RecordOptions, simulate_with},
    scenario::Scenario,
    trace::TraceNames,
};

const SCENARIO: &str = r#"
    duration = "5 s"
    link = [{ id = "wire", from = "here", to = "there", rate = "1 Mbit/s", delay = "20 ms", duplex = true }]
    flow = [{ id = "call", kind = "media", controller = "gcc:libwebrtc" }]
"#;

/// The record of a run, its capture and its trace.
fn run() -> (RunRecord, Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let (pcap, chrome) = (folder.path().join("a.pcapng"), folder.path().join("a.json"));
    let scenario = Scenario::parse(SCENARIO, "capture.toml").unwrap();
    let mut outputs = Outputs::new().with_capture(&pcap, &scenario).unwrap();
    let mut trace = ChromeTrace::create(&chrome, TraceNames::of(&scenario)).unwrap();
    let go_on = |_| ControlFlow::Continue(());
    let record = simulate_with(&scenario, 1, RecordOptions::default(), &mut outputs, &mut trace, go_on);
    outputs.finish().unwrap();
    trace.finish().unwrap();
    (record, fs::read(pcap).unwrap(), fs::read(chrome).unwrap())
}

/// The blocks of a pcapng file: type and body.
fn blocks(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    let mut blocks = Vec::new();
    while !bytes.is_empty() {
        let (block, rest) = bytes.split_at(word(&bytes[4..]) as usize);
        assert_eq!(block[4..8], block[block.len() - 4..], "both lengths");
        assert!(block.len().is_multiple_of(4));
        blocks.push((word(block), &block[8..block.len() - 4]));
        bytes = rest;
    }
    blocks
}

#[test]
fn a_capture_has_the_packets_of_the_sender() {
    let (record, bytes, _) = run();
    let blocks = blocks(&bytes);
    assert_eq!((blocks[0].0, blocks[1].0), (0x0a0d_0d0a, 1));
    let packets = &blocks[2..];
    assert!(packets.iter().all(|(kind, _)| *kind == 6));
    // The version of IP, and the source.
    let is_sent = |body: &[u8]| body[20] == 0x45 && body[32..36] == [192, 0, 2, 1];
    let sent = packets.iter().filter(|(_, body)| is_sent(body)).count();
    let arrived = packets.iter().filter(|(_, body)| body[32..36] == [198, 51, 100, 1]).count();
    assert_eq!(sent + arrived, packets.len());
    // The window of the record ends before the last instant.
    let word = |bytes: &[u8]| u64::from(u32::from_le_bytes(bytes.try_into().unwrap()));
    let nanos = |body: &[u8]| (word(&body[4..8]) << 32) + word(&body[8..12]);
    let within = packets.iter().filter(|(_, body)| is_sent(body) && nanos(body) < 5_000_000_000).count();
    assert_eq!(within as u64, record.flows[0].sent_packets);
    // Feedback each 50 ms at the least, and a report each second.
    assert!((80..300).contains(&arrived), "{arrived}");
    let times = || packets.iter().map(|(_, body)| nanos(body));
    assert!(times().any(|ns| ns % 1000 != 0) && times().filter(|ns| *ns > 1_000_000_000).count() > 100);
}

#[test]
fn a_chrome_trace_has_what_its_format_requires() {
    let (record, _, trace) = run();
    let events: Vec<Value> = serde_json::from_slice(&trace).unwrap();
    let mut phases = BTreeMap::<String, u64>::new();
    let mut open = BTreeMap::new();
    for event in &events {
        let phase = event["ph"].as_str().unwrap();
        *phases.entry(phase.to_owned()).or_default() += 1;
        // Every event: name, phase, process. All but metadata: a time in microseconds.
        assert!(event["name"].is_string() && event["pid"].is_u64() && event["tid"].is_u64(), "{event}");
        let ts = event["ts"].as_f64();
        assert_eq!(ts.is_some(), phase != "M", "{event}");
        assert!(ts.is_none_or(|ts| (0.0..=5e6).contains(&ts)), "{event}");
        match phase {
            "M" => assert!(event["args"]["name"].is_string()),
            "C" => assert!(event["args"]["value"].is_number(), "{event}"),
            "i" => assert_eq!(event["s"], "p"),
            // Nestable asynchronous events match by category and id.
            "b" => {
                assert_eq!(event["cat"], "frame");
                assert!(open.insert(event["id"].to_string(), ts).is_none());
            }
            "e" => assert!(open.remove(&event["id"].to_string()).is_some_and(|began| began <= ts)),
            other => panic!("unknown phase {other}"),
        }
    }
    assert!(open.is_empty(), "{open:?}");
    // The first decision is the start rate, which is not a change. Frames before the first sender report have no delay.
    let decisions = record.flows[0].decisions.unwrap();
    assert!(phases["i"] >= decisions && decisions > 5, "{phases:?}, {decisions}");
    let frames = record.flows[0].frames.unwrap();
    assert!((frames - 5..=frames).contains(&phases["b"]) && phases["b"] > 50, "{phases:?}, {frames}");
}

#[test]
fn a_capture_needs_a_media_flow() {
    let text = SCENARIO.replace("kind = \"media\", controller = \"gcc:libwebrtc\"", "kind = \"tcp\"");
    let scenario = Scenario::parse(&text, "capture.toml").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pcapng");
    let error = Outputs::new().with_capture(&path, &scenario).unwrap_err();
    assert!(error.to_string().contains("no flow of kind media") && !path.exists(), "{error}");
}
