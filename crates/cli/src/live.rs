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
use giusto_net::http::{Gone, Limits, Pages, Response, Routes, Sink};

use crate::{
    args,
    console::complain,
    opener::{self, Opened},
    printer::no_thread,
    usage::UsageError,
};

/// Time without an update after which a page gets a sign of life, so that a connection that was closed is noticed.
const ALIVE: Duration = Duration::from_secs(5);

/// The time between two looks at whether the run has ended.
const LOOK: Duration = Duration::from_millis(50);

/// How long the end waits for pages that still read.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the end of a run that failed waits for a browser to start.
const START: Duration = Duration::from_secs(10);

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

/// What a run waits for at its beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Awaits<'a> {
    /// Streams or calls of others, however long: the browser is opened at once.
    Others(&'a str),
    /// An answer of this host: the browser is opened when it has come, so that a wrong address opens none.
    Answer(&'a str),
}

impl Awaits<'_> {
    /// What the page says until there are streams.
    fn sentence(self) -> String {
        match self {
            Self::Others(what) => format!("Waiting for {what}."),
            Self::Answer(host) => format!("Waiting for {host} to answer."),
        }
    }
}

/// A page, and the thread that makes its figures. The command closes it with its outcome.
pub(crate) struct LivePage {
    board: Arc<Board>,
    pages: Pages,
    /// Holds what it has opened until the end.
    figures: JoinHandle<Option<Opened>>,
    ended: Arc<AtomicBool>,
    /// Whether a page has come.
    seen: Arc<AtomicBool>,
    result: Option<html::Report>,
    error: Option<String>,
}

impl LiveArgs {
    /// Begins the page of a run, if it is asked for, and returns what feeds it. Says on standard error where it is.
    ///
    /// # Errors
    ///
    /// [`UsageError`] where the port is taken.
    pub(crate) fn start(
        &self,
        title: &str,
        awaits: Awaits<'_>,
        page: &mut Option<LivePage>,
    ) -> anyhow::Result<Option<Feed>> {
        let Some(port) = self.live else { return Ok(None) };
        let seen = Arc::new(AtomicBool::new(false));
        let board = Arc::new(Board::new(title));
        let pages = Pages::start(routes(title, awaits.sentence(), &board, &seen), port, Limits::default())
            .map_err(|error| UsageError::new(format!("--live: {error}")))?;
        let (feed, snapshots) = watch::feed();
        let ended = Arc::new(AtomicBool::new(false));
        let url = pages.url();
        complain(&format!("live page at {url}"));
        let browser = if self.no_open || !opener::has_display() {
            Browser::None
        } else if let Awaits::Others(_) = awaits {
            Browser::of(&url)
        } else {
            Browser::WithStreams(url)
        };
        let figures = thread::Builder::new().name("live-figures".to_owned()).spawn({
            let (board, ended) = (Arc::clone(&board), Arc::clone(&ended));
            move || fold(&board, &snapshots, &ended, browser)
        });
        let figures = figures.map_err(|error| no_thread("the live page", &error))?;
        *page = Some(LivePage { board, pages, figures, ended, seen, result: None, error: None });
        Ok(Some(feed))
    }
}

impl LivePage {
    /// Keeps the final result for the end.
    pub(crate) fn keep_result(page: &mut Option<Self>, result: Option<html::Report>) {
        if let Some(page) = page {
            page.result = result;
        }
    }

    /// Keeps an error that the command prints by itself.
    pub(crate) fn keep_error(page: &mut Option<Self>, error: &str) {
        if let Some(page) = page {
            page.error = Some(error.to_owned());
        }
    }

    /// Shows the final result and why the command failed, if it did, and ends once the pages have it.
    pub(crate) fn close(self, error: Option<String>) {
        let Self { board, pages, figures, ended, seen, result, error: kept } = self;
        ended.store(true, Relaxed);
        // It only fails if that thread has panicked; the page then lacks its last figures.
        let opened = figures.join().ok().flatten();
        if let Some(report) = result {
            board.result(&html::live_result(report));
        }
        if let Some(error) = error.or(kept) {
            board.fail(&error);
            // A browser that was opened just now comes for it.
            let looks = if opened.is_some() { START.as_millis() / LOOK.as_millis() } else { 0 };
            (0..looks).take_while(|_| !seen.load(Relaxed)).for_each(|_| thread::park_timeout(LOOK));
        }
        board.end();
        pages.finish(PATIENCE);
    }
}

/// The browser of the user.
enum Browser {
    /// It is not to be opened, or cannot be.
    None,
    /// It is opened at this address with the first streams.
    WithStreams(String),
    /// It has been opened.
    Opened(Opened),
}

impl Browser {
    /// Opens it.
    fn of(url: &str) -> Self {
        opener::open(url).map_or_else(
            |error| {
                complain(&format!("warning: {error}"));
                Self::None
            },
            Self::Opened,
        )
    }
}

/// Makes figures until the run has ended, or its feed is gone. Returns what was opened.
fn fold(
    board: &Board,
    snapshots: &mpsc::Receiver<Snapshot>,
    ended: &AtomicBool,
    mut browser: Browser,
) -> Option<Opened> {
    let mut figures = Figures::new(board);
    loop {
        match snapshots.recv_timeout(LOOK) {
            Ok(snapshot) => {
                if let Browser::WithStreams(url) = &browser
                    && !snapshot.streams.is_empty()
                {
                    browser = Browser::of(url);
                }
                figures.on_snapshot(&snapshot);
            }
            Err(RecvTimeoutError::Timeout) if !ended.load(Relaxed) => {}
            Err(_) => {
                return match browser {
                    Browser::Opened(opened) => Some(opened),
                    _ => None,
                };
            }
        }
    }
}

fn routes(title: &str, awaits: String, board: &Arc<Board>, seen: &Arc<AtomicBool>) -> Routes {
    let (title, board, seen) = (title.to_owned(), Arc::clone(board), Arc::clone(seen));
    Routes::new().get("", move |request| Response::page(html::live(&title, &awaits, request.nonce()))).get(
        "events",
        move |_| {
            let board = Arc::clone(&board);
            seen.store(true, Relaxed);
            Response::events(move |sink| {
                // The page is gone.
                let _ = follow(&board, sink);
            })
        },
    )
}

/// Sends the history and what follows it, until the run or the page ends.
fn follow(board: &Board, sink: &Sink) -> Result<(), Gone> {
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
