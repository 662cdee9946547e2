//! A sender of media whose calls come late, as on a busy machine: it keeps its rate, and does not exceed it.

use crate::prelude::*;

const RATE: DataRate = DataRate::from_bps(1_000_000);
const FRAME: TimeDelta = TimeDelta::from_micros(33_333);
const SECONDS: i64 = 10;

/// Sends ten seconds of frames that take most of the rate, each call `late` after its time. Returns the times and sizes of what was
/// sent, and the number of bytes still queued at the end.
fn sent(pacer: PacerConfig, late: impl Fn(u64) -> TimeDelta) -> (Vec<(Timestamp, u64)>, u64) {
    let limits = Limits::DEFAULT.with_min(RATE).with_start(RATE).with_max(RATE);
    let controller = "fixed".parse::<Algorithm>().unwrap().build(limits);
    let stream = MediaStream::video(10, 96, RateRange::new(RATE, RATE).unwrap());
    let mut sender = MediaSender::new(
        MediaSenderConfig { pacer, queue_limit: None, ..MediaSenderConfig::default() },
        controller,
        vec![stream],
    );
    let size = sender.stream_target(0).unwrap_or(RATE).size_in(FRAME).as_bytes() * 95 / 100;
    let (mut all, mut next_frame, mut number) = (Vec::new(), Timestamp::ZERO, 0);
    let mut now = Timestamp::ZERO;
    while now < Timestamp::ZERO + TimeDelta::from_seconds(SECONDS) {
        while next_frame <= now {
            let payload = Payload::zeros(DataSize::from_bytes(size));
            let frame = Frame { captured: next_frame, media_timestamp: number * 3000, payload, key: false };
            sender.push_frame(now, 0, frame).unwrap();
            (next_frame, number) = (next_frame + FRAME, number + 1);
        }
        sender.handle_timeout(now);
        while let Some(datagram) = sender.poll_transmit(now) {
            all.push((now, datagram.size().as_bytes() + 28));
        }
        let due = sender.poll_timeout().unwrap().min(next_frame);
        assert!(due > now);
        now = due + late(all.len() as u64);
    }
    (all, sender.queue(now).size.as_bytes())
}

#[test]
fn a_late_sender_keeps_its_rate() {
    let one_by_one = pacer_config(PacerSettings::SINGLE);
    for pacer in [one_by_one, PacerConfig::gcc_draft(), PacerConfig::libwebrtc()] {
        for late in [0, 4, 13, 60] {
            let (all, queued) = sent(pacer, |_| TimeDelta::from_millis(late));
            let bytes: u64 = all.iter().map(|(_, size)| size).sum();
            let rate = bytes as f64 * 8.0 / SECONDS as f64;
            // Two frames may wait when the last call comes.
            assert!((0.93e6..1.0e6).contains(&rate), "{late} ms late, {pacer:?}: {rate} bit/s");
            assert!(queued < 10_000, "{late} ms late: {queued} B in the queue");
        }
    }
}

#[test]
fn what_is_late_does_not_exceed_the_rate() {
    // Calls are late by up to 150 ms, without a pattern.
    let late = |number: u64| TimeDelta::from_millis((number * number * 7919 % 151) as i64);
    let (all, _) = sent(pacer_config(PacerSettings::SINGLE), late);
    // In any span: the rate times the span and the longest delay, and two packets.
    for (first, (begin, _)) in all.iter().enumerate() {
        let mut bytes = 0;
        for (end, size) in &all[first..] {
            bytes += size;
            let span = *end - *begin + TimeDelta::from_millis(151 + 151);
            let most = RATE.size_in(span).as_bytes() + 2 * 1250;
            assert!(bytes <= most, "{bytes} B from {begin:?} to {end:?}, at most {most}");
        }
    }
}

#[test]
fn a_long_pause_is_not_made_up_for_at_once() {
    // One call comes 2 s late.
    let late = |number: u64| if number == 300 { TimeDelta::from_seconds(2) } else { TimeDelta::ZERO };
    let (all, _) = sent(pacer_config(PacerSettings::SINGLE), late);
    let at_once =
        all.chunk_by(|a, b| a.0 == b.0).map(|run| run.iter().map(|(_, size)| size).sum::<u64>()).max();
    // 200 ms of the pacing rate, which is 2.5 times the media rate, and two packets; not the 250 kB of 2 s.
    let most = 62_500 + 2 * 1250;
    assert!((30_000..=most).contains(&at_once.unwrap()), "{at_once:?} B at once");
}
