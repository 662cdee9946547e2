//! One-way delay of RTP streams, whose datagrams carry no send time: it comes from sender reports (RFC 3550 §6.4.1).

use crate::prelude::*;

const SIZE: DataSize = DataSize::from_bytes(200);
/// On the way to the receiver.
const DELAY: TimeDelta = TimeDelta::from_millis(30);
/// On the way back.
const BACK: TimeDelta = TimeDelta::from_millis(10);
/// Unix time when the receiver's clock reads zero.
const ORIGIN_NS: u64 = 1_800_000_000_000_000_000;
/// The sender's clock reads this much more than the receiver's.
const AHEAD: TimeDelta = TimeDelta::from_seconds(5);

fn local(origin_unix_ns: u64, synchronised_within_ns: Option<u64>) -> LocalClock {
    LocalClock { origin_unix_ns, synchronised_within_ns, ..LocalClock::default() }
}

fn outgoing() -> Outgoing {
    let limits = SizeLimits::new(SIZE, SIZE).unwrap();
    let sizes = SizeSource::new(PayloadSizes::Fixed(SIZE), limits);
    // The timestamp wraps during the stream.
    Outgoing::new(Content::Rtp { first: Content::rtp_header(65_500, u32::MAX - 500_000, 7), sizes }, 1)
}

fn deliver(receiver: &mut Receiver, now: Timestamp, bytes: &[u8]) {
    receiver.handle(now, &inbound(([192, 0, 2, 1], 7).into(), bytes, now));
}

/// The delays at a receiver that accepts RTP from anybody, of a sender whose reports are `off` from the time of day.
fn of_anybody(off: TimeDelta) -> DelaySummary {
    let config = ReceiverConfig::new([3; 32], local(ORIGIN_NS, None));
    let mut receiver = Receiver::new(ReceiverConfig { passive: Some(Passive::Rtp), ..config });
    let mut outgoing = outgoing();
    let origin_ns = ORIGIN_NS.checked_add_signed((off - AHEAD).as_nanos()).unwrap();
    let mut reports = SenderReports::new(origin_ns, "a".to_owned(), None);
    for step in 0..300 {
        let sent = Timestamp::ZERO + AHEAD + TimeDelta::from_millis(20 * step);
        let arrives = sent - AHEAD + DELAY;
        let datagram = outgoing.fill(sent, sent, 1).bytes.to_vec();
        deliver(&mut receiver, arrives, &datagram);
        if let Some(report) = reports.poll(sent, outgoing.media_timing().unwrap(), 0, DataSize::ZERO) {
            deliver(&mut receiver, arrives, &report);
        }
    }
    let delays = receiver.streams().next().unwrap().1.meter().delay().summary();
    delays.unwrap()
}

#[test]
fn anybodys_delay_is_as_right_as_the_stated_time() {
    let delay = of_anybody(TimeDelta::ZERO);
    assert_eq!((delay.basis, delay.count), (DelayBasis::Stated, 299), "all but the first, on probation");
    assert!((delay.p50 - DELAY).as_seconds().abs() < 12e-6, "within a unit of 90 kHz: {delay:?}");
    let late = of_anybody(-TimeDelta::from_seconds(2));
    assert!(((late.p50 - DELAY).as_seconds() - 2.0).abs() < 1e-3, "{late:?}");
    let absurd = of_anybody(TimeDelta::from_seconds(11));
    assert!(absurd.basis == DelayBasis::Relative && absurd.p50.as_seconds() < 1e-3, "{absurd:?}");
}

/// The delays of an announced stream whose ends say that their clocks are `synchronised_within_ns`.
fn announced(synchronised_within_ns: Option<u64>) -> DelaySummary {
    let theirs = local(ORIGIN_NS - AHEAD.as_nanos().unsigned_abs(), synchronised_within_ns);
    let request = StreamRequest {
        format: StreamFormat::Rtp { clock_rate_hz: 90_000, voice: None },
        rate_bps: Some(80_000),
        size: Some(SIZE),
        ssrc: Some(7),
        ..StreamRequest::nothing()
    };
    let mut receiver = Receiver::new(ReceiverConfig::new([3; 32], local(ORIGIN_NS, synchronised_within_ns)));
    let mut sender =
        Sender::new(Timestamp::ZERO + AHEAD, SenderConfig { clock: theirs, ..SenderConfig::new(request, 9) });
    let mut reports = SenderReports::new(theirs.origin_unix_ns, "a".to_owned(), None);
    let mut outgoing = outgoing();
    let (mut there, mut back) = (Vec::new(), Vec::new());
    for millis in 0..4_000 {
        // On the receiver's clock.
        let now = Timestamp::ZERO + TimeDelta::from_millis(millis);
        let sent = now + AHEAD;
        if sender.poll_timeout().is_some_and(|at| at <= sent) {
            sender.handle_timeout(sent);
        }
        while let Some(bytes) = sender.poll_transmit(sent) {
            there.push((now + DELAY, bytes));
        }
        if millis > 1_000 && millis % 20 == 0 {
            there.push((now + DELAY, outgoing.fill(sent, sent, 1).bytes.to_vec()));
            let timing = outgoing.media_timing().unwrap();
            there.extend(reports.poll(sent, timing, 0, DataSize::ZERO).map(|report| (now + DELAY, report)));
        }
        for (_, bytes) in there.extract_if(.., |(at, _)| *at <= now) {
            deliver(&mut receiver, now, &bytes);
        }
        if receiver.next_timeout().is_some_and(|at| at <= now) {
            receiver.handle_timeout(now);
        }
        while let Some(transmit) = receiver.poll_transmit() {
            back.push((now + BACK, transmit.bytes));
        }
        for (_, bytes) in back.extract_if(.., |(at, _)| *at <= now) {
            sender.handle_datagram(sent, &bytes, sent);
        }
    }
    let delays = receiver.streams().next().unwrap().1.meter().delay().summary();
    delays.unwrap()
}

#[test]
fn an_announced_stream_knows_the_error_of_its_delay() {
    let synchronised = announced(Some(1_000));
    let DelayBasis::Estimated { uncertainty } = synchronised.basis else { panic!("{synchronised:?}") };
    assert_eq!(uncertainty, TimeDelta::from_nanos(2_000 + 11_112), "both clocks and a unit of 90 kHz");
    assert!((synchronised.p50 - DELAY).as_seconds().abs() < 12e-6, "{synchronised:?}");

    // Without synchronised clocks the exchanges give the offset within half the round-trip time.
    let exchanged = announced(None);
    let DelayBasis::Estimated { uncertainty } = exchanged.basis else { panic!("{exchanged:?}") };
    let half = (DELAY + BACK) / 2;
    assert!((half..half + TimeDelta::from_millis(1)).contains(&uncertainty), "{uncertainty}");
    assert!((exchanged.p50 - DELAY).as_seconds().abs() <= uncertainty.as_seconds(), "{exchanged:?}");
    assert!((exchanged.p50 - half).as_seconds().abs() < 1e-3, "the path seems symmetrical: {exchanged:?}");
}
