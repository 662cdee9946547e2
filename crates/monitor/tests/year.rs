//! A year of a mesh of 10 hosts at one result a minute: the size of the database, and the time of each page.
//!
//! `cargo test --release -p giusto-monitor --test year -- --ignored --nocapture` takes minutes, and prints the figures of
//! docs/explanation/benchmarks.md.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]
#![allow(clippy::disallowed_methods, reason = "a benchmark")]

use std::{fmt::Write as _, time::Instant};

use giusto::scenario::Document;
use giusto_monitor::{
    metric::{Figures, Metric},
    pages::{Asked, Site, overview, pair},
    sample::{Measured, Sample, SeriesKey},
    store::{Entry, Reader, Span, Store},
};

/// 2026-01-01 00:00:00 UTC.
const START: u64 = 1_767_225_600;
const HOSTS: usize = 10;
const MINUTES: u64 = 365 * 1440;

/// A generator of random numbers (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn sample(random: &mut Random, base: f64) -> Sample {
    if random.next() < 0.001 {
        return Sample::Unknown("no answer".to_owned());
    }
    let rtt = base + random.next();
    let figures = [
        (Metric::RttMin, rtt, 0.0),
        (Metric::Rtt, rtt, 1.0),
        (Metric::RttP99, rtt, 5.0),
        (Metric::Delay, rtt / 2.0, 0.0),
        (Metric::DelayP99, rtt / 2.0, 3.0),
        (Metric::DelayError, 0.0, 1.0),
        (Metric::Jitter, 0.0, 1.0),
        (Metric::Mos, 4.0, 0.4),
        (Metric::Rate, 80_000.0, 100.0),
        (Metric::ClockOffset, -5.0, 10.0),
        (Metric::ClockError, 0.0, 1.0),
    ];
    let figures = figures.into_iter().fold(Figures::default(), |all, (metric, least, spread)| {
        all.with(metric, Some(least + spread * random.next()))
    });
    let lost = if random.next() < 0.05 { (random.next() * 20.0) as u64 } else { 0 };
    Sample::Measured(Box::new(Measured { sent: Some(500), lost: Some(lost), figures, ..Measured::default() }))
}

#[test]
#[ignore = "takes minutes, and gigabytes of disk for all results of a year"]
fn a_year_of_a_mesh_of_ten_hosts() {
    let mut text = String::new();
    for host in 0..HOSTS {
        writeln!(text, "[[host]]\nid = \"h{host}\"\naddress = \"192.0.2.{host}\"").unwrap();
    }
    text += "[[stream]]\nid = \"voice\"\nkind = \"voice\"\n[threshold]\nloss = 0.01\n";
    // All results are kept, or those of 90 days.
    let keeps_all = std::env::var_os("GIUSTO_YEAR_KEEPS_ALL").is_some();
    if keeps_all {
        text += "[retention]\nresults = \"2 years\"\n";
    }
    let spec = Document::parse(&text, "year.toml").unwrap().monitor().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("year.db");
    let mut store = Store::open(&database, spec.retention).unwrap();
    let mut random = Random(7);
    let minutes: u64 =
        std::env::var("GIUSTO_YEAR_MINUTES").map_or(MINUTES, |minutes| minutes.parse().unwrap());
    for minute in 0..minutes {
        let time = START + minute * 60;
        // Results that are no longer kept at the end: one an hour makes as many figures of hours and days as sixty.
        let is_kept = keeps_all || (minutes - minute) * 60 <= spec.retention.results + 86_400;
        if !is_kept && minute % 60 != 0 {
            continue;
        }
        let entries = spec.pairs.iter().map(|(from, to)| {
            let [from, to] = [from, to].map(|place| spec.hosts[*place].id.clone());
            let sample = Some(sample(&mut random, 10.0 * (1 + from.len() + to.len()) as f64));
            let series = Some(SeriesKey { from, to, stream: "voice".to_owned() });
            Entry { series, time, sample, notes: Vec::new(), notices: Vec::new() }
        });
        store.record_all(entries.collect()).unwrap();
        if minute % 60 == 0 {
            store.maintain(time).unwrap();
        }
        if minute % 14_400 == 0 {
            println!("{} days", minute / 1440);
        }
    }
    drop(store);
    let size = std::fs::metadata(&database).unwrap().len();
    println!("{minutes} minutes of {} pairs: {:.2} GB", spec.pairs.len(), size as f64 / 1e9);

    let now = START + minutes * 60;
    let site = Site { spec, here: "h0".to_owned(), database: database.clone() };
    let mut slowest = 0.0_f64;
    let mut time = |name: &str, make: &dyn Fn(&Reader)| {
        let begun = Instant::now();
        make(&Reader::open(&database).unwrap());
        let took = begun.elapsed().as_secs_f64() * 1e3;
        println!("{name}: {took:.0} ms");
        slowest = slowest.max(took);
    };
    for metric in [Metric::Loss, Metric::RttP99] {
        let asked = Asked { metric: Some(metric), ..Asked::default() };
        time(&format!("matrix, {metric}"), &|reader| {
            drop(overview(&site, reader, &asked, now).unwrap().to_html());
        });
    }
    for span in Span::ALL {
        let asked = Asked { span: Some(span), ..Asked::of("from=h3&to=h4&stream=voice") };
        time(span.name(), &|reader| drop(pair(&site, reader, &asked, now).unwrap().unwrap().to_html()));
    }
    println!("slowest page: {slowest:.0} ms");
    assert!(size < 2_000_000_000 || keeps_all, "{size}");
}
