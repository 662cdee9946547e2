//! A media sender without feedback: what it sends, and how it handles given messages.

use giusto_congestion::{Algorithm, Limits, Target};
use giusto_rtp::{
    NtpShort,
    rtcp::{
        ArrivalOffset, ArrivalTicks, Bye, CongestionFeedback, NadaFeedback, Packet, PacketReception, Packets,
        ReceiverReport, ReceptionTime, Remb, ReportBlock, ScreamFeedback, StreamFeedback, TransportFeedback,
    },
};
use giusto_units::{DataRate, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use proptest::prelude::*;

use super::link::{
    AUDIO_OFFSET, Encoded, Run, UDP, VIDEO_OFFSET, algorithm, at, audio, kbps, limited, millis, rtp, video,
};

fn streams() -> Vec<Encoded> {
    vec![audio(1), video(2, 1.0, 150, 1500)]
}

fn alone(kind: Algorithm, streams: Vec<Encoded>) -> Run {
    let mut run = Run::of(kind, Limits::DEFAULT.with_start(kbps(1000)), streams);
    run.feedback = false;
    run
}

/// A sender of a fixed rate, after this time.
fn fixed(millis: u64) -> Run {
    let mut run = alone(algorithm("fixed"), streams());
    run.until(at(millis));
    run
}

/// Passes an RTCP packet to the sender.
fn pass(run: &mut Run, packet: &Packet) {
    run.ends[0].endpoint_mut().sender_mut().unwrap().handle_rtcp(run.now, packet);
}

/// The compound packets of reports, with their times.
fn reports(run: &Run) -> Vec<(Timestamp, Vec<Packet>)> {
    let reports = run.sent.iter().filter(|(_, datagram)| datagram.head[1] == 200);
    let parsed = |head| Packets::new(head).unwrap().map(Result::unwrap).collect();
    reports.map(|(at, datagram)| (*at, parsed(&datagram.head))).collect()
}

#[test]
fn after_a_report_with_a_wrong_time_others_are_processed() {
    let mut run = alone(algorithm("scream:rfc8298+giusto"), streams());
    run.until(at(500));
    // 32 bits are 65 536 s: the value nearest to 16 s is more than an hour before zero.
    for (time, begin_sequence) in [(16 << 16, 65_000), (0xf000_0000, 65_001), (0xf000_8000, 65_002)] {
        let came = PacketReception { ecn: Ecn::NotEct, offset: ArrivalOffset::from_delta(TimeDelta::ZERO) };
        let stream = StreamFeedback { ssrc: 2, begin_sequence, packets: vec![Some(came)] };
        let time = NtpShort::from_bits(time);
        let report = CongestionFeedback { sender_ssrc: 9, streams: vec![stream], time };
        let before = run.sender().in_flight();
        pass(&mut run, &Packet::CongestionFeedback(report));
        assert!(run.sender().in_flight() < before, "{begin_sequence}");
    }
}

#[test]
fn the_sent_rate_is_the_target_headers_included() {
    let run = fixed(20_000);
    // In the first second the encoder still has its minimum rate.
    let media = run.sent.iter().filter(|(sent, datagram)| *sent >= at(1000) && rtp(datagram).is_some());
    let rate = media.map(|(_, datagram)| (datagram.size() + UDP).as_bits()).sum::<u64>() as f64 / 19.0;
    assert!((980_000.0..=1_010_000.0).contains(&rate), "{rate}");
    for (ssrc, first) in [(1, AUDIO_OFFSET), (2, VIDEO_OFFSET)] {
        let numbers: Vec<u16> = run.numbers(ssrc).into_iter().map(|(sequence, _)| sequence).collect();
        assert!(numbers.len() > 400 && numbers[0] == first as u16, "{ssrc}");
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)), "{ssrc}: a gap");
    }
}

#[test]
fn reports_map_media_time_to_the_clock_until_a_bye() {
    let mut run = fixed(3499);
    let before = reports(&run);
    assert_eq!(before.len(), 5, "one with the first packet of each stream, and each second thereafter");
    for (now, packets) in before {
        for packet in packets {
            let Packet::SenderReport(report) = packet else { continue };
            let (clock, first) =
                if report.ssrc == 1 { (48_000.0, AUDIO_OFFSET) } else { (90_000.0, VIDEO_OFFSET) };
            let ticks = f64::from(report.rtp_timestamp.wrapping_sub(first));
            assert!((ticks - now.as_nanos() as f64 * 1e-9 * clock).abs() <= 1.0, "{ticks} at {now:?}");
        }
    }
    run.sent.clear();
    run.ends[0].stop(at(3500));
    run.drain(0);
    let (_, packets) = &reports(&run)[0];
    assert!(matches!(packets[0], Packet::SenderReport(_)), "a compound begins with a report");
    assert_eq!(packets.last(), Some(&Packet::Bye(Bye { sources: vec![1, 2], reason: None })));
    assert_eq!((run.ends[0].poll_transmit(at(3600)), run.ends[0].poll_timeout()), (None, None));
}

#[test]
fn feedback_counts_once_and_only_for_own_packets() {
    let (mut run, script) = Run::scripted(Target::new(kbps(1000), kbps(1000)), streams());
    run.feedback = false;
    run.until(at(1000));
    let feedback = |media_ssrc, base_sequence, packets: &[Option<i16>]| {
        let packets = packets.iter().map(|ticks| Some(ArrivalTicks::new(i32::from((*ticks)?)))).collect();
        let feedback =
            TransportFeedback { media_ssrc, base_sequence, packets, ..TransportFeedback::default() };
        Packet::TransportFeedback(feedback)
    };
    pass(&mut run, &feedback(99, 0, &[Some(1)]));
    pass(&mut run, &feedback(2, 40_000, &[Some(1)]));
    assert!(script.lock().unwrap().reports.is_empty(), "of another source, of what was never sent");
    pass(&mut run, &feedback(2, 1, &[Some(4), None]));
    pass(&mut run, &feedback(2, 1, &[Some(4), None]));
    pass(&mut run, &feedback(2, 0, &[Some(2), Some(4), Some(8)]));
    let arrived = |micros: u64| Some(PeerTimestamp::from_nanos(micros * 1000));
    let expected = [vec![(1, arrived(1000)), (2, None)], vec![(0, arrived(500)), (2, arrived(2000))]];
    assert_eq!(script.lock().unwrap().reports, expected);
    // The first number is 65 530: ten packets, of which one is lost; then forty more, of which two are lost.
    for (highest_sequence, cumulative_lost) in [(65_539, 1), (65_539, 1), (65_530, 0), (65_579, 3)] {
        let block = ReportBlock { ssrc: 1, highest_sequence, cumulative_lost, ..ReportBlock::default() };
        pass(&mut run, &Packet::ReceiverReport(ReceiverReport { ssrc: 3, blocks: vec![block] }));
    }
    assert_eq!(script.lock().unwrap().losses, [(0.1, 10), (0.05, 40)]);
}

proptest! {
    #[test]
    fn a_sender_handles_any_calls(
        calls in prop::collection::vec((0_u8..10, any::<u64>(), any::<u16>(), prop::collection::vec(any::<Option<i16>>(), 0..40)), 1..200),
        kind in prop::sample::select(Algorithm::all().collect::<Vec<_>>()),
        limits in prop::collection::vec((prop::option::of(-5_i64..2000), prop::option::of(-5_i64..2000)), 2),
    ) {
        let limited = streams().into_iter().zip(limits).map(|(stream, (skip, discard))| {
            limited(stream, skip.map(millis), discard.map(millis))
        });
        let mut run = alone(kind, limited.collect());
        let mut latest = Timestamp::ZERO;
        for (call, time, number, ticks) in calls {
            run.now = Timestamp::from_nanos(time % 30_000_000_000);
            latest = latest.max(run.now);
            let ssrc = u32::from(number % 4);
            match call {
                0..=2 => run.ends[0].handle_timeout(run.now),
                3 => {
                    let feedback = TransportFeedback {
                        media_ssrc: ssrc,
                        base_sequence: number,
                        reference_time: time as i32 >> 8,
                        packets: ticks.into_iter().map(|ticks| Some(ArrivalTicks::new(i32::from(ticks?)))).collect(),
                        ..TransportFeedback::default()
                    };
                    pass(&mut run, &Packet::TransportFeedback(feedback));
                }
                4 => {
                    let (cumulative_lost, highest_sequence) = (time as i32, u32::from(number) << 3);
                    let block = ReportBlock { ssrc, cumulative_lost, highest_sequence, ..ReportBlock::default() };
                    pass(&mut run, &Packet::ReceiverReport(ReceiverReport { ssrc: 9, blocks: vec![block] }));
                }
                5 => {
                    let remb = Remb { sender_ssrc: 9, bitrate: DataRate::from_bps(time), sources: vec![ssrc] };
                    pass(&mut run, &Packet::Remb(remb));
                }
                6 => run.ends[0].set_paused(run.now, usize::from(number % 3), time % 2 == 0),
                7 => {
                    let (received, gradual) = (DataRate::from_bps(time >> 32), time % 2 == 0);
                    let feedback = NadaFeedback { gradual, signal: number, received, ..NadaFeedback::default() };
                    pass(&mut run, &Packet::NadaFeedback(feedback));
                }
                8 => {
                    let feedback = ScreamFeedback {
                        media_ssrc: ssrc,
                        time: ReceptionTime::from_bits(time as u32),
                        highest_sequence: if time % 2 == 0 { number } else { 65_000_u16.wrapping_add(number >> 8) },
                        ecn_echo: number as u8,
                        source_quench: time % 8 == 0,
                        received: (time >> 32) as u32,
                        ..ScreamFeedback::default()
                    };
                    pass(&mut run, &Packet::ScreamFeedback(feedback));
                }
                _ => {
                    let mut count = 0;
                    while run.ends[0].poll_transmit(run.now).is_some() {
                        count += 1;
                        prop_assert!(count < 100_000, "it never ends");
                    }
                }
            }
            let (target, limits) = (run.sender().target(), Limits::default());
            prop_assert!((limits.min..=limits.max).contains(&target.media), "{:?}", target);
            prop_assert!(kind != algorithm("nada") || (target.media..=limits.max).contains(&target.pacing), "{:?}", target);
        }
        let sender = &mut run.ends[0];
        sender.handle_timeout(latest);
        while sender.poll_transmit(latest).is_some() {}
        prop_assert!(sender.poll_timeout().is_none_or(|next| next > latest));
        sender.stop(latest);
        while sender.poll_transmit(latest).is_some() {}
        prop_assert_eq!(sender.poll_timeout(), None);
    }
}
