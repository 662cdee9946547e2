//! Publisher, relay and watcher across links in real time.

use std::{
    net::{Ipv4Addr, SocketAddr},
    ops::{ControlFlow, Range},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use giusto_net::{
    Clock,
    emulate::{self, Emulator, LiveConfig, Start, UdpPair, UdpRelay},
};
use giusto_sim::{
    link::{
        Link, LinkConfig,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    packet::LinkId,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use crate::{
    film::Film,
    publish::{self, Published},
    relay::Relay,
    watch::{self, Figures, Frame},
};

const LOCALHOST: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// Publishes across a link of these capacities in kbit/s, 5 s each, with 30 ms each way and a queue of 500 ms, to a relay; and watches from
/// there. Returns what both sides saw.
async fn broadcast(controller: &'static str, film: Film, capacities: &[u64]) -> (Published, Vec<Frame>) {
    let relay = Relay::bind(LOCALHOST.into()).unwrap();
    let endpoint = relay.0.clone();
    let target = endpoint.local_addr().unwrap();
    let running = tokio::spawn(relay.run());
    let clock = Clock::start();
    let mut shell = UdpRelay::new(&[UdpPair { listen: SocketAddr::from(LOCALHOST), target }], clock).unwrap();
    let near = shell.addresses().next().unwrap();
    let steps = (0..)
        .zip(capacities)
        .map(|(index, &kbps)| (Timestamp::from_nanos(index * 5_000_000_000), DataRate::from_bps(kbps * 1000)));
    let there = LinkConfig {
        rate: RateProfile::Steps { steps: steps.collect(), period: None },
        delay: TimeDelta::from_millis(30).into(),
        ..LinkConfig::default()
    };
    let back = LinkConfig { delay: TimeDelta::from_millis(30).into(), ..LinkConfig::default() };
    let link = |id, config, limit| Link::new(LinkId(id), config, Box::new(DropTail::new(limit)), 1, "link").unwrap();
    let links = vec![link(0, &there, Limit::Time(TimeDelta::from_millis(500))), link(1, &back, Limit::Unlimited)];
    let routes = vec![vec![LinkId(0)], vec![LinkId(1)]];
    let mut emulator = Emulator::new(links, routes, DataSize::from_bytes(10_000_000)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let live = LiveConfig {
        start: Start::First(|_| true),
        stop: Some(Arc::clone(&stop)),
        clock: Some(clock),
        ..LiveConfig::default()
    };
    let emulation = thread::spawn(move || {
        emulate::run(&mut shell, &mut emulator, &mut (), &live, |_, _, _| ControlFlow::Continue(()));
    });
    let watching = tokio::spawn(async move { watch::watch(target).await });
    let duration = Duration::from_secs(5 * capacities.len() as u64);
    let published = publish::publish(near, controller, film, duration, |_| {}).await.unwrap();
    let frames = watching.await.unwrap().unwrap();
    stop.store(true, Relaxed);
    emulation.join().unwrap();
    endpoint.close(0_u32.into(), b"the end");
    running.await.unwrap().unwrap();
    (published, frames)
}

/// Those captured in these seconds after the first.
fn within(frames: &[Frame], seconds: Range<u64>) -> Vec<Frame> {
    let start = frames[0].captured;
    let times = Duration::from_secs(seconds.start)..Duration::from_secs(seconds.end);
    frames.iter().filter(|frame| times.contains(&(frame.captured - start))).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broadcast_follows_the_capacity_down_and_up_with_less_delay_than_cubic() {
    let capacities = &[3000, 1000, 3000];
    let (ours, cubic) = tokio::join!(
        tokio::spawn(broadcast("tempo", Film::made(), capacities)),
        tokio::spawn(broadcast("cubic", Film::made(), capacities))
    );
    let ((published, ours), (_, cubic)) = (ours.unwrap(), cubic.unwrap());
    println!("tempo: {published}\n{}\ncubic: {}", Figures::of(&ours), Figures::of(&cubic));
    for seconds in [3..5, 7..10, 12..15] {
        println!("{seconds:?} tempo {}\n cubic {}", Figures::of(&within(&ours, seconds.clone())), Figures::of(&within(&cubic, seconds.clone())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_film_changes_its_file_with_the_capacity() {
    let files = [&include_bytes!("../../webrtc/tests/data/low.ivf")[..], include_bytes!("../../webrtc/tests/data/high.ivf")].map(<[u8]>::to_vec);
    let (published, frames) = broadcast("tempo", Film::of_files(&files).unwrap(), &[500, 130, 500]).await;
    println!("{published}\n{}", Figures::of(&frames));
    for seconds in [3..5, 7..10, 12..15] {
        println!("{seconds:?} tempo {}", Figures::of(&within(&frames, seconds.clone())));
    }
}
