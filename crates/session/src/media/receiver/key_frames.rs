//! When a key frame of a video is requested.
//!
//! A packet that is given up leaves its frame incomplete, and all later frames may refer to that one: the video needs a key frame. Where
//! the payload format says which frames are key frames, the request is repeated until one with higher numbers is complete, since requests
//! and key frames are lost too, and there is none if one came meanwhile. Otherwise each loss is one request.

use giusto_units::{TimeDelta, Timestamp};

/// Minimum interval between two requests for a key frame of a stream: that of the key frames of a libwebrtc sender
/// (`encoder_rtcp_feedback.cc`, `kMinKeyFrameSendIntervalMs`).
const INTERVAL: TimeDelta = TimeDelta::from_millis(300);

/// The key frames of one source.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KeyFrames {
    /// Any are requested.
    is_on: bool,
    /// When to request one.
    due: Option<Timestamp>,
    /// When one was last requested.
    requested_at: Option<Timestamp>,
    /// The highest number that had arrived then: the key frame that answers has higher ones.
    requested_above: Option<u64>,
    /// Packets were given up since that the answer does not make up for.
    is_new: bool,
    /// Number of the latest FIR: a repetition has the same (RFC 5104 §4.3.1.1).
    command: u8,
    /// The highest number that was given up.
    given_up: Option<u64>,
    /// The first number of the latest complete key frame.
    latest: Option<u64>,
    /// The payload format says which frames are key frames.
    is_known: bool,
}

impl KeyFrames {
    /// Without any request so far; if `is_on` is false, there will be none.
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// When [`take`](Self::take) has something to request.
    pub(super) const fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// The number of the FIR.
    pub(super) const fn command(&self) -> u8 {
        self.command
    }

    /// Handles packets that were given up, or whose frame was dropped; `number` is the highest.
    pub(super) fn on_given_up(&mut self, now: Timestamp, number: u64) {
        self.given_up = self.given_up.max(Some(number));
        let is_asked = self.is_known && self.due.is_some() && self.requested_above >= Some(number);
        if !is_asked && self.latest.is_none_or(|latest| latest < number) {
            self.want(now);
        }
    }

    /// Handles a wish for a key frame that has no loss as its cause.
    pub(super) fn on_wanted(&mut self, now: Timestamp) {
        if self.due.is_none() {
            self.want(now);
        }
    }

    /// Handles a complete frame that begins with this number, and whether it is a key frame. `waits`: packets before it may still arrive.
    pub(super) fn on_frame(&mut self, now: Timestamp, number: u64, key: bool, waits: bool) {
        self.is_known = true;
        if key {
            self.latest = self.latest.max(Some(number));
            if self.given_up.is_none_or(|given_up| given_up < number) {
                self.due = None;
            }
        } else if self.latest.is_none() && self.due.is_none() && !waits {
            // It refers to a frame before the first that arrived.
            self.want(now);
        }
    }

    /// Handles a restarted numbering: what comes next may refer to frames that did not arrive.
    pub(super) fn on_restart(&mut self, now: Timestamp) {
        (self.given_up, self.latest, self.requested_above, self.due) = (None, None, None, None);
        if self.is_known {
            // A sender that was restarted begins with one.
            self.want(now + INTERVAL);
        }
    }

    /// Whether to request a key frame now, when numbers up to `highest` have arrived. The answer takes about `rtt`.
    pub(super) fn take(&mut self, now: Timestamp, highest: Option<u64>, rtt: TimeDelta) -> bool {
        let is_due = self.due.take_if(|due| *due <= now).is_some();
        if is_due {
            self.due = self.is_known.then(|| now + INTERVAL + rtt);
            (self.requested_at, self.requested_above) = (Some(now), highest);
            self.command = self.command.wrapping_add(u8::from(std::mem::take(&mut self.is_new)));
        }
        is_due
    }

    fn want(&mut self, now: Timestamp) {
        if !self.is_on {
            return;
        }
        let earliest = self.requested_at.map_or(now, |last| now.max(last + INTERVAL));
        self.due = Some(self.due.map_or(earliest, |due| due.min(earliest)));
        self.is_new = true;
    }
}
