//! Controllers by name.

use std::{fmt, str::FromStr};

use super::{Controller, Fixed};
use crate::{session::PacerConfig, units::DataRate};

/// Within what a controller may move, and where it begins. Headers are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The least. Default 30 kbit/s.
    pub min: DataRate,
    /// Where it begins. Default 300 kbit/s, as in libwebrtc.
    pub start: DataRate,
    /// The most, and what the media can use at most. Default 2 Mbit/s.
    pub max: DataRate,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            min: DataRate::from_bps(30_000),
            start: DataRate::from_bps(300_000),
            max: DataRate::from_bps(2_000_000),
        }
    }
}

/// What the far end has to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FeedbackKind {
    /// Transport-wide feedback: when each packet arrived, in steps of 250 µs.
    TransportWide,
    /// RFC 8888: when each packet arrived, in steps of 1/1024 s, and its ECN codepoint.
    CongestionControl,
    /// REMB: what the receiver believes it may be sent.
    ReceiverEstimate,
    /// Nothing but receiver reports: the share that was lost.
    ReceiverReports,
}

/// A controller by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ControllerKind {
    /// `fixed`: the start rate, whatever happens.
    Fixed,
}

impl ControllerKind {
    /// All there are.
    pub const ALL: [Self; 1] = [Self::Fixed];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
        }
    }

    /// A new one, within `limits`.
    pub fn build(self, limits: Limits) -> Box<dyn Controller> {
        match self {
            Self::Fixed => Box::new(Fixed::new(limits.start)),
        }
    }

    /// What it has to be told.
    pub const fn feedback(self) -> FeedbackKind {
        match self {
            Self::Fixed => FeedbackKind::ReceiverReports,
        }
    }

    /// How its packets are paced.
    pub const fn pacer(self) -> PacerConfig {
        match self {
            Self::Fixed => PacerConfig::libwebrtc(),
        }
    }
}

impl fmt::Display for ControllerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ControllerKind {
    type Err = UnknownController;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownController(name.to_owned()))
    }
}

/// No controller has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no controller is called \"{0}\": known are {known}", known = ControllerKind::ALL.map(ControllerKind::name).join(", "))]
pub struct UnknownController(pub String);
