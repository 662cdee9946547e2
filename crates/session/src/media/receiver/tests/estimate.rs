use super::*;

fn send(receiver: &mut MediaReceiver, ms: u64, number: u16) -> Vec<Vec<Packet>> {
    // From 60 s on the sender's clock: over its wrap at 64 s.
    let sent = Sent { send_time: Some(at(60_000 + ms)), ..Sent::numbered(7, number, false) };
    sent.arrive(receiver, at(ms + 30));
    drain(receiver, at(ms + 30))
}

#[test]
fn estimates_are_compounds_at_most_1_s_apart() {
    let mut receiver = receiver(FeedbackKind::ReceiverEstimate);
    let mut estimates = Vec::new();
    // 1028 bytes every 10 ms: 822.4 kbit/s. The update after the probe adds 1 kbit/s.
    for step in 0..2000_u16 {
        let ms = u64::from(step) * 10;
        for datagram in send(&mut receiver, ms, step) {
            assert!(matches!(datagram[..2], [Packet::ReceiverReport(_), Packet::SourceDescription(_)]));
            let Some(Packet::Remb(remb)) = datagram.get(2) else { continue };
            assert_eq!((remb.sender_ssrc, remb.sources.as_slice()), (1, &[7][..]));
            estimates.push((ms, remb.bitrate));
        }
    }
    assert!(estimates.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 1000));
    let (first, rate) = estimates[0];
    assert!(first < 100 && rate == Remb::quantised(DataRate::from_bps(823_400)), "{first} {rate}");
    let last = estimates.last().unwrap().1;
    assert!(last > DataRate::from_bps(1_100_000) && last < DataRate::from_bps(1_300_000), "{last}");
    assert!(receiver.decision().is_some());
}

#[test]
fn estimates_are_reported_up_to_their_maximum() {
    let max = DataRate::from_bps(500_000);
    let mut receiver = receiver(FeedbackKind::ReceiverEstimate);
    receiver.config.max_estimate = Some(max);
    let mut highest = DataRate::ZERO;
    // Send times wrap at 64 s, so the packets below seem to be sent before this one: the measurement begins again with them.
    Sent { send_time: Some(at(64_000)), ..Sent::numbered(7, 65_535, false) }.arrive(&mut receiver, at(0));
    // 1028 bytes every 10 ms, then every 50 ms: 822.4 and 164.5 kbit/s.
    for step in 0..600_u16 {
        let ms = if step < 500 { u64::from(step) * 10 } else { u64::from(step) * 50 - 20_000 };
        for datagram in send(&mut receiver, ms, step) {
            let Some(Packet::Remb(remb)) = datagram.get(2) else { continue };
            highest = highest.max(remb.bitrate);
        }
    }
    assert!(highest <= max && highest > DataRate::from_bps(490_000), "{highest}");
}

#[test]
fn only_reports_contain_blocks() {
    let mut receiver = receiver(FeedbackKind::ReceiverEstimate);
    let mut times = Vec::new();
    for step in 0..1000_u16 {
        let ms = u64::from(step) * 10;
        let datagrams = send(&mut receiver, ms, step);
        times.extend(blocks(&datagrams).iter().map(|_| ms + 30));
    }
    // The first report after half a second, at a packet interval of 10 ms.
    assert_eq!(times, (0..10).map(|i| 530 + i * 1000).collect::<Vec<_>>());
}
