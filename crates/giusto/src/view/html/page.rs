//! The pages of `giusto demo` and `giusto cbr`.

use super::{
    Block, Card, Column, Prose, Report, Section, Table, Tone, comparison,
    format::{count, load, or_unknown, percent, plural, ppm, rate, short, time_us},
    granted,
    plots::{comparison_charts, delay_chart, gap_chart, rate_chart, schedule_error_chart},
};
use crate::{
    measured::result::{Quantiles, RunPlots, RunResult},
    run::comparison::{Comparison, Run},
    view::{figures::figures, format::asked_rate, table::RUN_COLUMNS},
};

/// The input of the page of `giusto demo`.
#[derive(Debug, Clone, Default)]
pub struct Demo {
    /// The main run.
    pub run: RunResult,
    /// The data of its charts.
    pub plots: RunPlots,
    /// Runs to compare it with, such as other strategies at the same rate.
    pub others: Vec<(RunResult, RunPlots)>,
    /// Calls across an emulated link, simulated and in real time; none if there is no run.
    pub calls: Comparison,
    /// The command line that writes the page again.
    pub command: String,
}

/// The page of `giusto demo`.
pub fn demo(demo: &Demo) -> Report {
    let run = &demo.run;
    let headline = demo_headline(demo);
    let mut report =
        Report::new("giusto demo: paced UDP on this machine", headline).with_command(&demo.command);
    report.push(cards(run));
    let compared: Vec<(&RunResult, &RunPlots)> = std::iter::once((run, &demo.plots))
        .chain(demo.others.iter().map(|(run, plots)| (run, plots)))
        .collect();
    let charts = [
        rate_chart(run, &demo.plots),
        gap_chart(run, &demo.plots),
        schedule_error_chart(&compared),
        delay_chart(run, &demo.plots),
    ];
    report.sections.extend(charts.into_iter().flatten().map(Section::from));
    let runs: Vec<RunResult> = compared.iter().map(|(run, _)| (*run).clone()).collect();
    push_runs(&mut report, &runs);
    report.push(every_figure(run));
    let calls = (!demo.calls.runs.is_empty()).then(|| comparison::in_short(&demo.calls));
    let (sections, record) = calls.unzip();
    if let Some(sections) = sections {
        report.push(about_calls(&demo.calls));
        report.sections.extend(sections);
    }
    report.push(how_measured());
    Report { record, ..report }
}

/// The finding of the first run, and before it which of all runs and calls cannot be trusted.
fn demo_headline(demo: &Demo) -> String {
    let found = verdict(&demo.run);
    if !demo.run.doubts.is_empty() {
        return found;
    }
    let runs = demo.others.iter().map(|(run, _)| &run.doubts[..]);
    let all = runs.chain(demo.calls.runs.iter().filter(|run| run.live).map(Run::doubts));
    let (mut count, mut first) = (0_u64, None);
    for doubt in all.filter_map(<[_]>::first) {
        count += 1;
        first.get_or_insert(doubt);
    }
    let untrusted = first.map(|first| {
        let runs = plural(count, "other run or call", "other runs and calls");
        format!("The figures of {runs} cannot be trusted: {first}. ")
    });
    untrusted.unwrap_or_default() + &found
}

/// What the calls are, and what was found.
fn about_calls(calls: &Comparison) -> Prose {
    let about = calls.runs.first().map(|run| run.result.description.clone()).unwrap_or_default();
    let about = format!(
        "{about}. Each controller ran twice with the same encoder, links and random numbers: in simulation, and live, as a call over UDP across a relay with the simulator's links."
    );
    let found = comparison::parity_finding(&calls.parity).map(Block::Paragraph);
    let blocks = std::iter::once(Block::Paragraph(about)).chain(found).collect();
    Prose::new("A call across an emulated link", blocks)
}

/// The page of `giusto cbr --out`: runs side by side.
pub fn accuracy(runs: &[RunResult], command: &str) -> Report {
    let mut report =
        Report::new("giusto cbr: rates and sizes side by side", accuracy_verdict(runs)).with_command(command);
    push_runs(&mut report, runs);
    report.push(how_measured());
    report
}

/// The results of streams that were measured side by side, each with its name.
pub fn results(runs: &[(String, RunResult)]) -> Report {
    if let [(_, run)] = runs {
        let mut report = Report::new("Result", verdict(run));
        report.push(cards(run));
        report.push(every_figure(run));
        return report;
    }
    let ended = plural(runs.len() as u64, "stream has ended", "streams have ended");
    let doubtful: Vec<_> = runs.iter().filter_map(|(_, run)| run.doubts.first()).collect();
    let doubtful = doubtful.first().map_or_else(String::new, |first| {
        format!(
            "The figures of {} cannot be trusted: {first}. ",
            plural(doubtful.len() as u64, "stream", "streams")
        )
    });
    let mut report = Report::new("Results", format!("{doubtful}{ended}."));
    let columns = [
        Column::words("stream"),
        Column::number("received rate"),
        Column::number("received packets"),
        Column::number("lost packets"),
        Column::number("loss"),
        Column::number("jitter"),
        Column::number("one-way delay, p50"),
        Column::words("end"),
    ];
    let ms = |ms: f64| time_us(ms * 1e3);
    let row = |(name, run): &(String, RunResult)| {
        [
            name.clone(),
            or_unknown(run.rx_rate_bps, rate),
            or_unknown(run.received_packets, count),
            or_unknown(run.lost_packets, count),
            or_unknown(run.loss(), percent),
            or_unknown(run.jitter_ms, ms),
            or_unknown(run.one_way_delay_ms.quantiles.p50, ms),
            run.ended.clone().unwrap_or_else(|| "–".to_owned()),
        ]
    };
    report.push(Table::new("Streams", "The final figures of each stream.", columns, runs.iter().map(row)));
    report
}

/// The runs side by side, and the resources that the system granted.
fn push_runs(report: &mut Report, runs: &[RunResult]) {
    report.push(Table::of("Accuracy", "Each row is one sender at one rate and size.", RUN_COLUMNS, runs));
    report.sections.extend(comparison_charts(runs).into_iter().map(Section::from));
    let granted = runs.iter().find_map(|run| run.system.as_ref()).and_then(granted::table);
    report.sections.extend(granted.map(Section::from));
}

/// The finding of a run, in one plain sentence.
///
/// # Example
///
/// ```
/// use giusto::{measured::result::{Quantiles, RunResult}, view::html};
///
/// let run = RunResult {
///     rate_bps: Some(1_600_000),
///     size_bytes: Some(200),
///     sent_packets: Some(10_000),
///     lost_packets: Some(0),
///     schedule_error_us: Quantiles { p50: Some(0.4), ..Quantiles::default() },
///     ..RunResult::default()
/// };
/// assert_eq!(
///     html::verdict(&run),
///     "1,000 datagrams/s left within 0.40 µs (median) of their scheduled time; none of 10,000 was lost."
/// );
/// ```
pub fn verdict(run: &RunResult) -> String {
    if let Some(doubt) = run.doubts.first() {
        return format!("The figures cannot be trusted: {doubt}.");
    }
    let stream = match (run.packets_per_second(), run.rx_rate_bps) {
        (Some(pps), _) if pps >= 10.0 => format!("{} datagrams/s", count(pps.round() as u64)),
        (Some(pps), _) => format!("{} datagrams/s", short(pps)),
        (None, Some(bps)) => format!("{} of datagrams", rate(bps)),
        (None, None) => "The datagrams".to_owned(),
    };
    let first = match (run.schedule_error_us.p50, run.gap_error_us.p50) {
        (Some(p50), _) => format!("{stream} left within {} (median) of their scheduled time", time_us(p50)),
        (None, Some(p50)) => {
            format!("{stream} arrived with gaps within {} (median) of the ideal", time_us(p50))
        }
        (None, None) => format!("{stream} were sent"),
    };
    let loss = match (run.lost_packets, run.sent_packets) {
        (Some(0), Some(sent)) if sent > 0 => format!("; none of {} was lost", count(sent)),
        (Some(lost), Some(sent)) if sent > 0 => {
            format!("; {} of {} were lost ({})", count(lost), count(sent), or_unknown(run.loss(), percent))
        }
        (Some(lost), _) => format!("; {} lost", count(lost)),
        _ => String::new(),
    };
    format!("{first}{loss}.")
}

fn accuracy_verdict(runs: &[RunResult]) -> String {
    let doubtful: Vec<_> = runs.iter().filter_map(|run| run.doubts.first()).collect();
    if let Some(first) = doubtful.first() {
        return format!(
            "{} of {} cannot be trusted: {first}.",
            doubtful.len(),
            plural(runs.len() as u64, "row", "rows")
        );
    }
    let worst = runs
        .iter()
        .filter(|run| run.peer.is_none())
        .filter_map(|run| Some((run, run.rate_error_ppm?)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let Some((run, error)) = worst else {
        return format!("{} measured.", plural(runs.len() as u64, "run", "runs"));
    };
    let ours = runs.iter().filter(|run| run.peer.is_none());
    let lost: u64 = ours.clone().filter_map(|run| run.lost_packets).sum();
    let lost = if lost == 0 {
        "nothing was lost".to_owned()
    } else {
        plural(lost, "datagram was lost", "datagrams were lost")
    };
    format!(
        "In {} of giusto the received rate was within {} ppm of the requested rate at worst ({} with {}); {lost}.",
        plural(ours.count() as u64, "row", "rows"),
        short(error.abs()),
        asked_rate(run.rate_bps),
        run.sender()
    )
}

fn cards(run: &RunResult) -> Vec<Card> {
    let median = |quantiles: &Quantiles, label: &str| {
        let note = format!(
            "median; 99 % within {}, at most {}",
            or_unknown(quantiles.p99, time_us),
            or_unknown(quantiles.max, time_us)
        );
        quantiles.p50.map(|p50| Card::new(label, time_us(p50), note))
    };
    let rate_card = run.rx_rate_bps.map(|bps| {
        let error = run.rate_error_ppm.map(|error| format!("{} ppm from the requested rate", ppm(error)));
        Card::new("Received rate", rate(bps), error.unwrap_or_else(|| "no rate was requested".to_owned()))
    });
    let loss_card = run.lost_packets.map(|lost| {
        let note =
            or_unknown(run.sent_packets, |sent| format!("of {}", plural(sent, "datagram", "datagrams")));
        Card::new("Loss", count(lost), note).with_tone(if lost == 0 { Tone::Good } else { Tone::Fair })
    });
    let delay_card = run.one_way_delay_ms.quantiles.p50.map(|p50| {
        let p99 = or_unknown(run.one_way_delay_ms.quantiles.p99, |ms| time_us(ms * 1e3));
        Card::new("One-way delay", time_us(p50 * 1e3), format!("median; 99 % within {p99}"))
    });
    let cpu_card = run.sender_cpu_ratio.map(|ratio| {
        let receiver = or_unknown(run.receiver_cpu_ratio, |ratio| format!("{} %", load(ratio)));
        Card::new(
            "Sender CPU",
            format!("{} %", load(ratio)),
            format!("of one processor; receiver {receiver}"),
        )
    });
    let voice_card = run.voice.as_ref().and_then(|voice| {
        let codec = voice.codec.as_deref().unwrap_or("E-model");
        Some(Card::new(
            "Voice quality",
            format!("MOS {:.2}", voice.mos?),
            format!("{codec}; 4.4 is the best of G.711"),
        ))
    });
    [
        median(&run.schedule_error_us, "Schedule error"),
        median(&run.gap_error_us, "Gap error"),
        rate_card,
        loss_card,
        delay_card,
        cpu_card,
        voice_card,
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn every_figure(run: &RunResult) -> Table {
    let rows = figures(run).into_iter().map(|(what, value)| [what.to_owned(), value]);
    Table::new("All figures of this run", "", ["figure", "value"].map(Column::words), rows).folded()
}

/// The definitions of the figures.
pub(crate) fn how_measured() -> Prose {
    let terms = [
        (
            "Rate",
            "(N−1) · size / (last − first): N datagrams enclose N−1 intervals. Dividing all N by the time between the \
             first and the last counts one interval too few and gives a rate that is too high. Payload bytes, unless a layer is named. \
             Datagrams sent together count as one event: N−1 cycles over N−1 periods.",
        ),
        ("Schedule error", "Deviation of a departure from its scheduled time."),
        (
            "Gap error",
            "Deviation of an inter-arrival gap from the ideal gap, size / rate, without sign. A sender that sends in bursts \
             can have an exact rate and still large gap errors.",
        ),
        (
            "Loss",
            "Sent datagrams that never arrived. Duplicates are counted apart and do not make up for losses.",
        ),
        ("One-way delay", "Arrival time less departure time. On one machine both come from one clock."),
        ("Sender CPU, receiver CPU", "CPU time of the thread over elapsed time."),
        ("p50, p99, p99.9", "Half, 99 % and 99.9 % of all values are at most this."),
        ("ppm", "Parts per million: 1,000 ppm are 0.1 %."),
    ];
    let terms = terms.map(|(term, meaning)| (term.to_owned(), meaning.to_owned())).to_vec();
    Prose::new("How it was measured", vec![Block::Definitions(terms)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::result::SystemGranted;

    fn run(strategy: &str, p99: f64) -> RunResult {
        RunResult {
            strategy: strategy.to_owned(),
            rate_bps: Some(1_600_000),
            size_bytes: Some(200),
            sent_packets: Some(10_000),
            lost_packets: Some(3),
            rx_rate_bps: Some(1_600_112.0),
            rate_error_ppm: Some(70.0),
            schedule_error_us: Quantiles { p50: Some(0.4), p99: Some(p99), ..Quantiles::default() },
            gap_error_us: Quantiles { p50: Some(0.7), p99: Some(2.0 * p99), ..Quantiles::default() },
            sender_cpu_ratio: Some(0.07),
            system: Some(SystemGranted { realtime_priority: Some(0), ..SystemGranted::default() }),
            ..RunResult::default()
        }
    }

    fn sample() -> Demo {
        Demo {
            run: run("grid", 4.0),
            plots: RunPlots {
                rate_series: vec![(0.0, 1.6e6), (1.0, 1.61e6)],
                gap_histogram: vec![(990.0, 1000.0, 7).into(), (1000.0, 1010.0, 8).into()],
                schedule_error_histogram: vec![(0.0, 0.5, 90).into(), (0.5, 4.0, 10).into()],
                one_way_delay_series: vec![(0.0, 0.02), (1.0, 0.03)],
            },
            others: vec![(run("<script>alert('x')</script>", 80.0), RunPlots::default())],
            calls: Comparison::default(),
            command: "giusto demo --label \"<b>&\"".to_owned(),
        }
    }

    fn charts(report: &Report) -> Vec<&str> {
        let charts = report.sections.iter().filter_map(|section| match section {
            Section::Chart(chart) => Some(chart.title.as_str()),
            _ => None,
        });
        charts.collect()
    }

    #[test]
    fn a_page_shows_the_figures_of_the_run_and_charts_each_quantity() {
        let report = demo(&sample());
        let of_run =
            ["Received rate", "Gaps between arrivals", "Schedule error by percentile", "One-way delay"];
        let compared = ["Error of the received rate", "Gap error, p99", "CPU of the sender"];
        assert_eq!(charts(&report), [&of_run[..], &compared].concat());
        let model = serde_json::to_string(&report).unwrap();
        for figure in [
            "1,000 datagrams/s left within 0.40 µs (median) of their scheduled time; 3 of 10,000 were lost (0.03 %).",
            "1.600 Mbit/s",
            "+70.0",
            "of 10,000 datagrams",
            "0.40 / 4.0",
            "cap_sys_nice",
            "<script>alert('x')</script>",
        ] {
            assert!(model.contains(figure), "the page lacks {figure}");
        }
        assert_eq!(report.command.as_deref(), Some("giusto demo --label \"<b>&\""));
    }

    #[test]
    fn a_page_without_measurements_has_no_chart() {
        let report = demo(&Demo::default());
        assert_eq!(report.headline, "The datagrams were sent.");
        assert_eq!(charts(&report), [""; 0]);
        assert_eq!(accuracy(&[], "giusto cbr").headline, "0 runs measured.");
    }
}
