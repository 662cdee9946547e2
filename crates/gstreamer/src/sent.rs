//! The packets that have left, and which of them each report of `rtpsession` means.

use std::collections::VecDeque;

use giusto_congestion::{PacketReport, SentPacket};
use giusto_units::{DataSize, PeerTimestamp, TimeDelta, Timestamp};

/// Time for which a packet is stored. A report of an older packet says nothing about the path.
const MEMORY: TimeDelta = TimeDelta::from_seconds(10);

/// Maximum number of stored packets: half of the range of a transport-wide sequence number.
const MAX: usize = 1 << 15;

/// Reference times of transport-wide feedback wrap after 2²⁴ times 64 ms (draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1).
const PERIOD: u64 = (1 << 24) * 64_000_000;

/// What `rtpsession` reports of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// Its transport-wide sequence number, which `rtpsession` gave it after it had left us.
    pub(crate) number: u16,
    /// When it passed `rtpsession`, on our clock.
    pub(crate) passed: Option<Timestamp>,
    /// When it arrived, on the receiver's clock, which wraps; `None`: it is lost.
    pub(crate) arrived: Option<PeerTimestamp>,
}

/// The packets sent in the last seconds, numbered from 0 in sending order.
///
/// `rtpsession` numbers packets after they have left, so a report is matched by time: packets leave one by one, and the packet that
/// passed `rtpsession` at a time is the last one that left before it. Where a report has no time, the numbers of earlier reports show
/// which packet it is.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    entries: VecDeque<Entry>,
    next: u64,
    in_flight: DataSize,
    /// Packets below this number are not in flight: they were reported, or a later one was.
    settled: u64,
    /// Our number of a packet less its transport-wide number, modulo 2¹⁶.
    offset: Option<u16>,
    latest_arrival: Option<u64>,
    unmatched: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    packet: SentPacket,
    /// When the elements behind us had handled it. `None`: they still do.
    handled: Option<Timestamp>,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unknown,
    Lost,
    Arrived,
}

impl Sent {
    /// Bytes of packets that are not reported, and after which no packet is reported.
    pub(crate) fn in_flight(&self) -> DataSize {
        self.in_flight
    }

    /// Reports that matched no packet.
    pub(crate) fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Records a packet that leaves now.
    pub(crate) fn on_leaving(&mut self, now: Timestamp, size: DataSize, probe: Option<u32>) -> SentPacket {
        while let Some(oldest) = self.entries.front()
            && (self.entries.len() >= MAX || now.saturating_since(oldest.packet.at) > MEMORY)
        {
            let next = oldest.packet.sequence + 1;
            self.settle(next);
            self.entries.pop_front();
        }
        self.in_flight += size;
        let packet = SentPacket::new(self.next, now, size).with_probe(probe).with_in_flight(self.in_flight);
        self.entries.push_back(Entry { packet, handled: None, fate: Fate::Unknown });
        self.next += 1;
        packet
    }

    /// The elements behind us have handled the latest packet.
    pub(crate) fn on_handled(&mut self, now: Timestamp) {
        if let Some(latest) = self.entries.back_mut() {
            latest.handled = Some(now);
        }
    }

    /// The new information of these reports, in sending order: first reports of a packet, and first ones that it has arrived.
    pub(crate) fn on_reports(&mut self, reports: &[Report], new: &mut Vec<PacketReport>) {
        new.clear();
        for report in reports {
            let Some(place) = self.place(report) else {
                self.unmatched += 1;
                continue;
            };
            let arrival = report.arrived.map(|arrived| self.unwrapped(arrived));
            let Some(entry) = self.entries.get_mut(place) else { continue };
            let fate = if arrival.is_some() { Fate::Arrived } else { Fate::Lost };
            if entry.fate == Fate::Unknown || (entry.fate, fate) == (Fate::Lost, Fate::Arrived) {
                entry.fate = fate;
                new.push(PacketReport::new(entry.packet, arrival));
            }
        }
        new.sort_by_key(|report| report.sent.sequence);
        if let Some(last) = new.last() {
            self.settle(last.sent.sequence + 1);
        }
    }

    fn place(&mut self, report: &Report) -> Option<usize> {
        let first = self.entries.front()?.packet.sequence;
        if let Some(passed) = report.passed {
            let place = self.entries.partition_point(|entry| entry.packet.at <= passed).checked_sub(1)?;
            let entry = self.entries.get(place)?;
            if entry.handled.is_none_or(|handled| passed <= handled) {
                self.offset = Some((entry.packet.sequence as u16).wrapping_sub(report.number));
                return Some(place);
            }
        }
        // Stored packets are fewer than half of the numbers, so at most one of them has this one.
        let sequence = report.number.wrapping_add(self.offset?);
        let place = usize::from(sequence.wrapping_sub(first as u16));
        (place < self.entries.len()).then_some(place)
    }

    fn settle(&mut self, below: u64) {
        let first = self.entries.front().map_or(self.next, |entry| entry.packet.sequence);
        let from = self.settled.max(first).saturating_sub(first) as usize;
        let until = below.saturating_sub(first) as usize;
        let newly = self.entries.iter().take(until).skip(from);
        let size = newly.fold(DataSize::ZERO, |sum, entry| sum + entry.packet.size);
        self.in_flight = self.in_flight.saturating_sub(size);
        self.settled = self.settled.max(below);
    }

    /// The arrival on a clock that does not wrap: of the possible times, the nearest to the latest one.
    fn unwrapped(&mut self, arrived: PeerTimestamp) -> PeerTimestamp {
        let latest = *self.latest_arrival.get_or_insert_with(|| arrived.as_nanos() % PERIOD + PERIOD);
        let ahead = (arrived.as_nanos() % PERIOD + PERIOD - latest % PERIOD) % PERIOD;
        let time = if ahead < PERIOD / 2 { latest + ahead } else { latest + ahead - PERIOD };
        self.latest_arrival = Some(latest.max(time));
        PeerTimestamp::from_nanos(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: DataSize = DataSize::from_bytes(1000);

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn arrived(ms: u64) -> PeerTimestamp {
        PeerTimestamp::from_nanos(ms * 1_000_000)
    }

    fn report(number: u16, passed: Option<u64>, arrived: Option<u64>) -> Report {
        Report { number, passed: passed.map(at), arrived: arrived.map(self::arrived) }
    }

    /// Packets at 0 ms, 10 ms, …, each handled within 2 ms.
    fn sent(count: u64) -> Sent {
        let mut sent = Sent::default();
        for number in 0..count {
            assert_eq!(sent.on_leaving(at(10 * number), SIZE, None).sequence, number);
            sent.on_handled(at(10 * number + 2));
        }
        sent
    }

    fn sequences(sent: &mut Sent, reports: &[Report]) -> Vec<(u64, bool)> {
        let mut new = Vec::new();
        sent.on_reports(reports, &mut new);
        new.iter().map(|report| (report.sent.sequence, report.arrival.is_some())).collect()
    }

    #[test]
    fn a_report_means_the_packet_that_was_being_handled() {
        let mut sent = sent(4);
        let reports = [report(700, Some(11), Some(50)), report(701, Some(20), Some(60))];
        assert_eq!(sequences(&mut sent, &reports), [(1, true), (2, true)]);
        assert_eq!((sent.in_flight(), sent.unmatched()), (SIZE, 0));
        // Between two packets of ours another element's packet has passed, and before the first one as well.
        let mut other = self::sent(4);
        let reports = [report(9, Some(15), Some(50)), report(3, None, Some(51))];
        assert_eq!(sequences(&mut other, &reports), []);
        assert_eq!((other.in_flight(), other.unmatched()), (SIZE * 4, 2));
    }

    #[test]
    fn a_packet_can_be_reported_while_it_is_handled() {
        let mut sent = sent(2);
        sent.on_leaving(at(20), SIZE, None);
        assert_eq!(sequences(&mut sent, &[report(2, Some(500), Some(600))]), [(2, true)]);
    }

    #[test]
    fn a_report_without_a_time_is_matched_by_number() {
        let mut sent = sent(70_000);
        // Packet 69 000 has transport-wide number 65 530; later numbers wrap.
        let reports = [
            report(65_530, Some(690_000), Some(1)),
            report(65_533, None, None),
            report(4, None, Some(2)),
            report(30_000, None, Some(3)),
        ];
        assert_eq!(sequences(&mut sent, &reports), [(69_000, true), (69_003, false), (69_010, true)]);
        assert_eq!(sent.unmatched(), 1, "number 30 000 was not sent yet");
    }

    #[test]
    fn a_report_is_new_once_and_again_after_a_loss() {
        let mut sent = sent(3);
        assert_eq!(sequences(&mut sent, &[report(1, Some(10), None)]), [(1, false)]);
        assert_eq!(sequences(&mut sent, &[report(1, Some(10), None)]), []);
        assert_eq!(sequences(&mut sent, &[report(1, Some(10), Some(5))]), [(1, true)]);
        assert_eq!(sequences(&mut sent, &[report(1, Some(10), Some(5))]), []);
    }

    #[test]
    fn old_packets_leave_the_flight() {
        let mut sent = sent(3);
        sent.on_leaving(at(10_015), SIZE, None);
        // Those of 0 and 10 ms are more than 10 s old.
        assert_eq!(sent.in_flight(), SIZE * 2);
        assert_eq!(sequences(&mut sent, &[report(1, Some(10), Some(5))]), []);
    }

    #[test]
    fn arrival_times_go_on_when_the_reference_time_wraps() {
        let mut sent = Sent::default();
        let ms = PERIOD / 1_000_000;
        let mut times = Vec::new();
        for (number, raw) in [ms - 10, ms - 5, 3, ms - 2, 20].into_iter().enumerate() {
            sent.on_leaving(at(number as u64), SIZE, None);
            let mut new = Vec::new();
            sent.on_reports(&[report(number as u16, Some(number as u64), Some(raw))], &mut new);
            times.push(new[0].arrival.unwrap().as_nanos() / 1_000_000);
        }
        let since: Vec<_> = times.iter().map(|time| *time as i64 - times[0] as i64).collect();
        assert_eq!(since, [0, 5, 13, 8, 30]);
    }

    #[test]
    fn in_flight_are_the_packets_after_the_latest_reported_one() {
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut sent, mut model, mut settled) = (Sent::default(), Vec::new(), 0);
        for step in 0..5_000_u64 {
            let now = at(step * 3);
            if draw(3) > 0 || model.is_empty() {
                let size = DataSize::from_bytes(1 + draw(1500));
                let packet = sent.on_leaving(now, size, None);
                sent.on_handled(now);
                model.push((now, size));
                assert_eq!(packet.sequence, model.len() as u64 - 1);
            } else {
                // A packet of the last 100 or so, lost or arrived, perhaps reported before.
                let number = model.len() as u64 - 1 - draw(100.min(model.len() as u64));
                let passed = Some(model[number as usize].0);
                let arrived = (draw(4) > 0).then(|| arrived(step * 3 + 50));
                let mut new = Vec::new();
                sent.on_reports(&[Report { number: number as u16, passed, arrived }], &mut new);
                if new.iter().any(|report| report.sent.sequence == number) {
                    settled = settled.max(number + 1);
                }
                assert!(new.len() <= 1 && sent.unmatched() == 0);
            }
            let recent = |(at, _): &&(Timestamp, DataSize)| now.saturating_since(*at) <= MEMORY;
            let rest = model.iter().skip(settled as usize).filter(recent);
            let expected = rest.fold(DataSize::ZERO, |sum, (_, size)| sum + *size);
            assert_eq!(sent.in_flight(), expected, "step {step}");
        }
        assert!(settled > 1_000, "{settled}");
    }
}
