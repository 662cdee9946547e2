//! Sweeps and benchmarks whose runs are made elsewhere, as tasks of an engine such as Dask or Ray.
//!
//! A task is data that Python can pickle. Its result is text, and this side puts the results together in the order of the plan.

use std::{collections::BTreeMap, ops::ControlFlow, path::PathBuf, sync::atomic::AtomicBool};

use giusto::{
    benchmark::{self, BenchmarkResult, Plan, Reference, RunRow},
    run::{
        Parallel, Shard,
        sweep::{self, Failed, Finished, Journal, Part, Planned, Seeds, Values},
    },
    scenario,
};
use pyo3::{prelude::*, types::PyType};
use serde::{Deserialize, Serialize};

use crate::{
    controller::{Own, OwnTaps, Raised},
    detached::{detached, on_python_thread},
    error::{Outcome, value_error},
    experiments::{Begun, Benchmark, Sweep, begin_benchmark, begin_sweep, judged, plan},
    scenario::Document,
    seed::Seed,
};

/// Runs of a sweep: for each combination of values its seeds.
type Runs = Vec<(Vec<(String, String)>, Vec<u64>)>;

/// A document as Python can pickle it: text, name, texts of its trace files.
type Pickled = (String, String, BTreeMap<String, String>);

/// The result of one run of a task.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Made {
    /// It finished.
    Finished(Box<Finished>),
    /// It failed.
    Failed(Failed),
}

/// Parameters and seed of a run.
type Key = (BTreeMap<String, String>, String);

/// A sweep whose runs are made elsewhere.
#[pyclass(module = "giusto._giusto")]
pub(crate) struct SweepTasks {
    document: Pickled,
    paths: Vec<String>,
    planned: Vec<Planned>,
    part: Option<Part>,
    fingerprints: BTreeMap<Key, String>,
    journal: Option<Journal>,
    known: BTreeMap<Key, Finished>,
    failed: BTreeMap<Key, Failed>,
}

#[pymethods]
impl SweepTasks {
    /// The sweep of `run_sweep` with these arguments.
    #[new]
    #[pyo3(signature = (document, values, seeds, controllers, *, shard, out, resume))]
    fn new(
        document: &Document,
        values: Vec<(String, Vec<String>)>,
        seeds: Vec<Seed>,
        controllers: Vec<Bound<'_, PyType>>,
        shard: Option<&str>,
        out: Option<PathBuf>,
        resume: bool,
    ) -> Outcome<Self> {
        let document = document.with(&Own::all(&controllers)?).keeping_traces();
        let Begun { paths, planned, part, journal, known } =
            begin_sweep(document.clone(), values, seeds, shard, out.as_deref(), resume)?;
        // The plan has read all trace files.
        let pickled = (document.text().to_owned(), document.name().to_owned(), document.kept_traces());
        let fingerprints = planned.iter().map(|run| (run.key(), run.fingerprint.clone())).collect();
        let known = known.into_iter().map(|run| ((run.parameters.clone(), run.seed.clone()), run)).collect();
        let failed = BTreeMap::new();
        Ok(Self { document: pickled, paths, planned, part, fingerprints, journal, known, failed })
    }

    /// Text and name of the scenario, and texts of its trace files.
    #[getter]
    fn document(&self) -> Pickled {
        self.document.clone()
    }

    /// Number of runs of the sweep.
    #[getter]
    fn total(&self) -> usize {
        self.planned.len()
    }

    /// Number of runs that are done.
    #[getter]
    fn done(&self) -> usize {
        self.known.len() + self.failed.len()
    }

    /// The runs that are not done, in tasks of `size` runs each.
    fn tasks(&self, size: usize) -> Vec<Runs> {
        let missing: Vec<&Planned> =
            self.planned.iter().filter(|run| !self.known.contains_key(&run.key())).collect();
        let of_one = |runs: &[&Planned]| {
            let values = |run: &Planned| {
                let value = |path: &String| Some((path.clone(), run.parameters.get(path)?.clone()));
                self.paths.iter().filter_map(value).collect()
            };
            let first = runs.first().map(|run| values(run)).unwrap_or_default();
            (first, runs.iter().map(|run| run.seed).collect())
        };
        let of_task = |runs: &[&Planned]| {
            runs.chunk_by(|a, b| a.parameters == b.parameters).map(of_one).collect::<Runs>()
        };
        missing.chunks(size.max(1)).map(of_task).collect()
    }

    /// Takes the result of a task. Runs that are done already, because a task was made twice, are left out.
    fn take(&mut self, made: Vec<String>) -> Outcome<()> {
        for text in made {
            let made: Made =
                serde_json::from_str(&text).map_err(|error| other_version(&error.to_string()))?;
            match made {
                Made::Finished(run) => {
                    let key = (run.parameters.clone(), run.seed.clone());
                    if self.fingerprints.get(&key) != Some(&run.fingerprint) {
                        return Err(other_version(&format!("run of seed {}", run.seed)).into());
                    }
                    if self.known.contains_key(&key) {
                        continue;
                    }
                    if let Some(journal) = &mut self.journal {
                        journal.append(&*run)?;
                    }
                    self.failed.remove(&key);
                    self.known.insert(key, *run);
                }
                Made::Failed(run) => {
                    let key = (run.parameters.clone(), run.seed.clone());
                    if !self.known.contains_key(&key) {
                        self.failed.insert(key, run);
                    }
                }
            }
        }
        Ok(())
    }

    /// The result, and its files in `out`.
    fn finish(&mut self, out: Option<PathBuf>) -> Outcome<Sweep> {
        self.journal.take().map_or(Ok(()), Journal::finish)?;
        let known = std::mem::take(&mut self.known).into_values().collect();
        let mut outcome = sweep::run(&self.planned, known, |_| None, |_| {});
        outcome.failed = self.planned.iter().filter_map(|run| self.failed.remove(&run.key())).collect();
        outcome.missing -= outcome.failed.len();
        let sweep = Sweep::new(self.paths.clone(), outcome);
        out.map_or(Ok(()), |out| sweep.write_all(self.part.take(), out))?;
        Ok(sweep)
    }
}

/// Makes the runs of a task of a sweep, one after the other.
#[pyfunction]
pub(crate) fn sweep_task(
    py: Python<'_>,
    document: Pickled,
    controllers: Vec<Bound<'_, PyType>>,
    runs: Runs,
) -> Outcome<Vec<String>> {
    let own = Own::all(&controllers)?;
    let (text, name, traces) = document;
    let document = scenario::Document::parse(&text, &name)?
        .with_traces(traces)
        .with_algorithms(own.iter().map(Own::algorithm).collect());
    let mut planned = Vec::new();
    for (values, seeds) in runs {
        let values = values.into_iter().map(|(path, value)| Values { path, values: vec![value] }).collect();
        planned.extend(plan(&sweep::Sweep { document: document.clone(), values, seeds: Seeds(seeds) })?);
    }
    let raised = Raised::default();
    let outcome = detached(
        py,
        |_, ()| Ok(()),
        |interrupt, _progress| {
            one_by_one(&interrupt.stop, |is_over, finished| {
                let simulate = |run: &_| {
                    let is_over = || is_over() || raised.is_set();
                    on_python_thread(interrupt, || {
                        sweep::simulate(run, &mut OwnTaps::new(&own, &raised), is_over)
                    })
                };
                sweep::run(&planned, Vec::new(), simulate, finished)
            })
        },
    )?;
    raised.result()?;
    let outcome = outcome?;
    let finished = outcome.finished.into_iter().map(|run| Made::Finished(Box::new(run)));
    let made = finished.chain(outcome.failed.into_iter().map(Made::Failed));
    let text =
        |made: Made| serde_json::to_string(&made).map_err(|error| value_error(error.to_string()).into());
    made.map(text).collect()
}

/// A benchmark whose runs are made elsewhere.
#[pyclass(module = "giusto._giusto")]
pub(crate) struct BenchmarkTasks {
    plan: Plan,
    journal: Option<Journal>,
    known: BTreeMap<(benchmark::Key, String), RunRow>,
}

#[pymethods]
impl BenchmarkTasks {
    /// The benchmark of `run_benchmark` with these arguments.
    #[new]
    #[pyo3(signature = (seeds, scenarios, names, controllers, *, shard, out, resume))]
    fn new(
        seeds: Vec<String>,
        scenarios: u64,
        names: Option<Vec<String>>,
        controllers: Vec<Bound<'_, PyType>>,
        shard: Option<&str>,
        out: Option<PathBuf>,
        resume: bool,
    ) -> Outcome<Self> {
        let own = Own::all(&controllers)?;
        let plan = Plan::new(seeds, scenarios, judged(names.as_deref(), &own)?)?;
        let (plan, journal, known) = begin_benchmark(plan, shard, out.as_deref(), resume)?;
        let known = known.into_iter().map(|row| ((row.key(), row.controller.clone()), row)).collect();
        Ok(Self { plan, journal, known })
    }

    /// Number of runs.
    #[getter]
    fn total(&self) -> usize {
        self.plan.runs()
    }

    /// Number of runs that are done.
    #[getter]
    fn done(&self) -> usize {
        self.known.len()
    }

    /// The scenarios that are not done: seed, number, and controllers and references.
    fn tasks(&self) -> Vec<(String, u64, Vec<String>)> {
        let of_scenario = |key: benchmark::Key| {
            let names = self.plan.names().into_iter();
            let missing: Vec<String> =
                names.filter(|name| !self.known.contains_key(&(key.clone(), name.clone()))).collect();
            (!missing.is_empty()).then_some((key.0, key.1, missing))
        };
        self.plan.keys().filter_map(of_scenario).collect()
    }

    /// Takes the result of a task. Runs that are done already, because a task was made twice, are left out.
    fn take(&mut self, made: &str) -> Outcome<()> {
        let made: BenchmarkResult =
            serde_json::from_str(made).map_err(|error| other_version(&error.to_string()))?;
        let ours = self.result(Vec::new());
        if (&made.giusto, &made.algorithms) != (&ours.giusto, &ours.algorithms) {
            return Err(other_version(&format!("version {}", made.giusto)).into());
        }
        for row in made.runs {
            let key = (row.key(), row.controller.clone());
            if self.known.contains_key(&key) {
                continue;
            }
            if let Some(journal) = &mut self.journal {
                journal.append(&row)?;
            }
            self.known.insert(key, row);
        }
        Ok(())
    }

    /// The result.
    fn finish(&mut self) -> Outcome<Benchmark> {
        self.journal.take().map_or(Ok(()), Journal::finish)?;
        Ok(Benchmark::new(self.result(self.known.values().cloned().collect())))
    }
}

impl BenchmarkTasks {
    fn result(&self, rows: Vec<RunRow>) -> BenchmarkResult {
        benchmark::run(&self.plan, rows, || true, |_| {})
    }
}

/// Runs one scenario of a benchmark under some controllers and references.
#[pyfunction]
pub(crate) fn benchmark_task(
    py: Python<'_>,
    scenarios: u64,
    controllers: Vec<Bound<'_, PyType>>,
    run: (String, u64, Vec<String>),
) -> Outcome<String> {
    let own = Own::all(&controllers)?;
    let (seed, number, names) = run;
    let (references, names): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| Reference::named(name).is_some());
    let plan = Plan {
        seeds: vec![seed],
        scenarios,
        recordings: None,
        controllers: judged(Some(&names), &own)?,
        references: references.iter().filter_map(|name| Reference::named(name)).collect(),
        shard: Shard { index: number + 1, count: scenarios },
    };
    let raised = Raised::default();
    let result = detached(
        py,
        |_, ()| Ok(()),
        |interrupt, _progress| {
            one_by_one(&interrupt.stop, |is_over, finished| {
                let is_over = || is_over() || raised.is_set();
                let simulate = |drawn: &_, controller| {
                    let watch =
                        |_| if is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
                    let mut taps = OwnTaps::new(&own, &raised);
                    on_python_thread(interrupt, || {
                        benchmark::simulate_with(drawn, controller, &mut taps, watch)
                    })
                };
                benchmark::run_with(&plan, Vec::new(), simulate, is_over, finished)
            })
        },
    )?;
    raised.result()?;
    serde_json::to_string(&result?).map_err(|error| value_error(error.to_string()).into())
}

/// Calls `work` on a thread of its own, without a journal: an engine gives each task one core.
fn one_by_one<T: Serialize, R: Send>(
    stop: &AtomicBool,
    work: impl FnOnce(&(dyn Fn() -> bool + Sync), &mut (dyn FnMut(&T) + Send)) -> R + Send,
) -> Outcome<R> {
    let (result, trouble) = Parallel { jobs: 1, journal: None }.run(stop, |_| {}, work)?;
    trouble.map_or(Ok(()), Err)?;
    Ok(result)
}

/// A result that this version did not ask for.
fn other_version(what: &str) -> PyErr {
    let ours = env!("CARGO_PKG_VERSION");
    value_error(format!(
        "a worker returned another result than that of giusto {ours} here ({what}): install the same giusto, built from the same \
         sources, on all workers"
    ))
}
