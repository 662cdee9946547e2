//! What the sending end knows of a run, and its results.

use giusto_measure::{ClockEstimate, ErrorHistogram};
use giusto_net::{
    DepartureLag, Granted, SleeperReport,
    driver::{FlowEnd, FlowOutcome},
};
use giusto_pace::WakePlanner;
use giusto_session::{
    path_mtu::PathMtuFigures,
    probe::{
        SenderError,
        wire::{ArrivalStamps, LastReport, Report, StreamFormat},
    },
};
use giusto_units::{DataSize, TimeDelta};

use crate::measured::{
    plan::ResolvedPlan,
    result::{FarEndFigures, Histograms, Quantiles, RunResult, SystemGranted, classes},
};

/// One stream of a run.
#[derive(Debug)]
pub struct StreamOutcome {
    /// The sender's own figures.
    pub sent: FlowOutcome,
    /// The receiver's last report, if one came.
    pub report: Option<Box<Report>>,
    /// The receiver's clock against ours.
    pub clock: Option<ClockEstimate>,
    /// Round-trip times.
    pub rtts: ErrorHistogram,
    /// What the receiver of an RTP stream reported with RTCP, where it was not asked.
    pub far_end: Option<FarEndFigures>,
    /// The MTU of the path at the end, as far as the system knows it.
    pub path_mtu: Option<DataSize>,
    /// How it was found by probes, where it was looked for.
    pub mtu_discovery: Option<PathMtuFigures>,
    /// How long after the time that they carry its datagrams left, of samples.
    pub departure_lag: Option<DepartureLag>,
    /// The error that ended the stream, if one did.
    pub error: Option<SenderError>,
}

impl StreamOutcome {
    /// The error that ended the stream early, if one did.
    pub fn failure(&self) -> Option<String> {
        // Where sending failed, the receiver's silence may be a consequence.
        match (&self.sent.end, &self.error) {
            (FlowEnd::Failed(error), _) => Some(error.to_string()),
            (_, Some(error)) => Some(error.to_string()),
            _ => None,
        }
    }
}

/// A run, as the sending end knows it.
#[derive(Debug)]
pub struct Transmission {
    /// The streams.
    pub streams: Vec<StreamOutcome>,
    /// From the first datagram's scheduled time to the end of sending.
    pub duration: TimeDelta,
    /// CPU time of the sending thread over that time.
    pub sender_cpu_ratio: f64,
    /// How the sending thread slept.
    pub sleeper: SleeperReport,
    /// What the system granted to the sending end.
    pub granted: Granted,
    /// What times the departures.
    pub departures: Option<String>,
    /// The run was interrupted.
    pub interrupted: bool,
    /// Both ends proved that they share a key.
    pub authenticated: bool,
}

impl Transmission {
    /// The error that ended a stream early, if one did: then the results cover a part of the run.
    pub fn failure(&self) -> Option<String> {
        self.streams.iter().find_map(StreamOutcome::failure)
    }

    /// The result of each stream: the sender's own figures and the receiver's report.
    pub fn results(&self, plan: &ResolvedPlan) -> Vec<RunResult> {
        self.streams.iter().map(|stream| self.result(plan, stream)).collect()
    }

    fn result(&self, plan: &ResolvedPlan, stream: &StreamOutcome) -> RunResult {
        let FlowOutcome { packets, rate, schedule_error, late_cycles: slips, .. } = &stream.sent;
        let format = plan.request(None).format;
        let mut result = plan.blank_result();
        if let Some(report) = &stream.report {
            result.add_received(&report.summary);
            if format == StreamFormat::Raw {
                result.forget_sequence();
            }
            if report.last != Some(LastReport::Finished) {
                // The report is of some time before the end: what it lacks may have arrived.
                (result.lost_packets, result.loss_ratio, result.loss_bursts) = (None, None, None);
            }
            result.receiver_cpu_ratio = report.cpu_ratio.map(f64::from);
            result.voice = report.voice.as_ref().map(Into::into);
        }
        result.sent_packets = Some(*packets);
        result.unsent_packets = Some(stream.sent.unsent_packets);
        result.unsent_reason.clone_from(&stream.sent.unsent_reason);
        result.tx_rate_bps = rate.rate();
        // The sender has counted every datagram; the report only those whose times travelled.
        result.schedule_error_us = Quantiles::micros(schedule_error.quantiles().as_ref());
        let lag = stream.departure_lag.as_ref();
        result.departure_lag_us = lag.map(|lag| Quantiles::micros(lag.lag.quantiles().as_ref()));
        result.slips = Some(slips.into());
        result.duration_s = Some(self.duration.as_seconds());
        result.sender_cpu_ratio = Some(self.sender_cpu_ratio);
        result.ended = Some(stream.failure().unwrap_or_else(|| {
            let why = match stream.sent.end {
                FlowEnd::Stopped if self.interrupted => "interrupted",
                FlowEnd::Stopped => "another stream failed",
                _ => plan.end(*packets + stream.sent.unsent_packets, slips.skipped_packets),
            };
            why.to_owned()
        }));
        result.authenticated = Some(self.authenticated && format == StreamFormat::Giusto);
        result.mtu_bytes = stream.path_mtu.map(DataSize::as_bytes);
        result.mtu_discovery = stream.mtu_discovery.as_ref().map(Into::into);
        result.fragments_per_packet = stream.path_mtu.and_then(|mtu| plan.fragments(mtu));
        let departure_timestamps = lag.map(|lag| lag.stamped_by.clone());
        let there = stream.report.as_ref().map(|report| report.stamps);
        let far_receive_timestamps =
            there.filter(|by| *by != ArrivalStamps::Unknown).map(|by| by.to_string());
        result.system =
            Some(SystemGranted { far_receive_timestamps, departure_timestamps, ..self.system(plan) });
        result.clock = stream.clock.as_ref().map(Into::into);
        result.round_trip_ms = Quantiles::millis(&stream.rtts);
        result.far_end.clone_from(&stream.far_end);
        result.histograms = Some(Box::new(Histograms {
            schedule_error_us: classes(schedule_error),
            round_trip_us: classes(&stream.rtts),
            gap_error_us: None,
        }));
        result.doubts = result.find_doubts();
        result
    }

    fn system(&self, plan: &ResolvedPlan) -> SystemGranted {
        let sleeper = &self.sleeper;
        let slept = sleeper.sleeps > 0;
        SystemGranted {
            wake_latency_us: slept.then_some(Quantiles {
                p50: Some(sleeper.wake_latency_p50_us),
                p99: Some(sleeper.wake_latency_p99_us),
                max: Some(sleeper.wake_latency_max_us),
                ..Quantiles::default()
            }),
            wake_lead_us: slept.then(|| lead_for(sleeper, plan.period())),
            departures: self.departures.clone(),
            spun_ratio: Some(sleeper.spun_ms / 1e3 / self.duration.as_seconds().max(1e-9)),
            ..SystemGranted::from(&self.granted)
        }
    }
}

/// The lead of the sleeps between cycles: there is one for each class of sleep lengths.
fn lead_for(sleeper: &SleeperReport, period: Option<TimeDelta>) -> f64 {
    let [short, middle] = WakePlanner::CLASSES;
    match period {
        Some(period) if period <= short => sleeper.short_sleep_lead_us,
        Some(period) if period > middle => sleeper.long_sleep_lead_us,
        _ => sleeper.lead_us,
    }
}
