//! Writes every kind of page from invented figures, to look at their shape without measuring:
//! `cargo run --example pages -- DIRECTORY`

use std::path::Path;

use giusto::{
    measured::result::{
        HistogramBin, OneWayDelay, Quantiles, RunPlots, RunResult, SystemGranted, VoiceFigures, median_of,
    },
    view::{
        html::{self, Demo, Report},
        table,
    },
};
use giusto_experiments::firebind::{self, Plan};

/// Numbers that look random and are the same each time (Knuth's MMIX constants).
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
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let first = (low / width).floor() as i64;
    let mut bins: Vec<HistogramBin> = (first..=(high / width).floor() as i64)
        .map(|index| HistogramBin {
            lo_us: index as f64 * width,
            hi_us: (index + 1) as f64 * width,
            count: 0,
        })
        .collect();
    for value in values {
        if let Some(bin) = bins.get_mut(((value / width).floor() as i64 - first) as usize) {
            bin.count += 1;
        }
    }
    bins
}

fn quantiles(values: &[f64]) -> Quantiles {
    let mut sorted: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |q: f64| sorted.get(((sorted.len() - 1) as f64 * q).round() as usize).copied();
    Quantiles { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0) }
}

fn invented(strategy: &str, seed: u64, width_us: f64, error_ppm: f64, cpu: f64) -> (RunResult, RunPlots) {
    let mut noise = Noise(seed);
    let lateness: Vec<f64> = (0..10_000).map(|_| noise.tailed(width_us).abs() + width_us * 0.1).collect();
    let gaps: Vec<f64> = lateness.iter().zip(lateness.iter().skip(1)).map(|(a, b)| 1000.0 + b - a).collect();
    let gap_errors: Vec<f64> = gaps.iter().map(|gap| gap - 1000.0).collect();
    let delays: Vec<(f64, f64)> =
        (0..10_000).map(|i| (f64::from(i) / 1e3, 0.016 + noise.tailed(0.002).abs())).collect();
    let rate = 1_600_000.0 * (1.0 + error_ppm / 1e6);
    let run = RunResult {
        strategy: strategy.to_owned(),
        rate_bps: Some(1_600_000),
        size_bytes: Some(200),
        packets_per_cycle: Some(1),
        period_ns: Some(1_000_000),
        sent_packets: Some(10_000),
        received_packets: Some(10_000),
        lost_packets: Some(0),
        duplicate_packets: Some(0),
        reordered_packets: Some(0),
        tx_rate_bps: Some(rate),
        rx_rate_bps: Some(rate),
        rate_error_ppm: Some(error_ppm),
        schedule_error_us: quantiles(&lateness),
        gap_error_us: quantiles(&gap_errors),
        sender_cpu_ratio: Some(cpu),
        receiver_cpu_ratio: Some(0.03),
        duration_s: Some(10.0),
        loss_ratio: Some(0.0),
        jitter_ms: Some(0.000_7),
        one_way_delay_ms: OneWayDelay {
            basis: Some("one clock".to_owned()),
            min: Some(0.016),
            p50: Some(0.0165),
            p99: Some(0.031),
            p999: Some(0.08),
            max: Some(0.31),
        },
        voice: Some(VoiceFigures {
            codec: Some("G.711".to_owned()),
            scale: Some("narrowband (G.107)".to_owned()),
            r_factor: Some(93.2),
            mos: Some(4.41),
        }),
        system: Some(SystemGranted {
            platform: Some("Linux 6.12 x86_64".to_owned()),
            processors: Some(2),
            timer_slack_ns: Some(1),
            realtime_priority: Some(0),
            memory_locked: Some(true),
            send_buffer_asked_bytes: Some(425_984),
            send_buffer_bytes: Some(425_984),
            receive_buffer_asked_bytes: Some(4_194_304),
            receive_buffer_bytes: Some(425_984),
            send_timestamps: Some("kernel".to_owned()),
            receive_timestamps: Some("kernel".to_owned()),
            segmentation_offload: Some(true),
            receive_offload: Some(true),
            ..SystemGranted::default()
        }),
        ended: Some("duration".to_owned()),
        ..RunResult::default()
    };
    let plots = RunPlots {
        rate_series: (0..100).map(|i| (f64::from(i) / 10.0, rate + noise.tailed(600.0))).collect(),
        gap_histogram: histogram(&gaps, width_us / 2.0),
        schedule_error_histogram: histogram(&lateness, width_us / 20.0),
        one_way_delay_series: delays,
    };
    (run, plots)
}

fn demo() -> Report {
    let (run, plots) = invented("grid", 1, 0.9, 0.2, 0.08);
    let (peer, peer_plots) = invented("iperf3", 4, 55.0, 97.0, 0.03);
    let peer = RunResult { peer: Some("iperf3 3.12".to_owned()), ..median_of(&[peer]) };
    let others = vec![
        invented("send-sleep", 2, 60.0, -51_300.0, 0.02),
        invented("send-compare", 3, 0.4, 101.0, 1.0),
        (peer, peer_plots),
    ];
    let command = "giusto demo --rate 1.6M --size 200 --duration 10s".to_owned();
    report::demo(&Demo { run, plots, others, command })
}

fn accuracy() -> Report {
    let mut runs = Vec::new();
    for (at, rate_bps) in [10_000, 1_000_000, 100_000_000].into_iter().enumerate() {
        for (strategy, width_us, error_ppm, cpu) in
            [("grid", 0.9, 0.3, 0.08), ("send-sleep", 60.0, -410.0, 0.02), ("send-compare", 0.4, 42.0, 1.0)]
        {
            let scale = 1.0 + at as f64;
            let (run, _) = invented(strategy, at as u64, width_us / scale, error_ppm * scale, cpu);
            let rx_rate_bps = Some(rate_bps as f64 * (1.0 + error_ppm * scale / 1e6));
            runs.push(RunResult { rate_bps: Some(rate_bps), rx_rate_bps, repeats: 3, ..run });
        }
    }
    print!("{}", table::runs(&runs, 120));
    report::accuracy(&runs, "giusto cbr --rate 10k,1M,100M --strategy grid,send-sleep,send-compare")
}

fn firebind() -> anyhow::Result<Report> {
    let mut noise = Noise(9);
    let reproduced = firebind::run(Plan::FULL, |config| {
        let cycles = config.row.cycles_in(config.duration);
        let packets = cycles * u64::from(config.row.packets_per_cycle);
        let late_s = 0.000_1 + noise.tailed(0.000_1).abs();
        let span_s = config.row.period().as_nanos() as f64 / 1e9 * (cycles - 1) as f64 + late_s;
        let loopback_limit = if config.row.size.as_bytes() < 1000 { 0.61e9 } else { 2.9e9 };
        let rate = ((packets - 1) * config.row.size.as_bits()) as f64 / span_s;
        Ok(RunResult {
            received_packets: Some(packets),
            lost_packets: Some(0),
            rx_rate_bps: Some(rate.min(loopback_limit * (1.0 + noise.tailed(0.002)))),
            ..RunResult::default()
        })
    })?;
    print!("{}", reproduced.table(120));
    Ok(reproduced.report("giusto reproduce firebind --out firebind.html"))
}

fn main() -> anyhow::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    for (name, page) in [("demo.html", demo()), ("accuracy.html", accuracy()), ("firebind.html", firebind()?)]
    {
        page.write(&Path::new(&directory).join(name))?;
    }
    Ok(())
}
