use giusto_rtp::rtcp::NadaFeedback;

use super::*;

fn packet(ssrc: u32, sequence: u16, sent_ms: u64) -> Sent {
    Sent { send_time: Some(at(sent_ms)), ..Sent::numbered(ssrc, sequence, false) }
}

fn messages_at(receiver: &mut MediaReceiver, ms: u64) -> Vec<NadaFeedback> {
    only!(NadaFeedback, drain(receiver, at(ms))).collect()
}

/// Packets of 1000 bytes each 10 ms from `begin_ms` on, with a delay in ms by number. Returns the messages.
fn stream(
    receiver: &mut MediaReceiver,
    begin_ms: u64,
    numbers: Range<u16>,
    delay: impl Fn(u16) -> u64,
) -> Vec<NadaFeedback> {
    let mut all = Vec::new();
    for number in numbers {
        let sent = begin_ms + u64::from(number) * 10;
        packet(7, number, sent).arrive(receiver, at(sent + delay(number)));
        all.extend(messages_at(receiver, sent + delay(number)));
    }
    all
}

#[test]
fn a_message_is_sent_every_100_ms_with_mode_signal_and_rate() {
    let mut receiver = receiver(FeedbackKind::Nada);
    let sent = stream(&mut receiver, 63_000, 0..201, |_| 40);
    assert_eq!(sent.len(), 20);
    // 1000 bytes and 28 of overhead each 10 ms. The send times wrap at 64 s.
    let last =
        NadaFeedback { sender_ssrc: 1, gradual: false, signal: 0, received: DataRate::from_bps(822_400) };
    assert_eq!(sent.last(), Some(&last));
    // Nothing more is reported without packets.
    assert!(messages_at(&mut receiver, 65_500).is_empty());
}

#[test]
fn a_queue_is_reported_in_units_of_100_us() {
    let mut receiver = receiver(FeedbackKind::Nada);
    let sent = stream(&mut receiver, 1000, 0..101, |number| if number < 50 { 40 } else { 65 });
    let last = sent.last().unwrap();
    // 25 ms, to a tick of the send time.
    assert!(last.gradual && (249..=251).contains(&last.signal), "{last:?}");
    // 50 s later the send time could be taken for one 64 s earlier: a new measurement begins.
    let sent = stream(&mut receiver, 51_000, 101..152, |_| 140);
    assert_eq!(sent.last().map(|last| last.signal), Some(0));
}

#[test]
fn gaps_are_losses_for_each_source_of_its_own() {
    let mut one = receiver(FeedbackKind::Nada);
    // Two sources that alternate have no gap.
    for number in 0..50_u16 {
        let ms = u64::from(number) * 10;
        packet(7, number.wrapping_sub(20), ms).arrive(&mut one, at(ms + 20));
        packet(8, number + 500, ms).arrive(&mut one, at(ms + 20));
    }
    let [last] = messages_at(&mut one, 520)[..] else { panic!() };
    assert_eq!((last.gradual, last.signal), (false, 0));
    // A gap of one.
    packet(7, 31, 510).arrive(&mut one, at(530));
    let [last] = messages_at(&mut one, 620)[..] else { panic!() };
    assert!(last.gradual && last.signal > 0, "{last:?}");
    // A restarted sequence is no gap.
    let mut two = receiver(FeedbackKind::Nada);
    packet(7, 0, 0).arrive(&mut two, at(20));
    packet(7, 10_000, 10).arrive(&mut two, at(30));
    packet(7, 10_001, 20).arrive(&mut two, at(40));
    let [last] = messages_at(&mut two, 130)[..] else { panic!() };
    assert_eq!((last.gradual, last.signal), (false, 0));
}

#[test]
fn a_send_time_before_the_first_starts_a_new_measurement() {
    let mut receiver = receiver(FeedbackKind::Nada);
    packet(7, 0, 64_000).arrive(&mut receiver, at(64_040));
    let sent = stream(&mut receiver, 63_980, 1..102, |_| 140);
    assert_eq!(sent.last().map(|last| last.signal), Some(0));
}
