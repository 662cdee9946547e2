#!/usr/bin/env python3
"""Judges calls with real video by their pictures: PSNR and SSIM over loss and repair.

    lab/pictures.py --out pictures [--seeds 5] [--seconds 20] [--jobs 2]

Each run is a call in virtual time (`crates/sim/examples/pictures.rs`) with a live encoder (`lab/encoder/encode.py --on-demand`), which
makes key frames when the far end asks for them. FFmpeg makes the source and compares what a viewer sees with it: a frame that is missing,
or complete after its playout deadline, is judged as the frame that was shown last; frames that refer to it are decoded all the same.
Writes `runs.csv`, a row for each run, and prints the table of medians.

Debian: ffmpeg python3-gst-1.0 gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-ugly.
"""

import argparse
import concurrent.futures
import csv
import itertools
import json
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENCODER = ROOT / "lab/encoder/encode.py"
FPS = 30
# Motion, edges and text, and noise that makes each frame different.
SOURCE = "testsrc2=size=640x360:rate=30,noise=alls=8:allf=t+u:all_seed=1"
CODECS = ["vp8", "h264"]
LOSSES = [0, 0.02, 0.05, 0.1]
REPAIRS = ["none", "nack", "nack+flexfec"]
NAMES = {"vp8": "VP8", "h264": "H.264", "none": "none", "nack": "NACK", "nack+flexfec": "NACK + FlexFEC"}
# A stretch of frames below this PSNR is counted, in dB.
BAD = 30.0


def ffmpeg(*args):
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", *map(str, args)], check=True)


def filters():
    """The names of the filters that FFmpeg has."""
    lines = subprocess.run(["ffmpeg", "-v", "error", "-filters"], check=True, capture_output=True, text=True).stdout
    return {words[1] for words in map(str.split, lines.splitlines()) if len(words) > 2}


def of_stats(path, name):
    """The values of a field in a file of statistics, a line for each frame."""
    lines = path.read_text().splitlines()
    return [float(dict(word.split(":", 1) for word in line.split() if ":" in word)[name]) for line in lines]


def compared(received, source, folder, vmaf):
    """PSNR of all frames, SSIM, VMAF or none, and the longest stretch below BAD in seconds."""
    psnr, ssim, log = folder / "psnr", folder / "ssim", folder / "vmaf.json"
    count = 3 if vmaf else 2
    outputs = ["psnr=stats_file=" + str(psnr), "ssim=stats_file=" + str(ssim), f"libvmaf=log_fmt=json:log_path={log}"][:count]
    parts = [f"[0:v]fps={FPS}:start_time=0,split={count}" + "".join(f"[a{i}]" for i in range(count))]
    parts += [f"[1:v]split={count}" + "".join(f"[b{i}]" for i in range(count))]
    parts += [f"[a{i}][b{i}]{output}" for i, output in enumerate(outputs)]
    # Times as they are: FFmpeg would let a file whose first frame is missing begin at 0.
    ffmpeg("-copyts", "-i", received, "-i", source, "-lavfi", ";".join(parts), "-f", "null", "-")
    errors, shown = of_stats(psnr, "mse_avg"), of_stats(psnr, "psnr_avg")
    stretches = [len(list(group)) for is_bad, group in itertools.groupby(shown, lambda value: value < BAD) if is_bad]
    from math import log10

    return {
        "psnr_db": 10 * log10(255**2 / statistics.fmean(errors)),
        "ssim": statistics.fmean(of_stats(ssim, "All")),
        "vmaf": json.loads(log.read_text())["pooled_metrics"]["vmaf"]["mean"] if vmaf else None,
        "bad_s": max(stretches, default=0) / FPS,
        "compared_frames": len(shown),
    }


def run(case, program, source, options, vmaf):
    codec, loss, repair, seed = case
    encoder = f"/usr/bin/python3 {ENCODER} --on-demand --input {source}"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        received = folder / "received.ivf"
        command = [program, encoder, received, codec, loss, repair, seed, options.seconds, options.rate]
        output = subprocess.run([str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True).stdout
        *lines, counts = output.splitlines()
        frames = {int(number): (float(excess), key == "1") for number, excess, key, _ in map(str.split, lines)}
        late = [number for number, (excess, _) in frames.items() if excess > options.deadline]
        state = {"missing": 0, "damaged": 0}
        is_damaged = False
        for number in range(options.seconds * FPS):
            if number not in frames or number in late:
                state["missing"] += 1
                is_damaged = True
            elif frames[number][1]:
                is_damaged = False
            state["damaged"] += is_damaged and number in frames and number not in late
        row = {"codec": codec, "loss": loss, "repair": repair, "seed": seed}
        row |= compared(received, source, folder, vmaf) | state | {"late": len(late)}
        row |= {"key_frames": sum(key for _, key in frames.values())} | json.loads(counts)
        return row


def table(rows, vmaf):
    """The medians over the seeds, in Markdown."""
    yield "| codec | loss | repair | PSNR in dB (least, most) | SSIM |" + (" VMAF |" if vmaf else "") + (
        " longest stretch below 30 dB | frames missing | damaged | key frames | encoder's rate |"
    )
    yield "|---|---|---|---|---|" + ("---|" if vmaf else "") + "---|---|---|---|---|"
    for (codec, loss, repair), group in itertools.groupby(rows, lambda row: (row["codec"], row["loss"], row["repair"])):
        group = list(group)
        median = {key: statistics.median(row[key] for row in group) for key in group[0] if isinstance(group[0][key], (int, float))}
        psnr = [row["psnr_db"] for row in group]
        cells = [NAMES[codec], f"{loss * 100:g} %", NAMES[repair]]
        cells.append(f"{median['psnr_db']:.1f}" + (f" ({min(psnr):.1f}, {max(psnr):.1f})" if len(group) > 1 else ""))
        cells += [f"{median['ssim']:.3f}"] + ([f"{median['vmaf']:.0f}"] if vmaf else [])
        cells += [f"{max(row['bad_s'] for row in group):.2f} s", f"{median['missing']:g}", f"{median['damaged']:g}"]
        cells += [f"{median['key_frames']:g}", f"{median['rate_bps'] / 1000:.0f} kbit/s"]
        yield "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description="Judges calls with real video by their pictures.")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the folder of results")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each case with loss [default: 5]")
    parser.add_argument("--seconds", type=int, default=20, help="length of a call [default: 20]")
    parser.add_argument("--rate", type=int, default=1_000_000, help="of all packets, repair included, in bit/s [default: 1000000]")
    parser.add_argument("--deadline", type=float, default=400, help="playout deadline in ms [default: 400]")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time [default: 2]")
    parser.add_argument("--program", type=pathlib.Path, help="the example `pictures`, built; by default cargo builds it")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    source = options.out / "source.y4m"
    ffmpeg("-f", "lavfi", "-i", SOURCE, "-t", options.seconds, "-pix_fmt", "yuv420p", source)
    program = options.program
    if program is None:
        build = ["cargo", "build", "--release", "-p", "giusto-sim", "--example", "pictures", "--message-format=json"]
        lines = subprocess.run(build, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        program = [json.loads(line).get("executable") for line in lines if '"pictures"' in line][-1]
    vmaf = "libvmaf" in filters()
    cases = [
        (codec, loss, repair, seed)
        for codec, loss, repair in itertools.product(CODECS, LOSSES, REPAIRS)
        for seed in range(1, 1 + (options.seeds if loss else 1))
    ]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda case: run(case, program, source, options, vmaf), cases))
    with open(options.out / "runs.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print("\n".join(table(rows, vmaf)))


if __name__ == "__main__":
    main()
