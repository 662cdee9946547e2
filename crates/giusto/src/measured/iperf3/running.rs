//! What both ends of a running test do: receive streams, and count those received and those sent.

use std::{collections::HashMap, io, net::SocketAddr};

use giusto_measure::StreamMeter;
use giusto_net::{Clock, ThreadCpu, UdpSocket, driver::Gatherer};
use giusto_session::{
    iperf3::{Incoming, IncomingConfig, Outcome, Parameters, stream_id},
    probe::Inbound,
};
use giusto_units::{DataSize, TimeDelta, Timestamp};

use super::figures;
use crate::measured::{
    interval::{IntervalFigures, LocalIntervals, SentCounts},
    live::{Arrived, Live},
    result::LiveFigures,
    send::Transmission,
};

/// Time between two calls with live figures.
const LIVE: TimeDelta = TimeDelta::from_millis(200);

/// The streams of a test at this end.
pub(super) struct Running<'a> {
    pub(super) gatherer: Gatherer<'a>,
    /// The streams received.
    pub(super) streams: Vec<Incoming>,
    /// The stream of each source, where all share one socket. Otherwise each has its own.
    by_address: Option<HashMap<SocketAddr, usize>>,
    /// Why nothing more can be received.
    pub(super) failed: Option<io::Error>,
    pub(super) clock: Clock,
    began: Timestamp,
    /// Counting began: after the omitted time.
    counts_from: Timestamp,
    cpu: ThreadCpu,
    sending: Option<Sending<'a>>,
    next_live: Timestamp,
    intervals: Option<LocalIntervals>,
    /// Not counted.
    omitted_time: TimeDelta,
    /// Datagrams that each stream sent in it.
    omitted_sent: u64,
}

/// The streams that this end sends.
#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) sockets: &'a [UdpSocket],
    pub(super) streams: usize,
    /// The header bytes that the rate counts.
    pub(super) header: DataSize,
}

impl<'a> Running<'a> {
    /// A test that begins now: `streams` are received from `sockets`.
    pub(super) fn new(
        clock: Clock,
        sockets: &'a [UdpSocket],
        parameters: &Parameters,
        streams: usize,
        sending: Option<Sending<'a>>,
    ) -> Self {
        let config = IncomingConfig::new(parameters, clock.origin_monotonic_nanos());
        let began = clock.now();
        Self {
            gatherer: Gatherer::new(sockets, clock),
            streams: (0..streams).map(|_| Incoming::new(config)).collect(),
            by_address: None,
            failed: None,
            clock,
            began,
            counts_from: began,
            cpu: ThreadCpu::start(),
            sending,
            next_live: began,
            intervals: None,
            omitted_time: parameters.omit,
            omitted_sent: 0,
        }
    }

    /// All streams arrive at one socket, from these addresses.
    pub(super) fn tell_apart_by(&mut self, sources: &[SocketAddr]) {
        self.by_address = Some(sources.iter().copied().zip(0..).collect());
    }

    pub(super) const fn began(&self) -> Timestamp {
        self.began
    }

    /// Reads datagrams that have arrived; `all`: until the sockets are empty. Returns whether some belong to a stream.
    pub(super) fn read(&mut self, all: bool) -> bool {
        let mut heard = false;
        let Self { streams, by_address, gatherer, .. } = self;
        let on_datagrams = |socket: usize, inbound: &Inbound<'_>| {
            let index = by_address.as_ref().map_or(Some(socket), |by| by.get(&inbound.from).copied());
            if let Some(stream) = index.and_then(|index| streams.get_mut(index)) {
                heard |= take(stream, inbound);
            }
        };
        let read = if all { gatherer.drain(on_datagrams) } else { gatherer.read(on_datagrams) };
        if let Err(error) = read {
            self.failed = Some(error);
        }
        heard
    }

    /// Reads all that has arrived, and how much the sockets have dropped until now.
    pub(super) fn drain(&mut self) -> bool {
        let heard = self.read(true);
        for (index, stream) in self.streams.iter_mut().enumerate() {
            let socket = if self.by_address.is_some() { 0 } else { index };
            stream.on_kernel_dropped(self.gatherer.kernel_dropped(socket));
        }
        heard
    }

    pub(super) fn last_heard(&self) -> Option<Timestamp> {
        self.streams.iter().filter_map(Incoming::last_heard).max()
    }

    /// Begins intervals of this length at `start`, when `sent` had been sent.
    pub(super) fn begin_intervals(&mut self, length: Option<TimeDelta>, start: Timestamp, sent: SentCounts) {
        let sends = self.sending.map(|sending| (sending.streams, sending.header));
        self.intervals = length.map(|length| LocalIntervals::new(length, start, sent, sends));
    }

    /// The omitted time is over. Returns what was sent in it.
    pub(super) fn end_omitted(&mut self) -> SentCounts {
        let sent = self.sent();
        self.counts_from = self.clock.now();
        self.streams.iter_mut().for_each(Incoming::end_omitted);
        self.omitted_sent = sent.packets / self.sending.map_or(1, |sending| sending.streams) as u64;
        sent
    }

    /// The state of the test, several times a second and at the end of each interval, of which alone if `quiet`.
    pub(super) fn turn(&mut self, now: Timestamp, quiet: bool) -> Option<Live> {
        let sent = self.sent();
        let meters = self.streams.iter().map(Incoming::meter);
        let interval = self.intervals.as_mut().and_then(|all| all.on_turn(now, sent, meters));
        if (now < self.next_live || quiet) && interval.is_none() {
            return None;
        }
        self.next_live = now + LIVE;
        Some(self.live(sent, interval))
    }

    /// The state with the last interval; sending ended at `ended`.
    pub(super) fn last(&mut self, ended: Timestamp) -> Option<Live> {
        let sent = self.sent();
        let meters = self.streams.iter().map(Incoming::meter);
        let last = self.intervals.take()?.finish(self.clock.now(), ended, sent, meters)?;
        Some(self.live(self.sent(), Some(last)))
    }

    /// The datagrams of the streams sent so far. Greetings are none.
    fn sent(&self) -> SentCounts {
        self.sending.map_or_else(SentCounts::default, |sending| SentCounts::of(sending.sockets))
    }

    /// The rate is that of the last second.
    fn live(&self, sent: SentCounts, interval: Option<IntervalFigures>) -> Live {
        let mut all = LiveFigures::default();
        for stream in &self.streams {
            all.add(stream.meter(), stream.meter().map_or(0, StreamMeter::kernel_dropped_packets), true);
        }
        let arrived = (all.streams > 0).then_some(Arrived::Streams(all));
        let sent_packets = self.sending.map(|_| sent.packets);
        Live { sent_packets, arrived, interval: interval.map(Into::into) }
    }

    /// CPU time of this thread over elapsed time.
    pub(super) fn cpu_ratio(&self, now: Timestamp) -> f64 {
        self.cpu.used().as_seconds() / now.saturating_since(self.began).as_seconds().max(1e-9)
    }

    /// The figures for the far end: of the streams received, the first of which has the index `first` in the test, and of those sent.
    /// The time of the former is that of the test, which the client ended at `ended`: from the first to the last of N datagrams there
    /// are N − 1 intervals, and iperf3 divides all bytes by this time.
    pub(super) fn outcome(
        &self,
        cpu_ratio: f64,
        first: usize,
        ended: Timestamp,
        transmission: Option<&Transmission>,
    ) -> Outcome {
        let duration = ended.saturating_since(self.counts_from);
        let received = self.streams.iter().zip(first..);
        let received = received.map(|(stream, index)| stream.outcome(stream_id(index), duration));
        let first_sent = if first == 0 { self.streams.len() } else { 0 };
        let sent = transmission.into_iter().flat_map(|sent| {
            let counted = (sent.duration - self.omitted_time).max(TimeDelta::ZERO);
            let streams = sent.streams.iter().zip(first_sent..);
            streams.map(move |(stream, index)| {
                figures::sent(stream, stream_id(index), counted, self.omitted_sent)
            })
        });
        let mut streams: Vec<_> = received.chain(sent).collect();
        streams.sort_by_key(|stream| stream.id);
        let sender_cpu = transmission.map_or(0.0, |transmission| transmission.sender_cpu_ratio);
        Outcome { cpu_ratio: cpu_ratio + sender_cpu, streams }
    }
}

/// Hands the datagrams of one receive call to their stream. Returns whether one belongs to it.
fn take(stream: &mut Incoming, inbound: &Inbound<'_>) -> bool {
    let datagrams = inbound.bytes.chunks(inbound.segment.max(1));
    stream.on_message(datagrams.len() as u64, inbound.kernel_dropped);
    let of_stream = datagrams.filter(|datagram| stream.on_datagram(inbound.at, datagram, inbound.tos));
    of_stream.count() > 0
}
