#!/usr/bin/env python3
"""Compares giustobwe with rtpgccbwe of gst-plugins-rs across `giusto link`: one call of crates/gstreamer/examples/call.py per run.

    compare.py --giusto target/release/giusto --plugins DIR:DIR --runs 12 --out runs     # runs, in real time
    compare.py --out runs --table                                                         # prints the table

Each batch has one run of every row, at the same time, so that a busy machine disturbs all rows alike. DIRs hold libgstgiusto.so and
libgstrsrtp.so (`cargo build --release` of the crate gst-plugin-rtp). As root, the programs get real-time priority.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CALL = REPOSITORY / "crates/gstreamer/examples/call.py"
LINK = Path(__file__).with_name("steps.toml")
ROWS = {
    "`giustobwe`, `tempo`": "giustobwe controller=tempo",
    "`giustobwe`, `scream:v2`": "giustobwe controller=scream:v2",
    "`giustobwe`, `gcc:libwebrtc`": "giustobwe controller=gcc:libwebrtc",
    "`rtpgccbwe`": "rtpgccbwe",
    "`rtpgccbwe`, linear regression": "rtpgccbwe estimator=linear-regression",
}
# Seconds of the run in which a rate is measured: after each step the first 5 s are left out.
SPANS = [(5, 20), (25, 40), (45, 60)]
STEP_UP, END = 40.0, 60.0
# Student's t of a 95 % interval, by runs less one.
STUDENT = [math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120]


def run(giusto: str, control: str, port: int, out: Path) -> dict[str, float]:
    """One call. Returns its figures."""
    out.mkdir(parents=True, exist_ok=True)
    first = ["chrt", "-f", "5"] if os.geteuid() == 0 and shutil.which("chrt") else []
    call = [*first, "/usr/bin/python3", str(CALL)]
    receiver = subprocess.Popen([*call, "receive", f"127.0.0.1:{port + 1}", "--out", str(out / "receive.json")])
    time.sleep(3)
    link = subprocess.Popen(
        [giusto, "link", str(LINK), "--relay", f"{port}=127.0.0.1:{port + 1}", "--from", "sender", "--to", "receiver"]
        + ["--realtime", "--json"],
        stdout=(out / "link.json").open("w"),
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (line := link.stderr.readline()).startswith("listening"):
        if not line:
            raise SystemExit(f"giusto link ended with {link.wait()}")
    zero = time.monotonic()
    send = [*call, "send", f"127.0.0.1:{port}", "--control", control, "--start", "1000000"]
    subprocess.run([*send, "--duration", str(END), "--out", str(out / "send.json")], check=True)
    for process in (link, receiver):
        process.send_signal(signal.SIGINT)
        process.wait()
    figures = measure(out, zero)
    (out / "figures.json").write_text(json.dumps(figures))
    return figures


def measure(out: Path, zero: float) -> dict[str, float]:
    """The figures of a run whose link began at `zero`."""
    send, receive, link = (json.loads((out / f"{name}.json").read_text()) for name in ("send", "receive", "link"))
    figures: dict[str, float] = {}
    for number, (begin, end) in enumerate(SPANS):
        arrived = [frame for frame in receive["frames"].values() if zero + begin <= frame[1] < zero + end]
        figures[f"rate {number}"] = sum(frame[3] for frame in arrived) * 8 / (end - begin) / 1e6
    delays, sent = [], 0
    for timestamp, frame in send["frames"].items():
        if zero + SPANS[0][0] <= frame[0] < zero + END - 1:
            sent += 1
            there = receive["frames"].get(timestamp)
            if there and there[2] >= frame[2]:
                delays.append(1e3 * (there[1] - frame[0]))
    delays.sort()
    for share in (50, 95, 99):
        figures[f"delay {share}"] = delays[min(len(delays) * share // 100, len(delays) - 1)]
    figures["incomplete"] = 100 * (1 - len(delays) / sent)
    reached = [at for at, rate in send["estimates"] if at >= zero + STEP_UP and rate >= 2e6]
    figures["time to 2"] = (reached[0] - zero if reached else END) - STEP_UP
    figures["queue 95"] = link["links"][0]["queue_delay_ms"]["p95"]
    figures["lateness 99"] = link["real_time"]["lateness_us"]["p99"]
    return figures


def interval(values: list[float], digits: int) -> str:
    mean = statistics.fmean(values)
    half = STUDENT[len(values) - 1] * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def table(out: Path) -> str:
    """The table of all runs in the folder."""
    lines = [
        "| element, controller | Mbit/s at 3 | at 1 | at 3 again | s to 2 Mbit/s | frame delay p50, ms | p95 | p99 "
        "| frames lost, % | queueing delay p95, ms |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    columns = [("rate 0", 2), ("rate 1", 2), ("rate 2", 2), ("time to 2", 1), ("delay 50", 0), ("delay 95", 0)]
    columns += [("delay 99", 0), ("incomplete", 1), ("queue 95", 0)]
    for number, row in enumerate(ROWS):
        runs = [json.loads(path.read_text()) for path in sorted(out.glob(f"*/{number}/figures.json"))]
        if not runs:
            raise SystemExit(f"{out}: no run of {row} in it: make some with --runs")
        cells = [interval([figures[name] for figures in runs], digits) for name, digits in columns]
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--giusto", default="giusto")
    parser.add_argument("--plugins", help="value of GST_PLUGIN_PATH")
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--port", type=int, default=7000)
    parser.add_argument("--table", action="store_true")
    # One run, in a process of its own.
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plugins:
        os.environ["GST_PLUGIN_PATH"] = options.plugins
    controls = list(ROWS.values())
    if options.table:
        print(table(options.out))
    elif options.one is not None:
        run(options.giusto, controls[options.one], options.port, options.out)
    else:
        for batch in range(options.runs):
            this = ["python3", __file__, "--giusto", options.giusto]
            rows = []
            for row in range(len(controls)):
                out = options.out / str(batch) / str(row)
                own = ["--port", str(options.port + 10 * row), "--one", str(row), "--out", str(out)]
                rows.append(subprocess.Popen([*this, *own]))
            if any([row.wait() for row in rows]):
                raise SystemExit(f"batch {batch}: a run failed")


if __name__ == "__main__":
    main()
