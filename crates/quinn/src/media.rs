//! The application's side of a controller.

use std::time::{Duration, Instant};

use giusto_congestion::{Decision, Limits, Target};
use giusto_units::DataRate;
use quinn_proto::congestion::Controller;

use crate::controller::Giusto;

/// What an application that sends frames asks its controller, and tells it.
///
/// | when | call |
/// |---|---|
/// | every 5 ms or so, and at [`next_timeout`](Self::next_timeout) | [`tick`](Self::tick), since quinn has no timer for controllers |
/// | then | [`padding`](Self::padding): send datagrams of such sizes, while it returns one |
/// | before a frame is encoded | [`should_skip`](Self::should_skip); if not, encode at [`frame_rate`](Self::frame_rate) |
/// | a frame was written to a stream | [`on_frame`](Self::on_frame) |
/// | before a part of a file is written | [`spare`](Self::spare) |
/// | the stream of waiting frames was reset | [`on_discarded`](Self::on_discarded) |
///
/// Streams get their [`priority`](crate::priority).
///
/// A copy is the same handle. It belongs to a network path: after a migration of the connection, take a new one.
#[derive(Debug, Clone)]
pub struct Media(Giusto);

impl From<&Giusto> for Media {
    fn from(controller: &Giusto) -> Self {
        Self(controller.clone())
    }
}

impl Media {
    /// The handle of a connection: `Media::of(connection.congestion_state())` in quinn, and with `.clone_box()` in `quinn_proto`.
    /// `None` if its controller is not giusto's.
    pub fn of(controller: Box<dyn Controller>) -> Option<Self> {
        controller.into_any().downcast::<Giusto>().ok().map(|giusto| Self::from(&*giusto))
    }

    /// Calls the controller at its deadlines.
    pub fn tick(&self, now: Instant) {
        self.0.lock().tick(now);
    }

    /// The latest time of the next [`tick`](Self::tick).
    pub fn next_timeout(&self) -> Option<Instant> {
        self.0.lock().next_timeout()
    }

    /// The rate of all frames together: that of [`target`](Self::target), less headers, the share of packets that are
    /// sent again, and what waits: with most controllers, more than 50 ms of frames are worked off within 500 ms.
    pub fn frame_rate(&self) -> DataRate {
        self.0.lock().frame_rate()
    }

    /// What the controller permits, all headers and retransmissions included.
    pub fn target(&self) -> Target {
        self.0.lock().target()
    }

    /// Sets the lowest and highest target.
    pub fn set_limits(&self, now: Instant, limits: Limits) {
        self.0.lock().set_limits(now, limits);
    }

    /// The latest decision. Its time is that since the connection began.
    pub fn decision(&self) -> Decision {
        self.0.lock().decision()
    }

    /// The latest decision in words: `loss: 12.0 % of the packets: 2.610 to 2.050 Mbit/s`.
    pub fn decision_text(&self) -> String {
        self.decision().to_string()
    }

    /// A frame of `bytes` bytes was written to a stream.
    pub fn on_frame(&self, now: Instant, bytes: usize) {
        self.0.lock().on_frame(now, bytes as u64);
    }

    /// The frames that wait were taken back: their streams were reset.
    pub fn on_discarded(&self) {
        self.0.lock().on_discarded();
    }

    /// The packet that left at `sent` with `bytes` bytes of UDP payload arrived at `at` by the peer's clock: a receive timestamp
    /// (draft-smith-quic-receive-ts). Call it before quinn handles the acknowledgement, whose time stands for the arrival otherwise.
    /// Quinn 0.11 has no such timestamps: this is for a version that has.
    pub fn on_arrival(&self, sent: Instant, bytes: u64, at: Duration) {
        self.0.lock().on_arrival(sent, bytes, at);
    }

    /// Bytes of frames that wait in quinn, and the age of the oldest: an estimate, since quinn does not tell.
    pub fn waiting(&self, now: Instant) -> (u64, Duration) {
        self.0.lock().waiting(now)
    }

    /// Whether the next frame should be left out, because frames have waited for too long, or the controller asks for it.
    pub fn should_skip(&self, now: Instant) -> bool {
        self.0.lock().should_skip(now)
    }

    /// Sets the wait after which frames are skipped. Default: what the controller recommends, otherwise 150 ms.
    pub fn set_skip_after(&self, age: Duration) {
        self.0.lock().set_skip_after(age);
    }

    /// Bytes that may be written now to streams that are not media, such as a file: what the frames leave of the target. Quinn's own
    /// order of priorities is not enough: it sends up to the window, which a bulk stream always fills.
    pub fn spare(&self, now: Instant) -> u64 {
        self.0.lock().spare(now)
    }

    /// The size of a QUIC datagram (RFC 9221) of zeros that should be sent now, for a probe or as padding; ask until it is `None`. A
    /// peer that does not read datagrams drops them. Send none that is larger than quinn's `max_datagram_size`. Without padding,
    /// controllers that probe are slower, not wrong.
    pub fn padding(&self, now: Instant) -> Option<usize> {
        self.0.lock().padding(now)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quinn_proto::congestion::{ControllerFactory, CubicConfig};

    use super::*;
    use crate::{GiustoConfig, testing::origin};

    #[test]
    fn a_handle_is_of_giusto_alone_and_copies_are_one() {
        let start = origin();
        let limits = Limits::default();
        let controller = Arc::new(GiustoConfig::named("tempo", limits).unwrap()).build(start, 1200);
        let (one, other) = (Media::of(controller.clone_box()).unwrap(), Media::of(controller).unwrap());
        assert_eq!(one.target().media, limits.start);
        assert_eq!(one.decision_text(), "start rate: stays at 0.300 Mbit/s");
        let lower = limits.with_max(DataRate::from_bps(200_000));
        one.set_limits(start, lower);
        assert_eq!(other.target().media, lower.max);
        assert!(Media::of(Arc::new(CubicConfig::default()).build(start, 1200)).is_none());
        assert!(GiustoConfig::named("cubic", limits).unwrap_err().to_string().contains("tempo"));
        assert!(GiustoConfig::named("nada+kappa=0.4", limits).is_ok());
        assert!(GiustoConfig::named("nada+kappa=1000", limits).is_err());
    }
}
