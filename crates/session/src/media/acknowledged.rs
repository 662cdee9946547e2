//! What does the feedback of draft-johansson-rmcat-scream-cc-00 say of the packets that were sent?
//!
//! | the message | what is reported |
//! |---|---|
//! | the highest packet, and when it came | received, at that time |
//! | another that came | received, at the same time: by then it had come |
//! | one of the 32 before the highest that did not come | not received |
//! | what lies further back and no message has told of | nothing: neither lost nor received |
//! | ECN echo | as many packets more as it has counted arrived marked; which ones is not told, so it is the latest that are new |
//! | a message that another has overtaken | what came; its ECN echo, its Q and what it misses are old |

use giusto_congestion::PacketReport;
use giusto_rtp::rtcp::{ReceptionTimeUnwrapper, ScreamFeedback};
use giusto_units::Ecn;

use super::{history::History, stream::RtpStream};

/// Follows the messages on each source.
#[derive(Debug, Clone, Default)]
pub(super) struct Acknowledged {
    /// One clock for all of them.
    clock: ReceptionTimeUnwrapper,
    sources: Vec<Source>,
}

/// As of its latest message.
#[derive(Debug, Clone, Copy)]
struct Source {
    ssrc: u32,
    /// The highest packet that was told of, by its number on the transport.
    highest: u64,
    ecn_echo: u8,
}

impl Acknowledged {
    /// A message on `rtp`, one of our own sources, came. Appends what is new in it to `reports`; gives whether the receiver asks for
    /// less, or nothing where it is not of what was sent.
    pub(super) fn on_message(
        &mut self,
        message: &ScreamFeedback,
        rtp: &RtpStream,
        history: &mut History,
        reports: &mut Vec<PacketReport>,
    ) -> Option<bool> {
        let highest = rtp.transport_sequence(message.highest_sequence)?;
        // Tried on a copy: what says nothing new leaves no trace.
        let mut clock = self.clock;
        let time = clock.unwrap(message.time).or_else(|| {
            // The far clock has jumped, or the first message lied: it is followed from here.
            clock = ReceptionTimeUnwrapper::new();
            clock.unwrap(message.time)
        })?;
        let source = *self.source(message.media_ssrc);
        let marks = message.ecn_echo.wrapping_sub(source.ecn_echo);
        // Of two on the same packet the one with the higher count, which wraps.
        let is_latest = highest > source.highest || (highest == source.highest && marks < 1 << 7);
        let first = reports.len();
        for (sequence, came) in message.iter().filter(|(_, came)| *came || is_latest) {
            if let Some(number) = rtp.transport_sequence(sequence) {
                reports.extend(history.on_report(number, came.then_some(time), Ecn::NotEct));
            }
        }
        let news = reports.get_mut(first..).unwrap_or_default();
        let is_new = !news.is_empty();
        if is_latest {
            // The highest comes first.
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

    /// Of our own sources, so there are only so many.
    fn source(&mut self, ssrc: u32) -> &mut Source {
        let place = self.sources.iter().position(|source| source.ssrc == ssrc).unwrap_or_else(|| {
            self.sources.push(Source { ssrc, highest: 0, ecn_echo: 0 });
            self.sources.len() - 1
        });
        self.sources.get_mut(place).expect("it was found or made above")
    }
}

#[cfg(test)]
mod tests;
