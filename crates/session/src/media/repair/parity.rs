//! Parity packets of a stream (RFC 8627): which packets they protect, and how many there are.
//!
//! Each media packet adds the [ratio](ParityRatio) to a credit. At the end of a frame at which the credit is at least one, it is
//! spent on `m` repair packets; a remainder below one is carried. They protect the packets since the last repair packets, but at
//! most 46, as many as a mask of eight bytes covers, and none of a frame that was pushed more than half of the deadline ago, because
//! its repair would come too late. Repair packet `i` protects packets `i`, `i + m`, `i + 2m`, … of them, so that a burst of up to `m`
//! losses is recovered. A frame of more than 46 packets is divided.

use std::collections::VecDeque;

use giusto_rtp::flexfec::{Parity, Protected};
use giusto_units::{DataSize, TimeDelta, Timestamp};

use crate::media::payload::Payload;
use crate::media::repair_settings::ParityRatio;

/// Maximum number of packets of a block: those of a mask of 46 bits (RFC 8627 §4.2.2.1).
const MAX_BLOCK: usize = 46;
/// Maximum ratio of repair packets to media packets. Chosen by us: they then take a third of the target.
const MAX_RATIO: f64 = 0.5;
/// Repair packets per lost packet, with [`ParityRatio::Loss`]. Chosen by us: one for each loss recovers few blocks, because their
/// losses are not spread evenly.
const PER_LOSS: f64 = 2.0;
/// Weight of a report of the loss ratio. Chosen by us: as that of a sample of the RTT variation (RFC 6298 §2.3).
const LOSS_GAIN: f64 = 0.25;

/// A packet of a block.
#[derive(Debug, Clone)]
struct BlockPacket {
    number: u64,
    /// The header, before the payload.
    head: Vec<u8>,
    payload: Payload,
    since: Timestamp,
}

/// A repair packet: the header of its parity, and the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::media) struct ParityPacket {
    /// The header of RFC 8627, and the bytes that may differ from zero.
    pub(in crate::media) begin: Vec<u8>,
    /// Zeros after them.
    pub(in crate::media) zeros: DataSize,
    /// Time at which the oldest protected frame was pushed.
    pub(in crate::media) since: Timestamp,
}

/// The current block of a stream.
#[derive(Debug)]
pub(super) struct ParityEncoder {
    ratio: ParityRatio,
    /// Smoothed loss ratio.
    loss: f64,
    block: VecDeque<BlockPacket>,
    /// Fraction of a repair packet that is owed.
    credit: f64,
}

impl ParityEncoder {
    pub(super) fn new(ratio: ParityRatio) -> Self {
        Self { ratio, loss: 0.0, block: VecDeque::new(), credit: 0.0 }
    }

    /// Handles a report of the loss ratio, 0 to 1.
    pub(super) fn on_loss(&mut self, ratio: f64) {
        self.loss += (ratio.clamp(0.0, 1.0) - self.loss) * LOSS_GAIN;
    }

    /// Repair packets per media packet.
    pub(super) fn ratio(&self) -> f64 {
        let ratio = match self.ratio {
            ParityRatio::Fixed(ratio) => ratio,
            ParityRatio::Loss => PER_LOSS * self.loss,
        };
        if ratio.is_finite() { ratio.clamp(0.0, MAX_RATIO) } else { 0.0 }
    }

    /// Handles a sent media packet. `ends`: it is the last of its frame. Returns the repair packets of the block that it ends.
    pub(super) fn on_sent(
        &mut self,
        now: Timestamp,
        (number, since, ends): (u64, Timestamp, bool),
        (head, payload): (&[u8], &Payload),
        deadline: TimeDelta,
    ) -> Vec<ParityPacket> {
        let is_next = self.block.back().is_none_or(|last| last.number + 1 == number);
        if self.ratio() <= 0.0 || !is_next {
            self.block.clear();
        }
        if self.ratio() <= 0.0 {
            return Vec::new();
        }
        while self.block.front().is_some_and(|oldest| now.saturating_since(oldest.since) > deadline / 2) {
            self.block.pop_front();
        }
        if self.block.len() >= MAX_BLOCK {
            self.block.pop_front();
        }
        self.block.push_back(BlockPacket { number, head: head.to_vec(), payload: payload.clone(), since });
        self.credit += self.ratio();
        if self.credit < 1.0 || !ends && self.block.len() < MAX_BLOCK {
            return Vec::new();
        }
        let packets = (self.credit as usize).min(self.block.len());
        self.credit = self.credit.fract();
        let block: Vec<BlockPacket> = self.block.drain(..).collect();
        (0..packets).filter_map(|first| parity(&block, first, packets)).collect()
    }
}

/// The repair packet for every `step`th packet from `first` on.
fn parity(block: &[BlockPacket], first: usize, step: usize) -> Option<ParityPacket> {
    let mut parity = Parity::default();
    let protected = || block.iter().skip(first).step_by(step);
    for BlockPacket { head, payload, .. } in protected() {
        let (bytes, zeros) = match payload.as_bytes() {
            Some(bytes) => (bytes, 0),
            None => (&[][..], payload.len()),
        };
        parity.add(&[head, bytes], zeros).ok()?;
    }
    let oldest = protected().next()?;
    let numbers =
        Protected::of_numbers(oldest.number as u16, protected().map(|packet| packet.number as u16))?;
    let mut begin = Vec::new();
    parity.header(vec![numbers]).write(&mut begin).ok()?;
    begin.extend(parity.payload());
    Some(ParityPacket { begin, zeros: DataSize::from_bytes(parity.zeros() as u64), since: oldest.since })
}

#[cfg(test)]
mod tests {
    use giusto_rtp::{RtpHeader, flexfec::FecHeader};

    use super::*;

    fn send(encoder: &mut ParityEncoder, ms: u64, number: u64, ends: bool) -> Vec<Vec<u16>> {
        let mut head = vec![0; 12];
        RtpHeader { sequence: number as u16, ..RtpHeader::default() }.write(&mut head).unwrap();
        let (now, payload) =
            (Timestamp::from_nanos(ms * 1_000_000), Payload::zeros(DataSize::from_bytes(100)));
        let made = encoder.on_sent(now, (number, now, ends), (&head, &payload), TimeDelta::from_millis(400));
        let numbers = |packet: &ParityPacket| {
            assert_eq!(packet.zeros, DataSize::from_bytes(100));
            FecHeader::read(&packet.begin, 1).unwrap().0.protected[0].numbers().collect()
        };
        made.iter().map(numbers).collect()
    }

    #[test]
    fn repair_packets_are_interleaved_over_a_block() {
        let mut encoder = ParityEncoder::new(ParityRatio::Fixed(0.4));
        let made: Vec<_> = (0..5).map(|number| send(&mut encoder, 0, 65_533 + number, number == 4)).collect();
        assert!(made[..4].iter().all(Vec::is_empty));
        assert_eq!(made[4], [vec![65_533, 65_535, 1], vec![65_534, 0]]);
        // Two packets are worth 0.8: with the next frame, 1.6, and then 0.6 + 0.4.
        assert!(
            [65_538, 65_539].iter().all(|&number| send(&mut encoder, 0, number, number == 65_539).is_empty())
        );
        assert_eq!(send(&mut encoder, 33, 65_540, true), [[2, 3, 4]]);
    }

    #[test]
    fn the_number_of_repair_packets_follows_the_ratio() {
        for (ratio, packets) in [(0.0, 0), (0.1, 1000), (0.25, 2500), (0.5, 5000), (9.0, 5000), (f64::NAN, 0)]
        {
            let mut encoder = ParityEncoder::new(ParityRatio::Fixed(ratio));
            let made = (0..10_000).map(|number| send(&mut encoder, number, number, number % 7 == 6).len());
            let made: usize = made.sum();
            assert!(made.abs_diff(packets) <= packets / 100, "{ratio}: {made}");
        }
    }

    #[test]
    fn the_ratio_follows_the_loss() {
        let mut encoder = ParityEncoder::new(ParityRatio::Loss);
        assert!((0..100).all(|number| send(&mut encoder, 0, number, true).is_empty()));
        for _ in 0..20 {
            encoder.on_loss(0.1);
        }
        assert!((0.19..=0.2).contains(&encoder.ratio()), "{}", encoder.ratio());
        (0..20).for_each(|_| encoder.on_loss(0.9));
        assert!(encoder.ratio() >= MAX_RATIO && encoder.ratio() <= MAX_RATIO);
        (0..40).for_each(|_| encoder.on_loss(0.0));
        assert!(encoder.ratio() < 0.001);
    }

    #[test]
    fn packets_whose_repair_would_be_late_are_not_protected() {
        let mut encoder = ParityEncoder::new(ParityRatio::Fixed(0.25));
        for number in 0..3 {
            assert!(send(&mut encoder, 0, number, true).is_empty());
        }
        assert_eq!(send(&mut encoder, 201, 3, true), [[3]]);
        assert!((4..7).all(|number| send(&mut encoder, 201, number, true).is_empty()));
        assert_eq!(send(&mut encoder, 202, 7, true), [[4, 5, 6, 7]]);
        // A frame of more than 46 packets is divided.
        let made: Vec<_> = (8..200).map(|number| send(&mut encoder, 203, number, false)).collect();
        let ends: Vec<usize> = (0..made.len()).filter(|&place| !made[place].is_empty()).collect();
        assert_eq!(ends, [45, 91, 137, 183]);
    }
}
