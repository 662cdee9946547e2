//! Configuration of a city, and what is outside its range.

use giusto_sim::traffic::tcp;
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::measures::LEAST_OVERLAP;
use crate::{
    bearer::BearerConfig,
    carrier::BANDWIDTHS,
    mac::{DownlinkConfig, UplinkConfig},
    radio::{fading::Profile, layout::CELLS, link::Direction, propagation::Deployment},
};

/// Part of the base round-trip time that the radio takes, both directions together: about 5 ms down and 15 ms up. The rest is
/// the core network. RFC 8869 §2.1.2 gives 10 ms one way for the wired part of a round trip of 40 ms.
pub const RADIO_ROUND_TRIP: TimeDelta = TimeDelta::from_millis(20);

/// The most transfers that begin in a cell in a second: each is a user with a radio of its own.
const MAX_TRANSFERS: u64 = 100;

/// Objects that users fetch or send over TCP.
#[derive(Debug, Clone, PartialEq)]
pub struct FileTransfers {
    /// Size of an object, at most 1 GB; at least such that a load begins no more than 100 objects a second in a cell. Default: 500 kB.
    pub size: DataSize,
    /// Mean offered load of a cell. Each object belongs to a user of its own.
    pub load: DataRate,
    /// TCP. Default: CUBIC.
    pub settings: tcp::Settings,
    /// A transfer that takes longer is given up, and counted. Default: 60 s.
    pub patience: TimeDelta,
}

impl FileTransfers {
    /// Objects of 500 kB with this mean load of a cell.
    pub fn new(load: DataRate) -> Self {
        Self {
            size: DataSize::from_bytes(500_000),
            load,
            settings: tcp::Settings::default(),
            patience: TimeDelta::from_seconds(60),
        }
    }
}

/// How the direction that does not carry the media is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Opposite {
    /// By the radio, as the direction of the media.
    #[default]
    Radio,
    /// By a constant delay: half of the radio's part of the base round trip.
    Fixed,
}

giusto_units::defaults! {
    /// A city: its cells, its users and their traffic.
    #[derive(Debug, Clone, PartialEq)]
    pub struct CityConfig {
        /// Random seed.
        pub seed: u64 = 1,
        /// Cells and propagation. Default: 3GPP case 1.
        pub deployment: Deployment = Deployment::case_1(),
        /// Multipath. Default: typical urban.
        pub profile: Profile = Profile::default(),
        /// Direction of the media. Default: downlink.
        pub direction: Direction = Direction::Downlink,
        /// The other direction. Default: by the radio.
        pub opposite: Opposite = Opposite::default(),
        /// Mean number of calls in a cell: 0 to 50. Default: 4.
        pub users_per_cell: f64 = 4.0,
        /// Length of a call: 5 s to 600 s; a shorter one would not [count](super::CallMeasures::counts). Default: 30 s (RFC 8869
        /// §2.1.2).
        pub call: TimeDelta = TimeDelta::from_seconds(30),
        /// Other traffic, in the direction of the media. Default: 4 Mbit/s per cell.
        pub files: Option<FileTransfers> = Some(FileTransfers::new(DataRate::from_bps(4_000_000))),
        /// Base round-trip time: 20 ms to 1 s. Default: 40 ms.
        pub base_rtt: TimeDelta = TimeDelta::from_millis(40),
        /// Packets and frames sent in this interval, of at least 5 s, are evaluated. Default: 30 to 60 s (RFC 8869 §2.1.2).
        pub evaluation: (Timestamp, Timestamp) = (Timestamp::from_nanos(30_000_000_000), Timestamp::from_nanos(60_000_000_000)),
        /// Bearers.
        pub bearer: BearerConfig = BearerConfig::default(),
        /// Time constant of the average rate in proportional fair scheduling: 10 to 10,000 ms. Default: 100 ms, as in ns-3
        /// (`PfFfMacScheduler`, time window 99); 100 to 1000 ms are usual.
        pub fairness_window_ms: u16 = 100,
        /// Downlink.
        pub downlink: DownlinkConfig = DownlinkConfig::default(),
        /// Uplink.
        pub uplink: UplinkConfig = UplinkConfig::default(),
    }
}

/// A city that the model does not hold.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CityError {
    /// A setting is out of range.
    #[error("{setting} must be {range}, found {found}")]
    Range {
        /// The setting.
        setting: &'static str,
        /// What is possible.
        range: String,
        /// What was given.
        found: String,
    },
    /// The settings of the file transfers are invalid.
    #[error(transparent)]
    Tcp(#[from] tcp::SettingsError),
    /// An endpoint of a call cannot be built.
    #[error("a call cannot be built: {0}")]
    Call(String),
}

impl CityError {
    /// Whether the value of a setting is from `low` to `high`.
    pub(crate) fn within(
        setting: &'static str,
        value: f64,
        low: f64,
        high: f64,
        unit: &str,
    ) -> Result<(), Self> {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        let range = format!("{low} to {high}{unit}");
        Err(Self::Range { setting, range, found: format!("{value}{unit}") })
    }
}

impl CityConfig {
    /// Checks that every setting is within its range.
    ///
    /// # Errors
    ///
    /// [`CityError::Range`] names the first setting that is not.
    pub fn validate(&self) -> Result<(), CityError> {
        let number = CityError::within;
        let Deployment { inter_site_distance_m, speed_mps, carrier_hz, .. } = self.deployment;
        number("users per cell", self.users_per_cell, 0.0, 50.0, "")?;
        number("speed", speed_mps * 3.6, 0.0, 250.0, " km/h")?;
        number("inter-site distance", inter_site_distance_m, 100.0, 5000.0, " m")?;
        number("carrier frequency", carrier_hz / 1e9, 0.4, 6.0, " GHz")?;
        number("call length", self.call.as_seconds(), LEAST_OVERLAP.as_seconds(), 600.0, " s")?;
        number("window of fair scheduling", f64::from(self.fairness_window_ms), 10.0, 10_000.0, " ms")?;
        number("base round-trip time", self.base_rtt.as_millis(), 20.0, 1000.0, " ms")?;
        for (setting, blocks) in
            [("downlink bandwidth", self.downlink.blocks), ("uplink bandwidth", self.uplink.blocks)]
        {
            if !BANDWIDTHS.iter().any(|&(_, known)| known == blocks) {
                let known = BANDWIDTHS.map(|(mhz, blocks)| format!("{blocks} ({mhz} MHz)"));
                let range = format!("one of {} resource blocks", known.join(", "));
                return Err(CityError::Range { setting, range, found: blocks.to_string() });
            }
        }
        let (from, until) = self.evaluation;
        let earliest = (from + LEAST_OVERLAP).as_seconds();
        number("end of the evaluation", until.as_seconds(), earliest, 3600.0, " s")?;
        if let Some(files) = &self.files {
            let offered = files.load.as_bps() as f64 / 1e6;
            number("load of file transfers per cell", offered, 0.0, 100.0, " Mbit/s")?;
            let least = files.load.as_bps().div_ceil(8 * MAX_TRANSFERS).max(1);
            number("size of a file at this load", files.size.as_bytes() as f64, least as f64, 1e9, " B")?;
            files.settings.validate()?;
        }
        Ok(())
    }

    /// One-way delay of the core network.
    pub(super) fn core_delay(&self) -> TimeDelta {
        (self.base_rtt - RADIO_ROUND_TRIP) / 2
    }

    /// Number of calls that begin per second, in all cells.
    pub(super) fn call_intensity(&self) -> f64 {
        self.users_per_cell * CELLS as f64 / self.call.as_seconds()
    }
}
