//! Tests of transport-wide feedback with published vectors.

use proptest::prelude::*;
use rtcp_types::{FciParser, RtcpPacketWriter, RtcpParseError, Twcc, TwccPacketStatus};

use super::*;
use crate::rtcp::{Arrival, Packet, Packets, TransportFeedbackEncoder};

const TICK: u64 = TICK_NANOS;
const HEADER: usize = BEFORE_CHUNKS_BYTES;

fn read(bytes: &[u8]) -> Result<TransportFeedback, RtcpError> {
    match Packets::new(bytes)?.next().expect("one packet")? {
        Packet::TransportFeedback(feedback) => Ok(feedback),
        other => panic!("{other:?}"),
    }
}

fn written(feedback: &TransportFeedback) -> Vec<u8> {
    let mut bytes = Vec::new();
    feedback.write(&mut bytes).unwrap();
    bytes
}

/// Difference of each arrival to the previous one, in ticks.
fn deltas(feedback: &TransportFeedback) -> Vec<Option<i16>> {
    feedback.deltas().map(Result::unwrap).collect()
}

/// The same if two arrivals may be further apart than 16 bits.
fn deltas_as_read(feedback: &TransportFeedback) -> Vec<Option<i32>> {
    let mut before = 0;
    let mut step = |arrival: &ArrivalTicks| arrival.ticks() - std::mem::replace(&mut before, arrival.ticks());
    feedback.packets.iter().map(|packet| packet.as_ref().map(&mut step)).collect()
}

fn arrivals(of: &[(u64, u64)]) -> Vec<Arrival> {
    of.iter().map(|&(sequence, nanos)| Arrival { sequence, at: Timestamp::from_nanos(nanos) }).collect()
}

fn encode(arrivals: &[Arrival], max_bytes: usize) -> Vec<TransportFeedback> {
    let mut encoder = TransportFeedbackEncoder::new(max_bytes);
    let (mut rest, mut first) = (arrivals, arrivals.first().map_or(0, |arrival| arrival.sequence));
    let mut all = Vec::new();
    let mut feedback = TransportFeedback::default();
    while let Some(encoded) = encoder.encode(first, rest, &mut feedback) {
        assert!(encoded.arrivals > 0 && encoded.next > first);
        assert!(written(&feedback).len() <= max_bytes.max(32));
        (rest, first) = (&rest[encoded.arrivals..], encoded.next);
        all.push(feedback.clone());
    }
    all
}

/// The packets in `transport_layer_cc_test.rs` of webrtc-rs, which are those in `transport_layer_cc_test.go` of pion/rtcp.
#[test]
fn packets_are_read_as_by_webrtc_rs_and_pion() {
    const NONE: i64 = i64::MIN;
    type Case = (&'static [u8], (u32, u32, u16, i32, u8), &'static [i64]);
    // Bytes; both sources, first number, reference time and count; differences in µs.
    let cases: [Case; 6] = [
        (
            &[
                0xaf, 0xcd, 0, 5, 0xfa, 0x17, 0xfa, 0x17, 0x43, 3, 0x2f, 0xa0, 0, 0x99, 0, 1, 0x3d, 0xe8, 2,
                0x17, 0x20, 1, 0x94, 1,
            ],
            (4_195_875_351, 1_124_282_272, 153, 4_057_090, 23),
            &[37_000],
        ),
        (
            &[
                0x8f, 0xcd, 0, 7, 0xfa, 0x17, 0xfa, 0x17, 0x19, 0x3d, 0xd8, 0xbb, 1, 0x74, 0, 6, 0x45, 0xb1,
                0x5a, 0x40, 0x40, 2, 0x20, 4, 0x1f, 0xfe, 0x1f, 0x9a, 0xd0, 0, 0xd0, 0,
            ],
            (4_195_875_351, 423_483_579, 372, 4_567_386, 64),
            &[2_047_500, 2_022_500, 52_000, 0, 52_000, 0],
        ),
        (
            &[
                0xaf, 0xcd, 0, 7, 0xfa, 0x17, 0xfa, 0x17, 0x19, 0x3d, 0xd8, 0xbb, 0, 4, 0, 7, 0x10, 0x63,
                0x6e, 1, 0x20, 7, 0x4c, 0x24, 0x24, 0x10, 0xc, 0xc, 0x10, 0, 0, 3,
            ],
            (4_195_875_351, 423_483_579, 4, 1_074_030, 1),
            &[19_000, 9_000, 9_000, 4_000, 3_000, 3_000, 4_000],
        ),
        // Theirs ends in 3, which would be padding over the last delta; neither implementation checks it.
        (
            &[
                0xaf, 0xcd, 0, 6, 0xfa, 0x17, 0xfa, 0x17, 0x19, 0x3d, 0xd8, 0xbb, 0, 1, 0, 0xe, 0x10, 0x63,
                0x6d, 0, 0xba, 0, 0x10, 0xc, 0xc, 0x10, 0, 2,
            ],
            (4_195_875_351, 423_483_579, 1, 1_074_029, 0),
            &[4_000, 3_000, 3_000, NONE, 4_000, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE],
        ),
        // The run of 48 is longer than the nine packets that are counted.
        (
            &[
                0xaf, 0xcd, 0, 7, 0x9b, 0x74, 0xf6, 0x1f, 0x93, 0x71, 0xdc, 0xbc, 0x85, 0x3c, 0, 9, 0x63,
                0xf9, 0x16, 0xb3, 0xd5, 0x52, 0, 0x30, 0x9b, 0xaa, 0x6a, 0xaa, 0x7b, 1, 9, 1,
            ],
            (2_608_133_663, 2_473_712_828, 34_108, 6_551_830, 179),
            &[38_750, 42_500, 26_500, 42_500, 30_750, NONE, 66_250, NONE, NONE],
        ),
        (
            &[0x8f, 0xcd, 0, 4, 0x9a, 0xcb, 4, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            (2_596_996_162, 0, 0, 0, 0),
            &[],
        ),
    ];
    for (bytes, numbers, micros) in cases {
        let feedback = read(bytes).unwrap();
        let TransportFeedback {
            sender_ssrc, media_ssrc, base_sequence, reference_time, feedback_count, ..
        } = feedback;
        assert_eq!((sender_ssrc, media_ssrc, base_sequence, reference_time, feedback_count), numbers);
        let read =
            deltas(&feedback).into_iter().map(|delta| delta.map_or(NONE, |delta| i64::from(delta) * 250));
        assert_eq!(read.collect::<Vec<_>>(), micros);
        assert!(written(&feedback).len() <= bytes.len());
        assert_eq!(self::read(&written(&feedback)), Ok(feedback));
    }
}

/// pion and webrtc-rs interpret the reserved status 3 as "received without a delta"; libwebrtc rejects it,
/// and so do we. The bytes are one of their examples without its padding bit, because the padding would cover
/// a delta.
#[test]
fn the_reserved_status_is_rejected() {
    let bytes = [
        0x8f, 0xcd, 0, 6, 0xfa, 0x17, 0xfa, 0x17, 0x19, 0x3d, 0xd8, 0xbb, 1, 0x74, 0, 0xe, 0x45, 0xb1, 0x5a,
        0x40, 0xd8, 0, 0xf0, 0xff, 0xd0, 0, 0, 3,
    ];
    assert_eq!(read(&bytes), Err(RtcpError::ReservedStatus));
}

/// The sequences and sizes in libwebrtc's `transport_feedback_unittest.cc`; by default one millisecond per
/// number.
#[test]
fn sizes_equal_those_of_libwebrtc() {
    let every = |ticks: u64, sequences: &[u64]| -> Vec<(u64, u64)> {
        sequences.iter().map(|sequence| (*sequence, sequence * ticks * TICK)).collect()
    };
    let millis = |times: &[(u64, u64)]| -> Vec<(u64, u64)> {
        times.iter().map(|(sequence, millis)| (*sequence, millis * 1_000_000)).collect()
    };
    let mut split = vec![(0, 1_000_000)];
    for sequence in 1..22 {
        let step = if sequence == 8 { 256 * TICK } else { 1_000_000 };
        split.push((sequence, split[sequence as usize - 1].1 + step));
    }
    let cases = [
        ("one-bit vector", every(4, &[1, 2, 7, 8, 9, 10, 13]), HEADER + 2 + 7),
        ("full one-bit vector", every(4, &[1, 2, 7, 8, 9, 10, 13, 14]), HEADER + 2 + 8),
        ("wrap, received", every(4, &[65_533, 65_534, 65_535, 65_536, 65_537, 65_538]), HEADER + 2 + 6),
        ("wrap, missing", every(4, &[65_533, 65_534, 65_537, 65_538]), HEADER + 2 + 4),
        (
            "large and negative",
            vec![(1, 2_000_000), (2, 1_000_000), (6, 4_000_000), (7, 3_000_000), (8, 67_000_000)],
            HEADER + 2 + 3 * 2 + 1,
        ),
        ("longest run", millis(&[(0, 1), (8_205, 2)]), HEADER + 3 * 2 + 2),
        ("shortest run", millis(&[(0, 1), (29, 2)]), HEADER + 3 * 2 + 2),
        ("one bit to two", vec![(0, 0), (6, 256 * TICK)], HEADER + 2 + 1 + 2),
        ("one bit to two, split simply", vec![(0, 0), (7, 256 * TICK)], HEADER + 2 * 2 + 1 + 2),
        ("one bit to two, split", split, HEADER + 3 * 2 + 21 + 2),
    ];
    for (name, times, bytes) in cases {
        let all = encode(&arrivals(&times), 100_000);
        assert_eq!(all.len(), 1, "{name}");
        assert_eq!(written(&all[0]).len(), bytes.next_multiple_of(4), "{name}");
        assert_eq!(read(&written(&all[0])).as_ref(), Ok(&all[0]), "{name}");
    }
    // Only large deltas. The first one is small here, because its reference is always within 64 ms; theirs is
    // large too.
    let two_bits = encode(&arrivals(&every(256, &[1, 2, 6, 7])), 100_000);
    assert_eq!(written(&two_bits[0]).len(), (HEADER + 2 + 3 * 2 + 1).next_multiple_of(4));
    let two_chunks = encode(&arrivals(&every(256, &[1, 2, 6, 7, 8])), 100_000);
    assert_eq!(written(&two_chunks[0]).len(), (HEADER + 2 * 2 + 4 * 2 + 1).next_multiple_of(4));
}

/// `TransportFeedbackLimits` of libwebrtc: gaps, counts and steps at their limits.
#[test]
fn feedback_ends_at_the_limits_of_its_fields() {
    let counts = |of: &[(u64, u64)]| -> Vec<usize> {
        encode(&arrivals(of), 100_000).iter().map(|feedback| feedback.packets.len()).collect()
    };
    assert_eq!(counts(&[(0, 0), (0x8000, 0)]), [0x8001]);
    assert_eq!(counts(&[(0, 0), (0x8001, 0)]), [1, 1]);
    assert_eq!(counts(&[(0, 0), (0x8000, 0), (0xfffe, 0)]), [0xffff]);
    assert_eq!(counts(&[(0, 0), (0x8000, 0), (0xffff, 0)]), [0x8001, 0x7fff]);
    assert_eq!(counts(&[(0, 0), (1, 32_767 * TICK)]), [2]);
    assert_eq!(counts(&[(0, 0), (1, 32_768 * TICK)]), [1, 1]);
    assert_eq!(counts(&[(0, 32_768 * TICK), (1, 0)]), [2]);
    assert_eq!(counts(&[(0, 32_769 * TICK), (1, 0)]), [1, 1]);

    let apart = TransportFeedback {
        packets: vec![Some(ArrivalTicks(0)), None, Some(ArrivalTicks(32_768))],
        ..TransportFeedback::default()
    };
    let mut buffer = vec![1];
    assert_eq!(apart.write(&mut buffer), Err(RtcpError::Step { ticks: 32_768 }));
    let many = TransportFeedback { packets: vec![None; 65_536], ..TransportFeedback::default() };
    let max = 65_535;
    assert_eq!(
        many.write(&mut buffer),
        Err(RtcpError::TooMany { what: "packet statuses", found: 65_536, max })
    );
    assert_eq!(buffer, [1]);
}

/// `SupportsMaximumNumberOfNegativeDeltas` of libwebrtc, at the limit of our 32 bits.
#[test]
fn the_maximum_number_of_large_steps_is_read() {
    let mut ticks = 0;
    let packets = (0..65_535).map(|_| {
        ticks -= 32_768;
        Some(ArrivalTicks(ticks))
    });
    let feedback = TransportFeedback { packets: packets.collect(), ..TransportFeedback::default() };
    assert_eq!(read(&written(&feedback)), Ok(feedback));
}

/// `TransportFeedbackPadding` and its backwards compatibility in libwebrtc.
#[test]
fn padding_is_accepted_with_and_without_its_bit() {
    let feedback = encode(&arrivals(&[(0, 0)]), 1200).remove(0);
    let mut bytes = written(&feedback);
    assert_eq!(bytes[23], 0);
    assert_eq!(read(&bytes).as_ref(), Ok(&feedback));
    (bytes[0], bytes[23]) = (bytes[0] | 0x20, 1);
    assert_eq!(read(&bytes).as_ref(), Ok(&feedback));
    bytes.extend([0, 0, 0, 5]);
    bytes[3] += 1;
    assert_eq!(read(&bytes).as_ref(), Ok(&feedback));
    // Padding over the delta, and over the chunk: then both are missing.
    bytes[27] = 6;
    let truncated = |needed, found| RtcpError::Truncated { what: WHAT, needed, found };
    assert_eq!(read(&bytes), Err(truncated(11, 10)));
    bytes[27] = 8;
    assert_eq!(read(&bytes), Err(truncated(10, 8)));
}

#[test]
fn duplicates_and_early_packets_are_skipped() {
    let at = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
    let arrivals = [
        Arrival { sequence: 3, at: at(1) },
        Arrival { sequence: 10, at: at(64) },
        Arrival { sequence: 10, at: at(90) },
        Arrival { sequence: 11, at: at(60) },
    ];
    let mut encoder = TransportFeedbackEncoder::new(1200);
    let mut feedback = TransportFeedback::default();
    let encoded = encoder.encode(9, &arrivals, &mut feedback).unwrap();
    assert_eq!((encoded.arrivals, encoded.next), (4, 12));
    assert_eq!((feedback.base_sequence, feedback.reference_time), (9, 1));
    assert_eq!(feedback.packets, [None, Some(ArrivalTicks(0)), Some(ArrivalTicks(-16))]);

    let before = feedback.clone();
    assert_eq!(encoder.encode(12, &arrivals, &mut feedback), None);
    assert_eq!(encoder.encode(12, &[], &mut feedback), None);
    assert_eq!(feedback, before);
    encoder.encode(3, &arrivals, &mut feedback).unwrap();
    assert_eq!(feedback.feedback_count, 1);
}

/// `BaseTimeIsConsistentAcrossMultiplePackets` of libwebrtc; and feedback that is late, repeated, or too old.
#[test]
fn feedback_times_survive_wraps_and_reordering() {
    let feedback = |base_sequence, reference_time| TransportFeedback {
        base_sequence,
        reference_time,
        packets: vec![Some(ArrivalTicks(1)), None],
        ..TransportFeedback::default()
    };
    let last = (1 << 24) - 1;
    let at = |reference: u64| Some(PeerTimestamp::from_nanos(reference * 64_000_000 + 250_000));
    let mut unwrapper = TransportFeedbackUnwrapper::new();
    let mut read = |base, reference: i64| {
        unwrapper.unwrap(&feedback(base, wrapped_reference(reference))).map(Iterator::collect::<Vec<_>>)
    };
    let last_read = Some(vec![(65_535, at(last)), (65_536, None)]);
    assert_eq!(read(65_535, last as i64), last_read);
    assert_eq!(read(1, 0), Some(vec![(65_537, at(last + 1)), (65_538, None)]));
    assert_eq!(read(65_535, last as i64), last_read);
    assert_eq!(read(2, 1), Some(vec![(65_538, at(last + 2)), (65_539, None)]));

    let mut unwrapper = TransportFeedbackUnwrapper::new();
    assert!(unwrapper.unwrap(&feedback(0, 5)).is_some());
    assert!(unwrapper.unwrap(&feedback(65_535, 5)).is_none());
    assert_eq!(unwrapper.times(&feedback(65_535, 5)).unwrap().collect::<Vec<_>>(), [at(5), None]);
    assert!(unwrapper.times(&feedback(1, -1)).is_none());
    assert!(unwrapper.unwrap(&feedback(1, -1)).is_none());
    assert_eq!(unwrapper.unwrap(&feedback(1, 5)).unwrap().next(), Some((1, at(5))));
}

fn any_packets() -> impl Strategy<Value = Vec<Option<i16>>> {
    let delta = prop_oneof![
        4 => Just(None),
        4 => (0_i16..256).prop_map(Some),
        1 => any::<i16>().prop_map(Some),
        1 => prop::sample::select(vec![i16::MIN, -1, 0, 255, 256, i16::MAX]).prop_map(Some),
    ];
    // Runs, so that all chunks occur.
    prop::collection::vec((delta, prop_oneof![3 => 1_usize..20, 1 => 1_usize..9_000]), 0..8).prop_map(
        |runs| {
            runs.into_iter()
                .flat_map(|(delta, times)| std::iter::repeat_n(delta, times))
                .take(MAX_STATUSES)
                .collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Also verified with an independent reader and writer: `rtcp-types`.
    #[test]
    fn written_values_are_read_back(
        ssrcs: (u32, u32), base_sequence: u16, reference in -(1_i32 << 23)..1 << 23, feedback_count: u8, steps in any_packets(),
    ) {
        let mut ticks = 0;
        let packets = steps.iter().map(|step| step.map(|step| {
            ticks += i32::from(step);
            ArrivalTicks(ticks)
        })).collect();
        let feedback = TransportFeedback {
            sender_ssrc: ssrcs.0, media_ssrc: ssrcs.1, base_sequence, reference_time: reference, feedback_count, packets,
        };
        let bytes = written(&feedback);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(read(&bytes), Ok(feedback));

        let theirs = Twcc::parse(&bytes[FEEDBACK_HEADER_BYTES..]).unwrap();
        prop_assert_eq!(theirs.base_sequence_number(), base_sequence);
        prop_assert_eq!(theirs.reference_time(), reference as u32 & 0x00ff_ffff);
        let statuses: Vec<_> = theirs.packets().map(Result::unwrap).collect();
        prop_assert_eq!(statuses.len(), steps.len());
        for ((sequence, status), (place, step)) in statuses.iter().zip(steps.iter().enumerate()) {
            prop_assert_eq!(*sequence, base_sequence.wrapping_add(place as u16));
            let expected = step.map_or(TwccPacketStatus::NotReceived, |delta| TwccPacketStatus::Received { delta });
            prop_assert_eq!(*status, expected);
        }
        // Its writer needs the same space or more.
        let statuses: Vec<_> = statuses.into_iter().map(|(_, status)| status).collect();
        let theirs = Twcc::builder(base_sequence, 0, feedback_count, &statuses, None).calculate_size().unwrap();
        prop_assert!(bytes.len() - FEEDBACK_HEADER_BYTES <= theirs);
    }

    #[test]
    fn every_arrival_is_reported_once_to_half_a_tick(
        start in 0_u64..200_000, begin in 0_u64..1 << 52, max_bytes in 20_usize..1500,
        steps in prop::collection::vec(
            (prop_oneof![8 => 0_u64..3, 1 => 1_u64..70_000], prop_oneof![8 => -2_000_000_i64..70_000_000, 1 => -9_000_000_000_i64..9_000_000_000]),
            1..200,
        ),
    ) {
        let (mut sequence, mut nanos) = (start, begin + 10_000_000_000_000);
        let mut sent = vec![(sequence, nanos)];
        for (gap, step) in steps {
            sequence += gap;
            nanos = nanos.saturating_add_signed(step);
            sent.push((sequence, nanos));
        }
        let feedback = encode(&arrivals(&sent), max_bytes);
        sent.dedup_by_key(|(sequence, _)| *sequence);

        let mut reported = Vec::new();
        for (count, feedback) in feedback.iter().enumerate() {
            prop_assert_eq!(feedback.feedback_count, count as u8);
            let read = read(&written(feedback)).unwrap();
            prop_assert!(matches!(read.packets.last(), Some(Some(_))));
            // Each message independently: numbers and times are known except for whole wraps.
            let unwrapped = TransportFeedbackUnwrapper::new().unwrap(&read).unwrap();
            reported.extend(unwrapped.filter_map(|(sequence, at)| Some((sequence, at?))));
        }
        let reference_period = 64_000_000 << 24;
        prop_assert_eq!(reported.len(), sent.len());
        for ((sequence, at), (sent, nanos)) in reported.iter().zip(&sent) {
            prop_assert_eq!(sequence % 65_536, sent % 65_536);
            let error = (at.as_nanos() + reference_period - nanos % reference_period) % reference_period;
            // A fresh unwrapper counts an arrival before time zero, as a wrap of the reference time makes one, as zero.
            let clamped = at.as_nanos() == 0 && nanos % reference_period > reference_period / 2;
            let exact = error.min(reference_period - error) <= TICK / 2;
            prop_assert!(clamped || exact, "{} for {}", at.as_nanos(), nanos);
        }
    }
    #[test]
    fn numbers_and_times_are_unwrapped_many_times(
        start in 0_u64..65_536, begin in 0_u64..1_000_000_000_000_000,
        steps in prop::collection::vec((1_u64..30_000, 0_u64..500_000_000_000_000), 1..100),
    ) {
        let mut encoder = TransportFeedbackEncoder::new(1200);
        let (mut unwrapper, mut feedback) = (TransportFeedbackUnwrapper::new(), TransportFeedback::default());
        let (mut sequence, mut tick) = (start, begin / TICK);
        for (gap, pause) in std::iter::once((0, 0)).chain(steps) {
            (sequence, tick) = (sequence + gap, tick + pause / TICK);
            let arrival = Arrival { sequence, at: Timestamp::from_nanos(tick * TICK) };
            encoder.encode(sequence, &[arrival], &mut feedback).unwrap();
            let read = read(&written(&feedback)).unwrap();
            let reported = unwrapper.unwrap(&read).unwrap().next();
            prop_assert_eq!(reported, Some((sequence, Some(PeerTimestamp::from_nanos(tick * TICK)))));
        }
    }

    /// `rtcp-types` gives the same statuses, deltas or error for the same bytes.
    #[test]
    fn random_bytes_are_read_as_by_another_reader(
        mut fci in prop::collection::vec(any::<u8>(), 8..64), count in 0_u16..40, run in 0_u16..12,
        shape in prop::collection::vec(0_u8..4, 0..6),
    ) {
        fci.resize(fci.len().next_multiple_of(4), 0);
        fci[2..4].copy_from_slice(&count.to_be_bytes());
        // Random chunks are mostly runs that are too long: some are changed to short ones or vectors.
        for (place, shape) in fci[8..].chunks_exact_mut(2).zip(shape) {
            match shape {
                0 => place.copy_from_slice(&(u16::from(place[0] & 3) << 13 | run).to_be_bytes()),
                1 => place[0] = 0x80 | place[0] & 0x3f,
                2 => place[0] |= 0xc0,
                _ => {}
            }
        }
        let mut bytes = vec![0x8f, 205, 0, (2 + fci.len() / 4) as u8, 0, 0, 0, 1, 0, 0, 0, 2];
        bytes.extend(&fci);
        let ours = read(&bytes);
        let theirs = Twcc::parse(&fci).unwrap();
        let packets: Result<Vec<_>, _> = theirs.packets().collect();
        match packets {
            Ok(packets) if packets.len() == usize::from(count) => {
                let ours = ours.unwrap();
                let statuses: Vec<_> = deltas_as_read(&ours);
                let expected: Vec<_> = packets.into_iter().map(|(_, status)| match status {
                    TwccPacketStatus::NotReceived => None,
                    TwccPacketStatus::Received { delta } => Some(i32::from(delta)),
                }).collect();
                prop_assert_eq!(statuses, expected);
                prop_assert_eq!(ours.base_sequence, theirs.base_sequence_number());
                prop_assert_eq!(ours.reference_time as u32 & 0x00ff_ffff, theirs.reference_time());
                prop_assert_eq!(ours.feedback_count, theirs.feedback_packet_count());
            }
            Err(RtcpParseError::TwccReservedPacketStatus) => prop_assert_eq!(ours, Err(RtcpError::ReservedStatus)),
            // Missing statuses, visible only in the length of its iterator; and truncated deltas.
            _ => prop_assert!(matches!(ours, Err(RtcpError::Truncated { .. })), "{:?}", ours),
        }
    }
}
