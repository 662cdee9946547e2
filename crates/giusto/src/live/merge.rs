//! One record of what the caller, the listener and the links have measured.

use crate::{
    call::CallRecord,
    record::{
        FlowRecord, FlowTimeline, MediaTimeline, RealTimeRecord, RepairRecord, RunRecord, StreamRecord,
        Timeline,
    },
};

/// The record of a run with one flow, which `about` describes as a simulation does. `record` is that of the links.
pub(super) fn merge(
    about: FlowRecord,
    caller: CallRecord,
    listener: CallRecord,
    mut record: RunRecord,
) -> RunRecord {
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
    record.flows = vec![flow(about, &first(sent), &first(received), &path)];
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

fn flow(about: FlowRecord, sent: &FlowRecord, received: &FlowRecord, path: &FlowRecord) -> FlowRecord {
    let streams = about.streams.iter().map(|stream| {
        let of = |flow: &FlowRecord| flow.streams.iter().find(|known| known.id == stream.id).cloned();
        merged_stream(stream.clone(), of(sent), of(received))
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
        // What was still inside at the end is not lost: only the links distinguish the two.
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
    for gauge in &mut gauges {
        gauge.mean.resize(windows, None);
    }
    let flow = FlowTimeline {
        id: about.id.clone(),
        sent_packets: fitted(sent.sent_packets, windows),
        sent_bytes: fitted(sent.sent_bytes, windows),
        sent_rate_bps: fitted(sent.sent_rate_bps, windows),
        received_packets: fitted(received.received_packets, windows),
        received_bytes: fitted(received.received_bytes, windows),
        received_rate_bps: fitted(received.received_rate_bps, windows),
        goodput_bytes: fitted(received.goodput_bytes, windows),
        goodput_bps: fitted(received.goodput_bps, windows),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        call::CallFigures,
        record::{DecisionRecord, Gauge, StreamKind},
    };

    fn stream(ssrc: u32, frames: u64, skipped: u64) -> StreamRecord {
        let (requested_packets, retransmitted_packets) = (Some(frames), Some(skipped));
        let repair = RepairRecord { requested_packets, retransmitted_packets, ..RepairRecord::default() };
        StreamRecord {
            frames,
            skipped_frames: Some(skipped),
            repair: Some(repair),
            ..StreamRecord::new("video", ssrc, StreamKind::Video)
        }
    }

    /// A record whose counts and columns are all `count`, over so many windows.
    fn run(count: u64, windows: usize) -> RunRecord {
        let (id, rate, column) = ("call".to_owned(), count as f64, vec![count; windows]);
        let maybe = vec![Some(rate); windows];
        let flow = FlowRecord {
            id: id.clone(),
            sent_packets: count,
            received_packets: count,
            lost_packets: count,
            sent_rate_bps: rate,
            received_rate_bps: rate,
            loss_ratio: Some(rate),
            target_rate_bps: Some(rate),
            frames: Some(count),
            feedback_rate_bps: Some(rate),
            streams: vec![stream(0x5500_0002, count, count)],
            ..FlowRecord::default()
        };
        let cause = giusto_congestion::Cause::Start;
        let media = MediaTimeline {
            target_rate_bps: maybe.clone(),
            frames: column.clone(),
            frame_delay_max_ms: maybe.clone(),
            decisions: vec![DecisionRecord { at_s: rate, from_bps: 1, to_bps: 2, cause }],
            ..MediaTimeline::default()
        };
        let over_time = FlowTimeline {
            id,
            sent_packets: column.clone(),
            received_packets: column.clone(),
            dropped_packets: column,
            queue_delay_max_ms: maybe.clone(),
            gauges: vec![Gauge { name: "window_bytes".to_owned(), mean: maybe }],
            media: Some(media),
            ..FlowTimeline::default()
        };
        let timeline =
            Timeline { width_s: 0.1, t_s: vec![0.0; windows], flows: vec![over_time], links: Vec::new() };
        RunRecord { flows: vec![flow], timeline: Some(timeline), ..RunRecord::default() }
    }

    fn call(role: &str, count: u64, windows: usize) -> CallRecord {
        let (role, doubts) = (role.to_owned(), vec![format!("{count} were late")]);
        CallRecord { run: run(count, windows), call: CallFigures { role, doubts, ..CallFigures::default() } }
    }

    fn merged() -> RunRecord {
        let (id, path, streams) = ("s1".to_owned(), vec!["wire".to_owned()], vec![stream(2, 0, 0)]);
        let about = FlowRecord { id, path, streams, ..FlowRecord::default() };
        merge(about, call("caller", 10, 5), call("listener", 20, 3), run(30, 4))
    }

    #[test]
    fn each_figure_is_that_of_its_end() {
        let record = merged();
        let flow = &record.flows[0];
        assert_eq!((flow.id.as_str(), flow.path[0].as_str()), ("s1", "wire"));
        assert_eq!((flow.sent_packets, flow.sent_rate_bps, flow.target_rate_bps), (10, 10.0, Some(10.0)));
        assert_eq!((flow.received_packets, flow.received_rate_bps, flow.frames), (20, 20.0, Some(20)));
        let (feedback, loss) = (flow.feedback_rate_bps, flow.loss_ratio);
        assert_eq!((feedback, loss, flow.lost_packets), (Some(20.0), Some(30.0), 30));
        let stream = &flow.streams[0];
        let repair = stream.repair.unwrap();
        assert_eq!((stream.ssrc, stream.frames, stream.skipped_frames), (2, 20, Some(10)));
        assert_eq!((repair.requested_packets, repair.retransmitted_packets), (Some(20), Some(10)));
        let doubts = &record.real_time.unwrap().doubts;
        assert_eq!(doubts[..], ["caller: 10 were late", "listener: 20 were late"]);
    }

    #[test]
    fn columns_of_the_three_have_the_windows_of_the_links() {
        let timeline = merged().timeline.unwrap();
        let flow = &timeline.flows[0];
        let media = flow.media.as_ref().unwrap();
        assert_eq!((flow.id.as_str(), timeline.t_s.len()), ("s1", 4));
        let columns = [&flow.sent_packets, &flow.received_packets, &flow.dropped_packets];
        assert_eq!(columns.map(|column| &column[..]), [[10; 4], [20, 20, 20, 0], [30; 4]]);
        assert_eq!((media.target_rate_bps[3], flow.queue_delay_max_ms[3]), (Some(10.0), Some(30.0)));
        assert_eq!((media.frames[2], media.decisions[0].at_s), (20, 10.0));
        assert_eq!(media.frame_delay_max_ms, [Some(20.0), Some(20.0), Some(20.0), None]);
        assert_eq!(flow.gauges[0].mean, [Some(10.0); 4]);
    }
}
