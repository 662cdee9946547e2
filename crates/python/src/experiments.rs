//! Sweeps and benchmarks.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use giusto::{
    benchmark::{self, BenchmarkResult, Plan, Recordings, RunRow},
    run::{
        Parallel, Shard,
        sweep::{
            self, Finished, Journal, JournalError, Outcome as SweepOutcome, Part, Planned, Seeds, Values,
            Whole,
        },
    },
    scenario::{self, load_controller},
    view::{arrow, files::Files, html, sweep as view},
};
use giusto_congestion::Algorithm;
use pyo3::{prelude::*, types::PyType};
use serde_json::json;

use crate::{
    arrow::ArrowStream,
    controller::{Own, OwnTaps, Raised},
    detached::{detached, on_python_thread, reporter},
    error::{Outcome, value_error},
    scenario::Document,
    seed::Seed,
};

/// The result of a sweep.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct Sweep {
    paths: Vec<String>,
    outcome: SweepOutcome,
}

#[pymethods]
impl Sweep {
    /// One row for each run and flow.
    fn flows(&self) -> Outcome<ArrowStream> {
        Ok(view::flows_batch(&self.paths, &self.outcome)?.into())
    }

    /// One row for each run and link.
    fn links(&self) -> Outcome<ArrowStream> {
        Ok(view::links_batch(&self.paths, &self.outcome)?.into())
    }

    /// Means over the seeds and failed runs, in JSON.
    fn json(&self) -> String {
        let summary = view::summaries(&self.outcome.finished);
        let SweepOutcome { failed, missing, .. } = &self.outcome;
        json!({ "summary": summary, "failed": failed, "missing": missing }).to_string()
    }

    /// Whether all expectations of all runs are met and no run failed.
    #[getter]
    fn passed(&self) -> bool {
        self.outcome.failed.is_empty() && self.outcome.finished.iter().all(|run| run.result.passed())
    }

    /// Writes `flows.csv` and `links.csv`.
    pub(crate) fn write(&self, folder: PathBuf) -> Outcome<()> {
        view::write(&folder, &self.paths, &self.outcome)?;
        Ok(())
    }
}

impl Sweep {
    /// The result of a sweep with values of these settings.
    pub(crate) fn new(paths: Vec<String>, outcome: SweepOutcome) -> Self {
        Self { paths, outcome }
    }

    /// Writes its tables, and the part that it is, to the folder of the journal.
    pub(crate) fn write_all(&self, part: Option<Part>, folder: PathBuf) -> Outcome<()> {
        if let Some(part) = part {
            part.write(&folder, &self.outcome)?;
        }
        self.write(folder)
    }
}

/// A planned sweep, or a shard of one.
pub(crate) struct Begun {
    /// Its settings.
    pub(crate) paths: Vec<String>,
    /// The runs to be made.
    pub(crate) planned: Vec<Planned>,
    /// The part that it is.
    pub(crate) part: Option<Part>,
    /// Its journal in `out`.
    pub(crate) journal: Option<Journal>,
    /// The runs that are in the journal.
    pub(crate) known: Vec<Finished>,
}

/// The runs of a sweep, unless Ctrl-C ends it meanwhile.
pub(crate) fn plan(sweep: &sweep::Sweep) -> Outcome<Vec<Planned>> {
    let mut raised = None;
    let mut is_over = || {
        raised = Python::attach(|py| py.check_signals().err());
        raised.is_some()
    };
    let planned = sweep.plan_unless(&mut is_over)?;
    raised.map_or(Ok(planned.unwrap_or_default()), |error| Err(error.into()))
}

/// The journal of `name` in a folder, and what is in it: a new one, or that which `again` opens.
fn opened<T>(
    out: Option<&Path>,
    resume: bool,
    name: &str,
    again: impl FnOnce(&Path) -> Result<(Journal, Vec<T>), JournalError>,
) -> Result<(Option<Journal>, Vec<T>), JournalError> {
    let Some(out) = out else { return Ok((None, Vec::new())) };
    let (journal, known) = if resume { again(out)? } else { (Journal::create(out, name)?, Vec::new()) };
    Ok((Some(journal), known))
}

/// Plans a sweep.
pub(crate) fn begin_sweep(
    document: scenario::Document,
    values: Vec<(String, Vec<String>)>,
    seeds: Vec<Seed>,
    shard: Option<&str>,
    out: Option<&Path>,
    resume: bool,
) -> Outcome<Begun> {
    let values: Vec<Values> = values.into_iter().map(|(path, values)| Values { path, values }).collect();
    let paths = values.iter().map(|values| values.path.clone()).collect();
    let seeds = Seeds(seeds.into_iter().map(|seed| seed.0).collect());
    let shard: Option<Shard> = shard.map(str::parse).transpose().map_err(value_error)?;
    let sweep = sweep::Sweep { document, values, seeds }.spelled();
    sweep.check().map_err(value_error)?;
    let planned = plan(&sweep)?;
    let scenario = planned.first().map_or("", |run| run.scenario.name()).to_owned();
    let part = shard.map(|shard| Part::new(&sweep, &planned, shard));
    let name = part.as_ref().map_or(scenario, Part::journal);
    let planned = shard.unwrap_or_default().of(planned);
    let (journal, known) = opened(out, resume, &name, |out| Journal::resume(out, &name, &planned))?;
    Ok(Begun { paths, planned, part, journal, known })
}

/// Runs a scenario with many values and seeds.
#[pyfunction]
#[pyo3(signature = (document, values, seeds, controllers, *, shard, jobs, out, resume, progress))]
#[expect(clippy::too_many_arguments, reason = "called by the package, which names each")]
pub(crate) fn run_sweep(
    py: Python<'_>,
    document: &Document,
    values: Vec<(String, Vec<String>)>,
    seeds: Vec<Seed>,
    controllers: Vec<Bound<'_, PyType>>,
    shard: Option<&str>,
    jobs: u16,
    out: Option<PathBuf>,
    resume: bool,
    progress: Option<Py<PyAny>>,
) -> Outcome<Sweep> {
    let own = Own::all(&controllers)?;
    let Begun { paths, planned, part, journal, known } =
        begin_sweep(document.with(&own), values, seeds, shard, out.as_deref(), resume)?;
    let raised = Raised::default();
    let finished = detached(py, reporter(progress, known.len(), planned.len()), |interrupt, progress| {
        let made = |_: &Finished| {
            // This thread waits for news as long as the work goes on.
            let _ = progress.send(());
        };
        Parallel { jobs, journal }.run(&interrupt.stop, made, |is_over, finished| {
            let simulate = |run: &_| {
                let is_over = || is_over() || raised.is_set();
                on_python_thread(interrupt, || {
                    sweep::simulate(run, &mut OwnTaps::new(&own, &raised), is_over)
                })
            };
            sweep::run(&planned, known, simulate, finished)
        })
    })?;
    raised.result()?;
    let (outcome, trouble) = finished?;
    trouble.map_or(Ok(()), Err)?;
    let sweep = Sweep::new(paths, outcome);
    out.map_or(Ok(()), |out| sweep.write_all(part, out))?;
    Ok(sweep)
}

/// Puts the parts of a divided sweep in these folders together.
#[pyfunction]
pub(crate) fn merge_sweeps(folders: Vec<PathBuf>) -> Outcome<Sweep> {
    let read = |folder: PathBuf| Ok((folder.display().to_string(), Part::read(&folder)?));
    let parts = folders.into_iter().map(read).collect::<Outcome<Vec<_>>>()?;
    let Whole { paths, outcome, .. } = sweep::merge(parts)?;
    Ok(Sweep::new(paths, outcome))
}

/// The result of a benchmark.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct Benchmark(BenchmarkResult);

#[pymethods]
impl Benchmark {
    /// One row for each run.
    fn runs(&self) -> Outcome<ArrowStream> {
        Ok(arrow::benchmark_runs(&self.0.runs)?.into())
    }

    /// The judgement in JSON.
    fn json(&self) -> PyResult<String> {
        let summary = benchmark::summary(&self.0);
        serde_json::to_string(&summary).map_err(|error| value_error(error.to_string()))
    }

    /// Writes `result.json` and `report.html` to a folder; `command` is shown on the page.
    fn write(&self, folder: PathBuf, command: String) -> Outcome<()> {
        let mut files = Files::default();
        files.add_result(&folder, &self.0)?;
        files.add_report(&folder, &html::benchmark(&benchmark::summary(&self.0), command))?;
        files.commit()?;
        Ok(())
    }
}

impl Benchmark {
    /// This result.
    pub(crate) fn new(result: BenchmarkResult) -> Self {
        Self(result)
    }
}

/// The controllers of these names, which may be among `own`; without names those that are judged by default.
pub(crate) fn judged(names: Option<&[String]>, own: &[Own]) -> PyResult<Vec<Algorithm>> {
    let find = |name: &String| {
        let known = own.iter().map(Own::algorithm).find(|own| own.name() == name);
        known.map_or_else(|| load_controller(name).map_err(value_error), Ok)
    };
    names.map_or_else(|| Ok(Plan::default_controllers()), |names| names.iter().map(find).collect())
}

/// Divides a benchmark; returns its journal in `out`, and the runs that are in the journal, as well.
pub(crate) fn begin_benchmark(
    plan: Plan,
    shard: Option<&str>,
    out: Option<&Path>,
    resume: bool,
) -> Outcome<(Plan, Option<Journal>, Vec<RunRow>)> {
    let shard: Shard = shard.map(str::parse).transpose().map_err(value_error)?.unwrap_or_default();
    let plan = Plan { shard, ..plan };
    let name = plan.identity();
    let (journal, known) = opened(out, resume, &name, |out| Journal::resume_lines(out, &name))?;
    Ok((plan, journal, known))
}

/// Judges controllers on random scenarios, or on those of recordings: a file or folder, whether the uplink counts, and the factor of rates.
#[pyfunction]
#[pyo3(signature = (seeds, scenarios, recordings, names, controllers, *, shard, jobs, out, resume, progress))]
#[expect(clippy::too_many_arguments, reason = "called by the package, which names each")]
pub(crate) fn run_benchmark(
    py: Python<'_>,
    seeds: Vec<String>,
    scenarios: u64,
    recordings: Option<(PathBuf, bool, f64)>,
    names: Option<Vec<String>>,
    controllers: Vec<Bound<'_, PyType>>,
    shard: Option<&str>,
    jobs: u16,
    out: Option<PathBuf>,
    resume: bool,
    progress: Option<Py<PyAny>>,
) -> Outcome<Benchmark> {
    let own = Own::all(&controllers)?;
    let judged = judged(names.as_deref(), &own)?;
    let plan = match recordings {
        Some((path, uplink, scale)) => {
            // A folder may hold gigabytes of them.
            let recordings = detached(
                py,
                |_, ()| Ok(()),
                |_, _| {
                    let recordings =
                        Recordings::read(&path, uplink, scale).map_err(|error| error.to_string())?;
                    Plan::of_recordings(recordings, judged).map_err(|error| error.to_string())
                },
            )?;
            recordings.map_err(value_error)?
        }
        None => Plan::new(seeds, scenarios, judged)?,
    };
    let (plan, journal, known) = begin_benchmark(plan, shard, out.as_deref(), resume)?;
    let total = plan.runs();
    let raised = Raised::default();
    let finished = detached(py, reporter(progress, known.len(), total), |interrupt, progress| {
        Parallel { jobs, journal }.run(
            &interrupt.stop,
            |_| {
                let _ = progress.send(());
            },
            |is_over, finished| {
                let is_over = || is_over() || raised.is_set();
                let simulate = |drawn: &_, controller| {
                    let watch =
                        |_| if is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
                    let mut taps = OwnTaps::new(&own, &raised);
                    on_python_thread(interrupt, || {
                        benchmark::simulate_with(drawn, controller, &mut taps, watch)
                    })
                };
                benchmark::run_with(&plan, known, simulate, is_over, finished)
            },
        )
    })?;
    raised.result()?;
    let (result, trouble) = finished?;
    trouble.map_or(Ok(()), Err)?;
    Ok(Benchmark(result))
}

/// Puts the results of all shards of a benchmark together: the texts of their files `result.json` with their names.
#[pyfunction]
pub(crate) fn merge_benchmarks(parts: Vec<(String, String)>) -> Outcome<Benchmark> {
    let read = |(name, text): (String, String)| {
        let result = serde_json::from_str(&text).map_err(|error| {
            value_error(format!(
                "{name}: it is no result of a benchmark ({error}): name a result.json of one"
            ))
        })?;
        Ok((name, result))
    };
    Ok(Benchmark(benchmark::merge(parts.into_iter().map(read).collect::<PyResult<Vec<_>>>()?)?))
}
