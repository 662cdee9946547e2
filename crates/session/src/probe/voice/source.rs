//! The packets of a voice stream.

use giusto_rtp::{
    RTP_HEADER_BYTES, RtpHeader,
    voice::{VoiceFormat, VoiceProfile},
};
use giusto_units::{TimeDelta, Timestamp, math};

use super::error::{TELEPHONE_RATE, VoiceSourceError};
use crate::probe::{MediaTiming, g711};

/// Initial numbers of a stream. They should be random (RFC 3550 §5.1), from a generator that the caller has
/// seeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamStart {
    /// The sequence number of the first packet.
    pub sequence: u16,
    /// The RTP timestamp of the first packet.
    pub timestamp: u32,
    /// The synchronisation source of all packets.
    pub ssrc: u32,
}

/// Frequency of the tone: the reference of ITU-T O.6, because a divisor of 8000 Hz would not use every code
/// of G.711.
const TONE_HZ: f64 = 1020.0;
/// One loop of the tone: 51 periods in 50 ms.
const TONE_SAMPLES: u32 = 400;
/// Level of the tone, −10 dBm0, below a sine that just fills the A-law, at +3.14 dBm0 (G.711 §4).
const TONE_BELOW_FULL_SCALE_DB: f64 = 13.14;

/// A tone of 1020 Hz at −10 dBm0, sampled at 8000 Hz: a whole number of periods, so that it can be repeated.
pub fn tone() -> Vec<i16> {
    let peak = 32_768.0 * math::pow(10.0, -TONE_BELOW_FULL_SCALE_DB / 20.0);
    let step = std::f64::consts::TAU * TONE_HZ / f64::from(TELEPHONE_RATE);
    (0..TONE_SAMPLES).map(|n| (peak * math::sin(step * f64::from(n))).round() as i16).collect()
}

/// Makes the packets of one voice stream, without pauses.
#[derive(Debug, Clone)]
pub struct VoiceSource {
    format: VoiceFormat,
    next: RtpHeader,
    /// Coded audio, repeated; empty for codecs without an encoder.
    audio: Vec<u8>,
    position: usize,
    packets: u64,
}

impl VoiceSource {
    /// A source whose G.711 payload is a [`tone`].
    pub fn new(format: VoiceFormat, start: StreamStart) -> Self {
        Self::build(format, start, &tone())
    }

    /// A source whose G.711 payload is `samples`, at 8000 Hz in one channel, repeated. Other codecs do not
    /// use them.
    ///
    /// # Errors
    ///
    /// [`VoiceSourceError::NoAudio`] if there are no samples.
    pub fn with_audio(
        format: VoiceFormat,
        start: StreamStart,
        samples: &[i16],
    ) -> Result<Self, VoiceSourceError> {
        if samples.is_empty() {
            return Err(VoiceSourceError::NoAudio);
        }
        Ok(Self::build(format, start, samples))
    }

    fn build(format: VoiceFormat, start: StreamStart, samples: &[i16]) -> Self {
        let coded = |encode: fn(i16) -> u8| samples.iter().copied().map(encode).collect();
        let audio = match format.profile() {
            VoiceProfile::G711Ulaw => coded(g711::encode_ulaw),
            VoiceProfile::G711Alaw => coded(g711::encode_alaw),
            _ => Vec::new(),
        };
        let next = RtpHeader {
            // The first packet begins a talkspurt that never ends (RFC 3551 §4.1).
            marker: true,
            payload_type: format.profile().payload_type(),
            sequence: start.sequence,
            timestamp: start.timestamp,
            ssrc: start.ssrc,
            extension: None,
        };
        Self { format, next, audio, position: 0, packets: 0 }
    }

    /// The stream's format.
    pub const fn format(&self) -> &VoiceFormat {
        &self.format
    }

    /// The timestamp of the next packet, which is due at `due`.
    pub(in crate::probe) fn timing(&self, due: Timestamp) -> MediaTiming {
        MediaTiming {
            ssrc: self.next.ssrc,
            clock_rate_hz: self.format.profile().clock_rate(),
            at: due,
            timestamp: self.next.timestamp,
        }
    }

    /// The last `packets` were not sent: the next one takes the sequence number of the first of them (RFC 3550 §5.1 counts the packets
    /// that are sent). Their samples are gone, as the timestamps show.
    pub(in crate::probe) fn return_unsent(&mut self, packets: u64) {
        self.next.sequence = self.next.sequence.wrapping_sub(packets as u16);
        self.packets = self.packets.saturating_sub(packets);
    }

    /// Number of packets so far.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Capture time of the next packet's first sample, relative to the start of the stream.
    pub fn media_time(&self) -> TimeDelta {
        self.format.packet_time() * i64::try_from(self.packets).unwrap_or(i64::MAX)
    }

    /// Writes the next packet, header and payload, to the front of `buffer`. Returns its length.
    ///
    /// # Errors
    ///
    /// [`VoiceSourceError::BufferTooSmall`]; the packet is not consumed.
    pub fn next_packet(&mut self, buffer: &mut [u8]) -> Result<usize, VoiceSourceError> {
        let (needed, found) = (self.format.packet_size().as_bytes() as usize, buffer.len());
        let packet = buffer.get_mut(..needed).ok_or(VoiceSourceError::BufferTooSmall { needed, found })?;
        self.next.write(packet)?;
        self.fill(packet.get_mut(RTP_HEADER_BYTES..).unwrap_or_default());
        self.next.marker = false;
        self.next.sequence = self.next.sequence.wrapping_add(1);
        self.next.timestamp = self.next.timestamp.wrapping_add(self.format.timestamp_step());
        self.packets += 1;
        Ok(needed)
    }

    fn fill(&mut self, payload: &mut [u8]) {
        if self.audio.is_empty() {
            for (byte, value) in payload.iter_mut().zip(self.packets..) {
                *byte = value as u8;
            }
            if let (VoiceProfile::Opus, Some(first)) = (self.format.profile(), payload.first_mut()) {
                *first = self.format.opus_table_of_contents();
            }
            return;
        }
        let from = self.audio.iter().cycle().skip(self.position);
        for (byte, code) in payload.iter_mut().zip(from) {
            *byte = *code;
        }
        self.position = (self.position + payload.len()) % self.audio.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> StreamStart {
        StreamStart { sequence: 65_535, timestamp: u32::MAX - 100, ssrc: 0xdead_beef }
    }

    #[test]
    fn packets_are_numbered_and_only_the_first_is_marked() {
        for profile in VoiceProfile::ALL {
            let format = VoiceFormat::new(profile);
            let mut source = VoiceSource::new(format, start());
            let mut buffer = [0; 1500];
            for n in 0_u32..5 {
                assert_eq!(source.media_time(), TimeDelta::from_millis(20) * i64::from(n));
                let length = source.next_packet(&mut buffer).unwrap();
                let (header, payload) = RtpHeader::parse(&buffer[..length]).unwrap();
                assert_eq!(header.marker, n == 0);
                assert_eq!(header.sequence, 65_535_u16.wrapping_add(n as u16));
                assert_eq!(header.timestamp, start().timestamp.wrapping_add(n * format.timestamp_step()));
                assert_eq!((header.ssrc, header.payload_type), (0xdead_beef, profile.payload_type()));
                assert_eq!(payload.len() as u64, format.payload_size().as_bytes());
            }
            assert_eq!(source.packets(), 5);
        }
    }

    #[test]
    fn a_small_buffer_does_not_consume_the_packet() {
        let mut source = VoiceSource::new(VoiceFormat::new(VoiceProfile::G729), start());
        let mut buffer = [0; 32];
        let error = VoiceSourceError::BufferTooSmall { needed: 32, found: 31 };
        assert_eq!(source.next_packet(&mut buffer[..31]), Err(error));
        assert_eq!(source.packets(), 0);
        assert_eq!(source.next_packet(&mut buffer), Ok(32));
        assert!(RtpHeader::parse(&buffer).unwrap().0.marker);
    }

    #[test]
    fn g711_repeats_the_given_samples() {
        let samples: Vec<i16> = (0..250).map(|n| n * 100 - 12_500).collect();
        let mut source =
            VoiceSource::with_audio(VoiceFormat::new(VoiceProfile::G711Alaw), start(), &samples).unwrap();
        let mut sent = Vec::new();
        let mut buffer = [0; 172];
        for _ in 0..5 {
            source.next_packet(&mut buffer).unwrap();
            sent.extend_from_slice(&buffer[12..]);
        }
        let expected: Vec<u8> = samples.iter().cycle().take(800).map(|&s| g711::encode_alaw(s)).collect();
        assert_eq!(sent, expected);
        let none = VoiceSource::with_audio(VoiceFormat::new(VoiceProfile::G729), start(), &[]);
        assert_eq!(none.unwrap_err(), VoiceSourceError::NoAudio);
    }

    #[test]
    fn the_tone_has_its_level_and_frequency_and_repeats() {
        let tone = tone();
        let power = tone.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>() / tone.len() as f64;
        let full_scale_sine = 32_768.0_f64.powi(2) / 2.0;
        let level = 10.0 * (power / full_scale_sine).log10();
        assert!((level + 13.14).abs() < 0.01, "{level}");
        let crossings = tone.iter().zip(tone.iter().cycle().skip(1)).filter(|(a, b)| **a < 0 && **b >= 0);
        assert_eq!(crossings.count(), 51);
        assert_eq!(tone[0], 0);
        assert!((i32::from(tone[399]) + i32::from(tone[1])).abs() <= 1);
    }

    #[test]
    fn opus_packets_begin_with_a_valid_table_of_contents() {
        // Configurations of RFC 6716 Table 2 with their frame sizes in units of 0.1 ms.
        let frame = |configuration: u8| match configuration {
            0..=11 => [100, 200, 400, 600][usize::from(configuration % 4)],
            12..=15 => [100, 200][usize::from(configuration % 2)],
            _ => [25, 50, 100, 200][usize::from(configuration % 4)],
        };
        for &time in VoiceProfile::Opus.packet_times() {
            let format = VoiceFormat::with_packet_time(VoiceProfile::Opus, time).unwrap();
            let mut buffer = [0; 400];
            VoiceSource::new(format, start()).next_packet(&mut buffer).unwrap();
            let byte = buffer[12];
            assert_eq!(byte & 0x07, 0, "mono, one frame");
            assert_eq!(frame(byte >> 3) * 100_000, time.as_nanos());
        }
    }
}
