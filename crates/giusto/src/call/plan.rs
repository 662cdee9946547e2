//! The media of a call.

use giusto_congestion::{Algorithm, FeedbackKind};
use giusto_session::{
    call::{AudioOffer, MAX_NAME_BYTES, MediaOffer, Offer, Protection, RepairOffer, VideoOffer},
    media::{ParityRatio, RateRange},
    video::VideoCodec,
};
use giusto_sim::traffic::encoder::{AudioConfig, PerfectConfig, StatisticalConfig, TraceConfig};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::{
    flows::FORWARD_ID,
    side::Received,
    video::VideoInput,
    voice::{CLOCK, PACKET_TIME, VOICE_RATE, VoiceInput},
};
use crate::scenario::{
    FlowKind, FlowSpec, LinkSpec, MediaSpec, RepairSpec, Scenario, ScenarioError, Start, VideoSpec,
    VideoStream, controller,
};
use crate::{capture::session_info, replay::SessionInfo};

/// A call's default highest rate: that of libwebrtc for one video of 720p, `GetMaxDefaultVideoBitrateKbps` in
/// `video/config/encoder_stream_factory.cc`.
pub const DEFAULT_MAX_RATE: DataRate = DataRate::from_bps(2_500_000);

/// The lowest rate of a call's video encoder: RFC 8867 §4.3.
const MIN_VIDEO_RATE: DataRate = DataRate::from_bps(150_000);

/// Who sends media.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// The caller. Default.
    #[default]
    Forward,
    /// The listener.
    Reverse,
    /// Both.
    Both,
}

impl Direction {
    /// Whether the caller sends.
    pub const fn sends(self) -> bool {
        !matches!(self, Self::Reverse)
    }

    /// Whether the listener sends.
    pub const fn wants(self) -> bool {
        !matches!(self, Self::Forward)
    }
}

giusto_units::names!(Direction as "direction" { Forward = "forward", Reverse = "reverse", Both = "both" });

/// A model of a video encoder, by the name that it has in scenarios.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encoder {
    /// Exactly the target rate, after a lag.
    Perfect,
    /// RFC 8593 §5. Default.
    #[default]
    Statistical,
    /// RFC 8593 §6.
    Trace,
    /// RFC 8593 §7.
    Hybrid,
}

impl Encoder {
    /// The encoder with these rates, which begins at `start_rate`.
    fn video(self, limits: RateRange, start_rate: DataRate) -> VideoSpec {
        let statistical = StatisticalConfig { limits, start_rate, ..StatisticalConfig::default() };
        let trace = TraceConfig { limits, start_rate, ..TraceConfig::default() };
        match self {
            Self::Perfect => {
                VideoSpec::Perfect(PerfectConfig { limits, start_rate, ..PerfectConfig::default() }, None)
            }
            Self::Statistical => VideoSpec::Statistical(statistical),
            Self::Trace => VideoSpec::Trace(trace),
            Self::Hybrid => VideoSpec::Hybrid(statistical, trace),
        }
    }
}

giusto_units::names!(Encoder as "encoder" {
    Perfect = "perfect",
    Statistical = "statistical",
    Trace = "trace",
    Hybrid = "hybrid",
});

/// Why a call cannot be as it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A value is out of range, or two contradict each other.
    #[error(transparent)]
    Invalid(#[from] ScenarioError),
    /// The scenario has no media flow, or several.
    #[error("{0}")]
    Flow(String),
    /// The name of the controller is too long for the far end, which is to send with it.
    #[error(
        "controller {0}: its name is longer than the {MAX_NAME_BYTES} bytes that can be sent to the far end: set fewer constants"
    )]
    LongController(String),
    /// The controller is not known.
    #[error("unknown controller \"{0}\"")]
    Controller(String),
    /// The encoder model is not known to the end that is to send, or needs values that an offer does not have.
    #[error("encoder \"{0}\": this end cannot send by it: ask it for perfect, statistical, trace or hybrid")]
    Encoder(String),
    /// The feedback is not known.
    #[error("unknown feedback \"{0}\": use transport-wide, rfc8888, scream-draft, nada or remb")]
    Feedback(String),
}

/// How a call repairs lost packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Repair {
    /// Not at all.
    None,
    /// They are requested and sent again (RFC 4585, RFC 4588). Default.
    #[default]
    Nack,
    /// Parity packets, as many as the loss requires (RFC 8627).
    FlexFec,
    /// Both.
    Both,
}

giusto_units::names!(Repair as "repair" {
    None = "none",
    Nack = "nack",
    FlexFec = "flexfec",
    Both = "nack+flexfec",
});

impl From<Repair> for RepairSpec {
    fn from(repair: Repair) -> Self {
        let nack = matches!(repair, Repair::Nack | Repair::Both);
        let parity = matches!(repair, Repair::FlexFec | Repair::Both).then_some(ParityRatio::Loss);
        Self { nack, parity, ..Self::default() }
    }
}

giusto_units::defaults! {
    /// The media that one end sends.
    #[derive(Debug, Clone, PartialEq)]
    pub struct MediaPlan {
        /// Congestion controller. Default: that of scenarios.
        pub controller: Algorithm = MediaSpec::default_controller(),
        /// Feedback of the receiver; `None`: what the controller requires.
        pub feedback: Option<FeedbackKind> = None,
        /// The model of the video encoders.
        pub encoder: Encoder = Encoder::default(),
        /// Number of videos. Default 1.
        pub videos: usize = 1,
        /// Whether there is an audio stream of 20 kbit/s (RFC 8867 §4.3). Default: no.
        pub audio: bool = false,
        /// Lowest target rate, headers included; `None`: 30 kbit/s.
        pub min_rate: Option<DataRate> = None,
        /// First target rate; `None`: 300 kbit/s.
        pub start_rate: Option<DataRate> = None,
        /// Highest target rate, which the videos share.
        pub max_rate: DataRate = DEFAULT_MAX_RATE,
        /// Target of the queueing delay, of a controller that has one.
        pub delay_target: Option<TimeDelta> = None,
        /// ECN codepoint of the packets. Default: none.
        pub ecn: Ecn = Ecn::NotEct,
        /// How lost packets are repaired. Default: NACK.
        pub repair: Repair = Repair::default(),
    }
}

impl MediaPlan {
    /// The media of a flow.
    pub(crate) fn spec(&self) -> MediaSpec {
        let ids = (1..=self.videos).map(|number| VideoStream::default_id(number, self.videos));
        let audio = self.audio.then(AudioConfig::default);
        let start = self.start_rate.unwrap_or(DataRate::from_bps(300_000)).min(self.max_rate);
        let video = video(self.encoder, self.videos, start, self.max_rate);
        let mut spec =
            MediaSpec::with_videos(ids.map(|id| VideoStream::new(id, video.clone())).collect(), audio);
        spec.controller = self.controller;
        spec.feedback = self.feedback;
        spec.options.delay_target = self.delay_target;
        spec.ecn = self.ecn;
        spec.repair = self.repair.into();
        spec.limits = spec.limits_where_given([self.min_rate, self.start_rate, Some(self.max_rate)]);
        spec
    }
}

/// A video encoder that can use its part of the highest rate.
fn video(encoder: Encoder, videos: usize, start: DataRate, max: DataRate) -> VideoSpec {
    let part = |rate: DataRate| DataRate::from_bps((rate.as_bps() / videos.max(1) as u64).max(1));
    let (start, max) = (part(start), part(max));
    let min = MIN_VIDEO_RATE.min(max);
    let limits = RateRange::new(min, max).unwrap_or_default();
    encoder.video(limits, start.max(min))
}

/// A call as its caller plans it.
#[derive(Debug, Clone)]
pub struct CallPlan {
    /// The name of the session in its record.
    pub name: String,
    /// Random seed of the encoders.
    pub seed: u64,
    /// How long it lasts.
    pub duration: TimeDelta,
    /// The part at the beginning that is not measured.
    pub warmup: TimeDelta,
    /// The encoders have the random numbers of the flow with this name in a simulation.
    pub(crate) flow: String,
    pub(crate) direction: Direction,
    /// Real video that the caller sends.
    pub(crate) video: Option<VideoInput>,
    pub(crate) voice: Option<VoiceInput>,
    /// The audio that the caller receives is speech.
    wants_speech: bool,
    pub(crate) media: MediaSpec,
    /// When media flow, from the beginning of the call.
    pub(crate) flows: (Timestamp, Timestamp),
}

impl CallPlan {
    /// A call with these media, in each direction in which there are any.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if a value is out of range.
    pub fn new(
        media: &MediaPlan,
        direction: Direction,
        duration: TimeDelta,
        seed: u64,
    ) -> Result<Self, PlanError> {
        let spec = media.spec();
        check(&spec, duration)?;
        let name = spec.controller.name();
        if direction.wants() && name.len() > MAX_NAME_BYTES {
            return Err(PlanError::LongController(name.to_owned()));
        }
        Ok(Self {
            name: "call".to_owned(),
            seed,
            duration,
            warmup: TimeDelta::ZERO,
            flow: FORWARD_ID.to_owned(),
            direction,
            video: None,
            voice: None,
            wants_speech: false,
            media: spec,
            flows: (Timestamp::ZERO, Timestamp::ZERO + duration),
        })
    }

    /// What a log of this end's controller begins with; `None` if this end sends no media.
    pub fn session_info(&self) -> Option<SessionInfo> {
        self.direction.sends().then(|| session_info(&self.name, &self.media))
    }

    /// A call with the streams, the encoders, the controller, the limits and the times of a media flow of `scenario`: that of this
    /// id, or the only one. Links and other flows are not used.
    ///
    /// # Errors
    ///
    /// [`PlanError::Flow`] if there is no such flow.
    pub fn from_scenario(scenario: &Scenario, flow: Option<&str>, seed: u64) -> Result<Self, PlanError> {
        let media = scenario.flows().iter().filter_map(|flow| match &flow.kind {
            FlowKind::Media(media) => Some((flow, media)),
            _ => None,
        });
        let mut media = media.filter(|(own, _)| flow.is_none_or(|id| own.id == id));
        let missing = || match flow {
            Some(id) => format!("--flow {id}: scenario {} has no media flow of this id", scenario.name()),
            None => format!("scenario {} has no media flow: a call needs one", scenario.name()),
        };
        let (first, spec) = media.next().ok_or_else(|| PlanError::Flow(missing()))?;
        if flow.is_none() && media.next().is_some() {
            let name = scenario.name();
            return Err(PlanError::Flow(format!(
                "scenario {name} has several media flows: choose one with --flow"
            )));
        }
        let start = match first.start {
            Start::At(at) => at,
            Start::Uniform(_) => Timestamp::ZERO,
        };
        Ok(Self {
            name: scenario.name().to_owned(),
            seed,
            duration: scenario.duration(),
            warmup: scenario.warmup(),
            flow: first.id.clone(),
            direction: Direction::Forward,
            video: None,
            voice: None,
            wants_speech: false,
            media: spec.clone(),
            flows: (start, first.stop.unwrap_or(scenario.end())),
        })
    }

    /// The same with another controller; settings that it does not support are removed.
    pub fn set_controller(&mut self, controller: Algorithm) {
        self.media.set_controller(controller);
    }

    /// The same with another length.
    pub fn set_duration(&mut self, duration: TimeDelta) {
        self.duration = duration;
        self.flows.1 = Timestamp::ZERO + duration;
    }

    /// The same with real video instead of the encoder model of the first stream.
    pub fn set_video(&mut self, video: VideoInput) {
        self.media.codec = Some(video.codec());
        self.video = Some(video);
    }

    /// The same with speech as Opus instead of the model of audio.
    pub fn set_voice(&mut self, voice: VoiceInput) {
        self.request_speech();
        self.voice = Some(voice);
    }

    /// The same with real video of this codec, which the listener sends.
    pub fn request_video(&mut self, codec: VideoCodec) {
        self.media.codec = Some(codec);
    }

    /// The same with speech of the listener instead of the model of audio.
    pub fn request_speech(&mut self) {
        self.media.audio = Some(AudioConfig { rate: VOICE_RATE, packet_time: PACKET_TIME, clock: CLOCK });
        self.wants_speech = true;
    }

    /// The controller.
    pub fn controller(&self) -> Algorithm {
        self.media.controller
    }

    /// The part of the call that is measured.
    pub(crate) fn measured(&self) -> (Timestamp, Timestamp) {
        let (start, stop) = self.flows;
        (start + self.warmup, stop.min(Timestamp::ZERO + self.duration))
    }

    /// What the caller receives, if it wants anything: what it would send.
    pub(crate) fn receives(&self) -> Option<Received> {
        self.direction.wants().then(|| Received::as_sent(&self.media, self.wants_speech))
    }

    pub(crate) fn offer(&self, sources: u32, protection: Protection) -> Offer {
        // What is real of this end is to be real of the other.
        let media = || {
            let mut media = offered(&self.media);
            if let Some(audio) = &mut media.audio {
                audio.opus = self.wants_speech;
            }
            media
        };
        let mut name = self.name.clone();
        while name.len() > MAX_NAME_BYTES {
            name.pop();
        }
        Offer {
            sources,
            sends: self.direction.sends().then(media),
            wants: self.direction.wants().then(media),
            duration: Some(self.duration),
            measured: Some(<[Timestamp; 2]>::from(self.measured()).map(|at| at - Timestamp::ZERO)),
            name,
            protection,
        }
    }
}

/// The media as they are offered.
fn offered(spec: &MediaSpec) -> MediaOffer {
    let limits = spec.limits;
    let encoder = spec.videos.first().map_or("", |video| video.video.name());
    MediaOffer {
        controller: offered_name(spec.controller),
        feedback: spec.reported().name().to_owned(),
        encoder: encoder.to_owned(),
        codec: spec.codec,
        rates: [limits.min, limits.start, limits.max],
        videos: spec
            .videos
            .iter()
            .map(|video| VideoOffer { id: video.id.clone(), priority: video.priority as f32 })
            .collect(),
        audio: spec.audio.map(|AudioConfig { rate, packet_time, clock }| AudioOffer {
            rate,
            packet_time,
            clock_rate: clock,
            opus: false,
        }),
        max_payload: spec.max_payload,
        receiver_limit: spec.receiver_limit,
        ecn: spec.ecn.bits(),
        repair: RepairOffer {
            nack: spec.repair.nack,
            parity: spec.repair.parity,
            playout_deadline: spec.repair.playout_deadline,
            key_frames: spec.repair.key_frame_request(spec.codec),
        },
    }
}

/// The name of a controller that is sent to the far end; one with many constants is called `nada+tuned`.
fn offered_name(controller: Algorithm) -> String {
    let name = controller.name();
    let constants = name.find('=').and_then(|place| name.get(..place)?.rfind('+'));
    match constants.and_then(|place| name.get(..place)) {
        Some(plain) if name.len() > MAX_NAME_BYTES => format!("{plain}+tuned"),
        _ => name.to_owned(),
    }
}

/// The media that an offer describes, for the end that sends them with the named encoder and the named controller: a built-in one, or
/// one of `own`.
pub(crate) fn spec_of(
    offer: &MediaOffer,
    duration: Option<TimeDelta>,
    own: &[Algorithm],
) -> Result<MediaSpec, PlanError> {
    let unknown = || PlanError::Controller(offer.controller.clone());
    let known = Algorithm::all().chain(own.iter().copied());
    let found = known.into_iter().find(|known| known.name() == offer.controller);
    let plain = || Algorithm::read_name(&offer.controller).ok().map(|(plain, _)| plain);
    if !offer.encoder.is_empty() && offer.encoder.parse::<Encoder>().is_err() {
        return Err(PlanError::Encoder(offer.encoder.clone()));
    }
    let mut spec = described(offer, found.or_else(plain).ok_or_else(unknown)?)?;
    check(&spec, duration.unwrap_or(TimeDelta::from_seconds(1)))?;
    if found.is_none() {
        // One with constants is never freed: it is made only where all else can be served.
        spec.controller = controller(&offer.controller).map_err(|_| unknown())?;
    }
    Ok(spec)
}

/// The media that an offer describes, for the end that receives them. It needs to know their feedback, and not their controller.
pub(crate) fn received(offer: &MediaOffer, duration: Option<TimeDelta>) -> Result<Received, PlanError> {
    let name = &offer.controller;
    let built_in: Option<Algorithm> = name.parse().ok();
    let mut spec = described(offer, built_in.unwrap_or_else(MediaSpec::default_controller))?;
    if built_in.is_none() {
        let unknown = || PlanError::Controller(name.clone());
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(unknown());
        }
        // One that supports what the offer asks of the receiver stands in for it.
        let like = Algorithm::all().find(|&like| {
            spec.controller = like;
            spec.unsupported().is_empty()
        });
        spec.controller = like.ok_or_else(unknown)?;
    }
    check(&spec, duration.unwrap_or(TimeDelta::from_seconds(1)))?;
    Ok(Received { spec, controller: name.clone(), opus: offer.audio.is_some_and(|audio| audio.opus) })
}

/// The media that an offer describes, with this controller.
fn described(offer: &MediaOffer, controller: Algorithm) -> Result<MediaSpec, PlanError> {
    let feedback =
        FeedbackKind::named(&offer.feedback).ok_or_else(|| PlanError::Feedback(offer.feedback.clone()))?;
    // The end that receives need not know the encoder; the end that sends has checked it.
    let encoder = offer.encoder.parse().unwrap_or_default();
    let [min, start, max] = offer.rates;
    let model = video(encoder, offer.videos.len(), start, max);
    let videos = offer.videos.iter().map(|video| {
        VideoStream::new(video.id.clone(), model.clone()).with_priority(f64::from(video.priority))
    });
    let audio = offer.audio.map(|AudioOffer { rate, packet_time, clock_rate, .. }| AudioConfig {
        rate,
        packet_time,
        clock: clock_rate,
    });
    let mut spec = MediaSpec::with_videos(videos.collect(), audio);
    spec.controller = controller;
    spec.feedback = Some(feedback);
    spec.codec = offer.codec;
    spec.max_payload = offer.max_payload;
    spec.receiver_limit = offer.receiver_limit;
    spec.ecn = Ecn::from_bits(offer.ecn);
    spec.limits = giusto_congestion::Limits::DEFAULT.with_min(min).with_start(start).with_max(max);
    let RepairOffer { nack, parity, playout_deadline, key_frames } = offer.repair;
    spec.repair = RepairSpec { nack, parity, playout_deadline, key_frames: Some(key_frames) };
    Ok(spec)
}

/// Checks the media as a scenario's are checked.
fn check(spec: &MediaSpec, duration: TimeDelta) -> Result<(), ScenarioError> {
    let link = LinkSpec::new("path", "caller", "listener");
    let flow = FlowSpec::new("call", FlowKind::Media(spec.clone()), "caller", "listener");
    Scenario::builder("call").duration(duration).duplex(link).flow(flow).build().map(drop)
}

/// The header bytes of a datagram below RTP: IPv4 20 B (RFC 791 §3.1) or IPv6 40 B (RFC 8200 §3), UDP 8 B (RFC 768), and the
/// protection.
pub(crate) fn overhead(v6: bool, protection: Protection) -> DataSize {
    DataSize::from_bytes(if v6 { 48 } else { 28 } + protection.overhead_bytes() as u64)
}

#[cfg(test)]
mod tests {
    use giusto_congestion::{Fixed, Requirements};

    use super::*;

    /// What a caller offers to send.
    fn sent(media: &MediaPlan) -> MediaOffer {
        let plan = CallPlan::new(media, Direction::Forward, TimeDelta::from_seconds(8), 1).unwrap();
        plan.offer(0, Protection::Authenticated).sends.unwrap()
    }

    #[test]
    fn an_offer_describes_the_media_of_the_plan() {
        let media = MediaPlan { videos: 2, audio: true, ecn: Ecn::Ect1, ..MediaPlan::default() };
        let plan = CallPlan::new(&media, Direction::Both, TimeDelta::from_seconds(8), 1).unwrap();
        let offer = plan.offer(0x0100, Protection::Authenticated);
        assert_eq!((offer.sends.is_some(), offer.wants.is_some(), offer.sources), (true, true, 0x0100));
        let there = spec_of(&offer.sends.unwrap(), offer.duration, &[]).unwrap();
        let here = media.spec();
        assert_eq!((there.controller, there.limits, there.ecn), (here.controller, here.limits, here.ecn));
        assert_eq!((there.audio, there.reported()), (here.audio, here.reported()));
        let ids = |spec: &MediaSpec| spec.videos.iter().map(|video| video.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&there), ids(&here));
    }

    #[test]
    fn offers_that_cannot_be_served_are_refused_by_name() {
        let media = sent(&MediaPlan::default());
        let refused = |change: &dyn Fn(&mut MediaOffer), named: &str| {
            let mut media = media.clone();
            change(&mut media);
            let error = spec_of(&media, None, &[]).unwrap_err().to_string();
            assert!(error.contains(named), "{named}: {error}");
            media
        };
        refused(&|own| "vegas".clone_into(&mut own.controller), "vegas");
        refused(&|own| "pigeon".clone_into(&mut own.feedback), "pigeon");
        refused(&|own| own.max_payload = DataSize::ZERO, "");
        refused(&|own| own.rates = [DataRate::ZERO; 3], "");
        // What sends must know its encoder; what receives need not.
        for encoder in ["av2", "recorded", "fixed"] {
            let media = refused(&|own| encoder.clone_into(&mut own.encoder), encoder);
            assert!(received(&media, None).is_ok());
        }
        assert!(spec_of(&MediaOffer { encoder: String::new(), ..media }, None, &[]).is_ok());
    }

    #[test]
    fn constants_of_refused_offers_leave_nothing_behind() {
        let controller = "nada+kappa=0.4321".to_owned();
        let media = MediaOffer { controller, ..sent(&MediaPlan::default()) };
        let refused = [
            MediaOffer { feedback: "pigeon".to_owned(), ..media.clone() },
            MediaOffer { encoder: "av2".to_owned(), ..media.clone() },
            MediaOffer { max_payload: DataSize::ZERO, ..media.clone() },
            MediaOffer { rates: [DataRate::ZERO; 3], ..media.clone() },
        ];
        assert!(refused.iter().all(|media| spec_of(media, None, &[]).is_err()));
        assert!(!crate::scenario::is_made(&media.controller));
        let media = MediaOffer { feedback: "nada".to_owned(), ..media };
        assert_eq!(spec_of(&media, None, &[]).unwrap().controller.name(), media.controller);
        assert!(crate::scenario::is_made(&media.controller));
        let odd = MediaOffer { controller: "nada+kappa=1000".to_owned(), ..media };
        assert!(matches!(spec_of(&odd, None, &[]), Err(PlanError::Controller(_))));
    }

    #[test]
    fn an_offer_names_the_encoder_of_the_scenario() {
        let videos = [
            ("fixed", "model = \"fixed\", rate = \"400 kbit/s\""),
            ("perfect", "model = \"perfect\""),
            ("recorded", "model = \"recorded\", sizes = [3000, 1000]"),
            ("statistical", "model = \"statistical\""),
            ("trace", "model = \"trace\""),
            ("hybrid", "model = \"hybrid\""),
        ];
        for (name, video) in videos {
            let text = format!(
                "duration = \"8 s\"\n\
                 link = [{{ id = \"path\", from = \"a\", to = \"b\", rate = \"1 Mbit/s\", duplex = true }}]\n\
                 flow = [{{ id = \"call\", kind = \"media\", video = {{ {video} }} }}]"
            );
            let scenario = Scenario::parse(&text, "s.toml").unwrap();
            let plan = CallPlan::from_scenario(&scenario, None, 1).unwrap();
            assert_eq!(plan.offer(0, Protection::Authenticated).sends.unwrap().encoder, name);
        }
    }

    #[test]
    fn a_receiver_need_not_know_the_controller() {
        for kind in [FeedbackKind::TransportWide, FeedbackKind::Nada, FeedbackKind::ReceiverReports] {
            let accepted: &'static [FeedbackKind] = Box::leak(Box::new([kind]));
            let needs = Requirements::DEFAULT.with_feedback(kind, accepted);
            let own = Algorithm::custom("ours", needs, |limits, _| Box::new(Fixed::new(limits.start)));
            let offer = sent(&MediaPlan { controller: own, ..MediaPlan::default() });
            let there = received(&offer, None).unwrap();
            assert_eq!((there.controller.as_str(), there.spec.reported()), ("ours", kind));
            // It cannot send by what it does not know.
            assert!(matches!(spec_of(&offer, None, &[]), Err(PlanError::Controller(name)) if name == "ours"));
            assert_eq!(spec_of(&offer, None, &[own]).unwrap().controller, own);
            let odd = MediaOffer { controller: "\x1b[2J".to_owned(), ..offer };
            assert!(matches!(received(&odd, None), Err(PlanError::Controller(_))));
        }
    }

    #[test]
    fn the_videos_can_use_the_highest_rate() {
        for videos in [1, 3] {
            let max_rate = DataRate::from_bps(6_000_000);
            let spec = MediaPlan { videos, max_rate, ..MediaPlan::default() }.spec();
            assert_eq!(spec.limits.max, max_rate);
            let usable = spec.usable().as_bps();
            assert!((6_000_000..6_600_000).contains(&usable), "{usable}");
        }
    }

    #[test]
    fn videos_with_one_model_are_checked_as_fast_as_one() {
        let clock = giusto_net::Clock::start();
        let fastest = |videos: usize, is_of_one_model: bool| {
            let mut spec = MediaPlan { videos, encoder: Encoder::Trace, ..MediaPlan::default() }.spec();
            for (number, stream) in (1..).zip(&mut spec.videos).filter(|_| !is_of_one_model) {
                let limits = RateRange::new(DataRate::from_bps(number), DEFAULT_MAX_RATE).unwrap();
                stream.video = VideoSpec::Trace(TraceConfig { limits, ..TraceConfig::default() });
            }
            let times = (0..9).map(|_| {
                let begun = clock.now();
                check(&spec, TimeDelta::from_seconds(1)).unwrap();
                clock.now() - begun
            });
            times.min().unwrap().as_micros()
        };
        let [one, same, others] = [fastest(1, true), fastest(16, true), fastest(16, false)];
        assert!(same < 5.0 * one && others > 5.0 * one, "{one} µs, {same} µs, {others} µs");
    }
}
