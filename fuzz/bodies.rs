//! Functions of the fuzz targets. The ordinary tests run the seeds in `fuzz/seeds` through the same code.

#![allow(clippy::indexing_slicing, reason = "ports are below the length of the arrays")]

use std::net::SocketAddr;

use giusto_rtp::{
    AbsSendTime, ExtensionElements, ExtensionForm, RtpHeader, RtxHeader, TransportSequence,
    flexfec::{FecHeader, Parity},
    rtcp::{Packet, Packets, ReportCount, TransportFeedbackUnwrapper},
    voice::VoiceProfile,
};
use giusto_session::Session;
use giusto_session::probe::{
    FarEndReports, Inbound, LocalClock, Passive, Receiver, ReceiverConfig, Sender, SenderConfig, SenderEvent,
    payload::{PayloadSizes, PayloadTrace},
    wire::{
        self, DataHeader, FINISH_BYTES, MAX_MESSAGE_BYTES, Message, OPENING_BYTES, SEALED_DATA_HEADER_BYTES,
        SenderFigures, StreamFormat, StreamRequest, StreamToken,
    },
};
use giusto_session::{
    keys::KeyRing,
    stamp::{
        self, Answers, Arrived, Departures, ProbeSource, Reflector, ReflectorConfig,
        time::{ClockState, ErrorEstimate, WallTime},
    },
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

/// A reflector and a sender of STAMP, in both modes: an answer is as long as its packet, and each datagram is counted once.
fn stamp(bytes: &[u8]) {
    let ring = KeyRing::parse("1 00112233445566778899aabbccddeeff").expect("this is a key");
    for keys in [None, Some(ring)] {
        let mut bytes = bytes.to_vec();
        if let Some(keys) = &keys {
            stamp::packet::sign(&mut bytes, keys, keys.signing());
        }
        let clock = ClockState { synchronised: true, error: None, tai_offset_s: 37 };
        let config = ReflectorConfig { keys: keys.clone(), ..ReflectorConfig::default() };
        let from = SocketAddr::from(([127, 0, 0, 1], 862));
        let arrived =
            Arrived { from, bytes: &bytes, at: WallTime::from_unix_nanos(1), ttl: None, traffic_class: None };
        let mut reflector = Reflector::new(config, clock);
        let answer = reflector.reflect(Timestamp::ZERO, WallTime::from_unix_nanos(2), &arrived);
        if let Some(answer) = answer {
            assert_eq!(answer.bytes.len(), bytes.len());
        }
        assert_eq!(reflector.counters().reflected + reflector.counters().unanswered(), 1);
        let departures = Departures::new(ErrorEstimate::default());
        let source = ProbeSource { ssid: 1, keys, origin: WallTime::default(), tai_offset_s: 0, departures };
        let mut answers = Answers::new(source, false);
        answers.handle_datagram(Timestamp::ZERO, &bytes, Timestamp::ZERO);
        // Nothing was sent that it could answer.
        let counters = answers.counters();
        assert_eq!((counters.answered, counters.malformed + counters.forged + counters.unmatched), (0, 1));
    }
}

/// All parsers of datagrams. A parsed datagram can be encoded again.
pub(crate) fn datagram(bytes: &[u8]) {
    stamp(bytes);
    repair(bytes);
    let mut sealed = bytes.to_vec();
    wire::seal(&mut sealed);
    let bytes = &sealed[..];
    let _ = DataHeader::parse(bytes);
    if let Ok(message) = Message::decode(bytes) {
        let again = message.encode(0);
        // NaN is not equal to itself, so the bytes are compared.
        let decoded = Message::decode(&again).expect("an encoded message is decoded");
        assert_eq!(decoded.encode(0), again);
    }
}

/// Retransmissions and parity: the bytes as an RTP packet, and as the payload of a repair packet.
fn repair(bytes: &[u8]) {
    (0..4).for_each(|streams| parity(bytes, streams));
    let Ok((_, content)) = RtpHeader::parse(bytes) else { return };
    let payload = bytes.get(content).unwrap_or_default();
    if let Some((header, original)) = RtxHeader::split(payload) {
        assert_eq!([&header.to_bytes()[..], original].concat(), payload);
    }
    parity(payload, RtpHeader::contributing_sources(bytes).count());
}

/// Parity: what is read can be written again, and a recovered packet has the length that its parity says.
fn parity(payload: &[u8], streams: usize) {
    let Ok((header, length)) = FecHeader::read(payload, streams) else { return };
    assert!(length <= payload.len());
    let mut again = Vec::new();
    header.write(&mut again).expect("a parsed header is written");
    assert_eq!(FecHeader::read(&again, streams), Ok((header.clone(), again.len())));
    let rest = payload.get(length..).unwrap_or_default();
    let recovered = Parity::of_repair(&header, rest, 9).recover(1, 2);
    assert_eq!(recovered.is_some(), usize::from(header.length) <= rest.len() + 9);
    if let Some((packet, zeros)) = recovered {
        assert_eq!(packet.len() + zeros, 12 + usize::from(header.length));
        let mut parity = Parity::default();
        parity.add(&[&packet], zeros).expect("it is an RTP packet");
        assert_eq!(parity.recover(1, 2), Some((packet, zeros)));
    }
}

/// All RTCP packets and all elements of RTP extensions. A parsed packet can be written again.
pub(crate) fn rtcp(bytes: &[u8]) {
    let mut reports = FarEndReports::new(1, 8000, 0);
    let at = Timestamp::from_nanos(1_000_000_000);
    reports.handle_datagram(at, bytes, at);
    assert!(reports.latest().is_none_or(|report| (0.0..=1.0).contains(&report.fraction_lost)));
    for form in [ExtensionForm::OneByte, ExtensionForm::TwoByte] {
        let elements: Vec<_> = ExtensionElements::new(form, bytes).collect();
        // Nothing follows an error.
        assert!(elements.len() <= bytes.len() && elements.iter().rev().skip(1).all(Result::is_ok));
    }
    if let Ok((RtpHeader { extension: Some(extension), .. }, _)) = RtpHeader::parse(bytes) {
        for element in ExtensionElements::of(extension, bytes).flatten() {
            let _ = TransportSequence::parse(element.data);
            let _ = AbsSendTime::parse(element.data);
        }
    }
    for count in [ReportCount::Exact, ReportCount::Inclusive] {
        let Ok(packets) = Packets::new(bytes) else { continue };
        let mut unwrapper = TransportFeedbackUnwrapper::new();
        for packet in packets.with_report_count(count).flatten() {
            let mut again = Vec::new();
            packet.write(&mut again).expect("a parsed packet is written");
            let read: Vec<_> = Packets::new(&again).expect("a written packet is RTCP").collect();
            assert_eq!(read, [Ok(packet.clone())]);
            if let Packet::Nack(nack) = &packet {
                let numbers: Vec<u16> = nack.numbers().collect();
                assert!(numbers.len() >= nack.entries.len() && numbers.len() <= 17 * nack.entries.len());
            }
            if let Packet::TransportFeedback(feedback) = &packet {
                let _ = unwrapper.unwrap(feedback).map(Iterator::count);
            }
        }
    }
}

/// A receiver that gets arbitrary datagrams from a few addresses: it sends no more
/// bytes than it receives, and its deadlines advance.
pub(crate) fn session(bytes: &[u8]) {
    let passive = match bytes.first() {
        Some(0) => Some(Passive::Raw),
        Some(1) => Some(Passive::Rtp),
        _ => None,
    };
    let config = ReceiverConfig {
        passive,
        max_streams: 4,
        max_unannounced: 2,
        ..ReceiverConfig::new([5; 32], LocalClock::default())
    };
    let mut receiver = Receiver::new(config);
    let mut now = Timestamp::from_nanos(1_000_000_000);
    // By address: the budget of one address must not be used for another.
    let mut budget = [0_i64; 6];
    let mut tokens = [StreamToken(0); 6];
    let mut rest = bytes.get(1..).unwrap_or_default();
    while let [port, length, wait, tail @ ..] = rest {
        let (datagram, following) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = following;
        now += TimeDelta::from_millis(i64::from(*wait) * 10);
        let from = SocketAddr::from(([127, 0, 0, 1], u16::from(*port % 6)));
        let mut padded = with_token(datagram, tokens[usize::from(from.port())]);
        if wait % 2 == 1 {
            padded.resize(padded.len().max(OPENING_BYTES), 0);
        }
        let mut inbox = vec![(from, padded)];
        // A challenge is answered with the cookie, so that the fuzzer reaches the code behind it.
        while let Some((from, bytes)) = inbox.pop() {
            budget[usize::from(from.port())] += bytes.len() as i64;
            let segment = if port % 2 == 0 { bytes.len() } else { 40 };
            let inbound = Inbound {
                from,
                bytes: &bytes,
                segment,
                at: now,
                tos: Some(*wait),
                kernel_dropped: Some(u64::from(*wait)),
                truncated: false,
            };
            receiver.handle(now, &inbound);
            while let Some(transmit) = receiver.poll_transmit() {
                let port = usize::from(transmit.to.port());
                budget[port] -= transmit.bytes.len() as i64;
                match Message::decode(&transmit.bytes) {
                    Ok(Message::Challenge { nonce, cookie }) => {
                        let request = StreamRequest { format: format_of(*wait), ..request() };
                        let open = Message::Open { nonce, cookie, request };
                        inbox.push((transmit.to, open.encode(OPENING_BYTES)));
                    }
                    Ok(Message::Accepted { token, .. }) => tokens[port] = token,
                    _ => {}
                }
            }
        }
        receiver.handle_timeout(now);
        assert!(receiver.next_timeout().is_none_or(|at| at > now));
        while let Some(transmit) = receiver.poll_transmit() {
            budget[usize::from(transmit.to.port())] -= transmit.bytes.len() as i64;
        }
        while receiver.poll_event().is_some() {}
        assert!(budget.iter().all(|left| *left >= 0), "more bytes sent than received: {budget:?}");
        assert!(receiver.streams().count() <= 4 + 2);
    }
    receiver.stop(now);
}

/// The datagram with a valid checksum, and with a token that the receiver gave where a token stands in it.
fn with_token(datagram: &[u8], token: StreamToken) -> Vec<u8> {
    let mut sealed = datagram.to_vec();
    wire::seal(&mut sealed);
    let datagram = &sealed[..];
    if let Ok(header) = DataHeader::parse(datagram) {
        let mut patched = datagram.to_vec();
        DataHeader { token, ..header }.write(&mut patched);
        return patched;
    }
    match Message::decode(datagram) {
        Ok(Message::Ping { sent_ns, path, .. }) => Message::Ping { token, sent_ns, path }.encode(52),
        Ok(Message::Finish { figures, .. }) => Message::Finish { token, figures }.encode(FINISH_BYTES),
        _ => datagram.to_vec(),
    }
}

/// A sender whose receiver is hostile: each call does bounded work, deadlines advance, the session is accepted and ends at most once,
/// reports are in order, and nothing follows the end.
pub(crate) fn sender(bytes: &[u8]) {
    const NONCE: u64 = 9;
    let mut now = Timestamp::from_nanos(1_000_000_000);
    let mut sender = Sender::new(now, SenderConfig::new(request(), NONCE));
    let (mut token, mut pings, mut reported, mut ended) = (None, Vec::new(), None, false);
    let mut rest = bytes;
    while let [action, length, wait, tail @ ..] = rest {
        let (datagram, following) = tail.split_at((4 * usize::from(*length)).min(tail.len()));
        rest = following;
        now += TimeDelta::from_millis(i64::from(*wait) * 10);
        // Any time of arrival, before or after now.
        let at = now + TimeDelta::from_millis((i64::from(*action) - 128) * 20);
        match action % 8 {
            0 => sender.handle_datagram(now, datagram, at),
            1 => sender.handle_unreachable(now, 1),
            2 => sender.finish(now, SenderFigures::default()),
            _ => {
                let mut sealed = datagram.to_vec();
                wire::seal(&mut sealed);
                if let Ok(message) = Message::decode(&sealed) {
                    // It knows what a receiver knows.
                    let token = token.unwrap_or(StreamToken(7));
                    let message = match message {
                        Message::Challenge { cookie, .. } => Message::Challenge { nonce: NONCE, cookie },
                        Message::Accepted { token, clock, .. } => {
                            Message::Accepted { nonce: NONCE, token, clock }
                        }
                        Message::Refused { why, .. } => Message::Refused { nonce: NONCE, why },
                        Message::Pong { received_ns, sent_ns, .. } => {
                            let ping_sent_ns = pings.pop().unwrap_or(sent_ns);
                            Message::Pong { token, ping_sent_ns, received_ns, sent_ns }
                        }
                        Message::Report { report, .. } => Message::Report { token, report },
                        other => other,
                    };
                    sealed = message.encode(0);
                }
                sender.handle_datagram(now, &sealed, at);
            }
        }
        sender.handle_timeout(now);
        let was_over = ended;
        for transmits in 0.. {
            let Some(datagram) = sender.poll_transmit(now) else { break };
            assert!(transmits < 4 && !was_over && datagram.len() <= MAX_MESSAGE_BYTES);
            if let Message::Ping { sent_ns, .. } = Message::decode(&datagram).expect("it sends messages") {
                pings.push(sent_ns);
            }
        }
        while let Some(event) = sender.poll_event() {
            assert!(!ended, "{event:?} after the end");
            match event {
                SenderEvent::Accepted(new) => assert_eq!(token.replace(new), None, "accepted twice"),
                SenderEvent::Report(report) => {
                    assert!(token.is_some() && reported < Some(report.number));
                    reported = Some(report.number);
                }
                SenderEvent::Ended(_) => ended = true,
                _ => {}
            }
        }
        assert!(sender.poll_timeout().map_or(ended, |at| at > now && !ended));
        let _ = sender.clock_estimate();
        let _ = sender.rtts().quantiles();
    }
}

/// A sender and a receiver that share a key. Somebody without it owns the network: copies, changes, cuts, returns and holds back
/// datagrams. Only what the sender sent is counted, once, and only as far as it was delivered unchanged.
pub(crate) fn channel(bytes: &[u8]) {
    const SIZE: usize = 100;
    let (from, other) = (SocketAddr::from(([127, 0, 0, 1], 1)), SocketAddr::from(([127, 0, 0, 1], 2)));
    let keys = KeyRing::parse("1 00112233445566778899aabbccddeeff").expect("this is a key");
    let config =
        ReceiverConfig { keys: Some(keys.clone()), ..ReceiverConfig::new([5; 32], LocalClock::default()) };
    let mut receiver = Receiver::new(config);
    let mut now = Timestamp::from_nanos(1_000_000_000);
    let mut sender = Sender::new(now, SenderConfig { keys: Some(keys), ..SenderConfig::new(request(), 9) });
    // What was seen on the network, with the sequence of data.
    let mut seen: Vec<(Vec<u8>, Option<usize>)> = Vec::new();
    let (mut token, mut sent, mut delivered, mut was_accepted) = (None, 0_usize, Vec::<bool>::new(), false);
    let mut rest = bytes;
    while let [action, back, change, tail @ ..] = rest {
        rest = tail;
        now += TimeDelta::from_micros(1 << (action / 16));
        if let (Some(token), Some(key)) = (token, sender.data_key()) {
            let mut data = vec![0; SIZE];
            let header = DataHeader {
                token,
                sequence: sent as u64,
                scheduled_ns: now.as_nanos(),
                sent_ns: now.as_nanos(),
            };
            assert!(header.write_sealed(&mut data, key));
            seen.push((data, Some(sent)));
            delivered.push(false);
            sent += 1;
        }
        if action % 16 == 15 {
            sender.finish(now, SenderFigures { packets: sent as u64, ..SenderFigures::default() });
        }
        if let Some((datagram, sequence)) =
            seen.len().checked_sub(1 + usize::from(*back)).and_then(|at| seen.get(at))
        {
            let (original, mut datagram) = (datagram, datagram.clone());
            let place = usize::from(*change) * 8191 % (datagram.len() * 8);
            match action % 8 {
                1 => datagram[place / 8] ^= 1 << (place % 8),
                2 => datagram.truncate(place / 8),
                3 => wire::seal(&mut datagram),
                4 => datagram.push(*change),
                _ => {}
            }
            // The MAC covers the header and the length.
            let covered =
                |bytes: &[u8]| (bytes.len(), bytes.get(..SEALED_DATA_HEADER_BYTES).map(<[u8]>::to_vec));
            if let Some(sequence) = sequence.filter(|_| covered(&datagram) == covered(original)) {
                delivered[sequence] = true;
            }
            let source = if action % 16 == 6 { other } else { from };
            let inbound = Inbound {
                from: source,
                bytes: &datagram,
                segment: datagram.len().max(1),
                at: now,
                tos: None,
                kernel_dropped: None,
                truncated: false,
            };
            if action % 8 != 7 {
                receiver.handle(now, &inbound);
            }
            sender.handle_datagram(now, &datagram, now);
        }
        receiver.handle_timeout(now);
        sender.handle_timeout(now);
        while let Some(datagram) = sender.poll_transmit(now) {
            seen.push((datagram, None));
        }
        while let Some(transmit) = receiver.poll_transmit() {
            seen.push((transmit.bytes, None));
        }
        while receiver.poll_event().is_some() {}
        let possible = delivered.iter().filter(|&&delivered| delivered).count() as u64;
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Accepted(new) => {
                    assert!(!was_accepted);
                    (token, was_accepted) = (Some(new), true);
                }
                SenderEvent::Report(report) => assert!(report.summary.received_packets <= possible),
                _ => {}
            }
        }
        assert!(receiver.streams().count() <= 1);
        assert!(receiver.streams().all(|(_, stream)| stream.is_authenticated()));
    }
    // A summary is slow: once is enough, as counts do not fall.
    let possible = delivered.iter().filter(|&&delivered| delivered).count() as u64;
    for (_, stream) in receiver.streams() {
        assert!(stream.meter().summary().received_packets <= possible);
    }
}

fn request() -> StreamRequest {
    StreamRequest { rate_bps: Some(1_000_000), ..StreamRequest::nothing() }
}

fn format_of(choice: u8) -> StreamFormat {
    match choice % 8 {
        1 => StreamFormat::Raw,
        3 => StreamFormat::Rtp { clock_rate_hz: 8000, voice: Some(VoiceProfile::G711Ulaw) },
        _ => StreamFormat::Giusto,
    }
}

/// All parsers of text.
pub(crate) fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = text.parse::<DataRate>();
    let _ = text.parse::<DataSize>();
    let _ = text.parse::<TimeDelta>();
    let _ = text.parse::<PayloadSizes>();
    if let Ok(trace) = PayloadTrace::parse(text, "fuzz.csv") {
        assert!(!trace.sizes().is_empty());
        assert!(trace.departures().is_none_or(|times| times.len() == trace.sizes().len()));
    }
}
