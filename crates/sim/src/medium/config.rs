//! Configuration of a Wi-Fi medium and of the links on it.

use giusto_units::{DataRate, TimeDelta};

use super::phy::Phy;

/// Access category of EDCA, or the older DCF. Values for a PHY with `aCWmin` 15 and `aCWmax` 1023: IEEE 802.11-2016 table 9-137
/// and §10.22.2.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// `AC_BK`: AIFSN 7, contention window 15 to 1023.
    Background,
    /// `AC_BE`: AIFSN 3, contention window 15 to 1023.
    #[default]
    BestEffort,
    /// DCF: DIFS, which is an AIFSN of 2, contention window 15 to 1023.
    Dcf,
    /// `AC_VI`: AIFSN 2, contention window 7 to 15.
    Video,
    /// `AC_VO`: AIFSN 2, contention window 3 to 7.
    Voice,
}

impl Access {
    /// All of them with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("background", Self::Background),
        ("best-effort", Self::BestEffort),
        ("dcf", Self::Dcf),
        ("video", Self::Video),
        ("voice", Self::Voice),
    ];

    /// Number of slots after SIFS.
    pub(super) const fn aifsn(self) -> i64 {
        match self {
            Self::Background => 7,
            Self::BestEffort => 3,
            Self::Dcf | Self::Video | Self::Voice => 2,
        }
    }

    /// Minimum and maximum contention window for those of the PHY.
    pub(super) const fn window(self, limits: (u32, u32)) -> (u32, u32) {
        let (min, max) = limits;
        match self {
            Self::Background | Self::BestEffort | Self::Dcf => (min, max),
            Self::Video => (min.div_ceil(2) - 1, min),
            Self::Voice => (min.div_ceil(4) - 1, min.div_ceil(2) - 1),
        }
    }
}

giusto_units::defaults! {
    /// A half-duplex Wi-Fi channel that links share: IEEE 802.11-2016 §10.3 (DCF) and §10.22.2 (EDCA).
    ///
    /// All stations hear each other. A frame is lost only by a collision or by [`Station::error`].
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WifiConfig {
        /// Slot time, above 0. Default: 9 µs (§17.4.4, §19.4.4).
        pub slot: TimeDelta = TimeDelta::from_micros(9),
        /// Short interframe space. Default: 16 µs (5 GHz; 10 µs at 2.4 GHz).
        pub sifs: TimeDelta = TimeDelta::from_micros(16),
        /// Minimum and maximum contention window, 1 to 65535. Default: 15 and 1023.
        pub window: (u32, u32) = (15, 1023),
        /// Transmissions of a frame after the first. Default: 6, seven transmissions (`dot11ShortRetryLimit`, Annex C).
        pub retries: u32 = 6,
        /// Most packets in a frame, 1 to 64, as a block acknowledgement covers. Default: 1, no aggregation.
        pub aggregation: u32 = 1,
        /// Durations of frames. Default: IEEE 802.11n.
        pub phy: Phy = Phy::Ieee80211n,
        /// Whether the channel stays unused for EIFS after a collision (§10.3.2.3.7). Default: yes.
        pub extended_space: bool = true,
    }
}

impl WifiConfig {
    /// Checks that every field is within its range.
    ///
    /// # Errors
    ///
    /// [`MediumError`] names the first that is not.
    pub fn validate(&self) -> Result<(), MediumError> {
        let Self { slot, sifs, window: (min, max), aggregation, .. } = *self;
        if slot <= TimeDelta::ZERO || sifs < TimeDelta::ZERO {
            return Err(MediumError::Slot { slot, sifs });
        }
        if min == 0 || max < min || max > 65_535 {
            return Err(MediumError::Window { min, max });
        }
        if !(1..=64).contains(&aggregation) {
            return Err(MediumError::Aggregation { aggregation });
        }
        Ok(())
    }
}

giusto_units::defaults! {
    /// How a link uses the medium.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct Station {
        /// Bit rate of its frames on the air, above 0. Default: 52 Mbit/s, MCS 11 of IEEE 802.11n (16-QAM, rate 1/2, two streams).
        pub rate: DataRate = DataRate::from_bps(52_000_000),
        /// Access category. Default: best effort.
        pub access: Access = Access::default(),
        /// Probability that a packet of a frame is received in error, 0 to 1. It is sent again. Default: 0.
        pub error: f64 = 0.0,
    }
}

impl Station {
    /// Checks that every field is within its range.
    ///
    /// # Errors
    ///
    /// [`MediumError`] names the first that is not.
    pub fn validate(&self) -> Result<(), MediumError> {
        if self.rate < DataRate::from_bps(100_000) {
            return Err(MediumError::Rate { rate: self.rate });
        }
        if !(0.0..=1.0).contains(&self.error) {
            return Err(MediumError::Error { error: self.error });
        }
        Ok(())
    }
}

/// An invalid medium, or a link that cannot use it.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MediumError {
    /// Interframe spaces out of range.
    #[error("slot must be above 0 s and SIFS at least 0 s, found {slot} and {sifs}")]
    Slot {
        /// Slot time.
        slot: TimeDelta,
        /// Short interframe space.
        sifs: TimeDelta,
    },
    /// Contention window out of range.
    #[error("the contention window must be from 1 to 65535, minimum first, found {min} to {max}")]
    Window {
        /// Minimum.
        min: u32,
        /// Maximum.
        max: u32,
    },
    /// Number of packets in a frame out of range.
    #[error("aggregation must be from 1 to 64 packets in a frame, found {aggregation}")]
    Aggregation {
        /// The number.
        aggregation: u32,
    },
    /// Bit rate out of range.
    #[error("the rate on the air must be at least 100 kbit/s, found \"{rate}\"")]
    Rate {
        /// The rate.
        rate: DataRate,
    },
    /// Error ratio out of range.
    #[error("the error ratio of frames must lie between 0 and 1, found {error}")]
    Error {
        /// The ratio.
        error: f64,
    },
    /// The simulation has no such medium or link.
    #[error("no such medium or link in this simulation")]
    Unknown,
}
