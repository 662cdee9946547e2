#!/usr/bin/env python3
"""Compares the goodput of this kernel's TCP across `giusto link` with that of `giusto sim`, on links drawn from a seed.

    lab/kernel_parity.py --giusto target/release/giusto --out kernel-parity [--links 8] [--runs 16] [--seeds 100] [--jobs 8]

A link has a capacity, a round-trip time, a drop-tail queue and, every second one, random loss towards the receiver. For each one a program
sends for `--warmup` + `--duration` with each congestion control, in network namespaces of its own, `--runs` times with a seed of the link each;
the simulator runs the same scenario with `--seeds` seeds. Both goodputs are those after the warm-up, with the 95 % interval of their mean
(Student's t). The interval of the relative difference (Welch) decides: the two agree if it is within 5 %, differ if it has nothing in common
with that band, and are undecided else. The band was chosen before the first run. As a control, the kernel is also compared with simulations of
a link of 15 % less capacity and twice the loss: a comparison that does not find these different finds nothing.

A run whose packets were too late at p99 (`--max-lateness`) is in the figures, and counted. Needs `ip` and `unshare`, and root or user
namespaces; else it ends with status 77. `--again` takes the kernel's runs from the `runs.csv` of an earlier call, so that a changed simulator is
judged at once. Writes `runs.csv`, `cells.csv` and the scenarios, and prints the table of docs/reproduce/kernel-parity.md.
"""

import argparse
import concurrent.futures
import contextlib
import csv
import dataclasses
import json
import math
import os
import pathlib
import platform
import random
import shlex
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time

BAND = 0.05
CONTROLS = {"cubic": "cubic", "reno": "new-reno"}
KEY = ["rate_bps", "rtt_ms", "queue_ms", "loss", "tcp"]
PORT = 5201
SKIPPED = 77


@dataclasses.dataclass(frozen=True)
class Link:
    """What is drawn: bit/s, ms, ms at the capacity, and a probability."""

    rate_bps: int
    rtt_ms: float
    queue_ms: float
    loss: float

    def scenario(self, control, warmup, duration):
        """The scenario of one endless TCP flow; the way back neither loses nor delays acknowledgements."""
        wire = f'delay = "{self.rtt_ms / 2:.1f} ms"'
        return f"""duration = "{warmup + duration} s"
warmup = "{warmup} s"
[[link]]
id = "out"
from = "here"
to = "there"
rate = "{self.rate_bps} bit/s"
{wire}
loss = {self.loss}
queue = {{ kind = "drop-tail", limit = "{self.queue_ms:.1f} ms" }}
[[link]]
id = "back"
from = "there"
to = "here"
rate = "1 Gbit/s"
{wire}
[[flow]]
id = "tcp"
kind = "tcp"
control = "{CONTROLS[control]}"
via = ["out"]
back = ["back"]
start = {{ uniform = "100 ms" }}
"""

    def worse(self):
        """A link that a comparison has to tell from this one."""
        return dataclasses.replace(self, rate_bps=round(self.rate_bps * 0.85), loss=self.loss * 2)

    def name(self):
        """How the table calls it."""
        loss = f", {self.loss * 100:g} %" if self.loss else ""
        return f"{self.rate_bps / 1e6:g} Mbit/s, {self.rtt_ms:g} ms, {self.queue_ms:g} ms{loss}"


def draw(count, seed):
    """Links, log-uniform in each value; the queue is half to twice the bandwidth-delay product, and at least ten packets."""
    chance = random.Random(seed)

    def between(low, high):
        return math.exp(chance.uniform(math.log(low), math.log(high)))

    links = []
    for number in range(count):
        rate, rtt = round(between(2e6, 20e6), -5), round(between(10, 120))
        queue = max(round(rtt * between(0.5, 2)), math.ceil(10 * 12_000e3 / rate))
        # Drawn for every link, so that a link stays the same if this rule changes.
        loss = round(between(0.001, 0.01), 4)
        links.append(Link(int(rate), rtt, queue, loss if number % 2 else 0.0))
    return links


def giusto(command, what):
    """The JSON that a command prints; status 3 says that the figures are doubted."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3) or not done.stdout:
        sys.exit(f"{what}: status {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def simulated(program, file, seed):
    """Goodput in bit/s, and the lost share of the packets sent."""
    result = giusto([program, "sim", file, "--seed", str(seed), "--json"], f"giusto sim {file}")
    return result["flows"][0]["goodput_bps"], dropped(result)


def dropped(result):
    """The share of the packets that the link towards the receiver has dropped or lost, since its start."""
    link = next(link for link in result["links"] if link["id"] == "out")
    return link["dropped_packets"] / link["offered_packets"]


def namespace():
    """The command that runs another one in a network namespace of its own."""
    mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *mapped, "--net"]


def kernel(program, file, control, seed, args):
    """Goodput in bit/s, the lost share of the packets sent, and the lateness of the packets in us at p99."""
    report = f"{file}.{seed}.report"
    ours = shlex.join([sys.executable, str(pathlib.Path(__file__).resolve())])
    server = f"exec {ours} --receive {args.warmup} {args.duration} > {report}"
    client = f"exec {ours} --send $GIUSTO_FAR {control}"
    link = [program, "link", file, "--seed", str(seed), "--json", "--max-lateness", args.max_lateness]
    command = [*namespace(), "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *link, "--far", server, "--", "sh", "-c", client]
    result = giusto(command, f"giusto link {file}")
    return float(pathlib.Path(report).read_text()), dropped(result), result["real_time"]["lateness_us"]["p99"]


def send(address, control):
    """Sends over TCP with this congestion control of the kernel until the receiver resets the connection."""
    for _ in range(50):
        with socket.socket() as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
            try:
                sock.connect((address, PORT))
            except ConnectionError:
                # The receiver does not listen yet.
                time.sleep(0.2)
                continue
            with contextlib.suppress(ConnectionError):
                while True:
                    sock.sendall(bytes(1 << 16))
        return
    sys.exit(f"nobody listens at {address}:{PORT}")


def receive(warmup, duration):
    """Prints the bit/s that a connection delivers to its reader from `warmup` to `warmup` + `duration` seconds after it was accepted."""
    with socket.create_server(("", PORT)) as listening:
        sock, _ = listening.accept()
    start = time.monotonic() + warmup
    counted = 0
    with sock:
        # Closing resets: the sender has no end of its own.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        while (left := start + duration - time.monotonic()) > 0:
            sock.settimeout(left)
            try:
                size = len(sock.recv(1 << 16))
            except TimeoutError:
                break
            if not size:
                sys.exit("the sender ended before the receiver")
            if time.monotonic() >= start:
                counted += size
        print(8 * counted / duration, flush=True)


def student(freedom, level=0.95):
    """The two-sided quantile of Student's t, by Simpson's rule and bisection."""
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2

    def within(bound):
        step = bound / 2000
        at = [math.exp(log_scale - (freedom + 1) / 2 * math.log1p((i * step) ** 2 / freedom)) for i in range(2001)]
        return 2 * step / 3 * (at[0] + at[-1] + 4 * sum(at[1:-1:2]) + 2 * sum(at[2:-1:2]))

    low, high = 0.0, 700.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < level else (low, middle)
    return high


def interval(values):
    """The mean, and half the width of its interval."""
    spread = statistics.stdev(values) / math.sqrt(len(values))
    return statistics.fmean(values), student(len(values) - 1) * spread


def difference(kernels, simulations):
    """The relative difference of the means, the bounds of its interval, and the verdict."""
    parts = [statistics.variance(values) / len(values) for values in (kernels, simulations)]
    # Equal values, which a simulation without chance has, leave no freedom to compute.
    weights = sum(part**2 / (len(values) - 1) for part, values in zip(parts, (kernels, simulations), strict=True))
    half = student(sum(parts) ** 2 / weights) * math.sqrt(sum(parts)) if weights else 0.0
    expected = statistics.fmean(simulations)
    middle, half = statistics.fmean(kernels) / expected - 1, half / expected
    low, high = middle - half, middle + half
    if -BAND <= low and high <= BAND:
        verdict = "agree"
    elif high < -BAND or low > BAND:
        verdict = "differ"
    else:
        verdict = "undecided"
    return middle, low, high, verdict


def missing():
    """Why the kernel's side cannot run, or None."""
    for tool in ("ip", "unshare"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    can = subprocess.run([*namespace(), "test", "-w", "/dev/net/tun"], capture_output=True, text=True, check=False)
    return None if can.returncode == 0 else f"no network namespace with /dev/net/tun: {can.stderr.strip()}"


def main():
    """Runs all links with all congestion controls."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--giusto", default="giusto")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("kernel-parity"))
    parser.add_argument("--links", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1, help="of the drawn links")
    parser.add_argument("--runs", type=int, default=16, help="of the kernel, at least 2")
    parser.add_argument("--seeds", type=int, default=100, help="of the simulator, at least 2")
    parser.add_argument("--warmup", type=int, default=5, help="s")
    parser.add_argument("--duration", type=int, default=20, help="s")
    parser.add_argument("--max-lateness", default="2ms")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--again", action="store_true", help="take the kernel's runs from runs.csv")
    parser.add_argument("--send", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--receive", nargs=2, type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.send:
        return send(*args.send)
    if args.receive:
        return receive(*args.receive)
    if min(args.runs, args.seeds) < 2 or min(args.links, args.jobs, args.duration) < 1 or args.warmup < 0:
        parser.error("--runs and --seeds must be at least 2, --links, --jobs and --duration at least 1, --warmup at least 0")
    if not args.again and (why := missing()):
        print(f"SKIPPED kernel parity: {why}", file=sys.stderr)
        return SKIPPED
    args.out.mkdir(parents=True, exist_ok=True)
    cells = [(link, control) for link in draw(args.links, args.seed) for control in CONTROLS]
    files, controls = [], []
    for number, (link, control) in enumerate(cells):
        for paths, simulate, name in ((files, link, ""), (controls, link.worse(), "-control")):
            paths.append(str((args.out / f"{number}-{control}{name}.toml").resolve()))
            pathlib.Path(paths[-1]).write_text(simulate.scenario(control, args.warmup, args.duration))
    kernels = recorded(args.out / "runs.csv", cells) if args.again else measured(cells, files, args)
    seeds = range(1, args.seeds + 1)
    simulations, changed = ([[simulated(args.giusto, file, seed) for seed in seeds] for file in paths] for paths in (files, controls))
    with (args.out / "runs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*KEY, "by", "seed", "goodput_bps", "dropped_ratio", "lateness_p99_us"])
        for (link, control), real, sims in zip(cells, kernels, simulations, strict=True):
            common = [*dataclasses.astuple(link), control]
            writer.writerows([*common, "kernel", seed, *run] for seed, run in enumerate(real, 1))
            writer.writerows([*common, "sim", seed, *run, ""] for seed, run in enumerate(sims, 1))
    late_us = float(args.max_lateness.removesuffix("ms")) * 1000
    judged = []
    for (link, control), *runs in zip(cells, kernels, simulations, changed, strict=True):
        real, sims, others = ([run[0] for run in one] for one in runs)
        (kernel_bps, kernel_half), (sim_bps, sim_half) = interval(real), interval(sims)
        middle, low, high, verdict = difference(real, sims)
        judged.append({
            **dict(zip(KEY, [*dataclasses.astuple(link), control], strict=True)),
            "kernel_bps": kernel_bps, "kernel_half_bps": kernel_half, "sim_bps": sim_bps, "sim_half_bps": sim_half,
            "difference": middle, "low": low, "high": high, "verdict": verdict,
            "control": difference(real, others)[-1], "late": sum(run[2] > late_us for run in runs[0]), "link": link.name(),
        })
    with (args.out / "cells.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, judged[0])
        writer.writeheader()
        writer.writerows(judged)
    print(table(judged, len(kernels[0]), args))
    return 0


def measured(cells, files, args):
    """The runs of the kernel in each cell."""
    # One after the other through all cells: what is slow on this machine for a time is not slow in one cell alone.
    order = [(cell, seed) for seed in range(1, args.runs + 1) for cell in range(len(cells))]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        futures = [pool.submit(kernel, args.giusto, files[cell], cells[cell][1], seed, args) for cell, seed in order]
        for number, done in enumerate(concurrent.futures.as_completed(futures), 1):
            done.result()
            print(f"{number} of {len(futures)}", file=sys.stderr)
    return [[futures[i].result() for i, (where, _) in enumerate(order) if where == cell] for cell in range(len(cells))]


def recorded(path, cells):
    """The same from the file of an earlier call with these links."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["by"] == "kernel"]
    found = []
    for link, control in cells:
        key = [str(value) for value in (*dataclasses.astuple(link), control)]
        runs = [row for row in rows if [row[name] for name in KEY] == key]
        found.append([(float(row["goodput_bps"]), float(row["dropped_ratio"]), float(row["lateness_p99_us"])) for row in runs])
        if len(found[-1]) < 2:
            sys.exit(f"{path}: {len(found[-1])} runs of the kernel with {control} on {link.name()}, need 2: was it made with this --seed?")
    return found


def table(judged, runs, args):
    """One row for each cell, in the form of the page."""
    lines = [
        f"Linux {platform.release()}, {time.strftime('%Y-%m-%d')}. {args.duration} s after {args.warmup} s; links of seed {args.seed}; {runs} runs of the kernel, {args.seeds} simulations. A link is its capacity, round-trip time, queue, and random loss; ± and brackets are 95 % intervals.\n",
        "|link|TCP|kernel Mbit/s|simulator Mbit/s|difference|verdict|control|late runs|\n|---|---|---|---|---|---|---|---|",
    ]
    for one in judged:
        kernel_bps, sim_bps = (f"{one[f'{by}_bps'] / 1e6:.3f} ± {one[f'{by}_half_bps'] / 1e6:.3f}" for by in ("kernel", "sim"))
        shift = "{difference:+.1%} ({low:+.1%} to {high:+.1%})".format_map(one).replace("%", " %").replace("-", "−")
        verdict = f"**{one['verdict']}**" if one["verdict"] == "differ" else one["verdict"]
        lines.append(f"|{one['link']}|{one['tcp']}|{kernel_bps}|{sim_bps}|{shift}|{verdict}|{one['control']}|{one['late']}|")
    verdicts = [one["verdict"] for one in judged]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in ("agree", "differ", "undecided"))
    told = sum(one["control"] == "differ" for one in judged)
    return "\n".join([*lines, f"\nOf {len(judged)} cells: {counts}. The control differs in {told}."])


if __name__ == "__main__":
    sys.exit(main())
