//! One end of an adaptive media session as an agent.

use std::collections::VecDeque;

use giusto_session::media::{FrameArrival, MediaEndpoint, MediaEvent, RepairKind};
use giusto_units::{DataSize, Timestamp};

use super::{
    agent::{Agent, Body, Transmit},
    encoded::EncodedEndpoint,
};
use crate::{
    packet::{FlowId, Packet},
    trace::{Note, RepairEvent},
};

/// UDP over IPv4 (RFC 768, RFC 791 §3.1).
pub const UDP_HEADERS: DataSize = DataSize::from_bytes(28);

/// One end of an adaptive media session: the same code, and the same RTP and RTCP bytes, as on a real
/// network.
#[derive(Debug)]
pub struct Media {
    endpoint: EncodedEndpoint,
    /// The flow on which it sends, and the flow of its notes: for a receiver, that of the media.
    flows: (FlowId, FlowId),
    start: Timestamp,
    stop: Option<Timestamp>,
    /// Time from which it makes no more frames.
    close: Option<Timestamp>,
    /// Times at which streams pause or resume, in order.
    pauses: VecDeque<(Timestamp, usize, bool)>,
    /// Times at which the controller is notified of a route change, in order.
    route_changes: VecDeque<Timestamp>,
    /// Received frames, if they are kept.
    arrivals: Option<VecDeque<FrameArrival>>,
}

impl Media {
    /// An endpoint that sends on `flow` from `start` on, with notes for the flow `about`.
    pub fn new(endpoint: EncodedEndpoint, flow: FlowId, about: FlowId, start: Timestamp) -> Self {
        Self {
            endpoint,
            flows: (flow, about),
            start,
            stop: None,
            close: None,
            pauses: VecDeque::new(),
            route_changes: VecDeque::new(),
            arrivals: None,
        }
    }

    /// It sends a BYE at `stop`.
    #[must_use]
    pub fn stopping_at(self, stop: Timestamp) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// It makes no frames from `close` on, and sends those that are queued.
    #[must_use]
    pub fn closing_at(self, close: Timestamp) -> Self {
        Self { close: Some(close), ..self }
    }

    /// Stream number `stream` makes no frames during each of `pauses`.
    #[must_use]
    pub fn pausing(mut self, stream: usize, pauses: &[(Timestamp, Timestamp)]) -> Self {
        let turns = pauses.iter().flat_map(|&(from, to)| [(from, stream, true), (to, stream, false)]);
        self.pauses.extend(turns);
        self.pauses.make_contiguous().sort_by_key(|&(at, ..)| at);
        self
    }

    /// The controller is notified of a route change at each of `times`.
    #[must_use]
    pub fn changing_route(mut self, times: &[Timestamp]) -> Self {
        self.route_changes.extend(times);
        self.route_changes.make_contiguous().sort();
        self
    }

    /// Received frames are kept for [`poll_arrival`](Self::poll_arrival).
    pub fn keep_frames(&mut self) {
        self.arrivals.get_or_insert_default();
    }

    /// The next received frame, with its bytes. It is there when its note was polled.
    pub fn poll_arrival(&mut self) -> Option<FrameArrival> {
        self.arrivals.as_mut()?.pop_front()
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &MediaEndpoint {
        self.endpoint.endpoint()
    }

    /// The route has changed: notifies the controller.
    pub fn on_route_change(&mut self, now: Timestamp) {
        if let Some(sender) = self.endpoint.endpoint_mut().sender_mut() {
            sender.on_route_change(now);
        }
    }

    /// Makes no more frames. What is queued is still sent.
    pub fn close(&mut self) {
        self.close = None;
        self.endpoint.close();
    }

    /// Ends the media now, with a BYE.
    pub fn stop(&mut self, now: Timestamp) {
        (self.stop, self.close) = (None, None);
        self.endpoint.stop(now);
    }
}

impl Agent for Media {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, body: &Body) {
        let Body::Datagram { head, payload } = body else { return };
        if now >= self.start {
            self.endpoint.handle_parts(now, head, payload, packet.ecn);
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if now < self.start {
            return;
        }
        while let Some(&(_, stream, paused)) = self.pauses.front().filter(|&&(at, ..)| at <= now) {
            self.pauses.pop_front();
            self.endpoint.set_paused(now, stream, paused);
        }
        while self.route_changes.front().is_some_and(|&at| at <= now) {
            self.route_changes.pop_front();
            self.on_route_change(now);
        }
        if self.close.is_some_and(|close| now >= close) {
            self.close();
        }
        if self.stop.is_some_and(|stop| now >= stop) {
            self.stop = None;
            self.endpoint.stop(now);
        }
        self.endpoint.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        if now < self.start {
            return None;
        }
        let datagram = self.endpoint.poll_transmit(now)?;
        let bytes = (datagram.size() + UDP_HEADERS).as_bytes() as u32;
        let body = Body::Datagram { head: datagram.head, payload: datagram.payload };
        Some(Transmit { flow: self.flows.0, bytes, ecn: datagram.ecn, body })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        let pause = self.pauses.front().map(|&(at, ..)| at);
        let route = self.route_changes.front().copied();
        let next = Timestamp::earliest([self.endpoint.poll_timeout(), self.stop, self.close, pause, route]);
        next.map(|next| next.max(self.start))
    }

    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        let Some(sender) = self.endpoint.endpoint().sender() else { return };
        let target = sender.target();
        report(self.flows.1, "in_flight_bytes", sender.in_flight().as_bytes() as f64);
        if let Some(window) = target.window {
            report(self.flows.1, "window_bytes", window.as_bytes() as f64);
        }
    }

    fn poll_note(&mut self) -> Option<Note> {
        let flow = self.flows.1;
        loop {
            let event = self.endpoint.poll_event()?;
            let note = note_of(flow, &event);
            if let (MediaEvent::Frame(frame), Some(arrivals)) = (event, &mut self.arrivals) {
                arrivals.push_back(frame);
            }
            if note.is_some() {
                return note;
            }
        }
    }
}

/// The note of an event of the media of `flow`; `None` if the record does not need it.
pub fn note_of(flow: FlowId, event: &MediaEvent) -> Option<Note> {
    let repair = |ssrc, event| Some(Note::Repair { flow, ssrc, event });
    match *event {
        MediaEvent::Decided(decision) => Some(Note::Decided { flow, decision }),
        MediaEvent::Frame(ref frame) => {
            let (ssrc, at, delay, size) = (frame.ssrc, frame.at, frame.delay, frame.payload.size());
            let (repaired, late) = (frame.repaired > 0, frame.late);
            Some(Note::Frame { flow, ssrc, at, delay, size, repaired, late })
        }
        MediaEvent::Queued { ssrc, captured } => Some(Note::Queued { flow, ssrc, captured }),
        MediaEvent::PaddingSent { size, .. } => Some(Note::Padding { flow, size: size + UDP_HEADERS }),
        MediaEvent::Skipped { ssrc, .. } => Some(Note::Skipped { flow, ssrc }),
        MediaEvent::Discarded { ssrc, packets, .. } => Some(Note::Discarded { flow, ssrc, packets }),
        MediaEvent::RepairSent { ssrc, kind, size, .. } => {
            let size = size + UDP_HEADERS;
            let event = match kind {
                RepairKind::Retransmission => RepairEvent::Retransmitted(size),
                _ => RepairEvent::Parity(size),
            };
            repair(ssrc, event)
        }
        MediaEvent::Requested { ssrc, packets, .. } => repair(ssrc, RepairEvent::Requested(packets)),
        MediaEvent::Recovered { ssrc, .. } => repair(ssrc, RepairEvent::Recovered),
        MediaEvent::KeyFrameRequested { ssrc, .. } => repair(ssrc, RepairEvent::KeyFrameRequested),
        _ => None,
    }
}
