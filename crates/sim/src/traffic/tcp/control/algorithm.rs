//! The available congestion controls.

use serde::{Deserialize, Serialize};

use super::{bbr::Bbr, cubic::Cubic, interface::CongestionControl, new_reno::NewReno, prague::Prague};
use crate::random::Random;

/// A congestion control by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// [`NewReno`].
    NewReno,
    /// [`Cubic`], the default of common systems.
    #[default]
    Cubic,
    /// [`Prague`], for L4S: it sends ECT(1) and uses accurate ECN feedback.
    Prague,
    /// [`Bbr`], version 3.
    Bbr,
}

impl Algorithm {
    /// Creates a congestion control of this kind. Only BBR draws from `random`.
    pub fn build(self, random: Random) -> Box<dyn CongestionControl> {
        match self {
            Self::NewReno => Box::new(NewReno::new()),
            Self::Cubic => Box::new(Cubic::new()),
            Self::Bbr => Box::new(Bbr::new(random)),
            Self::Prague => Box::new(Prague::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::Timestamp;

    use super::*;
    use crate::{
        testing::START,
        traffic::tcp::control::{Acknowledgment, ConnectionStart},
    };

    /// The loss-based controls, each with the threshold that a window of 20,000 gets.
    fn controls(start: ConnectionStart) -> [(Box<dyn CongestionControl>, u64); 2] {
        [(Algorithm::NewReno, 10_000), (Algorithm::Cubic, 14_000)].map(|(algorithm, threshold)| {
            let mut control = algorithm.build(crate::random::stream(1, "tcp"));
            control.on_start(start);
            (control, threshold)
        })
    }

    #[test]
    fn slow_start_adds_acknowledged_bytes_up_to_its_limit() {
        for (mut control, _) in controls(ConnectionStart { slow_start_limit: 2, ..START }) {
            let ack = |bytes| Acknowledgment { bytes, window_limited: true, ..Acknowledgment::default() };
            let now = Timestamp::ZERO;
            control.on_ack(now, ack(1000));
            assert_eq!(control.window(), 11_000);
            control.on_ack(now, ack(5000));
            assert_eq!(control.window(), 13_000);
            control.on_ack(now, Acknowledgment { window_limited: false, ..ack(1000) });
            assert_eq!(control.window(), 13_000, "not limited by the window");
            control.on_timeout(now, 13_000, false);
            assert_eq!(control.window(), 1000);
            control.on_ack(now, ack(5000));
            assert_eq!(control.window(), 2000);
        }
    }

    #[test]
    fn threshold_and_window_have_lower_bounds() {
        for (mut control, threshold) in controls(ConnectionStart { window: 20_000, ..START }) {
            for (flight, is_repeated) in [(20_000, false), (1000, true)] {
                control.on_timeout(Timestamp::ZERO, flight, is_repeated);
                assert_eq!(control.threshold(), threshold, "a repeated timeout keeps it");
            }
        }
        for (mut control, _) in controls(ConnectionStart { window: 2000, ..START }) {
            for _ in 0..5 {
                control.on_congestion(Timestamp::ZERO, 500);
                assert_eq!((control.threshold(), control.window()), (2000, 2000));
            }
            control.limit_window(Timestamp::ZERO, 0);
            assert_eq!(control.window(), 1000);
        }
    }
}
