//! The state of a receiver for Prometheus.

use std::sync::atomic::AtomicU64;

use giusto_session::probe::{Counters, Receiver, ReceiverEvent, Stream};
use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use crate::measured::recv;

/// The type of the text of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Real = Gauge<f64, AtomicU64>;
type CountOf = fn(&Counters) -> u64;

/// Counters and gauges of a receiver, as `OpenMetrics` 1.0 text. All streams count together, so that other hosts cannot create time
/// series.
///
/// Update it in the thread that receives; reading the text in another thread never makes that thread wait.
///
/// # Example
///
/// ```
/// use giusto::measured::metrics::Metrics;
///
/// let metrics = Metrics::new();
/// assert!(metrics.text().contains("\ngiusto_received_packets_total 0\n"));
/// ```
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    streams: Gauge,
    opened: Counter,
    refused: Counter,
    received: Counter,
    received_bytes: Counter,
    expected: Counter,
    lost: Gauge,
    duplicate: Counter,
    reordered: Counter,
    too_old: Counter,
    implausible: Counter,
    kernel_dropped: Counter,
    lost_in_buffer: Gauge,
    rate: Real,
    jitter: Real,
    unmeasured: [(CountOf, Counter); 10],
}

/// The counts of streams.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamTotals {
    received: u64,
    received_bytes: u64,
    expected: u64,
    duplicate: u64,
    reordered: u64,
    too_old: u64,
    implausible: u64,
    lost_in_buffer: u64,
}

impl StreamTotals {
    /// Counts the stream of an event that has ended; other events count nothing.
    pub fn on_event(&mut self, event: Option<&ReceiverEvent>) {
        if let Some(ReceiverEvent::Closed(_, stream)) = event {
            self.add(stream);
        }
    }

    fn add(&mut self, stream: &Stream) {
        let (meter, sequence) = (stream.meter(), stream.meter().sequence());
        let losses = sequence.losses();
        // The number of datagrams that a sender states at its end may be any.
        for (total, more) in [
            (&mut self.received, losses.received),
            (&mut self.received_bytes, meter.received_bytes().as_bytes()),
            (&mut self.expected, losses.expected),
            (&mut self.duplicate, sequence.duplicates()),
            (&mut self.reordered, sequence.reordered()),
            (&mut self.too_old, sequence.too_old()),
            (&mut self.implausible, sequence.implausible()),
            (&mut self.lost_in_buffer, stream.kernel_dropped_packets()),
        ] {
            *total = total.saturating_add(more);
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All counts are 0.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("giusto");
        let all = &mut registry;
        let unmeasured = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let outside: [(&'static str, CountOf); 10] = [
            ("foreign", |counters| counters.foreign),
            ("malformed", |counters| counters.malformed),
            ("corrupt", |counters| counters.corrupt),
            ("other_version", |counters| counters.other_version),
            ("forged", |counters| counters.forged),
            ("unauthenticated", |counters| counters.unauthenticated),
            ("other_source", |counters| counters.other_source),
            ("probation", |counters| counters.probation),
            ("denied", |counters| counters.denied),
            ("late", |counters| counters.late),
        ];
        let metrics = (
            gauge(all, "streams", "Open streams"),
            counter(all, "opened_streams", "Streams that have begun"),
            counter(all, "refused_streams", "Streams that were refused"),
            counter(all, "received_packets", "Unique datagrams received"),
            counter(all, "expected_packets", "Datagrams received or missing"),
            gauge(
                all,
                "lost_packets",
                "Datagrams missing so far, expected less received: late ones reduce it",
            ),
            counter(all, "duplicate_packets", "Further copies of datagrams"),
            counter(all, "reordered_packets", "Datagrams that arrived after a later one"),
        );
        let (streams, opened, refused, received, expected, lost, duplicate, reordered) = metrics;
        let too_old =
            counter(all, "too_old_packets", "Datagrams too late to be distinguished from duplicates");
        let implausible = counter(all, "implausible_packets", "Datagrams with impossible sequence numbers");
        let help = "Messages dropped by the full socket buffer, of streams and others; a group of datagrams counts once";
        let kernel_dropped = counter(all, "kernel_dropped_packets", help);
        let help =
            "Of the missing datagrams, those that the full socket buffer dropped: the path did not lose them";
        let lost_in_buffer = gauge(all, "lost_in_buffer_packets", help);
        let received_bytes = Counter::default();
        let help = "UDP payload of the unique datagrams received";
        all.register_with_unit("received", help, Unit::Bytes, received_bytes.clone());
        let (rate, jitter) = (Real::default(), Real::default());
        let help = "Received rate of the last second, at the layer that senders announced";
        all.register("received_bytes_per_second", help, rate.clone());
        let help = "Inter-arrival jitter (RFC 3550), largest of the open streams";
        all.register_with_unit("jitter", help, Unit::Seconds, jitter.clone());
        all.register(
            "unmeasured_packets",
            "Datagrams that belong to no stream, by reason",
            unmeasured.clone(),
        );
        let unmeasured =
            outside.map(|(reason, of)| (of, unmeasured.get_or_create(&[("reason", reason)]).clone()));
        Self {
            registry,
            streams,
            opened,
            refused,
            received,
            received_bytes,
            expected,
            lost,
            duplicate,
            reordered,
            too_old,
            implausible,
            kernel_dropped,
            lost_in_buffer,
            rate,
            jitter,
            unmeasured,
        }
    }

    /// Takes the state of `receiver`; `ended` counts the streams that have ended.
    pub fn update(&self, receiver: &Receiver, ended: &StreamTotals) {
        let mut all = *ended;
        receiver.streams().for_each(|(_, stream)| all.add(stream));
        for (counter, total) in [
            (&self.received, all.received),
            (&self.received_bytes, all.received_bytes),
            (&self.expected, all.expected),
            (&self.duplicate, all.duplicate),
            (&self.reordered, all.reordered),
            (&self.too_old, all.too_old),
            (&self.implausible, all.implausible),
            (&self.kernel_dropped, receiver.kernel_dropped()),
            (&self.refused, receiver.counters().refused),
        ] {
            rise(counter, total);
        }
        for (of, counter) in &self.unmeasured {
            rise(counter, of(&receiver.counters()));
        }
        let live = recv::live(receiver);
        let jitters = receiver.streams().filter_map(|(_, stream)| stream.meter().jitter()).max();
        self.streams.set(live.streams as i64);
        self.lost_in_buffer.set(all.lost_in_buffer as i64);
        self.lost.set(all.expected.saturating_sub(all.received) as i64);
        self.rate.set(live.rate_bps / 8.0);
        self.jitter.set(jitters.unwrap_or_default().as_seconds());
    }

    /// Counts the stream of an event that has begun; other events count nothing.
    pub fn on_event(&self, event: Option<&ReceiverEvent>) {
        if matches!(event, Some(ReceiverEvent::Opened(_))) {
            self.opened.inc();
        }
    }

    /// The text, of type [`CONTENT_TYPE`].
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

/// Raises a counter to `total`; a counter never falls.
fn rise(counter: &Counter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

#[cfg(test)]
mod tests {
    use giusto_session::probe::{Inbound, LocalClock, Passive, ReceiverConfig};
    use giusto_units::{TimeDelta, Timestamp};

    use super::*;

    #[test]
    fn streams_that_have_ended_still_count() {
        let config = ReceiverConfig {
            passive: Some(Passive::Raw),
            max_unannounced: 1,
            idle_timeout: TimeDelta::from_seconds(1),
            ..ReceiverConfig::new([7; 32], LocalClock::default())
        };
        let mut receiver = Receiver::new(config);
        let (metrics, mut ended) = (Metrics::new(), StreamTotals::default());
        let mut send = |receiver: &mut Receiver, port: u16, millis: u64, dropped: u64| {
            let now = Timestamp::from_nanos(millis * 1_000_000);
            let inbound = Inbound {
                from: ([127, 0, 0, 1], port).into(),
                bytes: &[1; 100],
                segment: 100,
                at: now,
                tos: None,
                kernel_dropped: Some(dropped),
                truncated: false,
            };
            receiver.handle(now, &inbound);
            receiver.handle_timeout(now);
            while let Some(event) = receiver.poll_event() {
                metrics.on_event(Some(&event));
                ended.on_event(Some(&event));
            }
            metrics.update(receiver, &ended);
        };
        (0..5).for_each(|millis| send(&mut receiver, 1, millis, 3));
        send(&mut receiver, 2, 10, 5);
        let value = |name: &str| {
            let text = metrics.text();
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
        };
        assert_eq!(value("giusto_received_packets_total"), "5");
        assert_eq!(
            (value("giusto_streams"), value("giusto_refused_streams_total")),
            ("1".into(), "1".into())
        );
        // The first stream ends; the second may begin.
        let mut later = |port, millis| send(&mut receiver, port, millis, 5);
        later(3, 2_000);
        later(3, 2_001);
        assert_eq!(value("giusto_opened_streams_total"), "2");
        assert_eq!(value("giusto_received_packets_total"), "6");
        assert_eq!(value("giusto_received_bytes_total"), "600");
        assert_eq!((value("giusto_streams"), value("giusto_lost_packets")), ("1".into(), "0".into()));
        // 3 before there was a stream.
        assert_eq!(
            (value("giusto_kernel_dropped_packets_total"), value("giusto_lost_in_buffer_packets")),
            ("5".into(), "2".into())
        );
        assert_eq!(value("giusto_unmeasured_packets_total{reason=\"foreign\"}"), "0");
        assert!(metrics.text().ends_with("# EOF\n"));
    }
}
