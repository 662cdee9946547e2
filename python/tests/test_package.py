"""The package: types, command, and the examples of its documents."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, command

import giusto


# What strict types must accept beside the examples.
TYPED = """
import giusto
import giusto.gym

lists: dict[str, list[str]] = {"bottleneck.queue.kind": ["drop-tail", "codel"]}
pairs: dict[str, tuple[float, float]] = {"bottleneck.loss": (0.0, 0.1)}
giusto.gym.Environment(scenario="media", randomise=lists)
giusto.gym.VectorEnvironment(2, scenario="media", randomise=pairs)
giusto.paper("media", (name for name in ("tempo", "nada")), out="paper")
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What mypy knows of the modules of others, which is most of its work."""
    return str(tmp_path_factory.mktemp("mypy"))


def test_types_and_stubs_are_those_of_the_module(cache: str, tmp_path: Path) -> None:
    types = ["mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", cache, "-p", "giusto"]
    # The stub is compared with the module that is installed, for which nothing of the modules of others is needed.
    (tmp_path / "mypy.ini").write_text("[mypy]\nfollow_imports = skip\n")
    stub = ["mypy.stubtest", "--mypy-config-file", "mypy.ini", "giusto._giusto"]
    for check, folder in ((types, ROOT / "python"), (stub, tmp_path)):
        done = subprocess.run(
            [sys.executable, "-m", *check], capture_output=True, text=True, cwd=folder, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/python.md"])
def test_strict_types_accept_the_examples(page: str, cache: str, tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    examples = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    (tmp_path / "example.py").write_text("\n".join([*examples, TYPED]))
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\n")

    def check() -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "mypy", "--cache-dir", cache, "example.py"]
        return subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=600)

    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "example.py").open("a") as file:
        file.write("record.flow('call').frame_delay_ms.p96\n")
    done = check()
    assert done.returncode == 1 and 'has no attribute "p96"' in done.stdout, done.stdout


def test_python_runs_the_command() -> None:
    assert re.fullmatch(r"giusto \d+\.\d+\.\d+\n", command("--version"))
    script = Path(sys.executable).with_name("giusto")
    done = subprocess.run([script, "--version"], capture_output=True, text=True)
    assert done.stdout == command("--version")
    # Its exit statuses pass through.
    command("sim", "missing.toml", status=2)
    unmet = ROOT / "scenarios" / "first.toml"
    command("sim", unmet, "--set", "expect.1.min=0.1M", "--set", "expect.1.max=0.2M", status=1)


def test_reports_of_the_command_show_its_command_line(tmp_path: Path) -> None:
    command("sim", ROOT / "scenarios" / "first.toml", "--out", tmp_path / "first")
    assert "first.toml --out" in (tmp_path / "first" / "report.html").read_text()


def test_importing_loads_neither_pyarrow_nor_matplotlib() -> None:
    program = "import giusto, sys; print(sorted({'pyarrow', 'numpy', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_all_names_have_documentation() -> None:
    for name in giusto.__all__:
        assert getattr(giusto, name).__doc__, name
    built_in = giusto.controllers()
    assert "gcc:libwebrtc" in built_in and all(built_in.values())


def test_the_reference_is_that_of_the_docstrings() -> None:
    pytest.importorskip("gymnasium")
    script = ROOT / "lab" / "python_reference.py"
    made = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True).stdout
    assert made == (ROOT / "docs" / "reference" / "python.md").read_text(), f"run {script.name} again"


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/python.md"])
def test_examples_run_as_written(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / page).read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert examples
    shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
    monkeypatch.chdir(tmp_path)
    # Those of a page build on each other.
    names: dict[str, object] = {"__name__": "example"}
    for number, example in enumerate(examples, 1):
        if "giusto.tune(" in example:
            pytest.importorskip("optuna")
        exec(compile(example, f"{page}, example {number}", "exec"), names)
