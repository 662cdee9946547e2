//! `giusto sweep`: many runs of a scenario.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use clap::Args;
use serde::Serialize;

use crate::{
    console::{self, TableArgs, print_json, print_text},
    many::{self, ManyArgs},
    quoted,
    usage::UsageError,
};
use giusto::{
    explore,
    run::sweep::{self, Failed, Finished, Journal, Outcome, Part, Seeds, Sweep, Values, Whole},
    view::sweep::{self as view, Summary},
};

/// The maximum number of failed runs that are named in the terminal; the tables have all.
const NAMED: usize = 10;

/// Flags of `giusto sweep`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto sweep codel --seeds 1..30
  giusto sweep codel --set bottleneck.rate=1M,5M,20M --set bottleneck.queue.target=5ms,15ms --out rates
  giusto sweep codel --set bottleneck.rate=1M,5M,20M --set bottleneck.queue.target=5ms,15ms --out rates --resume
  giusto sweep codel --seeds 1..1000 --shard 2/8 --out part-2
  giusto merge part-* --out whole

--out writes flows.csv and links.csv, a row for each run and flow or link, and journal.jsonl, which --resume continues.
Shard I/N is the runs I, I + N, I + 2 N, …, on every machine; part.json in its directory is what `giusto merge` reads.
Expectations are written for the values of the file: only runs that have these values are judged.
Exit status: 0 all expectations that are judged are met, 1 a run failed or such an expectation is not met, 2 wrong usage.")]
pub(crate) struct SweepArgs {
    /// Scenario file, or name of a built-in scenario
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Values of a parameter, such as link.bottleneck.rate=1M,5M; repeatable: runs every combination
    #[arg(long, value_name = "KEY=A,B,C")]
    set: Vec<Values>,

    /// Random seeds of every combination: 1..30, both included, or 1,2,5
    #[arg(long, value_name = "SEEDS", default_value = "1..10")]
    seeds: Seeds,

    #[command(flatten)]
    many: ManyArgs,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Printed<'a> {
    scenario: &'a str,
    parameters: &'a [String],
    runs: &'a [Finished],
    failed: &'a [Failed],
    summary: Vec<Summary>,
    interrupted: bool,
}

pub(crate) fn run(args: &SweepArgs, stop: &AtomicBool) -> anyhow::Result<ExitCode> {
    let document = explore::load(&args.file).map_err(UsageError::from)?;
    let sweep = Sweep { document, values: args.set.clone(), seeds: args.seeds.clone() }.spelled();
    sweep.check().map_err(UsageError::new)?;
    let planned = sweep.plan_unless(&mut || stop.load(Ordering::Relaxed)).map_err(UsageError::from)?;
    let Some(planned) = planned else {
        console::complain("interrupted before the first run");
        return Ok(ExitCode::SUCCESS);
    };
    let scenario = planned.first().map_or("", |run| run.scenario.name()).to_owned();
    let many = &args.many;
    let part = many.shard.map(|shard| Part::new(&sweep, &planned, shard));
    let planned = many.shard.unwrap_or_default().of(planned);
    let name = part.as_ref().map_or_else(|| scenario.clone(), Part::journal);
    let (journal, known) = many.journal(&name, |out| Journal::resume(out, &name, &planned))?;
    let progress = many::progress(name, planned.len(), known.len());
    let (outcome, trouble) = many.run(&progress, journal, stop, |is_over, finished| {
        sweep::run(&planned, known, |run| sweep::simulate(run, &mut (), is_over), finished)
    })?;
    let paths = args.set.iter().map(|values| values.path.clone()).collect();
    let whole = Whole { scenario, file: sweep.document.path().to_owned(), paths, outcome };
    let mut written = finish(&whole, many.out.as_deref(), many.json, many.tables)?;
    if let (Some(part), Some(out)) = (part, &many.out) {
        written.push(part.write(out, &whole.outcome)?);
    }
    for path in &written {
        progress.wrote(path);
    }
    if let Some(error) = trouble {
        return Err(error.into());
    }
    let outcome = &whole.outcome;
    note_problems(&whole, |line| progress.note(line));
    many.note_missing(&progress, outcome.missing, planned.len());
    Ok(status(outcome))
}

/// Prints the result and writes its tables; gives their paths.
pub(crate) fn finish(
    whole: &Whole,
    out: Option<&Path>,
    json: bool,
    tables: TableArgs,
) -> anyhow::Result<Vec<PathBuf>> {
    let Whole { scenario, paths, outcome, .. } = whole;
    // One of both that fails costs the other nothing.
    let written = out.map(|out| view::write(out, paths, outcome)).transpose();
    if json {
        let summary = view::summaries(&outcome.finished);
        let (runs, failed, interrupted) = (&outcome.finished[..], &outcome.failed[..], outcome.missing > 0);
        print_json(&Printed { scenario, parameters: paths, runs, failed, summary, interrupted })?;
    } else {
        print_text(&view::text(paths, &outcome.finished, tables.width()))?;
    }
    Ok(written?.into_iter().flatten().collect())
}

/// Whether no run failed and all expectations that are judged are met.
pub(crate) fn status(outcome: &Outcome) -> ExitCode {
    let unmet = outcome.finished.iter().any(|run| outcome.judges(run) && !run.result.passed());
    if unmet || !outcome.failed.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The command that repeats a run alone.
fn alone(whole: &Whole, seed: &str, parameters: &BTreeMap<String, String>) -> String {
    let settings = whole.paths.iter().filter_map(|path| Some((path, parameters.get(path)?)));
    let set = settings.fold(String::new(), |text, (path, value)| {
        format!("{text} --set {}", quoted(&format!("{path}={value}")))
    });
    format!("giusto sim {} --seed {seed}{set}", quoted(&whole.file))
}

/// The first [`NAMED`] different texts, and how many more there are.
fn distinct<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for text in texts {
        if !all.contains(text) {
            all.push(text.clone());
        }
    }
    if let Some(more @ 1..) = all.len().checked_sub(NAMED) {
        all.truncate(NAMED);
        all.push(format!("… and {more} more"));
    }
    all
}

/// Notes failed runs and runs that miss an expectation, each by its command, runs that are not judged, what runs note, and seeds
/// without effect.
pub(crate) fn note_problems(whole: &Whole, note: impl Fn(&str)) {
    let outcome = &whole.outcome;
    let mut wrong: Vec<String> = Vec::new();
    for run in &outcome.failed {
        wrong.push(format!("failed: {}: {}", alone(whole, &run.seed, &run.parameters), run.why));
    }
    for run in outcome.finished.iter().filter(|run| outcome.judges(run) && !run.result.passed()) {
        let unmet = run.result.checks.iter().filter(|check| !check.passed).map(|check| check.name.as_str());
        let unmet = unmet.collect::<Vec<_>>().join("; ");
        wrong.push(format!("expectation not met: {}: {unmet}", alone(whole, &run.seed, &run.parameters)));
    }
    for line in wrong.iter().take(NAMED) {
        note(line);
    }
    if wrong.len() > NAMED {
        note(&format!("… and {} more", wrong.len() - NAMED));
    }
    let unjudged =
        || outcome.finished.iter().filter(|run| !outcome.judges(run) && !run.result.checks.is_empty());
    if unjudged().next().is_some() {
        let (runs, met) = (unjudged().count(), unjudged().filter(|run| run.result.passed()).count());
        note(&format!(
            "note: expectations are judged where the varied settings are as in the file: {runs} of {} runs have other values and are \
             not judged; {met} of these meet all",
            outcome.finished.len()
        ));
        let names = distinct(unjudged().flat_map(|run| &run.result.checks).map(|check| &check.name));
        note(&format!("note: not judged in these runs: {}", names.join("; ")));
    }
    for line in distinct(outcome.finished.iter().flat_map(|run| &run.result.notes)) {
        note(&format!("note: {line}"));
    }
    if view::seeds_make_no_difference(&outcome.finished) {
        note(
            "note: all seeds give the same result: nothing here is random; give flows random start times, such as start = { uniform = \"1 s\" }",
        );
    }
}
