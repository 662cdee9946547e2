"""The examples in python/examples run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from types import ModuleType

import pytest
from conftest import ROOT

EXAMPLES = ROOT / "python" / "examples"


def example(name: str) -> ModuleType:
    """Return the module of an example."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_the_model_in_simpy_measures_the_same() -> None:
    pytest.importorskip("simpy")
    simpy_cbr = example("simpy_cbr")
    ours, theirs = simpy_cbr.in_giusto(simpy_cbr.scenario(20)), simpy_cbr.in_simpy(20)
    simpy_cbr.check(ours, theirs)
    assert ours.sent == 31_250 and 0.19 < ours.dropped / ours.sent < 0.21
    with pytest.raises(AssertionError):
        simpy_cbr.check(ours, simpy_cbr.in_simpy(21))
    done = subprocess.run(
        [sys.executable, EXAMPLES / "simpy_cbr.py", "--duration", "5", "--times", "1"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "times as fast" in done.stdout, done.stderr
