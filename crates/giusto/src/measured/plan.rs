//! What is to be sent, and how time is kept: everything that a person chose, checked once.

use std::{fmt, str::FromStr, sync::Arc};

use giusto_net::{Grouping, MESSAGE_BYTES, SEGMENTS, SleepMode, SleeperConfig};
use giusto_pace::{
    Bounded, BurstBound, BurstLimit, CatchUp, CyclePlan, CycleRule, HeaderLayer, IpVersion, Limits,
    PlanError, Replay, Schedule, Strategy, StrategyOptions, Unpaced,
};
use giusto_rtp::{RTP_HEADER_BYTES, voice::VoiceFormat};
use giusto_session::probe::{
    Content, Outgoing, RTP_CLOCK_HZ,
    payload::{PayloadSizes, SizeLimits, SizeSource},
    voice::{StreamStart, VoiceSource},
    wire::{
        ClockIdentity, DATA_HEADER_BYTES, PacingNote, StreamFormat, StreamRequest, StreamToken, TimeKeeping,
    },
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::error::UsageError;

/// Precision against processor time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// One datagram at a time, each as near to its moment as this machine can; spins where sleeping is too coarse.
    Precise,
    /// One datagram at a time up to some ten thousand a second; above, groups that span at most 0.1 ms.
    #[default]
    Balanced,
    /// Groups that span at most 2 ms, and no spinning.
    Eco,
}

impl Mode {
    /// All modes, most precise first.
    pub const ALL: [Self; 3] = [Self::Precise, Self::Balanced, Self::Eco];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Precise => "precise",
            Self::Balanced => "balanced",
            Self::Eco => "eco",
        }
    }

    /// The time that the datagrams of one group may span: this is the burst that the mode permits while on time.
    pub const fn group(self) -> TimeDelta {
        match self {
            Self::Precise => TimeDelta::ZERO,
            Self::Balanced => TimeDelta::from_micros(100),
            Self::Eco => TimeDelta::from_millis(2),
        }
    }

    /// The most that may leave back to back to catch up after a delay.
    pub const fn burst_bound(self) -> BurstBound {
        match self {
            Self::Precise => BurstBound::Packets(1),
            Self::Balanced => BurstBound::Time(TimeDelta::from_micros(500)),
            Self::Eco => BurstBound::Time(TimeDelta::from_millis(10)),
        }
    }

    const fn sleep(self) -> SleepMode {
        match self {
            Self::Precise => SleepMode::Precise,
            Self::Balanced => SleepMode::Balanced,
            Self::Eco => SleepMode::Eco,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;
    /// Reads a [name](Self::name).
    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| format!("no mode is called \"{text}\": choose precise, balanced or eco"))
    }
}

/// What stands in the datagrams.
#[derive(Debug, Clone)]
pub enum Media {
    /// Our own format, which carries the sender's times.
    Giusto(PayloadSizes),
    /// RTP with filler.
    Rtp(PayloadSizes),
    /// Filler alone.
    Raw(PayloadSizes),
    /// Voice as RTP; the samples are what G.711 says, 8000 a second, a tone where there are none.
    Voice(VoiceFormat, Vec<i16>),
}

/// How fast a stream is.
#[derive(Debug, Clone, Default)]
pub enum Tempo {
    /// At this rate at the plan's layer.
    Rate(DataRate),
    /// As fast as the machine can.
    Max,
    /// As recorded: one datagram at each of these moments.
    Recorded(Arc<[TimeDelta]>),
    /// As the medium says: a voice has a packet time.
    #[default]
    Media,
}

/// What is to be sent, and how time is kept.
#[derive(Debug, Clone)]
pub struct StreamPlan {
    /// What stands in the datagrams.
    pub media: Media,
    /// How fast.
    pub tempo: Tempo,
    /// Which headers the rate counts.
    pub layer: HeaderLayer,
    /// How time is kept.
    pub pacing: Pacing,
    /// When sending ends.
    pub limits: Limits,
    /// Seed of drawn sizes, filler and RTP's first numbers.
    pub seed: u64,
}

/// How time is kept.
#[derive(Debug, Clone)]
pub struct Pacing {
    /// The transmit loop.
    pub strategy: Strategy,
    /// Precision against processor time.
    pub mode: Mode,
    /// Datagrams that leave together; nothing: as mode and strategy say.
    pub packets_per_cycle: Option<u32>,
    /// What happens to datagrams that are late beyond the burst bound.
    pub catch_up: CatchUp,
    /// What may leave back to back to catch up; nothing: as the mode says.
    pub burst_bound: Option<BurstBound>,
    /// `R_max`: what leaves together leaves no faster than this.
    pub max_burst_rate: Option<DataRate>,
    /// Relative sleeps are spun, as the Firebind program does by default.
    pub spin: bool,
    /// `SCHED_FIFO` priority to ask for.
    pub realtime: Option<u8>,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            strategy: Strategy::Grid,
            mode: Mode::Balanced,
            packets_per_cycle: None,
            catch_up: CatchUp::Burst,
            burst_bound: None,
            max_burst_rate: None,
            spin: false,
            realtime: None,
        }
    }
}

impl Pacing {
    /// How a sleeper for this is set up.
    pub fn sleeper(&self) -> SleeperConfig {
        SleeperConfig {
            mode: self.mode.sleep(),
            realtime_priority: self.realtime,
            ..SleeperConfig::default()
        }
    }

    /// What may leave back to back to catch up.
    pub fn burst_bound(&self) -> BurstBound {
        self.burst_bound.unwrap_or(self.mode.burst_bound())
    }

    fn cycle_rule(&self) -> CycleRule {
        match (self.packets_per_cycle, self.strategy) {
            (Some(packets), _) => CycleRule::Given(packets),
            (None, Strategy::Grid) => CycleRule::MaxPeriod(self.mode.group()),
            (None, _) => CycleRule::default(),
        }
    }
}

impl StreamPlan {
    /// A plan in our own format with one payload size.
    pub fn constant(rate: Option<DataRate>, size: DataSize, limits: Limits) -> Self {
        Self {
            media: Media::Giusto(PayloadSizes::Fixed(size)),
            tempo: rate.map_or(Tempo::Max, Tempo::Rate),
            layer: HeaderLayer::Payload,
            pacing: Pacing::default(),
            limits,
            seed: 1,
        }
    }

    /// The plan in all details, for addresses of one family.
    ///
    /// # Errors
    ///
    /// [`UsageError`] where the parts do not fit each other: a payload that has no room for its header, a rate that no cycle
    /// can make, a burst rate below the rate.
    pub fn resolve(&self, ip: IpVersion) -> Result<ResolvedPlan, UsageError> {
        let unfit = |error: PlanError| UsageError::new(error.to_string());
        let (sizes, size, rate, rule) = match &self.media {
            Media::Voice(format, _) => {
                let on_layer = self.layer.on_wire(format.packet_size(), ip);
                let rate = DataRate::of(on_layer, format.packet_time());
                (None, format.packet_size(), rate, CycleRule::Given(1))
            }
            Media::Giusto(sizes) | Media::Rtp(sizes) | Media::Raw(sizes) => {
                let sizes = self.within_limits(sizes, ip)?;
                let mean = DataSize::from_bytes(sizes.mean().round() as u64);
                let rate = match self.tempo {
                    Tempo::Rate(rate) => Some(rate),
                    Tempo::Max | Tempo::Recorded(_) | Tempo::Media => None,
                };
                (Some(sizes), mean, rate, self.pacing.cycle_rule())
            }
        };
        let cycle =
            rate.map(|rate| CyclePlan::new(rate, size, self.layer, ip, rule)).transpose().map_err(unfit)?;
        let packets_per_cycle = match (&cycle, self.pacing.packets_per_cycle) {
            (Some(cycle), _) => cycle.packets_per_cycle(),
            (None, _) if matches!(self.tempo, Tempo::Recorded(_)) => 1,
            (None, Some(packets)) => packets,
            // As many as one message to the system holds.
            (None, None) => {
                let held = MESSAGE_BYTES as u64 / size.as_bytes().max(1);
                held.clamp(1, SEGMENTS as u64) as u32
            }
        };
        let plan = ResolvedPlan { plan: self.clone(), ip, rate, size, sizes, cycle, packets_per_cycle };
        plan.schedule(Timestamp::ZERO, 0, 1).map_err(unfit)?;
        Ok(plan)
    }

    /// A source of these sizes that leaves room for the header.
    fn within_limits(&self, sizes: &PayloadSizes, ip: IpVersion) -> Result<SizeSource, UsageError> {
        let (header, what, mend) = match &self.media {
            Media::Giusto(_) => (DATA_HEADER_BYTES, "our header", ", or send --raw"),
            Media::Rtp(_) => (RTP_HEADER_BYTES, "the RTP header", ""),
            Media::Raw(_) | Media::Voice(..) => (1, "anything", ""),
        };
        let (least, most) = (DataSize::from_bytes(header as u64), ip.max_payload());
        if let PayloadSizes::Fixed(size) = sizes {
            if *size < least {
                return Err(UsageError::new(format!(
                    "--size {}: the payload has no room for {what}, which needs {least}: use --size {} or more{mend}",
                    size.as_bytes(),
                    least.as_bytes()
                )));
            }
            if *size > most {
                return Err(UsageError::new(format!(
                    "--size {}: a UDP datagram carries at most {most}: use --size {} or less",
                    size.as_bytes(),
                    most.as_bytes()
                )));
            }
        }
        let limits = SizeLimits::new(least, most).map_err(|error| UsageError::new(error.to_string()))?;
        Ok(SizeSource::new(sizes.clone(), limits))
    }
}

/// A plan whose parts fit each other.
#[derive(Debug, Clone)]
pub struct ResolvedPlan {
    plan: StreamPlan,
    ip: IpVersion,
    rate: Option<DataRate>,
    size: DataSize,
    /// Nothing for voice, whose codec sets them.
    sizes: Option<SizeSource>,
    /// Nothing where no rate sets a period.
    cycle: Option<CyclePlan>,
    packets_per_cycle: u32,
}

impl ResolvedPlan {
    /// As it was asked for.
    pub fn plan(&self) -> &StreamPlan {
        &self.plan
    }

    /// The rate at the plan's layer; nothing: as fast as the machine can.
    pub fn rate(&self) -> Option<DataRate> {
        self.rate
    }

    /// The address family.
    pub fn ip(&self) -> IpVersion {
        self.ip
    }

    /// The UDP payload of each datagram, or its mean where it varies.
    pub fn size(&self) -> DataSize {
        self.size
    }

    /// Datagrams that leave together.
    pub fn packets_per_cycle(&self) -> u32 {
        self.packets_per_cycle
    }

    /// The time from one cycle to the next, where there is one.
    pub fn period(&self) -> Option<TimeDelta> {
        self.cycle.as_ref().map(CyclePlan::period)
    }

    /// How the datagrams of one cycle are handed to the system: grouped only where they leave together by design, in a mode that
    /// permits it.
    pub fn grouping(&self) -> Grouping {
        let grouped = self.packets_per_cycle() > 1
            && self.plan.pacing.mode != Mode::Precise
            && (self.plan.pacing.strategy == Strategy::Grid || self.rate.is_none());
        if grouped { Grouping::Offload } else { Grouping::Each }
    }

    /// The transmit loop of stream `index` of `streams`, whose starts are spread over one period.
    ///
    /// # Errors
    ///
    /// [`PlanError`] where the burst rate is below the rate; a plan that was [resolved](StreamPlan::resolve) has none.
    pub fn schedule(
        &self,
        start: Timestamp,
        index: usize,
        streams: usize,
    ) -> Result<Box<dyn Schedule>, PlanError> {
        let phase = self.period().map_or(TimeDelta::ZERO, |period| {
            TimeDelta::from_seconds_f64(period.as_seconds() * index as f64 / streams.max(1) as f64)
        });
        let start = start + phase;
        let pacing = &self.plan.pacing;
        let (schedule, packet_size) = if let Some(cycle) = &self.cycle {
            let options = StrategyOptions {
                start: Some(start),
                catch_up: pacing.catch_up,
                burst_bound: pacing.burst_bound(),
                r_max: pacing.max_burst_rate,
                ..StrategyOptions::default()
            };
            (pacing.strategy.build(cycle, options)?, cycle.size_on_layer())
        } else {
            let unplanned: Box<dyn Schedule> = match &self.plan.tempo {
                Tempo::Recorded(departures) => Box::new(Replay::new(Arc::clone(departures), Some(start))),
                _ => Box::new(Unpaced::new(self.packets_per_cycle, Some(start))),
            };
            let schedule = match pacing.max_burst_rate {
                Some(r_max) => Box::new(BurstLimit::new(unplanned, r_max)?),
                None => unplanned,
            };
            (schedule, self.plan.layer.on_wire(self.size, self.ip))
        };
        let limits = Limits { start: Some(start), ..self.plan.limits };
        Ok(Box::new(Bounded::new(schedule, packet_size, limits)))
    }

    /// How time is kept, for who is told of it.
    pub fn keeping(&self) -> TimeKeeping {
        match (&self.plan.tempo, self.rate) {
            (Tempo::Recorded(_), _) => TimeKeeping::Recorded,
            (_, Some(_)) => TimeKeeping::Strategy(self.plan.pacing.strategy),
            (_, None) => TimeKeeping::Max,
        }
    }

    /// What is said to the receiver.
    pub fn request(&self, clock: ClockIdentity) -> StreamRequest {
        let (format, gap) = match &self.plan.media {
            Media::Giusto(_) => (StreamFormat::Giusto, None),
            Media::Raw(_) => (StreamFormat::Raw, None),
            Media::Rtp(_) => (StreamFormat::Rtp { clock_rate_hz: RTP_CLOCK_HZ, voice: None }, None),
            Media::Voice(format, _) => {
                let profile = format.profile();
                let format_on_wire =
                    StreamFormat::Rtp { clock_rate_hz: profile.clock_rate(), voice: Some(profile) };
                (format_on_wire, Some(format.packet_time()))
            }
        };
        let size = self.sizes.as_ref().map_or(Some(self.size), SizeSource::is_fixed);
        StreamRequest {
            format,
            rate_bps: self.rate.map(DataRate::as_bps),
            layer: self.plan.layer,
            size,
            gap,
            pacing: PacingNote {
                keeping: self.keeping(),
                packets_per_cycle: self.packets_per_cycle,
                period: self.period(),
            },
            clock,
        }
    }

    /// The datagrams of stream `index`.
    pub fn outgoing(&self, token: StreamToken, index: usize) -> Outgoing {
        let seed = self.plan.seed.wrapping_add(index as u64);
        let mut rng = StdRng::seed_from_u64(seed);
        let start = StreamStart { sequence: rng.random(), timestamp: rng.random(), ssrc: rng.random() };
        let content = match (&self.plan.media, self.sizes.clone()) {
            (Media::Giusto(_), Some(sizes)) => Content::Giusto { token, sizes },
            (Media::Rtp(_), Some(sizes)) => Content::Rtp {
                first: Content::rtp_header(start.sequence, start.timestamp, start.ssrc),
                sizes,
            },
            (Media::Raw(_), Some(sizes)) => Content::Raw { sizes },
            (Media::Voice(format, samples), _) => {
                // Without samples it is a tone.
                let source = VoiceSource::with_audio(*format, start, samples)
                    .unwrap_or_else(|_| VoiceSource::new(*format, start));
                Content::Voice(Box::new(source))
            }
            (Media::Giusto(_) | Media::Rtp(_) | Media::Raw(_), None) => {
                unreachable!("only voice is resolved without sizes")
            }
        };
        let mut outgoing = Outgoing::new(content, seed);
        outgoing.prepare(self.packets_per_cycle);
        outgoing
    }
}
