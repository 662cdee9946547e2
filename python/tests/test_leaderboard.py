"""A leaderboard takes rows of comparable benchmarks, and no others."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

import giusto
from giusto.gym import FEATURES, EstimatorController, PolicyController

SEEDS = ["of a test", "of another"]
RECEIVED = FEATURES.index("received_rate")


class Constant(giusto.Controller):
    """A constant rate."""

    def __init__(self, limits: giusto.Limits) -> None:
        self.limits = limits

    def target(self) -> float:
        return float(self.limits.start_bps)


class Estimator:
    """A constant estimate."""

    def report_states(self, stats: dict[str, int]) -> None:
        pass

    def get_estimated_bandwidth(self) -> int:
        return 200_000


@pytest.fixture(scope="module")
def of_python() -> giusto.Benchmark:
    """Return a benchmark of a controller, a policy and an estimator in Python."""
    policy = PolicyController(lambda seen: seen[RECEIVED] - 0.02, name="mine")
    return giusto.benchmark([Constant, policy, EstimatorController(Estimator, name="constant")], 2, seed=SEEDS)


def test_controllers_in_python_have_rows_beside_built_in_ones(tmp_path: Path, of_python: giusto.Benchmark) -> None:
    path = tmp_path / "board.json"
    board = giusto.Leaderboard(path)
    assert "no controllers yet" in str(board) and board.rows.num_rows == 0
    board.add(of_python)
    board.add(giusto.benchmark(["gcc:libwebrtc"], 2, seed=SEEDS))
    board.summary["controllers"].clear()
    assert board.rows.num_rows == 12
    # The rows are those of one benchmark of both.
    names = {"Constant", "mine", "constant", "gcc:libwebrtc"}
    rows = giusto.Leaderboard(path).rows.to_pandas()
    assert len(rows) == len(names) * 3 and set(rows.controller) == names and set(rows.family) == {"all", "static", "step-up"}
    by_runs = of_python.runs.to_pandas().query("controller == 'mine'")
    mine = rows.query("controller == 'mine'").set_index("family")
    assert mine.utility_mean["all"] == pytest.approx(by_runs.utility.mean())
    static = by_runs.query("family == 'static'").utility
    assert mine.utility_mean["static"] == pytest.approx(static.mean()) and mine.runs["static"] == 2
    # Student's t with one degree of freedom, over the means of the two seeds.
    half = 12.706 * static.std() / 2**0.5
    assert mine.utility_mean_high["static"] - mine.utility_mean["static"] == pytest.approx(half, rel=1e-3)
    best = rows.query("family == 'all'").utility_mean.to_list()
    assert best == sorted(best, reverse=True) and best[0] > best[-1]
    text, html = str(giusto.Leaderboard(path)), giusto.Leaderboard(path)._repr_html_()
    for name in names:
        assert f"\n{name} " in text and html.count(f">{name}</td>") == 1
    assert "seeds of a test, of another" in text and "static</th>" in html and " ± " in html


def test_a_leaderboard_refuses_what_is_not_comparable(tmp_path: Path, of_python: giusto.Benchmark) -> None:
    path = tmp_path / "board.json"
    board = giusto.Leaderboard(path)
    board.add(of_python)
    before = path.read_bytes()
    # The same figures again change nothing.
    board.add(of_python)
    assert path.read_bytes() == before
    for wrong, text in (
        (giusto.benchmark(["fixed"], 2, seed="of a test"), r"board\.json has seeds \['of a test', 'of another'\], the benchmark \['of a test'\]"),
        (giusto.benchmark(["fixed"], 1, seed=SEEDS), r"has scenarios 2, the benchmark 1: use another file"),
    ):
        with pytest.raises(ValueError, match=text):
            board.add(wrong)

    policy = PolicyController(lambda seen: seen[RECEIVED] - 0.5, name="mine")
    other = giusto.benchmark([policy], 2, seed=SEEDS)
    with pytest.raises(ValueError, match="has other figures of 'mine': give it another name, or replace=True"):
        board.add(other)
    for key, value, text in (("version", "2", "has version '2', the benchmark '"), ("references", {"bound:causal": 0.5}, "the simulator has changed")):
        changed = json.loads(before)
        changed[key] = value
        path.write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=text):
            giusto.Leaderboard(path).add(other)
    assert json.loads(path.read_text())["controllers"].keys() == {"Constant", "mine", "constant"}
    path.write_bytes(before)
    board.add(other, replace=True)
    low = board.summary["controllers"]["mine"]["all"]["utility_mean"]
    assert low < json.loads(before)["controllers"]["mine"]["all"]["utility_mean"]

    path.write_text("[]")
    with pytest.raises(ValueError, match="board.json is no leaderboard"):
        giusto.Leaderboard(path)
    path.write_text("controller,utility")
    with pytest.raises(ValueError, match="board.json is no leaderboard"):
        giusto.Leaderboard(path)
    part = giusto.benchmark(["fixed"], 2, seed="of a test", shard="1/2", out=tmp_path / "part")
    with pytest.raises(ValueError, match="7?[0-9]+ runs are missing: merge all shards first"):
        giusto.Leaderboard(tmp_path / "none.json").add(part)
    assert not (tmp_path / "none.json").exists()


def _add(path: Path, name: str) -> None:
    """Add a controller to a leaderboard, in a process of its own."""
    board = giusto.Leaderboard(path)
    judged = giusto.benchmark([type(name, (Constant,), {})], 1, seed="of a test")
    for _ in range(20):
        board.add(judged)


def test_rows_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    one, other = giusto.Leaderboard(path), giusto.Leaderboard(path)
    one.add(giusto.benchmark(["fixed"], 1, seed="of a test"))
    other.add(giusto.benchmark(["tempo"], 1, seed="of a test"))
    assert set(giusto.Leaderboard(path).summary["controllers"]) == set(other.summary["controllers"]) == {"fixed", "tempo"}
    assert set(one.summary["controllers"]) == {"fixed"}
    # Of several processes at a time, none loses what another writes.
    context = multiprocessing.get_context("spawn")
    names = [f"Own{number}" for number in range(4)]
    processes = [context.Process(target=_add, args=(path, name)) for name in names]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    assert set(giusto.Leaderboard(path).summary["controllers"]) == {"fixed", "tempo", *names}
    assert [own.name for own in tmp_path.iterdir()] == ["board.json"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    judged = giusto.benchmark(["fixed"], 1, seed="of a test")
    with pytest.raises(FileNotFoundError, match=r"nope/x.json: there is no folder .*nope: make it first$"):
        giusto.Leaderboard(tmp_path / "nope" / "x.json").add(judged)
    with pytest.raises(TypeError, match=r"expected a benchmark, as giusto.benchmark or giusto.merge returns it, found 'x'"):
        giusto.Leaderboard(tmp_path / "x.json").add("x")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="^nope: no such file or folder: give folders of a sweep"):
        giusto.merge(["nope"])
