//! Congestion control: how much may be under way.

mod cubic;
mod hystart;
mod interface;
mod new_reno;
mod slow_start;

pub use cubic::Cubic;
pub(super) use hystart::SEGMENTS_PER_ACK as SEGMENTS_PER_ACK_WITH_HYSTART;
pub use interface::{Acknowledged, CongestionControl, Opening};
pub use new_reno::NewReno;
use serde::{Deserialize, Serialize};

/// The congestion controls that are here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// [`NewReno`].
    NewReno,
    /// [`Cubic`], what common systems use.
    #[default]
    Cubic,
}

impl Algorithm {
    /// A congestion control of this kind.
    pub fn build(self) -> Box<dyn CongestionControl> {
        match self {
            Self::NewReno => Box::new(NewReno::new()),
            Self::Cubic => Box::new(Cubic::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::Timestamp;

    use super::*;

    #[test]
    fn slow_start_adds_what_was_acknowledged_up_to_its_limit_and_one_segment_after_a_timeout() {
        for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
            let mut control = algorithm.build();
            let opening = Opening {
                segment: 1000,
                window: 10_000,
                threshold: u64::MAX,
                slow_start_limit: 2,
                hystart: false,
            };
            control.begin(opening);
            let ack = |bytes| Acknowledged { bytes, limited: true, ..Acknowledged::default() };
            let now = Timestamp::ZERO;
            control.on_ack(now, ack(1000));
            assert_eq!(control.window(), 11_000);
            control.on_ack(now, ack(5000));
            assert_eq!(control.window(), 13_000);
            control.on_ack(now, Acknowledged { limited: false, ..ack(1000) });
            assert_eq!(control.window(), 13_000, "the application held back, not the window");
            control.on_timeout(now, 13_000, false);
            assert_eq!(control.window(), 1000);
            control.on_ack(now, ack(5000));
            assert_eq!(control.window(), 2000);
        }
    }

    #[test]
    fn a_second_timeout_of_the_same_segment_leaves_the_threshold() {
        for (algorithm, threshold) in [(Algorithm::NewReno, 10_000), (Algorithm::Cubic, 14_000)] {
            let mut control = algorithm.build();
            control.begin(Opening {
                segment: 1000,
                window: 20_000,
                threshold: u64::MAX,
                slow_start_limit: 1,
                hystart: false,
            });
            control.on_timeout(Timestamp::ZERO, 20_000, false);
            assert_eq!(control.threshold(), threshold);
            control.on_timeout(Timestamp::ZERO, 1000, true);
            assert_eq!(control.threshold(), threshold);
        }
    }

    #[test]
    fn the_threshold_is_never_below_two_segments_nor_the_window_below_one() {
        for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
            let mut control = algorithm.build();
            control.begin(Opening {
                segment: 1000,
                window: 2000,
                threshold: u64::MAX,
                slow_start_limit: 1,
                hystart: false,
            });
            for _ in 0..5 {
                control.on_congestion(Timestamp::ZERO, 500);
                assert_eq!((control.threshold(), control.window()), (2000, 2000));
            }
            control.cap(Timestamp::ZERO, 0);
            assert_eq!(control.window(), 1000);
        }
    }
}
