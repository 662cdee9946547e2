//! The transport-wide sequence number in an RTP header extension (draft-holmer-rmcat-transport-wide-cc-extensions-01 §2).

use crate::extension::{ExtensionError, ExtensionWriter};

/// Whether the feedback must contain arrival times (libwebrtc, `transport-wide-cc-02`: T).
const TIMES_BIT: u16 = 0x8000;
const COUNT_MASK: u16 = 0x7fff;

/// Sequence number of a packet among all packets of its transport, across streams.
///
/// [`SequenceUnwrapper`](crate::SequenceUnwrapper) unwraps it to 64 bits.
///
/// | version | data |
/// |---|---|
/// | 1 (draft-holmer-rmcat-transport-wide-cc-extensions-01 §2) | sequence (16) |
/// | 2 (libwebrtc, `transport-wide-cc-02`) | sequence (16); with a request also T (1), sequence count (15) |
///
/// # Example
///
/// ```
/// use giusto_rtp::{ExtensionForm, ExtensionWriter, FeedbackRequest, TransportSequence};
///
/// let request = FeedbackRequest { with_times: true, packets: 10 };
/// let sequence = TransportSequence { sequence: 0x0102, request: Some(request) };
/// let mut content = Vec::new();
/// sequence.push(5, &mut ExtensionWriter::new(ExtensionForm::OneByte, &mut content))?;
/// assert_eq!(content, [0x53, 1, 2, 0x80, 10]);
/// assert_eq!(TransportSequence::parse(&content[1..]), Ok(sequence));
/// # Ok::<(), giusto_rtp::ExtensionError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TransportSequence {
    /// Increases by one per packet of the transport, modulo 2^16.
    pub sequence: u16,
    /// Feedback request of this packet; version 2 only.
    pub request: Option<FeedbackRequest>,
}

/// Request for immediate feedback, instead of feedback at intervals (libwebrtc, `transport-wide-cc-02`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FeedbackRequest {
    /// Whether arrival times are requested.
    pub with_times: bool,
    /// Number of packets to report on, ending with this one: 1 to 32 767; larger values are written as 32
    /// 767. Zero means no request, and is read back as `None`.
    pub packets: u16,
}

impl TransportSequence {
    /// A number without a request: version 1.
    #[inline]
    pub const fn new(sequence: u16) -> Self {
        Self { sequence, request: None }
    }

    /// Reads the data of the element that signalling assigned to the number.
    ///
    /// # Errors
    ///
    /// [`ExtensionError::Length`] unless there are two or four bytes.
    pub fn parse(data: &[u8]) -> Result<Self, ExtensionError> {
        match *data {
            [s0, s1] => Ok(Self::new(u16::from_be_bytes([s0, s1]))),
            [s0, s1, r0, r1] => {
                let bits = u16::from_be_bytes([r0, r1]);
                let packets = bits & COUNT_MASK;
                let request = FeedbackRequest { with_times: bits & TIMES_BIT != 0, packets };
                let request = (packets != 0).then_some(request);
                Ok(Self { sequence: u16::from_be_bytes([s0, s1]), request })
            }
            _ => Err(ExtensionError::Length { what: "a transport-wide sequence number", found: data.len() }),
        }
    }

    /// Appends the number as element `id`: two bytes, or four with a request.
    ///
    /// # Errors
    ///
    /// [`ExtensionError::Identifier`] for an identifier that the form cannot represent.
    #[inline]
    pub fn push(&self, id: u8, writer: &mut ExtensionWriter<'_>) -> Result<(), ExtensionError> {
        let [s0, s1] = self.sequence.to_be_bytes();
        let Some(request) = self.request else { return writer.push(id, &[s0, s1]) };
        let times = if request.with_times { TIMES_BIT } else { 0 };
        let [r0, r1] = (request.packets.min(COUNT_MASK) | times).to_be_bytes();
        writer.push(id, &[s0, s1, r0, r1])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{ExtensionElement, ExtensionElements, ExtensionForm};

    #[test]
    fn a_number_has_two_or_four_bytes() {
        for found in [0, 1, 3, 5, 16] {
            let error = ExtensionError::Length { what: "a transport-wide sequence number", found };
            assert_eq!(TransportSequence::parse(&vec![0; found]), Err(error));
        }
        assert_eq!(TransportSequence::parse(&[0xff, 0xfe]), Ok(TransportSequence::new(0xfffe)));
        assert_eq!(TransportSequence::parse(&[0, 1, 0x80, 0]), Ok(TransportSequence::new(1)));
    }

    proptest! {
        #[test]
        fn written_values_are_read_back(
            sequence: u16, packets in 1_u16..0x8000, with_times: bool, asks: bool, id in 1_u8..15,
        ) {
            let request = asks.then_some(FeedbackRequest { with_times, packets });
            let sequence = TransportSequence { sequence, request };
            for form in [ExtensionForm::OneByte, ExtensionForm::TwoByte] {
                let mut content = Vec::new();
                sequence.push(id, &mut ExtensionWriter::new(form, &mut content)).unwrap();
                let ExtensionElement { id: read, data } =
                    ExtensionElements::new(form, &content).next().unwrap().unwrap();
                prop_assert_eq!((read, data.len()), (id, if asks { 4 } else { 2 }));
                prop_assert_eq!(TransportSequence::parse(data), Ok(sequence));
            }
        }
    }
}
