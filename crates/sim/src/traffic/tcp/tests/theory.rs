//! Rates against published formulas, over a path of a fixed round trip with no queue.

use rand::RngExt;

use super::*;
use crate::{random, traffic::tcp::Algorithm};

/// The average window in segments, over a path that loses exactly each `period`th packet: what arrives between the third and the
/// last of `cycles` losses, per round trip.
fn window_under_periodic_loss(settings: &Settings, round_trip: TimeDelta, period: u64, cycles: usize) -> f64 {
    let mut network = Network::new(Path::free(round_trip))
        .forward(
            move |n, segment| {
                if segment.length > 0 && n % period == period - 1 { Fate::Lost } else { Fate::Arrives }
            },
        )
        .with(settings, Application::Unlimited);
    while network.lost_at.len() < cycles {
        network.run(network.now + round_trip);
        assert!(network.now < at(100_000.0), "stalled");
    }
    let stats = network.sender().stats();
    assert_eq!(stats.timeouts, 0, "the formulas know no timeouts");
    let (first, last) = (network.lost_at[2], network.lost_at[cycles - 1]);
    let arrived = (cycles - 3) as u64 * (period - 1);
    arrived as f64 / ((last - first).as_seconds() / round_trip.as_seconds())
}

fn settings(algorithm: Algorithm, threshold: f64) -> Settings {
    Settings {
        algorithm,
        timestamps: false,
        initial_threshold: Some(DataSize::from_bytes((threshold * 1460.0) as u64)),
        ..Settings::default()
    }
}

/// `W = sqrt(3 / 2p)`: Mathis et al., "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm", 1997, §2.
fn mathis(loss: f64) -> f64 {
    (1.5 / loss).sqrt()
}

#[track_caller]
fn assert_within(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() < share, "{found:.1} against {expected:.1}");
}

#[test]
fn new_reno_has_the_window_of_mathis_under_periodic_loss() {
    for (period, cycles) in [(10_000, 16), (1000, 60), (200, 200)] {
        let expected = mathis(1.0 / period as f64);
        for (sack, segments_per_ack) in [(true, 1), (true, 2), (false, 1), (false, 2)] {
            let settings = Settings { sack, segments_per_ack, ..settings(Algorithm::NewReno, expected) };
            let found = window_under_periodic_loss(&settings, ms(100), period, cycles);
            println!(
                "period {period} sack {sack} per ack {segments_per_ack}: {found:.1} / {expected:.1} = {:.3}",
                found / expected
            );
        }
    }
}

/// Packets per round trip of TCP with timeouts: Padhye, Firoiu, Towsley, Kurose, "Modeling TCP Throughput", 1998, eq. 32, with
/// one acknowledgement for `b` packets and a timeout of `timeout` round trips.
fn padhye(loss: f64, b: f64, timeout: f64) -> f64 {
    let waiting =
        timeout * (3.0 * (3.0 * b * loss / 8.0).sqrt()).min(1.0) * loss * (1.0 + 32.0 * loss * loss);
    1.0 / ((2.0 * b * loss / 3.0).sqrt() + waiting)
}

#[test]
fn new_reno_under_random_loss_lies_near_the_model_of_padhye() {
    for (loss, seconds) in [(0.001, 2000.0), (0.005, 3000.0), (0.02, 4000.0)] {
        let mut random = random::stream(3, "loss");
        let settings = settings(Algorithm::NewReno, mathis(loss));
        let mut network =
            Network::new(Path::free(ms(100)))
                .forward(move |_, segment| {
                    if segment.length > 0 && random.random_bool(loss) { Fate::Lost } else { Fate::Arrives }
                })
                .with(&settings, Application::Unlimited);
        network.run(at(seconds));
        let stats = network.sender().stats();
        let found = stats.acknowledged as f64 / 1460.0 / (seconds / 0.1);
        // One segment per round trip although acknowledgements are delayed: b = 1. The timeout is 300 ms, three round trips.
        let expected = padhye(loss, 1.0, 3.0);
        println!(
            "loss {loss}: {found:.1} / {expected:.1} = {:.3}, mathis {:.3}, timeouts {} recoveries {}",
            found / expected,
            found / mathis(loss),
            stats.timeouts,
            stats.fast_recoveries
        );
        assert!((0.75..1.25).contains(&(found / expected)), "{found:.1} against {expected:.1}");
    }
}

#[test]
fn cubic_has_the_windows_of_the_tables_of_rfc_8312() {
    // Round trip in ms, 1 / loss rate, average window of CUBIC with C = 0.4 (RFC 8312 §5.1, tables 1 and 2), cycles.
    let table = [
        (100, 100, 12.0, 300),
        (100, 1000, 38.0, 100),
        (100, 10_000, 187.0, 30),
        (100, 100_000, 1054.0, 9),
        (10, 100, 12.0, 300),
        (10, 1000, 38.0, 100),
        (10, 10_000, 120.0, 30),
        (10, 100_000, 379.0, 9),
    ];
    for (round_trip, period, expected, cycles) in table {
        for segments_per_ack in [1, 2] {
            let settings = Settings { segments_per_ack, ..settings(Algorithm::Cubic, expected) };
            let found = window_under_periodic_loss(&settings, ms(round_trip), period, cycles);
            println!(
                "rtt {round_trip} period {period}: {found:.1} / {expected:.1} = {:.3}",
                found / expected
            );
        }
    }
}
