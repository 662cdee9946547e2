//! One stream that a thread sends: its schedule, what it waits for, its outcome.

use std::net::SocketAddr;

use giusto_measure::{ErrorHistogram, RateMeter};
use giusto_pace::{HeaderLayer, IpVersion, LateCycles, Schedule, Step};
use giusto_session::probe::{Filled, Lengths, Outgoing, SenderReports};
use giusto_units::{DataSize, TimeDelta, Timestamp};

use crate::{Clock, Grouping, Launch, SendError, UdpSocket, socket::LaunchTime};

/// One stream to send.
#[derive(Debug)]
pub struct Flow<'a> {
    /// The schedule of the datagrams.
    pub schedule: Box<dyn Schedule>,
    /// The datagrams.
    pub outgoing: Outgoing,
    /// The socket, connected unless there is `to`.
    pub socket: &'a UdpSocket,
    /// The receiver, where the socket is not connected.
    pub to: Option<SocketAddr>,
    /// How the datagrams of one cycle are passed to the kernel.
    pub grouping: Grouping,
    /// Whether relative sleeps spin instead.
    pub spin: bool,
    /// The layer whose bytes the schedule counts.
    pub layer: HeaderLayer,
    /// The address family.
    pub ip: IpVersion,
    /// The time from one cycle to the next, where it is constant.
    pub period: Option<TimeDelta>,
    /// The kernel times the departures, if the flow is the first: then it times those of all.
    pub launch: Option<Launch>,
    /// RTCP reports of a stream that is sent as RTP, from the same socket.
    pub reports: Option<SenderReports>,
}

/// Why a stream's sending ended.
#[derive(Debug)]
pub enum FlowEnd {
    /// All datagrams were sent.
    Done,
    /// The stop flag was set.
    Stopped,
    /// The system refused to send.
    Failed(SendError),
}

/// The outcome of a stream.
#[derive(Debug)]
pub struct FlowOutcome {
    /// Datagrams accepted by the kernel.
    pub packets: u64,
    /// Datagrams that the system did not take: the send buffer was full, the interface or the route was away, or sending failed.
    pub unsent_packets: u64,
    /// The latest reason.
    pub unsent_reason: Option<String>,
    /// The payload of those that it took.
    pub payload: DataSize,
    /// The rate over the cycles, at the flow's layer.
    pub rate: RateMeter,
    /// Actual minus scheduled departure time, per datagram.
    pub schedule_error: ErrorHistogram,
    /// Statistics of late datagrams.
    pub late_cycles: LateCycles,
    /// Why it ended.
    pub end: FlowEnd,
}

/// What a flow is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowState {
    /// Its turn, since this time: the flow with the earliest time comes first.
    Turn(Timestamp),
    /// A time set by its schedule.
    Until(Timestamp),
    /// A duration set by its schedule, which ends at this time.
    For(TimeDelta, Timestamp),
    /// It has ended.
    Over,
}

impl FlowState {
    fn time(self) -> Option<Timestamp> {
        match self {
            Self::Turn(at) | Self::Until(at) | Self::For(_, at) => Some(at),
            Self::Over => None,
        }
    }
}

pub(super) struct Running<'a> {
    pub(super) flow: Flow<'a>,
    pub(super) state: FlowState,
    outcome: FlowOutcome,
    /// When the next departure that is a sample is asked for, and the time from one to the next.
    sample_at: Timestamp,
    samples_every: TimeDelta,
    /// The next departure is a sample.
    samples: bool,
}

/// The flow whose turn is next; `None` if all are over.
pub(super) fn first_due<'f, 'a>(flows: &'f mut [Running<'a>]) -> Option<&'f mut Running<'a>> {
    // There are few flows: a scan is faster than keeping an order.
    let due = flows.iter_mut().filter_map(|flow| flow.state.time().map(|time| (time, flow)));
    // Of those due at one time, the one that has sent least: their order rotates.
    due.min_by_key(|(time, flow)| (*time, flow.outcome.packets)).map(|(_, flow)| flow)
}

impl<'a> Running<'a> {
    /// One of so many streams of a thread.
    pub(super) fn new(flow: Flow<'a>, streams: usize) -> Self {
        /// All streams have so many samples together as one: each wakes the thread that reads it.
        const SAMPLES: TimeDelta = TimeDelta::from_millis(250);
        let outcome = FlowOutcome {
            packets: 0,
            unsent_packets: 0,
            unsent_reason: None,
            payload: DataSize::ZERO,
            rate: RateMeter::default(),
            schedule_error: ErrorHistogram::new(),
            late_cycles: LateCycles::default(),
            end: FlowEnd::Stopped,
        };
        Self {
            flow,
            state: FlowState::Turn(Timestamp::ZERO),
            outcome,
            sample_at: Timestamp::ZERO,
            samples_every: SAMPLES * streams as i64,
            samples: false,
        }
    }

    pub(super) fn woke(&mut self, now: Timestamp) {
        self.flow.schedule.on_woke(now);
        self.state = FlowState::Turn(now);
    }

    pub(super) fn step(&mut self, clock: Clock) {
        self.step_at(clock.now(), clock, None);
    }

    /// The next step of the schedule. With `launch` the kernel sends at `asked`, and for the schedule that is the time.
    pub(super) fn step_at(&mut self, asked: Timestamp, clock: Clock, launch: Option<LaunchTime>) {
        self.state = FlowState::Turn(asked);
        let time = || if launch.is_some() { asked } else { clock.now() };
        match self.flow.schedule.next(asked) {
            Step::Send(cycle) => {
                let socket = self.flow.socket;
                let sample = self.samples.then(|| socket.sample()).flatten();
                let now = time();
                let filled = self.flow.outgoing.fill(now, cycle.due, cycle.packets);
                let packets = filled.packets();
                let (layer, ip) = (self.flow.layer, self.flow.ip);
                // The payload of the first datagrams, and their size on the layer.
                let size_of = |packets: usize| match filled.lengths {
                    Lengths::Equal(size) => {
                        let size = DataSize::from_bytes(size as u64);
                        (size * packets as u64, layer.on_wire(size, ip) * packets as u64)
                    }
                    Lengths::Varied(sizes) => {
                        let sizes =
                            || sizes.iter().take(packets).map(|size| DataSize::from_bytes(*size as u64));
                        (sizes().sum(), sizes().map(|size| layer.on_wire(size, ip)).sum())
                    }
                };
                let (payload, on_layer) = size_of(packets);
                let sent = match launch {
                    Some(at) => send_launched(self.flow.socket, self.flow.to, &filled, at),
                    None => send(self.flow.socket, self.flow.to, &filled, self.flow.grouping),
                };
                if let Some(sample) = sample {
                    sample.sent(now);
                    self.samples = false;
                } else if now >= self.sample_at && !self.samples {
                    self.sample_at = now + self.samples_every;
                    self.samples = socket.begin_sample(clock);
                }
                match sent {
                    Ok(()) => {
                        self.outcome.packets += packets as u64;
                        self.outcome.payload += payload;
                        // Datagrams sent together are one event: the (N−1) rule counts cycles.
                        self.outcome.rate.on_packet(now, None, on_layer);
                    }
                    Err(error) => {
                        let accepted = error.accepted() as u64;
                        if accepted > 0 {
                            let (payload, on_layer) = size_of(error.accepted());
                            self.outcome.payload += payload;
                            self.outcome.rate.on_packet(now, None, on_layer);
                        }
                        self.outcome.packets += accepted;
                        self.outcome.unsent_packets += packets as u64 - accepted;
                        self.outcome.unsent_reason = Some(error.to_string());
                        self.flow.outgoing.return_unsent(packets as u64 - accepted);
                        // What was not sent is counted; whether the receiver is gone, its silence shows.
                        if !error.is_passing() {
                            self.outcome.end = FlowEnd::Failed(error);
                            self.state = FlowState::Over;
                        }
                    }
                }
                // When the kernel sends is not known.
                if launch.is_none() {
                    self.outcome.schedule_error.record_many(now - cycle.due, packets as u64);
                }
                self.flow.schedule.on_sent(time(), on_layer);
                self.report(clock, false);
            }
            Step::SleepFor(span) => self.state = FlowState::For(span, time() + span),
            Step::SleepUntil(at) => self.state = FlowState::Until(at),
            Step::Poll => {}
            Step::Done => {
                self.outcome.end = FlowEnd::Done;
                self.state = FlowState::Over;
            }
            // A step of a later version of the trait cannot be handled.
            _ => self.state = FlowState::Over,
        }
    }

    fn report(&mut self, clock: Clock, last: bool) {
        let Some((reports, timing)) = self.flow.reports.as_mut().zip(self.flow.outgoing.media_timing())
        else {
            return;
        };
        let (now, packets, payload) = (clock.now(), self.outcome.packets, self.outcome.payload);
        let due = if last {
            Some(reports.goodbye(now, timing, packets, payload))
        } else {
            reports.poll(now, timing, packets, payload)
        };
        if let Some(bytes) = due {
            // A report that cannot be sent is like a lost one: the next one contains more.
            let _ = self.flow.socket.send(&bytes);
        }
    }

    pub(super) fn finish(mut self, clock: Clock) -> FlowOutcome {
        self.report(clock, true);
        FlowOutcome { late_cycles: self.flow.schedule.late_cycles(), ..self.outcome }
    }
}

fn send(
    socket: &UdpSocket,
    to: Option<SocketAddr>,
    filled: &Filled<'_>,
    grouping: Grouping,
) -> Result<(), SendError> {
    match filled.lengths {
        Lengths::Equal(size) => socket.send_segments(to, filled.bytes, size, grouping).map(drop),
        Lengths::Varied(sizes) => socket.send_varied(to, filled.bytes, sizes).map(drop),
    }
}

fn send_launched(
    socket: &UdpSocket,
    to: Option<SocketAddr>,
    filled: &Filled<'_>,
    at: LaunchTime,
) -> Result<(), SendError> {
    let lengths: Vec<usize> = filled.sizes().collect();
    socket.send_launched(to, filled.bytes, &lengths, at).map(drop)
}
