//! TCP segments and their size on the wire.

use giusto_units::Timestamp;

/// IPv4 header (RFC 791 §3.1) and TCP header (RFC 9293 §3.1), both without options, in bytes.
pub const HEADER_BYTES: u32 = 20 + 20;
/// The timestamps option with its padding, in bytes (RFC 7323, appendix A).
pub const TIMESTAMPS_BYTES: u32 = 12;

/// The metadata of a TCP segment.
///
/// Sequence numbers are 64-bit byte offsets within the connection, from 0, and do not wrap. SYN and FIN use no sequence
/// number. The last data segment carries the FIN, so the acknowledgement of the last byte also acknowledges the FIN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first data byte.
    pub sequence: u64,
    /// Cumulative acknowledgement: offset of the next expected byte, if [`Flags::ACK`] is set.
    pub acknowledgment: u64,
    /// Send time: `TSval` of the timestamps option (RFC 7323 §3), if [`Flags::TIMESTAMPS`] is set. The clock resolution is 1
    /// ns.
    pub stamp: Timestamp,
    /// Echoed timestamp: `TSecr`, if [`Flags::TIMESTAMPS`] and [`Flags::ACK`] are set.
    pub echo: Timestamp,
    /// Data received above [`acknowledgment`](Self::acknowledgment).
    pub sack: SackBlocks,
    /// Number of data bytes.
    pub length: u32,
    /// Connection number, which represents the ports. Each new connection has the next number.
    pub connection: u32,
    /// Number of segments received with a CE mark in this connection, modulo 2^16, if accurate ECN is in use: the counter
    /// `r.cep` of RFC 9768 §3.2.2. There it has three bits in the header, and the bytes follow in an option.
    pub marked: u16,
    /// Flags and options.
    pub flags: Flags,
}

impl Segment {
    /// Offset after the last data byte.
    pub const fn end(&self) -> u64 {
        self.sequence + self.length as u64
    }

    /// Size on the wire in bytes: headers, padded options, data.
    ///
    /// | option | bytes | source |
    /// |---|---|---|
    /// | timestamps | 12 | RFC 7323, appendix A |
    /// | SACK, `n` blocks, one of them for a duplicate | 4 + 8`n` | RFC 2018 §3, padded to 4; RFC 2883 |
    /// | on a SYN: MSS and window scale | 4 + 4 | RFC 9293 §3.7.1, RFC 7323 §2.2 |
    /// | on a SYN: SACK permitted | 4, or 0 with timestamps, where it replaces their padding | RFC 2018 §2 |
    pub fn wire_bytes(&self) -> u32 {
        let timestamps = if self.flags.contains(Flags::TIMESTAMPS) { TIMESTAMPS_BYTES } else { 0 };
        let syn = match (self.flags.contains(Flags::SYN), self.flags.contains(Flags::SACK_PERMITTED)) {
            (false, _) => 0,
            (true, true) if timestamps == 0 => 4 + 4 + 4,
            (true, _) => 4 + 4,
        };
        let blocks = self.sack.count + u8::from(self.flags.contains(Flags::DSACK));
        let sack = if blocks == 0 { 0 } else { 4 + 8 * u32::from(blocks) };
        HEADER_BYTES + timestamps + syn + sack + self.length
    }
}

/// The flags and options of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// No flags.
    pub const NONE: Self = Self(0);
    /// Opens a connection.
    pub const SYN: Self = Self(1);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(1 << 1);
    /// The last segment of a connection.
    pub const FIN: Self = Self(1 << 2);
    /// Echo of a CE mark (RFC 3168 §6.1.3). On a SYN, with [`CWR`](Self::CWR), it offers ECN; on a SYN-ACK it accepts ECN
    /// (§6.1.1).
    pub const ECE: Self = Self(1 << 3);
    /// The sender has reduced its window (RFC 3168 §6.1.2). On a SYN, with [`ECE`](Self::ECE), it offers ECN.
    pub const CWR: Self = Self(1 << 4);
    /// The timestamps option is present.
    pub const TIMESTAMPS: Self = Self(1 << 5);
    /// On a SYN or SYN-ACK: the SACK-permitted option is present (RFC 2018 §2).
    pub const SACK_PERMITTED: Self = Self(1 << 6);
    /// The first SACK block reports a duplicate segment (RFC 2883). Its range is not stored.
    pub const DSACK: Self = Self(1 << 7);

    /// Whether all of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Union with `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Union with `other` if `condition` holds.
    #[must_use]
    pub const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }
}

/// Selective acknowledgements (RFC 2018): ranges of bytes received above the cumulative acknowledgement.
///
/// Ranges are stored as 32-bit offsets from the cumulative acknowledgement. A range too far ahead is omitted, which cannot
/// happen with a receive window of at most 2^30 bytes (RFC 7323 §2.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u32, u32); Self::MAX],
    count: u8,
}

impl SackBlocks {
    /// Maximum number of blocks in 40 bytes of options without timestamps (RFC 2018 §3).
    pub const MAX: usize = 4;
    /// Maximum number of blocks with timestamps (RFC 2018 §3).
    pub const MAX_WITH_TIMESTAMPS: usize = 3;

    /// Appends the range `from..to` to a segment with the cumulative `acknowledgment`. Has no effect when full.
    pub fn push(&mut self, acknowledgment: u64, from: u64, to: u64) {
        let offset = |sequence: u64| sequence.checked_sub(acknowledgment).and_then(|n| u32::try_from(n).ok());
        if let (Some(from), Some(to), Some(block)) =
            (offset(from), offset(to), self.blocks.get_mut(usize::from(self.count)))
        {
            *block = (from, to);
            self.count += 1;
        }
    }

    /// Returns the blocks of a segment with the cumulative `acknowledgment` as (first byte, byte after the last). The block
    /// with the latest arrival comes first (RFC 2018 §4).
    pub fn ranges(&self, acknowledgment: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.blocks
            .iter()
            .take(usize::from(self.count))
            .map(move |&(from, to)| (acknowledgment + u64::from(from), acknowledgment + u64::from(to)))
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_size_includes_headers_options_and_padding() {
        let bytes = |length, flags| Segment { length, flags, ..Segment::default() }.wire_bytes();
        let syn = Flags::SYN.with(Flags::SACK_PERMITTED);
        for (length, flags, expected) in [
            (1460, Flags::ACK, 1500),
            (1448, Flags::ACK.with(Flags::TIMESTAMPS), 1500),
            (0, syn.with(Flags::TIMESTAMPS), 60),
            (0, syn, 52),
            (0, Flags::SYN, 48),
        ] {
            assert_eq!(bytes(length, flags), expected, "{flags:?}");
        }
        // A header has at most 40 bytes of options: timestamps and three blocks, or four blocks and padding.
        let mut ack = Segment { flags: Flags::ACK.with(Flags::TIMESTAMPS), ..Segment::default() };
        for (n, bytes) in [(0, 52), (1, 64), (2, 72), (3, 80)] {
            assert_eq!(ack.wire_bytes(), bytes);
            ack.sack.push(0, 1000 * n + 1000, 1000 * n + 1500);
        }
        ack.flags = Flags::ACK;
        assert_eq!(ack.wire_bytes(), 76);
        assert!(size_of::<Segment>() <= 80, "{}", size_of::<Segment>());
    }

    #[test]
    fn holds_up_to_four_blocks() {
        let mut sack = SackBlocks::default();
        let base = 10_000_000_000_000;
        for n in 0..6 {
            sack.push(base, base + 10 * n + 5, base + 10 * n + 10);
        }
        sack.push(base, base - 1, base);
        let ranges: Vec<_> = sack.ranges(base).collect();
        assert_eq!(ranges, (0..4).map(|n| (base + 10 * n + 5, base + 10 * n + 10)).collect::<Vec<_>>());
        let mut far = SackBlocks::default();
        far.push(0, 1 << 33, 1 << 34);
        assert!(far.is_empty());
    }
}
