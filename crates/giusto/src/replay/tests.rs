//! Tests of recordings and replays.

use std::{
    fs,
    path::{Path, PathBuf},
};

use giusto_congestion::{
    Algorithm, Cause, Controller, Decision, Extension, Feedback, FeedbackKind, Limits, LossReport, Options,
    PacketReport, QueueState, Requirements, SentPacket, StreamState, Target,
    nada::{self, RateMode},
};
use giusto_sim::random::{self, Random};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{
    Entry, Event, Lacks, LogReader, ReadError, Recording, Replay, ReplayOptions, RtcEventLog, SessionInfo,
    SessionLog, open, replay,
};
use crate::{
    capture::Outputs,
    run::{RecordOptions, simulate_with},
    scenario::Scenario,
    testing::{algorithm, at},
};

fn run(path: &Path, controllers: &[&str]) -> Result<Replay, ReadError> {
    let controllers = controllers.iter().map(|name| algorithm(name)).collect();
    replay(open(path)?.as_mut(), &ReplayOptions::of(controllers), &mut |_| {})
}

/// Records a flow whose link falls from 2 to 0.7 Mbit/s and loses packets.
fn recorded(controller: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("call.jsonl");
    let text = format!(
        r#"
        duration = "20 s"
        link = [{{ id = "wire", from = "here", to = "there", rate = "2 Mbit/s", delay = "30 ms", loss = 0.01, duplex = true, queue = "codel" }}]
        change = [{{ at = "10 s", link = "wire", rate = "700 kbit/s" }}]
        flow = [{{ id = "call", kind = "media", ecn = "ect0", controller = "{controller}" }}]
        "#
    );
    let scenario = Scenario::parse(&text, "replay.toml").unwrap();
    let mut outputs = Outputs::new().with_session_log(&path, &scenario, None).unwrap();
    simulate_with(&scenario, 3, RecordOptions::default(), &mut outputs, &mut (), |_| {
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(outputs.finish().unwrap(), (vec![path.clone()], Vec::new()));
    (folder, path)
}

#[test]
fn every_recorded_controller_decides_the_same_again() {
    for algorithm in Algorithm::all() {
        let (_folder, path) = recorded(algorithm.name());
        let replayed = run(&path, &[algorithm.name()]).unwrap();
        let own = &replayed.controllers[0];
        assert_eq!((own.identical, &own.first_difference), (Some(true), &None), "{algorithm}");
        assert_eq!(own.side.changes, replayed.recorded.changes);
        assert_eq!(own.side.changes > 3, algorithm.name() != "fixed", "{algorithm}: {}", own.side.changes);
        assert_eq!((replayed.shortened, own.apart_ratio), (None, Some(0.0)));
        assert!((19.0..=20.0).contains(&replayed.duration_s), "{}", replayed.duration_s);
    }
}

#[test]
fn the_replay_of_another_controller_is_deterministic_and_parts() {
    let (_folder, path) = recorded("gcc:libwebrtc");
    let names = ["fixed", "scream:v2", "gcc:remb", "gcc:draft-02"];
    let replayed = run(&path, &names).unwrap();
    let again = run(&path, &names).unwrap();
    assert_eq!(serde_json::to_string(&replayed).unwrap(), serde_json::to_string(&again).unwrap());
    let [fixed, scream, remb, draft] = &replayed.controllers[..] else { panic!("{replayed:?}") };
    // The rate never changes from the start rate, which a call at 0.3 Mbit/s leaves within a second.
    let parting = fixed.parting.as_ref().unwrap();
    let side = &fixed.side;
    assert_eq!((side.mean_target_bps, side.changes, parting.replayed_bps), (Some(300e3), 0, 300_000));
    assert!((0.05..1.0).contains(&parting.at_s), "{}", parting.at_s);
    assert!(parting.recorded_bps.abs_diff(300_000) > 30_000 && fixed.apart_ratio.unwrap() > 0.9);
    for other in [scream, draft] {
        assert!(other.identical.is_none() && other.side.changes > 10, "{other:?}");
    }
    let why = remb.unusable.as_ref().unwrap();
    assert!(why.contains("remb") && why.contains("transport-wide"), "{why}");
    assert_eq!((remb.apart_ratio, remb.side.mean_target_bps), (None, None), "no figures without their basis");
    assert!(scream.notes.iter().any(|note| note.contains("no ECN marks")), "{:?}", scream.notes);
    let timeline = replayed.timeline.unwrap();
    let lengths = [timeline.recorded_bps.len(), timeline.delay_ms.len(), timeline.replayed_bps[0].len()];
    assert_eq!(lengths, [timeline.t_s.len(); 3]);
    // The queue of a link at 0.7 Mbit/s was longer than CoDel's target, and shorter than a second.
    let longest = timeline.delay_ms.iter().flatten().copied().fold(0.0, f64::max);
    assert!((5.0..1000.0).contains(&longest), "{longest}");
}

#[test]
fn a_different_decision_is_found() {
    let (_folder, path) = recorded("gcc:libwebrtc");
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().filter(|line| line.contains("\"target\"")).nth(9).unwrap();
    let target = line.split(['[', ',']).nth(3).unwrap();
    let other = line.replacen(target, &(target.parse::<u64>().unwrap() + 1).to_string(), 1);
    fs::write(&path, text.replacen(line, &other, 1)).unwrap();
    let own = run(&path, &["gcc:libwebrtc"]).unwrap().controllers.remove(0);
    assert_eq!(own.identical, Some(false));
    let difference = own.first_difference.unwrap();
    assert!(difference.ends_with(&format!("the recording has {other}, the replay {line}")), "{difference}");
}

fn info() -> SessionInfo {
    SessionInfo {
        recorder: "test".to_owned(),
        name: "call".to_owned(),
        controller: "gcc:libwebrtc".to_owned(),
        limits: Limits::default(),
        options: Options::default()
            .with_delay_target(Some(TimeDelta::from_millis(30)))
            .with_priority(Some(0.1))
            .with_probe_while_limited(true)
            .with_authors_laws(true),
        feedback: FeedbackKind::CongestionControl,
        lacks: Lacks { ecn: true, precise_times: true, ..Lacks::default() },
    }
}

/// A log, of `max` bytes if given, of a call with a timeout each 25 ms.
fn timed_out(max: Option<u64>, timeouts: u64) -> (TempDir, PathBuf, SessionLog) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("call.jsonl");
    let log = match max {
        Some(max) => SessionLog::create_limited(&path, &info(), max),
        None => SessionLog::create(&path, &info()),
    };
    let log = log.unwrap();
    let mut controller = log.record(algorithm("gcc:libwebrtc").build(Limits::default()));
    (0..timeouts).for_each(|number| controller.on_timeout(at(number * 25), &QueueState::default()));
    (folder, path, log)
}

#[test]
fn damaged_and_unknown_files_are_named_with_the_line_and_the_fix() {
    let (_folder, path, log) = timed_out(None, 5);
    let written = log.finish().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!((text.lines().count() as u64, text.len() as u64), (written.lines, written.bytes));
    assert_eq!(LogReader::from_reader(&path, std::io::Cursor::new(text.clone())).unwrap().info(), &info());
    let complaint = |text: &str| {
        fs::write(&path, text).unwrap();
        run(&path, &["fixed"]).map(drop).unwrap_err().to_string().replace(&path.display().to_string(), "FILE")
    };
    let damaged = text.replacen("\"timeout\":[0,0]", "\"timeout\":[0,", 1);
    let line = damaged.lines().position(|line| line.contains("[0,}")).unwrap() + 1;
    let error = complaint(&damaged);
    let place = format!("FILE:{line}: the line is damaged: ");
    let fix = format!("replay the part before it: head -n {} FILE", line - 1);
    assert!(error.starts_with(&place) && error.ends_with(&fix), "{error}");
    let newer = text.replacen("\"version\":1", "\"version\":2", 1);
    insta::assert_snapshot!(complaint(&newer), @"FILE:1: the session log has version 2, and this giusto reads version 1: use the giusto that wrote it");
    for other in ["", "{}\n", "{\"giusto\":\"scenario\",\"version\":1}\n", "duration = 5\n", "\0\0\0"] {
        let error = complaint(other);
        assert!(error.starts_with("FILE") && error.contains("RTC event log of Chromium"), "{error}");
    }
    let unknown =
        format!("{}\n[1,{{\"feedback\":{{\"p\":[[7,null,0]],\"f\":0}}}}]\n", text.lines().next().unwrap());
    assert!(complaint(&unknown).contains("FILE:2: feedback reports packet 7, which is not in the log"));
    fs::remove_file(&path).unwrap();
    let error = run(&path, &["fixed"]).unwrap_err().to_string();
    let parts = ["call.jsonl: cannot be read (No such file", "check the name"];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn a_log_without_an_end_is_read_to_its_last_whole_line() {
    let (_folder, path) = recorded("gcc:libwebrtc");
    let whole = run(&path, &["gcc:libwebrtc"]).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}{text}")).unwrap();
    let twice = run(&path, &["gcc:libwebrtc"]).unwrap();
    let why = format!("the log ends before line {}", text.lines().count() + 1);
    assert!(twice.shortened.as_ref().unwrap().starts_with(&why), "{why}: {:?}", twice.shortened);
    assert_eq!((twice.sent_packets, &whole.shortened), (whole.sent_packets, &None));
    let cut = &text[..text.len() * 2 / 3];
    assert!(!cut.ends_with('\n'), "a part of a line remains");
    fs::write(&path, cut).unwrap();
    let part = run(&path, &["gcc:libwebrtc"]).unwrap();
    let why = format!("line {} is cut, and was left out", cut.lines().count());
    assert!(part.shortened.as_ref().unwrap().starts_with(&why), "{why}: {:?}", part.shortened);
    fs::write(&path, &cut[..=cut.rfind('\n').unwrap()]).unwrap();
    let lines = run(&path, &["gcc:libwebrtc"]).unwrap();
    assert!(lines.shortened.unwrap().contains("no last line"));
    assert_eq!(lines.sent_packets, part.sent_packets);
    assert!((0.4..0.9).contains(&(part.sent_packets as f64 / whole.sent_packets as f64)));
    assert_eq!(part.controllers[0].identical, Some(true));
}

#[test]
fn a_log_without_a_target_agrees_with_nothing() {
    let (_folder, path) = recorded("gcc:libwebrtc");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text[..=text.find('\n').unwrap()]).unwrap();
    let own = run(&path, &["gcc:libwebrtc"]).unwrap().controllers.remove(0);
    assert_eq!((own.identical, own.apart_ratio, own.side.last_target_bps), (None, None, None));
    assert_eq!(own.notes, ["the recording has no target: nothing was compared"]);
}

#[test]
fn a_log_has_a_maximum_size_and_is_readable_while_the_session_runs() {
    let (_folder, path, log) = timed_out(Some(2000), 1000);
    let written = log.finish().unwrap();
    let size = fs::metadata(&path).unwrap().len();
    assert!(written.is_cut && written.bytes == size && (2000..2200).contains(&size), "{written:?}");
    assert_eq!(run(&path, &["gcc:libwebrtc"]).unwrap().shortened.as_deref(), Some("maximum size reached"));
    // At 9.975 s, with a flush each second.
    let (_folder, path, log) = timed_out(None, 400);
    let replayed = run(&path, &["gcc:libwebrtc"]).unwrap();
    assert!((8.9..9.98).contains(&replayed.duration_s), "{}", replayed.duration_s);
    drop(log);
}

/// A controller with a deadline each 10 ms. Its target is its number of calls at deadlines in bit/s.
#[derive(Debug, Clone)]
struct Ticking(Target, Timestamp, Decision);

impl Controller for Ticking {
    fn on_sent(&mut self, _: Timestamp, _: &SentPacket) {}
    fn on_feedback(&mut self, _: Timestamp, _: &Feedback<'_>) {}
    fn on_timeout(&mut self, now: Timestamp, _: &QueueState) {
        let calls = DataRate::from_bps(self.0.media.as_bps() + 1);
        (self.0, self.1) = (Target::new(calls, calls), now + TimeDelta::from_millis(10));
    }
    fn next_timeout(&self) -> Option<Timestamp> {
        Some(self.1)
    }
    fn set_limits(&mut self, _: Timestamp, _: Limits) {}
    fn on_route_change(&mut self, _: Timestamp) {}
    fn target(&self) -> Target {
        self.0
    }
    fn decision(&self) -> &Decision {
        &self.2
    }
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[test]
fn a_gap_of_centuries_is_passed_over() {
    let (_folder, path, log) = timed_out(None, 40);
    log.finish().unwrap();
    let head = fs::read_to_string(&path).unwrap();
    let build = |limits: Limits, _: Options| -> Box<dyn Controller> {
        let decision = Decision::new(Timestamp::ZERO, limits.start, Cause::Start);
        Box::new(Ticking(Target::new(DataRate::ZERO, DataRate::ZERO), Timestamp::ZERO, decision))
    };
    let ticking = Algorithm::custom("ticking", Requirements::DEFAULT, build);
    // An hour, and centuries, with three events at their end, 1 s apart.
    for (hours, most) in [(1, 360_000), (1_000_000, 360_001)] {
        let late = (0..3).map(|second| {
            let at = (hours * 3600 + second) * 1_000_000_000_u64;
            format!("[{at},{{\"timeout\":[0,0]}}]\n")
        });
        let lines: Vec<&str> = head.split_inclusive('\n').collect();
        fs::write(&path, lines[..lines.len() - 1].concat() + &late.collect::<String>()).unwrap();
        let options = ReplayOptions::of(vec![ticking]);
        let replayed = replay(open(&path).unwrap().as_mut(), &options, &mut |_| {}).unwrap();
        let calls = replayed.controllers[0].side.last_target_bps.unwrap();
        // In the first second and at each of the last two, 100.
        assert!(calls.abs_diff(most + 200) <= 102, "{hours} h: {calls}");
        let notes = replayed.controllers[0].notes.join("\n");
        assert_eq!(notes.contains("more than 360,000 deadlines"), hours > 1, "{notes}");
    }
}

/// Calls a function of the controller with any values; packets have the numbers of a history.
fn call(controller: &mut dyn Controller, now: Timestamp, random: &mut Random, sent: &mut Vec<SentPacket>) {
    let bytes = DataSize::from_bytes;
    match random.random_range(0..17) {
        0..8 => {
            let packet = SentPacket::new(sent.len() as u64, now, bytes(random.random_range(0..1500)))
                .with_probe(random.random::<bool>().then(|| random.random_range(0..4)))
                .with_in_flight(bytes(5000));
            sent.push(packet);
            controller.on_sent(now, &packet);
        }
        8..12 => {
            // The last number was never sent as far as the log knows.
            let mut numbers: Vec<u64> =
                (0..random.random_range(0..20)).map(|_| random.random_range(0..=sent.len() as u64)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let report = |sequence: u64| {
                let unknown = SentPacket::new(sequence, now, bytes(77)).with_in_flight(bytes(1));
                let arrival = random.random::<bool>().then(|| random.random_range(0..9_000_000_000));
                PacketReport::new(
                    sent.get(sequence as usize).copied().unwrap_or(unknown),
                    arrival.map(PeerTimestamp::from_nanos),
                )
                .with_ecn(Ecn::from_bits(random.random_range(0..4)))
            };
            let packets: Vec<_> = numbers.into_iter().map(report).collect();
            let (ratio, rtt) = (
                random.random::<f64>(),
                random.random::<bool>().then(|| random.random_range(0..1_000_000_000)),
            );
            let mode = if ratio > 0.7 { RateMode::Gradual } else { RateMode::RampUp };
            let nada = nada::Report::new(mode, ratio * 100.0, DataRate::from_bps(800_000));
            let extension = match ratio {
                ratio if ratio > 0.9 => Some(Extension::SourceQuench),
                ratio if ratio > 0.5 => Some(Extension::Nada(nada)),
                _ => None,
            };
            let feedback = Feedback::new(&packets, bytes(3000))
                .with_rtt(rtt.map(TimeDelta::from_nanos))
                .with_receiver_estimate(rtt.map(|rtt| DataRate::from_bps(rtt as u64)))
                .with_loss(Some(LossReport::new(ratio, 100)))
                .with_extension(extension);
            controller.on_feedback(now, &feedback);
        }
        12..14 => {
            let size = random.random_range(0..50_000);
            controller.on_timeout(now, &QueueState::new(bytes(size), TimeDelta::from_nanos(size as i64 * 7)));
        }
        14 => {
            let usable = (DataRate::from_bps(50_000), DataRate::from_bps(1_500_000));
            let stream = StreamState::new(usable, QueueState::new(bytes(9), TimeDelta::from_millis(3)))
                .with_priority(random.random_range(0.1..9.0))
                .with_paused(random.random());
            controller.on_streams(now, &[stream]);
        }
        15 => {
            let max = DataRate::from_bps(random.random_range(0..9_000_000));
            controller.set_limits(now, Limits::DEFAULT.with_max(max));
        }
        _ => controller.on_route_change(now),
    }
}

#[test]
fn any_calls_are_recorded_exactly() {
    for (kind, case) in Algorithm::all().flat_map(|kind| (0..4).map(move |case| (kind, case))) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("call.jsonl");
        let options = Options::default();
        let info = SessionInfo { controller: kind.name().to_owned(), options, ..info() };
        let log = SessionLog::create(&path, &info).unwrap();
        let mut controller = log.record(kind.build(Limits::default()));
        let mut random = random::stream(case, kind.name());
        let (mut now, mut sent) = (Timestamp::ZERO, Vec::new());
        for _ in 0..120 {
            now += TimeDelta::from_nanos(random.random_range(0..300_000_000));
            call(controller.as_mut(), now, &mut random, &mut sent);
            while controller.next_probe().is_some() {}
        }
        log.finish().unwrap();
        // Feedback of another kind than the controller accepts is recorded too; only the replay refuses it.
        let head = fs::read_to_string(&path).unwrap();
        let kind_name = kind.requirements().feedback.name();
        fs::write(&path, head.replacen("rfc8888", kind_name, 1)).unwrap();
        let own = run(&path, &[kind.name()]).unwrap().controllers.remove(0);
        assert_eq!((own.identical, own.first_difference), (Some(true), None), "{kind}, case {case}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_lines_never_panic(lines in prop::collection::vec("[\\[\\]{}\":,a-z0-9]{0,40}", 0..5)) {
        let head = r#"{"giusto":"session-log","version":1,"recorder":"","name":"","controller":"fixed","min_bps":1,"start_bps":2,"max_bps":3,"feedback":"remb"}"#;
        let text = format!("{head}\n{}", lines.join("\n"));
        let mut reader = LogReader::from_reader("f".as_ref(), std::io::Cursor::new(text)).unwrap();
        while let Ok(Some(_)) = reader.next_entry() {}
    }
}

fn chromium(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

#[test]
fn gcc_libwebrtc_decides_on_a_recording_of_chromium_as_chromium_did() {
    for (name, feedback) in
        [("chromium-gcc.rtclog", "transport-wide"), ("chromium-gcc-rfc8888.rtclog", "rfc8888")]
    {
        let replayed =
            run(&chromium(name), &["gcc:libwebrtc", "gcc:draft-02", "scream:v2", "gcc:remb"]).unwrap();
        assert_eq!(replayed.feedback, feedback);
        assert!((31.0..33.0).contains(&replayed.duration_s) && replayed.sent_packets > 3000, "{replayed:?}");
        // The relay let 1 Mbit/s through, then 0.5.
        assert!((400e3..700e3).contains(&replayed.sent_rate_bps), "{}", replayed.sent_rate_bps);
        let [literal, draft, scream, remb] = &replayed.controllers[..] else { panic!("{replayed:?}") };
        let mean = literal.side.mean_target_bps.unwrap() / replayed.recorded.mean_target_bps.unwrap();
        assert!((0.9..=1.1).contains(&mean), "{name}: {mean}");
        assert!(literal.apart_ratio.unwrap() < 0.05, "{name}: {:?}", literal.apart_ratio);
        assert!(draft.apart_ratio.unwrap() > 0.3, "another algorithm: {:?}", draft.apart_ratio);
        assert!(scream.unusable.as_ref().unwrap().contains("queue"), "{scream:?}");
        assert!(remb.unusable.as_ref().unwrap().contains("remb"), "{remb:?}");
        assert!(literal.identical.is_none(), "Chromium's calls are not recorded");
        assert!(literal.notes.iter().any(|note| note.contains("milliseconds")));
    }
}

fn entries(path: &Path) -> Vec<Entry> {
    let mut recording = open(path).unwrap();
    std::iter::from_fn(|| recording.next_entry().unwrap()).collect()
}

#[test]
fn the_events_of_chromium_have_their_values() {
    let found = entries(&chromium("chromium-gcc.rtclog"));
    assert!(found.windows(2).all(|pair| pair[0].at <= pair[1].at), "in order of time");
    let (mut probes, mut targets, mut sent, mut reported) = (Vec::new(), Vec::new(), 0, 0);
    for entry in &found {
        match &entry.event {
            Event::Probe(probe) => probes.push((probe.cluster, probe.rate.as_bps(), probe.packets)),
            Event::Target(target) => targets.push(target.media.as_bps()),
            Event::Sent(packet) => {
                assert!((40..1300).contains(&packet.size.as_bytes()), "{packet:?}");
                sent += 1;
            }
            Event::Feedback(message) => reported += message.packets.len(),
            _ => {}
        }
    }
    // libwebrtc's first probes: 3 and 6 times the start rate, in 5 packets (probe_controller.cc).
    assert_eq!((&probes[..2], targets[0]), (&[(1, 900_000, 5), (2, 1_800_000, 5)][..], 300_000));
    assert!(reported <= sent && reported as f64 > 0.97 * sent as f64, "{reported} of {sent}");
}

#[test]
fn the_scream_of_chromium_has_a_window() {
    let found = entries(&chromium("chromium-scream.rtclog"));
    let windows = found
        .iter()
        .filter(|entry| matches!(&entry.event, Event::Target(target) if target.window.is_some()))
        .count();
    assert!(windows > 500, "{windows}");
    let replayed = run(&chromium("chromium-scream.rtclog"), &["gcc:libwebrtc"]).unwrap();
    assert_eq!((&*replayed.recorded.name, &*replayed.feedback), ("Chromium's SCReAM", "rfc8888"));
}

#[test]
fn a_damaged_log_of_chromium_is_an_error_or_shorter() {
    let whole = fs::read(chromium("chromium-gcc.rtclog")).unwrap();
    let read = |bytes: &[u8]| RtcEventLog::read("f".as_ref(), bytes);
    let cut = read(&whole[..whole.len() / 2]).unwrap();
    assert!(cut.shortened().unwrap().contains("not a complete event"), "{:?}", cut.shortened());
    assert!(read(&whole).unwrap().shortened().is_none());
    let mut errors = 0;
    for place in (0..whole.len()).step_by(whole.len() / 150) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0x55;
        errors += usize::from(read(&damaged).is_err());
    }
    assert!((1..150).contains(&errors), "{errors} of about 150");
}
