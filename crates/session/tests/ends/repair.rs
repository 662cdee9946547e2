//! Two ends of a media session over a path that loses, reorders, duplicates and corrupts datagrams, and repairs them.

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng};

use crate::prelude::*;

const VIDEO: u8 = 96;
const RTX: u8 = 98;
const PARITY: u8 = 99;
const FRAMES: u64 = 300;

/// Delay in ms, and the probabilities of what happens to a datagram.
#[derive(Debug, Clone, Copy, Default)]
struct Path {
    delay: u64,
    loss: f64,
    reordered: f64,
    duplicated: f64,
    corrupted: f64,
}

const LOSSY: Path = Path { delay: 40, loss: 0.1, reordered: 0.0, duplicated: 0.0, corrupted: 0.0 };

#[derive(Debug, Clone, Copy)]
struct Repair {
    nack: bool,
    parity: Option<ParityRatio>,
}

const NACK: Repair = Repair { nack: true, parity: None };
const BOTH: Repair = Repair { nack: true, parity: Some(ParityRatio::Fixed(0.3)) };
const PARITY_ONLY: Repair = Repair { nack: false, parity: Some(ParityRatio::Fixed(0.4)) };
const NONE: Repair = Repair { nack: false, parity: None };

fn sender(repair: Repair) -> MediaSender {
    let kind: Algorithm = "fixed".parse().unwrap();
    let limits = RateRange::new(DataRate::from_bps(100_000), DataRate::from_bps(8_000_000)).unwrap();
    let parity = |ratio| ParityStream { ssrc: 3, payload_type: PARITY, ratio };
    let stream = MediaStream {
        timestamp_offset: 0xffff_fff0,
        repair: StreamRepair {
            rtx: repair.nack.then_some((2, RTX)),
            parity: repair.parity.map(parity),
            ..StreamRepair::default()
        },
        ..MediaStream::video(1, VIDEO, limits)
    };
    let rate = DataRate::from_bps(2_000_000);
    let limits = Limits::DEFAULT.with_min(rate).with_start(rate).with_max(rate);
    MediaSender::new(MediaSenderConfig::default(), kind.build(limits), vec![stream])
}

fn receiver(repair: Repair) -> MediaReceiver {
    let kind: Algorithm = "fixed".parse().unwrap();
    let mut config = MediaReceiverConfig::new(9, "far", kind.requirements().feedback);
    config.payloads = vec![PayloadFormat::video(VIDEO), PayloadFormat::padding(PADDING_TYPE)];
    if repair.nack {
        config.payloads.push(PayloadFormat::rtx(RTX, VIDEO));
    }
    if repair.parity.is_some() {
        config.payloads.push(PayloadFormat::parity(PARITY));
    }
    config.repair = RepairConfig { nack: repair.nack, key_frames: KeyFrameRequest::PictureLoss };
    MediaReceiver::new(config).unwrap()
}

/// What a session did.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    sent: StreamFigures,
    received: SourceFigures,
    /// Complete frames: their indices.
    frames: BTreeSet<u64>,
    /// Bytes of all media and repair packets sent, 28 for each datagram included.
    bytes: u64,
    /// Times at which each packet was sent again, and how old its frame was.
    repeated: BTreeMap<u16, Vec<u64>>,
    oldest_repair_ms: u64,
    key_frames: u64,
}

/// Sends 10 s of frames at the encoder's target, about 7 packets each, over `path`.
fn run(repair: Repair, path: Path, seed: u64) -> Outcome {
    let mut random = StdRng::seed_from_u64(seed);
    let mut ends =
        [MediaEndpoint::new(Some(sender(repair)), None), MediaEndpoint::new(None, Some(receiver(repair)))];
    let mut air: BTreeMap<(u64, u64), (usize, Vec<u8>)> = BTreeMap::new();
    let (mut pushed, mut sequences) = (Vec::<Vec<u8>>::new(), BTreeSet::new());
    let mut born: BTreeMap<u16, u64> = BTreeMap::new();
    let (mut number, mut outcome) = (0, Outcome::default());
    for tick in 0..FRAMES * 33 + 3000 {
        let now = ms(tick);
        if tick % 33 == 0 && pushed.len() < FRAMES as usize {
            let target = ends[0].sender().unwrap().stream_target(0).unwrap();
            let mut bytes = vec![0; (target.as_bps() / 8 / 30) as usize];
            random.fill_bytes(&mut bytes);
            let (media_timestamp, key) = (pushed.len() as u32 * 2970, pushed.is_empty());
            let payload = Payload::from(bytes.clone());
            ends[0].push_frame(now, 0, Frame { captured: now, media_timestamp, payload, key }).unwrap();
            pushed.push(bytes);
        }
        while let Some(entry) = air.first_entry().filter(|entry| entry.key().0 <= tick) {
            let (to, bytes) = entry.remove();
            ends[to].handle_datagram(now, &bytes, Ecn::NotEct);
        }
        for (from, end) in ends.iter_mut().enumerate() {
            end.handle_timeout(now);
            while let Some(datagram) = end.poll_transmit(now) {
                let mut bytes = datagram.to_vec();
                if from == 0
                    && let Ok((header, content)) = RtpHeader::parse(&bytes)
                {
                    outcome.bytes += bytes.len() as u64 + 28;
                    if let Some(found) = header.extension {
                        let data = found.data(&bytes);
                        assert_eq!(data[0] >> 4, TRANSPORT_SEQUENCE_ID);
                        let sequence = TransportSequence::parse(&data[1..3]).unwrap().sequence;
                        assert!(sequences.insert(sequence), "transport-wide number {sequence} twice");
                    }
                    let frame = u64::from(header.timestamp.wrapping_sub(0xffff_fff0) / 2970);
                    match header.ssrc {
                        1 => drop(born.insert(header.sequence, frame * 33)),
                        2 => {
                            let (rtx, _) = RtxHeader::split(&bytes[content]).unwrap();
                            let age = tick - born[&rtx.original_sequence];
                            outcome.oldest_repair_ms = outcome.oldest_repair_ms.max(age);
                            outcome.repeated.entry(rtx.original_sequence).or_default().push(tick);
                        }
                        _ => {}
                    }
                }
                if random.random_bool(path.corrupted) {
                    let place = random.random_range(0..bytes.len());
                    bytes[place] ^= 1 << random.random_range(0..8);
                }
                let copies = 1 + u32::from(random.random_bool(path.duplicated));
                for _ in 0..copies {
                    if random.random_bool(path.loss) {
                        continue;
                    }
                    let more = if random.random_bool(path.reordered) { random.random_range(1..8) } else { 0 };
                    number += 1;
                    air.insert((tick + path.delay + more, number), (1 - from, bytes.clone()));
                }
            }
        }
        while let Some(event) = ends[1].poll_event() {
            let MediaEvent::Frame(frame) = event else { continue };
            let place = u64::from(frame.rtp_timestamp.wrapping_sub(0xffff_fff0) / 2970);
            let is_new = outcome.frames.insert(place);
            if path.corrupted == 0.0 {
                assert_eq!(frame.payload.to_vec(), pushed[place as usize], "frame {place}");
                assert!(is_new, "frame {place} twice");
            }
        }
        while let Some(event) = ends[0].poll_event() {
            outcome.key_frames += u64::from(matches!(event, MediaEvent::KeyFrameWanted { .. }));
        }
    }
    outcome.sent = ends[0].sender().unwrap().figures(ms(0)).next().unwrap();
    outcome.received = ends[1].receiver().unwrap().sources().find(|one| one.ssrc == 1).unwrap();
    outcome
}

#[test]
fn nearly_all_frames_are_complete_with_repair_and_few_without() {
    let without = run(NONE, LOSSY, 1);
    assert!((100..190).contains(&without.frames.len()), "{}", without.frames.len());
    assert_eq!((without.sent.retransmitted_packets, without.received.requested_packets), (0, 0));
    for (repair, least) in [(NACK, 290), (BOTH, 295), (PARITY_ONLY, 240)] {
        let with = run(repair, LOSSY, 1);
        let Outcome { sent, received, .. } = &with;
        assert!((least..=300).contains(&with.frames.len()), "{repair:?}: {}", with.frames.len());
        // The rate of all packets is that without repair, because the encoder gets less.
        let ratio = with.bytes as f64 / without.bytes as f64;
        assert!((0.9..=1.05).contains(&ratio), "{repair:?}: {ratio}");
        assert!(received.repaired_packets <= received.lost + received.duplicates);
        assert!(received.repaired_packets >= received.lost * 7 / 10, "{received:?}");
        assert_eq!(repair.nack, sent.retransmitted_packets > 0 && received.requested_packets > 0);
        assert_eq!(repair.parity.is_some(), sent.parity_packets > 0);
        // Ten packets for each three of parity, or four.
        if let Some(ParityRatio::Fixed(ratio)) = repair.parity {
            let made = sent.parity_packets as f64 / sent.packets as f64;
            assert!((ratio - 0.03..=ratio + 0.01).contains(&made), "{made}");
        }
    }
}

#[test]
fn a_packet_is_sent_again_at_most_once_per_rtt_and_never_late() {
    let outcome = run(NACK, Path { loss: 0.3, ..LOSSY }, 2);
    assert!(outcome.repeated.len() > 300 && outcome.repeated.values().any(|times| times.len() > 1));
    for (sequence, times) in &outcome.repeated {
        // The RTT is 80 ms; in ticks of 1 ms.
        assert!(times.windows(2).all(|two| two[1] - two[0] >= 79), "{sequence}: {times:?}");
        assert!(times.len() <= 5, "{sequence}: {times:?}");
    }
    assert!((100..=400).contains(&outcome.oldest_repair_ms), "{}", outcome.oldest_repair_ms);
    // What could not be repaired makes the encoder start again.
    assert!((1..=40).contains(&outcome.key_frames), "{}", outcome.key_frames);
}

#[test]
fn repair_ends_where_it_would_come_too_late() {
    let outcome = run(NACK, Path { delay: 300, ..LOSSY }, 3);
    assert_eq!(outcome.repeated.len(), 0, "{:?}", outcome.repeated);
    // The receiver asks until it knows the RTT, after one or two reports.
    assert!((1..200).contains(&outcome.received.requested_packets), "{:?}", outcome.received);
    assert!((100..190).contains(&outcome.frames.len()), "{}", outcome.frames.len());
}

#[test]
fn reordering_alone_needs_hardly_any_repair() {
    let outcome = run(NACK, Path { loss: 0.0, reordered: 0.3, ..LOSSY }, 4);
    assert_eq!(outcome.frames.len() as u64, FRAMES);
    assert!(outcome.sent.retransmitted_packets < outcome.sent.packets / 50, "{:?}", outcome.sent);
    assert_eq!((outcome.received.unrepaired_packets, outcome.key_frames), (0, 0));
}

#[test]
fn a_damaged_path_is_survived_and_runs_are_repeatable() {
    let path = Path { delay: 40, loss: 0.05, reordered: 0.05, duplicated: 0.05, corrupted: 0.05 };
    for repair in [NACK, BOTH, PARITY_ONLY] {
        let outcome = run(repair, path, 5);
        assert!(outcome.frames.len() >= 200, "{repair:?}: {}", outcome.frames.len());
        assert_eq!(outcome, run(repair, path, 5));
    }
}

#[test]
fn requests_for_unknown_packets_and_streams_have_no_effect() {
    let mut sender = sender(BOTH);
    let payload = Payload::from(vec![1; 3000]);
    sender.push_frame(ms(0), 0, Frame { captured: ms(0), media_timestamp: 0, payload, key: true }).unwrap();
    sender.handle_timeout(ms(0));
    let mut sent = Vec::new();
    for tick in 0..50 {
        sender.handle_timeout(ms(tick));
        sent.extend(std::iter::from_fn(|| sender.poll_transmit(ms(tick))));
    }
    let media = |datagram: &giusto_session::media::Datagram| RtpHeader::parse(&datagram.head).is_ok();
    let before = sent.iter().filter(|datagram| media(datagram)).count();
    assert_eq!(before, 3);
    for ssrc in [1, 2, 77] {
        sender.handle_rtcp(ms(60), &Packet::Nack(Nack::of_numbers(9, ssrc, [0, 1000, 0xffef])));
        sender
            .handle_rtcp(ms(60), &Packet::PictureLoss(PictureLoss { sender_ssrc: 9, media_ssrc: ssrc + 1 }));
    }
    assert!(!sender.wants_key_frame(0));
    // The first number is the lower half of the first timestamp. Asked for twice, it is sent once.
    for _ in 0..2 {
        sender.handle_rtcp(ms(60), &Packet::Nack(Nack::of_numbers(9, 1, [0xfff0])));
        sender.handle_rtcp(ms(60), &Packet::PictureLoss(PictureLoss { sender_ssrc: 9, media_ssrc: 1 }));
    }
    assert!(sender.wants_key_frame(0));
    let events = std::iter::from_fn(|| sender.poll_event());
    assert_eq!(events.filter(|event| matches!(event, MediaEvent::KeyFrameWanted { .. })).count(), 1);
    sender.handle_timeout(ms(60));
    let again: Vec<_> = std::iter::from_fn(|| sender.poll_transmit(ms(60))).collect();
    let again: Vec<_> = again.iter().filter(|datagram| media(datagram)).collect();
    let [one] = again[..] else { panic!("{again:?}") };
    let bytes = one.to_vec();
    let (header, content) = RtpHeader::parse(&bytes).unwrap();
    assert_eq!((header.ssrc, header.payload_type, header.timestamp), (2, RTX, 0xffff_fff0));
    let (rtx, original) = RtxHeader::split(&bytes[content]).unwrap();
    assert_eq!((rtx.original_sequence, original), (0xfff0, &[1; 1000][..]));
    // After the deadline it is not sent.
    sender.handle_rtcp(ms(401), &Packet::Nack(Nack::of_numbers(9, 1, [0xfff0])));
    sender.handle_timeout(ms(401));
    assert!(std::iter::from_fn(|| sender.poll_transmit(ms(401))).all(|datagram| !media(&datagram)));
    assert_eq!(sender.figures(ms(401)).next().map(|one| one.late_repairs), Some(1));
    // Its BYE names the sources of both kinds of repair that were used.
    sender.stop(ms(500));
    let bye = std::iter::from_fn(|| sender.poll_transmit(ms(500))).find_map(|datagram| {
        Packets::new(&datagram.head).unwrap().find_map(|packet| match packet {
            Ok(Packet::Bye(bye)) => Some(bye.sources),
            _ => None,
        })
    });
    assert_eq!(bye, Some(vec![1, 2]));
    assert_eq!(TimeDelta::from_millis(400), StreamRepair::default().deadline);
}
