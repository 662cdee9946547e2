//! Statistics of flows and of the streams of media flows.

use super::{Read, Statistic, Unit, window::jain};
use crate::record::{
    FlowEnd::{Receiver, Sender},
    FlowRecord, StreamRecord,
};

type Flow = Statistic<FlowRecord>;
type Stream = Statistic<StreamRecord>;

/// Statistics of a flow.
pub const FLOW: &[Flow] = &[
    Flow::rate("sent_rate_bps", "sent rate", |flow| flow.known(Sender, flow.sent_rate_bps))
        .defined("Bytes sent in the window, over its length.")
        .column(4)
        .in_sweeps()
        .metric("sent-rate", |all| Some(all.rate(|flow| flow.sent_bytes))),
    Flow::rate("received_rate_bps", "received rate", |flow| flow.known(Receiver, flow.received_rate_bps))
        .defined("Bytes that arrive in the window, over its length.")
        .column(0)
        .in_sweeps()
        .metric("received-rate", |all| Some(all.rate(|flow| flow.received_bytes))),
    Flow::rate("goodput_bps", "goodput", |flow| flow.goodput_bps)
        .defined(
            "Payload delivered to the application in the window, over its length: of TCP the bytes in order, of media the complete frames.",
        )
        .column(5)
        .in_sweeps()
        .metric("goodput", |all| Some(all.rate(|flow| flow.goodput_bytes))),
    Flow::packets("sent_packets", "sent packets", |flow| flow.known(Sender, flow.sent_packets))
        .defined("Packets sent in the window.")
        .in_sweeps()
        .metric("sent-packets", |all| Some(all.sum(|flow| flow.sent_packets) as f64)),
    Flow::packets("received_packets", "received packets", |flow| flow.known(Receiver, flow.received_packets))
        .defined(
            "Of the packets sent in the window, those that arrive by the end of the run. In expectations: packets that arrive in the window.",
        )
        .in_sweeps()
        .metric("received-packets", |all| Some(all.sum(|flow| flow.received_packets) as f64)),
    Flow::packets("lost_packets", "lost packets", |flow| flow.known(Receiver, flow.lost_packets))
        .defined("Of the packets sent in the window, those of which no copy arrives.")
        .in_sweeps(),
    Flow::packets("duplicate_packets", "duplicate packets", |flow| flow.known(Receiver, flow.duplicate_packets))
        .defined("Further copies of the packets sent in the window that arrive.")
        .in_sweeps(),
    Flow::ratio("loss_ratio", "loss", |flow| flow.loss_ratio)
        .defined("Lost packets over lost and received ones; packets in flight at the end of the run do not count.")
        .column(0)
        .in_sweeps()
        .metric("loss", |all| {
            let lost = all.sum(|flow| flow.lost_packets);
            ratio(lost, lost + all.sum(|flow| flow.arrived_packets))
        }),
    Flow::ratio("marked_ratio", "marked", |flow| flow.marked_ratio)
        .defined("Share of the packets that arrive in the window with a CE mark.")
        .column(3)
        .in_sweeps()
        .metric("marked", |all| {
            ratio(all.sum(|flow| flow.marked_packets), all.sum(|flow| flow.received_packets))
        }),
    Flow::delay("delay_ms", "one-way delay", |flow| flow.delay_ms)
        .defined("From departure at the source to arrival at the destination, of the packets that arrive in the window.")
        .column(1)
        .in_sweeps()
        .delay_metric("delay", |all| all.delay_ms),
    Flow::delay("queue_delay_ms", "queueing delay", |flow| flow.queue_delay_ms)
        .defined("From entering a link's queue to the start of transmission, summed over the path, of the same packets.")
        .column(0)
        .in_sweeps()
        .delay_metric("queue-delay", |all| all.queue_delay_ms),
    Flow::new("", "fairness", Read::Metric(Unit::Ratio))
        .defined("Jain's fairness index of the flows' received rates, 1 if all are equal (DEC-TR-301, 1984).")
        .metric("fairness", |all| jain(all.rates(|flow| flow.received_bytes))),
    Flow::new("", "time to rate", Read::Metric(Unit::Time))
        .defined(
            "From `from`, or the flow's start without warm-up, to the end of the first 500 ms in which the flows receive `rate`, in steps of 500 ms (RFC 8868 §3, item 8).",
        )
        .metric("time-to-rate", |all| all.time_to_rate(all.wanted?)),
];

/// Statistics that only media flows have.
pub const MEDIA: &[Flow] = &[
    Flow::rate("target_rate_bps", "target rate", |flow| flow.target_rate_bps)
        .defined("Mean over time of the controller's target rate, headers included.")
        .column(0)
        // A target that is not known of one flow is not known of all.
        .metric("target-rate", |all| all.figures().map(|flow| flow.target_rate_bps).sum()),
    Flow::new("decisions", "changes", Read::Count("changes", |flow| flow.decisions))
        .defined("Changes of the target rate.")
        .column(2)
        .metric("decisions", |all| {
            let known = all.figures().filter_map(|flow| flow.decisions);
            known.reduce(|a, b| a + b).map(|changes| changes as f64)
        }),
    Flow::frames("frames", "frames", |flow| flow.frames)
        .defined("Frames of all streams that become complete in the window.")
        .column(0),
    Flow::delay("frame_delay_ms", "frame delay", |flow| flow.frame_delay_ms)
        .defined("From the capture of a frame until it is complete, of these frames.")
        .column(0)
        .in_sweeps(),
    Flow::rate("feedback_rate_bps", "feedback rate", |flow| flow.feedback_rate_bps)
        .defined("Bytes of the receiver's feedback sent in the window, over its length.")
        .column(1),
    Flow::new("", "stream fairness", Read::Metric(Unit::Ratio))
        .defined("Jain's fairness index of the videos' goodput, each divided by its priority.")
        .metric("stream-fairness", |all| jain(all.rates_by_priority())),
];

/// Statistics of a stream. Their metrics count the stream that an expectation names, or all streams.
pub const STREAM: &[Stream] = &[
    Stream::rate("goodput_bps", "goodput", |stream| (!stream.is_unreported).then_some(stream.goodput_bps))
        .defined("Payload of the frames that become complete in the window, over its length.")
        .column(1)
        .metric("received-rate", |all| Some(all.stream_rate(|stream| stream.bytes))),
    Stream::frames("frames", "frames", |stream| (!stream.is_unreported).then_some(stream.frames))
        .defined("Frames that become complete in the window.")
        .column(2)
        .metric("frames", |all| Some(all.stream_sum(|stream| stream.frames))),
    Stream::delay("frame_delay_ms", "frame delay", |stream| stream.frame_delay_ms)
        .defined("From the capture of a frame until it is complete, of these frames.")
        .column(0)
        .delay_metric("frame-delay", |all| all.frame_delay_ms),
    Stream::frames("skipped_frames", "skipped frames", |stream| stream.skipped_frames)
        .defined("Frames that were not encoded because the sender's queue was too old.")
        .column(4),
    Stream::packets("discarded_packets", "discarded packets", |stream| stream.discarded_packets)
        .defined("Packets that the sender discarded because they were queued for too long.")
        .column(5),
    Stream::frames("late_frames", "late frames", |stream| stream.late_frames)
        .defined("Frames that become complete after their playout deadline.")
        .column(3)
        .rare()
        .metric("late-frames", |all| Some(all.stream_sum(|stream| stream.late_frames))),
];

/// Statistics of the repair of lost packets of a stream; in JSON under `repair`.
pub const REPAIR: &[Stream] = &[
    Stream::frames("repaired_frames", "repaired frames", |stream| stream.repair?.repaired_frames)
        .defined("Complete frames with at least one packet that was sent again or recovered from parity.")
        .column(3)
        .metric("repaired-frames", |all| Some(all.stream_sum(|stream| stream.repair.repaired_frames))),
    Stream::packets("requested_packets", "requested packets", |stream| stream.repair?.requested_packets)
        .defined("Packets in all NACKs of the receiver, each time counted.")
        .column(7)
        .metric("requested-packets", |all| Some(all.stream_sum(|stream| stream.repair.requested_packets))),
    Stream::packets("retransmitted_packets", "retransmitted packets", |stream| {
        stream.repair?.retransmitted_packets
    })
    .defined("Packets sent again.")
    .column(7),
    Stream::packets("parity_packets", "parity packets", |stream| stream.repair?.parity_packets)
        .defined("Packets of parity sent.")
        .column(7),
    Stream::packets("recovered_packets", "recovered packets", |stream| stream.repair?.recovered_packets)
        .defined("Packets recovered from parity."),
    Stream::rate("repair_rate_bps", "repair rate", |stream| stream.repair?.repair_rate_bps)
        .defined(
            "Bytes of retransmissions and parity sent in the window, all headers included, over its length.",
        )
        .column(8)
        .metric("repair-rate", |all| Some(all.stream_rate(|stream| stream.repair.bytes))),
    Stream::new(
        "key_frame_requests",
        "key frame requests",
        Read::Count("requests", |stream| stream.repair?.key_frame_requests),
    )
    .defined("Key frames that the receiver requested."),
];

pub(super) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
