#!/usr/bin/env python3
"""Compares `giusto sim` with `giusto call` across `giusto link`, each started as a user would.

    lab/parity.py --giusto target/release/giusto --out parity [--seeds 1] [--jobs 4]

A row is within the tolerance if the received rates, means over the seeds, differ by at most 3 % and the frame delays by at most 10 ms. The
relay has lateness in its result: cells.csv marks a call of a machine that was too busy. Writes `cells.csv` and prints the table of docs/reproduce/parity.md.
"""

import argparse
import concurrent.futures
import csv
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINKS = {
    "5.1": "rfc8867/5.1-variable-capacity",
    "step": "media/media-step",
    "loss": "media/media-loss",
    "LTE": "paths/lte-trace",
    "fades": "media/scream-fades",
}
CONTROLLERS = ["gcc:libwebrtc", "gcc:libwebrtc+giusto", "scream:v2", "tempo"]
RATE, DELAY_MS = 0.03, 10.0


def free_port():
    """A UDP port of loopback that is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def figures(record):
    """Received bit/s and the mean frame delay in ms of the only flow with media."""
    flow = next(flow for flow in record["flows"] if flow["kind"] == "media")
    return flow["received_rate_bps"], (flow["frame_delay_ms"] or {}).get("mean", float("nan"))


def run(giusto, *arguments):
    """The record of a command; one that has a record may still say by its status that an expectation failed or a figure is doubted."""
    done = subprocess.run([giusto, *arguments, "--json"], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(f"giusto {' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def cell(giusto, link, controller, seed):
    """Simulates the scenario, holds it as a call, and returns what both have measured."""
    path = str(ROOT / "scenarios" / f"{LINKS[link]}.toml")
    controlled = f"flow.{flow_of(path)}.controller={controller}"
    simulated = run(giusto, "sim", path, "--set", controlled, "--seed", str(seed))
    relay, listen = free_port(), free_port()
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    listener = subprocess.Popen([giusto, "call", "--listen", f"127.0.0.1:{listen}", "--once", "--json"], **quiet)
    end = f"{simulated['duration_s'] + 3} s"
    pair = f"{relay}=127.0.0.1:{listen}"
    links = subprocess.Popen(
        [giusto, "link", path, "--relay", pair, "--duration", end, "--seed", str(seed), "--json"], **quiet
    )
    time.sleep(1)
    called = run(
        giusto, "call", f"127.0.0.1:{relay}", "--scenario", path, "--controller", controller, "--seed", str(seed)
    )
    listener.communicate()
    real = json.loads(links.communicate()[0])["real_time"]
    (rate, delay), (rate_live, delay_live) = figures(simulated), figures(called)
    ratio, later = rate_live / rate - 1, delay_live - delay
    return {
        "link": link,
        "controller": controller,
        "seed": seed,
        "sim_bps": rate,
        "call_bps": rate_live,
        "ratio": ratio,
        "sim_frame_ms": delay,
        "call_frame_ms": delay_live,
        "later_ms": later,
        "within": within(ratio, later),
        "doubts": "; ".join(real["doubts"]),
    }


def within(ratio, later):
    """Whether a difference of rates and of delays in ms is in the tolerance."""
    return abs(ratio) <= RATE and abs(later) <= DELAY_MS


def flow_of(path):
    """The name of the media flow of a scenario."""
    flows = tomllib.loads(pathlib.Path(path).read_text())["flow"]
    return next(flow["id"] for flow in flows if flow["kind"] == "media")


def table(cells):
    """One row for each link and controller, of the means over seeds, in the form of the page; and how many of the rows are within."""
    rows = [
        "|scenario|controller|received Mbit/s|difference|frame delay ms|difference|calls within|within|",
        "|---|---|---|---|---|---|---|---|",
    ]
    good = 0
    for link, name in dict.fromkeys((one["link"], one["controller"]) for one in cells):
        runs = [one for one in cells if (one["link"], one["controller"]) == (link, name)]
        rate, rate_live, delay, delay_live = (
            statistics.fmean(run[key] for run in runs)
            for key in ("sim_bps", "call_bps", "sim_frame_ms", "call_frame_ms")
        )
        ratio, later = rate_live / rate - 1, delay_live - delay
        close = within(ratio, later)
        good += close
        rates = f"{rate / 1e6:.3f}, {rate_live / 1e6:.3f}|{ratio * 100:+.1f} %"
        delays = f"{delay:.1f}, {delay_live:.1f}|{later:+.1f}"
        calls = f"{sum(run['within'] for run in runs)} of {len(runs)}"
        verdict = "yes" if close else "**no**"
        rows.append(f"|{link}|`{name}`|{rates}|{delays}|{calls}|{verdict}|".replace("|-", "|−"))
    return "\n".join(rows), good, len(rows) - 2


def main():
    """Runs all cells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--giusto", default="giusto")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("parity"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    asked = [(link, name, seed) for link in LINKS for name in CONTROLLERS for seed in range(1, args.seeds + 1)]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        futures = [pool.submit(cell, args.giusto, *one) for one in asked]
        for number, done in enumerate(concurrent.futures.as_completed(futures), 1):
            done.result()
            print(f"{number} of {len(futures)}", file=sys.stderr)
    cells = [future.result() for future in futures]
    with (args.out / "cells.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, cells[0])
        writer.writeheader()
        writer.writerows(cells)
    rows, good, number = table(cells)
    print(rows)
    calls = sum(one["within"] for one in cells)
    print(f"{good} of {number} rows are within 3 % and 10 ms, {calls} of {len(cells)} single calls", file=sys.stderr)


if __name__ == "__main__":
    main()
