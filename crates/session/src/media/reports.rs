//! What the far end says of what was sent, on its way to the controller.

use giusto_congestion::{Feedback, LossReport};
use giusto_rtp::{
    NtpShort, NtpShortUnwrapper,
    rtcp::{
        ArrivalOffset, CongestionFeedback, Packet, Remb, ReportBlock, ScreamFeedback, TransportFeedback,
        TransportFeedbackUnwrapper,
    },
};
use giusto_units::{Ecn, TimeDelta, Timestamp};

use super::sender::MediaSender;

/// The longest time before a report that RFC 8888 §3.1 can tell, rounded down.
const LONGEST_OFFSET: TimeDelta = TimeDelta::from_millis(7997);

impl MediaSender {
    /// An RTCP packet came.
    pub fn handle_rtcp(&mut self, now: Timestamp, packet: &Packet) {
        let now = self.advance(now);
        if self.stopped {
            return;
        }
        match packet {
            Packet::TransportFeedback(feedback) => self.on_transport_feedback(now, feedback),
            Packet::CongestionFeedback(feedback) => self.on_congestion_feedback(now, feedback),
            Packet::ScreamFeedback(feedback) => self.on_scream_feedback(now, feedback),
            Packet::Remb(remb) => self.on_remb(now, remb),
            Packet::ReceiverReport(report) => self.on_blocks(now, &report.blocks),
            Packet::SenderReport(report) => self.on_blocks(now, &report.blocks),
            _ => {}
        }
    }

    fn is_ours(&self, ssrc: u32) -> bool {
        ssrc == self.padding.ssrc || self.streams.iter().any(|(stream, _)| stream.ssrc == ssrc)
    }

    fn on_transport_feedback(&mut self, now: Timestamp, feedback: &TransportFeedback) {
        if !self.is_ours(feedback.media_ssrc) {
            return;
        }
        // Its sequence number is not used; where that is what cannot be placed, the times are.
        if self.unwrapper.unwrap(feedback).is_none() {
            self.unwrapper = TransportFeedbackUnwrapper::new();
        }
        let Some(packets) = self.unwrapper.unwrap(feedback) else { return };
        // Counted back from what was sent last, so that nothing that is fed back can lead astray.
        let Some(latest) = self.history.next().checked_sub(1) else { return };
        let behind = u64::from((latest as u16).wrapping_sub(feedback.base_sequence));
        let Some(base) = latest.checked_sub(behind) else { return };
        self.reports.clear();
        for (sequence, (_, arrival)) in (base..).zip(packets) {
            self.reports.extend(self.history.on_report(sequence, arrival, Ecn::NotEct));
        }
        self.on_reports(now);
    }

    fn on_congestion_feedback(&mut self, now: Timestamp, feedback: &CongestionFeedback) {
        if !feedback.streams.iter().any(|told| self.is_ours(told.ssrc)) {
            return;
        }
        // Tried on a copy: what says nothing new leaves no trace.
        let mut clock = self.report_clock;
        let time = clock.unwrap(feedback.time).or_else(|| {
            // The far clock has jumped, or the first report lied: it is followed from here.
            clock = NtpShortUnwrapper::new();
            clock.unwrap(feedback.time)
        });
        let Some(time) = time else { return };
        self.reports.clear();
        for told in &feedback.streams {
            let ours = self.streams.iter().map(|(_, rtp)| rtp).chain([&self.padding]);
            let Some(rtp) = ours.into_iter().find(|rtp| rtp.ssrc == told.ssrc) else { continue };
            for (sequence, reception) in told.iter() {
                let Some(number) = rtp.transport_sequence(sequence) else { continue };
                let Some(reception) = reception else {
                    self.reports.extend(self.history.on_report(number, None, Ecn::NotEct));
                    continue;
                };
                // It arrived too long ago to be told: as long ago as can be told. When is not known: nothing is learned.
                let longest = ArrivalOffset::from_delta(LONGEST_OFFSET);
                let arrival = match reception.offset {
                    ArrivalOffset::OVER_RANGE => longest.arrival(time),
                    offset => offset.arrival(time),
                };
                if arrival.is_some() {
                    self.reports.extend(self.history.on_report(number, arrival, reception.ecn));
                }
            }
        }
        if !self.reports.is_empty() {
            self.report_clock = clock;
        }
        self.on_reports(now);
    }

    fn on_scream_feedback(&mut self, now: Timestamp, message: &ScreamFeedback) {
        let ours = self.streams.iter().map(|(_, rtp)| rtp).chain([&self.padding]);
        let Some(rtp) = ours.into_iter().find(|rtp| rtp.ssrc == message.media_ssrc) else { return };
        self.reports.clear();
        let quench = self.acknowledged.on_message(message, rtp, &mut self.history, &mut self.reports);
        if self.reports.is_empty() && quench != Some(true) {
            return;
        }
        self.reports.sort_unstable_by_key(|report| report.sent.sequence);
        let in_flight = self.history.in_flight();
        self.pacer.on_in_flight(in_flight);
        let quench = quench.unwrap_or(false);
        let feedback = Feedback { packets: &self.reports, quench, in_flight, ..Feedback::default() };
        self.controller.on_feedback(now, &feedback);
        self.settle(now);
    }

    /// The controller hears what is new in the reports that were gathered.
    fn on_reports(&mut self, now: Timestamp) {
        if self.reports.is_empty() {
            return;
        }
        self.reports.sort_unstable_by_key(|report| report.sent.sequence);
        let in_flight = self.history.in_flight();
        self.pacer.on_in_flight(in_flight);
        let feedback = Feedback { packets: &self.reports, in_flight, ..Feedback::default() };
        self.controller.on_feedback(now, &feedback);
        self.settle(now);
    }

    fn on_remb(&mut self, now: Timestamp, remb: &Remb) {
        if !remb.sources.iter().any(|&ssrc| self.is_ours(ssrc)) {
            return;
        }
        let in_flight = self.history.in_flight();
        let feedback = Feedback { receiver_estimate: Some(remb.bitrate), in_flight, ..Feedback::default() };
        self.controller.on_feedback(now, &feedback);
        self.settle(now);
    }

    /// What a report says of all our streams together.
    fn on_blocks(&mut self, now: Timestamp, blocks: &[ReportBlock]) {
        let (mut lost, mut expected, mut round_trip) = (0_i64, 0_u64, None);
        for block in blocks {
            let ours = self.streams.iter_mut().map(|(_, rtp)| rtp).chain([&mut self.padding]);
            let Some(rtp) = ours.into_iter().find(|rtp| rtp.ssrc == block.ssrc && rtp.has_sent()) else {
                continue;
            };
            if let Some(told) = rtp.on_block(NtpShort::from_timestamp(now), block) {
                lost += told.lost;
                expected += told.expected;
                // Nothing can have been on its way for longer than anything was.
                round_trip = round_trip.max(told.round_trip.filter(|&time| time <= now - self.begun_at));
            }
        }
        let loss = (expected > 0).then(|| LossReport {
            ratio: (lost as f64 / expected as f64).clamp(0.0, 1.0),
            expected_packets: expected,
        });
        if loss.is_none() && round_trip.is_none() {
            return;
        }
        let in_flight = self.history.in_flight();
        let feedback = Feedback { round_trip, loss, in_flight, ..Feedback::default() };
        self.controller.on_feedback(now, &feedback);
        self.settle(now);
    }
}
