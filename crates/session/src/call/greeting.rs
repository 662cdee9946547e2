//! The first message of a caller, to find out which of several addresses has a listener.

use giusto_units::{TimeDelta, Timestamp};

use super::{
    calls::CallsConfig,
    end::REFUSED,
    keys::opening_key,
    messages::{Kind, Message, Sealed},
};
use crate::{Session, envelope::WireError};

/// A caller that asks whether there is a listener, and makes no call.
#[derive(Debug)]
pub struct CallGreeting {
    nonce: u64,
    hello: Vec<u8>,
    retry_interval: TimeDelta,
    ends: Timestamp,
    next: Timestamp,
    refused_since: Option<Timestamp>,
    answered: Option<bool>,
}

impl CallGreeting {
    /// A greeting that begins now, with the keys and times of `config`. `nonce` identifies it; use random bytes of the system.
    pub fn new(now: Timestamp, nonce: u64, config: &CallsConfig) -> Self {
        let hello = Message::Hello { nonce };
        let key = config.keys.as_ref().and_then(|ring| opening_key(ring, ring.signing()));
        Self {
            nonce,
            hello: key.map_or_else(|| hello.encode(), |key| hello.seal(&key, 0)),
            retry_interval: config.retry_interval,
            ends: now + config.open_timeout,
            next: now,
            refused_since: None,
            answered: None,
        }
    }

    /// Whether a listener has answered, be it with a refusal; `None` while it may still answer. The answer is not authenticated.
    pub fn is_answered(&self) -> Option<bool> {
        self.answered
    }

    fn is_answer(&self, datagram: &[u8]) -> bool {
        let message: Result<Message, WireError> = match Kind::of(datagram) {
            Kind::Control => Message::decode(datagram),
            Kind::SealedControl => Sealed::parse(datagram).and_then(|sealed| sealed.message()),
            Kind::Version(_) => return true,
            _ => return false,
        };
        let Ok(Message::Challenge { nonce, .. } | Message::Refused { nonce, .. }) = message else {
            return false;
        };
        nonce == self.nonce
    }
}

impl Session for CallGreeting {
    fn handle_datagram(&mut self, _: Timestamp, datagram: &[u8], _: Timestamp) {
        if self.answered.is_none() && self.is_answer(datagram) {
            self.answered = Some(true);
        }
    }

    fn handle_unreachable(&mut self, now: Timestamp, _: u64) {
        let since = *self.refused_since.get_or_insert(now);
        if self.answered.is_none() && now.saturating_since(since) >= REFUSED {
            self.answered = Some(false);
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        if self.answered.is_none() && now >= self.ends {
            self.answered = Some(false);
        }
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        if self.answered.is_some() || now < self.next {
            return None;
        }
        self.next = now + self.retry_interval;
        Some(self.hello.clone())
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.answered.is_none().then(|| self.next.min(self.ends))
    }
}

#[cfg(test)]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;
    use crate::{
        call::CallRefusal,
        cookie::Cookie,
        keys::{KeyId, KeyRing},
    };

    const NONCE: u64 = 7;
    const CHALLENGE: Message =
        Message::Challenge { nonce: NONCE, cookie: Cookie { issued_ns: 1, proof: [0; 16] } };

    fn greeting(keys: Option<KeyRing>) -> CallGreeting {
        CallGreeting::new(Timestamp::ZERO, NONCE, &CallsConfig { keys, ..CallsConfig::new([0; 32]) })
    }

    #[test]
    fn a_challenge_and_a_refusal_are_answers_and_nothing_else_is() {
        let key = opening_key(&KeyRing::with_key(KeyId(1), b"key"), KeyId(1)).unwrap();
        let other = Message::Challenge { nonce: NONCE + 1, cookie: Cookie { issued_ns: 1, proof: [0; 16] } };
        for (datagram, answer) in [
            (CHALLENGE.encode(), Some(true)),
            (CHALLENGE.seal(&key, 0), Some(true)),
            (Message::Refused { nonce: NONCE, why: CallRefusal::KeyRequired }.encode(), Some(true)),
            (other.encode(), None),
            (Message::Hello { nonce: NONCE }.encode(), None),
            (CHALLENGE.encode()[..20].to_vec(), None),
            (vec![0x80; 200], None),
            (Vec::new(), None),
        ] {
            let mut greeting = greeting(None);
            greeting.handle_datagram(Timestamp::ZERO, &datagram, Timestamp::ZERO);
            assert_eq!(greeting.is_answered(), answer, "{datagram:?}");
            assert_eq!(greeting.poll_transmit(Timestamp::ZERO).is_some(), answer.is_none());
        }
    }

    #[test]
    fn a_greeting_is_repeated_and_fails_after_the_time_of_an_opening() {
        let mut silent = greeting(None);
        let mut sent = Vec::new();
        let at = |millis| Timestamp::ZERO + TimeDelta::from_millis(millis);
        for millis in 0..4_000 {
            silent.handle_timeout(at(millis));
            sent.extend(silent.poll_transmit(at(millis)).map(|_| millis));
            assert_eq!(silent.is_answered(), (millis >= 3_000).then_some(false));
        }
        assert_eq!(sent, (0..3_000).step_by(200).collect::<Vec<_>>());
        assert_eq!(silent.poll_timeout(), None);
        // A host that says that nothing listens is believed after a second.
        let mut refused = greeting(None);
        for (millis, answer) in [(10, None), (1000, None), (1010, Some(false))] {
            refused.handle_unreachable(at(millis), 1);
            assert_eq!(refused.is_answered(), answer, "{millis}");
        }
    }
}
