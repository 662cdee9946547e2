//! Throughput of one sender thread and one receiver thread over loopback. Each datagram has a header of 36
//! bytes that the sender writes and the receiver parses.
//!
//! ```text
//! cargo run --release -p giusto-net --example loopback_throughput -- [KEY=VALUE]...
//! ```
//!
//! Keys: `size` (1200 bytes), `group` (54 datagrams per send call), `grouping` (`offload` or `each`), `gro`
//! (1 or 0), `messages` (8 per receive call), `rate_mbps` (0 for as fast as possible), `ms` (1000), `repeat`
//! (5), `nap_us` (100; duration of the sleep after a receive call without messages, or 0 to wait in `poll`),
//! `spin` (1 to call again at once instead), `buffer_bytes` (4000000, the receive buffer), `mode` (`precise`,
//! `balanced`, `eco`).
//!
//! Results with two processors and no other load. The sender is the bottleneck, mainly the copy to the
//! kernel's pages, which the receiver's processor has just read:
//!
//! - A receiver that sleeps for 20 to 300 µs gets 53 to 57 Gbit/s in the median, most runs without loss. One
//!   that waits in `poll` gets 47, with losses, because the sender then has to wake it; one that spins also
//!   gets 47.
//! - Messages of 54 datagrams give 1.3 times the throughput of messages of 27.
//! - The number of messages per receive call, a receive buffer between 1 and 12 MB and the alignment of the buffers make no
//!   difference.
//! - With `UDP_SEGMENT` but without `UDP_GRO` it is 9 Gbit/s, with neither 4: each datagram then takes about
//!   2 µs.

use std::{
    collections::BTreeMap,
    error::Error,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use giusto_net::{
    Clock, Grouping, ReceiveBatch, SendError, SleepMode, Sleeper, SleeperConfig, SocketConfig,
    StampConverter, ThreadCpu, UdpSocket, Wait,
};
use giusto_units::{DataSize, TimeDelta, Timestamp};

const HEADER: usize = 36;
const MAGIC: u32 = 0x6769_7573;

type Keys = BTreeMap<String, String>;

/// Results of the receiver.
#[derive(Default)]
struct Tally {
    bytes: u64,
    datagrams: u64,
    missing: u64,
    calls: u64,
    messages: u64,
    delay_ns: i64,
    first: Timestamp,
    last: Timestamp,
    cpu_ratio: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let keys: Keys = std::env::args()
        .skip(1)
        .filter_map(|word| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())))
        .collect();
    let repeat = number(&keys, "repeat", 5);
    let mut rates = Vec::new();
    for _ in 0..repeat {
        rates.push(run(&keys)?);
    }
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().unwrap_or_default();
    println!("median {median:.2} Gbit/s of payload received in {repeat} runs");
    Ok(())
}

fn number(keys: &Keys, key: &str, default: u64) -> u64 {
    keys.get(key).and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn run(keys: &Keys) -> Result<f64, Box<dyn Error>> {
    let config = SocketConfig {
        gro: number(keys, "gro", 1) == 1,
        receive_buffer: Some(DataSize::from_bytes(number(keys, "buffer_bytes", 4_000_000))),
        ..SocketConfig::default()
    };
    let receiver = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &config)?;
    let sender = UdpSocket::connected(receiver.local_addr(), &config)?;
    let (clock, done) = (Clock::start(), AtomicBool::new(false));
    let (tally, sent) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&receiver, keys, clock, &done));
        let sending = scope.spawn(|| send(&sender, keys, clock));
        let sent = sending.join();
        done.store(true, Relaxed);
        (receiving.join(), sent)
    });
    let tally = tally.map_err(|_| "the receiver died")??;
    let (sent, sender_cpu) = sent.map_err(|_| "the sender died")??;
    let seconds = (tally.last - tally.first).as_seconds();
    let rate = tally.bytes as f64 * 8.0 / seconds / 1e9;
    println!(
        "{rate:6.2} Gbit/s  sent {sent}  lost {}  ({} messages dropped)  per call {:.1} messages  per message {:.1} \
         datagrams  delay {:.1} us  cpu sender {:.1} %  receiver {:.1} %",
        sent.saturating_sub(tally.datagrams),
        receiver.dropped_messages()?,
        tally.messages as f64 / tally.calls.max(1) as f64,
        tally.datagrams as f64 / tally.messages.max(1) as f64,
        tally.delay_ns as f64 / tally.datagrams.max(1) as f64 / 1e3,
        sender_cpu * 100.0,
        tally.cpu_ratio * 100.0,
    );
    Ok(rate)
}

fn send(socket: &UdpSocket, keys: &Keys, clock: Clock) -> Result<(u64, f64), SendError> {
    let size = number(keys, "size", 1200) as usize;
    let group = number(keys, "group", 54) as usize;
    let grouping = match keys.get("grouping").map(String::as_str) {
        Some("each") => Grouping::Each,
        _ => Grouping::Offload,
    };
    let rate = number(keys, "rate_mbps", 0) * 1_000_000;
    let period = TimeDelta::from_nanos((group * size * 8) as i64 * 1_000_000_000 / rate.max(1) as i64);
    let mode = match keys.get("mode").map(String::as_str) {
        Some("precise") => SleepMode::Precise,
        Some("eco") => SleepMode::Eco,
        _ => SleepMode::Balanced,
    };
    let mut sleeper = Sleeper::new(SleeperConfig { mode, ..SleeperConfig::default() });
    let mut bytes = vec![0; group * size];
    let (cpu, begin) = (ThreadCpu::start(), clock.now());
    let end = begin + TimeDelta::from_millis(number(keys, "ms", 1000) as i64);
    let (mut sequence, mut due) = (0_u64, begin);
    loop {
        let now = if rate > 0 { sleeper.until(clock, due) } else { clock.now() };
        due = if rate > 0 { due } else { now };
        if now >= end {
            break;
        }
        for datagram in bytes.chunks_exact_mut(size) {
            let Some(header) = datagram.first_chunk_mut::<HEADER>() else { continue };
            header[0..4].copy_from_slice(&MAGIC.to_be_bytes());
            header[4..12].copy_from_slice(&sequence.to_be_bytes());
            header[12..20].copy_from_slice(&due.as_nanos().to_be_bytes());
            header[20..28].copy_from_slice(&now.as_nanos().to_be_bytes());
            sequence += 1;
        }
        socket.send_segments(None, &bytes, size, grouping)?;
        due += if rate > 0 { period } else { TimeDelta::ZERO };
    }
    Ok((sequence, cpu.used().as_seconds() / (clock.now() - begin).as_seconds()))
}

fn receive(socket: &UdpSocket, keys: &Keys, clock: Clock, done: &AtomicBool) -> std::io::Result<Tally> {
    let nap = TimeDelta::from_micros(number(keys, "nap_us", 100) as i64);
    let spins = number(keys, "spin", 0) == 1;
    let naps = !spins && nap > TimeDelta::ZERO;
    let wait = if spins || naps { Wait::Never } else { Wait::For(Duration::from_millis(50)) };
    let messages = number(keys, "messages", 8) as usize;
    let stride = if number(keys, "gro", 1) == 1 { 65_535 } else { 2048 };
    let mut batch = ReceiveBatch::new(messages, stride);
    let mut stamps = StampConverter::new(clock);
    let mut sleeper = Sleeper::new(SleeperConfig { mode: SleepMode::Eco, ..SleeperConfig::default() });
    let (cpu, begin) = (ThreadCpu::start(), clock.now());
    let (mut tally, mut expected) = (Tally::default(), 0);
    loop {
        let finishing = done.load(Relaxed);
        if socket.recv_batch(&mut batch, wait)? == 0 {
            if finishing {
                break;
            }
            if naps {
                sleeper.for_span(clock, nap);
            }
            continue;
        }
        let now = clock.now();
        if tally.calls == 0 {
            tally.first = now;
        }
        tally.last = now;
        tally.calls += 1;
        stamps.refresh(now);
        for received in batch.iter() {
            tally.messages += 1;
            let arrival = received.stamp.map_or(now, |stamp| stamps.convert(stamp, now));
            for datagram in received.datagrams() {
                let Some(header) = datagram.first_chunk::<HEADER>() else { continue };
                let field = |at: usize| {
                    header.get(at..at + 8).and_then(|f| f.try_into().ok()).map(u64::from_be_bytes)
                };
                let [a, b, c, d, ..] = *header;
                let (Some(sequence), Some(due), Some(left)) = (field(4), field(12), field(20)) else {
                    continue;
                };
                if u32::from_be_bytes([a, b, c, d]) != MAGIC || due > left + 1_000_000_000 {
                    continue;
                }
                tally.missing += sequence.saturating_sub(expected);
                expected = sequence + 1;
                tally.delay_ns += (arrival - Timestamp::from_nanos(left)).as_nanos();
                tally.bytes += datagram.len() as u64;
                tally.datagrams += 1;
            }
        }
    }
    tally.cpu_ratio = cpu.used().as_seconds() / (clock.now() - begin).as_seconds();
    Ok(tally)
}
