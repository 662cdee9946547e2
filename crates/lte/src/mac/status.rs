//! Buffer status reports and scheduling requests: what the base station knows of what a user has to send.

/// Time from the start of a scheduling request until the base station can grant, in ms. Chosen by us: one to send, two to decode.
const REQUEST_DECODE_MS: u64 = 3;

/// Bytes of the first grant after a scheduling request, which carry the buffer status report and some data. Chosen by us.
const FIRST_GRANT_BYTES: u32 = 40;

/// A buffer status report (TS 36.321 §5.4.5). Every new block carries one, of the exact number of bytes; in LTE one comes at intervals
/// of at least 5 ms, wherever padding leaves room, and rounded to one of 64 levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StatusReport {
    /// Bytes that wait when the block that carries it has been filled.
    bytes: u32,
    /// Bytes granted since the start, that block included.
    granted: u64,
}

/// The state of scheduling requests and reports of one user.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BufferStatus {
    /// Bytes that the base station knows of and has not granted.
    known: u32,
    /// Bytes granted since the start.
    granted: u64,
    /// [`StatusReport::granted`] of the newest report received.
    heard: u64,
    /// Grants whose time has not come.
    unsent: u32,
    /// Bytes in the last report sent.
    reported: u32,
    /// When a scheduling request arrives, in ms.
    request: Option<u64>,
}

impl BufferStatus {
    /// Bytes that the base station knows of and has not granted.
    pub(super) fn known(&self) -> u32 {
        self.known
    }

    /// Whether nothing is known and nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.known == 0 && self.unsent == 0 && self.request.is_none()
    }

    /// A user with `backlog` bytes asks for a grant if the base station knows of nothing and no report is on its way (TS 36.321
    /// §5.4.4 and §5.4.5). Its opportunities come at multiples of `interval` ms plus `own`. `is_sending`: a block has not been
    /// decoded yet.
    pub(super) fn request(&mut self, ms: u64, backlog: u32, is_sending: bool, own: u64, interval: u64) {
        match self.request {
            Some(due) if due <= ms => {
                self.request = None;
                if self.known == 0 && backlog > 0 {
                    self.known = FIRST_GRANT_BYTES;
                }
            }
            // A report of more than nothing is answered by a grant once its block is decoded.
            None if backlog > 0
                && self.known == 0
                && self.unsent == 0
                && (self.reported == 0 || !is_sending) =>
            {
                let wait = (own + interval - ms % interval) % interval;
                self.request = Some(ms + wait + REQUEST_DECODE_MS);
            }
            _ => {}
        }
    }

    /// A block for `bytes` of data is granted. Returns what [`sent`](Self::sent) needs.
    pub(super) fn granted(&mut self, bytes: u32) -> u64 {
        self.known = self.known.saturating_sub(bytes);
        self.granted += u64::from(bytes.max(1));
        self.unsent += 1;
        self.granted
    }

    /// The block granted with `granted` is sent, while `bytes` go on waiting: returns the report in it.
    pub(super) fn sent(&mut self, granted: u64, bytes: u32) -> StatusReport {
        self.unsent = self.unsent.saturating_sub(1);
        self.reported = bytes;
        StatusReport { bytes, granted }
    }

    /// A report is decoded. What was granted after its block will carry a part of the bytes.
    pub(super) fn received(&mut self, report: StatusReport) {
        if report.granted > self.heard {
            self.heard = report.granted;
            self.known = u64::from(report.bytes).saturating_sub(self.granted - report.granted) as u32;
        }
    }

    /// The user is served by another cell, which learns with its first message that `backlog` bytes wait (TS 36.321 §5.4.5).
    pub(super) fn hand_over(&mut self, backlog: u32) {
        *self = Self { known: backlog, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_for_the_users_own_opportunity() {
        let mut status = BufferStatus::default();
        for ms in 12..20 {
            status.request(ms, 500, false, 7, 10);
            assert_eq!(status.known(), 0, "{ms}");
        }
        status.request(20, 500, false, 7, 10);
        assert_eq!(status.known(), FIRST_GRANT_BYTES, "sent at 17, known 3 ms later");
    }

    #[test]
    fn grants_after_a_report_are_subtracted_from_it() {
        let mut status = BufferStatus { known: 1000, ..BufferStatus::default() };
        let (first, second) = (status.granted(200), status.granted(300));
        assert_eq!(status.known(), 500);
        // 400 bytes more have arrived.
        let (report, later) = (status.sent(first, 1200), status.sent(second, 900));
        status.received(report);
        assert_eq!(status.known(), 900);
        status.received(later);
        status.received(report);
        assert_eq!(status.known(), 900, "an older report does not count");
        status.granted(900);
        assert!(!status.is_idle(), "a grant is on its way");
    }

    #[test]
    fn no_request_is_sent_while_a_report_may_be_answered() {
        let mut status = BufferStatus { known: 100, ..BufferStatus::default() };
        let granted = status.granted(100);
        status.request(1, 50, true, 0, 1);
        assert_eq!(status.request, None, "the grant will carry a report");
        status.sent(granted, 50);
        status.request(5, 50, true, 0, 1);
        assert_eq!(status.request, None, "the report is being decoded");
        status.request(30, 50, false, 0, 1);
        assert_eq!(status.request, Some(33), "the report is lost");

        let mut status = BufferStatus { known: 100, ..BufferStatus::default() };
        let granted = status.granted(100);
        status.sent(granted, 0);
        status.request(5, 50, true, 0, 1);
        assert_eq!(status.request, Some(8), "the report said that nothing waits");
    }
}
