//! RTP with anybody: reception reports in both directions, goodbyes, and sources that follow each other.

use crate::prelude::*;

/// Unix time when both clocks read zero.
const ORIGIN_NS: u64 = 1_800_000_000_123_456_789;
const SSRC: u32 = 0x1122_3344;
const FIRST: u16 = 65_500;
/// On the way to the receiver, and back.
const DELAY: TimeDelta = TimeDelta::from_millis(30);
const BACK: TimeDelta = TimeDelta::from_millis(10);

fn at_ms(ms: i64) -> Timestamp {
    Timestamp::ZERO + TimeDelta::from_millis(ms)
}

fn from() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 7))
}

/// A receiver of RTP from anybody, and what came of it.
struct Far {
    receiver: Receiver,
    /// Its datagrams, with the time of each.
    sent: Vec<(Timestamp, Vec<u8>)>,
    closed: Vec<Stream>,
    opened: usize,
    bytes_in: usize,
    /// What left from the port of RTCP: the time, to where, and its bytes.
    sent_apart: Vec<(Timestamp, SocketAddr, Vec<u8>)>,
}

impl Far {
    fn new() -> Self {
        let clock = LocalClock { origin_unix_ns: ORIGIN_NS, ..LocalClock::default() };
        let config = ReceiverConfig { passive: Some(Passive::Rtp), ..ReceiverConfig::new([3; 32], clock) };
        let (sent, sent_apart, closed) = (Vec::new(), Vec::new(), Vec::new());
        Self { receiver: Receiver::new(config), sent, sent_apart, closed, opened: 0, bytes_in: 0 }
    }

    /// Lets time pass, `to` included.
    fn wait(&mut self, to: Timestamp) {
        while let Some(at) = self.receiver.next_timeout().filter(|at| *at <= to) {
            self.receiver.handle_timeout(at);
            assert!(self.receiver.next_timeout().is_none_or(|next| next > at), "it asks for the time again");
            self.collect(at);
        }
    }

    fn collect(&mut self, now: Timestamp) {
        while let Some(transmit) = self.receiver.poll_transmit() {
            assert_eq!(transmit.to, from());
            self.sent.push((now, transmit.bytes));
        }
        while let Some(transmit) = self.receiver.poll_rtcp_transmit() {
            self.sent_apart.push((now, transmit.to, transmit.bytes));
        }
        while let Some(event) = self.receiver.poll_event() {
            match event {
                ReceiverEvent::Opened(_) => self.opened += 1,
                ReceiverEvent::Closed(_, stream) => self.closed.push(*stream),
                _ => {}
            }
        }
    }

    fn deliver(&mut self, now: Timestamp, bytes: &[u8]) {
        self.wait(now);
        self.receiver.handle(now, &inbound(from(), bytes, now));
        self.bytes_in += bytes.len();
        self.collect(now);
    }

    /// A datagram to the port of RTCP, from `source`.
    fn deliver_apart(&mut self, now: Timestamp, source: SocketAddr, bytes: &[u8]) {
        self.wait(now);
        self.receiver.handle_rtcp(now, &inbound(source, bytes, now));
        self.bytes_in += bytes.len();
        self.collect(now);
    }

    fn ended(&self) -> Vec<Option<Ended>> {
        self.closed.iter().map(Stream::ended).collect()
    }

    fn received(&self) -> Vec<u64> {
        self.receiver.streams().map(|(_, stream)| stream.meter().sequence().received()).collect()
    }
}

/// A G.711 call of `packets` datagrams, sorted by arrival, with its sender reports; `late` says by how much a datagram is late,
/// `None` if it is lost.
fn call(packets: u64, late: impl Fn(u64) -> Option<TimeDelta>) -> Vec<(Timestamp, Vec<u8>)> {
    let start = StreamStart { sequence: FIRST, timestamp: u32::MAX - 100, ssrc: SSRC };
    let source = VoiceSource::new(VoiceFormat::new(VoiceProfile::G711Ulaw), start);
    let mut outgoing = Outgoing::new(Content::Voice(Box::new(source)), 1);
    let mut reports = SenderReports::new(ORIGIN_NS, "x".to_owned(), Some(DataRate::from_bps(68_800)));
    let mut datagrams = Vec::new();
    for packet in 0..packets {
        let sent = at_ms(20 * packet as i64);
        let datagram = outgoing.fill(sent, sent, 1).bytes.to_vec();
        if let Some(late) = late(packet) {
            datagrams.push((sent + DELAY + late, datagram));
        }
        let timing = outgoing.media_timing().unwrap();
        if let Some(report) = reports.poll(sent, timing, packet + 1, DataSize::ZERO) {
            datagrams.push((sent + DELAY, report));
        }
    }
    datagrams.sort_by_key(|(at, _)| *at);
    datagrams
}

fn goodbye(ssrc: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    SenderReport { ssrc, ..SenderReport::default() }.write(&mut bytes).unwrap();
    Bye { sources: vec![ssrc], ..Bye::default() }.write(&mut bytes).unwrap();
    bytes
}

fn parts(bytes: &[u8]) -> (ReceiverReport, SourceDescription, Option<ExtendedReport>) {
    let packets: Vec<_> = Packets::new(bytes).unwrap().collect::<Result<_, _>>().unwrap();
    match packets.as_slice() {
        [Packet::ReceiverReport(report), Packet::SourceDescription(names), rest @ ..] => {
            let mut extended = rest.iter().map(|packet| match packet {
                Packet::ExtendedReport(extended) => extended.clone(),
                other => panic!("{other:?}"),
            });
            assert!(rest.len() < 2, "{packets:?}");
            (report.clone(), names.clone(), extended.next())
        }
        _ => panic!("{packets:?}"),
    }
}

/// 50 and 100 to 103 are lost; 120 comes 45 ms late, which is too late for a buffer of 40 ms.
fn bad_call(packets: u64) -> (Far, Vec<(Timestamp, Vec<u8>)>) {
    let datagrams = call(packets, |packet| match packet {
        50 | 100..=103 => None,
        120 => Some(TimeDelta::from_millis(45)),
        _ => Some(TimeDelta::ZERO),
    });
    let mut far = Far::new();
    for (at, datagram) in &datagrams {
        far.deliver(*at, datagram);
    }
    (far, datagrams)
}

#[test]
fn a_receiver_reports_what_it_received() {
    let (far, datagrams) = bad_call(500);
    // Half an interval after the first sender report, then an interval of 5 s.
    let times: Vec<_> = far.sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [at_ms(2530), at_ms(7530)]);
    let (report, names, extended) = parts(&far.sent[0].1);
    let first_report =
        datagrams.iter().find_map(|(_, datagram)| match Packets::new(datagram).ok()?.next()?.ok()? {
            Packet::SenderReport(report) => Some(report.time.short()),
            _ => None,
        });
    let [block] = report.blocks[..] else { panic!("{report:?}") };
    // The second datagram begins the stream; 124 were sent from there on, 119 came: 5 · 256 / 124 = 10.3.
    assert_eq!((block.ssrc, block.fraction_lost, block.cumulative_lost), (SSRC, 10, 5));
    assert_eq!(block.highest_sequence, u32::from(FIRST) + 124, "one cycle from 65,536 on");
    // J: 45/16 = 2.81, + (45 − 2.81)/16 = 5.45, · 15/16 = 5.109 ms: 40.9 units of 8 kHz.
    assert_eq!(block.jitter, 40);
    assert_eq!((block.last_sender_report, block.delay_since_last.to_bits()), (first_report, 0x2_8000));
    assert_ne!(report.ssrc, SSRC);
    let [name] = &names.chunks[..] else { panic!("{names:?}") };
    let cname = name.cname.as_deref().unwrap();
    assert_eq!((name.ssrc, cname.len()), (report.ssrc, 16));
    assert!(cname.chars().all(|digit| digit.is_ascii_hexdigit()), "{cname}");

    let extended = extended.unwrap();
    let [voice] = extended.voip_metrics[..] else { panic!("{extended:?}") };
    assert_eq!((extended.ssrc, voice.ssrc), (report.ssrc, SSRC));
    // 5 and 1 of 124. One burst of 4; 16 others are between 103 and 120, so 120 is in a gap, as 50 is.
    assert_eq!((voice.loss_rate, voice.discard_rate), (10, 2));
    assert_eq!((voice.burst_density, voice.burst_duration_ms), (255, 80));
    assert_eq!((voice.gap_density, voice.gap_duration_ms), (4, 1200));
    assert_eq!(voice.gmin, 16);
    let buffer = (voice.nominal_delay_ms, voice.max_delay_ms, voice.absolute_max_delay_ms);
    assert_eq!(buffer, (40, 40, 40));
    assert_eq!(voice.round_trip_delay_ms, 0, "unknown at this end");
    assert!((55..=65).contains(&voice.end_system_delay_ms), "a packet and the buffer: {voice:?}");
    let unavailable = (voice.signal_level_dbm0, voice.residual_echo_return_loss_db, voice.external_r_factor);
    assert_eq!(unavailable, (None, None, None));
    // Clean G.711 has R = 93; Ie-eff = 95 · 4.84/(4.84/BurstR + 25.1) with BurstR 6/3 · 0.95 = 1.9 is 16.6.
    assert!((74..=78).contains(&voice.r_factor.unwrap()), "{voice:?}");
    let (listening, conversational) = (voice.mos_lq_tenths.unwrap(), voice.mos_cq_tenths.unwrap());
    assert!((37..=40).contains(&conversational) && listening >= conversational, "{voice:?}");

    let (later, ..) = parts(&far.sent[1].1);
    assert_eq!((later.blocks[0].fraction_lost, later.blocks[0].cumulative_lost), (0, 5));
    assert_eq!(later.blocks[0].highest_sequence, u32::from(FIRST) + 374);
}

#[test]
fn the_sender_knows_the_rtt_and_the_quality() {
    let (far, _) = bad_call(500);
    let mut reports = FarEndReports::new(SSRC, 8_000, ORIGIN_NS);
    for (at, bytes) in &far.sent {
        reports.handle_datagram(*at + BACK, bytes, *at + BACK);
    }
    let latest = *reports.latest().unwrap();
    assert_eq!((latest.reports, latest.lost_packets, latest.fraction_lost), (2, 5, 0.0));
    assert!(latest.voice.unwrap().r_factor.is_some());
    let times = reports.rtts();
    let (min, max) = (times.min().unwrap(), times.max().unwrap());
    assert_eq!(times.count(), 2);
    for time in [min, max] {
        assert!((time - DELAY - BACK).abs() < TimeDelta::from_micros(500), "40 ms: {time:?}");
    }
}

#[test]
fn reports_of_others_and_impossible_times_are_ignored() {
    let (far, _) = bad_call(200);
    let (at, bytes) = &far.sent[0];
    let mut other = FarEndReports::new(SSRC + 1, 8_000, ORIGIN_NS);
    other.handle_datagram(*at + BACK, bytes, *at + BACK);
    assert_eq!(other.latest(), None);
    let mut ours = FarEndReports::new(SSRC, 8_000, ORIGIN_NS);
    let block = |ssrc, last| ReportBlock {
        ssrc,
        cumulative_lost: -3,
        last_sender_report: Some(giusto_rtp::NtpShort::from_bits(last)),
        ..ReportBlock::default()
    };
    let mut forged = Vec::new();
    ReceiverReport { ssrc: 1, blocks: vec![block(9, 5), block(SSRC, 5)] }.write(&mut forged).unwrap();
    let metrics = VoipMetrics { ssrc: 9, ..VoipMetrics::default() };
    ExtendedReport { ssrc: 1, voip_metrics: vec![metrics], ..ExtendedReport::default() }
        .write(&mut forged)
        .unwrap();
    ours.handle_datagram(at_ms(10), &forged, at_ms(10));
    let latest = ours.latest().unwrap();
    assert_eq!((latest.source, latest.lost_packets, latest.voice), (1, -3, None));
    assert!(ours.rtts().is_empty(), "before the first datagram");
}

#[test]
fn rtcp_at_a_port_of_its_own_is_answered_where_it_came_from() {
    let rtcp = SocketAddr::new(from().ip(), 40_001);
    let elsewhere = SocketAddr::from(([192, 0, 2, 9], 40_001));
    let (mut muxed, mut apart) = (Far::new(), Far::new());
    for (at, datagram) in call(500, |_| Some(TimeDelta::ZERO)) {
        muxed.deliver(at, &datagram);
        if RtpHeader::parse(&datagram).is_ok() {
            apart.deliver(at, &datagram);
        } else {
            apart.deliver_apart(at, rtcp, &datagram);
        }
    }
    // Not of this host, and of no stream of it.
    let before = apart.receiver.counters().foreign;
    apart.deliver_apart(at_ms(10_100), elsewhere, &goodbye(SSRC));
    apart.deliver_apart(at_ms(10_100), rtcp, &goodbye(SSRC + 1));
    apart.deliver_apart(at_ms(10_100), rtcp, &[0x80, 200, 0]);
    assert_eq!(apart.receiver.counters().foreign, before + 3);
    // Neither RTCP before any packet nor what is no RTP is of a stream.
    let mut nobody = Far::new();
    nobody.deliver(at_ms(0), &goodbye(SSRC));
    nobody.deliver(at_ms(0), &[0x10; 20]);
    assert_eq!((nobody.receiver.counters().foreign, nobody.opened), (2, 0));
    for far in [&mut muxed, &mut apart] {
        far.wait(at_ms(10_200));
    }
    // The same reports at the same times, from one port or the other.
    assert_eq!((apart.sent.len(), muxed.sent_apart.len()), (0, 0));
    let shown: Vec<(Timestamp, Vec<u8>)> =
        apart.sent_apart.iter().map(|(at, _, bytes)| (*at, bytes.clone())).collect();
    assert!(muxed.sent.len() > 1 && shown == muxed.sent, "{} {}", shown.len(), muxed.sent.len());
    assert!(apart.sent_apart.iter().all(|(_, to, _)| *to == rtcp));
    // The reports have stated the sender's clock: delays are absolute.
    let delay = |far: &Far| {
        let (_, stream) = far.receiver.streams().next().unwrap();
        stream.meter().delay().summary()
    };
    assert_eq!(format!("{:?}", delay(&apart)), format!("{:?}", delay(&muxed)));
    apart.deliver_apart(at_ms(10_200), rtcp, &goodbye(SSRC));
    apart.wait(at_ms(11_000));
    assert_eq!(apart.ended(), [Some(Ended::Left)]);
}

#[test]
fn who_sends_no_rtcp_gets_none() {
    for reports in [false, true] {
        let (mut far, mut report) = (Far::new(), Vec::new());
        ReceiverReport { ssrc: SSRC, ..ReceiverReport::default() }.write(&mut report).unwrap();
        for (at, datagram) in call(500, |_| Some(TimeDelta::ZERO)) {
            if RtpHeader::parse(&datagram).is_ok() {
                far.deliver(at, &datagram);
            }
            if reports && at == at_ms(1_030) {
                far.deliver(at, &report);
            }
        }
        // Of another source.
        far.deliver(at_ms(10_100), &goodbye(SSRC + 1));
        far.wait(at_ms(14_000));
        assert_eq!((far.sent.is_empty(), far.opened, far.closed.len()), (!reports, 1, 0));
    }
}

#[test]
fn reports_are_never_more_than_was_received() {
    let after = |datagrams: u16| {
        let mut far = Far::new();
        for sequence in 0..datagrams {
            far.deliver(at_ms(20 * i64::from(sequence)), &rtp(SSRC, sequence)[..13]);
        }
        // It asks for a report at once, which is about three times as long.
        far.deliver(at_ms(400), &goodbye(SSRC));
        far.wait(at_ms(400));
        let sent: usize = far.sent.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(sent <= far.bytes_in, "{sent} for {}", far.bytes_in);
        sent
    };
    assert_eq!(after(4), 0);
    assert!(after(20) > 100);
}

#[test]
fn an_announced_stream_is_reported_but_not_replaced() {
    let voice = Some(VoiceProfile::G711Ulaw);
    let announced = StreamRequest {
        format: StreamFormat::Rtp { clock_rate_hz: 8_000, voice },
        rate_bps: Some(68_800),
        size: Some(DataSize::from_bytes(172)),
        gap: Some(TimeDelta::from_millis(20)),
        ssrc: Some(SSRC),
        ..request()
    };
    let mut net = Net::new(receiver_config());
    let (mut sender, _) = net.open_with(from(), SenderConfig::new(announced, 9));
    let (began, opening) = (net.now, net.outward.len());
    for (at, datagram) in call(200, |_| Some(TimeDelta::ZERO)) {
        net.wait(began + (at - Timestamp::ZERO) - net.now);
        net.deliver(from(), &datagram);
    }
    // Nothing of these ends what was announced.
    net.wait(TimeDelta::from_millis(500));
    for datagram in [rtp(99, 1), rtp(99, 2), rtp(99, 3), goodbye(SSRC)] {
        net.deliver(from(), &datagram);
    }
    net.wait(TimeDelta::from_millis(500));
    assert!(net.closed.is_empty());
    assert_eq!((net.receiver.counters().other_source, net.stream().meter().sequence().received()), (3, 200));
    let answers = net.answers();
    let reports: Vec<_> = answers.iter().filter(|(_, bytes)| Packets::new(bytes).is_ok()).collect();
    let [(to, bytes)] = reports[..] else { panic!("{} after {opening}", reports.len()) };
    let (report, _, extended) = parts(bytes);
    assert_eq!((*to, report.blocks[0].ssrc, report.blocks[0].cumulative_lost), (from(), SSRC, 0));
    assert_eq!(extended.unwrap().voip_metrics[0].r_factor, Some(92));
    // The sender has better reports: it ignores these.
    sender.handle_datagram(net.now, bytes, net.now);
    assert!(sender.poll_event().is_none());
}

#[test]
fn a_goodbye_ends_the_stream_with_a_last_report() {
    let mut far = Far::new();
    for (at, datagram) in call(100, |_| Some(TimeDelta::ZERO)) {
        far.deliver(at, &datagram);
    }
    far.deliver(at_ms(2_011), &goodbye(SSRC));
    // Overtaken by the goodbye.
    far.deliver(at_ms(2_050), &rtp(SSRC, FIRST.wrapping_add(100)));
    far.wait(at_ms(2_310));
    assert_eq!((far.sent.len(), far.closed.len()), (1, 0));
    far.wait(at_ms(2_400));
    assert_eq!(far.ended(), [Some(Ended::Left)]);
    assert_eq!(far.closed[0].meter().sequence().received(), 100, "all but the first");
    let (report, ..) = parts(&far.sent[0].1);
    assert_eq!((report.blocks[0].cumulative_lost, report.blocks[0].highest_sequence), (0, 65_599));
}

#[test]
fn forged_goodbyes_end_nothing() {
    let mut far = Far::new();
    for (at, datagram) in call(200, |_| Some(TimeDelta::ZERO)) {
        far.deliver(at, &datagram);
        // Both of another source and of this one, but the stream goes on.
        if at == at_ms(1_030) {
            far.deliver(at, &goodbye(SSRC + 1));
            far.deliver(at, &goodbye(SSRC));
        }
    }
    assert_eq!((far.opened, far.closed.len(), far.received()), (1, 0, vec![199]));
}

#[test]
fn a_new_source_takes_over_when_the_old_one_is_silent() {
    let mut far = Far::new();
    for step in 0..50_u16 {
        let now = i64::from(step) * 20;
        far.deliver(at_ms(now), &rtp(SSRC, step));
        // Forged, one and two in sequence, while the source sends.
        if step % 10 == 5 {
            far.deliver(at_ms(now + 1), &rtp(99, step));
            far.deliver(at_ms(now + 2), &rtp(99, step + 1));
        }
    }
    assert_eq!((far.opened, far.closed.len(), far.received()), (1, 0, vec![49]));
    assert_eq!(far.receiver.counters().other_source, 10);
    // One datagram of another source after a silence.
    far.deliver(at_ms(1_200), &rtp(99, 500));
    far.deliver(at_ms(1_220), &rtp(SSRC, 50));
    assert_eq!((far.opened, far.closed.len()), (1, 0));
    // Out of sequence, in sequence.
    for (now, sequence) in [(1_400, 700), (1_420, 703), (1_440, 704), (1_460, 705)] {
        far.deliver(at_ms(now), &rtp(100, sequence));
    }
    assert_eq!((far.opened, far.ended()), (2, vec![Some(Ended::Replaced)]));
    assert_eq!(far.closed[0].meter().sequence().received(), 50);
    assert_eq!(far.received(), [2], "from its second datagram in sequence on");
    // After a goodbye the next source need not wait.
    far.deliver(at_ms(1_480), &goodbye(100));
    far.deliver(at_ms(1_490), &rtp(101, 1));
    far.deliver(at_ms(1_500), &rtp(101, 2));
    assert_eq!((far.opened, far.closed.len(), far.received()), (3, 2, vec![1]));
}

proptest! {
    #[test]
    fn any_bytes_are_read_by_both_ends(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 200_u8..208) {
        let mut reports = FarEndReports::new(SSRC, 0, u64::MAX);
        let mut far = Far::new();
        far.deliver(at_ms(0), &rtp(SSRC, 1));
        far.deliver(at_ms(20), &rtp(SSRC, 2));
        // As they are, and as RTCP of this source.
        let mut like_rtcp = vec![0x81, kind, 0, (bytes.len() / 4 + 1) as u8];
        like_rtcp.extend(SSRC.to_be_bytes());
        like_rtcp.extend(&bytes[..bytes.len() / 4 * 4]);
        for bytes in [bytes, like_rtcp] {
            reports.handle_datagram(at_ms(30), &bytes, at_ms(30));
            far.deliver(at_ms(30), &bytes);
        }
        far.wait(at_ms(9_000));
        prop_assert!(far.opened == 1 && far.receiver.streams().count() == 0);
    }
}
