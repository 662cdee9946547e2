//! The result of a run, as `--json` prints it.
//!
//! A quantity that was not measured is `None`, in JSON `null`, never 0. The unit is in the name of each field.

use std::net::SocketAddr;

use giusto_net::driver::{FlowEnd, FlowOutcome};
use giusto_session::stamp::{Answers, OneWay, packet::Mode};
use giusto_units::TimeDelta;
use serde::Serialize;

use super::plan::StampPlan;
use crate::measured::{
    own_loss,
    result::{OneWayDelay, Quantiles, RunResult, SlipFigures},
};

/// What a Session-Sender has measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StampResult {
    /// `stamp`.
    pub protocol: &'static str,
    /// The reflector's address and port.
    pub to: String,
    /// `unauthenticated` or `authenticated`.
    pub mode: &'static str,
    /// The identifier of the session (RFC 8972 §3).
    pub ssid: u16,
    /// The requested rate, in bit/s; `None` for "max".
    pub rate_bps: Option<u64>,
    /// The layer whose bytes the rate counts.
    pub layer: Option<String>,
    /// The UDP payload of one packet, in bytes.
    pub size_bytes: u64,
    /// How long the sender sent, in seconds.
    pub duration_s: f64,
    /// Packets handed to the network.
    pub sent_packets: u64,
    /// Packets that the system did not take. They are not among the sent ones.
    pub unsent_packets: u64,
    /// The latest reason.
    pub unsent_reason: Option<String>,
    /// Packets that were never sent because they were late.
    pub skipped_packets: u64,
    /// Packets with an answer.
    pub answered_packets: u64,
    /// Packets without an answer: sent − answered.
    pub lost_packets: u64,
    /// Lost over sent packets, 0 to 1; `None` if nothing was sent.
    pub loss_ratio: Option<f64>,
    /// Packets without an answer whose direction of loss is unknown: all with a stateless reflector; else those behind the last
    /// answer.
    pub unattributed_lost_packets: u64,
    /// Packets, among the lost ones, whose answers arrived and were dropped by the full socket buffer of this machine: neither way lost
    /// them.
    pub kernel_dropped_packets: u64,
    /// Whether the reflector counts what reaches it; `None` if that is unknown.
    pub reflector_stateful: Option<bool>,
    /// Further answers to a packet.
    pub duplicate_packets: u64,
    /// Answers after one to a later packet (RFC 4737 §3.3), in both directions together.
    pub reordered_packets: u64,
    /// Datagrams that were ignored: no key verifies them.
    pub forged_packets: u64,
    /// Datagrams that were ignored: they answer no packet of this session.
    pub unmatched_packets: u64,
    /// Datagrams that were ignored: too short to be an answer.
    pub malformed_packets: u64,
    /// Answers whose times cannot be used.
    pub answers_without_times: u64,
    /// Answers "port unreachable" of the far host.
    pub port_unreachable: u64,
    /// Round-trip time without the reflector's processing time, in ms: (T4 − T1) − (T3 − T2).
    pub round_trip_ms: Quantiles,
    /// The reflector's processing time, in ms: T3 − T2.
    pub reflector_processing_ms: Quantiles,
    /// The way to the reflector.
    pub forward: StampPath,
    /// The way back.
    pub backward: StampPath,
    /// The sum of the error estimates of both clocks, in ms; `None` unless both are synchronised.
    pub clock_uncertainty_ms: Option<f64>,
    /// TTL or Hop Limit with which packets reached the reflector; `None` if it does not report it.
    pub ttl_at_reflector: Option<StampTtl>,
    /// Answers with the session identifier 0: the reflector does not support RFC 8972.
    pub answers_without_ssid: u64,
    /// The flags of our Extra Padding in the answers; `None` if there was none.
    pub extensions: Option<StampExtensions>,
    /// Deviation of departures from their scheduled times, in µs, without sign.
    pub schedule_error_us: Quantiles,
    /// CPU time of the sending thread over elapsed time, 0 to 1.
    pub sender_cpu_ratio: f64,
    /// Why the run ended, such as `all sent` or `interrupted`.
    pub ended: String,
    /// Reasons to doubt the figures; empty if there are none.
    pub doubts: Vec<String>,
}

/// One direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StampPath {
    /// Packets lost in this direction; `None` if it is unknown.
    pub lost_packets: Option<u64>,
    /// One-way delay, in ms.
    pub one_way_delay_ms: OneWayDelay,
    /// Interarrival jitter at the end of the run, in ms (RFC 3550 §6.4.1).
    pub jitter_ms: Option<f64>,
    /// Packets that arrived after a later one (RFC 4737 §3.3); `None` if the direction is unknown.
    pub reordered_packets: Option<u64>,
}

/// The lowest and the highest TTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StampTtl {
    /// The lowest.
    pub min: u8,
    /// The highest.
    pub max: u8,
}

/// The flags of our extensions in the answers (RFC 8972 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StampExtensions {
    /// U: the reflector does not understand them.
    pub unrecognised: bool,
    /// M: it considers them malformed.
    pub malformed: bool,
    /// I: their HMAC does not verify.
    pub not_authentic: bool,
}

impl StampResult {
    pub(super) fn of(plan: &StampPlan, flow: Option<&FlowOutcome>, observed: &Observed<'_>) -> Self {
        let answers = observed.answers;
        let sent = flow.map_or(0, |flow| flow.packets);
        let (counters, losses) = (answers.counters(), answers.losses(sent));
        let stream = plan.stream();
        let mut result = Self {
            protocol: "stamp",
            to: observed.to.to_string(),
            mode: match plan.mode() {
                Mode::Unauthenticated => "unauthenticated",
                Mode::Authenticated => "authenticated",
            },
            ssid: observed.ssid,
            rate_bps: stream.rate().map(giusto_units::DataRate::as_bps),
            layer: Some(stream.plan().layer.to_string()),
            size_bytes: stream.size().as_bytes(),
            duration_s: observed.duration.as_seconds(),
            sent_packets: sent,
            unsent_packets: flow.map_or(0, |flow| flow.unsent_packets),
            unsent_reason: flow.and_then(|flow| flow.unsent_reason.clone()),
            skipped_packets: flow.map_or(0, |flow| flow.late_cycles.skipped_packets),
            answered_packets: counters.answered,
            lost_packets: losses.lost,
            loss_ratio: (sent > 0).then(|| losses.lost as f64 / sent as f64),
            unattributed_lost_packets: losses.unattributed,
            // Answers are not lost on the way there.
            kernel_dropped_packets: observed
                .dropped
                .min(losses.lost - losses.forward.unwrap_or(0).min(losses.lost)),
            reflector_stateful: answers.stateful(),
            duplicate_packets: counters.duplicates,
            reordered_packets: answers.reordered(),
            forged_packets: counters.forged,
            unmatched_packets: counters.unmatched,
            malformed_packets: counters.malformed,
            answers_without_times: answers.without_times(),
            port_unreachable: observed.unreachable,
            round_trip_ms: Quantiles::millis(answers.round_trips()),
            reflector_processing_ms: Quantiles::millis(answers.processing()),
            forward: StampPath { lost_packets: losses.forward, ..path(answers.forward()) },
            backward: StampPath { lost_packets: losses.backward, ..path(answers.backward()) },
            clock_uncertainty_ms: answers.uncertainty().map(TimeDelta::as_millis),
            ttl_at_reflector: answers
                .ttl()
                .filter(|&(_, max)| max > 0)
                .map(|(min, max)| StampTtl { min, max }),
            answers_without_ssid: answers.ssid_zeroed(),
            extensions: (counters.answered > 0 && stream.size().as_bytes() > plan.mode().base_bytes() as u64)
                .then(|| answers.extension_flags())
                .map(|flags| StampExtensions {
                    unrecognised: flags.unrecognised,
                    malformed: flags.malformed,
                    not_authentic: flags.not_authentic,
                }),
            schedule_error_us: Quantiles::micros(
                flow.and_then(|flow| flow.schedule_error.quantiles()).as_ref(),
            ),
            sender_cpu_ratio: observed.sender_cpu_ratio,
            ended: ended(flow, observed),
            doubts: Vec::new(),
        };
        let unusable = if answers.clocks_contradict() {
            Some("unknown: both ends report synchronised clocks, but the delays contradict that")
        } else if observed.clock_steps > 0 {
            Some("unknown: the clock of this machine was set during the run")
        } else {
            None
        };
        if let Some(why) = unusable {
            for path in [&mut result.forward, &mut result.backward] {
                path.one_way_delay_ms = OneWayDelay { basis: Some(why.to_owned()), ..OneWayDelay::default() };
            }
        }
        result.doubts = result.find_doubts(plan);
        result
    }

    /// Reasons to doubt the sender's figures, as for every other stream.
    fn find_doubts(&self, plan: &StampPlan) -> Vec<String> {
        let slips = SlipFigures { skipped_packets: self.skipped_packets, ..SlipFigures::default() };
        let run = RunResult {
            sent_packets: Some(self.sent_packets),
            unsent_packets: Some(self.unsent_packets),
            unsent_reason: self.unsent_reason.clone(),
            schedule_error_us: self.schedule_error_us,
            slips: Some(slips),
            ..plan.stream().blank_result()
        };
        let own = own_loss("sender", self.kernel_dropped_packets, Some(self.lost_packets));
        own.into_iter().chain(run.find_doubts()).collect()
    }
}

fn path(way: Option<OneWay>) -> StampPath {
    way.map_or_else(StampPath::default, |way| StampPath {
        lost_packets: None,
        one_way_delay_ms: OneWayDelay::from(&way.delay),
        jitter_ms: way.jitter.map(TimeDelta::as_millis),
        reordered_packets: way.reordered,
    })
}

fn ended(flow: Option<&FlowOutcome>, observed: &Observed<'_>) -> String {
    match (&observed.failure, flow.map(|flow| &flow.end)) {
        (Some(failure), _) => failure.clone(),
        (None, Some(FlowEnd::Failed(error))) => error.to_string(),
        (None, Some(FlowEnd::Done)) => "all sent".to_owned(),
        _ if observed.interrupted => "interrupted".to_owned(),
        _ => "no answer".to_owned(),
    }
}

/// What a run has observed, besides the sender's own figures.
pub(super) struct Observed<'a> {
    pub(super) to: SocketAddr,
    pub(super) ssid: u16,
    pub(super) answers: &'a Answers,
    pub(super) unreachable: u64,
    /// Messages that the socket has dropped.
    pub(super) dropped: u64,
    pub(super) clock_steps: u32,
    pub(super) duration: TimeDelta,
    pub(super) sender_cpu_ratio: f64,
    pub(super) interrupted: bool,
    pub(super) failure: Option<String>,
}
