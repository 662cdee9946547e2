//! The maximum bandwidth (draft §5.5.2 to §5.5.6).

/// Maximum delivery rate of this cycle of probing and of the one before (`MaxBwFilterLen` = 2), in bytes per second.
#[derive(Debug, Clone, Default)]
pub(super) struct MaxRate {
    current: f64,
    before: f64,
}

impl MaxRate {
    /// `max_bw`.
    pub(super) fn get(&self) -> f64 {
        self.current.max(self.before)
    }

    /// `UpdateMaxBw`: a sample that the application limited counts only if it is a new maximum.
    pub(super) fn on_sample(&mut self, rate: f64, is_app_limited: bool) {
        if rate >= self.get() || !is_app_limited {
            self.current = self.current.max(rate);
        }
    }

    /// `AdvanceMaxBwFilter`. A cycle without a sample does not count, so that the estimate does not become zero (as in Linux,
    /// `bbr_advance_max_bw_filter`).
    pub(super) fn advance(&mut self) {
        if self.current > 0.0 {
            (self.before, self.current) = (self.current, 0.0);
        }
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these figures are exact")]
mod tests {
    use super::*;

    #[test]
    fn samples_count_for_two_cycles_and_limited_ones_only_above_the_maximum() {
        let mut max = MaxRate::default();
        max.on_sample(100.0, false);
        max.on_sample(90.0, true);
        max.advance();
        max.on_sample(60.0, true);
        assert_eq!(max.get(), 100.0);
        max.on_sample(70.0, false);
        assert_eq!(max.get(), 100.0);
        max.advance();
        assert_eq!(max.get(), 70.0, "the limited sample of 60 has no effect");
        max.advance();
        assert_eq!(max.get(), 70.0, "a cycle without samples");
        max.on_sample(80.0, true);
        assert_eq!(max.get(), 80.0);
    }
}
