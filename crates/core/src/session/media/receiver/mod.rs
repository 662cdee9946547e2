//! The end that receives media and reports on it.
//!
//! | question | module |
//! |---|---|
//! | who sends, and how much of it arrives? | [`sources`] |
//! | what time is it at the sender? | [`clock`] |
//! | when did each packet of the transport arrive? | [`transport`] |
//! | what arrived and is to be told? | [`window`] |
//!
//! # Which datagrams it sends
//!
//! A receiver report is a compound: report, then source description (RFC 3550 §6.1). Feedback on single packets leaves between
//! the reports, alone and of reduced size (RFC 5506), as libwebrtc does it.

mod clock;
mod sources;
mod transport;
mod window;

use std::collections::VecDeque;

pub use sources::SourceFigures;

use super::{Datagram, MediaEvent, TRANSPORT_SEQUENCE_ID};
use crate::{
    control::{FeedbackKind, gcc::ReceiveSideConfig},
    ecn::Ecn,
    rtp::{
        ExtensionElements, RtpHeader, TransportSequence,
        rtcp::{Description, Packet, ReceiverReport, SourceDescription},
    },
    units::{DataSize, TimeDelta, Timestamp},
};
use sources::Sources;
use transport::TransportReporter;

/// Reports do not follow each other faster, whatever is configured.
const LEAST_REPORT_INTERVAL: TimeDelta = TimeDelta::from_millis(10);
/// So many events wait at most; the oldest give way.
const MOST_EVENTS: usize = 4096;
/// The longest name (RFC 3550 §6.5).
const MOST_NAME_BYTES: usize = 255;

/// What a receiver reports, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct MediaReceiverConfig {
    /// Its own source, in what it reports.
    pub ssrc: u32,
    /// Its name (RFC 3550 §6.5.1); what exceeds 255 bytes is left out.
    pub cname: String,
    /// What it tells the sender's controller.
    pub feedback: FeedbackKind,
    /// How it estimates what it may be sent, with [`FeedbackKind::ReceiverEstimate`].
    pub receive_side: ReceiveSideConfig,
    /// How often it sends a receiver report; at least 10 ms. Default 1 s, as libwebrtc does for video. The first one leaves after
    /// half of it (RFC 3550 §6.2). Unlike there, it is not varied at random.
    pub report_interval: TimeDelta,
    /// What it knows of payload types. Default: nothing.
    pub payloads: Vec<PayloadFormat>,
}

impl MediaReceiverConfig {
    /// With the default values for all the rest.
    pub fn new(ssrc: u32, cname: &str, feedback: FeedbackKind) -> Self {
        Self {
            ssrc,
            cname: cname.to_owned(),
            feedback,
            receive_side: ReceiveSideConfig::default(),
            report_interval: TimeDelta::from_seconds(1),
            payloads: Vec::new(),
        }
    }
}

/// What a payload type means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadFormat {
    /// Which.
    pub payload_type: u8,
    /// The ticks of its RTP timestamp in a second; `None`: two sender reports will tell.
    pub clock_rate: Option<u32>,
    /// How its packets make frames.
    pub framing: Framing,
}

/// How packets make frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Framing {
    /// All packets of one timestamp, up to the one with the marker (RFC 3551 §5): video. Default.
    #[default]
    Marker,
    /// Each packet is a frame: audio.
    Packet,
    /// There are none: padding.
    Nothing,
}

/// Receives media.
#[derive(Debug)]
pub struct MediaReceiver {
    config: MediaReceiverConfig,
    /// The latest time that was seen.
    now: Timestamp,
    sources: Sources,
    transport: Option<TransportReporter>,
    /// While somebody is there.
    report_due: Option<Timestamp>,
    outgoing: VecDeque<Vec<u8>>,
    events: VecDeque<MediaEvent>,
    damaged: u64,
}

impl MediaReceiver {
    /// Has received nothing.
    pub fn new(mut config: MediaReceiverConfig) -> Self {
        config.report_interval = config.report_interval.max(LEAST_REPORT_INTERVAL);
        let fits = (0..=MOST_NAME_BYTES).rev().find(|end| config.cname.is_char_boundary(*end)).unwrap_or(0);
        if config.cname.len() > MOST_NAME_BYTES {
            config.cname.truncate(fits);
        }
        let transport = TransportReporter::new(config.ssrc);
        Self {
            now: Timestamp::ZERO,
            sources: Sources::new(config.report_interval),
            transport: (config.feedback == FeedbackKind::TransportWide).then_some(transport),
            report_due: None,
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            damaged: 0,
            config,
        }
    }

    /// What is known of each source that has been heard.
    pub fn sources(&self) -> impl Iterator<Item = SourceFigures> {
        self.sources.figures()
    }

    /// Datagrams that were no RTP.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// A datagram of RTP came: its head, with all headers, and its whole size as UDP payload.
    pub fn handle_rtp(&mut self, now: Timestamp, head: &[u8], size: DataSize, ecn: Ecn) {
        let now = self.forward(now);
        let Ok((header, _)) = RtpHeader::parse(head) else {
            self.damaged += 1;
            return;
        };
        let _ = ecn;
        let format = self.config.payloads.iter().find(|format| format.payload_type == header.payload_type);
        let rate = format.and_then(|format| format.clock_rate);
        if let Some(source) = self.sources.heard(now, header.ssrc) {
            source.on_packet(now, &header, size, rate);
        }
        if !self.sources.any_live() {
            return;
        }
        self.report_due.get_or_insert(now + self.config.report_interval / 2);
        let extensions = Extensions::read(&header, head);
        if let Some(transport) = &mut self.transport {
            transport.on_received(now, size);
            if let Some(number) = extensions.transport_sequence {
                transport.on_packet(now, number, header.ssrc);
            }
        }
    }

    /// An RTCP packet came.
    pub fn handle_rtcp(&mut self, now: Timestamp, packet: &Packet) {
        let now = self.forward(now);
        match packet {
            Packet::SenderReport(report) => self.sources.on_sender_report(now, report),
            Packet::Bye(bye) => {
                for &ssrc in &bye.sources {
                    if self.sources.on_bye(now, ssrc) {
                        self.tell(MediaEvent::Ended { ssrc });
                    }
                }
                self.rest_if_alone();
            }
            _ => {}
        }
    }

    /// The deadline of [`poll_timeout`](Self::poll_timeout) has come.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let now = self.forward(now);
        self.sources.expire(now);
        self.rest_if_alone();
    }

    /// The next datagram of reports, if one is due.
    pub fn poll_transmit(&mut self, now: Timestamp) -> Option<Datagram> {
        let now = self.forward(now);
        if self.outgoing.is_empty() {
            self.report(now);
        }
        let head = self.outgoing.pop_front()?;
        Some(Datagram { head, rest: DataSize::ZERO, ecn: Ecn::NotEct })
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted next. `None` while nobody is there to report on.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        if !self.outgoing.is_empty() {
            return Some(self.now);
        }
        let report = self.report_due?;
        let feedback = self.transport.as_ref().and_then(TransportReporter::deadline);
        [Some(report), feedback].into_iter().flatten().min()
    }

    /// What there is to tell.
    pub fn poll_event(&mut self) -> Option<MediaEvent> {
        self.events.pop_front()
    }

    /// Makes what is due.
    fn report(&mut self, now: Timestamp) {
        self.sources.expire(now);
        self.rest_if_alone();
        let Some(report_due) = self.report_due else { return };
        if report_due <= now {
            let next = report_due + self.config.report_interval;
            self.report_due = Some(if next > now { next } else { now + self.config.report_interval });
            self.write_report(now);
        }
        if let Some(transport) =
            self.transport.as_mut().filter(|one| one.deadline().is_some_and(|at| at <= now))
        {
            transport.write(now, &mut self.outgoing);
        }
    }

    fn write_report(&mut self, now: Timestamp) {
        let ssrc = self.config.ssrc;
        let report = ReceiverReport { ssrc, blocks: self.sources.blocks(now) };
        let name = Description { ssrc, cname: Some(self.config.cname.clone()) };
        let mut datagram = Vec::new();
        let written = report
            .write(&mut datagram)
            .and_then(|()| SourceDescription { chunks: vec![name] }.write(&mut datagram));
        if written.is_ok() {
            self.outgoing.push_back(datagram);
        }
    }

    /// Where nobody is left, nothing more is sent.
    fn rest_if_alone(&mut self) {
        if !self.sources.any_live() && self.report_due.take().is_some() {
            self.outgoing.clear();
            self.transport = self.transport.as_ref().map(|_| TransportReporter::new(self.config.ssrc));
        }
    }

    fn tell(&mut self, event: MediaEvent) {
        if self.events.len() >= MOST_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Time that runs backwards counts as no time.
    fn forward(&mut self, now: Timestamp) -> Timestamp {
        self.now = self.now.max(now);
        self.now
    }
}

/// What the header extensions of a packet say.
#[derive(Debug, Clone, Copy, Default)]
struct Extensions {
    transport_sequence: Option<u16>,
}

impl Extensions {
    /// Elements that are damaged, or mean something else, are passed over.
    fn read(header: &RtpHeader, head: &[u8]) -> Self {
        let mut read = Self::default();
        let Some(extension) = header.extension else { return read };
        for element in ExtensionElements::of(extension, head).flatten() {
            if element.id == TRANSPORT_SEQUENCE_ID {
                read.transport_sequence = TransportSequence::parse(element.data).ok().map(|one| one.sequence);
            }
        }
        read
    }
}

#[cfg(test)]
mod tests;
