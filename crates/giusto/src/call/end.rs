//! What the caller and the listener share: settings, the calls that are open, their live figures, their page and their records.

use std::{collections::BTreeMap, net::SocketAddr};

use giusto_congestion::{Algorithm, Decision};
use giusto_net::{
    Clock, PathOptions, UdpSocket,
    driver::{CallDriver, Resolver, Roam, local_clock},
    emulate::StartSignal,
};
use giusto_session::{
    call::{CallError, CallId, Calls, CallsConfig, MakeCipher, Protection},
    keys::KeyRing,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use rand::{
    TryRng,
    rngs::{SysError, SysRng},
};

use super::{
    record::{CallFigures, CallPath, CallRecord, distribution_of},
    save::SaveTarget,
    side::{CallSide, SideConfig, SideTotals},
    video::VideoInput,
    voice::VoiceInput,
};
use crate::{
    capture::CallCapture,
    measured::{interval::Counts, own_loss},
    record::TimelineOptions,
    replay::SessionLog,
    trace::TraceFile,
    watch::{Decided, DelayState, MAX_SHOWN, SentState, SharedFeed, StreamState},
};

/// What both ends can set.
#[derive(Debug, Clone)]
pub struct CallSettings {
    /// Keys shared with the far end. Default: none.
    pub keys: Option<KeyRing>,
    /// Where datagrams leave, and what routers and switches read of them. Default: all is left to the system.
    pub path: PathOptions,
    /// A caller finds the MTU of the path by probes (RFC 8899) while the call lasts; then its datagrams are not fragmented. Default: no.
    pub mtu_discovery: bool,
    /// How the media are protected; at a listener, how they must be at least. Default: authenticated.
    pub protection: Protection,
    /// Who this end is to far ends with which it shares no key: keys come from DTLS. Default: none.
    #[cfg(feature = "browser")]
    pub identity: Option<giusto_webrtc::exchange::Identity>,
    /// Finds a listener again where it has another address. Default: none.
    pub resolver: Option<Resolver>,
    /// Time without any datagram of the far end after which a call ends. Default 15 s.
    pub silence: TimeDelta,
    /// The record over time. Default: none.
    pub timeline: Option<TimelineOptions>,
    /// The time between two live figures. Default 1 s.
    pub interval: TimeDelta,
    /// Records the controller of the first call in which this end sends. Default: none.
    pub session_log: Option<SessionLog>,
    /// Set when the media of the first call begin. Default: none.
    pub began: Option<StartSignal>,
    /// Captures all datagrams of this end. Default: none.
    pub capture: Option<CallCapture>,
    /// Saves the video of the first call in which this end receives real video. Default: not at all.
    pub save: Option<SaveTarget>,
    /// Real video that a listener sends to callers that send theirs and want it back. Default: none.
    pub video: Option<VideoInput>,
    /// Speech for the same. Default: none.
    pub voice: Option<VoiceInput>,
    /// What shows the calls while they last. Default: none.
    pub feed: Option<SharedFeed>,
    /// Controllers that a caller may ask a listener to send by, besides the built-in ones. Default: none.
    pub algorithms: Vec<Algorithm>,
}

impl Default for CallSettings {
    fn default() -> Self {
        Self {
            keys: None,
            path: PathOptions::default(),
            mtu_discovery: false,
            protection: Protection::default(),
            #[cfg(feature = "browser")]
            identity: None,
            resolver: None,
            silence: TimeDelta::from_seconds(15),
            timeline: None,
            interval: TimeDelta::from_seconds(1),
            session_log: None,
            began: None,
            capture: None,
            save: None,
            video: None,
            voice: None,
            feed: None,
            algorithms: Vec::new(),
        }
    }
}

/// The figures of the last interval, of all calls of this end together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Live {
    /// The end of the interval, from the beginning of the first call.
    pub at: TimeDelta,
    /// Calls.
    pub calls: usize,
    /// What this end sends, if it sends.
    pub sent: Option<LiveSide>,
    /// What it receives, if it receives.
    pub received: Option<LiveSide>,
    /// The median round-trip time so far.
    pub rtt: Option<TimeDelta>,
    /// How long nothing has come from a far end, if that is longer than a second.
    pub silence: Option<TimeDelta>,
}

/// One direction in the last interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LiveSide {
    /// Rate, headers included.
    pub rate: DataRate,
    /// The target rate of a sender's controllers.
    pub target: Option<DataRate>,
    /// Packets lost in the interval.
    pub lost_packets: u64,
    /// Frames in the interval.
    pub frames: u64,
    /// The mean of their delays.
    pub frame_delay: Option<TimeDelta>,
}

/// An end of calls over one socket.
#[derive(Debug)]
pub(super) struct LocalEnd {
    pub(super) clock: Clock,
    pub(super) settings: CallSettings,
    open: BTreeMap<CallId, OpenCall>,
    next_live: Option<Timestamp>,
    live_from: Timestamp,
    before: BTreeMap<CallId, SideTotals>,
    first_began: Option<Timestamp>,
    begun: u64,
    /// When the calls next learn what the socket has dropped.
    note_at: Timestamp,
}

/// A call that has begun.
#[derive(Debug)]
struct OpenCall {
    config: SideConfig,
    /// How many calls had begun before.
    number: u64,
    /// Messages that the socket had dropped before.
    dropped_before: u64,
    /// The far end.
    peer: SocketAddr,
    /// Where it was before; the packets are totals until then.
    former: Vec<CallPath>,
    /// Finds the listener where its name leads now.
    roam: Roam,
}

impl OpenCall {
    /// Its directions, as a page shows them.
    fn directions(&self, call: CallId) -> impl Iterator<Item = Shown> {
        let own = |sends| Shown { call, number: self.number, sends };
        let SideConfig { sends, receives, .. } = &self.config;
        let sent = sends.is_some().then(|| own(true));
        sent.into_iter().chain(receives.is_some().then(|| own(false)))
    }
}

/// One direction of a call.
#[derive(Debug, Clone, Copy)]
struct Shown {
    call: CallId,
    /// How many calls had begun before.
    number: u64,
    /// This end sends.
    sends: bool,
}

/// The result of a call.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) record: CallRecord,
    pub(super) trace: Option<TraceFile>,
}

impl LocalEnd {
    pub(super) fn new(clock: Clock, settings: CallSettings) -> Self {
        let now = clock.now();
        Self {
            clock,
            settings,
            open: BTreeMap::new(),
            next_live: None,
            live_from: now,
            before: BTreeMap::new(),
            first_began: None,
            note_at: Timestamp::ZERO,
            begun: 0,
        }
    }

    pub(super) fn config(&self, max_calls: usize) -> Result<CallsConfig, SysError> {
        let mut secret = [0; 32];
        SysRng.try_fill_bytes(&mut secret)?;
        Ok(CallsConfig {
            keys: self.settings.keys.clone(),
            protection: self.settings.protection,
            cipher: own_cipher(),
            max_calls,
            clock: local_clock(self.clock),
            silence_timeout: self.settings.silence,
            ..CallsConfig::new(secret)
        })
    }

    /// Forgets the calls of an earlier run that it left without their end.
    pub(super) fn forget_calls(&mut self) {
        self.open.clear();
        self.before.clear();
    }

    /// Synchronisation sources that no call of this end has.
    pub(super) fn sources(&self) -> Result<u32, SysError> {
        loop {
            let sources = SysRng.try_next_u32()? & !0xff;
            if sources != 0 && self.open.values().all(|call| call.config.sources.0 != sources) {
                return Ok(sources);
            }
        }
    }

    /// A call begins; the socket had dropped so many messages before.
    pub(super) fn on_begun(
        &mut self,
        now: Timestamp,
        id: CallId,
        (config, peer): (SideConfig, SocketAddr),
        dropped_before: u64,
    ) {
        if let Some(signal) = self.settings.began.take() {
            signal.set(self.clock, now);
        }
        self.first_began.get_or_insert(now);
        if self.open.is_empty() {
            (self.live_from, self.next_live) = (now, Some(now + self.settings.interval));
        }
        let (former, roam) = (Vec::new(), Roam::with_resolver(self.settings.resolver.clone()));
        self.open.insert(id, OpenCall { config, number: self.begun, dropped_before, peer, former, roam });
        self.begun += 1;
    }

    /// An address of a call has changed.
    pub(super) fn on_moved(&mut self, now: Timestamp, id: CallId, to: SocketAddr, calls: &Calls<CallSide>) {
        /// A far end that moves more often is counted at its latest address.
        const MAX_FORMER: usize = 64;
        let Some(((open, side), began)) = self.open.get_mut(&id).zip(calls.media(id)).zip(calls.began(id))
        else {
            return;
        };
        if to != open.peer && open.former.len() < MAX_FORMER {
            open.former.push(path(open.peer, now.saturating_since(began), &side.totals()));
        }
        open.peer = to;
    }

    /// Greets the listeners of silent calls where their name leads now.
    pub(super) fn look_for_listeners(&mut self, now: Timestamp, calls: &mut Calls<CallSide>) {
        if self.settings.resolver.is_none() {
            return;
        }
        for (&id, open) in &mut self.open {
            let silence = calls.silence(id, now).unwrap_or_default();
            if let Some(elsewhere) = open.roam.elsewhere(now, open.peer, silence) {
                calls.try_at(now, id, elsewhere);
            }
        }
    }

    /// Tells the open calls now and then what the socket has dropped, for their far ends. Call it after each wake-up.
    pub(super) fn note_dropped(
        &mut self,
        now: Timestamp,
        calls: &mut Calls<CallSide>,
        driver: &mut CallDriver<'_>,
    ) {
        const INTERVAL: TimeDelta = TimeDelta::from_millis(50);
        if now < self.note_at {
            return;
        }
        self.note_at = now + INTERVAL;
        let total = driver.dropped();
        for (id, open) in &self.open {
            if let Some(side) = calls.media_mut(*id) {
                side.note_dropped(total - open.dropped_before);
            }
        }
    }

    /// A driver of this end's socket, with its capture.
    pub(super) fn driver<'a>(&mut self, socket: &'a UdpSocket) -> CallDriver<'a> {
        let mut driver = CallDriver::new(socket, self.clock);
        if let Some(capture) = self.settings.capture.take() {
            driver.set_tap(capture.tap(socket.local_addr(), self.clock, self.settings.protection));
        }
        driver
    }

    /// Whether no call is open.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether a call has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.first_began.is_some()
    }

    /// Hands the calls to the page, if there is one and an update is due. Otherwise no call is visited.
    pub(super) fn show(&self, now: Timestamp, calls: &mut Calls<CallSide>) {
        let Some(feed) = &self.settings.feed else { return };
        feed.with(|feed| {
            if !feed.is_due(now) {
                return;
            }
            let directions = || self.open.iter().flat_map(|(&id, call)| call.directions(id));
            for direction in directions().take(MAX_SHOWN) {
                direction.decisions(calls).for_each(|decided| feed.decide(decided));
            }
            let calls = &*calls;
            let state = |direction: &Shown| direction.state(now, calls);
            feed.send(now, directions(), state, |direction| direction.name(calls));
        });
    }

    /// Hands what is left to the page.
    pub(super) fn finish_feed(&self) {
        if let Some(feed) = &self.settings.feed {
            feed.with(|feed| feed.finish(self.clock.now()));
        }
    }

    /// The live figures, if they are due.
    pub(super) fn live(&mut self, now: Timestamp, calls: &Calls<CallSide>) -> Option<Live> {
        let due = self.next_live.filter(|due| *due <= now && !self.open.is_empty())?;
        let seconds = (now - self.live_from).as_seconds();
        let next = due + self.settings.interval;
        self.next_live = Some(if next > now { next } else { now + self.settings.interval });
        self.live_from = now;
        let mut live = Live {
            at: now - self.first_began?,
            calls: 0,
            sent: None,
            received: None,
            rtt: None,
            silence: None,
        };
        let rate = |bytes: u64| {
            DataRate::from_bps(if seconds > 0.0 { (bytes as f64 * 8.0 / seconds) as u64 } else { 0 })
        };
        let mut received = (LiveSide::default(), TimeDelta::ZERO, 0_u64);
        let (mut sent_bytes, mut received_bytes) = (0, 0);
        for &id in self.open.keys() {
            let Some(side) = calls.media(id) else { continue };
            let totals = side.totals();
            let before = self.before.insert(id, totals).unwrap_or_default();
            live.calls += 1;
            let (sends, receives) = side.directions();
            if sends {
                sent_bytes += totals.sent_bytes - before.sent_bytes;
                let sent = live.sent.get_or_insert_default();
                let own = totals.target.unwrap_or_default();
                let target = sent.target.unwrap_or_default().as_bps() + own.as_bps();
                sent.target = Some(DataRate::from_bps(target));
                sent.rate = rate(sent_bytes);
            }
            if receives {
                received_bytes += totals.received_bytes - before.received_bytes;
                received.0.rate = rate(received_bytes);
                received.0.lost_packets += totals.lost_packets.saturating_sub(before.lost_packets);
                received.0.frames += totals.frames - before.frames;
                received.1 += totals.frame_delay_sum - before.frame_delay_sum;
                received.2 += totals.frame_delays - before.frame_delays;
                let frames = i64::try_from(received.2).unwrap_or(i64::MAX);
                received.0.frame_delay = (frames > 0).then(|| received.1 / frames);
                live.received = Some(received.0);
            }
            live.rtt = live.rtt.or(calls.rtts(id).and_then(|all| all.quantile(0.5)));
            let silence = calls.silence(id, now).filter(|silence| *silence >= TimeDelta::from_seconds(1));
            live.silence = live.silence.max(silence);
        }
        Some(live)
    }

    /// The result of a call that has ended; `None` if it had not begun.
    pub(super) fn result(
        &mut self,
        now: Timestamp,
        id: CallId,
        outcome: &Result<(), CallError>,
        calls: &mut Calls<CallSide>,
        driver: &mut CallDriver<'_>,
    ) -> Option<Outcome> {
        let open = self.open.remove(&id)?;
        if let Some(feed) = &self.settings.feed {
            feed.with(|feed| {
                for direction in open.directions(id) {
                    direction.decisions(calls).for_each(|decided| feed.decide(decided));
                    feed.close(direction.state(now, calls), || direction.name(calls));
                }
            });
        }
        self.before.remove(&id);
        let (began, peer) = (calls.began(id)?, calls.peer(id)?);
        let far_end = calls.far_end(id).cloned();
        let mut side = calls.take_media(id)?;
        let saved = side.finish_video();
        let totals = side.totals();
        let paths = paths(open.former, path(open.peer, now.saturating_since(began), &totals));
        let heard = side.heard();
        let at = Timestamp::ZERO + (now - began);
        let (mut run, trace) = side.finish(at, far_end.as_ref());
        run.wall_s = (now - began).as_seconds();
        let report = driver.report();
        let elapsed = report.elapsed.as_seconds();
        let mut call = CallFigures {
            role: if open.config.is_caller { "caller" } else { "listener" }.to_owned(),
            far_end: peer.to_string(),
            error: outcome.as_ref().err().map(ToString::to_string),
            unreported: None,
            authenticated: self.settings.keys.is_some() || self.settings.protection == Protection::Encrypted,
            protection: match (self.settings.protection, &self.settings.keys) {
                (Protection::Insecure, _) => "none",
                (Protection::Encrypted, _) => "srtp",
                (Protection::Authenticated, None) => "handshake",
                (Protection::Authenticated, Some(_)) => "key",
            }
            .to_owned(),
            round_trip_ms: calls.rtts(id).and_then(|all| distribution_of(all, 1.0)),
            schedule_error_us: distribution_of(&report.schedule_error, 1e3),
            read_latency_us: distribution_of(&report.read_latency, 1e3),
            cpu_ratio: if elapsed > 0.0 { report.cpu.as_seconds() / elapsed } else { 0.0 },
            address_changes: calls.moves(id).unwrap_or(0),
            paths,
            mtu_bytes: calls.path_mtu(id).and_then(|found| found.mtu_bytes),
            mtu_discovery: calls.path_mtu(id).as_ref().map(Into::into),
            unsent_packets: totals.unsent_packets,
            unsent_reason: report.unsent_reason.filter(|_| totals.unsent_packets > 0),
            socket_dropped_packets: driver.dropped() - open.dropped_before,
            ignored: calls.counters().into(),
            video: open.config.video.as_ref().map(|video| video.figures(now - began)),
            voice: open.config.voice.as_ref().map(|voice| voice.figures(now - began)),
            heard,
            saved,
            doubts: Vec::new(),
        };
        call.note_unreported(&run);
        call.doubts = call.find_doubts(&run);
        let received = far_end.as_ref().and_then(|figures| figures.received.as_ref());
        let far_role = if open.config.is_caller { "listener" } else { "caller" };
        let dropped_there = received.map_or(0, |received| received.dropped);
        call.doubts.splice(..0, own_loss(far_role, dropped_there, None));
        if let Some(sent) = far_end.as_ref().and_then(|figures| figures.sent)
            && totals.lost_packets > sent.packets
            // What that end could not send while it had no route has sequence numbers too.
            && totals.longest_gap < TimeDelta::from_seconds(1)
        {
            call.doubts.push(format!(
                "the sequence numbers show {} lost packets of {} sent: packets were changed on the way; use --key-file",
                totals.lost_packets, sent.packets
            ));
        }
        Some(Outcome { record: CallRecord { run, call }, trace })
    }
}

fn path(far_end: SocketAddr, until: TimeDelta, totals: &SideTotals) -> CallPath {
    CallPath {
        far_end: far_end.to_string(),
        until_s: until.as_seconds(),
        sent_packets: totals.sent_packets,
        received_packets: totals.received_packets,
    }
}

/// All paths, each with its own packets; none where there was only one.
fn paths(former: Vec<CallPath>, last: CallPath) -> Vec<CallPath> {
    if former.is_empty() {
        return Vec::new();
    }
    let (mut sent, mut received) = (0, 0);
    let own = |mut path: CallPath| {
        // A datagram that was not taken may have been counted before.
        path.sent_packets = path.sent_packets.saturating_sub(sent);
        path.received_packets = path.received_packets.saturating_sub(received);
        sent += path.sent_packets;
        received += path.received_packets;
        path
    };
    former.into_iter().chain([last]).map(own).collect()
}

/// The cipher of this build.
#[cfg_attr(feature = "browser", expect(clippy::unnecessary_wraps, reason = "other builds have none"))]
fn own_cipher() -> Option<MakeCipher> {
    #[cfg(feature = "browser")]
    return Some(giusto_webrtc::srtp::cipher);
    #[cfg(not(feature = "browser"))]
    None
}

impl Shown {
    /// What tells it from the others of this end.
    fn id(self) -> u64 {
        2 * self.number + u64::from(!self.sends)
    }

    fn name(self, calls: &Calls<CallSide>) -> String {
        let peer = calls.peer(self.call).map_or_else(|| "unknown".to_owned(), |peer| peer.to_string());
        format!("{} {peer}", if self.sends { "to" } else { "from" })
    }

    /// What its controller has decided since the last call.
    fn decisions(self, calls: &mut Calls<CallSide>) -> impl Iterator<Item = Decided> {
        let began = calls.began(self.call).unwrap_or_default();
        let side = if self.sends { calls.media_mut(self.call) } else { None };
        let decided = move |Decision { at, from, to, cause, .. }| {
            let at = began + (at - Timestamp::ZERO);
            Decided { id: self.id(), at, rates: [from, to], cause }
        };
        side.map(CallSide::take_decisions).into_iter().flatten().map(decided)
    }

    fn state(self, now: Timestamp, calls: &Calls<CallSide>) -> StreamState {
        let common = StreamState { id: self.id(), ..StreamState::default() };
        let (Some(side), Some(began)) = (calls.media(self.call), calls.began(self.call)) else {
            return common;
        };
        let totals = side.totals();
        let common = StreamState { rtt: side.rtt(), ..common };
        if self.sends {
            let (at, reported) = side.reported();
            let at = began + (at - Timestamp::ZERO);
            let received = (reported.size > DataSize::ZERO)
                .then(|| Counts::of_media(at, began, reported.packets, reported.size, reported.lost_packets));
            let size = DataSize::from_bytes(totals.sent_bytes);
            return StreamState {
                sent: Some(SentState { packets: totals.sent_packets, size }),
                received,
                target: totals.target,
                sender_queue: side.sender_queue(Timestamp::ZERO + (now - began)),
                ..common
            };
        }
        let (packets, bytes) = (totals.received_packets, DataSize::from_bytes(totals.received_bytes));
        StreamState {
            received: Some(Counts::of_media(now, began, packets, bytes, totals.lost_packets)),
            delay: Some(DelayState::Frames(totals.frame_delay_sum, totals.frame_delays)),
            ..common
        }
    }
}

#[cfg(test)]
mod tests;
