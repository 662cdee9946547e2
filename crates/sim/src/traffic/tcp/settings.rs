//! What the two ends of a connection are told.

use giusto_units::{DataSize, TimeDelta};
use serde::{Deserialize, Serialize};

use super::{
    control::{Algorithm, SEGMENTS_PER_ACK_WITH_HYSTART},
    rto::RtoFloor,
    segment::{SackBlocks, TIMESTAMPS_BYTES},
};

/// The settings of a connection. Both ends are given the same ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each switches a mechanism of its own, as in a real stack")]
pub struct Settings {
    /// Maximum segment size in bytes of data and of options that data segments bear (RFC 6691 §2): 64 to 65,495. Default 1460,
    /// a packet of 1500 bytes; 536 is the least that every host takes (RFC 9293 §3.7.1).
    pub mss: u32,
    /// The congestion control; CUBIC by default.
    pub algorithm: Algorithm,
    /// Whether selective acknowledgments are used (RFC 2018, RFC 6675); on by default. Without them losses are mended as in
    /// RFC 6582.
    pub sack: bool,
    /// Whether segments bear timestamps (RFC 7323); on by default. They cost 12 bytes in each segment and make each
    /// acknowledgement of new data a measurement of the round trip.
    pub timestamps: bool,
    /// Whether classic ECN is used (RFC 3168); off by default, as it is for outgoing connections of common systems.
    pub ecn: bool,
    /// Initial window in segments: 1 to 10. Default 10, but no more than max(2 segments, 14,600 bytes) (RFC 6928 §2).
    pub initial_window: u32,
    /// Initial slow start threshold; `None`, the default: none (RFC 5681 §3.1 says arbitrarily high).
    pub initial_threshold: Option<DataSize>,
    /// Whether `HyStart++` (RFC 9406) slows down and ends the first slow start when the round trip rises. `None`, the
    /// default: with CUBIC, as in today's stacks, and not with NewReno. Linux has CUBIC with the older `HyStart`, Windows with
    /// this one; standard TCP has neither.
    ///
    /// The rise shows a round trip late, and growth goes on more slowly for five more: behind a buffer below some six
    /// bandwidth-delay products the loss still comes first, but costs less.
    ///
    /// It needs timestamps, for without them a round trip is measured once in each round and `HyStart++` wants eight; and it is
    /// off where there is an initial threshold, for it is meant for a slow start without one (RFC 9406 §4.3).
    pub hystart: Option<bool>,
    /// How many segments one acknowledgement may add to the window in slow start: 1 to 8. `None`, the default: 8 with `HyStart++`
    /// (`L` of RFC 9406 §4.3, without pacing), and else 2, so that the window doubles although every second segment is
    /// acknowledged (`L` of RFC 3465 §2.3). RFC 5681 §3.1 alone allows 1.
    pub slow_start_limit: Option<u32>,
    /// Whether a fast recovery sends in proportion to what arrives, until the window has shrunk to its new size (proportional
    /// rate reduction, RFC 9937); on by default, as in Linux. Off, a recovery is silent until then, and then fills the window, as
    /// RFC 6675 says. Without SACK it does not apply.
    pub prr: bool,
    /// How short the retransmission timeout may become; by default 200 ms beyond the round trip.
    pub rto_floor: RtoFloor,
    /// How much may be under way at most, for the receiver's sake: 1 B to 2^30 B (RFC 7323 §2.3). Default 2^30 B, no limit in
    /// practice: the window is a constant, and receivers read at once.
    pub receive_window: DataSize,
    /// After how many segments in order the receiver acknowledges at once: 1 (no delay) or 2, the default (RFC 5681 §4.2).
    pub segments_per_ack: u32,
    /// How long an acknowledgement may wait for a second segment: above 0, up to 500 ms (RFC 5681 §4.2). Default 40 ms, the
    /// least of Linux.
    pub delayed_ack: TimeDelta,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mss: 1460,
            algorithm: Algorithm::default(),
            sack: true,
            timestamps: true,
            ecn: false,
            initial_window: 10,
            initial_threshold: None,
            hystart: None,
            slow_start_limit: None,
            prr: true,
            rto_floor: RtoFloor::LINUX,
            receive_window: DataSize::from_bytes(1 << 30),
            segments_per_ack: 2,
            delayed_ack: TimeDelta::from_millis(40),
        }
    }
}

/// What is wrong with [`Settings`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("TCP: {what} must be {range}, found {found}")]
pub struct SettingsError {
    what: &'static str,
    range: &'static str,
    found: String,
}

impl Settings {
    /// Checks every field against its range.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] names the first field out of its range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let check = |holds: bool, what, range, found: &dyn ToString| {
            if holds { Ok(()) } else { Err(SettingsError { what, range, found: found.to_string() }) }
        };
        let window = self.receive_window.as_bytes();
        let delay = self.delayed_ack;
        let floor = match self.rto_floor {
            RtoFloor::Whole(floor) | RtoFloor::BeyondRoundTrip(floor) => floor,
        };
        check((64..=65_495).contains(&self.mss), "mss", "64 to 65495 bytes", &self.mss)?;
        check((1..=10).contains(&self.initial_window), "initial-window", "1 to 10", &self.initial_window)?;
        check(
            self.slow_start_limit.is_none_or(|limit| (1..=8).contains(&limit)),
            "slow-start-limit",
            "1 to 8",
            &self.slow_start_limit.unwrap_or_default(),
        )?;
        check(
            (1..=2).contains(&self.segments_per_ack),
            "segments-per-ack",
            "1 or 2",
            &self.segments_per_ack,
        )?;
        check(
            u64::from(self.mss) <= window && window <= 1 << 30,
            "receive-window",
            "mss to 2^30 bytes",
            &self.receive_window,
        )?;
        check(
            delay > TimeDelta::ZERO && delay <= TimeDelta::from_millis(500),
            "delayed-ack",
            "above 0, up to 500 ms",
            &delay,
        )?;
        check(
            floor >= TimeDelta::ZERO && floor <= TimeDelta::from_seconds(60),
            "rto-floor",
            "0 to 60 s",
            &floor,
        )
    }

    /// Data of a full segment in bytes, `SMSS`: the maximum segment size less the options that each segment bears.
    pub fn segment(&self) -> u64 {
        u64::from(self.mss - if self.timestamps { TIMESTAMPS_BYTES } else { 0 })
    }

    /// Whether the first slow start of a connection runs `HyStart++`.
    pub(super) fn runs_hystart(&self) -> bool {
        self.hystart.unwrap_or(self.algorithm == Algorithm::Cubic) && self.initial_threshold.is_none()
    }

    /// How many segments one acknowledgement may add to the window in slow start.
    pub(super) fn slow_start_limit(&self) -> u32 {
        let usual = if self.runs_hystart() { SEGMENTS_PER_ACK_WITH_HYSTART } else { 2 };
        self.slow_start_limit.unwrap_or(usual)
    }

    /// The initial window in bytes (RFC 6928 §2).
    pub(super) fn initial_window_bytes(&self) -> u64 {
        let segment = self.segment();
        (u64::from(self.initial_window) * segment).min((2 * segment).max(14_600))
    }

    /// How many SACK blocks fit into an acknowledgement.
    pub(super) fn sack_blocks(&self) -> usize {
        match (self.sack, self.timestamps) {
            (false, _) => 0,
            (true, true) => SackBlocks::MAX_BESIDE_TIMESTAMPS,
            (true, false) => SackBlocks::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_each_field_has_its_range() {
        let default = Settings::default;
        assert_eq!(default().validate(), Ok(()));
        let wrong = [
            Settings { mss: 20, ..default() },
            Settings { initial_window: 11, ..default() },
            Settings { slow_start_limit: Some(0), ..default() },
            Settings { segments_per_ack: 3, ..default() },
            Settings { receive_window: DataSize::from_bytes(100), ..default() },
            Settings { delayed_ack: TimeDelta::ZERO, ..default() },
            Settings { rto_floor: RtoFloor::Whole(TimeDelta::from_seconds(61)), ..default() },
        ];
        for settings in wrong {
            assert!(settings.validate().is_err(), "{settings:?}");
        }
        let message = Settings { mss: 20, ..default() }.validate().unwrap_err().to_string();
        assert_eq!(message, "TCP: mss must be 64 to 65495 bytes, found 20");
    }

    #[test]
    fn hystart_comes_with_cubic_and_not_where_there_is_a_threshold() {
        let found = |algorithm, hystart, initial_threshold| {
            let settings = Settings { algorithm, initial_threshold, hystart, ..Settings::default() };
            (settings.runs_hystart(), settings.slow_start_limit())
        };
        let threshold = Some(DataSize::from_bytes(100_000));
        assert_eq!(found(Algorithm::Cubic, None, None), (true, 8));
        assert_eq!(found(Algorithm::NewReno, None, None), (false, 2));
        assert_eq!(found(Algorithm::NewReno, Some(true), None), (true, 8));
        assert_eq!(found(Algorithm::Cubic, Some(false), None), (false, 2));
        assert_eq!(found(Algorithm::Cubic, Some(true), threshold), (false, 2));
    }

    #[test]
    fn the_initial_window_is_ten_segments_or_what_rfc_6928_allows() {
        let bytes = |mss| Settings { mss, timestamps: false, ..Settings::default() }.initial_window_bytes();
        assert_eq!((bytes(536), bytes(1460), bytes(4000), bytes(9000)), (5360, 14_600, 14_600, 18_000));
    }
}
