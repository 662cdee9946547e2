//! The sender's side of the probe protocol, in a thread separate from the sending thread.

use std::{
    io,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use giusto_measure::{ClockEstimate, ErrorHistogram};
use giusto_session::{
    keys::MacKey,
    probe::{
        Sender, SenderConfig, SenderError, SenderEvent,
        wire::{SenderFigures, StreamToken},
    },
};
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};

use crate::{Clock, ReceiveBatch, StampConverter, UdpSocket, Wait};

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

#[derive(Debug)]
struct Talk<'a> {
    socket: &'a UdpSocket,
    sender: Sender,
    /// Number of "port unreachable" answers of the host that were reported to the sender.
    unreachable: u64,
    over: bool,
}

/// The control messages of several streams, each over its own connected socket.
#[derive(Debug)]
pub struct Conversation<'a> {
    clock: Clock,
    stamps: StampConverter,
    talks: Vec<Talk<'a>>,
    batch: ReceiveBatch,
}

impl<'a> Conversation<'a> {
    /// Begins to open the streams.
    pub fn new(clock: Clock, streams: impl IntoIterator<Item = (&'a UdpSocket, SenderConfig)>) -> Self {
        const MESSAGES: usize = 8;
        const MESSAGE_BYTES: usize = 2048;
        let now = clock.now();
        let talk =
            |(socket, config)| Talk { socket, sender: Sender::new(now, config), unreachable: 0, over: false };
        Self {
            clock,
            stamps: StampConverter::new(clock),
            talks: streams.into_iter().map(talk).collect(),
            batch: ReceiveBatch::new(MESSAGES, MESSAGE_BYTES),
        }
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
            talk.sender.finish(now, figures);
        }
        loop {
            self.turn().into_iter().for_each(&mut on_event);
            if self.talks.iter().all(|talk| talk.over) {
                return;
            }
            self.wait();
        }
    }

    /// The key that authenticates the datagrams of one stream, once it is accepted; `None` without keys.
    pub fn data_key(&self, stream: usize) -> Option<MacKey> {
        self.talks.get(stream).and_then(|talk| talk.sender.data_key().cloned())
    }

    /// The estimate of the receiver's clock, of one stream.
    pub fn clock_estimate(&self, stream: usize) -> Option<ClockEstimate> {
        self.talks.get(stream).and_then(|talk| talk.sender.clock_estimate())
    }

    /// The round-trip times of one stream.
    pub fn round_trips(&self, stream: usize) -> ErrorHistogram {
        self.talks.get(stream).map_or_else(ErrorHistogram::new, |talk| talk.sender.round_trips().clone())
    }

    /// Reads messages, sends those that are due, returns the events.
    fn turn(&mut self) -> Vec<ConversationEvent> {
        let mut events = Vec::new();
        for (stream, talk) in self.talks.iter_mut().enumerate() {
            if talk.over {
                continue;
            }
            match talk.socket.recv_batch(&mut self.batch, Wait::Never) {
                Ok(_) => {
                    let now = self.clock.now();
                    self.stamps.refresh(now);
                    for received in self.batch.iter() {
                        let at = received.stamp.map_or(now, |stamp| self.stamps.convert(stamp, now));
                        for datagram in received.datagrams() {
                            talk.sender.handle_datagram(now, datagram, at);
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    talk.sender.handle_unreachable(self.clock.now());
                }
                // Other socket errors appear as silence of the receiver.
                Err(_) => {}
            }
            if talk.sender.next_timeout().is_some_and(|at| at <= self.clock.now()) {
                talk.sender.handle_timeout(self.clock.now());
            }
            while let Some(bytes) = talk.sender.poll_transmit(self.clock.now()) {
                // Errors appear in the counters, or as silence.
                let _ = talk.socket.send(&bytes);
            }
            // The system reports it to the next send, which may be in the other thread.
            let unreachable = talk.socket.send_counters().unreachable;
            if std::mem::replace(&mut talk.unreachable, unreachable) != unreachable {
                talk.sender.handle_unreachable(self.clock.now());
            }
            while let Some(event) = talk.sender.poll_event() {
                talk.over |= matches!(event, SenderEvent::Ended(_));
                events.push(ConversationEvent { stream, event });
            }
        }
        events
    }

    /// Waits for a message or a timeout.
    fn wait(&self) {
        let now = self.clock.now();
        let due = self.talks.iter().filter_map(|talk| talk.sender.next_timeout()).min();
        let wait = due.map_or(LOOK, |at| at.saturating_since(now).to_std().min(LOOK));
        let wanted = self.talks.iter().filter(|talk| !talk.over);
        let mut wanted: Vec<_> =
            wanted.map(|talk| PollFd::new(talk.socket.as_fd(), PollFlags::POLLIN)).collect();
        // An interruption of the wait is handled in the next turn.
        let _ = ppoll(&mut wanted, Some(TimeSpec::from_duration(wait)), None);
    }
}
