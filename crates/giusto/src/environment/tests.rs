use giusto_congestion::Algorithm;

use super::*;
use crate::{
    benchmark::{Family, draw, simulate},
    scenario::{Document, Scenario},
};

fn families(names: &[&str]) -> Environment {
    Environment::new(Episodes::benchmark("tests", names).unwrap())
}

/// The steps of the episode `number` with one action.
fn play(environment: &mut Environment, number: u64, action: f32) -> Vec<Step> {
    environment.reset_to(number).unwrap();
    let mut steps = Vec::new();
    while !environment.is_over() {
        steps.push(environment.step(action).unwrap());
    }
    steps
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn feature(observation: &Observation, name: &str) -> f32 {
    let place = Feature::ALL.iter().position(|own| own.name == name).unwrap();
    observation[place]
}

/// 2 Mbit/s, 50 ms RTT, a perfect encoder.
const CALL: &str = r#"
    duration = "20 s"
    link = [{ id = "bottleneck", from = "camera", to = "viewer", rate = "2 Mbit/s", delay = "25 ms", queue = { kind = "drop-tail", limit = "300 ms" }, reverse = { rate = "unlimited", delay = "25 ms" } }]
    [[flow]]
    id = "call"
    kind = "media"
    start = "1 s"
    max-rate = "5 Mbit/s"
    video = { model = "perfect", min = "100 kbit/s", max = "5 Mbit/s", frame-rate = 30, lag = "0 s" }
"#;

fn call() -> Environment {
    let scenario = Scenario::parse(CALL, "call.toml").unwrap();
    Environment::new(Episodes::of_scenario(scenario, None).unwrap())
}

#[test]
fn actions_are_rates_on_a_logarithmic_scale() {
    assert_eq!([-1.0, 1.0].map(rate_of_action), [RATES.0, RATES.1]);
    assert_eq!([-7.0, 7.0].map(rate_of_action), [RATES.0, RATES.1]);
    // The geometric mean of 30 kbit/s and 100 Mbit/s.
    assert!((1_732_040..=1_732_060).contains(&rate_of_action(0.0).as_bps()));
    for action in [-0.9, -0.3, 0.2, 0.77] {
        assert!((action_of_rate(rate_of_action(action)) - action).abs() < 1e-5);
    }
}

#[test]
fn an_action_becomes_the_rate_of_the_next_step() {
    let mut environment = call();
    environment.reset_to(1).unwrap();
    let low = action_of_rate(DataRate::from_bps(800_000));
    let high = action_of_rate(DataRate::from_bps(1_500_000));
    let steady = (0..20).map(|_| environment.step(low).unwrap()).last().unwrap();
    assert_eq!(steady.target.as_bps() / 100, 8_000);
    for name in ["target_rate", "sent_rate", "received_rate"] {
        let rate = rate_of_action(feature(&steady.observation, name)).as_bps();
        assert!((760_000..=840_000).contains(&rate), "{name}: {rate}");
    }
    // The capacity is 2 Mbit/s: 0.4 of it are used; half of 50 ms and no queue.
    let used = steady.figures.use_ratio.unwrap();
    assert!((0.36..=0.44).contains(&used), "{used}");
    assert!((0.0..=0.01).contains(&feature(&steady.observation, "queue_delay_s")));
    assert!((0.05..=0.2).contains(&feature(&steady.observation, "round_trip_s")));
    let raised = environment.step(high).unwrap();
    let sent = rate_of_action(feature(&raised.observation, "sent_rate")).as_bps();
    assert!((1_350_000..=1_650_000).contains(&sent), "{sent}");
}

#[test]
fn a_rate_above_the_capacity_fills_the_queue_and_costs_reward() {
    let mut environment = call();
    let fitting = play(&mut environment, 1, action_of_rate(DataRate::from_bps(1_800_000)));
    let above = play(&mut environment, 1, action_of_rate(DataRate::from_bps(3_000_000)));
    let below = play(&mut environment, 1, action_of_rate(DataRate::from_bps(200_000)));
    assert_eq!(fitting.len(), 95, "19 s");
    let reward = |steps: &[Step]| mean(steps.iter().map(|step| step.reward));
    assert!((0.9..=1.0).contains(&reward(&fitting)), "{}", reward(&fitting));
    assert!((0.0..=0.2).contains(&reward(&above)), "{}", reward(&above));
    // 0.1 of the capacity: 0.18 by ITU-T G.1070.
    assert!((0.13..=0.23).contains(&reward(&below)), "{}", reward(&below));
    let last = &above.last().unwrap().observation;
    let (queue, loss) = (feature(last, "queue_delay_s"), feature(last, "loss_ratio"));
    assert!((0.25..=0.31).contains(&queue) && (0.2..=0.45).contains(&loss), "{queue} {loss}");
}

#[test]
fn episodes_are_of_the_families_that_were_asked_for() {
    let names = ["fades", "l4s"];
    let mut environment = families(&names);
    let mut counts = [0; 2];
    for _ in 0..40 {
        environment.reset().unwrap();
        let family = Family::of(environment.number().unwrap()).name();
        assert!(environment.scenario().unwrap().starts_with(family));
        counts[names.iter().position(|name| *name == family).unwrap()] += 1;
    }
    // Each in 20 on average, with a standard deviation of 3.2.
    assert!(counts.iter().all(|count| (8..=32).contains(count)), "{counts:?}");
}

#[test]
fn few_scenarios_come_again_and_are_those_of_the_family() {
    let numbers = |environment: &mut Environment| {
        let mut numbers = std::collections::BTreeSet::new();
        for _ in 0..12 {
            environment.reset().unwrap();
            numbers.insert(environment.number().unwrap());
        }
        numbers
    };
    let few = Episodes::benchmark("tests", &["static", "stalls"]).unwrap().at_most(2).unwrap();
    let place = Family::ALL.iter().position(|family| *family == Family::Stalls).unwrap() as u64;
    let count = Family::ALL.len() as u64;
    assert_eq!(numbers(&mut Environment::new(few)), [0, place, count, place + count].into());
    assert!(numbers(&mut families(&["static"])).len() > 10);
    // Those of LTE are kept once they are made.
    let kept = Episodes::benchmark("tests", &["lte"]).unwrap().at_most(1).unwrap();
    let mut environments = [Environment::new(kept.clone()), Environment::new(kept), families(&["lte"])];
    let mut rewards = environments.iter_mut().map(|environment| {
        environment.reset_to(4).unwrap();
        (0..25).map(|_| environment.step(-0.3).unwrap().reward).collect::<Vec<f64>>()
    });
    let first = rewards.next().unwrap();
    assert!(rewards.all(|other| other == first));
}

#[test]
fn every_family_can_be_played_to_its_end() {
    for (index, family) in Family::ALL.into_iter().enumerate() {
        let mut environment = families(&[family.name()]);
        let steps = play(&mut environment, index as u64, -0.5);
        let seconds = steps.len() as f64 * 0.2;
        assert!((9.0..=80.0).contains(&seconds), "{}: {seconds} s", family.name());
        for step in &steps {
            assert!((0.0..=1.0).contains(&step.reward));
            for (feature, value) in Feature::ALL.iter().zip(step.observation) {
                assert!((feature.low..=feature.high).contains(&value), "{}: {value}", feature.name);
            }
        }
        let utility = environment.figures().unwrap().utility.total;
        assert!((0.0..=1.0).contains(&utility));
    }
}

#[test]
fn a_built_in_controller_does_what_it_does_in_the_benchmark() {
    // One that probes, one with windows, one that gets no reports of packets.
    for (controller, number) in [("gcc:libwebrtc", 18), ("scream:v2", 17), ("nada", 3)] {
        let controller: Algorithm = controller.parse().unwrap();
        let mut environment = families(&[Family::of(number).name()]).following(controller);
        let steps = play(&mut environment, number, 1.0);
        let judged = simulate(&draw("tests", number), controller, |_| std::ops::ControlFlow::Continue(()));
        assert_eq!(environment.figures(), judged);
        assert!(steps.iter().any(|step| step.target != steps[0].target));
    }
}

#[test]
fn rewards_rank_controllers_as_the_utility_does() {
    let controllers = ["gcc:libwebrtc", "scream:v2", "tempo", "fixed"];
    let mut points = Vec::new();
    let (mut agree, mut pairs) = (0, 0);
    for number in [0, 1, 2, 3, 5, 6, 8, 15, 17].into_iter().flat_map(|family| [family, family + 23]) {
        let of_controllers = controllers.map(|controller| {
            let mut environment =
                families(&[Family::of(number).name()]).following(controller.parse().unwrap());
            let steps = play(&mut environment, number, 0.0);
            let utility = environment.figures().unwrap().utility.total;
            (mean(steps.iter().map(|step| step.reward)), utility)
        });
        for better in &of_controllers {
            for worse in of_controllers.iter().filter(|worse| better.1 > worse.1 + 0.1) {
                pairs += 1;
                agree += u32::from(better.0 > worse.0);
            }
        }
        points.extend(of_controllers);
    }
    let share = f64::from(agree) / f64::from(pairs);
    assert!(pairs >= 50 && (0.91..0.99).contains(&share), "{agree} of {pairs}");
    // Pearson's coefficient of correlation.
    let (x, y) = (mean(points.iter().map(|point| point.0)), mean(points.iter().map(|point| point.1)));
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
    let correlation = sum(|x, y| x * y) / (sum(|x, _| x * x) * sum(|_, y| y * y)).sqrt();
    assert!((0.88..0.96).contains(&correlation), "{correlation}: {points:?}");
}

#[test]
fn a_batch_does_what_its_environments_do_alone() {
    let alone = |seed| {
        let mut environment = families(&["static", "stalls"]).with_step(TimeDelta::from_seconds(2)).unwrap();
        environment.seed(seed);
        environment.reset().unwrap();
        environment
    };
    let environments = || Vec::from([0, 1, 2].map(alone));
    let begin = [0, 1, 2].map(|seed| Some(Begin { seed: Some(seed), number: None }));
    for threads in [1, 2, 3] {
        let mut next = Batch::new(environments(), Autoreset::NextStep, threads).unwrap();
        let mut same = Batch::new(environments(), Autoreset::SameStep, threads).unwrap();
        next.reset(&begin).unwrap();
        same.reset(&begin).unwrap();
        let mut single = environments();
        // 20 steps of 2 s, and 5 of the next episode.
        for number in 0..26 {
            let actions = [number as f32 / 26.0 - 0.5; 3];
            let results = next.step(&actions).unwrap();
            for (own, result) in single.iter_mut().zip(&results) {
                if own.is_over() {
                    assert_eq!((number, &result.step), (20, &None));
                    assert_eq!(Some(result.observation), own.reset().ok());
                } else {
                    assert_eq!(result.step.as_ref(), Some(&own.step(actions[0]).unwrap()));
                }
            }
            if number < 19 {
                assert_eq!(results, same.step(&actions).unwrap());
            } else if number == 19 {
                let ended = same.step(&actions).unwrap();
                assert!(results.iter().zip(&ended).all(|(a, b)| a.step == b.step && b.next.is_some()));
                let last = |own: &BatchStep| own.step.as_ref().map(|step| step.observation);
                assert!(ended.iter().all(|own| Some(own.observation) != last(own)));
            }
        }
    }
}

#[test]
fn errors_name_what_is_wrong() {
    let scenario = |text: &str| Scenario::parse(text, "call.toml").unwrap();
    let several = CALL.replace("id = \"call\"", "id = \"call\"\ncount = 2");
    let of = |text: &str, flow| Episodes::of_scenario(scenario(text), flow);
    for (result, expected) in [
        (Episodes::benchmark("", &["static"]), "seed is empty"),
        (Episodes::benchmark("x", &["steps"]), "\"steps\" is unknown: expected one of static"),
        (Episodes::benchmark::<&str>("x", &[]), "name at least one"),
        (Episodes::benchmark("x", &["static"]).unwrap().at_most(0), "at least 1, found 0"),
        (of(CALL, Some("other")), "flow called \"other\" with"),
        (of(&several, None), "no media flow with count = 1"),
        (of(&CALL.replace("bottleneck", "wire"), None), "no link called \"bottleneck\" ends at"),
    ] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let mut environment = call();
    assert!(matches!(environment.step(0.0), Err(EnvironmentError::NoEpisode)));
    environment.reset().unwrap();
    assert!(matches!(environment.step(f32::NAN), Err(EnvironmentError::Action(_))));
    play(&mut environment, 1, 0.0);
    assert!(matches!(environment.step(0.0), Err(EnvironmentError::NoEpisode)));
    assert!(call().with_step(TimeDelta::from_millis(1)).is_err());
    let mut long = call().with_step(TimeDelta::from_seconds(10)).unwrap();
    assert_eq!(play(&mut long, 1, 0.0).len(), 1);
    let late = CALL.replace("start = \"1 s\"", "start = \"19.9 s\"");
    let mut late = Environment::new(of(&late, None).unwrap());
    assert!(late.reset().unwrap_err().to_string().contains("shorter than a step"));
    let mut batch = Batch::new(vec![call()], Autoreset::NextStep, 1).unwrap();
    assert!(matches!(batch.reset_unless(&[Some(Begin::default())], || true), Err(EnvironmentError::Ended)));
    assert_eq!(batch.reset_unless(&[None], || true).unwrap(), [None]);
    assert!(batch.step(&[]).unwrap_err().to_string().contains("each of the 1 environments, found 0"));
}

fn randomised(spreads: &[(&str, Spread)]) -> Result<Environment, EnvironmentError> {
    let document = Document::parse(CALL, "call.toml").unwrap();
    let spreads = spreads.iter().map(|(path, spread)| ((*path).to_owned(), spread.clone())).collect();
    Ok(Environment::new(Episodes::randomised(document, Vec::new(), spreads, None)?))
}

fn range(low: &str, high: &str) -> Spread {
    Spread::Range(low.to_owned(), high.to_owned())
}

#[test]
fn each_episode_draws_its_values_and_its_number_repeats_them() {
    let kinds = ["drop-tail", "codel"];
    let spreads = [
        ("link.bottleneck.rate", range("1 Mbit/s", "4 Mbit/s")),
        ("link.bottleneck.loss", range("0", "0.02")),
        ("link.bottleneck.queue.kind", Spread::Choices(kinds.map(str::to_owned).to_vec())),
        ("flow.call.video.frame-rate", range("10", "30")),
    ];
    let mut environment = randomised(&spreads).unwrap();
    let drawn = |environment: &Environment| -> Vec<String> {
        environment.values().iter().map(|own| own.value.clone()).collect()
    };
    let (mut rates, mut whole, mut codel) = (Vec::new(), Vec::new(), 0);
    for number in 0..300 {
        environment.reset_to(number).unwrap();
        let values = drawn(&environment);
        let rate: f64 = values[0].strip_suffix(" Mbit/s").unwrap().parse().unwrap();
        let loss: f64 = values[1].parse().unwrap();
        assert!((1.0..=4.0).contains(&rate) && (0.0..=0.02).contains(&loss), "{values:?}");
        rates.push(rate);
        codel += u32::from(values[2] == "codel");
        whole.push(values[3].parse::<u32>().unwrap());
    }
    // Uniform: the mean has a standard deviation of 0.05.
    assert!((mean(rates.into_iter()) - 2.5).abs() < 0.2 && (110..190).contains(&codel), "{codel}");
    assert_eq!((whole.iter().min(), whole.iter().max()), (Some(&10), Some(&30)));
    // The same number: the same values and the same steps; another: other ones.
    let once = play(&mut environment, 7, 0.2);
    let values = drawn(&environment);
    let other = play(&mut environment, 8, 0.2);
    let again = play(&mut environment, 7, 0.2);
    assert_eq!((&once, values), (&again, drawn(&environment)));
    assert_ne!(once, other);
    // They take effect: what arrives at a rate above the capacity is the capacity.
    for (rate, uses) in [("1 Mbit/s", 0.95..=1.1), ("3 Mbit/s", 0.62..=0.71)] {
        let mut environment = randomised(&[("link.bottleneck.rate", range(rate, rate))]).unwrap();
        let steps = play(&mut environment, 0, action_of_rate(DataRate::from_bps(2_000_000)));
        let used = steps.last().unwrap().figures.use_ratio.unwrap();
        assert!(uses.contains(&used), "{rate}: {used}");
    }
}

#[test]
fn a_small_share_is_drawn_as_it_is() {
    let mut environment = randomised(&[("link.bottleneck.loss", range("0.0000001", "0.0000004"))]).unwrap();
    environment.reset_to(3).unwrap();
    let loss: f64 = environment.values()[0].value.parse().unwrap();
    assert!((1e-7..=4e-7).contains(&loss), "{loss}");
}

#[test]
fn spreads_that_cannot_be_drawn_are_refused_by_name() {
    for (path, spread, expected) in [
        ("link.bottleneck.rat", range("1 Mbit/s", "2 Mbit/s"), "rat"),
        ("link.bottleneck.rate", range("2 Mbit/s", "1 Mbit/s"), "2 Mbit/s is above 1 Mbit/s"),
        ("link.bottleneck.rate", range("500 kbit/s", "1 Mbit/s"), "different units"),
        ("link.bottleneck.loss", range("0", "NaN"), "NaN is no number"),
        ("link.bottleneck.loss", range("0.5", "1.5"), "1.5"),
        ("link.bottleneck.queue.kind", range("codel", "pie"), "codel is no number"),
        ("link.bottleneck.queue.kind", Spread::Choices(Vec::new()), "name at least one"),
        ("link.bottleneck.queue.kind", Spread::Choices(vec!["codel".to_owned(), "cdel".to_owned()]), "cdel"),
        ("flow.call.count", range("1", "3"), "count = 1"),
    ] {
        let message = randomised(&[(path, spread)]).unwrap_err().to_string();
        assert!(message.contains(expected), "{path}: {message}");
    }
}
