//! The record of a city.

use giusto_lte::{
    city::{City, CityFigures},
    radio::link::Direction,
};
use serde::Serialize;

use super::CitySpec;

/// What a run of a city measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CityRecord {
    /// Controller.
    pub controller: String,
    /// Random seed.
    #[serde(serialize_with = "as_text")]
    pub seed: u64,
    /// Direction of the media: `downlink` or `uplink`.
    pub direction: &'static str,
    /// Speed of the users in km/h.
    pub speed_kmh: f64,
    /// Mean number of calls in a cell.
    pub users_per_cell: f64,
    /// Calls that were evaluated.
    pub calls: usize,
    /// 95th percentile over calls of the 98th percentile of the delay of video frames, in ms.
    pub frame_tail_ms: f64,
    /// The same of packets.
    pub packet_tail_ms: f64,
    /// Median over calls of the median delay of packets, in ms.
    pub packet_median_ms: f64,
    /// Mean over calls of the share of packets that did not arrive.
    pub loss_ratio: f64,
    /// Mean over calls of the rate of the video sent, in bit/s: RTP payload.
    pub sent_video_bps: f64,
    /// Mean over calls of the rate of the video received, in bit/s.
    pub received_video_bps: f64,
    /// Share of video frames that the sender skipped.
    pub skipped_ratio: f64,
    /// Users outside coverage when they arrived.
    pub uncovered_users: u64,
    /// All users that arrived with a call.
    pub all_calls: u64,
    /// File transfers that were begun, completed and given up.
    pub files: u64,
    /// File transfers that were completed.
    pub completed_files: u64,
    /// File transfers that were given up.
    pub abandoned_files: u64,
    /// Mean duration of a completed file transfer in s.
    pub file_time_s: f64,
    /// Handovers.
    pub handovers: u64,
    /// The radio of the downlink.
    pub downlink: Option<DirectionRecord>,
    /// The radio of the uplink.
    pub uplink: Option<DirectionRecord>,
    /// Simulated time in s.
    pub simulated_s: f64,
    /// Events.
    pub events: u64,
    /// Packets sent by all agents.
    pub packets: u64,
    /// Time that the run took in s.
    pub wall_s: f64,
}

/// The radio in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DirectionRecord {
    /// Mean rate of decoded transport blocks per cell in bit/s.
    pub cell_throughput_bps: f64,
    /// Share of the resource blocks that was used.
    pub used_ratio: f64,
    /// Share of first transmissions that failed.
    pub first_error_ratio: f64,
    /// Transport blocks that failed in every transmission.
    pub lost_blocks: u64,
    /// Mean interference over noise in dB (uplink).
    pub interference_over_noise_db: Option<f64>,
}

impl CityRecord {
    pub(super) fn new(spec: &CitySpec, city: &City<'_>) -> Self {
        let config = &spec.config;
        let CityFigures {
            calls,
            frame_tail_ms,
            packet_tail_ms,
            packet_median_ms,
            loss_ratio,
            sent_video_bps,
            received_video_bps,
            skipped_ratio,
        } = city.figures();
        let counters = city.counters();
        let simulated_s = city.now().as_seconds();
        let direction = |direction| {
            let mac = city.mac(direction)?;
            let uplink = city.uplink().filter(|_| direction == Direction::Uplink);
            Some(DirectionRecord {
                cell_throughput_bps: mac.decoded_bits as f64 / simulated_s / 21.0,
                used_ratio: mac.used_ratio(),
                first_error_ratio: mac.first_error_ratio(),
                lost_blocks: mac.lost_blocks,
                interference_over_noise_db: uplink.map(giusto_lte::mac::Uplink::interference_over_noise_db),
            })
        };
        Self {
            controller: spec.media.controller.name().to_owned(),
            seed: config.seed,
            direction: match config.direction {
                Direction::Downlink => "downlink",
                Direction::Uplink => "uplink",
            },
            speed_kmh: config.deployment.speed_mps * 3.6,
            users_per_cell: config.users_per_cell,
            calls,
            frame_tail_ms,
            packet_tail_ms,
            packet_median_ms,
            loss_ratio,
            sent_video_bps,
            received_video_bps,
            skipped_ratio,
            uncovered_users: counters.uncovered_users,
            all_calls: counters.calls,
            files: counters.files,
            completed_files: counters.completed_files,
            abandoned_files: counters.abandoned_files,
            file_time_s: counters.file_time.as_seconds() / (counters.completed_files as f64).max(1.0),
            handovers: counters.handovers,
            downlink: direction(Direction::Downlink),
            uplink: direction(Direction::Uplink),
            simulated_s,
            events: city.events(),
            packets: counters.packets,
            wall_s: 0.0,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
pub(super) fn as_text<S: serde::Serializer>(seed: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(seed)
}
