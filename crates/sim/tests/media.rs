//! Two ends of a media session over a path that delays, loses, duplicates and reorders.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on should end")]

use giusto_congestion::{Algorithm, Limits};
use giusto_session::media::{
    Datagram, MediaEndpoint, MediaEvent, MediaReceiver, MediaReceiverConfig, MediaSender, MediaSenderConfig,
    MediaStream, PADDING_TYPE, Payload, PayloadFormat, RateRange, pacer_config,
};
use giusto_sim::traffic::{
    EncodedEndpoint,
    encoder::{Audio, AudioConfig, MediaSource, PerfectConfig, PerfectEncoder},
};
use giusto_units::{DataRate, DataSize, Ecn, TimeDelta, Timestamp};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, rngs::StdRng};

fn algorithm(name: &str) -> Algorithm {
    name.parse().unwrap()
}

const LIMITS: Limits = Limits::DEFAULT
    .with_min(DataRate::from_bps(100_000))
    .with_start(DataRate::from_bps(300_000))
    .with_max(DataRate::from_bps(2_000_000));

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

/// A sender of audio and video, with encoders, and optionally a receiver.
fn end(kind: Algorithm, first_ssrc: u32, receiver: Option<MediaReceiver>) -> EncodedEndpoint {
    let limits = RateRange::new(DataRate::from_bps(100_000), DataRate::from_bps(1_900_000)).unwrap();
    let video = PerfectConfig { limits, ..PerfectConfig::default() };
    let video = PerfectEncoder::new(video, Timestamp::ZERO).unwrap();
    let audio = Audio::new(AudioConfig::default(), Timestamp::ZERO).unwrap();
    let streams = vec![
        MediaStream {
            timestamp_offset: 65_500,
            ..MediaStream::audio(first_ssrc, 111, 48_000, audio.target())
        },
        MediaStream {
            timestamp_offset: u32::MAX - 535,
            start_rate: video.target(),
            ..MediaStream::video(first_ssrc + 1, 96, limits)
        },
    ];
    let config = MediaSenderConfig {
        feedback: kind.requirements().feedback,
        pacer: pacer_config(kind.requirements().pacer),
        padding: (first_ssrc + 2, PADDING_TYPE),
        ..MediaSenderConfig::default()
    };
    let sender = MediaSender::new(config, kind.build(LIMITS), streams);
    EncodedEndpoint::new(MediaEndpoint::new(Some(sender), receiver), vec![Box::new(audio), Box::new(video)])
}

/// An endpoint without encoders.
fn far(receiver: Option<MediaReceiver>) -> EncodedEndpoint {
    EncodedEndpoint::new(MediaEndpoint::new(None, receiver), Vec::new())
}

fn receiver(kind: Algorithm, ssrc: u32) -> MediaReceiver {
    MediaReceiver::new(MediaReceiverConfig {
        payloads: vec![
            PayloadFormat::video(96),
            PayloadFormat::audio(111, 48_000),
            PayloadFormat::padding(PADDING_TYPE),
        ],
        ..MediaReceiverConfig::new(ssrc, "far", kind.requirements().feedback)
    })
    .unwrap()
}

giusto_units::defaults! {
    /// The effects of the path on each datagram.
    #[derive(Debug, Clone, Copy)]
    struct Pipe {
        rate: DataRate = DataRate::from_bps(10_000_000),
        delay: TimeDelta = TimeDelta::from_millis(30),
        loss: f64 = 0.0,
        repeats: f64 = 0.0,
        reorders: f64 = 0.0,
        /// No datagram passes between these times.
        silence: (Timestamp, Timestamp) = (Timestamp::MAX, Timestamp::MAX),
        /// Probability that a bit of a head is inverted.
        damage: f64 = 0.0,
    }
}

struct Call {
    ends: [EncodedEndpoint; 2],
    pipe: Pipe,
    free: [Timestamp; 2],
    on_the_way: Vec<(Timestamp, u64, usize, Datagram)>,
    count: u64,
    random: StdRng,
    events: [Vec<MediaEvent>; 2],
    sent: [u64; 2],
    now: Timestamp,
}

impl Call {
    fn new(ends: [EncodedEndpoint; 2], pipe: Pipe) -> Self {
        Self {
            ends,
            pipe,
            free: [Timestamp::ZERO; 2],
            on_the_way: Vec::new(),
            count: 0,
            random: StdRng::seed_from_u64(7),
            events: [Vec::new(), Vec::new()],
            sent: [0; 2],
            now: Timestamp::ZERO,
        }
    }

    fn one_way(kind: Algorithm, pipe: Pipe) -> Self {
        Self::new([end(kind, 10, None), far(Some(receiver(kind, 3)))], pipe)
    }

    fn run(&mut self, until: Timestamp) {
        loop {
            let arrival = self.on_the_way.iter().map(|&(at, ..)| at).min();
            let timeouts = self.ends.iter().filter_map(EncodedEndpoint::poll_timeout).min();
            let Some(next) = [arrival, timeouts].into_iter().flatten().min().filter(|&next| next <= until)
            else {
                break;
            };
            self.now = self.now.max(next);
            let now = self.now;
            self.on_the_way.sort_by_key(|&(at, number, ..)| (at, number));
            while self.on_the_way.first().is_some_and(|&(at, ..)| at <= now) {
                let (.., to, datagram) = self.on_the_way.remove(0);
                self.ends[to].handle_datagram(now, &datagram, Ecn::NotEct);
                self.drain(to);
            }
            for end in 0..2 {
                if self.ends[end].poll_timeout().is_some_and(|due| due <= now) {
                    self.ends[end].handle_timeout(now);
                    self.drain(end);
                    let next = self.ends[end].poll_timeout();
                    assert!(next.is_none_or(|next| next > now), "end {end} spins at {now:?}: {next:?}");
                }
            }
        }
        self.now = self.now.max(until);
    }

    fn drain(&mut self, from: usize) {
        while let Some(mut datagram) = self.ends[from].poll_transmit(self.now) {
            self.sent[from] += 1;
            let size = datagram.size() + DataSize::from_bytes(28);
            let begin = self.free[from].max(self.now);
            self.free[from] = begin + self.pipe.rate.time_for(size).unwrap();
            let quiet = self.now >= self.pipe.silence.0 && self.now < self.pipe.silence.1;
            if quiet || self.random.random_bool(self.pipe.loss) {
                continue;
            }
            if self.random.random_bool(self.pipe.damage) {
                let bit = self.random.random_range(0..datagram.head.len() * 8);
                datagram.head[bit / 8] ^= 1 << (bit % 8);
            }
            let mut arrival = self.free[from] + self.pipe.delay;
            if self.random.random_bool(self.pipe.reorders) {
                arrival += TimeDelta::from_millis(20);
            }
            let copies = 1 + usize::from(self.random.random_bool(self.pipe.repeats));
            for _ in 0..copies {
                self.count += 1;
                self.on_the_way.push((arrival, self.count, 1 - from, datagram.clone()));
            }
        }
        while let Some(event) = self.ends[from].poll_event() {
            self.events[from].push(event);
        }
    }

    fn target(&self) -> u64 {
        self.ends[0].endpoint().sender().unwrap().target().media.as_bps()
    }

    fn frames(&self, ssrc: u32) -> usize {
        let complete = |event: &&MediaEvent| matches!(event, MediaEvent::Frame(frame) if frame.ssrc == ssrc);
        self.events[1].iter().filter(complete).count()
    }
}

#[test]
fn without_loss_every_frame_arrives_complete() {
    for kind in Algorithm::all() {
        let mut call = Call::one_way(kind, Pipe::default());
        call.run(at(10_000));
        // 30 video frames per second, and an audio packet every 20 ms; the last ones may be in flight.
        assert!((297..=301).contains(&call.frames(11)), "{kind}: {} video frames", call.frames(11));
        assert!((496..=501).contains(&call.frames(10)), "{kind}: {} audio packets", call.frames(10));
        let delays = call.events[1].iter().filter_map(|event| match event {
            MediaEvent::Frame(frame) if frame.ssrc == 11 => frame.delay,
            _ => None,
        });
        let delays: Vec<f64> = delays.map(TimeDelta::as_millis).collect();
        assert!(delays.len() >= 290, "{kind}: the first report maps times: {}", delays.len());
        assert!(delays.iter().all(|&delay| (29.9..500.0).contains(&delay)), "{kind}: {delays:?}");
    }
}

#[test]
fn both_directions_of_a_call_adapt_independently() {
    let kind = algorithm("gcc:libwebrtc+giusto");
    let ends = [end(kind, 10, Some(receiver(kind, 3))), end(kind, 20, Some(receiver(kind, 4)))];
    let mut call = Call::new(ends, Pipe::default());
    call.run(at(15_000));
    for end in &call.ends {
        let target = end.endpoint().sender().unwrap().target().media.as_bps();
        assert!((1_500_000..=2_000_000).contains(&target), "{target}");
    }
    assert!(call.frames(11) > 430);
}

#[test]
fn a_bye_ends_the_reports_after_a_last_one() {
    for kind in Algorithm::all() {
        let mut call = Call::one_way(kind, Pipe::default());
        call.run(at(3_000));
        call.ends[0].stop(at(3_000));
        call.drain(0);
        call.run(at(60_000));
        assert_eq!(call.ends[1].poll_timeout(), None, "{kind}");
        assert!(call.events[1].contains(&MediaEvent::Ended { ssrc: 11 }), "{kind}");
        let figures = call.ends[1].endpoint().receiver().unwrap().sources().find(|source| source.ssrc == 11);
        assert!(figures.is_some_and(|figures| figures.packets >= 85), "{kind}: {figures:?}");
    }
}

#[test]
fn missing_feedback_reduces_the_rate_and_it_recovers() {
    for kind in Algorithm::all().filter(|kind| *kind != algorithm("fixed")) {
        let pipe = Pipe { silence: (at(10_000), at(25_000)), ..Pipe::default() };
        let mut call = Call::one_way(kind, pipe);
        call.run(at(10_000));
        let before = call.target();
        call.run(at(25_000));
        let quiet = call.target();
        assert!(quiet < before / 2 && quiet >= LIMITS.min.as_bps(), "{kind}: {before} {quiet}");
        call.run(at(70_000));
        assert!(call.target() > 2 * quiet.max(150_000), "{kind}: {} after {quiet}", call.target());
    }
}

#[test]
fn a_forged_report_does_not_hide_later_losses() {
    use giusto_rtp::rtcp::{ReceiverReport, ReportBlock};
    let mut call = Call::one_way(algorithm("gcc:remb"), Pipe::default());
    call.run(at(20_000));
    let before = call.target();
    let report = |highest_sequence, cumulative_lost, fraction_lost| {
        let block = ReportBlock {
            ssrc: 11,
            fraction_lost,
            cumulative_lost,
            highest_sequence,
            ..ReportBlock::default()
        };
        let mut bytes = Vec::new();
        ReceiverReport { ssrc: 3, blocks: vec![block] }.write(&mut bytes).unwrap();
        bytes
    };
    let deliver = |call: &mut Call, bytes: &[u8]| {
        let now = call.now;
        call.ends[0].handle_parts(now, bytes, &Payload::default(), Ecn::NotEct);
    };
    deliver(&mut call, &report(0x7fff_fffe, 0, 0));
    // From now on half of all datagrams are lost, and correct reports say so.
    call.pipe.loss = 0.5;
    call.run(at(40_000));
    let after = call.target();
    assert!(after < before / 2, "{before} {after}");
}

#[test]
fn a_window_without_feedback_opens_again() {
    #[derive(Debug, Default)]
    struct Windowed(giusto_congestion::Decision);
    impl giusto_congestion::Controller for Windowed {
        fn set_limits(&mut self, _: Timestamp, _: Limits) {}
        fn on_route_change(&mut self, _: Timestamp) {}
        fn on_sent(&mut self, _: Timestamp, _: &giusto_congestion::SentPacket) {}
        fn on_feedback(&mut self, _: Timestamp, _: &giusto_congestion::Feedback<'_>) {}
        fn on_timeout(&mut self, _: Timestamp, _: &giusto_congestion::QueueState) {}
        fn next_timeout(&self) -> Option<Timestamp> {
            None
        }
        fn target(&self) -> giusto_congestion::Target {
            let rate = DataRate::from_bps(1_000_000);
            let window = Some(DataSize::from_bytes(20_000));
            giusto_congestion::Target::new(rate, rate).with_window(window)
        }
        fn decision(&self) -> &giusto_congestion::Decision {
            &self.0
        }

        fn clone_box(&self) -> Box<dyn giusto_congestion::Controller> {
            Box::new(Self(self.0))
        }
    }
    let video = PerfectEncoder::new(PerfectConfig::default(), Timestamp::ZERO).unwrap();
    let stream = MediaStream { start_rate: video.target(), ..MediaStream::video(11, 96, video.limits()) };
    let sender = MediaSender::new(MediaSenderConfig::default(), Box::<Windowed>::default(), vec![stream]);
    let pipe = Pipe { silence: (Timestamp::ZERO, Timestamp::MAX), ..Pipe::default() };
    let near = EncodedEndpoint::new(MediaEndpoint::new(Some(sender), None), vec![Box::new(video)]);
    let ends = [near, far(None)];
    let mut call = Call::new(ends, pipe);
    call.run(at(30_000));
    let sender = |call: &Call| {
        (
            call.ends[0].endpoint().sender().unwrap().in_flight().as_bytes(),
            call.ends[0].endpoint().sender().unwrap().queue(call.now).oldest,
        )
    };
    let (in_flight, oldest) = sender(&call);
    assert!((18_000..=20_000).contains(&in_flight), "{in_flight}");
    assert!(oldest <= TimeDelta::from_seconds(11), "old packets are discarded: {oldest:?}");
    let sent = call.sent[0];
    call.run(at(70_000));
    // One window of packets, and the reports of forty seconds.
    assert!((10..200).contains(&(call.sent[0] - sent)), "{}", call.sent[0] - sent);
    assert!(sender(&call).0 <= 20_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_rate_stays_within_its_limits_on_any_path(
        kind in prop::sample::select(Algorithm::all().collect::<Vec<_>>()),
        kbps in 50_u64..20_000,
        delay in 0_i64..400,
        (loss, repeats, reorders, damage) in (0.0..0.5, 0.0..0.3, 0.0..0.3, 0.0..0.1),
        silence in (0_u64..8000, 0_u64..6000),
    ) {
        let pipe = Pipe {
            rate: DataRate::from_bps(kbps * 1000),
            delay: TimeDelta::from_millis(delay),
            loss,
            repeats,
            reorders,
            silence: (at(silence.0), at(silence.0 + silence.1)),
            damage,
        };
        let mut call = Call::one_way(kind, pipe);
        for second in 1..=12 {
            call.run(at(second * 1000));
            let target = call.target();
            prop_assert!((LIMITS.min.as_bps()..=LIMITS.max.as_bps()).contains(&target), "{}", target);
            prop_assert!(call.sent[0] < second * 2000 && call.sent[1] < second * 2000, "{:?}", call.sent);
        }
        call.ends[0].stop(at(12_000));
        call.drain(0);
        prop_assert_eq!(call.ends[0].poll_timeout(), None);
    }
}
