//! Speech as it is heard at the receiving end: played by an adaptive buffer, rated by the E-model.

use giusto_measure::{
    mos::{VoicePath, VoiceQuality},
    playout::{AdaptiveConfig, Playout, PlayoutPolicy},
};
use giusto_rtp::voice::{VoiceFormat, VoiceProfile};
use giusto_session::media::FrameArrival;
use giusto_units::TimeDelta;
use serde::{Deserialize, Serialize};

use super::voice::CLOCK;

/// Speech that an end received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeardVoice {
    /// Its codec: `opus`.
    pub codec: String,
    /// Packets that were played.
    pub played_packets: u64,
    /// Packets that did not arrive.
    pub lost_packets: u64,
    /// Packets that arrived after they would have been played.
    pub late_packets: u64,
    /// Lost and late packets divided by those sent.
    pub loss_ratio: f64,
    /// The mean time in the adaptive playout buffer, in ms.
    pub buffer_delay_ms: f64,
    /// The mean one-way delay of the network, in ms; `None`: the clocks of the two ends were not compared.
    pub network_delay_ms: Option<f64>,
    /// The transmission rating R of ITU-T G.107.1, to 129; `None` without the network delay.
    pub r_factor: Option<f64>,
    /// The mean opinion score, 1 to 4.5: an estimate, since no impairment factors are published for Opus.
    pub mos: Option<f64>,
}

/// The meter of received speech.
#[derive(Debug)]
pub(super) struct VoiceMeter {
    playout: Playout,
    /// Sequence number and RTP timestamp of the first packet to arrive.
    first: Option<(u64, u32)>,
    /// One more than the highest sequence number.
    end: u64,
    delays: (TimeDelta, u32),
}

impl Default for VoiceMeter {
    fn default() -> Self {
        let playout = Playout::new(PlayoutPolicy::Adaptive(AdaptiveConfig::default()));
        Self { playout, first: None, end: 0, delays: (TimeDelta::ZERO, 0) }
    }
}

impl VoiceMeter {
    /// A packet has arrived; `correction` is that of its delay for the clocks of the two ends.
    pub(super) fn on_packet(&mut self, packet: &FrameArrival, correction: Option<TimeDelta>) {
        let (sequence, rtp_timestamp) = *self.first.get_or_insert((packet.sequence, packet.rtp_timestamp));
        // What was sent before the first to arrive is not heard, and is not counted.
        let Some(index) = packet.sequence.checked_sub(sequence) else { return };
        let ticks = i64::from(packet.rtp_timestamp.wrapping_sub(rtp_timestamp) as i32);
        let media_time = TimeDelta::from_nanos(ticks * 1_000_000_000 / i64::from(CLOCK));
        self.playout.on_packet(index, media_time, packet.at);
        self.end = self.end.max(index + 1);
        if let Some((delay, correction)) = packet.delay.zip(correction) {
            self.delays.0 += (delay + correction).max(TimeDelta::ZERO);
            self.delays.1 += 1;
        }
    }

    /// What was heard; `None`: nothing arrived.
    pub(super) fn figures(&self) -> Option<HeardVoice> {
        self.first?;
        let playout = self.playout.summary(self.end);
        let (sum, packets) = self.delays;
        let network = (packets > 0).then(|| sum / i64::from(packets));
        let quality = network.map(|network| {
            let format = VoiceFormat::new(VoiceProfile::Opus);
            VoiceQuality::of(&format, &VoicePath::with_playout(network, &playout))
        });
        Some(HeardVoice {
            codec: "opus".to_owned(),
            played_packets: playout.played,
            lost_packets: playout.lost,
            late_packets: playout.late,
            loss_ratio: playout.loss_ratio,
            buffer_delay_ms: playout.buffer_delay.as_millis(),
            network_delay_ms: network.map(TimeDelta::as_millis),
            r_factor: quality.map(|quality| quality.r_factor),
            mos: quality.map(|quality| quality.mos),
        })
    }
}
