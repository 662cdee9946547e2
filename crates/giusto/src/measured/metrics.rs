//! The state of a receiver for Prometheus.

use std::{
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use giusto_session::probe::{Counters, Receiver, ReceiverEvent, Stream};

use crate::measured::recv;

/// The type of the text of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

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
#[derive(Debug, Default)]
pub struct Metrics {
    state: Mutex<State>,
    opened: AtomicU64,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    totals: StreamTotals,
    counters: Counters,
    kernel_dropped: u64,
    streams: u64,
    /// In bytes per second.
    rate: f64,
    /// In seconds.
    jitter: f64,
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

impl Metrics {
    /// All counts are 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the state of `receiver`; `ended` counts the streams that have ended.
    pub fn update(&self, receiver: &Receiver, ended: &StreamTotals) {
        let mut totals = *ended;
        receiver.streams().for_each(|(_, stream)| totals.add(stream));
        let live = recv::live(receiver);
        let jitters = receiver.streams().filter_map(|(_, stream)| stream.meter().jitter()).max();
        // While it is read, the next update brings the state.
        if let Ok(mut state) = self.state.try_lock() {
            *state = State {
                totals,
                counters: receiver.counters(),
                kernel_dropped: receiver.kernel_dropped(),
                streams: live.streams as u64,
                rate: live.rate_bps / 8.0,
                jitter: jitters.unwrap_or_default().as_seconds(),
            };
        }
    }

    /// Counts the stream of an event that has begun; other events count nothing.
    pub fn on_event(&self, event: Option<&ReceiverEvent>) {
        if matches!(event, Some(ReceiverEvent::Opened(_))) {
            self.opened.fetch_add(1, Relaxed);
        }
    }

    /// The text, of type [`CONTENT_TYPE`].
    pub fn text(&self) -> String {
        let state = *self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { totals, counters, kernel_dropped, streams, rate, jitter } = state;
        let mut text = Text::default();
        text.gauge("streams", "Open streams", streams);
        text.counter("opened_streams", "Streams that have begun", self.opened.load(Relaxed));
        text.counter("refused_streams", "Streams that were refused", counters.refused);
        text.counter("received_packets", "Unique datagrams received", totals.received);
        text.counter("expected_packets", "Datagrams received or missing", totals.expected);
        text.gauge(
            "lost_packets",
            "Datagrams missing so far, expected less received: late ones reduce it",
            totals.expected.saturating_sub(totals.received),
        );
        text.counter("duplicate_packets", "Further copies of datagrams", totals.duplicate);
        text.counter("reordered_packets", "Datagrams that arrived after a later one", totals.reordered);
        text.counter(
            "too_old_packets",
            "Datagrams too late to be distinguished from duplicates",
            totals.too_old,
        );
        text.counter("implausible_packets", "Datagrams with impossible sequence numbers", totals.implausible);
        text.counter(
            "kernel_dropped_packets",
            "Messages dropped by the full socket buffer, of streams and others; a group of datagrams counts once",
            kernel_dropped,
        );
        text.gauge(
            "lost_in_buffer_packets",
            "Of the missing datagrams, those that the full socket buffer dropped: the path did not lose them",
            totals.lost_in_buffer,
        );
        text.counter("received_bytes", "UDP payload of the unique datagrams received", totals.received_bytes);
        text.gauge(
            "received_bytes_per_second",
            "Received rate of the last second, at the layer that senders announced",
            rate,
        );
        text.gauge("jitter_seconds", "Inter-arrival jitter (RFC 3550), largest of the open streams", jitter);
        text.family("unmeasured_packets", "counter", "Datagrams that belong to no stream, by reason");
        for (reason, _, packets) in counters.reasons() {
            text.line(&format!("unmeasured_packets_total{{reason=\"{reason}\"}}"), packets);
        }
        text.finish()
    }
}

/// Metric families as `OpenMetrics` text. Names get `giusto_` in front; a unit is the end of a name.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// A family of one counter.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.line(&format!("{name}_total"), value);
    }

    /// A family of one gauge.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, "gauge", help);
        self.line(name, value);
    }

    /// The head of a family.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to memory does not fail.
        let _ = writeln!(self.0, "# HELP giusto_{name} {help}.\n# TYPE giusto_{name} {kind}");
        // The unit is the end of the name.
        if let Some(unit) = ["bytes", "seconds"].iter().find(|unit| name.ends_with(**unit)) {
            let _ = writeln!(self.0, "# UNIT giusto_{name} {unit}");
        }
    }

    /// A value, whose name may have labels.
    pub fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "giusto_{name} {value}");
    }

    /// The text.
    pub fn finish(self) -> String {
        self.0 + "# EOF\n"
    }
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
        assert_eq!(recv::live(&receiver).lost_packets, None);
        let value = |name: &str| {
            let text = metrics.text();
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
        };
        let are = |expected: &[(&str, &str)]| {
            for (name, expected) in expected {
                assert_eq!(value(name), *expected, "{name}");
            }
        };
        are(&[
            ("giusto_received_packets_total", "5"),
            ("giusto_streams", "1"),
            ("giusto_refused_streams_total", "1"),
        ]);
        // The first stream ends; the second may begin.
        send(&mut receiver, 3, 2_000, 5);
        send(&mut receiver, 3, 2_001, 5);
        are(&[
            ("giusto_opened_streams_total", "2"),
            ("giusto_received_packets_total", "6"),
            ("giusto_received_bytes_total", "600"),
            ("giusto_streams", "1"),
            ("giusto_lost_packets", "0"),
            // 3 before there was a stream.
            ("giusto_kernel_dropped_packets_total", "5"),
            ("giusto_lost_in_buffer_packets", "2"),
            ("giusto_unmeasured_packets_total{reason=\"foreign\"}", "0"),
        ]);
        assert!(metrics.text().ends_with("# EOF\n"));
    }
}
