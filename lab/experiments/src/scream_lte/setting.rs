//! The city of Table 1, and what the draft leaves unsaid.

use giusto::{
    city::CitySpec,
    scenario::{MediaSpec, QueueSpec, VideoSpec},
};
use giusto_congestion::{Algorithm, Limits};
use giusto_lte::{
    city::{CityConfig, FileTransfers, Opposite},
    radio::propagation::PathLoss,
};
use giusto_sim::{
    link::queue::{CoDelConfig, DelayThresholdConfig, Limit},
    traffic::encoder::{AudioConfig, FrameRate, PerfectConfig, StatisticalConfig},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::published::Link;

/// The reading that is judged.
pub(super) const JUDGED: &str = "as judged";

/// The lowest bitrate of Table 1, at which a call starts (§9.1.6, `scaleFactor = scaleFactorMin`).
pub(super) const LOWEST: DataRate = DataRate::from_bps(150_000);

/// Interval of the reports to `gcc:rmcat-02`, with each of which its loss rule grows by 5 %. Table 1 has 75 kbit/s of RTCP, of which 104 bytes
/// each 100 ms take 8.
const REPORTS: TimeDelta = TimeDelta::from_millis(100);

/// One thing that differs from what is judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) name: &'static str,
    /// Whether it is run at all loads, so that the statements can be judged with it.
    pub(super) is_whole: bool,
    change: fn(&mut CitySpec),
}

const fn whole(name: &'static str, change: fn(&mut CitySpec)) -> Reading {
    Reading { name, is_whole: true, change }
}

const fn single(name: &'static str, change: fn(&mut CitySpec)) -> Reading {
    Reading { name, is_whole: false, change }
}

/// What is judged; what moves the statements most, with its products; each other thing that the draft leaves unsaid, changed alone.
pub(super) const READINGS: &[Reading] = &[
    whole(JUDGED, |_| {}),
    whole("5 MHz", half_spectrum),
    whole("calls of 60 s", long_calls),
    whole("5 MHz, calls of 60 s", |spec| {
        half_spectrum(spec);
        long_calls(spec);
    }),
    whole("start at 300, minimum 30 kbit/s", default_limits),
    whole("5 MHz, start at 300, minimum 30 kbit/s", |spec| {
        half_spectrum(spec);
        default_limits(spec);
    }),
    single("reports each second", |spec| spec.media.report_interval = TimeDelta::from_seconds(1)),
    single("no AQM", |spec| spec.queue = QueueSpec::DropTail(LIMIT)),
    single("CoDel, 5 ms and 100 ms", |spec| spec.queue = codel(5, 100)),
    single("drop above 200 ms, at most every 100 ms", |spec| {
        spec.queue = QueueSpec::DelayThreshold(DelayThresholdConfig::default());
    }),
    single("no AQM, PDCP discard after 300 ms", |spec| {
        spec.queue = QueueSpec::DropTail(LIMIT);
        spec.config.bearer.discard = Some(TimeDelta::from_millis(300));
    }),
    single("15 frames per second", |spec| set_video(spec, statistical(15.0))),
    single("encoder reacts within 100 ms", |spec| {
        let reaction_latency = TimeDelta::from_millis(100);
        let config = StatisticalConfig { reaction_latency, ..StatisticalConfig::default() };
        set_video(spec, VideoSpec::Statistical(config));
    }),
    single("encoder without variation", |spec| {
        set_video(spec, VideoSpec::Perfect(PerfectConfig::default(), None));
    }),
    single("fair scheduling over 1 s", |spec| spec.config.fairness_window_ms = 1000),
    single("path loss of COST-231 Hata", |spec| {
        spec.config.deployment.path_loss = PathLoss::Cost231Hata;
    }),
    single("feedback not over the radio", |spec| spec.config.opposite = Opposite::Fixed),
];

/// The limit of a bearer's queue: it never fills.
const LIMIT: Limit = Limit::Packets(1000);

/// The judged reading called `name`.
pub(super) fn reading(name: &str) -> Option<&'static Reading> {
    READINGS.iter().find(|reading| reading.name == name)
}

impl Reading {
    /// The city: Table 1 of the draft, with RFC 8869 §2.1.2 where it is silent (calls of 30 s, evaluated from 30 to 60 s).
    pub(super) fn city(
        &self,
        (link, speed_kmh): (Link, u32),
        users: u32,
        controller: Algorithm,
        seed: u64,
    ) -> CitySpec {
        let mut media = MediaSpec::new(Some(statistical(30.0)), Some(AudioConfig::default()));
        media.controller = controller;
        if controller.receive_side().rmcat_02 {
            media.report_interval = REPORTS;
        }
        media.limits = media.limits.with_min(LOWEST).with_start(LOWEST);
        let mut config = CityConfig {
            seed,
            direction: link.direction(),
            users_per_cell: f64::from(users),
            files: Some(FileTransfers::new(DataRate::from_bps(link.files_bps()))),
            ..CityConfig::default()
        };
        config.deployment.speed_mps = f64::from(speed_kmh) / 3.6;
        let mut spec = CitySpec { config, media, queue: codel(50, 200) };
        (self.change)(&mut spec);
        spec
    }
}

/// giusto's own start and minimum.
fn default_limits(spec: &mut CitySpec) {
    let Limits { min, start, .. } = Limits::default();
    spec.media.limits = spec.media.limits.with_min(min).with_start(start);
}

fn long_calls(spec: &mut CitySpec) {
    spec.config.call = TimeDelta::from_seconds(60);
    spec.config.evaluation = (second(60), second(90));
}

/// 5 MHz instead of 10.
fn half_spectrum(spec: &mut CitySpec) {
    let CityConfig { downlink, uplink, deployment, .. } = &mut spec.config;
    [downlink.blocks, uplink.blocks, deployment.resource_blocks] = [25; 3];
}

/// `CoDel` with a target and an interval in ms.
fn codel(target: u64, interval: u64) -> QueueSpec {
    let ms = |ms: u64| TimeDelta::from_millis(ms as i64);
    QueueSpec::CoDel(CoDelConfig { target: ms(target), interval: ms(interval), ..CoDelConfig::default() })
}

/// The video of RFC 8593 §5, 150 to 1500 kbit/s, with this many frames per second.
fn statistical(hertz: f64) -> VideoSpec {
    let frame_rate = FrameRate::from_hertz(hertz).unwrap_or(FrameRate::HZ_30);
    VideoSpec::Statistical(StatisticalConfig { frame_rate, ..StatisticalConfig::default() })
}

fn set_video(spec: &mut CitySpec, video: VideoSpec) {
    if let Some(stream) = spec.media.videos.first_mut() {
        stream.video = video;
    }
}

const fn second(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}
