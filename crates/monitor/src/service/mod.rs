//! The monitor that runs: clock, threads, sockets.

mod plan;

use std::{
    io,
    net::SocketAddr,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::{self, Scope},
};

use giusto::{scenario::MonitorSpec, view::format::plural};
use giusto_net::{
    Clock,
    http::{Limits, Request, Response, TextServer, post},
};
use giusto_session::keys::KeyRing;
use giusto_units::{TimeDelta, Timestamp};

use crate::{
    engine::{Engine, Job, gap},
    exposition::{self, StoreState},
    notice::Attempts,
    pages::{self, Site},
    sample::Sample,
    store::{Store, StoreError},
};

/// The longest time between two looks at signals.
const LOOK: TimeDelta = TimeDelta::from_millis(200);
/// The time between two turns of maintenance: figures of hours, deletions, what waits for the disk.
const MAINTENANCE: TimeDelta = TimeDelta::from_seconds(30);
/// A larger change of the time of day against a clock that is not set is a jump; after one, nothing is deleted or rolled up for this time.
/// Chosen by us.
const JUMP: TimeDelta = TimeDelta::from_seconds(60);
const SETTLES: TimeDelta = TimeDelta::from_seconds(3600);
/// The same after a start with no result for this time, in seconds: the clock may be ahead until it is set. Chosen by us.
const LONG_S: u64 = 86_400;
/// The most streams at a time.
const MAX_STREAMS: usize = 64;
/// The time for each step of telling a webhook.
const NOTICE: TimeDelta = TimeDelta::from_seconds(5);

pub use plan::{HoldError, Samples, Session};

/// A configuration and what it refers to.
#[derive(Debug, Clone)]
pub struct Config {
    /// What is watched.
    pub spec: MonitorSpec,
    /// The host on which this runs.
    pub here: String,
    /// The file of the results.
    pub database: PathBuf,
    /// The keys that the hosts share.
    pub keys: Option<KeyRing>,
}

/// Holds a session with a host: the name or address, and the port if the name has none.
pub type Hold<'a> = dyn Fn(&dyn Session, &str, u16, &AtomicBool) -> Result<Samples, String> + Sync + 'a;

/// What the one who runs a monitor does for it.
pub struct Host<'a> {
    /// Holds sessions.
    pub hold: &'a Hold<'a>,
    /// A new configuration, or why it cannot be used, if one was asked for since the last call.
    pub reload: &'a mut dyn FnMut() -> Option<Result<Config, String>>,
    /// Tells the user something.
    pub say: &'a mut dyn FnMut(&str),
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

/// Why a monitor cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address of the page.
    #[error("listen: {address}: {error}: choose another address or port")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
}

/// Something that a thread reports.
enum Message {
    /// What came of a stream.
    Result(Box<Job>, Sample, Option<Sample>),
    /// Whether a webhook accepted a notice.
    Notice(String, Result<(), String>),
}

/// What the page's server and the monitor share.
struct Shared {
    site: Mutex<Site>,
    metrics: Mutex<String>,
    /// Why results are not written.
    failure: Mutex<Option<String>>,
}

/// Measures until `stop` is set.
///
/// # Errors
///
/// [`ServiceError`] where the database cannot be opened or the address is taken. Later errors are printed and do not end it.
pub fn run(config: Config, host: &mut Host<'_>, stop: &AtomicBool) -> Result<(), ServiceError> {
    let mut service = Service::start(config, host)?;
    let hold = host.hold;
    let (reports, messages) = mpsc::channel();
    thread::scope(|scope| {
        while !stop.load(Ordering::Relaxed) {
            let now = wall_clock();
            if let Some(config) = (host.reload)() {
                service.reload(config, host);
            }
            while service.running < MAX_STREAMS
                && let Some(job) = service.engine.poll(now)
            {
                service.begin(scope, job, hold, &reports, stop, host);
            }
            service.tell(scope, now, &reports);
            service.maintain(now, host);
            let due = service.engine.poll_timeout().map_or(LOOK, |due| due.saturating_since(now));
            match messages.recv_timeout(due.min(LOOK).max(TimeDelta::from_millis(1)).to_std()) {
                Ok(message) => service.on_message(message, stop, host),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    });
    // A notice that was accepted meanwhile is not sent again.
    for message in messages.try_iter() {
        service.on_message(message, stop, host);
    }
    service.flush(host);
    Ok(())
}

fn wall_clock() -> Timestamp {
    Timestamp::from_nanos(Clock::time_of_day_nanos())
}

fn seconds(time: Timestamp) -> u64 {
    time.as_nanos() / 1_000_000_000
}

struct Service {
    config: Config,
    engine: Engine,
    store: Store,
    shared: Arc<Shared>,
    server: Option<TextServer>,
    running: usize,
    attempts: Attempts,
    is_telling: bool,
    /// Whether the last attempt to tell failed.
    told_failed: bool,
    /// What the store says, if it could not write.
    store_failure: Option<String>,
    maintenance: Timestamp,
    clock: Clock,
    steady: Steady,
}

/// Whether the time of day runs like a clock that nobody sets. A day that has only begun because a clock is ahead must not delete anything.
#[derive(Debug, Default)]
struct Steady {
    /// The time of day and that of the other clock at the latest look.
    last: Option<(Timestamp, Timestamp)>,
    since: Timestamp,
}

impl Steady {
    /// Call it at each turn of maintenance with the time of day and that of a clock that is not set. Returns whether the former has not
    /// jumped for a while.
    fn look(&mut self, day: Timestamp, now: Timestamp) -> bool {
        if let Some((last_day, last)) = self.last.replace((day, now))
            && ((day - last_day) - (now - last)).abs() > JUMP
        {
            self.since = now + SETTLES;
        }
        now >= self.since
    }
}

impl Service {
    fn start(config: Config, host: &mut Host<'_>) -> Result<Self, ServiceError> {
        let database = config.database.clone();
        let mut store = Store::open(&database, config.spec.retention)?;
        let mut engine = Engine::new(&config.spec, &config.here);
        let now = wall_clock();
        let mut entries = engine.resume(seconds(now), &store.open_events()?);
        let longest = config.spec.streams.iter().map(|stream| stream.interval).max().unwrap_or_default();
        let last = store.last_result(seconds(now))?;
        entries.extend(gap(last, seconds(now), longest));
        let written = store.record_all(entries);
        let is_long = last.is_some_and(|last| seconds(now) - last > LONG_S);
        let since = Timestamp::ZERO + if is_long { SETTLES } else { TimeDelta::ZERO };
        let shared = Arc::new(Shared {
            site: Mutex::new(site(&config, &database)),
            metrics: Mutex::new(exposition::text(engine.states(), engine.troubles(), StoreState::default())),
            failure: Mutex::default(),
        });
        let server = Some(serve(config.spec.listen, &shared)?);
        let mut service = Self {
            config,
            engine,
            store,
            shared,
            server,
            running: 0,
            attempts: Attempts::default(),
            is_telling: false,
            told_failed: false,
            store_failure: None,
            maintenance: Timestamp::ZERO,
            clock: Clock::start(),
            steady: Steady { last: None, since },
        };
        service.announce(host);
        service.note_written(written, host);
        service.set_webhook(host);
        service.show();
        Ok(service)
    }

    fn announce(&self, host: &mut Host<'_>) {
        let here = &self.config.here;
        let streams = plural(self.engine.len() as u64, "stream", "streams");
        let address = self.server.as_ref().map_or(self.config.spec.listen, TextServer::local_addr);
        (host.say)(&format!(
            "{here}: {streams}; page at http://{address}/, metrics at http://{address}/metrics; results in {}",
            self.store.path()
        ));
        if self.engine.is_empty() {
            (host.say)(&format!("warning: no pair begins at {here}: nothing is measured from here"));
        }
    }

    fn begin<'s>(
        &mut self,
        scope: &'s Scope<'s, '_>,
        job: Job,
        hold: &'s Hold<'s>,
        reports: &Sender<Message>,
        stop: &'s AtomicBool,
        host: &mut Host<'_>,
    ) {
        self.running += 1;
        let (keys, reports, unstarted) = (self.config.keys.clone(), reports.clone(), job.clone());
        let run = move || {
            let (session, port) = plan::session(&job, keys);
            // A panic, as where the system gives a session no thread, is said on standard error, and ends that session alone.
            let held = catch_unwind(AssertUnwindSafe(|| hold(&*session, plan::target(&job), port, stop)));
            let held = held.unwrap_or_else(|_| Err("the measurement failed".to_owned()));
            let (there, back) = held.unwrap_or_else(|error| {
                (Sample::Unknown(error.clone()), plan::is_both_ways(&job).then_some(Sample::Unknown(error)))
            });
            // The monitor has ended.
            let _ = reports.send(Message::Result(Box::new(job), there, back));
        };
        if let Err(error) = thread::Builder::new().name("stream".to_owned()).spawn_scoped(scope, run) {
            // Nothing is known of this interval; the next one is tried again.
            let there = Sample::Unknown(format!("no thread: {error}"));
            let back = plan::is_both_ways(&unstarted).then(|| there.clone());
            self.on_message(Message::Result(Box::new(unstarted), there, back), stop, host);
        }
    }

    fn on_message(&mut self, message: Message, stop: &AtomicBool, host: &mut Host<'_>) {
        match message {
            // It was interrupted: the interval under way is lost.
            Message::Result(..) if stop.load(Ordering::Relaxed) => {}
            Message::Result(job, there, back) => {
                self.running = self.running.saturating_sub(1);
                for entry in self.engine.on_result(&job, there, back) {
                    for notice in &entry.notices {
                        (host.say)(&format!("notice: {notice}"));
                    }
                    let written = self.store.record(entry);
                    self.note_written(written, host);
                }
                self.show();
            }
            Message::Notice(notice, told) => {
                self.is_telling = false;
                self.attempts.on_attempt(wall_clock(), told.is_ok());
                match told {
                    Ok(()) => {
                        self.told_failed = false;
                        let forgotten = self.store.forget_notice(notice);
                        self.note_written(forgotten, host);
                    }
                    Err(error) if !self.told_failed => {
                        self.told_failed = true;
                        (host.say)(&format!("warning: webhook: {error}: the notice will be sent again"));
                    }
                    Err(_) => {}
                }
            }
        }
    }

    /// Says once that results cannot be written, and once that they are again; and that the file is another one.
    fn note_written(&mut self, mut written: Result<(), StoreError>, host: &mut Host<'_>) {
        if self.store.take_begun_again() {
            let path = self.store.path();
            (host.say)(&format!("warning: {path}: was deleted or replaced: earlier results are not there"));
            let (now, open) = (seconds(wall_clock()), self.store.open_events());
            let lacks = open.map(|open| self.engine.reconcile(now, &open));
            written = written.and(lacks.and_then(|entries| self.store.record_all(entries)));
        }
        match (written, &self.store_failure) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            // Something else was written.
            (Ok(()), Some(_)) if self.store.waiting().0 > 0 => {}
            (Ok(()), Some(_)) => {
                (host.say)("results are written again");
                self.store_failure = None;
            }
            (Err(error), None) => {
                let text = error.to_string();
                (host.say)(&format!(
                    "warning: results are not written: {text}; results wait in memory meanwhile"
                ));
                self.store_failure = Some(text);
            }
        }
    }

    /// Tells the webhook what it has not accepted yet.
    fn tell<'s>(&mut self, scope: &'s Scope<'s, '_>, now: Timestamp, reports: &Sender<Message>) {
        let Some(webhook) = self.config.spec.webhook.clone() else { return };
        if self.is_telling || !self.attempts.is_due(now) {
            return;
        }
        let Some(notice) = self.store.next_notice() else { return };
        let reports = reports.clone();
        let run = move || {
            let told = post(&webhook.url, &notice, NOTICE).map_err(|error| error.to_string());
            // The monitor has ended.
            let _ = reports.send(Message::Notice(notice, told));
        };
        self.is_telling = thread::Builder::new().name("webhook".to_owned()).spawn_scoped(scope, run).is_ok();
    }

    /// Tells the store whose notices they are now.
    fn set_webhook(&mut self, host: &mut Host<'_>) {
        let url = self.config.spec.webhook.as_ref().map(|webhook| webhook.url.clone());
        let (forgotten, written) = self.store.set_webhook(url.as_deref());
        if forgotten > 0 {
            let notices = plural(
                forgotten as u64,
                "notice that was not accepted is",
                "notices that were not accepted are",
            );
            let why = if url.is_some() { "another webhook gets what goes on" } else { "there is no webhook" };
            (host.say)(&format!("warning: webhook: {notices} dropped: {why}"));
        }
        self.note_written(written, host);
    }

    fn maintain(&mut self, now: Timestamp, host: &mut Host<'_>) {
        // A clock that was set back does not stop it.
        if now < self.maintenance && self.maintenance.saturating_since(now) <= MAINTENANCE {
            return;
        }
        self.maintenance = now + MAINTENANCE;
        let is_steady = self.steady.look(now, self.clock.now());
        let flushed = self.store.flush();
        let written =
            flushed.and_then(|()| if is_steady { self.store.maintain(seconds(now)) } else { Ok(()) });
        self.note_written(written, host);
        self.show();
    }

    fn flush(&mut self, host: &mut Host<'_>) {
        let written = self.store.flush();
        self.note_written(written, host);
        let (waiting, _) = self.store.waiting();
        if waiting > 0 {
            (host.say)(&format!("warning: {waiting} results could not be written and are lost"));
        }
    }

    /// Updates the text of the metrics, and what the pages say of the file.
    fn show(&self) {
        let (waiting, dropped) = self.store.waiting();
        let is_writing = self.store_failure.is_none();
        let store = StoreState { waiting: waiting as u64, dropped, is_writing };
        let text = exposition::text(self.engine.states(), self.engine.troubles(), store);
        *self.shared.metrics.lock().unwrap_or_else(PoisonError::into_inner) = text;
        (*self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner)).clone_from(&self.store_failure);
    }

    fn reload(&mut self, config: Result<Config, String>, host: &mut Host<'_>) {
        let mut config = match config {
            Ok(config) => config,
            Err(error) => {
                (host.say)(&format!("error: {error}\nthe configuration from before stays in force"));
                return;
            }
        };
        if config.database != Path::new(self.store.path()) {
            (host.say)("warning: database: another file needs a restart: results go to the one from before");
        }
        if config.spec.listen != self.config.spec.listen || self.server.is_none() {
            // That of one address would be in the way of that of all.
            let old = self.server.take().map(|server| server.local_addr());
            self.server = match serve(config.spec.listen, &self.shared) {
                Ok(server) => Some(server),
                Err(error) => {
                    let kept = old.and_then(|old| serve(old, &self.shared).ok());
                    let page =
                        if kept.is_some() { "the page stays where it was" } else { "there is no page now" };
                    (host.say)(&format!("error: {error}: {page}"));
                    // The next reload tries it again.
                    config.spec.listen = self.config.spec.listen;
                    kept
                }
            };
        }
        if config.spec.webhook != self.config.spec.webhook {
            // What another one refused says nothing about this one.
            (self.attempts, self.told_failed) = (Attempts::default(), false);
        }
        self.store.set_retention(config.spec.retention);
        let ended = self.engine.reload(seconds(wall_clock()), &config.spec, &config.here);
        let written = self.store.record_all(ended);
        self.note_written(written, host);
        *self.shared.site.lock().unwrap_or_else(PoisonError::into_inner) =
            site(&config, Path::new(self.store.path()));
        self.config = config;
        self.set_webhook(host);
        (host.say)("the configuration was read again");
        self.announce(host);
        self.show();
    }
}

fn site(config: &Config, database: &Path) -> Site {
    Site { spec: config.spec.clone(), here: config.here.clone(), database: database.to_owned() }
}

fn serve(address: SocketAddr, shared: &Arc<Shared>) -> Result<TextServer, ServiceError> {
    let shared = Arc::clone(shared);
    let answer = move |request: &Request| {
        if request.path == "/metrics" {
            let text = shared.metrics.lock().unwrap_or_else(PoisonError::into_inner).clone();
            return Response::ok(giusto::measured::metrics::CONTENT_TYPE, text);
        }
        let site = shared.site.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failure = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        pages::answer(&site, failure.as_deref(), request, seconds(wall_clock()))
    };
    let limits = Limits { max_body: 0, ..Limits::default() };
    TextServer::serve(address, limits, answer).map_err(|error| ServiceError::Listen { address, error })
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        sync::atomic::AtomicUsize,
    };

    use giusto::scenario::{Document, Retention};

    use super::*;
    use crate::{sample::SeriesKey, store::Entry};

    #[test]
    fn a_clock_that_jumps_is_not_believed_for_a_while() {
        let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
        let mut steady = Steady::default();
        assert!(steady.look(at(1_000_000), at(10)));
        // It runs a little faster, as under NTP.
        assert!(steady.look(at(1_000_031), at(40)));
        // Ten years ahead for half a minute, and back.
        assert!(!steady.look(at(300_000_000), at(70)));
        assert!(!steady.look(at(300_000_030), at(100)));
        assert!(!steady.look(at(1_000_121), at(130)));
        assert!(!steady.look(at(1_003_720), at(3_729)));
        assert!(steady.look(at(1_003_721), at(3_730)));
    }

    /// A host that measures another once a second.
    fn config(folder: &Path, more: &str) -> Config {
        let text = format!(
            r#"
            listen = "127.0.0.1:0"
            pairs = {{ kind = "list", list = [["a", "b"]] }}
            host = [{{ id = "a", address = "192.0.2.1" }}, {{ id = "b", address = "192.0.2.2" }}]
            stream = [{{ id = "load", kind = "cbr", interval = "1 s", duration = "100 ms" }}]
            {more}
            "#
        );
        let spec = Document::parse(&text, "monitor.toml").unwrap().monitor().unwrap();
        Config { spec, here: "a".to_owned(), database: folder.join("monitor.db"), keys: None }
    }

    /// Runs its monitor; the other host does not answer.
    fn run_down(
        config: Config,
        reload: &mut dyn FnMut() -> Option<Result<Config, String>>,
        hold: impl Fn() + Sync,
        mut say: impl FnMut(&str),
        stop: &AtomicBool,
    ) {
        let hold = |_: &dyn Session, _: &str, _: u16, _: &AtomicBool| {
            hold();
            Err("no answer".to_owned())
        };
        run(config, &mut Host { hold: &hold, reload, say: &mut say }, stop).unwrap();
    }

    const RETENTION: Retention = Retention { results: 0, hours: 0, days: 0 };

    #[test]
    fn the_first_failure_of_another_webhook_is_said_too() {
        let folder = tempfile::tempdir().unwrap();
        // Nothing listens at either.
        let [first, second] = [(); 2].map(|()| {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            config(folder.path(), &format!("webhook = {{ url = \"http://127.0.0.1:{port}/\" }}"))
        });
        let (stop, runs, failures) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
        let mut second = Some(second);
        let mut reload = || second.take_if(|_| failures.load(Ordering::Relaxed) > 0).map(Ok);
        let hold = || stop.store(runs.fetch_add(1, Ordering::Relaxed) > 5, Ordering::Relaxed);
        let say = |text: &str| {
            failures.fetch_add(usize::from(text.starts_with("warning: webhook")), Ordering::Relaxed);
        };
        run_down(first, &mut reload, hold, say, &stop);
        assert_eq!(failures.into_inner(), 2);
    }

    #[test]
    fn a_monitor_without_a_webhook_drops_the_notices_of_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let start = |more: &str, said: &mut Vec<String>| {
            let hold = |_: &dyn Session, _: &str, _: u16, _: &AtomicBool| Err("no answer".to_owned());
            let (reload, say) = (&mut || None, &mut |text: &str| said.push(text.to_owned()));
            let mut host = Host { hold: &hold, reload, say };
            Service::start(config(folder.path(), more), &mut host).unwrap()
        };
        let mut said = Vec::new();
        let webhook = "webhook = { url = \"http://127.0.0.1:1/\" }";
        let mut service = start(webhook, &mut said);
        let notices = vec!["{}".to_owned()];
        let entry = Entry { series: None, time: 60, sample: None, notes: Vec::new(), notices };
        service.store.record(entry).unwrap();
        drop(service);
        assert!(start(webhook, &mut said).store.next_notice().is_some());
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(start("", &mut said).store.next_notice(), None);
        let last = "warning: webhook: 1 notice that was not accepted is dropped: there is no webhook";
        assert_eq!(said.last().unwrap(), last);
    }

    #[test]
    fn a_notice_that_is_accepted_at_the_end_is_not_sent_again() {
        let folder = tempfile::tempdir().unwrap();
        let hook = TcpListener::bind("127.0.0.1:0").unwrap();
        let webhook = format!("webhook = {{ url = \"http://{}/\" }}", hook.local_addr().unwrap());
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut client, _) = hook.accept().unwrap();
                stop.store(true, Ordering::Relaxed);
                // The monitor sees it meanwhile, and waits for the answer.
                thread::park_timeout((LOOK + LOOK).to_std());
                client.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
                let _ = client.read(&mut [0; 1024]);
            });
            run_down(config(folder.path(), &webhook), &mut || None, || {}, |_| {}, &stop);
        });
        let store = Store::open(&folder.path().join("monitor.db"), RETENTION).unwrap();
        assert_eq!(store.open_events().unwrap().len(), 2, "an outage and a crossed bound");
        assert_eq!(store.next_notice(), None);
    }

    #[test]
    fn a_clock_that_is_far_ahead_at_the_start_deletes_nothing_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let retention = Retention { results: 90 * 86_400, hours: 0, days: 0 };
        let open = || Store::open(&folder.path().join("monitor.db"), retention).unwrap();
        let now = seconds(wall_clock());
        for age in [100 * 86_400, 86_000] {
            let series = SeriesKey { from: "a".to_owned(), to: "b".to_owned(), stream: "load".to_owned() };
            let (sample, time) = (Some(Sample::Unknown("no answer".to_owned())), now - age);
            let entry = Entry { series: Some(series), time, sample, notes: Vec::new(), notices: Vec::new() };
            open().record(entry).unwrap();
            let stop = AtomicBool::new(false);
            let hold = || stop.store(true, Ordering::Relaxed);
            run_down(config(folder.path(), ""), &mut || None, hold, |_| {}, &stop);
            assert_eq!(open().last_result(time).unwrap(), Some(time), "{age} s");
        }
        // That of the first turn is gone: the clock agrees with the latest result.
        assert_eq!(open().last_result(now - 90 * 86_400).unwrap(), None);
    }

    #[test]
    fn a_session_that_panics_is_unknown_and_the_next_one_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (stop, runs) = (AtomicBool::new(false), AtomicUsize::new(0));
        let hold = || {
            assert!(runs.fetch_add(1, Ordering::Relaxed) > 0, "a panic of this test");
            stop.store(true, Ordering::Relaxed);
        };
        run_down(config(folder.path(), ""), &mut || None, hold, |_| {}, &stop);
        let store = Store::open(&folder.path().join("monitor.db"), RETENTION).unwrap();
        assert_eq!(store.open_events().unwrap().len(), 2, "an outage and a crossed bound");
    }

    #[test]
    fn a_reload_moves_the_page_once_its_address_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let hold = |_: &dyn Session, _: &str, _: u16, _: &AtomicBool| Err("no answer".to_owned());
        let mut host = Host { hold: &hold, reload: &mut || None, say: &mut |_: &str| () };
        let mut service = Service::start(config(folder.path(), ""), &mut host).unwrap();
        let is_at = |service: &Service| service.server.as_ref().unwrap().local_addr();
        let mut moved = |service: &mut Service, listen: SocketAddr| {
            let mut config = config(folder.path(), "");
            config.spec.listen = listen;
            service.reload(Ok(config), &mut host);
            is_at(service)
        };
        // All addresses of the port that it has.
        let all = SocketAddr::from(([0; 4], is_at(&service).port()));
        assert_eq!(moved(&mut service, all), all);
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = taken.local_addr().unwrap();
        assert_eq!(moved(&mut service, other), all);
        drop(taken);
        assert_eq!(moved(&mut service, other), other);
    }

    #[test]
    fn a_deleted_database_is_missed_once() {
        let folder = tempfile::tempdir().unwrap();
        let (stop, runs) = (AtomicBool::new(false), AtomicUsize::new(0));
        let hold = || match runs.fetch_add(1, Ordering::Relaxed) {
            1 => std::fs::remove_file(folder.path().join("monitor.db")).unwrap(),
            run => stop.store(run == 3, Ordering::Relaxed),
        };
        let mut said = Vec::new();
        run_down(config(folder.path(), ""), &mut || None, hold, |text| said.push(text.to_owned()), &stop);
        let missed = said.iter().filter(|text| text.contains("was deleted or replaced"));
        assert_eq!(missed.count(), 1, "{said:?}");
        // The new file has what went on when it was begun.
        let store = Store::open(&folder.path().join("monitor.db"), RETENTION).unwrap();
        assert_eq!(store.open_events().unwrap().len(), 2, "an outage and a crossed bound");
    }

    #[test]
    fn a_file_that_cannot_be_written_ends_nothing_and_pages_say_so() {
        for is_full in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let config = config(folder.path(), "");
            // A while ago: the time since then is to be noted at the start.
            let series = SeriesKey { from: "a".to_owned(), to: "b".to_owned(), stream: "load".to_owned() };
            let (sample, time) = (Some(Sample::Unknown("no answer".to_owned())), seconds(wall_clock()) - 600);
            let entry = Entry { series: Some(series), time, sample, notes: Vec::new(), notices: Vec::new() };
            Store::open(&config.database, RETENTION).unwrap().record(entry).unwrap();
            if is_full {
                let refused =
                    "CREATE TRIGGER refused BEFORE INSERT ON event BEGIN SELECT RAISE(FAIL, 'refused'); END";
                rusqlite::Connection::open(&config.database).unwrap().execute_batch(refused).unwrap();
            }
            let mut said = Vec::new();
            let hold = |_: &dyn Session, _: &str, _: u16, _: &AtomicBool| Err("no answer".to_owned());
            let (reload, say) = (&mut || None, &mut |text: &str| said.push(text.to_owned()));
            let service = Service::start(config, &mut Host { hold: &hold, reload, say }).unwrap();
            let mut client =
                std::net::TcpStream::connect(service.server.as_ref().unwrap().local_addr()).unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            let mut page = String::new();
            client.read_to_string(&mut page).unwrap();
            assert_eq!(page.contains("Results are not written: "), is_full, "{page:.1000}");
            assert_eq!(service.store.waiting().0, if is_full { 2 } else { 0 });
            // Nothing is measured so far.
            assert!(page.contains("0 streams are measured, 1 unknown."), "{page:.1000}");
            assert_eq!(said.iter().any(|text| text.contains("results are not written")), is_full, "{said:?}");
        }
    }
}
