//! Controls the video of a str0m connection by a controller of `giusto-congestion`: the part to copy.
//!
//! The connection is built with `enable_raw_packets(true)` and without `enable_bwe`. str0m then sends every packet at once, and numbers it
//! for transport-wide feedback as negotiated. Pass each datagram that it transmits to [`RateControl::on_transmit`] and each
//! [`RawPacket`] to [`RateControl::on_raw_packet`]; once str0m has only a timeout left, send what [`RateControl::poll_transmit`] returns.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use giusto_congestion::{
    Algorithm, Controller, FeedbackKind, History, Limits, OutgoingPacket, QueueState, Reported,
};
use giusto_pace::media::{Pacer, PacerConfig, Permit, Probe, Resume};
use giusto_rtp::rtcp::{ArrivalTicks, Packet, TransportFeedback};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use str0m::rtp::{
    RawPacket,
    rtcp::{Rtcp, Twcc},
};

/// IPv4 and UDP.
pub(crate) const HEADERS: usize = 28;
/// Least burst of the pacer: with [`Resume::Room`], timers that are late by so much do not lower the rate.
const LATENESS: TimeDelta = TimeDelta::from_millis(5);

/// A datagram that waits for the pacer.
struct Waiting {
    datagram: Vec<u8>,
    transport_sequence: Option<u16>,
    since: Timestamp,
}

impl Waiting {
    fn size(&self) -> DataSize {
        DataSize::from_bytes((self.datagram.len() + HEADERS) as u64)
    }
}

/// Controller, packet history and pacer behind a str0m connection.
pub(crate) struct RateControl {
    controller: Box<dyn Controller>,
    history: History,
    pacer: Pacer,
    queue: VecDeque<Waiting>,
    /// How many of the last packets in the queue str0m has not yet reported.
    unnumbered: usize,
    /// Whether there was a packet: the controller's time begins with the first.
    has_started: bool,
    /// An instant that stands for the receiver's clock at zero.
    origin: Instant,
}

impl RateControl {
    /// # Errors
    ///
    /// The controller needs other feedback than str0m's.
    pub(crate) fn new(algorithm: Algorithm, limits: Limits, origin: Instant) -> Result<Self, String> {
        if !algorithm.requirements().accepts(FeedbackKind::TransportWide) {
            return Err(format!("{algorithm} needs other feedback than transport-wide feedback"));
        }
        let controller = algorithm.build(limits);
        let burst = controller.requirements().pacer.burst.max(LATENESS);
        let config = PacerConfig::libwebrtc().with_burst(burst).with_resume(Resume::Room);
        let pacer = Pacer::new(config, controller.target().pacing);
        let (history, queue) = (History::new(), VecDeque::new());
        Ok(Self { controller, history, pacer, queue, unnumbered: 0, has_started: false, origin })
    }

    /// The rate of the media, headers included.
    pub(crate) fn target(&self) -> DataRate {
        self.controller.target().media
    }

    /// What the receiver has reported so far.
    pub(crate) fn reported(&self) -> Reported {
        self.history.reported()
    }

    /// Handles a datagram that str0m transmits. Media wait for the pacer; all else is returned and leaves at once.
    pub(crate) fn on_transmit(&mut self, now: Timestamp, datagram: Vec<u8>) -> Option<Vec<u8>> {
        // RFC 7983 and RFC 5761: RTP and RTCP begin with 128 to 191, and the second octet of RTCP is 192 to 223.
        let is_rtp = matches!(*datagram, [128..=191, second, ..] if !(192..=223).contains(&second));
        if !is_rtp {
            return Some(datagram);
        }
        if !self.has_started {
            self.has_started = true;
            self.controller.on_timeout(now, &QueueState::default());
            self.follow(now);
        }
        self.queue.push_back(Waiting { datagram, transport_sequence: None, since: now });
        self.unnumbered += 1;
        None
    }

    /// Handles an event of str0m about a packet: RTP that it just transmitted, or RTCP that it received.
    pub(crate) fn on_raw_packet(&mut self, now: Timestamp, packet: &RawPacket) {
        match packet {
            RawPacket::RtpTx(header, _) => {
                // One event a packet, in their order.
                let place = self.queue.len().saturating_sub(self.unnumbered);
                if let Some(waiting) = self.queue.get_mut(place) {
                    waiting.transport_sequence = header.ext_vals.transport_cc;
                    self.unnumbered -= 1;
                }
            }
            RawPacket::RtcpRx(Rtcp::Twcc(twcc)) => {
                let message = Packet::TransportFeedback(transport_feedback(twcc, self.origin));
                if let Some(feedback) = self.history.on_packets(now, &[message]) {
                    self.controller.on_feedback(now, &feedback);
                }
                self.pacer.on_in_flight(self.history.in_flight());
                self.follow(now);
            }
            _ => {}
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        if self.has_started && self.controller.next_timeout().is_some_and(|due| due <= now) {
            let size = self.queue.iter().fold(DataSize::ZERO, |sum, waiting| sum + waiting.size());
            self.controller.on_timeout(now, &QueueState::new(size, self.queue_age(now)));
            self.follow(now);
        }
    }

    /// When there is something to send, or `handle_timeout` is to be called.
    pub(crate) fn next_timeout(&self, now: Timestamp) -> Option<Timestamp> {
        let paced = self.queue.front().and_then(|waiting| match self.pacer.next_send(now, waiting.size()) {
            Permit::Now => Some(now),
            Permit::At(at) => Some(at),
            Permit::Blocked => None,
        });
        Timestamp::earliest([paced, self.controller.next_timeout().filter(|_| self.has_started)])
    }

    /// The next datagram, if it may leave now.
    pub(crate) fn poll_transmit(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        let size = self.queue.front()?.size();
        if self.pacer.next_send(now, size) != Permit::Now {
            return None;
        }
        let waiting = self.queue.pop_front()?;
        self.unnumbered = self.unnumbered.min(self.queue.len());
        let probe = self.pacer.on_sent(now, size);
        let packet =
            OutgoingPacket::new(size).with_transport_sequence(waiting.transport_sequence).with_probe(probe);
        self.controller.on_sent(now, &self.history.on_sent(now, packet));
        Some(waiting.datagram)
    }

    /// How long the oldest packet has waited for the pacer.
    pub(crate) fn queue_age(&self, now: Timestamp) -> TimeDelta {
        self.queue.front().map_or(TimeDelta::ZERO, |waiting| now - waiting.since)
    }

    fn follow(&mut self, now: Timestamp) {
        let target = self.controller.target();
        self.pacer.on_target(now, target.pacing, target.window);
        // From outside str0m there is no padding: a probe has the packets that wait, and ends without a result if they are few.
        while let Some(probe) = self.controller.next_probe() {
            let (rate, duration, packets) = (probe.rate, probe.duration, probe.packets);
            self.pacer.on_probe(now, Probe::new(probe.cluster, rate, duration, packets, probe.batch));
        }
    }
}

/// The same message as a type of `giusto-rtp`: str0m does not give the bytes of what it decrypted.
fn transport_feedback(twcc: &Twcc, origin: Instant) -> TransportFeedback {
    let reference = origin + Duration::from_millis(64 * u64::from(twcc.reference_time));
    let ticks = |arrival: Instant| {
        let after = arrival.saturating_duration_since(reference).as_micros() as i64;
        let before = reference.saturating_duration_since(arrival).as_micros() as i64;
        ArrivalTicks::new(((after - before) / 250) as i32)
    };
    let first = u64::from(twcc.base_seq);
    TransportFeedback {
        sender_ssrc: *twcc.sender_ssrc,
        media_ssrc: *twcc.ssrc,
        base_sequence: twcc.base_seq,
        // 24 bits, signed.
        reference_time: (twcc.reference_time << 8) as i32 >> 8,
        feedback_count: twcc.feedback_count,
        packets: twcc
            .clone()
            .into_iter(origin, first.into())
            .map(|(_, _, arrival)| arrival.map(ticks))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant")]
    fn feedback_that_str0m_parses_is_that_which_was_written() {
        let origin = Instant::now();
        // Runs, losses, arrivals out of order and steps of seconds, over the wrap of sequence numbers.
        let ticks: [&[Option<i32>]; 4] = [
            &[Some(0)],
            &[Some(3), None, None, Some(40), Some(38), Some(900), None, Some(12_000)],
            &[Some(-20), Some(-300), None, Some(-1)],
            &[Some(255); 300],
        ];
        for (base_sequence, reference_time) in [(0, 0), (32_769, 5), (65_535, 0x7f_ffff), (65_530, -3)] {
            for ticks in ticks {
                let written = TransportFeedback {
                    sender_ssrc: 1,
                    media_ssrc: 0xffff_ffff,
                    base_sequence,
                    reference_time,
                    feedback_count: 255,
                    packets: ticks.iter().map(|ticks| ticks.map(ArrivalTicks::new)).collect(),
                };
                let mut bytes = Vec::new();
                written.write(&mut bytes).unwrap();
                let parsed = Twcc::try_from(&bytes[4..]).unwrap();
                assert_eq!(transport_feedback(&parsed, origin), written);
            }
        }
    }
}
