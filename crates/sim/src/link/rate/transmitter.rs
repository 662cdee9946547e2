//! Serialisation times of packets.

use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::{
    RateError, RateProfile,
    fixed::{FixedRate, work},
    opportunities::Opportunities,
    steps::Segments,
    token_bucket::Bucket,
};

/// Larger packets are transmitted in parts of this size, because their work would not fit into 63 bits.
const MAX_CHUNK: u32 = 1 << 30;

/// Computes serialisation times of consecutive packets.
///
/// The end of a transmission is rounded up to a nanosecond. The rounding error is subtracted from the next transmission if
/// that follows without a pause, so errors do not accumulate.
#[derive(Debug, Clone)]
pub struct Transmitter {
    kind: Kind,
    free_at: Timestamp,
}

#[derive(Debug, Clone)]
enum Kind {
    Unlimited,
    Fixed(FixedRate),
    Rate {
        /// Position at the end of the last transmission, which may lie in the future.
        segments: Segments,
        /// Position of the last query of the rate.
        queried: Segments,
        /// Work left over from rounding up the end of the last transmission.
        credit: u64,
    },
    Opportunities(Opportunities),
    Bucket(Bucket),
}

impl Transmitter {
    /// Creates an idle transmitter.
    ///
    /// # Errors
    ///
    /// The error of [`RateProfile::check`].
    pub fn new(profile: &RateProfile) -> Result<Self, RateError> {
        profile.check()?;
        let kind = match profile {
            RateProfile::Unlimited => Kind::Unlimited,
            RateProfile::Fixed(rate) => Kind::Fixed(FixedRate::new(*rate)),
            RateProfile::Steps { steps, period } => {
                let segments = Segments::new(steps.clone(), *period);
                Kind::Rate { queried: segments.clone(), segments, credit: 0 }
            }
            RateProfile::Opportunities { at, bytes } => {
                Kind::Opportunities(Opportunities::new(at.clone(), *bytes))
            }
            RateProfile::TokenBucket(bucket) => Kind::Bucket(Bucket::new(*bucket)),
        };
        let free_at = match &kind {
            Kind::Opportunities(opportunities) => opportunities.next(),
            _ => Timestamp::ZERO,
        };
        Ok(Self { kind, free_at })
    }

    /// Time at which the next transmission can start: `now` or later. During an outage, its end.
    #[inline]
    pub fn ready_at(&self, now: Timestamp) -> Timestamp {
        let ready = self.free_at.max(now);
        match &self.kind {
            Kind::Rate { segments, .. } if segments.has_outages => segments.outage_end(ready),
            _ => ready,
        }
    }

    /// Transmits a packet of `bytes` and returns the end of the transmission, when the transmitter is free again.
    ///
    /// If the transmitter is not [ready](Self::ready_at), the transmission starts as soon as it is.
    #[inline]
    pub fn transmit(&mut self, now: Timestamp, bytes: u32) -> Timestamp {
        match &mut self.kind {
            Kind::Unlimited => self.free_at.max(now),
            Kind::Fixed(fixed) if bytes <= MAX_CHUNK => {
                self.free_at = fixed.transmit(now, bytes);
                self.free_at
            }
            _ => self.transmit_at_changing_rate(now, bytes),
        }
    }

    fn transmit_at_changing_rate(&mut self, now: Timestamp, bytes: u32) -> Timestamp {
        if bytes > MAX_CHUNK {
            let end = self.transmit(now, MAX_CHUNK);
            return self.transmit(end, bytes - MAX_CHUNK);
        }
        let start = self.ready_at(now);
        match &mut self.kind {
            Kind::Rate { segments, credit, .. } => {
                let (mut work, spare) = work(bytes, if start == self.free_at { *credit } else { 0 });
                let mut at = start;
                loop {
                    if at >= segments.until {
                        segments.seek(at);
                    }
                    let rate = segments.rate.as_bps();
                    if rate == 0 && segments.until < Timestamp::MAX {
                        at = segments.until;
                        continue;
                    }
                    let rate = rate.max(1);
                    let nanos = work.div_ceil(rate);
                    let end = at + TimeDelta::from_nanos(nanos as i64);
                    if end <= segments.until {
                        *credit = nanos * rate - work + spare;
                        self.free_at = end;
                        return end;
                    }
                    // The segment ends before the packet, so the product is less than the work.
                    work -= (segments.until - at).as_nanos().unsigned_abs() * rate;
                    at = segments.until;
                }
            }
            Kind::Bucket(bucket) => {
                self.free_at = bucket.transmit(start, bytes);
                self.free_at
            }
            Kind::Opportunities(opportunities) => {
                let end = opportunities.transmit(start, bytes);
                self.free_at = opportunities.next();
                end
            }
            Kind::Unlimited | Kind::Fixed(_) => self.free_at,
        }
    }

    /// Rate at `now`; `None` if unlimited. For opportunities the mean rate, for a token bucket the token rate. During an outage
    /// the last rate before it, or the first after it: queues that measure their capacity in time keep it.
    pub fn rate(&mut self, now: Timestamp) -> Option<DataRate> {
        match &mut self.kind {
            Kind::Unlimited => None,
            Kind::Fixed(fixed) => Some(fixed.rate()),
            Kind::Rate { queried, .. } => {
                queried.seek(now);
                let is_out = queried.rate == DataRate::ZERO;
                Some(if is_out { queried.rate_around(now) } else { queried.rate })
            }
            Kind::Bucket(bucket) => Some(bucket.rate()),
            Kind::Opportunities(opportunities) => opportunities.rate(),
        }
    }

    /// Discards the opportunities before `now`.
    #[inline]
    pub(in crate::link) fn skip_unused_opportunities(&mut self, now: Timestamp) {
        if self.free_at < now
            && let Kind::Opportunities(opportunities) = &mut self.kind
        {
            opportunities.seek(now);
            self.free_at = opportunities.next();
        }
    }
}
