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

fn written(extension: &str, end_ms: u64) -> (Vec<u8>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("trace.{extension}"));
    let mut trace = TraceFile::create(&path, names()).unwrap();
    run(end_ms, Departures::Poisson(DataRate::from_bps(1_600_000)), &mut trace);
    assert!(!path.exists());
    let rows = trace.finish().unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    (fs::read(&path).unwrap(), rows)
}

#[test]
fn a_small_run_as_csv() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let mut trace = TraceFile::create(&path, names()).unwrap();
    run(9, steady(), &mut trace);
    trace.finish().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    // 100 B take 1 ms on the narrow link and come out 5 ms later.
    let later = text.lines().skip(24).filter(|line| line.contains(",wide,") || line.contains("delivered"));
    let part = text.lines().take(24).chain(later).collect::<Vec<_>>().join("\n");
    insta::with_settings!({ snapshot_path => "../../tests/snapshots" }, { insta::assert_snapshot!(part) });
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let mut trace = TraceFile::create(&path, names()).unwrap();
    notes(&mut trace);
    assert_eq!(trace.finish().unwrap(), 5);
    insta::assert_snapshot!(fs::read_to_string(&path).unwrap(), @r#"
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
        assert!(written(extension, 500) == written(extension, 500), "{extension}");
    }
}

#[test]
fn a_name_without_a_known_extension_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let complaint = |path: &Path| TraceFile::create(path, names()).unwrap_err().to_string();
    assert!(complaint(&folder.path().join("trace.txt")).ends_with("let it end in .csv or .parquet"));
    assert!(complaint(folder.path()).contains("this is a directory"));
    assert!(
        complaint(&folder.path().join("missing").join("trace.csv")).ends_with("create the directory first")
    );
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
        let mut trace =
            TraceFile::create(&folder.path().join(format!("trace.{extension}")), names()).unwrap();
        run(100, steady(), &mut trace);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[cfg(feature = "parquet")]
mod parquet_files {
    use ::parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::{Field, RowAccessor},
    };

    use super::*;
    use crate::trace::parquet::ROWS_PER_BATCH;
    use giusto_sim::packet::DropReason;

    #[test]
    fn a_parquet_file_read_back_holds_every_event() {
        let mut events: Vec<(Timestamp, Event)> = Vec::new();
        run(3000, Departures::Poisson(DataRate::from_bps(1_600_000)), &mut events);
        let (bytes, rows) = written("parquet", 3000);
        assert_eq!(rows, events.len() as u64);
        assert!(rows > 2 * ROWS_PER_BATCH as u64, "{rows} rows are no test of batches");

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.parquet");
        fs::write(&path, &bytes).unwrap();
        let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().file_metadata().num_rows() as u64, rows);
        let mut kinds = BTreeSet::new();
        for (row, (now, event)) in reader.get_row_iter(None).unwrap().zip(&events) {
            let row = row.unwrap();
            let fields: Vec<(&String, &Field)> = row.get_column_iter().collect();
            assert_eq!(
                fields.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
                COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>()
            );
            let integer = |place: usize| match fields[place].1 {
                Field::Long(value) => Some(*value),
                Field::Null => None,
                other => panic!("{other:?}"),
            };
            let text = |place: usize| match fields[place].1 {
                Field::Str(value) => Some(value.as_str()),
                Field::Null => None,
                other => panic!("{other:?}"),
            };
            let packet = event.packet();
            assert_eq!(row.get_long(0).unwrap(), now.as_nanos() as i64);
            assert_eq!(text(2), Some("voice, \"both ways\""));
            assert_eq!(text(3), event.link().map(|link| ["narrow", "wide"][link.0 as usize]));
            assert_eq!((integer(4), integer(5)), (Some(packet.sequence as i64), Some(100)));
            assert_eq!(text(6), Some("not-ect"));
            let (kind, reason, sojourn, delay, backlog) = match event {
                Event::Sent { .. } => ("sent", None, None, None, None),
                Event::Queued { backlog, .. } => ("queued", None, None, None, Some(backlog)),
                Event::Dequeued { sojourn, backlog, .. } => {
                    ("dequeued", None, Some(*sojourn), None, Some(backlog))
                }
                Event::Dropped { reason: DropReason::Loss, .. } => {
                    ("dropped", Some("loss"), None, None, None)
                }
                Event::Dropped { .. } => ("dropped", Some("overflow"), None, None, None),
                Event::Delivered { packet } => ("delivered", None, None, Some(*now - packet.sent), None),
                other => panic!("{other:?}"),
            };
            kinds.insert((kind, reason));
            assert_eq!((text(1), text(7)), (Some(kind), reason));
            assert_eq!(
                (integer(8), integer(9)),
                (sojourn.map(TimeDelta::as_nanos), delay.map(TimeDelta::as_nanos))
            );
            assert_eq!(integer(10), backlog.map(|backlog| backlog.packets as i64));
            assert_eq!(integer(11), backlog.map(|backlog| backlog.size.as_bytes() as i64));
        }
        assert_eq!(kinds.len(), 6, "{kinds:?}");
    }

    #[test]
    fn a_parquet_file_read_back_holds_every_note() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.parquet");
        let mut trace = TraceFile::create(&path, names()).unwrap();
        notes(&mut trace);
        assert_eq!(trace.finish().unwrap(), 5);
        let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let of = |row: usize, name: &str| {
            let field = rows[row].get_column_iter().find(|(column, _)| *column == name).unwrap().1;
            field.to_string()
        };
        let all = |name: &str| (0..5).map(|row| of(row, name)).collect::<Vec<_>>();
        assert_eq!(
            all("event"),
            ["decided", "frame", "frame", "decided", "frame"].map(|word| format!("\"{word}\""))
        );
        assert_eq!(all("sequence"), ["0", "0", "1", "1", "0"]);
        assert_eq!(all("delay_ns"), ["null", "40000000", "null", "null", "null"]);
        assert_eq!(all("ssrc"), ["null", "2", "2", "null", "3"]);
        assert_eq!(all("to_bps"), ["2050000", "null", "null", "2050000", "null"]);
        assert_eq!(all("trend_ms"), ["14.25", "null", "null", "null", "null"]);
        assert_eq!(all("ratio"), ["null", "null", "null", "0.125", "null"]);
        assert_eq!((of(0, "cause"), of(3, "cause")), ("\"delay\"".to_owned(), "\"loss\"".to_owned()));
    }

    #[test]
    fn parquet_files_are_a_fifth_of_csv_files() {
        let (csv, parquet) = (written("csv", 3000).0.len(), written("parquet", 3000).0.len());
        assert!(parquet * 5 < csv && parquet > 1000, "{parquet} B against {csv} B of CSV");
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_parquet_the_error_names_the_feature() {
    let folder = tempfile::tempdir().unwrap();
    let error = TraceFile::create(&folder.path().join("trace.parquet"), names()).unwrap_err().to_string();
    assert!(error.ends_with("use .csv, or build it with `--features parquet`"), "{error}");
}
