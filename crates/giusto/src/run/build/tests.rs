use giusto_congestion::{Algorithm, FeedbackKind, Limits};
use giusto_pace::{CyclePlan, CycleRule, HeaderLayer, IpVersion, Strategy};
use giusto_sim::traffic::encoder::{AudioConfig, BurstSize, PerfectConfig, StatisticalConfig, TraceConfig};
use giusto_sim::{
    link::{
        delay::Jitter,
        loss::Loss,
        queue::{
            CoDelConfig, DelayThresholdConfig, DualPi2Config, FqCodelConfig, LatencyEstimate, Limit,
            MarkThreshold, PieConfig, PolicerConfig, RedConfig, Scheduler, StepMarkConfig, Thresholds,
        },
        rate::{RateProfile, TokenBucket},
    },
    machine::Machine,
    random::stream,
    traffic::{Departures, PacketSize, Periods},
};
use giusto_units::{DataRate, DataSize, Ecn};

use std::ops::ControlFlow;

use super::*;
use crate::{
    run::{self, RecordOptions},
    scenario::{MediaSpec, QueueSpec, VideoSpec, VideoStream},
};

/// Draws values, about one in `wrong` of them outside its range.
struct Draw {
    random: Random,
    wrong: u32,
}

impl Draw {
    fn is_wrong(&mut self) -> bool {
        self.random.random_range(0..self.wrong) == 0
    }

    /// One of `good`, or rarely one of `bad`.
    fn of<T: Clone>(&mut self, good: &[T], bad: &[T]) -> T {
        let from = if !bad.is_empty() && self.is_wrong() { bad } else { good };
        from[self.random.random_range(0..from.len())].clone()
    }

    fn chance(&mut self) -> bool {
        self.random.random()
    }

    fn time(&mut self) -> TimeDelta {
        TimeDelta::from_nanos(self.of(&[1, 1_000_000, 20_000_000, 1_000_000_000], &[0, -1]))
    }

    fn size(&mut self) -> DataSize {
        DataSize::from_bytes(self.of(&[1, 200, 1500, 60_000], &[0, 70_000, 1 << 40]))
    }

    fn rate(&mut self) -> DataRate {
        DataRate::from_bps(self.of(&[1, 64_000, 1_000_000, 100_000_000], &[0, u64::MAX]))
    }

    fn share(&mut self) -> f64 {
        self.of(&[0.0, 0.01, 0.5, 1.0], &[-0.1, 1.5, f64::NAN])
    }

    fn limit(&mut self) -> Limit {
        let (size, time) = (self.size(), self.time());
        self.of(&[Limit::Packets(10), Limit::Bytes(size), Limit::Time(time), Limit::Unlimited], &[])
    }

    fn profile(&mut self) -> RateProfile {
        let at = |nanos| Timestamp::from_nanos(nanos);
        let (first, second, period) = (self.rate(), self.rate(), self.chance().then(|| self.time()));
        let pairs = |times: &[u64]| times.iter().map(|nanos| at(*nanos)).zip([first, second]).collect();
        let steps: Vec<_> = self.of(&[pairs(&[0, 5])], &[vec![], pairs(&[5, 0])]);
        let moments = self.of(&[vec![at(0), at(9)]], &[vec![], vec![at(0)], vec![at(9), at(3)]]);
        let (bytes, burst, peak) = (self.of(&[1504], &[0]), self.size(), self.chance().then_some(second));
        let profiles = [
            RateProfile::Unlimited,
            RateProfile::Fixed(first),
            RateProfile::Steps { steps, period },
            RateProfile::Opportunities { at: moments, bytes },
            RateProfile::TokenBucket(TokenBucket { rate: first, burst, peak }),
        ];
        self.of(&profiles, &[])
    }

    fn queue(&mut self) -> QueueSpec {
        let (target, interval, max_packet) = (self.time(), self.time(), self.size());
        let (alpha, beta, share) = (self.share(), self.share(), self.share());
        let (ecn, limit) = (self.chance(), self.limit());
        let (packets, min, max) =
            (self.of(&[1, 100], &[0, u32::MAX]), self.of(&[0, 5], &[]), self.of(&[10, 20], &[3]));
        let law = CoDelConfig { target, interval, max_packet, ecn, limit };
        let (queues, quantum) = (packets, max_packet);
        let fq =
            FqCodelConfig { target, interval, queues, quantum, limit: packets, ..FqCodelConfig::default() };
        let departures = LatencyEstimate::DepartureRate { threshold: max_packet };
        let latency = self.of(&[LatencyEstimate::Timestamps, departures], &[]);
        let update = interval;
        let pie =
            PieConfig { target, update, alpha, beta, latency, mark_threshold: share, ..PieConfig::default() };
        let (max_probability, mean_packet) = (alpha, max_packet);
        let thresholds = Thresholds::Packets { min, max };
        let red =
            RedConfig { thresholds, weight: share, max_probability, mean_packet, ..RedConfig::default() };
        let robin = Scheduler::WeightedRoundRobin { classic_share: share };
        let scheduler = self.of(&[robin, Scheduler::TimeShiftedFifo { shift: interval }], &[]);
        let (coupling, mtu) = (beta, max_packet);
        let dual = DualPi2Config { target, update, coupling, scheduler, mtu, ..DualPi2Config::default() };
        let step = StepMarkConfig { threshold: MarkThreshold::Sojourn(target), limit };
        let delay = DelayThresholdConfig { threshold: target, hold_off: interval, ecn, limit };
        let policer = PolicerConfig { rate: self.rate(), burst: max_packet, limit };
        self.of(
            &[
                QueueSpec::DropTail(limit),
                QueueSpec::CoDel(law),
                QueueSpec::FqCodel(fq),
                QueueSpec::Pie(pie),
                QueueSpec::Red(red),
                QueueSpec::DualPi2(dual),
                QueueSpec::StepMark(step),
                QueueSpec::DelayThreshold(delay),
                QueueSpec::Policer(policer),
            ],
            &[],
        )
    }

    fn link(&mut self, id: &str, from: &str, to: &str) -> LinkSpec {
        let mut link = LinkSpec::new(id, from, to);
        link.queue = self.queue();
        link.config.rate = self.profile();
        link.config.delay = self.time().into();
        let (std, max, bound) = (self.time(), self.time(), self.of(&[1.0, 3.0], &[0.0, f64::NAN]));
        let jitters = [None, Some(Jitter::TruncatedGaussian { std, bound }), Some(Jitter::Uniform { max })];
        link.config.jitter = self.of(&jitters, &[]);
        let (to_bad, bad) = (self.share(), self.share());
        let burst = Loss::GilbertElliott { to_bad, to_good: 0.5, good: 0.0, bad };
        let loss = self.share();
        link.config.loss = self.of(&[Loss::None, Loss::Random(loss), burst], &[]);
        link.config.duplication = self.share();
        link.config.corruption = self.share();
        link
    }

    fn periods(&mut self) -> Periods {
        let (mean, shape) = (self.time(), self.of(&[1.1, 1.5], &[1.0, f64::INFINITY]));
        self.of(&[Periods::Fixed(mean), Periods::Exponential { mean }, Periods::Pareto { mean, shape }], &[])
    }

    fn kind(&mut self) -> FlowKind {
        let (ecn, size) = (Ecn::Ect1, self.size());
        match self.random.random_range(0..4) {
            0 => {
                let (profile, rate, on, off) = (self.profile(), self.rate(), self.periods(), self.periods());
                let on_off = Departures::OnOff { rate, on, off };
                let sources = [Departures::Constant(profile), Departures::Poisson(rate), on_off];
                let (min, max) = (self.size(), self.size());
                let sizes = [size.into(), PacketSize::Exponential { mean: size, min, max }];
                FlowKind::Source { departures: self.of(&sources, &[]), size: self.of(&sizes, &[]), ecn }
            }
            1 => {
                let strategy = self.of(&Strategy::ALL, &[]);
                let (size, rate) = (DataSize::from_bytes(1200), DataRate::from_bps(1_000_000));
                let (layer, version, rule) = (HeaderLayer::Payload, IpVersion::V4, CycleRule::Given(2));
                let plan = CyclePlan::new(rate, size, layer, version, rule).unwrap();
                let machine = self.of(&[Machine::default(), Machine::SUN_LABS], &[]);
                FlowKind::Paced { strategy, plan, machine, ecn }
            }
            2 => {
                let settings = tcp::Settings {
                    mss: self.of(&[64, 1460, 65_495], &[0, 63, 65_496]),
                    initial_window: self.of(&[1, 10], &[0, 11]),
                    slow_start_limit: self.of(&[None, Some(8)], &[Some(0), Some(9)]),
                    segments_per_ack: self.of(&[1, 2], &[0, 3]),
                    delayed_ack: self.of(&[TimeDelta::from_millis(500)], &[TimeDelta::ZERO]),
                    receive_window: self.of(&[DataSize::from_bytes(1 << 30)], &[DataSize::from_bytes(1)]),
                    ..tcp::Settings::default()
                };
                let (sizes, starting_on) =
                    (self.of(&[(1, 1), (30_000, 50_000)], &[(2, 1)]), self.of(&[0, 1], &[9]));
                let (idle, persistent) = (self.time(), self.chance());
                let short = Transfers::Short { sizes, idle, starting_on, persistent };
                let transfers = self.of(&[Transfers::Unlimited, Transfers::Once(size), short], &[]);
                FlowKind::Tcp { settings, transfers }
            }
            _ => FlowKind::Media(self.media()),
        }
    }

    fn media(&mut self) -> MediaSpec {
        let start_rate = self.rate();
        let (scale, size) = (self.share(), BurstSize::Frames(self.of(&[1.0, 6.0], &[0.0])));
        let default = StatisticalConfig::default();
        let statistical = StatisticalConfig { start_rate, size_scale: scale, burst_size: size, ..default };
        let trace = TraceConfig { skip_frames: self.of(&[0, 20], &[1 << 20]), ..TraceConfig::default() };
        let (rate, packet) = (self.rate(), self.size());
        let models = [
            VideoSpec::Fixed { rate, size: packet },
            VideoSpec::Perfect(PerfectConfig::default(), Some(scale)),
            VideoSpec::Statistical(statistical),
            VideoSpec::Trace(trace),
            VideoSpec::Hybrid(default, trace),
        ];
        let ids =
            self.of(&[vec![], vec!["a"], vec!["a", "b"]], &[vec!["a", "a"], vec!["audio"], vec!["a b"]]);
        let videos = ids.into_iter().map(|id| {
            let priority = self.of(&[1.0, 0.5], &[0.0, f64::NAN]);
            VideoStream::new(id, self.of(&models, &[])).with_priority(priority)
        });
        let videos = videos.collect();
        let audio = AudioConfig { rate: self.rate(), packet_time: self.time(), ..AudioConfig::default() };
        let audio = self.of(&[None, Some(AudioConfig::default()), Some(audio)], &[]);
        let mut media = MediaSpec::with_videos(videos, audio);
        media.controller = self.of(&Algorithm::all().collect::<Vec<_>>(), &[]);
        media.feedback =
            self.of(&[None], &[Some(FeedbackKind::ReceiverEstimate), Some(FeedbackKind::TransportWide)]);
        media.options.delay_target = self.of(&[None], &[Some(TimeDelta::from_millis(20))]);
        media.receiver_limit = self.of(&[None], &[Some(DataRate::from_bps(1_000_000))]);
        media.max_payload =
            self.of(&[DataSize::from_bytes(1200)], &[DataSize::ZERO, DataSize::from_bytes(65_001)]);
        if self.is_wrong() {
            media.limits =
                Limits::DEFAULT.with_min(self.rate()).with_start(self.rate()).with_max(self.rate());
        }
        media
    }

    fn flow(&mut self, number: u32) -> FlowSpec {
        let ends =
            self.of(&[("a", "b"), ("b", "c"), ("a", "c"), ("c", "a")], &[("a", "a"), ("a", "nowhere")]);
        let mut flow = FlowSpec::new(format!("flow{number}"), self.kind(), ends.0, ends.1);
        if self.chance() {
            flow.via = match ends {
                ("a", "b") => vec!["ab".to_owned()],
                ("a", "c") => vec!["ab".to_owned(), "bc".to_owned()],
                _ => Vec::new(),
            };
        }
        if self.is_wrong() {
            let back = self.of(&[&["ab"][..], &["bc", "ab"], &["x"]], &[]);
            flow.back = back.iter().map(|id| (*id).to_owned()).collect();
        }
        flow.count = self.of(&[1, 2], &[0]);
        let second = TimeDelta::from_seconds(1);
        flow.start =
            self.of(&[Start::At(Timestamp::ZERO), Start::Uniform(second)], &[Start::Uniform(second * 9)]);
        flow
    }
}

#[test]
fn every_scenario_that_is_valid_can_be_built() {
    let (mut valid, mut invalid) = (0, 0);
    for case in 0..3000 {
        // In half of the cases hardly anything is wrong.
        let mut draw = Draw { random: stream(case, "scenario"), wrong: if case % 2 == 0 { 400 } else { 20 } };
        let mut builder = Scenario::builder("random").duration(TimeDelta::from_seconds(5));
        for (id, from, to) in [("ab", "a", "b"), ("bc", "b", "c")] {
            builder = builder.duplex(draw.link(id, from, to));
        }
        for number in 0..draw.of(&[1, 2], &[0]) {
            builder = builder.flow(draw.flow(number));
        }
        match builder.build() {
            Ok(scenario) => {
                valid += 1;
                let built = simulation(&scenario, case);
                assert_eq!(built.links.len(), 4, "case {case}");
            }
            Err(error) => invalid += usize::from(!error.problems().is_empty()),
        }
    }
    assert!(valid > 300 && invalid > 1000 && valid + invalid == 3000, "{valid} valid, {invalid} invalid");
}

#[test]
fn a_run_that_is_ended_while_it_is_built_has_the_flows_so_far() {
    let text = r#"duration = "1 s"
        link = [{ id = "wire", from = "a", to = "b", rate = "1 Gbit/s" }]
        flow = [{ id = "f", kind = "cbr", rate = "8 kbit/s", size = "100 B", count = 10000 }]
        expect = [{ flow = "f", metric = "loss", max = 1 }]"#;
    let scenario = Scenario::parse(text, "many.toml").unwrap();
    let mut looks = 0;
    let watch = |at: Timestamp| {
        looks += 1;
        assert_eq!(at, Timestamp::ZERO);
        if looks < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let record = run::simulate_watched(&scenario, 1, RecordOptions::default(), &mut (), watch);
    assert_eq!((looks, record.flows.len(), record.events), (5, 5 * FLOWS_PER_LOOK - 1, 0));
    assert!(record.interrupted && record.checks.is_empty());
}
