"""What the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MEDIA = """
duration = "20 s"

[[link]]
id = "bottleneck"
from = "camera"
to = "viewer"
rate = "2 Mbit/s"
delay = "25 ms"
reverse = { rate = "unlimited", delay = "25 ms" }

[[flow]]
id = "call"
kind = "media"
from = "camera"
to = "viewer"
max-rate = "5 Mbit/s"
video = { model = "perfect", min = "100 kbit/s", max = "5 Mbit/s", frame-rate = 30 }
"""


@pytest.fixture
def scenarios() -> Path:
    """The folder of the scenarios of the repository."""
    return ROOT / "scenarios"


@pytest.fixture
def media() -> str:
    """A call on 2 Mbit/s, 50 ms RTT, as TOML."""
    return MEDIA


def command(*words: str | os.PathLike[str], status: int = 0) -> str:
    """Run the command of the package; return its standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "giusto", *map(os.fspath, words)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == status, done.stderr
    return done.stdout
