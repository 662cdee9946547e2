//! Proportional rate reduction during fast recovery (RFC 9937, which obsoletes RFC 6937).

/// The state of one recovery, in bytes.
///
/// | here | RFC 9937 §6 |
/// |---|---|
/// | `target` | `ssthresh` |
/// | `flight` | `RecoverFS` |
/// | `delivered`, `sent` | `prr_delivered`, `prr_out` |
/// | [`window`](Self::window) | `cwnd` |
///
/// While the data in flight exceeds the target, the sender transmits `target / flight` bytes per delivered byte. Below the
/// target it transmits as much as was delivered, plus one segment for each acknowledgement that shows progress and no
/// further loss. RFC 6937 §3 offered that segment always (SSRB) or never (CRB); RFC 9937 §4 makes it depend on the
/// acknowledgement.
///
/// Deviations from RFC 9937 §6.2:
///
/// - The amount is rounded up to whole segments instead of bytes, as in the figures of §8. Otherwise each segment would be
///   delayed until the next acknowledgement.
/// - An acknowledgement that causes a rescue retransmission counts as progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProportionalReduction {
    segment: u64,
    target: u64,
    flight: u64,
    delivered: u64,
    sent: u64,
    window: u64,
}

/// An acknowledgement during recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// Newly delivered bytes: `DeliveredData`.
    pub(super) delivered: u64,
    /// Bytes in flight after it: `inflight`.
    pub(super) pipe: u64,
    /// Whether it advances the cumulative acknowledgement and indicates no further loss: `SafeACK`.
    pub(super) is_safe: bool,
}

impl ProportionalReduction {
    /// Starts a recovery that ends with `target` bytes in flight. `flight` is the amount that can still be acknowledged,
    /// including by the acknowledgement that starts the recovery (RFC 9937 §6.1). The caller passes that one to
    /// [`on_ack`](Self::on_ack) too.
    pub(super) fn new(segment: u64, target: u64, flight: u64) -> Self {
        Self { segment, target, flight: flight.max(1), delivered: 0, sent: 0, window: 0 }
    }

    /// Processes an acknowledgement (RFC 9937 §6.2).
    pub(super) fn on_ack(&mut self, progress: Progress) {
        let Progress { delivered, pipe, is_safe } = progress;
        if delivered == 0 {
            return;
        }
        self.delivered += delivered;
        let mut count = if pipe > self.target {
            // The delivered bytes are at most twice the receive window of 2^30, and the target is smaller: the product is
            // below 2^64.
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

    /// Processes the transmission or retransmission of `bytes` (RFC 9937 §6.3).
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// Maximum number of bytes in flight.
    pub(super) fn window(&self) -> u64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 1000;

    /// A recovery with 20 segments in flight and a target of 10: the examples of RFC 9937 §8.
    fn example() -> ProportionalReduction {
        ProportionalReduction::new(SEGMENT, 10 * SEGMENT, 20 * SEGMENT)
    }

    /// Processes the delivery of one segment with `pipe` segments in flight, and sends as the window permits. Returns the
    /// window.
    fn deliver_segment(prr: &mut ProportionalReduction, pipe: &mut u64, is_safe: bool) -> u64 {
        prr.on_ack(Progress { delivered: SEGMENT, pipe: *pipe * SEGMENT, is_safe });
        let window = prr.window() / SEGMENT;
        while (*pipe + 1) * SEGMENT <= prr.window() {
            *pipe += 1;
            prr.on_sent(SEGMENT);
        }
        window
    }

    #[test]
    fn sends_one_segment_per_two_delivered_down_to_the_target() {
        let (mut prr, mut pipe) = (example(), 18);
        let windows: Vec<_> = (3..=21)
            .map(|n| {
                pipe -= u64::from(n > 3);
                deliver_segment(&mut prr, &mut pipe, false)
            })
            .collect();
        // Figure 1 of RFC 9937 for ACK#3 to #21, with one exception. The figure has 11 at ACK#19, where 10 segments are in
        // flight. That is not above the target, so the pseudo-code of §6.2 permits no segment until ACK#20.
        let figure = [19, 18, 18, 17, 17, 16, 16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10];
        for (n, (found, expected)) in (3..).zip(windows.iter().zip(figure)) {
            assert_eq!(*found, if n == 19 { 10 } else { expected }, "ACK#{n}");
        }
        assert_eq!((pipe, prr.sent), (10, 10 * SEGMENT));
    }

    #[test]
    fn sends_as_much_as_delivered_after_heavy_loss() {
        // Figure 2 of RFC 9937: segments 0 to 14 of 20 are lost, ACK#17 to #19.
        let (mut prr, mut pipe) = (example(), 4);
        for n in 17..=19 {
            pipe -= u64::from(n > 17);
            assert_eq!(deliver_segment(&mut prr, &mut pipe, false), 5, "ACK#{n}");
            assert_eq!(pipe, 5);
        }
    }

    #[test]
    fn safe_acks_grow_the_window_up_to_the_target() {
        // PRR-SSRB in the second example of RFC 6937 §3.1: two segments per delivered one, with 4, 5, 6 in flight before.
        let (mut prr, mut pipe) = (example(), 4);
        let windows: Vec<_> = (0..7)
            .map(|n| {
                pipe -= u64::from(n > 0);
                deliver_segment(&mut prr, &mut pipe, true)
            })
            .collect();
        assert_eq!(windows, [6, 7, 8, 9, 10, 10, 10]);
    }

    #[test]
    fn the_first_ack_sends_and_one_without_delivery_does_not() {
        // The data in flight equals the target, so the formula permits no segment.
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
