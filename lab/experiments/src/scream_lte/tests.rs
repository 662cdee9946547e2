use std::{collections::HashSet, sync::atomic::AtomicUsize, sync::atomic::Ordering};

use super::{statements::crossing, *};
use crate::page::Findings;
use giusto::scenario::VideoSpec;

/// Runs that have the draft's own numbers, changed by `change`.
fn as_published(change: impl Fn(Published, Quantity, f64) -> f64) -> ScreamLte {
    let plan = Plan { seeds: 2, ..Plan::new(false) };
    let runs = plan.tasks().into_iter().filter(|task| task.reading == JUDGED).filter_map(|task| {
        let of = Published::ALL.into_iter().find(|of| of.controller() == task.controller.name())?;
        let row = *table_of(task.place, of)?.rows.iter().find(|row| row.users == task.users)?;
        let value = |quantity| Some(change(of, quantity, row.value(quantity)));
        Some(Run {
            reading: task.reading.to_owned(),
            link: task.place.0,
            speed_kmh: task.place.1,
            users: task.users,
            controller: task.controller.name().to_owned(),
            seed: task.seed,
            calls: 100,
            frame_tail_ms: value(Quantity::FrameTail),
            packet_tail_ms: value(Quantity::PacketTail),
            loss_ratio: value(Quantity::Loss).map(|percent| percent / 100.0),
            sent_video_bps: value(Quantity::Rate).map(|kbps| kbps * 1e3),
            received_video_bps: None,
            skipped_ratio: 0.0,
            used_ratio: None,
            first_error_ratio: None,
            uncovered_calls: 0,
        })
    });
    let runs = runs.collect();
    ScreamLte { plan, runs }
}

fn differing(all: &ScreamLte) -> Vec<String> {
    all.reproduction().items.into_iter().filter(|item| !item.does_agree()).map(|item| item.id).collect()
}

#[test]
fn the_numbers_of_the_draft_agree_with_themselves() {
    let all = as_published(|_, _, value| value);
    let items = all.reproduction().items;
    // 8 tables of 6 loads and 4 quantities; 24 ratios, 2 loads at saturation, 8 crossovers.
    assert_eq!((items.len(), differing(&all)), (192 + 34, Vec::<String>::new()));
    let published = |id: &str| items.iter().find(|item| item.id == id).unwrap().published;
    // Derived by hand from the tables of the draft.
    let ratio = |id: &str| format!("{:.2}", published(id));
    let ids = ["ratio-downlink-3-2", "ratio-downlink-30-16", "ratio-uplink-3-10"];
    assert_eq!(ids.map(ratio), ["2.84", "2.15", "1.00"]);
    assert_eq!(["saturation-downlink", "saturation-uplink"].map(ratio), ["0.56", "0.67"]);
    let places = ["downlink-3", "downlink-30", "uplink-3", "uplink-30"];
    let first = |of: &str| places.map(|place| published(&format!("crossover-{of}-{place}")) as u32);
    assert_eq!((first("packet"), first("frame")), ([6, 4, 2, 1], [8, 6, 3, 1]));
}

#[test]
fn every_rule_can_fail_on_both_sides() {
    let scaled = |of: Published, quantity: Quantity, factor: f64| {
        let scale = |run, which| if (run, which) == (of, quantity) { factor } else { 1.0 };
        differing(&as_published(|run, which, value| value * scale(run, which)))
    };
    for factor in [0.49, 2.1] {
        let differing = scaled(Published::Scream, Quantity::Rate, factor);
        let of = |start: &str| differing.iter().filter(|id| id.starts_with(start)).count();
        // Both speeds are scaled.
        assert_eq!(["table-", "ratio-", "saturation"].map(of), [24, 24, 0], "{factor}");
    }
    for factor in [0.6, 1.9] {
        let differing = scaled(Published::Gcc, Quantity::FrameTail, factor);
        assert!(!differing.iter().any(|id| id.starts_with("table-")), "{differing:?}");
        assert!(differing.iter().any(|id| id.starts_with("crossover-frame")), "{differing:?}");
    }
    // A loss of 91.1 % within a factor of 2, and 0 % within one percentage point.
    let more = |quantity| if quantity == Quantity::Loss { 1.5 } else { 0.0 };
    let differing = differing(&as_published(|_, quantity, value| value + more(quantity)));
    let lost = ["table-2-loss-2", "table-8-loss-10"].map(|id| differing.iter().any(|own| own == id));
    assert_eq!(lost, [true, false]);
}

/// Each reading is judged with its own runs.
#[test]
fn statements_are_judged_with_each_reading() {
    let mut all = as_published(|_, _, value| value);
    let doubled = all.runs.clone().into_iter().map(|run| Run {
        reading: "5 MHz".to_owned(),
        sent_video_bps: run.sent_video_bps.filter(|_| run.controller != "scream:d00").or(Some(1e9)),
        ..run
    });
    all.runs.extend(doubled.collect::<Vec<_>>());
    assert_eq!(differing(&all), Vec::<String>::new());
    let page = all.page().markdown();
    // 24 of 34 statements are ratios, and 48 of 192 numbers bitrates, of which SCReAM has half.
    for row in [
        "|as judged|34 of 34|24 of 24|2 of 2|8 of 8|192 of 192|",
        "|5 MHz|8 of 34|0 of 24|0 of 2|8 of 8|168 of 192|",
    ] {
        assert!(page.contains(row), "{page}");
    }
}

#[test]
fn tails_cross_where_one_stays_lower() {
    let of = |lower: &[bool]| {
        let tails = lower.iter().map(|lower| Some(if *lower { [2.0, 1.0] } else { [1.0, 2.0] }));
        crossing(&[2, 4, 6], tails)
    };
    assert_eq!(of(&[true, true, true]), Some(2.0));
    assert_eq!(of(&[true, false, true]), Some(6.0));
    assert_eq!(of(&[true, true, false]), Some(7.0));
    assert_eq!(crossing(&[2, 4], [Some([2.0, 1.0]), None].into_iter()), None);
}

#[test]
fn a_plan_makes_each_run_once() {
    let of = |quick| {
        let tasks = Plan::new(quick).tasks();
        let ids: HashSet<String> = tasks.iter().map(|task| format!("{task:?}")).collect();
        assert_eq!(ids.len(), tasks.len());
        tasks
    };
    let whole = READINGS.iter().filter(|reading| reading.is_whole).count();
    let varied = (READINGS.len() - whole) * 2;
    assert_eq!(of(false).len(), 24 * 2 * (3 + whole - 1) + 24 * 4 + varied * 4);
    assert_eq!(of(true).len(), 8 * 2);
    // Interrupted early, the tables of the draft are complete first.
    assert!(of(false).iter().take(48).all(|task| task.reading == JUDGED && task.seed == 1));
}

#[test]
fn every_reading_is_a_city_and_differs() {
    let mut seen = Vec::new();
    for reading in READINGS {
        for place in PLACES {
            let spec = reading.city(place, 16, "gcc:rmcat-02".parse().unwrap(), 1);
            spec.config.validate().unwrap();
            giusto::city::Calls::new(&spec).unwrap();
            assert!(!seen.contains(&spec), "{}", reading.name);
            seen.push(spec);
        }
    }
}

/// Table 1: "bitrate 150-1500kbps"; §9.1.6: "double scaleFactor = scaleFactorMin".
#[test]
fn calls_start_at_the_lowest_bitrate_of_table_1() {
    let kbps = |rate: giusto_units::DataRate| rate.as_bps() / 1000;
    let limits = |reading: &str, controller: &str| {
        let reading = setting::reading(reading).unwrap();
        PLACES.map(|place| {
            let spec = reading.city(place, 2, controller.parse().unwrap(), 1);
            let limits = spec.media.limits;
            let VideoSpec::Statistical(video) = spec.media.videos[0].video else { panic!("{spec:?}") };
            let rates = [video.limits.min(), video.limits.max(), video.start_rate];
            assert_eq!(rates.map(kbps), [150, 1500, 150]);
            [limits.min, limits.start].map(kbps)
        })
    };
    for controller in Published::ALL.map(Published::controller).into_iter().chain(TODAY) {
        assert_eq!(limits(JUDGED, controller), [[150, 150]; 4], "{controller}");
        assert_eq!(limits("start at 300, minimum 30 kbit/s", controller), [[30, 300]; 4], "{controller}");
    }
}

#[test]
fn known_runs_are_not_made_again() {
    let mut all = as_published(|_, _, value| value);
    all.runs.truncate(20);
    let printed = serde_json::to_string(&all.printed()).unwrap();
    let known = serde_json::from_str::<Printed>(&printed).unwrap().runs;
    assert_eq!(known, all.runs);
    // The evaluation of a call of 30 s ends at 60 s, and what is on its way may arrive for 4 s.
    assert_eq!(all.plan.steps(&[]) - all.plan.steps(&known), 20 * 64);
    // Stopped at once, nothing else is made.
    let done = AtomicUsize::new(0);
    let on_done = |_: &Run| _ = done.fetch_add(1, Ordering::Relaxed);
    let stop = || ControlFlow::Break(());
    let again = run(all.plan.clone(), &known, stop, || panic!("a second"), on_done).unwrap();
    assert_eq!((&again.runs, done.into_inner()), (&known, 20));
    for text in [again.page().table(200), again.page().markdown()] {
        assert!(text.contains("Ended early"), "{text}");
    }
}

#[test]
fn a_light_cell_gives_what_the_encoder_can_use() {
    let judged = setting::reading(JUDGED).unwrap();
    let figures = |seed| {
        let (place, users, controller) = ((Link::Downlink, 3), 1, "scream:d00".parse().unwrap());
        let mut spec = judged.city(place, users, controller, seed);
        // Short, for a test.
        let second = |seconds: u64| giusto_units::Timestamp::from_nanos(seconds * 1_000_000_000);
        spec.config.call = giusto_units::TimeDelta::from_seconds(20);
        spec.config.evaluation = (second(12), second(18));
        spec.config.files = None;
        let record = giusto::city::run(&spec, |_| ControlFlow::Continue(())).unwrap();
        Run::new(&Task { reading: JUDGED, place, users, controller, seed }, &record)
    };
    let run = figures(1);
    assert_eq!((run.calls > 3, run.uncovered_calls), (true, 0));
    // At most 1500 kbit/s of video, and 50 ms and more for the tail of frames of many packets are possible in an empty cell.
    let (rate, tail) = (run.value(Quantity::Rate).unwrap(), run.value(Quantity::PacketTail).unwrap());
    assert!((500.0..1550.0).contains(&rate), "{rate}");
    assert!((12.0..300.0).contains(&tail), "{tail}");
    assert!(run.frame_tail_ms >= run.packet_tail_ms, "{run:?}");
    assert!(run.loss_ratio.unwrap() < 0.02);
    assert_eq!(run, figures(1));
}
