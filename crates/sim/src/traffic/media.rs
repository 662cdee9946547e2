//! One end of an adaptive media session, with encoder models.

use std::collections::VecDeque;

use giusto_session::media::{Frame, MediaEndpoint, MediaEvent, Payload};
use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::{
    agent::{Agent, Body, Transmit},
    encoder::MediaSource,
};
use crate::{
    packet::{FlowId, Packet},
    trace::Note,
};

/// UDP over IPv4 (RFC 768, RFC 791 §3.1).
pub const UDP_HEADERS: DataSize = DataSize::from_bytes(28);

/// An encoder whose frame is due and does not come is asked again after this, so that it does not stop the simulation. Ours.
const ASK_AGAIN: TimeDelta = TimeDelta::from_millis(10);

/// A [`MediaEndpoint`] in the simulation: the same code and the same RTP and RTCP bytes as on the wire. Its frames come from
/// encoder models, and are zeros of their size.
#[derive(Debug)]
pub struct Media {
    endpoint: MediaEndpoint,
    /// One for each stream that the endpoint sends.
    encoders: Vec<Encoder>,
    /// The flow that it sends on, and the flow that its notes are about: of a receiver, that of the media.
    flows: (FlowId, FlowId),
    start: Timestamp,
    stop: Option<Timestamp>,
    /// When a stream pauses or continues, in order.
    pauses: VecDeque<(Timestamp, usize, bool)>,
    notes: VecDeque<Note>,
}

#[derive(Debug)]
struct Encoder {
    ssrc: u32,
    source: Box<dyn MediaSource>,
    /// When to ask again for a frame that was due and did not come.
    asks_at: Option<Timestamp>,
}

impl Encoder {
    fn next_frame_at(&self) -> Option<Timestamp> {
        let due = self.source.next_frame_at()?;
        Some(self.asks_at.map_or(due, |again| due.max(again)))
    }
}

impl Media {
    /// An end that sends on `flow` from `start` on, and whose notes are about `about`.
    pub fn new(endpoint: MediaEndpoint, flow: FlowId, about: FlowId, start: Timestamp) -> Self {
        Self {
            endpoint,
            encoders: Vec::new(),
            flows: (flow, about),
            start,
            stop: None,
            pauses: VecDeque::new(),
            notes: VecDeque::new(),
        }
    }

    /// The frames of each stream come from its encoder of `sources`, in the order of the sender's streams.
    #[must_use]
    pub fn encoding(self, sources: Vec<Box<dyn MediaSource>>) -> Self {
        let streams = self.endpoint.sender().into_iter().flat_map(|sender| sender.streams());
        let encoder = |(ssrc, source)| Encoder { ssrc, source, asks_at: None };
        let encoders = streams.map(|stream| stream.ssrc).zip(sources).map(encoder).collect();
        Self { encoders, ..self }
    }

    /// It sends a BYE at `stop`.
    #[must_use]
    pub fn stopping_at(self, stop: Timestamp) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Stream number `stream` makes no frames between the two times of each of `pauses`.
    #[must_use]
    pub fn pausing(mut self, stream: usize, pauses: &[(Timestamp, Timestamp)]) -> Self {
        let turns = pauses.iter().flat_map(|&(from, to)| [(from, stream, true), (to, stream, false)]);
        self.pauses.extend(turns);
        self.pauses.make_contiguous().sort_by_key(|&(at, ..)| at);
        self
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &MediaEndpoint {
        &self.endpoint
    }

    /// Pushes the frames that are due.
    fn encode(&mut self, now: Timestamp) {
        for stream in 0..self.encoders.len() {
            // The sender may discard packets first, and want a key frame for them.
            self.endpoint.wants_frame(now, stream);
            self.take_events(now);
            let Some(encoder) = self.encoders.get_mut(stream) else { return };
            while let Some(frame) = encoder.source.poll_frame(now) {
                if self.endpoint.wants_frame(now, stream) {
                    let payload = Payload::zeros(frame.size);
                    let (captured, media_timestamp, key) = (frame.captured, frame.media_timestamp, frame.key);
                    let frame = Frame { captured, media_timestamp, payload, key };
                    // A model makes no frame that is empty, or larger than a session takes.
                    let _ = self.endpoint.push_frame(now, stream, frame);
                } else {
                    self.endpoint.skip_frame(now, stream);
                    // The key frame is still wanted.
                    if frame.key {
                        encoder.source.request_key_frame(now);
                    }
                }
            }
            let owes = encoder.source.next_frame_at().is_some_and(|due| due <= now);
            encoder.asks_at = owes.then(|| now + ASK_AGAIN);
        }
    }

    /// Events become calls of the encoders, and notes.
    fn take_events(&mut self, now: Timestamp) {
        let flow = self.flows.1;
        while let Some(event) = self.endpoint.poll_event() {
            let note = match event {
                MediaEvent::Target { ssrc, rate, .. } => {
                    if let Some(encoder) = self.encoder(ssrc) {
                        encoder.source.set_target(now, rate);
                    }
                    continue;
                }
                MediaEvent::KeyFrameWanted { ssrc, .. } => {
                    if let Some(encoder) = self.encoder(ssrc) {
                        encoder.source.request_key_frame(now);
                    }
                    continue;
                }
                MediaEvent::Decided(decision) => Note::Decided { flow, decision },
                MediaEvent::Frame(frame) => {
                    Note::Frame { flow, ssrc: frame.ssrc, delay: frame.delay, size: frame.payload.size() }
                }
                MediaEvent::Skipped { ssrc, .. } => Note::Skipped { flow, ssrc },
                MediaEvent::Discarded { ssrc, packets, .. } => Note::Discarded { flow, ssrc, packets },
                _ => continue,
            };
            self.notes.push_back(note);
        }
    }

    fn encoder(&mut self, ssrc: u32) -> Option<&mut Encoder> {
        self.encoders.iter_mut().find(|encoder| encoder.ssrc == ssrc)
    }
}

impl Agent for Media {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, body: &Body) {
        let Body::Datagram { head, payload } = body else { return };
        if now >= self.start {
            self.endpoint.handle_parts(now, head, payload, packet.ecn);
            self.take_events(now);
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if now < self.start {
            return;
        }
        while let Some(&(_, stream, paused)) = self.pauses.front().filter(|&&(at, ..)| at <= now) {
            self.pauses.pop_front();
            if let Some(encoder) = self.encoders.get_mut(stream) {
                encoder.source.set_paused(now, paused);
                encoder.asks_at = None;
            }
            self.endpoint.set_paused(now, stream, paused);
            self.take_events(now);
        }
        if self.stop.is_some_and(|stop| now >= stop) {
            self.stop = None;
            self.encoders.clear();
            self.endpoint.stop(now);
        }
        self.encode(now);
        self.endpoint.handle_timeout(now);
        self.take_events(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        if now < self.start {
            return None;
        }
        let datagram = self.endpoint.poll_transmit(now)?;
        self.take_events(now);
        let bytes = (datagram.size() + UDP_HEADERS).as_bytes() as u32;
        let body = Body::Datagram { head: datagram.head, payload: datagram.payload };
        Some(Transmit { flow: self.flows.0, bytes, ecn: datagram.ecn, body })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        let pause = self.pauses.front().map(|&(at, ..)| at);
        let frame = self.encoders.iter().filter_map(Encoder::next_frame_at).min();
        let next = [self.endpoint.poll_timeout(), frame, self.stop, pause].into_iter().flatten().min();
        next.map(|next| next.max(self.start))
    }

    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        let Some(sender) = self.endpoint.sender() else { return };
        let target = sender.target();
        report(self.flows.1, "in_flight_bytes", sender.in_flight().as_bytes() as f64);
        if let Some(window) = target.window {
            report(self.flows.1, "window_bytes", window.as_bytes() as f64);
        }
    }

    fn poll_note(&mut self) -> Option<Note> {
        self.notes.pop_front()
    }
}
