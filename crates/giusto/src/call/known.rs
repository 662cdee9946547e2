//! What the two ends of a call know of each other's media.

use giusto_session::call::{EndFigures, ReceivedFigures};

use super::record::finite;
use crate::record::{FlowEnd, FlowRecord, RepairRecord};

/// Adds what only the receiver of the media knows, as far as it has reported it.
pub(super) fn complete_sent(flow: &mut FlowRecord, received: Option<&ReceivedFigures>) {
    for stream in &mut flow.streams {
        stream.late_frames = None;
        stream.is_unreported = received.is_none();
        if let Some(repair) = &mut stream.repair {
            *repair = RepairRecord {
                repaired_frames: None,
                requested_packets: None,
                recovered_packets: None,
                key_frame_requests: None,
                ..*repair
            };
        }
    }
    let Some(received) = received else {
        flow.unknown = Some(FlowEnd::Receiver);
        (flow.goodput_bps, flow.frames) = (None, None);
        return;
    };
    flow.received_packets = received.packets;
    // Sequence numbers do not show the loss of the last packets, and a changed one shows losses that never were.
    flow.lost_packets = flow.sent_packets.saturating_sub(received.packets);
    flow.duplicate_packets = received.duplicates;
    flow.received_rate_bps = finite(received.rate_bps);
    flow.goodput_bps = Some(finite(received.goodput_bps));
    flow.marked_ratio = received.marked_ratio.map(finite);
    flow.frames = Some(received.frames);
    flow.frame_delay_ms = received.frame_delay_ms.map(super::record::distribution);
    flow.loss_ratio = ratio(flow.lost_packets, flow.received_packets);
    for stream in &mut flow.streams {
        let Some(known) = received.streams.iter().find(|known| known.source == stream.ssrc as u8) else {
            continue;
        };
        stream.frames = known.frames;
        stream.goodput_bps = finite(known.goodput_bps.into());
        stream.frame_delay_ms = known.frame_delay_ms.map(super::record::distribution);
    }
}

/// What the sequence numbers show.
#[derive(Debug, Clone, Copy)]
pub(super) struct Losses {
    pub(super) lost_packets: u64,
    pub(super) duplicate_packets: u64,
}

/// Adds what follows from the sequence numbers, and what only the sender of the media knows.
pub(super) fn complete_received(
    flow: &mut FlowRecord,
    losses: Losses,
    far_end: Option<&EndFigures>,
    knows_clock: bool,
) {
    let sent = far_end.and_then(|figures| figures.sent);
    // Only the sender decides, and repairs.
    flow.decisions = None;
    // A receiver to which no frame came knows that.
    flow.frames.get_or_insert(0);
    flow.goodput_bps.get_or_insert(0.0);
    for stream in &mut flow.streams {
        (stream.skipped_frames, stream.discarded_packets) = (None, None);
        if let Some(repair) = &mut stream.repair {
            *repair = RepairRecord {
                retransmitted_packets: None,
                parity_packets: None,
                repair_rate_bps: None,
                ..*repair
            };
        }
    }
    flow.duplicate_packets = losses.duplicate_packets;
    flow.lost_packets = losses.lost_packets;
    if let Some(sent) = sent {
        flow.sent_packets = sent.packets;
        flow.lost_packets = sent.packets.saturating_sub(flow.received_packets);
        flow.sent_rate_bps = finite(sent.rate_bps);
    } else {
        flow.unknown = Some(FlowEnd::Sender);
    }
    flow.loss_ratio = ratio(flow.lost_packets, flow.received_packets);
    if !knows_clock {
        flow.frame_delay_ms = None;
    }
}

/// The share of lost packets; `None` if none is known.
pub(super) fn ratio(lost: u64, received: u64) -> Option<f64> {
    let all = lost + received;
    (all > 0).then(|| lost as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{StreamKind, StreamRecord};

    #[test]
    fn each_end_knows_its_own_figures_alone() {
        let losses = Losses { lost_packets: 2, duplicate_packets: 0 };
        let (requested_packets, parity_packets) = (Some(2), Some(0));
        let repair = Some(RepairRecord { requested_packets, parity_packets, ..RepairRecord::default() });
        let stream = StreamRecord {
            repair,
            late_frames: Some(0),
            skipped_frames: Some(0),
            ..StreamRecord::new("video", 2, StreamKind::Video)
        };
        let flow = || FlowRecord { streams: vec![stream.clone()], sent_packets: 3, ..FlowRecord::default() };

        // The receiver, to which nothing came, and whose sender has not reported.
        let mut received = flow();
        complete_received(&mut received, losses, None, true);
        assert_eq!((received.frames, received.goodput_bps, received.lost_packets), (Some(0), Some(0.0), 2));
        assert_eq!(received.unknown, Some(FlowEnd::Sender));
        let own = &received.streams[0];
        assert_eq!((own.late_frames, own.skipped_frames), (Some(0), None));
        let repair = own.repair.unwrap();
        assert_eq!((repair.requested_packets, repair.parity_packets), (Some(2), None));

        // The sender, whose receiver has not reported, and then has.
        let mut sent = flow();
        complete_sent(&mut sent, None);
        assert_eq!((sent.frames, sent.unknown), (None, Some(FlowEnd::Receiver)));
        assert!(sent.streams[0].is_unreported);
        let mut sent = flow();
        complete_sent(&mut sent, Some(&ReceivedFigures { packets: 1, ..ReceivedFigures::default() }));
        assert_eq!((sent.received_packets, sent.lost_packets, sent.unknown), (1, 2, None));
        let own = &sent.streams[0];
        assert_eq!((own.late_frames, own.skipped_frames, own.is_unreported), (None, Some(0), false));
        let repair = own.repair.unwrap();
        assert_eq!((repair.requested_packets, repair.parity_packets), (None, Some(0)));
    }
}
