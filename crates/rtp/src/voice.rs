//! Voice codecs in RTP: payload types, clocks, packet times and sizes.
//!
//! # Example
//!
//! ```
//! use giusto_rtp::voice::VoiceFormat;
//! use giusto_units::{DataRate, DataSize};
//!
//! let format = VoiceFormat::new("g711".parse()?);
//! assert_eq!(format.payload_size(), DataSize::from_bytes(160));
//! assert_eq!(format.rtp_rate(), DataRate::from_bps(68_800));
//! # Ok::<(), giusto_rtp::voice::VoiceError>(())
//! ```

use alloc::{
    borrow::ToOwned,
    string::{String, ToString},
    vec::Vec,
};
use core::{fmt, str::FromStr};

use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::header::RTP_HEADER_BYTES;

/// Default packet time (RFC 3551 §4.2: the default packetization interval).
pub const DEFAULT_PACKET_TIME: TimeDelta = TimeDelta::from_millis(20);
/// Default rate of Opus: within the 28 to 40 kbit/s of fullband speech (RFC 7587 §3.1.1).
pub const DEFAULT_OPUS_RATE: DataRate = DataRate::from_bps(32_000);

/// The sampling rate of G.711 and G.729 and, because of a historical error, the RTP clock of G.722 (RFC 3551
/// §4.5.2).
const TELEPHONE_RATE: u32 = 8_000;
/// The RTP clock of Opus at every sampling rate (RFC 7587 §4.1).
const OPUS_CLOCK: u32 = 48_000;
/// The rate of G.711 and of G.722 at its full rate.
const PCM_RATE: DataRate = DataRate::from_bps(64_000);
/// The rate of G.729 (RFC 3551 §4.5.6: ten bytes in 10 ms).
const G729_RATE: DataRate = DataRate::from_bps(8_000);
/// Rates that Opus supports (RFC 6716 §2.1.1).
const OPUS_RATES: core::ops::RangeInclusive<u64> = 6_000..=510_000;
/// Maximum size of an Opus frame in bytes (RFC 6716 §3.2.1), without the table-of-contents byte.
const MAX_OPUS_FRAME: u64 = 1_275;

/// Error of a voice stream description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VoiceError {
    /// No codec has this name.
    #[error("unknown voice codec \"{0}\": use one of g711 (pcmu), g711a (pcma), g729, g722, opus")]
    Name(String),
    /// The codec does not support this packet time.
    #[error("{profile}: packet time must be one of {known}, found {found}")]
    PacketTime {
        /// The codec.
        profile: VoiceProfile,
        /// The requested packet time.
        found: TimeDelta,
        /// The supported packet times.
        known: String,
    },
    /// Opus does not support this rate, or its frame would be longer than 1275 bytes.
    #[error("opus at {found} does not fit packets of {packet_time}: the rate must be {min} to {max}")]
    OpusRate {
        /// The requested rate.
        found: DataRate,
        /// The packet time.
        packet_time: TimeDelta,
        /// The minimum rate.
        min: DataRate,
        /// The maximum rate with this packet time.
        max: DataRate,
    },
}

/// A voice codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum VoiceProfile {
    /// G.711 µ-law, 64 kbit/s (RFC 3551 §4.5.14).
    #[default]
    #[cfg_attr(feature = "serde", serde(rename = "g711"))]
    G711Ulaw,
    /// G.711 A-law, 64 kbit/s (RFC 3551 §4.5.14).
    #[cfg_attr(feature = "serde", serde(rename = "g711a"))]
    G711Alaw,
    /// G.729, 8 kbit/s (RFC 3551 §4.5.6).
    #[cfg_attr(feature = "serde", serde(rename = "g729"))]
    G729,
    /// G.722, wideband, 64 kbit/s (RFC 3551 §4.5.2).
    #[cfg_attr(feature = "serde", serde(rename = "g722"))]
    G722,
    /// Opus at a constant rate, mono (RFC 6716, RFC 7587).
    #[cfg_attr(feature = "serde", serde(rename = "opus"))]
    Opus,
}

impl VoiceProfile {
    /// The RTP payload type: static for all (RFC 3551 §6, Table 4) except Opus, which uses 111 of the dynamic
    /// range, as browsers do.
    pub const fn payload_type(self) -> u8 {
        match self {
            Self::G711Ulaw => 0,
            Self::G711Alaw => 8,
            Self::G722 => 9,
            Self::G729 => 18,
            Self::Opus => 111,
        }
    }

    /// Ticks of the RTP timestamp per second. For G.722 it is 8000, half of its sampling rate (RFC 3551
    /// §4.5.2).
    #[inline]
    pub const fn clock_rate(self) -> u32 {
        match self {
            Self::Opus => OPUS_CLOCK,
            _ => TELEPHONE_RATE,
        }
    }

    /// The packet times that the codec supports.
    ///
    /// G.711, G.722 and G.729 permit any number of milliseconds or frames up to 200 ms (RFC 3551 §4.2); this
    /// list has the multiples of 10 ms in use. Opus has one frame per packet here, with a duration of RFC
    /// 6716 §2.1.4.
    pub const fn packet_times(self) -> &'static [TimeDelta] {
        const TENS: &[TimeDelta] = &[
            TimeDelta::from_millis(10),
            TimeDelta::from_millis(20),
            TimeDelta::from_millis(30),
            TimeDelta::from_millis(40),
            TimeDelta::from_millis(60),
            TimeDelta::from_millis(80),
            TimeDelta::from_millis(100),
        ];
        const OPUS: &[TimeDelta] = &[
            TimeDelta::from_micros(2_500),
            TimeDelta::from_millis(5),
            TimeDelta::from_millis(10),
            TimeDelta::from_millis(20),
            TimeDelta::from_millis(40),
            TimeDelta::from_millis(60),
        ];
        match self {
            Self::Opus => OPUS,
            _ => TENS,
        }
    }

    /// Look-ahead of the encoder, in addition to the packet itself.
    ///
    /// | codec | look-ahead | source |
    /// |---|---|---|
    /// | G.711 | none | samples are coded independently |
    /// | G.729 | 5 ms | G.729 §2.1 |
    /// | G.722 | 1.4375 ms | derived: two filter banks of 24 coefficients (G.722 Table 11) delay 23 samples of 16 kHz |
    /// | Opus | 6.5 ms | libopus, default application: 312 samples of 48 kHz |
    pub const fn look_ahead(self) -> TimeDelta {
        match self {
            Self::G711Ulaw | Self::G711Alaw => TimeDelta::ZERO,
            Self::G729 => TimeDelta::from_millis(5),
            Self::G722 => TimeDelta::from_nanos(1_437_500),
            Self::Opus => TimeDelta::from_micros(6_500),
        }
    }
}

giusto_units::names!(VoiceProfile {
    G711Ulaw = "g711",
    G711Alaw = "g711a",
    G729 = "g729",
    G722 = "g722",
    Opus = "opus",
});

impl fmt::Display for VoiceProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for VoiceProfile {
    type Err = VoiceError;
    /// Reads a codec's name, in any case: `g711` (`g711u`, `pcmu`), `g711a` (`pcma`), `g729`, `g722`, `opus`.
    ///
    /// # Errors
    ///
    /// [`VoiceError::Name`] lists the known names.
    fn from_str(text: &str) -> Result<Self, VoiceError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "g711" | "g711u" | "pcmu" => Ok(Self::G711Ulaw),
            "g711a" | "pcma" => Ok(Self::G711Alaw),
            "g729" => Ok(Self::G729),
            "g722" => Ok(Self::G722),
            "opus" => Ok(Self::Opus),
            _ => Err(VoiceError::Name(text.to_owned())),
        }
    }
}

/// A codec with a packet time and, for Opus, a rate. Always valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Unchecked"))]
pub struct VoiceFormat {
    profile: VoiceProfile,
    packet_time: TimeDelta,
    rate: DataRate,
}

/// What is read of a [`VoiceFormat`] before it is known to be valid.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Unchecked {
    profile: VoiceProfile,
    packet_time: TimeDelta,
    rate: DataRate,
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for VoiceFormat {
    type Error = VoiceError;

    fn try_from(read: Unchecked) -> Result<Self, VoiceError> {
        match read.profile {
            VoiceProfile::Opus => Self::opus(read.rate, read.packet_time),
            profile => Self::with_packet_time(profile, read.packet_time),
        }
    }
}

impl VoiceFormat {
    /// `profile` with packets of 20 ms, Opus at 32 kbit/s.
    pub const fn new(profile: VoiceProfile) -> Self {
        let rate = match profile {
            VoiceProfile::G729 => G729_RATE,
            VoiceProfile::Opus => DEFAULT_OPUS_RATE,
            _ => PCM_RATE,
        };
        Self { profile, packet_time: DEFAULT_PACKET_TIME, rate }
    }

    /// `profile` with packets of `packet_time`, Opus at 32 kbit/s.
    ///
    /// # Errors
    ///
    /// [`VoiceError::PacketTime`] lists the packet times that the codec supports.
    pub fn with_packet_time(profile: VoiceProfile, packet_time: TimeDelta) -> Result<Self, VoiceError> {
        if !profile.packet_times().contains(&packet_time) {
            let known: Vec<_> = profile.packet_times().iter().map(ToString::to_string).collect();
            return Err(VoiceError::PacketTime { profile, found: packet_time, known: known.join(", ") });
        }
        Ok(Self { packet_time, ..Self::new(profile) })
    }

    /// Opus at `rate`, including the table-of-contents byte, with packets of `packet_time`.
    ///
    /// # Errors
    ///
    /// [`VoiceError::PacketTime`], and [`VoiceError::OpusRate`] for a rate outside 6 to 510 kbit/s (RFC 6716 §2.1.1) or one
    /// whose frame would be longer than 1275 bytes (§3.2.1).
    pub fn opus(rate: DataRate, packet_time: TimeDelta) -> Result<Self, VoiceError> {
        let format = Self { rate, ..Self::with_packet_time(VoiceProfile::Opus, packet_time)? };
        let longest = DataSize::from_bytes(1 + MAX_OPUS_FRAME);
        let max = DataRate::of(longest, packet_time).map_or(0, DataRate::as_bps).min(*OPUS_RATES.end());
        if !(*OPUS_RATES.start()..=max).contains(&rate.as_bps()) {
            return Err(VoiceError::OpusRate {
                found: rate,
                packet_time,
                min: DataRate::from_bps(*OPUS_RATES.start()),
                max: DataRate::from_bps(max),
            });
        }
        Ok(format)
    }

    /// The codec.
    #[inline]
    pub const fn profile(&self) -> VoiceProfile {
        self.profile
    }

    /// The packet time.
    #[inline]
    pub const fn packet_time(&self) -> TimeDelta {
        self.packet_time
    }

    /// The payload size of one packet, without the RTP header: 160 bytes for 20 ms of G.711.
    #[inline]
    pub fn payload_size(&self) -> DataSize {
        self.rate.size_in(self.packet_time)
    }

    /// The size of one packet with its RTP header.
    #[inline]
    pub fn packet_size(&self) -> DataSize {
        self.payload_size() + DataSize::from_bytes(RTP_HEADER_BYTES as u64)
    }

    /// Increment of the RTP timestamp per packet: 160 for 20 ms of G.711, 960 for 20 ms of Opus.
    #[inline]
    pub fn timestamp_step(&self) -> u32 {
        let ticks = i64::from(self.profile.clock_rate()) * self.packet_time.as_nanos() / 1_000_000_000;
        ticks as u32
    }

    /// The rate of the payloads without headers.
    #[inline]
    pub fn payload_rate(&self) -> DataRate {
        DataRate::of(self.payload_size(), self.packet_time).unwrap_or(DataRate::ZERO)
    }

    /// The rate with the RTP headers, without UDP and IP.
    #[inline]
    pub fn rtp_rate(&self) -> DataRate {
        DataRate::of(self.packet_size(), self.packet_time).unwrap_or(DataRate::ZERO)
    }

    /// Minimum mouth-to-ear delay due to coding: the packet time and the look-ahead (ITU-T G.114 (05/2003)
    /// Annex A, with a processing time of zero).
    #[inline]
    pub fn codec_delay(&self) -> TimeDelta {
        self.packet_time + self.profile.look_ahead()
    }

    /// The table-of-contents byte of an Opus packet (RFC 6716 §3.1): mono, one frame.
    ///
    /// Fullband, which the default rate is for: CELT (configurations 28 and 29) below 10 ms, hybrid (14 and
    /// 15) at 10 and 20 ms, SILK wideband (10 and 11) at 40 and 60 ms, because only SILK has such long frames
    /// (Table 2).
    pub fn opus_table_of_contents(&self) -> u8 {
        let configuration: u8 = match self.packet_time.as_nanos() / 100_000 {
            25 => 28,
            50 => 29,
            100 => 14,
            400 => 10,
            600 => 11,
            _ => 15,
        };
        configuration << 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_those_of_their_rfcs() {
        // Payload type, clock, payload bytes in 20 ms, timestamp step, payload rate.
        let table = [
            (VoiceProfile::G711Ulaw, 0, 8_000, 160, 160, 64_000),
            (VoiceProfile::G711Alaw, 8, 8_000, 160, 160, 64_000),
            (VoiceProfile::G722, 9, 8_000, 160, 160, 64_000),
            (VoiceProfile::G729, 18, 8_000, 20, 160, 8_000),
            (VoiceProfile::Opus, 111, 48_000, 80, 960, 32_000),
        ];
        for (profile, payload_type, clock, bytes, step, rate) in table {
            let format = VoiceFormat::new(profile);
            assert_eq!((profile.payload_type(), profile.clock_rate()), (payload_type, clock), "{profile}");
            assert_eq!(format.payload_size(), DataSize::from_bytes(bytes), "{profile}");
            assert_eq!(format.timestamp_step(), step, "{profile}");
            assert_eq!(format.payload_rate(), DataRate::from_bps(rate), "{profile}");
            assert_eq!(format.rtp_rate(), DataRate::from_bps(rate + 12 * 8 * 50), "{profile}");
        }
    }

    #[test]
    fn every_packet_time_has_whole_bytes_and_whole_ticks() {
        for profile in VoiceProfile::ALL {
            for &time in profile.packet_times() {
                let format = VoiceFormat::with_packet_time(profile, time).unwrap();
                assert_eq!(format.payload_rate(), format.rate, "{profile} {time}");
                let ticks = f64::from(format.timestamp_step());
                assert!((ticks / f64::from(profile.clock_rate()) - time.as_seconds()).abs() < 1e-12);
            }
        }
        let short = VoiceFormat::with_packet_time(VoiceProfile::Opus, TimeDelta::from_micros(2_500)).unwrap();
        assert_eq!((short.payload_size().as_bytes(), short.timestamp_step()), (10, 120));
    }

    #[test]
    fn an_unknown_name_gives_an_error_with_the_known_codecs() {
        for profile in VoiceProfile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(profile));
        }
        for (name, profile) in [("PCMU", VoiceProfile::G711Ulaw), (" pcma ", VoiceProfile::G711Alaw)] {
            assert_eq!(name.parse(), Ok(profile));
        }
        let message = "gsm".parse::<VoiceProfile>().unwrap_err().to_string();
        assert_eq!(
            message,
            r#"unknown voice codec "gsm": use one of g711 (pcmu), g711a (pcma), g729, g722, opus"#
        );
    }

    #[test]
    fn an_unsupported_packet_time_lists_the_supported_ones() {
        let error = VoiceFormat::with_packet_time(VoiceProfile::G729, TimeDelta::from_millis(15));
        assert_eq!(
            error.unwrap_err().to_string(),
            "g729: packet time must be one of 10 ms, 20 ms, 30 ms, 40 ms, 60 ms, 80 ms, 100 ms, found 15 ms"
        );
        let opus = |kbps: u64, millis| {
            VoiceFormat::opus(DataRate::from_bps(kbps * 1000), TimeDelta::from_millis(millis))
        };
        assert_eq!(opus(510, 20).unwrap().payload_size().as_bytes(), 1275);
        assert_eq!(
            opus(180, 60).unwrap_err().to_string(),
            "opus at 180 kbit/s does not fit packets of 60 ms: the rate must be 6 kbit/s to 170.133 kbit/s"
        );
        assert!(opus(5, 20).is_err() && opus(511, 20).is_err() && opus(6, 20).is_ok());
    }
}
