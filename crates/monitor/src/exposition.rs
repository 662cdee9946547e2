//! The state of a monitor for Prometheus.

use std::collections::BTreeMap;

use giusto::measured::metrics::Text;

use crate::{
    engine::{State, Troubles},
    metric::Metric,
    sample::SeriesKey,
    watch::Bound,
};

/// The state of the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreState {
    /// Results that wait for room on the disk.
    pub waiting: u64,
    /// Results that were dropped because too many waited.
    pub dropped: u64,
    /// The last write succeeded.
    pub is_writing: bool,
}

/// A family of a gauge: its name, its help, and its metric with the factor from the metric's unit.
type Family = (&'static str, &'static str, Metric, f64);

const FAMILIES: [Family; 9] = [
    ("monitor_loss_ratio", "Lost over sent datagrams of the newest result", Metric::Loss, 1.0),
    ("monitor_jitter_seconds", "Inter-arrival jitter (RFC 3550)", Metric::Jitter, 1e-3),
    ("monitor_mos", "Mean opinion score of voice", Metric::Mos, 1.0),
    ("monitor_received_bytes_per_second", "Received rate", Metric::Rate, 0.125),
    (
        "monitor_one_way_delay_error_seconds",
        "Largest possible error of the one-way delay",
        Metric::DelayError,
        1e-3,
    ),
    ("monitor_clock_offset_seconds", "The far clock less that of this host", Metric::ClockOffset, 1e-3),
    ("monitor_clock_error_seconds", "Largest possible error of the clock offset", Metric::ClockError, 1e-3),
    ("monitor_rtt_min_seconds", "Shortest round-trip time", Metric::RttMin, 1e-3),
    ("monitor_use_ratio", "Received rate over the highest rate of a call", Metric::Use, 1.0),
];

/// Quantiles of a quantity: 0.5 and 0.99.
const QUANTILES: [(&str, &str, [Metric; 2]); 3] = [
    ("monitor_rtt_seconds", "Round-trip time of the newest result", [Metric::Rtt, Metric::RttP99]),
    (
        "monitor_one_way_delay_seconds",
        "One-way delay of the newest result, where it is absolute",
        [Metric::Delay, Metric::DelayP99],
    ),
    (
        "monitor_frame_delay_seconds",
        "Time from the capture of a frame until it was complete, of the newest call",
        [Metric::FrameDelay, Metric::FrameDelayP99],
    ),
];

/// The state as `OpenMetrics` 1.0 text. What is unknown has no sample, never 0.
pub fn text(states: &BTreeMap<SeriesKey, State>, troubles: Troubles, store: StoreState) -> String {
    let mut text = Text::default();
    let with_result = || states.iter().filter(|(_, state)| state.results != [0; 2]);
    text.family("monitor_known", "gauge", "1 where there is a newest result, 0 where it is unknown");
    for (series, state) in with_result() {
        line(&mut text, "monitor_known", series, "", u8::from(state.figures.is_some()));
    }
    text.family(
        "monitor_result_time_seconds",
        "gauge",
        "When the interval of the newest result began, since the Unix epoch",
    );
    for (series, state) in with_result() {
        line(&mut text, "monitor_result_time_seconds", series, "", state.time);
    }
    for (name, help, metric, factor) in FAMILIES {
        text.family(name, "gauge", help);
        for (series, value) in values(states, metric) {
            line(&mut text, name, series, "", value * factor);
        }
    }
    for (name, help, metrics) in QUANTILES {
        text.family(name, "gauge", help);
        for (series, state) in states {
            for (quantile, metric) in ["0.5", "0.99"].into_iter().zip(metrics) {
                if let Some(value) = state.figures.and_then(|figures| figures.of(metric)) {
                    line(&mut text, name, series, &format!(",quantile=\"{quantile}\""), value / 1e3);
                }
            }
        }
    }
    text.family("monitor_bound_crossed", "gauge", "1 where a bound is crossed, by bound");
    for (series, state) in states {
        for bound in Bound::ALL {
            let label = format!(",bound=\"{}\"", bound.name());
            line(
                &mut text,
                "monitor_bound_crossed",
                series,
                &label,
                u8::from(state.crossed.contains(&bound)),
            );
        }
    }
    text.family("monitor_results", "counter", "Results since the start, by what is known of them");
    for (series, state) in states {
        let [all, unknown] = state.results;
        for (known, count) in [("measured", all - unknown), ("unknown", unknown)] {
            line(&mut text, "monitor_results_total", series, &format!(",result=\"{known}\""), count);
        }
    }
    text.counter(
        "monitor_missed_streams",
        "Streams whose time passed while the machine slept or was too busy",
        troubles.missed,
    );
    text.counter(
        "monitor_overrun_streams",
        "Streams that were due while their predecessors were running",
        troubles.overrun,
    );
    text.counter(
        "monitor_clock_steps",
        "How often the clock was set back by more than an interval",
        troubles.set_back,
    );
    text.gauge(
        "monitor_writing",
        "1 where the last result could be written to the disk",
        u8::from(store.is_writing),
    );
    text.gauge("monitor_waiting_results", "Results that wait in memory for room on the disk", store.waiting);
    text.counter(
        "monitor_dropped_results",
        "Results that were dropped because too many waited",
        store.dropped,
    );
    text.finish()
}

fn values(states: &BTreeMap<SeriesKey, State>, metric: Metric) -> impl Iterator<Item = (&SeriesKey, f64)> {
    states.iter().filter_map(move |(series, state)| Some((series, state.figures?.of(metric)?)))
}

/// Names are of letters, digits, `-` and `_`: they need no escapes.
fn line(text: &mut Text, name: &str, series: &SeriesKey, more: &str, value: impl std::fmt::Display) {
    let SeriesKey { from, to, stream } = series;
    text.line(&format!("{name}{{from=\"{from}\",to=\"{to}\",stream=\"{stream}\"{more}}}"), value);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::metric::Figures;

    fn series(to: &str) -> SeriesKey {
        SeriesKey { from: "a".to_owned(), to: to.to_owned(), stream: "s".to_owned() }
    }

    #[test]
    fn what_is_unknown_has_no_sample() {
        let figures = Figures::default().with(Metric::Loss, Some(0.0)).with(Metric::RttP99, Some(12.5));
        let up = State { time: 60, figures: Some(figures), crossed: vec![Bound::RttP99], results: [3, 1] };
        let down = State { time: 60, figures: None, crossed: vec![Bound::Reachable], results: [3, 3] };
        let left = State { time: 60, figures: None, crossed: vec![Bound::Loss], results: [0; 2] };
        let states = BTreeMap::from([(series("b"), up), (series("c"), down), (series("d"), left)]);
        let text = text(&states, Troubles::default(), StoreState::default());
        for line in [
            "giusto_monitor_known{from=\"a\",to=\"b\",stream=\"s\"} 1",
            "giusto_monitor_known{from=\"a\",to=\"c\",stream=\"s\"} 0",
            "giusto_monitor_loss_ratio{from=\"a\",to=\"b\",stream=\"s\"} 0",
            "giusto_monitor_rtt_seconds{from=\"a\",to=\"b\",stream=\"s\",quantile=\"0.99\"} 0.0125",
            "giusto_monitor_bound_crossed{from=\"a\",to=\"c\",stream=\"s\",bound=\"reachable\"} 1",
            "giusto_monitor_bound_crossed{from=\"a\",to=\"d\",stream=\"s\",bound=\"loss\"} 1",
            "giusto_monitor_results_total{from=\"a\",to=\"b\",stream=\"s\",result=\"measured\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("loss_ratio{from=\"a\",to=\"c\""), "{text}");
        // Before the first result after a restart.
        assert!(
            !text.contains("known{from=\"a\",to=\"d\"") && !text.contains("time_seconds{from=\"a\",to=\"d\"")
        );
        assert!(text.ends_with("# EOF\n"));
    }

    /// The selectors of a query, such as `name{label=~"$label"}`: their names, and their labels with the values.
    fn selectors(query: &str) -> Vec<(&str, Vec<(&str, &str)>)> {
        let label = |text| {
            let (name, value) = str::split_at(text, text.find(['=', '!']).unwrap());
            (name, value.trim_matches(['=', '~', '!', '"']))
        };
        let selector = |(start, _)| {
            let rest = query.split_at(start).1;
            let (name, rest) =
                rest.split_at(rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len()));
            let labels = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or_default();
            (name, labels.split(',').filter(|text| !text.is_empty()).map(label).collect())
        };
        query.match_indices("giusto_").map(selector).collect()
    }

    /// All texts below `json` that have one of these keys.
    fn texts<'a>(json: &'a Value, keys: &[&str], found: &mut Vec<&'a str>) {
        match json {
            Value::Object(fields) => {
                for (key, value) in fields {
                    found.extend(value.as_str().filter(|_| keys.contains(&key.as_str())));
                    texts(value, keys, found);
                }
            }
            Value::Array(parts) => parts.iter().for_each(|part| texts(part, keys, found)),
            _ => {}
        }
    }

    #[test]
    fn the_dashboard_asks_for_what_is_exposed() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/giusto-monitor.json");
        let board: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let figures =
            Metric::ALL.into_iter().fold(Figures::default(), |all, metric| all.with(metric, Some(1.0)));
        let state = State { time: 60, figures: Some(figures), crossed: Vec::new(), results: [1, 0] };
        let text = text(&BTreeMap::from([(series("b"), state)]), Troubles::default(), StoreState::default());
        let samples: Vec<_> =
            text.lines().filter(|line| !line.starts_with('#')).flat_map(selectors).collect();

        let mut queries = Vec::new();
        texts(&board, &["expr", "query"], &mut queries);
        let asked: Vec<_> = queries.iter().flat_map(|query| selectors(query)).collect();
        assert!(asked.len() > 15, "{queries:?}");
        for (name, labels) in &asked {
            let answers = |(own, known): &&(&str, Vec<(&str, &str)>)| {
                let matches = |(label, value): &(&str, &str)| {
                    known.iter().any(|(own, has)| own == label && (value.starts_with('$') || value == has))
                };
                own == name && labels.iter().all(matches)
            };
            assert!(samples.iter().any(|sample| answers(&sample)), "{name} {labels:?}\n{text}");
        }
        for (name, ..) in FAMILIES.iter().filter(|(_, _, metric, _)| !BESIDE.contains(metric)) {
            let name = format!("giusto_{name}");
            assert!(asked.iter().any(|(own, _)| *own == name), "{name} is not on the dashboard");
        }

        // Variables and labels that legends name; panels beside each other, each with its own id.
        let variables: Vec<_> =
            board["templating"]["list"].as_array().unwrap().iter().map(|own| &own["name"]).collect();
        let variable =
            |text: &str| text.starts_with('$').then(|| text.trim_matches(['$', '{', '}']).to_owned());
        let mut sources = Vec::new();
        texts(&board, &["uid"], &mut sources);
        let used = asked.iter().flat_map(|(_, labels)| labels).map(|(_, value)| *value).chain(sources);
        for name in used.filter_map(variable) {
            assert!(variables.iter().any(|own| **own == *name), "${name}: {variables:?}");
        }
        let panels = board["panels"].as_array().unwrap();
        let mut cells = std::collections::BTreeSet::new();
        for (place, panel) in panels.iter().enumerate() {
            assert!(panels.iter().take(place).all(|other| other["id"] != panel["id"]), "{}", panel["title"]);
            let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
            for x in at("x")..at("x") + at("w") {
                let column = (at("y")..at("y") + at("h")).map(|y| (x, y));
                let is_free = column.into_iter().all(|cell| cells.insert(cell));
                assert!(is_free, "{} covers another", panel["title"]);
            }
        }
    }

    /// Shown beside other figures, or by the page alone.
    const BESIDE: [Metric; 2] = [Metric::RttMin, Metric::DelayError];
}
