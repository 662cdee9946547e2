//! Results of streams that iperf3 sent or received.

use std::net::SocketAddr;

use giusto_net::Granted;
use giusto_session::iperf3::{Incoming, Outcome, Parameters, StreamOutcome, stream_id};
use giusto_units::{DataRate, TimeDelta};

use crate::measured::{
    plan::ResolvedPlan,
    result::{FarEndFigures, RunResult, SystemGranted},
    send::{StreamOutcome as Sent, Transmission},
};

/// What is known of a test that has ended.
pub(super) struct Ended<'a> {
    pub(super) parameters: &'a Parameters,
    /// The program at the far end.
    pub(super) program: &'a str,
    /// The far end's figures, if it sent them.
    pub(super) reported: Option<&'a Outcome>,
    pub(super) cpu_ratio: f64,
    pub(super) granted: &'a Granted,
    /// What ended the test early.
    pub(super) failure: Option<&'a str>,
}

impl Ended<'_> {
    fn reported(&self, index: usize) -> Option<&StreamOutcome> {
        self.reported?.stream(stream_id(index))
    }

    /// The results of the streams sent, the first of which has the index `first` in the test.
    pub(super) fn sent(&self, sent: &Transmission, plan: &ResolvedPlan, first: usize) -> Vec<RunResult> {
        let mut results = sent.results(plan);
        for (result, index) in results.iter_mut().zip(first..) {
            if let Some(failure) = self.failure {
                result.ended = Some(failure.to_owned());
            }
            result.format = Some("iperf3".to_owned());
            let receiver = self.reported(index);
            result.far_end = receiver.map(|of| far_end(self.program, of, self.parameters, Role::Receiver));
            result.doubts = result.find_doubts();
        }
        results
    }

    /// The results of these streams received, the first of which has the index `first` in the test.
    pub(super) fn received(
        &self,
        streams: &mut [Incoming],
        first: usize,
        from: &[SocketAddr],
    ) -> Vec<RunResult> {
        let streams = streams.iter_mut().zip(from).zip(first..);
        streams
            .map(|((stream, from), index)| self.received_one(stream, self.reported(index), *from))
            .collect()
    }

    fn received_one(
        &self,
        incoming: &mut Incoming,
        sender: Option<&StreamOutcome>,
        from: SocketAddr,
    ) -> RunResult {
        let mut result = RunResult {
            strategy: "peer".to_owned(),
            peer: Some(self.program.to_owned()),
            rate_bps: self.parameters.rate.map(DataRate::as_bps),
            size_bytes: Some(self.parameters.size.as_bytes()),
            layer: Some("payload".to_owned()),
            format: Some("iperf3".to_owned()),
            from: Some(from.to_string()),
            receiver_cpu_ratio: Some(self.cpu_ratio),
            system: Some(SystemGranted::from(self.granted)),
            ended: Some(self.failure.unwrap_or("finished by the sender").to_owned()),
            ..RunResult::default()
        };
        if let Some(sender) = sender {
            incoming.finish(sender.packets);
            let sent = sender.packets.saturating_sub(incoming.omitted_packets());
            result.sent_packets = Some(sent);
            result.far_end = Some(far_end(self.program, sender, self.parameters, Role::Sender));
        }
        if let Some(meter) = incoming.meter() {
            let summary = meter.summary();
            result.add_received(&summary);
            let times = summary.first_arrival.zip(summary.last_arrival);
            result.duration_s = times.map(|(first, last)| (last - first).as_seconds());
        } else {
            result.received_packets = Some(0);
        }
        if sender.is_none() {
            // How many datagrams followed the last one that arrived is unknown.
            (result.lost_packets, result.loss_ratio, result.loss_bursts) = (None, None, None);
        }
        result.doubts = result.find_doubts();
        result
    }
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
