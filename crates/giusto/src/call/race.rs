//! Which of several addresses has a listener.

use std::{net::SocketAddr, sync::atomic::AtomicBool};

use giusto_net::Clock;
use giusto_session::call::{CallGreeting, CallsConfig};

use super::{CallRunError, CallSettings};
use crate::measured::race::{Hello, first_to_answer};

impl Hello for CallGreeting {
    fn is_answered(&self) -> Option<bool> {
        Self::is_answered(self)
    }
}

/// The address whose listener answers first, as [`first_receiver`](crate::measured::race::first_receiver) finds that of a receiver.
/// `None` if none answers, or `stop` is set.
///
/// # Errors
///
/// [`CallRunError::Random`].
pub fn first_listener(
    addresses: &[SocketAddr],
    settings: &CallSettings,
    stop: &AtomicBool,
) -> Result<Option<SocketAddr>, CallRunError> {
    // A greeting gives nothing to compute from a secret.
    let config = CallsConfig { keys: settings.keys.clone(), ..CallsConfig::new([0; 32]) };
    let greet = |clock: Clock, nonce| CallGreeting::new(clock.now(), nonce, &config);
    Ok(first_to_answer(addresses, &settings.path, greet, stop)?)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use giusto_net::{SocketConfig, UdpSocket, driver::Verdict};
    use giusto_session::keys::{KeyId, KeyRing};
    use giusto_units::DataRate;

    use super::*;
    use crate::call::Listener;

    #[test]
    fn a_listener_that_wants_keys_answers_a_greeting_without_one() {
        for keys in [None, Some(KeyRing::with_key(KeyId(7), b"0123456789abcdef"))] {
            let with_nobody = keys.is_none();
            let silent = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
            let settings = CallSettings { keys, ..CallSettings::default() };
            let mut listener =
                Listener::open(([127, 0, 0, 1], 0).into(), 1, DataRate::from_bps(1_000_000), settings)
                    .unwrap();
            let answers = listener.address();
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let is_over = || over.load(Ordering::Relaxed);
                let on_event = |_| Verdict::Continue;
                scope.spawn(move || {
                    listener.run(false, (None, &mut ()), is_over, on_event).map(|_| ()).unwrap();
                });
                let all = [silent.local_addr(), answers];
                let found = first_listener(&all, &CallSettings::default(), &over).unwrap();
                assert_eq!(found, Some(answers));
                if with_nobody {
                    let nobody = first_listener(&all[..1], &CallSettings::default(), &over).unwrap();
                    assert_eq!(nobody, None);
                }
                over.store(true, Ordering::Relaxed);
            });
        }
    }
}
