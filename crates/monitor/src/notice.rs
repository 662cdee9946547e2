//! The bodies of notices to a webhook, and when a notice is sent again.

use giusto_units::{TimeDelta, Timestamp};
use serde_json::json;

use crate::{sample::SeriesKey, utc, watch::Change};

/// The time after the first failure, which doubles with each further one.
const FIRST: TimeDelta = TimeDelta::from_seconds(1);
/// The longest time between two attempts.
const LONGEST: TimeDelta = TimeDelta::from_seconds(300);

/// The JSON object of a change of state; `None` for changes that are no change of a bound.
pub fn body(series: &SeriesKey, time: u64, change: &Change) -> Option<String> {
    let Change::Bound { bound, crossed, value, limit, reason } = change else { return None };
    let object = json!({
        "event": if *crossed { "crossed" } else { "kept" },
        "bound": bound.name(),
        "from": series.from,
        "to": series.to,
        "stream": series.stream,
        "time": utc::rfc3339(time),
        "value": value,
        "limit": limit,
        "reason": reason,
    });
    Some(object.to_string())
}

/// When a notice is sent: at once, and after failures less and less often.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attempts {
    failures: u32,
    /// Not before this time.
    next: Timestamp,
}

impl Attempts {
    /// Whether to try. A clock that was set back does not put it off.
    pub fn is_due(&self, now: Timestamp) -> bool {
        now >= self.next || self.next - now > LONGEST
    }

    /// When to try.
    pub fn due(&self) -> Timestamp {
        self.next
    }

    /// An attempt has failed, or been accepted: then the next notice may go at once.
    pub fn on_attempt(&mut self, now: Timestamp, accepted: bool) {
        if accepted {
            *self = Self::default();
            return;
        }
        let doubled = FIRST.as_nanos().saturating_mul(1 << self.failures.min(30));
        self.next = now + TimeDelta::from_nanos(doubled).min(LONGEST);
        self.failures += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Bound;

    #[test]
    fn a_notice_says_what_and_where() {
        let series = SeriesKey { from: "a".to_owned(), to: "b".to_owned(), stream: "voice".to_owned() };
        let (value, limit) = (Some(0.02), Some(0.01));
        let change = Change::Bound { bound: Bound::Loss, crossed: true, value, limit, reason: None };
        let object: serde_json::Value = serde_json::from_str(&body(&series, 60, &change).unwrap()).unwrap();
        let expected = json!({
            "event": "crossed", "bound": "loss", "from": "a", "to": "b", "stream": "voice",
            "time": "1970-01-01T00:01:00Z", "value": 0.02, "limit": 0.01, "reason": null,
        });
        assert_eq!(object, expected);
        assert_eq!(body(&series, 60, &Change::OutageEnded), None);
    }

    #[test]
    fn attempts_are_made_less_and_less_often_but_never_end() {
        let mut attempts = Attempts::default();
        let mut now = Timestamp::ZERO;
        let mut waits = Vec::new();
        for _ in 0..12 {
            assert!(attempts.is_due(now));
            attempts.on_attempt(now, false);
            waits.push((attempts.due() - now).as_seconds());
            assert!(!attempts.is_due(now));
            now = attempts.due();
        }
        assert_eq!(waits, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0, 300.0, 300.0]);
        attempts.on_attempt(now, false);
        assert!(!attempts.is_due(now));
        // The clock is set back by more than it would wait at most.
        assert!(attempts.is_due(now - TimeDelta::from_seconds(1)));
        attempts.on_attempt(now, true);
        assert!(attempts.is_due(now));
    }
}
