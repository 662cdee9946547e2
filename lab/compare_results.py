#!/usr/bin/env python3
"""Compares the results of two versions of `giusto sim --json`, field by field.

    lab/compare_results.py OLD NEW

OLD and NEW are folders of JSON files, one for each scenario (`rfc8867/5.1.toml` is `rfc8867_5.1.json`), or giusto programs,
which are then run over all of `scenarios/`. Prints each field that differs, and ends with 1 if there is any.

Fields that only NEW has are no difference. What may differ otherwise is listed here, with its reason.
"""

import json
import pathlib
import subprocess
import sys

# Fields that depend on the machine.
IGNORED = {"wall_s"}

# Controllers that were renamed: the plain names now belong to the published algorithms.
CONTROLLERS = {
    "gcc:libwebrtc": "gcc:libwebrtc+giusto",
    "gcc:libwebrtc-literal": "gcc:libwebrtc",
    "gcc:draft-02": "gcc:draft-02+giusto",
    "gcc:draft-02-literal": "gcc:draft-02",
    "scream:rfc8298": "scream:rfc8298+giusto",
    "scream:rfc8298-literal": "scream:rfc8298",
    "scream:d00": "scream:d00+giusto",
    "scream:d00-literal": "scream:d00",
}

# Fields that were renamed, with the list that they are in.
FIELDS = {
    # The payload of complete frames is a goodput; "received rate" counts headers and incomplete frames elsewhere.
    ("streams", "received_rate_bps"): "goodput_bps",
}

# Corrections, which apply only to runs in which a link duplicated packets: copies were counted as arrivals.
DUPLICATES = {
    "received_packets": "unique packets, not copies",
    "received_rate_bps": "unique packets, not copies",
    "loss_ratio": "a packet is lost if every copy is lost, and arrives once",
    "marked_ratio": "unique packets, not copies",
    "delay_ms": "delay of the first copy",
    "queue_delay_ms": "delay of the first copy",
    "value": "an expectation of a corrected statistic",
    "passed": "an expectation of a corrected statistic",
}

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def results(place):
    """The results of a folder or a program, by scenario."""
    path = pathlib.Path(place)
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        return {file.stem: json.loads(file.read_text()) for file in files if file.stat().st_size > 0}
    scenarios = REPOSITORY / "scenarios"
    found = {}
    for file in sorted(scenarios.rglob("*.toml")):
        name = str(file.relative_to(scenarios).with_suffix("")).replace("/", "_")
        run = subprocess.run(
            [path.resolve(), "sim", file.relative_to(REPOSITORY), "--json"],
            cwd=REPOSITORY, stdout=subprocess.PIPE, check=False,
        )
        # 1 is an expectation that is not met.
        if run.returncode not in (0, 1):
            sys.exit(f"{place} sim {file}: exit status {run.returncode}")
        found[name] = json.loads(run.stdout)
    return found


def differences(old, new, where, listed, duplicated):
    """Each difference as text."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key in IGNORED:
                continue
            name = FIELDS.get((listed, key), key)
            if duplicated and key in DUPLICATES:
                continue
            if name not in new:
                if value is not None:
                    yield f"{where}.{name}: missing, was {value!r}"
                continue
            if key == "controller" and new[name] == CONTROLLERS.get(value, value):
                continue
            yield from differences(value, new[name], f"{where}.{name}", listed, duplicated)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where}: {len(old)} entries became {len(new)}"
        key = where.rsplit(".", 1)[-1]
        for place, (one, other) in enumerate(zip(old, new)):
            name = one.get("id", one.get("name", place)) if isinstance(one, dict) else place
            yield from differences(one, other, f"{where}[{name}]", key, duplicated)
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        yield f"{where}: {old!r} became {new!r}"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    old, new = results(sys.argv[1]), results(sys.argv[2])
    both = sorted(old.keys() & new.keys())
    found = [f"{name}: only in one of both" for name in sorted(old.keys() ^ new.keys())]
    for name in both:
        duplicated = any(link.get("duplicated_packets", 0) > 0 for link in old[name].get("links", []))
        found += differences(old[name], new[name], name, "", duplicated)
    for line in found:
        print(line)
    print(f"{len(both)} results compared, {len(found)} differences", file=sys.stderr)
    sys.exit(1 if found or not both else 0)


if __name__ == "__main__":
    main()
