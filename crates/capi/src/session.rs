//! A controller with its history of packets: the calls, without pointers.

use giusto_congestion::{
    Algorithm, Controller, Feedback, FeedbackKind, History, Limits, LossReport, Options, OutgoingPacket,
    Probe, QueueState, RtpId,
};
use giusto_rtp::NtpTimestamp;
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use serde::Serialize;

use crate::{
    status::{Failure, GiustoStatus},
    types::{self, GIUSTO_NEVER},
};

type Outcome<T = GiustoStatus> = Result<T, Failure>;

/// Receipts of packets in a format of the caller's own.
pub(crate) type Receipt = (u64, Option<PeerTimestamp>, Ecn);

#[derive(Debug)]
pub(crate) struct Session {
    controller: Box<dyn Controller>,
    history: History,
    limits: Limits,
}

impl Session {
    pub(crate) fn new(name: &str, config: Option<&types::GiustoConfig>) -> Outcome<Self> {
        let unknown = |text| Failure { status: GiustoStatus::GiustoUnknownController, text };
        let (algorithm, constants) =
            Algorithm::read_name(name).map_err(|error| unknown(error.to_string()))?;
        let (mut limits, mut options, mut history) = (Limits::DEFAULT, Options::default(), History::new());
        if let Some(config) = config {
            limits = limits_of([config.min_bps, config.start_bps, config.max_bps], limits)?;
            if config.ntp_at_zero != 0 {
                history = history.with_ntp_at_zero(NtpTimestamp::from_bits(config.ntp_at_zero));
            }
            if config.ignore_marks != 0 {
                history = history.with_ecn(Ecn::NotEct);
            }
            options = options.with_probe_while_limited(config.probe_while_limited != 0);
            if config.delay_target_ns != 0 {
                options = options
                    .with_delay_target(Some(delta("GiustoConfig.delay_target_ns", config.delay_target_ns)?));
            }
            if config.priority != 0.0 {
                if !(config.priority > 0.0 && config.priority.is_finite()) {
                    let text = format!("GiustoConfig.priority must be above 0, found {}", config.priority);
                    return Err(Failure::argument(text));
                }
                options = options.with_priority(Some(config.priority));
            }
        }
        let controller = (algorithm.build_constants(limits, options, &constants))
            .map_err(|error| unknown(error.to_string()))?;
        Ok(Self { controller, history, limits })
    }

    /// Returns the number of the packet.
    pub(crate) fn on_sent(&mut self, now_ns: u64, packet: &types::GiustoPacket) -> Outcome<u64> {
        let known = types::GIUSTO_HAS_TRANSPORT_SEQUENCE | types::GIUSTO_HAS_RTP | types::GIUSTO_HAS_PROBE;
        if packet.flags & !known != 0 {
            let text =
                format!("GiustoPacket.flags must be a sum of GIUSTO_HAS_..., found {:#x}", packet.flags);
            return Err(Failure::argument(text));
        }
        let has = |flag| packet.flags & flag != 0;
        let outgoing = OutgoingPacket::new(DataSize::from_bytes(packet.bytes))
            .with_transport_sequence(
                has(types::GIUSTO_HAS_TRANSPORT_SEQUENCE).then_some(packet.transport_sequence),
            )
            .with_rtp(
                has(types::GIUSTO_HAS_RTP)
                    .then_some(RtpId { ssrc: packet.ssrc, sequence: packet.rtp_sequence }),
            )
            .with_probe(has(types::GIUSTO_HAS_PROBE).then_some(packet.probe));
        let now = Timestamp::from_nanos(now_ns);
        let sent = self.history.on_sent(now, outgoing);
        self.controller.on_sent(now, &sent);
        Ok(sent.sequence)
    }

    pub(crate) fn on_rtcp(&mut self, now_ns: u64, datagram: &[u8]) -> Outcome {
        let now = Timestamp::from_nanos(now_ns);
        let found = self
            .history
            .on_rtcp(now, datagram)
            .map_err(|error| Failure { status: GiustoStatus::GiustoInvalidRtcp, text: error.to_string() })?;
        let Some(feedback) = found else { return Ok(GiustoStatus::GiustoNone) };
        self.controller.on_feedback(now, &feedback);
        Ok(GiustoStatus::GiustoOk)
    }

    /// Handles `receipts`, and the fields of `more` beside its reports.
    pub(crate) fn on_feedback(
        &mut self,
        now_ns: u64,
        receipts: &[Receipt],
        more: &types::GiustoFeedback,
    ) -> Outcome {
        if !(0.0..=1.0).contains(&more.loss_ratio) {
            let text = format!("GiustoFeedback.loss_ratio must be 0 to 1, found {}", more.loss_ratio);
            return Err(Failure::argument(text));
        }
        let rtt = (more.rtt_ns != 0).then(|| delta("GiustoFeedback.rtt_ns", more.rtt_ns)).transpose()?;
        let estimate =
            (more.receiver_estimate_bps != 0).then_some(DataRate::from_bps(more.receiver_estimate_bps));
        let loss =
            (more.expected_packets != 0).then_some(LossReport::new(more.loss_ratio, more.expected_packets));
        let now = Timestamp::from_nanos(now_ns);
        let in_flight = self.history.in_flight();
        let found = self.history.on_reports(now, receipts);
        if found.is_none() && rtt.is_none() && estimate.is_none() && loss.is_none() {
            return Ok(GiustoStatus::GiustoNone);
        }
        let feedback = found
            .unwrap_or(Feedback::new(&[], in_flight))
            .with_rtt(rtt)
            .with_receiver_estimate(estimate)
            .with_loss(loss);
        self.controller.on_feedback(now, &feedback);
        Ok(GiustoStatus::GiustoOk)
    }

    pub(crate) fn on_timeout(&mut self, now_ns: u64, queue_bytes: u64, oldest_ns: u64) -> Outcome {
        let queue = QueueState::new(DataSize::from_bytes(queue_bytes), delta("oldest_ns", oldest_ns)?);
        let now = Timestamp::from_nanos(now_ns);
        self.history.on_timeout(now);
        self.controller.on_timeout(now, &queue);
        Ok(GiustoStatus::GiustoOk)
    }

    pub(crate) fn next_timeout(&self) -> u64 {
        let times = [self.controller.next_timeout(), self.history.next_timeout()];
        times.into_iter().flatten().min().map_or(GIUSTO_NEVER, Timestamp::as_nanos)
    }

    /// Sets limits; those that are 0 stay.
    pub(crate) fn set_limits(&mut self, now_ns: u64, given: [u64; 3]) -> Outcome {
        let limits = limits_of(given, self.limits)?;
        self.limits = limits;
        self.controller.set_limits(Timestamp::from_nanos(now_ns), limits);
        Ok(GiustoStatus::GiustoOk)
    }

    pub(crate) fn on_route_change(&mut self, now_ns: u64) {
        self.history.on_route_change();
        self.controller.on_route_change(Timestamp::from_nanos(now_ns));
    }

    pub(crate) fn target(&self) -> types::GiustoTarget {
        let target = self.controller.target();
        types::GiustoTarget {
            size: 0,
            media_bps: target.media.as_bps(),
            pacing_bps: target.pacing.as_bps(),
            padding_bps: target.padding.as_bps(),
            window_bytes: target.window.map_or(GIUSTO_NEVER, DataSize::as_bytes),
            frame_drop_interval: self.controller.frame_drop_interval().unwrap_or(0),
            reserved: 0,
        }
    }

    pub(crate) fn next_probe(&mut self) -> Option<types::GiustoProbe> {
        let Probe { cluster, rate, duration, packets, batch, .. } = self.controller.next_probe()?;
        Some(types::GiustoProbe {
            size: 0,
            rate_bps: rate.as_bps(),
            duration_ns: nanos(duration),
            batch_ns: nanos(batch),
            packets,
            cluster,
        })
    }

    pub(crate) fn requirements(&self) -> types::GiustoRequirements {
        let found = self.controller.requirements();
        types::GiustoRequirements {
            size: 0,
            feedback: kind(found.feedback),
            accepted: found.accepted.iter().fold(0, |sum, accepted| sum | kind(*accepted)),
            burst_ns: nanos(found.pacer.burst),
            skip_after_ns: found.staleness.skip_after.map_or(GIUSTO_NEVER, nanos),
            discard_after_ns: found.staleness.discard_after.map_or(GIUSTO_NEVER, nanos),
            sender_queue: found.sender_queue.into(),
            marks: found.marks.into(),
        }
    }

    pub(crate) fn totals(&self) -> types::GiustoTotals {
        let reported = self.history.reported();
        types::GiustoTotals {
            size: 0,
            in_flight_bytes: self.history.in_flight().as_bytes(),
            arrived_packets: reported.packets,
            arrived_bytes: reported.size.as_bytes(),
            lost_packets: reported.lost_packets,
        }
    }

    /// The latest decision, as JSON.
    pub(crate) fn decision(&self) -> Outcome<String> {
        #[derive(Serialize)]
        struct Text<T> {
            at_ns: u64,
            from_bps: u64,
            to_bps: u64,
            #[serde(flatten)]
            cause: T,
        }
        let decision = *self.controller.decision();
        let text = Text {
            at_ns: decision.at.as_nanos(),
            from_bps: decision.from.as_bps(),
            to_bps: decision.to.as_bps(),
            cause: decision.cause,
        };
        serde_json::to_string(&text)
            .map_err(|error| Failure { status: GiustoStatus::GiustoBroken, text: error.to_string() })
    }

    /// A session with a controller of the caller's own.
    #[cfg(test)]
    pub(crate) fn with(controller: Box<dyn Controller>) -> Self {
        Self { controller, history: History::new(), limits: Limits::DEFAULT }
    }
}

/// The limits `min`, `start`, `max` that are given, in bit/s; `before` where 0 is.
fn limits_of(given: [u64; 3], before: Limits) -> Outcome<Limits> {
    let or = |bps: u64, before| if bps == 0 { before } else { DataRate::from_bps(bps) };
    let [min, start, max] = given;
    let limits = before.with_min(or(min, before.min)).with_max(or(max, before.max));
    let limits = limits.with_start(or(start, before.start));
    let fits = limits.min <= limits.max
        && (start == 0 || (limits.min <= limits.start && limits.start <= limits.max));
    if fits {
        // As given: a start rate that does not fit now may fit later limits. Controllers order them.
        return Ok(limits);
    }
    let [min, start, max] = [limits.min, limits.start, limits.max].map(DataRate::as_bps);
    Err(Failure::argument(format!(
        "min_bps must not be above start_bps, nor start_bps above max_bps: found {min}, {start} and {max}"
    )))
}

fn delta(name: &str, ns: u64) -> Outcome<TimeDelta> {
    i64::try_from(ns)
        .map(TimeDelta::from_nanos)
        .map_err(|_| Failure::argument(format!("{name} must be at most {} ns, found {ns}", i64::MAX)))
}

fn nanos(time: TimeDelta) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(0)
}

fn kind(kind: FeedbackKind) -> u32 {
    match kind {
        FeedbackKind::TransportWide => types::GIUSTO_FEEDBACK_TRANSPORT_WIDE,
        FeedbackKind::CongestionControl => types::GIUSTO_FEEDBACK_RFC8888,
        FeedbackKind::ScreamDraft => types::GIUSTO_FEEDBACK_SCREAM_DRAFT,
        FeedbackKind::Nada => types::GIUSTO_FEEDBACK_NADA,
        FeedbackKind::ReceiverEstimate => types::GIUSTO_FEEDBACK_REMB,
        FeedbackKind::ReceiverReports => types::GIUSTO_FEEDBACK_RECEIVER_REPORTS,
        _ => 0,
    }
}
