//! From the messages of an RTC event log to the events of a session.

use std::collections::VecDeque;

use giusto_congestion::{FeedbackKind, History, Limits, Options, OutgoingPacket, Probe, RtpId, Target};
use giusto_rtp::{
    NtpTimestamp,
    rtcp::{Packet, Packets},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{
    deltas::{blobs, deltas},
    messages::{DelayBased, EventStream, LossBased, OutgoingRtp, Rtcp, Scream},
};
use crate::{
    replay::event::{Entry, Event, Lacks, Message, SessionInfo},
    text::format::{percent, rate},
};

/// The most events of a log. Chosen by us.
const MAX_EVENTS: usize = 20_000_000;
/// libwebrtc's lowest target (`rtc_base/experiments/../bitrate_settings`, `kCongestionControllerMinBitrate`: 5 kbit/s).
const MIN_RATE: DataRate = DataRate::from_bps(5_000);
/// libwebrtc's default start rate (`media/engine`, 300 kbit/s).
const START_RATE: DataRate = DataRate::from_bps(300_000);
/// The highest target: none is set by default, and the log does not hold it.
const MAX_RATE: DataRate = DataRate::from_bps(1_000_000_000);
/// UDP over IPv4, which counts in libwebrtc's rates. A route in the log gives another value; Chromium 156 logs none.
const UDP_OVERHEAD: DataSize = DataSize::from_bytes(28);
/// The length of a probe's cluster in libwebrtc (`probe_controller.cc`, `min_probe_duration`).
const PROBE_DURATION: TimeDelta = TimeDelta::from_millis(15);
/// The smallest packet that begins probing (`bitrate_prober.h`, `min_packet_size`).
const MIN_PROBE_PACKET: DataSize = DataSize::from_bytes(200);
/// The time between the batches of a cluster (`probe_controller.cc`, `min_probe_delta`).
const PROBE_BATCH: TimeDelta = TimeDelta::from_millis(2);

/// An event of the log.
#[derive(Debug)]
enum Logged {
    Probe { id: u32, rate: u64, packets: u32, bytes: u64 },
    Route { overhead: u64 },
    Sent(Outgoing),
    Rtcp(Vec<u8>),
    Target { rate: u64, window: Option<u64>, words: String },
    Words(String),
}

impl Logged {
    /// The place of events of one millisecond.
    fn rank(&self) -> u8 {
        match self {
            Self::Probe { .. } => 0,
            Self::Route { .. } => 1,
            Self::Sent(_) => 2,
            Self::Rtcp(_) => 3,
            Self::Target { .. } | Self::Words(_) => 4,
        }
    }

    fn transport_sequence(&self) -> Option<u16> {
        if let Self::Sent(packet) = self { packet.transport_sequence } else { None }
    }
}

/// Sorts packets of one millisecond by their transport-wide sequence numbers, which may wrap among them.
fn in_sending_order(events: &mut [(i64, Logged)]) {
    let numbers = || events.iter().filter_map(|(_, event)| event.transport_sequence());
    let wraps = numbers().max().unwrap_or(0) - numbers().min().unwrap_or(0) > 1 << 15;
    crate::order::sort_by_key(events, |(_, event)| {
        let number = event.transport_sequence().map_or(0, u32::from);
        if wraps && number < 1 << 15 { number + (1 << 16) } else { number }
    });
}

/// A packet of the log.
#[derive(Debug)]
struct Outgoing {
    /// Transport-wide sequence number.
    transport_sequence: Option<u16>,
    ssrc: u32,
    sequence: u16,
    bytes: u64,
}

/// The events with their times in milliseconds, in order.
type Timed = Vec<(i64, Logged)>;

/// What the log says about its session, and its events.
pub(super) fn session(stream: &EventStream) -> Result<(SessionInfo, Vec<Entry>), String> {
    let mut events = Timed::new();
    for batch in &stream.outgoing_rtp {
        outgoing(batch, &mut events).ok_or("outgoing RTP packets cannot be decoded")?;
    }
    for batch in &stream.incoming_rtcp {
        let found = rtcp(batch).ok_or("incoming RTCP cannot be decoded")?;
        events.extend(found.into_iter().map(|(at, packet)| (at, Logged::Rtcp(packet))));
    }
    for batch in &stream.loss_based {
        loss_based(batch, &mut events).ok_or("loss-based updates cannot be decoded")?;
    }
    for batch in &stream.delay_based {
        delay_based(batch, &mut events).ok_or("delay-based updates cannot be decoded")?;
    }
    for batch in &stream.scream {
        scream(batch, &mut events).ok_or("SCReAM updates cannot be decoded")?;
    }
    single_events(stream, &mut events);
    if events.len() > MAX_EVENTS {
        return Err(format!("it has more than {MAX_EVENTS} events"));
    }
    // Stable: otherwise events keep the order of the log.
    crate::order::sort_by_key(&mut events, |(at, event): &(i64, Logged)| (*at, event.rank()));
    let same_moment = |a: &(i64, Logged), b: &(i64, Logged)| (a.0, a.1.rank()) == (b.0, b.1.rank());
    events.chunk_by_mut(same_moment).for_each(in_sending_order);
    let begin = stream.begin.iter().filter_map(|begin| begin.timestamp_ms).min();
    let first = events.first().map(|(at, _)| *at);
    let zero = begin.into_iter().chain(first).min().unwrap_or(0);
    let end = stream.end.iter().filter_map(|end| end.timestamp_ms).max();
    Ok(Converter::new(stream, zero, &events).entries(events, end))
}

/// Milliseconds as the log encodes them: as unsigned, wrapping.
fn signed(value: u64) -> i64 {
    value as i64
}

/// The base and the values after it; the base alone is `None` if it is missing.
fn column(base: Option<u64>, encoded: &[u8], count: u32) -> Option<Vec<Option<u64>>> {
    let mut all = vec![base];
    all.extend(deltas(encoded, base, count)?);
    Some(all)
}

fn outgoing(batch: &OutgoingRtp, events: &mut Timed) -> Option<()> {
    let count = batch.number_of_deltas.unwrap_or(0);
    let own = |value: Option<u32>, encoded: &[u8]| column(value.map(u64::from), encoded, count);
    let times = column(Some(batch.timestamp_ms? as u64), &batch.timestamp_ms_deltas, count)?;
    let sequences = own(batch.sequence_number, &batch.sequence_number_deltas)?;
    let sources = own(batch.ssrc, &batch.ssrc_deltas)?;
    let payloads = own(batch.payload_size, &batch.payload_size_deltas)?;
    let headers = own(batch.header_size, &batch.header_size_deltas)?;
    let paddings = own(batch.padding_size, &batch.padding_size_deltas)?;
    let transports = own(batch.transport_sequence_number, &batch.transport_sequence_number_deltas)?;
    let columns = times.into_iter().zip(sequences).zip(sources).zip(payloads).zip(headers).zip(paddings);
    for ((((((at, sequence), ssrc), payload), header), padding), transport) in columns.zip(transports) {
        let bytes = payload?.checked_add(header?)?.checked_add(padding?)?;
        events.push((
            signed(at?),
            Logged::Sent(Outgoing {
                transport_sequence: transport.map(|number| number as u16),
                ssrc: ssrc? as u32,
                sequence: sequence? as u16,
                bytes: bytes.min(u64::from(u16::MAX)),
            }),
        ));
    }
    Some(())
}

/// RTCP packets with their times.
fn rtcp(batch: &Rtcp) -> Option<Vec<(i64, Vec<u8>)>> {
    let count = batch.number_of_deltas.unwrap_or(0);
    let times = column(Some(batch.timestamp_ms? as u64), &batch.timestamp_ms_deltas, count)?;
    let mut packets = vec![batch.raw_packet.clone()];
    if count > 0 {
        packets.extend(blobs(&batch.raw_packet_blobs, count)?.into_iter().map(<[u8]>::to_vec));
    }
    times.into_iter().zip(packets).map(|(at, packet)| Some((signed(at?), packet))).collect()
}

fn loss_based(batch: &LossBased, events: &mut Timed) -> Option<()> {
    let count = batch.number_of_deltas.unwrap_or(0);
    let own = |value: Option<u32>, encoded: &[u8]| column(value.map(u64::from), encoded, count);
    let times = column(Some(batch.timestamp_ms? as u64), &batch.timestamp_ms_deltas, count)?;
    let rates = own(batch.bitrate_bps, &batch.bitrate_bps_deltas)?;
    let losses = own(batch.fraction_loss, &batch.fraction_loss_deltas)?;
    let totals = own(batch.total_packets, &batch.total_packets_deltas)?;
    for (((at, bps), loss), total) in times.into_iter().zip(rates).zip(losses).zip(totals) {
        let (bps, ratio) = (bps?, loss.unwrap_or(0) as f64 / 256.0);
        let words =
            format!("target {}, loss {} of {} packets", rate(bps as f64), percent(ratio), total.unwrap_or(0));
        events.push((signed(at?), Logged::Target { rate: bps, window: None, words }));
    }
    Some(())
}

fn delay_based(batch: &DelayBased, events: &mut Timed) -> Option<()> {
    let count = batch.number_of_deltas.unwrap_or(0);
    let own = |value: Option<u32>, encoded: &[u8]| column(value.map(u64::from), encoded, count);
    let times = column(Some(batch.timestamp_ms? as u64), &batch.timestamp_ms_deltas, count)?;
    let rates = own(batch.bitrate_bps, &batch.bitrate_bps_deltas)?;
    let states = own(batch.detector_state, &batch.detector_state_deltas)?;
    for ((at, bps), state) in times.into_iter().zip(rates).zip(states) {
        let state = match state {
            Some(1) => "normal",
            Some(2) => "under-use",
            Some(3) => "over-use",
            _ => "unknown",
        };
        events.push((signed(at?), Logged::Words(format!("delay: {state}, estimate {}", rate(bps? as f64)))));
    }
    Some(())
}

fn scream(batch: &Scream, events: &mut Timed) -> Option<()> {
    let count = batch.number_of_deltas.unwrap_or(0);
    let own = |value: Option<u32>, encoded: &[u8]| column(value.map(u64::from), encoded, count);
    let times = column(Some(batch.timestamp_ms? as u64), &batch.timestamp_ms_deltas, count)?;
    let windows = own(batch.ref_window_bytes, &batch.ref_window_bytes_deltas)?;
    let rates = own(batch.target_rate_kbps, &batch.target_rate_kbps_deltas)?;
    let delays = own(batch.avg_queue_delay_ms, &batch.avg_queue_delay_ms_deltas)?;
    for (((at, window), kbps), delay) in times.into_iter().zip(windows).zip(rates).zip(delays) {
        let bps = kbps?.checked_mul(1000)?;
        let words = format!("SCReAM: target {}, queueing delay {} ms", rate(bps as f64), delay.unwrap_or(0));
        events.push((signed(at?), Logged::Target { rate: bps, window, words }));
    }
    Some(())
}

/// Events that the log does not batch. Those without a time are skipped.
fn single_events(stream: &EventStream, events: &mut Timed) {
    for probe in &stream.probes {
        let (Some(at), Some(id), Some(rate)) = (probe.timestamp_ms, probe.id, probe.bitrate_bps) else {
            continue;
        };
        let (packets, bytes) = (probe.min_packets.unwrap_or(0), u64::from(probe.min_bytes.unwrap_or(0)));
        events.push((at, Logged::Probe { id, rate: u64::from(rate), packets, bytes }));
    }
    for result in &stream.probe_success {
        if let (Some(at), Some(id), Some(bps)) = (result.timestamp_ms, result.id, result.bitrate_bps) {
            events.push((at, Logged::Words(format!("probe {id} measured {}", rate(f64::from(bps))))));
        }
    }
    for result in &stream.probe_failure {
        if let (Some(at), Some(id)) = (result.timestamp_ms, result.id) {
            let why = match result.failure {
                Some(1) => "invalid interval",
                Some(2) => "invalid ratio",
                Some(3) => "timeout",
                _ => "unknown reason",
            };
            events.push((at, Logged::Words(format!("probe {id} failed: {why}"))));
        }
    }
    for alr in &stream.alr {
        if let (Some(at), Some(limited)) = (alr.timestamp_ms, alr.in_alr) {
            let words = if limited { "application-limited" } else { "no longer application-limited" };
            events.push((at, Logged::Words(words.to_owned())));
        }
    }
    for route in &stream.routes {
        if let (Some(at), Some(true)) = (route.timestamp_ms, route.connected) {
            events.push((at, Logged::Route { overhead: u64::from(route.overhead.unwrap_or(0)) }));
        }
    }
}

/// A probe cluster that is being sent.
///
/// The log does not say which packets belong to it. libwebrtc (`bitrate_prober.cc`) sends one cluster after the other, each until it
/// has its bytes and its number of batches. A packet of at least 200 B begins. Packets of one millisecond are taken as one batch.
#[derive(Debug)]
struct Cluster {
    id: u32,
    batches: u32,
    bytes: u64,
    latest: Option<Timestamp>,
}

/// Turns the events of the log into those of a session.
struct Converter {
    zero: i64,
    history: History,
    feedback: FeedbackKind,
    info: SessionInfo,
    /// The clusters whose packets leave now, the first one first.
    clusters: VecDeque<Cluster>,
    /// Whether a packet has begun the probing.
    is_probing: bool,
    overhead: DataSize,
    has_route: bool,
}

impl Converter {
    fn new(stream: &EventStream, zero: i64, events: &Timed) -> Self {
        let feedback = feedback_of(events);
        let is_scream = !stream.scream.is_empty();
        let start = events.iter().find_map(|(_, event)| match event {
            Logged::Target { rate, .. } => Some(DataRate::from_bps(*rate)),
            _ => None,
        });
        let info = SessionInfo {
            recorder: "Chromium (RTC event log, version 2)".to_owned(),
            name: "call".to_owned(),
            controller: if is_scream { "Chromium's SCReAM" } else { "Chromium's GCC" }.to_owned(),
            limits: Limits::DEFAULT
                .with_min(MIN_RATE)
                .with_start(start.unwrap_or(START_RATE))
                .with_max(MAX_RATE),
            options: Options::default(),
            feedback,
            lacks: Lacks {
                queue: true,
                ecn: feedback != FeedbackKind::CongestionControl,
                calls: true,
                precise_times: true,
            },
        };
        let history = History::new().with_ntp_at_zero(ntp_at_zero(stream, zero));
        Self {
            zero,
            history,
            feedback,
            info,
            clusters: VecDeque::new(),
            is_probing: false,
            overhead: UDP_OVERHEAD,
            has_route: false,
        }
    }

    fn entries(mut self, events: Timed, end: Option<i64>) -> (SessionInfo, Vec<Entry>) {
        let mut entries = Vec::with_capacity(events.len());
        let mut last = Timestamp::ZERO;
        for (at, event) in events {
            let at = self.time(at);
            last = last.max(at);
            self.convert(at, event, &mut |event| entries.push(Entry { at, event }));
        }
        // The log may go on after the last packet.
        if let Some(end) = end.map(|end| self.time(end)).filter(|end| *end > last) {
            entries.push(Entry { at: end, event: Event::Estimate("the log ends".to_owned()) });
        }
        (self.info, entries)
    }

    fn time(&self, ms: i64) -> Timestamp {
        let ms = ms.saturating_sub(self.zero).max(0) as u64;
        Timestamp::from_nanos(ms.saturating_mul(1_000_000))
    }

    fn convert(&mut self, at: Timestamp, event: Logged, push: &mut dyn FnMut(Event)) {
        match event {
            Logged::Probe { id, rate, packets, bytes } => {
                self.clusters.push_back(Cluster { id, batches: packets, bytes, latest: None });
                push(Event::Probe(
                    Probe::new(id, DataRate::from_bps(rate))
                        .with_duration(PROBE_DURATION)
                        .with_packets(packets)
                        .with_batch(PROBE_BATCH),
                ));
            }
            Logged::Route { overhead } => {
                self.overhead = DataSize::from_bytes(overhead.min(1000));
                // The first route is the beginning of the call.
                if std::mem::replace(&mut self.has_route, true) {
                    self.history.on_route_change();
                    push(Event::RouteChange);
                }
            }
            Logged::Sent(packet) => {
                let size = DataSize::from_bytes(packet.bytes) + self.overhead;
                // A controller that uses transport-wide feedback does not see packets without its numbers.
                let is_wide = self.feedback == FeedbackKind::TransportWide;
                if is_wide && packet.transport_sequence.is_none() {
                    return;
                }
                let probe = self.cluster(at, size);
                let sent = self.history.on_sent(
                    at,
                    OutgoingPacket::new(size)
                        .with_transport_sequence(packet.transport_sequence.filter(|_| is_wide))
                        .with_rtp(Some(RtpId { ssrc: packet.ssrc, sequence: packet.sequence }))
                        .with_probe(probe),
                );
                push(Event::Sent(sent));
            }
            Logged::Rtcp(packet) => {
                // What cannot be parsed is not feedback: Chromium did not use it either.
                if let Ok(Some(feedback)) = self.history.on_rtcp(at, &packet) {
                    push(Event::Feedback(Message::from(&feedback)));
                }
            }
            Logged::Target { rate, window, words } => {
                let media = DataRate::from_bps(rate);
                let window = window.map(DataSize::from_bytes);
                push(Event::Estimate(format!("{:.3} s: {words}", at.as_seconds())));
                push(Event::Target(Target::new(media, media).with_window(window)));
            }
            Logged::Words(words) => push(Event::Estimate(format!("{:.3} s: {words}", at.as_seconds()))),
        }
    }
}

impl Converter {
    /// The cluster of a packet of `size` that leaves at `at`, if any.
    fn cluster(&mut self, at: Timestamp, size: DataSize) -> Option<u32> {
        let has_its_share = |cluster: &Cluster| {
            (cluster.batches, cluster.bytes) == (0, 0) && cluster.latest.is_some_and(|latest| latest < at)
        };
        while self.clusters.front().is_some_and(has_its_share) {
            self.clusters.pop_front();
        }
        self.is_probing &= !self.clusters.is_empty();
        self.is_probing |= size >= MIN_PROBE_PACKET;
        let cluster = self.clusters.front_mut().filter(|_| self.is_probing)?;
        if cluster.latest != Some(at) {
            cluster.batches = cluster.batches.saturating_sub(1);
        }
        cluster.latest = Some(at);
        cluster.bytes = cluster.bytes.saturating_sub(size.as_bytes());
        Some(cluster.id)
    }
}

/// The best feedback that the remote end sends.
fn feedback_of(events: &Timed) -> FeedbackKind {
    let mut kind = FeedbackKind::ReceiverReports;
    let packets = events.iter().filter_map(|(_, event)| match event {
        Logged::Rtcp(packet) => Packets::new(packet).ok(),
        _ => None,
    });
    for packet in packets.flatten().flatten() {
        match packet {
            Packet::TransportFeedback(_) => return FeedbackKind::TransportWide,
            Packet::CongestionFeedback(_) => return FeedbackKind::CongestionControl,
            Packet::Remb(_) => kind = FeedbackKind::ReceiverEstimate,
            _ => {}
        }
    }
    kind
}

/// The NTP time at the beginning, from the first sender report.
fn ntp_at_zero(stream: &EventStream, zero: i64) -> NtpTimestamp {
    let reports = stream.outgoing_rtcp.iter().filter_map(rtcp).flatten();
    for (at, packet) in reports {
        let Ok(packets) = Packets::new(&packet) else { continue };
        let report = packets.flatten().find_map(|packet| match packet {
            Packet::SenderReport(report) => Some(report.time),
            _ => None,
        });
        if let Some(ntp) = report {
            let since = at.saturating_sub(zero).max(0) as u64;
            let since = NtpTimestamp::from_timestamp(Timestamp::from_nanos(since.saturating_mul(1_000_000)));
            return NtpTimestamp::from_bits(ntp.to_bits().wrapping_sub(since.to_bits()));
        }
    }
    NtpTimestamp::from_bits(0)
}
