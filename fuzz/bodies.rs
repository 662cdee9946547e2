//! What each fuzz target does with its bytes. The ordinary tests replay the seeds in `fuzz/seeds` through the same code.

use std::net::SocketAddr;

use giusto_core::{
    media::payload::{PayloadSizes, PayloadTrace},
    rtp::RtpHeader,
    session::{
        Inbound, Passive, Receiver, ReceiverConfig,
        wire::{ClockIdentity, DataHeader, Message, OPENING_BYTES},
    },
    units::{DataRate, DataSize, TimeDelta, Timestamp},
};

/// Every parser of datagrams; what is understood can be said again.
pub(crate) fn datagram(bytes: &[u8]) {
    let _ = RtpHeader::parse(bytes);
    let _ = DataHeader::parse(bytes);
    if let Ok(message) = Message::decode(bytes) {
        let again = message.encode(0);
        // Not-a-number is unlike itself, so the bytes are compared.
        let decoded = Message::decode(&again).expect("what was encoded is understood");
        assert_eq!(decoded.encode(0), again);
    }
}

/// A receiver that is told anything by a few addresses: no more bytes out than in, and time goes on.
pub(crate) fn session(bytes: &[u8]) {
    let passive = match bytes.first() {
        Some(0) => Some(Passive::Raw),
        Some(1) => Some(Passive::Rtp),
        _ => None,
    };
    let config =
        ReceiverConfig { passive, max_streams: 4, ..ReceiverConfig::new([5; 32], ClockIdentity::default()) };
    let mut receiver = Receiver::new(config);
    let mut now = Timestamp::from_nanos(1_000_000_000);
    let (mut bytes_in, mut bytes_out) = (0, 0);
    let mut rest = bytes.get(1..).unwrap_or_default();
    while let [port, length, wait, tail @ ..] = rest {
        let (datagram, following) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = following;
        now += TimeDelta::from_millis(i64::from(*wait) * 10);
        let from = SocketAddr::from(([127, 0, 0, 1], u16::from(*port % 6)));
        let mut padded = datagram.to_vec();
        if wait % 2 == 1 {
            padded.resize(padded.len().max(OPENING_BYTES), 0);
        }
        let mut inbox = vec![(from, padded)];
        // Whoever is challenged returns the cookie, so that the fuzzer reaches what lies behind.
        while let Some((from, bytes)) = inbox.pop() {
            bytes_in += bytes.len();
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
                bytes_out += transmit.bytes.len();
                if let Ok(Message::Challenge { nonce, cookie }) = Message::decode(&transmit.bytes)
                    && let Ok(Message::Open { request, .. }) = Message::decode(datagram)
                {
                    inbox.push((transmit.to, Message::Open { nonce, cookie, request }.encode(OPENING_BYTES)));
                }
            }
        }
        receiver.handle_timeout(now);
        assert!(receiver.next_timeout().is_none_or(|at| at > now));
        while let Some(transmit) = receiver.poll_transmit() {
            bytes_out += transmit.bytes.len();
        }
        while receiver.poll_event().is_some() {}
        assert!(bytes_out <= bytes_in, "{bytes_out} bytes out for {bytes_in} in");
        assert!(receiver.streams().count() <= 4);
    }
    receiver.stop(now);
}

/// Every parser of text.
pub(crate) fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = text.parse::<DataRate>();
    let _ = text.parse::<DataSize>();
    let _ = text.parse::<TimeDelta>();
    let _ = text.parse::<PayloadSizes>();
    let _ = PayloadTrace::parse(text, "fuzz.csv");
}
