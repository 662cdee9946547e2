//! Tests of all packets except transport-wide feedback: published vectors, truncated packets, another writer.

#[path = "packets_properties.rs"]
mod properties;

use giusto_units::{DataRate, Ecn, PeerTimestamp, TimeDelta};

use super::*;
use crate::{
    NtpDelay, NtpShort, NtpTimestamp,
    rtcp::{
        ArrivalOffset, ArrivalTicks, Description, IntraRequest, PacketReception, ReceptionTime, ReportBlock,
        StreamFeedback,
    },
};

fn written(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.write(&mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<Packet, RtcpError> {
    Packets::new(bytes)?.next().expect("one packet")
}

/// Checks that the bytes are read as the packet, and the packet is written as the bytes.
#[track_caller]
fn same(bytes: &[u8], packet: &Packet) {
    assert_eq!(read(bytes).as_ref(), Ok(packet));
    assert_eq!(written(packet), bytes);
}

/// One packet of each type, with all fields in use.
fn examples() -> Vec<Packet> {
    let block = ReportBlock {
        ssrc: 0x2345_6789,
        fraction_lost: 55,
        cumulative_lost: -2,
        highest_sequence: 0x2223_2425,
        jitter: 0x3334_3536,
        last_sender_report: Some(NtpShort::from_bits(0x4445_4647)),
        delay_since_last: NtpDelay::from_bits(0x5556_5758),
    };
    let reception = PacketReception { ecn: Ecn::Ect1, offset: ArrivalOffset::from_bits(512) };
    vec![
        Packet::SenderReport(SenderReport {
            ssrc: 1,
            time: NtpTimestamp::from_bits(0xb44d_b705_2000_0000),
            rtp_timestamp: 2,
            packets: 3,
            payload_bytes: 4,
            blocks: vec![block; 2],
        }),
        Packet::ReceiverReport(ReceiverReport { ssrc: 1, blocks: vec![block] }),
        Packet::SourceDescription(SourceDescription {
            chunks: vec![
                Description { ssrc: 1, cname: Some("käfer@example.org".into()) },
                Description { ssrc: 2, cname: None },
            ],
        }),
        Packet::Bye(Bye { sources: vec![1, 2], reason: Some("camera malfunction".into()) }),
        Packet::TransportFeedback(TransportFeedback {
            packets: vec![Some(ArrivalTicks::new(3)), None, Some(ArrivalTicks::new(-900))],
            ..TransportFeedback::default()
        }),
        Packet::CongestionFeedback(CongestionFeedback {
            sender_ssrc: 1,
            streams: vec![
                StreamFeedback {
                    ssrc: 2,
                    begin_sequence: 65_534,
                    packets: vec![Some(reception), None, Some(reception)],
                },
                StreamFeedback { ssrc: 3, begin_sequence: 7, packets: vec![] },
            ],
            time: NtpShort::from_bits(0x0102_0304),
        }),
        Packet::ScreamFeedback(ScreamFeedback {
            sender_ssrc: 1,
            media_ssrc: 2,
            time: ReceptionTime::from_bits(0x0102_0304),
            highest_sequence: 5,
            ecn_echo: 6,
            source_quench: true,
            received: 0xf0f1_f2f3,
        }),
        Packet::NadaFeedback(NadaFeedback {
            sender_ssrc: 1,
            gradual: true,
            signal: 0x0123,
            received: DataRate::from_bps(1_500_000),
        }),
        Packet::Nack(Nack::of_numbers(1, 2, [7, 8, 23, 24, 300])),
        Packet::PictureLoss(PictureLoss { sender_ssrc: 1, media_ssrc: 2 }),
        Packet::FullIntra(FullIntra {
            sender_ssrc: 1,
            requests: vec![IntraRequest { ssrc: 2, sequence: 255 }],
        }),
        Packet::Remb(Remb { sender_ssrc: 1, bitrate: DataRate::from_bps(1_000_000), sources: vec![2, 3] }),
    ]
}

/// `receiver_report_unittest.cc` of libwebrtc.
#[test]
fn the_receiver_report_of_libwebrtc_is_read_and_written() {
    let bytes = [
        0x81, 201, 0, 7, 0x12, 0x34, 0x56, 0x78, 0x23, 0x45, 0x67, 0x89, 55, 0x11, 0x12, 0x13, 0x22, 0x23,
        0x24, 0x25, 0x33, 0x34, 0x35, 0x36, 0x44, 0x45, 0x46, 0x47, 0x55, 0x56, 0x57, 0x58,
    ];
    let block = ReportBlock {
        ssrc: 0x2345_6789,
        fraction_lost: 55,
        cumulative_lost: 0x11_1213,
        highest_sequence: 0x2223_2425,
        jitter: 0x3334_3536,
        last_sender_report: Some(NtpShort::from_bits(0x4445_4647)),
        delay_since_last: NtpDelay::from_bits(0x5556_5758),
    };
    same(&bytes, &Packet::ReceiverReport(ReceiverReport { ssrc: 0x1234_5678, blocks: vec![block] }));
    let mut damaged = bytes;
    damaged[0] += 1;
    let what = "a receiver report";
    assert_eq!(read(&damaged), Err(RtcpError::Truncated { what, needed: 56, found: 32 }));
}

/// `receiver_report_test.go` of pion/rtcp: profile-specific extensions after the blocks are ignored.
#[test]
fn the_receiver_report_of_pion_is_read() {
    let mut bytes = vec![
        0x81, 0xc9, 0, 9, 0x90, 0x2f, 0x9e, 0x2e, 0xbc, 0x5e, 0x9a, 0x40, 0, 0, 0, 0, 0, 0, 0x46, 0xe1, 0, 0,
        1, 0x11, 9, 0xf3, 0x64, 0x32, 0, 2, 0x4a, 0x79,
    ];
    bytes.extend(*b"TESTDATA");
    let Ok(Packet::ReceiverReport(report)) = read(&bytes) else { panic!("no receiver report") };
    assert_eq!((report.ssrc, report.blocks.len()), (0x902f_9e2e, 1));
    let ReportBlock { ssrc, highest_sequence, jitter, last_sender_report, delay_since_last, .. } =
        report.blocks[0];
    assert_eq!((ssrc, highest_sequence, jitter), (0xbc5e_9a40, 0x46e1, 273));
    assert_eq!(last_sender_report, Some(NtpShort::from_bits(0x09f3_6432)));
    assert_eq!(delay_since_last, NtpDelay::from_bits(150_137));
}

#[test]
fn losses_are_limited_to_24_signed_bits() {
    let reread = |cumulative_lost| {
        let block = ReportBlock { cumulative_lost, fraction_lost: 0xff, ..ReportBlock::default() };
        let report = Packet::ReceiverReport(ReceiverReport { ssrc: 0, blocks: vec![block] });
        let Ok(Packet::ReceiverReport(report)) = read(&written(&report)) else {
            panic!("no receiver report")
        };
        assert_eq!(report.blocks[0].fraction_lost, 0xff);
        report.blocks[0].cumulative_lost
    };
    let limit = 1 << 23;
    assert_eq!([-1, 0, 1, limit - 1, -limit].map(reread), [-1, 0, 1, limit - 1, -limit]);
    assert_eq!([limit, i32::MAX, -limit - 1, i32::MIN].map(reread), [limit - 1, limit - 1, -limit, -limit]);
}

/// `remb_unittest.cc` of libwebrtc.
#[test]
fn the_estimate_of_libwebrtc_is_read_and_written() {
    let bytes = [
        0x8f, 206, 0, 7, 0x12, 0x34, 0x56, 0x78, 0, 0, 0, 0, b'R', b'E', b'M', b'B', 3, 7, 0xfb, 0x93, 0x23,
        0x45, 0x67, 0x89, 0x23, 0x45, 0x67, 0x8a, 0x23, 0x45, 0x67, 0x8b,
    ];
    let remb = Remb {
        sender_ssrc: 0x1234_5678,
        bitrate: DataRate::from_bps(522_022),
        sources: vec![0x2345_6789, 0x2345_678a, 0x2345_678b],
    };
    same(&bytes, &Packet::Remb(remb.clone()));

    let large = Remb { bitrate: DataRate::from_bps(0x3_fb93 << 30), ..Remb::default() };
    assert_eq!(read(&written(&Packet::Remb(large.clone()))), Ok(Packet::Remb(large)));

    let changed = |changes: &[(usize, u8)]| {
        let mut changed = bytes;
        for (place, byte) in changes {
            changed[*place] = *byte;
        }
        changed
    };
    let rate = RtcpError::Bitrate { mantissa: 0x3_fb93, exponent: 63 };
    assert_eq!(read(&changed(&[(17, 0xff)])), Err(rate));
    let what = "an estimated maximum bitrate";
    assert_eq!(read(&changed(&[(16, 4)])), Err(RtcpError::Truncated { what, needed: 4, found: 0 }));
    assert_eq!(read(&changed(&[(16, 2)])), Err(RtcpError::Excess { what, found: 4 }));
    // Another application message is not REMB.
    let other = changed(&[(12, b'N')]);
    let mut packets = Packets::new(&other).unwrap();
    assert_eq!((packets.next(), packets.skipped()), (None, 1));

    let mut buffer = Vec::new();
    let many = Remb { sources: vec![1; 256], ..Remb::default() };
    let error = RtcpError::TooMany { what: "sources", found: 256, max: 255 };
    assert_eq!((many.write(&mut buffer), buffer.len()), (Err(error), 0));
}

/// `receiver_estimated_maximum_bitrate_test.go` of pion/rtcp, sent by Chrome; and the next lower rate.
#[test]
fn rates_are_rounded_down_to_18_bits() {
    let bytes = [143, 206, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0, 82, 69, 77, 66, 1, 26, 32, 223, 72, 116, 237, 22];
    let remb = |bps| Remb { sender_ssrc: 1, bitrate: DataRate::from_bps(bps), sources: vec![1_215_622_422] };
    same(&bytes, &Packet::Remb(remb(8_927_168)));
    let below = read(&written(&Packet::Remb(remb(8_927_167))));
    assert_eq!(below, Ok(Packet::Remb(remb(8_927_104))));
    assert_eq!(Remb::quantised(DataRate::from_bps(8_927_167)), DataRate::from_bps(8_927_104));
}

/// `rfc8888_test.go` of pion/rtcp, after erratum 8166.
#[test]
fn the_feedback_of_pion_is_read_and_written() {
    let received = |bits| Some(PacketReception { ecn: Ecn::NotEct, offset: ArrivalOffset::from_bits(bits) });
    let empty = CongestionFeedback { sender_ssrc: 1, streams: vec![], time: NtpShort::from_bits(1) };
    same(&[0x8b, 0xcd, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1], &Packet::CongestionFeedback(empty.clone()));

    let bytes = [
        0x8b, 0xcd, 0, 10, 0, 0, 0, 1, 0, 0, 0, 1, 0, 2, 0, 4, 0x9f, 0xfd, 0x9f, 0xfc, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 2, 0, 3, 0x9f, 0xfd, 0x9f, 0xfc, 0, 0, 0, 0, 0, 0, 0, 1,
    ];
    let four = vec![received(8189), received(8188), None, None];
    let streams = vec![
        StreamFeedback { ssrc: 1, begin_sequence: 2, packets: four.clone() },
        StreamFeedback { ssrc: 2, begin_sequence: 2, packets: four[..3].to_vec() },
    ];
    let feedback = CongestionFeedback { streams, ..empty };
    assert_eq!(feedback.byte_len(), bytes.len());
    same(&bytes, &Packet::CongestionFeedback(feedback));

    // Blocks alone: one with CE, and two of packets that were not received, whose other bits are ignored.
    let block = |bits: u16| {
        let [b0, b1] = bits.to_be_bytes();
        let bytes = [0x8b, 0xcd, 0, 5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 2, 0, 1, b0, b1, 0, 0, 0, 0, 0, 1];
        let Ok(Packet::CongestionFeedback(feedback)) = read(&bytes) else { panic!("no feedback") };
        feedback.streams[0].packets[0]
    };
    let marked = Some(PacketReception { ecn: Ecn::Ce, offset: ArrivalOffset::from_bits(8184) });
    assert_eq!(block(0xfff8), marked);
    assert_eq!([block(0x6200), block(0x2200), block(0)], [None; 3]);
    assert_eq!(
        [block(0x9ffe), block(0x9fff)],
        [
            Some(PacketReception { ecn: Ecn::NotEct, offset: ArrivalOffset::OVER_RANGE }),
            Some(PacketReception { ecn: Ecn::NotEct, offset: ArrivalOffset::UNAVAILABLE }),
        ]
    );
}

/// A sender of the original text writes 31 for 32 blocks, and the packet otherwise looks the same.
#[test]
fn the_original_report_count_is_read_if_configured() {
    let reception = |ticks| Some(PacketReception { ecn: Ecn::Ect1, offset: ArrivalOffset::from_bits(ticks) });
    let packets: Vec<_> = (0..32).map(reception).collect();
    let stream = StreamFeedback { ssrc: 9, begin_sequence: 100, packets: packets.clone() };
    let feedback = CongestionFeedback { sender_ssrc: 1, streams: vec![stream], time: NtpShort::from_bits(5) };
    let mut bytes = written(&Packet::CongestionFeedback(feedback.clone()));
    assert_eq!(bytes[15], 32);

    let mut old = bytes.clone();
    old[15] = 31;
    let packets_of = |bytes: &[u8], count| match Packets::new(bytes).unwrap().with_report_count(count).next()
    {
        Some(Ok(Packet::CongestionFeedback(feedback))) => Ok(feedback.streams[0].packets.clone()),
        Some(Err(error)) => Err(error),
        other => panic!("{other:?}"),
    };
    assert_eq!(packets_of(&old, ReportCount::Inclusive), Ok(packets.clone()));
    assert_eq!(packets_of(&old, ReportCount::Exact), Ok(packets[..31].to_vec()));
    assert_eq!(packets_of(&bytes, ReportCount::Exact), Ok(packets));
    assert!(packets_of(&bytes, ReportCount::Inclusive).is_err());
    // A count of zero means no reports in both forms.
    bytes.truncate(16);
    bytes.extend([0, 0, 0, 5]);
    (bytes[3], bytes[15]) = (4, 0);
    for count in [ReportCount::Exact, ReportCount::Inclusive] {
        assert_eq!(packets_of(&bytes, count), Ok(vec![]));
    }
}

#[test]
fn a_report_covers_at_most_a_quarter_of_the_numbers() {
    let feedback = |packets| CongestionFeedback {
        streams: vec![StreamFeedback { packets: vec![None; packets], ..StreamFeedback::default() }],
        ..CongestionFeedback::default()
    };
    let (mut buffer, what) = (Vec::new(), "packets of a stream");
    let error = RtcpError::TooMany { what, found: 16_385, max: 16_384 };
    assert_eq!(feedback(16_385).write(&mut buffer), Err(error));
    assert!(buffer.is_empty());
    feedback(16_384).write(&mut buffer).unwrap();
    assert_eq!(buffer.len(), feedback(16_384).byte_len());
    buffer[15] = 1;
    assert_eq!(read(&buffer), Err(error));
}

/// The example of RFC 8888 §3.1, 512 for half a second, and its special values.
#[test]
fn offsets_are_those_of_rfc_8888() {
    let report = 10_000_000_000;
    let offset = |nanos| ArrivalOffset::from_delta(TimeDelta::from_nanos(nanos)).to_bits();
    assert_eq!([offset(500_000_000), offset(0), offset(976_562), offset(976_563)], [512, 0, 0, 1]);
    // 8189/1024 s are 7.997 070 312 5 s, 8190/1024 s are 7.998 046 875 s.
    assert_eq!([offset(7_997_070_312), offset(7_997_070_313), offset(7_998_046_874)], [8188, 8189, 8189]);
    assert_eq!([offset(7_998_046_875), offset(9_000_000_000)], [0x1ffe, 0x1ffe]);
    for bits in 0..0x1ffe {
        let again = ArrivalOffset::from_bits(bits).to_delta().map(ArrivalOffset::from_delta);
        assert_eq!(again, Some(ArrivalOffset::from_bits(bits)));
    }
    assert_eq!([offset(i64::MAX), offset(-1), offset(i64::MIN)], [0x1ffe, 0x1fff, 0x1fff]);
    assert_eq!([ArrivalOffset::OVER_RANGE.to_delta(), ArrivalOffset::UNAVAILABLE.to_delta()], [None; 2]);
    assert_eq!(ArrivalOffset::from_bits(512).to_delta(), Some(TimeDelta::from_millis(500)));
    let half = ArrivalOffset::from_bits(512).arrival(PeerTimestamp::from_nanos(report));
    assert_eq!(half, Some(PeerTimestamp::from_nanos(9_500_000_000)));
    assert_eq!(ArrivalOffset::from_bits(512).arrival(PeerTimestamp::from_nanos(499_999_999)), None);
}

/// The figures of RFC 3550 §6.5 and §6.6, by hand.
#[test]
fn names_and_goodbyes_have_the_layout_of_rfc_3550() {
    let description = SourceDescription {
        chunks: vec![
            Description { ssrc: 0x0102_0304, cname: Some("ab".into()) },
            Description { ssrc: 5, cname: Some("abc".into()) },
            Description { ssrc: 6, cname: None },
        ],
    };
    let bytes = [
        0x83, 202, 0, 8, 1, 2, 3, 4, 1, 2, b'a', b'b', 0, 0, 0, 0, 0, 0, 0, 5, 1, 3, b'a', b'b', b'c', 0, 0,
        0, 0, 0, 0, 6, 0, 0, 0, 0,
    ];
    same(&bytes, &Packet::SourceDescription(description));
    // A NOTE item before the name, and a name that is not UTF-8.
    let mut note = [0x81, 202, 0, 4, 0, 0, 0, 1, 7, 2, b'x', b'y', 1, 1, b'z', 0, 0, 0, 0, 0];
    let chunk = Description { ssrc: 1, cname: Some("z".into()) };
    note[3] = 3;
    assert_eq!(read(&note[..16]), Ok(Packet::SourceDescription(SourceDescription { chunks: vec![chunk] })));
    note[14] = 0xff;
    assert_eq!(read(&note[..16]), Err(RtcpError::Text("a canonical name")));

    let bytes = [0x82, 203, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 2, b'o', b'k', 0];
    same(&bytes, &Packet::Bye(Bye { sources: vec![1, 2], reason: Some("ok".into()) }));
    same(&[0x80, 203, 0, 0], &Packet::Bye(Bye::default()));
}

/// RFC 8698 §5.3: 15 bits of 100 µs, 32 bits of bit/s.
#[test]
fn nada_feedback_is_limited_to_its_fields() {
    let large =
        NadaFeedback { signal: u16::MAX, received: DataRate::from_bps(u64::MAX), ..NadaFeedback::default() };
    let bytes = written(&Packet::NadaFeedback(large));
    assert_eq!(bytes.len(), NadaFeedback::BYTES);
    assert_eq!(bytes[12..], [0x7f, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    // Another application-defined packet is skipped.
    let mut other = bytes.clone();
    other[8] = b'n';
    let mut packets = Packets::new(&other).unwrap();
    assert_eq!((packets.next(), packets.skipped()), (None, 1));
    let mut cut = bytes.clone();
    cut[3] = 3;
    let what = "NADA feedback";
    assert_eq!(read(&cut[..16]), Err(RtcpError::Truncated { what, needed: 4, found: 0 }));
    let mut long = bytes;
    long[3] = 5;
    long.extend([0; 4]);
    assert_eq!(read(&long), Err(RtcpError::Excess { what, found: 4 }));
}

/// RFC 3550 A.2 and RFC 5506.
#[test]
fn a_datagram_is_accepted_or_rejected_as_a_whole() {
    let mut datagram = Vec::new();
    let all = examples();
    for packet in &all {
        packet.write(&mut datagram).unwrap();
    }
    datagram.extend([0x80, 204, 0, 2, 0, 0, 0, 1, b'n', b'a', b'm', b'e']); // APP
    datagram.extend([0x83, 205, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 5, 0, 0]); // TMMBR (RFC 5104)
    datagram.extend([0xa0, 209, 0, 1, 0, 0, 0, 4]); // RSI (RFC 5760), all padding

    let mut packets = Packets::new(&datagram).unwrap();
    assert!(!packets.is_reduced_size());
    assert_eq!(packets.by_ref().collect::<Result<Vec<_>, _>>().as_ref(), Ok(&all));
    assert_eq!(packets.skipped(), 3);

    for length in 0..datagram.len() {
        // A datagram can only end between packets.
        let cut = Packets::new(&datagram[..length]).map(|packets| packets.flatten().count());
        assert!(matches!(cut, Err(RtcpError::Truncated { .. }) | Ok(1..=12)), "{length}: {cut:?}");
    }
    let mut version = datagram.clone();
    let second = written(&all[0]).len();
    version[second] = 0x41;
    assert_eq!(Packets::new(&version).unwrap_err(), RtcpError::Version(1));
    let mut padded = datagram.clone();
    padded[0] |= 0x20;
    padded[second - 1] = 4;
    assert_eq!(Packets::new(&padded).unwrap_err(), RtcpError::PaddingWithin);

    assert!(Packets::new(&written(&all[6])).unwrap().is_reduced_size());
    assert!(!Packets::new(&written(&all[1])).unwrap().is_reduced_size());
}

#[test]
fn a_damaged_packet_does_not_hide_the_next() {
    let [report, .., remb] = &examples()[..] else { panic!("there are several") };
    let mut datagram = written(report);
    datagram[0] += 1;
    remb.write(&mut datagram).unwrap();
    let read: Vec<_> = Packets::new(&datagram).unwrap().collect();
    assert!(matches!(read[0], Err(RtcpError::Truncated { needed: 100, found: 76, .. })));
    assert_eq!(read[1..], [Ok(remb.clone())]);
}

/// Truncated at every length, with the original length field and with one that fits: each gives an error or a
/// shorter packet.
#[test]
fn a_truncated_packet_differs_from_the_original() {
    for packet in examples() {
        let bytes = written(&packet);
        for length in 0..bytes.len() {
            assert!(Packets::new(&bytes[..length]).is_err(), "{packet:?} at {length}");
            if length % 4 == 0 && length > 0 {
                let mut cut = bytes[..length].to_vec();
                cut[3] = (length / 4 - 1) as u8;
                let read = Packets::new(&cut).unwrap().next();
                // A goodbye without its reason is valid; truncated feedback ends with a wrong time.
                let smaller = match (&read, &packet) {
                    (Some(Ok(Packet::Bye(read))), Packet::Bye(bye)) => {
                        read.sources == bye.sources && read.reason.is_none()
                    }
                    (Some(Ok(Packet::CongestionFeedback(read))), Packet::CongestionFeedback(whole)) => {
                        read.streams.len() < whole.streams.len()
                    }
                    (Some(Ok(Packet::Nack(read))), Packet::Nack(whole)) => {
                        read.entries.len() < whole.entries.len()
                    }
                    (Some(Ok(Packet::FullIntra(read))), Packet::FullIntra(whole)) => {
                        read.requests.len() < whole.requests.len()
                    }
                    _ => matches!(read, None | Some(Err(_))),
                };
                assert!(smaller, "{packet:?} at {length}: {read:?}");
            }
        }
    }
}

/// The bytes that `rtcp-types` 0.3, an independent implementation, writes of the same packets.
#[test]
fn packets_have_the_bytes_of_another_writer() {
    let block = "23456789 37fffffe 22232425 33343536 44454647 55565758";
    for (place, words) in [
        (0, format!("82c80012 1 b44db705 20000000 2 3 4 {block} {block}")),
        (1, format!("81c90007 1 {block}")),
        // The canonical name of 18 bytes, and a source without one.
        (2, "82ca0009 1 01126bc3 a4666572 40657861 6d706c65 2e6f7267 0 2 0".to_owned()),
        (3, "82cb0007 1 2 1263616d 65726120 6d616c66 756e6374 696f6e00".to_owned()),
        (8, "81cd0005 1 2 00078001 00180000 012c0000".to_owned()),
        (9, "81ce0002 1 2".to_owned()),
        (10, "84ce0004 1 0 2 ff000000".to_owned()),
    ] {
        let words = words.split(' ').map(|word| u32::from_str_radix(word, 16).unwrap());
        let bytes: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
        assert_eq!(written(&examples()[place]), bytes, "{place}");
    }
    // Mode 1 and 0x123, two bytes reserved, 1 500 000 = 0x16e360.
    assert_eq!(written(&examples()[7])[12..], [0x81, 0x23, 0, 0, 0, 0x16, 0xe3, 0x60]);
}

/// A status that repeats takes two bytes for 8191 packets.
#[test]
fn a_datagram_reports_at_most_as_many_packets_as_there_are_numbers() {
    let mut bytes = Vec::new();
    TransportFeedback { packets: vec![None; 40_000], ..TransportFeedback::default() }
        .write(&mut bytes)
        .unwrap();
    assert!(bytes.len() < 40, "{}", bytes.len());
    assert!(Packets::new(&bytes).unwrap().all(|packet| packet.is_ok()));
    let read: Vec<_> = Packets::new(&bytes.repeat(100)).unwrap().collect();
    let error = RtcpError::TooMany { what: "packet reports", found: 80_000, max: 65_536 };
    assert_eq!((read.len(), read[1].as_ref().unwrap_err()), (2, &error));
}
