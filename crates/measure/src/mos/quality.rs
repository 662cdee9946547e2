//! Rating of a voice stream from its format, delay and losses.

use giusto_rtp::voice::{VoiceFormat, VoiceProfile};
use giusto_units::TimeDelta;

use super::{
    codec::{CodecImpairment, MosScale},
    e_model::EModel,
};
use crate::playout::PlayoutSummary;

/// The path of voice between encoder and decoder.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct VoicePath {
    /// Mean one-way delay of the packets.
    pub network_delay: TimeDelta,
    /// Mean delay of packets in the playout buffer.
    pub buffer_delay: TimeDelta,
    /// Share of sent packets that are not played (lost or late): 0 to 1.
    pub loss_ratio: f64,
    /// Their burst ratio, see [`burst_ratio`](super::burst_ratio).
    pub burst_ratio: f64,
}

impl VoicePath {
    /// A path with these delays, this share of losses and this burst ratio.
    pub const fn new(
        network_delay: TimeDelta,
        buffer_delay: TimeDelta,
        loss_ratio: f64,
        burst_ratio: f64,
    ) -> Self {
        Self { network_delay, buffer_delay, loss_ratio, burst_ratio }
    }

    /// A path with `network_delay` and the buffer figures of `playout`.
    pub fn with_playout(network_delay: TimeDelta, playout: &PlayoutSummary) -> Self {
        Self {
            network_delay,
            buffer_delay: playout.buffer_delay,
            loss_ratio: playout.loss_ratio,
            burst_ratio: playout.burst_ratio,
        }
    }
}

/// Rating of a voice stream by the [E-model](EModel), and its components.
///
/// The mouth-to-ear delay is the sum of codec ([`VoiceFormat::codec_delay`]), network and buffer. Devices and
/// operating systems add delays that cannot be measured in the network. Echo is assumed to be cancelled: TELR
/// is 65 dB.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct VoiceQuality {
    /// The codec.
    pub profile: VoiceProfile,
    /// The scale of rating and score, and whether they are estimates.
    pub scale: MosScale,
    /// R of the E-model: 0 to 100, or 0 to 129 on the wideband scale.
    pub r_factor: f64,
    /// The mean opinion score: 1 to 4.5.
    pub mos: f64,
    /// Share of sent packets that are not played (lost or late).
    pub effective_loss_ratio: f64,
    /// `BurstR` of these losses.
    pub burst_ratio: f64,
    /// The mouth-to-ear delay: the sum of the next three.
    #[cfg_attr(feature = "serde", serde(rename = "mouth_to_ear_ns"))]
    pub mouth_to_ear: TimeDelta,
    /// The part due to packetisation and look-ahead.
    #[cfg_attr(feature = "serde", serde(rename = "codec_delay_ns"))]
    pub codec_delay: TimeDelta,
    /// The part due to the network.
    #[cfg_attr(feature = "serde", serde(rename = "network_delay_ns"))]
    pub network_delay: TimeDelta,
    /// The part due to the playout buffer.
    #[cfg_attr(feature = "serde", serde(rename = "buffer_delay_ns"))]
    pub buffer_delay: TimeDelta,
    /// Impairment by delay and echo.
    pub delay_impairment: f64,
    /// Impairment by codec and losses.
    pub equipment_impairment: f64,
    /// Whether G.107 permits these values; otherwise they are extrapolated.
    pub within_permitted_range: bool,
}

impl VoiceQuality {
    /// The rating of `format` over `path`, with the codec's own factors: [`CodecImpairment::of`].
    pub fn of(format: &VoiceFormat, path: &VoicePath) -> Self {
        Self::with_codec(format, path, CodecImpairment::of(format.profile()))
    }

    /// The rating of `format` over `path`, with other impairment factors.
    pub fn with_codec(format: &VoiceFormat, path: &VoicePath, codec: CodecImpairment) -> Self {
        let codec_delay = format.codec_delay();
        let mouth_to_ear = codec_delay + path.network_delay + path.buffer_delay;
        let model =
            EModel { codec, loss_ratio: path.loss_ratio, burst_ratio: path.burst_ratio, ..EModel::default() };
        let rating = model.with_delay(mouth_to_ear).rate();
        Self {
            profile: format.profile(),
            scale: rating.scale,
            r_factor: rating.r_factor,
            mos: rating.mos,
            effective_loss_ratio: path.loss_ratio,
            burst_ratio: path.burst_ratio,
            mouth_to_ear,
            codec_delay,
            network_delay: path.network_delay,
            buffer_delay: path.buffer_delay,
            delay_impairment: rating.delay_impairment,
            equipment_impairment: rating.equipment_impairment,
            within_permitted_range: rating.within_permitted_range,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(network_ms: i64, buffer_ms: i64, loss_ratio: f64) -> VoicePath {
        VoicePath {
            network_delay: TimeDelta::from_millis(network_ms),
            buffer_delay: TimeDelta::from_millis(buffer_ms),
            loss_ratio,
            burst_ratio: 1.0,
        }
    }

    #[test]
    fn delays_add_up_from_mouth_to_ear() {
        let quality = VoiceQuality::of(&VoiceFormat::new(VoiceProfile::G729), &path(85, 40, 0.02));
        assert_eq!(quality.codec_delay, TimeDelta::from_millis(25));
        assert_eq!(quality.mouth_to_ear, TimeDelta::from_millis(150));
        // R at 150 ms without loss, 89.54, minus 10 + 85 · 2 / 21.
        assert_eq!(format!("{:.1} {:.2}", quality.r_factor, quality.mos), "71.4 3.66");
    }

    #[test]
    fn each_codec_is_rated_on_its_scale() {
        // The figures were calculated independently of this code, with flent's `mos_score` and the factors of
        // each codec.
        let rate = |profile, path: &VoicePath| VoiceQuality::of(&VoiceFormat::new(profile), path);
        let clean = path(20, 40, 0.0);
        let table: Vec<String> = VoiceProfile::ALL
            .iter()
            .map(|&profile| {
                let (good, lossy) = (rate(profile, &clean), rate(profile, &path(20, 40, 0.05)));
                assert!(lossy.mos < good.mos - 0.2, "{profile}");
                format!("{profile} {}: {:.2} {:.2}", good.scale, good.mos, lossy.mos)
            })
            .collect();
        assert_eq!(
            table,
            [
                "g711 narrowband (G.107): 4.36 3.83",
                "g711a narrowband (G.107): 4.36 3.83",
                "g729 narrowband (G.107): 4.06 3.27",
                "g722 wideband, estimated: 4.29 2.78",
                "opus wideband, estimated: 4.38 2.93",
            ]
        );
    }

    #[test]
    fn impairment_factors_can_be_replaced() {
        let format = VoiceFormat::new(VoiceProfile::G711Ulaw);
        let lossy = path(20, 40, 0.02);
        let silent = VoiceQuality::with_codec(&format, &lossy, CodecImpairment::G711_WITHOUT_CONCEALMENT);
        assert!(silent.mos < VoiceQuality::of(&format, &lossy).mos - 0.8);
    }
}
