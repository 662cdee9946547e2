//! Payload formats: what precedes the parts of a frame in its packets.

use giusto_rtp::{
    av1, h264,
    vp8::{FrameTag, Vp8Descriptor},
    vp9::{self, Vp9Descriptor},
};

use super::payload::Payload;

/// The payload format: what precedes the part of a frame in each packet's payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PayloadHeader {
    /// Nothing: frames of any bytes.
    #[default]
    None,
    /// The VP8 payload descriptor (RFC 7741 §4.2) of one byte: start of the frame or not.
    Vp8,
    /// H.264 (RFC 6184, packetization mode 1): units of the byte stream alone, together (STAP-A), or in fragments (FU-A), without delimiters.
    H264,
    /// The VP9 payload descriptor (RFC 9628 §4.2) of one byte: start and end of the frame, and whether it refers to others.
    Vp9,
    /// The aggregation header of AV1 (RTP Payload Format For AV1 §4.4) of one byte, then OBUs and fragments of them.
    Av1,
}

impl PayloadHeader {
    /// Its bytes in each packet.
    pub(super) const fn size(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Vp8 | Self::Vp9 => 1,
            Self::H264 => h264::FRAGMENT_HEADER_BYTES as u64,
            Self::Av1 => av1::AGGREGATION_HEADER_BYTES as u64,
        }
    }

    /// The payloads of a frame's packets, of at most `max` bytes. `pieces` are its parts, each with whether it is the first and the
    /// last.
    pub(super) fn payloads<P: Iterator<Item = (bool, bool, Payload)>>(
        self,
        frame: &Payload,
        max: usize,
        pieces: impl FnOnce() -> P,
    ) -> Vec<Payload> {
        match self {
            Self::None => pieces().map(|(_, _, part)| part).collect(),
            Self::Vp8 => {
                let descriptor = |start, _| {
                    let mut bytes = Vec::with_capacity(max);
                    Vp8Descriptor { start, ..Vp8Descriptor::default() }.write(&mut bytes);
                    bytes
                };
                described(pieces(), descriptor)
            }
            Self::Vp9 => {
                let predicted = !vp9::is_key(&frame.part(0..1).to_vec());
                let descriptor = |start, end| {
                    let mut bytes = Vec::with_capacity(max);
                    let mut descriptor = Vp9Descriptor::default();
                    (descriptor.predicted, descriptor.start, descriptor.end) = (predicted, start, end);
                    descriptor.write(&mut bytes);
                    bytes
                };
                described(pieces(), descriptor)
            }
            Self::H264 => h264::payloads(&frame.to_vec(), max).into_iter().map(Payload::from).collect(),
            Self::Av1 => av1::packets(&frame.to_vec(), max).into_iter().map(Payload::from).collect(),
        }
    }

    /// Whether the payload says that it is the first of its frame. AV1 says so of key frames only.
    pub(super) fn begins_frame(self, payload: &[u8]) -> bool {
        match self {
            Self::None => false,
            // RFC 7741 §4.2: S with partition 0.
            Self::Vp8 => Vp8Descriptor::parse(payload)
                .is_ok_and(|(descriptor, _)| descriptor.start && descriptor.partition == 0),
            Self::Vp9 => Vp9Descriptor::parse(payload)
                .is_ok_and(|(descriptor, _)| descriptor.start && descriptor.spatial_layer() == 0),
            Self::H264 => h264::begins_access_unit(payload),
            Self::Av1 => av1::begins_sequence(payload),
        }
    }

    /// The frame in the payloads of its packets, and whether decoding can start with it, if the format says so. `None` if they break the
    /// format.
    pub(super) fn frame<'a>(
        self,
        mut payloads: impl Iterator<Item = &'a Payload> + Clone,
    ) -> Option<(Payload, Option<bool>)> {
        let mut frame = Vec::new();
        if self != Self::None {
            frame.reserve(payloads.clone().map(Payload::len).sum());
        }
        let key = match self {
            Self::None => return Some((Payload::joined(payloads), None)),
            Self::Vp8 => {
                for (number, payload) in payloads.enumerate() {
                    let bytes = payload.to_vec();
                    let (descriptor, part) = Vp8Descriptor::parse(&bytes).ok()?;
                    if (descriptor.start && descriptor.partition == 0) != (number == 0) {
                        return None;
                    }
                    frame.extend(part);
                }
                FrameTag::parse(&frame).is_ok_and(|tag| tag.key)
            }
            Self::Vp9 => {
                let mut key = false;
                for (number, payload) in payloads.enumerate() {
                    let bytes = payload.to_vec();
                    let (descriptor, part) = Vp9Descriptor::parse(&bytes).ok()?;
                    if (descriptor.start && descriptor.spatial_layer() == 0) != (number == 0) {
                        return None;
                    }
                    key |= number == 0 && !descriptor.predicted;
                    frame.extend(part);
                }
                key
            }
            Self::H264 => {
                let mut unit = h264::Reassembler::default();
                payloads.try_for_each(|payload| unit.push(&payload.to_vec())).ok()?;
                frame = unit.finish().ok()?;
                h264::is_key(&frame)
            }
            Self::Av1 => {
                let mut unit = av1::Reassembler::default();
                let key = payloads.clone().next().is_some_and(|first| av1::begins_sequence(&first.to_vec()));
                payloads.try_for_each(|payload| unit.push(&payload.to_vec())).ok()?;
                frame = unit.finish().ok()?;
                key
            }
        };
        Some((frame.into(), Some(key)))
    }
}

/// Parts of a frame, each after its descriptor.
fn described(
    pieces: impl Iterator<Item = (bool, bool, Payload)>,
    descriptor: impl Fn(bool, bool) -> Vec<u8>,
) -> Vec<Payload> {
    let payload = |(start, end, part): (bool, bool, Payload)| {
        let mut bytes = descriptor(start, end);
        part.write_to(&mut bytes);
        Payload::from(bytes)
    };
    pieces.map(payload).collect()
}

#[cfg(test)]
mod tests {
    use giusto_units::DataSize;

    use crate::{media::Packetizer, video::VideoCodec};

    #[test]
    fn each_format_restores_its_frames_and_knows_key_frames() {
        let packetizer = Packetizer::new(DataSize::from_bytes(300)).unwrap();
        for codec in VideoCodec::ALL {
            let header = codec.payload_header();
            let packetizer = packetizer.with_header(header).unwrap();
            for (key, bytes) in [(true, 1500), (false, 1500), (true, 40), (false, 40)] {
                let frame = codec.synthetic_frame(DataSize::from_bytes(bytes), key);
                let payloads = packetizer.payloads(&frame);
                assert_eq!(payloads.len() == 1, bytes == 40, "{codec}");
                assert!(payloads.iter().all(|payload| payload.len() <= 300));
                assert_eq!(header.frame(payloads.iter()), Some((frame.clone(), Some(key))), "{codec} {key}");
                let begins: Vec<_> =
                    payloads.iter().map(|payload| header.begins_frame(&payload.to_vec())).collect();
                let says_so = key || codec != VideoCodec::Av1;
                assert_eq!(begins[0], says_so, "{codec} {key}");
                assert!(!begins[1..].contains(&true), "{codec} {key}");
                if let [_, rest @ ..] = &payloads[..]
                    && !rest.is_empty()
                    && !codec.has_parameter_sets()
                {
                    assert_eq!(header.frame(rest.iter()), None, "{codec}: without its first packet");
                }
            }
        }
    }
}
