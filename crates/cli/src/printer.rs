//! Output from a thread of its own: an unread pipe or a stopped terminal does not block the receiver.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use giusto_net::Clock;
use giusto_units::TimeDelta;

use crate::console::{Progress, print_live};

/// Pieces of output that wait at most.
const QUEUE: usize = 1024;

/// Maximum wait at the end for output that is not read, once the user has asked to stop.
const MAX_WAIT: TimeDelta = TimeDelta::from_seconds(2);

enum Piece {
    /// To standard output.
    Text(String),
    /// A line on standard error.
    Note(String),
    /// The progress line.
    Live(String),
}

/// Prints from a thread of its own. What does not fit in its queue is dropped and counted.
pub(crate) struct Printer {
    queue: Option<SyncSender<Piece>>,
    thread: JoinHandle<anyhow::Result<()>>,
    /// Disconnected when the thread ends.
    ended: mpsc::Receiver<()>,
    written: Arc<AtomicU64>,
    closed: Arc<AtomicBool>,
    queued: u64,
    dropped_results: u64,
    dropped_notes: u64,
}

impl Printer {
    /// A printer with the progress line of `progress`.
    ///
    /// # Errors
    ///
    /// Where the system gives no thread.
    pub(crate) fn start(progress: Progress) -> io::Result<Self> {
        let (queue, pieces) = mpsc::sync_channel(QUEUE);
        let written = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&written);
        let (ends, ended) = mpsc::sync_channel(0);
        let closed = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&closed);
        let thread = thread::Builder::new().name("output".to_owned()).spawn(move || {
            let _ends = ends;
            let mut outcome = Ok(());
            for piece in pieces {
                match piece {
                    // After the first error the program ends, and reports it: nothing that follows can be kept.
                    Piece::Text(text) if outcome.is_ok() => {
                        let read = print_live(&text);
                        gone.fetch_or(!matches!(read, Ok(true)), Ordering::Relaxed);
                        outcome = read.map(drop);
                    }
                    Piece::Text(_) => {}
                    Piece::Note(line) => progress.note(&line),
                    Piece::Live(line) => progress.say(line),
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
            progress.clear();
            outcome
        })?;
        Ok(Self {
            queue: Some(queue),
            thread,
            ended,
            written,
            closed,
            queued: 0,
            dropped_results: 0,
            dropped_notes: 0,
        })
    }

    /// Whether the reader of standard output has closed it, or it cannot be written.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Prints a result on standard output.
    pub(crate) fn result(&mut self, text: String) {
        self.dropped_results += u64::from(!self.put(Piece::Text(text)));
    }

    /// Prints a line on standard error.
    pub(crate) fn note(&mut self, line: String) {
        self.dropped_notes += u64::from(!self.put(Piece::Note(line)));
    }

    /// Shows the progress, unless something else waits to be printed.
    pub(crate) fn live(&mut self, line: String) {
        if self.queued == self.written.load(Ordering::Relaxed) {
            self.put(Piece::Live(line));
        }
    }

    /// Waits until all is printed, and says how much did not fit. Once `stop` is set it waits only while something is read.
    ///
    /// # Errors
    ///
    /// Where standard output cannot be written, or is not read.
    pub(crate) fn finish(mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        const LOOK: Duration = Duration::from_millis(50);
        self.queue = None;
        let clock = Clock::start();
        let mut last = (self.written.load(Ordering::Relaxed), clock.now());
        while self.ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let (written, now) = (self.written.load(Ordering::Relaxed), clock.now());
            if written != last.0 || !stop.load(Ordering::Relaxed) {
                last = (written, now);
            } else if now - last.1 > MAX_WAIT {
                let left = self.queued - written + self.dropped_results + self.dropped_notes;
                anyhow::bail!("standard output is not read: {left} results and notes were not printed");
            }
        }
        let outcome = self.thread.join();
        for (dropped, what) in [(self.dropped_results, "results"), (self.dropped_notes, "notes")] {
            if dropped > 0 {
                // Standard error may be what is not read, but nothing waits for it any more.
                let _ = writeln!(
                    io::stderr(),
                    "warning: {dropped} {what} were not printed, because the output was not read in time"
                );
            }
        }
        match outcome {
            Ok(outcome) => outcome,
            Err(_) => anyhow::bail!("the output thread failed; please report this"),
        }
    }

    fn put(&mut self, piece: Piece) -> bool {
        let taken = match self.queue.as_ref().map(|queue| queue.try_send(piece)) {
            Some(Ok(())) => true,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => false,
        };
        self.queued += u64::from(taken);
        taken
    }
}
