#!/usr/bin/env python3
"""Compares `giusto sim` with `giusto call` across `giusto link`, each started as a user would.

    lab/parity.py --giusto target/release/giusto --out parity [--seeds 1] [--jobs 4]

A cell is within the tolerance if the received rates differ by at most 3 % and the means of the frame delay by at most 10 ms. The relay has
lateness in its result: a cell of a machine that was too busy is marked. Writes `cells.csv` and prints the table of docs/reproduce/parity.md.
"""

import argparse
import concurrent.futures
import csv
import json
import pathlib
import socket
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
    within = abs(ratio) <= RATE and abs(later) <= DELAY_MS
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
        "within": within,
        "doubts": "; ".join(real["doubts"]),
    }


def flow_of(path):
    """The name of the media flow of a scenario."""
    flows = tomllib.loads(pathlib.Path(path).read_text())["flow"]
    return next(flow["id"] for flow in flows if flow["kind"] == "media")


def table(cells):
    """One row for each cell, in the form of the page."""
    rows = [
        "|scenario|controller|received Mbit/s|difference|frame delay ms|difference|within|",
        "|---|---|---|---|---|---|---|",
    ]
    for one in cells:
        rates = f"{one['sim_bps'] / 1e6:.3f}, {one['call_bps'] / 1e6:.3f}|{one['ratio'] * 100:+.1f} %"
        delays = f"{one['sim_frame_ms']:.1f}, {one['call_frame_ms']:.1f}|{one['later_ms']:+.1f}".replace("-", "−")
        verdict = "yes" if one["within"] else "**no**"
        rows.append(f"|{one['link']}|`{one['controller']}`|{rates.replace('-', '−')}|{delays}|{verdict}|")
    return "\n".join(rows)


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
    print(table(cells))
    print(f"{sum(one['within'] for one in cells)} of {len(cells)} are within 3 % and 10 ms", file=sys.stderr)


if __name__ == "__main__":
    main()
