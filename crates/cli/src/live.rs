//! `--live`: a page that follows a run.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use clap::Args;
use giusto::{
    measured::result::RunResult,
    view::html,
    watch::{self, Board, Feed, Figures, History, Next, Snapshot},
};
use giusto_serve::{Response, Routes, Server, Settings, Sink};

use crate::{args, console::complain, usage::UsageError};

/// Time without an update after which a page gets a sign of life, so that a connection that was closed is noticed.
const ALIVE: Duration = Duration::from_secs(5);

/// The time between two looks at whether the run has ended.
const LOOK: Duration = Duration::from_millis(50);

/// How long the end waits for pages that still read.
const PATIENCE: Duration = Duration::from_secs(2);

/// Flags of the page.
#[derive(Debug, Clone, Args)]
pub(crate) struct LiveArgs {
    /// Serve a page on 127.0.0.1 that shows the run while it lasts, and open it in a browser; with a port, at that one
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0",
          value_parser = args::whole::<u16>(0, 65_535))]
    pub(crate) live: Option<u16>,

    /// With --live: do not open a browser
    #[arg(long, requires = "live")]
    pub(crate) no_open: bool,
}

/// A page, and the thread that makes its figures.
pub(crate) struct LivePage {
    board: Arc<Board>,
    server: Server,
    figures: JoinHandle<()>,
    ended: Arc<AtomicBool>,
}

impl LiveArgs {
    /// The page of a run, if it is asked for, and what feeds it. Says on standard error where it is.
    ///
    /// # Errors
    ///
    /// [`UsageError`] where the port is taken.
    pub(crate) fn start(&self, title: &str) -> anyhow::Result<Option<(LivePage, Feed)>> {
        let Some(port) = self.live else { return Ok(None) };
        let board = Arc::new(Board::new(title));
        let settings = Settings { port, ..Settings::default() };
        let server = Server::start(routes(title, &board), &settings)
            .map_err(|error| UsageError::new(format!("--live: {error}")))?;
        let (feed, snapshots) = watch::feed();
        let ended = Arc::new(AtomicBool::new(false));
        let figures = thread::Builder::new().name("live-figures".to_owned()).spawn({
            let (board, ended) = (Arc::clone(&board), Arc::clone(&ended));
            move || fold(&board, &snapshots, &ended)
        })?;
        let url = server.url();
        complain(&format!("live page at {url}"));
        if !self.no_open
            && giusto_serve::has_display()
            && let Err(error) = giusto_serve::open(&url)
        {
            complain(&format!("warning: {error}"));
        }
        Ok(Some((LivePage { board, server, figures, ended }, feed)))
    }
}

impl LivePage {
    /// Shows the final result, and ends once the pages have it.
    pub(crate) fn finish(self, result: Option<html::Report>) {
        self.ended.store(true, Relaxed);
        // It only fails if that thread has panicked; the page then lacks its last figures.
        let _ = self.figures.join();
        if let Some(report) = result {
            self.board.result(&html::live_result(report));
        }
        self.board.end();
        self.server.finish(PATIENCE);
    }
}

/// Makes figures until the run has ended, or its feed is gone.
fn fold(board: &Board, snapshots: &mpsc::Receiver<Snapshot>, ended: &AtomicBool) {
    let mut figures = Figures::new(board);
    loop {
        match snapshots.recv_timeout(LOOK) {
            Ok(snapshot) => figures.on_snapshot(&snapshot),
            Err(RecvTimeoutError::Timeout) if !ended.load(Relaxed) => {}
            Err(_) => return,
        }
    }
}

fn routes(title: &str, board: &Arc<Board>) -> Routes {
    let (title, board) = (title.to_owned(), Arc::clone(board));
    Routes::new().get("", move |request| Response::page(html::live(&title, request.nonce()))).get(
        "events",
        move |_| {
            let board = Arc::clone(&board);
            Response::events(move |sink| {
                // The page is gone.
                let _ = follow(&board, sink);
            })
        },
    )
}

/// Sends the history and what follows it, until the run or the page ends.
fn follow(board: &Board, sink: &Sink) -> Result<(), giusto_serve::Gone> {
    let History { mut next, json, mut ended } = board.history();
    sink.event("history", &json)?;
    while !ended && !sink.is_gone() {
        match board.wait(next, ALIVE) {
            Next::Events(after, events) => {
                next = after;
                for event in events {
                    sink.event(event.name, &event.data)?;
                    ended |= event.name == "end";
                }
            }
            Next::Behind => {
                let history = board.history();
                (next, ended) = (history.next, history.ended);
                sink.event("history", &history.json)?;
            }
            // A comment (HTML Living Standard, §9.2.6).
            Next::Quiet => sink.send(":\n\n")?,
        }
    }
    Ok(())
}

/// The results that the page shows at the end, the newest.
const MAX_RESULTS: usize = 100;

/// Keeps the result of a stream for the page.
pub(crate) fn keep(all: &mut VecDeque<(String, RunResult)>, name: String, result: &RunResult) {
    if all.len() >= MAX_RESULTS {
        all.pop_front();
    }
    all.push_back((name, result.clone()));
}

/// The final result, if there is one.
pub(crate) fn report(all: impl IntoIterator<Item = (String, RunResult)>) -> Option<html::Report> {
    let all: Vec<_> = all.into_iter().collect();
    (!all.is_empty()).then(|| html::results(&all))
}
