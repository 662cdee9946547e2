//! What an acknowledgement tells about the transmissions of its segments.

use giusto_units::Timestamp;

use super::{
    history::{History, Transmitted},
    rack::Rack,
    ranges::Range,
};

/// The effect of an acknowledgement on RACK, collected part by part.
pub(super) struct News<'a> {
    /// Time of the acknowledgement.
    now: Timestamp,
    /// The echoed timestamp, if timestamps are in use.
    pub(super) echo: Option<Timestamp>,
    /// The state of RACK.
    rack: &'a mut Rack,
    /// The newest transmission that it acknowledges.
    newest: Option<Transmitted>,
    /// Highest byte whose first transmission it acknowledges, none of which was retransmitted.
    original: Option<u64>,
    highest: u64,
}

impl<'a> News<'a> {
    /// Creates the empty effect of an acknowledgement.
    pub(super) fn new(now: Timestamp, echo: Option<Timestamp>, rack: &'a mut Rack) -> Self {
        Self { now, echo, rack, newest: None, original: None, highest: 0 }
    }

    pub(super) fn on_part(&mut self, history: &mut History, part: Range, echo: Option<Timestamp>) {
        let is_original = history.on_delivered(part, |sent| {
            let is_own = self.rack.on_delivered(self.now, echo, &sent);
            if is_own && self.newest.is_none_or(|newest| (sent.at, sent.end) > (newest.at, newest.end)) {
                self.newest = Some(sent);
            }
        });
        if is_original {
            self.rack.on_original(part.0);
            self.original = self.original.max(Some(part.1));
        }
        self.highest = self.highest.max(part.1);
    }

    /// Ends the acknowledgement.
    pub(super) fn finish(self) -> (Option<Transmitted>, Option<u64>) {
        self.rack.on_highest(self.highest);
        (self.newest, self.original)
    }
}
