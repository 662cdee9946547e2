//! What pages read: the history, and what has come since.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;

/// Updates of 0.1 s that are kept: a minute.
const MAX_FINE: usize = 600;
/// Updates of 1 s that are kept: ten minutes.
const MAX_COARSE: usize = 600;
/// Decisions that are kept.
const MAX_DECISIONS: usize = 1_000;
/// Streams that are remembered; of more, those that ended first are forgotten.
const MAX_STREAMS: usize = 64;
/// How long an ended stream is remembered, in seconds: as long as its figures.
const MEMORY_S: f64 = 600.0;
/// Events that wait for a page: some ten seconds. A slower page reads the history again.
const MAX_RECENT: usize = 128;

/// Something new, for pages that have read the history.
#[derive(Debug, Clone)]
pub struct Event {
    /// What it is: `name`, `fine`, `coarse`, `decision`, `close`, `forget`, `result`, `failed`, `end`.
    pub name: &'static str,
    /// JSON.
    pub data: Arc<str>,
}

/// All that a new page needs.
#[derive(Debug, Clone)]
pub struct History {
    /// The number of the next event.
    pub next: u64,
    /// JSON.
    pub json: String,
    /// Nothing follows.
    pub ended: bool,
}

/// What a page reads next.
#[derive(Debug, Clone)]
pub enum Next {
    /// Events, and the number after the last of them.
    Events(u64, Vec<Event>),
    /// It was too slow: it must read the history again.
    Behind,
    /// Nothing has happened.
    Quiet,
}

/// The last ten minutes of a run, in bounded memory, for any number of pages.
///
/// Who writes never waits for who reads: a lock is held only to copy pointers.
#[derive(Debug)]
pub struct Board {
    title: String,
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct State {
    streams: Vec<Known>,
    fine: VecDeque<Arc<str>>,
    coarse: VecDeque<Arc<str>>,
    decisions: VecDeque<Arc<str>>,
    result: Option<Arc<str>>,
    /// Why the run failed.
    error: Option<String>,
    ended: bool,
    /// The number of the first of `recent`.
    first: u64,
    recent: VecDeque<Event>,
}

/// A stream that pages know.
#[derive(Debug, Clone, Serialize)]
struct Known {
    id: u64,
    name: String,
    /// When it ended.
    closed_s: Option<f64>,
}

impl Board {
    /// An empty board of a run that is called `title`.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), state: Mutex::default(), news: Condvar::new() }
    }

    /// The final result: JSON of a report.
    pub fn result(&self, report: &impl Serialize) {
        // As a page holds it.
        let json = serde_json::to_string(report).unwrap_or_default();
        self.write(|state| {
            let data = Arc::from(json);
            state.result = Some(Arc::clone(&data));
            state.tell("result", data);
        });
    }

    /// The run has failed, with this error.
    pub fn fail(&self, error: &str) {
        self.write(|state| {
            state.error = Some(error.to_owned());
            state.tell("failed", Arc::from(serde_json::json!({ "error": error }).to_string()));
        });
    }

    /// The run has ended: nothing follows.
    pub fn end(&self) {
        self.write(|state| {
            state.ended = true;
            state.tell("end", Arc::from("{}"));
        });
    }

    pub(super) fn name(&self, now_s: f64, names: &[(u64, String)]) {
        if names.is_empty() {
            return;
        }
        self.write(|state| {
            for (id, name) in names {
                let known = Known { id: *id, name: name.clone(), closed_s: None };
                state.tell("name", Arc::from(serde_json::to_string(&known).unwrap_or_default()));
                state.streams.retain(|own| own.id != *id);
                state.streams.push(known);
            }
            state.forget(now_s);
        });
    }

    pub(super) fn close(&self, now_s: f64, id: u64) {
        self.write(|state| {
            if let Some(stream) = state.streams.iter_mut().find(|stream| stream.id == id) {
                stream.closed_s = Some(now_s);
            }
            state.tell("close", Arc::from(format!("{{\"id\":{id},\"closed_s\":{now_s}}}")));
        });
    }

    pub(super) fn update(&self, fine: String, coarse: Option<String>) {
        self.write(|state| {
            let fine = Arc::from(fine);
            keep(&mut state.fine, Arc::clone(&fine), MAX_FINE);
            state.tell("fine", fine);
            if let Some(coarse) = coarse {
                let coarse = Arc::from(coarse);
                keep(&mut state.coarse, Arc::clone(&coarse), MAX_COARSE);
                state.tell("coarse", coarse);
            }
        });
    }

    pub(super) fn decide(&self, decision: String) {
        self.write(|state| {
            let decision = Arc::from(decision);
            keep(&mut state.decisions, Arc::clone(&decision), MAX_DECISIONS);
            state.tell("decision", decision);
        });
    }

    /// All that has come so far, as far as it is kept.
    pub fn history(&self) -> History {
        let state = self.lock();
        let next = state.first + state.recent.len() as u64;
        let parts =
            [&state.fine, &state.coarse, &state.decisions].map(|all| all.iter().cloned().collect::<Vec<_>>());
        let (streams, result, ended) = (state.streams.clone(), state.result.clone(), state.ended);
        let error = state.error.clone();
        drop(state);
        let [fine, coarse, decisions] = parts.map(|parts| format!("[{}]", parts.join(",")));
        let text = |value: serde_json::Result<String>| value.unwrap_or_default();
        let (title, streams) =
            (text(serde_json::to_string(&self.title)), text(serde_json::to_string(&streams)));
        let (quantities, error) = (
            text(serde_json::to_string(&super::quantity::Quantity::ALL)),
            text(serde_json::to_string(&error)),
        );
        let result = result.as_deref().unwrap_or("null");
        let json = format!(
            "{{\"title\":{title},\"quantities\":{quantities},\"streams\":{streams},\"fine\":{fine},\"coarse\":{coarse},\
             \"decisions\":{decisions},\"result\":{result},\"error\":{error},\"ended\":{ended}}}"
        );
        History { next, json, ended }
    }

    /// Waits for the events from number `next` on, no longer than `patience`.
    pub fn wait(&self, next: u64, patience: Duration) -> Next {
        let state = self.lock();
        let nothing = |state: &mut State| state.first + state.recent.len() as u64 <= next;
        let waited = self.news.wait_timeout_while(state, patience, nothing);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let Some(skip) = next.checked_sub(state.first) else { return Next::Behind };
        let events: Vec<Event> = state.recent.iter().skip(skip as usize).cloned().collect();
        if events.is_empty() { Next::Quiet } else { Next::Events(next + events.len() as u64, events) }
    }

    fn write(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.news.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What it guards is valid after each statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&mut self, name: &'static str, data: Arc<str>) {
        if self.recent.len() >= MAX_RECENT {
            self.recent.pop_front();
            self.first += 1;
        }
        self.recent.push_back(Event { name, data });
    }

    /// Forgets streams that ended long ago, and, of too many, those that ended first.
    fn forget(&mut self, now_s: f64) {
        while let Some(place) = self.oldest(now_s) {
            let Known { id, .. } = self.streams.remove(place);
            self.tell("forget", Arc::from(format!("{{\"id\":{id}}}")));
        }
    }

    /// The stream to be forgotten next.
    fn oldest(&self, now_s: f64) -> Option<usize> {
        let ended =
            self.streams.iter().enumerate().filter_map(|(place, stream)| Some((place, stream.closed_s?)));
        let (place, closed_s) = ended.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        (self.streams.len() > MAX_STREAMS || now_s - closed_s > MEMORY_S).then_some(place)
    }
}

fn keep(all: &mut VecDeque<Arc<str>>, new: Arc<str>, most: usize) {
    if all.len() >= most {
        all.pop_front();
    }
    all.push_back(new);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn history(board: &Board) -> Value {
        serde_json::from_str(&board.history().json).unwrap()
    }

    #[test]
    fn the_history_is_bounded_and_holds_the_newest() {
        let board = Board::new("t");
        for number in 0..10 * MAX_FINE {
            let coarse = (number % 10 == 0).then(|| format!("{{\"c\":{number}}}"));
            board.update(format!("{{\"t\":{number}}}"), coarse);
            board.decide(format!("{{\"d\":{number}}}"));
        }
        let found = history(&board);
        let of = |name: &str| found[name].as_array().unwrap().clone();
        let lengths = ["fine", "coarse", "decisions"].map(|name| of(name).len());
        assert_eq!(lengths, [MAX_FINE, MAX_COARSE, MAX_DECISIONS]);
        assert_eq!((&of("fine")[0]["t"], &of("coarse")[0]["c"]), (&(9 * MAX_FINE).into(), &0.into()));
        assert_eq!(of("decisions")[MAX_DECISIONS - 1]["d"], 10 * MAX_FINE - 1);
        assert_eq!(board.lock().recent.len(), MAX_RECENT);
    }

    #[test]
    fn ended_streams_are_forgotten_open_ones_are_not() {
        let board = Board::new("t");
        let name = |id: u64, at: f64| board.name(at, &[(id, id.to_string())]);
        (0..10).for_each(|id| name(id, 0.0));
        for id in 10..500 {
            name(id, id as f64 / 10.0);
            board.close(id as f64 / 10.0, id);
        }
        let known = history(&board)["streams"].as_array().unwrap().clone();
        assert_eq!(known.len(), MAX_STREAMS);
        let is_known = |id: i32| known.iter().any(|stream| stream["id"] == id);
        assert!((0..10).all(is_known) && is_known(499) && !is_known(400));
        name(1_000, 50.0 + MEMORY_S);
        assert_eq!(history(&board)["streams"].as_array().unwrap().len(), 11);
    }

    #[test]
    fn a_slow_page_reads_the_history_again() {
        let board = Board::new("t");
        let next = board.history().next;
        board.update("{}".to_owned(), Some("{}".to_owned()));
        let Next::Events(after, events) = board.wait(next, Duration::ZERO) else { panic!() };
        assert_eq!(events.iter().map(|event| event.name).collect::<Vec<_>>(), ["fine", "coarse"]);
        assert!(matches!(board.wait(after, Duration::ZERO), Next::Quiet));
        (0..=MAX_RECENT).for_each(|_| board.update("{}".to_owned(), None));
        assert!(matches!(board.wait(after, Duration::ZERO), Next::Behind));
        let now = board.history().next;
        assert_eq!(now, after + MAX_RECENT as u64 + 1);
        board.end();
        let Next::Events(end, events) = board.wait(now, Duration::ZERO) else { panic!() };
        assert_eq!((end, events[0].name), (now + 1, "end"));
    }

    #[test]
    fn a_failed_run_says_why() {
        let board = Board::new("t");
        let next = board.history().next;
        assert_eq!(history(&board)["error"], Value::Null);
        let error = "127.0.0.1:9: \"no answer\"";
        board.fail(error);
        board.end();
        let found = history(&board);
        assert_eq!((&found["error"], &found["ended"]), (&error.into(), &true.into()));
        let Next::Events(_, events) = board.wait(next, Duration::ZERO) else { panic!() };
        assert_eq!(events.iter().map(|event| event.name).collect::<Vec<_>>(), ["failed", "end"]);
        let data: Value = serde_json::from_str(&events[0].data).unwrap();
        assert_eq!(data["error"], error);
    }
}
