//! How a pacer paces.

use giusto_units::{DataSize, TimeDelta};

#[cfg(doc)]
use super::Pacer;

/// When packets are sent again after a burst.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Resume {
    /// When the whole debt is paid: a burst, a pause, a burst. As both sources do.
    #[default]
    Drained,
    /// When there is room in the burst window: one burst, then single packets.
    Room,
}

giusto_units::defaults! {
    /// Configuration of a [`Pacer`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    #[non_exhaustive]
    pub struct PacerConfig {
        /// Packets are sent at once while the debt is less than this time at the pacing rate. libwebrtc: 40 ms;
        /// the draft's `burst_time`: 5 ms; zero or less: one packet at a time.
        pub burst: TimeDelta = TimeDelta::from_millis(40),
        /// Maximum burst window at any rate, because of the size of socket buffers. libwebrtc (`kMaxBurstSize`):
        /// 63 kB.
        pub burst_size: DataSize = DataSize::from_bytes(63_000),
        /// When packets are sent again after a burst.
        pub resume: Resume = Resume::Drained,
        /// Maximum debt, in time at the pacing rate, which is also the longest wait. An excess is forgiven.
        /// libwebrtc (`kMaxDebtInTime`): 500 ms. libwebrtc forgives when something is sent; we do so also when
        /// the rate falls.
        pub debt: TimeDelta = TimeDelta::from_millis(500),
        /// Whether packets that are not paced add to the debt. libwebrtc: only if audio is part of the bandwidth
        /// estimation, which is usual.
        pub account_unpaced: bool = true,
        /// A probe is aborted if its next batch is later than this, because it would measure a different rate.
        /// libwebrtc (`max_probe_delay`): 10 ms.
        pub probe_delay: TimeDelta = TimeDelta::from_millis(10),
        /// A probe is aborted if it did not start within this time. libwebrtc (`kProbeClusterTimeout`): 5 s.
        pub probe_timeout: TimeDelta = TimeDelta::from_seconds(5),
        /// Maximum number of pending probes; a further one replaces the oldest. libwebrtc
        /// (`kMaxPendingProbeClusters`): 5.
        pub probes: usize = 5,
    }
}

impl PacerConfig {
    /// libwebrtc's pacer.
    pub fn libwebrtc() -> Self {
        Self::default()
    }

    /// The draft's pacer: a group of packets every 5 ms.
    #[inline]
    pub fn gcc_draft() -> Self {
        Self { burst: TimeDelta::from_millis(5), ..Self::libwebrtc() }
    }
}

giusto_units::setters!(PacerConfig {
    /// The same, with this burst.
    with_burst(burst: TimeDelta);
    /// The same, with this rule after a burst.
    with_resume(resume: Resume);
});
