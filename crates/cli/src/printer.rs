//! Output from a thread of its own: an unread pipe or a stopped terminal does not block the receiver.

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError, SyncSender, TrySendError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use giusto_net::Clock;
use giusto_units::{TimeDelta, Timestamp};

use crate::console::{Progress, print_live};
use giusto::view::format::plural;

/// Pieces of output that wait at most.
const QUEUE: usize = 1024;

/// Maximum wait at the end for output that is not read, once the user has asked to stop.
const MAX_WAIT: TimeDelta = TimeDelta::from_seconds(2);

/// Refusals in [`PERIOD`] that are printed, so that a flood of them does not fill a log. Chosen by us, like the period.
const MAX_REFUSALS: u64 = 10;
const PERIOD: TimeDelta = TimeDelta::from_seconds(10);

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
    /// What waits. The thread takes one piece after another.
    pieces: Arc<Mutex<mpsc::Receiver<Piece>>>,
    /// The thread writes to standard error.
    noting: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
    /// Disconnected when the thread ends.
    ended: mpsc::Receiver<()>,
    written: Arc<AtomicU64>,
    closed: Arc<AtomicBool>,
    queued: u64,
    dropped_results: u64,
    dropped_notes: u64,
    clock: Clock,
    refusals: Refusals,
}

impl Printer {
    /// A printer with the progress line of `progress`.
    ///
    /// # Errors
    ///
    /// Where the system gives no thread.
    pub(crate) fn start(progress: Progress) -> io::Result<Self> {
        let (queue, pieces) = mpsc::sync_channel(QUEUE);
        let pieces = Arc::new(Mutex::new(pieces));
        let waiting = Arc::clone(&pieces);
        let noting = Arc::new(AtomicBool::new(false));
        let notes = Arc::clone(&noting);
        let written = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&written);
        let (ends, ended) = mpsc::sync_channel(0);
        let closed = Arc::new(AtomicBool::new(false));
        let gone = Arc::clone(&closed);
        let thread = thread::Builder::new().name("output".to_owned()).spawn(move || {
            let _ends = ends;
            let mut outcome = Ok(());
            while let Some(piece) = next(&waiting) {
                notes.store(!matches!(piece, Piece::Text(_)), Ordering::Relaxed);
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
                notes.store(false, Ordering::Relaxed);
                count.fetch_add(1, Ordering::Relaxed);
            }
            progress.clear();
            outcome
        });
        let thread = thread.map_err(|error| no_thread("the output", &error))?;
        Ok(Self {
            queue: Some(queue),
            pieces,
            noting,
            thread,
            ended,
            written,
            closed,
            queued: 0,
            dropped_results: 0,
            dropped_notes: 0,
            clock: Clock::start(),
            refusals: Refusals::default(),
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

    /// Prints on standard error that a far end was refused; of many only the first and a count.
    pub(crate) fn refusal(&mut self, line: String) {
        if let Some(omitted) = self.refusals.admit(self.clock.now()) {
            self.note_omitted(omitted);
            self.note(line);
        }
    }

    fn note_omitted(&mut self, omitted: u64) {
        if omitted > 0 {
            self.note(format!("refused: {omitted} more"));
        }
    }

    /// Shows the progress, unless something else waits to be printed.
    pub(crate) fn live(&mut self, line: String) {
        if self.queued == self.written.load(Ordering::Relaxed) {
            self.put(Piece::Live(line));
        }
    }

    /// Waits until all is printed, and says how much did not fit. Once `stop` is set it waits only while something is read; notes that
    /// are not read do not hold back results.
    ///
    /// # Errors
    ///
    /// Where standard output cannot be written, or is not read.
    pub(crate) fn finish(mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        const LOOK: Duration = Duration::from_millis(50);
        self.note_omitted(self.refusals.omitted());
        self.queue = None;
        let clock = Clock::start();
        let mut last = (self.written.load(Ordering::Relaxed), clock.now());
        while self.ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            let (written, now) = (self.written.load(Ordering::Relaxed), clock.now());
            if written != last.0 || !stop.load(Ordering::Relaxed) {
                last = (written, now);
            } else if now - last.1 > MAX_WAIT {
                if self.noting.load(Ordering::Relaxed) {
                    // An error could not be said there, either.
                    return self.print_results();
                }
                let left = self.left();
                anyhow::bail!("standard output is not read: {left} were not printed");
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

    /// How many results and notes are not printed, of which the first is being written to standard output.
    fn left(&self) -> String {
        let (mut results, mut notes) = (1 + self.dropped_results, self.dropped_notes);
        let waiting = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in waiting.try_iter() {
            results += u64::from(matches!(piece, Piece::Text(_)));
            notes += u64::from(matches!(piece, Piece::Note(_)));
        }
        let results = plural(results, "result", "results");
        if notes == 0 { results } else { format!("{results} and {}", plural(notes, "note", "notes")) }
    }

    /// Prints the results that wait behind notes that are not read, without these.
    fn print_results(&self) -> anyhow::Result<()> {
        while let Some(piece) = next(&self.pieces) {
            if let Piece::Text(text) = piece {
                print_live(&text)?;
            }
        }
        Ok(())
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

/// The next piece, once there is one; `None` at the end of the queue.
fn next(pieces: &Mutex<mpsc::Receiver<Piece>>) -> Option<Piece> {
    pieces.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Runs something that prints notes while it runs; they are complete when this returns.
///
/// # Errors
///
/// Those of `run`, then those of [`Printer::finish`].
pub(crate) fn with_printer<T>(
    stop: &AtomicBool,
    run: impl FnOnce(&mut Printer) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut printer = Printer::start(Progress::hidden())?;
    let outcome = run(&mut printer);
    let printed = printer.finish(stop);
    let result = outcome?;
    printed.map(|()| result)
}

/// The system gives no thread for this.
pub(crate) fn no_thread(what: &str, error: &io::Error) -> io::Error {
    let text =
        format!("cannot start the thread for {what}: {error}: raise the limit of threads (`ulimit -u`)");
    io::Error::new(error.kind(), text)
}

/// The refusals of the current period.
#[derive(Default)]
struct Refusals {
    began: Timestamp,
    count: u64,
}

impl Refusals {
    /// Counts a refusal. Returns whether it is printed: then the number of earlier ones that were not.
    fn admit(&mut self, now: Timestamp) -> Option<u64> {
        let mut omitted = 0;
        if now.saturating_since(self.began) >= PERIOD {
            omitted = self.omitted();
            *self = Self { began: now, count: 0 };
        }
        self.count += 1;
        (self.count <= MAX_REFUSALS).then_some(omitted)
    }

    fn omitted(&self) -> u64 {
        self.count.saturating_sub(MAX_REFUSALS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_counted() {
        let mut refusals = Refusals::default();
        let mut printed = |ms: i64| refusals.admit(Timestamp::ZERO + TimeDelta::from_millis(ms));
        // 100 a second for 9.9 s: the first 10 are printed.
        let first: Vec<_> = (0..990).filter_map(|number| printed(10 * number)).collect();
        assert_eq!(first, [0; 10]);
        assert_eq!([printed(10_000), printed(10_001), printed(25_000)], [Some(980), Some(0), Some(0)]);
    }
}
