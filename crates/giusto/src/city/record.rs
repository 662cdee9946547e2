//! The record of a city.

use giusto_lte::{
    city::{City, CityConfig, CityFigures, RadioFigures},
    radio::link::Direction,
};
use giusto_units::Timestamp;
use serde::Serialize;

use super::CitySpec;
use crate::text::format::percent;

/// What a run of a city measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CityRecord {
    /// Controller.
    pub controller: String,
    /// Random seed.
    #[serde(serialize_with = "as_text")]
    pub seed: u64,
    /// Direction of the media: `downlink` or `uplink`.
    pub direction: &'static str,
    /// Speed of the users in km/h.
    pub speed_kmh: f64,
    /// Mean number of calls in a cell.
    pub users_per_cell: f64,
    /// Figures of calls, users, file transfers and the radio.
    #[serde(flatten)]
    pub figures: CityFigures,
    /// Simulated time in s.
    pub simulated_s: f64,
    /// Events.
    pub events: u64,
    /// Packets sent by all agents.
    pub packets: u64,
    /// Time that the run took in s.
    pub wall_s: f64,
    /// Reasons to doubt the figures; empty if there are none.
    pub doubts: Vec<String>,
}

impl CityRecord {
    pub(super) fn new(spec: &CitySpec, city: &City<'_>) -> Self {
        let config = &spec.config;
        Self {
            controller: spec.media.controller.name().to_owned(),
            seed: config.seed,
            direction: match config.direction {
                Direction::Downlink => "downlink",
                Direction::Uplink => "uplink",
            },
            speed_kmh: config.deployment.speed_mps * 3.6,
            users_per_cell: config.users_per_cell,
            figures: city.figures(),
            simulated_s: city.now().as_seconds(),
            events: city.events(),
            packets: city.counters().packets,
            wall_s: 0.0,
            doubts: doubts(config).into_iter().collect(),
        }
    }

    /// The radio in the direction of the media.
    pub fn radio(&self) -> Option<RadioFigures> {
        if self.direction == "uplink" { self.figures.uplink } else { self.figures.downlink }
    }
}

/// The city starts empty: the mean number of calls grows until the first ones end.
fn doubts(config: &CityConfig) -> Option<String> {
    let (from, call) = (config.evaluation.0, Timestamp::ZERO + config.call);
    (from < call && config.users_per_cell > 0.0).then(|| {
        format!(
            "the evaluation begins at {} s with {} of the users-per-cell of {}, which are there from {} s on: begin it then, or shorten the calls",
            from.as_seconds(),
            percent(from.as_seconds() / call.as_seconds()),
            config.users_per_cell,
            call.as_seconds(),
        )
    })
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
pub(super) fn as_text<S: serde::Serializer>(seed: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(seed)
}
