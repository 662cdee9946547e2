//! Path loss, antennas, shadowing and noise.
//!
//! The path loss of case 1, the three-dimensional antenna, the correlation of 0.5 between sites, the noise density and the noise figure of
//! users were compared with a second implementation (the Vienna LTE system level simulator 1.8). Recalled from the named documents are the
//! deviation of 8 dB, the 50 m, the 14 dBi, the 20 dB of penetration and the base station's noise figure of 5 dB.

use std::f64::consts::PI;

use giusto_sim::random::Random;

use super::{
    draw,
    error::RadioError,
    layout::{CELLS, Layout, MINIMUM_DISTANCE_M, Point, SITES},
};

/// Speed of light, m/s.
pub const SPEED_OF_LIGHT_MPS: f64 = 299_792_458.0;

/// Thermal noise, dBm/Hz: k T at 290 K.
pub const THERMAL_NOISE_DBM_PER_HZ: f64 = -174.0;

/// Standard deviation of shadowing, dB.
pub const SHADOWING_DB: f64 = 8.0;

/// Correlation of the shadowing of two sites; that of two sectors of a site is 1.
pub const SHADOWING_BETWEEN_SITES: f64 = 0.5;

/// Distance at which the shadowing of a moving user is correlated by 1/e, m.
pub const SHADOWING_DISTANCE_M: f64 = 50.0;

/// Returns the linear ratio of `db`.
pub fn from_db(db: f64) -> f64 {
    libm::exp(db * std::f64::consts::LN_10 / 10.0)
}

/// Mean loss over distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathLoss {
    /// L = 128.1 + 37.6 log10(R / km) dB at 2 GHz (TR 36.814 table A.2.1.1-1).
    #[default]
    Case1,
    /// COST-231 Hata for a metropolitan centre (COST 231 final report, §4.4.1) at the deployment's carrier and antenna heights.
    Cost231Hata,
}

impl PathLoss {
    /// Returns the loss over `distance_m`, dB. Distances below [`MINIMUM_DISTANCE_M`] count as that.
    ///
    /// COST-231 Hata is stated for distances from 1 km and is extrapolated below, as system simulations do.
    pub fn db(self, distance_m: f64, deployment: &Deployment) -> f64 {
        let distance_km = libm::log10(distance_m.max(MINIMUM_DISTANCE_M) / 1000.0);
        match self {
            Self::Case1 => 128.1 + 37.6 * distance_km,
            Self::Cost231Hata => {
                let frequency_mhz = libm::log10(deployment.carrier_hz / 1e6);
                let base = libm::log10(deployment.base_height_m);
                let height = libm::log10(11.75 * deployment.user_height_m);
                let user = 3.2 * height * height - 4.97;
                46.3 + 33.9 * frequency_mhz - 13.82 * base - user + (44.9 - 6.55 * base) * distance_km + 3.0
            }
        }
    }
}

/// The vertical pattern of an antenna (TR 36.814 table A.2.1.1-2): −min(12 ((θ − tilt) / width)², side lobe) dB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VerticalPattern {
    /// Angle between the points of half the power, degrees.
    pub width_deg: f64,
    /// Attenuation of side lobes, dB.
    pub side_lobe_db: f64,
    /// Electrical tilt below the horizon, degrees: 15 in case 1, [6](Deployment::CASE_3_TILT_DEG) in case 3.
    pub tilt_deg: f64,
    /// Largest attenuation of both patterns together, dB.
    pub floor_db: f64,
}

/// The antenna of a sector: −min(12 (φ / width)², front to back) dB in the horizontal plane, plus its gain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Antenna {
    /// Gain in the main direction, cable loss deducted, dBi.
    pub gain_dbi: f64,
    /// Horizontal angle between the points of half the power, degrees.
    pub width_deg: f64,
    /// Largest attenuation in the horizontal plane, dB: 20 in TR 25.814, 25 in TR 36.814.
    pub front_to_back_db: f64,
    /// The vertical pattern; without it the antenna is two-dimensional.
    pub vertical: Option<VerticalPattern>,
}

impl Antenna {
    /// The two-dimensional antenna of TR 25.814 table A.2.1.1-2: 14 dBi, 70 degrees, 20 dB.
    pub const FLAT: Self = Self { gain_dbi: 14.0, width_deg: 70.0, front_to_back_db: 20.0, vertical: None };

    /// The three-dimensional antenna of TR 36.814 table A.2.1.1-2, with the tilt of 15 degrees of case 1.
    pub const TILTED: Self = Self {
        front_to_back_db: 25.0,
        vertical: Some(VerticalPattern {
            width_deg: 10.0,
            side_lobe_db: 20.0,
            tilt_deg: 15.0,
            floor_db: 25.0,
        }),
        ..Self::FLAT
    };

    /// The same with this tilt below the horizon in degrees, if it has a vertical pattern.
    #[must_use]
    pub fn with_tilt_deg(self, tilt_deg: f64) -> Self {
        Self { vertical: self.vertical.map(|pattern| VerticalPattern { tilt_deg, ..pattern }), ..self }
    }

    /// Returns the gain towards a user, dBi: `azimuth_rad` off the main direction, `below_rad` below the horizon.
    pub fn gain_db(&self, azimuth_rad: f64, below_rad: f64) -> f64 {
        // The nearest equivalent of the azimuth in −π to π.
        let azimuth = azimuth_rad - 2.0 * PI * libm::round(azimuth_rad / (2.0 * PI));
        let ratio = azimuth.to_degrees() / self.width_deg;
        let horizontal = (12.0 * ratio * ratio).min(self.front_to_back_db);
        let vertical = self.vertical.map_or(0.0, |pattern| {
            let ratio = (below_rad.to_degrees() - pattern.tilt_deg) / pattern.width_deg;
            (12.0 * ratio * ratio).min(pattern.side_lobe_db)
        });
        let floor = self.vertical.map_or(self.front_to_back_db, |pattern| pattern.floor_db);
        self.gain_dbi - (horizontal + vertical).min(floor)
    }
}

giusto_units::defaults! {
    /// The constants of a simulation case.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Deployment {
        /// Distance between neighbouring sites, m.
        pub inter_site_distance_m: f64 = 500.0,
        /// Carrier frequency, Hz.
        pub carrier_hz: f64 = 2e9,
        /// Speed of users, m/s.
        pub speed_mps: f64 = 3.0 / 3.6,
        /// Loss of walls, dB.
        pub penetration_db: f64 = 20.0,
        /// Path loss.
        pub path_loss: PathLoss = PathLoss::Case1,
        /// The antenna of a sector.
        pub antenna: Antenna = Antenna::FLAT,
        /// Height of the base stations' antennas, m.
        pub base_height_m: f64 = 32.0,
        /// Height of users, m.
        pub user_height_m: f64 = 1.5,
        /// Transmit power of a cell over its whole bandwidth, dBm.
        pub cell_power_dbm: f64 = 46.0,
        /// Largest transmit power of a user, dBm.
        pub user_power_dbm: f64 = 23.0,
        /// Noise figure of a user's receiver, dB.
        pub user_noise_figure_db: f64 = 9.0,
        /// Noise figure of a base station's receiver, dB.
        pub base_noise_figure_db: f64 = 5.0,
        /// Number of resource blocks.
        pub resource_blocks: u32 = 50,
    }
    /// 3GPP case 1: 500 m, 2 GHz, 3 km/h, penetration 20 dB, in 10 MHz with 40 W (TR 25.814 table A.2.1.1-1, TR 36.814 table
    /// A.2.1.1-1).
    pub fn case_1();
}

impl Deployment {
    /// Bandwidth of a resource block, Hz (TS 36.211 §6.2.3: 12 subcarriers of 15 kHz).
    pub const RESOURCE_BLOCK_HZ: f64 = 180_000.0;

    /// Electrical tilt of a three-dimensional antenna in case 3, degrees (TR 36.814 table A.2.1.1-2).
    pub const CASE_3_TILT_DEG: f64 = 6.0;

    /// 3GPP case 3: as case 1 with 1732 m between sites.
    pub fn case_3() -> Self {
        Self { inter_site_distance_m: 1732.0, ..Self::case_1() }
    }

    /// Checks that every value is within what the models hold for.
    ///
    /// # Errors
    ///
    /// [`RadioError::Range`] names the first value that is not, and its range.
    pub fn check(&self) -> Result<(), RadioError> {
        let within = |field, value: f64, low: f64, high: f64, range, unit| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(RadioError::Range { field, range, found: format!("{value} {unit}") })
            }
        };
        within("inter_site_distance_m", self.inter_site_distance_m, 100.0, 10_000.0, "100 m to 10 km", "m")?;
        within("carrier_hz", self.carrier_hz, 4e8, 6e9, "400 MHz to 6 GHz", "Hz")?;
        match self.path_loss {
            // The constant is that of 2 GHz.
            PathLoss::Case1 => within(
                "carrier_hz",
                self.carrier_hz,
                1.8e9,
                2.2e9,
                "1.8 GHz to 2.2 GHz with the path loss of case 1",
                "Hz",
            )?,
            PathLoss::Cost231Hata => {
                within(
                    "carrier_hz",
                    self.carrier_hz,
                    1.5e9,
                    2e9,
                    "1.5 GHz to 2 GHz with COST-231 Hata",
                    "Hz",
                )?;
                within(
                    "base_height_m",
                    self.base_height_m,
                    30.0,
                    200.0,
                    "30 m to 200 m with COST-231 Hata",
                    "m",
                )?;
            }
        }
        within("base_height_m", self.base_height_m, 10.0, 200.0, "10 m to 200 m", "m")?;
        within("user_height_m", self.user_height_m, 1.0, 10.0, "1 m to 10 m", "m")?;
        within("speed_mps", self.speed_mps, 0.0, 250.0 / 3.6, "0 to 250 km/h (69.4 m/s)", "m/s")?;
        within("penetration_db", self.penetration_db, 0.0, 60.0, "0 to 60 dB", "dB")?;
        within("cell_power_dbm", self.cell_power_dbm, 10.0, 60.0, "10 to 60 dBm", "dBm")?;
        within("user_power_dbm", self.user_power_dbm, 0.0, 40.0, "0 to 40 dBm", "dBm")?;
        within("user_noise_figure_db", self.user_noise_figure_db, 0.0, 30.0, "0 to 30 dB", "dB")?;
        within("base_noise_figure_db", self.base_noise_figure_db, 0.0, 30.0, "0 to 30 dB", "dB")?;
        within("resource_blocks", f64::from(self.resource_blocks), 6.0, 100.0, "6 to 100", "resource blocks")
    }

    /// Returns the bandwidth that is occupied, Hz.
    pub fn bandwidth_hz(&self) -> f64 {
        f64::from(self.resource_blocks) * Self::RESOURCE_BLOCK_HZ
    }

    /// Returns the largest Doppler shift, Hz: v fc / c.
    pub fn doppler_hz(&self) -> f64 {
        self.speed_mps * self.carrier_hz / SPEED_OF_LIGHT_MPS
    }
}

/// Returns the power of thermal noise in `bandwidth_hz` at a receiver with a noise figure of `figure_db`, mW.
pub fn noise_mw(bandwidth_hz: f64, figure_db: f64) -> f64 {
    from_db(THERMAL_NOISE_DBM_PER_HZ + figure_db) * bandwidth_hz
}

/// The shadowing of one user towards every site: log-normal, correlated between sites and along the user's path (TR 36.814 table
/// A.2.1.1-1; the correlation along the path is Gudmundson's, Electronics Letters 27(23), 1991).
#[derive(Debug, Clone)]
pub struct Shadowing {
    /// What all sites share, of variance 1.
    common: f64,
    /// What each site has of its own, of variance 1.
    own: Vec<f64>,
}

impl Shadowing {
    /// Draws the shadowing towards `sites` sites.
    pub fn new(sites: usize, random: &mut Random) -> Self {
        Self { common: draw::normal(random), own: (0..sites).map(|_| draw::normal(random)).collect() }
    }

    /// No shadowing: 0 dB towards every site.
    pub const fn none() -> Self {
        Self { common: 0.0, own: Vec::new() }
    }

    /// Moves the user by `moved_m`, m.
    pub fn advance(&mut self, moved_m: f64, random: &mut Random) {
        let kept = libm::exp(-moved_m.max(0.0) / SHADOWING_DISTANCE_M);
        let fresh = libm::sqrt(1.0 - kept * kept);
        for value in std::iter::once(&mut self.common).chain(&mut self.own) {
            *value = kept * *value + fresh * draw::normal(random);
        }
    }

    /// Returns the shadowing towards `site`, dB. A positive value is a gain; that of an unknown site is 0.
    pub fn site_db(&self, site: usize) -> f64 {
        self.own.get(site).map_or(0.0, |own| {
            SHADOWING_DB
                * (libm::sqrt(SHADOWING_BETWEEN_SITES) * self.common
                    + libm::sqrt(1.0 - SHADOWING_BETWEEN_SITES) * own)
        })
    }
}

/// Returns the mean gain between each cell and a user at `at`: antenna, path loss, penetration and shadowing, as a linear ratio. What
/// the sectors of a site share is computed once.
pub fn mean_gains(
    layout: &Layout,
    deployment: &Deployment,
    at: Point,
    shadowing: &Shadowing,
) -> [f32; CELLS] {
    let mut gains = [0.0; CELLS];
    for site in 0..SITES {
        let path = SitePath::new(layout, deployment, site, at, shadowing);
        for (cell, gain) in gains.iter_mut().enumerate().filter(|(cell, _)| layout.site_of(*cell) == site) {
            *gain = path.gain(layout, deployment, cell);
        }
    }
    gains
}

/// The path between a site and a user.
struct SitePath {
    bearing_rad: f64,
    below_rad: f64,
    loss_db: f64,
    shadowing_db: f64,
}

impl SitePath {
    fn new(layout: &Layout, deployment: &Deployment, site: usize, at: Point, shadowing: &Shadowing) -> Self {
        let (distance_m, bearing_rad) = layout.to_site(site, at);
        let distance_m = distance_m.max(MINIMUM_DISTANCE_M);
        Self {
            bearing_rad,
            below_rad: libm::atan2(deployment.base_height_m - deployment.user_height_m, distance_m),
            loss_db: deployment.path_loss.db(distance_m, deployment),
            shadowing_db: shadowing.site_db(site),
        }
    }

    /// Returns the mean gain of one of its cells.
    fn gain(&self, layout: &Layout, deployment: &Deployment, cell: usize) -> f32 {
        let gain_db =
            deployment.antenna.gain_db(self.bearing_rad - layout.boresight_rad(cell), self.below_rad)
                - self.loss_db
                - deployment.penetration_db
                + self.shadowing_db;
        from_db(gain_db) as f32
    }
}

#[cfg(test)]
mod tests {
    use giusto_sim::random;

    use super::*;
    use crate::radio::layout::SITES;

    fn near(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() <= tolerance, "{value}, not {expected} ± {tolerance}");
    }

    #[test]
    fn case_1_is_the_other_form_of_itself() {
        let deployment = Deployment::case_1();
        // L = 15.3 + 37.6 log10(d / m), the form in 36.942 and 36.814 table A.2.1.1.2-3.
        for distance in [35.0, 100.0, 500.0, 1732.0] {
            let loss = PathLoss::Case1.db(distance, &deployment);
            near(loss, 15.3 + 37.6 * libm::log10(distance), 0.01);
        }
        near(PathLoss::Case1.db(3.0, &deployment), PathLoss::Case1.db(35.0, &deployment), 0.0);
    }

    #[test]
    fn cost_231_hata_gives_its_textbook_value() {
        let deployment = Deployment::case_1();
        near(PathLoss::Cost231Hata.db(1000.0, &deployment), 140.4, 0.05);
        let slope =
            PathLoss::Cost231Hata.db(1000.0, &deployment) - PathLoss::Cost231Hata.db(100.0, &deployment);
        near(slope, 35.04, 0.01);
    }

    #[test]
    fn an_antenna_loses_3_db_at_half_its_width() {
        for antenna in [Antenna::FLAT, Antenna::TILTED] {
            let tilt = antenna.vertical.map_or(0.0, |pattern| pattern.tilt_deg.to_radians());
            let back = 14.0 - antenna.front_to_back_db;
            for (degrees, gain) in
                [(0.0_f64, 14.0), (35.0, 11.0), (-35.0, 11.0), (325.0, 11.0), (180.0, back)]
            {
                near(antenna.gain_db(degrees.to_radians(), tilt), gain, 1e-9);
            }
        }
        for (degrees, down, gain) in [(0.0_f64, 20.0_f64, 11.0), (0.0, -20.0, -6.0), (180.0, -20.0, -11.0)] {
            near(Antenna::TILTED.gain_db(degrees.to_radians(), down.to_radians()), gain, 1e-9);
        }
        near(Antenna::FLAT.gain_db(0.0, 1.0), 14.0, 1e-9);
    }

    #[test]
    fn noise_and_doppler_have_their_known_values() {
        near(10.0 * noise_mw(9e6, 9.0).log10(), -95.46, 0.01);
        near(10.0 * noise_mw(180_000.0, 5.0).log10(), -116.45, 0.01);
        near(Deployment::case_1().doppler_hz(), 5.56, 0.01);
        near(Deployment { speed_mps: 30.0 / 3.6, ..Deployment::case_1() }.doppler_hz(), 55.6, 0.1);
    }

    #[test]
    fn values_outside_the_models_are_named() {
        assert_eq!(Deployment::case_1().check(), Ok(()));
        assert_eq!(Deployment::case_3().check(), Ok(()));
        let hata = Deployment { path_loss: PathLoss::Cost231Hata, ..Deployment::case_1() };
        assert_eq!(hata.check(), Ok(()));
        let case_1 = Deployment::case_1;
        for (deployment, message) in [
            (
                Deployment { speed_mps: 80.0, ..case_1() },
                "speed_mps must be 0 to 250 km/h (69.4 m/s), found 80 m/s",
            ),
            (
                Deployment { carrier_hz: 9e8, ..case_1() },
                "carrier_hz must be 1.8 GHz to 2.2 GHz with the path loss of case 1, found 900000000 Hz",
            ),
            (Deployment { base_height_m: 20.0, ..hata }, "30 m to 200 m"),
            (Deployment { inter_site_distance_m: f64::NAN, ..case_1() }, "NaN m"),
            (Deployment { resource_blocks: 0, ..case_1() }, "6 to 100"),
        ] {
            let found = deployment.check().unwrap_err().to_string();
            assert!(found.starts_with("LTE deployment: ") && found.contains(message), "{found}");
        }
    }

    #[test]
    fn shadowing_has_its_deviation_and_correlations() {
        let mut random = random::stream(1, "shadowing");
        let count = 40_000;
        let (mut square, mut sites, mut moved) = (0.0, 0.0, 0.0);
        for _ in 0..count {
            let mut shadowing = Shadowing::new(SITES, &mut random);
            let (first, other) = (shadowing.site_db(0), shadowing.site_db(3));
            shadowing.advance(10.0, &mut random);
            shadowing.advance(25.0, &mut random);
            square += first * first;
            sites += first * other;
            moved += first * shadowing.site_db(0);
        }
        let variance = square / f64::from(count);
        near(libm::sqrt(variance), 8.0, 0.1);
        near(sites / square, 0.5, 0.02);
        near(moved / square, libm::exp(-35.0 / 50.0), 0.02);
    }
}
