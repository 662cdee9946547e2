//! Feedback of draft-johansson-rmcat-scream-cc-00 §3.
//!
//! | the message | what is reported |
//! |---|---|
//! | the highest packet, and its time of arrival | received, at that time |
//! | another received packet | received, at the same time: it had arrived by then |
//! | a missing packet among the 32 before the highest | not received |
//! | an earlier packet that no message has covered | nothing: neither lost nor received |
//! | ECN echo | the latest new packets are marked, as many as the count has increased by: the message does not identify them |
//! | a reordered message | received packets only; its ECN echo, its Q bit and its gaps are out of date |

use alloc::vec::Vec;

use giusto_rtp::rtcp::{ReceptionTimeUnwrapper, ScreamFeedback};
use giusto_units::Ecn;

use super::{numbers::Numbers, packets::Packets};
use crate::feedback::PacketReport;

/// Maximum number of sources that are stored.
const MAX_SOURCES: usize = 256;

/// State of the feedback of each source.
#[derive(Debug, Clone, Default)]
pub(super) struct ScreamDraft {
    /// The receiver's clock, which all sources share.
    clock: ReceptionTimeUnwrapper,
    sources: Vec<Source>,
}

/// State as of its latest message.
#[derive(Debug, Clone, Copy)]
struct Source {
    ssrc: u32,
    /// Number of the highest reported packet.
    highest: u64,
    ecn_echo: u8,
}

impl ScreamDraft {
    /// Handles a message about the source with these `numbers`, and appends new reports. Returns whether the
    /// receiver requests a lower rate; `None` if the highest packet was never sent.
    pub(super) fn on_message(
        &mut self,
        message: &ScreamFeedback,
        numbers: &Numbers,
        packets: &mut Packets,
        reports: &mut Vec<PacketReport>,
    ) -> Option<bool> {
        let highest = numbers.packet(numbers.unwrap(message.highest_sequence))?;
        // Work on a copy, so that a message without new reports changes nothing.
        let mut clock = self.clock;
        let time = clock.unwrap(message.time).or_else(|| {
            // The receiver's clock has jumped, or its first message was wrong: restart from here.
            clock = ReceptionTimeUnwrapper::new();
            clock.unwrap(message.time)
        })?;
        let source = *self.source(message.media_ssrc);
        let marks = message.ecn_echo.wrapping_sub(source.ecn_echo);
        // Of two messages with the same highest packet, the later one has the higher count, which wraps.
        let is_latest = highest > source.highest || (highest == source.highest && marks < 1 << 7);
        let first = reports.len();
        for (sequence, came) in message.iter().filter(|(_, came)| *came || is_latest) {
            if let Some(number) = numbers.packet(numbers.unwrap(sequence)) {
                reports.extend(packets.on_report(number, came.then_some(time), Ecn::NotEct));
            }
        }
        let news = reports.get_mut(first..).unwrap_or_default();
        let is_new = !news.is_empty();
        if is_latest {
            // The highest packet comes first.
            for report in news.iter_mut().filter(|report| report.arrival.is_some()).take(marks.into()) {
                report.ecn = Ecn::Ce;
            }
            *self.source(message.media_ssrc) = Source { highest, ecn_echo: message.ecn_echo, ..source };
        }
        if is_new {
            self.clock = clock;
        }
        Some(is_latest && message.source_quench)
    }

    /// The state of one of our own sources. Their number is limited.
    fn source(&mut self, ssrc: u32) -> &mut Source {
        if self.sources.len() >= MAX_SOURCES && self.sources.iter().all(|source| source.ssrc != ssrc) {
            self.sources.remove(0);
        }
        let place = self.sources.iter().position(|source| source.ssrc == ssrc).unwrap_or_else(|| {
            self.sources.push(Source { ssrc, highest: 0, ecn_echo: 0 });
            self.sources.len() - 1
        });
        self.sources.get_mut(place).expect("it was found or made above")
    }
}
