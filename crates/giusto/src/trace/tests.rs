use std::{collections::BTreeSet, fs};

use giusto_sim::{
    link::{
        LinkConfig,
        loss::Loss,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    random,
    simulation::Simulation,
    traffic::{Departures, Pattern, Source},
};
use giusto_units::{DataRate, DataSize};

use giusto_congestion::{Cause, Decision};
use giusto_sim::packet::FlowId;
use giusto_units::TimeDelta;

use super::*;

#[cfg(feature = "parquet")]
const EXTENSIONS: &[&str] = &["csv", "parquet"];
#[cfg(not(feature = "parquet"))]
const EXTENSIONS: &[&str] = &["csv"];

fn names() -> TraceNames {
    TraceNames {
        flows: vec!["voice, \"both ways\"".to_owned()],
        links: vec!["narrow".to_owned(), "wide".to_owned()],
    }
}

/// Two links, the first too narrow, the second loses its third packet.
fn run(end_ms: u64, departures: Departures, observer: &mut impl Observer) {
    let mut simulation = Simulation::new(7);
    let [a, b, c] = ["a", "b", "c"].map(|name| simulation.node(name));
    let narrow = LinkConfig {
        rate: RateProfile::Fixed(DataRate::from_bps(800_000)),
        delay: TimeDelta::from_millis(5).into(),
        ..LinkConfig::default()
    };
    let wide = LinkConfig { loss: Loss::List(BTreeSet::from([2])), ..LinkConfig::default() };
    simulation.add_link("narrow", (a, b), &narrow, Box::new(DropTail::new(Limit::Packets(2)))).unwrap();
    simulation.add_link("wide", (b, c), &wide, Box::new(DropTail::new(Limit::Unlimited))).unwrap();
    let flow = simulation.add_flow(a, c).unwrap();
    let pattern = Pattern::new(departures, DataSize::from_bytes(100));
    simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(7, "source")).unwrap()));
    simulation.run_until(Timestamp::from_nanos(end_ms * 1_000_000), observer);
}

/// Twice as much as the narrow link takes.
fn steady() -> Departures {
    Departures::Constant(RateProfile::Fixed(DataRate::from_bps(1_600_000)))
}

/// The content of a trace and the number of its rows.
fn written(extension: &str, write: impl FnOnce(&mut TraceFile)) -> (Vec<u8>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("trace.{extension}"));
    let mut trace = TraceFile::create(&path, names()).unwrap();
    write(&mut trace);
    assert!(!path.exists());
    let rows = trace.finish().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    (fs::read(&path).unwrap(), rows)
}

fn random_run(end_ms: u64) -> impl FnOnce(&mut TraceFile) {
    move |trace| run(end_ms, Departures::Poisson(DataRate::from_bps(1_600_000)), trace)
}

#[test]
fn a_small_run_as_csv() {
    let (bytes, _) = written("csv", |trace| run(9, steady(), trace));
    let text = String::from_utf8(bytes).unwrap();
    // 100 B take 1 ms on the narrow link and come out 5 ms later.
    let later = text.lines().skip(24).filter(|line| line.contains(",wide,") || line.contains("delivered"));
    let part = text.lines().take(24).chain(later).collect::<Vec<_>>().join("\n");
    insta::with_settings!({ snapshot_path => "../../tests/snapshots" }, { insta::assert_snapshot!(part) });
}

#[test]
fn a_copy_of_a_packet_has_a_row_of_its_own() {
    let (bytes, _) = written("csv", |trace| {
        let mut simulation = Simulation::new(7);
        let (a, b) = (simulation.node("a"), simulation.node("b"));
        let twice = LinkConfig { duplication: 1.0, ..LinkConfig::default() };
        simulation.add_link("narrow", (a, b), &twice, Box::new(DropTail::new(Limit::Unlimited))).unwrap();
        let flow = simulation.add_flow(a, b).unwrap();
        let pattern = Pattern::new(steady(), DataSize::from_bytes(100));
        simulation.add_agent(Box::new(Source::new(flow, pattern, random::stream(7, "source")).unwrap()));
        simulation.run_until(Timestamp::from_nanos(100_000), trace);
    });
    let text = String::from_utf8(bytes).unwrap();
    let events = text.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect::<Vec<_>>();
    assert_eq!(events, ["sent", "queued", "dequeued", "duplicated", "delivered", "delivered"]);
}

/// Two decisions and two frames of the first flow, and a frame of the second.
fn notes(observer: &mut impl Observer) {
    use giusto_congestion::Signal;
    let flow = FlowId(0);
    let decide = |cause| {
        let [from, to] = [2_610_000, 2_050_000].map(DataRate::from_bps);
        Note::Decided { flow, decision: Decision::new(Timestamp::from_nanos(1), to, cause).with_from(from) }
    };
    let delay = Cause::Delay { signal: Signal::OverUse, trend_ms: 14.25, threshold_ms: 12.5 };
    let frame = |flow: FlowId, delay| {
        let (ssrc, size) = (flow.0 + 2, DataSize::from_bytes(6250));
        Note::Frame { flow, ssrc, at: Timestamp::ZERO, delay, size, repaired: false, late: false }
    };
    observer.on_note(Timestamp::from_nanos(1), &decide(delay));
    observer.on_note(Timestamp::from_nanos(2), &frame(flow, Some(TimeDelta::from_millis(40))));
    observer.on_note(Timestamp::from_nanos(3), &frame(flow, None));
    observer.on_note(Timestamp::from_nanos(4), &decide(Cause::Loss { ratio: 0.125 }));
    observer.on_note(Timestamp::from_nanos(5), &frame(FlowId(1), None));
}

#[test]
fn decisions_and_frames_are_rows_of_their_own() {
    let (bytes, rows) = written("csv", notes);
    assert_eq!(rows, 5);
    insta::assert_snapshot!(String::from_utf8(bytes).unwrap(), @r#"
    time_ns,event,flow,link,sequence,size_bytes,ecn,reason,sojourn_ns,delay_ns,queue_packets,queue_bytes,from_bps,to_bps,cause,signal,trend_ms,threshold_ms,ratio,rate_bps,ssrc
    1,decided,"voice, ""both ways""",,0,0,,,,,,,2610000,2050000,delay,over-use,14.25,12.5,,,
    2,frame,"voice, ""both ways""",,0,6250,,,,40000000,,,,,,,,,,,2
    3,frame,"voice, ""both ways""",,1,6250,,,,,,,,,,,,,,,2
    4,decided,"voice, ""both ways""",,1,0,,,,,,,2610000,2050000,loss,,,,0.125,,
    5,frame,1,,0,6250,,,,,,,,,,,,,,,3
    "#);
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    for extension in EXTENSIONS {
        assert!(written(extension, random_run(500)) == written(extension, random_run(500)), "{extension}");
    }
}

#[test]
fn a_name_without_a_known_extension_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let complaint = |path: &Path| TraceFile::create(path, names()).unwrap_err().to_string();
    assert!(complaint(&folder.path().join("trace.txt")).ends_with("let it end in .csv or .parquet"));
    assert!(complaint(folder.path()).contains("this is a directory"));
    let missing = folder.path().join("missing").join("trace.csv");
    assert!(complaint(&missing).ends_with("create the directory first"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_at_the_end_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for extension in EXTENSIONS {
        let path = folder.path().join(format!("full.{extension}"));
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let mut trace = TraceFile::create(&path, names()).unwrap();
        run(3000, steady(), &mut trace);
        let complaint = trace.finish().unwrap_err().to_string();
        assert!(complaint.contains("cannot write the trace"), "{complaint}");
        assert!(complaint.ends_with("free some space or choose another disk"), "{complaint}");
    }
}

#[test]
fn an_abandoned_trace_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    for extension in EXTENSIONS {
        let path = folder.path().join(format!("trace.{extension}"));
        run(100, steady(), &mut TraceFile::create(&path, names()).unwrap());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_has_the_cells_of_the_csv_file_in_a_fifth_of_the_bytes() {
    use ::parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::Field,
    };

    let both = |trace: &mut TraceFile| {
        random_run(3000)(trace);
        notes(trace);
    };
    let [(csv, _), (parquet, rows)] = ["csv", "parquet"].map(|extension| written(extension, both));
    assert!(rows > 2 * super::parquet::ROWS_PER_BATCH as u64, "{rows} rows are no test of batches");
    assert!(parquet.len() * 5 < csv.len() && parquet.len() > 1000, "{} of {} B", parquet.len(), csv.len());
    let mut lines = ::csv::Reader::from_reader(&csv[..]);
    let header = lines.headers().unwrap().clone();
    let lines: Vec<_> = lines.records().map(Result::unwrap).collect();
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &parquet).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert_eq!((reader.metadata().file_metadata().num_rows() as u64, lines.len() as u64), (rows, rows));
    let mut kinds = BTreeSet::new();
    for (row, line) in reader.get_row_iter(None).unwrap().zip(&lines) {
        let row = row.unwrap();
        assert!(row.get_column_iter().map(|(name, _)| name.as_str()).eq(&header));
        for ((name, field), cell) in row.get_column_iter().zip(line) {
            let own = match field {
                Field::Null => String::new(),
                Field::Str(text) => text.clone(),
                number => number.to_string(),
            };
            assert_eq!(own, cell, "{name} of {line:?}");
        }
        kinds.insert((line[1].to_owned(), line[7].to_owned()));
    }
    // Packets are sent, queued, dequeued, dropped by loss or by overflow, and delivered; notes are decisions and frames.
    assert_eq!(kinds.len(), 8, "{kinds:?}");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_parquet_the_error_names_the_feature() {
    let folder = tempfile::tempdir().unwrap();
    let error = TraceFile::create(&folder.path().join("trace.parquet"), names()).unwrap_err().to_string();
    assert!(error.ends_with("use .csv, or build it with `--features parquet`"), "{error}");
}
