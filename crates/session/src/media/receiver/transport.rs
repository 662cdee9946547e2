//! Transport-wide feedback: the arrival time of each packet of the transport, at intervals.

use std::collections::VecDeque;

use giusto_congestion::gcc::receive_side::IncomingRate;
use giusto_rtp::rtcp::{Arrival, TransportFeedback, TransportFeedbackEncoder};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::window::{ArrivalWindow, Noted};

/// Maximum size of feedback: below 1200 bytes, in whole words.
const MAX_BYTES: usize = 1196;
/// The usual size of feedback (libwebrtc, `remote_estimator_proxy.cc`): IPv4 20, UDP 8, SRTP 10 and AVPF 30 bytes.
const USUAL_SIZE: DataSize = DataSize::from_bytes(68);
/// Divisor of the share of the received rate that feedback may take: 5 % (libwebrtc,
/// `remote_estimator_proxy.cc`).
const SHARE: u64 = 20;
/// libwebrtc, `remote_estimator_proxy.cc`.
const MIN_INTERVAL: TimeDelta = TimeDelta::from_millis(50);
/// libwebrtc, `remote_estimator_proxy.cc`.
const MAX_INTERVAL: TimeDelta = TimeDelta::from_millis(250);
/// Interval before a rate is known (libwebrtc, `remote_estimator_proxy.cc`).
const FIRST_INTERVAL: TimeDelta = TimeDelta::from_millis(100);
/// Time for which reported arrivals are stored, to be reported again with a late packet (libwebrtc,
/// `remote_estimator_proxy.cc`).
const REMEMBERED: TimeDelta = TimeDelta::from_millis(500);
/// The window over which the received rate is measured.
const RATE_WINDOW: TimeDelta = TimeDelta::from_seconds(1);

/// Collects arrivals and writes feedback.
///
/// Feedback is sent every 50 to 250 ms while packets arrive, at the interval at which it takes 5 % of a rate.
/// libwebrtc uses its own send-side estimate for that rate. Here it is the received rate, because an endpoint
/// that sends no media has no estimate.
#[derive(Debug)]
pub(super) struct TransportReporter {
    window: ArrivalWindow<Timestamp>,
    encoder: TransportFeedbackEncoder,
    feedback: TransportFeedback,
    arrivals: Vec<Arrival>,
    rate: IncomingRate,
    /// Earliest time of the next feedback; `None` before the first packet.
    earliest: Option<Timestamp>,
}

impl TransportReporter {
    pub(super) fn new(sender_ssrc: u32) -> Self {
        Self {
            window: ArrivalWindow::new(),
            encoder: TransportFeedbackEncoder::new(MAX_BYTES),
            feedback: TransportFeedback { sender_ssrc, ..TransportFeedback::default() },
            arrivals: Vec::new(),
            rate: IncomingRate::new(RATE_WINDOW),
            earliest: None,
        }
    }

    /// Handles a packet of `ssrc` with this transport-wide number.
    pub(super) fn on_packet(&mut self, now: Timestamp, sequence: u16, ssrc: u32) {
        self.earliest.get_or_insert(now + FIRST_INTERVAL);
        if let Noted::New = self.window.note(sequence, now) {
            // As in libwebrtc, feedback contains the source of the latest packet.
            self.feedback.media_ssrc = ssrc;
        }
    }

    /// Handles received bytes, with a transport-wide number or without.
    pub(super) fn on_received(&mut self, now: Timestamp, size: DataSize) {
        self.rate.on_packet(now, size);
    }

    /// Time at which feedback is due, if there is anything to report.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.earliest.filter(|_| self.window.has_unreported())
    }

    /// Reports all unreported arrivals, in as many datagrams as necessary.
    pub(super) fn write(&mut self, now: Timestamp, datagrams: &mut VecDeque<Vec<u8>>) {
        let mut first = self.window.next();
        self.arrivals.clear();
        self.arrivals.extend(self.window.from(first).map(|(sequence, at)| Arrival { sequence, at: *at }));
        let mut rest = self.arrivals.as_slice();
        while let Some(encoded) = self.encoder.encode(first, rest, &mut self.feedback) {
            let mut datagram = Vec::with_capacity(USUAL_SIZE.as_bytes() as usize);
            if self.feedback.write(&mut datagram).is_ok() {
                datagrams.push_back(datagram);
            }
            first = encoded.next;
            rest = rest.get(encoded.arrivals.max(1)..).unwrap_or_default();
        }
        self.window.on_reported(|at| now.saturating_since(*at) >= REMEMBERED);
        self.earliest = Some(now + interval(self.rate.rate(now)));
    }
}

/// Interval between feedback messages.
fn interval(rate: Option<DataRate>) -> TimeDelta {
    let Some(rate) = rate else { return FIRST_INTERVAL };
    let time = rate.time_for(USUAL_SIZE * SHARE).unwrap_or(MAX_INTERVAL);
    time.clamp(MIN_INTERVAL, MAX_INTERVAL)
}
