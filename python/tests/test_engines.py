"""Sweeps and benchmarks on clusters of Dask and Ray, and on executors, give what the cores of this machine give."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import giusto

SHORT = """
duration = "1 s"
link = [{ id = "bottleneck", from = "here", to = "there", rate = "1 Mbit/s", delay = "10 ms", queue = "codel" }]
flow = [{ id = "voice", kind = "poisson", rate = "800 kbit/s", size = "500 B" }]
"""
VALUES = {"bottleneck.rate": ["1 Mbit/s", "1500 kbit/s"], "voice.rate": ["700 kbit/s", "800 kbit/s"]}


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    """A client of two workers, each a process."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """Ray with two workers."""
    module = pytest.importorskip("ray")
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield module
    module.shutdown()


@pytest.fixture(params=["dask", "ray", "threads", "processes"])
def engine(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Each engine in turn."""
    if request.param in ("dask", "ray"):
        yield request.getfixturevalue(request.param)
        return
    pool: Executor = ThreadPoolExecutor(2) if request.param == "threads" else ProcessPoolExecutor(2)
    with pool:
        yield pool


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep of 1,000 runs on the cores of this machine."""
    out = tmp_path_factory.mktemp("local")
    giusto.sweep(SHORT, VALUES, seeds=range(250), out=out)
    return out


def test_a_sweep_of_1000_runs_is_the_same_to_the_byte(engine: Any, local: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    sweep = giusto.sweep(
        SHORT, VALUES, seeds=range(250), out=tmp_path, engine=engine, progress=lambda *done: seen.append(done)
    )
    assert len(sweep.flows) == 1000 and sweep.passed
    assert seen == [(done, 1000) for done in range(1, 1001)]
    for name in ("flows.csv", "links.csv", "flows.parquet", "links.parquet"):
        assert (tmp_path / name).read_bytes() == (local / name).read_bytes(), name
    # The runs differ, so that a wrong order would show.
    assert len(set(sweep.flows["delay_mean_ms"].to_pylist())) > 900


def test_a_sweep_that_was_ended_continues_on_another_engine(engine: Any, local: Path, tmp_path: Path) -> None:
    def stop(done: int, total: int) -> None:
        if done == 300:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        giusto.sweep(SHORT, VALUES, seeds=range(250), out=tmp_path, engine=engine, progress=stop)
    seen: list[tuple[int, int]] = []
    giusto.sweep(
        SHORT, VALUES, seeds=range(250), out=tmp_path, resume=True, progress=lambda *done: seen.append(done)
    )
    assert 301 <= seen[0][0] <= 400 and seen[-1] == (1000, 1000)
    assert (tmp_path / "flows.parquet").read_bytes() == (local / "flows.parquet").read_bytes()


@pytest.fixture(scope="module")
def judged_here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a benchmark without an engine."""
    out = tmp_path_factory.mktemp("judged")
    giusto.benchmark(["gcc:libwebrtc", "fixed"], 3, seed="of a test", out=out)
    return out


def test_a_benchmark_is_the_same_to_the_byte(engine: Any, judged_here: Path, tmp_path: Path) -> None:
    giusto.benchmark(["gcc:libwebrtc", "fixed"], 3, seed="of a test", out=tmp_path, engine=engine)
    for name in ("result.json", "runs.parquet"):
        assert (tmp_path / name).read_bytes() == (judged_here / name).read_bytes()


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_a_lost_worker_costs_no_run(name: str, media: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue(name)
    fallen = tmp_path / "fallen"

    class Deadly(giusto.Controller):
        def __init__(self, limits: giusto.Limits) -> None:
            self.rate_bps = limits.start_bps / 2
            if not fallen.exists():
                fallen.touch()
                os._exit(1)

        def target(self) -> float:
            return self.rate_bps

    text = media.replace("20 s", "2 s")
    values: dict[str, list[str | type[giusto.Controller]]] = {"call.controller": [Deadly, "fixed"]}
    with pytest.MonkeyPatch.context() as patch:
        sweep = giusto.sweep(text, values, seeds=range(20), engine=engine)
        assert fallen.exists()
        patch.setattr(os, "_exit", lambda status: pytest.fail("is not called again"))
        assert sweep.flows.equals(giusto.sweep(text, values, seeds=range(20)).flows)


def test_an_exception_of_a_controller_arrives(dask: Any, ray: Any, media: str) -> None:
    class Broken(giusto.Controller):
        def target(self) -> float:
            raise ZeroDivisionError("of a controller")

    for engine in (dask, ray):
        with pytest.raises(ZeroDivisionError, match="of a controller"):
            giusto.sweep(media, {"call.controller": [Broken]}, seeds=[1, 2], engine=engine)
    with pytest.raises(ZeroDivisionError, match="of a controller"):
        giusto.benchmark([Broken], 2, engine=dask)


def test_dask_gets_what_is_common_once(dask: Any) -> None:
    class Large:
        times_sent = 0

        def __reduce__(self) -> tuple[type[str], tuple[str]]:
            Large.times_sent += 1
            return str, ("common",)

    engine = giusto._engines.engine_of(dask)
    results = engine.completed(lambda common, task: f"{common} {task}", (Large(),), range(40))
    assert sorted(results) == sorted(f"common {task}" for task in range(40))
    # An attempt may be made twice, but not one for each task.
    assert 1 <= Large.times_sent <= 3


def test_trace_files_travel_to_workers(scenarios: Path, tmp_path: Path) -> None:
    for name in ("paths/lte-trace.toml", "traces/lte/down-30kmh-6M-edge.mahimahi", "traces/lte/up-3kmh-2M-edge.mahimahi"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(scenarios / name, tmp_path / name)

    class Elsewhere(ThreadPoolExecutor):
        """Workers that do not have the files."""

        def submit(self, *given: Any, **named: Any) -> Any:
            shutil.rmtree(tmp_path)
            tmp_path.mkdir()
            return super().submit(*given, **named)

    traces = [f"../traces/lte/{name}.mahimahi" for name in ("down-30kmh-6M-edge", "up-3kmh-2M-edge")]
    values = {"duration": ["2 s"], "cell.rate.mahimahi": traces}
    expected = giusto.sweep(tmp_path / "paths" / "lte-trace.toml", values, seeds=[1, 2]).flows
    with Elsewhere(1) as pool:
        assert giusto.sweep(tmp_path / "paths" / "lte-trace.toml", values, seeds=[1, 2], engine=pool).flows.equals(expected)
    assert not list(tmp_path.iterdir())
    assert len(set(expected["received_rate_bps"].to_pylist())) >= 2


def test_engines_can_be_named(dask: Any, ray: Any) -> None:
    expected = giusto.sweep(SHORT, seeds=[1, 2]).flows
    for name in ("dask", "ray"):
        assert giusto.sweep(SHORT, seeds=[1, 2], engine=name).flows.equals(expected)


def test_wrong_engines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match='engine "slurm" is unknown: use "dask"'):
        giusto.sweep(SHORT, engine="slurm")
    with pytest.raises(TypeError, match="engine 7 is not supported: give a dask.distributed.Client"):
        giusto.sweep(SHORT, engine=7)
    with pytest.raises(ValueError, match="jobs is of this machine's cores: leave it out"):
        giusto.sweep(SHORT, jobs=2, engine="dask")
    for engine, module in (("ray", "ray"), ("dask", "distributed")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=rf"needs {module}: pip install 'giusto\[{engine}\]'"):
            giusto.benchmark(["fixed"], 1, engine=engine)


def test_another_giusto_on_a_worker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = giusto._giusto.sweep_task

    def older(*given: Any) -> list[str]:
        return [text.replace('"fingerprint":"', '"fingerprint":"0') for text in made(*given)]

    monkeypatch.setattr(giusto._giusto, "sweep_task", older)
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="install the same giusto"):
        giusto.sweep(SHORT, seeds=[1], engine=pool)


def test_progress_is_shown_on_a_terminal_only(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    giusto.sweep(SHORT, seeds=[1, 2])
    assert capsys.readouterr().err == ""
    giusto.sweep(SHORT, seeds=[1, 2], progress=True)
    shown = capsys.readouterr().err
    assert "2 of 2 runs, 0 s left" in shown and shown.endswith("\n") and "#" * 30 in shown
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    giusto.sweep(SHORT, seeds=[1])
    assert "1 of 1 runs" in capsys.readouterr().err
    giusto.sweep(SHORT, seeds=[1], progress=False)
    assert capsys.readouterr().err == ""
