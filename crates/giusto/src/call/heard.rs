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

use super::{anchor::Anchor, voice::CLOCK};

/// Speech that an end received.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeardVoice {
    /// Its codec: `opus`.
    pub codec: String,
    /// Packets that were played, repaired ones included.
    pub played_packets: u64,
    /// Packets that did not arrive.
    pub lost_packets: u64,
    /// Those of them that in-band FEC of the next packet repaired in time to be played (RFC 6716 §2.1.7): it has one frame, so that a packet
    /// of several stays lost. Of browsers it is unknown, 0.
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
    /// The sequence number of the first packet to arrive, and the media clock, which begins with it.
    first: Option<(u64, Anchor)>,
    /// One more than the highest sequence number.
    end: u64,
    /// Where that packet ends in media time, and whether it has several frames.
    latest: (TimeDelta, bool),
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
        let latest = (TimeDelta::ZERO, false);
        Self { playout, first: None, end: 0, latest, delays, rebuilt, repaired: 0, useless: 0 }
    }
}

impl VoiceMeter {
    /// A packet has arrived; `correction` is that of its delay for the clocks of the two ends.
    pub(super) fn on_packet(&mut self, packet: &FrameArrival, correction: Option<TimeDelta>) {
        let begin = Anchor { rtp_timestamp: packet.rtp_timestamp, captured: TimeDelta::ZERO };
        let (sequence, clock) = self.first.get_or_insert((packet.sequence, begin));
        // What was sent before the first to arrive is not heard, and is not counted.
        let Some(index) = packet.sequence.checked_sub(*sequence) else { return };
        let media_time = clock.captured(packet.rtp_timestamp, CLOCK);
        if let Some(place) = self.rebuilt.iter().position(|(lost, _)| *lost == index)
            && let Some((_, in_time)) = self.rebuilt.remove(place)
        {
            // It was only overtaken.
            *(if in_time { &mut self.repaired } else { &mut self.useless }) -= 1;
        }
        let head = packet.payload.part(0..MAX_HEAD).to_vec();
        if let Some(opus) = OpusPacket::read(&head)
            && index >= self.end
        {
            let (before, was_several) = self.latest;
            // Where both neighbours have one frame, more time than that between them is silence.
            let is_covered =
                index == self.end + 1 && media_time - before <= opus.frame || opus.count == 1 && !was_several;
            if index > self.end && opus.has_fec && is_covered {
                self.rebuild(index - 1, media_time - opus.frame, packet.at);
            }
            self.latest = (media_time + opus.frame * i64::from(opus.count), opus.count > 1);
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

/// What is looked at of a packet of Opus: its first frame comes after at most 47 lengths of two bytes and as many bytes about padding.
const MAX_HEAD: usize = 128;

/// What the beginning of a packet of Opus says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OpusPacket {
    /// The time of a frame.
    frame: TimeDelta,
    /// The number of frames.
    count: u8,
    /// Whether it has in-band FEC: of one frame, the last before this packet.
    has_fec: bool,
}

impl OpusPacket {
    /// `None`: it is damaged. The flag of FEC follows those of voice activity, one for each 20 ms of SILK, which are uniform bits (RFC 6716
    /// §4.2.3). Only the first frame's counts, as in `opus_packet_has_lbrr` of libopus 1.5: the others repeat frames of this packet.
    fn read(packet: &[u8]) -> Option<Self> {
        let (&toc, rest) = packet.split_first()?;
        let (config, is_stereo) = (toc >> 3, toc & 4 != 0);
        let (count, first) = first_frame(toc & 3, rest)?;
        // RFC 6716 §3.1: SILK alone, hybrid, CELT, which has no FEC.
        let micros = match config {
            0..=11 => *[10_000, 20_000, 40_000, 60_000].get(usize::from(config % 4))?,
            12..=15 => *[10_000, 20_000].get(usize::from(config % 2))?,
            _ => *[2_500, 5_000, 10_000, 20_000].get(usize::from(config % 4))?,
        };
        let flags = (micros / 20_000).max(1);
        let has_fec = config < 16
            && first.is_some_and(|first| {
                first >> (7 - flags) & 1 == 1 || is_stereo && first >> (6 - 2 * flags) & 1 == 1
            });
        Some(Self { frame: TimeDelta::from_micros(micros), count, has_fec })
    }
}

/// The number of frames of a packet with this code, whose first byte is left out, and the first byte of its first frame, if that is not
/// empty (RFC 6716 §3.2).
fn first_frame(code: u8, rest: &[u8]) -> Option<(u8, Option<u8>)> {
    // §3.2.1: a length is one byte, or two from 252 on.
    let sized = |rest: &[u8]| {
        let first = *rest.first()?;
        Some((first > 0, if first < 252 { 1 } else { 2 }))
    };
    let byte = |is_there: bool, at: usize| rest.get(at).copied().filter(|_| is_there);
    match code {
        0 => Some((1, byte(true, 0))),
        1 => Some((2, byte(true, 0))),
        2 => sized(rest).map(|(is_there, at)| (2, byte(is_there, at))),
        _ => {
            let about = *rest.first()?;
            let (is_variable, is_padded, count) = (about & 0x80 != 0, about & 0x40 != 0, about & 0x3f);
            let mut at = 1;
            if is_padded {
                while *rest.get(at)? == 255 {
                    at += 1;
                }
                at += 1;
            }
            let mut is_there = true;
            for number in 1..if is_variable { count } else { 1 } {
                let (has_bytes, bytes) = sized(rest.get(at..)?)?;
                is_there &= number > 1 || has_bytes;
                at += bytes;
            }
            (count > 0).then(|| (count, byte(is_there, at)))
        }
    }
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
    fn speech_is_heard_after_its_timestamps_have_wrapped() {
        let mut meter = VoiceMeter::default();
        for number in 0..6_u64 {
            let mut packet = packet(number, false);
            packet.rtp_timestamp = (number * 10 * 3600 * 48_000) as u32;
            packet.at = Timestamp::ZERO + TimeDelta::from_seconds(number as i64 * 10 * 3600);
            meter.on_packet(&packet, Some(TimeDelta::ZERO));
        }
        let heard = meter.figures().unwrap();
        assert_eq!((heard.played_packets, heard.late_packets), (6, 0));
        assert!(heard.buffer_delay_ms < 100.0, "{heard:?}");
    }

    #[test]
    fn an_overtaken_packet_is_not_repaired() {
        let mut meter = VoiceMeter::default();
        for (number, late) in [(0, 0), (1, 0), (3, 0), (2, 21), (4, 0)] {
            let mut packet = packet(number, true);
            packet.at += TimeDelta::from_millis(late);
            meter.on_packet(&packet, Some(TimeDelta::ZERO));
        }
        let heard = meter.figures().unwrap();
        assert_eq!((heard.played_packets, heard.lost_packets, heard.repaired_packets), (5, 0, 0));
    }

    #[test]
    fn packets_of_all_codes_are_read() {
        let read = |packet: &[u8]| {
            let OpusPacket { frame, count, has_fec } = OpusPacket::read(packet)?;
            Some((frame.as_millis(), count, has_fec))
        };
        // RFC 6716 §3.2: SILK of 20 ms; one frame, two equal, two with a length, three of one size, and of several.
        for (head, count) in [
            (&[0x48][..], 1),
            (&[0x49], 2),
            (&[0x4a, 1], 2),
            (&[0x4a, 252, 9], 2),
            (&[0x4b, 3], 3),
            (&[0x4b, 0x43, 255, 7], 3),
            (&[0x4b, 0x83, 5, 252, 1], 3),
            (&[0x4b, 0xc3, 2, 5, 0], 3),
        ] {
            for (first, has_fec) in [(0xc0, true), (0x40, true), (0x80, false)] {
                assert_eq!(read(&[head, &[first, 0x7f]].concat()), Some((20.0, count, has_fec)), "{head:x?}");
            }
        }
        // The first of two is empty; hybrid stereo of 20 ms, in whose side channel alone is FEC; 60 ms with three flags of activity; CELT.
        assert_eq!(read(&[0x4a, 0, 0xff]), Some((20.0, 2, false)));
        assert_eq!(read(&[0x7c, 0x10]), Some((20.0, 1, true)));
        assert_eq!(read(&[0x58, 0x10]), Some((60.0, 1, true)));
        assert_eq!(read(&[0x58, 0xef]), Some((60.0, 1, false)));
        assert_eq!(read(&[0xf8, 0xff]), Some((20.0, 1, false)));
        for damaged in [&[][..], &[0x4a], &[0x4b], &[0x4b, 0], &[0x4b, 0x43, 255], &[0x4b, 0x83, 252]] {
            assert_eq!(read(damaged), None, "{damaged:x?}");
        }
    }

    #[test]
    fn fec_repairs_one_frame_and_not_a_packet_of_several() {
        // Packets of so many frames of 20 ms, of which the third is lost.
        let repaired = |frames: [u8; 4], silence: u32| {
            let mut meter = VoiceMeter::default();
            let mut ticks = 0;
            for (number, frames) in (0..).zip(frames) {
                let mut packet = packet(number, true);
                packet.rtp_timestamp = ticks;
                packet.at = Timestamp::ZERO + TimeDelta::from_micros(i64::from(ticks) * 125 / 6 + 10_000);
                let head = if frames == 1 { vec![0x48] } else { vec![0x4b, frames] };
                packet.payload = [head, vec![0xc0, 0, 0, 0, 0, 0]].concat().into();
                if number != 2 {
                    meter.on_packet(&packet, Some(TimeDelta::ZERO));
                }
                ticks += u32::from(frames) * 960 + if number == 2 { silence } else { 0 };
            }
            let heard = meter.figures().unwrap();
            (heard.lost_packets, heard.repaired_packets)
        };
        for (frames, silence, expected) in [
            ([1; 4], 0, (1, 1)),
            // Silence, of which nothing is sent, after the lost packet.
            ([1; 4], 9_600, (1, 1)),
            // Of two or three frames only the last is there.
            ([2; 4], 0, (1, 0)),
            ([3; 4], 0, (1, 0)),
            ([2, 2, 2, 1], 0, (1, 0)),
            ([3, 3, 3, 1], 0, (1, 0)),
            // The sender has made its packets longer after the lost one.
            ([1, 1, 1, 2], 0, (1, 1)),
            ([1, 1, 1, 3], 0, (1, 1)),
        ] {
            assert_eq!(repaired(frames, silence), expected, "{frames:?} {silence}");
        }
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
                let read = OpusPacket::read(&bytes[..length]).unwrap();
                assert_eq!((read.frame, read.count), (TimeDelta::from_millis(20), 1));
                with += usize::from(read.has_fec);
                // A decoder without a past makes only from FEC what is loud.
                let mut pcm = vec![0_i16; 320 * count];
                let mut decoder = Decoder::new(16_000, channels).unwrap();
                decoder.decode(&bytes[..length], &mut pcm, DecodeMode::Fec).unwrap();
                assert_eq!(read.has_fec, energy(&pcm) > 1e6, "{number}");
            }
            // How many have it is the encoder's choice.
            assert_eq!(with >= 10, fec == InbandFec::Enabled, "{with}");
        }
    }
}
