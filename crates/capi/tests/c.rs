//! The library from C: its face, under valgrind and with `AddressSanitizer`; the same results as from Rust; the example; what is installed.
//! Tests are skipped by name where a program is missing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::{
    env,
    fmt::Write as _,
    fs,
    io::Write as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use giusto_congestion::{
    Algorithm, Controller, FeedbackKind, History, Limits, OutgoingPacket, QueueState, RtpId,
};
use giusto_rtp::{
    NtpShort,
    rtcp::{
        Arrival, ArrivalOffset, CongestionFeedback, NadaFeedback, PacketReception, ReceiverReport, Remb,
        ReportBlock, StreamFeedback, TransportFeedback, TransportFeedbackEncoder,
    },
};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use tempfile::TempDir;

const HERE: &str = env!("CARGO_MANIFEST_DIR");
/// What the static library needs of the system.
const SYSTEM: [&str; 4] = ["-lgcc_s", "-lm", "-lpthread", "-ldl"];

/// The folder in which cargo has built the library for this test.
fn built() -> PathBuf {
    env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Whether a program is there; if not, the test is skipped by name.
fn has(test: &str, program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        eprintln!("SKIPPED {test}: {program} is missing");
    }
    found.is_ok()
}

/// A folder for a test that needs this program.
fn folder(test: &str, program: &str) -> Option<TempDir> {
    has(test, program).then(|| TempDir::new().unwrap())
}

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, errors) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{errors}");
    out.into_owned()
}

/// Compiles `source` of this crate with the static library. Warnings are errors.
fn compiled(folder: &TempDir, compiler: &str, source: &str, flags: &[&str]) -> PathBuf {
    let program = folder.path().join(Path::new(source).file_stem().unwrap());
    run(Command::new(compiler)
        .args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(format!("{HERE}/include"))
        .args(flags)
        .arg(format!("{HERE}/{source}"))
        .arg(built().join("libgiusto_capi.a"))
        .args(SYSTEM)
        .arg("-o")
        .arg(&program));
    program
}

#[test]
fn the_face_is_as_it_says_also_with_bad_input() {
    const TEST: &str = "the_face_is_as_it_says_also_with_bad_input";
    let Some(folder) = folder(TEST, "cc") else { return };
    let program = compiled(&folder, "cc", "tests/c/face.c", &["-std=c11", "-pedantic"]);
    assert_eq!(run(&mut Command::new(&program)), "face: all as expected\n");
    if has(&format!("{TEST} under valgrind"), "valgrind") {
        run(Command::new("valgrind")
            .args(["-q", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all"])
            .args(["--errors-for-leak-kinds=all"])
            .arg(&program));
    }
}

#[test]
fn the_face_passes_address_sanitizer() {
    const TEST: &str = "the_face_passes_address_sanitizer";
    let Some(folder) = folder(TEST, "cc") else { return };
    let empty = folder.path().join("empty.c");
    fs::write(&empty, "int main(void) { return 0; }").unwrap();
    let mut tried = Command::new("cc");
    tried.arg("-fsanitize=address").arg(&empty).arg("-o").arg(folder.path().join("a"));
    if !tried.output().unwrap().status.success() {
        eprintln!("SKIPPED {TEST}: cc has no AddressSanitizer");
        return;
    }
    let flags = ["-std=c11", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let program = compiled(&folder, "cc", "tests/c/face.c", &flags);
    run(Command::new(program).env("ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1"));
}

/// A call through a bottleneck, whose calls of the controller and answers are written down.
struct Written {
    controller: Box<dyn Controller>,
    history: History,
    calls: String,
    answers: String,
}

impl Written {
    fn answer(&mut self) {
        let target = self.controller.target();
        let next = [self.controller.next_timeout(), self.history.next_timeout()];
        let next = next.into_iter().flatten().min().map_or(u64::MAX, Timestamp::as_nanos);
        let window = target.window.map_or(u64::MAX, DataSize::as_bytes);
        let [media, pacing, padding] = [target.media, target.pacing, target.padding].map(DataRate::as_bps);
        let in_flight = self.history.in_flight().as_bytes();
        write!(self.answers, "{media} {pacing} {padding} {window} {in_flight} {next}").unwrap();
        while let Some(probe) = self.controller.next_probe() {
            let (cluster, rate, duration) = (probe.cluster, probe.rate.as_bps(), probe.duration.as_nanos());
            write!(self.answers, " probe {cluster} {rate} {duration} {}", probe.packets).unwrap();
        }
        self.answers.push('\n');
    }

    fn sent(&mut self, now: Timestamp, bytes: u64, number: u16) -> u64 {
        writeln!(self.calls, "sent {} {bytes} {number} 0", now.as_nanos()).unwrap();
        let packet = OutgoingPacket::new(DataSize::from_bytes(bytes))
            .with_transport_sequence(Some(number))
            .with_rtp(Some(RtpId { ssrc: 5, sequence: number }));
        let sent = self.history.on_sent(now, packet);
        self.controller.on_sent(now, &sent);
        self.answer();
        sent.sequence
    }

    fn rtcp(&mut self, now: Timestamp, datagram: &[u8]) {
        let hex: String = datagram.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        writeln!(self.calls, "rtcp {} {hex}", now.as_nanos()).unwrap();
        if let Some(feedback) = self.history.on_rtcp(now, datagram).unwrap() {
            self.controller.on_feedback(now, &feedback);
        }
        self.answer();
    }

    fn report(&mut self, now: Timestamp, number: u64, arrival: Timestamp) {
        let nanos = arrival.as_nanos();
        writeln!(self.calls, "report {} {number} {nanos} 1", now.as_nanos()).unwrap();
        let report = (number, Some(PeerTimestamp::from_nanos(nanos)), Ecn::Ect1);
        if let Some(feedback) = self.history.on_reports(now, &[report]) {
            self.controller.on_feedback(now, &feedback);
        }
        self.answer();
    }

    fn timeout(&mut self, now: Timestamp) {
        writeln!(self.calls, "timeout {} 2400 3000000", now.as_nanos()).unwrap();
        self.history.on_timeout(now);
        self.controller
            .on_timeout(now, &QueueState::new(DataSize::from_bytes(2400), TimeDelta::from_millis(3)));
        self.answer();
    }
}

/// A feedback message of each kind that the controller accepts, about these packets: number, arrival.
fn messages(accepted: &[FeedbackKind], report: Timestamp, packets: &[(u64, Option<Timestamp>)]) -> Vec<u8> {
    let mut datagram = Vec::new();
    let highest_sequence = packets.last().map_or(0, |last| last.0 as u32);
    let block = ReportBlock { ssrc: 5, highest_sequence, ..ReportBlock::default() };
    ReceiverReport { ssrc: 9, blocks: vec![block] }.write(&mut datagram).unwrap();
    for kind in accepted {
        match kind {
            FeedbackKind::TransportWide => {
                let arrivals: Vec<Arrival> = (packets.iter())
                    .filter_map(|(number, at)| Some(Arrival { sequence: *number, at: (*at)? }))
                    .collect();
                let mut feedback =
                    TransportFeedback { sender_ssrc: 9, media_ssrc: 5, ..TransportFeedback::default() };
                let mut encoder = TransportFeedbackEncoder::new(1200);
                if encoder.encode(packets[0].0, &arrivals, &mut feedback).is_some() {
                    feedback.write(&mut datagram).unwrap();
                }
            }
            FeedbackKind::CongestionControl => {
                let offset = |at: Timestamp| ArrivalOffset::from_delta(report - at);
                let reception = |at| PacketReception { ecn: Ecn::Ect1, offset: offset(at) };
                let received = packets.iter().map(|(_, at)| at.map(reception)).collect();
                let begin_sequence = packets[0].0 as u16;
                let streams = vec![StreamFeedback { ssrc: 5, begin_sequence, packets: received }];
                let time = NtpShort::from_timestamp(report);
                CongestionFeedback { sender_ssrc: 9, streams, time }.write(&mut datagram).unwrap();
            }
            FeedbackKind::ReceiverEstimate => {
                let bitrate = DataRate::from_bps(900_000 + report.as_nanos() / 20_000);
                Remb { sender_ssrc: 9, bitrate, sources: vec![5] }.write(&mut datagram).unwrap();
            }
            FeedbackKind::Nada => {
                let (received, default) = (DataRate::from_bps(1_000_000), NadaFeedback::default());
                let feedback = NadaFeedback { sender_ssrc: 9, signal: 200, received, ..default };
                feedback.write(&mut datagram).unwrap();
            }
            _ => {}
        }
    }
    datagram
}

/// 7 s through 1.5 Mbit/s, 20 ms each way, with a loss now and then; in the third second reports of the sender's own format.
fn call(mut written: Written, accepted: &[FeedbackKind]) -> Written {
    let at = |ns: u64| Timestamp::from_nanos(ns);
    let (mut number, mut free, mut next_send, mut next_report) = (0_u64, 0_u64, 0_u64, 50_000_000_u64);
    let mut on_the_way: Vec<(u64, Option<Timestamp>)> = Vec::new();
    written.timeout(at(0));
    for step in 0..7000_u64 {
        let now = step * 1_000_000;
        if written.controller.next_timeout().is_some_and(|due| due.as_nanos() <= now) {
            written.timeout(at(now));
        }
        if now >= next_send {
            let media = written.controller.target().media.as_bps().max(30_000);
            next_send += 1200 * 8 * 1_000_000_000 / media;
            let given = written.sent(at(now), 1200, number as u16);
            assert_eq!(given, number);
            let begin = free.max(now);
            let is_lost = number % 97 == 96 || begin - now > 150_000_000;
            if !is_lost {
                free = begin + 6_400_000;
            }
            on_the_way.push((number, (!is_lost).then_some(at(free + 20_000_000))));
            number += 1;
        }
        if now >= next_report {
            next_report += 50_000_000;
            let arrived = on_the_way.iter().rposition(|(_, at)| at.is_some_and(|at| at.as_nanos() <= now));
            let reported: Vec<_> = arrived.map_or(Vec::new(), |last| on_the_way.drain(..=last).collect());
            if (2_000_000_000..3_000_000_000).contains(&now) {
                for (number, arrival) in reported.into_iter().filter_map(|(number, at)| Some((number, at?))) {
                    written.report(at(now + 500_000), number, arrival);
                }
            } else if !reported.is_empty() {
                written.rtcp(at(now + 500_000), &messages(accepted, at(now), &reported));
            }
        }
    }
    written.calls.push_str("route 7000000000\n");
    written.history.on_route_change();
    written.controller.on_route_change(at(7_000_000_000));
    written.answer();
    written
}

#[test]
fn results_are_those_of_the_rust_crate() {
    let Some(folder) = folder("results_are_those_of_the_rust_crate", "cc") else { return };
    let program = compiled(&folder, "cc", "tests/c/replay.c", &["-std=c11"]);
    let limits = Limits::DEFAULT
        .with_min(DataRate::from_bps(50_000))
        .with_start(DataRate::from_bps(500_000))
        .with_max(DataRate::from_bps(4_000_000));
    let slow = "nada:ns3".parse::<Algorithm>().unwrap();
    let slow = slow.with_constants(&[("kappa", 0.4), ("tau", 450.0)]).unwrap();
    let (mut moved, mut all) = (0, 0);
    for algorithm in Algorithm::all().chain([slow]) {
        let controller = algorithm.build(limits);
        let history = History::new();
        let written = Written { controller, history, calls: String::new(), answers: String::new() };
        let written = call(written, algorithm.requirements().accepted);
        let mut child = Command::new(&program)
            .args([algorithm.name(), "50000", "500000", "4000000"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut input, calls) = (child.stdin.take().unwrap(), written.calls.clone());
        let writer = std::thread::spawn(move || input.write_all(calls.as_bytes()));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        assert!(output.status.success(), "{algorithm}");
        let output = String::from_utf8(output.stdout).unwrap();
        let (answers, decision) = output.trim_end().rsplit_once('\n').unwrap();
        let ours: Vec<&str> = written.answers.lines().collect();
        let theirs: Vec<&str> = answers.lines().collect();
        assert!(ours.len() > 500, "{algorithm}: {}", ours.len());
        for ((ours, theirs), call) in ours.iter().zip(&theirs).zip(written.calls.lines()) {
            assert_eq!(ours, theirs, "{algorithm}: {call}");
        }
        assert_eq!(ours.len(), theirs.len(), "{algorithm}");
        let decision: serde_json::Value = serde_json::from_str(decision).unwrap();
        let own = *written.controller.decision();
        let cause = serde_json::to_value(own.cause).unwrap();
        assert_eq!((&decision["cause"], &decision["to_bps"]), (&cause["cause"], &own.to.as_bps().into()));
        assert_eq!(decision["at_ns"], own.at.as_nanos());
        let media: std::collections::BTreeSet<&str> =
            ours.iter().filter_map(|line| line.split(' ').next()).collect();
        moved += usize::from(media.len() > 20);
        all += 1;
    }
    // A history that moves no target would show nothing. Two have formats of their own, one is constant.
    assert!(moved >= all - 5, "{moved} of {all}");
}

#[test]
fn the_example_adapts_to_its_queue() {
    let Some(folder) = folder("the_example_adapts_to_its_queue", "cc") else { return };
    let program = compiled(&folder, "cc", "examples/udp_sender.c", &["-std=c11"]);
    let output = run(Command::new(program).args(["tempo", "5"]));
    let last = output.lines().last().unwrap();
    let kbps: u64 = last.rsplit(' ').nth(1).unwrap().parse().unwrap();
    // The start is at 500 kbit/s, the queue gives 2000. A busy machine gives less.
    assert!((600..=2050).contains(&kbps), "{output}");
    assert!(output.contains("\"cause\":"), "{output}");
}

/// Against stand-ins of libwebrtc's headers, as of 2026 and as of M128.
#[test]
fn the_adapter_for_libwebrtc_follows_a_bottleneck() {
    let Some(folder) = folder("the_adapter_for_libwebrtc_follows_a_bottleneck", "c++") else { return };
    let headers = format!("-I{HERE}/tests/cpp");
    for version in ["-DSTANDIN_2026", "-DSTANDIN_M128"] {
        let program = compiled(&folder, "c++", "tests/cpp/webrtc.cc", &["-std=c++20", &headers, version]);
        let output = run(&mut Command::new(program));
        assert!(output.contains("tempo: ") && output.contains("gcc:libwebrtc: "), "{output}");
    }
}

#[test]
fn what_is_installed_is_found_by_pkg_config() {
    const TEST: &str = "what_is_installed_is_found_by_pkg_config";
    let Some(folder) = folder(TEST, "cc").filter(|_| has(TEST, "pkg-config")) else { return };
    let prefix = folder.path().join("prefix");
    let install = || {
        run(Command::new(format!("{HERE}/install.sh")).arg(&prefix).arg(built()));
        fs::metadata(prefix.join("lib/libgiusto.so.1")).unwrap().ino()
    };
    assert_ne!(install(), install(), "a program that runs keeps the library that it began with");
    assert_eq!(fs::read_dir(prefix.join("lib")).unwrap().count(), 4, "two names, an archive, pkgconfig");
    let asked = |flags: &[&str]| {
        let path = prefix.join("lib/pkgconfig");
        let found = run(Command::new("pkg-config").args(flags).arg("giusto").env("PKG_CONFIG_PATH", path));
        found.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(asked(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let program = folder.path().join("shared");
    run(Command::new("cc")
        .arg(format!("{HERE}/tests/c/face.c"))
        .args(asked(&["--cflags", "--libs"]))
        .arg("-o")
        .arg(&program));
    run(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")));
    if has(&format!("{TEST}: names"), "readelf") {
        let needed = run(Command::new("readelf").arg("-d").arg(&program));
        let soname = format!("libgiusto.so.{}", giusto_capi::GIUSTO_ABI_VERSION);
        assert!(needed.contains(&soname), "{needed}");
        // What the library shows are the functions of its header.
        let library = prefix.join("lib/libgiusto.so");
        let symbols = run(Command::new("readelf").args(["-W", "--dyn-syms"]).arg(library));
        let shown: Vec<&str> = (symbols.lines())
            .filter(|line| line.contains(" GLOBAL ") && !line.contains(" UND "))
            .filter_map(|line| line.split_whitespace().nth(7))
            .collect();
        let header = fs::read_to_string(format!("{HERE}/include/giusto.h")).unwrap();
        assert!(shown.len() >= 17, "{shown:?}");
        for name in shown {
            assert!(name.starts_with("giusto_") && header.contains(&format!("{name}(")), "{name}");
        }
    }
}

#[test]
fn the_header_is_that_of_the_source() {
    let config = cbindgen::Config::from_file(Path::new(HERE).join("cbindgen.toml")).unwrap();
    let mut header = Vec::new();
    cbindgen::Builder::new().with_config(config).with_crate(HERE).generate().unwrap().write(&mut header);
    let kept = Path::new(HERE).join("include/giusto.h");
    if env::var_os("GIUSTO_WRITE_REFERENCE").is_some() {
        fs::write(&kept, &header).unwrap();
    }
    assert!(fs::read(kept).unwrap() == header, "include/giusto.h is not that of src: make reference");
}
