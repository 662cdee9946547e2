//! Names that are resolved again while a stream lasts.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use giusto_units::{TimeDelta, Timestamp};

/// The time between two questions: the name servers of a network that is away are not asked without end.
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
    found: Vec<SocketAddr>,
}

impl Question {
    pub(super) fn new(resolver: Resolver) -> Self {
        Self { resolver, state: Arc::default() }
    }

    /// Another address of the far end than `peer`, in the same family, once one is known and `peer` is none any more.
    pub(super) fn another(&self, now: Timestamp, peer: SocketAddr) -> Option<SocketAddr> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now >= state.ask_at {
            state.ask_at = now + INTERVAL;
            state.found.clear();
            let (resolver, answer) = (self.resolver.clone(), Arc::clone(&self.state));
            // Where there is no thread, the next question may find one.
            let _ = thread::Builder::new().name("resolver".to_owned()).spawn(move || {
                let found = (resolver.0)();
                answer.lock().unwrap_or_else(PoisonError::into_inner).found = found;
            });
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
}
