//! Passes RTCP messages to the controller.

use giusto_congestion::Extension;
use giusto_rtp::rtcp::{ExtendedReport, Packet};
use giusto_units::Timestamp;

use super::sender::MediaSender;

impl MediaSender {
    /// Handles an RTCP packet.
    pub fn handle_rtcp(&mut self, now: Timestamp, packet: &Packet) {
        let now = self.advance(now);
        if self.is_stopped() {
            return;
        }
        match packet {
            Packet::Nack(nack) => {
                if let Some(stream) = self.streams.find(nack.media_ssrc) {
                    self.streams.repairs().on_nack(now, stream, nack.numbers());
                }
                return;
            }
            Packet::ExtendedReport(ExtendedReport { ssrc, reference_time: Some(time), .. }) => {
                self.reference = Some((*ssrc, time.short(), now));
                return;
            }
            Packet::PictureLoss(request) => return self.request_key_frame(now, request.media_ssrc, None),
            Packet::FullIntra(command) => {
                for request in &command.requests {
                    self.request_key_frame(now, request.ssrc, Some(request.sequence));
                }
                return;
            }
            Packet::ReceiverReport(report) => {
                for block in &report.blocks {
                    self.streams.on_report(block.ssrc, block.last_sender_report.is_some());
                }
            }
            _ => {}
        }
        let Some(feedback) = self.history.on_packets(now, std::slice::from_ref(packet)) else { return };
        if !feedback.packets.is_empty() || feedback.extension == Some(Extension::SourceQuench) {
            self.pacer.on_in_flight(feedback.in_flight);
        }
        if let Some(rtt) = feedback.rtt {
            self.streams.repairs().on_rtt(rtt);
        }
        if let Some(loss) = feedback.loss {
            self.streams.repairs().on_loss(loss.ratio);
            let lost = (loss.ratio * loss.expected_packets as f64).round() as u64;
            self.by_reports.lost_packets += lost;
            self.by_reports.packets += loss.expected_packets.saturating_sub(lost);
        }
        self.controller.on_feedback(now, &feedback);
        self.settle(now);
    }

    fn request_key_frame(&mut self, now: Timestamp, ssrc: u32, command: Option<u8>) {
        if let Some(stream) = self.streams.find(ssrc) {
            self.streams.request_key_frame(now, stream, command, &mut self.events);
        }
    }
}
