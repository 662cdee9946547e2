//! Controllers by name.

use std::{fmt, str::FromStr};

use giusto_units::{DataRate, TimeDelta};

use super::{
    Controller, Fixed,
    gcc::{
        Draft, DraftConfig, Libwebrtc, LibwebrtcConfig, ReceiverDriven, ReceiverDrivenConfig,
        thesis::{ThesisConfig, ThesisController},
    },
    scream::{
        D00Config, Rfc8298Config, ScreamD00, ScreamRfc8298,
        v2::{ScreamV2, ScreamV2Config},
    },
};

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

/// What else may be asked of a controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// How long packets should queue in the network, above 0. Default: what the controller's document recommends. Those without such a
    /// target do not heed it ([`ControllerKind::has_delay_target`]).
    pub delay_target: Option<TimeDelta>,
}

/// What the far end has to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FeedbackKind {
    /// Transport-wide feedback: when each packet arrived, in steps of 250 µs.
    TransportWide,
    /// RFC 8888: when each packet arrived, in steps of 1/1024 s, and its ECN codepoint.
    CongestionControl,
    /// draft-johansson-rmcat-scream-cc-00 §3: which of the latest 33 packets arrived, and when the highest of them did.
    ScreamDraft,
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
    /// `gcc:libwebrtc`: Google Congestion Control as libwebrtc has it, but for three constants
    /// ([`LibwebrtcConfig`], [`pacer`](Self::pacer)).
    GccLibwebrtc,
    /// `gcc:libwebrtc-literal`: the same to the letter.
    GccLibwebrtcLiteral,
    /// `gcc:draft-02`: Google Congestion Control as draft-ietf-rmcat-gcc-02 has it, with the amplification that its filter needs.
    GccDraft02,
    /// `gcc:draft-02-literal`: the same without the amplification, to the letter.
    GccDraft02Literal,
    /// `gcc:thesis`: the draft as a thesis has simulated it.
    GccThesis,
    /// `gcc:remb`: what the receiver estimates, and no more than losses permit.
    GccRemb,
    /// `scream:rfc8298`: SCReAM of RFC 8298.
    ScreamRfc8298,
    /// `scream:d00`: SCReAM as draft-johansson-rmcat-scream-cc-00 means it.
    ScreamD00,
    /// `scream:v2`: SCReAM as draft-ietf-ccwg-rfc8298bis-screamv2-01 has it.
    ScreamV2,
}

/// Why [`ControllerKind::build`] cannot fail.
const PRESET_IS_VALID: &str = "the constants of a preset are within their ranges";

/// libwebrtc's pacer without its bursts of 40 ms.
///
/// A deviation. A queue makes one train of the bursts, which libwebrtc's grouping then takes for groups of up to 100 ms: so the
/// detector has two seconds to fill its window, and the queue is full before it speaks. One packet at a time keeps the 95th
/// percentile of the queueing delay at a third on a clean link of 3 Mbit/s: 40 instead of 122 ms.
const SINGLY: PacerSettings = PacerSettings { burst: TimeDelta::ZERO };

impl ControllerKind {
    /// All there are.
    pub const ALL: [Self; 10] = [
        Self::Fixed,
        Self::GccLibwebrtc,
        Self::GccLibwebrtcLiteral,
        Self::GccDraft02,
        Self::GccDraft02Literal,
        Self::GccRemb,
        Self::GccThesis,
        Self::ScreamRfc8298,
        Self::ScreamD00,
        Self::ScreamV2,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::GccLibwebrtc => "gcc:libwebrtc",
            Self::GccLibwebrtcLiteral => "gcc:libwebrtc-literal",
            Self::GccDraft02 => "gcc:draft-02",
            Self::GccDraft02Literal => "gcc:draft-02-literal",
            Self::GccRemb => "gcc:remb",
            Self::GccThesis => "gcc:thesis",
            Self::ScreamRfc8298 => "scream:rfc8298",
            Self::ScreamD00 => "scream:d00",
            Self::ScreamV2 => "scream:v2",
        }
    }

    /// A new one, within `limits`: the most counts as no less than the least, and the start as between them.
    ///
    /// # Panics
    ///
    /// Never: the constants of each are within their ranges, which a test holds.
    pub fn build(self, limits: Limits) -> Box<dyn Controller> {
        self.build_with(limits, Options::default())
    }

    /// The same with options.
    ///
    /// | controller | what [`Options::delay_target`] takes the place of |
    /// |---|---|
    /// | `scream:rfc8298` | `QDELAY_TARGET_LO`, 100 ms (RFC 8298 §4.1.1.1); where it exceeds `QDELAY_TARGET_HI`, of that too |
    /// | `scream:d00` | `OWD_TARGET`, 80 ms (draft-johansson-rmcat-scream-cc-00 §9.1.4) |
    /// | `scream:v2` | `QDELAY_TARGET_LO`, 60 ms (draft-ietf-ccwg-rfc8298bis-screamv2-01, "Reference Window Update") |
    ///
    /// # Panics
    ///
    /// Never, as [`build`](Self::build).
    pub fn build_with(self, limits: Limits, options: Options) -> Box<dyn Controller> {
        match self {
            Self::Fixed => Box::new(Fixed::new(limits.start)),
            Self::GccLibwebrtc => {
                Box::new(Libwebrtc::new(LibwebrtcConfig::within(limits)).expect(PRESET_IS_VALID))
            }
            Self::GccLibwebrtcLiteral => {
                Box::new(Libwebrtc::new(LibwebrtcConfig::literal(limits)).expect(PRESET_IS_VALID))
            }
            Self::GccDraft02 => Box::new(Draft::new(DraftConfig::amplified(limits)).expect(PRESET_IS_VALID)),
            Self::GccDraft02Literal => {
                Box::new(Draft::new(DraftConfig::literal(limits)).expect(PRESET_IS_VALID))
            }
            Self::GccRemb => Box::new(ReceiverDriven::new(ReceiverDrivenConfig::within(limits))),
            Self::GccThesis => Box::new(ThesisController::new(ThesisConfig::default(), limits)),
            Self::ScreamRfc8298 => {
                let mut config = Rfc8298Config::within(limits);
                if let Some(target) = options.delay_target {
                    config.delay_target = target;
                    config.delay_target_most = config.delay_target_most.max(target);
                }
                Box::new(ScreamRfc8298::new(config))
            }
            Self::ScreamD00 => {
                let mut config = D00Config::within(limits);
                config.delay_target = options.delay_target.unwrap_or(config.delay_target);
                config.delay_target_most = config.delay_target_most.max(config.delay_target);
                Box::new(ScreamD00::new(config))
            }
            Self::ScreamV2 => {
                let mut config = ScreamV2Config::within(limits);
                config.delay.target = options.delay_target.unwrap_or(config.delay.target);
                Box::new(ScreamV2::new(config))
            }
        }
    }

    /// Whether it aims at a delay, which [`Options::delay_target`] can set.
    pub const fn has_delay_target(self) -> bool {
        matches!(self, Self::ScreamRfc8298 | Self::ScreamD00 | Self::ScreamV2)
    }

    /// What it has to be told.
    pub const fn feedback(self) -> FeedbackKind {
        match self {
            Self::Fixed => FeedbackKind::ReceiverReports,
            Self::GccLibwebrtc
            | Self::GccLibwebrtcLiteral
            | Self::GccDraft02
            | Self::GccDraft02Literal
            | Self::GccThesis => FeedbackKind::TransportWide,
            Self::GccRemb => FeedbackKind::ReceiverEstimate,
            Self::ScreamRfc8298 | Self::ScreamV2 => FeedbackKind::CongestionControl,
            Self::ScreamD00 => FeedbackKind::ScreamDraft,
        }
    }

    /// Whether this feedback moves it: what else it might be told says nothing to it.
    pub const fn hears(self, feedback: FeedbackKind) -> bool {
        use FeedbackKind::{
            CongestionControl, ReceiverEstimate, ReceiverReports, ScreamDraft, TransportWide,
        };
        match self {
            Self::Fixed => true,
            // Of most packets the draft's message has no arrival time of their own.
            Self::GccLibwebrtc | Self::GccLibwebrtcLiteral => !matches!(feedback, ScreamDraft),
            Self::GccDraft02
            | Self::GccDraft02Literal
            | Self::GccThesis
            | Self::ScreamRfc8298
            | Self::ScreamV2 => {
                matches!(feedback, TransportWide | CongestionControl)
            }
            Self::ScreamD00 => matches!(feedback, TransportWide | CongestionControl | ScreamDraft),
            Self::GccRemb => matches!(feedback, ReceiverEstimate | ReceiverReports),
        }
    }

    /// Whether it sends less where the receiver asks for that ([`Feedback::quench`](super::Feedback::quench)).
    pub const fn heeds_quench(self) -> bool {
        matches!(self, Self::ScreamD00)
    }

    /// When frames that wait are too old for it: where a window holds them back. `scream:d00` skips them from 100 ms on
    /// (draft-johansson-rmcat-scream-cc-00 §10), and discards what is "too old to be rendered in a meaningful way", for which the draft has
    /// no number: from 400 ms on, the delay one way that ITU-T G.114 has as the limit for planning. The others discard what is
    /// "excessively delayed" (RFC 8298 §4.1.3, without a number): from 2 s on, for which libwebrtc lets a queue last at most
    /// (`pacing_controller.cc`, `kMaxExpectedQueueLength`): where others' pacers hurry what waits, a window does not let them. Without
    /// it, an encoder whose least the window does not let out sends nothing but pieces.
    pub const fn staleness(self) -> Staleness {
        let (skip_after, discard_after) = match self {
            Self::ScreamD00 => (Some(TimeDelta::from_millis(100)), Some(TimeDelta::from_millis(400))),
            Self::ScreamRfc8298 | Self::ScreamV2 => (None, Some(TimeDelta::from_seconds(2))),
            _ => (None, None),
        };
        Staleness { skip_after, discard_after }
    }

    /// How its packets are paced.
    pub const fn pacer(self) -> PacerSettings {
        match self {
            Self::Fixed | Self::GccLibwebrtcLiteral | Self::GccRemb | Self::GccThesis => {
                PacerSettings::LIBWEBRTC
            }
            Self::GccDraft02 | Self::GccDraft02Literal => PacerSettings::GCC_DRAFT,
            // SCReAM: an interval between each packet and the next; how relaxed it is, the pacing rate says.
            Self::GccLibwebrtc | Self::ScreamRfc8298 | Self::ScreamD00 | Self::ScreamV2 => SINGLY,
        }
    }
}

/// How a controller's packets should be paced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacerSettings {
    /// Packets leave at once while what was sent and not yet paid back is less than this much time at the pacing rate; zero:
    /// one packet at a time.
    pub burst: TimeDelta,
}

impl PacerSettings {
    /// libwebrtc (`modules/pacing/pacing_controller.cc`): bursts of 40 ms.
    pub const LIBWEBRTC: Self = Self { burst: TimeDelta::from_millis(40) };
    /// draft-ietf-rmcat-gcc-02 §4: a group of packets every 5 ms.
    pub const GCC_DRAFT: Self = Self { burst: TimeDelta::from_millis(5) };
}

/// When the frames of a stream are too old (draft-johansson-rmcat-scream-cc-00 §3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Staleness {
    /// No frame is encoded while the oldest packet that waits is older than this; `None`: each is.
    pub skip_after: Option<TimeDelta>,
    /// What has waited for longer than this is discarded; `None`: it waits.
    pub discard_after: Option<TimeDelta>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::{Scenario, run_with};

    #[test]
    fn each_is_found_by_its_name_and_begins_at_the_start_rate() {
        for kind in ControllerKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            let limits = Limits::default();
            let target = kind.build(limits).target();
            assert_eq!(target.media, limits.start, "{kind}");
            assert!(target.pacing >= target.media, "{kind}");
        }
    }

    #[test]
    fn limits_out_of_order_are_put_in_order() {
        let limits = |min, start, max| {
            let [min, start, max] = [min, start, max].map(DataRate::from_bps);
            Limits { min, start, max }
        };
        let start = |kind: ControllerKind, limits| kind.build(limits).target().media.as_bps();
        for kind in ControllerKind::ALL.into_iter().filter(|&kind| kind != ControllerKind::Fixed) {
            assert_eq!(start(kind, limits(500, 100, 1000)), 500, "{kind}");
            assert_eq!(start(kind, limits(500, 5000, 1000)), 1000, "{kind}");
            assert_eq!(start(kind, limits(500, 300, 100)), 500, "{kind}");
            assert_eq!(start(kind, limits(0, 0, 0)), 0, "{kind}");
            assert_eq!(start(kind, limits(u64::MAX, u64::MAX, u64::MAX)), u64::MAX, "{kind}");
        }
    }

    /// What 95 of 100 packets wait in the queue of a clean link of 3 Mbit/s once the start is over, in ms.
    fn waits(kind: ControllerKind, options: Options) -> f64 {
        let scenario = Scenario { seconds: 40, ..Scenario::default() };
        run_with(kind.build_with(scenario.limits, options), kind, scenario).wait_p95(20.0, 40.0)
    }

    #[test]
    fn a_delay_target_shortens_or_lengthens_the_queue_where_there_is_one() {
        for kind in ControllerKind::ALL {
            let with = |ms| waits(kind, Options { delay_target: Some(TimeDelta::from_millis(ms)) });
            let (low, default, high) = (with(20), waits(kind, Options::default()), with(200));
            if kind.has_delay_target() {
                assert!(low < default && default < high, "{kind}: {low} {default} {high}");
            } else {
                assert!((low - default).abs() + (high - default).abs() < 1e-9, "{kind}");
            }
        }
    }

    #[test]
    fn the_first_scream_has_a_message_of_its_own_and_is_impatient() {
        for kind in ControllerKind::ALL {
            let is_first = kind == ControllerKind::ScreamD00;
            assert!(kind.hears(kind.feedback()), "{kind}");
            assert_eq!(kind.feedback() == FeedbackKind::ScreamDraft, is_first, "{kind}");
            assert_eq!(kind.staleness().skip_after.is_some(), is_first, "{kind}");
            let is_scream = kind.name().starts_with("scream:");
            assert_eq!(kind.staleness().discard_after.is_some(), is_scream, "{kind}");
        }
        let stale = ControllerKind::ScreamD00.staleness();
        assert_eq!(stale.skip_after, Some(TimeDelta::from_millis(100)));
        assert!(stale.discard_after > stale.skip_after);
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_are_known() {
        let error = "gcc".parse::<ControllerKind>().unwrap_err().to_string();
        assert!(error.contains("\"gcc\"") && error.contains("gcc:libwebrtc"), "{error}");
    }
}
