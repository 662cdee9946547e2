"""Sweeps and benchmarks are those of the command."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
import pytest
from conftest import command
from pyarrow import parquet

import giusto

VALUES = {"bottleneck.rate": ["1 Mbit/s", "3 Mbit/s"], "call.video.frame-rate": [15, 30]}


def test_a_sweep_has_the_bytes_of_the_command(media: str, tmp_path: Path) -> None:
    path = tmp_path / "call.toml"
    path.write_text(media.replace("20 s", "5 s"))
    sets = ["--set", "bottleneck.rate=1 Mbit/s,3 Mbit/s", "--set", "call.video.frame-rate=15,30"]
    command("sweep", path, *sets, "--seeds", "1..2", "--out", tmp_path / "command")
    seen: list[tuple[int, int]] = []
    tables = []
    for jobs in (1, 2):
        out = tmp_path / f"python-{jobs}"
        sweep = giusto.sweep(path, VALUES, seeds=[1, 2], jobs=jobs, out=out, progress=lambda *done: seen.append(done))
        tables.append(sweep.flows)
        for name in ("flows.csv", "links.csv"):
            assert (out / name).read_bytes() == (tmp_path / "command" / name).read_bytes()
        assert parquet.read_table(out / "flows.parquet").equals(sweep.flows)
        assert parquet.read_table(out / "links.parquet").equals(sweep.links)
    assert seen == [(done, 8) for done in range(1, 9)] * 2
    assert tables[0].equals(tables[1])
    assert (tmp_path / "python-1/flows.parquet").read_bytes() == (tmp_path / "python-2/flows.parquet").read_bytes()
    flows = tables[0].to_pandas()
    assert flows["seed"].tolist() == [1, 2] * 4
    assert flows["bottleneck.rate"].unique().tolist() == VALUES["bottleneck.rate"]
    assert flows.groupby("bottleneck.rate").received_rate_bps.max()["1 Mbit/s"] <= 1e6
    assert sweep.passed and not sweep.failed
    summary = sweep.summary[0]
    assert summary["runs"] == 2
    assert summary["received_rate_bps"]["mean"] == pytest.approx(flows.received_rate_bps[:2].mean())


def test_a_sweep_continues_where_it_ended(media: str, tmp_path: Path) -> None:
    text = media.replace("20 s", "5 s")
    whole = giusto.sweep(text, seeds=range(1, 5))

    def stop(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        giusto.sweep(text, seeds=[1, 2], jobs=1, out=tmp_path, progress=stop)
    with pytest.raises(ValueError, match="runs are kept here"):
        giusto.sweep(text, seeds=[1, 2], out=tmp_path)
    assert len(giusto.sweep(text, seeds=[1, 2], out=tmp_path, resume=True).flows) == 2
    seen: list[tuple[int, int]] = []
    rest = giusto.sweep(
        text, seeds=range(1, 5), out=tmp_path, resume=True, progress=lambda *done: seen.append(done)
    )
    assert rest.flows.equals(whole.flows)
    assert seen == [(3, 4), (4, 4)]
    with pytest.raises(ValueError, match="scenario as it was"):
        giusto.sweep(text.replace("25 ms", "30 ms"), seeds=range(1, 5), out=tmp_path, resume=True)


def test_wrong_sweeps_are_refused(media: str) -> None:
    with pytest.raises(ValueError, match="seeds: 1 is given twice: leave one out"):
        giusto.sweep(media, seeds=[1, 1])
    with pytest.raises(giusto.ScenarioError, match="bottleneck.rate=slow"):
        giusto.sweep(media, {"bottleneck.rate": ["slow"]})
    with pytest.raises(TypeError, match="bottleneck.rate: expected a list of values, found '1 Mbit/s': put it into a list"):
        giusto.sweep(media, {"bottleneck.rate": "1 Mbit/s"})
    with pytest.raises(ValueError, match="bottleneck.rate: no value, so no run: give at least one"):
        giusto.sweep(media, {"bottleneck.rate": []})
    with pytest.raises(ValueError, match="seeds: none, so no run"):
        giusto.sweep(media, seeds=[])
    with pytest.raises(ValueError, match="jobs must be from 1 to 1024, found 0"):
        giusto.sweep(media, jobs=0)
    with pytest.raises(ValueError, match="resume needs `out`"):
        giusto.sweep(media, resume=True)


def test_a_scenario_with_settings_can_be_swept(media: str) -> None:
    scenario = giusto.Scenario.parse(media).with_settings({"duration": "4 s"})
    sweep = giusto.sweep(scenario, {"bottleneck.rate": ["1 Mbit/s"]}, seeds=[5])
    assert sweep.flows["seed"].to_pylist() == [5]
    assert sweep.flows.equals(giusto.sweep(scenario, {"bottleneck.rate": ["1 Mbit/s"]}, seeds=[5]).flows)
    assert sweep.flows["duration"].to_pylist() == ["4 s"]


def test_shards_of_a_sweep_have_the_bytes_of_the_whole(media: str, tmp_path: Path) -> None:
    path = tmp_path / "call.toml"
    path.write_text(media.replace("20 s", "5 s"))
    steps = giusto.rate_steps([0, 2], [2e6, 1e6])
    values = {"bottleneck.rate": ["3 Mbit/s", steps]}
    whole = giusto.sweep(path, values, seeds=range(1, 4), out=tmp_path / "whole")
    text = whole.flows["bottleneck.rate"].to_pylist()[-1]
    parts = [tmp_path / f"part-{index}" for index in range(1, 4)]
    seen: list[tuple[int, int]] = []
    giusto.sweep(path, values, range(1, 4), shard="1/3", out=parts[0], progress=lambda *done: seen.append(done))
    assert seen == [(1, 2), (2, 2)]
    with ThreadPoolExecutor(2) as engine:
        second = giusto.sweep(path, values, range(1, 4), shard="2/3", out=parts[1], engine=engine)
    assert second.flows["seed"].to_pylist() == [2, 2]
    sets = ["--set", f"bottleneck.rate=3 Mbit/s,{text}"]
    command("sweep", path, *sets, "--seeds", "1..3", "--shard", "3/3", "--out", parts[2])

    merged = giusto.merge(reversed(parts))
    assert isinstance(merged, giusto.Sweep)
    assert merged.flows.equals(whole.flows) and merged.links.equals(whole.links)
    assert merged.summary == whole.summary and merged.passed
    merged.write(tmp_path / "merged")
    command("merge", *parts, "--out", tmp_path / "by-command")
    for name in ("flows.csv", "links.csv"):
        expected = (tmp_path / "whole" / name).read_bytes()
        assert (tmp_path / "merged" / name).read_bytes() == expected
        assert (tmp_path / "by-command" / name).read_bytes() == expected
    assert parquet.read_table(tmp_path / "merged/flows.parquet").equals(whole.flows)

    with pytest.raises(ValueError, match="1 of 3 shards are missing, the first is 3/3"):
        giusto.merge(parts[:2])
    with pytest.raises(ValueError, match="shard 1/3 is in .* too: name each part once"):
        giusto.merge([parts[0], parts[0]])
    with pytest.raises(ValueError, match=r"whole: it has no part\.json"):
        giusto.merge([parts[0], tmp_path / "whole"])
    with pytest.raises(ValueError, match="is a folder, as parts of a sweep are"):
        giusto.merge([parts[0], path])
    other = tmp_path / "other"
    giusto.sweep(path, values, range(1, 5), shard="3/3", out=other)
    with pytest.raises(ValueError, match="other: its list of seeds is 1..4, that of .* 1..3: merge parts of one sweep"):
        giusto.merge([*parts[:2], other])
    with pytest.raises(ValueError, match="shard needs `out`"):
        giusto.sweep(path, shard="1/3")
    with pytest.raises(ValueError, match='"4/3" is not a shard'):
        giusto.sweep(path, shard="4/3", out=tmp_path / "none")


def test_shards_of_a_benchmark_have_the_bytes_of_the_command(tmp_path: Path) -> None:
    judged = ["gcc:libwebrtc", "fixed"]
    options = ["--seed", "of a test", "--scenarios", "4", "--controller", ",".join(judged)]
    command("benchmark", *options, "--out", tmp_path / "whole")
    parts = []
    for index in (1, 2):
        out = tmp_path / f"part-{index}"
        giusto.benchmark(judged, 4, seed="of a test", shard=f"{index}/2", out=out)
        parts.append(out / "result.json")
    merged = giusto.merge(parts)
    assert isinstance(merged, giusto.Benchmark)
    merged.write(tmp_path / "merged")
    expected = (tmp_path / "whole" / "result.json").read_bytes()
    assert (tmp_path / "merged" / "result.json").read_bytes() == expected
    command("merge", *parts, "--out", tmp_path / "by-command")
    assert (tmp_path / "by-command" / "result.json").read_bytes() == expected

    runs = json.loads(expected)["runs"]
    references = ["bound:causal", "bound:oracle", "fixed:10%", "fixed:30%", "fixed:60%"]
    assert len(merged.runs) == len(runs) == 4 * len(judged + references)
    assert merged.runs["utility"].to_pylist() == [run["utility"]["total"] for run in runs]
    assert merged.runs["controller"].to_pylist() == (judged + references) * 4
    assert {own["name"] for own in merged.summary["controllers"]} == set(judged)
    assert isinstance(merged.runs, pyarrow.Table)
    with pytest.raises(ValueError, match="14 of 28 runs are missing"):
        giusto.merge(parts[:1])


def test_several_seeds_of_a_benchmark_give_intervals() -> None:
    result = giusto.benchmark(["fixed"], 1, seed=["x", "y"])
    assert result.runs["seed"].to_pylist() == ["x"] * 6 + ["y"] * 6
    over = result.summary["controllers"][0]["all"]["over_seeds"]
    low, high = over["utility_mean"]
    assert over["seeds"] == 2 and low < result.summary["controllers"][0]["all"]["utility_mean"] < high
    with ThreadPoolExecutor(2) as pool:
        made = giusto.benchmark(["fixed"], 1, seed=["x", "y"], engine=pool)
    assert made.runs.equals(result.runs)
    with pytest.raises(ValueError, match="commas separate seeds"):
        giusto.benchmark(["fixed"], 1, seed="x,y")


def test_a_controller_in_python_is_judged() -> None:
    class Constant(giusto.Controller):
        def target(self) -> float:
            return 400_000

    result = giusto.benchmark([Constant, "fixed"], scenarios=3, seed="of a test")
    own = result.runs.filter(pyarrow.compute.equal(result.runs["controller"], "Constant"))
    assert len(own) == 3
    assert all(0 < ratio < 1.2 for ratio in own["utilisation_ratio"].to_pylist())
    with pytest.raises(ValueError, match='unknown controller "nobody"'):
        giusto.benchmark(["nobody"], scenarios=1)
    with pytest.raises(ValueError, match="is named twice"):
        giusto.benchmark(["fixed", "fixed"], scenarios=1)


def test_recorded_links_are_those_of_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / "train.csv").write_text("time_s,rate_kbps\n0,900\n4,2500\n9,700\n17,1200\n24,1200\n")
    controllers = ["fixed", "gcc:libwebrtc"]
    judged = giusto.benchmark(controllers, recordings=folder, scale=0.5, out=tmp_path / "own", progress=False)
    words = ["benchmark", "--recordings", folder, "--scale", "0.5", "--controller", ",".join(controllers)]
    command(*words, "--out", tmp_path / "command")
    own, other = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("own", "command"))
    assert own == other and judged.runs.num_rows > 12
    for wrong, text in (
        ({"scale": 2.0}, "belong to recordings"),
        ({"recordings": folder, "scale": 0.0}, "scale must be from"),
        ({"recordings": tmp_path / "none"}, "none"),
        ({"recordings": folder, "engine": "dask"}, "leave out engine"),
    ):
        with pytest.raises(ValueError, match=text):
            giusto.benchmark(controllers, progress=False, **wrong)  # type: ignore[arg-type]
