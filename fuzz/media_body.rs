//! Function of the fuzz target of media sessions. The ordinary tests run the seeds in `fuzz/seeds/media` through the same code.

#![allow(clippy::indexing_slicing, reason = "indices are below the length of the arrays")]

use giusto_congestion::{Algorithm, Limits};
use giusto_session::media::{
    Frame, KeyFrameRequest, MediaEndpoint, MediaEvent, MediaReceiver, MediaReceiverConfig, MediaSender,
    MediaSenderConfig, MediaStream, ParityRatio, ParityStream, Payload, PayloadFormat, RateRange,
    RepairConfig, StreamRepair, pacer_config,
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};

/// Time between two frames in units of the clock of video, at 30 frames a second.
const TICKS: u32 = 3000;

/// Payload types of video, its retransmissions, parity and audio.
const TYPES: [u8; 4] = [96, 98, 99, 111];

fn limits() -> RateRange {
    RateRange::new(DataRate::from_bps(50_000), DataRate::from_bps(2_000_000)).expect("the range is valid")
}

fn sender(algorithm: Algorithm) -> MediaSender {
    let needs = algorithm.requirements();
    let own = Limits::DEFAULT.with_min(limits().min()).with_max(limits().max());
    let config = MediaSenderConfig {
        feedback: needs.feedback,
        pacer: pacer_config(needs.pacer),
        ecn: Ecn::Ect1,
        ..MediaSenderConfig::default()
    };
    let repair = StreamRepair {
        rtx: Some((11, TYPES[1])),
        parity: Some(ParityStream { ssrc: 12, payload_type: TYPES[2], ratio: ParityRatio::Loss }),
        ..StreamRepair::default()
    };
    let video = MediaStream {
        repair,
        skip_after: Some(TimeDelta::from_millis(200)),
        ..MediaStream::video(10, TYPES[0], limits())
    };
    let audio = MediaStream::audio(20, TYPES[3], 48_000, DataRate::from_bps(20_000));
    MediaSender::new(config, algorithm.build(own), vec![video, audio])
}

fn receiver(algorithm: Algorithm) -> MediaReceiver {
    let payloads = vec![
        PayloadFormat::video(TYPES[0]),
        PayloadFormat::rtx(TYPES[1], TYPES[0]),
        PayloadFormat::parity(TYPES[2]),
        PayloadFormat::audio(TYPES[3], 48_000),
    ];
    let config = MediaReceiverConfig {
        payloads,
        repair: RepairConfig { nack: true, key_frames: KeyFrameRequest::FullIntra },
        ..MediaReceiverConfig::new(1, "receiver", algorithm.requirements().feedback)
    };
    MediaReceiver::new(config).expect("the defaults are valid")
}

/// A sender and a receiver of media over a network that loses, copies, delays, reorders and changes datagrams and adds others,
/// under every controller. As long as none is changed or added, a frame arrives as it was sent, and once. Targets keep to their
/// limits, deadlines advance, each step does bounded work.
pub(crate) fn media(bytes: &[u8]) {
    let [first, rest @ ..] = bytes else { return };
    let algorithms = Algorithm::all();
    let Some(algorithm) = algorithms.clone().nth(usize::from(*first) % algorithms.len()) else { return };
    let mut ends = [
        MediaEndpoint::new(Some(sender(algorithm)), None),
        MediaEndpoint::new(None, Some(receiver(algorithm))),
    ];
    let mut now = Timestamp::from_nanos(1_000_000_000);
    // What each end has sent, and the frames, numbered by their media timestamps.
    let mut seen: [Vec<Vec<u8>>; 2] = Default::default();
    let (mut frames, mut arrived): (Vec<(usize, Vec<u8>)>, Vec<bool>) = Default::default();
    let (mut is_honest, mut rest) = (true, rest);
    while let [action, back, change, tail @ ..] = rest {
        rest = tail;
        now += TimeDelta::from_micros(1 << (action / 14));
        let way = usize::from(action % 2);
        match action % 14 {
            0..4 => {
                let stream = usize::from(*action % 14 == 3);
                let size = if stream == 0 { 1 + usize::from(*change) * 20 } else { 1 + usize::from(*change) };
                if ends[0].wants_frame(now, stream) {
                    let content = vec![frames.len() as u8; size];
                    let frame = Frame {
                        captured: now,
                        media_timestamp: frames.len() as u32 * TICKS,
                        payload: Payload::from(content.clone()),
                        key: *back == 0,
                    };
                    if ends[0].push_frame(now, stream, frame).is_ok() {
                        frames.push((stream, content));
                        arrived.push(false);
                    }
                }
            }
            4..10 => {
                let place = seen[way].len().checked_sub(1 + usize::from(*back));
                if let Some(datagram) = place.and_then(|place| seen[way].get(place)).cloned() {
                    ends[1 - way].handle_datagram(now, &datagram, Ecn::from_bits(*change));
                }
            }
            10..12 => {
                let place = seen[way].len().checked_sub(1 + usize::from(*back));
                if let Some(mut datagram) = place.and_then(|place| seen[way].get(place)).cloned() {
                    let bit = usize::from(*change) % (datagram.len() * 8);
                    datagram[bit / 8] ^= 1 << (bit % 8);
                    ends[1 - way].handle_datagram(now, &datagram, Ecn::Ce);
                    is_honest = false;
                }
            }
            _ => {
                let (datagram, following) = rest.split_at(usize::from(*back).min(rest.len()));
                rest = following;
                ends[1 - way].handle_datagram(now, datagram, Ecn::from_bits(*change));
                is_honest = false;
            }
        }
        for (end, seen) in ends.iter_mut().zip(&mut seen) {
            end.handle_timeout(now);
            for count in 0.. {
                let Some(datagram) = end.poll_transmit(now) else { break };
                assert!(count < 20_000, "an end sends without end");
                seen.push(datagram.to_vec());
            }
            assert!(end.poll_timeout().is_none_or(|at| at > now), "{:?} at {now:?}", end.poll_timeout());
            while let Some(event) = end.poll_event() {
                match event {
                    MediaEvent::Frame(frame) if is_honest => {
                        let content = frame.payload.to_vec();
                        let number = (frame.rtp_timestamp / TICKS) as usize;
                        let stream = usize::from(frame.ssrc == 20);
                        let is_same = frames.get(number).is_some_and(|sent| *sent == (stream, content));
                        assert!(is_same, "frame {number} of stream {stream} is not what was sent");
                        assert!(!std::mem::replace(&mut arrived[number], true), "frame {number} came twice");
                    }
                    MediaEvent::Target { rate, .. } => assert!(rate <= limits().max()),
                    _ => {}
                }
            }
        }
        if let Some(sender) = ends[0].sender() {
            let target = sender.target();
            assert!(limits().min() <= target.media && target.media <= limits().max(), "{target:?}");
            assert!(sender.queue(now).size <= DataSize::from_bytes(20_000_000));
        }
    }
    ends[0].stop(now);
}
