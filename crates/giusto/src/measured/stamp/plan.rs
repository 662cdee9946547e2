//! What a Session-Sender sends.

use giusto_net::TrafficClass;
use giusto_pace::IpVersion;
use giusto_session::{
    keys::KeyRing,
    probe::payload::PayloadSizes,
    stamp::{packet::Mode, time::TimestampFormat, tlv::TLV_HEADER_BYTES},
};
use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::measured::plan::{Layout, Media, ResolvedPlan, StreamPlan, StreamPlanError, Tempo};

/// A session with a reflector.
#[derive(Debug, Clone)]
pub struct StampClient {
    /// The length of the packets; `None`: that of base packets.
    pub size: Option<DataSize>,
    /// How they are paced; its media are of no account. [`Tempo::Media`]: 10 packets a second.
    pub stream: StreamPlan,
    /// Keys shared with the reflector: with them in authenticated mode.
    pub keys: Option<KeyRing>,
    /// The format of timestamps.
    pub format: TimestampFormat,
    /// DSCP and ECN of every packet.
    pub traffic_class: TrafficClass,
    /// The length of the intervals; `None`: there are none.
    pub interval: Option<TimeDelta>,
}

/// What a Session-Sender sends.
#[derive(Debug, Clone)]
pub(super) struct StampPlan {
    stream: ResolvedPlan,
    pub(super) keys: Option<KeyRing>,
    pub(super) format: TimestampFormat,
}

impl StampPlan {
    /// Packets per second if no rate is given.
    const DEFAULT_PACKETS_PER_SECOND: u64 = 10;

    /// The plan of a session, for addresses of one family.
    ///
    /// # Errors
    ///
    /// [`StreamPlanError`] where no packet has the size, and where the pacing cannot make the rate.
    pub(super) fn new(asked: &StampClient, ip: IpVersion) -> Result<Self, StreamPlanError> {
        let StampClient { size, stream, keys, format, .. } = asked.clone();
        let mode = if keys.is_some() { Mode::Authenticated } else { Mode::Unauthenticated };
        let base = mode.base_bytes();
        let size = size.unwrap_or(DataSize::from_bytes(base as u64));
        let bytes = size.as_bytes();
        if bytes != base as u64 && bytes < (base + TLV_HEADER_BYTES) as u64 {
            let padded = DataSize::from_bytes((base + TLV_HEADER_BYTES) as u64);
            return Err(StreamPlanError::StampSize { size, base: DataSize::from_bytes(base as u64), padded });
        }
        let bits = stream.layer.on_wire(size, ip).as_bits();
        let tempo = match stream.tempo {
            Tempo::Media => Tempo::Rate(DataRate::from_bps(bits * Self::DEFAULT_PACKETS_PER_SECOND)),
            asked => asked,
        };
        let media = Media::Filler(Layout::Raw, PayloadSizes::Fixed(size));
        let stream = StreamPlan { media, tempo, ..stream };
        Ok(Self { stream: stream.resolve(ip)?, keys, format })
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
