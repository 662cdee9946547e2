//! Recovers lost packets of one source from parity (RFC 8627 §6.3).

use std::collections::{BTreeMap, VecDeque};

use giusto_rtp::flexfec::{FecHeader, MAX_SPAN, Parity};

use super::window::widened;
use crate::media::payload::Payload;

/// Maximum number of repair packets that wait for protected packets; beyond that the oldest is dropped. Chosen by us: those of a
/// second at 5 Mbit/s with the largest ratio, for packets of 1200 bytes.
const MAX_REPAIRS: usize = 256;
/// Received packets are stored while a repair packet could refer to them: for this many numbers. Chosen by us: four times the
/// span of a mask, since repair packets follow the packets that they protect.
const MAX_NUMBERS: u64 = 4 * MAX_SPAN as u64;

/// A packet: its bytes are the head, then the payload.
#[derive(Debug, Clone)]
struct Stored {
    head: Vec<u8>,
    payload: Payload,
}

/// A repair packet and the numbers of the packets that it protects and that have not arrived.
#[derive(Debug)]
struct Repair {
    header: FecHeader,
    begin: Vec<u8>,
    payload: Payload,
    numbers: Vec<u64>,
    missing: Vec<u64>,
}

/// A recovered packet: its number, and its bytes, which are the head, then the payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecoveredPacket {
    pub(super) number: u64,
    pub(super) head: Vec<u8>,
    pub(super) payload: Payload,
}

/// The latest packets of a source, and the repair packets that protect them.
#[derive(Debug, Default)]
pub(super) struct ParityDecoder {
    packets: BTreeMap<u64, Stored>,
    repairs: VecDeque<Repair>,
}

impl ParityDecoder {
    /// Handles the arrival of a packet. Afterwards, call [`recover`](Self::recover).
    pub(super) fn on_packet(&mut self, number: u64, head: &[u8], payload: &Payload) {
        self.store(number, Stored { head: head.to_vec(), payload: payload.clone() });
    }

    /// Handles a repair packet whose payload is `begin`, then `payload`. `highest` is the highest number so far. Afterwards, call
    /// [`recover`](Self::recover).
    pub(super) fn on_repair(&mut self, begin: &[u8], payload: &Payload, highest: Option<u64>) {
        let Ok((header, length)) = FecHeader::read(begin, 1) else { return };
        let Some(protected) = header.protected.first() else { return };
        let Some(begin) = begin.get(length..) else { return };
        let numbers: Vec<u64> = protected.numbers().map(|number| widened(highest, number)).collect();
        let missing: Vec<u64> =
            numbers.iter().copied().filter(|number| !self.packets.contains_key(number)).collect();
        if missing.is_empty() {
            return;
        }
        if self.repairs.len() >= MAX_REPAIRS {
            self.repairs.pop_front();
        }
        let (begin, payload) = (begin.to_vec(), payload.clone());
        self.repairs.push_back(Repair { header, begin, payload, numbers, missing });
    }

    /// Recovers a packet of the source `ssrc`, if there is a repair packet that lacks only that one. To be called until it
    /// returns `None`: a recovered packet may allow for others (RFC 8627 §6.3.4).
    pub(super) fn recover(&mut self, ssrc: u32) -> Option<RecoveredPacket> {
        loop {
            let place = self.repairs.iter().position(|repair| repair.missing.len() == 1)?;
            let Some(repair) = self.repairs.remove(place) else { continue };
            if let Some(recovered) = self.recover_from(&repair, ssrc) {
                let RecoveredPacket { number, head, payload } = recovered.clone();
                self.store(number, Stored { head, payload });
                return Some(recovered);
            }
        }
    }

    fn recover_from(&self, repair: &Repair, ssrc: u32) -> Option<RecoveredPacket> {
        let &number = repair.missing.first()?;
        let (bytes, zeros) = in_memory(&repair.payload);
        let begin = [&repair.begin[..], bytes].concat();
        let mut rest = Parity::of_repair(&repair.header, &begin, zeros);
        for protected in repair.numbers.iter().filter(|&&protected| protected != number) {
            let Stored { head, payload } = self.packets.get(protected)?;
            let (bytes, zeros) = in_memory(payload);
            rest.add(&[head, bytes], zeros).ok()?;
        }
        let (head, zeros) = rest.recover(number as u16, ssrc)?;
        let payload = Payload::zeros(giusto_units::DataSize::from_bytes(zeros as u64));
        Some(RecoveredPacket { number, head, payload })
    }

    fn store(&mut self, number: u64, packet: Stored) {
        self.packets.insert(number, packet);
        for repair in &mut self.repairs {
            repair.missing.retain(|&missing| missing != number);
        }
        self.repairs.retain(|repair| !repair.missing.is_empty());
        let highest = self.packets.last_key_value().map_or(number, |(&highest, _)| highest);
        while let Some(oldest) =
            self.packets.first_entry().filter(|oldest| highest - oldest.key() > MAX_NUMBERS)
        {
            oldest.remove();
        }
    }
}

/// The bytes of a payload that are in memory, and the number of zeros that are not.
fn in_memory(payload: &Payload) -> (&[u8], usize) {
    payload.as_bytes().map_or((&[], payload.len()), |bytes| (bytes, 0))
}
