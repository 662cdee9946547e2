//! The receiving half: receives media and sends reports.
//!
//! | module | task |
//! |---|---|
//! | [`config`] | configuration, and which packets are repaired |
//! | [`sources`] | statistics of each source, for receiver reports |
//! | [`clock`] | the sender's clock, from its reports |
//! | [`transport`] | transport-wide feedback |
//! | [`congestion`] | RFC 8888 feedback |
//! | [`acknowledged`] | feedback of draft-johansson-rmcat-scream-cc-00 |
//! | [`estimate`] | the receiver's estimate, REMB |
//! | [`nada`] | feedback of RFC 8698 |
//! | [`frames`] | reassembly of frames |
//! | [`dependencies`] | where frames of several layers begin, and which are of use |
//! | [`key_frames`] | requests for key frames |
//! | [`losses`] | missing packets: requests, and when they are given up |
//! | [`parity`] | lost packets recovered from parity |
//! | [`reporter`] | which of these feedbacks is sent |
//! | [`window`] | unreported arrivals |
//!
//! # Which datagrams it sends
//!
//! A receiver report is a compound: report, then source description (RFC 3550 §6.1). Packet feedback is sent |
//! between the reports as reduced-size RTCP (RFC 5506), as in libwebrtc. An estimate is part of a compound:
//! with each report, and in between with a report without blocks, so that the intervals that the blocks cover
//! keep their length.
//!
//! | feedback | interval |
//! |---|---|
//! | transport-wide | 50 to 250 ms, taking 5 % of the received rate |
//! | RFC 8888 | after a marker, 16 packets or 40 ms, at most 500 kbit/s |
//! | draft-johansson-rmcat-scream-cc-00 | at once after a marker or 16 packets, otherwise after 40 ms; at most 75 kbit/s unless packets would remain unreported |
//! | RFC 8698 | 100 ms, while packets arrive |
//! | estimate | at once if it falls by 3 %, 200 ms if it changes, otherwise 1 s |
//! | receiver report, with repair also a reference time (RFC 3611 §4.4) | 1 s |
//! | generic NACK | at once: see [`losses`] |
//! | request for a key frame | at most every 300 ms: see [`key_frames`] |
//!
//! A packet that arrives more than half a second after a higher number was reported is not reported, because
//! it is no longer known whether it arrived before.
//!
//! The rate control of the estimate could use the RTT, but a receiver that sends no media cannot measure it.

mod acknowledged;
mod clock;
mod config;
mod congestion;
mod dependencies;
mod estimate;
mod frames;
mod key_frames;
mod losses;
mod nada;
mod parity;
mod reporter;
mod sources;
mod transport;
mod window;

use std::{collections::VecDeque, ops::Range};

pub use config::MediaReceiverConfig;
pub use dependencies::DecodeTarget;
pub use sources::SourceFigures;

use frames::FramePacket;
use giusto_congestion::{Decision, gcc::config::DelayConfigError};
use giusto_rtp::{
    NtpDelay, NtpShort, NtpTimestamp, RTX_HEADER_BYTES, RtpHeader, RtxHeader,
    rtcp::{
        Description, ExtendedReport, FullIntra, IntraRequest, Nack, Packet, PictureLoss, ReceiverReport,
        Remb, ReportBlock, RtcpError, SourceDescription,
    },
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};
use parity::RecoveredPacket;
use reporter::{Arrived, Extensions, Reporter};
use sources::{HeldPacket, SourceRules, Sources};

use super::{
    datagram::Datagram,
    event::{Events, MediaEvent},
    extensions::StreamId,
    format::Framing,
    payload::Payload,
    repair_settings::KeyFrameRequest,
};

/// Maximum number of packets in a NACK, so that it takes at most 1012 bytes.
const MAX_NACK_PACKETS: usize = 250;
/// The minimum report interval. Chosen by us.
const MIN_REPORT_INTERVAL: TimeDelta = TimeDelta::from_millis(10);
/// Maximum length of the name (RFC 3550 §6.5).
const MAX_NAME_BYTES: usize = 255;
/// Maximum number of blocks of a report (RFC 3550 §6.4.2: five bits).
const MAX_BLOCKS: usize = 31;

/// Receives media.
#[derive(Debug)]
pub struct MediaReceiver {
    config: MediaReceiverConfig,
    /// The latest time passed in.
    now: Timestamp,
    sources: Sources,
    reporter: Reporter,
    /// `None` while no sender is active.
    report_due: Option<Timestamp>,
    outgoing: VecDeque<Vec<u8>>,
    events: Events,
    damaged: u64,
    /// Whether missing packets are of interest.
    tracks_losses: bool,
    /// The time of the first packet; an RTT cannot be longer than the time since.
    first_at: Timestamp,
}

impl MediaReceiver {
    /// A receiver before the first packet.
    ///
    /// # Errors
    ///
    /// With [`FeedbackKind::ReceiverEstimate`](giusto_congestion::FeedbackKind::ReceiverEstimate), a constant of
    /// [`receive_side`](MediaReceiverConfig::receive_side) is out of range.
    pub fn new(mut config: MediaReceiverConfig) -> Result<Self, DelayConfigError> {
        config.report_interval = config.report_interval.max(MIN_REPORT_INTERVAL);
        let fits = (0..=MAX_NAME_BYTES).rev().find(|end| config.cname.is_char_boundary(*end)).unwrap_or(0);
        if config.cname.len() > MAX_NAME_BYTES {
            config.cname.truncate(fits);
        }
        Ok(Self {
            now: Timestamp::ZERO,
            sources: Sources::new(
                config.report_interval,
                SourceRules {
                    key_frames: config.repair.key_frames != KeyFrameRequest::None,
                    numbers_from_timestamp: config.numbers_from_timestamp,
                },
            ),
            reporter: Reporter::new(&config)?,
            report_due: None,
            outgoing: VecDeque::new(),
            events: Events::default(),
            damaged: 0,
            tracks_losses: config.tracks_losses(),
            first_at: Timestamp::MAX,
            config,
        })
    }

    /// Statistics of each source that has sent.
    pub fn sources(&self) -> impl Iterator<Item = SourceFigures> {
        self.sources.figures()
    }

    /// The decode targets of a source, and what has arrived for each, if dependency descriptors say them.
    pub fn decode_targets(&self, ssrc: u32) -> Vec<DecodeTarget> {
        self.sources.decode_targets(ssrc)
    }

    /// The name of an active source among the encodings of one video, if its packets have said one.
    pub fn stream_id(&self, ssrc: u32) -> Option<StreamId> {
        self.sources.get(ssrc)?.stream_id()
    }

    /// Requests a key frame of an active video, unless one is requested already.
    pub fn request_key_frame(&mut self, now: Timestamp, ssrc: u32) {
        let now = self.forward(now);
        if let Some(source) = self.sources.find(ssrc).filter(|source| source.is_video()) {
            source.keys.on_wanted(now);
        }
    }

    /// The latest decision about its estimate, with [`FeedbackKind::ReceiverEstimate`](giusto_congestion::FeedbackKind::ReceiverEstimate).
    pub fn decision(&self) -> Option<&Decision> {
        self.reporter.decision()
    }

    /// Number of datagrams that were not RTP.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Handles an RTP packet: its bytes are `head`, which contains at least the whole header, followed by
    /// `payload`.
    pub fn handle_rtp(&mut self, now: Timestamp, head: &[u8], payload: &Payload, ecn: Ecn) {
        let now = self.forward(now);
        let size = DataSize::from_bytes(head.len() as u64) + payload.size();
        let Ok((header, content)) = RtpHeader::parse(head) else {
            self.damaged += 1;
            return;
        };
        let admitted = self
            .sources
            .on_media(now, header.ssrc)
            .and_then(|source| source.admit(now, header.sequence, head, payload));
        if let Some(confirmed) = admitted {
            for HeldPacket { at, head, payload, .. } in confirmed {
                if let Ok((header, content)) = RtpHeader::parse(&head) {
                    self.take(at, &header, content, &head, &payload);
                }
            }
            self.take(now, &header, content, head, payload);
        }
        if !self.sources.any_live() {
            return;
        }
        self.first_at = self.first_at.min(now);
        self.report_due.get_or_insert(now + self.config.report_interval / 2);
        let size = size + self.config.overhead;
        let extensions = Extensions::read(&header, head, self.config.extension_ids);
        let is_video = self.config.format(header.payload_type).framing == Framing::Marker;
        self.reporter.on_packet(now, &Arrived { header: &header, extensions, size, ecn, is_video });
    }

    /// Handles a packet, which arrived at `now`, whose number is near the others.
    fn take(
        &mut self,
        now: Timestamp,
        header: &RtpHeader,
        content: Range<usize>,
        head: &[u8],
        payload: &Payload,
    ) {
        let size = DataSize::from_bytes(head.len() as u64) + payload.size();
        let format = self.config.format(header.payload_type);
        let playout = self.config.playout_deadline;
        let requests = if self.tracks_losses { self.config.requests(header.payload_type) } else { None };
        let mut protected = None;
        if let Some(source) = self.sources.find(header.ssrc)
            && let Some(number) = source.on_packet(now, header, size, format.clock_rate)
        {
            let &RtpHeader { timestamp, marker, .. } = header;
            let extensions = Extensions::read(header, head, self.config.extension_ids);
            if let Some(time) = extensions.capture_time {
                source.clock.on_capture_time(now, time, timestamp);
            }
            source.set_names(extensions.stream_id, extensions.repaired_stream_id);
            let begin = head.get(content).unwrap_or_default();
            let is_new = requests
                .is_none_or(|requests| source.find_losses(now, number, header, playout, format, requests));
            if requests.is_some() && self.config.uses_parity(header.payload_type) {
                source.parity.on_packet(number, head, payload);
                protected = Some(header.ssrc);
            }
            if let Framing::Retransmission { of } = format.framing {
                self.handle_retransmission(now, header, begin, payload, of, extensions.dependency);
            } else if format.framing == Framing::Parity {
                protected = self.handle_parity(head, begin, payload);
            } else if is_new && format.framing != Framing::None {
                let payload = joined(begin, payload);
                let begins = source.begins_unit(now, number, extensions.dependency);
                let packet = FramePacket { number, timestamp, marker, payload, begins, repaired: false };
                source.on_frame_packet(now, packet, format, playout, &mut self.events);
            }
        }
        if let Some(ssrc) = protected {
            self.recover(now, ssrc);
        }
    }

    /// Handles a retransmitted packet (RFC 4588 §4): its content is `begin`, then `payload`.
    fn handle_retransmission(
        &mut self,
        now: Timestamp,
        header: &RtpHeader,
        begin: &[u8],
        payload: &Payload,
        of: u8,
        dependency: Option<&[u8]>,
    ) {
        if begin.is_empty() && payload.is_empty() {
            // Padding: libwebrtc probes with it on this stream.
            return;
        }
        let whole;
        let (begin, payload) = if begin.len() >= RTX_HEADER_BYTES {
            (begin, payload)
        } else {
            whole = joined(begin, payload).to_vec();
            (&whole[..], &Payload::default())
        };
        let Some((RtxHeader { original_sequence }, begin)) = RtxHeader::split(begin) else {
            self.damaged += 1;
            return;
        };
        let (format, playout) = (self.config.format(of), self.config.playout_deadline);
        let Some((requests, (source, number))) =
            self.config.requests(of).zip(self.sources.repaired(header.ssrc, original_sequence))
        else {
            return;
        };
        if !source.wants_repair(number) || !source.losses.on_retransmitted(now, number, requests) {
            return;
        }
        let &RtpHeader { timestamp, marker, .. } = header;
        let begins = source.begins_unit(now, number, dependency);
        let packet = FramePacket {
            number,
            timestamp,
            marker,
            payload: joined(begin, payload),
            begins,
            repaired: true,
        };
        source.on_frame_packet(now, packet, format, playout, &mut self.events);
    }

    /// Handles a repair packet (RFC 8627 §4.2) with the header `head`, whose content is `begin`, then `payload`. Returns the source
    /// that it protects. Packets that protect several sources are ignored.
    fn handle_parity(&mut self, head: &[u8], begin: &[u8], payload: &Payload) -> Option<u32> {
        let mut protected = RtpHeader::contributing_sources(head);
        let ssrc = protected.next().filter(|_| protected.next().is_none())?;
        let source = self.sources.find(ssrc)?;
        source.parity.on_repair(begin, payload, source.highest());
        Some(ssrc)
    }

    /// Recovers the lost packets of a source that its parity allows for. They count neither as received nor for the feedback:
    /// the network has lost them.
    fn recover(&mut self, now: Timestamp, ssrc: u32) {
        while let Some(source) = self.sources.find(ssrc)
            && let Some(RecoveredPacket { number, head, payload }) = source.parity.recover(ssrc)
        {
            let Ok((header, content)) = RtpHeader::parse(&head) else { continue };
            let (format, playout) = (self.config.format(header.payload_type), self.config.playout_deadline);
            let Some(requests) = self.config.requests(header.payload_type) else { continue };
            if !source.wants_repair(number)
                || !source.on_recovered(now, number, &header, playout, format, requests)
            {
                continue;
            }
            let RtpHeader { timestamp, marker, .. } = header;
            let payload = joined(head.get(content).unwrap_or_default(), &payload);
            let packet = FramePacket { number, timestamp, marker, payload, begins: false, repaired: true };
            self.events.push(MediaEvent::Recovered { ssrc, at: now });
            source.on_frame_packet(now, packet, format, playout, &mut self.events);
        }
    }

    /// Requests lost packets, and key frames where packets cannot be repaired in time.
    fn request_repair(&mut self, now: Timestamp) {
        if self.sources.repair_due().is_none_or(|due| due > now) {
            return;
        }
        let key_frames = self.config.repair.key_frames;
        let (sender_ssrc, mut wanted) = (self.config.ssrc, Vec::new());
        for source in self.sources.iter_mut() {
            wanted.clear();
            let media_ssrc = source.ssrc();
            source.losses.handle_timeout(now, source.requests, &mut wanted);
            let asks = source.wants_key_frame(now);
            for numbers in wanted.chunks(MAX_NACK_PACKETS) {
                let numbers = numbers.iter().map(|&number| number as u16);
                send(&mut self.outgoing, |head| {
                    Nack::of_numbers(sender_ssrc, media_ssrc, numbers).write(head)
                });
            }
            if !wanted.is_empty() {
                let packets = wanted.len() as u64;
                self.events.push(MediaEvent::Requested { ssrc: media_ssrc, packets, at: now });
            }
            if asks {
                let command = IntraRequest { ssrc: media_ssrc, sequence: source.keys.command() };
                send(&mut self.outgoing, |head| match key_frames {
                    KeyFrameRequest::FullIntra => {
                        FullIntra { sender_ssrc, requests: vec![command] }.write(head)
                    }
                    _ => PictureLoss { sender_ssrc, media_ssrc }.write(head),
                });
                self.events.push(MediaEvent::KeyFrameRequested { ssrc: media_ssrc, at: now });
            }
        }
    }

    /// Handles an RTCP packet.
    pub fn handle_rtcp(&mut self, now: Timestamp, packet: &Packet) {
        let now = self.forward(now);
        match packet {
            Packet::SenderReport(report) => self.sources.on_sender_report(now, report),
            Packet::ExtendedReport(report) if self.config.repair.nack => {
                let own = report.delays.iter().filter(|answer| answer.ssrc == self.config.ssrc);
                let times = own.filter_map(|answer| answer.rtt(NtpShort::from_timestamp(now)));
                for rtt in
                    times.map(NtpDelay::to_delta).filter(|&rtt| rtt <= now.saturating_since(self.first_at))
                {
                    self.sources.iter_mut().for_each(|source| source.losses.on_rtt(now, rtt));
                }
            }
            Packet::Bye(bye) => {
                for &ssrc in &bye.sources {
                    if self.sources.on_bye(now, ssrc) {
                        self.events.push(MediaEvent::Ended { ssrc });
                    }
                }
                self.stop_if_no_source();
            }
            _ => {}
        }
    }

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let now = self.forward(now);
        self.sources.expire(now);
        self.stop_if_no_source();
    }

    /// The next datagram of reports, if one is due.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        let now = self.forward(now);
        if self.outgoing.is_empty() {
            if self.poll_timeout().is_none_or(|due| due > now) {
                return None;
            }
            self.report(now);
        }
        self.outgoing.pop_front().map(Datagram::rtcp)
    }

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called next. `None` while there is no
    /// source to report on.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if !self.outgoing.is_empty() {
            return Some(self.now);
        }
        let report = self.report_due?;
        let repair = if self.tracks_losses { self.sources.repair_due() } else { None };
        Timestamp::earliest([Some(report), self.reporter.deadline(), repair])
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        self.events.take()
    }

    /// Writes what is due.
    fn report(&mut self, now: Timestamp) {
        self.sources.expire(now);
        self.stop_if_no_source();
        let Some(report_due) = self.report_due else { return };
        let is_due = report_due <= now;
        if is_due {
            let next = report_due + self.config.report_interval;
            self.report_due = Some(if next > now { next } else { now + self.config.report_interval });
        }
        let feedback_due = self.reporter.deadline().is_some_and(|at| at <= now);
        let estimate = self.reporter.estimate(now, is_due);
        let estimate = estimate.map(|rate| rate.min(self.config.max_estimate.unwrap_or(rate)));
        if is_due || estimate.is_some() {
            let blocks = if is_due { self.sources.blocks(now) } else { Vec::new() };
            let mut parts = blocks.chunks(MAX_BLOCKS);
            self.write_report(parts.next().unwrap_or_default(), estimate);
            parts.for_each(|blocks| self.write_report(blocks, None));
        }
        if feedback_due {
            self.reporter.write(now, &mut self.outgoing);
        }
        self.request_repair(now);
    }

    /// Writes a compound of a report, a name, and optionally an estimate.
    fn write_report(&mut self, blocks: &[ReportBlock], estimate: Option<DataRate>) {
        let ssrc = self.config.ssrc;
        let name = Description { ssrc, cname: Some(self.config.cname.clone()) };
        let mut parts = vec![
            Packet::ReceiverReport(ReceiverReport { ssrc, blocks: blocks.to_vec() }),
            Packet::SourceDescription(SourceDescription { chunks: vec![name] }),
        ];
        if self.config.repair.nack {
            // A receiver that sends no media gets no report from which to derive the RTT (RFC 3611 §4.4).
            let reference_time = Some(NtpTimestamp::from_timestamp(self.now));
            parts.push(Packet::ExtendedReport(ExtendedReport { ssrc, reference_time, ..Default::default() }));
        }
        if let Some(bitrate) = estimate {
            let sources = self.sources.live().collect();
            parts.push(Packet::Remb(Remb { sender_ssrc: ssrc, bitrate, sources }));
        }
        let mut datagram = Vec::new();
        if parts.iter().try_for_each(|part| part.write(&mut datagram)).is_ok() {
            self.outgoing.push_back(datagram);
        }
    }

    /// If no source is left, nothing more is sent.
    fn stop_if_no_source(&mut self) {
        if !self.sources.any_live() && self.report_due.take().is_some() {
            self.outgoing.clear();
            self.reporter.forget(self.config.ssrc);
        }
    }

    /// Time that runs backwards counts as no time.
    fn forward(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }
}

/// The content of a packet, whose bytes are `begin`, then `payload`.
fn joined(begin: &[u8], payload: &Payload) -> Payload {
    if begin.is_empty() {
        return payload.clone();
    }
    Payload::joined([&Payload::from(begin), payload].into_iter().filter(|part| !part.is_empty()))
}

/// Queues reduced-size RTCP (RFC 5506).
fn send(outgoing: &mut VecDeque<Vec<u8>>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), RtcpError>) {
    let mut datagram = Vec::new();
    if write(&mut datagram).is_ok() {
        outgoing.push_back(datagram);
    }
}

#[cfg(test)]
mod tests;
