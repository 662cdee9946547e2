//! `nada:ns3` against the authors' module (cisco/ns3-rmcat, adb3f8e of 2020), which was given the same history.

use crate::nada::{Config, Nada};
use crate::testing::prelude::*;

const SIZE: DataSize = DataSize::from_bytes(1250);

/// Queueing delay, in ms, of the packet that is sent at `sent` ms, one of each 10 ms.
fn queue(sent: u64) -> u64 {
    match sent {
        0..3000 | 20_000..21_000 => 0,
        // Below the threshold of the ramp-up.
        3000..6000 => 8 * (sent / 10 % 2),
        6000..9000 => (sent - 6000) / 50,
        9000..20_000 => 60,
        // One sample in fifty, above the threshold.
        _ => match sent / 10 % 50 {
            7 => 12,
            8 => 4,
            _ => 0,
        },
    }
}

/// Nothing is sent for 100 ms, so that the queue empties without reordering.
fn is_sent(at: u64) -> bool {
    !(20_000..20_100).contains(&at)
}

fn number(sent: u64) -> u64 {
    if sent < 20_000 { sent / 10 } else { sent / 10 - 10 }
}

fn is_lost(sent: u64) -> bool {
    match sent {
        10_000..16_000 => (sent / 10).is_multiple_of(20),
        26_000..30_000 => (sent / 10).is_multiple_of(5),
        _ => false,
    }
}

/// Runs the history: feedback every 100 ms. Returns the time in ms, the signal in ms, and the rate in kbit/s after each.
fn run(mut controller: Nada) -> Vec<(u64, f64, f64)> {
    let packet = |ms| SentPacket::new(number(ms), at(ms), SIZE);
    controller.on_timeout(at(0), &QueueState::default());
    let (mut decisions, mut next) = (Vec::new(), 0);
    for now in (0..=34_000).step_by(5) {
        if now % 10 == 0 && is_sent(now) {
            controller.on_sent(at(now), &packet(now));
        }
        if now < 175 || now % 100 != 75 {
            continue;
        }
        let mut packets = Vec::new();
        while next + 40 + queue(next) <= now {
            if is_sent(next) {
                let arrival = (!is_lost(next)).then_some(peer_at(next + 20 + queue(next)));
                packets.push(PacketReport::new(packet(next), arrival));
            }
            next += 10;
        }
        feed(&mut controller, at(now), &packets);
        let report = controller.report().map_or(f64::NAN, |report| report.signal_ms);
        decisions.push((now, report, controller.reference_rate().as_bps() as f64 / 1e3));
    }
    decisions
}

/// Time in ms, `m_Xcurr` in ms, `m_currBw` in kbit/s. The module got each message 1 µs earlier than the one before: when a message comes
/// 100 ms after the previous update, it updates at the first packet of the message and not at the last.
const AUTHORS: &str = "\
1175 0.0000 1189.4  5175 0.0000 1202.1  7675 29.0000 1134.5  9175 58.0000 976.6
10175 45.6419 918.8  11175 147.4529 645.0  12175 239.3375 376.2  13175 278.2446 226.0
14675 285.4320 150.0  16675 143.6373 177.1  17675 57.2045 208.2  19675 45.4187 231.3
20175 0.0617 259.1  20675 0.0215 1189.4  22175 0.0009 1222.4  25675 0.0000 1327.4
26175 6.0862 1324.4  26675 500.0000 308.4  27175 500.0000 194.4  28175 500.0000 150.0
31675 187.4918 222.7  32675 22.7946 300.1  33675 2.7713 337.2";

#[test]
fn signal_and_rate_are_those_of_the_authors_module() {
    let limits = limits(150, 300, 1500);
    let decisions = run(Nada::new(Config::ns3(limits)));
    let published: Vec<f64> = AUTHORS.split_whitespace().map(|number| number.parse().unwrap()).collect();
    for row in published.chunks(3) {
        let (at, signal, rate) = (row[0] as u64, row[1], row[2]);
        let &(_, found, bps) = decisions.iter().find(|decision| decision.0 == at).unwrap();
        assert!((found - signal).abs() < 2e-4, "{at} ms: signal {found} instead of {signal}");
        // The module divides by the time between two arrivals, 490 ms without jitter of 8 ms: so differ the rates after a ramp-up.
        assert!((bps / rate - 1.0).abs() < 8.0 / 490.0, "{at} ms: {bps} instead of {rate} kbit/s");
    }
    // The RFC's law differs: its signal of 20 % loss is the maximum of the wire format, and it is smoothed over 10 packets, not 1 s.
    let decisions = run(Nada::new(Config::within(limits)));
    near(decisions.iter().map(|decision| decision.1).fold(0.0, f64::max), 3276.7, 1e-9);
    within(decisions.iter().find(|decision| decision.0 == 11_175).unwrap().1, 1.3 * 147.4529..);
}
