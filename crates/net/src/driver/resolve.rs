//! Names that are resolved again while a stream lasts.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use giusto_units::{TimeDelta, Timestamp};

/// The time between two of the first questions: a far end that moves is found again soon.
const FIRST_INTERVAL: TimeDelta = TimeDelta::from_millis(500);
/// The number of these.
const FIRST: u32 = 20;
/// The time between two later questions: the name servers of a network that is away are not asked without end.
const INTERVAL: TimeDelta = TimeDelta::from_seconds(3);

/// Finds the addresses of a far end by its name, which may block.
#[derive(Clone)]
pub struct Resolver(Arc<dyn Fn() -> Vec<SocketAddr> + Send + Sync>);

impl Resolver {
    /// A resolver that calls this function, in a thread of its own.
    pub fn new(resolve: impl Fn() -> Vec<SocketAddr> + Send + Sync + 'static) -> Self {
        Self(Arc::new(resolve))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// The question about one far end, which several sessions with it share.
#[derive(Debug, Clone)]
pub(super) struct Question {
    resolver: Resolver,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    ask_at: Timestamp,
    /// Questions since the far end was last heard.
    asked: u32,
    /// A question has not been answered yet.
    is_asking: bool,
    /// When this was last wanted.
    wanted_at: Timestamp,
    found: Vec<SocketAddr>,
}

impl Question {
    pub(super) fn new(resolver: Resolver) -> Self {
        Self { resolver, state: Arc::default() }
    }

    /// Another address of the far end than `peer`, in the same family, once one is known and `peer` is none any more.
    pub(super) fn another(&self, now: Timestamp, peer: SocketAddr) -> Option<SocketAddr> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody asks while the far end is heard.
        if now.saturating_since(state.wanted_at) >= INTERVAL {
            (state.asked, state.ask_at) = (0, now);
            state.found.clear();
        }
        state.wanted_at = now;
        if now >= state.ask_at && !state.is_asking {
            state.ask_at = now + if state.asked < FIRST { FIRST_INTERVAL } else { INTERVAL };
            state.asked = state.asked.saturating_add(1);
            let (resolver, answer) = (self.resolver.clone(), Arc::clone(&self.state));
            // Where there is no thread, the next question may find one.
            let asking = thread::Builder::new().name("resolver".to_owned()).spawn(move || {
                let found = (resolver.0)();
                let mut state = answer.lock().unwrap_or_else(PoisonError::into_inner);
                (state.found, state.is_asking) = (found, false);
            });
            state.is_asking = asking.is_ok();
        }
        let is_family = |address: &&SocketAddr| address.is_ipv4() == peer.is_ipv4();
        let is_gone = !state.found.iter().any(|address| address.ip() == peer.ip());
        state.found.iter().find(is_family).copied().filter(|_| is_gone)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_address_changes_only_where_the_name_has_lost_it() {
        let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let answered = |names: &[&str]| {
            let addresses: Vec<_> = names.iter().map(|name| parse(name)).collect();
            let question = Question::new(Resolver::new(move || addresses.clone()));
            assert_eq!(question.another(at(0), parse("10.0.0.1:5")), None, "it is asked");
            while question.state.lock().unwrap().found.is_empty() {
                thread::park_timeout(Duration::from_millis(1));
            }
            let found = question.another(at(1), parse("10.0.0.1:5"));
            assert_eq!(question.clone().another(at(2), parse("10.0.0.1:5")), found, "of another session");
            found
        };
        assert_eq!(answered(&["10.0.0.2:5", "10.0.0.1:5"]), None);
        assert_eq!(answered(&["[::1]:5", "10.0.0.2:5"]), Some(parse("10.0.0.2:5")));
        assert_eq!(answered(&["[::1]:5"]), None);
    }

    #[test]
    fn a_name_is_asked_for_twice_a_second_and_later_seldom() {
        let asked = Arc::new(Mutex::new(0));
        let count = Arc::clone(&asked);
        let question = Question::new(Resolver::new(move || {
            *count.lock().unwrap() += 1;
            Vec::new()
        }));
        let peer = "10.0.0.1:5".parse().unwrap();
        let ask = |from_ms: u64, until_ms: u64| {
            let before = *asked.lock().unwrap();
            for at in (from_ms..until_ms).step_by(200) {
                question.another(Timestamp::from_nanos(at * 1_000_000), peer);
                while question.state.lock().unwrap().is_asking {
                    thread::park_timeout(Duration::from_millis(1));
                }
            }
            *asked.lock().unwrap() - before
        };
        // Each 200 ms it is looked: at 0, 600, 1200 ms and so on.
        assert_eq!(ask(1_000, 4_000), 5);
        assert_eq!(ask(4_000, 13_000), 15);
        assert_eq!(ask(13_000, 43_000), 10);
        // It was heard in between.
        assert_eq!(ask(60_000, 63_000), 5);
    }
}
