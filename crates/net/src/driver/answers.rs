//! The answers to a STAMP sender, in a thread separate from the sending thread.

use std::{io, time::Duration};

use giusto_session::stamp::Answers;

use super::ReceiveError;
use crate::{Clock, ReceiveBatch, StampConverter, UdpSocket, Wait, is_passing};

/// Hands the answers on one connected socket to their [`Answers`].
#[derive(Debug)]
pub struct AnswerDriver<'a> {
    socket: &'a UdpSocket,
    clock: Clock,
    stamps: StampConverter,
    batch: ReceiveBatch,
    unreachable: u64,
}

impl<'a> AnswerDriver<'a> {
    /// A driver for a connected socket.
    pub fn new(socket: &'a UdpSocket, clock: Clock) -> Self {
        const MESSAGES: usize = 32;
        const MESSAGE_BYTES: usize = 65_535;
        Self {
            socket,
            clock,
            stamps: StampConverter::new(clock),
            batch: ReceiveBatch::new(MESSAGES, MESSAGE_BYTES),
            unreachable: 0,
        }
    }

    /// Waits for answers, at most for `wait`, and hands over those that are there.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`] if the socket fails. What [is passing](is_passing) is no error; answers "port unreachable" are counted.
    pub fn turn(&mut self, answers: &mut Answers, wait: Duration) -> Result<(), ReceiveError> {
        match self.socket.recv_batch(&mut self.batch, Wait::For(wait)) {
            Ok(_) => {}
            Err(error) if is_passing(&error) => {
                self.unreachable += u64::from(error.kind() == io::ErrorKind::ConnectionRefused);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
        let now = self.clock.now();
        self.stamps.refresh(now);
        for received in self.batch.iter() {
            let at = received.stamp.map_or(now, |stamp| self.stamps.convert(stamp, now));
            for datagram in received.datagrams() {
                answers.on_datagram(at, datagram);
            }
        }
        Ok(())
    }

    /// Hands over the answers that have arrived, all of them, and returns how many messages the socket has dropped until now.
    ///
    /// # Errors
    ///
    /// As [`turn`](Self::turn).
    pub fn drain(&mut self, answers: &mut Answers) -> Result<u64, ReceiveError> {
        /// More than a receive buffer of 4 MB holds: a far end that sends without end does not hold the caller.
        const MAX_BATCHES: usize = 512;
        for _ in 0..MAX_BATCHES {
            self.turn(answers, Duration::ZERO)?;
            if self.batch.is_empty() {
                break;
            }
        }
        Ok(self.socket.dropped_messages().unwrap_or(0).into())
    }

    /// Answers "port unreachable" of the far host.
    pub fn unreachable(&self) -> u64 {
        self.unreachable + self.socket.send_counters().unreachable
    }

    /// How often the system's clock was set since the start: after that, times of day from before and after do not compare.
    pub fn clock_steps(&self) -> u32 {
        self.stamps.steps()
    }
}
