//! Tests with false feedback.

use giusto_congestion::{Algorithm, Limits};
use giusto_rtp::{
    NtpShort,
    rtcp::{
        ArrivalOffset, CongestionFeedback, PacketReception, ReceptionTime, ScreamFeedback, StreamFeedback,
    },
};
use giusto_session::media::Payload;
use giusto_units::Ecn;
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::link::{Run, algorithm, at, audio, kbps, millis, rtp, video};

/// A message about the latest packets of one source, in which only the numbers are true.
fn lie(run: &Run, kind: Algorithm, numbers: &mut StdRng) -> Vec<u8> {
    let ssrc = [1, 2, 3, 4][numbers.random::<u64>() as usize % 4];
    let latest = run.sent.iter().rev().filter_map(|(_, datagram)| rtp(datagram)).find(|rtp| rtp.ssrc == ssrc);
    let latest = latest.map_or(0, |rtp| rtp.sequence);
    let near = match numbers.random::<u64>() % 4 {
        0 => latest,
        1 => latest.wrapping_sub(numbers.random::<u64>() as u16 % 50),
        2 => latest.wrapping_add(numbers.random::<u64>() as u16 % 50),
        _ => numbers.random::<u64>() as u16,
    };
    let (time, bits) = (numbers.random::<u64>() as u32, numbers.random::<u64>());
    let mut bytes = Vec::new();
    if kind == algorithm("scream:d00+giusto") {
        let message = ScreamFeedback {
            sender_ssrc: 9999,
            media_ssrc: ssrc,
            time: ReceptionTime::from_bits(time),
            highest_sequence: near,
            ecn_echo: bits as u8,
            source_quench: bits & 256 != 0,
            received: (bits >> 9) as u32,
        };
        message.write(&mut bytes).unwrap();
    } else {
        let reception = |place: u64| {
            let offset = ArrivalOffset::from_delta(millis((bits % 500) as i64));
            let ecn = Ecn::from_bits((bits >> place) as u8 & 3);
            (bits >> (place / 2) & 1 == 1).then_some(PacketReception { ecn, offset })
        };
        let stream = StreamFeedback { ssrc, begin_sequence: near, packets: (0..32).map(reception).collect() };
        let time = NtpShort::from_bits(time);
        CongestionFeedback { sender_ssrc: 9999, streams: vec![stream], time }.write(&mut bytes).unwrap();
    }
    bytes
}

#[test]
fn it_recovers_within_10_s_from_10_s_of_false_feedback() {
    for kind in ["scream:rfc8298+giusto", "scream:d00+giusto", "scream:v2"].map(algorithm) {
        for seed in 1..=3 {
            let limits = Limits::DEFAULT.with_min(kbps(100)).with_start(kbps(500)).with_max(kbps(5000));
            let rates = [false, true].map(|lies| {
                let streams = vec![audio(1), video(2, 1.0, 100, 2000), video(3, 1.0, 100, 2000)];
                let mut run = Run::of(kind, limits, streams);
                run.rate = kbps(2000);
                let mut numbers = StdRng::seed_from_u64(seed);
                for step in 0..500 {
                    run.until(at(5000 + step * 20));
                    if lies {
                        let bytes = lie(&run, kind, &mut numbers);
                        run.ends[0].handle_parts(run.now, &bytes, &Payload::default(), Ecn::NotEct);
                        let target = run.sender().target();
                        assert!((limits.min..=limits.max).contains(&target.media), "{kind}: {target:?}");
                    }
                }
                run.until(at(25_000));
                let bytes = run.bytes(&[2, 3], at(45_000));
                (bytes[0] + bytes[1]) * 8.0 / 20e3
            });
            assert!(rates[1] > 0.85 * rates[0] && rates[0] > 1000.0, "{kind}: {rates:?} kbit/s");
        }
    }
}
