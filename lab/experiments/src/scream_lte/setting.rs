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
    change: fn(&mut CitySpec),
}

/// What is judged, and each thing changed alone: the limits of giusto's defaults, then what the draft leaves unsaid.
pub(super) const READINGS: &[Reading] = &[
    Reading { name: JUDGED, change: |_| {} },
    Reading {
        name: "start at 300, minimum 30 kbit/s",
        change: |spec| {
            let Limits { min, start, .. } = Limits::default();
            spec.media.limits = spec.media.limits.with_min(min).with_start(start);
        },
    },
    Reading {
        name: "reports each second",
        change: |spec| spec.media.report_interval = TimeDelta::from_seconds(1),
    },
    Reading { name: "5 MHz", change: half_spectrum },
    Reading {
        name: "5 MHz, start at 300, minimum 30 kbit/s",
        change: |spec| {
            half_spectrum(spec);
            let Limits { min, start, .. } = Limits::default();
            spec.media.limits = spec.media.limits.with_min(min).with_start(start);
        },
    },
    Reading { name: "no AQM", change: |spec| spec.queue = QueueSpec::DropTail(LIMIT) },
    Reading { name: "CoDel, 5 ms and 100 ms", change: |spec| spec.queue = codel(5, 100) },
    Reading {
        name: "drop above 200 ms, at most every 100 ms",
        change: |spec| spec.queue = QueueSpec::DelayThreshold(DelayThresholdConfig::default()),
    },
    Reading {
        name: "no AQM, PDCP discard after 300 ms",
        change: |spec| {
            spec.queue = QueueSpec::DropTail(LIMIT);
            spec.config.bearer.discard = Some(TimeDelta::from_millis(300));
        },
    },
    Reading { name: "15 frames per second", change: |spec| set_video(spec, statistical(15.0)) },
    Reading {
        name: "encoder reacts within 100 ms",
        change: |spec| {
            let reaction_latency = TimeDelta::from_millis(100);
            let config = StatisticalConfig { reaction_latency, ..StatisticalConfig::default() };
            set_video(spec, VideoSpec::Statistical(config));
        },
    },
    Reading {
        name: "encoder without variation",
        change: |spec| set_video(spec, VideoSpec::Perfect(PerfectConfig::default(), None)),
    },
    Reading { name: "fair scheduling over 1 s", change: |spec| spec.config.fairness_window_ms = 1000 },
    Reading {
        name: "calls of 60 s",
        change: |spec| {
            spec.config.call = TimeDelta::from_seconds(60);
            spec.config.evaluation = (second(60), second(90));
        },
    },
    Reading {
        name: "path loss of COST-231 Hata",
        change: |spec| spec.config.deployment.path_loss = PathLoss::Cost231Hata,
    },
    Reading { name: "feedback not over the radio", change: |spec| spec.config.opposite = Opposite::Fixed },
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
