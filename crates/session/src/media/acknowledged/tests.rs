use std::collections::VecDeque;

use giusto_congestion::{Cause, ControllerKind, FeedbackKind, Limits};
use giusto_rtp::rtcp::{Packet, ReceptionTime};
use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::{
    media::{
        Datagram, MediaEndpoint, MediaEvent, MediaReceiver, MediaReceiverConfig, MediaSender,
        MediaSenderConfig, MediaStream, PayloadFormat, pacer_config, stream::Says,
    },
    packetizer::Packetizer,
    source::{PerfectConfig, PerfectEncoder, RateRange, VIDEO_CLOCK},
};

const SIZE: DataSize = DataSize::from_bytes(1000);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

/// A source that has sent `count` packets, the first with number 65 530, and what hears of them.
struct Sent {
    rtp: RtpStream,
    history: History,
    acknowledged: Acknowledged,
}

/// Number on the transport, milliseconds of the arrival, and whether it is marked.
type Told = Vec<(u64, Option<u64>, bool)>;

impl Sent {
    fn new(count: u64) -> Self {
        let mut this = Self {
            rtp: RtpStream::new(7, 96, (65_530, 0)),
            history: History::default(),
            acknowledged: Acknowledged::default(),
        };
        for number in 0..count {
            this.history.on_sent(at(number), SIZE, None);
            let says = Says { marker: false, media_timestamp: 0, transport_sequence: number, payload: SIZE };
            this.rtp.write(at(number), FeedbackKind::ScreamDraft, says);
        }
        this
    }

    /// The highest packet, by how many were sent before it, came at `millis`, of those before it `received`.
    fn hears(&mut self, highest: u16, millis: u64, received: u32, ecn_echo: u8) -> (Option<bool>, Told) {
        let message = ScreamFeedback {
            media_ssrc: 7,
            time: ReceptionTime::from_timestamp(at(millis)),
            highest_sequence: 65_530_u16.wrapping_add(highest),
            ecn_echo,
            received,
            ..ScreamFeedback::default()
        };
        self.hears_message(&message)
    }

    fn hears_message(&mut self, message: &ScreamFeedback) -> (Option<bool>, Told) {
        let mut reports = Vec::new();
        let quench = self.acknowledged.on_message(message, &self.rtp, &mut self.history, &mut reports);
        reports.sort_by_key(|report| report.sent.sequence);
        let millis = |time: PeerTimestamp| time.as_nanos() / 1_000_000;
        let told = |one: &PacketReport| (one.sent.sequence, one.arrival.map(millis), one.ecn == Ecn::Ce);
        (quench, reports.iter().map(told).collect())
    }
}

#[test]
fn what_came_is_reported_with_the_time_of_the_highest_and_gaps_as_lost() {
    let mut sent = Sent::new(60);
    // Of 0 to 4 the second is missing.
    let (quench, told) = sent.hears(4, 100, 0b1101 << 28, 0);
    let came = Some(100);
    assert_eq!(quench, Some(false));
    assert_eq!(
        told,
        [(0, came, false), (1, None, false), (2, came, false), (3, came, false), (4, came, false)]
    );
    assert_eq!(sent.history.in_flight(), SIZE * 55);
    // It came after all; and again says nothing.
    assert_eq!(sent.hears(4, 100, 0b1111 << 28, 0).1, [(1, came, false)]);
    assert_eq!(sent.hears(4, 100, 0b1111 << 28, 0).1, []);
    // 6 to 17 lie before the 33 packets: nobody knows of them, but what has been followed is not in flight.
    let (_, told) = sent.hears(50, 200, u32::MAX, 0);
    assert_eq!(told, (18..=50).map(|number| (number, Some(200), false)).collect::<Vec<_>>());
    assert_eq!(sent.history.in_flight(), SIZE * 9);
}

#[test]
fn marks_are_the_difference_of_the_counts_on_what_is_new() {
    let mut sent = Sent::new(1000);
    let marked = |(_, told): (_, Told)| told.iter().filter(|one| one.2).map(|one| one.0).collect::<Vec<_>>();
    assert_eq!(marked(sent.hears(3, 10, 0b111 << 29, 2)), [2, 3]);
    assert_eq!(marked(sent.hears(5, 20, 0b11111 << 27, 2)), []);
    // A message is lost; its marks are not. What is missing is not marked.
    assert_eq!(marked(sent.hears(9, 30, 0b1011_1111 << 24, 5)), [6, 8, 9]);
    // The count wraps: 256 + 1 are 252 more, of which 33 find a packet.
    assert_eq!(marked(sent.hears(300, 40, u32::MAX, 1)).len(), 33);
    assert_eq!(marked(sent.hears(302, 50, u32::MAX, 2)), [302]);
}

#[test]
fn a_message_that_was_overtaken_tells_only_what_came() {
    let mut sent = Sent::new(100);
    let quench = |highest_sequence: u16, ecn_echo, received| ScreamFeedback {
        media_ssrc: 7,
        highest_sequence: 65_530_u16.wrapping_add(highest_sequence),
        ecn_echo,
        source_quench: true,
        received,
        ..ScreamFeedback::default()
    };
    assert_eq!(sent.hears_message(&quench(60, 9, 0)).0, Some(true));
    // 20 came, 19 was late; neither is lost, nor are 247 packets marked.
    let (asks, told) = sent.hears_message(&quench(20, 0, 0b11 << 30 & !(1 << 31)));
    assert_eq!((asks, told), (Some(false), vec![(18, Some(0), false), (20, Some(0), false)]));
    // Of two on the same packet the lower count is the older one.
    assert_eq!(sent.hears_message(&quench(60, 8, 0)).0, Some(false));
    assert_eq!(sent.hears_message(&quench(60, 9, 0)).0, Some(true));
    assert!(sent.hears(61, 100, 0, 9).1.iter().all(|one| !one.2));
    // What was never sent.
    assert_eq!(sent.hears(100, 100, 0, 0), (None, vec![]));
    assert_eq!(sent.hears(u16::MAX, 100, 0, 0), (None, vec![]));
}

#[test]
fn sources_have_one_clock() {
    let mut sent = Sent::new(10);
    let day = 24 * 3_600_000;
    // The clock wraps each 13 h 15 min; messages that say nothing new do not move it.
    assert_eq!(sent.hears(0, 40_000_000, 0, 0).1, [(0, Some(40_000_000), false)]);
    assert_eq!(sent.hears(0, day, 0, 0).1, []);
    let wrapped = 40_000_000 + 20_000_000;
    assert_eq!(sent.hears(1, wrapped, 1 << 31, 0).1, [(1, Some(wrapped), false)]);
}

#[test]
fn a_clock_that_jumps_back_before_its_first_message_is_followed() {
    let mut sent = Sent::new(10);
    assert_eq!(sent.hears(0, 1000, 0, 0).1, [(0, Some(1000), false)]);
    // Nearest to a second is 27 minutes before zero, for 32 bits of 90 kHz are 47 722 s.
    let late = 46_100_000;
    assert_eq!(sent.hears(1, late, 1 << 31, 0).1, [(1, Some(late), false)]);
    assert_eq!(sent.hears(2, late + 20, 0b11 << 30, 0).1, [(2, Some(late + 20), false)]);
}

fn sender(limits: Limits) -> MediaSender {
    let kind = ControllerKind::ScreamD00;
    let range = RateRange::new(limits.min, limits.max).unwrap();
    let source =
        PerfectEncoder::new(PerfectConfig { limits: range, ..PerfectConfig::default() }, Timestamp::ZERO);
    let video = MediaStream {
        ssrc: 7,
        payload_type: 96,
        clock_rate: VIDEO_CLOCK,
        first: (65_000, 0),
        source: Box::new(source.unwrap()),
        packetizer: Packetizer::default(),
        paced: true,
        priority: 1.0,
        skip_after: None,
        discard_after: None,
    };
    let config = MediaSenderConfig {
        feedback: kind.feedback(),
        pacer: pacer_config(kind.pacer()),
        ecn: Ecn::Ect0,
        queue_limit: None,
        ..MediaSenderConfig::default()
    };
    MediaSender::new(config, kind.build(limits), vec![video])
}

/// What a path does: Mbit/s, how long a packet queues before it is marked, when messages are lost, in milliseconds.
#[derive(Clone, Copy)]
struct Path {
    mbps: f64,
    mark_above: TimeDelta,
    quench_above: Option<DataRate>,
    deaf: (u64, u64),
}

impl Default for Path {
    fn default() -> Self {
        Self { mbps: 3.0, mark_above: TimeDelta::MAX, quench_above: None, deaf: (0, 0) }
    }
}

/// Two ends over a path of 25 ms each way, with its queue, for so many seconds: the media rate of each tenth of a second, and the
/// causes of all changes.
fn run(path: Path, limits: Limits, seconds: u64) -> (Vec<u64>, Vec<Cause>) {
    let delay = TimeDelta::from_millis(25);
    let receiver = MediaReceiverConfig {
        payloads: vec![PayloadFormat::video(96)],
        quench_above: path.quench_above,
        ..MediaReceiverConfig::new(1, "receiver", FeedbackKind::ScreamDraft)
    };
    let mut ends = [
        MediaEndpoint::new(Some(sender(limits)), None),
        MediaEndpoint::new(None, Some(MediaReceiver::new(receiver).unwrap())),
    ];
    // On their way to each end.
    let mut ways: [VecDeque<(Timestamp, Datagram)>; 2] = Default::default();
    let (mut now, mut busy) = (Timestamp::ZERO, Timestamp::ZERO);
    let (mut rates, mut causes) = (Vec::new(), Vec::new());
    while now < at(seconds * 1000) {
        for (end, way) in ends.iter_mut().zip(&mut ways) {
            while let Some((_, datagram)) = way.front().filter(|(at, _)| *at <= now).cloned() {
                way.pop_front();
                end.handle_datagram(now, &datagram.head, datagram.size(), datagram.ecn);
            }
            end.handle_timeout(now);
            while let Some(event) = end.poll_event() {
                if let MediaEvent::Decided(decision) = event {
                    causes.push(decision.cause);
                }
            }
        }
        while let Some(mut datagram) = ends[0].poll_transmit(now) {
            if busy.saturating_since(now) > path.mark_above {
                datagram.ecn = Ecn::Ce;
            }
            let bits = (datagram.size().as_bits() + 28 * 8) as f64;
            busy = busy.max(now) + TimeDelta::from_seconds_f64(bits / (path.mbps * 1e6));
            ways[1].push_back((busy + delay, datagram));
        }
        while let Some(datagram) = ends[1].poll_transmit(now) {
            if !(at(path.deaf.0)..at(path.deaf.1)).contains(&now) {
                ways[0].push_back((now + delay, datagram));
            }
        }
        let due = ends.iter().filter_map(MediaEndpoint::poll_timeout);
        let arrivals = ways.iter().filter_map(|way| Some(way.front()?.0));
        let next = due.chain(arrivals).min().unwrap();
        assert!(next > now, "it spins at {now:?}");
        let rate = ends[0].sender().unwrap().target().media.as_bps();
        while at(rates.len() as u64 * 100) < next && rates.len() < seconds as usize * 10 {
            rates.push(rate);
        }
        now = next;
    }
    assert_eq!(ends[0].damaged() + ends[1].damaged(), 0);
    (rates, causes)
}

fn limits(max: u64) -> Limits {
    let [min, start, max] = [150_000, 150_000, max].map(DataRate::from_bps);
    Limits { min, start, max }
}

fn mean(rates: &[u64]) -> f64 {
    rates.iter().sum::<u64>() as f64 / rates.len() as f64 / 1e6
}

#[test]
fn with_its_own_messages_it_ramps_up_within_three_to_five_seconds() {
    // §3.1, "within 3 to 5 seconds".
    for mbps in [3.5, 10.0] {
        let (rates, _) = run(Path { mbps, ..Path::default() }, limits(3_000_000), 20);
        let reached = rates.iter().position(|&rate| rate >= 2_700_000).unwrap() as f64 / 10.0;
        assert!((3.0..=5.0).contains(&reached), "{mbps}: {reached}");
        assert!(mean(&rates[60..]) > 2.8, "{mbps}: {}", mean(&rates[60..]));
    }
}

#[test]
fn a_narrow_path_is_filled_and_marks_are_heard() {
    let (rates, _) = run(Path::default(), limits(10_000_000), 40);
    assert!((1.8..=3.2).contains(&mean(&rates[100..])), "{}", mean(&rates[100..]));
    let path = Path { mark_above: TimeDelta::from_millis(5), ..Path::default() };
    let (rates, causes) = run(path, limits(10_000_000), 40);
    assert!((1.0..=3.1).contains(&mean(&rates[100..])), "{}", mean(&rates[100..]));
    let marks = causes.iter().filter(|cause| matches!(cause, Cause::Marks { .. })).count();
    assert!((5..=800).contains(&marks), "{marks}, once in a round trip at most");
}

#[test]
fn a_receiver_that_asks_for_less_gets_less() {
    let path = Path { mbps: 10.0, quench_above: Some(DataRate::from_bps(1_000_000)), ..Path::default() };
    let (rates, causes) = run(path, limits(3_000_000), 40);
    assert!((0.6..=1.2).contains(&mean(&rates[100..])), "{}", mean(&rates[100..]));
    assert!(causes.contains(&Cause::SourceQuench));
}

#[test]
fn messages_that_are_lost_for_a_while_do_not_stop_it_for_ever() {
    let (rates, _) = run(Path { deaf: (10_000, 15_000), ..Path::default() }, limits(2_000_000), 30);
    assert_eq!((rates[99], rates[149]), (2_000_000, 150_000));
    assert!(rates[299] > 1_800_000, "{}", rates[299]);
}

proptest! {
    #[test]
    fn a_sender_bears_any_messages(
        messages in prop::collection::vec((any::<(u32, u32)>(), any::<(u16, u8, bool)>(), 0_u64..200), 1..200),
    ) {
        let limits = limits(2_000_000);
        let mut sender = sender(limits);
        let mut now = Timestamp::ZERO;
        for ((time, received), (near, ecn_echo, source_quench), wait) in messages {
            now += TimeDelta::from_millis(wait as i64);
            sender.handle_timeout(now);
            while sender.poll_transmit(now).is_some() {}
            let message = ScreamFeedback {
                media_ssrc: if near % 16 == 0 { 8 } else { 7 },
                time: ReceptionTime::from_bits(time),
                highest_sequence: if near % 8 == 1 { near } else { 65_000_u16.wrapping_add(near >> 8) },
                ecn_echo,
                source_quench,
                received,
                ..ScreamFeedback::default()
            };
            sender.handle_rtcp(now, &Packet::ScreamFeedback(message));
            let media = sender.target().media;
            prop_assert!((limits.min..=limits.max).contains(&media), "{:?}", media);
        }
    }
}
