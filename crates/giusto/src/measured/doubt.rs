//! Reasons to doubt the figures of a run.

use giusto_units::TimeDelta;

use super::result::{FarEndFigures, FloodFigures, RunResult};
use crate::trust::{self, Late};

/// The share of datagrams that may be skipped, or not taken by the system.
const SKIPPED: f64 = 0.01;

impl RunResult {
    /// Why the figures do not show what was asked for, a clause for each reason: the receiver lost datagrams itself, the machine was
    /// too busy to send on time, or the counts contradict each other.
    pub(super) fn find_doubts(&self) -> Vec<String> {
        let mut doubts: Vec<_> = self.own_loss().into_iter().collect();
        let (sent, skipped) =
            (self.sent_packets.unwrap_or(0), self.slips.map_or(0, |slips| slips.skipped_packets));
        let unsent = self.unsent_packets.unwrap_or(0);
        let planned = sent.saturating_add(skipped).saturating_add(unsent);
        let skips = skipped as f64 > SKIPPED * planned as f64;
        let left = skips.then(|| format!("{skipped} of {planned} datagrams were never sent"));
        let signs: Vec<_> = [self.lateness(), left, self.slow_restarts()].into_iter().flatten().collect();
        if !signs.is_empty() {
            // The receiver knows the sender's address.
            let machine = if self.from.is_some() { "the sender's machine" } else { "this machine" };
            doubts.push(format!(
                "{machine} was overloaded: {}; try fewer streams, a lower rate, or --realtime of `giusto send`",
                signs.join(" and ")
            ));
        }
        if unsent as f64 > SKIPPED * planned as f64 {
            let whose = if self.from.is_some() { "the sender's system" } else { "the system" };
            let why = self.unsent_reason.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            doubts.push(format!("{whose} did not take {unsent} of {planned} datagrams{why}"));
        }
        let away: u64 = self.paths.iter().filter_map(|path| path.away_packets).sum();
        if away as f64 > SKIPPED * planned as f64 {
            let lost = self.lost_packets.unwrap_or(0);
            doubts.push(format!(
                "this end had no address or no route for a time: {away} of the {lost} lost datagrams were sent meanwhile"
            ));
        }
        if let (Some(sent), Some(received), Some(lost)) =
            (self.sent_packets, self.received_packets, self.lost_packets)
            // Unsent datagrams of a voice stream keep their sequence numbers: the receiver counts them as lost.
            && !(sent..=sent.saturating_add(unsent)).contains(&received.saturating_add(lost))
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

    /// That the receiver's buffer dropped datagrams, if it did: those of the stream, and in a flood those of any sender.
    fn own_loss(&self) -> Option<String> {
        let known = self.lost_packets.filter(|_| self.format.as_deref() != Some("raw"));
        let dropped = self.kernel_dropped_packets.unwrap_or(0);
        let Some(flood) = self.handshake_flood.filter(|flood| flood.dropped_packets > 0) else {
            return own_loss("receiver", dropped, known);
        };
        let FloodFigures { unanswered_handshakes, dropped_packets } = flood;
        let lost = lost_in_buffer("receiver", dropped, known).map_or_else(String::new, |lost| lost + ": ");
        Some(format!(
            "{lost}a flood of requests ({unanswered_handshakes} unanswered) filled the receiver's buffer, which dropped \
             {dropped_packets} datagrams of all senders; serve only known addresses (--allow)"
        ))
    }

    /// How late the datagrams left, if that is too late. Published strategies and other programs are late by design: there the
    /// wake-ups of the machine count.
    fn lateness(&self) -> Option<String> {
        let (what, late) = match self.strategy.as_str() {
            "grid" | "recorded" => ("datagrams", Some(self.schedule_error_us)),
            _ => ("wake-ups", self.system.as_ref().and_then(|system| system.wake_latency_us)),
        };
        let late = late.and_then(|late| Late::from_micros(late.p50, late.p99))?;
        late.beyond(what, trust::bound(self.packet_interval()))
    }

    /// That restarts of the schedule, which forget what was owed, left too little of the rate.
    fn slow_restarts(&self) -> Option<String> {
        let restarts = self.slips.map(|slips| slips.reanchors).filter(|restarts| *restarts > 0)?;
        let share = self.tx_rate_bps? / self.rate_bps? as f64;
        (share < 1.0 - SKIPPED)
            .then(|| format!("{restarts} restarts of the schedule left {:.1} % of the rate", share * 100.0))
    }

    /// The time from one cycle of the schedule to the next; where that is unknown, the mean time between two datagrams. `None`
    /// without a schedule.
    fn packet_interval(&self) -> Option<TimeDelta> {
        let of_cycles = self.period_ns.map(|nanos| nanos as f64 / 1e9);
        let of_rate = || self.ideal_gap_us().map(|us| us / 1e6);
        let mean = || Some(self.duration_s? / self.sent_packets.filter(|&packets| packets > 0)? as f64);
        of_cycles.or_else(of_rate).or_else(mean).map(TimeDelta::from_seconds_f64)
    }
}

/// That `dropped` datagrams reached the receive buffer of `whose` end and were lost there, if there were any, and what to do. `lost` is
/// the loss that they are part of, if it is known.
pub fn own_loss(whose: &str, dropped: u64, lost: Option<u64>) -> Option<String> {
    let lost = lost_in_buffer(whose, dropped, lost)?;
    Some(format!(
        "{lost}: the {whose} did not read in time; end other programs there, lower the rate, or raise net.core.rmem_max there"
    ))
}

fn lost_in_buffer(whose: &str, dropped: u64, lost: Option<u64>) -> Option<String> {
    let what = match lost {
        _ if dropped == 0 => return None,
        Some(lost) if dropped >= lost => format!("{lost} lost, all in the {whose}'s buffer"),
        Some(lost) => format!("{lost} lost, {dropped} of them in the {whose}'s buffer"),
        None => format!("{dropped} lost in the {whose}'s buffer"),
    };
    Some(what + ", not on the path")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{
        median::median_of,
        result::{Quantiles, SlipFigures, SystemGranted},
    };

    fn late_by(p50: f64, p99: f64) -> Quantiles {
        Quantiles { p50: Some(p50), p99: Some(p99), ..Quantiles::default() }
    }

    #[test]
    fn the_tail_of_lateness_is_judged_by_the_interval() {
        let doubts = |strategy: &str, interval_us: u64, p99: f64| {
            let run = RunResult {
                strategy: strategy.to_owned(),
                // That of recorded streams is the mean: 1000 packets in 2 s.
                period_ns: (interval_us > 0).then_some(interval_us * 1_000),
                sent_packets: Some(1000),
                duration_s: Some(2.0),
                schedule_error_us: late_by(3.0, p99),
                ..RunResult::default()
            };
            run.find_doubts().len()
        };
        // A video call, a stream of 100 Mbit/s and one of 10 kbit/s.
        for (strategy, interval_us, p99, expected) in [
            ("grid", 1_600, 1_600.0, 0),
            ("grid", 1_600, 1_601.0, 1),
            ("grid", 96, 1_000.0, 0),
            ("grid", 96, 1_001.0, 1),
            ("grid", 160_000, 20_000.0, 0),
            ("grid", 160_000, 20_001.0, 1),
            ("recorded", 0, 2_000.0, 0),
            ("recorded", 0, 2_001.0, 1),
            // Published strategies drift, and without a schedule nothing is late.
            ("send-sleep", 1_600, 1e6, 0),
            ("max", 0, 1e6, 0),
        ] {
            assert_eq!(doubts(strategy, interval_us, p99), expected, "{strategy} {interval_us} {p99}");
        }
    }

    #[test]
    fn other_programs_are_judged_by_the_wake_ups() {
        let run = |p99: f64| {
            let system =
                Some(SystemGranted { wake_latency_us: Some(late_by(50.0, p99)), ..SystemGranted::default() });
            let strategy = "peer".to_owned();
            let (rate_bps, size_bytes) = (Some(1_000_000), Some(200));
            RunResult { strategy, rate_bps, size_bytes, system, ..RunResult::default() }
        };
        assert_eq!(run(1_600.0).find_doubts(), [""; 0]);
        let doubts = run(25_000.0).find_doubts();
        assert!(doubts[0].contains("1 % of the wake-ups were at least 25.0 ms late"), "{doubts:?}");
    }

    #[test]
    fn the_receiver_blames_the_machine_of_the_sender() {
        let run = RunResult {
            strategy: "grid".to_owned(),
            from: Some("192.0.2.1:5005".to_owned()),
            schedule_error_us: late_by(3.0, 25_000.0),
            ..RunResult::default()
        };
        assert!(run.find_doubts()[0].starts_with("the sender's machine was overloaded: "));
    }

    #[test]
    fn loss_of_the_receiver_is_not_loss_of_the_path() {
        let run = |dropped: Option<u64>, lost: Option<u64>, format: &str| {
            let format = Some(format.to_owned());
            let (kernel_dropped_packets, lost_packets) = (dropped, lost);
            let run = RunResult { lost_packets, kernel_dropped_packets, format, ..RunResult::default() };
            let [doubt] = &run.find_doubts()[..] else { return String::new() };
            doubt.split(", not on the path").next().unwrap().to_owned()
        };
        assert_eq!(run(Some(742), Some(742), "giusto"), "742 lost, all in the receiver's buffer");
        assert_eq!(run(Some(700), Some(742), "giusto"), "742 lost, 700 of them in the receiver's buffer");
        assert_eq!(run(Some(7), None, "rtp"), "7 lost in the receiver's buffer");
        assert_eq!(run(Some(7), Some(0), "raw"), "7 lost in the receiver's buffer");
        assert_eq!([run(Some(0), Some(742), "giusto"), run(None, Some(742), "giusto")], ["", ""]);
    }

    #[test]
    fn a_flood_is_the_cause_of_loss_in_the_buffer() {
        let run = |dropped_packets, of_the_stream| {
            let run = RunResult {
                handshake_flood: Some(FloodFigures { unanswered_handshakes: 9, dropped_packets }),
                kernel_dropped_packets: Some(of_the_stream),
                lost_packets: Some(3),
                ..RunResult::default()
            };
            run.find_doubts()
        };
        assert_eq!(run(0, 0), [""; 0]);
        assert!(run(0, 3)[0].contains("did not read in time"));
        let flood = "a flood of requests (9 unanswered) filled the receiver's buffer, which dropped 20 datagrams of all senders; \
                     serve only known addresses (--allow)";
        assert_eq!(run(20, 0), [flood]);
        assert_eq!(run(20, 3), [format!("3 lost, all in the receiver's buffer, not on the path: {flood}")]);
    }

    #[test]
    fn a_late_sender_or_a_wrong_sum_is_doubted() {
        let good = RunResult {
            strategy: "grid".to_owned(),
            sent_packets: Some(1000),
            received_packets: Some(990),
            lost_packets: Some(10),
            schedule_error_us: late_by(4_999.0, 5_000.0),
            slips: Some(SlipFigures { skipped_packets: 10, ..SlipFigures::default() }),
            ..RunResult::default()
        };
        assert_eq!(good.find_doubts(), [""; 0]);
        let late = late_by(412_000.0, 412_000.0);
        let slips = Some(SlipFigures { skipped_packets: 11, ..SlipFigures::default() });
        let doubts = RunResult { schedule_error_us: late, slips, ..good.clone() }.find_doubts();
        let overloaded = "this machine was overloaded: half of the datagrams were at least 412.0 ms late, where 5.0 ms is allowed and \
                          11 of 1011 datagrams were never sent; try fewer streams, a lower rate, or --realtime of `giusto send`";
        assert_eq!(doubts, [overloaded]);
        let restarts = |reanchors, tx_rate_bps| {
            let slips = Some(SlipFigures { reanchors, ..SlipFigures::default() });
            let (rate_bps, tx_rate_bps) = (Some(1_000_000), Some(tx_rate_bps));
            RunResult { rate_bps, tx_rate_bps, slips, ..good.clone() }.find_doubts()
        };
        assert_eq!([restarts(7, 990_000.0), restarts(0, 1.0)], [[""; 0]; 2]);
        let slow = "this machine was overloaded: 7 restarts of the schedule left 7.0 % of the rate; try fewer streams, a lower rate, \
                    or --realtime of `giusto send`";
        assert_eq!(restarts(7, 70_000.0), [slow]);
        // Published strategies drift: that is no fault of the machine.
        let drifts = RunResult { strategy: "send-sleep".to_owned(), schedule_error_us: late, ..good.clone() };
        assert_eq!(drifts.find_doubts(), [""; 0]);
        let forged = RunResult { received_packets: Some(991), ..good.clone() };
        let sum = "the counts do not add up: 1000 sent, but 991 received and 10 lost; datagrams were damaged or forged on the way";
        assert_eq!(forged.find_doubts(), [sum]);
        assert_eq!(RunResult { unsent_packets: Some(1), ..forged.clone() }.find_doubts(), [""; 0]);
        let refused = RunResult { unsent_packets: Some(20), ..good.clone() };
        assert_eq!(refused.find_doubts(), ["the system did not take 20 of 1030 datagrams"]);
        // A far end may report any number.
        let huge = RunResult { lost_packets: Some(u64::MAX), ..forged.clone() };
        assert_eq!(huge.find_doubts().len(), 1);
        let two_of_three = [forged.clone(), RunResult::default(), forged.clone()]
            .map(|run| RunResult { doubts: run.find_doubts(), ..run });
        assert_eq!(median_of(&two_of_three).doubts, forged.find_doubts());
        assert_eq!(median_of(&two_of_three[..2]).doubts, [""; 0]);
    }
}
