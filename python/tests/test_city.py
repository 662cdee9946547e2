"""Cities."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, command

import giusto

CITY = ROOT / "scenarios" / "rfc8869" / "2.1-downlink.toml"
# A few calls of 6 s.
SMALL = {
    "city.users-per-cell": 0.3,
    "city.call": "6 s",
    "city.evaluation": '["4 s", "9 s"]',
    "city.controller": "scream:v2",
}


def test_a_city_is_that_of_the_command(tmp_path: Path) -> None:
    run = giusto.city(CITY, 3, set=SMALL)
    settings = [word for path, value in SMALL.items() for word in ("--set", f"{path}={value}")]
    printed = json.loads(command("sim", CITY, "--seed", "3", "--json", *settings, status=0 if run.passed else 1))
    ours = run.to_dict()
    for values in (printed, ours, printed["city"], ours["city"]):
        values.pop("wall_s")
    assert ours == printed
    assert run.figures["controller"] == "scream:v2" and run.figures["calls"] > 2
    assert run.passed == all(check.passed for check in run.checks)
    assert "downlink scream:v2" in str(run)

    calls, samples = run.calls.to_pandas(), run.calls_over_time.to_pandas()
    assert len(calls) >= run.figures["calls"]
    assert (calls.end_s - calls.start_s).to_numpy() == pytest.approx(6, abs=0.01)
    assert set(samples.call) <= set(calls.call)
    mean = samples[(samples.t_s > 5) & (samples.t_s < 9)].received_bps.mean()
    assert 0.5 * run.figures["received_video_bps"] < mean < 1.6 * run.figures["received_video_bps"]
    # A folder that is not there, and a page that does not say how Python was called.
    run.write(tmp_path / "new" / "city")
    assert '"giusto.city, scenario 2.1-downlink, seed 3"' in (tmp_path / "new" / "city" / "report.html").read_text()
    assert json.loads((tmp_path / "new" / "city" / "result.json").read_text())["seed"] == "3"


@pytest.mark.skipif(os.getuid() != 0, reason="another user is needed, whose threads can be limited")
def test_a_city_needs_no_more_threads_than_there_are() -> None:
    # The thread that simulates is the last that the system gives.
    program = f"""
import os, resource, giusto
threads = len(os.listdir("/proc/self/task")) + 1
resource.setrlimit(resource.RLIMIT_NPROC, (threads, threads))
os.setuid(54321)
print(giusto.city({CITY.read_text()!r}, 3, set={SMALL!r}).seed)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.returncode) == ("3\n", 0), done.stderr


def test_what_is_no_city_is_named(media: str) -> None:
    with pytest.raises(giusto.ScenarioError, match="city"):
        giusto.city(media)
    with pytest.raises(giusto.ScenarioError, match="users-per-cell"):
        giusto.city(CITY, set={"city.users-per-cell": -1})
    with pytest.raises(giusto.ScenarioError, match=r"run it by `giusto sim`, in Python by `giusto\.city`"):
        giusto.run(CITY)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seeds_beyond_their_range_are_refused(seed: int, media: str) -> None:
    named = rf"seed: must be 0 to 2\^64 - 1, found {seed}"
    with pytest.raises(ValueError, match=named):
        giusto.city(CITY, seed)
    with pytest.raises(ValueError, match=named):
        giusto.run(media, seed)
    with pytest.raises(ValueError, match=named):
        giusto.sweep(media, seeds=[1, seed])
    with pytest.raises(ValueError, match=named):
        giusto.call("127.0.0.1", seed=seed)
    with pytest.raises(TypeError):
        giusto.run(media, "1")  # type: ignore[arg-type]
    assert giusto.run(media, 2**64 - 1, set={"duration": "1 s", "warmup": "0 s"}).seed == 2**64 - 1
