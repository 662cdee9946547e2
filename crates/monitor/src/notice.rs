//! The bodies of notices to a webhook, and when a notice is sent again.

use std::collections::{BTreeMap, BTreeSet};

use giusto_units::{TimeDelta, Timestamp};
use serde_json::{Value, json};

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

/// Those of `notices`, the oldest first, that a webhook need not get which another one did not accept: of each bound it gets the last, unless
/// that says that what nobody was told of is over.
pub(crate) fn outdated(notices: &[String]) -> Vec<String> {
    // Of each bound: whether the first is of a crossed bound, and the last one.
    let mut bounds: BTreeMap<String, (bool, bool, usize)> = BTreeMap::new();
    for (place, notice) in notices.iter().enumerate() {
        let fields: Value = serde_json::from_str(notice).unwrap_or_default();
        let field = |name| fields.get(name).map(Value::to_string).unwrap_or_default();
        let crossed = fields.get("event").is_some_and(|event| event == "crossed");
        let bound = ["from", "to", "stream", "bound"].map(field).concat();
        let (_, last, at) = bounds.entry(bound).or_insert((crossed, crossed, place));
        (*last, *at) = (crossed, place);
    }
    let current = bounds.into_values().filter(|(first, last, _)| *last || !first);
    let current: BTreeSet<usize> = current.map(|(.., at)| at).collect();
    let outdated = notices.iter().enumerate().filter(|(place, _)| !current.contains(place));
    outdated.map(|(_, notice)| notice.clone()).collect()
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
    fn another_webhook_gets_what_is_crossed_and_what_ended() {
        let notice = |event: &str, bound: &str, time: u8| {
            json!({ "event": event, "bound": bound, "from": "a", "to": "b", "stream": "voice", "time": time })
                .to_string()
        };
        // Loss: over, and nobody knows of it. Delay: crossed again. MOS: the webhook before knows that it was crossed.
        let [loss, delay] = ["loss", "delay"]
            .map(|bound| [("crossed", 1), ("kept", 2)].map(|(event, time)| notice(event, bound, time)));
        let current = [notice("crossed", "delay", 3), notice("kept", "mos", 4)];
        let over = [loss, delay].concat();
        assert_eq!(outdated(&[over.clone(), current.into()].concat()), over);
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
