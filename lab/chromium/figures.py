"""Figures of a call, by phase: of the link, of Chromium from getStats, of the simulator from its trace.

The link's figures are made the same way in both cases: bytes and mean queueing delay of the packets that leave the
queue in each window, a window's delay counted once for each of its packets.
"""

import collections
import json
import statistics

# A call is disturbed if one packet of a hundred was later than this, if a page took no sample (every 100 ms) for so
# long, or if the encoder was short of CPU.
MAX_LATENESS_MS = 5.0
MAX_GAP_S = 0.5
# A freeze: W3C "Identifiers for WebRTC's Statistics API", freezeCount.
FREEZE_FACTOR, FREEZE_EXTRA_S, FREEZE_FRAMES = 3, 0.150, 30
# A decrease of the estimate: by this share within a second.
DECREASE = 0.1

Window = collections.namedtuple("Window", "t_s capacity_bits bits packets delay_ms dropped lost")


def of_call(folder, phases, start_s):
    """Figures of a call of two Chromiums across the link."""
    with (folder / "link" / "result.json").open(encoding="utf-8") as file:
        record = json.load(file)
    near, far = (lines(folder / f"{end}.jsonl") for end in ("near", "far"))
    windows = of_timeline(record)
    lateness = record["real_time"]["lateness_us"]
    sent = [line for line in near if "outbound-rtp:video" in line]
    limited = sent[-1]["outbound-rtp:video"]["qualityLimitationDurations"] if sent else {}
    out = {
        "window_s": record["timeline"]["width_s"],
        "lateness_p99_ms": round(lateness["p99"] / 1000, 3),
        "stalled_s": round(max(longest_gap(near), longest_gap(far)), 3),
        "cpu_limited_s": limited.get("cpu", 0),
        "phases": {},
    }
    doubts = []
    if out["lateness_p99_ms"] > MAX_LATENESS_MS:
        doubts.append(f"1 % of the packets were at least {out['lateness_p99_ms']:.1f} ms late")
    if out["stalled_s"] > MAX_GAP_S:
        doubts.append(f"a browser stood still for {out['stalled_s']:.1f} s")
    if out["cpu_limited_s"]:
        doubts.append(f"the encoder was short of CPU for {out['cpu_limited_s']:.1f} s")
    if not sent or sent[-1]["t_s"] < start_s + phases[-1][2] - 2:
        doubts.append("the call ended early")
    out["disturbed"] = doubts
    for name, begin, end in phases:
        begin, end = start_s + begin, start_s + end
        found = of_windows(windows, begin, end)
        found |= of_sender(near, begin, end) | of_receiver(far, begin, end)
        out["phases"][name] = found
    out["ccfb_messages"] = max((line.get("transport", {}).get("ccfbMessagesReceived", 0) for line in near), default=0)
    out["ect1_packets"] = max(
        (line.get("outbound-rtp:video", {}).get("packetsSentWithEct1", 0) for line in near), default=0
    )
    return out


def of_simulation(events, result, phases, start_s, window_s):
    """Figures of a simulated call, from the events of its trace."""
    link = collections.defaultdict(lambda: [0, 0, 0, 0, 0])
    frames, targets = [], []
    for event in events:
        t_s = int(event["time_ns"]) / 1e9
        kind = event["event"]
        if event["flow"] != "call":
            continue
        if kind == "decided":
            targets.append((t_s, int(event["to_bps"])))
        elif kind == "frame":
            frames.append(t_s)
        elif event["link"] != "bottleneck":
            continue
        bits, packets, delay, dropped, lost = range(5)
        window = link[int(t_s / window_s)]
        if kind == "dequeued":
            window[bits] += int(event["size_bytes"]) * 8
            window[packets] += 1
            window[delay] += int(event["sojourn_ns"]) / 1e6
        elif kind == "dropped":
            window[lost if event["reason"] == "loss" else dropped] += 1
    with result.open(encoding="utf-8") as file:
        timeline = json.load(file)["timeline"]
    capacity = capacities(timeline)
    windows = []
    for place in range(round((start_s + phases[-1][2]) / window_s) + 1):
        bits, packets, delay, dropped, lost = link.get(place, (0, 0, 0, 0, 0))
        t_s = (place + 0.5) * window_s
        rate = capacity[min(int(t_s / timeline["width_s"]), len(capacity) - 1)]
        mean = delay / packets if packets else None
        windows.append(Window(t_s, rate * window_s, bits, packets, mean, dropped, lost))
    out = {"phases": {}}
    for name, begin, end in phases:
        begin, end = start_s + begin, start_s + end
        found = of_windows(windows, begin, end)
        found["estimate_bps"] = round(time_mean(targets, begin, end))
        found["decreases"] = decreases(targets, begin, end)
        found["frames"] = sum(begin <= t_s < end for t_s in frames)
        found["freezes"], found["frozen_s"] = freezes(frames, begin, end)
        out["phases"][name] = found
    return out


def medians(runs):
    """Medians of the runs with different seeds, and the range of each."""
    out = {"phases": {}}
    for name in runs[0]["phases"]:
        found = {}
        for key in runs[0]["phases"][name]:
            values = [run["phases"][name][key] for run in runs]
            values = [value for value in values if value is not None]
            found[key] = statistics.median(values) if values else None
            found[f"{key}_range"] = [min(values), max(values)] if values else None
        out["phases"][name] = found
    return out


def lines(path):
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def longest_gap(samples):
    """The longest time without a sample, in seconds."""
    times = [line["t_s"] for line in samples]
    return max((now - before for before, now in zip(times, times[1:])), default=0.0)


def capacities(timeline):
    link = next(link for link in timeline["links"] if link["id"] == "bottleneck")
    return [value or 0 for value in link["capacity_bps"]]


def of_timeline(record):
    """The windows of the bottleneck in the record of `giusto link`."""
    timeline = record["timeline"]
    link = next(link for link in timeline["links"] if link["id"] == "bottleneck")
    columns = zip(
        timeline["t_s"],
        capacities(timeline),
        link["transmitted_bytes"],
        link["transmitted_packets"],
        link["queue_delay_mean_ms"],
        link["dropped_packets"],
        link["lost_packets"],
    )
    width_s = timeline["width_s"]
    return [
        Window(t_s, rate * width_s, sent * 8, packets, delay, dropped, lost)
        for t_s, rate, sent, packets, delay, dropped, lost in columns
    ]


def of_windows(windows, begin, end):
    """Share of the capacity used, queueing delay, loss."""
    chosen = [window for window in windows if begin <= window.t_s < end]
    packets = sum(window.packets for window in chosen)
    offered = packets + sum(window.dropped for window in chosen)
    missing = sum(window.dropped + window.lost for window in chosen)
    delays = sorted((window.delay_ms, window.packets) for window in chosen if window.packets)
    return {
        "used": round(
            sum(window.bits for window in chosen) / max(1, sum(window.capacity_bits for window in chosen)), 4
        ),
        "queue_p50_ms": quantile(delays, 0.5),
        "queue_p95_ms": quantile(delays, 0.95),
        "loss": round(missing / max(1, offered), 4),
        "packet_bytes": round(sum(window.bits for window in chosen) / 8 / max(1, packets)),
    }


def quantile(weighted, share):
    """The smallest value that this share of the weight does not exceed."""
    rest = share * sum(weight for _, weight in weighted)
    for value, weight in weighted:
        rest -= weight
        if rest <= 0:
            return round(value, 1)
    return None


def of_sender(samples, begin, end):
    """What the sending Chromium says."""
    estimates = [(line["t_s"], line.get("candidate-pair", {}).get("availableOutgoingBitrate")) for line in samples]
    estimates = [(t_s, value) for t_s, value in estimates if value is not None]
    sent = "outbound-rtp:video"
    encoder = [(line["t_s"], line.get(sent, {}).get("targetBitrate")) for line in samples]
    encoder = [(t_s, value) for t_s, value in encoder if value is not None]
    payload = grown(samples, sent, "bytesSent", begin, end)
    again = grown(samples, sent, "retransmittedBytesSent", begin, end)
    return {
        "estimate_bps": round(time_mean(estimates, begin, end)),
        "decreases": decreases(estimates, begin, end),
        "encoder_target_bps": round(time_mean(encoder, begin, end)),
        "payload_bps": round((payload - again) * 8 / (end - begin)),
        "retransmitted_bps": round(again * 8 / (end - begin)),
        "frames_encoded": grown(samples, sent, "framesEncoded", begin, end),
        "key_frames": grown(samples, sent, "keyFramesEncoded", begin, end),
    }


def of_receiver(samples, begin, end):
    """What the receiving Chromium says."""
    name = "inbound-rtp:video"
    return {
        "frames": grown(samples, name, "framesDecoded", begin, end),
        "freezes": grown(samples, name, "freezeCount", begin, end),
        "frozen_s": round(grown(samples, name, "totalFreezesDuration", begin, end), 2),
        "packets_lost": grown(samples, name, "packetsLost", begin, end),
    }


def grown(samples, kind, key, begin, end):
    """How much a counter grew in a phase."""
    values = [(line["t_s"], line[kind][key]) for line in samples if key in line.get(kind, {})]
    before = [value for t_s, value in values if t_s < begin]
    within = [value for t_s, value in values if t_s < end]
    return (within[-1] if within else 0) - (before[-1] if before else 0)


def time_mean(values, begin, end):
    """The mean over time of a value that holds until the next one."""
    total = 0.0
    for (t_s, value), (until, _) in zip(values, [*values[1:], (end, None)]):
        total += value * max(0.0, min(until, end) - max(t_s, begin))
    first = max(begin, values[0][0]) if values else end
    return total / (end - first) if end > first else 0.0


def decreases(values, begin, end):
    """How often a value fell by more than a tenth within a second; looked at ten times, counted once a second."""
    count, place, recent, last_s = 0, 0, collections.deque(maxlen=11), begin - 1
    for step in range(round((end - begin) * 10)):
        now_s = begin + step / 10
        while place + 1 < len(values) and values[place + 1][0] <= now_s:
            place += 1
        if not values or values[place][0] > now_s:
            continue
        recent.append(values[place][1])
        if recent[-1] < (1 - DECREASE) * max(recent) and now_s - last_s >= 1:
            count, last_s = count + 1, now_s
            recent.clear()
    return count


def freezes(frames, begin, end):
    """Freezes of frames that are shown when they are complete: their number and length in seconds."""
    count, total_s = 0, 0.0
    gaps = collections.deque(maxlen=FREEZE_FRAMES)
    for before, now in zip(frames, frames[1:]):
        gap = now - before
        mean = sum(gaps) / len(gaps) if gaps else gap
        if gap >= max(FREEZE_FACTOR * mean, mean + FREEZE_EXTRA_S) and begin <= now < end:
            count += 1
            total_s += gap
        gaps.append(gap)
    return count, round(total_s, 2)
