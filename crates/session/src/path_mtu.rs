//! Path MTU discovery by probe packets (DPLPMTUD, RFC 8899): the largest datagram that arrives whole, whatever routers report.
//!
//! The packetization layer (PL) is our protocol over UDP, so that a PLPMTU is a UDP payload in bytes. [`PathMtuSearch`] says which probe to
//! send and when; the caller sends it unfragmented and says what came back.
//!
//! | RFC 8899 §5.2 | [`Phase`] |
//! |---|---|
//! | BASE | `Base`: whether the base size arrives |
//! | SEARCHING | `Searching`: for a larger one |
//! | SEARCH_COMPLETE | `Complete`: confirmed now and then, raised after a time |
//! | ERROR | `Error`: not even the base size arrives |

use giusto_units::{TimeDelta, Timestamp};

/// `MAX_PROBES` of §5.1.2: "The default value of `MAX_PROBES` is 3".
const MAX_PROBES: u32 = 3;
/// `PMTU_RAISE_TIMER` of §5.1.1: 600 s.
const RAISE_INTERVAL: TimeDelta = TimeDelta::from_seconds(600);
/// `CONFIRMATION_TIMER` of §5.1.1: "less than the `PMTU_RAISE_TIMER`", and "frequent enough"; the value is ours.
const CONFIRMATION_INTERVAL: TimeDelta = TimeDelta::from_seconds(5);
/// `PROBE_TIMER` of §5.1.1 without an RTT: "MUST NOT be smaller than 1 second".
const PROBE_TIMER: TimeDelta = TimeDelta::from_seconds(1);
/// With an RTT it is derived from it (§5.1.1): the factor and the least are ours, to leave time for a busy machine.
const PROBE_RTTS: i64 = 3;
const MIN_PROBE_TIMER: TimeDelta = TimeDelta::from_millis(100);
/// Headers of IP and UDP: RFC 791, RFC 8200, RFC 768.
const HEADERS_V4: u64 = 28;
const HEADERS_V6: u64 = 48;
/// `BASE_PLPMTU` of §5.1.2: "When using IPv4, … a default `BASE_PLPMTU` of 1200 bytes is RECOMMENDED".
const BASE_V4: u64 = 1200;
/// `MIN_PLPMTU` of §5.1.2 over IPv4: hosts accept 576 B (RFC 1122 §3.3.2). Over IPv6 it is what makes 1280 B, also the base.
const MIN_V4: u64 = 576 - HEADERS_V4;
const MIN_V6: u64 = 1280 - HEADERS_V6;
/// The longest payload: 16 bits hold the length of the datagram with the header of UDP.
const MAX_PAYLOAD: u64 = 65_535 - HEADERS_V4;

/// The state of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The base size is tried.
    Base,
    /// Larger sizes are tried.
    Searching,
    /// The largest size is known.
    Complete,
    /// Not even the base size arrives.
    Error,
}

/// What the search found and what it took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathMtuFigures {
    /// The largest UDP payload that arrives; `None` before any did.
    pub payload_bytes: Option<u64>,
    /// The same with the headers of IP and UDP: the MTU of the path.
    pub mtu_bytes: Option<u64>,
    /// The largest size is known, and not only that a smaller one arrives.
    pub is_complete: bool,
    /// Probes sent.
    pub probes: u64,
    /// Of these, those that got no answer in time.
    pub lost_probes: u64,
    /// Reports of a smaller MTU by routers that were used.
    pub packets_too_big: u64,
    /// How often a size that had arrived no longer did.
    pub changes: u64,
}

/// A search for the MTU of one path.
#[derive(Debug, Clone)]
pub struct PathMtuSearch {
    headers: u64,
    min: u64,
    base: u64,
    /// `MAX_PLPMTU`.
    max: u64,
    phase: Phase,
    /// `PLPMTU`: arrived.
    good: Option<u64>,
    /// The smallest size that did not arrive, or one more than the largest possible.
    bad: u64,
    /// `PROBED_SIZE`.
    probed: u64,
    /// `PROBE_COUNT`.
    count: u32,
    /// The probe under way, or the next one, is due then.
    due: Timestamp,
    in_flight: bool,
    raise_at: Timestamp,
    rtt: Option<TimeDelta>,
    figures: PathMtuFigures,
}

impl PathMtuSearch {
    /// A search that begins now, for datagrams over IPv6 or IPv4 whose first link has this MTU.
    pub fn new(now: Timestamp, is_v6: bool, link_mtu: u64) -> Self {
        let (headers, min, base) =
            if is_v6 { (HEADERS_V6, MIN_V6, MIN_V6) } else { (HEADERS_V4, MIN_V4, BASE_V4) };
        let max = link_mtu.saturating_sub(headers).clamp(min, MAX_PAYLOAD);
        let base = base.min(max);
        Self {
            headers,
            min,
            base,
            max,
            phase: Phase::Base,
            good: None,
            bad: max + 1,
            probed: base,
            count: 0,
            due: now,
            in_flight: false,
            raise_at: Timestamp::MAX,
            rtt: None,
            figures: PathMtuFigures::default(),
        }
    }

    /// The state of the search.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// What was found so far.
    pub fn figures(&self) -> PathMtuFigures {
        PathMtuFigures {
            payload_bytes: self.good,
            mtu_bytes: self.good.map(|good| good + self.headers),
            is_complete: self.phase == Phase::Complete,
            ..self.figures
        }
    }

    /// A round-trip time of the path, from which the time to wait for an answer is derived.
    pub fn on_rtt(&mut self, rtt: TimeDelta) {
        self.rtt = Some(rtt);
    }

    /// When [`handle_timeout`](Self::handle_timeout) and [`poll_probe`](Self::poll_probe) are due.
    pub fn poll_timeout(&self) -> Timestamp {
        self.due
    }

    /// The size of the probe that is to be sent now, if one is.
    pub fn poll_probe(&mut self, now: Timestamp) -> Option<u64> {
        if self.in_flight || now < self.due {
            return None;
        }
        if self.phase == Phase::Complete {
            self.probed = self.good.unwrap_or(self.base);
            if now >= self.raise_at {
                self.bad = self.max + 1;
                self.search(now);
            }
        }
        self.in_flight = true;
        self.due = now + self.probe_timer();
        self.figures.probes += 1;
        Some(self.probed)
    }

    /// Handles the time for the answer to a probe, if it has passed.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        if !self.in_flight || now < self.due {
            return;
        }
        self.in_flight = false;
        self.figures.lost_probes += 1;
        self.count += 1;
        self.due = now;
        if self.count >= MAX_PROBES {
            self.fail(now);
        }
    }

    /// Handles the answer to a probe of this size. It may have been given up: then the size arrives nevertheless.
    pub fn on_acknowledged(&mut self, now: Timestamp, size: u64) {
        let size = size.min(self.max);
        if self.good.is_some_and(|good| size < good) {
            return;
        }
        let is_news = self.good != Some(size);
        self.good = Some(size);
        self.bad = self.bad.max(size + 1);
        if size == self.probed {
            (self.in_flight, self.count) = (false, 0);
        }
        match self.phase {
            // A confirmation.
            Phase::Complete if !is_news => self.due = now + CONFIRMATION_INTERVAL,
            Phase::Complete => self.complete(now),
            Phase::Base | Phase::Searching | Phase::Error if !self.in_flight => self.search(now),
            Phase::Base | Phase::Searching | Phase::Error => {}
        }
    }

    /// Handles a router's report that packets of more than `mtu` bytes do not pass, which the system has checked to be about a packet
    /// of ours (§4.6.1). It narrows the search, or shows that the path has changed (§4.6.2).
    pub fn on_packet_too_big(&mut self, now: Timestamp, mtu: u64) {
        let size = mtu.saturating_sub(self.headers);
        let good = self.good.unwrap_or(0);
        // "Invalid": below what every path carries; or inconsistent with what was sent.
        if size < self.min || size >= self.bad || (self.phase == Phase::Complete && size == good) {
            return;
        }
        self.figures.packets_too_big += 1;
        self.bad = size + 1;
        if size < good {
            // The path has become smaller, if the report is true: what it says is tried first.
            self.good = None;
            self.figures.changes += 1;
            (self.phase, self.probed) = (Phase::Base, size.min(self.base));
        } else {
            // "PL_PTB_SIZE … as the next search point" (§4.6.2).
            self.probed = size;
            if size == good {
                return self.complete(now);
            }
        }
        (self.in_flight, self.count, self.due) = (false, 0, now);
    }

    /// The probed size did not arrive.
    fn fail(&mut self, now: Timestamp) {
        self.count = 0;
        match self.phase {
            // A black hole (§4.4): begin again.
            Phase::Complete => {
                self.figures.changes += 1;
                self.bad = self.probed;
                self.good = None;
                self.phase = Phase::Base;
                self.probed = self.base.min(self.bad.saturating_sub(1)).max(self.min);
            }
            Phase::Base if self.probed > self.min => {
                // §5.2: ERROR, in which the smallest size is tried.
                self.bad = self.probed;
                (self.phase, self.probed) = (Phase::Error, self.min);
            }
            Phase::Base | Phase::Error => {
                self.phase = Phase::Error;
                self.probed = self.min;
                self.due = now + CONFIRMATION_INTERVAL;
            }
            Phase::Searching => {
                self.bad = self.bad.min(self.probed);
                self.search(now);
            }
        }
    }

    /// Chooses the next size (§5.3.2): first the largest, which most paths carry, then the middle between what arrives and what does
    /// not, down to the byte.
    fn search(&mut self, now: Timestamp) {
        let good = self.good.unwrap_or(self.min);
        if good + 1 >= self.bad {
            return self.complete(now);
        }
        self.phase = Phase::Searching;
        let is_fresh = self.bad > self.max;
        self.probed = if is_fresh { self.max } else { good + (self.bad - good) / 2 };
        (self.in_flight, self.count, self.due) = (false, 0, now);
    }

    fn complete(&mut self, now: Timestamp) {
        self.phase = Phase::Complete;
        (self.in_flight, self.count) = (false, 0);
        self.raise_at = now + RAISE_INTERVAL;
        self.due = now + CONFIRMATION_INTERVAL;
    }

    /// How long an answer is awaited.
    fn probe_timer(&self) -> TimeDelta {
        self.rtt.map_or(PROBE_TIMER, |rtt| (rtt * PROBE_RTTS).max(MIN_PROBE_TIMER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path on which datagrams of up to `mtu` bytes arrive after 20 ms.
    struct Path {
        mtu: u64,
        /// Whether a router says so when a datagram is too long.
        reports: bool,
        /// Each third probe is lost.
        loses: bool,
    }

    /// Runs a search for some seconds; returns the end.
    fn run(
        search: &mut PathMtuSearch,
        path: &Path,
        headers: u64,
        from: Timestamp,
        seconds: i64,
    ) -> Timestamp {
        let end = from + TimeDelta::from_seconds(seconds);
        let (mut now, mut sent) = (from, 0_u64);
        loop {
            search.handle_timeout(now);
            if let Some(size) = search.poll_probe(now) {
                sent += 1;
                let lost = path.loses && sent.is_multiple_of(3);
                let back = now + TimeDelta::from_millis(20);
                if size + headers <= path.mtu && !lost {
                    now = back;
                    search.on_acknowledged(now, size);
                } else if size + headers > path.mtu && path.reports {
                    now = back;
                    search.on_packet_too_big(now, path.mtu);
                }
                continue;
            }
            if search.poll_timeout() > end {
                return end;
            }
            now = now.max(search.poll_timeout());
        }
    }

    fn found(mtu: u64, reports: bool, loses: bool, is_v6: bool, link: u64) -> PathMtuFigures {
        let headers = if is_v6 { HEADERS_V6 } else { HEADERS_V4 };
        let mut search = PathMtuSearch::new(Timestamp::ZERO, is_v6, link);
        search.on_rtt(TimeDelta::from_millis(20));
        run(&mut search, &Path { mtu, reports, loses }, headers, Timestamp::ZERO, 30);
        search.figures()
    }

    #[test]
    fn every_mtu_is_found_to_the_byte() {
        for mtu in [1228, 1229, 1280, 1300, 1420, 1476, 1491, 1492, 1499, 1500] {
            for (reports, loses) in [(true, false), (false, false), (false, true), (true, true)] {
                let figures = found(mtu, reports, loses, false, 1500);
                let found = (figures.mtu_bytes, figures.is_complete);
                assert_eq!(found, (Some(mtu), true), "{mtu} {reports} {loses}");
                // At most the base, the largest, and three for each of nine halvings; with a report three in all.
                let most = if reports && !loses { 5 } else { 45 };
                assert!(figures.probes <= most + 6, "{mtu} {reports} {loses}: {}", figures.probes);
            }
        }
        assert_eq!(found(9000, false, false, true, 9000).payload_bytes, Some(8952));
        assert_eq!(found(65_536, false, false, false, 65_536).payload_bytes, Some(65_507));
        assert_eq!(found(1280, false, true, true, 1500).mtu_bytes, Some(1280));
    }

    #[test]
    fn below_the_base_size_the_smallest_is_tried() {
        let figures = found(1000, false, false, false, 1500);
        assert_eq!((figures.mtu_bytes, figures.is_complete), (Some(1000), true), "{figures:?}");
        // A path that carries nothing has no MTU, and is not asked without end.
        let figures = found(500, false, false, false, 1500);
        assert_eq!((figures.mtu_bytes, figures.is_complete), (None, false));
        assert!(figures.probes < 40, "{figures:?}");
        assert_eq!(found(1200, false, false, true, 1500).mtu_bytes, None, "no IPv6 path is so small");
    }

    #[test]
    fn a_path_that_shrinks_is_noticed_and_one_that_grows_is_used_later() {
        let mut search = PathMtuSearch::new(Timestamp::ZERO, false, 1500);
        search.on_rtt(TimeDelta::from_millis(20));
        let path = |mtu| Path { mtu, reports: false, loses: false };
        let now = run(&mut search, &path(1500), 28, Timestamp::ZERO, 20);
        assert_eq!(search.figures().mtu_bytes, Some(1500));
        // A black hole: nobody reports it.
        let now = run(&mut search, &path(1400), 28, now, 20);
        assert_eq!((search.figures().mtu_bytes, search.figures().changes), (Some(1400), 1));
        let now = run(&mut search, &path(1500), 28, now, 500);
        assert_eq!(search.figures().mtu_bytes, Some(1400), "not before PMTU_RAISE_TIMER");
        let now = run(&mut search, &path(1500), 28, now, 150);
        assert_eq!(search.figures().mtu_bytes, Some(1500));
        // A router that says so is believed at once.
        search.on_packet_too_big(now, 1350);
        run(&mut search, &path(1350), 28, now, 2);
        assert_eq!(search.figures().mtu_bytes, Some(1350));
    }

    #[test]
    fn reports_that_cannot_be_true_change_nothing() {
        let mut search = PathMtuSearch::new(Timestamp::ZERO, false, 1500);
        search.on_rtt(TimeDelta::from_millis(20));
        let path = Path { mtu: 1500, reports: false, loses: false };
        let now = run(&mut search, &path, 28, Timestamp::ZERO, 20);
        let before = search.figures();
        for mtu in [0, 28, 68, 575, 1500, 1501, 9000, u64::MAX] {
            search.on_packet_too_big(now, mtu);
        }
        assert_eq!(search.figures(), before);
        // What is possible but false costs a few probes.
        search.on_packet_too_big(now, 600);
        run(&mut search, &path, 28, now, 700);
        assert_eq!(search.figures().mtu_bytes, Some(1500), "{:?}", search.figures());
    }

    #[test]
    fn without_an_rtt_an_answer_is_awaited_for_a_second() {
        let at = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
        let mut search = PathMtuSearch::new(at(0), false, 1500);
        assert_eq!((search.poll_probe(at(0)), search.poll_probe(at(0))), (Some(1200), None));
        search.handle_timeout(at(999));
        assert_eq!(search.poll_probe(at(999)), None);
        search.handle_timeout(at(1000));
        assert_eq!((search.poll_probe(at(1000)), search.figures().lost_probes), (Some(1200), 1));
        // The answer to the first of both is as good.
        search.on_acknowledged(at(1500), 1200);
        assert_eq!((search.phase(), search.poll_probe(at(1500))), (Phase::Searching, Some(1472)));
    }
}
