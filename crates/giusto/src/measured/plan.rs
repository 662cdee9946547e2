//! Plans of streams: what to send, and how to pace it, validated once.

use std::sync::Arc;

use giusto_net::{Grouping, MESSAGE_BYTES, SEGMENTS, SleepMode, UdpSocket, driver::Flow};
use giusto_pace::{
    Bounded, BurstBound, BurstLimit, CatchUp, CyclePlan, CycleRule, HeaderLayer, IpVersion, Limits,
    PlanError, Replay, Schedule, Strategy, StrategyOptions, Unpaced,
};
use giusto_rtp::{RTP_HEADER_BYTES, voice::VoiceFormat};
use giusto_session::{
    iperf3::HEADER_BYTES,
    keys::MacKey,
    probe::{
        Content, Outgoing, RTP_CLOCK_HZ,
        payload::{PayloadContent, PayloadError, PayloadSizes, SizeLimits, SizeSource},
        voice::{StreamStart, VoiceSource},
        wire::{
            ClockIdentity, DATA_HEADER_BYTES, PacingNote, SEALED_DATA_HEADER_BYTES, StreamFormat,
            StreamRequest, StreamToken, TimeKeeping,
        },
    },
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::measured::result::RunResult;

/// The layout of datagrams with filler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The giusto header, which carries the sender's times, and filler.
    Giusto,
    /// The giusto header with its authentication, for receivers that share a key, and filler.
    Authenticated,
    /// An RTP header (RFC 3550) and filler.
    Rtp,
    /// The header of iperf3 and filler; sequence numbers of 64 bits, or of 32.
    Iperf3 {
        /// Sequence numbers have 64 bits instead of 32.
        wide_counters: bool,
    },
    /// Filler alone.
    Raw,
}

impl Layout {
    /// The bytes before the filler.
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Raw => 0,
            _ => self.smallest().0.as_bytes() as usize,
        }
    }

    /// The smallest payload, and what fills it.
    const fn smallest(self) -> (DataSize, &'static str) {
        let (bytes, content) = match self {
            Self::Giusto => (DATA_HEADER_BYTES, "giusto header"),
            Self::Authenticated => (SEALED_DATA_HEADER_BYTES, "giusto header with its authentication"),
            Self::Rtp => (RTP_HEADER_BYTES, "RTP header"),
            Self::Iperf3 { .. } => (HEADER_BYTES, "iperf3 header"),
            Self::Raw => (1, "filler"),
        };
        (DataSize::from_bytes(bytes as u64), content)
    }
}

/// What the opening of a stream gave it, if its protocol gives anything.
#[derive(Debug)]
pub(super) struct Opened {
    /// Issued by the receiver.
    pub(super) token: StreamToken,
    /// Authenticates the datagrams.
    pub(super) key: Option<MacKey>,
    /// The synchronisation source of RTP.
    pub(super) ssrc: u32,
}

impl Opened {
    /// A stream of a protocol that gives nothing.
    pub(super) const NOTHING: Self = Self { token: StreamToken(0), key: None, ssrc: 0 };
}

/// The contents of the datagrams.
#[derive(Debug, Clone)]
pub enum Media {
    /// Filler of these sizes.
    Filler(Layout, PayloadSizes),
    /// Voice as RTP. The samples, 8000 a second, are what G.711 encodes; without samples it is a tone.
    Voice(VoiceFormat, Vec<i16>),
}

/// How fast a stream is.
#[derive(Debug, Clone, Default)]
pub enum Tempo {
    /// This rate, at the plan's layer.
    Rate(DataRate),
    /// So many datagrams a second.
    PerSecond(u64),
    /// As fast as the machine can.
    Max,
    /// One datagram at each of these recorded times.
    Recorded(Arc<[TimeDelta]>),
    /// By the medium: voice has a packet time.
    #[default]
    Media,
}

giusto_units::defaults! {
    /// What to send, and how to pace it.
    #[derive(Debug, Clone)]
    pub struct StreamPlan {
        /// The contents of the datagrams.
        pub media: Media = Media::Filler(Layout::Giusto, PayloadSizes::Fixed(size)),
        /// What follows the headers instead of filler; its [sizes](PayloadContent::sizes) are those of `media`.
        pub content: Option<PayloadContent> = None,
        /// How fast the stream is.
        pub tempo: Tempo = rate.map_or(Tempo::Max, Tempo::Rate),
        /// The layer whose bytes the rate counts.
        pub layer: HeaderLayer = HeaderLayer::Payload,
        /// How departures are timed.
        pub pacing: Pacing = Pacing::default(),
        /// When sending ends; its bytes are those of the payload, whatever the layer.
        pub limits: Limits = limits,
        /// Whether fragments are forbidden: then a datagram that exceeds the path MTU ends the run.
        pub dont_fragment: bool = false,
        /// Whether the MTU of the path is found by probes (RFC 8899), before the stream and during it: then too, no datagram is fragmented.
        pub mtu_discovery: bool = false,
        /// Seed of random sizes, of filler, and of RTP's initial sequence number and timestamp.
        pub seed: u64 = 1,
    }
    /// A plan in the giusto format with one payload size; `rate` is `None` for as fast as the machine can.
    pub fn constant(rate: Option<DataRate>, size: DataSize, limits: Limits);
}

/// How departures are timed. Default: `grid`, balanced, late datagrams leave in bursts.
#[derive(Debug, Clone, Default)]
pub struct Pacing {
    /// The transmit loop.
    pub strategy: Strategy,
    /// How much CPU time the sender spends on precision. `Precise` sends one datagram at a time; `Balanced` does so up to about
    /// ten thousand a second, and above that sends groups of at most 0.1 ms; `Eco` sends groups of at most 2 ms.
    pub mode: SleepMode,
    /// Datagrams that leave together; `None`: by mode and strategy.
    pub packets_per_cycle: Option<u32>,
    /// What happens to datagrams that are late beyond the burst bound.
    pub catch_up: CatchUp,
    /// The maximum that may leave back to back to catch up; `None`: by mode.
    pub burst_bound: Option<BurstBound>,
    /// `R_max`: the fastest rate within a burst.
    pub max_burst_rate: Option<DataRate>,
    /// Relative sleeps spin instead, as the Firebind program does by default.
    pub spin: bool,
    /// The `SCHED_FIFO` priority to ask for.
    pub realtime: Option<u8>,
    /// The kernel times departures (`SO_TXTIME`) where the interface has fq or etf; elsewhere the program does.
    pub by_kernel: bool,
}

impl Pacing {
    /// The maximum that may leave back to back to catch up.
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

/// Why the parts of a plan do not fit each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamPlanError {
    /// The payload has no room for its header.
    #[error("the payload must be at least {min} to hold the {header}, found {size}")]
    PayloadTooSmall {
        /// The payload of the plan.
        size: DataSize,
        /// The smallest possible payload.
        min: DataSize,
        /// What it must hold.
        header: &'static str,
    },
    /// The payload exceeds a UDP datagram.
    #[error("the payload of a UDP datagram must be at most {max}, found {size}")]
    PayloadTooLarge {
        /// The payload of the plan.
        size: DataSize,
        /// The largest possible payload.
        max: DataSize,
    },
    /// The size is not that of a STAMP packet.
    #[error(
        "a STAMP packet must have {} bytes, or at least {} with an Extra Padding TLV (RFC 8972 §4.1), found {}",
        base.as_bytes(),
        padded.as_bytes(),
        size.as_bytes()
    )]
    StampSize {
        /// The size of the plan.
        size: DataSize,
        /// That of a base packet.
        base: DataSize,
        /// The smallest one of a padded packet.
        padded: DataSize,
    },
    /// The payload sizes cannot be drawn.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// No cycle can make the rate.
    #[error(transparent)]
    Cycle(#[from] PlanError),
}

impl StreamPlan {
    /// Validates the plan and works out its cycles, for addresses of one family.
    ///
    /// # Errors
    ///
    /// [`StreamPlanError`] where the payload has no room for its header, where no cycle can make the rate, or where the burst
    /// rate is below the rate.
    pub fn resolve(&self, ip: IpVersion) -> Result<ResolvedPlan, StreamPlanError> {
        let (body, size, rate, rule) = match &self.media {
            Media::Voice(format, samples) => {
                let on_layer = self.layer.on_wire(format.packet_size(), ip);
                let rate = DataRate::of(on_layer, format.packet_time());
                let body = Body::Voice(*format, samples.clone());
                (body, format.packet_size(), rate, CycleRule::Given(1))
            }
            Media::Filler(layout, sizes) => {
                let sizes = size_source(*layout, sizes, ip)?;
                let mean = DataSize::from_bytes(sizes.mean().round() as u64);
                let rate = match self.tempo {
                    Tempo::Rate(rate) => Some(rate),
                    Tempo::PerSecond(datagrams) => {
                        Some(DataRate::from_bps(self.layer.on_wire(mean, ip).as_bits() * datagrams))
                    }
                    _ => None,
                };
                (Body::Filler(*layout, sizes), mean, rate, self.pacing.cycle_rule())
            }
        };
        let cycle = rate.map(|rate| CyclePlan::new(rate, size, self.layer, ip, rule)).transpose()?;
        let packets_per_cycle = match (&cycle, self.pacing.packets_per_cycle) {
            (Some(cycle), _) => cycle.packets_per_cycle(),
            (None, _) if matches!(self.tempo, Tempo::Recorded(_)) => 1,
            (None, Some(packets)) => packets,
            // As many as one system call can send.
            (None, None) => {
                let datagrams = MESSAGE_BYTES as u64 / size.as_bytes().max(1);
                datagrams.clamp(1, SEGMENTS as u64) as u32
            }
        };
        let plan = ResolvedPlan { plan: self.clone(), ip, rate, size, body, cycle, packets_per_cycle };
        plan.schedule(Timestamp::ZERO, 0, 1)?;
        Ok(plan)
    }
}

/// A source of `sizes` that leave room for the header.
fn size_source(layout: Layout, sizes: &PayloadSizes, ip: IpVersion) -> Result<SizeSource, StreamPlanError> {
    let ((min, header), max) = (layout.smallest(), ip.max_payload());
    match *sizes {
        PayloadSizes::Fixed(size) if size < min => {
            Err(StreamPlanError::PayloadTooSmall { size, min, header })
        }
        PayloadSizes::Fixed(size) if size > max => Err(StreamPlanError::PayloadTooLarge { size, max }),
        _ => Ok(SizeSource::new(sizes.clone(), SizeLimits::new(min, max)?)),
    }
}

/// The contents of the datagrams, with sizes that fit.
#[derive(Debug, Clone)]
enum Body {
    Filler(Layout, SizeSource),
    Voice(VoiceFormat, Vec<i16>),
}

/// A plan whose parts fit each other.
#[derive(Debug, Clone)]
pub struct ResolvedPlan {
    plan: StreamPlan,
    ip: IpVersion,
    rate: Option<DataRate>,
    size: DataSize,
    body: Body,
    /// `None` where no rate sets a period.
    cycle: Option<CyclePlan>,
    packets_per_cycle: u32,
}

impl ResolvedPlan {
    /// The plan as requested.
    pub fn plan(&self) -> &StreamPlan {
        &self.plan
    }

    /// The rate at the plan's layer; `None` for as fast as the machine can, and for recorded times.
    pub fn rate(&self) -> Option<DataRate> {
        self.rate
    }

    /// The UDP payload of each datagram, or its mean where it varies.
    pub fn size(&self) -> DataSize {
        self.size
    }

    /// Whether its datagrams have room for authentication, if they are of the giusto format.
    pub(super) fn has_room_for_keys(&self) -> bool {
        !matches!(self.body, Body::Filler(Layout::Giusto, _))
    }

    /// The header bytes of a datagram that the rate includes.
    pub(super) fn header(&self) -> DataSize {
        self.plan.layer.on_wire(self.size, self.ip).saturating_sub(self.size)
    }

    /// The time from one cycle to the next; `None` where no rate sets it.
    pub fn period(&self) -> Option<TimeDelta> {
        self.cycle.as_ref().map(CyclePlan::period)
    }

    /// How many datagrams the limits let it send, where they say; about so many where sizes vary.
    pub(super) fn datagrams(&self) -> Option<u64> {
        let limits = self.plan.limits;
        let on_layer = (self.size + self.header()).as_bits().max(1) as f64;
        let by_time = limits
            .duration
            .zip(self.rate)
            .map(|(duration, rate)| (duration.as_seconds() * rate.as_bps() as f64 / on_layer).ceil() as u64);
        let by_size = limits.size.map(|size| size.as_bytes().div_ceil(self.size.as_bytes().max(1)));
        [by_time, limits.packets, by_size].into_iter().flatten().min()
    }

    /// Why a stream ended that neither failed nor was stopped; `given` were sent, or not taken by the system.
    pub(super) fn end(&self, given: u64, skipped: u64) -> &'static str {
        // These do not owe what they were too late for: nothing is skipped.
        let drifts = [Strategy::SendSleep, Strategy::SendSleepDeficit, Strategy::Dt0, Strategy::Dt1];
        let is_short = |due: u64| (given as f64) < 0.99 * due as f64;
        if skipped > 0 {
            "time over, datagrams skipped"
        } else if drifts.contains(&self.plan.pacing.strategy) && self.datagrams().is_some_and(is_short) {
            "time over before all were sent"
        } else {
            "all sent"
        }
    }

    /// In how many IP packets each datagram crosses a link with this MTU; `None` where the sizes vary.
    pub(super) fn fragments(&self, mtu: DataSize) -> Option<u64> {
        let varies =
            matches!(&self.plan.media, Media::Filler(_, sizes) if !matches!(sizes, PayloadSizes::Fixed(_)));
        if varies { None } else { self.ip.fragments(self.size, mtu) }
    }

    /// Stream `index` of `streams`, whose starts are spread over one period.
    pub(super) fn flow<'a>(
        &self,
        socket: &'a UdpSocket,
        opened: Opened,
        start: Timestamp,
        index: usize,
        streams: usize,
    ) -> Result<Flow<'a>, PlanError> {
        let pacing = &self.plan.pacing;
        // Datagrams are grouped only where they leave together by design, in a mode that permits it.
        let grouped = self.packets_per_cycle > 1
            && pacing.mode != SleepMode::Precise
            && (pacing.strategy == Strategy::Grid || self.rate.is_none());
        Ok(Flow {
            schedule: self.schedule(start, index, streams)?,
            outgoing: self.outgoing(opened, index),
            socket,
            to: None,
            grouping: if grouped { Grouping::Offload } else { Grouping::Each },
            spin: pacing.spin,
            layer: self.plan.layer,
            ip: self.ip,
            period: self.period(),
            launch: None,
            reports: None,
        })
    }

    fn schedule(
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
            let options = StrategyOptions::default()
                .with_start(start)
                .with_catch_up(pacing.catch_up)
                .with_burst_bound(pacing.burst_bound())
                .with_r_max(pacing.max_burst_rate);
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
        Ok(Box::new(Bounded::new(schedule, packet_size, self.limits().with_start(start))))
    }

    /// The limits, with that of the payload as one of the bytes that the schedule counts; where sizes vary, headers are those of the
    /// mean.
    fn limits(&self) -> Limits {
        let limits = self.plan.limits;
        let Some(payload) = limits.size else { return limits };
        let datagrams = payload.as_bytes().div_ceil(self.size.as_bytes().max(1));
        limits.with_size(payload + self.header() * datagrams)
    }

    fn keeping(&self) -> TimeKeeping {
        match (&self.plan.tempo, self.rate) {
            (Tempo::Recorded(_), _) => TimeKeeping::Recorded,
            (_, Some(_)) => TimeKeeping::Strategy(self.plan.pacing.strategy),
            (_, None) => TimeKeeping::Max,
        }
    }

    /// The announcement of the stream to the receiver.
    pub(super) fn request(&self, ssrc: Option<u32>) -> StreamRequest {
        let rtp = |clock_rate_hz, voice| StreamFormat::Rtp { clock_rate_hz, voice };
        let (format, size, gap) = match &self.body {
            Body::Filler(layout, sizes) => {
                let format = match layout {
                    Layout::Giusto | Layout::Authenticated => StreamFormat::Giusto,
                    Layout::Rtp => rtp(RTP_CLOCK_HZ, None),
                    Layout::Iperf3 { .. } | Layout::Raw => StreamFormat::Raw,
                };
                (format, sizes.is_fixed(), None)
            }
            Body::Voice(format, _) => {
                let profile = format.profile();
                (rtp(profile.clock_rate(), Some(profile)), Some(self.size), Some(format.packet_time()))
            }
        };
        StreamRequest {
            format,
            rate_bps: self.rate.map(DataRate::as_bps),
            layer: self.plan.layer,
            size,
            gap,
            packets: self.plan.limits.packets,
            pacing: PacingNote {
                keeping: self.keeping(),
                packets_per_cycle: self.packets_per_cycle,
                period: self.period(),
            },
            reverse: None,
            ssrc: ssrc.filter(|_| matches!(format, StreamFormat::Rtp { .. })),
            // Set when the stream is opened.
            clock: ClockIdentity::default(),
        }
    }

    fn outgoing(&self, opened: Opened, index: usize) -> Outgoing {
        let seed = self.plan.seed.wrapping_add(index as u64);
        let mut rng = StdRng::seed_from_u64(seed);
        let start = StreamStart { sequence: rng.random(), timestamp: rng.random(), ssrc: opened.ssrc };
        let content = match self.body.clone() {
            Body::Filler(Layout::Giusto | Layout::Authenticated, sizes) => {
                Content::Giusto { token: opened.token, key: opened.key, sizes }
            }
            Body::Filler(Layout::Rtp, sizes) => {
                let first = Content::rtp_header(start.sequence, start.timestamp, start.ssrc);
                Content::Rtp { first, sizes }
            }
            Body::Filler(Layout::Iperf3 { wide_counters }, sizes) => Content::Iperf3 { wide_counters, sizes },
            Body::Filler(Layout::Raw, sizes) => Content::Raw { sizes },
            Body::Voice(format, samples) => {
                // Without samples it is a tone.
                let source = VoiceSource::with_audio(format, start, &samples)
                    .unwrap_or_else(|_| VoiceSource::new(format, start));
                Content::Voice(Box::new(source))
            }
        };
        let mut outgoing = Outgoing::new(content, seed).with_payload(self.plan.content.clone());
        outgoing.prepare(self.packets_per_cycle);
        outgoing
    }

    /// The fields of a result that the plan alone determines.
    pub(super) fn blank_result(&self) -> RunResult {
        RunResult {
            // The mean where it varies.
            size_bytes: Some(self.size.as_bytes()),
            mode: Some(self.plan.pacing.mode.to_string()),
            burst_bound: Some(self.plan.pacing.burst_bound().to_string()),
            ..RunResult::requested(&self.request(None))
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_pace::Step;

    use super::*;

    fn resolve(layout: Layout, bytes: u64, burst_rate: Option<u64>) -> Result<ResolvedPlan, StreamPlanError> {
        let sizes = PayloadSizes::Fixed(DataSize::from_bytes(bytes));
        let rate = Some(DataRate::from_bps(1_000_000));
        let mut plan = StreamPlan::constant(rate, DataSize::ZERO, Limits::default());
        plan.media = Media::Filler(layout, sizes);
        plan.pacing.max_burst_rate = burst_rate.map(DataRate::from_bps);
        plan.resolve(IpVersion::V4)
    }

    #[test]
    fn a_payload_holds_its_header_and_fits_a_datagram() {
        // 40 B and 56 B as in the wire format, 12 B as in RFC 3550 §5.1, 65 535 − 20 − 8 as in RFC 791 and RFC 768.
        let iperf3 = Layout::Iperf3 { wide_counters: false };
        let layouts = [Layout::Giusto, Layout::Authenticated, Layout::Rtp, iperf3, Layout::Raw];
        for (layout, min) in layouts.into_iter().zip([40, 56, 12, 16, 1]) {
            assert!(resolve(layout, min, None).is_ok() && resolve(layout, 65_507, None).is_ok());
            let error = resolve(layout, min - 1, None).unwrap_err();
            assert!(matches!(error, StreamPlanError::PayloadTooSmall { .. }), "{error}");
            let error = resolve(layout, 65_508, None).unwrap_err();
            assert!(matches!(error, StreamPlanError::PayloadTooLarge { .. }), "{error}");
        }
    }

    #[test]
    fn a_burst_rate_is_not_below_the_rate() {
        assert!(resolve(Layout::Giusto, 200, Some(1_000_000)).is_ok());
        let error = resolve(Layout::Giusto, 200, Some(999_999)).unwrap_err();
        assert!(matches!(error, StreamPlanError::Cycle(PlanError::BurstRateTooLow { .. })), "{error}");
    }

    #[test]
    fn bytes_to_send_are_payload_at_every_layer() {
        for layer in HeaderLayer::ALL {
            // With a payload of 10 B, frames are padded.
            for (size, bytes, expected) in [(1200, 120_000, 100), (1200, 120_001, 101), (10, 995, 100)] {
                let limits = Limits::default().with_size(DataSize::from_bytes(bytes));
                let sizes = PayloadSizes::Fixed(DataSize::from_bytes(size));
                let mut plan =
                    StreamPlan::constant(Some(DataRate::from_bps(1_000_000)), DataSize::ZERO, limits);
                (plan.media, plan.layer) = (Media::Filler(Layout::Raw, sizes), layer);
                let plan = plan.resolve(IpVersion::V4).unwrap();
                let mut schedule = plan.schedule(Timestamp::ZERO, 0, 1).unwrap();
                let (mut now, mut sent) = (Timestamp::ZERO, 0);
                loop {
                    match schedule.next(now) {
                        Step::Send(cycle) => {
                            sent += cycle.packets;
                            let on_wire = layer.on_wire(plan.size(), IpVersion::V4);
                            schedule.on_sent(now, on_wire * u64::from(cycle.packets));
                        }
                        Step::SleepUntil(at) => now = at,
                        Step::Done => break,
                        step => panic!("{step:?}"),
                    }
                }
                assert_eq!(sent, expected, "{layer} {size}");
            }
        }
    }

    #[test]
    fn a_stream_that_was_too_slow_is_not_all_sent() {
        let end = |strategy, given, skipped| {
            let limits = Limits::default().with_duration(TimeDelta::from_seconds(10));
            let size = DataSize::from_bytes(200);
            let mut plan = StreamPlan::constant(Some(DataRate::from_bps(1_000_000)), size, limits);
            plan.pacing.strategy = strategy;
            plan.resolve(IpVersion::V4).unwrap().end(given, skipped)
        };
        // 6250 are due in 10 s.
        for strategy in [Strategy::SendSleep, Strategy::Dt1, Strategy::Grid] {
            assert_eq!(end(strategy, 6250, 0), "all sent");
        }
        assert_eq!(end(Strategy::Dt1, 6000, 0), "time over before all were sent");
        assert_eq!(end(Strategy::Grid, 6000, 250), "time over, datagrams skipped");
    }

    #[test]
    fn the_plan_sets_cycles_and_the_blank_result() {
        let result = resolve(Layout::Giusto, 200, None).unwrap().blank_result();
        assert_eq!((result.strategy.as_str(), result.mode.as_deref()), ("grid", Some("balanced")));
        assert_eq!((result.packets_per_cycle, result.period_ns), (Some(1), Some(1_600_000)));
    }
}
