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
    each,
    expectation::bound,
    media, seed,
    value::{Found, Node, Read, Table, choice, expected, table, wrong},
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

const DIRECTIONS: [(&str, Direction); 2] = [("downlink", Direction::Downlink), ("uplink", Direction::Uplink)];

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
    table(root, |keys| {
        let (mut name, mut description, mut number) = (stem.to_owned(), String::new(), 1);
        keys.set("name", &mut name);
        keys.set("description", &mut description);
        keys.set_with("seed", &mut number, seed);
        for (key, text) in FOREIGN {
            keys.refuse(key, text);
        }
        let spec = keys.required_with("city", |node| table(node, city));
        let name_of = |node: &Node<'_>| Some(format!("of {}", super::text_at(node, "metric")?));
        let expectations = each(keys, "expect", name_of, expectation);
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

fn city(keys: &mut Table<'_>) -> CitySpec {
    let mut config = CityConfig { files: None, ..CityConfig::default() };
    let cases = [(1, Deployment::case_1 as fn() -> Deployment), (3, Deployment::case_3)];
    let case = keys.with("case", |node| {
        let number = u64::read(node)?;
        let known = cases.into_iter().find(|(case, _)| *case == number);
        known.map_or_else(|| wrong(node, format_args!("must be 1 or 3, found {number}")), Ok)
    });
    let (case, deployment) = case.unwrap_or(cases[0]);
    config.deployment = deployment();
    keys.set_with("direction", &mut config.direction, |node| choice(node, DIRECTIONS));
    let opposites = [("radio", Opposite::Radio), ("fixed", Opposite::Fixed)];
    keys.set_with("opposite", &mut config.opposite, |node| choice(node, opposites));
    keys.set_with("speed", &mut config.deployment.speed_mps, speed);
    keys.set("users-per-cell", &mut config.users_per_cell);
    keys.set("call", &mut config.call);
    keys.set("base-rtt", &mut config.base_rtt);
    keys.set("evaluation", &mut config.evaluation);
    if let Some(blocks) = keys.with("bandwidth", bandwidth) {
        config.downlink.blocks = blocks;
        config.uplink.blocks = blocks;
        config.deployment.resource_blocks = blocks;
    }
    let default = FILES_BPS.iter().find(|(direction, _)| *direction == config.direction);
    let share = if case == 1 { 1 } else { 2 };
    let default = default.map(|(_, bps)| FileTransfers::new(DataRate::from_bps(bps / share)));
    config.files = keys.with("files", files).unwrap_or(default);
    let profiles = [
        ("typical-urban", Profile::TypicalUrban6),
        ("epa", Profile::ExtendedPedestrianA),
        ("eva", Profile::ExtendedVehicularA),
        ("etu", Profile::ExtendedTypicalUrban),
    ];
    keys.set_with("profile", &mut config.profile, |node| choice(node, profiles));
    let antennas = [("flat", Antenna::FLAT), ("tilted", Antenna::TILTED)];
    keys.set_with("antenna", &mut config.deployment.antenna, |node| choice(node, antennas));
    let losses = [("3gpp", PathLoss::Case1), ("cost-231-hata", PathLoss::Cost231Hata)];
    keys.set_with("path-loss", &mut config.deployment.path_loss, |node| choice(node, losses));
    keys.set("discard", &mut config.bearer.discard);
    let queue = keys.optional("queue").unwrap_or(DEFAULT_QUEUE);
    CitySpec { config, media: media::call(keys), queue }
}

/// A number with one of `units`, divided by what the unit is smaller by.
fn with_unit(node: &Node<'_>, what: &str, units: &[(&str, f64)]) -> Found<f64> {
    let read = |text: &str| {
        let (unit, divisor) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        (number.is_finite() && number >= 0.0).then_some(number / divisor)
    };
    let value = node.get_ref().as_str().and_then(|text| read(text.trim()));
    value.map_or_else(|| expected(node, what), Ok)
}

/// A speed in m/s.
fn speed(node: &Node<'_>) -> Found<f64> {
    with_unit(node, "a speed with its unit, such as \"3 km/h\"", &[("km/h", 3.6), ("m/s", 1.0)])
}

/// The resource blocks of a bandwidth.
fn bandwidth(node: &Node<'_>) -> Found<u32> {
    let mhz = with_unit(node, "a bandwidth with its unit, such as \"10 MHz\"", &[("MHz", 1.0)])?;
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
    table(node, |keys| {
        keys.require("load");
        let load = keys.optional("load").unwrap_or(DataRate::ZERO);
        let mut files = FileTransfers { settings: super::flow::settings(keys), ..FileTransfers::new(load) };
        keys.set("size", &mut files.size);
        keys.set("patience", &mut files.patience);
        Some(files)
    })
}

fn expectation(keys: &mut Table<'_>) -> Option<CityExpectation> {
    let metrics = CityMetric::all().map(|metric| (metric.name(), metric));
    let metric = keys.required_with("metric", |node| choice(node, metrics));
    let [min, max] = ["min", "max"]
        .map(|key| keys.with(key, |node| metric.map_or(Ok(0.0), |metric| bound(node, metric.unit()))));
    let direction = keys.with("direction", |node| choice(node, DIRECTIONS));
    let name = keys.optional("name");
    Some(CityExpectation { name, metric: metric?, direction, min, max })
}
