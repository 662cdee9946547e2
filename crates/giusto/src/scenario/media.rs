//! Adaptive media: what its sources are made of, what it can use, and whether it can be.

use giusto_congestion::{ControllerKind, FeedbackKind, Limits};
use giusto_session::media::{DEFAULT_MAX_PAYLOAD, RateRange};
use giusto_sim::{
    random::{self, Random},
    traffic::encoder::{
        Audio, AudioConfig, Cbr, FrameRate, HybridEncoder, MediaSource, Noisy, PerfectEncoder, SourceError,
        StatisticalConfig, StatisticalEncoder, SyntheticScene, TraceEncoder, TraceLadder,
    },
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::{GiveUp, MediaSpec, VideoSpec, VideoStream, check::named};

/// The most videos of one flow.
pub const MOST_VIDEOS: usize = 16;

/// What the sound is called among the streams of a flow.
pub(crate) const AUDIO_ID: &str = "audio";

/// Between what a priority lies: a share beyond these is all or nothing, and what cannot be added up is none.
const PRIORITIES: (f64, f64) = (0.001, 1000.0);

/// Within what a delay can be aimed at: below, the clocks of feedback tell nothing (RFC 8888 §3.1: 1/1024 s).
const DELAY_TARGETS: (TimeDelta, TimeDelta) = (TimeDelta::from_millis(1), TimeDelta::from_seconds(10));

/// What each packet of media has besides its payload: IPv4 20 B (RFC 791 §3.1), UDP 8 B (RFC 768), RTP 12 B (RFC 3550 §5.1) and a
/// header extension of one element, padded, 8 B (RFC 8285 §4.2).
pub(crate) const MEDIA_HEADERS: DataSize = DataSize::from_bytes(48);

/// The largest payload that a packet may have: with its headers it still fits into a datagram.
const LARGEST_PAYLOAD: DataSize = DataSize::from_bytes(65_000);

/// The controller of a flow that names none, once it is known by this name.
const DEFAULT_CONTROLLER: &str = "gcc:libwebrtc";

/// What a flow is given that its controller cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// Feedback that it does not hear.
    Feedback(FeedbackKind),
    /// A delay to aim at: it aims at none.
    DelayTarget,
    /// A limit that its feedback cannot ask for.
    ReceiverLimit,
}

impl Default for VideoSpec {
    /// The pictures of RFC 8867 §4.3: 150 kbit/s to 1.5 Mbit/s at 30 Hz, by the model of RFC 8593 §5.
    fn default() -> Self {
        Self::Statistical(StatisticalConfig::default())
    }
}

impl VideoSpec {
    /// What makes its frames, from `start` on.
    ///
    /// # Errors
    ///
    /// [`SourceError`] names what is out of range.
    pub(crate) fn source(
        &self,
        start: Timestamp,
        mut random: Random,
    ) -> Result<Box<dyn MediaSource>, SourceError> {
        Ok(match *self {
            Self::Fixed { rate, size } => Box::new(Cbr::new(rate, size, start)?),
            Self::Perfect(config, None) => Box::new(PerfectEncoder::new(config, start)?),
            Self::Perfect(config, Some(scale)) => {
                Box::new(Noisy::new(PerfectEncoder::new(config, start)?, scale, random)?)
            }
            Self::Statistical(config) => Box::new(StatisticalEncoder::new(config, start, random)?),
            Self::Trace(config) => {
                let ladder = scene(config.limits, self.frame_rate(), &mut random)?;
                Box::new(TraceEncoder::new(config, ladder, start)?)
            }
            Self::Hybrid(config, trace) => {
                let ladder = scene(config.limits, self.frame_rate(), &mut random)?;
                Box::new(HybridEncoder::new(config, ladder, trace.skip_frames, start, random)?)
            }
        })
    }

    fn frame_rate(&self) -> FrameRate {
        match self {
            Self::Perfect(config, _) => config.frame_rate,
            Self::Statistical(config) | Self::Hybrid(config, _) => config.frame_rate,
            Self::Fixed { .. } | Self::Trace(_) => FrameRate::HZ_30,
        }
    }

    /// The most payload that it makes, and how many frames in a second it makes of it.
    fn most(&self) -> (DataRate, f64) {
        let limits = match *self {
            Self::Fixed { rate, size } => {
                return (rate, rate.as_bps() as f64 / (size.as_bits().max(1)) as f64);
            }
            Self::Perfect(config, _) => config.limits,
            Self::Statistical(config) | Self::Hybrid(config, _) => config.limits,
            Self::Trace(config) => config.limits,
        };
        (limits.max(), self.frame_rate().as_hertz())
    }
}

/// A scene made up. Frames at rates between the two are interpolated, which for a made-up scene is exact.
fn scene(limits: RateRange, frame_rate: FrameRate, random: &mut Random) -> Result<TraceLadder, SourceError> {
    let mut rates = vec![limits.min(), limits.max()];
    rates.dedup();
    TraceLadder::synthetic(frame_rate, &rates, SyntheticScene::default(), random)
}

impl VideoStream {
    /// A video like any other: of priority 1, never pausing.
    pub fn new(id: impl Into<String>, video: VideoSpec) -> Self {
        Self {
            id: id.into(),
            video,
            priority: 1.0,
            skip_after: GiveUp::AsController,
            discard_after: GiveUp::AsController,
            pauses: Vec::new(),
        }
    }

    /// The same with another priority.
    #[must_use]
    pub fn with_priority(self, priority: f64) -> Self {
        Self { priority, ..self }
    }

    /// What a video is called that is not given a name: `video` if it is the only one, or `video-2`.
    pub(crate) fn default_id(number: usize, all: usize) -> String {
        if all == 1 { "video".to_owned() } else { format!("video-{number}") }
    }

    fn check(&self) -> Result<(), String> {
        self.video.source(Timestamp::ZERO, random::stream(0, "check")).map_err(|error| error.to_string())?;
        let (least, most) = PRIORITIES;
        if !(least..=most).contains(&self.priority) {
            return Err(format!(
                "priority must lie between {least} and {most}, found {}: 1 is that of the others",
                self.priority
            ));
        }
        for (key, wait) in [("skip-after", self.skip_after), ("discard-after", self.discard_after)] {
            if let GiveUp::After(wait) = wait
                && wait <= TimeDelta::ZERO
            {
                return Err(format!("{key} must be above 0 s, found {wait}: \"never\" switches it off"));
            }
        }
        check_pauses(&self.pauses)
    }
}

/// The pauses must be in order, and apart.
fn check_pauses(pauses: &[(Timestamp, Timestamp)]) -> Result<(), String> {
    let mut before = None;
    for &(from, to) in pauses {
        let (from_s, to_s) = (from.as_seconds(), to.as_seconds());
        if to <= from {
            return Err(format!("a pause from {from_s} s to {to_s} s is none: let it end after it begins"));
        }
        if let Some(ended) = before.filter(|&ended| from <= ended) {
            return Err(format!(
                "the pause from {from_s} s begins before the one that ends at {} s is over: sort them, and join what overlaps",
                ended.as_seconds()
            ));
        }
        before = Some(to);
    }
    Ok(())
}

impl MediaSpec {
    /// One video or none under a controller that may take what they can use, and begins at 300 kbit/s if that is not too much.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto::scenario::{FlowKind, FlowSpec, MediaSpec, VideoSpec};
    ///
    /// let media = MediaSpec::new(Some(VideoSpec::default()), None);
    /// assert_eq!(media.limits.max, "1569120 bit/s".parse()?);
    /// let call = FlowSpec::new("call", FlowKind::Media(media), ("here", "there"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(video: Option<VideoSpec>, audio: Option<AudioConfig>) -> Self {
        let alone = |video| VideoStream::new(VideoStream::default_id(1, 1), video);
        Self::with_videos(video.map(alone).into_iter().collect(), audio)
    }

    /// The same with any number of videos.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto::scenario::{MediaSpec, VideoSpec, VideoStream};
    ///
    /// let camera = VideoStream::new("camera", VideoSpec::default());
    /// let screen = VideoStream::new("screen", VideoSpec::default()).with_priority(2.0);
    /// let media = MediaSpec::with_videos(vec![camera, screen], None);
    /// assert_eq!(media.limits.max.as_bps(), 2 * 1_569_120);
    /// ```
    pub fn with_videos(videos: Vec<VideoStream>, audio: Option<AudioConfig>) -> Self {
        let media = Self {
            controller: Self::default_controller(),
            limits: Limits::default(),
            feedback: None,
            delay_target: None,
            receiver_limit: None,
            videos,
            audio,
            max_payload: DEFAULT_MAX_PAYLOAD,
            pauses: Vec::new(),
            ecn: Ecn::NotEct,
        };
        let limits = media.limits_where_given([None; 3]);
        Self { limits, ..media }
    }

    /// The controller of a flow that names none: `gcc:libwebrtc`.
    pub fn default_controller() -> ControllerKind {
        ControllerKind::ALL
            .into_iter()
            .find(|kind| kind.name() == DEFAULT_CONTROLLER)
            .unwrap_or(ControllerKind::Fixed)
    }

    /// What the media can use at most, headers included: each picture at the highest rate, cut into packets, and the sound.
    pub fn usable(&self) -> DataRate {
        let headers = MEDIA_HEADERS.as_bits() as f64;
        let video = |stream: &VideoStream| {
            let (rate, frames) = stream.video.most();
            let frame = rate.as_bps() as f64 / frames.max(f64::MIN_POSITIVE);
            let packets = (frame / self.max_payload.as_bits().max(1) as f64).ceil();
            rate.as_bps() as f64 + packets * frames * headers
        };
        let videos: f64 = self.videos.iter().map(video).sum();
        let audio = self.audio.map_or(0.0, |AudioConfig { rate, packet_time, .. }| {
            let seconds = packet_time.as_seconds();
            rate.as_bps() as f64 + if seconds > 0.0 { headers / seconds } else { 0.0 }
        });
        DataRate::from_bps((videos + audio).ceil() as u64)
    }

    /// The limits, where they are given: the least, the start and the most. What is not given gives way to what is.
    pub(crate) fn limits_where_given(&self, [min, start, max]: [Option<DataRate>; 3]) -> Limits {
        let default = Limits::default();
        let most = max.unwrap_or_else(|| self.usable().max(min.unwrap_or_default()));
        let least = min.unwrap_or_else(|| default.min.min(most));
        // What contradicts itself is left to the check.
        let start = start.unwrap_or_else(|| default.start.min(most).max(least));
        Limits { min: least, start, max: most }
    }

    /// What the receiver reports: what is given, else what the controller wants.
    pub(crate) fn reported(&self) -> FeedbackKind {
        self.feedback.unwrap_or(self.controller.feedback())
    }

    /// What is given that this controller and its feedback cannot have.
    fn unfit(&self) -> Vec<Unfit> {
        let can_ask = self.reported() == FeedbackKind::ScreamDraft && self.controller.heeds_quench();
        let feedback = self.feedback.filter(|&given| !self.controller.hears(given)).map(Unfit::Feedback);
        let limit = self.receiver_limit.filter(|_| !can_ask).map(|_| Unfit::ReceiverLimit);
        let target = self.delay_target.filter(|_| !self.controller.has_delay_target());
        [feedback, target.map(|_| Unfit::DelayTarget), limit].into_iter().flatten().collect()
    }

    /// Puts it under another controller; what that one cannot have is left out and returned.
    pub(crate) fn put_under(&mut self, controller: ControllerKind) -> Vec<Unfit> {
        self.controller = controller;
        let mut left_out = Vec::new();
        // Without its feedback, it may be that it cannot have something else.
        while let Some(&unfit) = self.unfit().first() {
            match unfit {
                Unfit::Feedback(_) => self.feedback = None,
                Unfit::DelayTarget => self.delay_target = None,
                Unfit::ReceiverLimit => self.receiver_limit = None,
            }
            left_out.push(unfit);
        }
        left_out
    }

    /// While a video pauses, of itself or with all: in order, and apart.
    pub(crate) fn pauses_of(&self, video: &VideoStream) -> Vec<(Timestamp, Timestamp)> {
        let mut all: Vec<(Timestamp, Timestamp)> = self.pauses.iter().chain(&video.pauses).copied().collect();
        all.sort_unstable();
        let mut joined: Vec<(Timestamp, Timestamp)> = Vec::new();
        for (from, to) in all {
            match joined.last_mut() {
                Some((_, end)) if from <= *end => *end = (*end).max(to),
                _ => joined.push((from, to)),
            }
        }
        joined
    }

    /// Whether it can be built; what is wrong comes with its key, and the number of the video from 1 where it is of one.
    pub(crate) fn check(&self) -> Result<(), (&'static str, Option<usize>, String)> {
        self.check_videos()?;
        self.check_rest().map_err(|(key, text)| (key, None, text))
    }

    fn check_videos(&self) -> Result<(), (&'static str, Option<usize>, String)> {
        let all = self.videos.len();
        if all > MOST_VIDEOS {
            let text = format!("video: {all} of them, and at most {MOST_VIDEOS} fit into a flow: give fewer");
            return Err(("video", None, text));
        }
        for (place, stream) in self.videos.iter().enumerate() {
            let say = |text: String| ("video", Some(place + 1), text);
            let is_default = all == 1 && stream.id == VideoStream::default_id(1, 1);
            let of = if is_default { "video".to_owned() } else { format!("video \"{}\"", stream.id) };
            stream.check().map_err(|text| say(format!("{of}: {text}")))?;
            named(&stream.id).map_err(|text| say(format!("{of}: id: {text}")))?;
            let before = self.videos.iter().take(place);
            if stream.id == AUDIO_ID || before.clone().any(|other| other.id == stream.id) {
                let what = if stream.id == AUDIO_ID {
                    "that is what the sound is called"
                } else {
                    "there is another"
                };
                return Err(say(format!("{of}: {what}: give each its own id")));
            }
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<(), (&'static str, String)> {
        if self.videos.is_empty() && self.audio.is_none() {
            return Err(("kind", "there is neither video nor audio: give one of them".to_owned()));
        }
        if let Some(audio) = self.audio {
            Audio::new(audio, Timestamp::ZERO).map_err(|error| ("audio", format!("audio: {error}")))?;
        }
        if self.max_payload == DataSize::ZERO || self.max_payload > LARGEST_PAYLOAD {
            let text = format!(
                "max-payload must lie between 1 B and {LARGEST_PAYLOAD}, found {}: 1200 B fits everywhere",
                self.max_payload
            );
            return Err(("max-payload", text));
        }
        if let Some(&unfit) = self.unfit().first() {
            return Err(self.cannot_have(unfit));
        }
        let Limits { min, start, max } = self.limits;
        if min == DataRate::ZERO || min > max {
            let text = format!("min-rate must be above 0 bit/s and not above max-rate, {max}, found {min}");
            return Err((if min > max { "max-rate" } else { "min-rate" }, text));
        }
        if start < min || start > max {
            let text =
                format!("start-rate must lie between min-rate, {min}, and max-rate, {max}, found {start}");
            return Err(("start-rate", text));
        }
        if let Some(target) = self.delay_target {
            let (least, most) = DELAY_TARGETS;
            if target < least || target > most {
                let text = format!("delay-target must lie between {least} and {most}, found {target}");
                return Err(("delay-target", text));
            }
        }
        if self.receiver_limit == Some(DataRate::ZERO) {
            let text = format!("receiver-limit must be above 0 bit/s, found {}", DataRate::ZERO);
            return Err(("receiver-limit", text));
        }
        check_pauses(&self.pauses).map_err(|text| ("pauses", text))
    }

    /// Why it cannot have that, with its key and what to do.
    fn cannot_have(&self, unfit: Unfit) -> (&'static str, String) {
        let controller = self.controller;
        let those = |fits: fn(ControllerKind) -> bool| {
            let kinds = ControllerKind::ALL.into_iter().filter(|&kind| fits(kind));
            kinds.map(ControllerKind::name).collect::<Vec<_>>().join(" or ")
        };
        match unfit {
            Unfit::Feedback(given) => {
                let fits =
                    FEEDBACKS.iter().filter(|(_, kind)| controller.hears(*kind)).map(|(name, _)| *name);
                let text = format!(
                    "{controller} hears nothing in {}: leave feedback out, or use {}",
                    feedback_name(given),
                    fits.collect::<Vec<_>>().join(" or ")
                );
                ("feedback", text)
            }
            Unfit::DelayTarget => {
                let text = format!(
                    "delay-target: {controller} aims at no delay: leave it out, or use {}",
                    those(ControllerKind::has_delay_target)
                );
                ("delay-target", text)
            }
            Unfit::ReceiverLimit => {
                let mend = if controller.heeds_quench() {
                    "use it, or leave this out".to_owned()
                } else {
                    let those = those(ControllerKind::heeds_quench);
                    format!("{controller} does not heed it: leave this out, or use {those}")
                };
                let text =
                    format!("receiver-limit: only feedback = \"scream-draft\" can ask for less: {mend}");
                ("receiver-limit", text)
            }
        }
    }
}

/// A kind of feedback as a file names it.
pub(crate) fn feedback_name(kind: FeedbackKind) -> &'static str {
    FEEDBACKS.iter().find(|(_, known)| *known == kind).map_or("its own", |(name, _)| name)
}

/// The kinds of feedback by their names in a file.
pub(super) const FEEDBACKS: &[(&str, FeedbackKind)] = &[
    ("transport-wide", FeedbackKind::TransportWide),
    ("rfc8888", FeedbackKind::CongestionControl),
    ("scream-draft", FeedbackKind::ScreamDraft),
    ("remb", FeedbackKind::ReceiverEstimate),
    ("reports", FeedbackKind::ReceiverReports),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_media_can_use_counts_every_header() {
        let rate = |text: &str| text.parse::<DataRate>().unwrap();
        // 6250 B a picture are six packets of 1200 B, 30 times a second.
        let video = MediaSpec::new(Some(VideoSpec::default()), None);
        assert_eq!(video.limits.max.as_bps(), 1_500_000 + 6 * 30 * 48 * 8);
        // 50 packets a second. The start gives way.
        let audio = MediaSpec::new(None, Some(AudioConfig::default()));
        assert_eq!(audio.limits.max.as_bps(), 20_000 + 50 * 48 * 8);
        assert_eq!(audio.limits.start, audio.limits.max);
        // 1000 packets a second of one piece each.
        let fixed = VideoSpec::Fixed { rate: rate("8 Mbit/s"), size: DataSize::from_bytes(1000) };
        let fixed = MediaSpec::new(Some(fixed), Some(AudioConfig::default()));
        assert_eq!(fixed.usable().as_bps(), 8_000_000 + 1000 * 48 * 8 + 39_200);
    }

    #[test]
    fn limits_that_are_not_given_make_room_for_those_that_are() {
        let video = MediaSpec::new(Some(VideoSpec::default()), None);
        let limits = |min: Option<u64>, start: Option<u64>, max: Option<u64>| {
            let limits = video.limits_where_given([min, start, max].map(|rate| rate.map(DataRate::from_bps)));
            [limits.min, limits.start, limits.max].map(DataRate::as_bps)
        };
        assert_eq!(limits(None, None, None), [30_000, 300_000, 1_569_120]);
        assert_eq!(limits(None, None, Some(20_000)), [20_000, 20_000, 20_000]);
        assert_eq!(limits(Some(500_000), None, None), [500_000, 500_000, 1_569_120]);
        assert_eq!(limits(Some(2_000_000), None, None), [2_000_000; 3]);
        assert_eq!(limits(None, Some(1_000_000), Some(500_000)), [30_000, 1_000_000, 500_000]);
    }

    #[test]
    fn what_can_be_built_passes_and_nothing_else() {
        let good = MediaSpec::new(Some(VideoSpec::default()), Some(AudioConfig::default()));
        assert_eq!(good.check(), Ok(()));
        let at = |seconds| Timestamp::ZERO + TimeDelta::from_seconds(seconds);
        let key = |media: MediaSpec| media.check().unwrap_err().0;
        assert_eq!(key(MediaSpec { videos: Vec::new(), audio: None, ..good.clone() }), "kind");
        let bad = StatisticalConfig { size_scale: 2.0, ..StatisticalConfig::default() };
        let bad = VideoStream::new("camera", VideoSpec::Statistical(bad));
        assert_eq!(key(MediaSpec { videos: vec![bad], ..good.clone() }), "video");
        let bad = AudioConfig { packet_time: TimeDelta::ZERO, ..AudioConfig::default() };
        assert_eq!(key(MediaSpec { audio: Some(bad), ..good.clone() }), "audio");
        assert_eq!(key(MediaSpec { max_payload: DataSize::ZERO, ..good.clone() }), "max-payload");
        assert_eq!(key(MediaSpec { pauses: vec![(at(2), at(4)), (at(3), at(5))], ..good.clone() }), "pauses");
        assert_eq!(key(MediaSpec { pauses: vec![(at(2), at(2))], ..good.clone() }), "pauses");
        let limits = Limits { start: DataRate::from_bps(1), ..good.limits };
        assert_eq!(key(MediaSpec { limits, ..good.clone() }), "start-rate");
        let deaf = (ControllerKind::GccDraft02, Some(FeedbackKind::ReceiverEstimate));
        assert_eq!(key(MediaSpec { controller: deaf.0, feedback: deaf.1, ..good.clone() }), "feedback");
        let aims = |controller, millis| MediaSpec {
            controller,
            delay_target: Some(TimeDelta::from_millis(millis)),
            ..good.clone()
        };
        assert_eq!(key(aims(ControllerKind::GccLibwebrtc, 30)), "delay-target");
        let wants = |controller, bps| MediaSpec {
            controller,
            receiver_limit: Some(DataRate::from_bps(bps)),
            ..good.clone()
        };
        assert_eq!(wants(ControllerKind::ScreamD00, 1_000_000).check(), Ok(()));
        assert_eq!(key(wants(ControllerKind::ScreamD00, 0)), "receiver-limit");
        assert_eq!(key(wants(ControllerKind::ScreamV2, 1_000_000)), "receiver-limit");
        assert_eq!(key(aims(ControllerKind::ScreamV2, 0)), "delay-target");
        assert_eq!(key(aims(ControllerKind::ScreamV2, 10_001)), "delay-target");
        assert_eq!(aims(ControllerKind::ScreamV2, 30).check(), Ok(()));
        let limits = Limits { max: DataRate::from_bps(1), ..good.limits };
        assert_eq!(key(MediaSpec { limits, ..good }), "max-rate");
    }

    #[test]
    fn under_another_controller_only_what_it_cannot_have_is_left_out() {
        let given = MediaSpec {
            controller: ControllerKind::ScreamD00,
            feedback: Some(FeedbackKind::ScreamDraft),
            delay_target: Some(TimeDelta::from_millis(30)),
            receiver_limit: Some(DataRate::from_bps(1_000_000)),
            ..MediaSpec::new(Some(VideoSpec::default()), None)
        };
        for controller in ControllerKind::ALL {
            let mut media = given.clone();
            let left_out = media.put_under(controller);
            assert_eq!(media.check(), Ok(()), "{controller}");
            let deaf = !controller.hears(FeedbackKind::ScreamDraft);
            assert_eq!(media.feedback.is_none(), deaf, "{controller}");
            assert_eq!(media.receiver_limit.is_some(), controller.heeds_quench(), "{controller}");
            assert_eq!(media.delay_target.is_some(), controller.has_delay_target(), "{controller}");
            let gone =
                [media.feedback.is_none(), media.receiver_limit.is_none(), media.delay_target.is_none()];
            assert_eq!(left_out.len(), gone.into_iter().filter(|gone| *gone).count(), "{controller}");
        }
    }

    #[test]
    fn no_mend_leads_into_another_complaint() {
        let media = MediaSpec {
            receiver_limit: Some(DataRate::from_bps(1_000_000)),
            ..MediaSpec::new(Some(VideoSpec::default()), None)
        };
        let told = |controller| MediaSpec { controller, ..media.clone() }.check().unwrap_err().2;
        let other = MediaSpec {
            feedback: Some(FeedbackKind::CongestionControl),
            controller: ControllerKind::ScreamD00,
            ..media.clone()
        };
        let mend =
            "receiver-limit: only feedback = \"scream-draft\" can ask for less: use it, or leave this out";
        assert_eq!(other.check().unwrap_err().2, mend);
        for deaf in [ControllerKind::ScreamV2, ControllerKind::Fixed] {
            let told = told(deaf);
            let mend = format!("{deaf} does not heed it: leave this out, or use scream:d00");
            assert!(told.ends_with(&mend), "{told}");
        }
    }

    #[test]
    fn of_several_videos_each_must_be_sound_and_have_a_name_of_its_own() {
        let video = |id: &str| VideoStream::new(id, VideoSpec::default());
        let check = |videos: Vec<VideoStream>| MediaSpec::with_videos(videos, None).check();
        let place = |videos| check(videos).unwrap_err().1;
        for priority in [0.001, 0.5, 1000.0] {
            assert_eq!(check(vec![video("a"), video("b").with_priority(priority)]), Ok(()), "{priority}");
        }
        assert_eq!(place(vec![video("a"), video("b"), video("a")]), Some(3));
        assert_eq!(place(vec![video("audio")]), Some(1));
        assert_eq!(place(vec![video("a"), video("a b")]), Some(2));
        for priority in [0.0, -1.0, 1e-300, 1001.0, 1e308, f64::NAN, f64::INFINITY] {
            assert_eq!(place(vec![video("a"), video("b").with_priority(priority)]), Some(2), "{priority}");
        }
        let soon = GiveUp::After(TimeDelta::ZERO);
        assert_eq!(place(vec![VideoStream { skip_after: soon, ..video("a") }]), Some(1));
        assert_eq!(place(vec![VideoStream { discard_after: soon, ..video("a") }]), Some(1));
        let many =
            |all: usize| (1..=all).map(|number| video(&VideoStream::default_id(number, all))).collect();
        assert_eq!(check(many(MOST_VIDEOS)), Ok(()));
        assert_eq!(place(many(MOST_VIDEOS + 1)), None);
    }

    #[test]
    fn a_video_pauses_with_all_and_of_itself() {
        let at = |seconds| Timestamp::ZERO + TimeDelta::from_seconds(seconds);
        let own = vec![(at(1), at(2)), (at(5), at(7)), (at(12), at(13)), (at(20), at(21))];
        let video = VideoStream { pauses: own, ..VideoStream::new("a", VideoSpec::default()) };
        let all = vec![(at(4), at(6)), (at(7), at(8)), (at(11), at(15))];
        let media = MediaSpec { pauses: all, ..MediaSpec::with_videos(vec![video.clone()], None) };
        let whole = [(1, 2), (4, 8), (11, 15), (20, 21)].map(|(from, to)| (at(from), at(to)));
        assert_eq!(media.pauses_of(&video), whole);
    }
}
