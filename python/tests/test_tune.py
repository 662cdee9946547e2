"""Tuning finds what is there to find, and calls noise noise."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from conftest import command

import giusto
from giusto import _giusto, _tune_verdict

optuna = pytest.importorskip("optuna")

# The start rate is that of the link: of `fixed`, a share of 0.96 fills it, since headers of the link are beyond the target.
LINK = """
duration = "20 s"

[[link]]
id = "bottleneck"
from = "camera"
to = "viewer"
rate = "1 Mbit/s"
delay = "25 ms"
queue = { kind = "drop-tail", limit = "300 ms" }
reverse = { rate = "unlimited", delay = "25 ms" }

[[flow]]
id = "call"
kind = "media"
from = "camera"
to = "viewer"
controller = "fixed"
start-rate = "1 Mbit/s"
max-rate = "4 Mbit/s"
video = { model = "statistical", min = "50 kbit/s", max = "4 Mbit/s" }
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> giusto.Tuning:
    """The tuning of a constant rate on one link."""
    out = tmp_path_factory.mktemp("tuned")
    return giusto.tune("fixed+share=0.3", {"share": (0.1, 2)}, LINK, trials=24, out=out)


def utility(share: float) -> float:
    """The mean utility of a share of the link, without the code of tuning."""
    document = _giusto.Document(LINK, "link.toml").pickled([])
    runs = [json.loads(_giusto.judge((document, seed, None), [f"fixed+share={share}"])[0]) for seed in range(1, 5)]
    return sum(run["utility"]["total"] for run in runs) / len(runs)


def test_the_optimum_of_a_known_curve_is_found(found: giusto.Tuning) -> None:
    grid = {share / 100: utility(share / 100) for share in range(10, 130, 5)}
    best = max(grid, key=lambda share: grid[share])
    assert grid[0.3] < grid[best] > grid[1.25]
    share = found.constants["share"]
    assert abs(share - best) < 0.12, (share, best)
    assert found.controller == f"fixed+share={share:g}" and found.default == "fixed+share=0.3"
    before, after = found.development
    assert before == pytest.approx(utility(0.3)) and after == pytest.approx(utility(share))
    assert after > grid[best] - 0.02
    mean, low, high = found.difference
    assert found.is_better and low is not None and high is not None and 0 < low < mean < high
    assert mean == pytest.approx(found.validation[1] - found.validation[0])
    assert found.verdict.startswith(f"better than the default: utility +{mean:.4f} (95 % interval +{low:.4f} to +{high:.4f}) on 12 fresh runs of the same scenarios; ")


def test_trials_that_do_badly_end_early(found: giusto.Tuning) -> None:
    trials = found.trials.to_pylist()
    assert [trial["number"] for trial in trials] == list(range(24))
    assert trials[0]["share"] == 0.3 and trials[0]["value"] == found.development[0] and trials[0]["state"] == "complete"
    pruned = [trial for trial in trials if trial["state"] == "pruned"]
    assert pruned and all(trial["scenarios"] < 4 for trial in pruned)
    whole = [trial for trial in trials if trial["state"] == "complete"]
    assert all(trial["scenarios"] == 4 for trial in whole)
    assert max(trial["value"] for trial in whole) == found.development[1]
    assert isinstance(found.trials, pyarrow.Table) and len(found.study.trials) == 24


def test_the_file_is_taken_by_the_commands_and_changes_the_run(found: giusto.Tuning, tmp_path: Path) -> None:
    found.write(tmp_path)
    path = tmp_path / "tuned.toml"
    text = path.read_text()
    assert text == found.toml() and text.startswith("# giusto tune fixed+share=0.3: better than the default: utility +0.")
    assert "24 trials" in text and "\nalgorithm = \"fixed\"\n" in text and "# before 0.3;" in text
    assert (tmp_path / "trials.csv").read_text().startswith('"number","state","scenarios","value","share"\n')
    scenario = tmp_path / "link.toml"
    scenario.write_text(LINK)
    flows = [
        json.loads(command("sim", scenario, "--json", *more))["flows"][0] for more in ([], ["--controller", path])
    ]
    assert flows[1]["controller"] == found.controller
    assert flows[1]["sent_rate_bps"] == pytest.approx(found.constants["share"] * flows[0]["sent_rate_bps"], rel=0.1)
    judged = json.loads(command("benchmark", "--scenarios", "1", "--controller", f"fixed,{path}", "--json"))
    assert [own["name"] for own in judged["controllers"]] == ["fixed", found.controller]
    # In Python, a file is a controller wherever a name is.
    run = giusto.run(LINK, set={"call.controller": str(path)}, timeline=False)
    assert run.flow("call").sent_rate_bps == flows[1]["sent_rate_bps"]
    names = giusto.benchmark(["fixed", str(path)], 1).runs.column("controller").to_pylist()
    assert names[:2] == ["fixed", found.controller]
    assert giusto.constants(str(path))["share"].value == found.constants["share"]
    control = giusto.RateControl(str(path), min_bps=1e5, start_bps=1e6, max_bps=2e6)
    assert control.target.media_bps == pytest.approx(1e6 * found.constants["share"], rel=1e-6)


def test_noise_is_called_noise() -> None:
    # Nobody shares the link and no frame waits: the constant has no effect but that of chance on the last digits.
    tuned = giusto.tune("nada", {"beta-sending": (0.09, 0.11)}, 6, trials=6, validation=12, sampler="random")
    mean, low, high = tuned.difference
    if tuned.controller == tuned.default:
        assert tuned.verdict == "no trial was better than the default" and not tuned.constants
    else:
        assert low is not None and high is not None and low <= mean <= high
        assert tuned.verdict.startswith("no better than the default beyond noise: utility ") and low <= 0 <= high
    assert not tuned.is_better


@pytest.mark.parametrize(
    ("differences", "more", "begins", "is_better"),
    [
        ([0.03, 0.01, 0.02, 0.026], True, "better than the default: x +0.0215 (95 % interval +0.0077 to +0.0353)", True),
        ([0.03, -0.02, 0.02, -0.01], True, "no better than the default beyond noise: x +0.0050 (95 % interval −0.0329 to +0.0429)", False),
        ([-0.03, -0.01, -0.02, -0.026], True, "worse than the default: x −0.0215 ", False),
        ([-30.0, -10.0, -20.0, -26.0], False, "better than the default: x −21.5 (95 % interval −35.3 to −7.7)", True),
        ([30.0, 10.0, 20.0, 26.0], False, "worse than the default: x +21.5 ", False),
        ([0.5], True, "one scenario says nothing of noise: x +0.5000", False),
    ],
)
def test_the_verdict_follows_the_interval(differences: list[float], more: bool, begins: str, is_better: bool) -> None:
    # Intervals by hand: mean ± 3.182 s / √4.
    difference = _giusto.interval(differences)
    assert difference is not None
    metric = _tune_verdict._Metric("x")
    metric.more = more
    judged = _tune_verdict._Judgement((0, 1), (0, 1), difference, metric, len(differences), True)
    assert judged.verdict.startswith(begins) and judged.is_better is is_better, judged.verdict


def test_a_small_difference_has_digits() -> None:
    metric = _tune_verdict._Metric("loss_ratio")
    judged = _tune_verdict._Judgement((5e-5, 2e-5), (5e-5, 3e-5), (-2e-5, -3e-5, -1e-5), metric, 40, True)
    assert judged.verdict == (
        "better than the default: loss_ratio −0.0000200 (95 % interval −0.0000300 to −0.0000100) "
        "on 40 fresh scenarios; −0.0000300 on those of development"
    )


def test_the_interval_holds_the_truth_in_95_of_100_cases() -> None:
    numpy = pytest.importorskip("numpy")
    draw = numpy.random.default_rng(7)
    held = 0
    for _ in range(2000):
        found = _giusto.interval(list(draw.laplace(0.1, 1.0, 40)))
        assert found is not None and found[1] is not None and found[2] is not None
        held += found[1] <= 0.1 <= found[2]
    assert 0.935 <= held / 2000 <= 0.965


def test_scenarios_without_chance_validate_nothing() -> None:
    still = LINK.replace('model = "statistical", min', 'model = "perfect", min')
    tuned = giusto.tune("fixed+share=0.3", {"share": (0.2, 1)}, still, trials=4)
    assert tuned.verdict.startswith("not validated: utility +") and "another seed changes nothing" in tuned.verdict
    assert not tuned.is_better
    # Each of other scenarios counts once, whatever its seeds are.
    others = [still.replace("1 Mbit/s\"\ndelay", f"{rate} Mbit/s\"\ndelay") for rate in (0.8, 0.9, 1.1)]
    tuned = giusto.tune("fixed+share=0.3", {"share": (0.2, 1)}, still, validation=others, trials=4)
    assert "on 3 fresh scenarios" in tuned.verdict


def test_runs_that_repeat_those_of_development_do_not_count_as_fresh() -> None:
    still = LINK.replace('model = "statistical", min', 'model = "perfect", min')
    # Of this one the video never needs the share that is sought.
    drawn = LINK.replace('max = "4 Mbit/s" }', 'max = "60 kbit/s" }')
    tuned = giusto.tune("fixed+share=0.3", {"share": (0.25, 0.6)}, [still, drawn], trials=8)
    assert tuned.development[1] > tuned.development[0] + 0.1
    # The gain is that of development: on what is fresh there is none.
    assert tuned.difference == (0.0, 0.0, 0.0) and not tuned.is_better
    assert "on 12 fresh runs of the same scenarios; +0." in tuned.verdict
    assert tuned.verdict.endswith("; without scenario, where another seed changes nothing")
    # A copy with another text is no further sample.
    copies = [LINK + "# copy" * number for number in range(3)]
    tuned = giusto.tune("fixed+share=0.3", {"share": (0.25, 0.6)}, LINK, validation=copies, trials=4)
    assert "on 4 fresh runs of the same scenarios" in tuned.verdict
    # Seeds of one other scenario are runs of it, not scenarios.
    tuned = giusto.tune("fixed+share=0.3", {"share": (0.25, 0.6)}, LINK, validation=[LINK.replace("25 ms", "35 ms")], trials=4)
    assert "on 4 fresh runs of one scenario" in tuned.verdict


def test_the_result_depends_on_neither_threads_nor_engine() -> None:
    given: dict[str, Any] = {"constants": ["kappa", "tau"], "scenarios": 3, "validation": 3, "trials": 5}
    one = giusto.tune("nada", **given, jobs=1)
    seen: list[tuple[int, int]] = []
    several = giusto.tune("nada", **given, jobs=3, progress=lambda *done: seen.append(done))
    assert several.toml() == one.toml() and several.trials.equals(one.trials)
    assert seen[-1] == (5 * 3 + 2 * 3, 5 * 3 + 2 * 3) and seen == sorted(set(seen))
    distributed = pytest.importorskip("distributed")
    with distributed.Client(n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None) as client:
        assert giusto.tune("nada", **given, engine=client).toml() == one.toml()
    # Values of a file of constants are where the search begins, and stay if they are not sought.
    base = giusto.tune("nada+eta=1.5", ["kappa"], 2, validation=2, trials=2)
    assert base.toml().count("eta = 1.5") == 1 and set(base.constants) <= {"kappa"}


def test_other_figures_and_functions_are_metrics() -> None:
    given: dict[str, Any] = {"constants": {"delay-target": (10, 300)}, "scenarios": LINK, "trials": 12}
    delay = giusto.tune("scream:v2", **given, metric="queue_delay_p95_ms")
    use = giusto.tune("scream:v2", **given, metric="utilisation_ratio")
    assert delay.constants["delay-target"] < 40 < use.constants["delay-target"]
    assert delay.difference[0] < 0 < use.difference[0]

    def taste(run: Any) -> float:
        return float(run["utilisation_ratio"] - run["queue_delay_p95_ms"] / 1000)

    tuned = giusto.tune("scream:v2", **given, metric=taste, sampler="cma-es", pruner="hyperband")
    assert "taste +" in tuned.verdict or tuned.controller == "scream:v2"
    assert tuned.development[1] >= tuned.development[0]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"controller": "nata"}, 'unknown controller "nata": did you mean "nada"'),
        ({"controller": "gcc:thesis"}, "gcc:thesis has no constants"),
        ({"constants": ["kapa"]}, 'nada has no constant "kapa": did you mean "kappa"?'),
        ({"constants": ["zzz"]}, 'nada has no constant "zzz": known are reference-signal, kappa'),
        ({"constants": ["kappa", "kappa", "gamma_max", "gamma-max"]}, "gamma-max is given twice"),
        ({"constants": {"kappa": (0.1, 9)}}, "kappa: the range must be within 0.02 to 2, the first below the second, found 0.1 to 9"),
        ({"constants": {"tau": (300, 200)}}, "tau: the range must be within 100 to 2000 ms"),
        ({"constants": []}, "the list is empty"),
        ({"metric": "utilty"}, 'metric "utilty" is unknown: use one of utility, utility_rate'),
        ({"metric": "jain"}, "metric jain: none of the first"),
        ({"sampler": "tpee"}, 'sampler "tpee" is unknown'),
        ({"pruner": "mean"}, 'pruner "mean" is unknown'),
        ({"validation_seed": "development"}, "validation_seed must differ from seed"),
        ({"validation_seed": " "}, "the seed is empty"),
        ({"scenarios": LINK, "seed": "mine"}, "seed is of random scenarios: leave it out, scenarios of your own are run with fixed seeds"),
        ({"scenarios": LINK, "validation_seed": "mine"}, "validation_seed is of random scenarios: leave it out"),
        ({"validation": LINK, "validation_seed": "mine"}, "validation_seed is of random scenarios: leave it out"),
        ({"trials": 1}, "trials must be from 2"),
        ({"scenarios": 0}, "the number of scenarios must be from 1"),
        ({"scenarios": []}, "the list is empty"),
        ({"flow": "call"}, "flow is of scenarios of your own"),
        ({"scenarios": LINK, "flow": "nobody"}, 'no media flow is called "nobody"'),
        ({"scenarios": LINK.replace("bottleneck", "wire")}, 'no link is called "bottleneck"'),
        ({"scenarios": LINK.replace("20 s", "8 s")}, "a judgement takes at least 10 s"),
        ({"jobs": 0}, "jobs must be from 1"),
        ({"scenarios": [LINK, LINK]}, 'scenarios: "scenario" is given twice: leave one out'),
        ({"validation": [LINK, LINK]}, 'validation: "scenario" is given twice: leave one out'),
        ({"metric": "frames"}, 'metric "frames" counts the frames that were due'),
        ({"metric": lambda _: 10**400}, "metric <lambda>: expected a finite number, found 1000"),
    ],
)
def test_what_cannot_be_tuned_is_refused_with_the_fix(more: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"controller": "nada", "constants": ["kappa"], "scenarios": 1, "trials": 2, **more}
    with pytest.raises(ValueError) as raised:
        giusto.tune(**given)
    assert message in str(raised.value)


def test_a_folder_that_nothing_can_be_written_to_is_refused_before_all_runs() -> None:
    runs: list[int] = []
    # Nobody can make files there.
    with pytest.raises(OSError, match="out: .*, choose a folder that you may write to: '/proc/self'"):
        giusto.tune("nada", ["kappa"], 1, trials=2, out="/proc/self", progress=lambda done, _: runs.append(done))
    assert not runs


def test_the_command_tunes_and_prints_the_verdict(tmp_path: Path) -> None:
    listed = command("tune", "nada", "--list")
    assert "kappa" in listed and "0.02 to 2" in listed
    out = tmp_path / "tuned"
    words = ["tune", "nada", "--constants", "kappa=0.1..1,tau", "--scenarios", "2", "--fresh", "3", "--trials", "3", "--out", str(out)]
    printed = command(*words)
    assert printed.startswith("nada: ") and (out / "tuned.toml").exists()
    result = json.loads(command(*words, "--json"))
    assert printed.startswith(f"nada: {result['verdict']}.") and len(result["trials"]) == 3
    assert result["is_better"] is False or result["difference"]["low"] > 0
    for wrong, text in (
        (["nata"], 'error: unknown controller "nata"'),
        (["nada", "--constants", "kappa=1"], "expected NAME or NAME=LOW..HIGH"),
        (["nada", "--constants", "kappa=0.1..0.2,kappa=0.3..1"], "--constants: kappa is given twice: leave one out"),
        (["nada", "--scenario", "own.toml", "--scenarios", "3"], "not allowed with argument --scenario"),
        (["nada", "--scenario", "own.toml", "--seed", "a"], "seed is of random scenarios"),
        (["nada", "--jobs", "2", "--engine", "dask"], "jobs is of this machine's cores"),
        (["nada", "--trails", "3"], "unrecognized arguments"),
    ):
        done = subprocess.run([sys.executable, "-m", "giusto", "tune", *wrong], capture_output=True, text=True)
        assert done.returncode == 2 and text in done.stderr, done.stderr


@pytest.mark.parametrize("words", [["tune", "--help"], ["tune", "nada", "--list"], ["paper", "--help"]])
def test_output_that_cannot_be_written_is_a_failure(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "giusto", *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "error: standard output cannot be written: No space left on device\n")
    # A reader that has read enough is none.
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "giusto", *words], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_constants_are_listed_with_their_values() -> None:
    known = giusto.constants("scream:v2+delay-target=80ms")
    own = known["delay-target"]
    assert (own.value, own.unit, own.low, own.high, own.is_whole) == (80.0, "ms", 5.0, 400.0, False)
    assert giusto.constants("gcc:libwebrtc")["trend-window"].is_whole
    for name in giusto.controllers():
        for own in giusto.constants(name).values():
            assert own.low <= own.value <= own.high and own.summary and math.isfinite(own.high), (name, own)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"scenarios": 2.0}, "scenarios: expected a number of scenarios such as 92, or scenarios of your own, found 2.0"),
        ({"scenarios": True}, "scenarios: expected a number of scenarios such as 92, or scenarios of your own, found True"),
        ({"validation": 2.0}, "validation: expected a number of scenarios such as 92, or scenarios of your own, found 2.0"),
        ({"constants": {"kappa": 5}}, "kappa: expected a range (low, high) of two numbers, or None for the whole, found 5"),
        ({"constants": {"kappa": (1,)}}, "kappa: expected a range (low, high) of two numbers, or None for the whole, found (1,)"),
        ({"constants": {"kappa": "ab"}}, "kappa: expected a range (low, high) of two numbers, or None for the whole, found 'ab'"),
    ],
)
def test_arguments_of_other_types_are_named(more: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"controller": "nada", "constants": ["kappa"], "scenarios": 1, "trials": 2, **more}
    with pytest.raises(TypeError) as raised:
        giusto.tune(**given)
    assert str(raised.value) == message


def test_a_metric_may_change_its_figures() -> None:
    given: dict[str, Any] = {"constants": ["kappa"], "scenarios": 1, "validation": 2, "trials": 2}
    taken = giusto.tune("nada", **given, metric=lambda run: run.pop("utility"))
    assert taken.difference == giusto.tune("nada", **given, metric=lambda run: run["utility"]).difference


def test_a_sampler_may_end_its_grid() -> None:
    kappas = [0.2, 0.4, 0.8]
    sampler = optuna.samplers.GridSampler({"kappa": kappas}, seed=1)
    tuned = giusto.tune("nada", ["kappa"], 1, validation=1, trials=5, sampler=sampler, pruner=None)
    rows = tuned.trials.to_pylist()
    assert [row["state"] for row in rows] == ["complete"] * 5 and {row["kappa"] for row in rows} == {0.5, *kappas}


def test_constants_may_be_in_a_path(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('algorithm = "nada"\nkappa = 0.4\n')
    assert giusto.constants(path)["kappa"].value == 0.4
    assert giusto.tune(path, ["tau"], 1, validation=1, trials=2).default == "nada+kappa=0.4"


def test_a_number_of_numpy_is_a_number() -> None:
    numpy = pytest.importorskip("numpy")
    tuned = giusto.tune("nada", ["kappa"], numpy.int64(1), validation=numpy.int32(1), trials=2)
    assert '1 random scenarios of seed "development"' in tuned.toml()


def test_a_folder_that_cannot_be_made_ends_it_before_the_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    steps: list[int] = []

    def tuned(folder: Path) -> giusto.Tuning:
        return giusto.tune("nada", ["kappa"], 1, validation=1, trials=2, out=folder, progress=lambda made, _: steps.append(made))

    with pytest.raises(OSError):
        tuned(tmp_path / "file" / "own")
    assert steps == []
    text = tuned(tmp_path / "new" / "own").toml()
    assert steps and (tmp_path / "new" / "own" / "tuned.toml").read_text() == text
