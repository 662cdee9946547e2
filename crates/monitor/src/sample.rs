//! What came of one stream.

use giusto::{
    call::CallRecord,
    measured::{
        live::{Outcome, Results},
        result::{DelayReference, MtuFigures, OneWayDelay, RunResult, StampResult},
        tcp::TcpResult,
    },
};
use giusto_units::DataRate;

use crate::metric::{Figures, Metric};

/// A gap of consecutive losses of at least this length is an outage within a stream, in seconds.
const HOLE_S: f64 = 1.0;

/// A direction between two hosts, and what is sent there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesKey {
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// The name of the stream.
    pub stream: String,
}

/// What came of one stream in one direction.
#[derive(Debug, Clone, PartialEq)]
pub enum Sample {
    /// It was measured.
    Measured(Box<Measured>),
    /// It was not, because of this: the host is down, for example. Nothing is known, not even loss.
    Unknown(String),
}

/// A result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Datagrams sent.
    pub sent: Option<u64>,
    /// Datagrams lost.
    pub lost: Option<u64>,
    /// The other figures.
    pub figures: Figures,
    /// What is known of the path.
    pub path: Path,
    /// The longest time of consecutive losses, in seconds, if it is an outage.
    pub hole_s: Option<f64>,
    /// Why the figures cannot be trusted; empty if they can.
    pub doubts: Vec<String>,
}

/// What is known of the path of a stream. What is not known is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Path {
    /// The address of the far end.
    pub address: Option<String>,
    /// The path MTU, in bytes.
    pub mtu: Option<u64>,
    /// The DSCP on arrival.
    pub dscp: Option<u8>,
    /// The TTL or Hop Limit on arrival.
    pub ttl: Option<u8>,
}

impl Measured {
    /// All figures, those included that follow from the counts.
    pub fn all(&self) -> Figures {
        let loss = self.sent.zip(self.lost).filter(|(sent, _)| *sent > 0);
        let loss = loss.map(|(sent, lost)| lost as f64 / sent as f64);
        self.figures.with(Metric::Known, Some(1.0)).with(Metric::Loss, loss)
    }
}

/// The samples of a session with the far end at `to`: that of the direction that was asked for, and with STAMP that of the way back.
pub fn samples(outcome: Outcome, to: &str) -> (Sample, Option<Sample>) {
    let failure = outcome.failure;
    match outcome.results {
        Results::Stamp(result) => {
            if let Some(failure) = failure {
                return (Sample::Unknown(failure.clone()), Some(Sample::Unknown(failure)));
            }
            let [forward, backward] = stamp(&result);
            (forward, Some(backward))
        }
        Results::Streams(runs) => (stream(runs.first(), failure, to), None),
    }
}

/// The MTU, unless the search for it has not ended: then it may be larger.
fn known(mtu: Option<u64>, search: Option<MtuFigures>) -> Option<u64> {
    mtu.filter(|_| search.is_none_or(|found| found.complete))
}

fn stream(run: Option<&RunResult>, failure: Option<String>, to: &str) -> Sample {
    let Some(run) = run.filter(|_| failure.is_none()) else {
        return Sample::Unknown(failure.unwrap_or_else(|| "there is no result".to_owned()));
    };
    let (rtt, clock) = (&run.round_trip_ms, run.clock.unwrap_or_default());
    let figures = Figures::default()
        .with(Metric::RttMin, rtt.min)
        .with(Metric::Rtt, rtt.p50)
        .with(Metric::RttP99, rtt.p99)
        .with(Metric::Jitter, run.jitter_ms)
        .with(Metric::Mos, run.voice.as_ref().and_then(|voice| voice.mos))
        .with(Metric::Rate, run.rx_rate_bps)
        .with(Metric::ClockOffset, clock.offset_ms)
        .with(Metric::ClockError, clock.uncertainty_ms);
    let gap_s =
        run.period_ns.map(|period| period as f64 / 1e9 / f64::from(run.packets_per_cycle.unwrap_or(1)));
    let longest = run.loss_bursts.map(|bursts| bursts.longest as f64);
    let received = run.received_packets.zip(run.lost_packets).map(|(received, lost)| received + lost);
    Sample::Measured(Box::new(Measured {
        sent: run.sent_packets.or(received),
        lost: run.lost_packets,
        figures: with_delay(figures, &run.one_way_delay_ms),
        path: Path {
            address: Some(to.to_owned()),
            mtu: known(run.mtu_bytes, run.mtu_discovery),
            dscp: run.dscp,
            ttl: None,
        },
        hole_s: longest.zip(gap_s).map(|(longest, gap)| longest * gap).filter(|hole| *hole >= HOLE_S),
        doubts: run.doubts.clone(),
    }))
}

/// What came of a load by TCP: the kernel's round-trip time and the acknowledged rate. Loss is not known, for TCP repairs it.
pub fn of_tcp(result: &TcpResult, to: &str) -> Sample {
    if let Some(failure) = &result.failure {
        return Sample::Unknown(failure.clone());
    }
    let figures = Figures::default()
        .with(Metric::RttMin, result.rtt_min_ms)
        .with(Metric::Rtt, result.rtt_p50_ms)
        .with(Metric::Rate, result.rate_bps);
    let path = Path { address: Some(to.to_owned()), ..Path::default() };
    Sample::Measured(Box::new(Measured { figures, path, ..Measured::default() }))
}

/// What came of a call, in its only direction. Without the far end's report nothing is known of it.
pub fn of_call(record: &CallRecord, max_rate: DataRate) -> Sample {
    let call = &record.call;
    let why = call.error.as_ref().or(call.unreported.as_ref());
    let Some(flow) = record.run.flows.first().filter(|flow| why.is_none() && flow.unknown.is_none()) else {
        return Sample::Unknown(why.cloned().unwrap_or_else(|| "the call carried nothing".to_owned()));
    };
    let (rtt, frames) = (call.round_trip_ms.as_ref(), flow.frame_delay_ms.as_ref());
    let rate = Some(flow.received_rate_bps);
    let figures = Figures::default()
        .with(Metric::Rtt, rtt.map(|rtt| rtt.p50))
        .with(Metric::RttP99, rtt.map(|rtt| rtt.p99))
        .with(Metric::Rate, rate)
        .with(Metric::Use, rate.map(|rate| rate / max_rate.as_bps() as f64))
        .with(Metric::FrameDelay, frames.map(|delay| delay.p50))
        .with(Metric::FrameDelayP99, frames.map(|delay| delay.p99));
    Sample::Measured(Box::new(Measured {
        sent: Some(flow.sent_packets),
        lost: Some(flow.lost_packets),
        figures,
        path: Path {
            address: Some(call.far_end.clone()),
            mtu: known(call.mtu_bytes, call.mtu_discovery),
            ..Path::default()
        },
        hole_s: None,
        doubts: call.doubts.clone(),
    }))
}

/// Both directions of a STAMP session. Where the reflector does not count packets, the losses of a direction are unknown, and those of the
/// whole way stand for the way there.
fn stamp(result: &StampResult) -> [Sample; 2] {
    let rtt = &result.round_trip_ms;
    let both = Figures::default()
        .with(Metric::RttMin, rtt.min)
        .with(Metric::Rtt, rtt.p50)
        .with(Metric::RttP99, rtt.p99);
    let forward_lost = result.forward.lost_packets;
    let reflected = forward_lost.map(|lost| result.sent_packets.saturating_sub(lost));
    let ways = [
        (&result.forward, Some(result.sent_packets), forward_lost.or(Some(result.lost_packets))),
        (&result.backward, reflected, result.backward.lost_packets),
    ];
    ways.map(|(way, sent, lost)| {
        let figures = with_delay(both.with(Metric::Jitter, way.jitter_ms), &way.one_way_delay_ms);
        Sample::Measured(Box::new(Measured {
            sent,
            lost,
            figures,
            path: Path {
                address: Some(result.to.clone()),
                ttl: result.ttl_at_reflector.map(|ttl| ttl.max),
                ..Path::default()
            },
            hole_s: None,
            doubts: result.doubts.clone(),
        }))
    })
}

/// A delay that counts from the shortest one says nothing about another stream's.
fn with_delay(figures: Figures, delay: &OneWayDelay) -> Figures {
    if delay.reference != Some(DelayReference::Absolute) {
        return figures;
    }
    figures
        .with(Metric::Delay, delay.quantiles.p50)
        .with(Metric::DelayP99, delay.quantiles.p99)
        .with(Metric::DelayError, delay.error_ms)
}

#[cfg(test)]
mod tests {
    use giusto::{
        call::record::CallFigures,
        measured::result::{ClockFigures, Quantiles},
        record::{Distribution, FlowRecord, RunRecord},
    };

    use super::*;

    fn measured(run: RunResult) -> Measured {
        let outcome = Outcome { results: Results::Streams(vec![run]), failure: None };
        match samples(outcome, "192.0.2.1:5005") {
            (Sample::Measured(measured), None) => *measured,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stream_that_failed_is_unknown_not_lossless() {
        let run = RunResult { sent_packets: Some(100), lost_packets: Some(0), ..RunResult::default() };
        let outcome = Outcome { results: Results::Streams(vec![run]), failure: Some("gone".to_owned()) };
        assert_eq!(samples(outcome, "h"), (Sample::Unknown("gone".to_owned()), None));
        let nothing = Outcome { results: Results::Streams(Vec::new()), failure: None };
        assert!(matches!(samples(nothing, "h"), (Sample::Unknown(_), None)));
    }

    #[test]
    fn only_absolute_delays_are_kept_with_their_errors() {
        let quantiles = Quantiles { p50: Some(7.0), p99: Some(9.0), ..Quantiles::default() };
        let clock = ClockFigures { offset_ms: Some(-3.0), uncertainty_ms: Some(0.5), drift_ppm: None };
        let run = |reference| {
            let (reference, error_ms) = (Some(reference), Some(0.5));
            let one_way_delay_ms = OneWayDelay { reference, error_ms, quantiles, ..OneWayDelay::default() };
            RunResult { one_way_delay_ms, clock: Some(clock), ..RunResult::default() }
        };
        let absolute = measured(run(DelayReference::Absolute)).all();
        let delays = [Metric::Delay, Metric::DelayP99, Metric::DelayError].map(|metric| absolute.of(metric));
        assert_eq!(delays, [7.0, 9.0, 0.5].map(Some));
        let clocks = [Metric::ClockOffset, Metric::ClockError].map(|metric| absolute.of(metric));
        assert_eq!(clocks, [-3.0, 0.5].map(Some));
        let relative = measured(run(DelayReference::Relative)).all();
        assert_eq!([Metric::Delay, Metric::Loss].map(|m| relative.of(m)), [None, None]);
    }

    #[test]
    fn a_call_without_the_far_ends_report_is_unknown() {
        let frame_delay_ms = Some(Distribution { p50: 20.0, p99: 90.0, ..Distribution::default() });
        let (sent_packets, lost_packets) = (200, 10);
        let flow = FlowRecord {
            sent_packets,
            lost_packets,
            frame_delay_ms,
            received_rate_bps: 400e3,
            ..FlowRecord::default()
        };
        let run = RunRecord { flows: vec![flow], ..RunRecord::default() };
        let call = |error: Option<&str>, unreported: Option<&str>| {
            let [error, unreported] = [error, unreported].map(|text| text.map(str::to_owned));
            let call = CallFigures { error, unreported, ..CallFigures::default() };
            of_call(&CallRecord { run: run.clone(), call }, DataRate::from_bps(1_000_000))
        };
        let Sample::Measured(measured) = call(None, None) else { panic!("it is known") };
        let all = measured.all();
        let metrics = [Metric::Loss, Metric::Use, Metric::Rate, Metric::FrameDelay, Metric::FrameDelayP99];
        assert_eq!(metrics.map(|metric| all.of(metric)), [0.05, 0.4, 400e3, 20.0, 90.0].map(Some));
        assert_eq!(all.of(Metric::Rtt), None);
        assert_eq!(call(Some("silent"), None), Sample::Unknown("silent".to_owned()));
        assert_eq!(call(None, Some("no report")), Sample::Unknown("no report".to_owned()));
        let nothing = CallRecord { run: RunRecord::default(), call: CallFigures::default() };
        assert!(matches!(of_call(&nothing, DataRate::from_bps(1)), Sample::Unknown(_)));
    }
}
