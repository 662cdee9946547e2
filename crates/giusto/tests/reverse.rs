//! Streams in the reverse direction, over loopback.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use giusto::measured::{
    RunError,
    plan::{Layout, Media, ResolvedPlan, StreamPlan},
    recv::{self, Reception, ReceptionConfig},
    result::RunResult,
    send::Destination,
};
use giusto_net::driver::Verdict;
use giusto_pace::{IpVersion, Limits};
use giusto_session::{
    keys::KeyRing,
    probe::{Ended, ReceiverConfig, ReceiverEvent, payload::PayloadSizes},
};
use giusto_units::{DataRate, DataSize};

const PACKETS: u64 = 200;

fn plan(rate: Option<DataRate>, layout: Layout) -> ResolvedPlan {
    let size = DataSize::from_bytes(500);
    let limits = Limits::default().with_packets(PACKETS);
    let plan = StreamPlan::constant(rate, size, limits);
    let media = Media::Filler(layout, PayloadSizes::Fixed(size));
    StreamPlan { media, ..plan }.resolve(IpVersion::V4).unwrap()
}

fn destination(to: SocketAddr, keys: Option<KeyRing>) -> Destination {
    Destination { keys, ..Destination::new(to) }
}

/// Runs a listening end while `ask` runs with its address. Returns what `ask` returns, and the streams that were sent.
fn beside_a_listener<T>(
    receiver: ReceiverConfig,
    ask: impl FnOnce(SocketAddr) -> T,
) -> (T, Vec<Result<RunResult, RunError>>) {
    let mut listening = Reception::open(&ReceptionConfig { receiver, ..ReceptionConfig::default() }).unwrap();
    let (to, sent, done) = (listening.socket.local_addr(), listening.reverse.clone(), AtomicBool::new(false));
    let answer = thread::scope(|scope| {
        scope.spawn(|| listening.run(&done, |_, _| Verdict::Continue).unwrap());
        let answer = ask(to);
        // The sender ends a moment after who measures: it waits for the last report.
        while !sent.is_idle() {
            thread::yield_now();
        }
        done.store(true, Relaxed);
        answer
    });
    (answer, sent.take().into_iter().map(|(_, outcome)| outcome).collect())
}

/// Measures the stream that was asked for.
fn measure(plan: &ResolvedPlan, destination: &Destination) -> Result<(Option<Ended>, RunResult), RunError> {
    let stop = AtomicBool::new(false);
    let mut reception = Reception::ask(plan, destination, &stop)?;
    let granted = reception.socket.granted();
    let mut closed = None;
    reception.run(&stop, |receiver, event| {
        if let Some(ReceiverEvent::Closed(_, mut stream)) = event {
            closed = Some((stream.ended(), recv::result(&mut stream, receiver.cpu_ratio(), &granted)));
        }
        if closed.is_some() { Verdict::Stop } else { Verdict::Continue }
    })?;
    Ok(closed.unwrap())
}

fn config() -> ReceiverConfig {
    ReceptionConfig::default().receiver
}

#[test]
fn the_listening_end_sends_what_it_was_asked_for() {
    let keys = KeyRing::parse(&format!("1 {}", "ab".repeat(32))).unwrap();
    for (keys, layout) in [(None, Layout::Giusto), (Some(keys), Layout::Authenticated)] {
        let receiver = ReceiverConfig { keys: keys.clone(), ..config() };
        let plan = plan(Some(DataRate::from_bps(2_000_000)), layout);
        let (measured, sent) =
            beside_a_listener(receiver, |to| measure(&plan, &destination(to, keys.clone())));
        let (ended, measured) = measured.unwrap();
        let sent = sent.into_iter().next().unwrap().unwrap();
        assert_eq!(ended, Some(Ended::Finished));
        assert_eq!((measured.received_packets, measured.lost_packets), (Some(PACKETS), Some(0)));
        assert_eq!(measured.size_bytes, Some(500));
        assert_eq!(measured.authenticated, Some(keys.is_some()));
        assert_eq!((sent.sent_packets, sent.received_packets), (Some(PACKETS), Some(PACKETS)));
        assert!(measured.one_way_delay_ms.quantiles.min.is_some_and(|ms| ms > 0.0), "one clock at both ends");
    }
}

#[test]
fn who_has_no_key_gets_no_fast_stream_and_few_at_once() {
    let limited = || ReceiverConfig { max_reverse_rate: DataRate::from_bps(2_000_000), ..config() };
    let none = ReceiverConfig { max_reverse: 0, ..config() };
    for (receiver, bps, expected) in [
        (limited(), Some(2_000_001), "it sends at most 2 Mbit/s"),
        (limited(), None, "it sends at most 2 Mbit/s"),
        (none, Some(1_000_000), "it sends no stream now"),
    ] {
        let plan = plan(bps.map(DataRate::from_bps), Layout::Giusto);
        let (measured, sent) = beside_a_listener(receiver, |to| measure(&plan, &destination(to, None)));
        let error = measured.unwrap_err().to_string();
        assert!(sent.is_empty() && error.contains(expected), "{error}");
    }
}
