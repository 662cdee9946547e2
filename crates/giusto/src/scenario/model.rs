//! The parts of a scenario.

use giusto_pace::{CyclePlan, Strategy};
use giusto_sim::{
    link::{
        LinkConfig,
        queue::{
            CoDelConfig, DelayThresholdConfig, Discipline, DualPi2Config, FqCodelConfig, Limit, PieConfig,
            PolicerConfig, RedConfig, StepMarkConfig,
        },
        rate::RateProfile,
    },
    machine::Machine,
    medium::{Access, Station, WifiConfig},
    packet::LinkId,
    traffic::{
        Departures, PacketSize, Periods,
        tcp::{self, Algorithm},
    },
};
use giusto_units::{DataSize, Ecn, TimeDelta, Timestamp};
use sha2::{Digest, Sha256};

use super::{expectation::Expectation, media::MediaSpec};

/// The default queue of a link: tail drop above the data that the link sends in this time (300 ms, RFC 8867 §4.3).
pub const DEFAULT_QUEUE: TimeDelta = TimeDelta::from_millis(300);

/// The suffix of the id of a link's reverse direction.
pub const REVERSE: &str = ":reverse";

/// Congestion controls of TCP by their names.
pub(super) const TCP_CONTROLS: [(&str, Algorithm); 4] = [
    ("new-reno", Algorithm::NewReno),
    ("cubic", Algorithm::Cubic),
    ("prague", Algorithm::Prague),
    ("bbr", Algorithm::Bbr),
];

/// What a scenario is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be simulated.
    Simulation,
    /// To be simulated, with a duration that the file was not written for: expectations may be about times beyond its end.
    Retimed,
    /// For its links, which other programs use: it needs no flows, and no end.
    Links,
}

giusto_units::defaults! {
    /// A valid scenario: it can be simulated.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Scenario {
        pub(super) name: String = name.into(),
        pub(super) description: String = String::new(),
        pub(super) seed: u64 = 1,
        pub(super) duration: TimeDelta = TimeDelta::ZERO,
        pub(super) warmup: TimeDelta = TimeDelta::ZERO,
        pub(super) mediums: Vec<MediumSpec> = Vec::new(),
        pub(super) links: Vec<LinkSpec> = Vec::new(),
        pub(super) flows: Vec<FlowSpec> = Vec::new(),
        pub(super) expectations: Vec<Expectation> = Vec::new(),
    }
    /// A scenario of this name without links and flows.
    pub(super) fn empty(name: impl Into<String>);
}

impl Scenario {
    /// Whether `other` is the same but for its expectations.
    pub(crate) fn runs_as(&self, other: &Self) -> bool {
        let without = |of: &Self| Self { expectations: Vec::new(), ..of.clone() };
        without(self) == without(other)
    }

    /// Name, also of result folders.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One sentence on what the scenario shows.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Random seed, unless a run is given another.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Simulated time.
    pub fn duration(&self) -> TimeDelta {
        self.duration
    }

    /// Time at the start of each flow and link that is left out of results.
    pub fn warmup(&self) -> TimeDelta {
        self.warmup
    }

    /// Media that links share.
    pub fn mediums(&self) -> &[MediumSpec] {
        &self.mediums
    }

    /// Links, one per direction.
    pub fn links(&self) -> &[LinkSpec] {
        &self.links
    }

    /// Flows.
    pub fn flows(&self) -> &[FlowSpec] {
        &self.flows
    }

    /// Bounds on results.
    pub fn expectations(&self) -> &[Expectation] {
        &self.expectations
    }

    /// The links of these ids, as they are numbered in a simulation.
    pub(crate) fn link_ids(&self, ids: &[String]) -> Vec<LinkId> {
        let index = |id: &String| self.links.iter().position(|link| link.id == *id).unwrap_or(usize::MAX);
        ids.iter().map(|id| LinkId(index(id) as u32)).collect()
    }

    /// The end of a run.
    pub fn end(&self) -> Timestamp {
        Timestamp::ZERO + self.duration
    }

    /// The SHA-256 digest, in hexadecimal, of all parsed values but the seed.
    ///
    /// Comments, layout and the order of keys in the file do not change it; any value does, whether it is given, a default, or
    /// read from a trace file. The version of the algorithms is not part of it.
    pub fn fingerprint(&self) -> String {
        let without_seed = Self { seed: 0, ..self.clone() };
        let digest = Sha256::digest(format!("{without_seed:?}"));
        digest.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
    }
}

/// A Wi-Fi channel that links share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediumSpec {
    /// Name.
    pub id: String,
    /// Timing, contention and frames.
    pub config: WifiConfig,
}

/// The place of a link on a medium.
#[derive(Debug, Clone, PartialEq)]
pub struct OnMedium {
    /// Id of the medium.
    pub id: String,
    /// Access category.
    pub access: Access,
    /// Probability that a packet of a frame is received in error and sent again, 0 to 1.
    pub error: f64,
}

giusto_units::defaults! {
    /// One direction between two nodes.
    #[derive(Debug, Clone, PartialEq)]
    pub struct LinkSpec {
        /// Name; that of a reverse direction ends in [`REVERSE`].
        pub id: String = id.into(),
        /// Node at its start.
        pub from: String = from.into(),
        /// Node at its end.
        pub to: String = to.into(),
        /// Rate, delay, jitter, loss, corruption and duplication.
        pub config: LinkConfig = LinkConfig::default(),
        /// Queue in front of it.
        pub queue: QueueSpec = QueueSpec::default(),
        /// Medium that it shares with other links; default: none. Its rate is then that of its frames on the air.
        pub medium: Option<OnMedium> = None,
    }
    /// An unlimited link without delay.
    pub fn new(id: impl Into<String>, from: impl Into<String>, to: impl Into<String>);
}

impl LinkSpec {
    /// Its use of the medium, if it is on one. The rate must be constant.
    pub(crate) fn station(&self) -> Result<Option<Station>, String> {
        let Some(medium) = &self.medium else { return Ok(None) };
        let RateProfile::Fixed(rate) = self.config.rate else {
            return Err("a link on a medium needs one constant rate, such as \"52 Mbit/s\"".to_owned());
        };
        let station = Station { rate, access: medium.access, error: medium.error };
        station.validate().map(|()| Some(station)).map_err(|error| error.to_string())
    }

    /// The same link in the other direction, with its own queue and random numbers.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            id: format!("{}{REVERSE}", self.id),
            from: self.to.clone(),
            to: self.from.clone(),
            ..self.clone()
        }
    }
}

/// Defines [`QueueSpec`] by its variants.
macro_rules! queues {
    ($($variant:ident($config:ty), $text:literal;)*) => {
        /// A queue and its parameters.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum QueueSpec {
            $(#[doc = $text] $variant($config),)*
        }

        impl QueueSpec {
            /// Its discipline.
            pub fn discipline(&self) -> &dyn Discipline {
                match self {
                    $(Self::$variant(config) => config,)*
                }
            }
        }
    };
}

queues! {
    DropTail(Limit), "First in, first out, with a limit: tail drop.";
    CoDel(CoDelConfig), "`CoDel`, RFC 8289.";
    FqCodel(FqCodelConfig), "`FQ-CoDel`, RFC 8290.";
    Pie(PieConfig), "PIE, RFC 8033.";
    Red(RedConfig), "Random early detection (RED).";
    DualPi2(DualPi2Config), "`DualPI2`, RFC 9332.";
    StepMark(StepMarkConfig), "Marks all packets above a threshold.";
    DelayThreshold(DelayThresholdConfig), "Drops or marks at the head above a delay, with a hold-off time.";
    Policer(PolicerConfig), "Drops what exceeds a token bucket.";
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self::DropTail(Limit::Time(DEFAULT_QUEUE))
    }
}

giusto_units::defaults! {
    /// Traffic from one node to another.
    #[derive(Debug, Clone, PartialEq)]
    pub struct FlowSpec {
        /// Name.
        pub id: String = id.into(),
        /// Kind of traffic.
        pub kind: FlowKind = kind,
        /// Sending node.
        pub from: String = from.into(),
        /// Receiving node.
        pub to: String = to.into(),
        /// Links of its route; empty: the shortest route.
        pub via: Vec<String> = Vec::new(),
        /// Links of the reverse route; empty: the shortest route.
        pub back: Vec<String> = Vec::new(),
        /// Number of such flows, each with its own random numbers.
        pub count: u32 = 1,
        /// Start of each.
        pub start: Start = Start::At(Timestamp::ZERO),
        /// End of sending; default: the end of the run.
        pub stop: Option<Timestamp> = None,
    }
    /// One flow over the shortest route, for the whole run.
    pub fn new(
        id: impl Into<String>,
        kind: FlowKind,
        from: impl Into<String>,
        to: impl Into<String>,
    );
}

impl FlowSpec {
    /// The name of each: the id, with a number from 1 if there are several.
    pub fn instances(&self) -> impl Iterator<Item = String> + '_ {
        (1..=self.count)
            .map(|number| if self.count == 1 { self.id.clone() } else { format!("{}-{number}", self.id) })
    }
}

/// Start of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this moment.
    At(Timestamp),
    /// Uniformly distributed over this time from the start of the run, drawn for each flow.
    Uniform(TimeDelta),
}

/// Kind of traffic.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FlowKind {
    /// An unresponsive source.
    Source {
        /// Departure times.
        departures: Departures,
        /// Packet sizes including all headers.
        size: PacketSize,
        /// ECN codepoint of the packets.
        ecn: Ecn,
    },
    /// A pacing strategy on a modelled machine.
    Paced {
        /// Pacing strategy.
        strategy: Strategy,
        /// Rate and packet size, both including all headers.
        plan: CyclePlan,
        /// Clock and sleep granularity, and the cost of sending.
        machine: Machine,
        /// ECN codepoint of the packets.
        ecn: Ecn,
    },
    /// TCP.
    Tcp {
        /// Settings of both ends.
        settings: tcp::Settings,
        /// Data to send.
        transfers: Transfers,
    },
    /// Adaptive audio and video over RTP.
    Media(MediaSpec),
}

/// Data to send over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transfers {
    /// Without end.
    Unlimited,
    /// One transfer of this size.
    Once(DataSize),
    /// Short transfers with pauses, RFC 8868 §5.1.
    Short {
        /// Minimum and maximum bytes of a transfer, uniformly distributed.
        sizes: (u64, u64),
        /// Mean of the exponentially distributed pauses.
        idle: TimeDelta,
        /// Number of flows that start with a transfer; the others start with a pause.
        starting_on: u32,
        /// Whether all transfers use one connection.
        persistent: bool,
    },
}

impl FlowKind {
    /// Name of the kind, as in a file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Source { departures, .. } => match departures {
                Departures::Poisson(_) => "poisson",
                Departures::OnOff { on: Periods::Pareto { .. }, off: Periods::Pareto { .. }, .. } => "pareto",
                Departures::OnOff { .. } => "on-off",
                _ => "cbr",
            },
            Self::Paced { .. } => "paced",
            Self::Tcp { transfers: Transfers::Short { .. }, .. } => "short-flows",
            Self::Tcp { .. } => "tcp",
            Self::Media(_) => "media",
        }
    }

    /// Name of its congestion control, if it has one.
    pub fn controller(&self) -> Option<String> {
        match self {
            Self::Source { .. } | Self::Paced { .. } => None,
            Self::Tcp { settings, .. } => {
                let own = TCP_CONTROLS.iter().find(|(_, algorithm)| *algorithm == settings.algorithm);
                own.map(|(name, _)| (*name).to_owned())
            }
            Self::Media(media) => Some(media.controller.name().to_owned()),
        }
    }

    /// Whether the receiver sends packets, so that a reverse route is needed.
    pub(crate) fn is_two_way(&self) -> bool {
        matches!(self, Self::Tcp { .. } | Self::Media(_))
    }
}
