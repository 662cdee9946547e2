//! Scenario files of cities.

#![expect(
    clippy::unwrap_used,
    clippy::float_cmp,
    reason = "a test that cannot go on should end; numbers are as written in files"
)]

use std::{
    fs,
    ops::ControlFlow::{Break, Continue},
    path::PathBuf,
};

use giusto::{
    city,
    scenario::{CityScenario, Document, QueueSpec, Scenario, Setting},
};
use giusto_lte::{
    city::Opposite,
    radio::{
        fading::Profile,
        link::Direction,
        propagation::{Antenna, PathLoss},
    },
};
use giusto_units::{TimeDelta, Timestamp};

fn parse(text: &str) -> Result<CityScenario, String> {
    let document = Document::parse(text, "c.toml").map_err(|error| error.to_string())?;
    assert!(document.is_city(), "{text}");
    document.city(&[]).map_err(|error| error.to_string())
}

fn complaint(lines: &str) -> String {
    parse(&format!("[city]\n{lines}\n")).unwrap_err()
}

#[test]
fn an_empty_table_is_the_downlink_of_rfc8869() {
    let spec = parse("[city]").unwrap().spec;
    let config = &spec.config;
    assert_eq!((config.direction, config.opposite), (Direction::Downlink, Opposite::Radio));
    assert_eq!((config.downlink.blocks, config.uplink.blocks), (50, 50));
    assert_eq!(config.deployment.inter_site_distance_m, 500.0);
    assert_eq!(config.base_rtt, TimeDelta::from_millis(40));
    assert_eq!((config.evaluation.0.as_seconds(), config.evaluation.1.as_seconds()), (30.0, 60.0));
    assert_eq!(config.files.as_ref().unwrap().load.as_bps(), 4_000_000);
    assert_eq!(spec.media.videos.len(), 1);
    assert_eq!(spec.media.audio.unwrap().rate.as_bps(), 20_000);
    let files = |text: &str| parse(text).unwrap().spec.config.files.map(|files| files.load.as_bps());
    assert_eq!(files("[city]\ndirection = \"uplink\""), Some(2_000_000));
    assert_eq!(files("[city]\ndirection = \"uplink\"\ncase = 3"), Some(1_000_000));
    assert_eq!(files("[city]\nfiles = \"none\""), None);
}

#[test]
fn every_key_of_a_city_has_its_effect() {
    let text = r#"
        name = "town"
        seed = 7
        [city]
        direction = "uplink"
        opposite = "fixed"
        case = 3
        bandwidth = "5 MHz"
        speed = "10 m/s"
        users-per-cell = 0.7
        call = "20 s"
        evaluation = ["5 s", "15 s"]
        base-rtt = "150 ms"
        files = { load = "1 Mbit/s", size = "100 kB", patience = "10 s", control = "new-reno" }
        profile = "epa"
        antenna = "tilted"
        path-loss = "cost-231-hata"
        discard = "300 ms"
        queue = { kind = "codel", target = "50 ms" }
        controller = "scream:v2"
        audio = "30 kbit/s"
        video = { model = "perfect", frame-rate = 15 }
    "#;
    let CityScenario { name, spec, .. } = parse(text).unwrap();
    let config = &spec.config;
    assert_eq!((name.as_str(), config.seed), ("town", 7));
    assert_eq!((config.direction, config.opposite), (Direction::Uplink, Opposite::Fixed));
    let deployment = &config.deployment;
    assert_eq!([config.downlink.blocks, config.uplink.blocks, deployment.resource_blocks], [25; 3]);
    assert_eq!((deployment.inter_site_distance_m, deployment.speed_mps), (1732.0, 10.0));
    assert_eq!(deployment.path_loss, PathLoss::Cost231Hata);
    // TR 36.814 table A.2.1.1-2: 15 degrees in case 1, 6 in case 3.
    assert_eq!(deployment.antenna, Antenna::TILTED.with_tilt_deg(6.0));
    let tilted = parse("[city]\nantenna = \"tilted\"").unwrap().spec.config.deployment.antenna;
    assert_eq!(tilted.vertical.unwrap().tilt_deg, 15.0);
    assert_eq!((config.profile, config.users_per_cell), (Profile::ExtendedPedestrianA, 0.7));
    assert_eq!((config.call, config.base_rtt), (TimeDelta::from_seconds(20), TimeDelta::from_millis(150)));
    assert_eq!(config.bearer.discard, Some(TimeDelta::from_millis(300)));
    let files = config.files.as_ref().unwrap();
    assert_eq!((files.size.as_bytes(), files.patience), (100_000, TimeDelta::from_seconds(10)));
    assert!(matches!(&spec.queue, QueueSpec::CoDel(codel) if codel.target == TimeDelta::from_millis(50)));
    assert_eq!(spec.media.controller.name(), "scream:v2");
    assert_eq!(spec.media.audio.unwrap().rate.as_bps(), 30_000);
    let kmh = parse("[city]\nspeed = \"36 km/h\"").unwrap().spec.config.deployment.speed_mps;
    assert!((kmh - 10.0).abs() < 1e-9, "{kmh}");
}

#[test]
fn a_setting_outside_its_range_is_named_with_line_and_range() {
    insta::assert_snapshot!(complaint("users-per-cell = 60"), @"c.toml:2: city: users-per-cell: must be 0 to 50, found 60: the default is 4");
    insta::assert_snapshot!(complaint("users-per-cell = -1"), @"c.toml:2: city: users-per-cell: must be 0 to 50, found -1: the default is 4");
    insta::assert_snapshot!(complaint("speed = \"300 km/h\""), @r#"c.toml:2: city: speed: must be 0 km/h to 250 km/h, found "300 km/h": the default is "3 km/h""#);
    insta::assert_snapshot!(complaint("speed = \"3\""), @r#"c.toml:2: city: speed: expected a number and its unit, such as "3 km/h", found "3""#);
    insta::assert_snapshot!(complaint("case = 2"), @"c.toml:2: city: case: must be 1 or 3, found 2");
    insta::assert_snapshot!(complaint("call = \"2 s\""), @r#"c.toml:2: city: call: must be 5 s to 600 s, found "2 s": the default is "30 s""#);
    insta::assert_snapshot!(complaint("base-rtt = \"10 ms\""), @r#"c.toml:2: city: base-rtt: must be 20 ms to 1 s, found "10 ms": the default is "40 ms""#);
    insta::assert_snapshot!(complaint("evaluation = [\"30 s\", \"31 s\"]"), @"c.toml:2: city: evaluation: end of the evaluation must be 35 to 3600 s, found 31 s");
    insta::assert_snapshot!(complaint("files = \"101 Mbit/s\""), @r#"c.toml:2: city: files: must be above 0 bit/s, at most 100 Mbit/s, found "101 Mbit/s", or "none""#);
    insta::assert_snapshot!(complaint("files = { load = \"4 Mbit/s\", size = \"4999 B\" }"), @"c.toml:2: city: files: size of a file at this load must be 5000 to 1000000000 B, found 4999 B");
    assert!(parse("[city]\nfiles = { load = \"4 Mbit/s\", size = \"5 kB\" }").is_ok());
    insta::assert_snapshot!(complaint("files = { size = \"1 MB\" }"), @r#"c.toml:2: city: files: load is missing: add load = "4 Mbit/s""#);
}

#[test]
fn what_a_city_does_not_have_is_refused() {
    insta::assert_snapshot!(complaint("sped = \"3 km/h\""), @r#"c.toml:2: city: unknown key "sped": did you mean "speed"?"#);
    insta::assert_snapshot!(complaint("queue = { kind = \"codel\", target = \"0 ms\" }"), @r#"c.toml:2: city: queue: target: must be above 0 s, found "0 ms": the default is "5 ms""#);
    insta::assert_snapshot!(complaint("queue = \"drop-tail\""), @"c.toml:2: city: queue: a bearer has no rate of its own, found a limit of 300 ms: limit it in packets or bytes");
    insta::assert_snapshot!(complaint("video = [\"perfect\", \"perfect\"]"), @"c.toml:2: city: video: a call has one video, found 2");
    insta::assert_snapshot!(complaint("pauses = [[\"1 s\", \"2 s\"]]"), @"c.toml:2: city: pauses: a call has none: remove them");
    insta::assert_snapshot!(parse("duration = \"5 s\"\nlink = []\n[city]").unwrap_err(), @r"
    c.toml:1: duration: the run of a city ends with its evaluation: remove it, and set evaluation in [city]
    c.toml:2: link: a city has no links: remove them, or remove [city]
    ");
    let expect = |lines: &str| complaint(&format!("[[expect]]\n{lines}"));
    insta::assert_snapshot!(expect("metric = \"frame-tail\""), @"c.toml:3: expect of city: frame-tail: no bounds: add min, max or both");
    insta::assert_snapshot!(expect("metric = \"loss\"\nmin = 0.2\nmax = 0.1"), @"c.toml:4: expect of city: loss: min is above max: swap them");
    insta::assert_snapshot!(expect("metric = \"loss\"\nmax = 0.1\ndirection = \"uplink\""), @"c.toml:5: expect of city uplink: loss: only metrics of the radio have a direction: remove it");
    insta::assert_snapshot!(expect("metric = \"frame-delay\"\nmax = \"1 s\""), @r#"c.toml:3: expect of frame-delay: metric: unknown name "frame-delay": use one of calls, frame-tail, packet-tail, packet-median, sent-video-rate, received-video-rate, skipped, loss, uncovered, handovers, abandoned-files, file-time, cell-throughput, utilisation, block-error"#);
    let network = Scenario::parse("\n[city]", "c.toml").unwrap_err().to_string();
    insta::assert_snapshot!(network, @"c.toml:2: city: a city is no network of links: run it by `giusto sim`, in Python by `giusto.city`");
}

#[test]
fn a_setting_of_a_city_replaces_a_value() {
    let document = Document::parse("[city]\nspeed = \"3 km/h\"\n", "c.toml").unwrap();
    let with = |setting: &str| {
        let setting: Setting = setting.parse().unwrap();
        document.city(&[setting]).map_err(|error| error.to_string())
    };
    assert_eq!(with("city.users-per-cell=2.1").unwrap().spec.config.users_per_cell, 2.1);
    let queue = with("city.queue.kind=pie").unwrap().spec.queue;
    assert!(matches!(queue, QueueSpec::Pie(_)), "{queue:?}");
    insta::assert_snapshot!(with("city.bandwidth=11 MHz").unwrap_err(), @"c.toml: --set city.bandwidth=11 MHz: city: bandwidth: must be one of 1.4, 3, 5, 10, 15, 20 MHz, found 11 MHz");
    insta::assert_snapshot!(with("speed=3").unwrap_err(), @r#"c.toml: --set speed=3: nothing is called "speed": use one of city.KEY, seed"#);
    let network = Document::parse("[[link]]\nid = \"wire\"\n", "n.toml").unwrap();
    let error = network.scenario(&["city.speed=3".parse().unwrap()]).unwrap_err().to_string();
    assert!(error.contains("the scenario has no city: use one of link.wire"), "{error}");
}

fn rfc8869() -> Vec<(String, CityScenario)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rfc8869");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let cellular = paths.filter(|path| name(path).starts_with("2."));
    cellular.map(|path| (name(&path), Document::load(&path).unwrap().city(&[]).unwrap())).collect()
}

#[test]
fn cellular_cases_of_rfc8869_have_two_sided_expectations() {
    let cases = rfc8869();
    let of = |start: &str| cases.iter().filter(|(name, _)| name.starts_with(start)).count();
    assert_eq!((of("2.1-downlink"), of("2.1-uplink"), of("2.2-")), (4, 4, 2));
    for (name, CityScenario { description, spec, expectations, .. }) in &cases {
        assert!(!description.is_empty() && expectations.len() >= 6, "{name}");
        for own in expectations {
            assert!(own.min.is_some() && own.max.is_some(), "{name}: {}", own.title());
        }
        let config = &spec.config;
        let found = [
            (config.deployment.speed_mps * 3.6).round() == 30.0,
            config.base_rtt == TimeDelta::from_millis(150),
            !matches!(spec.queue, QueueSpec::CoDel(_)),
            config.deployment.inter_site_distance_m == 1732.0,
            config.direction == Direction::Uplink,
        ];
        let named = ["-fast", "-far", "-no-aqm", "2.2-", "uplink"].map(|part| name.contains(part));
        assert_eq!(found, named, "{name}");
    }
}

/// A small city: 5 s are evaluated.
const SMALL: &str = r#"
    seed = 3
    [city]
    users-per-cell = 0.7
    evaluation = ["3 s", "9 s"]
    call = "20 s"
    files = "1 Mbit/s"
    opposite = "fixed"
"#;

#[test]
fn a_city_is_checked_against_its_expectations() {
    let expectations = r#"
        expect = [
            { metric = "calls", min = 2, max = 40 },
            { metric = "packet-median", min = "10 ms", max = "60 ms" },
            { metric = "block-error", min = 0.05, max = 0.2 },
            { metric = "loss", min = 0.5, max = 1, name = "too much" },
            { metric = "cell-throughput", min = "0.3 Mbit/s", max = "3 Mbit/s" },
        ]
    "#;
    let scenario = parse(&(expectations.to_owned() + SMALL)).unwrap();
    let run = city::simulate(&scenario, 3, |_| Continue(())).unwrap();
    let passed: Vec<bool> = run.checks.iter().map(|check| check.passed).collect();
    assert_eq!(passed, [true, true, true, false, true], "{:#?}", run.checks);
    assert_eq!(run.checks[3].name, "too much");
    assert!(!run.passed() && !run.interrupted);
    assert_eq!((run.duration_s, run.seed, run.wall_s), (13.0, 3, 0.0));
    let until_2_s = |now: Timestamp| if now.as_seconds() < 2.0 { Continue(()) } else { Break(()) };
    let early = city::simulate(&scenario, 3, until_2_s).unwrap();
    assert_eq!((early.interrupted, early.checks.len(), early.duration_s), (true, 0, 2.0));
    // The city starts empty: a call length of 20 s later it has its mean number of calls.
    insta::assert_snapshot!(early.city.doubts.join("\n"), @"the evaluation begins at 3 s with 15.0 % of the users-per-cell of 0.7, which are there from 20 s on: begin it then, or shorten the calls");
    let text = "[city]\nopposite = \"fixed\"\ncall = \"20 s\"\nevaluation = [\"20 s\", \"25 s\"]\nusers-per-cell = 0.1";
    let record = city::run(&parse(text).unwrap().spec, |_| Break(())).unwrap();
    assert_eq!(record.doubts, [""; 0]);
}

/// A crew with this number of threads beside the one that leads.
struct Threads(usize);

impl city::Crew for Threads {
    fn work(&self, lead: &mut dyn FnMut(), help: &(dyn Fn() + Sync)) {
        std::thread::scope(|scope| {
            for _ in 0..self.0 {
                scope.spawn(help);
            }
            lead();
        });
    }
}

/// Windows of one and of several milliseconds; files that are given up, handovers, and people who come and leave.
#[test]
fn a_city_does_not_depend_on_the_number_of_threads() {
    for (direction, rtt) in [("downlink", "47.3 ms"), ("uplink", "40 ms"), ("downlink", "21 ms")] {
        let text = format!(
            r#"
            [city]
            direction = "{direction}"
            speed = "60 km/h"
            users-per-cell = 0.7
            call = "5 s"
            evaluation = ["0 s", "5 s"]
            base-rtt = "{rtt}"
            files = {{ load = "6 Mbit/s", patience = "1 s" }}
            "#
        );
        let scenario = parse(&text).unwrap();
        let run = |crew: &dyn city::Crew| {
            let (run, log) = city::simulate_logged(&scenario, 3, crew, |_| Continue(())).unwrap();
            // As text: unknown figures are NaN.
            (run.city.figures, format!("{run:?} {log:?}"))
        };
        let (figures, alone) = run(&city::Alone);
        assert!(figures.abandoned_files > 9 && figures.completed_files > 9 && figures.handovers > 9);
        for helpers in 1..=3 {
            assert!(run(&Threads(helpers)).1 == alone, "{direction}, {rtt}, {helpers} helpers");
        }
    }
}
