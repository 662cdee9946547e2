//! A call to a browser that is written here: it uses the same libraries for DTLS and SRTP.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

mod common;

use common::{BROWSER, Browser, Counting, SERVER, Version, secrets};
use giusto_rtp::{
    RtpHeader,
    rtcp::{Nack, ReceiverReport},
    vp8::Vp8Descriptor,
};
use giusto_session::media::MediaEvent;
use giusto_units::{Ecn, TimeDelta};
use giusto_webrtc::peer::{EndReason, PeerState};

const PLI: [u8; 4] = [0x81, 206, 0, 2];

fn seconds(seconds: i64) -> TimeDelta {
    TimeDelta::from_seconds(seconds)
}

#[test]
fn frames_arrive_unchanged_and_the_rate_follows_feedback() {
    let browser = Browser::connected(seconds(10));
    assert_eq!(browser.peer.security().0, Some("1.3"));
    let frames = browser.peer.counters().frames;
    // 25 frames a second; the last one may still be queued.
    assert!((245..=252).contains(&frames), "{frames}");
    assert!(browser.frames.len() as u64 + 5 >= frames, "{} of {frames}", browser.frames.len());
    for (index, frame) in browser.frames.iter().enumerate() {
        assert!(*frame == Counting::bytes(index as u32 + 1, frame.len()), "frame {index}");
    }
    // The path is unlimited: the target reaches its maximum, and never exceeds it.
    let target = browser.peer.target().unwrap().media.as_bps();
    assert!((1_800_000..=2_000_000).contains(&target), "{target}");
    let counters = browser.peer.counters();
    assert!(counters.rtcp_datagrams > 50 && counters.refused_packets == 0, "{counters:?}");
    assert!(counters.padding_datagrams > 0, "probes need padding: {counters:?}");
    // Padding is that of RFC 3550.
    let padding: Vec<_> = browser.packets.iter().filter(|(header, ..)| header.payload_type == 97).collect();
    assert!(!padding.is_empty());
    for (header, payload, packet) in padding {
        assert_eq!(header.ssrc, secrets(1).ssrc[1]);
        assert!(packet[0] & 0x20 != 0, "the padding bit");
        // The parser has removed the padding, so nothing may be left.
        let whole = payload.is_empty() || payload.len() == usize::from(*payload.last().unwrap());
        assert!(whole, "{} B", payload.len());
    }
}

/// A request of these packets of the video (RFC 4585 §6.2.1).
fn request(browser: &mut Browser, numbers: &[u16]) {
    let mut bytes = Vec::new();
    Nack::of_numbers(1, secrets(1).ssrc[0], numbers.iter().copied()).write(&mut bytes).unwrap();
    browser.send(&bytes);
}

#[test]
fn requested_packets_are_repeated_on_their_own_stream() {
    let mut browser = Browser::connected(seconds(2));
    let video = secrets(1).ssrc[0];
    let latest = |browser: &Browser| {
        let (header, payload, _) =
            browser.packets.iter().rev().find(|(header, ..)| header.ssrc == video).unwrap();
        (header.sequence, header.timestamp, header.marker, payload.clone())
    };
    let original = latest(&browser);
    request(&mut browser, &[original.0]);
    // A repeated request within the RTT is not met again.
    request(&mut browser, &[original.0]);
    browser.run(TimeDelta::from_millis(50));
    let repeats: Vec<_> = browser.packets.iter().filter(|(_, _, packet)| is_repeat(packet)).collect();
    let [(header, payload, _)] = repeats[..] else { panic!("{} repeats", repeats.len()) };
    assert_eq!((header.timestamp, header.marker), (original.1, original.2));
    // RFC 4588 §4: the original number, then the original payload.
    assert_eq!(payload[..2], original.0.to_be_bytes());
    assert!(payload[2..] == original.3);
    let counters = browser.peer.counters();
    assert_eq!((counters.requested_packets, counters.retransmitted_datagrams), (2, 1));

    // Packets that were never sent.
    let next = original.0.wrapping_add(10_000);
    let numbers: Vec<u16> = (0..2000).map(|number| next.wrapping_add(number)).collect();
    request(&mut browser, &numbers);
    browser.run(TimeDelta::from_millis(50));
    let counters = browser.peer.counters();
    assert_eq!((counters.retransmitted_datagrams, counters.late_repairs), (1, 0), "{counters:?}");

    // Too late for the browser to play it.
    let old = latest(&browser).0;
    browser.run(TimeDelta::from_millis(450));
    request(&mut browser, &[old]);
    browser.run(TimeDelta::from_millis(50));
    assert_eq!(browser.peer.counters().retransmitted_datagrams, 1);

    // Repeats and padding share a stream: no number is used twice, which AES-GCM forbids (RFC 7714 §8.4).
    let of_rtx = browser.packets.iter().filter(|(header, ..)| header.ssrc != video);
    let numbers: Vec<u16> = of_rtx.map(|(header, ..)| header.sequence).collect();
    assert!(numbers.len() > 3, "padding and a repeat: {}", numbers.len());
    assert!(numbers.windows(2).all(|two| two[1] == two[0].wrapping_add(1)), "{numbers:?}");
}

/// Whether a packet of the stream of retransmissions is one: padding has the padding bit.
fn is_repeat(packet: &[u8]) -> bool {
    packet[8..12] == secrets(1).ssrc[1].to_be_bytes() && packet[0] & 0x20 == 0
}

#[test]
fn dtls_1_2_and_both_roles_connect() {
    for (version, setup, expected) in [
        (Version::Dtls12, "actpass", "1.2"),
        (Version::Newest, "active", "1.3"),
        (Version::Dtls12, "passive", "1.2"),
        (Version::Newest, "passive", "1.3"),
    ] {
        let mut browser = Browser::new("gcc:libwebrtc", version, setup, None);
        let role = if setup == "passive" { "a=setup:active\r\n" } else { "a=setup:passive\r\n" };
        assert!(browser.answer.contains(role), "{setup}");
        browser.connect();
        browser.run(seconds(1));
        assert_eq!(browser.peer.security().0, Some(expected), "{setup}");
        assert!(browser.frames.len() > 20, "{setup}: {}", browser.frames.len());
    }
}

#[test]
fn a_wrong_fingerprint_ends_the_call_before_any_media() {
    let wrong = secrets(2).certificate.fingerprint();
    let mut browser = Browser::new("gcc:libwebrtc", Version::Newest, "actpass", Some(wrong));
    browser.run(seconds(3));
    let PeerState::Ended(EndReason::Insecure(why)) = browser.peer.state() else {
        panic!("{:?}", browser.peer.state());
    };
    assert!(why.contains("fingerprint") && why.contains(&wrong.to_string()), "{why}");
    assert_eq!((browser.packets.len(), browser.peer.counters().sent_datagrams), (0, 0));
}

#[test]
fn a_request_of_a_key_frame_is_met_once() {
    let mut browser = Browser::connected(seconds(1));
    let before = browser.peer.counters();
    assert_eq!(before.key_frames, 1);
    let pli = [&PLI[..], &[0, 0, 0, 1], &secrets(1).ssrc[0].to_be_bytes()].concat();
    // Chromium repeats them.
    for _ in 0..3 {
        browser.send(&pli);
        browser.run(TimeDelta::from_millis(20));
    }
    browser.run(seconds(1));
    let after = browser.peer.counters();
    assert_eq!((after.key_frame_requests, after.key_frames), (3, 2));
    // For another source: not for us.
    browser.send(&[&PLI[..], &[0, 0, 0, 1], &[9, 9, 9, 9]].concat());
    browser.run(seconds(1));
    assert_eq!(browser.peer.counters().key_frames, 2);
}

#[test]
fn both_ends_can_end_the_call() {
    let mut browser = Browser::connected(seconds(1));
    browser.peer.stop(browser.now);
    assert_eq!(*browser.peer.state(), PeerState::Ended(EndReason::Local));
    browser.run(TimeDelta::from_millis(10));
    let sent = browser.packets.len();
    assert!(browser.goodbyes > 0 && browser.closed, "{} BYE, closed: {}", browser.goodbyes, browser.closed);
    browser.run(seconds(1));
    assert_eq!((browser.packets.len(), browser.peer.poll_timeout()), (sent, None));
}

#[test]
fn without_checks_consent_expires_and_media_cease() {
    let mut browser = Browser::connected(TimeDelta::ZERO);
    browser.silent = true;
    browser.run(seconds(29));
    assert_eq!(*browser.peer.state(), PeerState::Connected);
    browser.run(seconds(2));
    assert_eq!(*browser.peer.state(), PeerState::Ended(EndReason::ConsentExpired));
    let sent = browser.packets.len();
    browser.run(seconds(2));
    assert_eq!(browser.packets.len(), sent);
}

#[test]
fn a_port_that_no_browser_has_any_more_ends_the_call() {
    let mut browser = Browser::connected(TimeDelta::ZERO);
    let answers = |browser: &mut Browser, times: u32, to: ([u8; 4], u16)| {
        for _ in 0..times {
            browser.run(TimeDelta::from_millis(100));
            browser.peer.handle_unreachable(browser.now, to.into());
        }
        browser.peer.state().clone()
    };
    // Whoever is heard is there, whatever anybody says.
    assert_eq!(answers(&mut browser, 30, BROWSER), PeerState::Connected);
    browser.silent = true;
    // Too soon, and of another port.
    assert_eq!(answers(&mut browser, 9, BROWSER), PeerState::Connected);
    assert_eq!(answers(&mut browser, 30, SERVER), PeerState::Connected);
    assert_eq!(answers(&mut browser, 1, BROWSER), PeerState::Ended(EndReason::Gone));
}

#[test]
fn a_browser_that_never_connects_is_given_up() {
    let mut browser = Browser::new("gcc:libwebrtc", Version::Newest, "actpass", None);
    browser.silent = true;
    browser.run(seconds(31));
    let PeerState::Ended(reason) = browser.peer.state() else { panic!("{:?}", browser.peer.state()) };
    let text = reason.to_string();
    assert!(text.contains("did not connect") && text.contains("192.0.2.1:5000"), "{text}");
}

#[test]
fn forged_datagrams_are_counted_and_change_nothing() {
    let mut browser = Browser::connected(seconds(1));
    let (now, stranger) = (browser.now, ([192, 0, 2, 66], 6000).into());
    let before = browser.peer.counters();
    let wrong_check = browser.check("not the password", true);
    let mut report = Vec::new();
    ReceiverReport { ssrc: 1, blocks: vec![] }.write(&mut report).unwrap();
    let flood = 5000;
    for _ in 0..flood {
        // A check with a wrong password, DTLS and SRTP from elsewhere, SRTCP with a wrong tag, and noise.
        browser.peer.handle_datagram(now, stranger, &wrong_check, Ecn::NotEct);
        browser.peer.handle_datagram(now, stranger, &[22, 254, 253, 0, 0], Ecn::NotEct);
        browser.peer.handle_datagram(now, BROWSER.into(), &[&report[..], &[0; 14]].concat(), Ecn::NotEct);
        browser.peer.handle_datagram(now, BROWSER.into(), &[99, 0, 0], Ecn::NotEct);
        assert_eq!(browser.peer.poll_transmit(now), None, "an answer to a stranger");
    }
    let after = browser.peer.counters();
    assert_eq!(after.stun.refused - before.stun.refused, flood);
    assert_eq!(after.strange_datagrams - before.strange_datagrams, 2 * flood);
    assert_eq!(after.refused_packets - before.refused_packets, flood);
    assert_eq!((after.stun.checks, after.rtcp_datagrams), (before.stun.checks, before.rtcp_datagrams));
    browser.run(seconds(1));
    assert_eq!(*browser.peer.state(), PeerState::Connected);
    assert!(browser.peer.counters().frames >= after.frames + 24);
}

/// A packet of VP8 whose frame has two of them.
fn half_frame(sequence: u16, timestamp: u32, is_second: bool, bytes: &[u8]) -> Vec<u8> {
    let header = RtpHeader {
        payload_type: 96,
        marker: is_second,
        sequence,
        timestamp,
        ssrc: 7,
        ..RtpHeader::default()
    };
    let mut packet = vec![0; 12];
    header.write(&mut packet).unwrap();
    Vp8Descriptor { start: !is_second, ..Vp8Descriptor::default() }.write(&mut packet);
    packet.extend(bytes);
    packet
}

#[test]
fn media_before_a_nomination_are_received() {
    let mut browser = Browser::sending();
    browser.nominates = false;
    for _ in 0..1000 {
        browser.run(TimeDelta::from_millis(1));
        if browser.srtp.is_some() {
            break;
        }
    }
    // RFC 6386 §9.1: a key frame of 16 x 16, in two packets; only then is the address nominated.
    let key = [&[0x10, 0, 0, 0x9d, 0x01, 0x2a, 16, 0, 16, 0][..], &[0xff; 100]].concat();
    for (number, part) in key.chunks(60).enumerate() {
        browser.send(&half_frame(number as u16 + 9, 1, number == 1, part));
    }
    browser.run(TimeDelta::from_millis(100));
    assert_eq!(*browser.peer.state(), PeerState::Connecting);
    assert_eq!(browser.peer.counters().sent_datagrams, 0);
    browser.nominates = true;
    browser.run(seconds(1));
    assert_eq!(*browser.peer.state(), PeerState::Connected);
    let events = std::iter::from_fn(|| browser.peer.poll_event());
    let frames: Vec<_> = events
        .filter_map(|event| match event {
            MediaEvent::Frame(frame) => Some((frame.key, frame.payload.to_vec())),
            _ => None,
        })
        .collect();
    assert_eq!(frames, [(Some(true), key)]);
    assert_eq!(browser.peer.received().next().unwrap().1.key_frame_requests, 0);
}

#[test]
fn media_follow_the_nominated_address() {
    let mut browser = Browser::connected(seconds(1));
    browser.address = ([198, 51, 100, 7], 7000).into();
    let before = browser.frames.len();
    browser.run(seconds(2));
    assert_eq!(browser.peer.browser_address(), Some(browser.address));
    assert_eq!(browser.peer.counters().address_changes, 1);
    assert!(browser.frames.len() > before + 30, "{}", browser.frames.len() - before);
}
