//! The dependency descriptor, a header extension that says where frames begin, their layers, and the frames that these need (RTP Payload
//! Format For AV1, version 1.0.0, Appendix A).
//!
//! A chain is a sequence of frames that a decode target cannot do without (§A.5, §A.8.3.1): each frame says how far before it the latest
//! frame of each chain is, so that a missing one is noticed with the next frame of any layer, before an incomplete picture is decoded.

use std::collections::BTreeMap;

use super::window::widened;
use crate::bits::Bits;

/// Templates that an identifier of six bits distinguishes.
const MAX_TEMPLATES: usize = 64;
/// Layers that the header of an OBU distinguishes (AV1 Bitstream Specification §5.3.3).
const MAX_SPATIAL: u8 = 4;
const MAX_TEMPORAL: u8 = 8;
/// A frame refers to one of its chain at most 255 before it (`frame_chain_fdiff`, eight bits). When so many have followed, it is known
/// what has become of it; after twice as many it is forgotten.
const SETTLED_AFTER: u64 = 256;

/// A set of layers that can be decoded without others (§A.5), and what arrived for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct DecodeTarget {
    /// Its highest spatial layer, from 0 on.
    pub spatial_layer: u8,
    /// Its highest temporal layer, from 0 on.
    pub temporal_layer: u8,
    /// Frames of these layers that arrived whole; those of several spatial layers count each.
    pub frames: u64,
    /// Of these: frames that cannot be decoded, because one is missing from the chain that protects the target.
    pub broken_frames: u64,
}

/// What a packet's descriptor says of its frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Begin {
    /// The packet is the first of a temporal unit, of which the lowest spatial layer is sent.
    pub(super) begins_unit: bool,
    /// Its frame begins, and is of no use for any decode target: their chains are broken.
    pub(super) is_broken: bool,
}

/// The structure of a source, which comes with the first packet of a coded video sequence, and its latest frames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dependencies {
    structure: Structure,
    /// By their unwrapped numbers.
    frames: BTreeMap<u64, Part>,
    /// Frames below this number are counted in `targets`.
    settled: u64,
    /// Frames of each decode target, and the broken ones.
    targets: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Structure {
    /// The identifier of the first template.
    offset: u8,
    templates: Vec<Template>,
    /// The chain that protects each decode target; with none of them there are no chains.
    protected_by: Vec<u32>,
    target_count: usize,
    chain_count: usize,
}

/// A template, or what a frame has of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Template {
    spatial: u8,
    temporal: u8,
    /// A bit for each decode target that has such frames: of all indications but "not present" (§A.8.3.2, Table A.3).
    present: u32,
    /// How many frames before is the latest of each chain; 0: there is none.
    chains: Vec<u8>,
}

/// A frame of which packets have arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Part {
    /// The packets with its start and with its end, and the number of its packets so far.
    first: Option<u64>,
    last: Option<u64>,
    packets: u64,
    present: u32,
    chains: Vec<u8>,
    /// A bit for each chain that is intact up to this frame, once it is settled.
    intact: Option<u32>,
    /// The template and the packet of its start, while its structure has not arrived.
    waiting: Option<(u8, u64)>,
}

impl Part {
    fn is_whole(&self) -> bool {
        self.first
            .zip(self.last)
            .is_some_and(|(first, last)| self.packets == last.wrapping_sub(first).wrapping_add(1))
    }
}

impl Dependencies {
    /// Handles the descriptor of the packet with this unwrapped number, which is new. `None` if the descriptor is damaged, or if its
    /// structure has not arrived; both change nothing.
    pub(super) fn on_packet(&mut self, packet: u64, descriptor: &[u8]) -> Option<Begin> {
        let mut bits = Bits::new(descriptor);
        // §A.8.2: mandatory_descriptor_fields.
        let (start, end) = (bits.flag()?, bits.flag()?);
        let template = bits.take(6)? as u8;
        let number = bits.take(16)? as u16;
        // extended_descriptor_fields; a descriptor of three bytes has none.
        let flags = if descriptor.len() > 3 { bits.take(5)? } else { 0 };
        let new = if flags & 0x10 != 0 { Some(Structure::read(&mut bits)?) } else { None };
        let structure = new.as_ref().unwrap_or(&self.structure);
        if flags & 0x08 != 0 {
            // Decode targets that are not sent have no frames.
            bits.skip(structure.target_count)?;
        }
        let number = widened(self.frames.last_key_value().map(|(number, _)| *number), number);
        let Some(mut frame) = structure.template(template) else {
            // The packet with its structure may have been lost, and be repaired.
            let part = self.count(number, packet, end);
            if start && flags == 0 {
                part.waiting = Some((template, packet));
            }
            self.forget(number);
            return None;
        };
        // frame_dependency_definition.
        if flags & 0x04 != 0 {
            frame.present = bits.indications(structure.target_count)?;
        }
        if flags & 0x02 != 0 {
            while let size @ 1.. = bits.take(2)? as usize {
                bits.skip(4 * size)?;
            }
        }
        if flags & 0x01 != 0 {
            frame.chains =
                (0..structure.chain_count).map(|_| Some(bits.take(8)? as u8)).collect::<Option<_>>()?;
        }
        if let Some(new) = new.filter(|new| *new != self.structure) {
            self.restructure(number, new);
        }
        let part = self.count(number, packet, end);
        let spatial = frame.spatial;
        if start {
            part.first = Some(packet);
            (part.present, part.chains) = (frame.present, frame.chains);
        }
        let present = part.present;
        let is_broken = start && present != 0 && self.broken_targets(number) == present;
        self.settle(self.frames.last_key_value().map_or(0, |(last, _)| last.saturating_sub(SETTLED_AFTER)));
        self.forget(number);
        Some(Begin { begins_unit: start && spatial == 0, is_broken })
    }

    /// Counts a packet of the frame with this number.
    fn count(&mut self, number: u64, packet: u64, end: bool) -> &mut Part {
        let part = self.frames.entry(number).or_default();
        part.packets += 1;
        if end {
            part.last = Some(packet);
        }
        part
    }

    /// Forgets frames of long ago.
    fn forget(&mut self, number: u64) {
        let kept = number.saturating_sub(2 * SETTLED_AFTER);
        while self.frames.first_key_value().is_some_and(|(first, _)| *first < kept) {
            self.frames.pop_first();
        }
    }

    /// Takes the structure of the frame with this number, and of those after it, some of which may have arrived before.
    fn restructure(&mut self, number: u64, new: Structure) {
        self.settle(number);
        let after = number..=number + SETTLED_AFTER;
        self.frames.retain(|number, part| after.contains(number) && part.intact.is_none());
        self.settled = number;
        if new.target_count != self.structure.target_count {
            self.targets = vec![(0, 0); new.target_count];
        }
        self.structure = new;
        for part in self.frames.values_mut() {
            if let Some((template, packet)) = part.waiting.take()
                && let Some(frame) = self.structure.template(template)
            {
                part.first = Some(packet);
                (part.present, part.chains) = (frame.present, frame.chains);
            }
        }
    }

    /// The numbers of spatial and of temporal layers; `None` before a structure.
    pub(super) fn layers(&self) -> Option<(u8, u8)> {
        let templates = &self.structure.templates;
        let spatial = templates.iter().map(|template| template.spatial).max()?;
        let temporal = templates.iter().map(|template| template.temporal).max()?;
        Some((spatial + 1, temporal + 1))
    }

    /// The decode targets of the structure, and what has arrived for them since it came.
    pub(super) fn targets(&self) -> Vec<DecodeTarget> {
        let mut all = self.clone();
        all.settle(u64::MAX);
        let highest = |target: usize, of: fn(&Template) -> u8| {
            let templates = self.structure.templates.iter();
            templates.filter(|template| template.present >> target & 1 == 1).map(of).max().unwrap_or(0)
        };
        let target = |(target, &(frames, broken_frames))| DecodeTarget {
            spatial_layer: highest(target, |template| template.spatial),
            temporal_layer: highest(target, |template| template.temporal),
            frames,
            broken_frames,
        };
        all.targets.iter().enumerate().map(target).collect()
    }

    /// A bit for each decode target of the frame whose chain is broken as far as is known now.
    fn broken_targets(&self, number: u64) -> u32 {
        let Some(part) = self.frames.get(&number) else { return 0 };
        let intact = self.intact(number);
        let chains = self.structure.protected_by.iter().enumerate();
        chains.filter(|(_, chain)| intact >> **chain & 1 == 0).fold(0, |all, (target, _)| all | 1 << target)
            & part.present
    }

    /// A bit for each chain of which no frame is missing before this one: its latest frame has arrived whole, and so on until the chain's
    /// beginning.
    fn intact(&self, number: u64) -> u32 {
        let mut all = 0;
        for chain in 0..self.structure.chain_count {
            let mut at = number;
            let is_intact = loop {
                let Some(part) = self.frames.get(&at) else { break false };
                if at != number && !part.is_whole() {
                    break false;
                }
                if let Some(intact) = part.intact {
                    break intact >> chain & 1 == 1;
                }
                match (part.first, part.chains.get(chain).copied().unwrap_or(0)) {
                    (None, _) => break false,
                    (_, 0) => break true,
                    (_, back) => match at.checked_sub(u64::from(back)) {
                        Some(before) => at = before,
                        None => break false,
                    },
                }
            };
            all |= u32::from(is_intact) << chain;
        }
        all
    }

    /// Counts the frames below this number, which no repair changes any more.
    fn settle(&mut self, below: u64) {
        let due: Vec<u64> =
            self.frames.range(self.settled.min(below)..below).map(|(number, _)| *number).collect();
        for number in due {
            let (intact, broken) = (self.intact(number), self.broken_targets(number));
            let Some(part) = self.frames.get_mut(&number) else { continue };
            part.intact = Some(intact);
            if part.is_whole() {
                let present = part.present;
                for (target, (frames, broken_frames)) in self.targets.iter_mut().enumerate() {
                    *frames += u64::from(present >> target & 1);
                    *broken_frames += u64::from(broken >> target & 1);
                }
            }
        }
        self.settled = self.settled.max(below);
    }
}

impl Structure {
    /// The template with this identifier.
    fn template(&self, identifier: u8) -> Option<Template> {
        let index = identifier.wrapping_sub(self.offset) & 63;
        self.templates.get(usize::from(index)).cloned()
    }

    /// `template_dependency_structure`.
    fn read(bits: &mut Bits<'_>) -> Option<Self> {
        let offset = bits.take(6)? as u8;
        let target_count = bits.take(5)? as usize + 1;
        let mut templates = Vec::new();
        let (mut spatial, mut temporal) = (0, 0);
        // Table A.2: the next template has the same layers, the next temporal layer, or the next spatial one.
        loop {
            if templates.len() == MAX_TEMPLATES || spatial == MAX_SPATIAL || temporal == MAX_TEMPORAL {
                return None;
            }
            templates.push(Template { spatial, temporal, ..Template::default() });
            match bits.take(2)? {
                0 => {}
                1 => temporal += 1,
                2 => (spatial, temporal) = (spatial + 1, 0),
                _ => break,
            }
        }
        for template in &mut templates {
            template.present = bits.indications(target_count)?;
        }
        for _ in &templates {
            while bits.flag()? {
                bits.skip(4)?;
            }
        }
        let chain_count = bits.below(target_count as u32 + 1)?;
        let mut protected_by = Vec::new();
        if chain_count > 0 {
            for _ in 0..target_count {
                protected_by.push(bits.below(chain_count)?);
            }
            for template in &mut templates {
                template.chains =
                    (0..chain_count).map(|_| Some(bits.take(4)? as u8)).collect::<Option<_>>()?;
            }
        }
        // Sizes, read so that a structure that is cut off is refused.
        if bits.flag()? {
            bits.skip(32 * (usize::from(spatial) + 1))?;
        }
        Some(Self { offset, templates, protected_by, target_count, chain_count: chain_count as usize })
    }
}

/// What only these descriptors have.
impl Bits<'_> {
    /// The indications of a frame for each decode target, two bits each: a bit for each that is not "not present".
    fn indications(&mut self, targets: usize) -> Option<u32> {
        let mut present = 0;
        for target in 0..targets {
            present |= u32::from(self.take(2)? != 0) << target;
        }
        Some(present)
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

    fn begins(read: &mut Dependencies, descriptor: &[u8]) -> Option<bool> {
        Some(read.on_packet(1, descriptor)?.begins_unit)
    }

    #[test]
    fn units_begin_with_the_lowest_spatial_layer() {
        let mut read = Dependencies::default();
        assert_eq!((begins(&mut read, &packed(&mandatory(1, 60))), read.layers()), (None, None));
        assert_eq!(begins(&mut read, &l2t2()), Some(true));
        assert_eq!(read.layers(), Some((2, 2)));
        let found = [(0, 60), (1, 61), (1, 62), (1, 0), (1, 1)]
            .map(|(start, template)| begins(&mut read, &packed(&mandatory(start, template))));
        assert_eq!(found, [Some(false), Some(true), Some(false), Some(false), None]);
        // Differences of the frame itself, after the flags, say nothing about layers.
        let custom = [&mandatory(1, 61)[..], &[(0b0_0010, 5), (1, 2), (3, 4), (0, 2)]].concat();
        assert_eq!(begins(&mut read, &packed(&custom)), Some(true));
    }

    #[test]
    fn a_structure_that_is_cut_off_or_too_large_changes_nothing() {
        let whole = l2t2();
        for length in 4..whole.len() {
            let mut read = Dependencies::default();
            assert_eq!(begins(&mut read, &whole[..length]), None, "{length}");
            assert_eq!(read, Dependencies::default());
        }
        for layer in [0, 1, 2] {
            let mut fields = mandatory(1, 0);
            fields.extend([(0b1_0000, 5), (0, 6), (0, 5)]);
            fields.extend([(layer, 2); 70]);
            fields.extend([(3, 2), (0, 32), (0, 32)]);
            assert_eq!(begins(&mut Dependencies::default(), &packed(&fields)), None, "{layer}");
        }
    }

    /// The fields of a frame in one packet, with this template and number.
    fn frame(template: u32, number: u32) -> Vec<(u32, usize)> {
        vec![(1, 1), (1, 1), (template, 6), (number, 16)]
    }

    /// L1T3 as libwebrtc writes it (`scalability_structure_full_svc.cc`, `ScalabilityStructureL1T3`): three decode targets, that of the lowest
    /// temporal layer, and those of two and three; one chain of the frames of the lowest layer protects all.
    fn l1t3(number: u32) -> Vec<u8> {
        let mut fields = frame(0, number);
        fields.extend([(0b1_0000, 5), (0, 6), (2, 5)]);
        // Temporal layers 0, 0, 1, 2, 2: key frames, others of the lowest layer, of the next, and the two kinds of the highest.
        fields.extend([0, 1, 1, 0, 3].map(|next| (next, 2)));
        // Indications: switch (2), discardable (1), not present (0) for the targets of one, two and three layers.
        for indications in [[2, 2, 2], [2, 2, 2], [0, 1, 2], [0, 0, 1], [0, 0, 1]] {
            fields.extend(indications.map(|one| (one, 2)));
        }
        // Differences of 0, 4, 2, 1 and 1 frames.
        for differences in [&[][..], &[4], &[2], &[1], &[1]] {
            fields.extend(differences.iter().flat_map(|&back| [(1, 1), (back - 1, 4)]));
            fields.push((0, 1));
        }
        // ns(4) of 1 chain: 01. Each target is protected by ns(1), which has no bits. Differences of the chain.
        fields.push((1, 2));
        fields.extend([0, 4, 2, 1, 3].map(|back| (back, 4)));
        fields.push((0, 1));
        packed(&fields)
    }

    /// A frame of L1T3 after the key frame, in one packet: the templates are those of T2, T1, T2, T0, and so on.
    fn later(number: u32) -> Vec<u8> {
        packed(&frame([1, 3, 2, 4][number as usize % 4], number & 0xffff))
    }

    /// Frames and broken frames of each decode target, and the frames whose first packet showed that they are of no use, where these numbers
    /// do not arrive.
    fn without(lost: &[u32], repaired_last: bool) -> (Vec<(u64, u64)>, Vec<u32>) {
        let mut read = Dependencies::default();
        let mut known = Vec::new();
        let mut arrive = |read: &mut Dependencies, number: u32| {
            let descriptor = if number == 0 || number == 16 { l1t3(number) } else { later(number) };
            if read.on_packet(u64::from(number), &descriptor).is_some_and(|begin| begin.is_broken) {
                known.push(number);
            }
        };
        (0..20).filter(|number| !lost.contains(number)).for_each(|number| arrive(&mut read, number));
        lost.iter().filter(|_| repaired_last).for_each(|number| arrive(&mut read, *number));
        let targets = read.targets();
        let layers: Vec<u8> = targets.iter().map(|target| target.temporal_layer).collect();
        assert_eq!(layers, [0, 1, 2]);
        (targets.iter().map(|target| (target.frames, target.broken_frames)).collect(), known)
    }

    #[test]
    fn a_missing_frame_of_a_chain_breaks_all_until_its_next_beginning() {
        // Twenty frames: five of the lowest layer, five of the next, ten of the highest.
        assert_eq!(without(&[], false), (vec![(5, 0), (10, 0), (20, 0)], vec![]));
        // Frame 8 is of the lowest layer. Frames 9 to 15 need it, and each says so; at 16 there is a key frame.
        assert_eq!(without(&[8], false), (vec![(4, 1), (9, 3), (19, 7)], (9..16).collect()));
        // It was repaired: what was broken while it was missing is not in the end.
        assert_eq!(without(&[8], true), (vec![(5, 0), (10, 0), (20, 0)], (9..16).collect()));
        // Frames 5 and 6 are of the highest and of the middle layer, which are not in the chain.
        assert_eq!(without(&[5, 6], false), (vec![(5, 0), (9, 0), (18, 0)], vec![]));
        // Without the key frame there is no structure until the next.
        assert_eq!(without(&[0], false).1, Vec::<u32>::new());
    }

    #[test]
    fn a_frame_is_whole_with_all_its_packets_and_its_own_chain_replaces_the_templates() {
        let mut read = Dependencies::default();
        read.on_packet(0, &l1t3(0)).unwrap();
        // Frame 1 has packets 1 to 3, of which the second is missing; its successor in the chain says five frames, by its own difference.
        for (start, end, packet) in [(1, 0, 1), (0, 1, 3)] {
            read.on_packet(packet, &packed(&[(start, 1), (end, 1), (1, 6), (4, 16)])).unwrap();
        }
        let own = |number: u32, back: u32| [&frame(1, number)[..], &[(0b0_0001, 5), (back, 8)]].concat();
        assert!(read.on_packet(4, &packed(&own(8, 4))).unwrap().is_broken);
        assert!(!read.on_packet(5, &packed(&own(9, 9))).unwrap().is_broken);
        // Packet 2 comes late.
        read.on_packet(2, &packed(&[(0, 1), (0, 1), (1, 6), (4, 16)])).unwrap();
        assert!(!read.on_packet(6, &packed(&own(10, 2))).unwrap().is_broken);
        assert_eq!(
            read.targets()[0],
            DecodeTarget { spatial_layer: 0, temporal_layer: 0, frames: 5, broken_frames: 0 }
        );
    }

    #[test]
    fn frames_that_arrive_before_their_structure_count() {
        // The key frame has three packets, the first of which is repaired after frames 1 to 4 have come.
        let mut read = Dependencies::default();
        for (packet, end) in [(1, 0), (2, 1)] {
            assert_eq!(read.on_packet(packet, &packed(&[(0, 1), (end, 1), (0, 6), (0, 16)])), None);
        }
        for number in 1..5 {
            assert_eq!(read.on_packet(u64::from(number) + 2, &later(number)), None);
        }
        let mut key = l1t3(0);
        // It is not the end of its frame.
        key[0] &= 0b1011_1111;
        assert_eq!(read.on_packet(0, &key), Some(Begin { begins_unit: true, is_broken: false }));
        for number in 5..8 {
            assert!(!read.on_packet(u64::from(number) + 2, &later(number)).unwrap().is_broken, "{number}");
        }
        let counts: Vec<_> =
            read.targets().iter().map(|target| (target.frames, target.broken_frames)).collect();
        assert_eq!(counts, [(2, 0), (4, 0), (8, 0)]);
    }

    #[test]
    fn frames_of_long_ago_stay_counted() {
        let mut read = Dependencies::default();
        for number in 0..70_000_u32 {
            // A frame of the lowest layer is missing at 60,000.
            if number != 60_000 {
                let descriptor = if number == 0 { l1t3(0) } else { later(number) };
                read.on_packet(u64::from(number), &descriptor).unwrap();
            }
        }
        assert!(read.frames.len() <= 2 * SETTLED_AFTER as usize + 1);
        let targets = read.targets();
        assert_eq!((targets[2].frames, targets[2].broken_frames), (69_999, 9_999));
        assert_eq!((targets[0].frames, targets[0].broken_frames), (17_499, 2_499));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..5)) {
            let mut read = Dependencies::default();
            for (packet, bytes) in all.iter().enumerate() {
                read.on_packet(packet as u64, bytes);
                prop_assert!(read.targets().iter().all(|target| target.broken_frames <= target.frames));
                if let Some((spatial, temporal)) = read.layers() {
                    prop_assert!((1..=4).contains(&spatial) && (1..=8).contains(&temporal));
                }
            }
        }
    }
}
