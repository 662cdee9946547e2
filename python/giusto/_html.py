"""Results as HTML, which notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_WIDTH, _HEIGHT = 560, 90
# The first colours of Okabe and Ito, which people with colour blindness can tell apart.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells but those of the first column are numbers, on the right."""
    cells = "".join(f"<th style='text-align:{'right' if at else 'left'}'>{escape(name)}</th>" for at, name in enumerate(head))
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:{'right' if at else 'left'}'>{escape(cell)}</td>" for at, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def lines(title: str, series: dict[str, list[tuple[float, float]]]) -> str:
    """Return a small chart of lines over time in s, with names and the highest value."""
    points = [point for line in series.values() for point in line]
    if not points:
        return ""
    last, highest = max(at for at, _ in points) or 1.0, max(value for _, value in points) or 1.0
    drawn, names = [], []
    for (name, line), place in zip(series.items(), range(len(_COLOURS))):
        colour = _COLOURS[place]
        path = " ".join(f"{at / last * _WIDTH:.1f},{_HEIGHT - value / highest * (_HEIGHT - 4):.1f}" for at, value in line)
        drawn.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='1.5'/>")
        names.append(f"<span style='color:{colour}'>{escape(name)}</span>")
    more = len(series) - len(drawn)
    text = f"{escape(title)}, 0 to {bit_rate(highest)}, {last:.0f} s: {', '.join(names)}" + (f", {more} more not drawn" if more else "")
    return (
        f"<figure style='margin:0.5em 0'><svg role='img' width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}'>"
        f"<title>{escape(title)}</title>{''.join(drawn)}</svg><figcaption>{text}</figcaption></figure>"
    )


def bars(title: str, values: dict[str, float]) -> str:
    """Return a small chart of bars for values from 0 to 1."""
    row = 18
    drawn = "".join(
        f"<rect x='150' y='{place * row + 2}' width='{max(value, 0.0) * 350:.1f}' height='{row - 5}' fill='{_COLOURS[0]}'/>"
        f"<text x='144' y='{place * row + 13}' text-anchor='end' font-size='12' fill='currentColor'>{escape(name)}</text>"
        f"<text x='{156 + max(value, 0.0) * 350:.1f}' y='{place * row + 13}' font-size='12' fill='currentColor'>{value:.2f}</text>"
        for place, (name, value) in enumerate(values.items())
    )
    return (
        f"<figure style='margin:0.5em 0'><svg role='img' width='{_WIDTH}' height='{len(values) * row}'>"
        f"<title>{escape(title)}</title>{drawn}</svg><figcaption>{escape(title)}</figcaption></figure>"
    )


def bit_rate(bps: float | None) -> str:
    """Return a rate with three digits and its unit."""
    if bps is None:
        return "–"
    for size, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bps >= size:
            return f"{bps / size:.3g} {unit}"
    return f"{bps:.3g} bit/s"


def number(value: float | None, unit: str = "") -> str:
    """Return a number with three digits."""
    return "–" if value is None else f"{value:.3g}{' ' if unit else ''}{unit}"


def share(ratio: float | None) -> str:
    """Return a ratio in percent."""
    return "–" if ratio is None else f"{ratio * 100:.3g} %"
