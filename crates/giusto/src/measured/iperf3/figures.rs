//! Results of streams that iperf3 sent or received.

use giusto_measure::StreamMeter;
use giusto_net::{Granted, UdpSocket};
use giusto_session::iperf3::{Incoming, Parameters, StreamOutcome};
use giusto_units::{DataRate, TimeDelta};

use crate::measured::{
    interval::{IntervalFigures, SentCounts},
    live::{Arrived, Live},
    result::{FarEndFigures, LiveFigures, RunResult, SystemGranted},
    send::{StreamOutcome as Sent, Transmission},
};

/// Facts about a received stream besides its datagrams.
pub(super) struct Reception<'a> {
    pub(super) parameters: &'a Parameters,
    /// The program that sent.
    pub(super) program: &'a str,
    /// The sender's own figures, if it sent them.
    pub(super) sender: Option<&'a StreamOutcome>,
    pub(super) from: String,
    pub(super) cpu_ratio: f64,
    pub(super) granted: &'a Granted,
    pub(super) ended: String,
}

/// The result of a stream that this end received.
pub(super) fn received(incoming: &mut Incoming, about: &Reception<'_>) -> RunResult {
    let mut result = RunResult {
        strategy: "peer".to_owned(),
        peer: Some(about.program.to_owned()),
        rate_bps: about.parameters.rate.map(DataRate::as_bps),
        size_bytes: Some(about.parameters.size.as_bytes()),
        layer: Some("payload".to_owned()),
        format: Some("iperf3".to_owned()),
        from: Some(about.from.clone()),
        receiver_cpu_ratio: Some(about.cpu_ratio),
        system: Some(SystemGranted::from(about.granted)),
        ended: Some(about.ended.clone()),
        ..RunResult::default()
    };
    if let Some(sender) = about.sender {
        incoming.finish(sender.packets);
        let sent = sender.packets.saturating_sub(incoming.omitted_packets());
        result.sent_packets = Some(sent);
        result.far_end = Some(far_end(about.program, sender, about.parameters, Role::Sender));
    }
    if let Some(meter) = incoming.meter() {
        let summary = meter.summary();
        result.add_received(&summary);
        let times = summary.first_arrival.zip(summary.last_arrival);
        result.duration_s = times.map(|(first, last)| (last - first).as_seconds());
    } else {
        result.received_packets = Some(0);
    }
    if about.sender.is_none() {
        // How many datagrams followed the last one that arrived is unknown.
        (result.lost_packets, result.loss_ratio, result.loss_bursts) = (None, None, None);
    }
    result.doubts = result.find_doubts();
    result
}

/// Adds the figures of the receiving far end to the result of a stream that this end sent.
pub(super) fn add_receiver(
    result: &mut RunResult,
    program: &str,
    receiver: Option<&StreamOutcome>,
    parameters: &Parameters,
) {
    result.format = Some("iperf3".to_owned());
    result.far_end = receiver.map(|receiver| far_end(program, receiver, parameters, Role::Receiver));
    result.doubts = result.find_doubts();
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Sender,
    Receiver,
}

fn far_end(program: &str, reported: &StreamOutcome, parameters: &Parameters, role: Role) -> FarEndFigures {
    let arrived = reported.bytes / parameters.size.as_bytes().max(1);
    let receiver = role == Role::Receiver;
    let seconds = reported.duration.as_seconds();
    FarEndFigures {
        program: program.to_owned(),
        sent_packets: (!receiver).then(|| reported.packets.saturating_sub(reported.omitted_packets)),
        received_packets: receiver.then_some(arrived),
        lost_packets: receiver.then(|| reported.lost_packets.saturating_sub(reported.omitted_lost_packets)),
        jitter_ms: receiver.then(|| reported.jitter.as_millis()),
        rate_bps: (seconds > 0.0).then(|| reported.bytes as f64 * 8.0 / seconds),
        duration_s: (seconds > 0.0).then_some(seconds),
        rtcp: None,
    }
}

/// The figures of a stream that this end sent, for the far end.
pub(super) fn sent(stream: &Sent, id: i64, duration: TimeDelta, omitted: u64) -> StreamOutcome {
    let all = stream.sent.payload.as_bytes();
    let size = all / stream.sent.packets.max(1);
    let omitted_packets = omitted.min(stream.sent.packets);
    StreamOutcome {
        id,
        bytes: all.saturating_sub(omitted_packets * size),
        packets: stream.sent.packets,
        omitted_packets,
        duration,
        ..StreamOutcome::default()
    }
}

/// CPU time of the sending thread, if this end sends.
pub(super) fn sender_cpu(transmission: Option<&Transmission>) -> f64 {
    transmission.map_or(0.0, |transmission| transmission.sender_cpu_ratio)
}

/// The state of a test; the rate is that of the last second.
pub(super) fn live<'a>(
    sent_packets: Option<u64>,
    streams: impl Iterator<Item = &'a Incoming>,
    interval: Option<IntervalFigures>,
) -> Live {
    let mut all = LiveFigures::default();
    for stream in streams {
        all.add(stream.meter(), stream.meter().map_or(0, StreamMeter::kernel_dropped_packets));
    }
    let arrived = (all.streams > 0).then_some(Arrived::Streams(all));
    Live { sent_packets, arrived, interval: interval.map(Into::into) }
}

/// The datagrams of the streams that these sockets have sent. Greetings are none.
pub(super) fn sent_counts<'a>(sockets: impl IntoIterator<Item = &'a UdpSocket>) -> SentCounts {
    let counters = sockets.into_iter().map(UdpSocket::send_counters);
    counters.fold(SentCounts::default(), |all, counters| SentCounts {
        packets: all.packets + counters.run_datagrams,
        bytes: all.bytes + counters.run_bytes,
    })
}

/// Time between the first and the last datagram of all streams.
pub(super) fn span<'a>(streams: impl Iterator<Item = &'a Incoming>) -> TimeDelta {
    let spans = streams.filter_map(Incoming::meter).map(StreamMeter::summary);
    let ends = spans.filter_map(|summary| summary.first_arrival.zip(summary.last_arrival));
    let ends: Vec<_> = ends.collect();
    let first = ends.iter().map(|(first, _)| *first).min();
    let last = ends.iter().map(|(_, last)| *last).max();
    first.zip(last).map_or(TimeDelta::ZERO, |(first, last)| last - first)
}
