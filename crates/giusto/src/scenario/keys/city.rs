//! Keys of a city.

use giusto_lte::{
    carrier::BANDWIDTHS,
    city::{CityConfig, FileTransfers, Opposite},
    radio::{
        fading::Profile,
        link::Direction,
        propagation::{Antenna, Deployment, PathLoss},
    },
};
use giusto_sim::link::queue::Limit;
use giusto_units::DataRate;

use super::{
    expectation::{BOUNDS, bounds},
    media::{MEDIA, call},
    parts::{HEAD, each, head},
    prelude::*,
    queue::QUEUE,
    tcp::{TCP, settings},
};
use crate::scenario::{
    city::{CityExpectation, CityMetric, CityScenario, CitySpec},
    media::MediaSpec,
    model::QueueSpec,
};

/// Other traffic of a cell in each direction in case 1, in bit/s (RFC 8869 §2.1.2); in case 3 half of it (§2.2.2).
const FILES_BPS: [(Direction, u64); 2] = [(Direction::Downlink, 4_000_000), (Direction::Uplink, 2_000_000)];

/// The queue of a bearer.
const DEFAULT_QUEUE: QueueSpec = QueueSpec::DropTail(Limit::Packets(1000));

/// A file of a city.
pub(crate) const CITY_FILE: Group = Group::new("city-file", &[HEAD, CITY_PARTS]);

keys! { CITY_PARTS {
    "city", Table(&CITY), Required("{ case = 1 }"), "Cells, users and their calls";
    "expect", List(&Table(&CITY_EXPECT)), Unset, "Expectations";
} }

pub(super) const CITY: Group = Group::new("city", &[CITY_KEYS, MEDIA]);

keys! { CITY_KEYS, city_keys(to: CityConfig) {
    "case", Any(&[Whole(within(1.0, 3.0))]), Is("1"), "3GPP case, 1 or 3: 500 m or 1732 m between sites";
    "direction", choice::<Direction>(), Is("downlink"), "Direction of media and files" => to.direction;
    "opposite", choice::<Opposite>(), Is("radio"), "The other direction: by the radio, or after a constant delay" => to.opposite;
    "speed", Measure(SPEEDS, within(0.0, 250.0)), Is("3 km/h"), "Speed of users, who move straight on";
    "users-per-cell", Number(within(0.0, 50.0)), Is("4"), "Mean number of calls in a cell; the city starts empty and has them from the length of one call on" => to.users_per_cell;
    "call", Time(within(5.0, 600.0)), Is("30 s"), "Length of a call" => to.call;
    "base-rtt", Time(within(0.02, 1.0)), Is("40 ms"), "Round-trip time without queues, 20 ms of it the radio's" => to.base_rtt;
    "evaluation", Pair(&Time(ANY), &Time(ANY)), Is("[\"30 s\", \"60 s\"]"),
        "What is sent in this time of 5 s or more is evaluated" => to.evaluation;
    "bandwidth", Measure(&[("MHz", 1.0)], ANY), Is("10 MHz"), "Bandwidth of each direction: 1.4, 3, 5, 10, 15 or 20 MHz";
    "files", Any(&[Rate(up_to(100e6)), Word("none"), Table(&FILES)]), Said("4 Mbit/s down, 2 Mbit/s up; case 3: half"),
        "Load of TCP file transfers in a cell; each is of a user of its own";
    "queue", Table(&QUEUE), Said("drop-tail, 1000 packets"), "Queue of each bearer, limited in packets or bytes";
    "discard", Time(ANY), Unset, "Packets that have waited for longer are discarded (PDCP)" => to.bearer.discard;
    "profile", choice::<Profile>(), Is("typical-urban"), "Multipath" => to.profile;
    "antenna", choice::<Antenna>(), Is("flat"), "Pattern of a sector; `tilted` by 15°, in case 3 by 6°" => to.deployment.antenna;
    "path-loss", choice::<PathLoss>(), Is("3gpp"), "Path loss" => to.deployment.path_loss;
} }
const SPEEDS: &[(&str, f64)] = &[("km/h", 3.6), ("m/s", 1.0)];

const FILES: Group = Group::new("files", &[FILE_KEYS, TCP]);
keys! { FILE_KEYS, file_keys(to: FileTransfers) {
    "load", Rate(up_to(100e6)), Required("4 Mbit/s"), "Load in a cell";
    "size", Size(ABOVE_0), Is("500 kB"), "Size of a file; at most 100 begin in a cell in a second" => to.size;
    "patience", Time(ANY), Is("60 s"), "Time after which a transfer is given up" => to.patience;
} }

pub(super) const CITY_EXPECT: Group = Group::new("city-expect", &[OF_CITY, BOUNDS]);
keys! { OF_CITY {
    "metric", Choice(|| CityMetric::all().map(CityMetric::name).collect()), Required("frame-tail"), "Statistic";
    "direction", choice::<Direction>(), Said("that of the media"), "Direction, for a metric of the radio";
} }

/// Parts of a scenario that a city does not have.
const FOREIGN: [(&str, &str); 6] = [
    ("duration", "the run of a city ends with its evaluation: remove it, and set evaluation in [city]"),
    ("warmup", "the run of a city is evaluated in an interval: remove it, and set evaluation in [city]"),
    ("medium", "a city has no other medium than its radio: remove it, or remove [city]"),
    ("link", "a city has no links: remove them, or remove [city]"),
    ("flow", "a city has no flows: remove them, or remove [city]"),
    ("change", "a city has no links that change: remove them, or remove [city]"),
];

/// Reads the scenario of a city; `stem` is the default of its name.
pub(in crate::scenario) fn scenario(root: &Node<'_>, stem: &str) -> Found<CityScenario> {
    table(root, &CITY_FILE, |keys| {
        let (mut name, mut description, mut number) = (stem.to_owned(), String::new(), 1);
        head(keys, &mut name, &mut description, &mut number);
        for (key, text) in FOREIGN {
            keys.refuse(key, text);
        }
        let spec = keys.with("city", |node| table(node, &CITY, city));
        let name_of =
            |node: &Node<'_>| Some(format!("of {}", node.get_ref().get("metric")?.get_ref().as_str()?));
        let expectations = each(keys, "expect", &CITY_EXPECT, name_of, expectation);
        let mut spec = spec.unwrap_or_else(|| CitySpec {
            config: CityConfig::default(),
            media: MediaSpec::new(None, None),
            queue: QueueSpec::default(),
        });
        spec.config.seed = number;
        let expectations = expectations.into_iter().flatten().flatten().collect();
        CityScenario { name, description, spec, expectations }
    })
}

fn city(keys: &mut read::Table<'_>) -> CitySpec {
    let case = keys.with("case", |node| match u64::read(node)? {
        case @ (1 | 3) => Ok(case),
        number => wrong(node, format_args!("must be 1 or 3, found {number}")),
    });
    let case = case.unwrap_or(1);
    let mut config = CityConfig { files: None, ..CityConfig::default() };
    config.deployment = if case == 1 { Deployment::case_1() } else { Deployment::case_3() };
    let mut config = city_keys(keys, config);
    if case == 3 {
        config.deployment.antenna = config.deployment.antenna.with_tilt_deg(Deployment::CASE_3_TILT_DEG);
    }
    keys.set_with("speed", &mut config.deployment.speed_mps, |node| measure(node, SPEEDS));
    if let Some(blocks) = keys.with("bandwidth", bandwidth) {
        config.downlink.blocks = blocks;
        config.uplink.blocks = blocks;
        config.deployment.resource_blocks = blocks;
    }
    let default = FILES_BPS.iter().find(|(direction, _)| *direction == config.direction);
    let share = if case == 1 { 1 } else { 2 };
    let default = default.map(|(_, bps)| FileTransfers::new(DataRate::from_bps(bps / share)));
    config.files = keys.with("files", files).unwrap_or(default);
    let queue = keys.optional("queue").unwrap_or(DEFAULT_QUEUE);
    CitySpec { config, media: call(keys), queue }
}

/// The resource blocks of a bandwidth.
fn bandwidth(node: &Node<'_>) -> Found<u32> {
    let mhz = measure(node, &[("MHz", 1.0)])?;
    let known = BANDWIDTHS.iter().find(|(known, _)| (known - mhz).abs() < 1e-6);
    known.map_or_else(
        || {
            let all = BANDWIDTHS.map(|(mhz, _)| mhz.to_string()).join(", ");
            wrong(node, format_args!("must be one of {all} MHz, found {mhz} MHz"))
        },
        |(_, blocks)| Ok(*blocks),
    )
}

/// The load of a cell, a table, or none.
fn files(node: &Node<'_>) -> Found<Option<FileTransfers>> {
    if node.get_ref().as_str() == Some("none") {
        return Ok(None);
    }
    if !node.get_ref().is_table() {
        return DataRate::read(node).map(|load| Some(FileTransfers::new(load)));
    }
    table(node, &FILES, |keys| {
        let load = keys.value("load");
        let files = file_keys(keys, FileTransfers::new(load));
        Some(FileTransfers { settings: settings(keys), ..files })
    })
}

fn expectation(keys: &mut read::Table<'_>) -> Option<CityExpectation> {
    let metric = keys
        .with("metric", |node| read::choice(node, CityMetric::all().map(|metric| (metric.name(), metric))));
    let [min, max] = bounds(keys, metric.map(CityMetric::unit));
    let (direction, name) = (keys.optional("direction"), keys.optional("name"));
    Some(CityExpectation { name, metric: metric?, direction, min, max })
}

names!(Direction: vec![("downlink", Self::Downlink), ("uplink", Self::Uplink)]);

names!(Opposite: vec![("radio", Self::Radio), ("fixed", Self::Fixed)]);

names!(Profile: vec![
    ("typical-urban", Self::TypicalUrban6), ("epa", Self::ExtendedPedestrianA),
    ("eva", Self::ExtendedVehicularA), ("etu", Self::ExtendedTypicalUrban),
]);

names!(Antenna: vec![("flat", Self::FLAT), ("tilted", Self::TILTED)]);

names!(PathLoss: vec![("3gpp", Self::Case1), ("cost-231-hata", Self::Cost231Hata)]);
