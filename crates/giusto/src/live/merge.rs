//! One record of what the caller, the listener and the links have measured.

use crate::{
    call::CallRecord,
    link::LinkRun,
    record::{
        FlowRecord, FlowTimeline, MediaTimeline, RealTimeRecord, RepairRecord, RunRecord, StreamRecord,
        Timeline,
    },
};

/// The record of a run with one flow, which `about` describes as a simulation does.
pub(super) fn merge(
    about: FlowRecord,
    caller: CallRecord,
    listener: CallRecord,
    links: LinkRun,
) -> RunRecord {
    let mut record = links.record;
    let doubts = doubts(&caller, &listener);
    record.real_time.get_or_insert_with(RealTimeRecord::default).doubts.extend(doubts);
    record.interrupted |= caller.run.interrupted || listener.run.interrupted;
    let (mut sent, mut received) = (caller.run, listener.run);
    record.timeline = match (record.timeline.take(), [sent.timeline.take(), received.timeline.take()]) {
        (Some(path), [Some(sent), Some(received)]) => over_time(&about, [sent, received], path),
        _ => None,
    };
    let path = record.flows.into_iter().next().unwrap_or_default();
    let first = |run: RunRecord| run.flows.into_iter().next().unwrap_or_default();
    record.flows = vec![flow(about, first(sent), first(received), path)];
    record
}

fn doubts(caller: &CallRecord, listener: &CallRecord) -> Vec<String> {
    let of = |call: &CallRecord| {
        let figures = &call.call;
        let error = figures.error.iter().map(|error| format!("the call ended early: {error}"));
        let doubts = error.chain(figures.doubts.iter().cloned());
        doubts.map(|doubt| format!("{}: {doubt}", figures.role)).collect::<Vec<_>>()
    };
    [of(caller), of(listener)].concat()
}

fn flow(about: FlowRecord, sent: FlowRecord, received: FlowRecord, path: FlowRecord) -> FlowRecord {
    let streams = about.streams.iter().map(|stream| {
        let of = |flow: &FlowRecord| flow.streams.iter().find(|known| known.id == stream.id).cloned();
        merged_stream(stream.clone(), of(&sent), of(&received))
    });
    FlowRecord {
        streams: streams.collect(),
        from_s: received.from_s,
        to_s: received.to_s,
        sent_rate_bps: sent.sent_rate_bps,
        sent_packets: sent.sent_packets,
        target_rate_bps: sent.target_rate_bps,
        decisions: sent.decisions,
        received_rate_bps: received.received_rate_bps,
        received_packets: received.received_packets,
        duplicate_packets: received.duplicate_packets,
        goodput_bps: received.goodput_bps,
        marked_ratio: received.marked_ratio,
        frames: received.frames,
        frame_delay_ms: received.frame_delay_ms,
        feedback_rate_bps: received.feedback_rate_bps,
        // What was still inside at the end is not lost: only the links tell the two apart.
        lost_packets: path.lost_packets,
        loss_ratio: path.loss_ratio,
        delay_ms: path.delay_ms,
        queue_delay_ms: path.queue_delay_ms,
        ..about
    }
}

fn merged_stream(
    about: StreamRecord,
    sent: Option<StreamRecord>,
    received: Option<StreamRecord>,
) -> StreamRecord {
    let (Some(sent), Some(received)) = (sent, received) else { return about };
    let repair = sent.repair.zip(received.repair).map(|(sent, received)| RepairRecord {
        retransmitted_packets: sent.retransmitted_packets,
        parity_packets: sent.parity_packets,
        repair_rate_bps: sent.repair_rate_bps,
        ..received
    });
    StreamRecord {
        goodput_bps: received.goodput_bps,
        frames: received.frames,
        frame_delay_ms: received.frame_delay_ms,
        late_frames: received.late_frames,
        skipped_frames: sent.skipped_frames,
        discarded_packets: sent.discarded_packets,
        repair,
        ..about
    }
}

/// The run over time. The windows are those of the links; a run that was ended early may have more or fewer at the other two.
fn over_time(about: &FlowRecord, [sent, received]: [Timeline; 2], path: Timeline) -> Option<Timeline> {
    let windows = path.t_s.len();
    let of = |timeline: Timeline| timeline.flows.into_iter().next();
    let (mut sent, mut received) = (of(sent)?, of(received)?);
    let crossed = path.flows.into_iter().next()?;
    let sent_media = sent.media.take().unwrap_or_default();
    let received_media = received.media.take().unwrap_or_default();
    let media = MediaTimeline {
        target_rate_bps: fitted(sent_media.target_rate_bps, windows),
        decisions: sent_media.decisions,
        omitted_decisions: sent_media.omitted_decisions,
        frames: fitted(received_media.frames, windows),
        frame_delay_max_ms: fitted(received_media.frame_delay_max_ms, windows),
        streams: {
            let mut streams = received_media.streams;
            for stream in &mut streams {
                // A call chooses the upper 24 bits.
                stream.ssrc &= 0xff;
                stream.frame_bytes = fitted(std::mem::take(&mut stream.frame_bytes), windows);
                stream.goodput_bps = fitted(std::mem::take(&mut stream.goodput_bps), windows);
            }
            streams
        },
    };
    let mut gauges = sent.gauges;
    gauges.iter_mut().for_each(|gauge| gauge.mean.resize(windows, None));
    let flow = FlowTimeline {
        id: about.id.clone(),
        sent_packets: fitted(sent.sent_packets, windows),
        sent_bytes: fitted(sent.sent_bytes, windows),
        sent_rate_bps: fitted(sent.sent_rate_bps, windows),
        received_packets: fitted(received.received_packets, windows),
        received_bytes: fitted(received.received_bytes, windows),
        received_rate_bps: fitted(received.received_rate_bps, windows),
        gauges,
        media: Some(media),
        ..crossed
    };
    Some(Timeline { flows: vec![flow], ..path })
}

fn fitted<T: Clone + Default>(mut column: Vec<T>, windows: usize) -> Vec<T> {
    column.resize(windows, T::default());
    column
}
