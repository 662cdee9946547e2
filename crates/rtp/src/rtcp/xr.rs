//! Extended reports (RFC 3611): the round-trip time of receivers (§4.4, §4.5), VoIP metrics (§4.7).

use super::{
    error::RtcpError,
    frame::{self, Frame, packet_type, take, take_u32},
};
use crate::{NtpDelay, NtpShort, NtpTimestamp};
use alloc::vec::Vec;

/// Block type of a receiver reference time (RFC 3611 §4.4), and the length of its content in words.
const REFERENCE_TIME: u8 = 4;
const REFERENCE_TIME_WORDS: u16 = 2;
/// Block type of the delays since the last receiver reports (RFC 3611 §4.5), and the length of one in words.
const DELAYS: u8 = 5;
const DELAY_WORDS: usize = 3;

/// Block type of VoIP metrics (RFC 3611 §4.7).
const VOIP_METRICS: u8 = 7;
/// Length of the content of a block of VoIP metrics, in words (RFC 3611 §4.7).
const VOIP_METRICS_WORDS: u16 = 8;
/// The value of a level or of a quality that is not available (RFC 3611 §4.7.4, §4.7.5).
const UNAVAILABLE: u8 = 127;
const WORD_BYTES: usize = 4;

/// An extended report (RFC 3611 §2). Blocks of other types are skipped when it is read.
///
/// | bits | field |
/// |---|---|
/// | 32 | header: reserved, packet type 207, length |
/// | 32 | source of the report |
/// | 96 | reference time: block type 4 (8), reserved (8), length 2 (16), NTP timestamp (64) |
/// | 32 and 96 each | block type 5 (8), reserved (8), length (16); [`DelaySinceLast`] |
/// | 288 each | [`VoipMetrics`] |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ExtendedReport {
    /// The source of the report.
    pub ssrc: u32,
    /// Time of the report on the clock of its source, from which a receiver that sends no media measures the RTT (RFC 3611
    /// §4.4). If there are several, the last one is read.
    pub reference_time: Option<NtpTimestamp>,
    /// Answers to the reference times of other participants (RFC 3611 §4.5).
    pub delays: Vec<DelaySinceLast>,
    /// VoIP metrics, one block for each reported source.
    pub voip_metrics: Vec<VoipMetrics>,
}

/// The answer to a reference time (DLRR, RFC 3611 §4.5).
///
/// | bits | field |
/// |---|---|
/// | 32 | source of the reference time |
/// | 32, 32 | the middle of the reference time; delay since its arrival |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DelaySinceLast {
    /// The participant that sent the reference time.
    pub ssrc: u32,
    /// Its latest reference time; zero before the first.
    pub last_reference: NtpShort,
    /// Time from the arrival of that to this answer.
    pub delay: NtpDelay,
}

impl DelaySinceLast {
    /// The RTT if this answer arrives at `now`: A − LRR − DLRR (RFC 3611 §4.5). `None` if there was no reference time, or if the
    /// result is negative.
    pub fn rtt(&self, now: NtpShort) -> Option<NtpDelay> {
        let answered = self.last_reference.to_bits() != 0;
        let passed =
            now.to_bits().wrapping_sub(self.last_reference.to_bits()).wrapping_sub(self.delay.to_bits());
        (answered && passed <= u32::MAX / 2).then_some(NtpDelay::from_bits(passed))
    }
}

/// What is done about lost packets (RFC 3611 §4.7.6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LossConcealment {
    /// Nothing is said about it.
    #[default]
    Unspecified,
    /// Silence takes the place of lost packets.
    Disabled,
    /// Conceals high loss rates.
    Enhanced,
    /// Replay or interpolation: conceals isolated losses.
    Standard,
}

/// The kind of a jitter buffer (RFC 3611 §4.7.6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum JitterBufferKind {
    /// Nothing is said about it.
    #[default]
    Unknown,
    /// The reserved value 1.
    Reserved,
    /// Its size is fixed.
    Fixed,
    /// Its size follows the jitter.
    Adaptive,
}

/// Metrics of a voice stream (RFC 3611 §4.7). All durations are in milliseconds.
///
/// | bits | field |
/// |---|---|
/// | 8, 8, 16 | block type 7, reserved, length 8 |
/// | 32 | reported source |
/// | 8, 8, 8, 8 | loss rate, discard rate, burst density, gap density |
/// | 16, 16 | burst duration, gap duration |
/// | 16, 16 | round-trip delay, end system delay |
/// | 8, 8, 8, 8 | signal level, noise level, residual echo return loss, Gmin |
/// | 8, 8, 8, 8 | R factor, external R factor, MOS-LQ, MOS-CQ |
/// | 2, 2, 4, 8, 16 | loss concealment, jitter buffer kind and rate, reserved, nominal jitter buffer delay |
/// | 16, 16 | maximum and absolute maximum jitter buffer delay |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct VoipMetrics {
    /// The reported source.
    pub ssrc: u32,
    /// Share of expected packets that were lost, times 256; see [`share`](Self::share).
    pub loss_rate: u8,
    /// Share of expected packets that the jitter buffer discarded, times 256.
    pub discard_rate: u8,
    /// Share of packets in bursts that were lost or discarded, times 256.
    pub burst_density: u8,
    /// Share of packets in gaps that were lost or discarded, times 256.
    pub gap_density: u8,
    /// Mean duration of bursts; 0 without bursts.
    pub burst_duration_ms: u16,
    /// Mean duration of gaps; 0 without gaps.
    pub gap_duration_ms: u16,
    /// The latest round-trip time; 0 before it is known.
    pub round_trip_delay_ms: u16,
    /// Delay in the end system: encoding, jitter buffer, decoding; 0 if it is unknown.
    pub end_system_delay_ms: u16,
    /// Level of speech in dBm0; `None` if it is unknown.
    pub signal_level_dbm0: Option<i8>,
    /// Level of noise in dBm0; `None` if it is unknown.
    pub noise_level_dbm0: Option<i8>,
    /// Residual echo return loss in dB; `None` if it is unknown.
    pub residual_echo_return_loss_db: Option<u8>,
    /// The number of received packets that ends a burst. Not 0; 16 is recommended.
    pub gmin: u8,
    /// R factor of the RTP segment, 0 to 100; `None` if it is unknown.
    pub r_factor: Option<u8>,
    /// R factor of a segment outside RTP, 0 to 100; `None` if it is unknown.
    pub external_r_factor: Option<u8>,
    /// Listening quality: MOS times 10, 10 to 50; `None` if it is unknown.
    pub mos_lq_tenths: Option<u8>,
    /// Conversational quality: MOS times 10, 10 to 50; `None` if it is unknown.
    pub mos_cq_tenths: Option<u8>,
    /// What is done about lost packets.
    pub loss_concealment: LossConcealment,
    /// The kind of the jitter buffer.
    pub jitter_buffer: JitterBufferKind,
    /// J, 0 to 15: the jitter buffer adjusts in about 2·J packet times; 0 if it is unknown. Written limited to 15.
    pub jitter_buffer_rate: u8,
    /// Delay of a packet that is exactly on time.
    pub nominal_delay_ms: u16,
    /// Delay of the earliest packet that is not discarded.
    pub max_delay_ms: u16,
    /// Maximum of that delay under the worst conditions.
    pub absolute_max_delay_ms: u16,
}

impl VoipMetrics {
    /// `part` of `whole` times 256, rounded down, at most 255 (RFC 3611 §4.7.1); 0 where `whole` is 0.
    ///
    /// # Example
    ///
    /// The loss rate in the example of RFC 3611 §4.7.2: 3 of 64 packets are lost.
    ///
    /// ```
    /// use giusto_rtp::rtcp::VoipMetrics;
    ///
    /// assert_eq!(VoipMetrics::share(3, 64), 12);
    /// assert_eq!(VoipMetrics::share(64, 64), 255);
    /// ```
    pub fn share(part: u64, whole: u64) -> u8 {
        let share = (u128::from(part) * 256).checked_div(whole.into()).unwrap_or(0);
        u8::try_from(share).unwrap_or(u8::MAX)
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, RtcpError> {
        const WHAT: &str = "a block of VoIP metrics";
        let ssrc = take_u32(bytes, WHAT)?;
        let [loss_rate, discard_rate, burst_density, gap_density] = take(bytes, WHAT)?;
        let mut millis = || take(bytes, WHAT).map(u16::from_be_bytes);
        let (burst_duration_ms, gap_duration_ms) = (millis()?, millis()?);
        let (round_trip_delay_ms, end_system_delay_ms) = (millis()?, millis()?);
        let [signal, noise, echo, gmin] = take(bytes, WHAT)?;
        let [r_factor, external_r_factor, mos_lq, mos_cq] = take(bytes, WHAT)?;
        let [config, _reserved] = take(bytes, WHAT)?;
        let mut millis = || take(bytes, WHAT).map(u16::from_be_bytes);
        let level = |level: u8| (level != UNAVAILABLE).then_some(level.cast_signed());
        Ok(Self {
            ssrc,
            loss_rate,
            discard_rate,
            burst_density,
            gap_density,
            burst_duration_ms,
            gap_duration_ms,
            round_trip_delay_ms,
            end_system_delay_ms,
            signal_level_dbm0: level(signal),
            noise_level_dbm0: level(noise),
            residual_echo_return_loss_db: (echo != UNAVAILABLE).then_some(echo),
            gmin,
            r_factor: valid_r(r_factor),
            external_r_factor: valid_r(external_r_factor),
            mos_lq_tenths: valid_mos(mos_lq),
            mos_cq_tenths: valid_mos(mos_cq),
            loss_concealment: match config >> 6 {
                0 => LossConcealment::Unspecified,
                1 => LossConcealment::Disabled,
                2 => LossConcealment::Enhanced,
                _ => LossConcealment::Standard,
            },
            jitter_buffer: match config >> 4 & 3 {
                0 => JitterBufferKind::Unknown,
                1 => JitterBufferKind::Reserved,
                2 => JitterBufferKind::Fixed,
                _ => JitterBufferKind::Adaptive,
            },
            jitter_buffer_rate: config & 15,
            nominal_delay_ms: millis()?,
            max_delay_ms: millis()?,
            absolute_max_delay_ms: millis()?,
        })
    }

    fn write(&self, content: &mut Vec<u8>) {
        content.extend([VOIP_METRICS, 0]);
        content.extend(VOIP_METRICS_WORDS.to_be_bytes());
        content.extend(self.ssrc.to_be_bytes());
        content.extend([self.loss_rate, self.discard_rate, self.burst_density, self.gap_density]);
        let durations = [
            self.burst_duration_ms,
            self.gap_duration_ms,
            self.round_trip_delay_ms,
            self.end_system_delay_ms,
        ];
        content.extend(durations.into_iter().flat_map(u16::to_be_bytes));
        let level = |level: Option<i8>| level.map_or(UNAVAILABLE, i8::cast_unsigned);
        content.extend([
            level(self.signal_level_dbm0),
            level(self.noise_level_dbm0),
            self.residual_echo_return_loss_db.unwrap_or(UNAVAILABLE),
            self.gmin,
        ]);
        let [r_factor, external] = [self.r_factor, self.external_r_factor].map(|r| r.and_then(valid_r));
        let [mos_lq, mos_cq] = [self.mos_lq_tenths, self.mos_cq_tenths].map(|mos| mos.and_then(valid_mos));
        content.extend([r_factor, external, mos_lq, mos_cq].map(|value| value.unwrap_or(UNAVAILABLE)));
        let concealment = match self.loss_concealment {
            LossConcealment::Unspecified => 0,
            LossConcealment::Disabled => 1,
            LossConcealment::Enhanced => 2,
            LossConcealment::Standard => 3,
        };
        let kind = match self.jitter_buffer {
            JitterBufferKind::Unknown => 0,
            JitterBufferKind::Reserved => 1,
            JitterBufferKind::Fixed => 2,
            JitterBufferKind::Adaptive => 3,
        };
        content.extend([concealment << 6 | kind << 4 | self.jitter_buffer_rate.min(15), 0]);
        let delays = [self.nominal_delay_ms, self.max_delay_ms, self.absolute_max_delay_ms];
        content.extend(delays.into_iter().flat_map(u16::to_be_bytes));
    }
}

/// An R factor: values above 100 must not be sent, and are ignored (RFC 3611 §4.7.5).
fn valid_r(value: u8) -> Option<u8> {
    (value <= 100).then_some(value)
}

/// A MOS times 10: values outside 10 to 50 must not be sent, and are ignored (RFC 3611 §4.7.5).
fn valid_mos(value: u8) -> Option<u8> {
    (10..=50).contains(&value).then_some(value)
}

impl ExtendedReport {
    pub(super) fn read(frame: &Frame<'_>) -> Result<Self, RtcpError> {
        const WHAT: &str = "an extended report block";
        let mut rest = frame.content();
        let ssrc = take_u32(&mut rest, "an extended report")?;
        let (mut reference_time, mut delays, mut voip_metrics) = (None, Vec::new(), Vec::new());
        while !rest.is_empty() {
            let [block_type, _, l0, l1] = take(&mut rest, WHAT)?;
            let needed = usize::from(u16::from_be_bytes([l0, l1])) * WORD_BYTES;
            let short = RtcpError::Truncated { what: WHAT, needed, found: rest.len() };
            let (mut block, following) = rest.split_at_checked(needed).ok_or(short)?;
            rest = following;
            let what = match block_type {
                REFERENCE_TIME => {
                    const WHAT: &str = "a receiver reference time";
                    let bits = take(&mut block, WHAT).map(u64::from_be_bytes)?;
                    reference_time = Some(NtpTimestamp::from_bits(bits));
                    WHAT
                }
                DELAYS => {
                    const WHAT: &str = "a delay since the last receiver report";
                    while !block.is_empty() {
                        let mut word = || take_u32(&mut block, WHAT);
                        let (ssrc, last, delay) = (word()?, word()?, word()?);
                        let (last_reference, delay) = (NtpShort::from_bits(last), NtpDelay::from_bits(delay));
                        delays.push(DelaySinceLast { ssrc, last_reference, delay });
                    }
                    WHAT
                }
                VOIP_METRICS => {
                    voip_metrics.push(VoipMetrics::read(&mut block)?);
                    "a block of VoIP metrics"
                }
                _ => continue,
            };
            if !block.is_empty() {
                return Err(RtcpError::Excess { what, found: block.len() });
            }
        }
        Ok(Self { ssrc, reference_time, delays, voip_metrics })
    }

    /// Appends the report to `buffer`.
    ///
    /// R factors above 100 and MOS outside 1 to 5 are written as unavailable.
    ///
    /// # Errors
    ///
    /// [`RtcpError::TooMany`] if the packet would be too long; nothing is appended.
    pub fn write(&self, buffer: &mut Vec<u8>) -> Result<(), RtcpError> {
        frame::write(buffer, packet_type::EXTENDED_REPORT, 0, |content| {
            content.extend(self.ssrc.to_be_bytes());
            if let Some(time) = self.reference_time {
                content.extend([REFERENCE_TIME, 0]);
                content.extend(REFERENCE_TIME_WORDS.to_be_bytes());
                content.extend(time.to_bits().to_be_bytes());
            }
            // A block holds as many as its 16-bit length allows.
            for delays in self.delays.chunks(usize::from(u16::MAX) / DELAY_WORDS) {
                content.extend([DELAYS, 0]);
                content.extend(((delays.len() * DELAY_WORDS) as u16).to_be_bytes());
                for DelaySinceLast { ssrc, last_reference, delay } in delays {
                    let words = [*ssrc, last_reference.to_bits(), delay.to_bits()];
                    content.extend(words.into_iter().flat_map(u32::to_be_bytes));
                }
            }
            self.voip_metrics.iter().for_each(|block| block.write(content));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rtcp::{Packet, Packets};

    /// All fields in use, each byte another.
    const METRICS: VoipMetrics = VoipMetrics {
        ssrc: 0x89ab_cdef,
        loss_rate: 5,
        discard_rate: 6,
        burst_density: 7,
        gap_density: 8,
        burst_duration_ms: 0x1112,
        gap_duration_ms: 0x2223,
        round_trip_delay_ms: 0x3334,
        end_system_delay_ms: 0x4445,
        signal_level_dbm0: Some(-17),
        noise_level_dbm0: Some(-70),
        residual_echo_return_loss_db: Some(42),
        gmin: 16,
        r_factor: Some(93),
        external_r_factor: None,
        mos_lq_tenths: Some(44),
        mos_cq_tenths: Some(41),
        loss_concealment: LossConcealment::Standard,
        jitter_buffer: JitterBufferKind::Adaptive,
        jitter_buffer_rate: 9,
        nominal_delay_ms: 0x1122,
        max_delay_ms: 0x3344,
        absolute_max_delay_ms: 0x5566,
    };

    /// Words of 32 bits, in hexadecimal digits.
    fn words(text: &str) -> Vec<u8> {
        text.split(' ').flat_map(|word| u32::from_str_radix(word, 16).unwrap().to_be_bytes()).collect()
    }

    fn written(report: &ExtendedReport) -> Vec<u8> {
        let mut bytes = Vec::new();
        report.write(&mut bytes).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<ExtendedReport, RtcpError> {
        match Packets::new(bytes)?.next() {
            Some(Ok(Packet::ExtendedReport(report))) => Ok(report),
            Some(Err(error)) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_report_has_the_bytes_of_the_figure() {
        // RFC 3611 §2 and §4.7, word by word. −17 is 0xef, −70 is 0xba in two's complement.
        let bytes = words(
            "80cf000a 01020304 07000008 89abcdef 05060708 11122223 33344445 efba2a10 5d7f2c29 f9001122 33445566",
        );
        let report = ExtendedReport { ssrc: 0x0102_0304, voip_metrics: vec![METRICS], ..Default::default() };
        assert_eq!(written(&report), bytes);
        assert_eq!(read(&bytes).as_ref(), Ok(&report));
        let two = ExtendedReport { voip_metrics: vec![METRICS; 2], ..report };
        assert_eq!(read(&written(&two)), Ok(two));
    }

    /// The end of the packet in `extended_report_test.go` of pion/rtcp, whose R factors and MOS are partly out of range.
    #[test]
    fn values_out_of_range_are_ignored_and_not_sent() {
        let bytes = [
            0x80, 0xcf, 0, 13, 1, 2, 3, 4, // A receiver reference time.
            4, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 7, 0, 0, 8, 0x89, 0xab, 0xcd, 0xef, 5, 6, 7, 8, 0x11, 0x11,
            0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0,
            0x11, 0x22, 0x33, 0x44, 0x55, 0x66,
        ];
        let report = read(&bytes).unwrap();
        let [block] = report.voip_metrics[..] else { panic!("{report:?}") };
        assert_eq!(report.reference_time, Some(NtpTimestamp::from_bits(0x0102_0304_0506_0708)));
        assert_eq!((block.r_factor, block.external_r_factor), (Some(0x55), None));
        assert_eq!((block.mos_lq_tenths, block.mos_cq_tenths), (None, None));
        assert_eq!((block.signal_level_dbm0, block.noise_level_dbm0), (Some(0x11), Some(0x22)));
        assert_eq!((block.residual_echo_return_loss_db, block.gmin), (Some(0x33), 0x44));
        assert_eq!(
            (block.loss_concealment, block.jitter_buffer, block.jitter_buffer_rate),
            (LossConcealment::Enhanced, JitterBufferKind::Reserved, 9)
        );
        assert_eq!((block.gap_duration_ms, block.absolute_max_delay_ms), (0x2222, 0x5566));
        let wrong =
            VoipMetrics { r_factor: Some(101), mos_lq_tenths: Some(9), mos_cq_tenths: Some(51), ..METRICS };
        let report = ExtendedReport { ssrc: 1, voip_metrics: vec![wrong], ..Default::default() };
        assert_eq!(written(&report)[32..36], [UNAVAILABLE; 4]);
    }

    #[test]
    fn blocks_of_a_wrong_length_are_errors() {
        let report = ExtendedReport { ssrc: 1, voip_metrics: vec![METRICS], ..Default::default() };
        let mut bytes = written(&report);
        bytes[11] = 9;
        let what = "an extended report block";
        assert_eq!(read(&bytes), Err(RtcpError::Truncated { what, needed: 36, found: 32 }));
        bytes[11] = 7;
        let what = "a block of VoIP metrics";
        assert_eq!(read(&bytes), Err(RtcpError::Truncated { what, needed: 2, found: 0 }));
        bytes[11] = 9;
        bytes[3] += 1;
        bytes.extend([0; 4]);
        assert_eq!(read(&bytes), Err(RtcpError::Excess { what, found: 4 }));
    }

    /// RFC 3611 §4.4 and §4.5, word by word; and the times of RFC 3550 §6.4.1, Figure 2, whose RTT is 6.125 s.
    #[test]
    fn the_rtt_of_a_receiver_is_that_of_the_figure() {
        let bytes = words("80cf000b 9 04000002 b44db705 20000000 05000006 7 b7052000 00054000 8 0 0");
        let answer = DelaySinceLast {
            ssrc: 7,
            last_reference: NtpShort::from_bits(0xb705_2000),
            delay: NtpDelay::from_bits(0x0005_4000),
        };
        let none = DelaySinceLast { ssrc: 8, ..DelaySinceLast::default() };
        let report = ExtendedReport {
            ssrc: 9,
            reference_time: Some(NtpTimestamp::from_bits(0xb44d_b705_2000_0000)),
            delays: vec![answer, none],
            voip_metrics: Vec::new(),
        };
        assert_eq!(written(&report), bytes);
        assert_eq!(read(&bytes), Ok(report));
        let now = NtpShort::from_bits(0xb710_8000);
        assert_eq!(answer.rtt(now), Some(NtpDelay::from_bits(0x0006_2000)));
        assert_eq!(none.rtt(now), None);
        assert_eq!(answer.rtt(NtpShort::from_bits(0xb705_2000)), None);
        let mut cut = bytes.clone();
        cut[3] -= 1;
        cut[23] -= 1;
        cut.truncate(44);
        let what = "a delay since the last receiver report";
        assert_eq!(read(&cut), Err(RtcpError::Truncated { what, needed: 4, found: 0 }));
    }

    proptest! {
        #[test]
        fn any_report_that_is_read_is_written_and_read_again(content in proptest::collection::vec(any::<u8>(), 32..33), extra: u8) {
            let mut bytes = vec![0x80, 207, 0, 10, 0, 0, 0, extra, 7, 0, 0, 8];
            bytes.extend(content);
            let report = read(&bytes).unwrap();
            prop_assert_eq!(read(&written(&report)), Ok(report));
        }
    }
}
