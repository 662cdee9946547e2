"""Tables of the figures, in Markdown."""

BEGIN, END = "<!-- figures of lab/chromium/run.py -->", "<!-- end of figures -->"
TITLES = {
    "gcc": "Google Congestion Control: Chromium, `gcc:libwebrtc`",
    "gcc-whole": "The same, without Chromium's `EncoderBitrateAdjuster`",
    "gcc-no-fec": "Without the adjuster and without ULPFEC",
    "rfc8888": "Google Congestion Control with RFC 8888 feedback",
    "scream": "SCReAM v2: Chromium, `scream:v2`",
}
HEAD = (
    "|link|phase|used|differs|queue p50 ms|queue p95 ms|differs|loss|estimate kbit/s|decreases|freezes|\n"
    "|---|---|---|---|---|---|---|---|---|---|---|\n"
)
# The aims: share of the capacity, and ms.
MAX_USED, MAX_P95_MS = 0.10, 20.0


def markdown(results):
    """A table for each mode."""
    parts = []
    for mode, title in TITLES.items():
        chosen = [result for result in results if result["mode"] == mode]
        if not chosen:
            continue
        phases = [(result, phase) for result in chosen for phase in result["chromium"]["phases"]]
        apart = [differences(result, phase) for result, phase in phases]
        used = sum(abs(used) <= MAX_USED for used, _ in apart)
        late = sum(abs(late) <= MAX_P95_MS for _, late in apart)
        verdict = (
            f"Of {len(apart)} phases, {used} differ by at most {MAX_USED:.0%}".replace("%", " %")
            + f" in the share used, and {late} by at most {MAX_P95_MS:.0f} ms in the p95 of the queueing delay."
        )
        rows = "".join(row(result, phase) for result, phase in phases)
        parts.append(f"### {title}\n\n{verdict}\n\n{HEAD}{rows}")
    calls = [(result, call) for result in results for call in result["calls"]]
    doubted = [
        f"- {result['mode']}, {result['case']}: {'; '.join(call['disturbed'])}."
        for result, call in calls
        if call["disturbed"]
    ]
    if doubted:
        parts.append("Calls that the machine disturbed:\n\n" + "\n".join(doubted) + "\n")
    late = max((call["lateness_p99_ms"] for _, call in calls), default=0)
    parts.append(f"{len(calls)} calls; 99th percentile of the link's lateness: at most {late:.2f} ms in any.\n")
    return "\n".join(parts)


def differences(result, phase):
    """How far ours is from Chromium: share used, relative to Chromium's, and p95 of the queueing delay in ms."""
    browser, ours = (result[who]["phases"][phase] for who in ("chromium", "giusto"))
    used = ours["used"] / browser["used"] - 1 if browser["used"] else 0
    return used, (ours["queue_p95_ms"] or 0) - (browser["queue_p95_ms"] or 0)


def row(result, phase):
    browser, ours = (result[who]["phases"][phase] for who in ("chromium", "giusto"))
    used, late = differences(result, phase)
    cells = (
        result["case"],
        phase,
        f"{browser['used']:.2f}, {ours['used']:.2f}",
        marked(f"{used:+.0%}".replace("%", " %"), abs(used) > MAX_USED),
        f"{number(browser['queue_p50_ms'])}, {number(ours['queue_p50_ms'])}",
        f"{number(browser['queue_p95_ms'])}, {number(ours['queue_p95_ms'])}",
        marked(f"{late:+.0f}", abs(late) > MAX_P95_MS),
        f"{browser['loss']:.1%}, {ours['loss']:.1%}".replace("%", " %"),
        f"{browser['estimate_bps'] / 1000:.0f}, {ours['estimate_bps'] / 1000:.0f}",
        f"{browser['decreases']:g}, {ours['decreases']:g}",
        f"{browser['freezes']:g}, {ours['freezes']:g}",
    )
    return "|" + "|".join(cells) + "|\n"


def number(value):
    return "–" if value is None else f"{value:.0f}"


def marked(text, beyond):
    return f"**{text}**" if beyond else text


def replace(page, text):
    """Puts the tables between the lines of a page that mark their place."""
    whole = page.read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f'{page}: expected the lines "{BEGIN}" and "{END}"')
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
