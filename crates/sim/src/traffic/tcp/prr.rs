//! How much to send for each acknowledgement during fast recovery: proportional rate reduction (RFC 9937, before it RFC 6937).

/// The state of one recovery, in bytes.
///
/// | here | RFC 9937 §6 |
/// |---|---|
/// | `target` | `ssthresh` |
/// | `flight` | `RecoverFS` |
/// | `delivered`, `sent` | `prr_delivered`, `prr_out` |
/// | [`window`](Self::window) | `cwnd` |
///
/// As long as more is under way than the target, what leaves is to what arrives as the target is to the flight. Below, as much
/// leaves as arrives; and a segment more with each acknowledgement that shows progress and no further loss. RFC 6937 §3 gave the
/// choice between that segment always (SSRB) and never (CRB); RFC 9937 §4 makes it depend on the acknowledgement.
///
/// Two things differ from RFC 9937 §6.2. The share of what arrived is rounded up to whole segments, not to bytes, as only these are
/// sent, and as in the figures of its §8; else each segment would wait for the acknowledgement after. And an acknowledgement that
/// leads to a rescue retransmission counts as progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProportionalReduction {
    segment: u64,
    target: u64,
    flight: u64,
    delivered: u64,
    sent: u64,
    window: u64,
}

/// What an acknowledgement tells during recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// Bytes that it tells the arrival of: `DeliveredData`.
    pub(super) delivered: u64,
    /// Bytes under way after it: `inflight`.
    pub(super) pipe: u64,
    /// It acknowledges cumulatively, and shows no further loss: `SafeACK`.
    pub(super) is_safe: bool,
}

impl ProportionalReduction {
    /// A recovery begins that is to end with `target` bytes under way. `flight` is what may yet be acknowledged, the
    /// acknowledgement that made it begin included (RFC 9937 §6.1). [`on_ack`](Self::on_ack) is to be told of that one, too.
    pub(super) fn new(segment: u64, target: u64, flight: u64) -> Self {
        Self { segment, target, flight: flight.max(1), delivered: 0, sent: 0, window: 0 }
    }

    /// An acknowledgement arrived (RFC 9937 §6.2).
    pub(super) fn on_ack(&mut self, progress: Progress) {
        let Progress { delivered, pipe, is_safe } = progress;
        if delivered == 0 {
            return;
        }
        self.delivered += delivered;
        let mut count = if pipe > self.target {
            // What arrived is at most twice the receive window of 2^30 bytes, and the target less: the product stays below 2^64.
            let share = (self.delivered * self.target).div_ceil(self.flight);
            share.next_multiple_of(self.segment).saturating_sub(self.sent)
        } else {
            let banked = self.delivered.saturating_sub(self.sent).max(delivered);
            let limit = if is_safe { banked + self.segment } else { banked };
            limit.min(self.target - pipe)
        };
        if self.sent == 0 && count == 0 {
            count = self.segment;
        }
        self.window = pipe + count;
    }

    /// `bytes` were sent, for the first time or again (RFC 9937 §6.3).
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// How much may be under way now.
    pub(super) fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1000;

    /// A recovery with 20 segments under way and 10 as its target: the examples of RFC 9937 §8.
    fn example() -> ProportionalReduction {
        ProportionalReduction::new(SEGMENT, 10 * SEGMENT, 20 * SEGMENT)
    }

    /// One segment arrived, of `pipe` segments under way then. Returns the window, and sends what it allows.
    fn on_arrival(prr: &mut ProportionalReduction, pipe: &mut u64, is_safe: bool) -> u64 {
        prr.on_ack(Progress { delivered: SEGMENT, pipe: *pipe * SEGMENT, is_safe });
        let window = prr.window() / SEGMENT;
        while (*pipe + 1) * SEGMENT <= prr.window() {
            *pipe += 1;
            prr.on_sent(SEGMENT);
        }
        window
    }

    #[test]
    fn one_segment_leaves_for_each_two_that_arrive_and_the_end_is_at_the_target() {
        let (mut prr, mut pipe) = (example(), 18);
        let windows: Vec<_> = (3..=21)
            .map(|n| {
                pipe -= u64::from(n > 3);
                on_arrival(&mut prr, &mut pipe, false)
            })
            .collect();
        // Figure 1 of RFC 9937 for ACK#3 to #21, but for one place. The figure has 11 at ACK#19, where 10 segments are under way;
        // that is not above the target, so that the pseudo-code of §6.2 allows nothing more. ACK#20 makes up for it.
        let figure = [19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10];
        for (n, (found, expected)) in (3..).zip(windows.iter().zip(figure)) {
            assert_eq!(*found, if n == 19 { 10 } else { expected }, "ACK#{n}");
        }
        assert_eq!((pipe, prr.sent), (10, 10 * SEGMENT));
    }

    #[test]
    fn after_heavy_loss_as_much_leaves_as_arrives() {
        // Figure 2 of RFC 9937: segments 0 to 14 of 20 are lost, ACK#17 to #19.
        let (mut prr, mut pipe) = (example(), 4);
        for n in 17..=19 {
            pipe -= u64::from(n > 17);
            assert_eq!(on_arrival(&mut prr, &mut pipe, false), 5, "ACK#{n}");
            assert_eq!(pipe, 5);
        }
    }

    #[test]
    fn progress_without_further_loss_lets_the_window_grow_by_a_segment_each_time_up_to_the_target() {
        // PRR-SSRB in the second example of RFC 6937 §3.1: two segments for each that arrives, with 4, 5, 6 under way before.
        let (mut prr, mut pipe) = (example(), 4);
        let windows: Vec<_> = (0..7)
            .map(|n| {
                pipe -= u64::from(n > 0);
                on_arrival(&mut prr, &mut pipe, true)
            })
            .collect();
        assert_eq!(windows, [6, 7, 8, 9, 10, 10, 10]);
    }

    #[test]
    fn the_share_is_that_of_the_congestion_control() {
        // CUBIC: 0.7 of 100 segments.
        let mut prr = ProportionalReduction::new(SEGMENT, 70 * SEGMENT, 100 * SEGMENT);
        let mut pipe = 98;
        for arrived in 1..=60 {
            pipe -= u64::from(arrived > 1);
            on_arrival(&mut prr, &mut pipe, false);
            let expected = 0.7 * f64::from(arrived);
            let sent = prr.sent as f64 / SEGMENT as f64;
            assert!((expected - 1.0..=expected + 1.0).contains(&sent), "{sent} of {expected}");
        }
    }

    #[test]
    fn the_first_acknowledgement_always_sends_and_one_that_tells_nothing_never() {
        // As many under way as the target: nothing would leave.
        let mut prr = example();
        prr.on_ack(Progress { delivered: SEGMENT, pipe: 10 * SEGMENT, is_safe: false });
        assert_eq!(prr.window(), 11 * SEGMENT);
        prr.on_sent(SEGMENT);
        prr.on_ack(Progress { delivered: 0, pipe: SEGMENT, is_safe: true });
        assert_eq!(prr.window(), 11 * SEGMENT);
        prr.on_ack(Progress { delivered: SEGMENT, pipe: 10 * SEGMENT, is_safe: false });
        assert_eq!(prr.window(), 10 * SEGMENT);
    }
}
