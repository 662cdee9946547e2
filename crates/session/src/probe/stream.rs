//! One stream at the receiver: converts datagrams to arrivals.

mod moves;
mod rtp;

use std::{iter::Peekable, net::SocketAddr};

use giusto_measure::{
    Arrival, ClockRelation, DelayBasis, MeterConfig, StreamMeter,
    mos::{VoicePath, VoiceQuality},
    playout::{Playout, PlayoutPolicy},
};
use giusto_pace::IpVersion;
use giusto_rtp::voice::{VoiceFormat, VoiceProfile};
use giusto_units::{DataSize, PeerTimestamp, TimeDelta, Timestamp};

use super::{
    admission::Usage,
    auth::StreamKeys,
    bursts::BurstCounter,
    clock::LocalClock,
    counters::Counters,
    inbound::Inbound,
    media_clock::MediaClock,
    reception::ReceptionReports,
    wire::{
        self, ArrivalStamps, ClockIdentity, DataHeader, Kind, LastReport, PathEstimate, Report,
        SenderFigures, StreamFormat, StreamLimit, StreamRequest, StreamToken, VoiceReport, WireError,
    },
};
use crate::handshakes::HandshakeFlood;
pub(super) use moves::Held;
pub use moves::StreamPath;
pub(super) use rtp::reports;

/// Why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Its sender finished.
    Finished,
    /// Its source said goodbye (RFC 3550 §6.6).
    Left,
    /// Another stream, or another source of RTP, took its address.
    Replaced,
    /// No datagram arrived for too long.
    Idle,
    /// The receiver was stopped.
    Stopped,
    /// The receiver ended it because of a limit.
    Limit(StreamLimit),
}

/// One stream, measured separately.
#[derive(Debug)]
pub struct Stream {
    from: SocketAddr,
    former: Vec<StreamPath>,
    /// The local clock.
    clock: LocalClock,
    pub(super) token: Option<StreamToken>,
    /// The keys shared with its sender.
    pub(super) keys: Option<StreamKeys>,
    /// What it used of the receiver.
    pub(super) usage: Usage,
    format: StreamFormat,
    request: Option<StreamRequest>,
    opened: Timestamp,
    pub(super) last_heard: Timestamp,
    pub(super) next_report: Timestamp,
    /// Time of the sender's first Finish message.
    pub(super) finish_asked: Option<Timestamp>,
    /// Received bytes minus sent bytes: what may still be sent to it.
    pub(super) credit: u64,
    reports: u32,
    /// Messages that the socket had dropped before the stream began, and so far.
    kernel_dropped: [u64; 2],
    /// The most datagrams in one message: a dropped message may have had as many.
    largest_message: u64,
    /// Until its end: what came before its beginning.
    pub(super) flood: HandshakeFlood,
    meter: StreamMeter,
    /// Offset in nanoseconds that converts the sender's times to our time scale.
    epoch_shift: i128,
    /// The sender's time zero on our monotonic clock, if it is on this machine.
    their_origin: Option<u64>,
    /// Sequence numbers below this one are known to be plausible.
    plausible_below: u64,
    /// The first datagram of a stream to a group that we joined after its beginning: those before count neither as sent nor as lost.
    joined_at: Option<u64>,
    media: MediaStreamState,
    playout: Option<Playout>,
    bursts: BurstCounter,
    reception: ReceptionReports,
    /// Where its RTCP comes from, if it comes to a port of its own.
    rtcp_from: Option<SocketAddr>,
    /// The packets that its source has sent, by its latest sender report, modulo 2^32.
    reported_packets: Option<u32>,
    /// When its source said goodbye.
    left: Option<Timestamp>,
    /// The source that replaces its own, with the number of its datagram before.
    pub(super) successor: Option<(u32, u16)>,
    path: Option<PathEstimate>,
    sender: Option<SenderFigures>,
    ended: Option<Ended>,
}

/// What is known of an RTP stream, or of one without any header.
#[derive(Debug)]
struct MediaStreamState {
    clock: MediaClock,
    ssrc: Option<u32>,
    first_sequence: Option<u64>,
    /// Arrival of the latest datagram of the source.
    heard: Timestamp,
    /// The latest datagram of another source, since then: source and sequence number.
    other: Option<(u32, u16)>,
    raw_count: u64,
}

impl Stream {
    /// A requested stream, from a verified address. `their_origin` is the sender's time zero on our monotonic clock, if it is on
    /// this machine.
    pub(super) fn requested(
        now: Timestamp,
        from: SocketAddr,
        request: StreamRequest,
        ours: &LocalClock,
        their_origin: Option<u64>,
    ) -> Self {
        Self::announced(now, from, request, ours, (their_origin, Some(0)))
    }

    /// A stream to a group that we joined after its beginning: its first datagram here may have any number.
    pub(super) fn joined(
        now: Timestamp,
        from: SocketAddr,
        request: StreamRequest,
        ours: &LocalClock,
        their_origin: Option<u64>,
    ) -> Self {
        let stream = Self::announced(now, from, request, ours, (their_origin, None));
        Self { plausible_below: u64::MAX, joined_at: Some(u64::MAX), ..stream }
    }

    fn announced(
        now: Timestamp,
        from: SocketAddr,
        request: StreamRequest,
        ours: &LocalClock,
        (their_origin, first): (Option<u64>, Option<u64>),
    ) -> Self {
        let (clocks, epoch_shift) = match request.format {
            StreamFormat::Giusto => relation(&request.clock, their_origin, ours),
            // An RTP timestamp starts at a random value (RFC 3550 §5.1): only sender reports relate it to a clock.
            StreamFormat::Rtp { .. } | StreamFormat::Raw => (ClockRelation::Unknown, 0),
        };
        let config = meter_config(&request, from).with_clocks(clocks);
        let config = config.with_sequence(config.sequence.with_first(first));
        let mut stream = Self::new(now, from, request.format, config);
        stream.epoch_shift = epoch_shift;
        stream.clock = *ours;
        stream.their_origin = their_origin;
        stream.media.ssrc = request.ssrc;
        stream.request = Some(request);
        stream
    }

    /// An unannounced stream.
    pub(super) fn unannounced(
        now: Timestamp,
        from: SocketAddr,
        format: StreamFormat,
        ours: &LocalClock,
    ) -> Self {
        Self { clock: *ours, ..Self::new(now, from, format, MeterConfig::default()) }
    }

    fn new(now: Timestamp, from: SocketAddr, format: StreamFormat, config: MeterConfig) -> Self {
        let voice = matches!(format, StreamFormat::Rtp { voice: Some(_), .. });
        let clock_rate_hz =
            if let StreamFormat::Rtp { clock_rate_hz, .. } = format { clock_rate_hz } else { 0 };
        // RTP sequence numbers start at a random value (RFC 3550 §5.1).
        let config = match format {
            StreamFormat::Rtp { .. } => config.with_sequence(config.sequence.with_first(None)),
            _ => config,
        };
        Self {
            from,
            former: Vec::new(),
            clock: LocalClock::default(),
            token: None,
            keys: None,
            usage: Usage::new(now),
            format,
            request: None,
            opened: now,
            last_heard: now,
            next_report: now,
            finish_asked: None,
            credit: 0,
            reports: 0,
            kernel_dropped: [0; 2],
            largest_message: 1,
            flood: HandshakeFlood::default(),
            meter: StreamMeter::new(&config),
            epoch_shift: 0,
            their_origin: None,
            plausible_below: 0,
            joined_at: None,
            media: MediaStreamState {
                clock: MediaClock::new(clock_rate_hz),
                ssrc: None,
                first_sequence: None,
                heard: now,
                other: None,
                raw_count: 0,
            },
            playout: voice.then(|| Playout::new(PlayoutPolicy::default())),
            bursts: BurstCounter::default(),
            reception: ReceptionReports::default(),
            rtcp_from: None,
            reported_packets: None,
            left: None,
            successor: None,
            path: None,
            sender: None,
            ended: None,
        }
    }

    /// Its source address.
    pub fn from(&self) -> SocketAddr {
        self.from
    }

    /// How long nothing has come from its sender.
    pub fn silence(&self, now: Timestamp) -> TimeDelta {
        now.saturating_since(self.last_heard)
    }

    /// The request of its sender; `None` for an unannounced stream.
    pub fn request(&self) -> Option<&StreamRequest> {
        self.request.as_ref()
    }

    /// The format of its datagrams.
    pub fn format(&self) -> StreamFormat {
        self.format
    }

    /// What its datagrams and messages contain; `None` for an unannounced stream.
    pub fn token(&self) -> Option<StreamToken> {
        self.token
    }

    /// Time at which it began.
    pub fn opened(&self) -> Timestamp {
        self.opened
    }

    /// Its measurements.
    pub fn meter(&self) -> &StreamMeter {
        &self.meter
    }

    /// The sender's measurement of the round-trip time and of the two calendar clocks, converted to our side.
    pub fn path(&self) -> Option<PathEstimate> {
        let (path, request) = (self.path?, self.request.as_ref()?);
        Some(PathEstimate { clock: self.clock.identity().calendar(&request.clock, path.clock), ..path })
    }

    /// The sender's own statistics, once it has finished.
    pub fn sender(&self) -> Option<&SenderFigures> {
        self.sender.as_ref()
    }

    /// Its source, and the packets that this has sent by its latest sender report, modulo 2^32; `None` unless it is RTP and a
    /// report came (RFC 3550 §6.4.1).
    pub fn sender_report(&self) -> Option<(u32, u32)> {
        self.media.ssrc.zip(self.reported_packets)
    }

    /// Whether every datagram that counts was authenticated.
    pub fn is_authenticated(&self) -> bool {
        self.keys.is_some() && self.format == StreamFormat::Giusto
    }

    /// Handshakes of others that were not answered while it lasted, once it has ended.
    pub fn flood(&self) -> HandshakeFlood {
        if self.ended.is_some() { self.flood } else { HandshakeFlood::default() }
    }

    /// Why it ended, if it has ended.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Format of unannounced RTP with this payload type (RFC 3551 §6).
    pub(super) fn rtp_format(payload_type: u8) -> StreamFormat {
        const VIDEO_CLOCK_HZ: u32 = 90_000;
        let voice = VoiceProfile::ALL.into_iter().find(|profile| profile.payload_type() == payload_type);
        let clock_rate_hz = voice.map_or(VIDEO_CLOCK_HZ, VoiceProfile::clock_rate);
        StreamFormat::Rtp { clock_rate_hz, voice }
    }

    /// Handles the stream's datagrams up to the first one that is a message. Counts what is neither.
    pub(super) fn on_datagrams<'b>(
        &mut self,
        datagrams: &mut Peekable<impl Iterator<Item = &'b [u8]>>,
        inbound: &Inbound<'_>,
        counters: &mut Counters,
    ) {
        let mut run = Run::default();
        let datagrams_of_message = inbound.bytes.len().div_ceil(inbound.segment.max(1)) as u64;
        self.largest_message = self.largest_message.max(datagrams_of_message);
        let (packets, bytes) = (self.meter.sequence().received(), self.meter.received_bytes());
        while let Some(datagram) = datagrams.peek() {
            let verdict = match self.format {
                StreamFormat::Giusto => self.on_ours(datagram, inbound, &mut run),
                _ if is_message(datagram) => Verdict::Message,
                StreamFormat::Rtp { .. } => self.on_rtp(datagram, inbound),
                StreamFormat::Raw => self.on_raw(datagram, inbound),
            };
            match verdict {
                Verdict::Measured => {}
                Verdict::Message | Verdict::Successor => break,
                Verdict::Foreign => counters.foreign += 1,
                Verdict::Malformed => counters.malformed += 1,
                Verdict::Corrupt => counters.corrupt += 1,
                Verdict::Forged => counters.forged += 1,
                Verdict::Unauthenticated => counters.unauthenticated += 1,
                Verdict::OtherSource => counters.other_source += 1,
            }
            datagrams.next();
        }
        run.end(&mut self.meter);
        // Only new datagrams of the stream keep it alive: copies of old ones do not.
        if self.meter.sequence().received() > packets {
            self.last_heard = self.last_heard.max(inbound.at);
            self.usage.add(inbound.at, self.meter.received_bytes().saturating_sub(bytes));
        }
    }

    fn on_ours(&mut self, datagram: &[u8], inbound: &Inbound<'_>, run: &mut Run) -> Verdict {
        let header = match &self.keys {
            Some(keys) => DataHeader::open(datagram, &keys.to_receiver),
            None => DataHeader::parse(datagram),
        };
        let header = match header {
            Ok(header) if Some(header.token) == self.token => header,
            Ok(_) => return Verdict::Forged,
            Err(_) if is_message(datagram) => return Verdict::Message,
            Err(WireError::Foreign) => return Verdict::Foreign,
            Err(WireError::Corrupt) => return Verdict::Corrupt,
            Err(WireError::Unauthenticated) => return Verdict::Unauthenticated,
            Err(_) => return Verdict::Malformed,
        };
        if header.sequence >= self.plausible_below && !self.is_plausible(header.sequence, inbound.at) {
            self.meter.on_implausible();
            return Verdict::Measured;
        }
        self.joined_at = self.joined_at.map(|first| first.min(header.sequence));
        let held = Held { header, length: datagram.len(), at: inbound.at, tos: inbound.tos };
        run.take(self.arrival(&held), &mut self.meter);
        Verdict::Measured
    }

    fn arrival(&self, Held { header, length, at, tos }: &Held) -> Arrival {
        Arrival::new(*at, header.sequence, DataSize::from_bytes(*length as u64))
            .with_scheduled(self.in_our_epoch(header.scheduled_ns))
            .with_sent(self.in_our_epoch(header.sent_ns))
            .with_tos(*tos)
    }

    fn on_raw(&mut self, datagram: &[u8], inbound: &Inbound<'_>) -> Verdict {
        let size = DataSize::from_bytes(datagram.len() as u64);
        let arrival = Arrival::new(inbound.at, self.media.raw_count, size).with_tos(inbound.tos);
        self.meter.on_arrival(&arrival);
        self.media.raw_count += 1;
        Verdict::Measured
    }

    /// Whether the sender can have come to this sequence number by now: it is below the announced number of datagrams, and what
    /// the announced rate makes in twice the time that has passed, with a margin for the time on the way.
    fn is_plausible(&mut self, sequence: u64, now: Timestamp) -> bool {
        const MARGIN: TimeDelta = TimeDelta::from_seconds(2);
        const MARGIN_PACKETS: f64 = 3000.0;
        let Some(request) = &self.request else { return true };
        let elapsed = now.saturating_since(self.opened) + MARGIN;
        let by_rate = packets_per_second(request)
            .map_or(u64::MAX, |rate| (2.0 * rate * elapsed.as_seconds() + MARGIN_PACKETS) as u64);
        self.plausible_below = by_rate.min(request.packets.unwrap_or(u64::MAX));
        sequence < self.plausible_below
    }

    fn in_our_epoch(&self, nanos: u64) -> PeerTimestamp {
        let shifted = (i128::from(nanos) + self.epoch_shift).clamp(0, i128::from(u64::MAX));
        PeerTimestamp::from_nanos(u64::try_from(shifted).unwrap_or(u64::MAX))
    }

    pub(super) fn on_path(&mut self, now: Timestamp, path: Option<PathEstimate>) {
        if let Some(path) = path {
            // The sender measured: its result is converted to our side.
            let clock = path.clock.reversed();
            if self.format == StreamFormat::Giusto {
                self.meter.on_clock(&clock);
            }
            self.path = Some(PathEstimate { clock, ..path });
            self.relate_media_clock(now);
        }
    }

    /// The socket's count of dropped messages, which may concern other streams too.
    pub(super) fn on_kernel_dropped(&mut self, total: u64) {
        let [_, before] = &mut self.kernel_dropped;
        let more = total.saturating_sub(std::mem::replace(before, total));
        self.meter.on_kernel_drops(more.saturating_mul(self.largest_message));
    }

    pub(super) fn begin_kernel_dropped(&mut self, total: u64) {
        self.kernel_dropped = [total; 2];
    }

    /// Datagrams that the socket dropped because its buffer was full: of the lost ones, or where datagrams have no sequence numbers all
    /// since the stream began. At most so many where the socket receives other datagrams too.
    pub fn kernel_dropped_packets(&self) -> u64 {
        let [first, latest] = self.kernel_dropped;
        match self.format {
            StreamFormat::Raw => (latest - first).saturating_mul(self.largest_message),
            _ => self.meter.kernel_dropped_packets(),
        }
    }

    pub(super) fn end(&mut self, why: Ended, sender: Option<SenderFigures>) {
        if self.ended.is_none() {
            self.ended = Some(why);
            if let Some(mut figures) = sender {
                figures.packets = figures.packets.saturating_sub(self.joined_at.unwrap_or(0));
                self.meter.finish(figures.packets);
                self.sender = Some(figures);
            }
        }
    }

    /// The measurements so far.
    pub fn report(&mut self, cpu_ratio: Option<f32>, stamps: ArrivalStamps) -> Report {
        self.reports = self.reports.wrapping_add(1);
        let mut summary = self.meter.summary();
        summary.kernel_dropped_packets = self.kernel_dropped_packets();
        Report {
            number: self.reports,
            last: match self.ended {
                None => None,
                Some(Ended::Stopped) => Some(LastReport::ReceiverStopped),
                Some(Ended::Limit(limit)) => Some(LastReport::Limit(limit)),
                Some(Ended::Finished | Ended::Left | Ended::Replaced | Ended::Idle) => {
                    Some(LastReport::Finished)
                }
            },
            summary,
            voice: self.voice(),
            cpu_ratio,
            stamps,
        }
    }

    /// Its voice quality, if it is voice.
    pub fn voice(&self) -> Option<VoiceReport> {
        let format = self.voice_format()?;
        let playout = self.playout.as_ref()?.summary(self.meter.sequence().losses().expected);
        // Until a sender report relates the clocks, half of the round-trip time stands for the network delay.
        let measured = self.meter.delay().summary().filter(|delay| delay.basis != DelayBasis::Relative);
        let half_way = || self.path.as_ref().map_or(TimeDelta::ZERO, |path| path.rtt / 2);
        let network_delay = measured.map_or_else(half_way, |delay| delay.mean.max(TimeDelta::ZERO));
        let quality = VoiceQuality::of(&format, &VoicePath::with_playout(network_delay, &playout));
        Some(VoiceReport { playout, quality })
    }

    fn voice_format(&self) -> Option<VoiceFormat> {
        let StreamFormat::Rtp { voice: Some(profile), .. } = self.format else { return None };
        let packet_time = self.request.as_ref().and_then(|request| request.gap);
        let format = packet_time.and_then(|time| VoiceFormat::with_packet_time(profile, time).ok());
        Some(format.unwrap_or_else(|| VoiceFormat::new(profile)))
    }
}

/// The result of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Measured,
    Message,
    /// Of the source that takes over.
    Successor,
    Foreign,
    Malformed,
    Corrupt,
    Forged,
    Unauthenticated,
    OtherSource,
}

/// Whether it is a message, or of another version, which may be one.
fn is_message(datagram: &[u8]) -> bool {
    matches!(wire::kind(datagram), Ok(Kind::Control | Kind::SealedControl) | Err(WireError::Version(_)))
}

/// Consecutive datagrams that are otherwise equal: they are measured together.
#[derive(Debug, Default)]
struct Run {
    first: Option<Arrival>,
    count: u64,
}

impl Run {
    #[inline]
    fn take(&mut self, arrival: Arrival, meter: &mut StreamMeter) {
        let next = self.first.map(|mut next| {
            next.sequence = next.sequence.wrapping_add(self.count);
            next
        });
        if next != Some(arrival) {
            self.end(meter);
            self.first = Some(arrival);
        }
        self.count += 1;
    }

    fn end(&mut self, meter: &mut StreamMeter) {
        if let Some(first) = self.first.take() {
            meter.on_run(&first, std::mem::take(&mut self.count));
        }
    }
}

/// How many datagrams a second the sender announced, if it did.
fn packets_per_second(request: &StreamRequest) -> Option<f64> {
    if let Some(gap) = request.gap.filter(|gap| *gap > TimeDelta::ZERO) {
        return Some(1.0 / gap.as_seconds());
    }
    // Sizes that vary may all be as small as the header alone.
    let bytes = request.size.map_or(wire::DATA_HEADER_BYTES as u64, DataSize::as_bytes);
    request.rate_bps.map(|bps| bps as f64 / 8.0 / bytes.max(1) as f64)
}

fn meter_config(request: &StreamRequest, from: SocketAddr) -> MeterConfig {
    let ip = IpVersion::of(from.ip());
    let header = match request.size {
        Some(size) => request.layer.on_wire(size, ip).saturating_sub(size),
        None => request.layer.overhead(ip),
    };
    MeterConfig::default()
        .with_rate(request.rate_bps.map(|rate| rate as f64))
        .with_header(header)
        .with_size(request.size)
        .with_gap(request.gap)
}

/// The relation of two clocks, and the offset that converts their times to our time scale.
fn relation(theirs: &ClockIdentity, their_origin: Option<u64>, ours: &LocalClock) -> (ClockRelation, i128) {
    let between = |their_origin: u64, our_origin: u64| i128::from(their_origin) - i128::from(our_origin);
    if let Some(their_origin) = their_origin {
        return (ClockRelation::Same, between(their_origin, ours.origin_monotonic_ns));
    }
    match (theirs.synchronised_within_ns, ours.synchronised_within_ns) {
        (Some(their_error), Some(our_error)) => {
            let both = i64::try_from(their_error.saturating_add(our_error)).unwrap_or(i64::MAX);
            let relation = ClockRelation::Synchronised { uncertainty: TimeDelta::from_nanos(both) };
            (relation, between(theirs.origin_unix_ns, ours.origin_unix_ns))
        }
        _ => (ClockRelation::Unknown, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clocks_of_one_machine_are_regarded_as_the_same() {
        let ours = LocalClock {
            boot: None,
            origin_monotonic_ns: 1_000,
            origin_unix_ns: 50_000,
            synchronised_within_ns: Some(20),
        };
        let theirs = |origin_unix_ns, synchronised_within_ns| ClockIdentity {
            machine: None,
            origin_unix_ns,
            synchronised_within_ns,
        };
        assert_eq!(relation(&theirs(0, None), Some(1_500), &ours), (ClockRelation::Same, 500));
        let within = ClockRelation::Synchronised { uncertainty: TimeDelta::from_nanos(30) };
        assert_eq!(relation(&theirs(49_000, Some(10)), None, &ours), (within, -1_000));
        assert_eq!(relation(&theirs(49_000, None), None, &ours), (ClockRelation::Unknown, 0));
    }
}
