//! What is simulated: links, flows, changes over time, and what is expected of them.
//!
//! A scenario is data. It is read from a TOML file ([`Document`]) or made by a [`Builder`]; both give the same [`Scenario`],
//! which is valid: whatever is wrong is said before anything runs. `docs/scenarios.md` lists every key.
//!
//! # Example
//!
//! ```
//! use giusto::scenario::Scenario;
//!
//! let scenario = Scenario::parse(
//!     r#"
//!     duration = "10 s"
//!     [[link]]
//!     id = "wire"
//!     from = "here"
//!     to = "there"
//!     rate = "1 Mbit/s"
//!     [[flow]]
//!     id = "voice"
//!     kind = "cbr"
//!     rate = "64 kbit/s"
//!     size = "200 B"
//!     "#,
//!     "voice.toml",
//! )?;
//! assert_eq!(scenario.flows().len(), 1);
//!
//! let complaint = Scenario::parse("duration = \"10\"", "voice.toml").unwrap_err().to_string();
//! assert!(complaint.starts_with("voice.toml:1: duration: \"10\": duration needs one of the units"), "{complaint}");
//! # Ok::<(), giusto::scenario::ScenarioError>(())
//! ```

mod builder;
mod check;
mod document;
mod expectation;
mod media;
mod problem;
mod read;
mod trace;
mod tree;

use giusto_congestion::{ControllerKind, FeedbackKind, Limits};
use giusto_pace::{CyclePlan, Strategy};
use giusto_sim::traffic::encoder::{AudioConfig, PerfectConfig, StatisticalConfig, TraceConfig};
use giusto_sim::{
    link::{
        LinkConfig,
        queue::{CoDelConfig, DualPi2Config, FqCodelConfig, Limit, PieConfig, RedConfig, StepMarkConfig},
    },
    machine::Machine,
    traffic::{Departures, Periods, tcp},
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};
use sha2::{Digest, Sha256};

pub use builder::Builder;
pub(crate) use check::number_in_file;
pub use document::{Document, Setting};
pub use expectation::{Expectation, Figure, Metric, Subject, Unit};
pub use media::MOST_VIDEOS;
pub(crate) use media::{AUDIO_ID, Unfit, feedback_name};
pub use problem::ScenarioError;
pub(crate) use problem::{At, Finding};

/// The queue of a link that names none holds what the link drains in this time: tail drop at 300 ms, RFC 8867 §4.3.
pub const DEFAULT_QUEUE: TimeDelta = TimeDelta::from_millis(300);

/// What the id of a link's other direction ends in.
pub const REVERSE: &str = ":reverse";

/// A valid scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    name: String,
    description: String,
    seed: u64,
    duration: TimeDelta,
    warmup: TimeDelta,
    links: Vec<LinkSpec>,
    flows: Vec<FlowSpec>,
    expectations: Vec<Expectation>,
}

impl Scenario {
    /// A scenario made piece by piece.
    pub fn builder(name: impl Into<String>) -> Builder {
        Builder::new(name)
    }

    /// Reads the text of a file called `name`. Traces that it names are looked for from the current folder on.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] names every problem with its line.
    pub fn parse(text: &str, name: &str) -> Result<Self, ScenarioError> {
        Document::parse(text, name)?.scenario(&[])
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`ScenarioError`] names every problem with its line.
    pub fn load(path: impl AsRef<std::path::Path>) -> Result<Self, ScenarioError> {
        Document::load(path)?.scenario(&[])
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it shows.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What all chance derives from, unless a run is given another seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How long it lasts.
    pub fn duration(&self) -> TimeDelta {
        self.duration
    }

    /// How much of the beginning of each flow, and of each link, its figures leave out.
    pub fn warmup(&self) -> TimeDelta {
        self.warmup
    }

    /// The links, one for each direction.
    pub fn links(&self) -> &[LinkSpec] {
        &self.links
    }

    /// The flows.
    pub fn flows(&self) -> &[FlowSpec] {
        &self.flows
    }

    /// What is expected.
    pub fn expectations(&self) -> &[Expectation] {
        &self.expectations
    }

    /// The end of a run.
    pub fn end(&self) -> Timestamp {
        Timestamp::ZERO + self.duration
    }

    /// A digest of all that a run of it with some seed depends on, this program's version included.
    pub fn fingerprint(&self) -> String {
        let same = Self { seed: 0, ..self.clone() };
        let digest = Sha256::new()
            .chain_update(env!("CARGO_PKG_VERSION"))
            .chain_update(format!("{same:?}"))
            .finalize();
        let start: [u8; 8] = std::array::from_fn(|place| digest.get(place).copied().unwrap_or(0));
        format!("{:016x}", u64::from_be_bytes(start))
    }
}

/// One direction between two nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSpec {
    /// What it is called; a reverse direction is called as its link with [`REVERSE`] behind.
    pub id: String,
    /// The node where it begins.
    pub from: String,
    /// The node where it ends.
    pub to: String,
    /// Rate, delay, jitter, loss and duplication.
    pub config: LinkConfig,
    /// What waits for it, and how.
    pub queue: QueueSpec,
}

impl LinkSpec {
    /// An unlimited link without delay, from one node to another.
    pub fn new(id: impl Into<String>, from: impl Into<String>, to: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            from: from.into(),
            to: to.into(),
            config: LinkConfig::default(),
            queue: QueueSpec::default(),
        }
    }

    /// The same in the other direction: with a queue and chance of its own.
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

/// A queue and its law.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum QueueSpec {
    /// First in, first out, with a limit.
    DropTail(Limit),
    /// Controlled delay.
    CoDel(CoDelConfig),
    /// Controlled delay in many queues.
    FqCodel(FqCodelConfig),
    /// Proportional integral controller enhanced.
    Pie(PieConfig),
    /// Random early detection.
    Red(RedConfig),
    /// Dual queue coupled.
    DualPi2(DualPi2Config),
    /// Marks above a threshold.
    StepMark(StepMarkConfig),
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self::DropTail(Limit::Time(DEFAULT_QUEUE))
    }
}

/// Traffic from one node to another.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSpec {
    /// What it is called.
    pub id: String,
    /// What sends.
    pub kind: FlowKind,
    /// The node that sends.
    pub from: String,
    /// The node that receives.
    pub to: String,
    /// The links of its way, if it is not the shortest.
    pub via: Vec<String>,
    /// The links of its answers' way, if it is not the shortest.
    pub back: Vec<String>,
    /// How many of it there are, each with chance of its own.
    pub count: u32,
    /// When each begins.
    pub start: Start,
    /// From when on it sends no more; by default the end of the run.
    pub stop: Option<Timestamp>,
}

impl FlowSpec {
    /// One flow over the shortest way, from the beginning to the end.
    pub fn new(
        id: impl Into<String>,
        kind: FlowKind,
        (from, to): (impl Into<String>, impl Into<String>),
    ) -> Self {
        Self {
            id: id.into(),
            kind,
            from: from.into(),
            to: to.into(),
            via: Vec::new(),
            back: Vec::new(),
            count: 1,
            start: Start::At(Timestamp::ZERO),
            stop: None,
        }
    }

    /// What each of them is called: by the id, with a number from 1 if there are several.
    pub fn instances(&self) -> impl Iterator<Item = String> + '_ {
        (1..=self.count)
            .map(|number| if self.count == 1 { self.id.clone() } else { format!("{}-{number}", self.id) })
    }
}

/// When a flow begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At this moment.
    At(Timestamp),
    /// At a moment drawn evenly from the first such span of the run, for each flow of it anew.
    Uniform(TimeDelta),
}

/// What sends.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FlowKind {
    /// A source that heeds nothing.
    Source {
        /// When its packets leave.
        departures: Departures,
        /// The size of each on the wire, all headers included.
        size: DataSize,
        /// Their ECN codepoint.
        ecn: Ecn,
    },
    /// A schedule on a machine, ideal or coarse.
    Paced {
        /// Which.
        strategy: Strategy,
        /// Its rate and the size of its packets on the wire, all headers included in both: the plan counts no others.
        plan: CyclePlan,
        /// How coarse its clock and its sleeps are, and what sending costs it.
        machine: Machine,
        /// The ECN codepoint of the packets.
        ecn: Ecn,
    },
    /// TCP, whose receiver answers.
    Tcp {
        /// What both ends are told.
        settings: tcp::Settings,
        /// What there is to send.
        transfers: Transfers,
    },
    /// Sound and pictures, whose sender adapts to what the receiver reports.
    Media(MediaSpec),
}

/// An adaptive media session: RTP one way, RTCP the other.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaSpec {
    /// The congestion control.
    pub controller: ControllerKind,
    /// Within what it moves, headers included; by default what the media can use.
    pub limits: Limits,
    /// What the receiver reports, if not what the controller usually wants.
    pub feedback: Option<FeedbackKind>,
    /// How long packets should queue in the network, of a controller that aims at a delay; by default what it recommends.
    pub delay_target: Option<TimeDelta>,
    /// What the receiver wants to be sent at most, where the feedback can say so.
    pub receiver_limit: Option<DataRate>,
    /// The pictures: at most [`MOST_VIDEOS`], each with an id of its own.
    pub videos: Vec<VideoStream>,
    /// The sound, if there is any.
    pub audio: Option<AudioConfig>,
    /// The largest payload of a packet of pictures.
    pub max_payload: DataSize,
    /// While all pictures pause: from, to.
    pub pauses: Vec<(Timestamp, Timestamp)>,
    /// The ECN codepoint of the packets.
    pub ecn: Ecn,
}

/// One of the videos of a media session.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoStream {
    /// What it is called.
    pub id: String,
    /// What makes its frames.
    pub video: VideoSpec,
    /// Its share of what the videos get, against theirs; above 0. Default 1.
    pub priority: f64,
    /// No frame is encoded while a packet has waited at the sender for longer than this.
    pub skip_after: GiveUp,
    /// What has waited at the sender for longer than this is thrown away.
    pub discard_after: GiveUp,
    /// While it pauses, besides the pauses of all: from, to.
    pub pauses: Vec<(Timestamp, Timestamp)>,
}

/// After how long of waiting something is given up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GiveUp {
    /// When the congestion control wants it.
    #[default]
    AsController,
    /// Never.
    Never,
    /// After so long.
    After(TimeDelta),
}

/// An encoder of pictures.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum VideoSpec {
    /// Packets of one size at one rate: it never adapts.
    Fixed {
        /// The rate of the payload.
        rate: DataRate,
        /// The payload of a packet.
        size: DataSize,
    },
    /// The target to the byte, after a lag; perhaps with noise in the sizes, as a Laplacian scale.
    Perfect(PerfectConfig, Option<f64>),
    /// RFC 8593 §5.
    Statistical(StatisticalConfig),
    /// RFC 8593 §6, over a scene made up.
    Trace(TraceConfig),
    /// RFC 8593 §7, over a scene made up.
    Hybrid(StatisticalConfig, TraceConfig),
}

/// What there is to send over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transfers {
    /// Always more.
    Unlimited,
    /// So much, once.
    Once(DataSize),
    /// Again and again, with pauses: RFC 8868 §5.1.
    Short {
        /// The least and the most bytes of a transfer, drawn evenly.
        sizes: (u64, u64),
        /// The mean of the exponential pauses.
        idle: TimeDelta,
        /// How many of the flow begin with a transfer; the others begin with a pause.
        starting_on: u32,
        /// Whether all go over one connection.
        persistent: bool,
    },
}

impl FlowKind {
    /// The name of the kind, as in a file.
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

    /// Its congestion control, if it has any.
    pub fn controller(&self) -> Option<String> {
        match self {
            Self::Source { .. } | Self::Paced { .. } => None,
            Self::Tcp { settings, .. } => Some(read::control_name(settings.algorithm).to_owned()),
            Self::Media(media) => Some(media.controller.name().to_owned()),
        }
    }

    /// Whether the receiver answers, so that there must be a way back.
    pub(crate) fn answers(&self) -> bool {
        matches!(self, Self::Tcp { .. } | Self::Media(_))
    }
}
