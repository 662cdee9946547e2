//! People: what they do, and what is counted for them.

use giusto_sim::{
    link::queue::Queue,
    packet::{FlowId, Packet},
    trace::Note,
    traffic::{Agent, Body},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use super::measures::CallMeasures;

/// A call that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPlan {
    /// Number of the call, from 0.
    pub number: u32,
    /// Flow of the media, and of the feedback.
    pub flows: (FlowId, FlowId),
    /// When it begins and ends.
    pub time: (Timestamp, Timestamp),
}

/// The two ends of a call.
#[derive(Debug)]
pub struct Call {
    /// The end that sends the media.
    pub sender: Box<dyn Agent>,
    /// The end that receives it.
    pub receiver: Box<dyn Agent>,
    /// Synchronisation source of the video.
    pub video_ssrc: u32,
}

/// What the users of a city do.
pub trait Workload {
    /// The ends of a call.
    ///
    /// # Errors
    ///
    /// Why they cannot be built.
    fn call(&mut self, plan: &CallPlan) -> Result<Call, String>;

    /// The queue of a bearer.
    fn queue(&mut self) -> Box<dyn Queue>;
}

/// Totals of a call since it began, within the evaluation and outside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallTotals {
    /// Bytes of media packets that arrived, headers included.
    pub received_bytes: u64,
    /// Video frames that arrived complete and whose delay is known.
    pub frames: u64,
    /// Sum of their delays, each from the capture of the frame.
    pub frame_delay: TimeDelta,
}

/// What a person does, as one of its ends knows it.
#[derive(Debug, Clone)]
pub(super) enum Activity {
    Call {
        number: u32,
        media: FlowId,
        video_ssrc: u32,
        time: (Timestamp, Timestamp),
        target: DataRate,
        totals: CallTotals,
        measures: Box<CallMeasures>,
    },
    File {
        missing: u64,
    },
}

/// A user: a call, or a file transfer.
#[derive(Debug, Clone, Copy)]
pub struct Person<'a> {
    /// Place in the population of the radio.
    pub(super) place: u32,
    /// What it does, as the end that sends the media and the end that receives it know it.
    pub(super) sender: &'a Activity,
    pub(super) receiver: &'a Activity,
}

impl Person<'_> {
    /// Number of the call; `None` for a file transfer.
    pub fn call(&self) -> Option<u32> {
        match self.sender {
            Activity::Call { number, .. } => Some(*number),
            Activity::File { .. } => None,
        }
    }

    /// When the call begins and ends.
    pub fn time(&self) -> Option<(Timestamp, Timestamp)> {
        match self.sender {
            Activity::Call { time, .. } => Some(*time),
            Activity::File { .. } => None,
        }
    }

    /// Media rate that the controller has decided last; 0 before, and for a file transfer.
    pub fn target(&self) -> DataRate {
        match self.sender {
            Activity::Call { target, .. } => *target,
            Activity::File { .. } => DataRate::ZERO,
        }
    }

    /// Totals of the call since it began; `None` for a file transfer.
    pub fn totals(&self) -> Option<CallTotals> {
        match self.receiver {
            Activity::Call { totals, .. } => Some(*totals),
            Activity::File { .. } => None,
        }
    }

    /// Place among the users of the radio.
    pub fn place(&self) -> u32 {
        self.place
    }

    /// Figures of the call so far.
    pub fn measures(&self) -> Option<CallMeasures> {
        let (Activity::Call { measures: sender, .. }, Activity::Call { measures: receiver, .. }) =
            (self.sender, self.receiver)
        else {
            return None;
        };
        let mut measures = sender.as_ref().clone();
        measures.add(receiver.as_ref().clone());
        Some(measures)
    }
}

impl Activity {
    /// Counts a packet of this flow that is sent at `now`.
    pub(super) fn on_sent(
        &mut self,
        now: Timestamp,
        window: (Timestamp, Timestamp),
        flow: FlowId,
        body: &Body,
    ) {
        let Self::Call { media, video_ssrc, measures, .. } = self else { return };
        if flow != *media || !contains(window, now) {
            return;
        }
        measures.sent_packets += 1;
        measures.sent_video_bytes += video_bytes(body, *video_ssrc);
    }

    /// Counts a packet that arrives at `now`.
    pub(super) fn on_received(
        &mut self,
        now: Timestamp,
        window: (Timestamp, Timestamp),
        packet: &Packet,
        body: &Body,
    ) {
        let Self::Call { media, video_ssrc, measures, totals, .. } = self else { return };
        if packet.flow != *media {
            return;
        }
        totals.received_bytes += u64::from(packet.bytes);
        let sent = packet.sent;
        if !contains(window, sent) {
            return;
        }
        measures.received_packets += 1;
        measures.received_video_bytes += video_bytes(body, *video_ssrc);
        measures.packet_delays_us.push(micros(now.saturating_since(sent)));
    }

    /// Counts an event of its agent. Returns whether its file is complete.
    pub(super) fn on_note(&mut self, now: Timestamp, window: (Timestamp, Timestamp), note: &Note) -> bool {
        match (self, note) {
            (Self::Call { target, .. }, Note::Decided { decision, .. }) => *target = decision.to,
            (
                Self::Call { video_ssrc, measures, totals, .. },
                &Note::Frame { ssrc, at, delay: Some(delay), .. },
            ) if ssrc == *video_ssrc => {
                totals.frames += 1;
                totals.frame_delay += delay;
                // It was captured within the evaluation.
                let captured =
                    Timestamp::from_nanos(at.as_nanos().saturating_sub(delay.as_nanos().unsigned_abs()));
                if contains(window, captured) {
                    measures.frame_delays_us.push(micros(delay));
                }
            }
            (Self::Call { video_ssrc, measures, .. }, &Note::Queued { ssrc, captured, .. })
                if ssrc == *video_ssrc && contains(window, captured) =>
            {
                measures.frames += 1;
            }
            (Self::Call { video_ssrc, measures, .. }, &Note::Skipped { ssrc, .. })
                if ssrc == *video_ssrc && contains(window, now) =>
            {
                measures.skipped_frames += 1;
            }
            (Self::File { missing }, &Note::Received { size, .. }) => {
                *missing = missing.saturating_sub(size.as_bytes());
                return *missing == 0;
            }
            _ => {}
        }
        false
    }
}

fn contains((from, until): (Timestamp, Timestamp), at: Timestamp) -> bool {
    from <= at && at < until
}

fn micros(delay: TimeDelta) -> u32 {
    u32::try_from(delay.as_nanos().max(0) / 1000).unwrap_or(u32::MAX)
}

/// RTP payload bytes of a packet of the video; 0 for others.
fn video_bytes(body: &Body, ssrc: u32) -> u64 {
    let Body::Datagram { head, payload } = body else { return 0 };
    let is_video = head.get(8..12).is_some_and(|field| field == ssrc.to_be_bytes());
    let header = header_bytes(head).filter(|_| is_video);
    header.map_or(0, |header| head.len().saturating_sub(header) as u64 + payload.size().as_bytes())
}

/// Length of an RTP header with its extension (RFC 3550 §5.1, §5.3.1).
fn header_bytes(head: &[u8]) -> Option<usize> {
    let first = head.first()?;
    let fixed = 12 + 4 * usize::from(first & 0x0f);
    if first & 0x10 == 0 {
        return Some(fixed);
    }
    let &[high, low] = head.get(fixed + 2..fixed + 4)? else { return None };
    Some(fixed + 4 + 4 * usize::from(u16::from_be_bytes([high, low])))
}

#[cfg(test)]
mod tests {
    use giusto_units::DataSize;

    use super::*;
    use crate::city::measures::CityFigures;

    #[test]
    fn skipped_frames_are_a_share_of_all_that_were_due() {
        let at = |second: u64| Timestamp::from_nanos(second * 1_000_000_000);
        let (window, flow) = ((at(30), at(60)), FlowId(0));
        let mut activity = Activity::Call {
            number: 0,
            media: flow,
            video_ssrc: 2,
            time: window,
            target: DataRate::ZERO,
            totals: CallTotals::default(),
            measures: Box::new(CallMeasures::new(window, window)),
        };
        let queued = |ssrc, second| Note::Queued { flow, ssrc, captured: at(second) };
        let (delay, size) = (Some(TimeDelta::from_seconds(1)), DataSize::from_bytes(1000));
        // Three are encoded and one is skipped.
        let notes = [
            queued(2, 30),
            queued(2, 31),
            queued(2, 32),
            Note::Skipped { flow, ssrc: 2 },
            // Of another time, and of another stream.
            queued(2, 29),
            queued(2, 60),
            queued(3, 31),
        ];
        for note in notes {
            assert!(!activity.on_note(at(32), window, &note));
        }
        // It was complete before that was known.
        let frame = Note::Frame { flow, ssrc: 2, at: at(60), delay, size, repaired: false, late: false };
        assert!(!activity.on_note(at(61), window, &frame));
        let Activity::Call { measures, .. } = activity else { panic!("a call") };
        assert_eq!((measures.frames, measures.frame_delays_us.len()), (3, 1));
        assert!((CityFigures::of([&*measures]).skipped_ratio - 0.25).abs() < 1e-12);
    }

    #[test]
    fn video_is_counted_without_header_extensions() {
        let ssrc = 2_u32.to_be_bytes();
        let plain = [&[0x80, 96, 0, 1, 0, 0, 0, 0][..], &ssrc].concat();
        // An extension of one word, as that of transport-wide feedback.
        let extended =
            [&[0x90, 96, 0, 1, 0, 0, 0, 0][..], &ssrc, &[0xbe, 0xde, 0, 1, 0x31, 0, 7, 0]].concat();
        for header in [plain, extended] {
            // In two parts, and the whole datagram as the head.
            let whole = [&header[..], &[0; 1000]].concat();
            for (head, payload) in [(header, vec![0; 1000]), (whole, Vec::new())] {
                let body = Body::Datagram { head: head.into(), payload: payload.into() };
                assert_eq!((video_bytes(&body, 2), video_bytes(&body, 3)), (1000, 0));
            }
        }
    }
}
