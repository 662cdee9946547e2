//! Feedback between the reports, of the kind that the sender's controller needs.

use std::collections::VecDeque;

use giusto_congestion::{Decision, FeedbackKind, gcc::config::DelayConfigError};
use giusto_rtp::{AbsSendTime, ExtensionElements, NtpTimestamp, RtpHeader, TransportSequence};
use giusto_units::{DataRate, DataSize, Ecn, Timestamp};

use super::{
    MediaReceiverConfig, acknowledged::AcknowledgementReporter, congestion::CongestionReporter,
    estimate::Estimator, nada::NadaReporter, transport::TransportReporter,
};
use crate::media::extensions::{ExtensionIds, StreamId};

/// Writes the packet feedback between the reports.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one in a session")]
pub(super) enum Reporter {
    Transport(TransportReporter),
    Congestion(CongestionReporter),
    Acknowledgement(AcknowledgementReporter),
    Nada(NadaReporter),
    Estimate(Estimator),
    None,
}

/// A packet of media that has arrived.
pub(super) struct Arrived<'a> {
    pub(super) header: &'a RtpHeader,
    pub(super) extensions: Extensions<'a>,
    /// All headers that count included.
    pub(super) size: DataSize,
    pub(super) ecn: Ecn,
    pub(super) is_video: bool,
}

/// The header extensions of a packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extensions<'a> {
    pub(super) transport_sequence: Option<u16>,
    pub(super) send_time: Option<AbsSendTime>,
    pub(super) capture_time: Option<NtpTimestamp>,
    pub(super) dependency: Option<&'a [u8]>,
    pub(super) stream_id: Option<StreamId>,
    pub(super) repaired_stream_id: Option<StreamId>,
}

impl<'a> Extensions<'a> {
    /// Damaged or unknown elements are ignored.
    pub(super) fn read(header: &RtpHeader, head: &'a [u8], ids: ExtensionIds) -> Self {
        let mut read = Self::default();
        let Some(extension) = header.extension else { return read };
        for element in ExtensionElements::of(extension, head).flatten() {
            match element.id {
                id if id == ids.transport_sequence => {
                    let number = TransportSequence::parse(element.data).ok();
                    read.transport_sequence = number.map(|number| number.sequence);
                }
                id if id == ids.abs_send_time => read.send_time = AbsSendTime::parse(element.data).ok(),
                id if id == ids.capture_time => {
                    let bits = <[u8; 8]>::try_from(element.data).map(u64::from_be_bytes);
                    read.capture_time = bits.map(NtpTimestamp::from_bits).ok();
                }
                id if id == ids.dependency => read.dependency = Some(element.data),
                id if id == ids.stream_id => read.stream_id = StreamId::parse(element.data),
                id if id == ids.repaired_stream_id => {
                    read.repaired_stream_id = StreamId::parse(element.data);
                }
                _ => {}
            }
        }
        read
    }
}

impl Reporter {
    pub(super) fn new(config: &MediaReceiverConfig) -> Result<Self, DelayConfigError> {
        Ok(match config.feedback {
            FeedbackKind::TransportWide => Self::Transport(TransportReporter::new(config.ssrc)),
            FeedbackKind::CongestionControl => Self::Congestion(CongestionReporter::new(config.ssrc)),
            FeedbackKind::ReceiverEstimate => Self::Estimate(Estimator::new(&config.receive_side)?),
            FeedbackKind::ScreamDraft => {
                Self::Acknowledgement(AcknowledgementReporter::new(config.ssrc, config.quench_above))
            }
            FeedbackKind::Nada => Self::Nada(NadaReporter::new(config.ssrc)),
            _ => Self::None,
        })
    }

    pub(super) fn deadline(&self) -> Option<Timestamp> {
        match self {
            Self::Transport(transport) => transport.deadline(),
            Self::Congestion(congestion) => congestion.deadline(),
            Self::Acknowledgement(acknowledgement) => acknowledgement.deadline(),
            Self::Nada(nada) => nada.deadline(),
            Self::Estimate(estimator) => estimator.receive_side.next_timeout(),
            Self::None => None,
        }
    }

    /// Discards what has not been reported. An estimate and the measurements of NADA describe the path and are kept.
    pub(super) fn forget(&mut self, ssrc: u32) {
        match self {
            Self::Transport(transport) => *transport = TransportReporter::new(ssrc),
            Self::Congestion(congestion) => *congestion = CongestionReporter::new(ssrc),
            Self::Acknowledgement(acknowledgement) => acknowledgement.discard_unreported(),
            Self::Nada(nada) => nada.discard_unreported(),
            Self::Estimate(_) | Self::None => {}
        }
    }

    /// A packet of media has arrived.
    pub(super) fn on_packet(&mut self, now: Timestamp, arrived: &Arrived<'_>) {
        let Arrived { header, extensions, size, ecn, is_video } = *arrived;
        let &RtpHeader { ssrc, sequence, marker, timestamp, .. } = header;
        match self {
            Self::Transport(transport) => {
                transport.on_received(now, size);
                if let Some(number) = extensions.transport_sequence {
                    transport.on_packet(now, number, ssrc);
                }
            }
            Self::Congestion(congestion) => congestion.on_packet(now, ssrc, sequence, marker, ecn),
            Self::Acknowledgement(acknowledgement) => {
                acknowledgement.on_received(now, size);
                acknowledgement.on_packet(now, ssrc, sequence, marker, ecn);
            }
            Self::Nada(nada) => {
                if let Some(sent) = extensions.send_time {
                    nada.on_packet(now, ssrc, sequence, sent, size, ecn);
                }
            }
            Self::Estimate(estimator) => {
                if let Some(sent) = extensions.send_time {
                    estimator.on_packet(now, sent, size, is_video.then_some((ssrc, timestamp)));
                }
            }
            Self::None => {}
        }
    }

    /// The estimate, if it is to be reported: always with a receiver report.
    pub(super) fn estimate(&mut self, now: Timestamp, with_report: bool) -> Option<DataRate> {
        match self {
            Self::Estimate(estimator) if with_report => estimator.receive_side.take_estimate(now),
            Self::Estimate(estimator) => estimator.receive_side.poll_estimate(now),
            _ => None,
        }
    }

    /// The latest decision about the estimate.
    pub(super) fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Estimate(estimator) => Some(estimator.receive_side.decision()),
            _ => None,
        }
    }

    /// Writes the feedback that is due.
    pub(super) fn write(&mut self, now: Timestamp, outgoing: &mut VecDeque<Vec<u8>>) {
        match self {
            Self::Transport(transport) => transport.write(now, outgoing),
            Self::Congestion(congestion) => congestion.write(now, outgoing),
            Self::Acknowledgement(acknowledgement) => acknowledgement.write(now, outgoing),
            Self::Nada(nada) => nada.write(now, outgoing),
            Self::Estimate(_) | Self::None => {}
        }
    }
}
