//! Properties of all packets except transport-wide feedback, with random data.

use giusto_units::{DataRate, Ecn, PeerTimestamp, TimeDelta};
use proptest::prelude::*;
use rtcp_types::RtcpPacketParser;

use super::{read, written};
use crate::{
    NtpDelay, NtpShort, NtpTimestamp,
    rtcp::{
        ArrivalOffset, Description, IntraRequest, NackEntry, PacketReception, ReportBlock, StreamFeedback,
        packets::*,
    },
};

fn any_block() -> impl Strategy<Value = ReportBlock> {
    let lost = -(1_i32 << 23)..1 << 23;
    (any::<(u32, u8, u32, u32, u32, u32)>(), lost).prop_map(|(fields, cumulative_lost)| {
        let (ssrc, fraction_lost, highest_sequence, jitter, last, delay) = fields;
        ReportBlock {
            ssrc,
            fraction_lost,
            cumulative_lost,
            highest_sequence,
            jitter,
            last_sender_report: (last != 0).then_some(NtpShort::from_bits(last)),
            delay_since_last: NtpDelay::from_bits(delay),
        }
    })
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let blocks = || prop::collection::vec(any_block(), 0..32);
    let text = || prop::option::of("\\PC{0,60}");
    let reception = any::<(bool, u8, u16)>().prop_map(|(received, ecn, offset)| {
        received
            .then_some(PacketReception { ecn: Ecn::from_bits(ecn), offset: ArrivalOffset::from_bits(offset) })
    });
    let stream = (any::<(u32, u16)>(), prop::collection::vec(reception, 0..50))
        .prop_map(|((ssrc, begin_sequence), packets)| StreamFeedback { ssrc, begin_sequence, packets });
    let chunk = (any::<u32>(), text()).prop_map(|(ssrc, cname)| Description { ssrc, cname });
    prop_oneof![
        (any::<(u32, u64, u32, u32, u32)>(), blocks()).prop_map(|(fields, blocks)| {
            let (ssrc, time, rtp_timestamp, packets, payload_bytes) = fields;
            let time = NtpTimestamp::from_bits(time);
            Packet::SenderReport(SenderReport { ssrc, time, rtp_timestamp, packets, payload_bytes, blocks })
        }),
        (any::<u32>(), blocks())
            .prop_map(|(ssrc, blocks)| Packet::ReceiverReport(ReceiverReport { ssrc, blocks })),
        prop::collection::vec(chunk, 0..32)
            .prop_map(|chunks| Packet::SourceDescription(SourceDescription { chunks })),
        (prop::collection::vec(any::<u32>(), 0..32), text())
            .prop_map(|(sources, reason)| Packet::Bye(Bye { sources, reason })),
        (any::<(u32, u32)>(), prop::collection::vec(stream, 0..6)).prop_map(
            |((sender_ssrc, time), streams)| {
                let time = NtpShort::from_bits(time);
                Packet::CongestionFeedback(CongestionFeedback { sender_ssrc, streams, time })
            }
        ),
        (any::<(u32, u32)>(), prop::collection::vec(any::<(u16, u16)>(), 0..40)).prop_map(
            |((sender_ssrc, media_ssrc), entries)| {
                let entries =
                    entries.into_iter().map(|(packet_id, following)| NackEntry { packet_id, following });
                Packet::Nack(Nack { sender_ssrc, media_ssrc, entries: entries.collect() })
            }
        ),
        (any::<(u32, bool, u32)>(), 0_u16..1 << 15).prop_map(|((sender_ssrc, gradual, bps), signal)| {
            let received = DataRate::from_bps(bps.into());
            Packet::NadaFeedback(NadaFeedback { sender_ssrc, gradual, signal, received })
        }),
        any::<(u32, u32)>().prop_map(|(sender_ssrc, media_ssrc)| {
            Packet::PictureLoss(PictureLoss { sender_ssrc, media_ssrc })
        }),
        (any::<u32>(), prop::collection::vec(any::<(u32, u8)>(), 0..10)).prop_map(
            |(sender_ssrc, requests)| {
                let requests = requests.into_iter().map(|(ssrc, sequence)| IntraRequest { ssrc, sequence });
                Packet::FullIntra(FullIntra { sender_ssrc, requests: requests.collect() })
            }
        ),
        (any::<(u32, u64)>(), prop::collection::vec(any::<u32>(), 0..256)).prop_map(
            |((sender_ssrc, bps), sources)| {
                let bitrate = Remb::quantised(DataRate::from_bps(bps));
                Packet::Remb(Remb { sender_ssrc, bitrate, sources })
            }
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_compound_is_read_back(packets in prop::collection::vec(any_packet(), 1..6)) {
        let mut datagram = Vec::new();
        for packet in &packets {
            packet.write(&mut datagram).unwrap();
            prop_assert_eq!(datagram.len() % 4, 0);
        }
        let read = Packets::new(&datagram).unwrap().collect::<Result<Vec<_>, _>>();
        prop_assert_eq!(read, Ok(packets));
    }

    /// The numbers of a NACK are those that were asked for, in any order of the numbers.
    #[test]
    fn a_nack_contains_exactly_the_lost_packets(start: u16, steps in prop::collection::vec(1_u16..40, 0..100)) {
        let numbers = steps.iter().scan(start, |number, step| { *number = number.wrapping_add(*step); Some(*number) });
        let numbers: Vec<u16> = numbers.collect();
        let nack = Nack::of_numbers(1, 2, numbers.iter().copied());
        prop_assert!(nack.numbers().eq(numbers.iter().copied()));
        prop_assert!(nack.entries.len() <= numbers.len());
        prop_assert_eq!(read(&written(&Packet::Nack(nack.clone()))), Ok(Packet::Nack(nack)));
    }

    #[test]
    fn rates_are_exact_to_1_in_131072(bps: u64) {
        let read = Remb::quantised(DataRate::from_bps(bps)).as_bps();
        prop_assert!(read <= bps && bps - read <= bps >> 17);
        prop_assert_eq!(Remb::quantised(DataRate::from_bps(read)).as_bps(), read);
    }

    #[test]
    fn an_arrival_is_reported_to_a_1024th_of_a_second(report in 0_u64..1 << 60, before in 0_u64..7_997_000_000) {
        let report = report + before;
        let arrival = report - before;
        let offset = ArrivalOffset::from_delta(TimeDelta::from_nanos(before as i64));
        let reported = offset.arrival(PeerTimestamp::from_nanos(report)).unwrap();
        prop_assert!(reported.as_nanos() >= arrival && reported.as_nanos() - arrival < 976_563);
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 198_u8..208, formats: u8, shaped: bool,
    ) {
        let words = (bytes.len() / 4).max(1) as u8;
        if shaped {
            bytes.truncate(usize::from(words) * 4);
        }
        if let (true, [flags, packet_type, l0, l1, ..]) = (shaped, &mut bytes[..]) {
            (*flags, *packet_type) = (0x80 | formats & 0x3f, kind);
            (*l0, *l1) = (0, words - 1);
        }
        for count in [ReportCount::Exact, ReportCount::Inclusive] {
            let Ok(packets) = Packets::new(&bytes) else { continue };
            for packet in packets.with_report_count(count).flatten() {
                prop_assert_eq!(read(&written(&packet)), Ok(packet));
            }
        }
    }

    /// `rtcp-types` reads the same values from the same bytes.
    #[test]
    fn random_reports_are_read_as_by_another_reader(
        mut bytes in prop::collection::vec(any::<u8>(), 8..160), sender: bool, count in 0_u8..6, padded: bool,
    ) {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let kind = if sender { packet_type::SENDER_REPORT } else { packet_type::RECEIVER_REPORT };
        let length = (bytes.len() / 4 - 1) as u8;
        bytes[..4].copy_from_slice(&[0x80 | u8::from(padded) << 5 | count, kind, 0, length]);
        if padded {
            *bytes.last_mut().unwrap() &= 0x1c;
        }
        let same = |ours: &[ReportBlock], theirs: Vec<rtcp_types::ReportBlock<'_>>| {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| {
                ours.ssrc == theirs.ssrc()
                    && ours.fraction_lost == theirs.fraction_lost()
                    && ours.cumulative_lost as u32 & 0x00ff_ffff == theirs.cumulative_lost()
                    && (-(1 << 23)..1 << 23).contains(&ours.cumulative_lost)
                    && ours.highest_sequence == theirs.extended_sequence_number()
                    && ours.jitter == theirs.interarrival_jitter()
                    && ours.last_sender_report.unwrap_or_default().to_bits() == theirs.last_sender_report_timestamp()
                    && ours.delay_since_last.to_bits() == theirs.delay_since_last_sender_report_timestamp()
            })
        };
        match read(&bytes) {
            Ok(Packet::SenderReport(ours)) => {
                let theirs = rtcp_types::SenderReport::parse(&bytes).unwrap();
                prop_assert_eq!((ours.ssrc, ours.time.to_bits()), (theirs.ssrc(), theirs.ntp_timestamp()));
                prop_assert_eq!(ours.rtp_timestamp, theirs.rtp_timestamp());
                prop_assert_eq!((ours.packets, ours.payload_bytes), (theirs.packet_count(), theirs.octet_count()));
                prop_assert!(same(&ours.blocks, theirs.report_blocks().collect()));
            }
            Ok(Packet::ReceiverReport(ours)) => {
                let theirs = rtcp_types::ReceiverReport::parse(&bytes).unwrap();
                prop_assert_eq!(ours.ssrc, theirs.ssrc());
                prop_assert!(same(&ours.blocks, theirs.report_blocks().collect()));
            }
            Ok(other) => prop_assert!(false, "{:?}", other),
            // If they accept it, the blocks would extend into the padding.
            Err(error) => {
                let refused = rtcp_types::SenderReport::parse(&bytes).is_err()
                    && rtcp_types::ReceiverReport::parse(&bytes).is_err();
                prop_assert!(refused || padded, "{:?}", error);
            }
        }
    }
}
