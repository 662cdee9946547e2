//! A day of a mesh in virtual time: engine, store, figures of hours and pages, without a socket.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::path::Path;

use giusto::scenario::{Document, MonitorSpec};
use giusto_monitor::{
    engine::{Engine, Job},
    metric::{Figures, Metric},
    pages::{Asked, Site, overview, pair},
    sample::{Measured, Sample, SeriesKey},
    store::{Entry, EventKind, Reader, Span, Store, StoreError},
    watch::Bound,
};
use giusto_units::{TimeDelta, Timestamp};

/// 2026-11-27 00:00:00 UTC.
const START: u64 = 1_795_737_600;
const DAY: u64 = 86_400;
/// The time at which its pages are shown.
const END: u64 = START + DAY + 7200;
/// The host c is down for 90 minutes from 06:00 on.
const DOWN: std::ops::Range<u64> = START + 6 * 3600..START + 7 * 3600 + 1800;
/// Between a and b 5 % are lost from 12:00 to 12:10.
const LOSSY: std::ops::Range<u64> = START + 12 * 3600..START + 12 * 3600 + 600;
/// From a to b the path is longer from 18:00 on.
const LONGER: u64 = START + 18 * 3600;

fn spec() -> MonitorSpec {
    let text = r#"
        host = [
            { id = "a", address = "192.0.2.1" },
            { id = "b", address = "192.0.2.2" },
            { id = "c", address = "192.0.2.3" },
        ]
        stream = [{ id = "voice", kind = "voice" }, { id = "echo", kind = "stamp", interval = "5 min" }]
        threshold = { loss = 0.01, after = 2 }
        webhook = { url = "http://127.0.0.1:9/" }
    "#;
    Document::parse(text, "day.toml").unwrap().monitor().unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

/// What the network does at a time.
fn network(job: &Job) -> (Sample, Option<Sample>) {
    let both = job.stream.id == "echo";
    let to_b = job.series.to == "b";
    let lost = if to_b && LOSSY.contains(&job.time) { 25 } else { 0 };
    // The minutes of an hour differ: 10.00 to 10.59 ms.
    let minute = (job.time / 60 % 60) as f64;
    let rtt = if to_b && job.time >= LONGER { 30.0 } else { 10.0 } + minute / 100.0;
    let figures =
        [(Metric::RttMin, rtt), (Metric::Rtt, rtt), (Metric::RttP99, rtt + 1.0), (Metric::Mos, 4.4)]
            .into_iter()
            .fold(Figures::default(), |figures, (metric, value)| figures.with(metric, Some(value)));
    let measured = Measured { sent: Some(500), lost: Some(lost), figures, ..Measured::default() };
    let is_down = job.series.to == "c" && DOWN.contains(&job.time);
    let down = || Sample::Unknown("no answer".to_owned());
    let sample = if is_down { down() } else { Sample::Measured(Box::new(measured)) };
    (sample.clone(), both.then_some(sample))
}

/// Lets a monitor of the host a run over a time, one event after the other.
fn run(engine: &mut Engine, store: &mut Store, time: std::ops::Range<u64>) -> u64 {
    let mut now = at(time.start);
    let mut running: Vec<(Timestamp, Job)> = Vec::new();
    let mut jobs = 0;
    while now < at(time.end) {
        while let Some(job) = engine.poll(now) {
            jobs += 1;
            running.push((now + job.stream.duration + TimeDelta::from_millis(200), job));
        }
        while let Some(place) = running.iter().position(|(end, _)| *end <= now) {
            let (_, job) = running.remove(place);
            let (there, back) = network(&job);
            for entry in engine.on_result(&job, there, back) {
                store.record(entry).unwrap();
            }
        }
        if now.as_nanos().is_multiple_of(60_000_000_000) {
            store.maintain(now.as_nanos() / 1_000_000_000).unwrap();
        }
        let next = running.iter().map(|(end, _)| *end).chain(engine.poll_timeout()).min();
        let tick = Timestamp::from_nanos((now.as_nanos() / 60_000_000_000 + 1) * 60_000_000_000);
        now = next.unwrap_or(tick).min(tick).max(now + TimeDelta::from_nanos(1));
    }
    jobs
}

/// Takes all notices.
fn notices(store: &mut Store) -> Vec<serde_json::Value> {
    let mut notices = Vec::new();
    while let Some(notice) = store.next_notice() {
        notices.push(serde_json::from_str(&notice).unwrap());
        store.forget_notice(notice).unwrap();
    }
    notices
}

/// The events of a series that are of this kind.
fn events(reader: &Reader, series: i64, kind: EventKind) -> Vec<(u64, Option<u64>, String)> {
    let events = reader.events(Some(series), START, 100).unwrap();
    events.into_iter().filter(|own| own.kind == kind).map(|own| (own.time, own.until, own.text)).collect()
}

fn series(to: &str, stream: &str) -> SeriesKey {
    SeriesKey { from: "a".to_owned(), to: to.to_owned(), stream: stream.to_owned() }
}

fn site(database: &Path) -> Site {
    Site { spec: spec(), here: "a".to_owned(), database: database.to_owned() }
}

#[test]
fn a_day_of_a_mesh_is_kept_rolled_up_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("day.db");
    let spec = spec();
    let mut store = Store::open(&database, spec.retention).unwrap();
    let mut engine = Engine::new(&spec, "a");
    let jobs = run(&mut engine, &mut store, START..START + DAY + 7200);
    // Two streams each minute for 26 hours, and two each five minutes.
    assert_eq!(jobs, 2 * 1560 + 2 * 312);
    assert_eq!((engine.troubles().missed, engine.troubles().overrun), (0, 0));

    let reader = Reader::open(&database).unwrap();
    let ids = reader.series().unwrap();
    assert_eq!(ids.len(), 6, "{ids:?}");
    let (to_b, to_c) = (ids[&series("b", "voice")], ids[&series("c", "voice")]);

    // Hours: 10.00 to 10.59 ms have the mean 10.295, the median 10.29 and the nearest-rank p99 10.59.
    let hours = reader.hours(Metric::Rtt, START, END).unwrap();
    let hour = hours[&(to_b, START + 3600)];
    assert_eq!((hour.count, hour.min, hour.p50, hour.p99), (60, 10.0, 10.29, 10.59));
    assert!((hour.mean - 10.295).abs() < 1e-4);
    // Unknown is no zero: there is no round-trip time of c at 06:00, and half of it at 07:00.
    assert_eq!(hours.get(&(to_c, START + 6 * 3600)), None);
    assert_eq!(hours[&(to_c, START + 7 * 3600)].count, 30);
    let known = reader.hours(Metric::Known, START, END).unwrap();
    let share = |hour: u64| known[&(to_c, START + hour * 3600)].mean;
    let shares = [share(5), share(6), share(7), share(8)].map(|share| (share * 100.0).round() as i64);
    assert_eq!(shares, [100, 0, 50, 100]);
    let loss = reader.hours(Metric::Loss, START, END).unwrap();
    assert_eq!(loss.get(&(to_c, START + 6 * 3600)), None);
    // 10 of 60 minutes with 5 %.
    assert!((loss[&(to_b, START + 12 * 3600)].mean - 0.05 / 6.0).abs() < 1e-6);

    // The day: 1440 results, of which those of 90 minutes are unknown.
    let year = reader.course(to_c, Span::Year, START + DAY + 7200).unwrap();
    let day = year.iter().find(|known| known.time == START).unwrap();
    assert_eq!((day.values[&Metric::Known].count, day.values[&Metric::Known].mean), (1440, 0.9375));
    assert_eq!(day.values[&Metric::Rtt].count, 1350);
    // The day under way, of which nothing is rolled up yet, and the last hours of a week.
    let newest = |span, now| reader.course(to_c, span, now).unwrap().last().cloned().unwrap();
    let day = newest(Span::Year, START + DAY + 7200);
    assert_eq!((day.time, day.values[&Metric::Known].count), (START + DAY, 120));
    let hour = newest(Span::Week, START + DAY + 7200);
    assert_eq!((hour.time, hour.values[&Metric::Known].count), (START + DAY + 3600, 60));

    assert_events(&reader, to_b, to_c);

    // Notices: for each series, c down and up again (two ways of echo), loss of b twice.
    let notices = notices(&mut store);
    let count = |bound: &str, event: &str| {
        notices.iter().filter(|notice| notice["bound"] == bound && notice["event"] == event).count()
    };
    assert_eq!([count("reachable", "crossed"), count("reachable", "kept")], [3, 3]);
    assert_eq!([count("loss", "crossed"), count("loss", "kept")], [3, 3], "{notices:?}");
    assert_eq!(notices.len(), 12);

    assert_pages(&reader, &site(&database));

    // A clock that was ahead has left a result of a time to come: the hours until then are not read.
    let (series, sample) = (Some(series("b", "voice")), Some(Sample::Unknown("an end".to_owned())));
    let time = END + 3650 * DAY;
    store.record(Entry { series, time, sample, notes: Vec::new(), notices: Vec::new() }).unwrap();
    let known = reader.hours(Metric::Known, START, END).unwrap();
    assert!(known.keys().all(|(_, time)| *time <= END));
}

fn assert_events(reader: &Reader, to_b: i64, to_c: i64) {
    let [(from, until, _)] = &events(reader, to_c, EventKind::Outage)[..] else { panic!("an outage") };
    assert_eq!((*from, *until), (DOWN.start, Some(DOWN.end)));
    let [(time, _, text)] = &events(reader, to_b, EventKind::Path)[..] else { panic!("a path") };
    assert_eq!((*time, text.as_str()), (LONGER + 120, "shortest RTT 10.58 ms → 30.01 ms"));
    let [(from, until, _)] = &events(reader, to_b, EventKind::Bound)[..] else { panic!("a bound") };
    // The second result in a row decides.
    assert_eq!((*from, *until), (LOSSY.start + 60, Some(LOSSY.end + 60)));
}

fn assert_pages(reader: &Reader, site: &Site) {
    let unknown = |page: &str| page.matches("\"level\":\"unknown\"").count();
    let now = START + DAY + 7200;
    let first = overview(site, reader, &Asked::default(), now).unwrap().to_html();
    // Of two directions the hours before the start and the one that has just begun, and the hour in which c was down.
    assert_eq!(unknown(&first), 2 * (21 + 1) + 1);
    assert!(first.contains("6 streams are measured, all within bounds."), "{first:.600}");
    let begun = DOWN.start + 1800;
    let down = overview(site, reader, &Asked::of("stream=voice&metric=rtt"), begun).unwrap().to_html();
    assert!(down.contains("a → c: unknown"), "{down:.600}");
    let asked = Asked::of("from=a&to=c&stream=voice&span=day");
    let charts = pair(site, reader, &asked, now).unwrap().unwrap().to_html();
    let shown = ["Round-trip time", "\"outage\"", "no answer"];
    assert!(shown.iter().all(|text| charts.contains(text)), "{charts:.600}");
    // Each result counts once, however many datagrams it has.
    assert!(charts.contains("the mean loss over the results is"), "{charts:.600}");
    // From here only STAMP measures the way back.
    assert!(!charts.contains("way back"));
    let echo = pair(site, reader, &Asked::of("from=a&to=c&stream=echo"), now).unwrap().unwrap().to_html();
    assert!(echo.contains("way back"));
    assert!(pair(site, reader, &Asked::of("from=a&to=nobody&stream=voice"), now).unwrap().is_none());
}

#[test]
fn a_monitor_that_starts_again_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("day.db");
    let spec = spec();
    // It ends, as by `kill -9`, while c is down, and starts again while it still is.
    let (first, second) = (START..DOWN.start + 600, DOWN.start + 1200..DOWN.end + 3600);
    {
        let mut store = Store::open(&database, spec.retention).unwrap();
        run(&mut Engine::new(&spec, "a"), &mut store, first.clone());
    }
    let now = overview(&site(&database), &Reader::open(&database).unwrap(), &Asked::default(), first.end);
    let page = now.unwrap().to_html();
    assert!(page.contains("Outage of a → c (echo), a → c (voice), c → a (echo). 3 streams"), "{page:.900}");
    let mut store = Store::open(&database, spec.retention).unwrap();
    // One monitor at a time; who reads may.
    let second_monitor = Store::open(&database, spec.retention);
    assert!(matches!(second_monitor, Err(StoreError::InUse { .. })), "{second_monitor:?}");
    // A clock that was ahead has left a result of a time to come, which hides no gap.
    let (series_of, sample) = (Some(series("b", "voice")), Some(Sample::Unknown("an end".to_owned())));
    let entry = Entry { series: series_of, time: END, sample, notes: Vec::new(), notices: Vec::new() };
    store.record(entry).unwrap();
    assert_eq!(store.last_result(END).unwrap(), Some(END));
    let last = store.last_result(second.start).unwrap().unwrap();
    assert!(first.end - last <= 120, "{}", first.end - last);
    let mut engine = Engine::new(&spec, "a");
    assert!(engine.resume(second.start, &store.open_events().unwrap()).is_empty());
    let crossed: Vec<_> = engine.states().values().map(|state| &state.crossed[..]).collect();
    assert_eq!(crossed, [[Bound::Reachable]; 3]);
    for entry in giusto_monitor::engine::gap(Some(last), second.start, TimeDelta::from_seconds(60)) {
        store.record(entry).unwrap();
    }
    run(&mut engine, &mut store, second.clone());

    let reader = Reader::open(&database).unwrap();
    let to_c = reader.series().unwrap()[&series("c", "voice")];
    let [(from, until, _)] = &events(&reader, to_c, EventKind::Outage)[..] else { panic!("an outage") };
    assert_eq!((*from, *until), (DOWN.start, Some(DOWN.end)));
    let [(from, until, _)] = &events(&reader, to_c, EventKind::Gap)[..] else { panic!("a gap") };
    assert_eq!((*from, *until), (last, Some(second.start)));
    // Told once that c is down, once that it is up: three series of c each.
    assert_eq!(notices(&mut store).len(), 6);
}

#[test]
fn a_reload_keeps_streams_and_their_states() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = spec();
    let mut store = Store::open(&folder.path().join("day.db"), spec.retention).unwrap();
    let mut engine = Engine::new(&spec, "a");
    let before = run(&mut engine, &mut store, START..START + 1800);
    // One more host; the streams to b and c are due as before, none twice, none left out.
    let host = giusto::scenario::HostSpec { id: "d".to_owned(), address: "192.0.2.4".to_owned() };
    spec.hosts.push(host);
    spec.pairs.push((0, 3));
    assert!(engine.reload(START + 1800, &spec, "a").is_empty());
    let after = run(&mut engine, &mut store, START + 1800..START + 3600);
    // The new ones begin at once.
    assert_eq!((before, after), (2 * 30 + 2 * 6, 3 * 30 + 3 * 6 + 2));
    assert_eq!(engine.troubles().missed, 0);
    assert_eq!(engine.states()[&series("b", "voice")].results, [60, 0]);
    // An outage ends with the stream that is removed while it runs, which leaves a result, no state and nothing that goes on.
    let next = |engine: &mut Engine, seconds: u64| {
        engine.poll(Timestamp::from_nanos((START + seconds) * 1_000_000_000)).unwrap()
    };
    let nothing = || Sample::Unknown("an end".to_owned());
    let job = next(&mut engine, 3600);
    store.record_all(engine.on_result(&job, nothing(), None)).unwrap();
    assert_eq!(store.open_events().unwrap().len(), 1, "an outage");
    let mut later = (1..9).map(|minute| next(&mut engine, 3600 + 60 * minute));
    let job = later.find(|next| next.series == job.series).unwrap();
    spec.streams.retain(|stream| stream.id != job.series.stream);
    store.record_all(engine.reload(START + 4200, &spec, "a")).unwrap();
    assert_eq!(store.open_events().unwrap(), []);
    let late = engine.on_result(&job, nothing(), None);
    assert_eq!(late.len(), 1);
    store.record_all(late).unwrap();
    assert!(!engine.states().contains_key(&job.series));
    assert_eq!(store.open_events().unwrap(), []);
    // So does one that a monitor before has left.
    let left = [(job.series, EventKind::Outage, String::new())];
    assert_eq!(engine.resume(START + 4300, &left).len(), 1);
}

#[test]
fn a_file_that_was_deleted_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("day.db");
    let mut store = Store::open(&database, spec().retention).unwrap();
    let entry = |time| {
        let (series, sample) = (Some(series("b", "voice")), Some(Sample::Unknown("no answer".to_owned())));
        Entry { series, time, sample, notes: Vec::new(), notices: Vec::new() }
    };
    store.record(entry(START)).unwrap();
    for end in ["", "-wal", "-shm"] {
        std::fs::remove_file(folder.path().join(format!("day.db{end}"))).unwrap();
    }
    store.record(entry(START + 60)).unwrap();
    store.record_all(vec![entry(START + 120)]).unwrap();
    let reader = Reader::open(&database).unwrap();
    let to_b = reader.series().unwrap()[&series("b", "voice")];
    let course = reader.course(to_b, Span::Day, START + 300).unwrap();
    let times: Vec<u64> = course.into_iter().map(|known| known.time).collect();
    assert_eq!(times, [START + 60, START + 120]);
}

#[test]
fn figures_are_made_again_after_a_clock_was_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("day.db");
    let open = || Store::open(&database, spec().retention).unwrap();
    let mut store = open();
    let entry = |time| {
        let (series, sample) = (Some(series("b", "voice")), Some(Sample::Unknown("no answer".to_owned())));
        Entry { series, time, sample, notes: Vec::new(), notices: Vec::new() }
    };
    // The clock was seven hours ahead, and hours of that time are made; then it is set back.
    store.record(entry(START + 10 * 3600)).unwrap();
    store.maintain(START + 13 * 3600).unwrap();
    store.record(entry(START + 3 * 3600)).unwrap();
    let reader = Reader::open(&database).unwrap();
    let to_b = reader.series().unwrap()[&series("b", "voice")];
    let now = START + 3 * 3600 + 60;
    let known = reader.hours(Metric::Known, START, now).unwrap();
    assert_eq!(known[&(to_b, START + 3 * 3600)].count, 1);
    // A restart before the hour is made forgets nothing.
    drop(store);
    let mut store = open();
    store.record(entry(START + 6 * 3600)).unwrap();
    store.maintain(START + 8 * 3600).unwrap();
    let times = |span, now| {
        let course = reader.course(to_b, span, now).unwrap().into_iter();
        course.map(|known| (known.time, known.values[&Metric::Known].count)).collect::<Vec<_>>()
    };
    assert_eq!(times(Span::Week, START + 9 * 3600), [3, 6].map(|hour| (START + hour * 3600, 1)));

    // Results of a day go together. A clock that is behind, as after a start, changes no day of which they are gone.
    let now = START + spec().retention.results + 5 * 3600;
    store.maintain(now).unwrap();
    store.record(entry(60)).unwrap();
    assert_eq!(times(Span::Year, now), [(START, 3)]);
    store.maintain(now + DAY).unwrap();
    store.record(entry(60)).unwrap();
    assert_eq!(times(Span::Year, now + DAY), [(START, 3)]);
    store.maintain(now + DAY).unwrap();
    assert_eq!(times(Span::Year, now + DAY), [(START, 3)]);
}
