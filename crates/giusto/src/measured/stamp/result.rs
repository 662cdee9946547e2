//! The result of a run of a Session-Sender.

use std::net::SocketAddr;

use giusto_net::driver::{FlowEnd, FlowOutcome};
use giusto_session::stamp::{Answers, OneWay, packet::Mode};
use giusto_units::TimeDelta;

use super::plan::StampPlan;
use crate::measured::{
    own_loss,
    result::{
        OneWayDelay, Quantiles, RunResult, SlipFigures, StampExtensions, StampPath, StampResult, StampTtl,
    },
};

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
            port_unreachable: counters.unreachable,
            round_trip_ms: Quantiles::millis(answers.rtts()),
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
            ended: ended(plan, flow, observed),
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

    /// The likely cause of a run without answers; `None` where there were some, or nothing was sent.
    pub(super) fn silence(&self, mode: Mode) -> Option<&'static str> {
        if self.answered_packets > 0 || self.sent_packets == 0 {
            return None;
        }
        Some(match mode {
            _ if self.port_unreachable > 0 => {
                "no answer, the port is unreachable: is a STAMP reflector running there, such as `giusto recv --accept stamp`?"
            }
            _ if self.forged_packets > 0 => {
                "no answer that a key of --key-file verifies: use the key of the reflector"
            }
            Mode::Authenticated if self.malformed_packets > 0 => {
                "no answer, only datagrams that are too short for one: is the reflector in authenticated mode?"
            }
            Mode::Unauthenticated if self.malformed_packets > 0 => {
                "no answer, only datagrams that are too short for one: is it a STAMP reflector?"
            }
            _ if self.unmatched_packets > 0 => {
                "no answer that repeats the number and the time of its packet: is it a STAMP reflector in the same mode?"
            }
            Mode::Authenticated => {
                "no answer: the reflector does not run, has another key or is unauthenticated, or a firewall drops the packets"
            }
            Mode::Unauthenticated => {
                "no answer: the reflector does not run or requires authentication (--key-file), or a firewall drops the packets"
            }
        })
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

fn ended(plan: &StampPlan, flow: Option<&FlowOutcome>, observed: &Observed<'_>) -> String {
    match (&observed.failure, flow.map(|flow| (&flow.end, flow))) {
        (Some(failure), _) => failure.clone(),
        (None, Some((FlowEnd::Failed(error), _))) => error.to_string(),
        (None, Some((FlowEnd::Done, flow))) => {
            let given = flow.packets + flow.unsent_packets;
            plan.stream().end(given, flow.late_cycles.skipped_packets).to_owned()
        }
        _ if observed.interrupted => "interrupted".to_owned(),
        _ => "no answer".to_owned(),
    }
}

/// What a run has observed, besides the sender's own figures.
pub(super) struct Observed<'a> {
    pub(super) to: SocketAddr,
    pub(super) ssid: u16,
    pub(super) answers: &'a Answers,
    /// Messages that the socket has dropped.
    pub(super) dropped: u64,
    pub(super) clock_steps: u32,
    pub(super) duration: TimeDelta,
    pub(super) sender_cpu_ratio: f64,
    pub(super) interrupted: bool,
    pub(super) failure: Option<String>,
}
