//! One controller that is shown a recording.

use giusto_congestion::{
    Algorithm, Controller, Decision, FeedbackKind, Probe, QueueState, StreamState, Target,
    log::{Answer, Call},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::event::{Entry, Event, Message, SessionInfo};

/// A recorded probe stands for one that the replayed controller requests if their rates differ by at most this share.
/// Chosen by us.
const SAME_RATE: f64 = 0.25;
/// And if the requests are at most this far apart. Chosen by us.
const SAME_TIME: TimeDelta = TimeDelta::from_seconds(1);
/// The most deadlines of a controller between two events of the recording: a damaged time may be centuries away. If there are more, the
/// controller is next called at the time of the event, which [`Player::notes`] says. Chosen by us: an hour at 10 ms.
const MAX_DEADLINES: u64 = 360_000;
/// The most requests for probes that are remembered.
const MAX_PROBES: usize = 1024;

/// A controller and the state of the recording that it needs.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) algorithm: Algorithm,
    controller: Box<dyn Controller>,
    /// Whether it is the recorded controller, which is called exactly as it was.
    pub(super) is_recorded: bool,
    has_begun: bool,
    queue: QueueState,
    streams: Vec<StreamState>,
    /// Probes of the recording: cluster, time, rate, and the cluster of the controller's own that it stands for.
    recorded: Vec<(u32, Timestamp, DataRate, Option<u32>)>,
    /// Probes that the controller has requested, and whether the recording has them.
    requested: Vec<(Timestamp, Probe, bool)>,
    pub(super) requests: u64,
    last: Option<(Target, Decision, Vec<DataRate>)>,
    /// Packets sent, and those at which the recorded bytes in flight were more than the window.
    pub(super) windowed: (u64, u64),
    /// Whether there were more than [`MAX_DEADLINES`].
    passes_over: bool,
}

impl Player {
    /// A player of `algorithm`, or why the recording cannot show what it would have done.
    pub(super) fn new(algorithm: Algorithm, info: &SessionInfo) -> Result<Self, String> {
        let needs = algorithm.requirements();
        if !needs.accepts(info.feedback) {
            let names = |kinds: &[FeedbackKind]| {
                kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" or ")
            };
            let (accepted, recorded) = (names(needs.accepted), info.feedback.name());
            return Err(format!(
                "it needs feedback of the kind {accepted}, and the recording has {recorded}"
            ));
        }
        if needs.sender_queue && info.lacks.queue {
            return Err("it needs the state of the sender's queue, which the recording lacks".to_owned());
        }
        Ok(Self {
            algorithm,
            controller: algorithm.build_with(info.limits, info.options),
            is_recorded: !info.lacks.calls && algorithm.name() == info.controller,
            has_begun: false,
            queue: QueueState::default(),
            streams: Vec::new(),
            recorded: Vec::new(),
            requested: Vec::new(),
            requests: 0,
            last: None,
            windowed: (0, 0),
            passes_over: false,
        })
    }

    /// What limits the meaning of its figures.
    pub(super) fn notes(&self, info: &SessionInfo) -> Vec<String> {
        let mut notes = Vec::new();
        let needs = self.algorithm.requirements();
        if needs.marks && info.lacks.ecn {
            notes.push("the recording has no ECN marks: it reacts to delays and losses alone".to_owned());
        }
        if info.lacks.precise_times {
            notes.push("the recording's times are whole milliseconds".to_owned());
        }
        if self.passes_over {
            notes.push(
                "between two events of the recording it had more than 360,000 deadlines: it was not called at the others".to_owned(),
            );
        }
        let (packets, beyond) = self.windowed;
        let share = beyond as f64 / packets.max(1) as f64 * 100.0;
        if !self.is_recorded && share >= 0.5 {
            notes.push(format!(
                "its window does not act on the recording: {share:.0} % of the packets left with more bytes in flight than it permits"
            ));
        }
        if !self.is_recorded && self.requests > 0 {
            let found = self.requested.iter().filter(|(.., found)| *found).count();
            notes.push(format!(
                "of the {} probes that it requested, the recording has {found}",
                self.requests
            ));
        }
        notes
    }

    /// Shows it an event. `tell` receives the changes of its answer, as events with their times.
    pub(super) fn show(&mut self, entry: &Entry, tell: &mut dyn FnMut(Timestamp, Event)) {
        let at = entry.at;
        if self.is_recorded {
            entry.event.with_call(|call| self.call(at, call, tell));
            return;
        }
        match &entry.event {
            Event::Timeout(queue) => self.queue = *queue,
            Event::Streams(streams) => self.streams.clone_from(streams),
            Event::Probe(probe) => self.on_recorded_probe(at, probe),
            _ => {}
        }
        if !self.has_begun {
            self.has_begun = true;
            self.timeout(at, tell);
        }
        self.run_until(at, tell);
        match &entry.event {
            Event::Sent(packet) => {
                let mut packet = *packet;
                packet.probe = packet.probe.and_then(|probe| self.own_probe(probe));
                if let Some(window) = self.controller.target().window {
                    self.windowed.0 += 1;
                    self.windowed.1 += u64::from(packet.in_flight > window);
                }
                self.call(at, &Call::Sent(packet), tell);
            }
            Event::Feedback(message) => {
                let mut message: Message = message.clone();
                for report in &mut message.packets {
                    report.sent.probe = report.sent.probe.and_then(|probe| self.own_probe(probe));
                }
                self.call(at, &Call::Feedback(message.feedback()), tell);
                // Feedback may have made a deadline due.
                self.run_until(at, tell);
            }
            Event::Limits(_) | Event::RouteChange => {
                entry.event.with_call(|call| self.call(at, call, tell));
            }
            _ => {}
        }
    }

    /// Calls it at its deadlines until `at`, with the queue as it was recorded last.
    fn run_until(&mut self, at: Timestamp, tell: &mut dyn FnMut(Timestamp, Event)) {
        let mut latest = None;
        for _ in 0..MAX_DEADLINES {
            let Some(due) = self.controller.next_timeout().filter(|&due| due <= at) else { return };
            // A controller whose deadline does not move is called once.
            if latest.is_some_and(|latest| due <= latest) {
                return;
            }
            latest = Some(due);
            self.timeout(due, tell);
        }
        self.passes_over |= self.controller.next_timeout().is_some_and(|due| due <= at);
        // Its next deadlines follow this time.
        self.timeout(at, tell);
    }

    fn timeout(&mut self, at: Timestamp, tell: &mut dyn FnMut(Timestamp, Event)) {
        if !self.streams.is_empty() {
            let streams = std::mem::take(&mut self.streams);
            self.call(at, &Call::Streams(&streams), tell);
            self.streams = streams;
        }
        self.call(at, &Call::Timeout(self.queue), tell);
    }

    fn call(&mut self, at: Timestamp, call: &Call<'_>, tell: &mut dyn FnMut(Timestamp, Event)) {
        call.make(at, self.controller.as_mut());
        let Answer { target, decision, stream_targets, .. } = Answer::of(self.controller.as_ref());
        let (before, shares) = match self.last.take() {
            Some((target, decision, shares)) => (Some((target, decision)), shares),
            None => (None, Vec::new()),
        };
        if before.is_none_or(|before| before.0 != target) {
            tell(at, Event::Target(target));
        }
        if before.is_none_or(|before| before.1 != decision) {
            tell(at, Event::Decision(decision));
        }
        let shares = if shares == stream_targets {
            shares
        } else {
            tell(at, Event::Shares(stream_targets.to_vec()));
            stream_targets.to_vec()
        };
        self.last = Some((target, decision, shares));
        while let Some(probe) = self.controller.next_probe() {
            self.requests += 1;
            if self.requested.len() < MAX_PROBES {
                self.requested.push((at, probe, false));
            }
            tell(at, Event::Probe(probe));
        }
    }

    fn on_recorded_probe(&mut self, at: Timestamp, probe: &Probe) {
        if self.recorded.len() < MAX_PROBES {
            self.recorded.push((probe.cluster, at, probe.rate, None));
        }
    }

    /// The cluster of the controller's own for which the recorded cluster `recorded` stands, if any.
    fn own_probe(&mut self, recorded: u32) -> Option<u32> {
        let (_, at, rate, own) = self.recorded.iter_mut().rev().find(|(cluster, ..)| *cluster == recorded)?;
        if own.is_none() {
            let (rate, at) = (rate.as_bps() as f64, *at);
            let fits = |asked: Timestamp, probe: &Probe| {
                let apart = asked.max(at).saturating_since(asked.min(at));
                apart <= SAME_TIME && (probe.rate.as_bps() as f64 - rate).abs() <= rate * SAME_RATE
            };
            let request =
                self.requested.iter_mut().find(|(asked, probe, found)| !found && fits(*asked, probe));
            if let Some((_, probe, found)) = request {
                *found = true;
                *own = Some(probe.cluster);
            }
        }
        *own
    }
}
