//! Sends UDP datagrams at 4 Mbit/s over loopback for 250 ms, and prints the rate.

#![expect(clippy::disallowed_methods, reason = "a program outside the simulator has a clock and sleeps")]

use std::{error::Error, net::UdpSocket, thread::sleep, time::Instant};

use giusto_pace::{
    Bounded, CyclePlan, CycleRule, Grid, GridConfig, HeaderLayer, IpVersion, Limits, Schedule, Step,
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;

    let (rate, payload) = ("4 Mbit/s".parse()?, "1000 B".parse()?);
    let plan = CyclePlan::new(rate, payload, HeaderLayer::Payload, IpVersion::V4, CycleRule::Given(1))?;
    let grid = Grid::new(&plan, GridConfig::default());
    let limits = Limits::default().with_duration(TimeDelta::from_millis(250));
    let mut schedule = Bounded::new(Box::new(grid), plan.size_on_layer(), limits);

    let start = Instant::now();
    let now = || Timestamp::from_nanos(start.elapsed().as_nanos() as u64);
    let datagram = [0; 1000];
    loop {
        match schedule.next(now()) {
            Step::Send(cycle) => {
                for _ in 0..cycle.packets {
                    sender.send(&datagram)?;
                }
                schedule.on_sent(now(), plan.size_on_layer() * u64::from(cycle.packets));
            }
            Step::SleepFor(span) => {
                sleep(span.to_std());
                schedule.on_woke(now());
            }
            Step::SleepUntil(moment) => {
                sleep((moment - now()).to_std());
                schedule.on_woke(now());
            }
            Step::Poll => {}
            _ => break,
        }
    }
    let sent = schedule.sent_packets();
    let reached = DataRate::of(plan.size_on_layer() * sent, now() - Timestamp::ZERO);
    println!("{sent} datagrams, {}", reached.ok_or("no time has passed")?);
    Ok(())
}
