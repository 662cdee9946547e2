//! A media sender without a receiver: what it sends, and how it handles feedback.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should end")]

use std::sync::{Arc, Mutex};

use giusto_congestion::{Algorithm, Decision, Limits};
use giusto_rtp::{
    NtpShort, RtpHeader,
    rtcp::{
        ArrivalOffset, Bye, CongestionFeedback, Packet, PacketReception, Packets, ReceiverReport,
        ReportBlock, StreamFeedback, TransportFeedback,
    },
};
use giusto_session::media::{Datagram, MediaEndpoint, MediaSender, MediaSenderConfig, MediaStream};
use giusto_sim::traffic::{
    EncodedEndpoint,
    encoder::{Audio, AudioConfig, MediaSource, PerfectConfig, PerfectEncoder},
};
use giusto_units::{DataRate, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use proptest::prelude::*;

fn algorithm(name: &str) -> Algorithm {
    name.parse().unwrap()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

fn encoders() -> (Audio, PerfectEncoder) {
    let audio = Audio::new(AudioConfig::default(), Timestamp::ZERO).unwrap();
    (audio, PerfectEncoder::new(PerfectConfig::default(), Timestamp::ZERO).unwrap())
}

fn streams() -> Vec<MediaStream> {
    let (audio, video) = encoders();
    let sound =
        MediaStream { timestamp_offset: 65_530, ..MediaStream::audio(1, 111, 48_000, audio.target()) };
    let pictures = MediaStream {
        timestamp_offset: u32::MAX - 535,
        start_rate: video.target(),
        ..MediaStream::video(2, 96, video.limits())
    };
    vec![sound, pictures]
}

fn sender(kind: Algorithm) -> EncodedEndpoint {
    sender_of(kind, streams())
}

fn sender_of(kind: Algorithm, streams: Vec<MediaStream>) -> EncodedEndpoint {
    let config = MediaSenderConfig { feedback: kind.requirements().feedback, ..MediaSenderConfig::default() };
    let limits = Limits::DEFAULT.with_start(DataRate::from_bps(1_000_000));
    encoded(MediaSender::new(config, kind.build(limits), streams))
}

fn encoded(sender: MediaSender) -> EncodedEndpoint {
    let (audio, video) = encoders();
    EncodedEndpoint::new(MediaEndpoint::new(Some(sender), None), vec![Box::new(audio), Box::new(video)])
}

/// Passes an RTCP packet to the sender.
fn pass_rtcp(sender: &mut EncodedEndpoint, now: Timestamp, packet: &Packet) {
    sender.endpoint_mut().sender_mut().unwrap().handle_rtcp(now, packet);
}

/// Runs a sender alone until `end`. Returns its datagrams and their times.
fn sent(sender: &mut EncodedEndpoint, end: Timestamp) -> Vec<(Timestamp, Datagram)> {
    let (mut now, mut sent) = (Timestamp::ZERO, Vec::new());
    while let Some(next) = sender.poll_timeout().filter(|&next| next < end) {
        now = next.max(now);
        sender.handle_timeout(now);
        while let Some(datagram) = sender.poll_transmit(now) {
            sent.push((now, datagram));
        }
        assert!(sender.poll_timeout().is_none_or(|next| next > now), "it spins at {now:?}");
    }
    sent
}

fn media(sent: &[(Timestamp, Datagram)]) -> impl Iterator<Item = (Timestamp, RtpHeader, &Datagram)> {
    sent.iter().filter_map(|(at, datagram)| Some((*at, RtpHeader::parse(&datagram.head).ok()?.0, datagram)))
}

#[test]
fn after_a_report_with_a_wrong_time_others_are_processed() {
    let mut sender = sender(algorithm("scream:rfc8298+giusto"));
    sent(&mut sender, at(400));
    // 32 bits are 65 536 s: the value nearest to 16 s is more than an hour before zero.
    for (time, begin_sequence) in [(16 << 16, 65_000), (0xf000_0000, 65_001), (0xf000_8000, 65_002)] {
        let came = PacketReception { ecn: Ecn::NotEct, offset: ArrivalOffset::from_delta(TimeDelta::ZERO) };
        let stream = StreamFeedback { ssrc: 2, begin_sequence, packets: vec![Some(came)] };
        let time = NtpShort::from_bits(time);
        let report = CongestionFeedback { sender_ssrc: 9, streams: vec![stream], time };
        let before = sender.endpoint().sender().unwrap().in_flight();
        pass_rtcp(&mut sender, at(500), &Packet::CongestionFeedback(report));
        assert!(sender.endpoint().sender().unwrap().in_flight() < before, "{begin_sequence}");
    }
}

#[test]
fn the_sent_rate_is_the_target_headers_included() {
    let sent = sent(&mut sender(algorithm("fixed")), at(20_000));
    // In the first second the encoder still has its minimum rate.
    let bytes: u64 = media(&sent)
        .filter(|&(sent, ..)| sent >= at(1000))
        .map(|(_, _, datagram)| datagram.size().as_bytes() + 28)
        .sum();
    let rate = bytes as f64 * 8.0 / 19.0;
    assert!((980_000.0..=1_010_000.0).contains(&rate), "{rate}");
}

#[test]
fn sequence_numbers_wrap_without_a_gap() {
    let sent = sent(&mut sender(algorithm("fixed")), at(10_000));
    for (ssrc, first) in [(1, 65_530_u16), (2, 65_000)] {
        let numbers: Vec<u16> = media(&sent)
            .filter(|(_, header, _)| header.ssrc == ssrc)
            .map(|(_, header, _)| header.sequence)
            .collect();
        assert!(numbers.len() > 400 && numbers[0] == first);
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
    }
}

#[test]
fn reports_follow_the_streams_until_a_bye() {
    let mut sender = sender(algorithm("fixed"));
    let before = sent(&mut sender, at(3500));
    let reports = before.iter().filter(|(_, datagram)| datagram.head[1] == 200).count();
    assert_eq!(reports, 5, "one with the first packet of each stream, and each second thereafter");
    sender.stop(at(3500));
    let last = sender.poll_transmit(at(3500)).unwrap();
    let packets: Vec<Packet> = Packets::new(&last.head).unwrap().map(Result::unwrap).collect();
    assert_eq!(packets.last(), Some(&Packet::Bye(Bye { sources: vec![1, 2], reason: None })));
    assert!(matches!(packets[0], Packet::SenderReport(_)), "a compound begins with a report");
    assert_eq!((sender.poll_transmit(at(3600)), sender.poll_timeout()), (None, None));
}

#[test]
fn a_sender_report_maps_media_time_to_the_clock() {
    let sent = sent(&mut sender(algorithm("fixed")), at(2500));
    let reports = sent.iter().filter(|(_, datagram)| datagram.head[1] == 200);
    for (now, datagram) in reports {
        for packet in Packets::new(&datagram.head).unwrap().map(Result::unwrap) {
            let Packet::SenderReport(report) = packet else { continue };
            let (clock, first) = if report.ssrc == 1 { (48_000, 65_530) } else { (90_000, u32::MAX - 535) };
            let ticks = report.rtp_timestamp.wrapping_sub(first);
            let expected = now.as_nanos() as f64 * 1e-9 * f64::from(clock);
            assert!((f64::from(ticks) - expected).abs() <= 1.0, "{ticks} {expected}");
        }
    }
}

/// A controller that records its input.
#[derive(Debug, Default)]
struct Listener {
    inputs: Arc<Mutex<Vec<Input>>>,
    decision: Decision,
}

#[derive(Debug, Clone, PartialEq)]
enum Input {
    Packets(Vec<(u64, Option<PeerTimestamp>)>),
    Loss(f64, u64),
    Estimate(DataRate),
}

impl giusto_congestion::Controller for Listener {
    fn set_limits(&mut self, _: Timestamp, _: Limits) {}
    fn on_route_change(&mut self, _: Timestamp) {}
    fn on_sent(&mut self, _: Timestamp, _: &giusto_congestion::SentPacket) {}

    fn on_feedback(&mut self, _: Timestamp, feedback: &giusto_congestion::Feedback<'_>) {
        let mut inputs = self.inputs.lock().unwrap();
        if !feedback.packets.is_empty() {
            let packets = feedback.packets.iter().map(|report| (report.sent.sequence, report.arrival));
            inputs.push(Input::Packets(packets.collect()));
        }
        inputs.extend(feedback.loss.map(|loss| Input::Loss(loss.ratio, loss.expected_packets)));
        inputs.extend(feedback.receiver_estimate.map(Input::Estimate));
    }

    fn on_timeout(&mut self, _: Timestamp, _: &giusto_congestion::QueueState) {}

    fn next_timeout(&self) -> Option<Timestamp> {
        None
    }

    fn target(&self) -> giusto_congestion::Target {
        let rate = DataRate::from_bps(1_000_000);
        giusto_congestion::Target::new(rate, rate)
    }

    fn decision(&self) -> &Decision {
        &self.decision
    }

    fn clone_box(&self) -> Box<dyn giusto_congestion::Controller> {
        Box::new(Self { inputs: Arc::new(Mutex::new(self.inputs.lock().unwrap().clone())), ..*self })
    }
}

#[test]
fn feedback_counts_once_and_only_for_own_packets() {
    let listener = Listener::default();
    let inputs = listener.inputs.clone();
    let mut sender = encoded(MediaSender::new(MediaSenderConfig::default(), Box::new(listener), streams()));
    sent(&mut sender, at(100));
    let feedback = |media_ssrc, base_sequence, packets| {
        Packet::TransportFeedback(TransportFeedback {
            media_ssrc,
            base_sequence,
            packets,
            ..TransportFeedback::default()
        })
    };
    let ticks = |ticks| Some(giusto_rtp::rtcp::ArrivalTicks::new(ticks));
    pass_rtcp(&mut sender, at(100), &feedback(99, 0, vec![ticks(1)]));
    pass_rtcp(&mut sender, at(100), &feedback(2, 40_000, vec![ticks(1)]));
    assert!(inputs.lock().unwrap().is_empty(), "of another source, of what was never sent");
    pass_rtcp(&mut sender, at(100), &feedback(2, 1, vec![ticks(4), None]));
    pass_rtcp(&mut sender, at(100), &feedback(2, 1, vec![ticks(4), None]));
    pass_rtcp(&mut sender, at(100), &feedback(2, 0, vec![ticks(2), ticks(4), ticks(8)]));
    let arrived = |millis: u64| Some(PeerTimestamp::from_nanos(millis * 1_000_000));
    let expected = [
        Input::Packets(vec![(1, arrived(1)), (2, None)]),
        Input::Packets(vec![(0, Some(PeerTimestamp::from_nanos(500_000))), (2, arrived(2))]),
    ];
    assert_eq!(*inputs.lock().unwrap(), expected);
}

#[test]
fn a_receiver_report_gives_the_loss_since_the_last_one() {
    let listener = Listener::default();
    let inputs = listener.inputs.clone();
    let mut sender = encoded(MediaSender::new(MediaSenderConfig::default(), Box::new(listener), streams()));
    sent(&mut sender, at(1000));
    let block = |highest: u32, cumulative_lost| {
        let block =
            ReportBlock { ssrc: 1, highest_sequence: highest, cumulative_lost, ..ReportBlock::default() };
        Packet::ReceiverReport(ReceiverReport { ssrc: 3, blocks: vec![block] })
    };
    // The first number is 65 530: ten packets, of which one is lost; then forty more, of which two are lost.
    pass_rtcp(&mut sender, at(1000), &block(65_539, 1));
    pass_rtcp(&mut sender, at(1000), &block(65_539, 1));
    pass_rtcp(&mut sender, at(1000), &block(65_530, 0));
    pass_rtcp(&mut sender, at(1000), &block(65_579, 3));
    assert_eq!(*inputs.lock().unwrap(), [Input::Loss(0.1, 10), Input::Loss(0.05, 40)]);
}

proptest! {
    #[test]
    fn a_sender_handles_any_calls(
        calls in prop::collection::vec((0_u8..8, any::<u64>(), any::<u16>(), prop::collection::vec(any::<Option<i16>>(), 0..40)), 1..200),
        kind in prop::sample::select(Algorithm::all().collect::<Vec<_>>()),
        limits in prop::collection::vec((prop::option::of(-5_i64..2000), prop::option::of(-5_i64..2000)), 2),
    ) {
        let millis = |limit: Option<i64>| limit.map(giusto_units::TimeDelta::from_millis);
        let limited = streams().into_iter().zip(limits).map(|(stream, (skip, discard))| MediaStream {
            skip_after: millis(skip),
            discard_after: millis(discard),
            ..stream
        });
        let mut sender = sender_of(kind, limited.collect());
        let mut latest = Timestamp::ZERO;
        for (call, time, number, ticks) in calls {
            let now = Timestamp::from_nanos(time % 30_000_000_000);
            latest = latest.max(now);
            match call {
                0..=2 => sender.handle_timeout(now),
                3 => {
                    let packets = ticks.into_iter().map(|ticks| Some(giusto_rtp::rtcp::ArrivalTicks::new(i32::from(ticks?)))).collect();
                    let feedback = TransportFeedback {
                        media_ssrc: u32::from(number % 4),
                        base_sequence: number,
                        reference_time: time as i32 >> 8,
                        packets,
                        ..TransportFeedback::default()
                    };
                    pass_rtcp(&mut sender, now, &Packet::TransportFeedback(feedback));
                }
                4 => {
                    let block = ReportBlock {
                        ssrc: u32::from(number % 4),
                        cumulative_lost: time as i32,
                        highest_sequence: u32::from(number) << 3,
                        ..ReportBlock::default()
                    };
                    pass_rtcp(&mut sender, now, &Packet::ReceiverReport(ReceiverReport { ssrc: 9, blocks: vec![block] }));
                }
                5 => {
                    let remb = giusto_rtp::rtcp::Remb { sender_ssrc: 9, bitrate: DataRate::from_bps(time), sources: vec![u32::from(number % 4)] };
                    pass_rtcp(&mut sender, now, &Packet::Remb(remb));
                }
                6 => sender.set_paused(now, usize::from(number % 3), time % 2 == 0),
                _ => {
                    let mut count = 0;
                    while sender.poll_transmit(now).is_some() {
                        count += 1;
                        prop_assert!(count < 100_000, "it never ends");
                    }
                }
            }
            let target = sender.endpoint().sender().unwrap().target();
            prop_assert!(target.media <= Limits::default().max && target.media >= Limits::default().min, "{:?}", target);
        }
        sender.handle_timeout(latest);
        while sender.poll_transmit(latest).is_some() {}
        prop_assert!(sender.poll_timeout().is_none_or(|next| next > latest));
        sender.stop(latest);
        while sender.poll_transmit(latest).is_some() {}
        prop_assert_eq!(sender.poll_timeout(), None);
    }
}
