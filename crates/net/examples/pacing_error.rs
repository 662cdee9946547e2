//! Precision of sending on this machine, and its cost: one datagram per period, in each mode of the sleeper.
//!
//! ```text
//! cargo run --release -p giusto-net --example pacing_error -- [PERIOD_US] [SECONDS] [REPEAT] [FIFO_PRIORITY]
//! ```
//!
//! The schedule error is the time directly before the send minus the deadline.

use std::error::Error;

use giusto_net::{Clock, SleepMode, Sleeper, SleeperConfig, SocketConfig, ThreadCpu, UdpSocket};
use giusto_units::TimeDelta;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let mut number = |default: i64| words.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let (period, seconds, repeat, priority) = (number(1000), number(2), number(3), number(0));
    println!(
        "mode      p50 us   p90 us   p99 us  p999 us   max us   cpu %   leads us           wake p50/p90/p99 us   spun ms"
    );
    for _ in 0..repeat {
        for mode in [SleepMode::Precise, SleepMode::Balanced, SleepMode::Eco] {
            let config = SleeperConfig {
                mode,
                realtime_priority: u8::try_from(priority).ok().filter(|&p| p > 0),
                stop: None,
            };
            std::thread::spawn(move || run(config, TimeDelta::from_micros(period), seconds))
                .join()
                .map_err(|_| "the sender died")?
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn run(config: SleeperConfig, period: TimeDelta, seconds: i64) -> Result<(), Box<dyn Error + Send + Sync>> {
    let quiet = SocketConfig::default();
    let receiver = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &quiet)?;
    let sender = UdpSocket::connected(receiver.local_addr(), &quiet)?;
    let clock = Clock::start();
    let mode = config.mode;
    let mut sleeper = Sleeper::new(config);
    let (cpu, begin) = (ThreadCpu::start(), clock.now());
    let count = seconds * 1_000_000_000 / period.as_nanos();
    let mut errors: Vec<i64> = Vec::with_capacity(count as usize);
    for n in 1..=count {
        let deadline = begin + period * n;
        sleeper.until(clock, deadline);
        let now = clock.now();
        sender.send(&[0; 200])?;
        errors.push((now - deadline).as_nanos());
    }
    let cpu_ratio = cpu.used().as_seconds() / (clock.now() - begin).as_seconds();
    errors.sort_unstable();
    let quantile = |q: f64| {
        let rank = ((errors.len() - 1) as f64 * q).round() as usize;
        errors.get(rank).map_or(0.0, |&error| error as f64 / 1e3)
    };
    let report = sleeper.report();
    println!(
        "{:9}{:7.2} {:8.2} {:8.2} {:8.1} {:8.1} {:7.2}{:7.1}{:7.1}{:7.1}{:8.1}{:7.1}{:7.1}{:10.1}",
        format!("{mode:?}"),
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        quantile(0.999),
        quantile(1.0),
        cpu_ratio * 100.0,
        report.short_sleep_lead_us,
        report.lead_us,
        report.long_sleep_lead_us,
        report.wake_latency_p50_us,
        report.wake_latency_p90_us,
        report.wake_latency_p99_us,
        report.spun_ms,
    );
    Ok(())
}
