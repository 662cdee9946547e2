//! Quinn's own controllers, with the rate at which an application should encode: that of delivery. Applications see them as giusto's.

use std::{
    any::Any,
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use giusto_quinn::{DataRate, Giusto, GiustoConfig, Limits, Media};
use quinn_proto::{
    RttEstimator,
    congestion::{Controller, ControllerFactory},
};

/// The delivery rate is that of this time.
const WINDOW: Duration = Duration::from_millis(500);
/// How often the rate of the application changes.
const STEP: Duration = Duration::from_millis(100);
/// While nothing waits, the rate grows by this factor in each step, up to [`AHEAD`] times the delivery rate.
const GROWTH: f64 = 1.05;
const AHEAD: f64 = 1.25;
/// When frames have waited for [`LATE`], the rate is this part of the delivery rate.
const BACK_OFF: f64 = 0.9;
/// What waits then is worked off in this time, by at least this part of the delivery rate: as with giusto's controllers.
const DRAIN: f64 = 0.5;
const MIN_SHARE: f64 = 0.25;
const LATE: Duration = Duration::from_millis(50);
/// Headers of UDP, IP and QUIC in a packet of 1452 bytes.
const PAYLOAD: f64 = 0.95;

/// The controller of a connection as the application sees it.
pub(crate) enum Side {
    Giusto(Media),
    Quinn(Box<Baseline>),
}

impl Side {
    pub(crate) fn of(controller: &dyn Controller) -> Self {
        if let Some(media) = Media::of(controller.clone_box()) {
            return Self::Giusto(media);
        }
        let own = controller.clone_box().into_any().downcast();
        Self::Quinn(own.expect("the only other controller"))
    }

    pub(crate) fn media(&self) -> Media {
        match self {
            Self::Giusto(media) => media.clone(),
            Self::Quinn(baseline) => baseline.media(),
        }
    }

    pub(crate) fn tick(&self, now: Instant) {
        match self {
            Self::Giusto(media) => media.tick(now),
            Self::Quinn(baseline) => baseline.tick(now),
        }
    }

    pub(crate) fn frame_rate(&self) -> DataRate {
        match self {
            Self::Giusto(media) => media.frame_rate(),
            Self::Quinn(baseline) => baseline.frame_rate(),
        }
    }
}

/// Makes controllers of quinn that an application can ask for a rate.
pub(crate) struct Observed {
    pub(crate) factory: Arc<dyn ControllerFactory + Send + Sync>,
    pub(crate) limits: Limits,
}

impl ControllerFactory for Observed {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let inner = self.factory.clone().build(now, mtu);
        // It finds out what waits in quinn, as for giusto's controllers.
        let fixed = GiustoConfig::named("fixed", self.limits).expect("a controller");
        let shadow = Arc::new(fixed).build(now, mtu).into_any().downcast::<Giusto>().expect("ours");
        Box::new(Baseline {
            inner,
            shadow: *shadow,
            meter: Arc::new(Mutex::new(Meter::new(now, self.limits))),
        })
    }
}

struct Meter {
    limits: Limits,
    acknowledged: VecDeque<(Instant, u64)>,
    rate: f64,
    next_step: Instant,
}

impl Meter {
    fn new(now: Instant, limits: Limits) -> Self {
        let rate = limits.start.as_bps() as f64;
        Self { limits, acknowledged: VecDeque::new(), rate, next_step: now + STEP }
    }

    fn step(&mut self, now: Instant, waiting: u64, oldest: Duration) {
        if now < self.next_step {
            return;
        }
        self.next_step = now + STEP;
        while self.acknowledged.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > WINDOW) {
            self.acknowledged.pop_front();
        }
        let bytes: u64 = self.acknowledged.iter().map(|(_, bytes)| bytes).sum();
        let delivered = bytes as f64 * 8.0 / WINDOW.as_secs_f64() * PAYLOAD;
        self.rate = if oldest > LATE {
            (BACK_OFF * delivered - waiting as f64 * 8.0 / DRAIN).max(MIN_SHARE * delivered)
        } else {
            (self.rate * GROWTH).min(self.rate.max(AHEAD * delivered))
        };
        self.rate = self.rate.clamp(self.limits.min.as_bps() as f64, self.limits.max.as_bps() as f64);
    }
}

/// A controller of quinn, and what it does to the application.
pub(crate) struct Baseline {
    inner: Box<dyn Controller>,
    shadow: Giusto,
    meter: Arc<Mutex<Meter>>,
}

impl Baseline {
    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn media(&self) -> Media {
        Media::from(&self.shadow)
    }

    fn tick(&self, now: Instant) {
        let (waiting, oldest) = self.media().waiting(now);
        self.meter().step(now, waiting, oldest);
    }

    fn frame_rate(&self) -> DataRate {
        DataRate::from_bps(self.meter().rate as u64)
    }
}

impl Controller for Baseline {
    fn on_sent(&mut self, now: Instant, bytes: u64, last: u64) {
        self.inner.on_sent(now, bytes, last);
        self.shadow.on_sent(now, bytes, last);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, limited: bool, rtt: &RttEstimator) {
        self.inner.on_ack(now, sent, bytes, limited, rtt);
        self.shadow.on_ack(now, sent, bytes, limited, rtt);
        self.meter().acknowledged.push_back((now, bytes));
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, limited, largest);
        self.shadow.on_end_acks(now, in_flight, limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.inner.on_congestion_event(now, sent, persistent, lost);
        self.shadow.on_congestion_event(now, sent, persistent, lost);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.inner.on_mtu_update(mtu);
        self.shadow.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let inner = self.inner.clone_box();
        Box::new(Self { inner, shadow: self.shadow.clone(), meter: Arc::clone(&self.meter) })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
