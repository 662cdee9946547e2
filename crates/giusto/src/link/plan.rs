//! What of a scenario runs in real time.

use std::ops::Range;

use giusto_sim::{
    link::Link,
    network::Network,
    packet::{FlowId, LinkId},
    record::{FlowRecord, PlannedFlow, PlannedLink, RecordPlan, TimelineOptions},
};
use giusto_units::{TimeDelta, Timestamp};

use crate::{
    run::{build, simulate::about_link},
    scenario::{LinkSpec, REVERSE, Scenario},
};

/// The timeline of a run without a planned end begins with windows of this width ...
const OPEN_WIDTH: TimeDelta = TimeDelta::from_millis(20);
/// ... for this time. Later they become wider.
const OPEN_END: TimeDelta = TimeDelta::from_millis(20_000);

/// The nodes at the two ends of the links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    /// The node of the command, or of the relay's clients. Default: where the first flow of the scenario starts, or its only link.
    pub from: Option<String>,
    /// The node of the far side, or of the relay's targets. Default: where the first flow of the scenario ends, or its only link.
    pub to: Option<String>,
}

/// Ends that no links connect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkPlanError {
    /// A node that is no end of a link.
    #[error("unknown node \"{name}\": use one of {known}")]
    UnknownNode {
        /// The name.
        name: String,
        /// The nodes of the scenario.
        known: String,
    },
    /// Nothing says where the two ends are.
    #[error(
        "nothing says where the two ends are: name them, such as --from {first} --to {last}, or add a flow"
    )]
    NoEnds {
        /// A node.
        first: String,
        /// Another one.
        last: String,
    },
    /// A link on a medium, which only simulations have.
    #[error(
        "link \"{link}\" shares medium \"{medium}\", which works in a simulation only: give it a rate without a medium"
    )]
    Medium {
        /// The link.
        link: String,
        /// The medium.
        medium: String,
    },
    /// No route.
    #[error("{text}")]
    NoRoute {
        /// What is wrong with it.
        text: String,
    },
}

/// The links of a scenario between two ends.
#[derive(Debug, Clone)]
pub struct LinkPlan<'a> {
    scenario: &'a Scenario,
    seed: u64,
    from: String,
    to: String,
    forward: Vec<LinkId>,
    back: Vec<LinkId>,
    /// The parts of the run in which flows and links are measured.
    windows: (Range<Timestamp>, Range<Timestamp>),
}

impl<'a> LinkPlan<'a> {
    /// The links of `scenario` between `ends`, with the random numbers of a simulation with `seed`.
    ///
    /// Between the ends of the first flow the packets take its route and its reverse route, between other ends the shortest ones.
    /// Without flows the ends are those of the only link. Where no links lead back, the return direction is immediate. The whole run is
    /// measured: `warmup` is of simulations.
    ///
    /// # Errors
    ///
    /// [`LinkPlanError`]: an end is unknown, or no links lead from the one to the other.
    pub fn new(scenario: &'a Scenario, seed: u64, ends: &Ends) -> Result<Self, LinkPlanError> {
        let mut network = Network::default();
        for link in scenario.links() {
            let (from, to) = (network.node(&link.from), network.node(&link.to));
            network.add_link(&link.id, from, to);
        }
        let shared = |link: &LinkSpec| Some((link.id.clone(), link.medium.as_ref()?.id.clone()));
        if let Some((link, medium)) = scenario.links().iter().find_map(shared) {
            return Err(LinkPlanError::Medium { link, medium });
        }
        let flow = scenario.flows().first();
        let mut links = scenario.links().iter().filter(|link| !link.id.ends_with(REVERSE));
        let only = links.next().filter(|_| links.next().is_none()).map(|link| (&link.from, &link.to));
        let (starts, stops) = flow.map(|flow| (&flow.from, &flow.to)).or(only).unzip();
        let (from, to) = (ends.from.as_ref().or(starts), ends.to.as_ref().or(stops));
        let (Some(from), Some(to)) = (from.cloned(), to.cloned()) else {
            let node = |node: Option<&String>| node.cloned().unwrap_or_default();
            let (first, last) = (node(network.nodes().first()), node(network.nodes().last()));
            return Err(LinkPlanError::NoEnds { first, last });
        };
        for name in [&from, &to] {
            if !network.nodes().contains(name) {
                let known = network.nodes().join(", ");
                return Err(LinkPlanError::UnknownNode { name: name.clone(), known });
            }
        }
        let of_flow = flow.filter(|flow| flow.from == from && flow.to == to);
        let (start, end) = (network.node(&from), network.node(&to));
        let no_route =
            |error: giusto_sim::network::RouteError| LinkPlanError::NoRoute { text: error.to_string() };
        let forward = match of_flow.filter(|flow| !flow.via.is_empty()) {
            Some(flow) => scenario.link_ids(&flow.via),
            None => network.route(start, end).map_err(no_route)?,
        };
        let back = match of_flow.filter(|flow| !flow.back.is_empty()) {
            Some(flow) => scenario.link_ids(&flow.back),
            None => network.route(end, start).unwrap_or_default(),
        };
        let whole = Timestamp::ZERO..Timestamp::MAX;
        Ok(Self { scenario, seed, from, to, forward, back, windows: (whole.clone(), whole) })
    }

    /// The same, with flows and links measured in these windows instead of during the whole run.
    pub(crate) fn measuring(self, windows: (Range<Timestamp>, Range<Timestamp>)) -> Self {
        Self { windows, ..self }
    }

    /// The scenario.
    pub const fn scenario(&self) -> &'a Scenario {
        self.scenario
    }

    /// Random seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The path of each direction in words, and what a reader may not expect.
    pub fn describe(&self) -> Vec<String> {
        let path = |from: &str, to: &str, links: &[LinkId]| {
            let parts: Vec<String> = self
                .specs(links)
                .map(|link| {
                    let about = about_link(link);
                    let parts = [about.rate, about.wire, about.queue];
                    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                    format!("{} ({})", link.id, parts.join(", "))
                })
                .collect();
            let path = if parts.is_empty() { "no link: immediate".to_owned() } else { parts.join(", then ") };
            format!("{from} to {to}: {path}")
        };
        vec![path(&self.from, &self.to, &self.forward), path(&self.to, &self.from, &self.back)]
    }

    fn specs<'s>(&'s self, links: &'s [LinkId]) -> impl Iterator<Item = &'s crate::scenario::LinkSpec> + 's {
        links.iter().filter_map(|link| self.scenario.links().get(link.0 as usize))
    }

    /// Every link of the scenario, with its index as its id, as a simulation with the same seed has it.
    ///
    /// # Panics
    ///
    /// If validation accepted a link that cannot be built, which is a bug.
    #[expect(clippy::expect_used, reason = "a scenario is valid")]
    pub(crate) fn links(&self) -> Vec<Link> {
        let specs = self.scenario.links().iter().zip(0..);
        let build = |(spec, id): (&crate::scenario::LinkSpec, u32)| {
            let queue = build::queue(spec, self.seed).expect("a valid queue can be built");
            Link::new(LinkId(id), &spec.config, queue, self.seed, &spec.id)
                .expect("a valid link can be built")
        };
        specs.map(build).collect()
    }

    /// The routes of `pairs` pairs of ends: there and back, for each.
    pub(crate) fn routes(&self, pairs: usize) -> Vec<Vec<LinkId>> {
        let both = || [self.forward.clone(), self.back.clone()];
        std::iter::repeat_with(both).take(pairs).flatten().collect()
    }

    /// What is recorded of a run with `pairs` pairs of ends that carry packets of this `kind`. Links that no packet can reach are
    /// left out.
    pub(crate) fn record(&self, pairs: usize, kind: &str, duration: Option<TimeDelta>) -> RecordPlan {
        let scenario = self.scenario;
        let (window, window_of_links) = &self.windows;
        let names = |links: &[LinkId]| self.specs(links).map(|link| link.id.clone()).collect::<Vec<_>>();
        let directions =
            [("forward", &self.from, &self.to, &self.forward), ("return", &self.to, &self.from, &self.back)];
        let flows = (0..pairs).flat_map(|pair| {
            let number = if pairs > 1 { format!("-{}", pair + 1) } else { String::new() };
            directions.into_iter().map(move |(name, from, to, links)| FlowRecord {
                id: format!("{name}{number}"),
                group: name.to_owned(),
                kind: kind.to_owned(),
                from: from.clone(),
                to: to.clone(),
                path: names(links),
                ..FlowRecord::default()
            })
        });
        let flow =
            |(about, flow)| PlannedFlow { flow: FlowId(flow), window: window.clone(), answers: None, about };
        let links = scenario.links().iter().zip(0..).map(|(spec, id)| (LinkId(id), spec));
        let used = links.filter(|(id, _)| self.forward.contains(id) || self.back.contains(id));
        let link = |(link, spec): (LinkId, &crate::scenario::LinkSpec)| PlannedLink {
            link,
            rate: spec.config.rate.clone(),
            window: window_of_links.clone(),
            about: about_link(spec),
        };
        let timeline = TimelineOptions {
            width: duration.is_none().then_some(OPEN_WIDTH),
            open_end: duration.is_none(),
            ..TimelineOptions::default()
        };
        RecordPlan {
            scenario: scenario.name().to_owned(),
            description: scenario.description().to_owned(),
            end: Timestamp::ZERO + duration.unwrap_or(OPEN_END),
            flows: flows.zip(0..).map(flow).collect(),
            links: used.map(link).collect(),
            measurements: Vec::new(),
            timeline: Some(timeline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Document;

    const TEXT: &str = r#"
        duration = "10 s"
        warmup = "1 s"
        link = [
            { id = "down", from = "server", to = "home", rate = "5 Mbit/s", queue = "codel", reverse = { rate = "1 Mbit/s" } },
            { id = "detour", from = "server", to = "middle" },
            { id = "rest", from = "middle", to = "home" },
            { id = "far", from = "home", to = "attic" },
        ]
        flow = [
            { id = "a", kind = "cbr", rate = "1 Mbit/s", size = "200 B", from = "server", to = "home", via = ["detour", "rest"] },
            { id = "b", kind = "tcp", from = "home", to = "server" },
        ]
    "#;

    fn ends(from: &str, to: &str) -> Ends {
        Ends { from: Some(from.to_owned()), to: Some(to.to_owned()) }
    }

    fn routes(ends: &Ends) -> Result<Vec<Vec<u32>>, LinkPlanError> {
        let scenario = Scenario::parse(TEXT, "s.toml").unwrap();
        let routes = LinkPlan::new(&scenario, 1, ends)?.routes(1);
        Ok(routes.iter().map(|route| route.iter().map(|link| link.0).collect()).collect())
    }

    #[test]
    fn the_first_flow_says_where_the_ends_are_and_which_way_leads_there() {
        // The links: down, down:reverse, detour, rest, far.
        assert_eq!(routes(&Ends::default()), Ok(vec![vec![2, 3], vec![1]]));
        // Its way is no one else's.
        assert_eq!(routes(&ends("home", "server")), Ok(vec![vec![1], vec![0]]));
        assert_eq!(routes(&ends("server", "attic")), Ok(vec![vec![0, 4], vec![]]));
        for (from, to, expected) in [
            ("server", "shed", "unknown node \"shed\": use one of server, home, middle, attic"),
            ("attic", "home", "no links lead from \"attic\" to \"home\": add one, or name other ends"),
        ] {
            assert_eq!(routes(&ends(from, to)).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_record_has_both_directions_of_each_pair_and_the_links_on_their_way() {
        let scenario = Scenario::parse(TEXT, "s.toml").unwrap();
        let plan = LinkPlan::new(&scenario, 1, &ends("server", "home")).unwrap();
        let record = plan.record(2, "udp", Some(TimeDelta::from_millis(2_000)));
        let flows: Vec<_> = record.flows.iter().map(|flow| (flow.flow.0, flow.about.id.as_str())).collect();
        assert_eq!(flows, [(0, "forward-1"), (1, "return-1"), (2, "forward-2"), (3, "return-2")]);
        let links: Vec<_> = record.links.iter().map(|link| link.about.id.as_str()).collect();
        assert_eq!(links, ["down:reverse", "detour", "rest"]);
        assert_eq!(record.end, Timestamp::from_nanos(2_000_000_000));
        // The warm-up is of simulations: all figures of a row are of the whole run.
        let windows =
            record.flows.iter().map(|flow| &flow.window).chain(record.links.iter().map(|link| &link.window));
        assert!(windows.into_iter().all(|window| *window == (Timestamp::ZERO..Timestamp::MAX)), "{record:?}");
        // As a simulation has them.
        assert_eq!(plan.links().len(), scenario.links().len());
        let there = LinkPlan::new(&scenario, 1, &ends("home", "attic")).unwrap().describe();
        insta::assert_snapshot!(there.join("; "), @"home to attic: far (0 ns, drop-tail, 300 ms); attic to home: no link: immediate");
    }

    #[test]
    fn links_alone_are_enough_with_neither_flows_nor_a_duration() {
        let plan = |text: &str, ends: &Ends| {
            let scenario = Document::parse(text, "s.toml").unwrap().links(&[]).unwrap();
            LinkPlan::new(&scenario, 1, ends).map(|plan| plan.routes(1))
        };
        let one = r#"link = [{ id = "wire", from = "a", to = "b", rate = "1 Mbit/s", duplex = true }]
                     change = [{ at = "5 s", link = "wire", rate = "2 Mbit/s" }]"#;
        assert_eq!(plan(one, &Ends::default()), Ok(vec![vec![LinkId(0)], vec![LinkId(1)]]));
        assert_eq!(plan(one, &ends("b", "a")), Ok(vec![vec![LinkId(1)], vec![LinkId(0)]]));
        // Nobody judges what the file expects of a longer simulation.
        let expected = format!(
            "duration = \"6 s\"\n{one}\nexpect = [{{ link = \"wire\", metric = \"utilisation\", min = 0.5, from = \"8 s\" }}]"
        );
        assert!(plan(&expected, &Ends::default()).is_ok());
        let two = r#"link = [{ id = "up", from = "a", to = "b" }, { id = "down", from = "b", to = "c" }]"#;
        let error = plan(two, &Ends::default()).unwrap_err().to_string();
        assert!(error.ends_with("name them, such as --from a --to c, or add a flow"), "{error}");
        // A simulation needs both.
        let error = |text: &str| Scenario::parse(text, "s.toml").unwrap_err().to_string();
        assert!(error(one).contains("duration is missing"), "{}", error(one));
        assert!(error(&format!("duration = \"9 s\"\n{one}")).contains("no flow"));
    }
}
