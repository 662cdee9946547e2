use giusto_congestion::FeedbackKind;
use giusto_rtp::{
    AbsSendTime, ExtensionForm, ExtensionWriter, NtpTimestamp,
    rtcp::{Bye, Packets, ReportBlock, SenderReport, TransportFeedback, TransportFeedbackUnwrapper},
};

use super::*;
use crate::{
    media::{
        event::FrameArrival,
        extensions::{ABS_SEND_TIME_ID, ExtensionIds, TRANSPORT_SEQUENCE_ID},
        format::PayloadFormat,
        repair_settings::RepairConfig,
    },
    testing::at,
};

/// The packets of one kind in datagrams.
macro_rules! only {
    ($kind:ident, $datagrams:expr) => {
        $datagrams.into_iter().flatten().filter_map(|packet| match packet {
            Packet::$kind(found) => Some(found),
            _ => None,
        })
    };
}

mod acknowledged;
mod congestion;
mod encodings;
mod estimate;
mod frames;
mod nada;
mod pictures;
mod properties;
mod repair;
mod sources;
mod transport;

pub(super) fn receiver(feedback: FeedbackKind) -> MediaReceiver {
    MediaReceiver::new(MediaReceiverConfig::new(1, "receiver", feedback)).unwrap()
}

/// Reports on these payloads, and requests repairs.
pub(super) fn repairing(
    payloads: Vec<PayloadFormat>,
    nack: bool,
    key_frames: KeyFrameRequest,
) -> MediaReceiverConfig {
    let repair = RepairConfig { nack, key_frames };
    let config = MediaReceiverConfig::new(1, "receiver", FeedbackKind::ReceiverReports);
    MediaReceiverConfig { payloads, repair, ..config }
}

/// The header with an extension of these elements.
pub(super) fn with_elements(header: RtpHeader, elements: &[(u8, &[u8])]) -> Vec<u8> {
    let mut content = Vec::new();
    let mut writer = ExtensionWriter::new(ExtensionForm::OneByte, &mut content);
    for (id, data) in elements {
        writer.push(*id, data).unwrap();
    }
    let mut head = vec![0; 64];
    let profile = ExtensionForm::OneByte.profile();
    let length = header.write_with_extension(&mut head, profile, &content).unwrap();
    head.truncate(length);
    head
}

/// A packet of 1000 bytes, with the given extensions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sent {
    pub(super) header: RtpHeader,
    pub(super) transport: Option<u16>,
    pub(super) send_time: Option<Timestamp>,
}

impl Sent {
    pub(super) fn of(header: RtpHeader) -> Self {
        Self { header, ..Self::default() }
    }

    /// With this source, number and marker.
    pub(super) fn numbered(ssrc: u32, sequence: u16, marker: bool) -> Self {
        Self::of(RtpHeader { ssrc, sequence, marker, ..RtpHeader::default() })
    }

    pub(super) fn head(&self) -> Vec<u8> {
        let transport = self.transport.map(u16::to_be_bytes);
        let time = self.send_time.map(|time| AbsSendTime::from_timestamp(time).to_bytes());
        let mut elements: Vec<(u8, &[u8])> = Vec::new();
        elements.extend(transport.as_ref().map(|bytes| (TRANSPORT_SEQUENCE_ID, &bytes[..])));
        elements.extend(time.as_ref().map(|bytes| (ABS_SEND_TIME_ID, &bytes[..])));
        with_elements(self.header, &elements)
    }

    pub(super) fn arrive(&self, receiver: &mut MediaReceiver, now: Timestamp) {
        let head = self.head();
        let payload = Payload::zeros(DataSize::from_bytes(1000 - head.len() as u64));
        receiver.handle_rtp(now, &head, &payload, Ecn::NotEct);
    }
}

/// All datagrams that the receiver sends now, parsed.
pub(super) fn drain(receiver: &mut MediaReceiver, now: Timestamp) -> Vec<Vec<Packet>> {
    let mut datagrams = Vec::new();
    while let Some(datagram) = receiver.poll_transmit(now) {
        assert!(datagram.size() < DataSize::from_bytes(1200), "{}", datagram.size());
        let packets = Packets::new(&datagram.head).unwrap();
        datagrams.push(packets.collect::<Result<Vec<_>, _>>().unwrap());
        assert!(datagrams.len() < 1000, "it never ends");
    }
    let due = receiver.poll_timeout();
    assert!(due.is_none_or(|at| at > now), "drained, but due {due:?}");
    datagrams
}

pub(super) fn feedback(datagrams: &[Vec<Packet>]) -> Vec<TransportFeedback> {
    only!(TransportFeedback, datagrams.iter().cloned()).collect()
}

/// The report blocks among them.
pub(super) fn blocks(datagrams: &[Vec<Packet>]) -> Vec<ReportBlock> {
    only!(ReceiverReport, datagrams.iter().cloned()).flat_map(|report| report.blocks).collect()
}

/// The frames that are complete now.
pub(super) fn frames(receiver: &mut MediaReceiver) -> Vec<FrameArrival> {
    let events = std::iter::from_fn(|| receiver.poll_event());
    events.filter_map(|event| if let MediaEvent::Frame(frame) = event { Some(frame) } else { None }).collect()
}

#[test]
fn other_senders_have_their_own_identifiers_numbers_and_padding() {
    let payloads = vec![PayloadFormat::video(96), PayloadFormat::rtx(97, 96)];
    let config = MediaReceiverConfig {
        feedback: FeedbackKind::TransportWide,
        ..repairing(payloads, true, KeyFrameRequest::PictureLoss)
    };
    // Its transport-wide number has the identifier that is ours for the send time. By our rule, three packets are missing before its
    // first one.
    let ids = ExtensionIds {
        transport_sequence: ABS_SEND_TIME_ID,
        abs_send_time: 9,
        capture_time: 0,
        ..ExtensionIds::default()
    };
    let other = MediaReceiverConfig { extension_ids: ids, numbers_from_timestamp: false, ..config.clone() };
    for (config, requested, reported) in [(config, 3, false), (other, 0, true)] {
        let mut receiver = MediaReceiver::new(config).unwrap();
        let header =
            RtpHeader { payload_type: 96, sequence: 103, timestamp: 100, ssrc: 7, ..RtpHeader::default() };
        let head = with_elements(header, &[(ABS_SEND_TIME_ID, &[0, 5])]);
        receiver.handle_rtp(at(0), &head, &Payload::from(&[1; 50][..]), Ecn::NotEct);
        // A probe: nothing but padding on the stream of retransmissions (RFC 3550 §5.1).
        let mut probe = vec![0; 12];
        RtpHeader { payload_type: 97, ssrc: 8, ..header }.write(&mut probe).unwrap();
        probe[0] |= 0x20;
        probe.extend([0, 0, 0, 4]);
        receiver.handle_rtp(at(1), &probe, &Payload::default(), Ecn::NotEct);
        assert_eq!(receiver.damaged(), 0);
        let sent: Vec<_> = (0..300).step_by(10).flat_map(|ms| drain(&mut receiver, at(ms))).collect();
        assert_eq!(!feedback(&sent).is_empty(), reported);
        let numbers = only!(Nack, sent).map(|nack| nack.numbers().count());
        assert_eq!(numbers.max().unwrap_or(0), requested);
    }
}

#[test]
fn reports_are_sent_only_while_sources_are_active() {
    let mut receiver = receiver(FeedbackKind::TransportWide);
    assert_eq!(receiver.poll_timeout(), None);
    assert_eq!(drain(&mut receiver, at(5000)), Vec::<Vec<Packet>>::new());

    let sent = Sent { transport: Some(0), ..Sent::numbered(7, 0, false) };
    sent.arrive(&mut receiver, at(6000));
    assert_eq!(receiver.poll_timeout(), Some(at(6100)));
    let bye = Packet::Bye(Bye { sources: vec![7, 8], reason: None });
    receiver.handle_rtcp(at(6050), &bye);
    receiver.handle_rtcp(at(6050), &bye);
    assert_eq!(receiver.poll_event(), Some(MediaEvent::Ended { ssrc: 7 }));
    assert_eq!((receiver.poll_event(), receiver.poll_timeout()), (None, None));
    // Packets that arrive after the BYE have no effect; much later they are a new source.
    sent.arrive(&mut receiver, at(6060));
    assert_eq!((receiver.poll_timeout(), drain(&mut receiver, at(9000)).len()), (None, 0));
    sent.arrive(&mut receiver, at(11_050));
    assert_eq!(receiver.poll_timeout(), Some(at(11_150)));
}

#[test]
fn a_report_has_a_name_and_a_block_with_the_last_sender_report() {
    let long = MediaReceiverConfig::new(1, &"ü".repeat(200), FeedbackKind::ReceiverReports);
    let mut named = MediaReceiver::new(long).unwrap();
    Sent::numbered(7, 0, false).arrive(&mut named, at(0));
    let mut names = only!(SourceDescription, drain(&mut named, at(500))).flat_map(|names| names.chunks);
    assert_eq!(names.next().unwrap().cname, Some("ü".repeat(127)), "255 bytes, of whole letters");
    let mut receiver = receiver(FeedbackKind::ReceiverReports);
    for sequence in [10, 11, 13] {
        Sent::numbered(7, sequence, false).arrive(&mut receiver, at(100));
    }
    let time = NtpTimestamp::from_timestamp(at(90));
    let report = SenderReport { ssrc: 7, time, ..SenderReport::default() };
    receiver.handle_rtcp(at(110), &Packet::SenderReport(report));
    assert_eq!(receiver.poll_timeout(), Some(at(600)));
    assert!(drain(&mut receiver, at(599)).is_empty());
    let datagrams = drain(&mut receiver, at(600));
    let [datagram] = datagrams.as_slice() else { panic!("{datagrams:?}") };
    let name = Description { ssrc: 1, cname: Some("receiver".to_owned()) };
    assert_eq!(datagram[1], Packet::SourceDescription(SourceDescription { chunks: vec![name] }));
    let [block] = blocks(&datagrams)[..] else { panic!("{datagrams:?}") };
    let ReportBlock { ssrc, fraction_lost, cumulative_lost, highest_sequence, .. } = block;
    assert_eq!((ssrc, fraction_lost, cumulative_lost, highest_sequence), (7, 64, 1, 13));
    assert_eq!(block.last_sender_report, Some(time.short()));
    let since = block.delay_since_last.to_delta();
    assert!((since.as_millis() - 490.0).abs() < 0.1, "{since}");
    // The rest of the timeout of the sender: reports without blocks, then none.
    let times: Vec<_> = std::iter::from_fn(|| {
        let at = receiver.poll_timeout()?;
        receiver.handle_timeout(at);
        Some((at, blocks(&drain(&mut receiver, at)).len()))
    })
    .collect();
    assert_eq!(times, [(at(1600), 1), (at(2600), 0), (at(3600), 0), (at(4600), 0), (at(5600), 0)]);
}
