//! Number of datagrams per second that the stamping relay forwards, from a sender to a receiver on loopback.
//!
//! ```text
//! cargo run --release -p giusto-net --example relay_throughput -- [SIZE [SECONDS]]
//! ```

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use giusto_net::{
    Clock, Grouping, ReceiveBatch, SocketConfig, UdpSocket, Wait,
    emulate::{RelayConfig, StampingRelay},
};
use giusto_units::TimeDelta;

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map_while(|word| word.parse::<usize>().ok());
    let size = numbers.next().unwrap_or(200).clamp(1, 65_507);
    let seconds = numbers.next().unwrap_or(2).max(1);

    let config = SocketConfig { gro: true, ..SocketConfig::default() };
    let receiver = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &config)?;
    let clock = Clock::start();
    let (observed, drops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (seen, missed) = (Arc::clone(&observed), Arc::clone(&drops));
    let relay = StampingRelay::start(
        clock,
        &RelayConfig { target: receiver.local_addr().port(), ..RelayConfig::default() },
        move |datagram| {
            seen.fetch_add(1, Relaxed);
            missed.fetch_add(datagram.kernel_dropped.into(), Relaxed);
        },
    )?;
    let sender = UdpSocket::connected(([127, 0, 0, 1], relay.port()).into(), &SocketConfig::default())?;
    let done = AtomicBool::new(false);
    let (received, sent, elapsed) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut batch = ReceiveBatch::new(8, 65_535);
            let mut received = 0;
            while !done.load(Relaxed) {
                if receiver.recv_batch(&mut batch, Wait::For(Duration::from_millis(50))).is_err() {
                    break;
                }
                received += batch.iter().map(|message| message.datagrams().count() as u64).sum::<u64>();
            }
            received
        });
        let bytes = vec![7; 8 * size];
        let (begin, mut sent) = (clock.now(), 0);
        while clock.now() - begin < TimeDelta::from_seconds(seconds as i64) {
            sent += sender.send_segments(None, &bytes, size, Grouping::Each).unwrap_or(0) as u64;
        }
        let elapsed = clock.now() - begin;
        done.store(true, Relaxed);
        (receiving.join().unwrap_or(0), sent, elapsed)
    });
    let report = relay.stop();
    let per_second = |count: u64| count as f64 / elapsed.as_seconds() / 1e3;
    println!(
        "{size} B for {seconds} s, in 1000/s: sent {:.0}, observed {:.0}, passed on {:.0}, received {:.0}; \
         dropped by the kernel before the relay {} ({} of them reported with datagrams)",
        per_second(sent),
        per_second(observed.load(Relaxed)),
        per_second(report.to_server_packets),
        per_second(received),
        report.kernel_dropped_packets,
        drops.load(Relaxed),
    );
    Ok(())
}
