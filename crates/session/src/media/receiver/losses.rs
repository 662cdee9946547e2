//! The missing packets of one source: which are requested, when, and when they are given up.
//!
//! | rule | value | source |
//! |---|---|---|
//! | a packet is missing | when one with a higher number arrives | RFC 4585 §6.2.1 |
//! | first request | after a number that is three higher, or 10 ms; longer if late packets were seen before | RFC 5681 §3.2 for the three; the rest chosen by us |
//! | next request | after the RTT and twice its variation, or 10 ms if that is longer; the last one after the RTT alone, if its repair is then in time | libwebrtc, `nack_requester.cc`: one RTT, every 20 ms |
//! | RTT | smoothed (RFC 6298 §2) over the answers to reference times (RFC 3611 §4.5) and the times from a request to the repair of a packet that was requested once (RFC 6298 §3); before the first, the least time from the first of several requests to the repair; 100 ms before that, and 10 s after the last | default of libwebrtc, `kDefaultRtt` |
//! | requests for a packet | 10 | libwebrtc, `kMaxNackRetries` |
//! | missing packets | 1000 | libwebrtc, `kMaxNackPackets` |
//! | no request | if the repair would arrive after the playout deadline | – |

use std::collections::BTreeMap;

use giusto_units::{TimeDelta, Timestamp};

/// Difference to a higher number from which on a missing packet is not merely reordered (RFC 5681 §3.2).
const REORDERED: u64 = 3;
/// Time after which a missing packet is requested although fewer higher packets have arrived. Chosen by us.
const PATIENCE: TimeDelta = TimeDelta::from_millis(10);
/// The RTT before it was measured (libwebrtc, `nack_requester.cc`, `kDefaultRtt`).
const DEFAULT_RTT: TimeDelta = TimeDelta::from_millis(100);
/// Time after which a measured RTT is no longer used. Without it a path that was once too long for repair would never be
/// tried again if the sender answers no reference times. Chosen by us.
const RTT_LIFETIME: TimeDelta = TimeDelta::from_seconds(10);
/// Minimum interval between two requests for a packet (libwebrtc, `nack_requester.cc`, `kUpdateInterval`).
const MIN_INTERVAL: TimeDelta = TimeDelta::from_millis(20);
/// Maximum number of requests for a packet (libwebrtc, `nack_requester.cc`, `kMaxNackRetries`).
const MAX_REQUESTS: u32 = 10;
/// Maximum number of missing packets; beyond that the oldest are given up (libwebrtc, `nack_requester.cc`,
/// `kMaxNackPackets`).
const MAX_MISSING: usize = 1000;
/// Time for which a packet that was repaired or given up is remembered: as long as an incomplete frame.
const REMEMBERED: TimeDelta = TimeDelta::from_seconds(2);
/// Maximum number of packets that are requested before the first one that arrived. Chosen by us.
pub(super) const MAX_BEFORE_FIRST: u64 = 64;

/// Counts of a source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LossCounts {
    /// Requests for packets, each time counted.
    pub(super) requested: u64,
    /// Missing packets that were repaired.
    pub(super) repaired: u64,
    /// Missing packets that arrived by themselves.
    pub(super) reordered: u64,
    /// Missing packets that were given up.
    pub(super) given_up: u64,
    /// Repairs of packets that were not missing.
    pub(super) needless: u64,
}

/// The missing packets.
#[derive(Debug, Default)]
pub(super) struct Losses {
    missing: BTreeMap<u64, Missing>,
    /// No packet with a lower number is open.
    first_open: u64,
    highest: Option<u64>,
    rtt: Rtt,
    /// How long to wait for reordered packets before the first request; zero before any was seen.
    reordering: TimeDelta,
    /// When [`handle_timeout`](Self::handle_timeout) has work to do.
    due: Option<Timestamp>,
    counts: LossCounts,
    /// The highest number that was given up since [`take_given_up`](Self::take_given_up).
    given_up: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Missing {
    found_at: Timestamp,
    /// After this time a repair is too late.
    deadline: Timestamp,
    /// Times of the first and of the latest request.
    requested_at: Option<(Timestamp, Timestamp)>,
    requests: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It may still be repaired.
    Open,
    /// It cannot be repaired in time.
    GivenUp,
    Repaired,
}

/// What may bring missing packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requests {
    /// They are requested.
    On,
    /// They are requested, and parity may recover them.
    Both,
    /// They are not requested: parity may recover them.
    Off,
    /// Nothing repairs them: they were reordered, or are lost.
    Useless,
}

impl Losses {
    pub(super) const fn counts(&self) -> LossCounts {
        self.counts
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called.
    pub(super) const fn due(&self) -> Option<Timestamp> {
        self.due
    }

    /// Handles the arrival of an original packet. `deadline` gives the time after which repairs of packets before it are
    /// too late. Returns whether it is new: it was not repaired before.
    pub(super) fn on_packet(
        &mut self,
        now: Timestamp,
        number: u64,
        deadline: impl FnOnce() -> Timestamp,
        requests: Requests,
    ) -> bool {
        if self.missing.get(&number).is_some_and(|missing| missing.state == State::Repaired) {
            return false;
        }
        if let Some(missing) = self.missing.remove(&number) {
            self.counts.reordered += 1;
            // The wait grows at once to 5/4 of the delay, and decreases with each packet that was lost.
            let late = now.saturating_since(missing.found_at);
            self.reordering = self.reordering.max(late + late / 4).min(self.rtt.smoothed(now));
            self.reschedule(now, requests);
            return true;
        }
        let highest = self.highest.replace(self.highest.map_or(number, |highest| highest.max(number)));
        let Some(highest) = highest.filter(|&highest| number > highest + 1) else {
            if !self.missing.is_empty() {
                self.reschedule(now, requests);
            }
            return true;
        };
        self.find(now, highest + 1..number, deadline());
        self.reschedule(now, requests);
        true
    }

    /// Handles the first packet of a stream, before which `before` packets were sent.
    pub(super) fn on_first(&mut self, now: Timestamp, number: u64, before: u64, deadline: Timestamp) {
        if (1..=MAX_BEFORE_FIRST).contains(&before) && self.highest.is_none() {
            self.find(now, number - before..number, deadline);
        }
    }

    /// Handles a measured RTT.
    pub(super) fn on_rtt(&mut self, now: Timestamp, rtt: TimeDelta) {
        self.rtt.on_sample(now, rtt);
    }

    /// Handles a retransmitted packet. Returns whether it was missing.
    pub(super) fn on_retransmitted(&mut self, now: Timestamp, number: u64, requests: Requests) -> bool {
        let Some(missing) = self.missing.get_mut(&number).filter(|missing| missing.state != State::Repaired)
        else {
            self.counts.needless += 1;
            return false;
        };
        missing.state = State::Repaired;
        if let Some((first, _)) = missing.requested_at {
            let passed = now.saturating_since(first);
            // A packet that was requested twice does not tell which request it answers (RFC 6298 §3).
            if missing.requests == 1 {
                self.rtt.on_sample(now, passed);
            } else {
                self.rtt.on_bound(now, passed);
            }
        }
        self.on_repaired(now, requests);
        true
    }

    /// Handles a packet that was recovered from parity; it may be the highest so far. `deadline`: as in
    /// [`on_packet`](Self::on_packet). Returns whether it was missing.
    pub(super) fn on_recovered(
        &mut self,
        now: Timestamp,
        number: u64,
        deadline: impl FnOnce() -> Timestamp,
        requests: Requests,
    ) -> bool {
        if let Some(highest) = self.highest.filter(|&highest| number > highest) {
            self.find(now, highest + 1..number + 1, deadline());
            self.highest = Some(number);
        }
        let Some(missing) = self.missing.get_mut(&number).filter(|missing| missing.state != State::Repaired)
        else {
            self.counts.needless += 1;
            return false;
        };
        missing.state = State::Repaired;
        self.on_repaired(now, requests);
        true
    }

    fn on_repaired(&mut self, now: Timestamp, requests: Requests) {
        self.counts.repaired += 1;
        self.reordering = self.reordering - self.reordering / 16;
        self.reschedule(now, requests);
    }

    /// Handles a repair of a packet whose frame is complete or was dropped: nothing uses it.
    pub(super) fn on_needless(&mut self) {
        self.counts.needless += 1;
    }

    /// The highest number that was given up since the last call.
    pub(super) fn take_given_up(&mut self) -> Option<u64> {
        self.given_up.take()
    }

    /// Whether a packet below `number` is missing and may still arrive.
    pub(super) fn is_open_below(&self, number: u64) -> bool {
        self.first_open < number
            && self.missing.range(self.first_open..number).any(|(_, missing)| missing.state == State::Open)
    }

    /// The RTT, smoothed.
    pub(super) fn rtt(&self, now: Timestamp) -> TimeDelta {
        self.rtt.smoothed(now)
    }

    /// Whether `number` is missing.
    pub(super) fn is_missing(&self, number: u64) -> bool {
        self.missing.get(&number).is_some_and(|missing| missing.state != State::Repaired)
    }

    /// Requests the packets that are due, and gives up those that cannot be repaired in time. Appends the numbers to
    /// request to `wanted`.
    pub(super) fn handle_timeout(&mut self, now: Timestamp, requests: Requests, wanted: &mut Vec<u64>) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.forget(now);
        let rtt = self.rtt.smoothed(now);
        let step = self.rtt.timeout(now);
        let open = self.missing.range_mut(self.first_open..);
        for (&number, missing) in open.filter(|(_, missing)| missing.state == State::Open) {
            match missing.next_step(now, (number, self.highest, self.reordering), (rtt, step), requests) {
                (at, Step::GiveUp) if at <= now => {
                    missing.state = State::GivenUp;
                    self.counts.given_up += 1;
                    self.given_up = self.given_up.max(Some(number));
                }
                (at, Step::Request) if at <= now => {
                    let first = missing.requested_at.map_or(now, |(first, _)| first);
                    missing.requested_at = Some((first, now));
                    missing.requests += 1;
                    self.counts.requested += 1;
                    wanted.push(number);
                }
                _ => {}
            }
        }
        self.reschedule(now, requests);
    }

    /// Handles a restarted numbering: nothing is missing.
    pub(super) fn end(&mut self) {
        self.missing.clear();
        (self.first_open, self.highest, self.due, self.given_up) = (0, None, None, None);
    }

    fn find(&mut self, now: Timestamp, numbers: std::ops::Range<u64>, deadline: Timestamp) {
        self.forget(now);
        let first = numbers.start.max(numbers.end.saturating_sub(MAX_MISSING as u64));
        if first > numbers.start {
            self.counts.given_up += first - numbers.start;
            self.given_up = self.given_up.max(Some(first - 1));
        }
        self.first_open = self.first_open.min(first);
        for number in first..numbers.end {
            let missing =
                Missing { found_at: now, deadline, requested_at: None, requests: 0, state: State::Open };
            self.missing.insert(number, missing);
        }
        while self.missing.len() > MAX_MISSING {
            if let Some((number, _)) =
                self.missing.pop_first().filter(|(_, missing)| missing.state == State::Open)
            {
                self.counts.given_up += 1;
                self.given_up = self.given_up.max(Some(number));
            }
        }
    }

    fn forget(&mut self, now: Timestamp) {
        let is_old = |missing: &Missing| {
            missing.state != State::Open && now.saturating_since(missing.found_at) >= REMEMBERED
        };
        while let Some(entry) = self.missing.first_entry().filter(|entry| is_old(entry.get())) {
            entry.remove();
        }
    }

    fn reschedule(&mut self, now: Timestamp, requests: Requests) {
        let (rtt, step) = (self.rtt.smoothed(now), self.rtt.timeout(now));
        let open = self.missing.range(self.first_open..);
        let mut open = open.filter(|(_, missing)| missing.state == State::Open).peekable();
        self.first_open = open.peek().map_or(u64::MAX, |&(&number, _)| number);
        let next = open.map(|(&number, missing)| {
            missing.next_step(now, (number, self.highest, self.reordering), (rtt, step), requests).0
        });
        self.due = next.min();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Request,
    GiveUp,
}

impl Missing {
    /// What is to be done about it next, and when.
    fn next_step(
        &self,
        now: Timestamp,
        (number, highest, reordering): (u64, Option<u64>, TimeDelta),
        (rtt, timeout): (TimeDelta, TimeDelta),
        requests: Requests,
    ) -> (Timestamp, Step) {
        let wait = if reordering > TimeDelta::ZERO {
            reordering
        } else if highest.is_some_and(|highest| highest >= number + REORDERED) {
            TimeDelta::ZERO
        } else {
            PATIENCE
        };
        let first = self.found_at + wait;
        let again = |(_, last): (Timestamp, Timestamp)| {
            let usual = last + timeout.max(MIN_INTERVAL);
            // Where the answer to that would be late, without waiting for the variation.
            if usual + rtt > self.deadline { last + rtt.max(MIN_INTERVAL) } else { usual }
        };
        let at = self.requested_at.map_or(first, again);
        let in_time = at.max(now) + rtt <= self.deadline;
        if matches!(requests, Requests::On | Requests::Both) && self.requests < MAX_REQUESTS && in_time {
            return (at, Step::Request);
        }
        // A repair that was requested may still arrive, and parity; without them only a reordered packet can.
        let has_parity = matches!(requests, Requests::Off | Requests::Both);
        let until = if self.requested_at.is_some() || has_parity { self.deadline } else { first };
        (until, Step::GiveUp)
    }
}

/// The smoothed time from a request to the repair, and its variation (RFC 6298 §2).
#[derive(Debug, Clone, Copy, Default)]
struct Rtt {
    /// Smoothed value, variation, and the time of the latest sample.
    measured: Option<(TimeDelta, TimeDelta, Timestamp)>,
    /// The value is only an upper bound.
    is_bound: bool,
}

impl Rtt {
    /// RFC 6298 §2.2 and §2.3, with alpha 1/8 and beta 1/4.
    fn on_sample(&mut self, now: Timestamp, sample: TimeDelta) {
        let (smoothed, variation) = match self.current(now).filter(|_| !self.is_bound) {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => {
                let difference = (smoothed - sample).max(sample - smoothed);
                (smoothed + (sample - smoothed) / 8, variation + (difference - variation) / 4)
            }
        };
        (self.measured, self.is_bound) = (Some((smoothed, variation, now)), false);
    }

    /// Handles a time that the RTT does not exceed. It is used until there is a sample: an RTT above the default would otherwise never be
    /// measured.
    fn on_bound(&mut self, now: Timestamp, bound: TimeDelta) {
        match self.current(now) {
            Some((least, _)) if !self.is_bound || least <= bound => {}
            _ => (self.measured, self.is_bound) = (Some((bound, TimeDelta::ZERO, now)), true),
        }
    }

    fn smoothed(&self, now: Timestamp) -> TimeDelta {
        self.current(now).map_or(DEFAULT_RTT, |(smoothed, _)| smoothed)
    }

    /// The time after which a repair is overdue. It is shorter than the RTO of RFC 6298 §2.3, which has four times the variation: a request
    /// in vain is a small packet, since the sender does not send a packet twice within an RTT. Chosen by us.
    fn timeout(&self, now: Timestamp) -> TimeDelta {
        let spread = |(smoothed, variation): (TimeDelta, TimeDelta)| smoothed + (variation * 2).max(PATIENCE);
        self.current(now).map_or(DEFAULT_RTT, spread)
    }

    fn current(&self, now: Timestamp) -> Option<(TimeDelta, TimeDelta)> {
        let (smoothed, variation, at) = self.measured?;
        (now.saturating_since(at) < RTT_LIFETIME).then_some((smoothed, variation))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::at;

    fn arrive(losses: &mut Losses, ms: u64, number: u64) -> bool {
        losses.on_packet(at(ms), number, || at(ms + 400), Requests::On)
    }

    fn requested(losses: &mut Losses, ms: u64) -> Vec<u64> {
        let mut wanted = Vec::new();
        losses.handle_timeout(at(ms), Requests::On, &mut wanted);
        wanted
    }

    #[test]
    fn late_packets_lengthen_the_wait_for_reordered_ones() {
        let mut losses = Losses::default();
        // Number 1 comes 40 ms after number 2: it is requested after 10 ms, in vain.
        assert!(arrive(&mut losses, 0, 0) && arrive(&mut losses, 0, 2));
        assert_eq!(losses.due(), Some(at(10)));
        assert_eq!(requested(&mut losses, 10), [1]);
        assert!(arrive(&mut losses, 40, 1));
        assert_eq!((losses.counts().reordered, losses.due()), (1, None));
        // The next one is not requested before 50 ms, although higher numbers arrive.
        (4..10).for_each(|number| assert!(arrive(&mut losses, 100, number)));
        assert_eq!(losses.due(), Some(at(150)));
        // As packets turn out to be lost, the wait decreases.
        for number in 0..100 {
            arrive(&mut losses, 1000, 20 + number * 2);
            losses.on_retransmitted(at(1100), 19 + number * 2, Requests::On);
        }
        arrive(&mut losses, 2000, 300);
        assert!(losses.due().is_some_and(|due| due < at(2010)), "{:?}", losses.due());
    }

    #[test]
    fn an_rtt_of_several_requests_is_only_a_bound() {
        let mut losses = Losses::default();
        // The RTT is 60 ms; the first request is lost.
        assert!(arrive(&mut losses, 0, 0) && arrive(&mut losses, 0, 2));
        assert_eq!([10, 110].map(|ms| requested(&mut losses, ms)), [[1], [1]]);
        assert!(losses.on_retransmitted(at(170), 1, Requests::On));
        assert_eq!(losses.rtt(at(170)), TimeDelta::from_millis(160));
        arrive(&mut losses, 200, 4);
        requested(&mut losses, 210);
        assert!(losses.on_retransmitted(at(270), 3, Requests::On));
        assert_eq!(losses.rtt(at(270)), TimeDelta::from_millis(60));
        // The next packet can be requested again.
        arrive(&mut losses, 300, 6);
        requested(&mut losses, 310);
        assert!(losses.due() > Some(at(380)) && losses.due() < Some(at(440)), "{:?}", losses.due());
    }

    #[test]
    fn the_last_request_leaves_while_its_repair_is_in_time() {
        let mut losses = Losses::default();
        losses.on_rtt(at(0), TimeDelta::from_millis(150));
        assert!(arrive(&mut losses, 0, 0) && arrive(&mut losses, 0, 2));
        assert_eq!(requested(&mut losses, 10), [1]);
        // After 300 ms, with the variation, it would be too late.
        assert_eq!(losses.due(), Some(at(160)));
        assert_eq!((requested(&mut losses, 160), losses.due()), (vec![1], Some(at(400))));
    }

    #[test]
    fn parity_is_awaited_where_requests_come_too_late() {
        for (requests, given_up) in [(Requests::On, 1), (Requests::Both, 0)] {
            let mut losses = Losses::default();
            losses.on_rtt(at(0), TimeDelta::from_millis(500));
            for number in [0, 2] {
                losses.on_packet(at(0), number, || at(400), requests);
            }
            losses.handle_timeout(at(20), requests, &mut Vec::new());
            assert_eq!(losses.counts().given_up, given_up, "{requests:?}");
            losses.handle_timeout(at(400), requests, &mut Vec::new());
            assert_eq!(losses.counts().given_up, 1, "{requests:?}");
        }
    }

    #[test]
    fn a_large_gap_takes_bounded_memory() {
        let mut losses = Losses::default();
        for step in 0..10 {
            arrive(&mut losses, step, step * 3000);
            assert!(losses.missing.len() <= MAX_MISSING);
        }
        let wanted = requested(&mut losses, 9);
        // The last two are fewer than three below the highest.
        assert_eq!((wanted.len(), wanted.first(), wanted.last()), (998, Some(&26_000), Some(&26_997)));
        assert_eq!(losses.counts().given_up, 9 * 2999 - 1000);
    }

    #[derive(Debug, Clone, Copy)]
    enum Operation {
        /// The packet this much above the highest arrives.
        Packet(u64),
        /// A packet this far back arrives late.
        Late(u64),
        Retransmitted(u64),
        Recovered(u64),
        Pass(u64),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            6 => (1_u64..6).prop_map(Operation::Packet),
            1 => (0_u64..20).prop_map(Operation::Late),
            3 => (0_u64..20).prop_map(Operation::Retransmitted),
            1 => (0_u64..20).prop_map(Operation::Recovered),
            4 => (1_u64..120).prop_map(Operation::Pass),
        ]
    }

    proptest! {
        /// Whatever arrives: each packet is requested at most ten times, at least 20 ms apart, never when the repair would come
        /// after its deadline; each is repaired at most once; each missing packet is repaired, late, given up or open.
        #[test]
        fn requests_are_bounded_and_counts_add_up(
            operations in prop::collection::vec(operation(), 1..400), playout in 50_u64..1000, on: bool,
        ) {
            let requests = if on { Requests::On } else { Requests::Off };
            let mut losses = Losses::default();
            let (mut now, mut highest) = (0, 1000_u64);
            let mut asked: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
            let mut found: BTreeMap<u64, u64> = BTreeMap::new();
            let (mut repaired, mut wanted) = (std::collections::BTreeSet::new(), Vec::new());
            losses.on_packet(at(now), highest, || at(playout), requests);
            for operation in operations {
                match operation {
                    Operation::Packet(step) => {
                        (highest + 1..highest + step).for_each(|number| { found.insert(number, now); });
                        highest += step;
                        prop_assert!(losses.on_packet(at(now), highest, || at(now + playout), requests));
                    }
                    Operation::Late(back) => {
                        let number = highest - back;
                        let is_new = losses.on_packet(at(now), number, || at(now + playout), requests);
                        if is_new {
                            prop_assert!(!repaired.contains(&number) || now - found[&number] >= 2000);
                        }
                    }
                    Operation::Retransmitted(back) => {
                        if losses.on_retransmitted(at(now), highest - back, requests) {
                            prop_assert!(found.contains_key(&(highest - back)) && repaired.insert(highest - back));
                        }
                    }
                    Operation::Recovered(back) => {
                        if losses.on_recovered(at(now), highest - back, || at(now + playout), requests) {
                            prop_assert!(found.contains_key(&(highest - back)) && repaired.insert(highest - back));
                        }
                    }
                    Operation::Pass(step) => {
                        let end = now + step;
                        while let Some(due) = losses.due().filter(|&due| due <= at(end)) {
                            let before = losses.rtt.smoothed(due);
                            wanted.clear();
                            losses.handle_timeout(due, requests, &mut wanted);
                            prop_assert!(losses.due().is_none_or(|next| next > due), "it spins at {:?}", due);
                            prop_assert!(on || wanted.is_empty());
                            for &number in &wanted {
                                prop_assert!(due + before <= at(found[&number] + playout), "{} is too late", number);
                                prop_assert!(!repaired.contains(&number));
                                asked.entry(number).or_default().push(due.as_nanos());
                            }
                        }
                        now = end;
                    }
                }
                let counts = losses.counts();
                let open = losses.missing.values().filter(|missing| missing.state == State::Open).count() as u64;
                prop_assert!(losses.missing.len() <= MAX_MISSING);
                prop_assert_eq!(counts.repaired, repaired.len() as u64);
                prop_assert!(open + counts.repaired + counts.reordered + counts.given_up >= found.len() as u64);
                prop_assert!(open <= found.len() as u64 && counts.given_up <= found.len() as u64);
            }
            for times in asked.values() {
                prop_assert!(times.len() <= MAX_REQUESTS as usize, "{:?}", times);
                prop_assert!(times.windows(2).all(|two| two[1] - two[0] >= 20_000_000), "{:?}", times);
            }
            prop_assert_eq!(losses.counts().requested, asked.values().map(|times| times.len() as u64).sum::<u64>());
        }
    }
}
