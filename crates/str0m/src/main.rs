//! A video call of two str0m peers over a path of 3, 1 and again 3 Mbit/s, in virtual time: the encoder follows a controller of
//! `giusto-congestion`, or str0m's own estimate.
//!
//! `cargo run -- tempo` or any other controller by name, `cargo run -- str0m` for the estimate. `rate_control.rs` is the part to copy into
//! a program; this file is a peer that encodes, the path, and the peer at its other end.
//!
//! # What str0m 0.25 permits from outside
//!
//! - Transport-wide feedback is negotiated, numbered and sent without str0m's own estimate. Packets then leave str0m at once, so that the
//!   program can pace them.
//! - Sequence numbers and feedback are seen only as raw packets. These copy every packet: str0m means them for tests.
//! - There is no padding: str0m makes it only for its own estimate. Probes therefore have media alone, and a controller that needs them
//!   after a fall, such as `gcc:libwebrtc`, rises slowly.
//! - str0m's receiver reports no losses between the last packet of one report and the first of the next: some losses remain unknown.
//! - Feedback of RFC 8888 is not supported.

mod rate_control;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    error::Error,
    net::SocketAddr,
    time::{Duration, Instant},
};

use giusto_congestion::{Limits, Reported};
use giusto_sim::{
    link::{
        Link, LinkConfig,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    packet::{BodyId, LinkId, Packet},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};
use rate_control::{HEADERS, RateControl};
use str0m::{
    Candidate, Event, Input, Output, Rtc,
    bwe::{Bitrate, BweKind},
    format::Codec,
    media::{Direction, MediaKind, MediaTime, Mid, Pt},
    net::{Protocol, Receive},
};

const LIMITS: Limits = Limits::DEFAULT.with_max(DataRate::from_bps(4_000_000));
const FRAME: TimeDelta = TimeDelta::from_nanos(33_333_333);
/// Bytes of a frame in a packet, and of all headers of that packet: IP, UDP, RTP, its extensions, VP8 and the tag of SRTP.
const PAYLOAD: usize = 1100;
const OVERHEAD: usize = 72;
/// A frame is skipped while the pacer's queue is older.
const STALE: TimeDelta = TimeDelta::from_millis(200);
const RUN: TimeDelta = TimeDelta::from_seconds(60);

/// What a call was.
pub(crate) struct Outcome {
    pub(crate) seconds: Vec<Second>,
    /// What the receiver reported to the controller.
    pub(crate) reported: Reported,
    /// Packets that the link delivered, and those that it dropped.
    pub(crate) delivered_packets: u64,
    pub(crate) dropped_packets: u64,
}

/// A second of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Second {
    pub(crate) target: DataRate,
    pub(crate) received_bytes: u64,
    pub(crate) frames: u64,
    pub(crate) queue_delay: TimeDelta,
}

/// One direction of the path, which keeps the datagrams while the link has their sizes.
struct Way {
    link: Link,
    datagrams: BTreeMap<u32, Vec<u8>>,
    next: u32,
}

impl Way {
    fn new(rate: RateProfile) -> Result<Self, Box<dyn Error>> {
        let config = LinkConfig { rate, delay: TimeDelta::from_millis(20).into(), ..LinkConfig::default() };
        let queue = Box::new(DropTail::new(Limit::Time(TimeDelta::from_millis(300))));
        Ok(Self {
            link: Link::new(LinkId(0), &config, queue, 1, "path")?,
            datagrams: BTreeMap::new(),
            next: 0,
        })
    }

    fn send(&mut self, now: Timestamp, datagram: Vec<u8>) {
        let bytes = (datagram.len() + HEADERS) as u32;
        self.datagrams.insert(self.next, datagram);
        let packet = Packet { bytes, sent: now, body: BodyId(self.next), ..Packet::default() };
        self.next += 1;
        self.link.offer(now, packet, &mut ());
        while let Some(dropped) = self.link.poll_dropped() {
            self.datagrams.remove(&dropped.packet.body.0);
        }
    }

    fn poll(&mut self, now: Timestamp) -> Option<(Packet, Vec<u8>)> {
        let packet = self.link.poll(now, &mut ())?;
        Some((packet, self.datagrams.remove(&packet.body.0)?))
    }
}

/// A str0m connection in virtual time.
struct Peer {
    rtc: Rtc,
    address: SocketAddr,
    origin: Instant,
    due: Timestamp,
}

impl Peer {
    fn new(rtc: Rtc, address: SocketAddr, origin: Instant) -> Self {
        Self { rtc, address, origin, due: Timestamp::ZERO }
    }

    fn instant(&self, now: Timestamp) -> Instant {
        self.origin + Duration::from_nanos(now.as_nanos())
    }

    fn handle_timeout(&mut self, now: Timestamp) -> Result<(), Box<dyn Error>> {
        Ok(self.rtc.handle_input(Input::Timeout(self.instant(now)))?)
    }

    fn receive(&mut self, now: Timestamp, from: SocketAddr, datagram: &[u8]) -> Result<(), Box<dyn Error>> {
        let received = Receive::new(Protocol::Udp, from, self.address, datagram)?;
        Ok(self.rtc.handle_input(Input::Receive(self.instant(now), received))?)
    }

    /// The next datagram or event; `None` once there is only a timeout.
    fn poll(&mut self) -> Result<Option<Output>, Box<dyn Error>> {
        match self.rtc.poll_output()? {
            Output::Timeout(at) => {
                // Some deadlines are years away.
                let after = at.saturating_duration_since(self.origin).min(Duration::from_secs(1 << 20));
                self.due = Timestamp::from_nanos(after.as_nanos() as u64);
                Ok(None)
            }
            output => Ok(Some(output)),
        }
    }
}

/// What the encoder follows.
enum Rate {
    Giusto(Box<RateControl>),
    Str0m(DataRate),
}

struct Call {
    sender: Peer,
    receiver: Peer,
    rate: Rate,
    there: Way,
    back: Way,
    video: (Mid, Pt),
    next_frame: Timestamp,
    seconds: Vec<Second>,
}

impl Call {
    #[expect(
        clippy::disallowed_methods,
        reason = "str0m counts time by an instant that only the system can make"
    )]
    fn new(name: &str) -> Result<Self, Box<dyn Error>> {
        let origin = Instant::now();
        let [min, start, max] =
            [LIMITS.min, LIMITS.start, LIMITS.max].map(|rate| Bitrate::bps(rate.as_bps()));
        let builder = Rtc::builder().enable_raw_packets(true);
        let (mut rtc, rate) = if name == "str0m" {
            let mut rtc = builder.enable_bwe(Some(start)).build(origin);
            rtc.bwe().set_bitrate(min, max);
            (rtc, Rate::Str0m(LIMITS.start))
        } else {
            let control = RateControl::new(name.parse()?, LIMITS, origin)?;
            (builder.build(origin), Rate::Giusto(Box::new(control)))
        };
        let mut other = Rtc::builder().build(origin);
        let addresses: [SocketAddr; 2] = ["192.0.2.1:1000".parse()?, "192.0.2.2:2000".parse()?];
        rtc.add_local_candidate(Candidate::host(addresses[0], "udp")?);
        other.add_local_candidate(Candidate::host(addresses[1], "udp")?);

        let mut change = rtc.sdp_api();
        let mid = change.add_media(MediaKind::Video, Direction::SendOnly, None, None, None);
        let (offer, pending) = change.apply().ok_or("there is no offer")?;
        let answer = other.sdp_api().accept_offer(offer)?;
        rtc.sdp_api().accept_answer(pending, answer)?;
        let vp8 = rtc.codec_config().find(|params| params.spec().codec == Codec::Vp8);
        let pt = vp8.ok_or("str0m has no VP8")?.pt();

        let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
        let (high, low) = (DataRate::from_bps(3_000_000), DataRate::from_bps(1_000_000));
        let steps = vec![(at(0), high), (at(20), low), (at(40), high)];
        Ok(Self {
            sender: Peer::new(rtc, addresses[0], origin),
            receiver: Peer::new(other, addresses[1], origin),
            rate,
            there: Way::new(RateProfile::Steps { steps, period: None })?,
            back: Way::new(RateProfile::Fixed(high))?,
            video: (mid, pt),
            next_frame: Timestamp::MAX,
            seconds: Vec::new(),
        })
    }

    fn target(&self) -> DataRate {
        match &self.rate {
            Rate::Giusto(control) => control.target(),
            Rate::Str0m(estimate) => (*estimate).min(LIMITS.max),
        }
    }

    fn run(mut self, duration: TimeDelta) -> Result<Outcome, Box<dyn Error>> {
        let mut now = Timestamp::ZERO;
        self.sender.handle_timeout(now)?;
        self.receiver.handle_timeout(now)?;
        while now < Timestamp::ZERO + duration {
            let index = (now.as_nanos() / 1_000_000_000) as usize;
            while self.seconds.len() <= index {
                self.seconds.push(Second::default());
            }
            self.step(now)?;
            let target = self.target();
            if let Some(second) = self.seconds.last_mut() {
                second.target = target;
            }
            now = self.next(now).max(now);
        }
        let reported = match &self.rate {
            Rate::Giusto(control) => control.reported(),
            Rate::Str0m(_) => Reported::default(),
        };
        let counters = self.there.link.counters();
        Ok(Outcome {
            seconds: self.seconds,
            reported,
            delivered_packets: counters.delivered_packets,
            dropped_packets: counters.overflow_packets,
        })
    }

    fn next(&self, now: Timestamp) -> Timestamp {
        let control = match &self.rate {
            Rate::Giusto(control) => control.next_timeout(now),
            Rate::Str0m(_) => None,
        };
        let links = [self.there.link.next_event(now), self.back.link.next_event(now)];
        [control, links[0], links[1], Some(self.receiver.due), Some(self.next_frame)]
            .into_iter()
            .flatten()
            .fold(self.sender.due, Timestamp::min)
    }

    fn step(&mut self, now: Timestamp) -> Result<(), Box<dyn Error>> {
        while let Some((packet, datagram)) = self.there.poll(now) {
            if let Some(second) = self.seconds.last_mut() {
                second.received_bytes += u64::from(packet.bytes);
                let delay = TimeDelta::from_nanos(packet.queue_delay_ns as i64);
                second.queue_delay = second.queue_delay.max(delay);
            }
            self.receiver.receive(now, self.sender.address, &datagram)?;
            self.poll_receiver(now)?;
        }
        while let Some((_, datagram)) = self.back.poll(now) {
            self.sender.receive(now, self.receiver.address, &datagram)?;
            self.poll_sender(now)?;
        }
        if self.receiver.due <= now {
            self.receiver.handle_timeout(now)?;
            self.poll_receiver(now)?;
        }
        if self.sender.due <= now {
            self.sender.handle_timeout(now)?;
            self.poll_sender(now)?;
        }
        if self.next_frame <= now {
            self.next_frame += FRAME;
            self.encode(now)?;
            self.poll_sender(now)?;
        }
        if let Rate::Giusto(control) = &mut self.rate {
            control.handle_timeout(now);
            while let Some(datagram) = control.poll_transmit(now) {
                self.there.send(now, datagram);
            }
        }
        Ok(())
    }

    /// An encoder without pictures: each frame has its share of the target.
    fn encode(&mut self, now: Timestamp) -> Result<(), Box<dyn Error>> {
        let share = self.target().size_in(FRAME).as_bytes() as usize;
        let packets = share.div_ceil(PAYLOAD + OVERHEAD);
        let frame = vec![0x55; share.saturating_sub(packets * OVERHEAD).max(100)];
        if let Rate::Giusto(control) = &self.rate
            && control.queue_age(now) > STALE
        {
            return Ok(());
        }
        let wallclock = self.sender.instant(now);
        let (mid, pt) = self.video;
        let time = MediaTime::from_90khz(now.as_nanos() / 1000 * 9 / 100);
        if let Some(writer) = self.sender.rtc.writer(mid) {
            writer.write(pt, wallclock, time, frame)?;
        }
        Ok(())
    }

    fn poll_sender(&mut self, now: Timestamp) -> Result<(), Box<dyn Error>> {
        while let Some(output) = self.sender.poll()? {
            match (output, &mut self.rate) {
                (Output::Event(Event::Connected), _) => self.next_frame = now,
                (Output::Transmit(transmit), Rate::Giusto(control)) => {
                    if let Some(datagram) = control.on_transmit(now, transmit.contents.to_vec()) {
                        self.there.send(now, datagram);
                    }
                }
                (Output::Transmit(transmit), Rate::Str0m(_)) => {
                    self.there.send(now, transmit.contents.to_vec());
                }
                (Output::Event(Event::RawPacket(packet)), Rate::Giusto(control)) => {
                    control.on_raw_packet(now, &packet);
                }
                (
                    Output::Event(Event::EgressBitrateEstimate(BweKind::Twcc { estimate, .. })),
                    Rate::Str0m(rate),
                ) => {
                    *rate = DataRate::from_bps(estimate.as_u64());
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn poll_receiver(&mut self, now: Timestamp) -> Result<(), Box<dyn Error>> {
        while let Some(output) = self.receiver.poll()? {
            match output {
                Output::Transmit(transmit) => self.back.send(now, transmit.contents.to_vec()),
                Output::Event(Event::MediaData(_)) => {
                    if let Some(second) = self.seconds.last_mut() {
                        second.frames += 1;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Calls with the controller `name`, or with str0m's own estimate.
pub(crate) fn run(name: &str, duration: TimeDelta) -> Result<Outcome, Box<dyn Error>> {
    Call::new(name)?.run(duration)
}

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "tempo".to_owned());
    let outcome = run(&name, RUN)?;
    println!("second  target   received  queue delay  frames");
    println!("        Mbit/s   Mbit/s    ms, highest");
    for (number, second) in outcome.seconds.iter().enumerate() {
        let (target, received) = (second.target.as_bps() as f64 / 1e6, second.received_bytes as f64 * 8e-6);
        println!(
            "{number:>6}  {target:<7.2}  {received:<8.2}  {:<11.0}  {}",
            second.queue_delay.as_millis(),
            second.frames
        );
    }
    let (delivered, dropped) = (outcome.delivered_packets, outcome.dropped_packets);
    println!("{delivered} packets delivered, {dropped} dropped");
    println!("{} packets reported, {} lost", outcome.reported.packets, outcome.reported.lost_packets);
    Ok(())
}
