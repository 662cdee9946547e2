//! Several flows in one queue: shares in the ratio of the weights (RFC 8698 §4.3).

use crate::nada::{Config, ReceivedMedia, Receiver, ReceiverConfig, reference_rate::ReferenceRate};
use crate::testing::prelude::*;

/// Runs a fluid flow for each weight and maximum in Mbit/s through one queue of `mbps`, with packets each 5 ms and a one-way delay of
/// 20 ms. Returns the rate of each in Mbit/s, and the queueing delay in ms, at the end.
fn shared(mbps: f64, flows: &[(f64, u64)], begins_ms: &[u64], seconds: u64) -> (Vec<f64>, f64) {
    const STEP_MS: u64 = 5;
    let config = |&(priority, max)| Config { priority, ..Config::within(limits(50, 150, max * 1000)) };
    let configs: Vec<Config> = flows.iter().map(config).collect();
    let mut rates: Vec<ReferenceRate> =
        configs.iter().map(|config| ReferenceRate::new(at(0), config)).collect();
    let mut receivers: Vec<Receiver> =
        configs.iter().map(|_| Receiver::new(ReceiverConfig::default())).collect();
    let mut backlog_ms = 0.0_f64;
    for now in (0..seconds * 1000).step_by(STEP_MS as usize) {
        let mut bits = 0.0;
        for ((rate, receiver), (config, &begin)) in
            rates.iter_mut().zip(&mut receivers).zip(configs.iter().zip(begins_ms))
        {
            if now < begin {
                continue;
            }
            let bytes = rate.bps() / 8.0 * STEP_MS as f64 / 1e3;
            bits += bytes * 8.0;
            // The packets see the queue before them; their report takes 40 ms both ways, which a rate of some steps ago stands for.
            let packet = ReceivedMedia {
                delay: TimeDelta::from_seconds_f64((backlog_ms + 20.0) / 1e3),
                size: DataSize::from_bytes(bytes.round() as u64),
                missing: Some(0),
                is_marked: false,
            };
            receiver.on_packet(at(now), &packet);
            if let Some(report) = receiver.poll_report(at(now)) {
                rate.on_report(at(now), config, &report, TimeDelta::from_millis(40));
            }
        }
        backlog_ms = (backlog_ms + bits / (mbps * 1e3) - STEP_MS as f64).max(0.0);
    }
    (rates.iter().map(|rate| rate.bps() / 1e6).collect(), backlog_ms)
}

#[test]
fn two_flows_share_in_the_ratio_of_their_weights() {
    for (weights, expected) in [([1.0, 1.0], 1.0), ([2.0, 1.0], 2.0), ([3.0, 1.0], 3.0)] {
        let _case = Case(weights);
        let flows = weights.map(|weight| (weight, 3));
        let (rates, queue) = shared(2.0, &flows, &[0, 0], 300);
        near(rates[0] / rates[1] / expected, 1.0, 0.05);
        near(rates[0] + rates[1], 2.0, 0.02);
        // The sum of the rates is the link: x = XREF × Σ (PRIO × RMAX) / C.
        let theory = 10.0 * (weights[0] + weights[1]) * 3.0 / 2.0;
        near(queue / theory, 1.0, 0.1);
    }
}

#[test]
fn two_flows_share_in_the_ratio_of_their_maxima() {
    let (rates, _) = shared(2.0, &[(1.0, 4), (1.0, 2)], &[0, 0], 300);
    near(rates[0] / rates[1] / 2.0, 1.0, 0.05);
}

#[test]
fn a_late_comer_takes_the_standing_queue_for_its_base_delay() {
    // §6.1: "slightly unfair". Its x is lower by the queue that it met, so it gets more.
    let (rates, _) = shared(2.0, &[(1.0, 3), (1.0, 3)], &[0, 60_000], 400);
    within(rates[1], 1.2 * rates[0]..);
    near(rates[0] + rates[1], 2.0, 0.02);
}
