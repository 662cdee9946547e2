//! What a Session-Sender sends.

use giusto_net::{PathOptions, TrafficClass, driver::Resolver};
use giusto_pace::IpVersion;
use giusto_session::{
    keys::KeyRing,
    stamp::{packet::Mode, time::TimestampFormat, tlv::TLV_HEADER_BYTES},
};
use giusto_units::{DataSize, TimeDelta};

use crate::measured::plan::{ResolvedPlan, StreamPlan, StreamPlanError};

/// A session with a reflector.
#[derive(Debug, Clone)]
pub struct StampClient {
    /// The plan of the packets, all of one size. Their contents are those of STAMP.
    pub stream: StreamPlan,
    /// Keys shared with the reflector: with them in authenticated mode.
    pub keys: Option<KeyRing>,
    /// The format of timestamps.
    pub format: TimestampFormat,
    /// DSCP and ECN of every packet.
    pub traffic_class: TrafficClass,
    /// Where the packets leave, and what routers and switches read of them.
    pub path: PathOptions,
    /// The length of the intervals; `None`: there are none.
    pub interval: Option<TimeDelta>,
    /// Finds the reflector again where it has another address. Default: none.
    pub resolver: Option<Resolver>,
}

/// What a Session-Sender sends.
#[derive(Debug, Clone)]
pub(super) struct StampPlan {
    stream: ResolvedPlan,
    pub(super) keys: Option<KeyRing>,
    pub(super) format: TimestampFormat,
}

impl StampPlan {
    /// Checks the size, and works out the pacing for addresses of one family.
    pub(super) fn new(asked: &StampClient, ip: IpVersion) -> Result<Self, StreamPlanError> {
        let StampClient { stream, keys, format, .. } = asked.clone();
        let plan = Self { stream: stream.resolve(ip)?, keys, format };
        let (size, base) = (plan.stream.size(), plan.mode().base_bytes() as u64);
        let [base, padded] = [base, base + TLV_HEADER_BYTES as u64].map(DataSize::from_bytes);
        if size != base && size < padded {
            return Err(StreamPlanError::StampSize { size, base, padded });
        }
        Ok(plan)
    }

    /// The plan of the stream.
    pub(super) fn stream(&self) -> &ResolvedPlan {
        &self.stream
    }

    /// The mode of the packets.
    pub(super) fn mode(&self) -> Mode {
        if self.keys.is_some() { Mode::Authenticated } else { Mode::Unauthenticated }
    }
}
