//! The thread that speaks with the receivers while another one sends.

use std::{
    io,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use giusto_measure::{ClockEstimate, ErrorHistogram};
use giusto_session::probe::{
    Sender, SenderConfig, SenderError, SenderEvent,
    wire::{SenderFigures, StreamToken},
};
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};

use crate::{Clock, ReceiveBatch, StampConverter, UdpSocket, Wait};

/// The longest time for which a conversation does not look whether to stop.
const LOOK: Duration = Duration::from_millis(100);

/// What happened to the stream of an index.
#[derive(Debug)]
pub struct ConversationEvent {
    /// The stream's place among those that the conversation began with.
    pub stream: usize,
    /// What happened.
    pub event: SenderEvent,
}

#[derive(Debug)]
struct Talk<'a> {
    socket: &'a UdpSocket,
    sender: Sender,
    /// How often the host has answered that nobody listens, as far as the sender was told.
    unreachable: u64,
    over: bool,
}

/// The conversations about several streams, each over its own connected socket.
#[derive(Debug)]
pub struct Conversation<'a> {
    clock: Clock,
    stamps: StampConverter,
    talks: Vec<Talk<'a>>,
    batch: ReceiveBatch,
}

impl<'a> Conversation<'a> {
    /// Conversations that begin now.
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

    /// Speaks until every stream is accepted; gives their tokens.
    ///
    /// # Errors
    ///
    /// That of the first stream that is not accepted; `None` where `stop` was set before.
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

    /// Speaks while another thread sends, until `done` is set.
    ///
    /// `on_turn` gets what happened, and is called some times a second without anything.
    pub fn accompany(&mut self, done: &AtomicBool, mut on_turn: impl FnMut(Option<ConversationEvent>)) {
        while !done.load(Ordering::Relaxed) {
            self.turn().into_iter().map(Some).for_each(&mut on_turn);
            on_turn(None);
            self.wait();
        }
    }

    /// Tells each receiver what was sent, and speaks until all final reports are here or have been waited for long enough.
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

    /// What was found of the clocks of one stream.
    pub fn clock_estimate(&self, stream: usize) -> Option<ClockEstimate> {
        self.talks.get(stream).and_then(|talk| talk.sender.clock_estimate())
    }

    /// The round trips of one stream's clock questions.
    pub fn round_trips(&self, stream: usize) -> ErrorHistogram {
        self.talks.get(stream).map_or_else(ErrorHistogram::new, |talk| talk.sender.round_trips().clone())
    }

    /// Takes what has come, says what is due; gives what happened.
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
                // Whatever else hinders the socket shows as silence of the receiver.
                Err(_) => {}
            }
            if talk.sender.next_timeout().is_some_and(|at| at <= self.clock.now()) {
                talk.sender.handle_timeout(self.clock.now());
            }
            while let Some(bytes) = talk.sender.poll_transmit(self.clock.now()) {
                // What hinders it shows in the counters, or as silence.
                let _ = talk.socket.send(&bytes);
            }
            // The system tells whoever sends next, which may be the other thread.
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

    /// Waits until something comes or is due.
    fn wait(&self) {
        let now = self.clock.now();
        let due = self.talks.iter().filter_map(|talk| talk.sender.next_timeout()).min();
        let wait = due.map_or(LOOK, |at| at.saturating_since(now).to_std().min(LOOK));
        let wanted = self.talks.iter().filter(|talk| !talk.over);
        let mut wanted: Vec<_> =
            wanted.map(|talk| PollFd::new(talk.socket.as_fd(), PollFlags::POLLIN)).collect();
        // What interrupts the wait is looked at in the next turn.
        let _ = ppoll(&mut wanted, Some(TimeSpec::from_duration(wait)), None);
    }
}
