//! The sender's side of the probe protocol, in a thread separate from the sending thread.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use giusto_measure::{ClockEstimate, ErrorHistogram};
use giusto_session::{
    Session,
    keys::MacKey,
    path_mtu::PathMtuFigures,
    probe::{
        Sender, SenderConfig, SenderError, SenderEvent,
        wire::{SenderFigures, StreamToken},
    },
};
use giusto_units::{DataSize, TimeDelta};

use super::{Driver, Link, Resolver, resolve::Question, roam::Roam};
use crate::{Clock, UdpSocket};

/// Maximum time between two checks of the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// An event of one stream.
#[derive(Debug)]
pub struct ConversationEvent {
    /// The index of the stream.
    pub stream: usize,
    /// The event.
    pub event: SenderEvent,
}

/// The control messages of several streams, each over its own connected socket.
#[derive(Debug)]
pub struct Conversation<'a> {
    clock: Clock,
    driver: Driver,
    talks: Vec<Link<'a, Sender>>,
    /// The MTU of each path as the system knew it last.
    mtus: Vec<u64>,
    roams: Vec<Roam>,
}

impl<'a> Conversation<'a> {
    /// Begins to open the streams.
    pub fn new(clock: Clock, streams: impl IntoIterator<Item = (&'a UdpSocket, SenderConfig)>) -> Self {
        const LONGEST: usize = 2048;
        let now = clock.now();
        let talk = |(socket, config)| Link::new(socket, Sender::new(now, config));
        let talks: Vec<_> = streams.into_iter().map(talk).collect();
        let mtus = talks.iter().map(|talk| talk.socket().path_mtu().map_or(u64::MAX, DataSize::as_bytes));
        let (mtus, roams) = (mtus.collect(), vec![Roam::default(); talks.len()]);
        Self { clock, driver: Driver::new(clock, LONGEST), talks, mtus, roams }
    }

    /// Resolves the name of the far end again while this is silent; where it has moved, the streams follow.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Option<Resolver>) -> Self {
        let question = resolver.map(Question::new);
        self.roams.fill(Roam::asking(question));
        self
    }

    /// Exchanges messages until every stream is accepted; returns their tokens.
    ///
    /// # Errors
    ///
    /// The error of the first stream that is not accepted; `None` if `stop` was set before.
    pub fn open(&mut self, stop: &AtomicBool) -> Result<Vec<StreamToken>, Option<SenderError>> {
        let mut tokens = vec![None; self.talks.len()];
        while !stop.load(Ordering::Relaxed) {
            for ConversationEvent { stream, event } in self.turn() {
                match event {
                    SenderEvent::Accepted(token) => {
                        if let Some(place) = tokens.get_mut(stream) {
                            *place = Some(token);
                        }
                    }
                    SenderEvent::Ended(Err(error)) => return Err(Some(error)),
                    _ => {}
                }
            }
            if let Some(tokens) = tokens.iter().copied().collect() {
                return Ok(tokens);
            }
            self.wait();
        }
        Err(None)
    }

    /// Exchanges messages while another thread sends, until `done` is set.
    ///
    /// `on_turn` is called with every event, and several times per second without one.
    pub fn accompany(&mut self, done: &AtomicBool, mut on_turn: impl FnMut(Option<ConversationEvent>)) {
        while !done.load(Ordering::Relaxed) {
            self.turn().into_iter().map(Some).for_each(&mut on_turn);
            on_turn(None);
            self.wait();
        }
    }

    /// Sends the sender's statistics to each receiver, and waits for the final reports until the timeout.
    pub fn finish(
        &mut self,
        figures: impl IntoIterator<Item = SenderFigures>,
        mut on_event: impl FnMut(ConversationEvent),
    ) {
        let now = self.clock.now();
        for (talk, figures) in self.talks.iter_mut().zip(figures) {
            talk.session.finish(now, figures);
        }
        loop {
            self.turn().into_iter().for_each(&mut on_event);
            if self.talks.iter().all(|talk| talk.session.poll_timeout().is_none()) {
                return;
            }
            self.wait();
        }
    }

    /// Exchanges messages until the MTU of each path is known, as far as it is looked for; not for long where nothing comes back.
    pub fn find_path_mtu(&mut self, stop: &AtomicBool, mut on_event: impl FnMut(ConversationEvent)) {
        const PATIENCE: TimeDelta = TimeDelta::from_seconds(10);
        let end = self.clock.now() + PATIENCE;
        let is_known =
            |talk: &Link<'_, Sender>| talk.session.path_mtu().is_none_or(|found| found.is_complete);
        while !self.talks.iter().all(is_known) && !stop.load(Ordering::Relaxed) && self.clock.now() < end {
            self.turn().into_iter().for_each(&mut on_event);
            self.wait();
        }
    }

    /// What was found of the MTU of the path of one stream; `None` where it is not looked for.
    pub fn path_mtu(&self, stream: usize) -> Option<PathMtuFigures> {
        self.talks.get(stream).and_then(|talk| talk.session.path_mtu())
    }

    /// The key that authenticates the datagrams of one stream, once it is accepted; `None` without keys.
    pub fn data_key(&self, stream: usize) -> Option<MacKey> {
        self.talks.get(stream).and_then(|talk| talk.session.data_key().cloned())
    }

    /// The estimate of the receiver's clock, of one stream.
    pub fn clock_estimate(&self, stream: usize) -> Option<ClockEstimate> {
        self.talks.get(stream).and_then(|talk| talk.session.clock_estimate())
    }

    /// The round-trip times of one stream.
    pub fn rtts(&self, stream: usize) -> ErrorHistogram {
        self.talks.get(stream).map_or_else(ErrorHistogram::new, |talk| talk.session.rtts().clone())
    }

    /// Reads messages, sends those that are due, returns the events.
    fn turn(&mut self) -> Vec<ConversationEvent> {
        let mut events = Vec::new();
        for (stream, talk) in self.talks.iter_mut().enumerate() {
            // Socket errors appear as silence of the receiver.
            let _ = self.driver.turn(talk);
            talk.socket().take_sample(self.clock);
            if let Some(roam) = self.roams.get_mut(stream) {
                let now = self.clock.now();
                if roam.look(now, talk.socket(), talk.session.silence(now)) {
                    talk.session.on_moved();
                }
            }
            // What routers report, the system has checked to be about a datagram of this socket.
            if let Some(before) = self.mtus.get_mut(stream).filter(|_| talk.session.path_mtu().is_some())
                && let Some(mtu) = talk.socket().path_mtu().map(DataSize::as_bytes)
                && std::mem::replace(before, mtu) > mtu
            {
                talk.session.handle_packet_too_big(self.clock.now(), mtu);
            }
            while let Some(event) = talk.session.poll_event() {
                events.push(ConversationEvent { stream, event });
            }
        }
        events
    }

    /// Waits for a message or a timeout.
    fn wait(&self) {
        self.driver.wait(&self.talks, LOOK);
    }
}
