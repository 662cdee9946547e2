//! The media of one end, recorded as the simulator records them.

use std::collections::VecDeque;

use giusto_congestion::{Decision, Reported};
use giusto_session::{
    call::{CallMedia, EndFigures, ReceivedFigures, ReceivedStream, SentFigures},
    media::{Datagram, MediaReceiver, Payload, SourceFigures},
};
use giusto_sim::{
    packet::{DropReason, FlowId, LinkId, Packet},
    random,
    record::{Cdf, PlannedFlow, RecordPlan, Recorder, RunRecord, TimelineOptions},
    trace::{Backlog, Event, Note, Observer},
    traffic::{Agent, Body, Media, encoder::MediaSource},
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

use super::{
    flows::{Alone, FORWARD, FORWARD_ID, REVERSE, REVERSE_ID, about},
    heard::{HeardVoice, VoiceMeter},
    known::{Losses, complete_received, complete_sent, ratio},
    save::{SaveTarget, SavedVideo, VideoSaver},
    video::VideoInput,
    voice::VoiceInput,
};
use crate::{
    record::{FlowRecord, REPORTED_LOSS, REPORTED_RATE},
    replay::SessionLog,
    run::{
        MediaFlow, Taps,
        media::{self, AUDIO_SSRC, Ends, FIRST_VIDEO_SSRC, RealSources},
    },
    scenario::MediaSpec,
    trace::TraceFile,
};

/// The number of times that a call's gauges are recorded.
const GAUGES: i64 = 500;

/// The time over which the rate and the loss that feedback reports are taken.
const REPORTED_OVER: TimeDelta = TimeDelta::from_millis(250);

/// Losses noticed at once that the record over time shows.
const MAX_LOSSES: u64 = 1_000;

/// Decisions that wait at most to be shown. Those of a call that is not shown yet wait, too.
const MAX_DECIDED: usize = 64;

/// Frame delays that are possible; others come from damaged times, and are no delays. The offset of the clocks is wrong by at most half a
/// round trip, and a frame is discarded at the latest 10 s after its capture, and then on its way. Chosen by us.
const FRAME_DELAYS: std::ops::RangeInclusive<TimeDelta> =
    TimeDelta::from_millis(-1_000)..=TimeDelta::from_millis(60_000);

/// RTCP packet type of a sender report (RFC 3550 §6.4.1), a source description and a goodbye: what a sender of media sends.
const OF_SENDER: [u8; 3] = [200, 202, 203];

/// What one end of a call is made from.
#[derive(Debug, Clone)]
pub(crate) struct SideConfig {
    pub(crate) name: String,
    pub(crate) seed: u64,
    /// The flow of a simulation whose random numbers the encoders have.
    pub(crate) flow: String,
    pub(crate) duration: TimeDelta,
    /// When media flow, and the part that is measured.
    pub(crate) flows: (Timestamp, Timestamp),
    pub(crate) measured: (Timestamp, Timestamp),
    pub(crate) is_caller: bool,
    /// The media that this end sends, and the media that it receives.
    pub(crate) sends: Option<MediaSpec>,
    pub(crate) receives: Option<Received>,
    /// The first synchronisation source of this end and of the far end.
    pub(crate) sources: (u32, u32),
    pub(crate) overhead: DataSize,
    pub(crate) timeline: Option<TimelineOptions>,
    /// Records the controller of the sender.
    pub(crate) session_log: Option<SessionLog>,
    /// Real video for the first of the streams that this end sends.
    pub(crate) video: Option<VideoInput>,
    /// Speech for the audio stream that this end sends.
    pub(crate) voice: Option<VoiceInput>,
    /// Where the received video is saved.
    pub(crate) save: Option<SaveTarget>,
    /// A page shows the decisions of the controller.
    pub(crate) is_watched: bool,
}

/// Media that an end receives.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) spec: MediaSpec,
    /// The name of the far end's controller, which this end need not know.
    pub(crate) controller: String,
    /// Whether the audio is Opus, and not that of a model.
    pub(crate) opus: bool,
}

impl Received {
    /// Media that are sent as they would be from here.
    pub(crate) fn as_sent(spec: &MediaSpec, opus: bool) -> Self {
        Self { spec: spec.clone(), controller: spec.controller.to_string(), opus }
    }
}

/// The media of one end of a call, and their record.
#[derive(Debug)]
pub struct CallSide {
    seed: u64,
    overhead: DataSize,
    sender: Option<Media>,
    receiver: Option<Media>,
    /// Media and feedback of what this end sends, and of what it receives.
    outgoing: [FlowId; 2],
    incoming: [FlowId; 2],
    recorder: (Recorder, Option<TraceFile>),
    next_gauges: Timestamp,
    gauges_every: TimeDelta,
    /// What feedback had reported of what this end sends when it was last taken.
    reported: (Timestamp, Reported),
    /// The latest round-trip time.
    rtt: Option<TimeDelta>,
    /// To be added to the difference of a time of ours and one of the far end.
    correction: Option<TimeDelta>,
    /// Messages that the socket has dropped since the call began.
    dropped: u64,
    /// Datagrams of the far end's media that came again, without those that their sources count; its latest report.
    copies: u64,
    latest_report: Vec<u8>,
    live: SideTotals,
    /// When media arrived last.
    last_media: Option<Timestamp>,
    end: Timestamp,
    saver: Option<VideoSaver>,
    /// Of received speech.
    heard: Option<VoiceMeter>,
    /// Decisions that a page has not shown yet, if there is one.
    decided: Option<VecDeque<Decision>>,
}

/// Totals of one end so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SideTotals {
    /// Packets of media sent, their reports included.
    pub sent_packets: u64,
    /// Their bytes, all headers included.
    pub sent_bytes: u64,
    /// Datagrams of media and feedback that the system did not take; none of them is among the sent ones.
    pub unsent_packets: u64,
    /// Packets of media received.
    pub received_packets: u64,
    /// Their bytes, all headers included.
    pub received_bytes: u64,
    /// Of these: with a CE mark.
    pub marked_packets: u64,
    /// Packets lost, by the sequence numbers.
    pub lost_packets: u64,
    /// Duplicates.
    pub duplicate_packets: u64,
    /// The longest time between two packets of media received.
    pub longest_gap: TimeDelta,
    /// Complete frames.
    pub frames: u64,
    /// Their payload.
    pub frame_bytes: u64,
    /// The sum of the known frame delays, and their number.
    pub frame_delay_sum: TimeDelta,
    /// See above.
    pub frame_delays: u64,
    /// The controller's target rate now.
    pub target: Option<DataRate>,
}

impl CallSide {
    /// The media of one end. `taps` sees its controller, if it sends.
    ///
    /// # Errors
    ///
    /// The media cannot be built; a plan has been checked before.
    pub(crate) fn new(
        config: &SideConfig,
        trace: Option<TraceFile>,
        taps: &mut dyn Taps,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let (outgoing, incoming) = if config.is_caller { (FORWARD, REVERSE) } else { (REVERSE, FORWARD) };
        let ends = Ends::of_call(config.sources.0, config.overhead);
        let (start, stop) = config.flows;
        let sender = config.sends.as_ref().map(|spec| {
            let random = |part: &str| random::stream(config.seed, &format!("flow {} 1: {part}", config.flow));
            let name = if config.is_caller { FORWARD_ID } else { REVERSE_ID };
            let controller = taps.controller(MediaFlow { name, spec }, media::controller(spec));
            let controller = match &config.session_log {
                Some(log) => log.record(controller),
                None => controller,
            };
            let real =
                config.video.as_ref().map(|video| video.source(start, spec.limits.start)).transpose()?;
            let video = real.map(|video| -> Box<dyn MediaSource> { Box::new(video) });
            let real = RealSources {
                video,
                audio: config.voice.as_ref().map(|voice| voice.source(start)).transpose()?,
            };
            let endpoint = media::sender(spec, controller, ends, start, random, real)?;
            let media = Media::new(endpoint, outgoing[0], outgoing[0], start);
            // At the end of the call, its last frames are still sent.
            let is_last = stop >= Timestamp::ZERO + config.duration;
            let media = if is_last { media.closing_at(stop) } else { media.stopping_at(stop) };
            let media = media.changing_route(&spec.route_changes);
            let media =
                media::pauses(spec).fold(media, |media, (stream, pauses)| media.pausing(stream, &pauses));
            Ok::<_, Box<dyn std::error::Error>>(media)
        });
        let codec = config.receives.as_ref().and_then(|received| received.spec.codec);
        let has_opus = config.receives.as_ref().is_some_and(|received| received.opus);
        let saver = config.save.as_ref().and_then(|save| save.open(codec, has_opus));
        let receiver = config.receives.as_ref().map(|received| {
            let endpoint = media::receiver(&received.spec, ends)?;
            let mut media = Media::new(endpoint, incoming[1], incoming[0], Timestamp::ZERO);
            if saver.is_some() || has_opus {
                media.keep_frames();
            }
            Ok::<_, Box<dyn std::error::Error>>(media)
        });
        let end = Timestamp::ZERO + config.duration;
        let plan = RecordPlan {
            scenario: config.name.clone(),
            end,
            flows: planned(config, config.measured.0..config.measured.1.min(end), [outgoing, incoming]),
            timeline: config.timeline,
            ..RecordPlan::default()
        };
        Ok(Self {
            seed: config.seed,
            overhead: config.overhead,
            sender: sender.transpose()?,
            receiver: receiver.transpose()?,
            outgoing,
            incoming,
            recorder: (Recorder::new(plan), trace),
            next_gauges: Timestamp::ZERO,
            gauges_every: (config.duration / GAUGES).max(TimeDelta::from_millis(1)),
            reported: (Timestamp::ZERO, Reported::default()),
            rtt: None,
            correction: None,
            dropped: 0,
            copies: 0,
            latest_report: Vec::new(),
            live: SideTotals::default(),
            last_media: None,
            end,
            saver,
            heard: has_opus.then(VoiceMeter::default),
            decided: config.is_watched.then(VecDeque::new),
        })
    }

    /// The totals so far.
    pub fn totals(&self) -> SideTotals {
        let target = self.sender.as_ref().and_then(|media| media.endpoint().sender());
        SideTotals { target: target.map(|sender| sender.target().media), ..self.live }
    }

    /// The age of the oldest packet in the queue of the sender, if this end sends.
    pub(crate) fn sender_queue(&self, now: Timestamp) -> Option<TimeDelta> {
        let sender = self.sender.as_ref().and_then(|media| media.endpoint().sender());
        sender.map(|sender| sender.queue(now).oldest)
    }

    /// What feedback has reported of what this end sends, and when.
    pub(crate) fn reported(&self) -> (Timestamp, Reported) {
        self.reported
    }

    /// The latest round-trip time.
    pub(crate) fn rtt(&self) -> Option<TimeDelta> {
        self.rtt
    }

    /// What the controller has decided since the last call, if a page shows it: the newest.
    pub(crate) fn take_decisions(&mut self) -> VecDeque<Decision> {
        self.decided.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether this end sends media, and whether it receives them.
    pub fn directions(&self) -> (bool, bool) {
        (self.sender.is_some(), self.receiver.is_some())
    }

    /// The speech that this end has heard, if it received any.
    pub(crate) fn heard(&self) -> Option<HeardVoice> {
        self.heard.as_ref().and_then(VoiceMeter::figures)
    }

    /// Ends the file of the received video.
    pub(crate) fn finish_video(&mut self) -> Option<SavedVideo> {
        self.saver.take().map(VideoSaver::finish)
    }

    /// The socket has dropped so many messages since the call began.
    pub(crate) fn note_dropped(&mut self, dropped: u64) {
        self.dropped = dropped;
    }

    /// The record up to `now`, and the trace, to be finished.
    pub(crate) fn finish(
        self,
        now: Timestamp,
        far_end: Option<&EndFigures>,
    ) -> (RunRecord, Option<TraceFile>) {
        let end = now.min(self.end);
        let totals = self.totals();
        let knows_clock = self.correction.is_some();
        let Self { recorder: (recorder, trace), outgoing, seed, sender, receiver, .. } = self;
        let mut record = recorder.finish(&Alone { seed }, end).0;
        // The flows are in the order of their ids: the first is that of the caller's media.
        let is_own = |flow: &FlowRecord| (flow.id == FORWARD_ID) == (outgoing == FORWARD);
        for flow in &mut record.flows {
            flow.delay_ms = None;
            flow.queue_delay_ms = None;
            // The ends exchange totals, those of what was under way at the end included.
            if is_own(flow) && sender.is_some() {
                flow.sent_packets = totals.sent_packets;
                complete_sent(flow, far_end.and_then(|figures| figures.received.as_ref()));
            } else if receiver.is_some() {
                flow.received_packets = totals.received_packets;
                let losses =
                    Losses { lost_packets: totals.lost_packets, duplicate_packets: totals.duplicate_packets };
                complete_received(flow, losses, far_end, knows_clock);
            }
        }
        // What only the far end measures over time is unknown, not zero.
        for flow in record.timeline.iter_mut().flat_map(|timeline| &mut timeline.flows) {
            if (flow.id == FORWARD_ID) == (outgoing == FORWARD) {
                flow.received_rate_bps.clear();
            } else {
                flow.sent_rate_bps.clear();
            }
            // So is the delay of packets: an end sees each at one place. The delay of frames comes from their capture times.
            for delays in [&mut flow.delay_mean_ms, &mut flow.delay_max_ms, &mut flow.queue_delay_max_ms] {
                delays.fill(None);
            }
            flow.delay_cdf = Cdf::default();
        }
        (record, trace)
    }

    /// Records what the two agents report.
    fn take_notes(&mut self, now: Timestamp) {
        self.take_note_events(now);
        self.save_frames(now);
    }

    /// Saves the frames of the first video that have arrived, and measures and saves speech.
    fn save_frames(&mut self, now: Timestamp) {
        let Some(receiver) = &mut self.receiver else { return };
        while let Some(frame) = receiver.poll_arrival() {
            let stream = u32::from(frame.ssrc as u8);
            if let (AUDIO_SSRC, Some(heard)) = (stream, &mut self.heard) {
                heard.on_packet(&frame, self.correction);
            }
            match (stream, &mut self.saver) {
                (FIRST_VIDEO_SSRC, Some(saver)) => saver.on_frame(now, frame),
                (AUDIO_SSRC, Some(saver)) => saver.on_audio(now, frame),
                _ => {}
            }
        }
    }

    fn take_note_events(&mut self, now: Timestamp) {
        for agent in [&mut self.sender, &mut self.receiver].into_iter().flatten() {
            while let Some(mut note) = agent.poll_note() {
                if let Note::Frame { delay, size, .. } = &mut note {
                    *delay = delay.zip(self.correction).map(|(delay, correction)| delay + correction);
                    *delay = delay.filter(|delay| FRAME_DELAYS.contains(delay));
                    self.live.frames += 1;
                    self.live.frame_bytes += size.as_bytes();
                    if let Some(delay) = delay {
                        self.live.frame_delays += 1;
                        self.live.frame_delay_sum += *delay;
                    }
                }
                if let (Note::Decided { decision, .. }, Some(decided)) = (&note, &mut self.decided)
                    && decision.from != decision.to
                {
                    if decided.len() >= MAX_DECIDED {
                        decided.pop_front();
                    }
                    decided.push_back(*decision);
                }
                self.recorder.on_note(now, &note);
            }
        }
    }

    /// Records the rate and the loss at the far end, as feedback reports them.
    fn take_reports(&mut self, now: Timestamp) {
        let Some(sender) = self.sender.as_ref().and_then(|media| media.endpoint().sender()) else { return };
        let ((since, before), reported) = (self.reported, sender.reported());
        let span = now.saturating_since(since);
        if reported == before || span < REPORTED_OVER {
            return;
        }
        self.reported = (now, reported);
        let size = reported.size.saturating_sub(before.size);
        let arrived = reported.packets.saturating_sub(before.packets);
        let lost = reported.lost_packets.saturating_sub(before.lost_packets);
        let [flow, _] = self.outgoing;
        if size > DataSize::ZERO {
            let rate = size.as_bits() as f64 / span.as_seconds();
            self.recorder.on_gauge(now, flow, REPORTED_RATE, rate);
        }
        if let Some(loss) = ratio(lost, arrived) {
            self.recorder.on_gauge(now, flow, REPORTED_LOSS, loss);
        }
    }

    fn take_gauges(&mut self, now: Timestamp) {
        if now < self.next_gauges {
            return;
        }
        self.next_gauges = now + self.gauges_every;
        if let Some(sender) = &self.sender {
            sender.gauges(&mut |flow, name, value| self.recorder.on_gauge(now, flow, name, value));
        }
    }

    /// Updates the counts of losses and duplicates; returns the numbers of new ones.
    fn count_losses(&mut self) -> (u64, u64) {
        let sources = self.receiver.as_ref().and_then(|media| media.endpoint().receiver());
        let (mut lost, mut duplicates) = (0, 0);
        for SourceFigures { lost: own, duplicates: copies, .. } in
            sources.into_iter().flat_map(MediaReceiver::sources)
        {
            lost += own;
            duplicates += copies;
        }
        duplicates += self.copies;
        let new = |now: u64, before: u64| now.saturating_sub(before);
        let new = (new(lost, self.live.lost_packets), new(duplicates, self.live.duplicate_packets));
        self.live.lost_packets = lost;
        self.live.duplicate_packets = duplicates;
        new
    }

    fn packet(&self, now: Timestamp, flow: FlowId, bytes: DataSize, sequence: u64, ecn: Ecn) -> Packet {
        let bytes = u32::try_from((bytes + self.overhead).as_bytes()).unwrap_or(u32::MAX);
        Packet { flow, bytes, sequence, sent: now, queued: now, ecn, ..Packet::default() }
    }
}

impl CallMedia for CallSide {
    fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8], ecn: Ecn) {
        let of_sender = bytes.get(1).copied().is_none_or(is_of_sender);
        let size = DataSize::from_bytes(bytes.len() as u64);
        let body = Body::Datagram { head: bytes.into(), payload: Payload::default() };
        if of_sender {
            // RTP has numbers; no two reports of a sender are the same, since they say the time.
            if let Some(kind) = bytes.get(1).copied().filter(|kind| OF_SENDER.contains(kind)) {
                if self.latest_report == bytes {
                    return self.on_copy(kind);
                }
                self.latest_report = bytes.to_vec();
            }
            let packet = self.packet(now, self.incoming[0], size, self.live.received_packets, ecn);
            let Some(receiver) = &mut self.receiver else { return };
            receiver.handle_packet(now, &packet, &body);
            let gap = now.saturating_since(self.last_media.replace(now).unwrap_or(now));
            self.live.longest_gap = self.live.longest_gap.max(gap);
            let (lost, copies) = self.count_losses();
            // The record over time shows a loss when it is noticed. Its totals are set at the end.
            for _ in 0..lost.min(MAX_LOSSES) {
                let (link, reason, backlog) = (LinkId(0), DropReason::Loss, Backlog::default());
                self.recorder.0.on_event(now, &Event::Dropped { link, packet, reason, backlog });
            }
            if copies == 0 {
                self.live.received_packets += 1;
                self.live.received_bytes += u64::from(packet.bytes);
                self.live.marked_packets += u64::from(ecn == Ecn::Ce);
                self.recorder.on_event(now, &Event::Delivered { packet });
            }
        } else {
            let packet = self.packet(now, self.outgoing[1], size, 0, ecn);
            let Some(sender) = &mut self.sender else { return };
            sender.handle_packet(now, &packet, &body);
            self.take_reports(now);
            // The record counts feedback where it is sent; this end sees where it arrives.
            self.recorder.0.on_event(now, &Event::Sent { packet });
            self.recorder.1.on_event(now, &Event::Delivered { packet });
        }
        self.take_notes(now);
    }

    fn on_copy(&mut self, kind: u8) {
        if is_of_sender(kind) {
            self.copies += 1;
            self.live.duplicate_packets += 1;
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        for agent in [&mut self.sender, &mut self.receiver].into_iter().flatten() {
            agent.handle_timeout(now);
        }
        self.take_gauges(now);
        self.take_notes(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        let sent = self.sender.as_mut().and_then(|agent| agent.poll_transmit(now));
        let sent = sent.or_else(|| self.receiver.as_mut()?.poll_transmit(now));
        self.take_notes(now);
        let transmit = sent?;
        let Body::Datagram { head, payload } = transmit.body else { return None };
        let size = DataSize::from_bytes(head.len() as u64) + payload.size();
        let packet = self.packet(now, transmit.flow, size, self.live.sent_packets, transmit.ecn);
        if transmit.flow == self.outgoing[0] {
            self.live.sent_packets += 1;
            self.live.sent_bytes += u64::from(packet.bytes);
        }
        self.recorder.on_event(now, &Event::Sent { packet });
        Some(Datagram { head, payload, ecn: transmit.ecn })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        let agents = [&self.sender, &self.receiver].into_iter().flatten();
        agents.filter_map(Agent::poll_timeout).min()
    }

    fn on_route_change(&mut self, now: Timestamp) {
        if let Some(sender) = &mut self.sender {
            sender.on_route_change(now);
        }
        self.take_notes(now);
    }

    fn on_clock(&mut self, correction: TimeDelta) {
        self.correction = Some(correction);
    }

    fn on_rtt(&mut self, now: Timestamp, rtt: TimeDelta) {
        self.rtt = Some(rtt);
        let [flow, _] = if self.sender.is_some() { self.outgoing } else { self.incoming };
        self.recorder.on_gauge(now, flow, RTT, rtt.as_millis());
    }

    fn on_unsent(&mut self, now: Timestamp, kind: u8, size: DataSize) {
        let is_media = is_of_sender(kind);
        let flow = if is_media { self.outgoing[0] } else { self.incoming[1] };
        let packet = self.packet(now, flow, size, self.live.sent_packets, Ecn::NotEct);
        self.live.unsent_packets += 1;
        if is_media {
            self.live.sent_packets = self.live.sent_packets.saturating_sub(1);
            self.live.sent_bytes = self.live.sent_bytes.saturating_sub(u64::from(packet.bytes));
        }
        self.recorder.on_event(now, &Event::Unsent { packet });
    }

    fn close(&mut self) {
        if let Some(sender) = &mut self.sender {
            sender.close();
        }
    }

    fn is_sent(&self, now: Timestamp) -> bool {
        let sender = self.sender.as_ref().and_then(|media| media.endpoint().sender());
        sender.is_none_or(|sender| sender.queue(now).size == DataSize::ZERO)
    }

    fn stop(&mut self, now: Timestamp) {
        if let Some(sender) = &mut self.sender {
            sender.stop(now);
        }
        self.take_notes(now);
    }

    fn figures(&self, now: Timestamp) -> EndFigures {
        let live = &self.live;
        let record = self.recorder.0.clone().finish(&Alone { seed: 0 }, now.min(self.end)).0;
        let of = |[flow, _]: [FlowId; 2]| {
            let id = if flow == FORWARD[0] { FORWARD_ID } else { REVERSE_ID };
            record.flows.iter().find(|flow| flow.id == id)
        };
        let received = of(self.incoming).map(|flow| ReceivedFigures {
            packets: live.received_packets,
            lost: live.lost_packets,
            dropped: self.dropped,
            duplicates: live.duplicate_packets,
            rate_bps: flow.received_rate_bps,
            goodput_bps: flow.goodput_bps.unwrap_or(0.0),
            marked_ratio: flow.marked_ratio,
            frames: flow.frames.unwrap_or(0),
            frame_delay_ms: flow.frame_delay_ms.map(super::record::delay_figures),
            streams: flow
                .streams
                .iter()
                .map(|stream| ReceivedStream {
                    source: stream.ssrc as u8,
                    frames: stream.frames,
                    goodput_bps: stream.goodput_bps as f32,
                    frame_delay_ms: stream.frame_delay_ms.map(super::record::delay_figures),
                })
                .collect(),
        });
        let sent = of(self.outgoing)
            .map(|flow| SentFigures { packets: live.sent_packets, rate_bps: flow.sent_rate_bps });
        EndFigures { sent, received }
    }
}

/// Whether a datagram with this second byte comes from the sender of media: RTP, or RTCP of a sender.
pub(super) fn is_of_sender(kind: u8) -> bool {
    !matches!(kind, 192..=223) || OF_SENDER.contains(&kind)
}

/// The gauge of a call's round-trip time.
const RTT: &str = "rtt_ms";

/// The flows of the record: that of the caller's media first.
fn planned(
    config: &SideConfig,
    window: std::ops::Range<Timestamp>,
    [outgoing, incoming]: [[FlowId; 2]; 2],
) -> Vec<PlannedFlow> {
    let own = config.sends.as_ref().map(|spec| (outgoing, (spec, spec.controller.name()), config.sources.0));
    let far = config.receives.as_ref();
    let far = far
        .map(|Received { spec, controller, .. }| (incoming, (spec, controller.as_str()), config.sources.1));
    let mut flows: Vec<_> = own.into_iter().chain(far).collect();
    crate::order::sort_by_key(&mut flows, |(flow, ..)| *flow);
    let flows = flows.into_iter().map(|([flow, answers], media, first)| PlannedFlow {
        flow,
        answers: Some(answers),
        window: window.clone(),
        about: about(media.0, media.1, flow == FORWARD[0], first),
    });
    flows.collect()
}
