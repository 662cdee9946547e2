//! Congestion control: how much may be under way.

mod cubic;
mod hystart;
mod new_reno;

use std::fmt;

pub use cubic::Cubic;
use giusto_units::{TimeDelta, Timestamp};
use hystart::HyStart;
pub(super) use hystart::SEGMENTS_PER_ACK as SEGMENTS_PER_ACK_WITH_HYSTART;
pub use new_reno::NewReno;
use serde::{Deserialize, Serialize};

/// A law for the congestion window.
///
/// Recovery from loss is the sender's affair; this only says how large the window is. All sizes are in bytes of data.
pub trait CongestionControl: Send + fmt::Debug {
    /// A connection begins with `opening`; what was before is forgotten.
    fn begin(&mut self, opening: Opening);

    /// The congestion window, `cwnd`; at least one segment.
    fn window(&self) -> u64;

    /// The slow start threshold, `ssthresh`; `u64::MAX` before the first congestion, unless the opening set one.
    fn threshold(&self) -> u64;

    /// New data was acknowledged, outside fast recovery.
    fn on_ack(&mut self, now: Timestamp, ack: Acknowledged);

    /// Congestion: a loss was detected by duplicate acknowledgements, or a mark was echoed. `flight` is how much was under way,
    /// the segments of limited transmit excluded (RFC 5681 §3.2, step 2), and at most the window.
    fn on_congestion(&mut self, now: Timestamp, flight: u64);

    /// The retransmission timer expired, with `flight` under way; `again`: for a segment that it had expired for before.
    fn on_timeout(&mut self, now: Timestamp, flight: u64, again: bool);

    /// Makes the window no more than `window`, and leaves the threshold: after idleness (RFC 5681 §4.1), and at the end of a
    /// NewReno recovery (RFC 6582 §3.2, step 3).
    fn cap(&mut self, now: Timestamp, window: u64);
}

/// What a connection begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Data of a full segment (`SMSS`), in bytes.
    pub segment: u64,
    /// The initial window (`IW`), in bytes.
    pub window: u64,
    /// The initial slow start threshold in bytes; `u64::MAX`: none.
    pub threshold: u64,
    /// How many segments one acknowledgement may add in slow start: `L` of RFC 3465 §2.2 and of RFC 9406 §4.2.
    pub slow_start_limit: u32,
    /// Whether `HyStart++` (RFC 9406) watches the slow start.
    pub hystart: bool,
}

/// An acknowledgement of new data, as a congestion control sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// How many bytes it acknowledges anew.
    pub bytes: u64,
    /// Whether the window, not the application or the receiver, held the sender back. Otherwise the window stays
    /// (RFC 8312 §5.8).
    pub limited: bool,
    /// The smoothed round trip.
    pub round_trip: TimeDelta,
    /// The round trip that it measures, if it does.
    pub sample: Option<TimeDelta>,
    /// The first byte that is not acknowledged then (`SND.UNA`).
    pub up_to: u64,
    /// The first byte that was never sent (`SND.NXT`).
    pub next: u64,
}

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

/// Slow start by appropriate byte counting (RFC 3465 §2.2, RFC 5681 §3.1 eq. 2), at first with `HyStart++` if that is wanted.
#[derive(Debug, Clone, Copy)]
struct SlowStart {
    segment: u64,
    /// Most bytes that one acknowledgement adds.
    limit: u64,
    usual_limit: u64,
    hystart: Option<HyStart>,
}

impl SlowStart {
    fn new(opening: &Opening) -> Self {
        let limit = opening.segment * u64::from(opening.slow_start_limit);
        let hystart = opening.hystart.then(HyStart::new);
        Self { segment: opening.segment, limit, usual_limit: limit, hystart }
    }

    /// How many bytes the window grows by for an acknowledgement.
    fn on_ack(&mut self, ack: &Acknowledged) -> u64 {
        let divisor = self.hystart.as_mut().map_or(1, |hystart| hystart.on_ack(ack));
        if ack.limited { ack.bytes.min(self.limit) / divisor } else { 0 }
    }

    /// Whether the threshold is to be set to the window, for slow start is to end without congestion.
    fn is_over(&self) -> bool {
        self.hystart.is_some_and(|hystart| hystart.is_over())
    }

    /// One segment per acknowledgement after a timeout (RFC 3465 §2.3), for its recovery acknowledges in leaps.
    fn on_timeout(&mut self) {
        self.limit = self.segment.min(self.usual_limit);
        self.hystart = None;
    }

    /// Slow start ended. `HyStart++` is for the first one only (RFC 9406 §4.3).
    fn on_end(&mut self) {
        self.limit = self.usual_limit;
        self.hystart = None;
    }
}

#[cfg(test)]
mod tests {
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
