//! From what the two ends measured to one [`RunResult`] and its plots.

use giusto_measure::{ClockEstimate, DelayBasis, ErrorHistogram, StreamMeter, StreamSummary};
use giusto_net::{
    Granted,
    driver::{FlowEnd, FlowOutcome},
};
use giusto_session::probe::{
    Ended, Stream,
    wire::{SenderFigures, StreamFormat, VoiceReport},
};
use giusto_units::{DataRate, DataSize, TimeDelta};

use crate::measured::{
    peer::PeerMeasurement,
    plan::ResolvedPlan,
    result::{
        ClockFigures, EcnFigures, HistogramBin, LossBursts, OneWayDelay, Quantiles, RunPlots, RunResult,
        SlipFigures, Spread, SystemGranted, VoiceFigures, rate_error_ppm,
    },
    send::{StreamOutcome, Transmission},
};

/// What the plan alone says.
fn planned(plan: &ResolvedPlan) -> RunResult {
    let pacing = &plan.plan().pacing;
    RunResult {
        strategy: plan.keeping().to_string(),
        rate_bps: plan.rate().map(DataRate::as_bps),
        size_bytes: Some(plan.size().as_bytes()),
        packets_per_cycle: Some(plan.packets_per_cycle()),
        period_ns: plan.period().and_then(|period| u64::try_from(period.as_nanos()).ok()),
        layer: Some(plan.plan().layer.to_string()),
        mode: Some(pacing.mode.to_string()),
        burst_bound: Some(pacing.burst_bound().to_string()),
        ..RunResult::default()
    }
}

/// The result of one stream of a transmission, as the sender knows it: its own figures, and the far end's report.
pub fn sent_stream(plan: &ResolvedPlan, run: &Transmission, stream: &StreamOutcome) -> RunResult {
    let mut result = planned(plan);
    take_sent(&mut result, &stream.sent);
    result.duration_s = Some(run.duration.as_seconds());
    result.sender_cpu_ratio = Some(run.sender_cpu_ratio);
    result.ended = Some(ending(run, stream));
    result.system = Some(sending_system(run));
    if let Some(report) = &stream.report {
        take_summary(&mut result, &report.summary);
        result.receiver_cpu_ratio = report.cpu_ratio.map(f64::from);
        result.voice = report.voice.as_ref().map(voice);
    }
    if let Some(clock) = &stream.clock {
        result.clock = Some(clock_figures(clock));
    }
    result.round_trip_ms = spread_ms(&stream.round_trips);
    // The sender has counted every datagram; the report only those whose times travelled.
    result.schedule_error_us = quantiles_us(&stream.sent.schedule_error);
    result
}

/// The result of a received stream, as the receiver knows it.
pub fn received_stream(stream: &mut Stream, cpu_ratio: Option<f32>, granted: &Granted) -> RunResult {
    let report = stream.report(cpu_ratio);
    let mut result = RunResult::default();
    if let Some(request) = stream.request() {
        let pacing = &request.pacing;
        result.strategy = pacing.keeping.to_string();
        result.packets_per_cycle = Some(pacing.packets_per_cycle);
        result.period_ns = pacing.period.and_then(|period| u64::try_from(period.as_nanos()).ok());
        result.rate_bps = request.rate_bps;
        result.size_bytes = request.size.map(DataSize::as_bytes);
        result.layer = Some(request.layer.to_string());
    }
    take_summary(&mut result, &report.summary);
    result.duration_s = match (report.summary.first_arrival, report.summary.last_arrival) {
        (Some(first), Some(last)) => Some((last - first).as_seconds()),
        _ => None,
    };
    if let Some(SenderFigures { packets, rate_bps, schedule_error, cpu_ratio, .. }) = stream.sender() {
        result.sent_packets = Some(*packets);
        result.tx_rate_bps = *rate_bps;
        result.sender_cpu_ratio = cpu_ratio.map(f64::from);
        if let Some(error) = schedule_error {
            result.schedule_error_us = quantiles_of(error);
        }
    }
    if let Some(path) = stream.path() {
        result.clock = Some(clock_figures(&path.clock));
        result.round_trip_ms.p50 = Some(path.round_trip.as_millis());
    }
    result.receiver_cpu_ratio = cpu_ratio.map(f64::from);
    result.voice = report.voice.as_ref().map(voice);
    result.ended = stream.ended().map(|ended| {
        match ended {
            Ended::Finished => "finished by the sender",
            Ended::Idle => "silence of the sender",
            Ended::Stopped => "stopped here",
        }
        .to_owned()
    });
    result.format = Some(match stream.format() {
        StreamFormat::Giusto => "giusto".to_owned(),
        StreamFormat::Raw => "raw".to_owned(),
        StreamFormat::Rtp { voice: Some(profile), .. } => format!("rtp {profile}"),
        StreamFormat::Rtp { voice: None, .. } => "rtp".to_owned(),
    });
    result.from = Some(stream.from().to_string());
    result.system = Some(system(granted));
    result
}

/// The result of a peer's stream: its datagrams by our meter, its own word for what only it can know.
pub fn peer_stream(plan: &ResolvedPlan, measured: &PeerMeasurement) -> RunResult {
    let own = measured.own_report.unwrap_or_default();
    let mut result = RunResult {
        strategy: "peer".to_owned(),
        peer: Some(measured.name.clone()),
        rate_bps: plan.rate().map(DataRate::as_bps),
        size_bytes: Some(plan.size().as_bytes()),
        layer: Some(plan.plan().layer.to_string()),
        sent_packets: measured.sent_packets,
        tx_rate_bps: own.sent_rate_bps,
        sender_cpu_ratio: measured.sender_cpu_ratio,
        receiver_cpu_ratio: measured.receiver_cpu_ratio,
        duration_s: Some(measured.duration.as_seconds()),
        ended: measured.interrupted.then(|| "interrupted".to_owned()),
        ..RunResult::default()
    };
    take_summary(&mut result, &measured.summary);
    result
}

fn take_sent(result: &mut RunResult, sent: &FlowOutcome) {
    result.sent_packets = Some(sent.packets);
    result.tx_rate_bps = sent.rate.rate();
    result.schedule_error_us = quantiles_us(&sent.schedule_error);
    result.slips = Some(SlipFigures {
        caught_up_packets: sent.slips.caught_up_packets,
        skipped_packets: sent.slips.skipped_packets,
        reanchors: sent.slips.reanchors,
    });
}

fn take_summary(result: &mut RunResult, summary: &StreamSummary) {
    result.received_packets = Some(summary.received_packets);
    result.lost_packets = Some(summary.lost_packets);
    result.duplicate_packets = Some(summary.duplicate_packets);
    result.reordered_packets = Some(summary.reordered_packets);
    result.rx_rate_bps = summary.rate_bps;
    result.fencepost_rate_bps = summary.fencepost_rate_bps;
    result.rate_error_ppm = match (summary.rate_bps, result.rate_bps) {
        (Some(rate), Some(target)) => rate_error_ppm(rate, target as f64),
        _ => None,
    };
    if let Some(error) = &summary.schedule_error {
        result.schedule_error_us = quantiles_of(error);
    }
    if let Some(error) = &summary.gap_error {
        result.gap_error_us = quantiles_of(error);
    }
    result.loss_ratio = (summary.loss.expected > 0).then(|| summary.loss.ratio());
    result.loss_bursts = Some(LossBursts {
        count: summary.loss.periods,
        longest: summary.loss.longest_period,
        mean: summary.loss.mean_period(),
    });
    result.jitter_ms = summary.jitter.map(TimeDelta::as_millis);
    if let Some(delay) = &summary.delay {
        result.one_way_delay_ms = OneWayDelay {
            basis: Some(basis(delay.basis)),
            min: Some(delay.min.as_millis()),
            p50: Some(delay.p50.as_millis()),
            p99: Some(delay.p99.as_millis()),
            p999: Some(delay.p999.as_millis()),
            max: Some(delay.max.as_millis()),
        };
    }
    result.kernel_dropped_packets = Some(summary.kernel_dropped_packets);
    result.ecn = Some(EcnFigures {
        not_ect_packets: summary.ecn.not_ect,
        ect0_packets: summary.ecn.ect0,
        ect1_packets: summary.ecn.ect1,
        ce_packets: summary.ecn.ce,
    });
    result.dscp = summary.dscp;
}

fn basis(basis: DelayBasis) -> String {
    let within = |uncertainty: TimeDelta| format!("within {uncertainty:.1}");
    match basis {
        DelayBasis::SameClock => "absolute: one clock at both ends".to_owned(),
        DelayBasis::Synchronised { uncertainty } => {
            format!("absolute {}: synchronised clocks", within(uncertainty))
        }
        DelayBasis::Estimated { uncertainty } => {
            format!("absolute {}: clock offset estimated", within(uncertainty))
        }
        DelayBasis::Relative => "relative to the shortest".to_owned(),
    }
}

fn ending(run: &Transmission, stream: &StreamOutcome) -> String {
    match (&stream.lost, &stream.sent.end) {
        (Some(error), _) => error.to_string(),
        (None, FlowEnd::Failed(error)) => error.to_string(),
        (None, FlowEnd::Done) => "all sent".to_owned(),
        (None, FlowEnd::Stopped) if run.interrupted => "interrupted".to_owned(),
        (None, FlowEnd::Stopped) => "another stream's receiver was gone".to_owned(),
    }
}

fn voice(report: &VoiceReport) -> VoiceFigures {
    VoiceFigures {
        codec: Some(report.quality.profile.to_string()),
        scale: Some(report.quality.scale.to_string()),
        r_factor: Some(report.quality.r_factor),
        mos: Some(report.quality.mos),
    }
}

fn clock_figures(clock: &ClockEstimate) -> ClockFigures {
    ClockFigures {
        offset_ms: Some(clock.offset.as_millis()),
        uncertainty_ms: Some(clock.uncertainty.as_millis()),
        drift_ppm: clock.drift.map(|drift| drift.ppm),
    }
}

fn quantiles_us(errors: &ErrorHistogram) -> Quantiles {
    errors.quantiles().as_ref().map(quantiles_of).unwrap_or_default()
}

fn quantiles_of(errors: &giusto_measure::Quantiles) -> Quantiles {
    Quantiles {
        p50: Some(errors.p50.as_micros()),
        p99: Some(errors.p99.as_micros()),
        p999: Some(errors.p999.as_micros()),
        max: Some(errors.max.as_micros()),
    }
}

fn spread_ms(values: &ErrorHistogram) -> Spread {
    let Some(quantiles) = values.quantiles() else { return Spread::default() };
    Spread {
        min: values.min().map(TimeDelta::as_millis),
        p50: Some(quantiles.p50.as_millis()),
        p99: Some(quantiles.p99.as_millis()),
        p999: Some(quantiles.p999.as_millis()),
        max: Some(quantiles.max.as_millis()),
    }
}

/// What the system granted, for reports.
pub fn system(granted: &Granted) -> SystemGranted {
    let buffer =
        |buffer: Option<giusto_net::Asked<u64>>| (buffer.map(|b| b.asked), buffer.map(|b| b.granted));
    let (send_asked, send) = buffer(granted.send_buffer_bytes);
    let (receive_asked, receive) = buffer(granted.receive_buffer_bytes);
    SystemGranted {
        platform: Some(format!("Linux {}", granted.kernel_release)),
        processors: u32::try_from(granted.cores).ok(),
        timer_slack_ns: granted.timer_slack_ns,
        realtime_priority: Some(granted.realtime_priority.map_or(0, |priority| u32::from(priority.granted))),
        send_buffer_asked_bytes: send_asked,
        send_buffer_bytes: send,
        receive_buffer_asked_bytes: receive_asked,
        receive_buffer_bytes: receive,
        receive_timestamps: Some(if granted.kernel_timestamps { "kernel" } else { "program" }.to_owned()),
        segmentation_offload: Some(granted.segmentation_offload),
        receive_offload: Some(granted.receive_offload),
        time_slice_ns: granted.time_slice_ns,
        clock_synchronised: granted.clock_synchronised,
        ..SystemGranted::default()
    }
}

/// What the system granted to a sending end, and how it woke its thread.
fn sending_system(run: &Transmission) -> SystemGranted {
    let sleeper = &run.sleeper;
    let slept = sleeper.sleeps > 0;
    SystemGranted {
        wake_latency_us: slept.then_some(Quantiles {
            p50: Some(sleeper.wake_latency_p50_us),
            p99: Some(sleeper.wake_latency_p99_us),
            p999: None,
            max: Some(sleeper.wake_latency_max_us),
        }),
        wake_lead_us: slept.then_some(run.wake_lead_us),
        spun_ratio: Some(sleeper.spun_ms / 1e3 / run.duration.as_seconds().max(1e-9)),
        ..system(&run.granted)
    }
}

/// What the system granted to a sending and a receiving end on one machine.
pub fn both(sender: &Transmission, receiver: &Granted) -> SystemGranted {
    let receiver = system(receiver);
    SystemGranted {
        receive_buffer_asked_bytes: receiver.receive_buffer_asked_bytes,
        receive_buffer_bytes: receiver.receive_buffer_bytes,
        receive_timestamps: receiver.receive_timestamps,
        receive_offload: receiver.receive_offload,
        ..sending_system(sender)
    }
}

/// What plots of a stream need.
pub fn plots(meter: &StreamMeter, sent: &FlowOutcome) -> RunPlots {
    let points: Vec<_> = meter.series().points().collect();
    let began = points.first().map(|point| point.start).unwrap_or_default();
    // The last interval is cut off where the stream ended: its mean would look like a fall.
    let whole = points.len().saturating_sub(1);
    let rate_series = points
        .iter()
        .take(whole)
        .map(|point| ((point.start - began).as_seconds(), point.rate_bps()))
        .collect();
    let delay = meter.delay().points();
    RunPlots {
        rate_series,
        gap_histogram: meter.gaps().map(bins).unwrap_or_default(),
        schedule_error_histogram: bins(&sent.schedule_error),
        one_way_delay_series: delay
            .map(|(at, delay)| ((at - began).as_seconds(), delay.as_millis()))
            .collect(),
    }
}

fn bins(errors: &ErrorHistogram) -> Vec<HistogramBin> {
    errors
        .buckets()
        .map(|bucket| HistogramBin {
            lo_us: bucket.lower.as_micros(),
            // Bounds are whole nanoseconds, both included.
            hi_us: bucket.upper.as_micros() + 1e-3,
            count: bucket.count,
        })
        .collect()
}
