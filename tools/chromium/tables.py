"""Tables of the figures, in Markdown."""

BEGIN, END = "<!-- figures of tools/chromium/run.py -->", "<!-- end of figures -->"
TITLES = {
    "gcc": "Google Congestion Control: Chromium, `gcc:libwebrtc`",
    "gcc-whole": "The same, without Chromium's `EncoderBitrateAdjuster`",
    "rfc8888": "Google Congestion Control with RFC 8888 feedback",
    "scream": "SCReAM v2: Chromium, `scream:v2`",
}
HEAD = (
    "|link|phase|used|differs|queue p50 ms|queue p95 ms|differs|loss|estimate kbit/s|freezes|\n"
    "|---|---|---|---|---|---|---|---|---|---|\n"
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
        rows = "".join(row(result, phase) for result in chosen for phase in result["chromium"]["phases"])
        parts.append(f"### {title}\n\n{HEAD}{rows}")
    doubted = [
        f"- {result['mode']}, {result['case']}: {'; '.join(result['chromium']['disturbed'])}."
        for result in results
        if result["chromium"]["disturbed"]
    ]
    if doubted:
        parts.append("Disturbed by the machine:\n\n" + "\n".join(doubted) + "\n")
    late = max((result["chromium"]["lateness_p99_ms"] for result in results), default=0)
    parts.append(f"99th percentile of the link's lateness: at most {late:.2f} ms in any call.\n")
    return "\n".join(parts)


def row(result, phase):
    browser, ours = (result[who]["phases"][phase] for who in ("chromium", "giusto"))
    used = ours["used"] / browser["used"] - 1 if browser["used"] else 0
    late = (ours["queue_p95_ms"] or 0) - (browser["queue_p95_ms"] or 0)
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
        f"{browser['freezes']:.0f}, {ours['freezes']:.0f}",
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
        raise SystemExit(f"{page}: expected the lines \"{BEGIN}\" and \"{END}\"")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
