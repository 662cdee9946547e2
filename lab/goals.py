#!/usr/bin/env python3
"""Prints the table of goals of docs/reproduce/benchmark.md: what `tempo` reaches, over the runs of a benchmark and on links of its own.

    giusto benchmark --seed v3-a,v3-b,v3-c,v3-d,v3-e --out judged
    giusto benchmark --recordings DIR --controller tempo --out recorded
    lab/goals.py judged/result.json [--recorded recorded/result.json]

Instead of `result.json` a `journal.jsonl` does too; a row of which some runs are missing says how many there are. "Before" is the `tempo` that
version 3 found, in the same scenarios. The links have 10 Mbit/s, 20 ms each way and a queue of 300 ms; each figure is the mean of five seeds. Needs the
package giusto.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import statistics
from collections.abc import Callable, Iterable
from typing import Any

import giusto

Row = dict[str, Any]
SEEDS = range(1, 6)
LINK = """
duration = "60 s"
[[link]]
id = "bottleneck"
from = "here"
to = "there"
delay = "20 ms"
queue = { kind = "drop-tail", limit = "375 kB" }
%s
reverse = { rate = "unlimited", loss = 0, queue = "drop-tail", jitter = "none" }
[[flow]]
id = "call"
kind = "media"
controller = "tempo"
max-rate = "20 Mbit/s"
video = { model = "statistical", max = "20 Mbit/s" }
repair = "nack"
"""
WARM_UP_S = 10


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints the table of goals of tempo.")
    parser.add_argument("judged", type=pathlib.Path)
    parser.add_argument("--recorded", type=pathlib.Path)
    given = parser.parse_args()
    judged = runs(given.judged)
    others = [run for run in judged if run["controller"] != "tempo"]
    today = [run for run in judged if run["controller"] == "tempo"]
    print("|  | goal | before | today |\n|---|---|---|---|")
    for what, goal, before, figure in OVER_RUNS:
        print(f"| {what} | {goal} | {before} | {figure(today, others)} |")
    if given.recorded:
        print(f"| {recordings(runs(given.recorded))} |")
    for row in links():
        print(f"| {row} |")
    print(f"| {code(pathlib.Path(__file__).parents[1] / 'crates/congestion/src/tempo')} |")


def runs(path: pathlib.Path) -> list[Row]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [row for row in map(json.loads, text.splitlines()) if "controller" in row]
    found: list[Row] = json.loads(text)["runs"]
    return found


def of(rows: Iterable[Row], *families: str) -> list[Row]:
    return [row for row in rows if row["family"] in families]


def key(row: Row) -> tuple[str, int]:
    return row["seed"], row["scenario"]


def mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def missed(row: Row) -> float:
    return sum(float(row[name]) for name in ("skipped_ratio", "missing_ratio", "late_ratio"))


def delay(row: Row) -> float:
    """Return the frame delay p95, or a long one if no frame arrived."""
    found = row["frame_delay_p95_ms"]
    return 2000.0 if found is None else float(found)


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def of_some(rows: list[Row], of: list[Row]) -> str:
    """Say of how many scenarios a figure is, if not of all."""
    return "" if len(rows) == len(of) else f" ({len(rows)} scenarios)"


def share(rows: list[Row], holds: Callable[[Row], bool]) -> str:
    return percent(mean(holds(row) for row in rows)) if rows else "–"


def alone(row: Row) -> bool:
    return row["family"] not in {"long-tcp", "short-tcp", "equal-calls", "mixed-calls"}


def of_bound(today: list[Row], others: list[Row]) -> str:
    bound = {key(row): row["utility"]["total"] for row in others if row["controller"] == "bound:causal"}
    own = [row for row in today if key(row) in bound]
    if not own:
        return "–"

    def ratio(rows: list[Row]) -> float:
        return mean(row["utility"]["total"] for row in rows) / mean(bound[key(row)] for row in rows)

    by_family = {family: ratio(of(own, family)) for family in {row["family"] for row in own}}
    low = sorted((value, family) for family, value in by_family.items() if value < 0.85)
    return f"{ratio(own):.2f}; " + ", ".join(f"`{family}` {value:.2f}" for value, family in low) + of_some(own, today)


def beaten(today: list[Row], others: list[Row]) -> str:
    rivals: dict[tuple[str, int], list[Row]] = {}
    for row in others:
        if not row["controller"].startswith(("bound:", "fixed:")):
            rivals.setdefault(key(row), []).append(row)

    def better(other: Row, row: Row) -> bool:
        return bool(other["utilisation_ratio"] > row["utilisation_ratio"]) and delay(other) < delay(row)

    own = [row for row in today if key(row) in rivals]
    return share(own, lambda row: any(better(other, row) for other in rivals[key(row)])) + of_some(own, today)


def beside_tcp(own: list[Row], _others: list[Row]) -> str:
    rows = of(own, "long-tcp")
    fair = [row for row in rows if row["rival"] in {"cubic", "new-reno"}]
    utility = mean(row["utility"]["total"] for row in rows)
    return f"{utility:.2f}; {share(fair, lambda row: 0.5 <= row['utilisation_ratio'] <= 1.5)}"


def l4s(own: list[Row], _others: list[Row]) -> str:
    def median(name: str) -> float:
        return float(statistics.median(row[name] for row in of(own, "l4s")))

    return f"{median('utilisation_ratio'):.2f}, {median('queue_delay_p95_ms'):.1f} ms"


OVER_RUNS: list[tuple[str, str, str, Callable[[list[Row], list[Row]], str]]] = [
    ("utility over that of `bound:causal`; families below 0.85", "≥ 0.93; none", "0.85", of_bound),
    ("another controller is better in use and frame delay p95", "≤ 8 %", "–", beaten),
    ("use < 0.4, alone", "≤ 1 %", "4.8 %", lambda own, _: share([*filter(alone, own)], lambda row: row["collapsed"])),
    (
        "missed frames: all, `static`",
        "≤ 2.5, ≤ 0.5 %",
        "3.9, 1.2 %",
        lambda own, _: f"{percent(mean(map(missed, own)))}, {percent(mean(map(missed, of(own, 'static'))))}",
    ),
    ("`long-tcp`: utility; 0.5 to 1.5 of the share beside CUBIC, NewReno", "≥ 0.68; ≥ 85 %", "0.41; 79 %", beside_tcp),
    (
        "`equal-calls`: Jain's index ≥ 0.95",
        "≥ 92 %",
        "64 %",
        lambda own, _: share(of(own, "equal-calls"), lambda row: (row["jain"] or 0) >= 0.95),
    ),
    ("`l4s`: use, queueing delay p95 (medians)", "≥ 0.9, ≤ 2 ms", "0.85, 8.2 ms", l4s),
]


def recordings(rows: list[Row]) -> str:
    def figures(name: str) -> str:
        own = [row for row in rows if row["controller"] == name]
        use, median = mean(row["utilisation_ratio"] for row in own), statistics.median(map(delay, own))
        return f"{use:.2f}; {median:.0f} ms; {percent(mean(map(missed, own)))}; {share(own, lambda row: row['collapsed'])}"

    count = sum(row["controller"] == "tempo" for row in rows)
    goal = "≥ 0.70; ≤ 290 ms; ≤ 7 %; ≤ 3 %"
    today = f"{figures('tempo')} (`bound:causal`: {figures('bound:causal')})"
    names = ", ".join(f"`{name}`" for name in sorted({row["family"] for row in rows}))
    return f"{count} runs on recordings ({names}): use; frame delay p95; missed; use < 0.4 | {goal} | – | {today}"


def call(link: str, seed: int, mbps: float) -> tuple[float, float, float]:
    """Return the use of a mean capacity after the warm-up, the frame delay p95 in ms, and the time until 8 Mbit/s arrive, in s."""
    record = giusto.run(giusto.Scenario.parse(LINK % link), seed=seed)
    rows = [row for row in record.flows_over_time.to_pylist() if row["flow"] == "call"]
    received = mean(row["received_rate_bps"] for row in rows if row["t_s"] >= WARM_UP_S)
    reached = min((row["t_s"] for row in rows if row["received_rate_bps"] >= 8e6), default=60.0)
    return received / 1e6 / mbps, record.flow("call").frame_delay_ms.p95 or 2000.0, reached


def links() -> Iterable[str]:
    def figures(link: str, mbps: float = 10) -> tuple[float, ...]:
        return tuple(map(mean, zip(*(call(link, seed, mbps) for seed in SEEDS))))

    reached = figures('rate = { steps = [["0 s", "0"], ["1 s", "10 Mbit/s"]] }')[2]
    yield f"an outage of 1 s at the start: until 80 % arrive | ≤ 4 s | – | {reached:.1f} s"
    steady = 'rate = "10 Mbit/s"'
    for what, goal, link, mbps in (
        ("an outage of 1 s each 14 s", "≥ 0.9", 'rate = { steps = [["0 s", "10 Mbit/s"], ["13 s", "0"]], period = "14 s" }', 10 * 13 / 14),
        ("in-order jitter to 30 ms", "≥ 0.92", f'{steady}\njitter = {{ kind = "uniform", max = "30 ms" }}', 10),
        ("in-order jitter to 50 ms", "≥ 0.88", f'{steady}\njitter = {{ kind = "uniform", max = "50 ms" }}', 10),
        ("2 % of losses in bursts of 10", "≥ 0.9", f'{steady}\nloss = {{ kind = "gilbert-elliott", to-bad = 0.00204, to-good = 0.1 }}', 10),
        (
            "each 4 s 0.5 s at a tenth",
            "≥ 0.85; ≤ 300 ms",
            'rate = { steps = [["0 s", "10 Mbit/s"], ["3.5 s", "1 Mbit/s"]], period = "4 s" }',
            (35 + 0.5) / 4,
        ),
    ):
        use, delay, _ = figures(link, mbps)
        yield f"{what}: use; frame delay p95 | {goal} | – | {use:.2f}; {delay:.0f} ms"


def code(folder: pathlib.Path) -> str:
    """Count what is neither test nor comment, and its constants."""
    lines = [
        line.strip()
        for path in sorted(folder.glob("*.rs"))
        if path.name != "tests.rs"
        for line in path.read_text(encoding="utf-8").partition("#[cfg(test)]\nmod tests {")[0].splitlines()
    ]
    lines = [line for line in lines if line and not line.startswith("//")]
    constants = sum(re.match(r"(pub(\(\w+\))? )?const [A-Z_]+:", line) is not None for line in lines)
    return f"lines of code, constants of `tempo` | fewer | 1710, 101 | {len(lines)}, {constants}"


if __name__ == "__main__":
    main()
