//! Configuration of a connection.

use giusto_units::{DataSize, TimeDelta};
use serde::{Deserialize, Serialize};

use super::{
    control::{Algorithm, SEGMENTS_PER_ACK_WITH_HYSTART},
    rto::RtoFloor,
};
use crate::traffic::segment::{SackBlocks, TIMESTAMPS_BYTES};

giusto_units::defaults! {
    /// Configuration of a connection, the same at both ends.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
    pub struct Settings {
        /// Maximum segment size in bytes, which includes the options of data segments (RFC 6691 §2): 64 to 65,495. Default 1460,
        /// for packets of 1500 bytes; every host accepts 536 (RFC 9293 §3.7.1).
        pub mss: u32 = 1460,
        /// Congestion control. Default: CUBIC.
        pub algorithm: Algorithm = Algorithm::default(),
        /// Whether selective acknowledgements are used (RFC 2018, RFC 6675). Default: yes. Without them loss recovery follows
        /// RFC 6582.
        pub sack: bool = true,
        /// Whether segments carry timestamps (RFC 7323). Default: yes. They use 12 bytes per segment and provide an RTT sample
        /// with each acknowledgement of new data.
        pub timestamps: bool = true,
        /// Whether classic ECN is used (RFC 3168). Default: no, as for outgoing connections of common systems. Prague always uses
        /// accurate ECN (RFC 9768) instead.
        pub ecn: bool = false,
        /// Initial window in segments: 1 to 10. Default: 10. It is limited to max(2 segments, 14,600 bytes) (RFC 6928 §2).
        pub initial_window: u32 = 10,
        /// Initial slow start threshold. Default: none (RFC 5681 §3.1: arbitrarily high).
        pub initial_threshold: Option<DataSize> = None,
        /// Whether the first slow start uses `HyStart++` (RFC 9406), which slows its growth and ends it when the RTT rises.
        /// `None`, the default: with CUBIC, as in current stacks, and not with NewReno. Linux combines CUBIC with the older
        /// `HyStart`, Windows with `HyStart++`.
        ///
        /// The RTT rise is detected one RTT late, and slower growth continues for five rounds. With a buffer below about six
        /// bandwidth-delay products a loss still occurs first, but fewer packets are lost.
        ///
        /// It requires timestamps: without them there is one RTT sample per round, and `HyStart++` needs eight. It is disabled
        /// if there is an initial threshold, since it is designed for a slow start without one (RFC 9406 §4.3).
        pub hystart: Option<bool> = None,
        /// Maximum increase per acknowledgement in slow start, in segments: 1 to 8. `None`, the default: 8 with `HyStart++` (`L`
        /// of RFC 9406 §4.3, without pacing), otherwise 2, so that the window doubles per RTT with delayed acknowledgements (`L`
        /// of RFC 3465 §2.3). RFC 5681 §3.1 permits 1.
        pub slow_start_limit: Option<u32> = None,
        /// Whether fast recovery uses proportional rate reduction (RFC 9937). Default: yes, as in Linux. Without it, the sender
        /// pauses until the data in flight has fallen to the new window (RFC 6675). It has no effect without SACK.
        pub prr: bool = true,
        /// Whether losses are detected by time, with tail loss probes (RACK-TLP, RFC 8985). Default: yes, as in Linux. It
        /// requires SACK. Without it, loss detection follows RFC 6675, and only a timeout repairs a lost retransmission or tail.
        pub rack: bool = true,
        /// Whether spurious timeouts are detected and undone (F-RTO, RFC 5682). Default: yes, as in Linux.
        pub frto: bool = true,
        /// Lower bound of the retransmission timeout. Default: 200 ms above the smoothed RTT.
        pub rto_floor: RtoFloor = RtoFloor::LINUX,
        /// Receive window: `mss` to 2^30 B (RFC 7323 §2.3). It is constant, since receivers read immediately. Default: 6 MB, about
        /// the maximum of Linux (`net.ipv4.tcp_rmem`: 6 MiB).
        pub receive_window: DataSize = DataSize::from_bytes(6_000_000),
        /// Number of in-order segments after which the receiver sends an acknowledgement: 1 (no delay) or 2, the default (RFC
        /// 5681 §4.2).
        pub segments_per_ack: u32 = 2,
        /// Maximum delay of an acknowledgement: above 0, up to 500 ms (RFC 5681 §4.2). Default 40 ms, the minimum of Linux.
        pub delayed_ack: TimeDelta = TimeDelta::from_millis(40),
    }
}

/// A setting out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("TCP: {setting} must be {range}, found {found}")]
pub struct SettingsError {
    /// The setting, as a scenario file names it.
    pub setting: &'static str,
    range: &'static str,
    found: String,
}

impl Settings {
    /// Checks that every field is within its range.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] names the first field that is out of range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let check = |holds: bool, setting, range, found: &dyn ToString| {
            if holds { Ok(()) } else { Err(SettingsError { setting, range, found: found.to_string() }) }
        };
        let window = self.receive_window.as_bytes();
        let delay = self.delayed_ack;
        let floor = match self.rto_floor {
            RtoFloor::Whole(floor) | RtoFloor::BeyondRtt(floor) => floor,
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
            "min-rto",
            "0 to 60 s",
            &floor,
        )?;
        check(
            self.algorithm != Algorithm::Bbr || (self.sack && self.rack),
            "control",
            "another one without sack and rack",
            &"bbr",
        )
    }

    /// Whether the connection uses ECN: as set, and always with Prague.
    pub(super) fn uses_ecn(&self) -> bool {
        self.ecn || self.uses_accurate_ecn()
    }

    /// Whether marks are counted (accurate ECN, RFC 9768) and data is ECT(1).
    pub(super) fn uses_accurate_ecn(&self) -> bool {
        self.algorithm == Algorithm::Prague
    }

    /// Data bytes of a full segment (`SMSS`): the maximum segment size minus the options of every segment.
    pub fn segment(&self) -> u64 {
        u64::from(self.mss - if self.timestamps { TIMESTAMPS_BYTES } else { 0 })
    }

    /// Whether the first slow start uses `HyStart++`.
    pub(super) fn uses_hystart(&self) -> bool {
        self.hystart.unwrap_or(self.algorithm == Algorithm::Cubic) && self.initial_threshold.is_none()
    }

    /// Maximum increase per acknowledgement in slow start, in segments.
    pub(super) fn slow_start_limit(&self) -> u32 {
        let default = if self.uses_hystart() { SEGMENTS_PER_ACK_WITH_HYSTART } else { 2 };
        self.slow_start_limit.unwrap_or(default)
    }

    /// The initial window in bytes (RFC 6928 §2).
    pub(super) fn initial_window_bytes(&self) -> u64 {
        let segment = self.segment();
        (u64::from(self.initial_window) * segment).min((2 * segment).max(14_600))
    }

    /// Maximum number of SACK blocks in an acknowledgement.
    pub(super) fn sack_blocks(&self) -> usize {
        match (self.sack, self.timestamps) {
            (false, _) => 0,
            (true, true) => SackBlocks::MAX_WITH_TIMESTAMPS,
            (true, false) => SackBlocks::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_ranges_are_checked() {
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
    fn hystart_defaults_to_cubic_without_a_threshold() {
        let found = |algorithm, hystart, initial_threshold| {
            let settings = Settings { algorithm, initial_threshold, hystart, ..Settings::default() };
            (settings.uses_hystart(), settings.slow_start_limit())
        };
        let threshold = Some(DataSize::from_bytes(100_000));
        assert_eq!(found(Algorithm::Cubic, None, None), (true, 8));
        assert_eq!(found(Algorithm::NewReno, None, None), (false, 2));
        assert_eq!(found(Algorithm::NewReno, Some(true), None), (true, 8));
        assert_eq!(found(Algorithm::Cubic, Some(false), None), (false, 2));
        assert_eq!(found(Algorithm::Cubic, Some(true), threshold), (false, 2));
    }

    #[test]
    fn the_initial_window_is_limited_by_rfc_6928() {
        let bytes = |mss| Settings { mss, timestamps: false, ..Settings::default() }.initial_window_bytes();
        assert_eq!((bytes(536), bytes(1460), bytes(4000), bytes(9000)), (5360, 14_600, 14_600, 18_000));
    }
}
