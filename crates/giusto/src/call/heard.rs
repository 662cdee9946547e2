//! Speech as it is heard at the receiving end: played by an adaptive buffer, rated by the E-model.

use std::collections::VecDeque;

use giusto_measure::{
    mos::{VoicePath, VoiceQuality},
    playout::{AdaptiveConfig, Playout, PlayoutPolicy, PlayoutVerdict},
};
use giusto_rtp::voice::{VoiceFormat, VoiceProfile};
use giusto_session::media::FrameArrival;
use giusto_units::{TimeDelta, Timestamp};
use serde::{Deserialize, Serialize};

use super::voice::CLOCK;

/// Speech that an end received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeardVoice {
    /// Its codec: `opus`.
    pub codec: String,
    /// Packets that were played, repaired ones included.
    pub played_packets: u64,
    /// Packets that did not arrive.
    pub lost_packets: u64,
    /// Those of them that in-band FEC of the next packet repaired in time to be played (RFC 6716 §2.1.7); of browsers it is unknown, 0.
    #[serde(default)]
    pub repaired_packets: u64,
    /// Packets that arrived after they would have been played.
    pub late_packets: u64,
    /// Packets that were not played divided by those sent.
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
    /// The latest packets that are known only from the FEC of the next, and whether that came in time.
    rebuilt: VecDeque<(u64, bool)>,
    /// Those of them that did not arrive themselves, played or late.
    repaired: u64,
    useless: u64,
}

/// Packets after which a lost one is no longer expected. Chosen by us: as long as the buffer keeps numbers apart in practice.
const REORDERED: usize = 64;

impl Default for VoiceMeter {
    fn default() -> Self {
        let playout = Playout::new(PlayoutPolicy::Adaptive(AdaptiveConfig::default()));
        let (delays, rebuilt) = ((TimeDelta::ZERO, 0), VecDeque::new());
        Self { playout, first: None, end: 0, delays, rebuilt, repaired: 0, useless: 0 }
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
        if let Some(place) = self.rebuilt.iter().position(|(lost, _)| *lost == index)
            && let Some((_, in_time)) = self.rebuilt.remove(place)
        {
            // It was only overtaken.
            *(if in_time { &mut self.repaired } else { &mut self.useless }) -= 1;
        }
        if index > self.end
            && let Some(time) = fec_time(&packet.payload.part(0..2).to_vec())
        {
            self.rebuild(index - 1, media_time - time, packet.at);
        }
        self.playout.on_packet(index, media_time, packet.at);
        self.end = self.end.max(index + 1);
        if let Some((delay, correction)) = packet.delay.zip(correction) {
            self.delays.0 += (delay + correction).max(TimeDelta::ZERO);
            self.delays.1 += 1;
        }
    }

    /// The FEC of the packet after this one, which is missing, came at `at`.
    fn rebuild(&mut self, index: u64, media_time: TimeDelta, at: Timestamp) {
        let in_time = self.playout.on_packet(index, media_time, at) == PlayoutVerdict::Played;
        *(if in_time { &mut self.repaired } else { &mut self.useless }) += 1;
        self.rebuilt.push_back((index, in_time));
        if self.rebuilt.len() > REORDERED {
            self.rebuilt.pop_front();
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
            lost_packets: playout.lost + self.repaired + self.useless,
            repaired_packets: self.repaired,
            late_packets: playout.late.saturating_sub(self.useless),
            loss_ratio: playout.loss_ratio,
            buffer_delay_ms: playout.buffer_delay.as_millis(),
            network_delay_ms: network.map(TimeDelta::as_millis),
            r_factor: quality.map(|quality| quality.r_factor),
            mos: quality.map(|quality| quality.mos),
        })
    }
}

/// The time that the packet's in-band FEC covers, just before it; `None`: it has none. Only packets of one frame are looked at, as all
/// senders of calls make them. The flag follows the flags of voice activity, one for each 20 ms of SILK, which are uniform bits (RFC 6716
/// §4.2.3); `opus_packet_has_lbrr` of libopus 1.5 reads it in the same way.
fn fec_time(packet: &[u8]) -> Option<TimeDelta> {
    let [toc, first, ..] = *packet else { return None };
    let (config, is_stereo, code) = (toc >> 3, toc & 4 != 0, toc & 3);
    // RFC 6716 §3.1: SILK alone, hybrid, CELT, which has no FEC.
    let millis = match config {
        0..=11 => *[10, 20, 40, 60].get(usize::from(config % 4))?,
        12..=15 => *[10, 20].get(usize::from(config % 2))?,
        _ => return None,
    };
    let frames = (millis / 20).max(1);
    let middle = first >> (7 - frames) & 1 == 1;
    let side = is_stereo && first >> (6 - 2 * frames) & 1 == 1;
    (code == 0 && (middle || side)).then_some(TimeDelta::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of 20 ms of SILK, 16 kHz, that arrives 10 ms after it was sent.
    fn packet(number: u64, has_fec: bool) -> FrameArrival {
        FrameArrival {
            ssrc: 1,
            sequence: number,
            rtp_timestamp: number as u32 * 960,
            at: Timestamp::ZERO + TimeDelta::from_millis(20 * number as i64 + 10),
            delay: Some(TimeDelta::from_millis(10)),
            packets: 1,
            repaired: 0,
            start: None,
            late: false,
            key: None,
            payload: vec![0x48, if has_fec { 0xc0 } else { 0x80 }, 0].into(),
        }
    }

    /// What is heard of 500 packets, of which each 10th is lost, and so is its successor if `twice`.
    fn heard(has_fec: bool, twice: bool) -> HeardVoice {
        let mut meter = VoiceMeter::default();
        for number in (0..500).filter(|number| number % 10 != 5 && !(twice && number % 10 == 6)) {
            meter.on_packet(&packet(number, has_fec), Some(TimeDelta::ZERO));
        }
        meter.figures().unwrap()
    }

    #[test]
    fn repaired_losses_are_counted_apart_and_rated() {
        let (without, with, twice) = (heard(false, false), heard(true, false), heard(true, true));
        let counts = |voice: &HeardVoice| (voice.played_packets, voice.lost_packets, voice.repaired_packets);
        assert_eq!(counts(&without), (450, 50, 0));
        assert_eq!(counts(&with), (500, 50, 50));
        // Of two in a row, FEC has the second.
        assert_eq!(counts(&twice), (450, 100, 50));
        assert_eq!([&without, &with, &twice].map(|voice| voice.late_packets), [0; 3]);
        assert!(with.loss_ratio.abs() < 1e-9 && (without.loss_ratio - 0.1).abs() < 1e-9, "{with:?}");
        let [without, with, twice] = [without, with, twice].map(|voice| voice.mos.unwrap());
        assert!(with > without + 0.3 && with > twice + 0.3, "{without} {with} {twice}");
    }

    #[test]
    fn an_overtaken_packet_is_not_repaired() {
        let mut meter = VoiceMeter::default();
        for number in [0, 1, 3, 2, 4] {
            let mut packet = packet(number, true);
            if number == 2 {
                packet.at += TimeDelta::from_millis(21);
            }
            meter.on_packet(&packet, Some(TimeDelta::ZERO));
        }
        let heard = meter.figures().unwrap();
        assert_eq!((heard.played_packets, heard.lost_packets, heard.repaired_packets), (5, 0, 0));
    }

    #[cfg(feature = "voice")]
    #[test]
    fn packets_with_fec_are_those_of_an_encoder_that_makes_it() {
        use ropus::{Application, Bitrate, Channels, DecodeMode, Decoder, Encoder, InbandFec};

        let energy = |pcm: &[i16]| pcm.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>();
        for (channels, fec) in [
            (Channels::Mono, InbandFec::Enabled),
            (Channels::Mono, InbandFec::Disabled),
            (Channels::Stereo, InbandFec::Enabled),
        ] {
            let count = if channels == Channels::Mono { 1 } else { 2 };
            let mut encoder = Encoder::builder(16_000, channels, Application::Voip)
                .bitrate(Bitrate::try_bits(24_000 * count as u32).unwrap())
                .inband_fec(fec)
                .packet_loss_perc(10)
                .build()
                .unwrap();
            let mut with = 0;
            for number in 0..100_usize {
                let tone = |n: usize| ((((number * 320 + n / count) as f64) * 0.17).sin() * 9_000.0) as i16;
                let samples: Vec<i16> = (0..320 * count).map(tone).collect();
                let mut bytes = vec![0; 1276];
                let length = encoder.encode(&samples, &mut bytes).unwrap();
                let says_so = fec_time(&bytes[..length]);
                with += usize::from(says_so == Some(TimeDelta::from_millis(20)));
                // A decoder without a past makes only from FEC what is loud.
                let mut pcm = vec![0_i16; 320 * count];
                let mut decoder = Decoder::new(16_000, channels).unwrap();
                decoder.decode(&bytes[..length], &mut pcm, DecodeMode::Fec).unwrap();
                assert_eq!(says_so.is_some(), energy(&pcm) > 1e6, "{number}");
            }
            // How many have it is the encoder's choice.
            assert_eq!(with >= 10, fec == InbandFec::Enabled, "{with}");
        }
    }
}
