//! One RTP source: its sequence numbers and its receiver reports.

use giusto_rtp::{NtpShort, rtcp::ReportBlock};
use giusto_units::TimeDelta;

use super::numbers::Numbers;

/// An RTP source that has sent packets.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) ssrc: u32,
    pub(super) numbers: Numbers,
    /// First sequence number, unwrapped.
    first: u64,
    reported: Option<Reported>,
    /// Whether the next report covers packets of the previous route, whose losses do not count.
    skips_report: bool,
}

/// The previous report block.
#[derive(Debug, Clone, Copy, Default)]
struct Reported {
    /// Packets sent up to the highest that was received.
    count: u64,
    lost: i32,
    /// The sender report that it refers to, and the delay since then.
    stamp: Option<(Option<u32>, u32)>,
}

/// Changes since the previous report block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockNews {
    /// Lost packets; negative if duplicates arrived.
    pub(super) lost: i64,
    /// Expected packets.
    pub(super) expected: u64,
    pub(super) rtt: Option<TimeDelta>,
}

impl Source {
    /// A source whose first packet, `number` in the history, has this sequence number.
    pub(super) fn new(ssrc: u32, sequence: u16, number: u64) -> Self {
        let mut numbers = Numbers::default();
        numbers.push(sequence, number);
        let first = numbers.next() - 1;
        Self { ssrc, numbers, first, reported: None, skips_report: false }
    }

    /// Discards all packets: reports about them describe a path that is no longer used.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.skips_report = true;
    }

    /// Handles a report block. `None` if a later block arrived before, or if it covers packets that were
    /// never sent.
    pub(super) fn on_block(&mut self, now: Option<NtpShort>, block: &ReportBlock) -> Option<BlockNews> {
        // The upper 16 bits count the wraps that the receiver has observed, which may be any number.
        let count = (self.numbers.unwrap(block.highest_sequence as u16) + 1).checked_sub(self.first);
        let count = count.filter(|&count| count > 0)?;
        let before = self.reported.unwrap_or_default();
        let expected = count.checked_sub(before.count)?;
        let lost = i64::from(block.cumulative_lost) - i64::from(before.lost);
        // If the receiver restarted its count, the losses come from the fraction field.
        let max = i64::try_from(expected).unwrap_or(i64::MAX);
        let lost = if lost.abs() <= max { lost } else { max * i64::from(block.fraction_lost) / 256 };
        // A repeated block would give an RTT that is too large by the time since the first one.
        let stamp = (block.last_sender_report.map(NtpShort::to_bits), block.delay_since_last.to_bits());
        let is_new = before.stamp != Some(stamp);
        let rtt = now.and_then(|now| block.rtt(now)).filter(|&time| is_new && time >= TimeDelta::ZERO);
        self.reported = Some(Reported { count, lost: block.cumulative_lost, stamp: Some(stamp) });
        if core::mem::take(&mut self.skips_report) {
            return None;
        }
        Some(BlockNews { lost, expected, rtt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that has sent `count` packets, the first with sequence number `first`.
    fn sent(first: u16, count: u64) -> Source {
        let mut source = Source::new(1, first, 0);
        for number in 1..count {
            source.numbers.push(first.wrapping_add(number as u16), number);
        }
        source
    }

    fn report(
        source: &mut Source,
        highest_sequence: u32,
        cumulative_lost: i32,
        fraction_lost: u8,
    ) -> Option<(i64, u64)> {
        let block = ReportBlock {
            ssrc: 1,
            fraction_lost,
            cumulative_lost,
            highest_sequence,
            ..ReportBlock::default()
        };
        source.on_block(None, &block).map(|news| (news.lost, news.expected))
    }

    #[test]
    fn a_receiver_that_missed_a_wrap_is_understood() {
        // It has not received 65533 to 65535, and so counts no wrap (RFC 3550 A.1): numbers 0 to 9 of the 13
        // that were sent.
        let mut source = sent(65_533, 13);
        assert_eq!(report(&mut source, 9, 5, 128), Some((5, 13)));
    }

    #[test]
    fn a_receiver_that_restarts_has_lost_its_fraction() {
        let mut source = sent(0, 70_000);
        assert_eq!(report(&mut source, 69_899, 200, 0), Some((200, 69_900)));
        // The last hundred, with cycle and loss counts of a restarted receiver: a quarter is lost.
        assert_eq!(report(&mut source, 69_999 - 65_536, 0, 64), Some((25, 100)));
    }

    #[test]
    fn old_repeated_and_impossible_blocks_are_not_news() {
        let mut source = sent(0, 100);
        assert_eq!(report(&mut source, 0x7fff_fffe, 0, 0), None);
        assert_eq!(report(&mut source, 49, 5, 26), Some((5, 50)));
        assert_eq!(report(&mut source, 29, 3, 26), None, "overtaken");
        assert_eq!(report(&mut source, 49, 5, 26), Some((0, 0)), "repeated");
    }

    #[test]
    fn losses_of_the_previous_route_do_not_count() {
        let mut source = sent(0, 100);
        assert_eq!(report(&mut source, 49, 5, 26), Some((5, 50)));
        source.clear();
        (100..200).for_each(|number| source.numbers.push(number as u16, number));
        assert_eq!(report(&mut source, 149, 45, 0), None);
        assert_eq!(report(&mut source, 199, 46, 0), Some((1, 50)));
    }
}
