//! The interface that quinn calls.

use std::{
    any::Any,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use giusto_congestion::{Algorithm, ConstantError, Limits, Options};
use quinn_proto::{
    AckFrequencyConfig, RttEstimator, TransportConfig, VarInt,
    congestion::{Controller, ControllerFactory, ControllerMetrics},
};

use crate::state::State;

/// A controller of giusto for quinn's `TransportConfig`, which makes one for each connection.
///
/// # Example
///
/// ```
/// use giusto_quinn::{GiustoConfig, Limits};
///
/// let mut transport = quinn_proto::TransportConfig::default();
/// GiustoConfig::named("tempo", Limits::default())?.configure(&mut transport);
/// # Ok::<(), giusto_quinn::ConstantError>(())
/// ```
#[derive(Debug, Clone)]
pub struct GiustoConfig {
    algorithm: Algorithm,
    limits: Limits,
    options: Options,
}

impl GiustoConfig {
    /// Controllers of `algorithm` with these limits.
    pub fn new(algorithm: Algorithm, limits: Limits) -> Self {
        Self { algorithm, limits, options: Options::default() }
    }

    /// Controllers of the algorithm called `name`, which constants may follow: `nada+kappa=0.4`.
    ///
    /// # Errors
    ///
    /// [`ConstantError`]: an unknown name, with the known ones, or a constant that the algorithm does not have or that is out of range.
    pub fn named(name: &str, limits: Limits) -> Result<Self, ConstantError> {
        let (algorithm, values) = Algorithm::read_name(name)?;
        let algorithm = if values.is_empty() { algorithm } else { algorithm.with_constants(&values)? };
        Ok(Self::new(algorithm, limits))
    }

    /// Sets options that the algorithm has.
    #[must_use]
    pub fn with_options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// Makes `transport` use these controllers, with what they need: acknowledgements of each packet at once, if the peer supports the
    /// extension (draft-ietf-quic-ack-frequency), because their times stand for those of arrival; and a call for each datagram, without
    /// segmentation offload, because packets are found by size.
    pub fn configure(self, transport: &mut TransportConfig) {
        let mut acknowledgements = AckFrequencyConfig::default();
        acknowledgements.ack_eliciting_threshold(VarInt::from_u32(0));
        transport
            .congestion_controller_factory(Arc::new(self))
            .ack_frequency_config(Some(acknowledgements))
            .enable_segmentation_offload(false);
    }
}

impl ControllerFactory for GiustoConfig {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let controller = self.algorithm.build_with(self.limits, self.options);
        Box::new(Giusto(Arc::new(Mutex::new(State::new(controller, now, current_mtu)))))
    }
}

/// The congestion control of one network path of a connection. A copy is the same controller: quinn makes one when the peer's address
/// changes but its network does not.
#[derive(Debug, Clone)]
pub struct Giusto(Arc<Mutex<State>>);

impl Giusto {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Giusto {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        self.lock().on_sent(now, bytes);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, _app_limited: bool, rtt: &RttEstimator) {
        self.lock().on_ack(now, sent, bytes, rtt.get());
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _largest: Option<u64>) {
        self.lock().on_end_acks(now, in_flight, app_limited);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, _is_persistent: bool, lost_bytes: u64) {
        let mut state = self.lock();
        if lost_bytes == 0 { state.on_marked(sent) } else { state.on_lost(now, sent, lost_bytes) }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.lock().on_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.lock().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut state = self.lock();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = state.window();
        metrics.pacing_rate = Some(state.target().pacing.as_bps());
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
