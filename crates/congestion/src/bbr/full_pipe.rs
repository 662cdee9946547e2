//! Whether more data in flight gives a higher rate (draft §5.3.1.2).

/// Growth of the rate in a round below which the pipe may be full.
const GROWTH: f64 = 1.25;
/// Rounds without that growth.
const ROUNDS: u32 = 3;

/// The estimator of a full pipe.
#[derive(Debug, Clone, Default)]
pub(super) struct FullPipe {
    /// `full_bw`.
    rate: f64,
    /// `full_bw_count`.
    count: u32,
    /// `full_bw_now`.
    pub(super) is_full: bool,
    /// `full_bw_reached`: it has been full since the session began.
    pub(super) was_full: bool,
}

impl FullPipe {
    /// `ResetFullBW`, with a new baseline of `rate`.
    pub(super) fn restart(&mut self, rate: f64) {
        (self.rate, self.count, self.is_full) = (rate, 0, false);
    }

    /// `CheckFullBWReached`, once in a round that was not limited by the application.
    pub(super) fn on_round(&mut self, rate: f64) {
        if self.is_full {
            return;
        }
        if rate >= GROWTH * self.rate {
            self.restart(rate);
            return;
        }
        self.count += 1;
        self.is_full = self.count >= ROUNDS;
        self.was_full |= self.is_full;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of rounds until the pipe is full.
    fn rounds(rates: &[f64]) -> Option<usize> {
        let mut pipe = FullPipe::default();
        rates.iter().position(|&rate| {
            pipe.on_round(rate);
            pipe.is_full
        })
    }

    #[test]
    fn it_is_full_after_three_rounds_without_a_quarter_more() {
        assert_eq!(rounds(&[1.0, 2.0, 4.0, 4.5, 4.9, 4.99]), Some(5));
        // The third round reaches 1.25 × 4: the count restarts.
        assert_eq!(rounds(&[1.0, 2.0, 4.0, 4.5, 4.9, 5.0, 5.0, 5.0, 5.0]), Some(8));
        assert_eq!(rounds(&[1.0, 1.25, 1.5625, 1.953_125, 2.5, 3.2]), None);
    }
}
