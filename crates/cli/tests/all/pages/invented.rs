//! Invented results of measurements, with the shapes of real ones.

use giusto::{
    measured::result::{
        HistogramBin, OneWayDelay, Quantiles, RunPlots, RunResult, SystemGranted, VoiceFigures,
    },
    view::html::Demo,
};

/// Numbers that look random and are the same each time (the constants of Knuth's MMIX generator).
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Values around zero, with a heavy tail.
    fn tailed(&mut self, width: f64) -> f64 {
        let u = self.uniform() - 0.5;
        width * u / (0.5005 - u.abs()).powf(0.6)
    }
}

fn histogram(values: &[f64], width: f64) -> Vec<HistogramBin> {
    let class = |value: f64| (value / width).floor() as i64;
    let first = values.iter().map(|&value| class(value)).min().unwrap_or(0);
    let last = values.iter().map(|&value| class(value)).max().unwrap_or(0);
    let bin = |index: i64| {
        let count = values.iter().filter(|&&value| class(value) == index).count() as u64;
        HistogramBin { lo_us: index as f64 * width, hi_us: (index + 1) as f64 * width, count }
    };
    (first..=last).map(bin).collect()
}

fn quantiles(values: &[f64]) -> Quantiles {
    let mut sorted: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |q: f64| sorted.get(((sorted.len() - 1) as f64 * q).round() as usize).copied();
    Quantiles { min: None, p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0) }
}

fn run(strategy: &str, rate_bps: u64, width_us: f64, error_ppm: f64) -> (RunResult, RunPlots) {
    let mut noise = Noise(rate_bps + strategy.len() as u64);
    let late: Vec<f64> = (0..2000).map(|_| noise.tailed(width_us).abs() + width_us * 0.1).collect();
    let gaps: Vec<f64> = late.iter().zip(late.iter().skip(1)).map(|(a, b)| 1000.0 + b - a).collect();
    let gap_errors: Vec<f64> = gaps.iter().map(|gap| gap - 1000.0).collect();
    let rate = rate_bps as f64 * (1.0 + error_ppm / 1e6);
    let result = RunResult {
        strategy: strategy.to_owned(),
        rate_bps: Some(rate_bps),
        size_bytes: Some(200),
        packets_per_cycle: Some(1),
        sent_packets: Some(10_000),
        received_packets: Some(10_000),
        lost_packets: Some(0),
        rx_rate_bps: Some(rate),
        rate_error_ppm: Some(error_ppm),
        schedule_error_us: quantiles(&late),
        gap_error_us: quantiles(&gap_errors),
        sender_cpu_ratio: Some(0.08),
        receiver_cpu_ratio: Some(0.03),
        one_way_delay_ms: OneWayDelay {
            basis: Some("one clock".to_owned()),
            quantiles: Quantiles { p50: Some(0.0165), p99: Some(0.031), ..Quantiles::default() },
            ..OneWayDelay::default()
        },
        voice: Some(VoiceFigures { mos: Some(4.41), ..VoiceFigures::default() }),
        system: Some(SystemGranted {
            platform: Some("Linux 6.12 x86_64".to_owned()),
            processors: Some(2),
            timer_slack_ns: Some(50_000),
            realtime_priority: Some(0),
            receive_buffer_asked_bytes: Some(4_194_304),
            receive_buffer_bytes: Some(425_984),
            ..SystemGranted::default()
        }),
        ..RunResult::default()
    };
    let plots = RunPlots {
        rate_series: (0..100).map(|i| (f64::from(i) / 10.0, rate + noise.tailed(600.0))).collect(),
        gap_histogram: histogram(&gaps, width_us / 2.0),
        schedule_error_histogram: histogram(&late, width_us / 4.0),
        one_way_delay_series: (0..5000)
            .map(|i| (f64::from(i) / 1e3, 0.016 + noise.tailed(0.002).abs()))
            .collect(),
    };
    (result, plots)
}

/// A run with others to compare it with.
pub(crate) fn demo() -> Demo {
    let (first, plots) = run("grid", 1_600_000, 0.9, 0.2);
    let others =
        vec![run("send-sleep", 1_600_000, 60.0, -51_300.0), run("send-compare", 1_600_000, 0.4, 101.0)];
    Demo { run: first, plots, others, command: "giusto demo --rate 1.6M".to_owned(), ..Demo::default() }
}

/// Three senders at three rates.
pub(crate) fn runs() -> Vec<RunResult> {
    let rates = [10_000, 1_000_000, 100_000_000];
    let at_rate = |rate| {
        [("grid", 0.9, 0.3), ("send-sleep", 60.0, -410.0), ("send-compare", 0.4, 42.0)]
            .map(|(name, width, error)| run(name, rate, width, error).0)
    };
    rates.into_iter().flat_map(at_rate).collect()
}
