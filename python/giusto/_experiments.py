"""Sweeps and benchmarks."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from giusto import _giusto, _html
from giusto._arguments import checked
from giusto._controller import Controller
from giusto._engines import engine_of
from giusto._progress import Report, reporter
from giusto._record import _arrow
from giusto._scenario import Scenario, Value, _name, _setting, scenario_of

if TYPE_CHECKING:
    import pyarrow

_JOBS = 1024
# Tasks for each core of an engine, so that all cores end at about the same time; and the most runs of a task, each of which is lost
# with its worker.
_TASKS = 8
_RUNS = 50

_Document: TypeAlias = "tuple[str, str, dict[str, str]]"
_Runs: TypeAlias = "list[tuple[list[tuple[str, str]], list[int]]]"


class Sweep:
    """The result of a sweep, or of a shard of one: what `giusto.sweep` and `giusto.merge` return."""

    def __init__(self, result: _giusto.Sweep) -> None:
        self._result = result
        self._values = json.loads(result.json())

    def __reduce__(self) -> Any:
        what = "take its `flows` and `links`, or read the folder of `out` with `giusto.merge`"
        raise TypeError(f"giusto.{type(self).__name__} cannot be pickled or copied: {what}")

    @cached_property
    def flows(self) -> pyarrow.Table:
        """One row for each run and flow: the values that were set, `scenario`, `seed`, `passed`, `judged`, and statistics of the flow.

        The columns are those of ``flows.csv`` of the command.
        """
        return _arrow(self._result.flows())

    @cached_property
    def links(self) -> pyarrow.Table:
        """One row for each run and link; the columns are those of ``links.csv`` of the command."""
        return _arrow(self._result.links())

    @property
    def summary(self) -> list[dict[str, Any]]:
        """Mean over the seeds, and its 95 % confidence interval, of each flow with each combination of values."""
        summary: list[dict[str, Any]] = self._values["summary"]
        return summary

    @property
    def failed(self) -> list[dict[str, Any]]:
        """Runs that failed: `seed`, `parameters`, `why`."""
        failed: list[dict[str, Any]] = self._values["failed"]
        return failed

    @property
    def passed(self) -> bool:
        """Whether no run failed and all expectations of all runs are met."""
        return self._result.passed

    def _repr_html_(self) -> str:
        def mean(row: Mapping[str, Any], name: str) -> float | None:
            value = row.get(name)
            return value and value["mean"]

        settings = list(dict.fromkeys(name for row in self.summary for name in row["parameters"]))
        rows = [
            [
                row["flow"],
                *(str(row["parameters"].get(name, "")) for name in settings),
                str(row["runs"]),
                _html.bit_rate(mean(row, "received_rate_bps")),
                _html.share(mean(row, "loss_ratio")),
                _html.number(mean(row, "queue_delay_p95_ms"), "ms"),
            ]
            for row in self.summary
        ]
        head = ("flow", *settings, "runs", "received rate", "loss", "queueing delay p95")
        failed = f"<p>{len(self.failed)} runs failed</p>" if self.failed else ""
        return f"<p>means over the seeds</p>{_html.table(head, rows)}{failed}"

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write ``flows.csv`` and ``links.csv``, with the bytes that the command writes, and both as Parquet to a folder."""
        os.makedirs(folder, exist_ok=True)
        self._result.write(os.fspath(folder))
        self._write_parquet(folder)

    def _write_parquet(self, folder: str | os.PathLike[str]) -> None:
        _write_parquet(Path(folder), {"flows": self.flows, "links": self.links})


@checked
def sweep(
    scenario: Scenario | str | os.PathLike[str],
    set: Mapping[str, Iterable[Value | type[Controller]]] | None = None,
    seeds: Iterable[int] = range(1, 11),
    *,
    shard: str | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | Report | None = None,
    engine: object = None,
) -> Sweep:
    """Simulate a scenario with every combination of values and seeds.

    The result depends neither on the number of threads nor on the engine. Controllers in Python take turns, because of the GIL. Ctrl-C ends the sweep with `KeyboardInterrupt`; runs that
    had finished are in the journal of `out`.

    Parameters
    ----------
    scenario
        A `Scenario`, the path of a scenario file, its text (a string of several lines), or the name of a built-in scenario.
    set
        Values of each setting by its path: ``{"bottleneck.rate": ["1 Mbit/s", "5 Mbit/s"]}``. A value may be a controller, a list
        or a table, such as that of `rate_steps`. Results write it in one spelling: ``1 Mbit/s`` for ``1M`` and ``1000 kbit/s``.
    seeds
        Random seeds, each with every combination.
    shard
        One of several equal parts, such as ``"1/4"``, for several processes; needs `out`. `merge` puts the parts together.
    jobs
        Number of runs at a time on this machine, 1 to 1024. Default: one on each core.
    out
        Folder for ``flows.csv``, ``links.csv`` and ``journal.jsonl``, as the command writes them, and for ``flows.parquet`` and
        ``links.parquet``.
    resume
        Whether to continue the sweep whose journal is in `out`. A journal does not know what a controller of your own does.
    progress
        Called with the number of finished runs and that of all, after each run. True shows a bar on standard error, False nothing.
        Default: a bar if standard error is a terminal.
    engine
        What makes the runs, instead of this machine's cores: a ``dask.distributed.Client``, the module ``ray``, or a
        ``concurrent.futures.Executor``, such as ``MPIPoolExecutor`` of mpi4py. ``"dask"`` and ``"ray"`` take the running cluster, or
        start a local one. giusto must be installed on all workers, from the same sources; classes of controllers are sent to them.
        A run that is lost with its worker is made again. A task is up to 50 runs on one core.

    Raises
    ------
    ScenarioError
        A combination cannot be run.
    ValueError
        A value or a seed is given twice; `shard` is not valid; `out` holds another sweep; or a worker has another giusto.
    TypeError
        A value is of another type, or values are not in a list.
    ImportError
        The package of the engine is missing.
    Exception
        What a controller of your own, or `progress`, raised.

    Examples
    --------
    >>> rates = giusto.sweep("codel.toml", {"bottleneck.rate": ["1 Mbit/s", "5 Mbit/s"]}, seeds=range(1, 31))
    >>> rates.flows.to_pandas().groupby("bottleneck.rate").queue_delay_p95_ms.mean()

    On a cluster of Slurm:

    >>> from dask_jobqueue import SLURMCluster
    >>> client = SLURMCluster(cores=16, memory="32 GB").get_client()
    >>> rates = giusto.sweep("codel.toml", seeds=range(1, 10_001), engine=client, out="rates", resume=True)
    """
    planned = scenario_of(scenario)
    own = list(planned._controllers)
    values = [(path, [value]) for path, value in planned._settings]
    for path, given_values in (set or {}).items():
        if isinstance(given_values, (str, Mapping)) or not isinstance(given_values, Iterable):
            raise TypeError(f"{path}: expected a list of values, found {given_values!r}: put it into a list")
        values.append((path, [_setting(path, value, own) for value in given_values]))
    if shard is not None and out is None:
        raise ValueError("shard needs `out`, the folder that `merge` reads")
    given = (planned._document, values, list(seeds), list(dict.fromkeys(own)))
    threads, report, folder = _jobs(jobs, engine), reporter(progress), _folder(out, resume)
    if engine is None:
        made = _giusto.run_sweep(*given, shard=shard, jobs=threads, out=folder, resume=resume, progress=report)
    else:
        runner = engine_of(engine)
        tasks = _giusto.SweepTasks(*given, shard=shard, out=folder, resume=resume)
        size = min(max((tasks.total - tasks.done) // (runner.cores() * _TASKS), 1), _RUNS)
        common = (tasks.document, given[-1])
        _complete(tasks, runner.completed(_sweep_task, common, tasks.tasks(size)), report)
        made = tasks.finish(folder)
    result = Sweep(made)
    if out is not None:
        result._write_parquet(out)
    return result


class Benchmark:
    """The result of a benchmark, or of a shard of one: what `giusto.benchmark` and `giusto.merge` return."""

    def __init__(self, result: _giusto.Benchmark) -> None:
        self._result = result

    def __reduce__(self) -> Any:
        what = "take its `runs` or `summary`, or read the folder of `out` with `giusto.merge`"
        raise TypeError(f"giusto.{type(self).__name__} cannot be pickled or copied: {what}")

    @cached_property
    def runs(self) -> pyarrow.Table:
        """One row for each scenario and each controller, bound and constant rate; `docs/reference/benchmark.md` defines the figures."""
        return _arrow(self._result.runs())

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The judgement, as `giusto benchmark --json` prints it.

        `all` and `families` of a controller hold figures over its runs. Medians, of an even number of runs the lower one of the two in
        the middle, are `utility` and its `parts`, `utilisation_ratio`, `loss_ratio`, `freeze_ratio`, `target_octaves_per_minute`, and
        the frame and queueing delays, each a quantile within a run. `spread` has the 10th and 90th percentiles. The other figures are
        means or shares, such as `utility_mean`, by which controllers are ranked, and `missed_frames_ratio`; of `power` the mean is
        geometric.
        """
        summary: dict[str, Any] = json.loads(self._result.json())
        return summary

    def _repr_html_(self) -> str:
        figures = {row["name"]: row["all"] for row in self.summary["controllers"]}
        rows = [
            [
                name,
                str(own["runs"]),
                _html.number(own["utility_mean"]),
                _html.share(own["utilisation_ratio"]),
                _html.number(own["frame_delay_p95_ms"], "ms"),
                _html.share(own["missed_frames_ratio"]),
            ]
            for name, own in figures.items()
        ]
        head = ("controller", "runs", "utility, mean", "use", "frame delay p95", "missed frames")
        means = {name: own["utility_mean"] or 0.0 for name, own in figures.items()}
        return _html.table(head, rows) + _html.bars("utility, mean", means)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write ``result.json``, ``report.html`` and ``runs.parquet`` to a folder.

        ``result.json`` has the bytes that the command writes; `giusto merge` and `giusto.merge` read it.
        """
        os.makedirs(folder, exist_ok=True)
        self._result.write(os.fspath(folder), "giusto.benchmark")
        _write_parquet(Path(folder), {"runs": self.runs})


@checked
def benchmark(
    controllers: Sequence[str | type[Controller]] | None = None,
    scenarios: int = 92,
    *,
    seed: str | Sequence[str] = "development",
    recordings: str | os.PathLike[str] | None = None,
    uplink: bool = False,
    scale: float = 1.0,
    shard: str | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool | Report | None = None,
    engine: object = None,
) -> Benchmark:
    """Judge congestion controllers on random scenarios, or on recorded links.

    Parameters
    ----------
    controllers
        Names of built-in controllers, and controllers of your own. Default: all built-in ones but ``fixed``.
    scenarios
        Number of scenarios of each seed. The default is that of ``giusto benchmark --quick``.
    seed
        Any text, from which the scenarios follow. Several give intervals over seeds.
    recordings
        Folder of recorded links, which replace `scenarios` and `seed`; `docs/reference/benchmark.md` lists the formats.
    uplink
        Whether the uplink counts where a recording has both directions.
    scale
        Factor of the recorded rates, 10^-6 to 10^6.
    shard
        One of several equal parts, such as ``"1/4"``, for several machines; `merge` puts their results together.
    jobs, out, resume, progress, engine
        As in `sweep`. `out` holds ``result.json``, ``report.html``, ``journal.jsonl`` and ``runs.parquet``.

    Raises
    ------
    ValueError
        There is no seed, scenario or controller, or one is named twice or unknown; or `out` holds another benchmark.
    Exception
        What a controller of your own, or `progress`, raised.
    """
    own: list[type[Controller]] = []
    names = None
    if controllers is not None:
        names = [given if isinstance(given, str) else _name(given, own) for given in controllers]
    classes = list(dict.fromkeys(own))
    seeds = [seed] if isinstance(seed, str) else list(seed)
    threads, report, folder = _jobs(jobs, engine), reporter(progress), _folder(out, resume)
    if recordings is None and (uplink or scale != 1.0):
        raise ValueError("uplink and scale belong to recordings: give them")
    if not 1e-6 <= scale <= 1e6:
        raise ValueError(f"scale must be from 1e-06 to 1e+06, found {scale:g}")
    if recordings is not None and engine is not None:
        raise ValueError("recordings are judged on this machine's cores: leave out engine, and divide by shard")
    if engine is None:
        recorded = None if recordings is None else (os.fspath(recordings), uplink, float(scale))
        made = _giusto.run_benchmark(
            seeds, scenarios, recorded, names, classes, shard=shard, jobs=threads, out=folder, resume=resume, progress=report
        )
    else:
        runner = engine_of(engine)
        tasks = _giusto.BenchmarkTasks(seeds, scenarios, names, classes, shard=shard, out=folder, resume=resume)
        common = (scenarios, classes)
        _complete(tasks, runner.completed(_benchmark_task, common, tasks.tasks()), report)
        made = tasks.finish()
    result = Benchmark(made)
    if out is not None:
        result.write(out)
    return result


@checked
def merge(parts: Iterable[str | os.PathLike[str]]) -> Sweep | Benchmark:
    """Put the shards of a sweep or of a benchmark together.

    Parameters
    ----------
    parts
        Of a sweep, the folders that `sweep` with `shard`, or the command with ``--shard``, wrote. Of a benchmark, the files
        ``result.json`` that `benchmark`, or the command, wrote.

    Returns
    -------
    Sweep or Benchmark
        That of all shards, as if it had not been divided. `write` writes its files.

    Raises
    ------
    ValueError
        A part is missing, there twice, ended early, or of another sweep or benchmark. The text names it and the fix.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> for index in range(1, 5):  # each on a machine of its own
    ...     giusto.sweep("codel.toml", seeds=range(1, 1001), shard=f"{index}/4", out=f"part-{index}")
    >>> giusto.merge(["part-1", "part-2", "part-3", "part-4"]).write("whole")
    """
    paths = [Path(part) for part in parts]
    absent = next((path for path in paths if not path.exists()), None)
    if absent is not None:
        raise FileNotFoundError(f"{absent}: no such file or folder: give folders of a sweep, or files result.json of a benchmark")
    folders = [path for path in paths if path.is_dir()]
    if not folders:
        texts = [(os.fspath(path), path.read_text(encoding="utf-8")) for path in paths]
        return Benchmark(_giusto.merge_benchmarks(texts))
    other = next((path for path in paths if path not in folders), None)
    if other is not None:
        raise ValueError(
            f"{folders[0]} is a folder, as parts of a sweep are, {other} is not: merge parts of one sweep or files of one benchmark"
        )
    return Sweep(_giusto.merge_sweeps(folders))


def _sweep_task(document: _Document, controllers: list[type[Controller]], runs: _Runs) -> list[str]:
    """Make some runs of a sweep, on a worker."""
    return _giusto.sweep_task(document, controllers, runs)


def _benchmark_task(scenarios: int, controllers: list[type[Controller]], run: tuple[str, int, list[str]]) -> str:
    """Make the runs of one scenario of a benchmark, on a worker."""
    return _giusto.benchmark_task(scenarios, controllers, run)


def _complete(tasks: Any, results: Generator[Any, None, None], report: Report | None) -> None:
    """Take the results of all tasks, as they come; report each run."""
    with closing(results):
        for result in results:
            before = tasks.done
            tasks.take(result)
            for done in range(before + 1, tasks.done + 1):
                if report is not None:
                    report(done, tasks.total)


def _jobs(jobs: int | None, engine: object) -> int:
    if jobs is None:
        return 0
    if engine is not None:
        raise ValueError("jobs is of this machine's cores: leave it out, the engine has its own workers")
    if not 1 <= jobs <= _JOBS:
        raise ValueError(f"jobs must be from 1 to {_JOBS}, found {jobs}")
    return jobs


def _folder(out: str | os.PathLike[str] | None, resume: bool) -> str | None:
    if out is None:
        if resume:
            raise ValueError("resume needs `out`, the folder of the journal to continue")
        return None
    try:
        os.makedirs(out, exist_ok=True)
        # Before all runs, not after them.
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        text = f"out: {error.strerror}, choose a folder that you may write to"
        raise OSError(error.errno, text, os.fspath(out)) from None
    return os.fspath(out)


def _write_parquet(folder: Path, tables: Mapping[str, pyarrow.Table]) -> None:
    from pyarrow import parquet

    for name, table in tables.items():
        parquet.write_table(table, folder / f"{name}.parquet")
