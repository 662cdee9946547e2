//! Passes RTCP messages to the controller.

use giusto_rtp::rtcp::Packet;
use giusto_units::Timestamp;

use super::sender::MediaSender;

impl MediaSender {
    /// Handles an RTCP packet.
    pub fn handle_rtcp(&mut self, now: Timestamp, packet: &Packet) {
        let now = self.advance(now);
        if self.stopped {
            return;
        }
        let Some(feedback) = self.history.on_packets(now, std::slice::from_ref(packet)) else { return };
        if !feedback.packets.is_empty() || feedback.quench {
            self.pacer.on_in_flight(feedback.in_flight);
        }
        self.controller.on_feedback(now, &feedback);
        self.settle(now);
    }
}
