//! An endpoint of a media session with encoder models as sources of frames.

use std::collections::VecDeque;

use giusto_session::media::{Datagram, MediaEndpoint, MediaEvent, Payload};
use giusto_units::{Ecn, TimeDelta, Timestamp};

use super::encoder::MediaSource;

/// Delay before an encoder is polled again if its frame was due but not returned, so that the simulation does
/// not stop. Chosen by us.
const ASK_AGAIN: TimeDelta = TimeDelta::from_millis(10);

/// A [`MediaEndpoint`] with an encoder for each stream that it sends. Frames of models consist of zeros.
///
/// The methods are those of the endpoint. Events for the encoders are handled internally.
#[derive(Debug)]
pub struct EncodedEndpoint {
    endpoint: MediaEndpoint,
    encoders: Vec<Encoder>,
    events: VecDeque<MediaEvent>,
}

#[derive(Debug)]
struct Encoder {
    source: Box<dyn MediaSource>,
    /// Time at which to poll again for a frame that was due but not returned.
    asks_at: Option<Timestamp>,
}

impl Encoder {
    fn next_frame_at(&self) -> Option<Timestamp> {
        let due = self.source.next_frame_at()?;
        Some(self.asks_at.map_or(due, |again| due.max(again)))
    }
}

impl EncodedEndpoint {
    /// An endpoint whose streams get their frames from `sources`, in the order of the sender's streams.
    pub fn new(endpoint: MediaEndpoint, sources: Vec<Box<dyn MediaSource>>) -> Self {
        let encoders = sources.into_iter().map(|source| Encoder { source, asks_at: None }).collect();
        Self { endpoint, encoders, events: VecDeque::new() }
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &MediaEndpoint {
        &self.endpoint
    }

    /// The endpoint. Changes made to it reach the encoders with the next call here.
    pub fn endpoint_mut(&mut self) -> &mut MediaEndpoint {
        &mut self.endpoint
    }

    /// Handles a received datagram.
    pub fn handle_datagram(&mut self, now: Timestamp, datagram: &Datagram, ecn: Ecn) {
        self.handle_parts(now, &datagram.head, &datagram.payload, ecn);
    }

    /// Handles the bytes of a datagram: see [`MediaEndpoint::handle_parts`].
    pub fn handle_parts(&mut self, now: Timestamp, head: &[u8], payload: &Payload, ecn: Ecn) {
        self.endpoint.handle_parts(now, head, payload, ecn);
        self.take_events(now);
    }

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout): encodes the frames that are due.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        self.encode(now);
        self.endpoint.handle_timeout(now);
        self.take_events(now);
    }

    /// Pauses or resumes the encoder of the stream with this index.
    pub fn set_paused(&mut self, now: Timestamp, stream: usize, paused: bool) {
        if let Some(encoder) = self.encoders.get_mut(stream) {
            encoder.source.set_paused(now, paused);
            encoder.asks_at = None;
        }
        self.endpoint.set_paused(now, stream, paused);
        self.take_events(now);
    }

    /// Encodes no more frames. What is queued is still sent.
    pub(super) fn close(&mut self) {
        self.encoders.clear();
        if let Some(sender) = self.endpoint.sender_mut() {
            sender.close();
        }
    }

    /// Ends the media with a BYE.
    pub fn stop(&mut self, now: Timestamp) {
        self.encoders.clear();
        self.endpoint.stop(now);
        self.take_events(now);
    }

    /// The next datagram to send at once, if any.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        let datagram = self.endpoint.poll_transmit(now)?;
        self.take_events(now);
        Some(datagram)
    }

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let frame = self.encoders.iter().filter_map(Encoder::next_frame_at).min();
        Timestamp::earliest([self.endpoint.poll_timeout(), frame])
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        self.events.pop_front()
    }

    /// Pushes the frames that are due.
    fn encode(&mut self, now: Timestamp) {
        for stream in 0..self.encoders.len() {
            let Some(encoder) = self.encoders.get_mut(stream) else { return };
            if encoder.source.next_frame_at().is_none_or(|due| due > now) {
                encoder.asks_at = None;
                continue;
            }
            // The sender may discard packets first, and request a key frame.
            self.endpoint.wants_frame(now, stream);
            self.take_events(now);
            let Some(encoder) = self.encoders.get_mut(stream) else { return };
            while let Some(frame) = encoder.source.poll_frame(now) {
                if self.endpoint.wants_frame(now, stream) {
                    // A model makes no empty frame, and none above the maximum size of a session.
                    let _ = self.endpoint.push_frame(now, stream, frame);
                } else {
                    self.endpoint.skip_frame(now, stream);
                    encoder.source.on_skipped(now, &frame);
                }
            }
            let owes = encoder.source.next_frame_at().is_some_and(|due| due <= now);
            encoder.asks_at = owes.then(|| now + ASK_AGAIN);
        }
    }

    /// Passes the sender's events to the encoders; stores the other events.
    fn take_events(&mut self, now: Timestamp) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                MediaEvent::Target { stream, rate, .. } => {
                    if let Some(encoder) = self.encoders.get_mut(stream) {
                        encoder.source.set_target(now, rate);
                    }
                }
                MediaEvent::KeyFrameWanted { stream, .. } => {
                    if let Some(encoder) = self.encoders.get_mut(stream) {
                        encoder.source.request_key_frame(now);
                    }
                }
                event => self.events.push_back(event),
            }
        }
    }
}
