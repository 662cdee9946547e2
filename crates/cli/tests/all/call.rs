//! `giusto call`: two processes hold a media session, and both print its record.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::common::{
    Folder, assert_has, count, finished, key_file, number,
    process::{Listener, start},
    relay::{Relay, Way},
    run, skip, text,
};
use serde_json::{Value, json};

/// The record of a caller. A machine that others use may make its figures doubtful.
fn called(to: &str, args: &[&str]) -> Value {
    let record = finished(&run(&[&["call", to, "--json"], args].concat()));
    assert_eq!(record["call"]["error"], Value::Null, "{record}");
    record
}

/// The records of caller and listener of a call with these flags.
fn both(args: &[&str], listening: &[&str]) -> (Value, Value) {
    let listener = Listener::call(listening);
    let record = called(&listener.to(), args);
    let (listened, code) = listener.result();
    assert!(matches!(code, 0 | 3), "{listened}");
    (record, listened)
}

#[test]
fn both_ends_print_the_record_of_the_session() {
    let flags = ["--controller", "gcc:libwebrtc", "--max-rate", "600k", "--duration", "4s"];
    let (caller, listener) = both(&flags, &[]);
    for record in [&caller, &listener] {
        let [flow] = record["flows"].as_array().unwrap().as_slice() else { panic!("{record}") };
        let fields = ["scenario", "seed", "duration_s", "wall_s", "events", "interrupted", "links", "checks"];
        assert!(fields.iter().all(|field| !record[field].is_null()), "{record}");
        assert_eq!(record["duration_s"], 4.0);
        // What was sent has arrived: nothing is between the two.
        assert_has(
            flow,
            &json!({ "kind": "media", "controller": "gcc:libwebrtc", "feedback": "transport-wide",
                "lost_packets": 0, "duplicate_packets": 0, "received_packets": flow["sent_packets"] }),
        );
        assert!(count(&flow["sent_packets"]) > 100);
        let (sent, received) = (number(&flow["sent_rate_bps"]), number(&flow["received_rate_bps"]));
        assert!((200e3..=660e3).contains(&sent) && (sent - received).abs() < 30e3, "{sent} {received}");
        // 30 frames a second.
        assert!((90.0..=125.0).contains(&number(&flow["frames"])), "{record}");
        assert_has(&flow["streams"][0], &json!({ "id": "video", "frames": flow["frames"] }));
        for delay in [&flow["frame_delay_ms"], &record["call"]["round_trip_ms"]] {
            assert!((0.0..500.0).contains(&number(&delay["p50"])), "{record}");
        }
    }
    assert_eq!((&caller["call"]["role"], &listener["call"]["role"]), (&"caller".into(), &"listener".into()));
    assert!(number(&caller["flows"][0]["target_rate_bps"]) > 200e3);
    assert_eq!(listener["flows"][0]["decisions"], Value::Null);
}

#[test]
fn both_ends_send_several_streams() {
    let flags =
        ["--bidir", "--video", "2", "--audio", "--max-rate", "500k", "-t", "3", "--feedback", "rfc8888"];
    let (caller, listener) = both(&[&flags[..], &["--ecn", "ect1"]].concat(), &[]);
    for record in [&caller, &listener] {
        let flows = record["flows"].as_array().unwrap();
        let ids: Vec<&str> = flows.iter().map(|flow| flow["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["call", "call:reverse"]);
        for flow in flows {
            assert_eq!(flow["feedback"], "rfc8888");
            let streams: Vec<_> = flow["streams"].as_array().unwrap().iter().collect();
            let ids: Vec<&str> = streams.iter().map(|stream| stream["id"].as_str().unwrap()).collect();
            assert_eq!(ids, ["audio", "video-1", "video-2"]);
            // 50 frames of audio and 30 of video a second; those at the end may be on their way.
            assert!((130.0..=153.0).contains(&number(&streams[0]["frames"])), "{record}");
            assert!((70.0..=95.0).contains(&number(&streams[1]["frames"])), "{record}");
        }
    }
    for flow in [0, 1] {
        let [there, back] = [&caller, &listener].map(|record| &record["flows"][flow]);
        for figure in ["sent_packets", "received_packets", "lost_packets"] {
            assert_eq!(there[figure], back[figure], "{figure}: {there} {back}");
        }
        assert_eq!(there["lost_packets"], 0, "{there}");
    }
    let [there, back] = [0, 1].map(|flow| &listener["flows"][flow]);
    assert!(number(&back["sent_packets"]) > 200.0 && number(&there["received_packets"]) > 200.0);
}

#[test]
fn the_listener_sends_when_it_is_asked_to_and_not_too_fast() {
    let (caller, listener) = both(&["-R", "-t", "3", "--max-rate", "2M"], &["--max-rate", "300k"]);
    for record in [&caller, &listener] {
        let [flow] = record["flows"].as_array().unwrap().as_slice() else { panic!("{record}") };
        assert_eq!((&flow["id"], &flow["from"]), (&"call:reverse".into(), &"listener".into()));
        let rate = number(&flow["received_rate_bps"]);
        assert!((150e3..400e3).contains(&rate), "{record}");
        assert_eq!(
            (&flow["lost_packets"], &flow["sent_packets"]),
            (&0.into(), &flow["received_packets"]),
            "{record}"
        );
    }
}

#[test]
fn a_scenario_gives_the_media() {
    let folder = Folder::with(
        r#"
        name = "two-cameras"
        duration = "2 s"
        warmup = "500 ms"
        [[link]]
        id = "path"
        from = "a"
        to = "b"
        rate = "3 Mbit/s"
        duplex = true
        [[flow]]
        id = "meeting"
        kind = "media"
        controller = "scream:v2"
        video = { model = "perfect", max = "400 kbit/s" }
        audio = "20 kbit/s"
        "#,
    );
    let listener = Listener::call(&[]);
    let args = ["--json", "--scenario", "s.toml", "--out", "call.html", "--trace", "call.csv"];
    let record = finished(&folder.run(&[&["call", &listener.to()], &args[..]].concat()));
    assert_eq!(record["scenario"], "two-cameras");
    let flow = &record["flows"][0];
    assert_has(flow, &json!({ "controller": "scream:v2", "from_s": 0.5, "to_s": 2.0 }));
    let (listened, _) = listener.result();
    assert_eq!(listened["flows"][0]["from_s"], 0.5);
    let streams = listened["flows"][0]["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 2, "{listened}");
    let page = fs::read_to_string(folder.path("call.html")).unwrap();
    assert!(page.contains("two-cameras") && page.contains("scream:v2"));
    // The caller does not know the received rate over time, nor the links.
    assert!(page.contains("flows/0/sent_rate_bps") && !page.contains("flows/0/received_rate_bps"));
    assert!(!page.contains("Network"));
    let trace = fs::read_to_string(folder.path("call.csv")).unwrap();
    let sent = trace.lines().filter(|line| line.contains("sent") && line.contains("call")).count();
    assert!(sent as u64 >= count(&flow["sent_packets"]), "{sent}");
}

/// The JSON of a script element of a page.
fn embedded(page: &str, id: &str) -> Value {
    let (_, rest) = page.split_once(&format!("<script type=\"application/json\" id=\"{id}\">")).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The values of the first line of each chart over time of a page, by its title.
fn drawn(page: &str) -> BTreeMap<String, Vec<f64>> {
    let (model, record) = (embedded(page, "page"), embedded(page, "record"));
    let sections = model["sections"].as_array().unwrap().iter();
    let charts = sections.filter(|section| section["kind"] == "chart").map(|section| &section["content"]);
    let line = |chart: &Value| {
        let y = record.pointer(chart["series"][0]["points"]["y"].as_str()?)?;
        let known = y.as_array()?.iter().filter_map(Value::as_f64).collect();
        Some((chart["title"].as_str()?.to_owned(), known))
    };
    charts.filter_map(line).collect()
}

#[test]
fn the_pages_of_both_ends_draw_what_each_end_learns() {
    const BACK: Duration = Duration::from_millis(40);
    let folder = tempfile::tempdir().unwrap();
    let pages = ["caller.html", "listener.html"].map(|name| folder.path().join(name));
    let [own, far] = pages.each_ref().map(|path| path.to_str().unwrap());
    let listener = Listener::call(&["--out", far]);
    // One packet of media in twenty is lost, and answers take 40 ms.
    let relay = Relay::to(listener.address);
    let mut number_of = 0_usize;
    relay.set(Box::new(move |way, bytes| {
        let is_media = way == Way::Forth && bytes[0] >= 128 && !(192..=223).contains(&bytes[1]);
        number_of += usize::from(is_media);
        let delay = if way == Way::Back { BACK } else { Duration::ZERO };
        if is_media && number_of.is_multiple_of(20) { Vec::new() } else { vec![(delay, bytes.to_vec())] }
    }));
    let flags = ["--start-rate", "400k", "--max-rate", "500k", "-t", "5", "--repair", "none", "--out", own];
    let record = called(&relay.address.to_string(), &flags);
    listener.result();
    let [own, far] = pages.map(|path| drawn(&fs::read_to_string(path).unwrap()));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    for page in [&own, &far] {
        let loss = mean(&page["Loss"]);
        assert!((0.02..0.10).contains(&loss), "{page:?}");
        let rates = &page["Received rate"];
        let wanted = number(&record["flows"][0]["received_rate_bps"]);
        assert!(rates.len() > 5 && (0.7..1.4).contains(&(mean(rates) / wanted)), "{wanted}: {rates:?}");
        let rtt = &page["Round-trip time"];
        assert!(rtt.len() > 3 && rtt.iter().all(|ms| (40.0..10_000.0).contains(ms)), "{rtt:?}");
    }
    assert!(far["Frame delay"].len() > 50 && !own.contains_key("Frame delay"), "{far:?}");
}

/// The sizes of the frames that arrived in a call with this video, in bytes.
fn sizes_in_a_call(video: &str) -> Vec<u64> {
    let folder = Folder::with(&format!(
        r#"
        duration = "2 s"
        [[link]]
        id = "path"
        from = "a"
        to = "b"
        rate = "9 Mbit/s"
        duplex = true
        [[flow]]
        id = "camera"
        kind = "media"
        controller = "scream:v2"
        video = {video}
        "#
    ));
    let trace = folder.path("call.csv");
    let listener = Listener::call(&["--trace", trace.to_str().unwrap()]);
    finished(&folder.run(&["call", &listener.to(), "--json", "--scenario", "s.toml"]));
    listener.result();
    let trace = fs::read_to_string(trace).unwrap();
    let mut lines = trace.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let place = |name: &str| names.iter().position(|own| *own == name).unwrap();
    let (event, size) = (place("event"), place("size_bytes"));
    lines.filter(|line| line[event] == "frame").map(|line| line[size].parse().unwrap()).collect()
}

#[test]
fn recorded_and_fixed_video_are_sent_as_in_a_simulation() {
    let recorded = [3000, 900, 1100, 1000];
    let frames = sizes_in_a_call(
        r#"{ model = "recorded", sizes = [3000, 900, 1100, 1000], adapts = false, skip-after = "never", discard-after = "never" }"#,
    );
    // Loopback loses nothing, and a busy machine is only late.
    assert!((20..=60).contains(&frames.len()), "{frames:?}");
    let expected: Vec<u64> = recorded.iter().copied().cycle().take(frames.len()).collect();
    assert_eq!(frames, expected);
    let frames = sizes_in_a_call(r#"{ model = "fixed", rate = "320 kbit/s", size = "800 B" }"#);
    // 50 packets a second of one size, each a frame.
    assert!((30..=100).contains(&frames.len()) && frames.iter().all(|size| *size == 800), "{frames:?}");
}

#[test]
fn keys_authenticate_every_datagram() {
    let folder = Folder::with("");
    let [ours, theirs] = ["11", "22"].map(|byte| {
        fs::write(folder.path(byte), key_file(byte)).unwrap();
        folder.path(byte).display().to_string()
    });
    let listener = Listener::call(&["--key-file", &ours]);
    // One datagram in four is changed on the way.
    let relay = Relay::to(listener.address);
    let changed = Arc::new(AtomicU64::new(0));
    let (counter, mut number_of) = (changed.clone(), 0_usize);
    relay.set(Box::new(move |way, bytes| {
        number_of += 1;
        let mut bytes = bytes.to_vec();
        if way == Way::Forth && bytes[0] >= 128 && number_of.is_multiple_of(4) {
            // In the number or the MAC: every datagram ends with these 14 bytes.
            let at = bytes.len() - 1 - number_of % 14;
            bytes[at] ^= 4;
            counter.fetch_add(1, Relaxed);
        }
        vec![(Duration::ZERO, bytes)]
    }));
    let flags = ["--key-file", &ours, "-t", "2", "--max-rate", "300k"];
    let record = called(&relay.address.to_string(), &flags);
    assert_eq!(record["call"]["authenticated"], true);
    let (listened, _) = listener.result();
    let (flow, changed) = (&listened["flows"][0], changed.load(Relaxed));
    assert!(changed > 10);
    assert_eq!(count(&flow["sent_packets"]), count(&flow["received_packets"]) + changed, "{listened}");
    assert_eq!(listened["call"]["ignored"]["unauthenticated_packets"], changed, "{listened}");

    let listener = Listener::call(&["--key-file", &ours]);
    for (keys, error) in [
        (&["--key-file", &theirs][..], "did not prove that it has the same key"),
        (&[], "accepts only authenticated calls"),
    ] {
        let output = run(&[&["call", &listener.to(), "-t", "1"], keys].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(error), "{}", text(&output.stderr));
    }
}

#[test]
fn a_recorded_call_is_replayed_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("call.jsonl");
    let flags = ["--controller", "gcc:libwebrtc", "--max-rate", "600k", "--duration", "2s", "--session-log"];
    let (record, _) = both(&[&flags[..], &[log.to_str().unwrap()]].concat(), &[]);
    assert!(number(&record["flows"][0]["sent_packets"]) > 50.0, "{record}");
    let replayed = run(&["replay", log.to_str().unwrap()]);
    assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed.stderr));
    // One changed number parts them.
    let whole = fs::read_to_string(&log).unwrap();
    let less = whole.lines().enumerate().filter(|(line, _)| line % 40 != 39);
    let less: Vec<&str> = less.map(|(_, text)| text).collect();
    fs::write(&log, less.join("\n")).unwrap();
    assert_ne!(run(&["replay", log.to_str().unwrap()]).status.code(), Some(0));
}

/// A call of 12 s across a link that its controller fills.
const ONE_CALL: &str = r#"
duration = "12 s"
warmup = "4 s"
link = [{ id = "path", from = "a", to = "b", rate = "1 Mbit/s", delay = "20 ms",
          queue = { kind = "drop-tail", limit = "300 ms" }, reverse = { rate = "unlimited" } }]
flow = [{ id = "meeting", kind = "media", from = "a", to = "b", start-rate = "600 kbit/s", video = { model = "perfect" } }]
"#;

/// Whether the figures of `run` in real time can be trusted; if not, says that `test` is skipped.
fn is_punctual(run: &Value, test: &str) -> bool {
    let doubts = run["real_time"]["doubts"].as_array().unwrap();
    if let Some(doubt) = doubts.first() {
        skip(test, doubt.as_str().unwrap());
    }
    doubts.is_empty()
}

/// The same scenario, simulated, and in real time: a call across the links. With GCC a few microseconds can change a decision, and with it
/// the queue by more than the tolerance.
#[test]
fn a_call_across_the_links_does_what_the_simulation_does() {
    let folder = Folder::with(ONE_CALL);
    let output = folder.run(&["compare", "s.toml", "--live", "--controller", "tempo", "--json"]);
    let compared = finished(&output);
    let [simulated, live] = compared["runs"].as_array().unwrap().as_slice() else { panic!("{compared}") };
    let [parity] = compared["parity"].as_array().unwrap().as_slice() else { panic!("{compared}") };
    assert_eq!((&simulated["live"], &live["live"]), (&Value::Null, &true.into()));
    // What is the same at any speed of the machine.
    for key in ["controller", "feedback", "scenario", "seed", "duration_s"] {
        assert_eq!(simulated[key], live[key], "{key}");
    }
    let [flows, links] = ["flows", "links"].map(|key| [&simulated[key][0], &live[key][0]]);
    for key in ["id", "group", "kind", "controller", "feedback", "from", "to", "path", "from_s", "to_s"] {
        assert_eq!(flows[0][key], flows[1][key], "{key}");
    }
    assert_eq!((&links[0]["id"], &links[0]["rate"]), (&links[1]["id"], &links[1]["rate"]));
    // Each figure is that of the end that measures it, and they fit together.
    let flow = flows[1];
    let [sent, received, lost] =
        ["sent_packets", "received_packets", "lost_packets"].map(|key| count(&flow[key]));
    assert!(sent > 500 && (sent - 60..=sent).contains(&(received + lost)), "{flow}");
    let [sent, received, target] =
        ["sent_rate_bps", "received_rate_bps", "target_rate_bps"].map(|key| number(&flow[key]));
    assert!((300e3..1.2e6).contains(&target) && (sent / received - 1.0).abs() < 0.1, "{flow}");
    let delay = |kind: &str| number(&flow[kind]["p50"]);
    // 20 ms of propagation and 10 ms of transmission of a full packet; a frame has several.
    assert!(delay("delay_ms") >= 20.0 + delay("queue_delay_ms"), "{flow}");
    assert!(delay("frame_delay_ms") > delay("delay_ms"), "{flow}");
    assert!(links[1]["offered_packets"].as_u64() >= flow["received_packets"].as_u64(), "{}", links[1]);
    assert_eq!(parity["received_rate_bps"][1], flow["received_rate_bps"]);
    assert_eq!(output.status.code() == Some(3), !parity["doubts"].is_null(), "{parity}");
    println!("{parity}");
    if is_punctual(live, "a_call_across_the_links_does_what_the_simulation_does") {
        assert_eq!(parity["within_tolerance"], true, "{parity}");
        assert!(number(&parity["frame_delay_mean_difference_ms"]).abs() < 10.0, "{parity}");
        let targets = parity["target_rate_bps"].as_array().unwrap();
        assert!((number(&targets[1]) / number(&targets[0]) - 1.0).abs() < 0.05, "{parity}");
    }
}

#[test]
fn an_interrupted_comparison_keeps_what_was_measured() {
    let folder = Folder::with(ONE_CALL);
    let file = folder.path("s.toml").display().to_string();
    let compare = start(&["compare", &file, "--live", "--controller", "fixed,scream:v2", "--json"]);
    std::thread::sleep(Duration::from_secs(3));
    compare.signal("INT");
    let compared: Value = serde_json::from_slice(&compare.output().stdout).unwrap();
    assert_eq!(compared["interrupted"], true, "{compared}");
    // On a busy machine the call may not have begun.
    let live = compared["runs"].as_array().unwrap().iter().find(|run| run["live"] == true);
    if let Some(live) = live {
        let parity = &compared["parity"][0];
        assert!(parity["not_judged"].as_str().unwrap().starts_with("the call ended after "), "{parity}");
        assert_eq!(
            [&parity["within_tolerance"], &parity["received_rate_difference_ratio"]],
            [&Value::Null; 2]
        );
        assert!((0.1..11.0).contains(&number(&live["duration_s"])), "{live}");
        assert_eq!(live["interrupted"], true);
    }
}

#[test]
fn a_live_comparison_needs_one_media_flow_alone() {
    for (flow, error) in [
        (
            r#"{ id = "noise", kind = "poisson", rate = "50 kbit/s", size = "200 B" }"#,
            "flow noise is of kind poisson",
        ),
        (r#"{ id = "second", kind = "media", from = "a", to = "b" }"#, "flow second is a further media flow"),
    ] {
        let folder = Folder::with(
            &ONE_CALL.replace("model = \"perfect\" } }]", &format!("model = \"perfect\" }} }}, {flow}]")),
        );
        let output = folder.run(&["compare", "s.toml", "--live"]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(
            message.contains(error) && message.contains("use a scenario with this flow alone"),
            "{message}"
        );
    }
}

#[test]
fn copies_are_duplicates_and_no_attack() {
    for protection in [&[][..], &["--insecure"]] {
        let listener = Listener::call(protection);
        // One datagram of media in three comes twice, reports too.
        let relay = Relay::to(listener.address);
        let copies = Arc::new(AtomicU64::new(0));
        let (counter, mut number_of) = (copies.clone(), 0_usize);
        relay.set(Box::new(move |way, bytes| {
            number_of += 1;
            // RTP, or a report of the sender: 200.
            let is_media = way == Way::Forth && bytes[0] >= 128 && !matches!(bytes[1], 192..=199 | 201..=223);
            let is_doubled = is_media && (number_of.is_multiple_of(3) || bytes[1] == 200);
            counter.fetch_add(is_doubled.into(), Relaxed);
            vec![(Duration::ZERO, bytes.to_vec()); 1 + usize::from(is_doubled)]
        }));
        let flags = [&["-t", "2", "--max-rate", "300k"], protection].concat();
        called(&relay.address.to_string(), &flags);
        let (listened, _) = listener.result();
        let (flow, copies) = (&listened["flows"][0], copies.load(Relaxed));
        assert!(copies > 10, "{copies}");
        let figure = |name: &str| count(&flow[name]);
        assert_eq!(figure("sent_packets"), figure("received_packets") + figure("lost_packets"), "{listened}");
        assert_eq!((figure("lost_packets"), figure("duplicate_packets")), (0, copies), "{listened}");
        assert_eq!(listened["call"]["ignored"]["unauthenticated_packets"], 0, "{listened}");
    }
}
