//! The elements in an RTP header extension (RFC 8285 §4).

use crate::header::RtpExtension;
use alloc::vec::Vec;

/// The profile of the one-byte form (RFC 8285 §4.2).
const ONE_BYTE_PROFILE: u16 = 0xbede;
/// The profile of the two-byte form, without its four application bits (RFC 8285 §4.3).
const TWO_BYTE_PROFILE: u16 = 0x1000;
const APPLICATION_BITS: u16 = 0x000f;
/// An identifier that stands for a byte of padding (RFC 8285 §4.1.2).
const PADDING_ID: u8 = 0;
/// The identifier that ends a one-byte extension (RFC 8285 §4.2).
const STOP_ID: u8 = 15;

/// Error of reading or writing an extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtensionError {
    /// An element is longer than the rest of the extension.
    #[error("extension element {id} of {needed} bytes does not fit the {found} bytes left")]
    Truncated {
        /// The element's identifier.
        id: u8,
        /// Bytes given in its header.
        needed: usize,
        /// Bytes available.
        found: usize,
    },
    /// The element has the wrong length for its type.
    #[error("{what} has an invalid length of {found} bytes")]
    Length {
        /// Type of the element.
        what: &'static str,
        /// Bytes available.
        found: usize,
    },
    /// The identifier cannot be written in this form: 1 to 14 with one byte, 1 to 255 with two.
    #[error("extension identifier {0} is outside the range of its form")]
    Identifier(u8),
    /// The data cannot be written in this form: 1 to 16 bytes with one byte, up to 255 with two.
    #[error("extension data of {0} bytes does not fit its form")]
    DataLength(usize),
}

/// Form of the elements of an extension.
///
/// | form | profile | element | identifiers | data |
/// |---|---|---|---|---|
/// | one byte (RFC 8285 §4.2) | `0xBEDE` | ID (4), length − 1 (4), data | 1–14 | 1–16 bytes |
/// | two bytes (RFC 8285 §4.3) | `0x1000` to `0x100F` | ID (8), length (8), data | 1–255 | 0–255 bytes |
///
/// A byte of zero between elements is padding in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ExtensionForm {
    /// One byte before each element.
    OneByte,
    /// Two bytes before each element.
    TwoByte,
}

impl ExtensionForm {
    /// The form for `profile`; `None` for other extensions.
    pub const fn from_profile(profile: u16) -> Option<Self> {
        if profile == ONE_BYTE_PROFILE {
            Some(Self::OneByte)
        } else if profile & !APPLICATION_BITS == TWO_BYTE_PROFILE {
            Some(Self::TwoByte)
        } else {
            None
        }
    }

    /// The profile to write before the elements. The application bits are zero, as RFC 8285 §4.3 requires.
    #[inline]
    pub const fn profile(self) -> u16 {
        match self {
            Self::OneByte => ONE_BYTE_PROFILE,
            Self::TwoByte => TWO_BYTE_PROFILE,
        }
    }
}

/// An element. Signalling assigns a meaning to its identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtensionElement<'a> {
    /// The local identifier.
    pub id: u8,
    /// Its data, without identifier and length.
    pub data: &'a [u8],
}

/// Iterates over the elements of an extension.
///
/// A damaged element gives an error and ends the iteration, because the position of the next element is
/// unknown.
///
/// # Example
///
/// ```
/// use giusto_rtp::{ExtensionElements, ExtensionForm, ExtensionWriter, RtpHeader, TransportSequence};
///
/// let (mut elements, mut packet) = (Vec::new(), [0; 64]);
/// let mut writer = ExtensionWriter::new(ExtensionForm::OneByte, &mut elements);
/// TransportSequence::new(7).push(3, &mut writer)?;
/// RtpHeader::default().write_with_extension(&mut packet, ExtensionForm::OneByte.profile(), &elements)?;
///
/// let extension = RtpHeader::parse(&packet)?.0.extension.expect("it was written");
/// let read = ExtensionElements::of(extension, &packet).find_map(|element| element.ok().filter(|one| one.id == 3));
/// assert_eq!(TransportSequence::parse(read.expect("it is there").data)?, TransportSequence::new(7));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct ExtensionElements<'a> {
    form: ExtensionForm,
    rest: &'a [u8],
}

impl<'a> ExtensionElements<'a> {
    /// The elements of `data`, the content of an extension of `form`.
    #[inline]
    pub const fn new(form: ExtensionForm, data: &'a [u8]) -> Self {
        Self { form, rest: data }
    }

    /// The elements of `extension` in `datagram`, from which it was parsed. An extension with another profile
    /// has none.
    #[inline]
    pub fn of(extension: RtpExtension, datagram: &'a [u8]) -> Self {
        match ExtensionForm::from_profile(extension.profile) {
            Some(form) => Self::new(form, extension.data(datagram)),
            None => Self::new(ExtensionForm::OneByte, &[]),
        }
    }
}

impl<'a> Iterator for ExtensionElements<'a> {
    type Item = Result<ExtensionElement<'a>, ExtensionError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some((0, rest)) = self.rest.split_first() {
            self.rest = rest;
        }
        let rest = core::mem::take(&mut self.rest);
        let (id, length, data) = match (self.form, rest) {
            (_, []) => return None,
            (ExtensionForm::OneByte, [first, data @ ..]) => (first >> 4, usize::from(first & 0x0f) + 1, data),
            (ExtensionForm::TwoByte, [id, length, data @ ..]) => (*id, usize::from(*length), data),
            (ExtensionForm::TwoByte, [id]) => {
                return Some(Err(ExtensionError::Truncated { id: *id, needed: 2, found: 1 }));
            }
        };
        // Identifier 0 with a length, and identifier 15, end a one-byte extension (RFC 8285 §4.1.2, §4.2).
        if self.form == ExtensionForm::OneByte && matches!(id, PADDING_ID | STOP_ID) {
            return None;
        }
        match data.split_at_checked(length) {
            Some((data, rest)) => {
                self.rest = rest;
                Some(Ok(ExtensionElement { id, data }))
            }
            None => Some(Err(ExtensionError::Truncated {
                id,
                needed: rest.len() - data.len() + length,
                found: rest.len(),
            })),
        }
    }
}

/// Writes consecutive elements, for
/// [`RtpHeader::write_with_extension`](super::RtpHeader::write_with_extension).
#[derive(Debug)]
pub struct ExtensionWriter<'a> {
    form: ExtensionForm,
    content: &'a mut Vec<u8>,
}

impl<'a> ExtensionWriter<'a> {
    /// Appends elements of `form` to `content`.
    pub const fn new(form: ExtensionForm, content: &'a mut Vec<u8>) -> Self {
        Self { form, content }
    }

    /// Appends one element.
    ///
    /// # Errors
    ///
    /// [`ExtensionError::Identifier`] and [`ExtensionError::DataLength`] for values that the form cannot
    /// represent. Nothing is appended.
    pub fn push(&mut self, id: u8, data: &[u8]) -> Result<(), ExtensionError> {
        let length = u8::try_from(data.len()).map_err(|_| ExtensionError::DataLength(data.len()))?;
        match self.form {
            ExtensionForm::OneByte => {
                if !(1..STOP_ID).contains(&id) {
                    return Err(ExtensionError::Identifier(id));
                }
                if !(1..=16).contains(&length) {
                    return Err(ExtensionError::DataLength(data.len()));
                }
                self.content.push(id << 4 | (length - 1));
            }
            ExtensionForm::TwoByte => {
                if id == PADDING_ID {
                    return Err(ExtensionError::Identifier(id));
                }
                self.content.extend([id, length]);
            }
        }
        self.content.extend_from_slice(data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::RtpHeader;

    fn read(form: ExtensionForm, data: &[u8]) -> Vec<(u8, Vec<u8>)> {
        ExtensionElements::new(form, data)
            .map(|one| one.map(|one| (one.id, one.data.to_vec())).unwrap())
            .collect()
    }

    /// The figures of RFC 8285 §4.2 and §4.3, with identifiers 1 to 3.
    #[test]
    fn the_figures_of_rfc_8285_are_read() {
        let one_byte = [0x10, 0xaa, 0x21, 0xb1, 0xb2, 0, 0, 0x33, 0xc1, 0xc2, 0xc3, 0xc4];
        let expected = vec![(1, vec![0xaa]), (2, vec![0xb1, 0xb2]), (3, vec![0xc1, 0xc2, 0xc3, 0xc4])];
        assert_eq!(read(ExtensionForm::OneByte, &one_byte), expected);

        let two_byte = [1, 0, 2, 1, 0xbb, 0, 3, 4, 0xc1, 0xc2, 0xc3, 0xc4];
        let expected = vec![(1, vec![]), (2, vec![0xbb]), (3, vec![0xc1, 0xc2, 0xc3, 0xc4])];
        assert_eq!(read(ExtensionForm::TwoByte, &two_byte), expected);
    }

    #[test]
    fn reserved_identifiers_end_a_one_byte_extension() {
        for stop in [0xf0, 0xf7, 0x01, 0x0f] {
            assert_eq!(read(ExtensionForm::OneByte, &[0x10, 9, stop, 0x20, 8]), [(1, vec![9])]);
        }
        let fifteen = [15, 1, 9, 0x20, 0];
        assert_eq!(read(ExtensionForm::TwoByte, &fifteen), [(15, vec![9]), (0x20, vec![])]);
    }

    #[test]
    fn a_truncated_element_is_an_error_and_the_last() {
        let truncated = |id, needed, found| Some(Err(ExtensionError::Truncated { id, needed, found }));
        let mut one = ExtensionElements::new(ExtensionForm::OneByte, &[0x12, 1, 2]);
        assert_eq!((one.next(), one.next()), (truncated(1, 4, 3), None));
        let mut two = ExtensionElements::new(ExtensionForm::TwoByte, &[7, 3, 1, 2]);
        assert_eq!((two.next(), two.next()), (truncated(7, 5, 4), None));
        let mut two = ExtensionElements::new(ExtensionForm::TwoByte, &[7]);
        assert_eq!((two.next(), two.next()), (truncated(7, 2, 1), None));
    }

    #[test]
    fn elements_that_do_not_fit_the_form_are_rejected() {
        let mut content = Vec::new();
        let mut writer = ExtensionWriter::new(ExtensionForm::OneByte, &mut content);
        for id in [0, 15, 255] {
            assert_eq!(writer.push(id, &[1]), Err(ExtensionError::Identifier(id)));
        }
        for length in [0, 17, 255, 256] {
            assert_eq!(writer.push(1, &vec![0; length]), Err(ExtensionError::DataLength(length)));
        }
        let mut writer = ExtensionWriter::new(ExtensionForm::TwoByte, &mut content);
        assert_eq!(writer.push(0, &[1]), Err(ExtensionError::Identifier(0)));
        assert_eq!(writer.push(1, &[0; 256]), Err(ExtensionError::DataLength(256)));
        assert!(content.is_empty());
    }

    #[test]
    fn profiles_name_forms() {
        assert_eq!(ExtensionForm::from_profile(0xbede), Some(ExtensionForm::OneByte));
        for profile in 0x1000..=0x100f {
            assert_eq!(ExtensionForm::from_profile(profile), Some(ExtensionForm::TwoByte));
        }
        for profile in [0x0fff, 0x1010, 0xbedf, 0] {
            assert_eq!(ExtensionForm::from_profile(profile), None);
        }
    }

    proptest! {
        /// Verified with an independent reader: the packet's frame by `rtp-types`.
        #[test]
        fn written_values_are_read_back(
            elements in prop::collection::vec((1_u8..15, prop::collection::vec(any::<u8>(), 1..17)), 0..8),
            two_bytes: bool,
        ) {
            let form = if two_bytes { ExtensionForm::TwoByte } else { ExtensionForm::OneByte };
            let mut content = Vec::new();
            let mut writer = ExtensionWriter::new(form, &mut content);
            for (id, data) in &elements {
                writer.push(*id, data).unwrap();
            }
            let mut packet = vec![0; 300];
            let length = RtpHeader::default().write_with_extension(&mut packet, form.profile(), &content).unwrap();
            packet.truncate(length);

            let theirs = rtp_types::RtpPacket::parse(&packet).unwrap();
            let (profile, data) = theirs.extension().unwrap();
            prop_assert_eq!(profile, form.profile());
            prop_assert_eq!(theirs.payload_len(), 0);
            prop_assert_eq!(read(form, data), elements.clone());

            let ours = RtpHeader::parse(&packet).unwrap().0.extension.unwrap();
            prop_assert_eq!(ours.data(&packet), data);
            prop_assert_eq!(ExtensionElements::of(ours, &packet).count(), elements.len());
        }
    }
}
