//! Writes a stream's datagrams.

use giusto_rtp::{RTP_HEADER_BYTES, RtpHeader};
use giusto_units::{DataSize, Timestamp};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::{
    payload::{PayloadContent, SizeSource},
    reports::MediaTiming,
    voice::VoiceSource,
    wire::{DATA_HEADER_BYTES, DataHeader, SEALED_DATA_HEADER_BYTES, StreamToken},
};
use crate::{
    iperf3::{self, HEADER_BYTES},
    keys::MacKey,
    stamp::ProbeSource,
};

/// The RTP payload type for unknown codecs: the first dynamic one (RFC 3551 §6).
const DYNAMIC_PAYLOAD_TYPE: u8 = 96;

/// The RTP clock for unknown codecs: that of video (RFC 3551 §5).
pub const RTP_CLOCK_HZ: u32 = 90_000;

/// The content of the datagrams.
#[derive(Debug)]
pub enum Content {
    /// Our header, then filler.
    Giusto {
        /// Issued by the receiver.
        token: StreamToken,
        /// Authenticates each datagram.
        key: Option<MacKey>,
        /// Payload sizes.
        sizes: SizeSource,
    },
    /// An RTP header, then filler.
    Rtp {
        /// The header of the first datagram.
        first: RtpHeader,
        /// Payload sizes, the RTP header included.
        sizes: SizeSource,
    },
    /// The header of iperf3, then filler.
    Iperf3 {
        /// Sequence numbers have 64 bits instead of 32.
        wide_counters: bool,
        /// Payload sizes.
        sizes: SizeSource,
    },
    /// Filler.
    Raw {
        /// Payload sizes.
        sizes: SizeSource,
    },
    /// Voice as RTP.
    Voice(Box<VoiceSource>),
    /// Packets of a STAMP sender, then filler.
    Stamp {
        /// What writes them.
        source: Box<ProbeSource>,
        /// Payload size of each datagram.
        size: DataSize,
    },
}

impl Content {
    /// An RTP header for a stream of no known codec.
    pub fn rtp_header(sequence: u16, timestamp: u32, ssrc: u32) -> RtpHeader {
        RtpHeader {
            marker: false,
            payload_type: DYNAMIC_PAYLOAD_TYPE,
            sequence,
            timestamp,
            ssrc,
            extension: None,
        }
    }

    /// Header bytes per datagram.
    pub fn header_bytes(&self) -> DataSize {
        DataSize::from_bytes(match self {
            Self::Giusto { key: None, .. } => DATA_HEADER_BYTES as u64,
            Self::Giusto { key: Some(_), .. } => SEALED_DATA_HEADER_BYTES as u64,
            Self::Rtp { .. } | Self::Voice(_) => RTP_HEADER_BYTES as u64,
            Self::Iperf3 { .. } => HEADER_BYTES as u64,
            Self::Raw { .. } => 1,
            Self::Stamp { source, .. } => source.mode().base_bytes() as u64,
        })
    }
}

/// Consecutive datagrams in one buffer.
#[derive(Debug, Clone, Copy)]
pub struct Filled<'a> {
    /// All of them.
    pub bytes: &'a [u8],
    /// Their lengths.
    pub lengths: Lengths<'a>,
}

/// Lengths of consecutive datagrams.
#[derive(Debug, Clone, Copy)]
pub enum Lengths<'a> {
    /// All have this length.
    Equal(usize),
    /// Length of each.
    Varied(&'a [usize]),
}

impl Filled<'_> {
    /// Number of datagrams.
    pub fn packets(&self) -> usize {
        match self.lengths {
            Lengths::Equal(length) => self.bytes.len() / length.max(1),
            Lengths::Varied(lengths) => lengths.len(),
        }
    }

    /// The length of each datagram.
    pub fn sizes(&self) -> impl Iterator<Item = usize> {
        let (equal, varied) = match self.lengths {
            Lengths::Equal(length) => (Some(length), &[][..]),
            Lengths::Varied(lengths) => (None, lengths),
        };
        std::iter::repeat_n(equal.unwrap_or(0), equal.map_or(0, |_| self.packets()))
            .chain(varied.iter().copied())
    }
}

/// Writes a stream's datagrams, cycle by cycle, to its own buffer.
#[derive(Debug)]
pub struct Outgoing {
    content: Content,
    rng: StdRng,
    sequence: u64,
    timing: Option<MediaTiming>,
    payload: Option<PayloadContent>,
    buffer: Vec<u8>,
    lengths: Vec<usize>,
}

impl Outgoing {
    /// A stream whose sizes and filler are drawn from `seed`.
    pub fn new(content: Content, seed: u64) -> Self {
        Self {
            content,
            rng: StdRng::seed_from_u64(seed),
            sequence: 0,
            timing: None,
            payload: None,
            buffer: Vec::new(),
            lengths: Vec::new(),
        }
    }

    /// The same, with these bytes behind the headers instead of filler; not for voice and STAMP.
    #[must_use]
    pub fn with_payload(mut self, payload: Option<PayloadContent>) -> Self {
        self.payload = payload;
        self
    }

    /// Allocates the space for `packets` datagrams per cycle, so that the first cycle is as fast as the
    /// others.
    pub fn prepare(&mut self, packets: u32) {
        let largest = match &self.content {
            Content::Giusto { sizes, .. }
            | Content::Rtp { sizes, .. }
            | Content::Iperf3 { sizes, .. }
            | Content::Raw { sizes } => sizes.max(),
            Content::Voice(source) => source.format().packet_size(),
            Content::Stamp { size, .. } => *size,
        };
        let needed = largest.as_bytes() as usize * packets as usize;
        self.lengths.reserve(packets as usize);
        if self.buffer.len() < needed {
            self.buffer.resize(needed, 0);
            self.rng.fill_bytes(&mut self.buffer);
        }
    }

    /// The due time of the latest cycle in units of its RTP timestamps; `None` before the first cycle, or if it is not RTP.
    pub fn media_timing(&self) -> Option<MediaTiming> {
        self.timing
    }

    /// Number of datagrams so far.
    pub fn packets(&self) -> u64 {
        self.sequence
    }

    /// The last `packets` datagrams were not sent: the next ones take their sequence numbers, so that the receiver does not count
    /// them as lost.
    pub fn return_unsent(&mut self, packets: u64) {
        self.sequence = self.sequence.saturating_sub(packets);
        if let Content::Voice(source) = &mut self.content {
            source.return_unsent(packets);
        }
    }

    /// The next `packets` datagrams, due at `due` and sent now.
    pub fn fill(&mut self, now: Timestamp, due: Timestamp, packets: u32) -> Filled<'_> {
        let packets = packets as usize;
        // Raw datagrams have no header.
        let header = match &self.content {
            Content::Raw { .. } => 0,
            content => content.header_bytes().as_bytes() as usize,
        };
        let payload = (&mut self.payload, header);
        match &mut self.content {
            Content::Giusto { token, key, sizes } => {
                let place = Placement::new(&mut self.buffer, &mut self.lengths, &mut self.rng, payload);
                let mut header = DataHeader {
                    token: *token,
                    sequence: self.sequence,
                    scheduled_ns: due.as_nanos(),
                    sent_ns: now.as_nanos(),
                };
                let equal = place.lay(sizes, packets, |datagram| {
                    match key {
                        Some(key) => header.write_sealed(datagram, key),
                        None => header.write(datagram),
                    };
                    header.sequence += 1;
                });
                self.sequence += packets as u64;
                Self::filled(&self.buffer, &self.lengths, equal, packets)
            }
            Content::Rtp { first, sizes } => {
                let place = Placement::new(&mut self.buffer, &mut self.lengths, &mut self.rng, payload);
                let mut header = *first;
                let units = u128::from(due.as_nanos()) * u128::from(RTP_CLOCK_HZ) / 1_000_000_000;
                header.timestamp = first.timestamp.wrapping_add(units as u32);
                header.sequence = first.sequence.wrapping_add(self.sequence as u16);
                let RtpHeader { ssrc, timestamp, .. } = header;
                self.timing = Some(MediaTiming { ssrc, clock_rate_hz: RTP_CLOCK_HZ, at: due, timestamp });
                let equal = place.lay(sizes, packets, |datagram| {
                    // A datagram has space for its header, because sizes are limited by header_bytes.
                    let _ = header.write(datagram);
                    header.sequence = header.sequence.wrapping_add(1);
                });
                self.sequence += packets as u64;
                Self::filled(&self.buffer, &self.lengths, equal, packets)
            }
            Content::Iperf3 { wide_counters, sizes } => {
                let place = Placement::new(&mut self.buffer, &mut self.lengths, &mut self.rng, payload);
                // Numbers begin at 1. The time is that of our clock, which reveals nothing of this machine.
                let mut header = iperf3::DataHeader::at(now, self.sequence.saturating_add(1));
                let equal = place.lay(sizes, packets, |datagram| {
                    header.write(datagram, *wide_counters);
                    header.sequence = header.sequence.saturating_add(1);
                });
                self.sequence += packets as u64;
                Self::filled(&self.buffer, &self.lengths, equal, packets)
            }
            Content::Raw { sizes } => {
                let place = Placement::new(&mut self.buffer, &mut self.lengths, &mut self.rng, payload);
                let equal = place.lay(sizes, packets, |_| {});
                self.sequence += packets as u64;
                Self::filled(&self.buffer, &self.lengths, equal, packets)
            }
            Content::Voice(source) => {
                let length = source.format().packet_size().as_bytes() as usize;
                self.buffer.resize(packets * length, 0);
                self.timing = Some(source.timing(due));
                for datagram in self.buffer.chunks_exact_mut(length.max(1)) {
                    // The chunk has exactly the length that the source needs.
                    let _ = source.next_packet(datagram);
                }
                self.sequence += packets as u64;
                Self::filled(&self.buffer, &self.lengths, Some(length), packets)
            }
            Content::Stamp { source, size } => {
                let length = size.as_bytes() as usize;
                let filled = self.buffer.len();
                if filled < packets * length {
                    self.buffer.resize(packets * length, 0);
                    self.rng.fill_bytes(self.buffer.get_mut(filled..).unwrap_or_default());
                }
                for datagram in self.buffer.chunks_exact_mut(length.max(1)).take(packets) {
                    source.write(now, self.sequence, datagram);
                    self.sequence += 1;
                }
                Self::filled(&self.buffer, &self.lengths, Some(length), packets)
            }
        }
    }

    fn filled<'a>(
        buffer: &'a [u8],
        lengths: &'a [usize],
        equal: Option<usize>,
        packets: usize,
    ) -> Filled<'a> {
        match equal {
            Some(length) => Filled {
                bytes: buffer.get(..packets * length).unwrap_or(buffer),
                lengths: Lengths::Equal(length),
            },
            None => Filled {
                bytes: buffer.get(..lengths.iter().sum()).unwrap_or(buffer),
                lengths: Lengths::Varied(lengths),
            },
        }
    }
}

/// Places datagrams of given sizes in a buffer. Existing filler is kept.
struct Placement<'a> {
    buffer: &'a mut Vec<u8>,
    lengths: &'a mut Vec<usize>,
    rng: &'a mut StdRng,
    /// The contents instead of filler, and the bytes before them.
    payload: (&'a mut Option<PayloadContent>, usize),
}

impl<'a> Placement<'a> {
    fn new(
        buffer: &'a mut Vec<u8>,
        lengths: &'a mut Vec<usize>,
        rng: &'a mut StdRng,
        payload: (&'a mut Option<PayloadContent>, usize),
    ) -> Self {
        lengths.clear();
        Self { buffer, lengths, rng, payload }
    }

    /// Calls `write` for the start of each datagram. Returns the length if it is the same for all.
    fn lay(self, sizes: &mut SizeSource, packets: usize, mut write: impl FnMut(&mut [u8])) -> Option<usize> {
        let equal = sizes.is_fixed().map(|size| size.as_bytes() as usize);
        let total = if let Some(length) = equal {
            packets * length
        } else {
            let rng = &mut *self.rng;
            self.lengths.extend((0..packets).map(|_| sizes.next_size(rng).as_bytes() as usize));
            self.lengths.iter().sum()
        };
        let filled = self.buffer.len();
        if filled < total {
            self.buffer.resize(total, 0);
            self.rng.fill_bytes(self.buffer.get_mut(filled..).unwrap_or_default());
        }
        let (payload, header) = self.payload;
        let mut write = |datagram: &mut [u8]| {
            if let Some((payload, body)) = payload.as_mut().zip(datagram.get_mut(header..)) {
                payload.fill(body);
            }
            // The authentication covers the payload.
            write(datagram);
        };
        if let Some(length) = equal {
            self.buffer.chunks_exact_mut(length.max(1)).take(packets).for_each(write);
        } else {
            let mut rest = self.buffer.as_mut_slice();
            for length in self.lengths.iter() {
                let (datagram, behind) = rest.split_at_mut((*length).min(rest.len()));
                write(datagram);
                rest = behind;
            }
        }
        equal
    }
}

#[cfg(test)]
mod tests {
    use giusto_rtp::voice::{VoiceFormat, VoiceProfile};

    use super::*;
    use crate::probe::{
        payload::{PayloadSizes, SizeLimits},
        voice::StreamStart,
    };

    fn limits() -> SizeLimits {
        SizeLimits::new(DataSize::from_bytes(40), DataSize::from_bytes(1472)).unwrap()
    }

    fn sizes(text: &str) -> SizeSource {
        SizeSource::new(text.parse().unwrap(), limits())
    }

    fn outgoing(sizes: SizeSource) -> Outgoing {
        Outgoing::new(Content::Giusto { token: StreamToken(7), key: None, sizes }, 1)
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn datagrams_contain_a_count_and_both_times() {
        let mut outgoing = outgoing(sizes("200"));
        outgoing.fill(at(10), at(5), 3);
        let filled = outgoing.fill(at(30), at(25), 2);
        let headers: Vec<_> = filled.bytes.chunks(200).map(|d| DataHeader::parse(d).unwrap()).collect();
        assert_eq!(headers.iter().map(|header| header.sequence).collect::<Vec<_>>(), [3, 4]);
        assert!(headers.iter().all(|header| (header.scheduled_ns, header.sent_ns) == (25, 30)));
        assert_eq!(filled.sizes().collect::<Vec<_>>(), [200, 200]);
        let filler = &filled.bytes[40..200];
        let different: std::collections::BTreeSet<_> = filler.iter().collect();
        assert!(different.len() > 60, "nothing on the way can compress the filler");
    }

    #[test]
    fn the_bytes_of_a_file_follow_the_header() {
        let content = PayloadContent::pieces("f", *b"abcde", 2).unwrap();
        let sizes = SizeSource::new(PayloadSizes::Trace(content.sizes(40)), limits());
        let mut outgoing = outgoing(sizes).with_payload(Some(content));
        let filled = outgoing.fill(at(1), at(0), 4);
        let sizes: Vec<usize> = filled.sizes().collect();
        assert_eq!(sizes, [42, 42, 41, 42]);
        let (mut rest, mut bodies) = (filled.bytes, Vec::new());
        for size in sizes {
            let (datagram, behind) = rest.split_at(size);
            assert!(DataHeader::parse(datagram).is_ok());
            bodies.extend_from_slice(&datagram[40..]);
            rest = behind;
        }
        assert_eq!(bodies, b"abcdeab");
    }

    #[test]
    fn drawn_sizes_divide_the_buffer() {
        let mut outgoing = outgoing(sizes("uniform:40-1472"));
        for _ in 0..50 {
            let filled = outgoing.fill(at(1), at(0), 4);
            let mut rest = filled.bytes;
            for size in filled.sizes() {
                assert!(DataHeader::parse(&rest[..size]).is_ok());
                rest = &rest[size..];
            }
            assert!(rest.is_empty());
        }
        assert_eq!(outgoing.packets(), 200);
    }

    #[test]
    fn rtp_timestamps_follow_the_schedule_and_sequences_wrap() {
        let first = Content::rtp_header(65_535, u32::MAX, 9);
        let mut outgoing = Outgoing::new(Content::Rtp { first, sizes: sizes("200") }, 1);
        let filled = outgoing.fill(at(1_000_000_100), at(1_000_000_000), 2);
        let headers: Vec<_> = filled.bytes.chunks(200).map(|d| RtpHeader::parse(d).unwrap().0).collect();
        assert_eq!((headers[0].sequence, headers[1].sequence), (65_535, 0));
        assert_eq!(headers[0].timestamp, 89_999, "one second of 90 kHz, from the highest value on");
    }

    #[test]
    fn voice_is_valid_rtp_of_its_codec() {
        let format = VoiceFormat::new(VoiceProfile::G711Ulaw);
        let source = VoiceSource::new(format, StreamStart::default());
        let mut outgoing = Outgoing::new(Content::Voice(Box::new(source)), 1);
        let filled = outgoing.fill(at(0), at(0), 1);
        let (header, payload) = RtpHeader::parse(filled.bytes).unwrap();
        assert_eq!((header.payload_type, payload.len()), (0, 160));
        // What was not sent has no sequence number, but its time.
        outgoing.fill(at(1), at(1), 3);
        outgoing.return_unsent(2);
        let (next, _) = RtpHeader::parse(outgoing.fill(at(2), at(2), 1).bytes).unwrap();
        assert_eq!(next.sequence, header.sequence.wrapping_add(2));
        assert_eq!(next.timestamp, header.timestamp.wrapping_add(4 * 160));
        assert_eq!(outgoing.packets(), 3);
    }
}
