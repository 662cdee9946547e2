//! Explicit Congestion Notification: the two ECN bits of the IP header.

/// An ECN codepoint (RFC 3168 §5; `Ect1` identifies L4S traffic: RFC 9331 §4.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not support marks: congestion drops its packets.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, scalable: L4S.
    Ect1 = 0b01,
    /// ECN-capable, classic.
    Ect0 = 0b10,
    /// Congestion experienced: a queue set this mark.
    Ce = 0b11,
}

crate::names!(Ecn { NotEct = "not-ect", Ect1 = "ect1", Ect0 = "ect0", Ce = "ce" });

impl Ecn {
    /// The two bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// The codepoint of the two lowest bits of a traffic class or type-of-service octet.
    #[inline]
    pub const fn from_bits(octet: u8) -> Self {
        match octet & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// Whether a queue may mark a packet instead of dropping it: every codepoint except
    /// [`NotEct`](Self::NotEct).
    #[inline]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// Whether a DualPI2 queue classifies the packet as low latency: ECT(1) or CE (RFC 9331 §5.1).
    #[inline]
    pub const fn is_l4s(self) -> bool {
        matches!(self, Self::Ect1 | Self::Ce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_codepoints_are_one_to_one() {
        for octet in 0..=u8::MAX {
            assert_eq!(Ecn::from_bits(octet).bits(), octet & 0b11);
        }
        assert!([Ecn::Ect0, Ecn::Ect1, Ecn::Ce].iter().all(|ecn| ecn.is_capable()));
        assert!(!Ecn::NotEct.is_capable());
        assert!(Ecn::Ect1.is_l4s() && Ecn::Ce.is_l4s() && !Ecn::Ect0.is_l4s());
    }
}
