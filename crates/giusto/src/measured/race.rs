//! Which of several addresses answers first: "happy eyeballs", RFC 8305.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use giusto_net::{
    ATTEMPT_DELAY, Clock, PathOptions, SocketConfig, UdpSocket,
    driver::{Driver, Link},
    in_turns,
};
use giusto_session::{
    Session,
    probe::{Greeting, SenderConfig, wire::StreamRequest},
};
use giusto_units::Timestamp;
use rand::{
    TryRng,
    rngs::{SysError, SysRng},
};

use crate::measured::{RunError, send::Destination};

/// The longest answer to a greeting.
const LONGEST: usize = 2048;

/// The first message to a far end, which asks whether there is one.
pub(crate) trait Hello: Session {
    /// Whether it was answered; `None` while it may still be.
    fn is_answered(&self) -> Option<bool>;
}

impl Hello for Greeting {
    fn is_answered(&self) -> Option<bool> {
        Self::is_answered(self)
    }
}

/// The address whose receiver answers first. Each gets its greeting 250 ms after the one before, or at once where that one has failed.
/// `None` if none answers, or `stop` is set.
///
/// # Errors
///
/// [`RunError::Random`].
pub fn first_receiver(
    addresses: &[SocketAddr],
    destination: &Destination,
    stop: &AtomicBool,
) -> Result<Option<SocketAddr>, RunError> {
    let greet = |clock: Clock, nonce| {
        let keys = destination.keys.clone();
        Greeting::new(
            clock.now(),
            SenderConfig { keys, ..SenderConfig::new(StreamRequest::nothing(), nonce) },
        )
    };
    first_to_answer(addresses, &destination.path, greet, stop).map_err(RunError::Random)
}

/// The address whose far end answers first, of any protocol; `greet` makes its first message from a clock and a random number.
///
/// # Errors
///
/// The system gave no random numbers.
pub(crate) fn first_to_answer<H: Hello>(
    addresses: &[SocketAddr],
    path: &PathOptions,
    greet: impl Fn(Clock, u64) -> H,
    stop: &AtomicBool,
) -> Result<Option<SocketAddr>, SysError> {
    let clock = Clock::start();
    let config = SocketConfig { path: path.clone(), ..SocketConfig::default() };
    // An address to which there is no route has failed already.
    let open = |to: &SocketAddr| Some((*to, UdpSocket::connected(*to, &config).ok()?));
    let sockets: Vec<_> = in_turns(addresses).iter().filter_map(open).collect();
    if sockets.is_empty() {
        // The run itself says why there is no socket.
        return Ok(addresses.first().copied());
    }
    let mut waiting = sockets.iter();
    let mut driver = Driver::new(clock, LONGEST);
    let mut tried: Vec<(SocketAddr, Link<'_, H>)> = Vec::new();
    let mut next_at = Timestamp::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let all_failed = tried.iter().all(|(_, link)| link.session.is_answered() == Some(false));
        if all_failed || clock.now() >= next_at {
            match waiting.next() {
                Some((to, socket)) => {
                    let greeting = greet(clock, SysRng.try_next_u64()?);
                    tried.push((*to, Link::new(socket, greeting)));
                    next_at = clock.now() + ATTEMPT_DELAY;
                }
                None if all_failed => return Ok(None),
                None => next_at = Timestamp::MAX,
            }
        }
        for (to, link) in &mut tried {
            // A socket that fails is silent.
            let _ = driver.turn(link);
            if link.session.is_answered() == Some(true) {
                return Ok(Some(*to));
            }
        }
        driver.wait(tried.iter().map(|(_, link)| link), Duration::from_millis(20));
    }
    Ok(None)
}

/// The only address, or that of several which `race` chooses; `far_end` is what it is, and the command that starts it.
///
/// # Errors
///
/// [`RunError::NoneAnswers`], [`RunError::Interrupted`], and those of `race`.
pub(super) fn choose(
    addresses: &[SocketAddr],
    far_end: (&'static str, &'static str),
    race: impl FnOnce(&[SocketAddr]) -> Result<Option<SocketAddr>, RunError>,
    stop: &AtomicBool,
) -> Result<SocketAddr, RunError> {
    let chosen = match addresses {
        [only] => Some(*only),
        all => race(all)?,
    };
    chosen.ok_or_else(|| {
        if stop.load(Ordering::Relaxed) {
            RunError::Interrupted
        } else {
            RunError::NoneAnswers { far_end, addresses: addresses.to_vec() }
        }
    })
}

/// The first address to which there is a route; without one the first, whose run says what is wrong.
pub(super) fn first_with_route(addresses: &[SocketAddr], path: &PathOptions) -> Option<SocketAddr> {
    let config = SocketConfig { path: path.clone(), ..SocketConfig::default() };
    let mut all = addresses.iter();
    all.find(|to| UdpSocket::connected(**to, &config).is_ok()).or_else(|| addresses.first()).copied()
}

#[cfg(test)]
mod tests {
    use giusto_net::driver::Verdict;
    use giusto_units::TimeDelta;

    use super::*;
    use crate::measured::recv::{Reception, ReceptionConfig};

    #[test]
    fn a_silent_address_costs_a_quarter_of_a_second() {
        let silent = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
        let mut reception = Reception::open(&ReceptionConfig::default()).unwrap();
        let answers = reception.socket.local_addr();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| reception.run(&over, |_, _| Verdict::Continue).unwrap());
            let destination = Destination::new(answers);
            let clock = Clock::start();
            let found = first_receiver(&[silent.local_addr(), answers], &destination, &over).unwrap();
            let took = clock.now() - Timestamp::ZERO;
            // The first has its head start; without a race it would take 3 s.
            assert_eq!(found, Some(answers));
            assert!(took >= ATTEMPT_DELAY && took < TimeDelta::from_millis(2_500), "{took}");
            over.store(true, Ordering::Relaxed);
        });
    }
}
