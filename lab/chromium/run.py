#!/usr/bin/env python3
"""Chromium's congestion control across `giusto link`, and giusto's in `giusto sim`, on the same links.

    python3 lab/chromium/run.py --giusto target/release/giusto --out out --page docs/reproduce/chromium.md

Each case is one call of 60 s by two Chromiums, and the same scenario in the simulator with five seeds. All figures go
to figures.json, the tables into the page, between the lines that mark their place.
"""

import argparse
import csv
import json
import pathlib
import shlex
import subprocess
import sys

import camera
import figures
import tables

HERE = pathlib.Path(__file__).resolve().parent
START_S = 15.0
SECONDS = 60.0
SEEDS = (1, 2, 3, 4, 5)
# Runs of a case at most, until one is not disturbed.
ATTEMPTS = 3

STEADY = (("start", 0, 10), ("then", 10, 60))


def steps(high, low, max_rate_bps=None):
    """A link whose rate falls for 20 s; the rates are in Mbit/s."""
    rate = f'[["0 s", "{high} Mbit/s"], ["35 s", "{low} Mbit/s"], ["55 s", "{high} Mbit/s"]]'
    return {
        "name": f"{high}, {low}, {high} Mbit/s",
        "settings": (f"bottleneck.rate={{ steps = {rate} }}",),
        "phases": ((f"{high}", 0, 20), (f"{low}", 20, 40), (f"{high} again", 40, 60)),
        # Of the encoder; Chromium's own is 1.7 Mbit/s at this size.
        "max_rate_bps": max_rate_bps,
    }


def steady(name, *settings):
    return {"name": name, "settings": settings, "phases": STEADY}


CASES = (
    steady("0.3 Mbit/s", "bottleneck.rate=300 kbit/s"),
    steady("0.6 Mbit/s", "bottleneck.rate=600 kbit/s"),
    steady("1 Mbit/s", "bottleneck.rate=1 Mbit/s"),
    steady("1.5 Mbit/s", "bottleneck.rate=1.5 Mbit/s"),
    steps(1.5, 0.5),
    steps(3, 1, max_rate_bps=4_000_000),
    steady("1 Mbit/s, 5 % loss", "bottleneck.rate=1 Mbit/s", "bottleneck.loss=0.05"),
)
SOME = ("1 Mbit/s", "1.5, 0.5, 1.5 Mbit/s", "3, 1, 3 Mbit/s", "1 Mbit/s, 5 % loss")
# For each mode of Chromium: the settings of the flow in the simulator, and the cases.
TWCC = ("call.controller=gcc:libwebrtc", "call.feedback=transport-wide")
MODES = {
    "gcc": (TWCC, tuple(case["name"] for case in CASES)),
    "gcc-whole": (TWCC, ("0.3 Mbit/s", *SOME)),
    "gcc-no-fec": (TWCC, SOME[1:]),
    "rfc8888": (("call.controller=gcc:libwebrtc", "call.feedback=rfc8888"), SOME),
    "scream": (("call.controller=scream:v2", "call.feedback=rfc8888"), SOME),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--giusto", default="giusto", help="the program [default: giusto of the PATH]")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="directory of all records and of figures.json")
    parser.add_argument("--page", type=pathlib.Path, help="page whose tables are replaced")
    parser.add_argument("--mode", choices=MODES, action="append", help="only this mode; repeatable")
    parser.add_argument("--case", action="append", help="only cases with this name; repeatable")
    parser.add_argument(
        "--runs", type=int, default=1, help="calls of each case; the tables have their medians [default: 1]"
    )
    parser.add_argument(
        "--missing", action="store_true", help="run only calls that have no undisturbed record in --out"
    )
    parser.add_argument("--no-calls", action="store_true", help="no Chromium: use the records in --out")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    args.film = args.out / "film.y4m"
    if not args.no_calls and not args.film.exists():
        camera.write(args.film)

    results = []
    for mode, (flow, names) in MODES.items():
        for case in (case for case in CASES if case["name"] in names):
            folder = args.out / f"{mode}-{slug(case['name'])}"
            chosen = mode in (args.mode or MODES) and case["name"] in (args.case or [case["name"]])
            if chosen and not args.no_calls:
                for number in range(1, args.runs + 1):
                    call(args, case, mode, folder, f"call-{number}")
            calls = [path.parent.parent for path in sorted(folder.glob("call-*/link/result.json"))]
            if not calls:
                continue
            calls = [figures.of_call(path, case["phases"], START_S) for path in calls]
            simulated = [simulate(args, case, flow, folder, seed, calls[0]["window_s"]) for seed in SEEDS]
            browser, ours = figures.medians(calls), figures.medians(simulated)
            results.append({"mode": mode, "case": case["name"], "chromium": browser, "giusto": ours, "calls": calls})
    text = json.dumps({"seconds": SECONDS, "seeds": len(SEEDS), "results": results}, indent=1)
    (args.out / "figures.json").write_text(text + "\n", encoding="utf-8")
    markdown = tables.markdown(results)
    (args.out / "tables.md").write_text(markdown, encoding="utf-8")
    print(markdown)
    if args.page:
        tables.replace(args.page, markdown)


def slug(name):
    return "".join(letter if letter.isalnum() or letter == "." else "-" for letter in name).strip("-")


def call(args, case, mode, folder, name):
    """Records a call of two Chromiums, again if it was disturbed; the least disturbed one stays."""
    kept = folder / name
    if args.missing and (kept / "link" / "result.json").exists():
        if not figures.of_call(kept, case["phases"], START_S)["disturbed"]:
            return
    for attempt in range(1, ATTEMPTS + 1):
        made = folder / f"attempt-{attempt}"
        remove(made)
        made.mkdir(parents=True)
        end = [str(made), "--mode", mode, "--start", str(START_S), "--seconds", str(SECONDS)]
        near = [sys.executable, str(HERE / "near.py"), *end, "--camera", str(args.film)]
        if case.get("max_rate_bps"):
            near += ["--max-rate", str(case["max_rate_bps"])]
        # The shell is replaced, so that far.py itself receives the signal that ends it.
        far = "exec " + shlex.join([sys.executable, str(HERE / "far.py"), *end])
        line = [args.giusto, "link", str(HERE / "call.toml"), "--realtime", "--out", str(made / "link"), "--far", far]
        line += [*sets(case["settings"]), "--", *near]
        print(f"{mode}, {case['name']}: attempt {attempt}", file=sys.stderr)
        with (made / "log").open("w", encoding="utf-8") as log:
            status = subprocess.run(line, stdout=log, stderr=log, check=False).returncode
        # 3: packets were late, which is judged below.
        if status not in (0, 3) or not (made / "near.jsonl").exists():
            print(f"  status {status}: see {made / 'log'}", file=sys.stderr)
            continue
        found = figures.of_call(made, case["phases"], START_S)
        before = figures.of_call(kept, case["phases"], START_S) if kept.exists() else None
        if not before or not found["disturbed"] or (before["disturbed"] and found["stalled_s"] < before["stalled_s"]):
            remove(kept)
            made.rename(kept)
        if not found["disturbed"]:
            return
        print(f"  disturbed: {'; '.join(found['disturbed'])}", file=sys.stderr)


def simulate(args, case, flow, folder, seed, window_s):
    """The figures of the same call in the simulator."""
    made = folder / f"sim-{seed}"
    made.mkdir(parents=True, exist_ok=True)
    max_rate_bps = case.get("max_rate_bps")
    most = [f"call.video.max={max_rate_bps} bit/s"] if max_rate_bps else []
    line = [args.giusto, "sim", str(HERE / "call.toml"), "--seed", str(seed), "--out", str(made), "--trace", "csv"]
    subprocess.run(
        [*line, *sets((*case["settings"], *flow, *most))], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    trace = made / "trace.csv"
    with trace.open(encoding="utf-8", newline="") as file:
        found = figures.of_simulation(csv.DictReader(file), made / "result.json", case["phases"], START_S, window_s)
    trace.unlink()
    return found


def sets(settings):
    return [word for setting in settings for word in ("--set", setting)]


def remove(folder):
    """Removes a record of an earlier attempt."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    if folder.exists():
        folder.rmdir()


if __name__ == "__main__":
    main()
