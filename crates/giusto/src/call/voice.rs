//! Speech in a call, as Opus (RFC 6716, RFC 7587).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use giusto_sim::traffic::encoder::MediaSource;
use giusto_units::{DataRate, TimeDelta, Timestamp};
use serde::{Deserialize, Serialize};

/// The rate of the encoder, headers not included: in-band FEC needs 20 kbit/s at 10 % loss, wideband speech 16 to 20 (RFC 6716 §2.1.1).
pub(crate) const VOICE_RATE: DataRate = DataRate::from_bps(24_000);
/// The time that a packet covers (RFC 7587 §7).
pub(crate) const PACKET_TIME: TimeDelta = TimeDelta::from_millis(20);
/// The RTP clock, whatever the rate of the samples (RFC 7587 §4.1).
pub(crate) const CLOCK: u32 = 48_000;

/// Rates of samples that the encoder takes (RFC 6716 §2). Others between the first and the last are converted to the last.
const RATES: [u32; 5] = [8_000, 12_000, 16_000, 24_000, 48_000];
const WITHOUT_OPUS: &str = "this giusto was built without Opus: build it with `cargo install --locked --path crates/cli --features voice`";
/// The rate of the voice that is made here.
const TALK_RATE: u32 = 16_000;

/// Speech that begins again at its end.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "voice"), allow(dead_code))] // only the encoder reads it
pub struct VoiceInput {
    samples: Arc<[i16]>,
    rate: u32,
    channels: u8,
    counts: Arc<Counts>,
}

/// What a source has given.
#[derive(Debug, Default)]
struct Counts {
    packets: AtomicU64,
    silent: AtomicU64,
    bytes: AtomicU64,
}

/// Speech that an end sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SentVoice {
    /// Its codec: `opus`.
    pub codec: String,
    /// The rate of its packets, headers not included.
    pub rate_bps: f64,
    /// Packets.
    pub packets: u64,
    /// Packets that were not sent, because the speaker was silent (DTX, RFC 7587 §3.1.3).
    pub silent_packets: u64,
}

impl VoiceInput {
    /// Samples of one channel, or of two interleaved ones, at this rate.
    ///
    /// # Errors
    ///
    /// The text says why they cannot be sent, and the fix.
    pub fn new(samples: Vec<i16>, rate: u32, channels: u16) -> Result<Self, String> {
        if cfg!(not(feature = "voice")) {
            return Err(WITHOUT_OPUS.to_owned());
        }
        if !(RATES[0]..=CLOCK).contains(&rate) {
            return Err(format!(
                "its rate of {rate} Hz is not between 8 and 48 kHz: convert it, such as by `ffmpeg -i FILE -ar 48000 OUT.wav`"
            ));
        }
        let channels = u8::try_from(channels).ok().filter(|channels| (1..=2).contains(channels)).ok_or_else(|| {
            format!("it has {channels} channels, expected 1 or 2: convert it, such as by `ffmpeg -i FILE -ac 1 OUT.wav`")
        })?;
        let least = packet_samples(rate) * usize::from(channels);
        if samples.len() < least {
            return Err(format!("it is shorter than a packet of {PACKET_TIME}"));
        }
        let (samples, rate) = if RATES.contains(&rate) {
            (samples, rate)
        } else {
            (converted(&samples, rate, channels.into()), CLOCK)
        };
        Ok(Self { samples: samples.into(), rate, channels, counts: Arc::default() })
    }

    /// A voice for machines without a microphone or a file: talk spurts of 1.0 s and pauses of 1.58 s (the means of ITU-T P.59), of a tone
    /// of 125 Hz with all its overtones in syllables of 250 ms. It is the same everywhere.
    ///
    /// # Errors
    ///
    /// Those of [`VoiceInput::new`].
    pub fn talk() -> Result<Self, String> {
        let sample = |n: i32| {
            let (spurt, syllable) = (n < TALK_RATE as i32, n % 4_000);
            // A sawtooth of 128 samples, as loud as the triangle of its syllable.
            let loudness = if spurt { syllable.min(4_000 - syllable) } else { 0 };
            ((n % 128 - 64) * loudness / 8) as i16
        };
        Self::new((0..TALK_RATE as i32 * 258 / 100).map(sample).collect(), TALK_RATE, 1)
    }

    /// Its packets from `start` on.
    ///
    /// # Errors
    ///
    /// Why the encoder refuses.
    pub(crate) fn source(&self, start: Timestamp) -> Result<Box<dyn MediaSource>, String> {
        #[cfg(feature = "voice")]
        return Ok(Box::new(encoder::Voice::new(self.clone(), start)?));
        #[cfg(not(feature = "voice"))]
        {
            let _ = (self, start);
            Err(WITHOUT_OPUS.to_owned())
        }
    }

    /// The same, with counts of its own.
    pub(crate) fn of_another_call(&self) -> Self {
        Self { counts: Arc::default(), ..self.clone() }
    }

    /// What was given so far, over `duration`.
    pub(crate) fn figures(&self, duration: TimeDelta) -> SentVoice {
        let [packets, silent, bytes] =
            [&self.counts.packets, &self.counts.silent, &self.counts.bytes].map(|count| count.load(Relaxed));
        let seconds = duration.as_seconds();
        SentVoice {
            codec: "opus".to_owned(),
            rate_bps: if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 },
            packets,
            silent_packets: silent,
        }
    }
}

/// The samples at 48 kHz, those between two on the line between them: what that adds to speech is far below what 24 kbit/s leave out.
fn converted(samples: &[i16], rate: u32, channels: usize) -> Vec<i16> {
    let (rate, last) = (u64::from(rate), samples.len() / channels - 1);
    let at = |frame: usize, channel| {
        i64::from(samples.get(frame.min(last) * channels + channel).copied().unwrap_or(0))
    };
    let frames = samples.len() as u64 / channels as u64 * u64::from(CLOCK) / rate;
    let frame = |n: u64| {
        let (whole, part) = (n * rate / u64::from(CLOCK), (n * rate % u64::from(CLOCK)) as i64);
        (0..channels).map(move |channel| {
            let (before, after) = (at(whole as usize, channel), at(whole as usize + 1, channel));
            (before + (after - before) * part / i64::from(CLOCK)) as i16
        })
    };
    (0..frames).flat_map(frame).collect()
}

/// The samples of a packet, of one channel.
const fn packet_samples(rate: u32) -> usize {
    rate as usize / 50
}

#[cfg(feature = "voice")]
mod encoder {
    use giusto_session::media::{Frame, RateRange};
    use giusto_sim::traffic::encoder::LATENESS_MAX;
    use ropus::{Application, Bitrate, Channels, Encoder, InbandFec};

    use super::{
        CLOCK, DataRate, MediaSource, PACKET_TIME, Relaxed, Timestamp, VOICE_RATE, VoiceInput, packet_samples,
    };

    /// The loss for which in-band FEC is sized, in percent. Chosen by us: above it repair by FEC alone is of little use.
    const EXPECTED_LOSS: u8 = 10;
    /// Packets up to this length say that the speaker is silent: they need not be sent (DTX, `opus_encode` of libopus).
    const DTX_BYTES: usize = 2;
    /// The longest packet of a frame (RFC 6716 §3.2.1), and its first byte.
    const MAX_BYTES: usize = 1_276;

    /// The packets of a voice as one of the encoders of a media flow.
    pub(crate) struct Voice {
        input: VoiceInput,
        encoder: Encoder,
        next: Timestamp,
        number: u64,
        is_paused: bool,
    }

    impl std::fmt::Debug for Voice {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Voice").field("number", &self.number).finish_non_exhaustive()
        }
    }

    impl Voice {
        pub(crate) fn new(input: VoiceInput, start: Timestamp) -> Result<Self, String> {
            let channels = if input.channels == 1 { Channels::Mono } else { Channels::Stereo };
            let bitrate = Bitrate::try_bits(VOICE_RATE.as_bps() as u32).map_err(|error| error.to_string())?;
            let encoder = Encoder::builder(input.rate, channels, Application::Voip)
                .bitrate(bitrate)
                .inband_fec(InbandFec::Enabled)
                .packet_loss_perc(EXPECTED_LOSS)
                .dtx(true)
                .build()
                .map_err(|error| format!("Opus: {error}"))?;
            Ok(Self { input, encoder, next: start, number: 0, is_paused: false })
        }

        /// The samples of the next packet.
        fn samples(&self) -> Vec<i16> {
            let each = packet_samples(self.input.rate) * usize::from(self.input.channels);
            let packets = (self.input.samples.len() / each).max(1);
            let start = (self.number % packets as u64) as usize * each;
            self.input.samples.get(start..start + each).unwrap_or_default().to_vec()
        }
    }

    impl MediaSource for Voice {
        fn next_frame_at(&self) -> Option<Timestamp> {
            (!self.is_paused).then_some(self.next)
        }

        fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
            while self.next <= now {
                let (captured, number, samples) = (self.next, self.number, self.samples());
                let mut packet = vec![0; MAX_BYTES];
                // Samples of the right number are always encoded.
                let length = self.encoder.encode(&samples, &mut packet).unwrap_or(0);
                let is_sent = length > DTX_BYTES;
                self.next += PACKET_TIME;
                self.number += 1;
                let is_late = captured + LATENESS_MAX < now;
                if !is_sent || is_late {
                    self.input.counts.silent.fetch_add(u64::from(!is_sent), Relaxed);
                    continue;
                }
                packet.truncate(length);
                self.input.counts.packets.fetch_add(1, Relaxed);
                self.input.counts.bytes.fetch_add(length as u64, Relaxed);
                let media_timestamp = (number * u64::from(CLOCK / 50)) as u32;
                return Some(Frame { captured, media_timestamp, payload: packet.into(), key: false });
            }
            None
        }

        fn set_target(&mut self, _: Timestamp, _: DataRate) {}

        fn target(&self) -> DataRate {
            VOICE_RATE
        }

        fn limits(&self) -> RateRange {
            RateRange::fixed(VOICE_RATE)
        }

        fn request_key_frame(&mut self, _: Timestamp) {}

        fn set_paused(&mut self, now: Timestamp, paused: bool) {
            self.is_paused = paused;
            self.next = self.next.max(now);
        }
    }

    #[cfg(test)]
    mod tests {
        use rand::{RngExt as _, SeedableRng as _};
        use ropus::{DecodeMode, Decoder};

        use giusto_units::TimeDelta;

        use super::{super::SentVoice, *};

        /// A tone of 440 Hz for a second, then silence for a second.
        fn voice() -> Voice {
            let tone = |n: u32| {
                let phase = f64::from(n) * 440.0 * std::f64::consts::TAU / 48_000.0;
                if n < 48_000 { (phase.sin() * 10_000.0) as i16 } else { 0 }
            };
            let input = VoiceInput::new((0..96_000).map(tone).collect(), 48_000, 1).unwrap();
            Voice::new(input, Timestamp::ZERO).unwrap()
        }

        #[test]
        fn silence_is_not_sent_and_a_lost_packet_is_rebuilt_by_the_next() {
            let mut voice = voice();
            let (mut decoder, mut quiet) = (Decoder::new(48_000, Channels::Mono).unwrap(), 0);
            let mut packets = Vec::new();
            while let Some(at) = voice.next_frame_at().filter(|at| *at < Timestamp::from_nanos(2_000_000_000))
            {
                let Some(frame) = voice.poll_frame(at) else { continue };
                let timestamp = u64::from(frame.media_timestamp);
                assert_eq!((frame.captured, timestamp), (at, at.as_nanos() * 48 / 1_000_000));
                let bytes = frame.payload.to_vec();
                if at < Timestamp::from_nanos(1_000_000_000) { packets.push(bytes) } else { quiet += 1 }
            }
            // Ten of silence before it is noticed, then one in 400 ms.
            assert_eq!(packets.len(), 50);
            assert!((10..=13).contains(&quiet), "{quiet}");
            assert_eq!(voice.input.figures(TimeDelta::from_seconds(2)).silent_packets, 50 - quiet);
            // The 30th is lost: only the FEC of the 31st has its energy.
            let mut pcm = vec![0_i16; 960];
            for packet in &packets[..29] {
                decoder.decode(packet, &mut pcm, DecodeMode::Normal).unwrap();
            }
            let energy =
                |pcm: &[i16]| pcm.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / 960.0;
            let before = energy(&pcm);
            decoder.decode(&packets[30], &mut pcm, DecodeMode::Fec).unwrap();
            let rebuilt = energy(&pcm);
            assert!((0.4..2.5).contains(&(rebuilt / before)), "{rebuilt} after {before}");
        }

        /// Samples that a microphone hardly gives, by their kind.
        fn odd_samples(kind: u32, count: usize, random: &mut impl rand::Rng) -> Vec<i16> {
            let impulse = random.random_range(0..count);
            let sample = |n: usize| match kind {
                0 => 0,
                1 => random.random(),
                2 if random.random() => i16::MAX,
                2 | 4 => i16::MIN,
                3 => i16::MAX,
                5 => i16::MIN * i16::from(n == impulse),
                6 => ((n as f64 * 0.05).sin() * 60_000.0) as i16,
                _ => random.random_range(-1..=1),
            };
            (0..count).map(sample).collect()
        }

        #[test]
        fn whatever_the_samples_are_packets_of_their_time_come_and_nothing_panics() {
            let mut random = rand::rngs::StdRng::seed_from_u64(1);
            let (mut sent, mut silent) = (0, 0);
            for round in 0..60_u16 {
                let rates = [8_000, 11_025, 12_000, 16_000, 24_000, 44_100, 48_000];
                let (rate, channels) = (rates[usize::from(round % 7)], round % 2 + 1);
                let mut samples = Vec::new();
                while samples.len() < rate as usize * usize::from(channels) {
                    let (kind, count) = (random.random_range(0..8), random.random_range(1..6_000));
                    samples.extend(odd_samples(kind, count, &mut random));
                }
                let input = VoiceInput::new(samples, rate, channels).unwrap();
                let (rate, each) = (input.rate, packet_samples(input.rate));
                let mut voice = Voice::new(input, Timestamp::ZERO).unwrap();
                let channels = if channels == 1 { Channels::Mono } else { Channels::Stereo };
                let mut decoder = Decoder::new(rate, channels).unwrap();
                for n in 0..50 {
                    let Some(frame) = voice.poll_frame(Timestamp::ZERO + PACKET_TIME * n) else {
                        silent += 1;
                        continue;
                    };
                    sent += 1;
                    let packet = frame.payload.to_vec();
                    assert!((3..=MAX_BYTES).contains(&packet.len()));
                    let mut pcm = vec![0; 2 * each];
                    let decoded = decoder.decode(&packet, &mut pcm, DecodeMode::Normal);
                    assert_eq!(decoded.unwrap(), each, "round {round}, packet {n}");
                }
            }
            assert!(sent > 2_000 && sent + silent == 3_000, "{sent} {silent}");
        }

        #[test]
        fn talk_pauses_as_people_do() {
            let mut voice = Voice::new(VoiceInput::talk().unwrap(), Timestamp::ZERO).unwrap();
            for n in 0..500 {
                voice.poll_frame(Timestamp::ZERO + PACKET_TIME * n);
            }
            let SentVoice { packets, silent_packets, rate_bps, .. } =
                voice.input.figures(TimeDelta::from_seconds(10));
            // 39 % of the time is talk; ten packets of each pause are sent before it is noticed.
            assert_eq!(packets + silent_packets, 500);
            assert!((200..340).contains(&packets), "{packets}");
            assert!((4e3..20e3).contains(&rate_bps), "{rate_bps}");
        }

        #[test]
        fn what_opus_does_not_take_is_refused_by_name() {
            for (samples, rate, channels, expected) in [
                (96_000, 96_000, 1, "96000 Hz"),
                (96_000, 0, 1, "0 Hz"),
                (96_000, 48_000, 0, "0 channels"),
                (96_000, 48_000, 6, "6 channels"),
                (959, 48_000, 1, "shorter"),
            ] {
                let error = VoiceInput::new(vec![0; samples], rate, channels).unwrap_err();
                assert!(error.contains(expected), "{expected}: {error}");
            }
        }
    }
}
