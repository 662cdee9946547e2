"""The JSON schema of scenario files accepts the files that come with giusto, and refuses wrong ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

jsonschema = pytest.importorskip("jsonschema")
tomllib = pytest.importorskip("tomllib")

REPOSITORY = Path(__file__).parents[2]
SCHEMA = json.loads((REPOSITORY / "docs/reference/scenario.schema.json").read_text())


def problems(scenario: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(scenario)]


def test_every_scenario_passes_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    files = sorted((REPOSITORY / "scenarios").rglob("*.toml"))
    assert len(files) > 70
    wrong = {path.name: problems(tomllib.loads(path.read_text())) for path in files}
    assert not {name: found for name, found in wrong.items() if found}


@pytest.mark.parametrize(
    "change",
    [
        {"duration": "10"},
        {"duration": None},
        {"seed": -1},
        {"sead": 1},
        {"rate": "5"},
        {"loss": 1.5},
        {"queue": "codex"},
        {"queue": "policer"},
        {"queue": {"kind": "codel", "tarket": "5 ms"}},
        {"kind": "udp"},
        {"controller": "gcc"},
        {"priority": 0},
        {"video": {"model": "perfect", "size-scale": 0.1}},
    ],
    ids=str,
)
def test_a_wrong_value_does_not_pass_the_schema(change: dict[str, Any]) -> None:
    file: dict[str, Any] = {"duration": "10 s", "link": [{"id": "a", "from": "b", "to": "c"}], "flow": [{"id": "d", "kind": "media"}]}
    assert not problems(file)
    ((key, value),) = change.items()
    places = {"rate": file["link"][0], "loss": file["link"][0], "queue": file["link"][0]}
    at_top = key in ("duration", "seed", "sead")
    place = file if at_top else places.get(key, file["flow"][0])
    if value is None:
        del place[key]
    else:
        place[key] = value
    assert problems(file)
