//! When media were captured, by their RTP timestamps.

use giusto_units::TimeDelta;

/// A time of a source's media clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchor {
    pub(super) rtp_timestamp: u32,
    /// When its sender captured it, up to an offset that all sources of that end share.
    pub(super) captured: TimeDelta,
}

impl Anchor {
    /// When media with this timestamp of a clock of `rate` were captured. The anchor follows them by whole seconds, since timestamps
    /// wrap: within 14 h of video.
    pub(super) fn captured(&mut self, rtp_timestamp: u32, rate: u32) -> TimeDelta {
        let ticks = i64::from(rtp_timestamp.wrapping_sub(self.rtp_timestamp) as i32);
        let (seconds, rest) = (ticks / i64::from(rate), ticks % i64::from(rate));
        self.rtp_timestamp = rtp_timestamp.wrapping_sub(rest as u32);
        self.captured += TimeDelta::from_seconds(seconds);
        self.captured + TimeDelta::from_nanos(rest * 1_000_000_000 / i64::from(rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_on_where_timestamps_wrap() {
        let begin = Anchor { rtp_timestamp: u32::MAX - 5, captured: TimeDelta::from_seconds(-3) };
        // Every 5 h, and a picture that was overtaken by 33 ms; 2^32 ticks are 13.3 h.
        let mut anchor = begin;
        for hours in (0..100_i64).step_by(5) {
            for late_ms in [0, 33] {
                let millis = hours * 3_600_000 - late_ms;
                let timestamp = begin.rtp_timestamp.wrapping_add((millis * 90) as u32);
                assert_eq!(anchor.captured(timestamp, 90_000), TimeDelta::from_millis(millis - 3000));
                if late_ms == 0 {
                    // A wrong timestamp changes no other.
                    anchor.captured(0x1234_5678, 90_000);
                }
            }
        }
    }
}
