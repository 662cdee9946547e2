//! The dependency descriptor, a header extension that says where frames begin, and their layers (RTP Payload Format For AV1, version 1.0.0,
//! Appendix A).

/// Templates that an identifier of six bits distinguishes.
const MAX_TEMPLATES: usize = 64;
/// Layers that the header of an OBU distinguishes (AV1 Bitstream Specification §5.3.3).
const MAX_SPATIAL: u8 = 4;
const MAX_TEMPORAL: u8 = 8;

/// The structure of a source, which comes with the first packet of a coded video sequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dependencies {
    /// The identifier of the first template.
    offset: u8,
    /// Spatial and temporal layer of each template.
    templates: Vec<(u8, u8)>,
}

impl Dependencies {
    /// Whether the packet with this descriptor is the first of a temporal unit, of which the lowest spatial layer is sent. `None` if the
    /// descriptor is damaged, or if its structure has not arrived; both change nothing.
    pub(super) fn begins_unit(&mut self, descriptor: &[u8]) -> Option<bool> {
        let mut bits = Bits { bytes: descriptor, at: 0 };
        // §A.4.1: mandatory_descriptor_fields.
        let start = bits.flag()?;
        bits.flag()?;
        let template = bits.take(6)? as u8;
        bits.skip(16)?;
        // extended_descriptor_fields: the other four flags are about the decode targets and the references of this frame.
        if descriptor.len() > 3 && bits.take(5)? & 0x10 != 0 {
            *self = Self::structure(&mut bits)?;
        }
        let index = template.wrapping_sub(self.offset) & 63;
        self.templates.get(usize::from(index)).map(|&(spatial, _)| start && spatial == 0)
    }

    /// The numbers of spatial and of temporal layers; `None` before a structure.
    pub(super) fn layers(&self) -> Option<(u8, u8)> {
        let spatial = self.templates.iter().map(|layers| layers.0).max()?;
        let temporal = self.templates.iter().map(|layers| layers.1).max()?;
        Some((spatial + 1, temporal + 1))
    }

    /// `template_dependency_structure`.
    fn structure(bits: &mut Bits<'_>) -> Option<Self> {
        let offset = bits.take(6)? as u8;
        let targets = bits.take(5)? as usize + 1;
        let mut templates = Vec::new();
        let (mut spatial, mut temporal) = (0, 0);
        // Table A.2: the next template has the same layers, the next temporal layer, or the next spatial one.
        loop {
            if templates.len() == MAX_TEMPLATES || spatial == MAX_SPATIAL || temporal == MAX_TEMPORAL {
                return None;
            }
            templates.push((spatial, temporal));
            match bits.take(2)? {
                0 => {}
                1 => temporal += 1,
                2 => (spatial, temporal) = (spatial + 1, 0),
                _ => break,
            }
        }
        // The rest is read so that a structure that is cut off is refused: template_dtis, template_fdiffs, template_chains, resolutions.
        bits.skip(2 * targets * templates.len())?;
        for _ in &templates {
            while bits.flag()? {
                bits.skip(4)?;
            }
        }
        let chains = bits.below(targets as u32 + 1)?;
        if chains > 0 {
            for _ in 0..targets {
                bits.below(chains)?;
            }
            bits.skip(4 * templates.len() * chains as usize)?;
        }
        if bits.flag()? {
            bits.skip(32 * (usize::from(spatial) + 1))?;
        }
        Some(Self { offset, templates })
    }
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// f(count), up to 32 bits.
    fn take(&mut self, count: usize) -> Option<u32> {
        let mut value = 0;
        for _ in 0..count {
            let byte = self.bytes.get(self.at / 8)?;
            value = value << 1 | u32::from(byte >> (7 - self.at % 8) & 1);
            self.at += 1;
        }
        Some(value)
    }

    fn flag(&mut self) -> Option<bool> {
        self.take(1).map(|bit| bit == 1)
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        self.at += count;
        (self.at <= 8 * self.bytes.len()).then_some(())
    }

    /// ns(limit): a number below `limit`, which is above 0.
    fn below(&mut self, limit: u32) -> Option<u32> {
        let width = limit.ilog2() as usize;
        let short = (2 << width) - limit;
        let value = self.take(width)?;
        if value < short { Some(value) } else { Some((value << 1) - short + self.take(1)?) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Fields of bits as bytes.
    fn packed(fields: &[(u32, usize)]) -> Vec<u8> {
        let bits: Vec<u8> = fields
            .iter()
            .flat_map(|&(value, count)| (0..count).rev().map(move |place| (value >> place & 1) as u8))
            .collect();
        bits.chunks(8).map(|byte| byte.iter().enumerate().map(|(at, bit)| bit << (7 - at)).sum()).collect()
    }

    /// Start and end of frame, template, frame number, and of the extended fields that a structure is there.
    fn mandatory(start: u32, template: u32) -> Vec<(u32, usize)> {
        vec![(start, 1), (1, 1), (template, 6), (7, 16)]
    }

    /// Two spatial layers with two temporal ones each: §A.8's L2T2 but for the values of what is skipped.
    fn l2t2() -> Vec<u8> {
        let mut fields = mandatory(1, 60);
        fields.extend([(0b1_0000, 5), (60, 6), (3, 5)]);
        // Templates 60 to 63, and 0: (0, 0), (0, 1), (1, 0), (1, 0), (1, 1).
        fields.extend([1, 2, 0, 1, 3].map(|next| (next, 2)));
        // Indications of four decode targets, and differences of 0, 1, 1, 2 and 1 frames.
        fields.extend([(2, 2); 20]);
        for count in [0, 1, 1, 2, 1] {
            fields.extend([(1, 1), (15, 4)].repeat(count));
            fields.push((0, 1));
        }
        // ns(5): 2 chains in two bits; ns(2): four targets with one bit each; differences of chains.
        fields.push((2, 2));
        fields.extend([(1, 1); 4]);
        fields.extend([(15, 4); 10]);
        // Sizes of two layers.
        fields.extend([(1, 1), (319, 16), (179, 16), (639, 16), (359, 16)]);
        packed(&fields)
    }

    #[test]
    fn units_begin_with_the_lowest_spatial_layer() {
        let mut read = Dependencies::default();
        assert_eq!((read.begins_unit(&packed(&mandatory(1, 60))), read.layers()), (None, None));
        assert_eq!(read.begins_unit(&l2t2()), Some(true));
        assert_eq!(read.layers(), Some((2, 2)));
        for (start, template, expected) in [
            (0, 60, Some(false)),
            (1, 61, Some(true)),
            (1, 62, Some(false)),
            (1, 0, Some(false)),
            (1, 1, None),
        ] {
            assert_eq!(
                read.begins_unit(&packed(&mandatory(start, template))),
                expected,
                "{start} {template}"
            );
        }
        // Differences of the frame itself, after the flags, say nothing about layers.
        let custom = [&mandatory(1, 61)[..], &[(0b0_0010, 5), (1, 2), (3, 4), (0, 2)]].concat();
        assert_eq!(read.begins_unit(&packed(&custom)), Some(true));
    }

    #[test]
    fn a_structure_that_is_cut_off_or_too_large_changes_nothing() {
        let whole = l2t2();
        for length in 4..whole.len() {
            let mut read = Dependencies::default();
            assert_eq!(read.begins_unit(&whole[..length]), None, "{length}");
            assert_eq!(read, Dependencies::default());
        }
        for layer in [0, 1, 2] {
            let mut fields = mandatory(1, 0);
            fields.extend([(0b1_0000, 5), (0, 6), (0, 5)]);
            fields.extend([(layer, 2); 70]);
            fields.extend([(3, 2), (0, 32), (0, 32)]);
            assert_eq!(Dependencies::default().begins_unit(&packed(&fields)), None, "{layer}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..5)) {
            let mut read = Dependencies::default();
            for bytes in all {
                read.begins_unit(&bytes);
                if let Some((spatial, temporal)) = read.layers() {
                    prop_assert!((1..=4).contains(&spatial) && (1..=8).contains(&temporal));
                }
            }
        }
    }
}
