"""Plots: figures with matplotlib for papers (``pip install 'giusto[plot]'``), and pages with charts for notebooks."""

from __future__ import annotations

import html
import os
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from giusto._call import CallRecord
from giusto._record import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito (2008): distinguishable with any kind of colour vision, and in print by their lightness and line style.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_STYLES = ("-", "--", "-.", ":")
_SHADE = "#dddddd"
# Letters of a line of a legend that fit into the width of a figure.
_LABEL = 80


def record(run: RunRecord, link: str | None = None) -> Figure:
    """Draw the rates and delays of a run over time.

    Above, the received rate of each flow, the target rate of media, and the capacity of a link as a shaded area; below, the
    queueing delay of each flow. Of a call: the sent rate of what this end sends, and the frame delay of what it receives.

    Parameters
    ----------
    run
        A record with a timeline.
    link
        The link whose capacity is drawn. Default: of those on the flows' paths the one of the lowest mean capacity, the bottleneck.

    Returns
    -------
    matplotlib.figure.Figure
        Save it with ``figure.savefig("run.pdf")``.
    """
    figure, (rates, delays) = _axes()
    _capacity(rates, run, link)
    table = run.flows_over_time
    for number, flow in enumerate(_names(table, "flow")):
        own = _rows(table, "flow", flow)
        colour, style = _look(number)
        _flow(rates, delays, run, own, color=colour, linestyle=style, label=flow)
        if own["target_rate_bps"].null_count < len(own):
            _line(rates, own, "target_rate_bps", 1e-6, color=colour, linewidth=0.8, alpha=0.6, label=f"{flow}: target")
    _finish(figure, rates, delays, [run])
    return figure


def compare(runs: Mapping[str, RunRecord], flow: str, link: str | None = None) -> Figure:
    """Draw one flow of several runs over each other, each as `record` draws it.

    Parameters
    ----------
    runs
        Records with a timeline by the names that the legend gives them.
    flow
        The flow.
    link
        The link whose capacity in the first run is drawn. Default: the bottleneck of the flow's path.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> runs = {name: giusto.run("call.toml", set={"call.controller": name}) for name in ("gcc:libwebrtc", "scream:v2")}
    >>> giusto.plot.compare(runs, "call").savefig("compare.pdf")
    """
    if not runs:
        raise ValueError("no run to draw: give at least one")
    figure, (rates, delays) = _axes()
    first = next(iter(runs.values()))
    _capacity(rates, first, link, flow)
    for number, (name, run) in enumerate(runs.items()):
        known = _names(run.flows_over_time, "flow")
        if flow not in known:
            raise KeyError(f"run {name!r} has no flow {flow!r}: use one of {', '.join(known)}")
        own = _rows(run.flows_over_time, "flow", flow)
        colour, style = _look(number)
        _flow(rates, delays, run, own, color=colour, linestyle=style, label=name)
    _finish(figure, rates, delays, list(runs.values()))
    return figure


class Page:
    """A page with charts that can be zoomed and read off, which a notebook shows. It needs no network.

    Attributes
    ----------
    html : str
        The whole page.
    height : int
        Height in a notebook, CSS pixels.
    """

    def __init__(self, html: str, height: int) -> None:
        self.html = html
        self.height = height

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        frame = f'width="100%" height="{self.height}" style="border: 0" title="giusto"'
        return f'<iframe srcdoc="{html.escape(self.html)}" {frame}></iframe>'


def interactive(run: RunRecord, height: int = 720) -> Page:
    """Return the page of a run, with charts that can be zoomed and read off.

    A notebook shows it where it is the value of a cell. It is the ``report.html`` of `RunRecord.write`, about 0.6 MB.

    Parameters
    ----------
    run
        A record with a timeline.
    height
        Height in a notebook, CSS pixels.
    """
    with tempfile.TemporaryDirectory() as folder:
        run.write(folder)
        return Page((Path(folder) / "report.html").read_text(encoding="utf-8"), height)


def _axes() -> tuple[Figure, tuple[Axes, Axes]]:
    try:
        from giusto._figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'giusto[plot]'") from error
    # Without pyplot: nothing is shown or kept that the caller does not ask for. The width is that of two columns in print.
    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    rates, delays = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    return figure, (rates, delays)


def _look(number: int) -> tuple[str, str]:
    return _COLOURS[number % len(_COLOURS)], _STYLES[number % len(_STYLES)]


def _capacity(axes: Axes, run: RunRecord, link: str | None, flow: str | None = None) -> None:
    """Draw the capacity of a link as a shaded step, if it has one: by default of the narrowest on the path of a flow, or of all."""
    paths = {own for known in run.flows if flow in (None, known.id) for own in known.path}
    limited = [own for own in run.links if own.capacity_bps is not None and own.id in paths]
    if link is not None:
        limited = [run.link(link)]
    if not limited:
        return
    narrowest = min(limited, key=lambda own: own.capacity_bps or 0.0)
    own = _rows(run.links_over_time, "link", narrowest.id)
    capacity = own["capacity_bps"].to_numpy() / 1e6
    times = own["t_s"].to_numpy()
    axes.fill_between(times, capacity, step="mid", color=_SHADE, linewidth=0, label=f"capacity of {narrowest.id}", zorder=0)


def _names(table: Any, column: str) -> list[str]:
    names: list[str] = table[column].unique().to_pylist()
    return names


def _rows(table: Any, column: str, name: str) -> Any:
    from pyarrow import compute

    return table.filter(compute.equal(table[column], name))


def _flow(rates: Axes, delays: Axes, run: RunRecord, rows: Any, **look: Any) -> None:
    """Draw a rate and a delay of a flow."""
    # Each end of a call knows one of the two rates over time.
    is_sent = rows["received_rate_bps"].null_count == len(rows)
    _line(rates, rows, "sent_rate_bps" if is_sent else "received_rate_bps", 1e-6, **look)
    if isinstance(run, CallRecord):
        # Few windows of a call have a frame, so that a line would have gaps.
        _line(delays, rows, "frame_delay_max_ms", 1, marker=".", markersize=3, **look)
    else:
        _line(delays, rows, "queue_delay_max_ms", 1, **look)


def _line(axes: Axes, rows: Any, column: str, factor: float, **look: Any) -> None:
    look.setdefault("linewidth", 1.4)
    axes.plot(rows["t_s"].to_numpy(), rows[column].to_numpy() * factor, **look)


def _finish(figure: Figure, rates: Axes, delays: Axes, runs: Sequence[RunRecord]) -> None:
    rates.set_ylabel("rate (Mbit/s)")
    kinds = {"frame" if isinstance(run, CallRecord) else "queueing": None for run in runs}
    delays.set_ylabel(f"{' or '.join(kinds)} delay (ms)")
    delays.set_xlabel("time (s)")
    delays.set_xlim(0, max(run.duration_s for run in runs))
    for axes in (rates, delays):
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", linewidth=0.4, color="#cccccc")
        axes.set_axisbelow(True)
    _legend(figure, rates)


def _legend(figure: Figure, axes: Axes) -> None:
    """Draw the legend above the axes, which then have the whole width, in as many columns as fit into it."""
    handles, names = axes.get_legend_handles_labels()
    labels = [textwrap.fill(str(name), _LABEL) for name in names]
    look: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "frameon": False, "fontsize": "small", "borderpad": 0}
    for columns in range(min(len(labels), 4), 0, -1):
        legend = axes.legend(handles, labels, ncols=columns, **look)
        # What is too wide would be cut, and must not narrow the axes.
        legend.set_in_layout(False)
        figure.draw_without_rendering()
        is_whole = legend.get_window_extent().x1 <= figure.bbox.x1
        legend.set_in_layout(True)
        if is_whole:
            return
