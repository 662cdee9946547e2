//! Calls to a browser: the record of a call, and what the browser reports.

mod encodings;
mod figures;
mod sources;

use std::{net::SocketAddr, sync::atomic::AtomicBool};

use giusto_congestion::{Algorithm, FeedbackKind, Limits, Options};
use giusto_net::{driver::Verdict, encoder::EncoderError};
use giusto_session::{
    media::{FrameArrival, MediaEvent, MediaSender},
    video::VideoCodec,
};
use giusto_sim::{
    record::{PlannedFlow, RecordPlan, Recorder, RepairRecord, StreamKind, StreamRecord, TimelineOptions},
    trace::{Event, Note, Observer},
    traffic::note_of,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
pub use giusto_webrtc::{
    call::{CallError, CallEvent, Connected},
    peer::Incoming,
    result::IncomingFigures,
};
use giusto_webrtc::{
    call::{CallObserver, CallPlan},
    peer::{IncomingStream, PeerCounters, PeerMedia, ReceiveConfig, Secrets, VoiceSource},
    result::{BrowserFigures, CallResult, Sample},
};
use rand::{
    SeedableRng as _,
    rngs::{StdRng, SysRng},
};
use serde::Serialize;

use encodings::Encodings;
use figures::{
    STAND_INS, above_min, complete, complete_incoming, heard_by, incoming_note, is_error, packet, rtts,
    stand_in,
};
use sources::{Late, LateVoice};

use super::{
    end::{Live, LiveSide},
    flows::{Alone, FORWARD, FORWARD_ID, REVERSE, REVERSE_ID},
    heard::{HeardVoice, VoiceMeter},
    record::{CallFigures, CallRecord, IgnoredFigures, distribution_of},
    save::{SaveTarget, VideoSaver},
    side::is_of_sender,
    video::VideoInput,
    voice::VoiceInput,
};
use crate::{
    record::{Distribution, FlowRecord, RunRecord},
    replay::{Lacks, SessionInfo, SessionLog},
    trace::TraceFile,
};

/// How long a call without an announced end is recorded over time, and how finely.
const UNLIMITED: TimeDelta = TimeDelta::from_seconds(3600);
const FINE: TimeDelta = TimeDelta::from_millis(200);
/// The time between two records of the controller's gauges.
const GAUGES: TimeDelta = TimeDelta::from_millis(20);
/// The time between two looks at the encoder.
const LOOK: TimeDelta = TimeDelta::from_millis(100);

/// What is to be done.
#[derive(Debug)]
pub struct BrowserPlan {
    /// The address of the page (TCP) and of the media (UDP); port 0 selects a free one.
    pub listen: SocketAddr,
    /// The controller.
    pub controller: Algorithm,
    /// Limits of its target, headers included.
    pub limits: Limits,
    /// Its target of the queueing delay, if it has one.
    pub delay_target: Option<TimeDelta>,
    /// The feedback of the browser; `None`: that for which the controller was designed, otherwise any that it accepts.
    pub feedback: Option<FeedbackKind>,
    /// Whether lost packets are sent again.
    pub repair: bool,
    /// Duration from the first packet on; `None`: until the browser ends the call.
    pub duration: Option<TimeDelta>,
    /// The time between two live figures.
    pub interval: TimeDelta,
    /// The video that is sent. `None`: nothing is sent, and the browser's own controller decides, or with
    /// [`FeedbackKind::ReceiverEstimate`] the receiver's half of the controller.
    pub video: Option<VideoInput>,
    /// The speech that is sent too.
    pub voice: Option<VoiceInput>,
    /// Whether video and audio come from the browser.
    pub receives: bool,
    /// The most that the browser may send of its video; `None`: what its controller allows.
    pub max_receive_rate: Option<DataRate>,
    /// The codec of its video; `None`: the browser's first that fits. In both directions it is that of `video`.
    pub codec: Option<VideoCodec>,
    /// Where they are saved.
    pub save: Option<SaveTarget>,
    /// The record over time.
    pub timeline: Option<TimelineOptions>,
}

impl BrowserPlan {
    fn options(&self) -> Options {
        Options::default().with_delay_target(self.delay_target)
    }

    /// What a session log of this call begins with. Its feedback must be known before the browser has offered any: set
    /// [`feedback`](Self::feedback).
    pub fn session_info(&self) -> SessionInfo {
        let feedback = self.feedback.unwrap_or(self.controller.requirements().feedback);
        SessionInfo {
            recorder: concat!("giusto ", env!("CARGO_PKG_VERSION")).to_owned(),
            name: "call".to_owned(),
            controller: self.controller.name().to_owned(),
            limits: self.limits,
            options: self.options(),
            feedback,
            lacks: Lacks { ecn: true, ..Lacks::default() },
        }
    }
}

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserRunError {
    /// There was no call.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The system gave no random numbers.
    #[error("cannot read random numbers from the system: {0}")]
    Random(#[from] rand::rngs::SysError),
}

/// What happens before and during a call to a browser.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BrowserEvent {
    /// An event of the connection.
    Connection(CallEvent),
    /// The figures of the last interval.
    Live {
        /// As in other calls.
        live: Live,
        /// Freezes of the browser so far.
        freezes: Option<u64>,
    },
}

/// The record of a call to a browser.
#[derive(Debug, Clone, Serialize)]
pub struct BrowserRecord {
    /// As of other calls.
    #[serde(flatten)]
    pub record: CallRecord,
    /// What the browser reported, by its `getStats`.
    pub browser: BrowserFigures,
    /// The connection and its counts.
    pub connection: ConnectionFigures,
    /// Samples of this end, ten each second, for the report; the timeline of the record has the same.
    #[serde(skip)]
    pub own: Vec<Sample>,
    /// Bytes of all headers below RTP.
    #[serde(skip)]
    pub overhead: DataSize,
    /// The speech as the browser heard it, by its counts; the network delay is half its round-trip time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard_by_browser: Option<HeardVoice>,
    /// What came from the browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incoming: Option<IncomingRecord>,
}

/// What came from a browser.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct IncomingRecord {
    /// Its streams.
    pub streams: Vec<IncomingFigures>,
    /// The frame delay of its video above the shortest, since the clocks of both ends are not compared, in ms.
    pub frame_delay_above_min_ms: Option<Distribution>,
}

/// The connection of a call to a browser.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ConnectionFigures {
    /// Version of DTLS.
    pub dtls: Option<&'static str>,
    /// Profile of SRTP.
    pub srtp: Option<String>,
    /// Time from the offer to the first packet.
    pub setup_ms: Option<f64>,
    /// Why the call ended.
    pub end: String,
    /// Counts of our end.
    #[serde(flatten)]
    pub counters: PeerCounters,
}

/// Serves the page, waits for a browser, calls it, and returns the record. `trace` and `log` are written in the meantime. `stop` ends
/// it early.
///
/// # Errors
///
/// [`BrowserRunError`] if there was no call; what was measured in one is always returned.
pub fn run(
    plan: &BrowserPlan,
    trace: Option<TraceFile>,
    log: Option<&SessionLog>,
    stop: &AtomicBool,
    on_event: impl FnMut(BrowserEvent),
) -> Result<BrowserRecord, BrowserRunError> {
    let mut random = StdRng::try_from_rng(&mut SysRng)?;
    let controller = plan.controller.build_with(plan.limits, plan.options());
    let controller = match log {
        Some(log) => log.record(controller),
        None => controller,
    };
    let mut witness = Witness {
        controller: plan.controller,
        duration: plan.duration,
        timeline: plan.timeline,
        trace,
        call: None,
        sent_packets: 0,
        video: plan.video.clone(),
        voice: plan.voice.clone(),
        receives: plan.receives,
        save: plan.save.clone(),
        next_look: Timestamp::ZERO,
        encoder_error: None,
        on_event,
    };
    let media = plan.video.as_ref().map(|video| {
        let source = Late { input: video.clone(), first: plan.limits.start, source: None };
        let voice = plan
            .voice
            .clone()
            .map(|input| Box::new(LateVoice { input, source: None }) as Box<dyn VoiceSource>);
        PeerMedia { source: Box::new(source), controller, voice }
    });
    let receive = plan.receives.then(|| {
        let defaults = ReceiveConfig::default();
        let fits = |codec: &VideoCodec| plan.save.as_ref().is_none_or(|save| save.takes(*codec));
        ReceiveConfig {
            codecs: plan
                .codec
                .map_or(defaults.codecs, |codec| vec![codec])
                .into_iter()
                .filter(fits)
                .collect(),
            receive_side: plan.controller.receive_side(),
            max_rate: plan.max_receive_rate,
        }
    });
    let call = CallPlan {
        receive,
        feedback: plan.feedback,
        repair: plan.repair,
        duration: plan.duration,
        interval: plan.interval,
        ..CallPlan::new(plan.listen, media, plan.controller.name())
    };
    let result = giusto_webrtc::call::run(call, || Secrets::draw(&mut random), stop, &mut witness);
    if let Some(video) = &plan.video {
        video.stop();
    }
    Ok(witness.finish(result?))
}

/// Records a call as it happens.
struct Witness<F> {
    controller: Algorithm,
    duration: Option<TimeDelta>,
    timeline: Option<TimelineOptions>,
    /// Of the call that has not begun yet.
    trace: Option<TraceFile>,
    call: Option<Recorded>,
    sent_packets: u64,
    video: Option<VideoInput>,
    voice: Option<VoiceInput>,
    receives: bool,
    save: Option<SaveTarget>,
    /// When the encoder is looked at again.
    next_look: Timestamp,
    encoder_error: Option<EncoderError>,
    on_event: F,
}

/// A call that has begun.
struct Recorded {
    connected: Connected,
    recorder: (Recorder, Option<TraceFile>),
    end: Timestamp,
    next_gauges: Timestamp,
    /// The time of the latest RTCP or media of the browser.
    heard_at: Timestamp,
    received_packets: u64,
    saver: Option<VideoSaver>,
    /// Of a browser that sends several encodings at once.
    encodings: Option<Encodings>,
    heard: Option<VoiceMeter>,
    /// Frame delays of the browser's video, of clocks that are not compared.
    delays: Vec<TimeDelta>,
}

/// Frame delays that are kept. Chosen by us: nine hours of 30 frames a second.
const MAX_DELAYS: usize = 1_000_000;

impl Recorded {
    /// A time of the call, which begins at 0.
    fn time(&self, now: Timestamp) -> Timestamp {
        Timestamp::ZERO + now.saturating_since(self.connected.at)
    }

    fn on_video(&mut self, now: Timestamp, frame: FrameArrival) {
        let room = self.delays.len() < MAX_DELAYS;
        self.delays.extend(frame.delay.filter(|_| room));
        if let Some(saver) = &mut self.saver {
            saver.on_frame(now, frame);
        }
    }

    /// Takes the frames of the best encodings; at the end of the call, all that are left.
    fn take_chosen(&mut self, now: Option<Timestamp>) {
        while let Some(frame) = self.encodings.as_mut().and_then(|encodings| encodings.poll(now)) {
            self.on_video(now.unwrap_or(frame.at), frame);
        }
    }
}

impl<F: FnMut(BrowserEvent)> CallObserver for Witness<F> {
    fn on_event(&mut self, event: CallEvent) {
        if let CallEvent::Connected(connected) = &event {
            self.begin(connected.clone());
        }
        let event = match event {
            CallEvent::Live(giusto_webrtc::call::Live { at, sent, received, browser }) => {
                let sent =
                    sent.map(|(rate, target)| LiveSide { rate, target: Some(target), ..LiveSide::default() });
                let at_browser = browser.filter(|_| sent.is_some()).map(|browser| LiveSide {
                    rate: browser.received,
                    lost_packets: browser.lost_packets,
                    frames: browser.frames,
                    ..LiveSide::default()
                });
                // Of both directions, what arrives here.
                let received = received.map(|received| LiveSide {
                    rate: received.rate,
                    lost_packets: received.lost_packets,
                    frames: received.frames,
                    ..LiveSide::default()
                });
                let received = received.or(at_browser);
                let live = Live {
                    at,
                    calls: 1,
                    sent,
                    received,
                    rtt: browser.and_then(|browser| browser.rtt),
                    silence: self.silence(at),
                };
                BrowserEvent::Live { live, freezes: browser.map(|browser| browser.freezes) }
            }
            event => BrowserEvent::Connection(event),
        };
        (self.on_event)(event);
    }

    fn on_sent(&mut self, now: Timestamp, kind: u8, size: DataSize) {
        let sequence = self.sent_packets;
        self.sent_packets += 1;
        let Some(call) = &mut self.call else { return };
        let at = call.time(now);
        let flow = if is_of_sender(kind) { FORWARD[0] } else { REVERSE[1] };
        call.recorder.on_event(at, &Event::Sent { packet: packet(at, flow, size, sequence) });
    }

    fn on_feedback(&mut self, now: Timestamp, size: DataSize) {
        let Some(call) = &mut self.call else { return };
        let at = call.time(now);
        call.heard_at = at;
        if self.video.is_none() {
            return;
        }
        let packet = packet(at, FORWARD[1], size, 0);
        // The record counts feedback where it is sent; this end sees where it arrives.
        call.recorder.0.on_event(at, &Event::Sent { packet });
        call.recorder.1.on_event(at, &Event::Delivered { packet });
    }

    fn on_media(&mut self, now: Timestamp, event: &MediaEvent) {
        let Some(call) = &mut self.call else { return };
        let Some(mut note) = note_of(FORWARD[0], event) else { return };
        let at = call.time(now);
        if let Note::Decided { decision, .. } = &mut note {
            decision.at = call.time(decision.at);
        }
        call.recorder.on_note(at, &note);
    }

    fn on_received(&mut self, now: Timestamp, size: DataSize) {
        let Some(call) = &mut self.call else { return };
        let at = call.time(now);
        call.heard_at = at;
        let packet = packet(at, REVERSE[0], size, call.received_packets);
        call.received_packets += 1;
        call.recorder.on_event(at, &Event::Delivered { packet });
    }

    fn on_incoming(&mut self, now: Timestamp, stream: IncomingStream, event: &MediaEvent) {
        let Some(call) = &mut self.call else { return };
        let at = call.time(now);
        if let Some(note) = incoming_note(stream, event, &call.connected) {
            call.recorder.on_note(at, &note);
        }
        let MediaEvent::Frame(frame) = event else { return };
        match (stream.kind, &mut call.encodings) {
            (Incoming::Video, Some(encodings)) => {
                encodings.push(now, frame.clone());
                call.take_chosen(Some(now));
            }
            (Incoming::Video, None) => call.on_video(now, frame.clone()),
            (Incoming::Audio, _) => {
                if let Some(heard) = &mut call.heard {
                    heard.on_packet(frame, None);
                }
                if let Some(saver) = &mut call.saver {
                    saver.on_audio(now, frame.clone());
                }
            }
        }
    }

    fn wants_key_frame(&mut self) -> Option<u32> {
        self.call.as_mut()?.encodings.as_mut()?.wants_key_frame()
    }

    fn on_turn(&mut self, now: Timestamp, sender: &MediaSender) -> Verdict {
        if now >= self.next_look {
            self.next_look = now + LOOK;
            if let Some(ended) = self.video.as_ref().and_then(VideoInput::ended) {
                self.encoder_error = ended.err();
                return Verdict::Stop;
            }
        }
        let Some(call) = &mut self.call else { return Verdict::Continue };
        let at = call.time(now);
        if at < call.next_gauges {
            return Verdict::Continue;
        }
        call.next_gauges = at + GAUGES;
        let in_flight = Some(("in_flight_bytes", sender.in_flight()));
        let window = sender.target().window.map(|window| ("window_bytes", window));
        for (name, value) in in_flight.into_iter().chain(window) {
            let value = value.as_bytes() as f64;
            call.recorder.on_gauge(at, FORWARD[0], name, value);
        }
        Verdict::Continue
    }
}

impl<F: FnMut(BrowserEvent)> Witness<F> {
    /// How long nothing has come from the browser at this time of the call, if that is longer than a second.
    fn silence(&self, at: TimeDelta) -> Option<TimeDelta> {
        let silence = (Timestamp::ZERO + at).saturating_since(self.call.as_ref()?.heard_at);
        (silence >= TimeDelta::from_seconds(1)).then_some(silence)
    }

    fn begin(&mut self, connected: Connected) {
        let end = Timestamp::ZERO + self.duration.unwrap_or(UNLIMITED);
        let width = self.duration.is_none().then_some(FINE);
        let about = |id: &str, [from, to]: [&str; 2]| FlowRecord {
            id: id.to_owned(),
            group: id.to_owned(),
            kind: "media".to_owned(),
            feedback: Some(connected.feedback.name().to_owned()),
            from: from.to_owned(),
            to: to.to_owned(),
            ..FlowRecord::default()
        };
        let video = |ssrc| StreamRecord {
            priority: Some(1.0),
            repair: connected.repair.then(RepairRecord::default),
            ..StreamRecord::new("video", ssrc, StreamKind::Video)
        };
        let audio = |ssrc| StreamRecord::new("audio", ssrc, StreamKind::Audio);
        let forward = self.video.is_some().then(|| FlowRecord {
            controller: Some(self.controller.to_string()),
            streams: std::iter::once(video(connected.ssrc)).chain(connected.voice_ssrc.map(audio)).collect(),
            ..about(FORWARD_ID, ["caller", "browser"])
        });
        let is_estimate = connected.feedback == FeedbackKind::ReceiverEstimate;
        let encoding = |name| StreamRecord {
            id: format!("video {name}"),
            ..video(stand_in(&connected.encodings, Some(name)))
        };
        let mut videos: Vec<StreamRecord> = connected.encodings.iter().copied().map(encoding).collect();
        if videos.is_empty() {
            videos.push(video(STAND_INS[0]));
        }
        let reverse = self.receives.then(|| FlowRecord {
            controller: is_estimate.then(|| self.controller.to_string()),
            streams: videos
                .into_iter()
                .chain(connected.receives_audio.then(|| audio(STAND_INS[1])))
                .collect(),
            ..about(REVERSE_ID, ["browser", "caller"])
        });
        // All of the call is counted.
        let window = Timestamp::ZERO..self.duration.map_or(Timestamp::MAX, |_| end);
        let recorder = Recorder::new(RecordPlan {
            scenario: "call".to_owned(),
            end,
            flows: [(FORWARD, forward), (REVERSE, reverse)]
                .into_iter()
                .filter_map(|([flow, answers], about)| {
                    Some(PlannedFlow { flow, answers: Some(answers), window: window.clone(), about: about? })
                })
                .collect(),
            timeline: self
                .timeline
                .map(|options| TimelineOptions { width: options.width.or(width), ..options }),
            ..RecordPlan::default()
        });
        let codec = self.receives.then_some(connected.codec);
        let has_audio = self.receives && connected.receives_audio;
        let saver = self.save.as_ref().and_then(|save| save.open(codec, has_audio));
        let is_simulcast = !connected.encodings.is_empty();
        self.call = Some(Recorded {
            received_packets: 0,
            encodings: is_simulcast.then(|| Encodings::new(connected.codec)),
            saver: saver.map(VideoSaver::of_another_sender),
            heard: has_audio.then(VoiceMeter::default),
            delays: Vec::new(),
            connected,
            recorder: (recorder, self.trace.take()),
            end: window.end,
            next_gauges: Timestamp::ZERO,
            heard_at: Timestamp::ZERO,
        });
    }

    fn finish(self, result: CallResult) -> BrowserRecord {
        let lasted = TimeDelta::from_seconds_f64(result.duration_s);
        let (mut heard, mut saved, mut delays) = (None, None, Vec::new());
        let (mut run, trace) = match self.call {
            Some(mut recorded) => {
                recorded.take_chosen(None);
                let Recorded { recorder: (recorder, trace), end, saver, heard: meter, delays: all, .. } =
                    recorded;
                heard = meter.as_ref().and_then(VoiceMeter::figures);
                saved = saver.map(VideoSaver::finish);
                delays = all;
                (recorder.finish(&Alone { seed: 0 }, (Timestamp::ZERO + lasted).min(end)).0, trace)
            }
            None => (RunRecord { scenario: "call".to_owned(), ..RunRecord::default() }, self.trace),
        };
        run.wall_s = result.duration_s;
        for flow in &mut run.flows {
            (flow.delay_ms, flow.queue_delay_ms) = (None, None);
            if flow.id == FORWARD_ID {
                complete(flow, &result);
            } else {
                complete_incoming(flow, &result);
            }
        }
        let untraced = trace.and_then(|trace| trace.finish().err()).map(|error| error.to_string());
        let CallResult {
            browser,
            counters,
            schedule_error,
            browser_address,
            samples,
            overhead,
            received,
            ..
        } = result;
        let mut call = CallFigures {
            role: "caller".to_owned(),
            far_end: browser_address.map_or_else(String::new, |address| address.to_string()),
            error: match &self.encoder_error {
                Some(error) => Some(error.to_string()),
                None => (!result.connected || is_error(&result.end)).then(|| result.end.clone()).or(untraced),
            },
            video: self.video.filter(|_| result.connected).map(|video| video.figures(lasted)),
            voice: self.voice.filter(|_| result.connected).map(|voice| voice.figures(lasted)),
            heard,
            saved,
            authenticated: result.connected,
            protection: if result.connected { "srtp" } else { "none" }.to_owned(),
            round_trip_ms: rtts(&browser),
            schedule_error_us: distribution_of(&schedule_error, 1e3),
            cpu_ratio: result.sender_cpu_ratio,
            address_changes: u32::try_from(counters.address_changes).unwrap_or(u32::MAX),
            unsent_packets: result.unsent_datagrams,
            socket_dropped_packets: result.dropped_datagrams,
            ignored: IgnoredFigures {
                foreign_packets: counters.strange_datagrams + counters.stun.ignored,
                unauthenticated_packets: counters.stun.refused + counters.refused_packets,
                ..IgnoredFigures::default()
            },
            ..CallFigures::default()
        };
        call.note_unreported(&run);
        call.doubts = call.find_doubts(&run);
        let connection = ConnectionFigures {
            dtls: result.dtls,
            srtp: result.srtp,
            setup_ms: result.setup_ms,
            end: result.end,
            counters,
        };
        let incoming = self
            .receives
            .then(|| IncomingRecord { streams: received, frame_delay_above_min_ms: above_min(&delays) });
        let own = samples.into();
        let heard_by_browser = heard_by(&browser);
        let record = CallRecord { run, call };
        BrowserRecord { record, browser, connection, own, overhead, heard_by_browser, incoming }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call in both directions of this duration that has just connected.
    fn connected(duration: Option<TimeDelta>) -> Witness<impl FnMut(BrowserEvent)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../webrtc/tests/data/low.ivf");
        let film = VideoInput::files(std::iter::once(path.as_ref()), TimeDelta::from_millis(33));
        let mut witness = Witness {
            controller: "gcc:libwebrtc".parse().unwrap(),
            duration,
            timeline: Some(TimelineOptions::default()),
            trace: None,
            call: None,
            sent_packets: 0,
            video: film.ok(),
            voice: None,
            receives: true,
            save: None,
            next_look: Timestamp::ZERO,
            encoder_error: None,
            on_event: |_| {},
        };
        witness.begin(Connected {
            browser: ([127, 0, 0, 1], 9).into(),
            at: Timestamp::ZERO,
            ssrc: 7,
            feedback: FeedbackKind::TransportWide,
            repair: true,
            codec: VideoCodec::Vp8,
            receives_audio: false,
            voice_ssrc: None,
            encodings: Vec::new(),
        });
        witness
    }

    /// The record of a call that has lasted so long.
    fn recorded(witness: Witness<impl FnMut(BrowserEvent)>, seconds: i64) -> RunRecord {
        let Recorded { recorder: (recorder, _), end, .. } = witness.call.unwrap();
        recorder.finish(&Alone { seed: 0 }, end.min(Timestamp::ZERO + TimeDelta::from_seconds(seconds))).0
    }

    #[test]
    fn feedback_to_the_browser_is_not_among_the_media_that_it_gets() {
        let mut witness = connected(Some(TimeDelta::from_seconds(1)));
        // RTP and a sender report; a receiver report, transport-wide feedback and a request for a key frame.
        for kind in [96, 224, 200, 201, 205, 206] {
            witness.on_sent(Timestamp::ZERO + TimeDelta::from_millis(500), kind, DataSize::from_bytes(100));
        }
        let sent = |flow: &FlowRecord| (flow.id.clone(), flow.sent_packets, flow.feedback_rate_bps);
        let expected = [(FORWARD_ID.to_owned(), 3, Some(0.0)), (REVERSE_ID.to_owned(), 0, Some(2400.0))];
        assert_eq!(recorded(witness, 1).flows.iter().map(sent).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn all_of_a_call_without_an_announced_end_is_counted() {
        for (duration, expected) in [(None, (7200.0, 20)), (Some(UNLIMITED), (3600.0, 10))] {
            let mut witness = connected(duration);
            for number in 0..20 {
                let at = Timestamp::ZERO + TimeDelta::from_seconds(360 * number);
                witness.on_sent(at, 96, DataSize::from_bytes(100));
            }
            let run = recorded(witness, 7200);
            assert_eq!((run.duration_s, run.flows[0].sent_packets), expected);
        }
    }
}
