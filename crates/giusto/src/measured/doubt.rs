//! Reasons to doubt the figures of a run.

use super::result::{FarEndFigures, RunResult};

impl RunResult {
    /// Why the figures do not show what was asked for, a clause for each reason: the machine was too busy to send on time, or
    /// the counts contradict each other.
    pub(super) fn find_doubts(&self) -> Vec<String> {
        // The median schedule error from which a run is in doubt: a hundred times that of a quiet machine. Published strategies
        // are late by design.
        const LATE_US: f64 = 5_000.0;
        // The share of datagrams that may be skipped.
        const SKIPPED: f64 = 0.01;
        let mut doubts = Vec::new();
        let late_us = self.schedule_error_us.p50.filter(|late| self.strategy == "grid" && *late >= LATE_US);
        let (sent, skipped) =
            (self.sent_packets.unwrap_or(0), self.slips.map_or(0, |slips| slips.skipped_packets));
        let planned = sent.saturating_add(skipped);
        let skips = skipped as f64 > SKIPPED * planned as f64;
        let late = late_us.map(|us| format!("the sender ran {:.0} ms late at the median", us / 1e3));
        let left = skips.then(|| format!("{skipped} of {planned} datagrams were never sent"));
        let signs: Vec<_> = [late, left].into_iter().flatten().collect();
        if !signs.is_empty() {
            doubts.push(format!(
                "this machine was overloaded: {}; try --realtime, fewer streams or a lower rate",
                signs.join(" and ")
            ));
        }
        if let (Some(sent), Some(received), Some(lost)) =
            (self.sent_packets, self.received_packets, self.lost_packets)
            // Unsent datagrams of a voice stream keep their sequence numbers: the receiver counts them as lost.
            && !(sent..=sent.saturating_add(self.unsent_packets.unwrap_or(0))).contains(&received.saturating_add(lost))
        {
            doubts.push(format!(
                "the counts do not add up: {sent} sent, but {received} received and {lost} lost; \
                 datagrams were damaged or forged on the way"
            ));
        }
        if let (Some(sent), Some(FarEndFigures { program, received_packets: Some(received), .. })) =
            (self.sent_packets, &self.far_end)
            && *received > sent
        {
            doubts.push(format!(
                "the counts do not add up: {sent} sent, but {program} received {received}; datagrams were duplicated or \
                 forged on the way"
            ));
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{
        median::median_of,
        result::{Quantiles, SlipFigures},
    };

    #[test]
    fn a_late_sender_or_a_wrong_sum_is_doubted() {
        let good = RunResult {
            strategy: "grid".to_owned(),
            sent_packets: Some(1000),
            received_packets: Some(990),
            lost_packets: Some(10),
            schedule_error_us: Quantiles { p50: Some(4_999.0), ..Quantiles::default() },
            slips: Some(SlipFigures { skipped_packets: 10, ..SlipFigures::default() }),
            ..RunResult::default()
        };
        assert_eq!(good.find_doubts(), [""; 0]);
        let late = Quantiles { p50: Some(412_000.0), ..Quantiles::default() };
        let slips = Some(SlipFigures { skipped_packets: 11, ..SlipFigures::default() });
        let doubts = RunResult { schedule_error_us: late, slips, ..good.clone() }.find_doubts();
        assert_eq!(
            doubts,
            [
                "this machine was overloaded: the sender ran 412 ms late at the median and 11 of 1011 datagrams were never \
              sent; try --realtime, fewer streams or a lower rate"
            ]
        );
        // Published strategies drift: that is no fault of the machine.
        let drifts = RunResult { strategy: "send-sleep".to_owned(), schedule_error_us: late, ..good.clone() };
        assert_eq!(drifts.find_doubts(), [""; 0]);
        let forged = RunResult { received_packets: Some(991), ..good };
        assert_eq!(
            forged.find_doubts(),
            [
                "the counts do not add up: 1000 sent, but 991 received and 10 lost; datagrams were damaged or forged on the way"
            ]
        );
        assert_eq!(RunResult { unsent_packets: Some(1), ..forged.clone() }.find_doubts(), [""; 0]);
        // A far end may report any number.
        let huge = RunResult { lost_packets: Some(u64::MAX), ..forged.clone() };
        assert_eq!(huge.find_doubts().len(), 1);
        let two_of_three = [forged.clone(), RunResult::default(), forged.clone()]
            .map(|run| RunResult { doubts: run.find_doubts(), ..run });
        assert_eq!(median_of(&two_of_three).doubts, forged.find_doubts());
        assert_eq!(median_of(&two_of_three[..2]).doubts, [""; 0]);
    }
}
