//! What a Session-Sender sends.

use giusto_pace::{HeaderLayer, IpVersion, Limits};
use giusto_session::{
    keys::KeyRing,
    probe::payload::PayloadSizes,
    stamp::{packet::Mode, time::TimestampFormat, tlv::TLV_HEADER_BYTES},
};
use giusto_units::{DataRate, DataSize};

use crate::measured::plan::{Layout, Media, Pacing, ResolvedPlan, StreamPlan, StreamPlanError, Tempo};

/// What a Session-Sender sends.
#[derive(Debug, Clone)]
pub struct StampPlan {
    stream: ResolvedPlan,
    pub(super) keys: Option<KeyRing>,
    pub(super) format: TimestampFormat,
}

/// Why a plan is impossible.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StampPlanError {
    /// The size is not that of a packet.
    #[error(
        "a STAMP packet must have {base} bytes, or at least {} with an Extra Padding TLV (RFC 8972 §4.1), found {}",
        base + TLV_HEADER_BYTES,
        size.as_bytes()
    )]
    Size {
        /// The size of the plan.
        size: DataSize,
        /// The length of a base packet.
        base: usize,
    },
    /// The stream cannot be planned.
    #[error(transparent)]
    Stream(#[from] StreamPlanError),
}

impl StampPlan {
    /// Packets per second if no rate is given.
    pub const DEFAULT_PACKETS_PER_SECOND: u64 = 10;

    /// A plan of packets of `size`, or of base packets; at `rate`, or at 10 packets a second. With `keys` in authenticated mode.
    ///
    /// # Errors
    ///
    /// [`StampPlanError`] where no packet has the size, and where the pacing cannot make the rate.
    pub fn new(
        size: Option<DataSize>,
        tempo: Option<Tempo>,
        keys: Option<KeyRing>,
        pacing: StampPacing,
    ) -> Result<Self, StampPlanError> {
        let mode = if keys.is_some() { Mode::Authenticated } else { Mode::Unauthenticated };
        let base = mode.base_bytes();
        let size = size.unwrap_or(DataSize::from_bytes(base as u64));
        let bytes = size.as_bytes();
        if bytes != base as u64 && bytes < (base + TLV_HEADER_BYTES) as u64 {
            return Err(StampPlanError::Size { size, base });
        }
        let StampPacing { layer, pacing, limits, ip, seed, dont_fragment, format } = pacing;
        let usual = || {
            let bits = layer.on_wire(size, ip).as_bits();
            Tempo::Rate(DataRate::from_bps(bits * Self::DEFAULT_PACKETS_PER_SECOND))
        };
        let stream = StreamPlan {
            media: Media::Filler(Layout::Raw, PayloadSizes::Fixed(size)),
            tempo: tempo.unwrap_or_else(usual),
            layer,
            pacing,
            limits,
            seed,
            dont_fragment,
        };
        Ok(Self { stream: stream.resolve(ip)?, keys, format })
    }

    /// The plan of the stream.
    pub fn stream(&self) -> &ResolvedPlan {
        &self.stream
    }

    /// The mode of the packets.
    pub fn mode(&self) -> Mode {
        if self.keys.is_some() { Mode::Authenticated } else { Mode::Unauthenticated }
    }
}

/// The circumstances of a [`StampPlan`].
#[derive(Debug, Clone)]
pub struct StampPacing {
    /// The layer whose bytes the rate counts.
    pub layer: HeaderLayer,
    /// How departures are timed.
    pub pacing: Pacing,
    /// When sending ends.
    pub limits: Limits,
    /// The address family.
    pub ip: IpVersion,
    /// Seed of the padding.
    pub seed: u64,
    /// Packets that do not fit the path are not sent.
    pub dont_fragment: bool,
    /// The format of timestamps.
    pub format: TimestampFormat,
}
