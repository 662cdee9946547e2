"""Plots show what the tables hold."""

from __future__ import annotations

import html
import pickle
import re
import sys
from pathlib import Path

import numpy
import pytest

import giusto


def test_a_run_is_drawn_with_units_and_capacity(media: str, tmp_path: Path) -> None:
    record = giusto.run(media + '[[change]]\nat = "10 s"\nlink = "bottleneck"\nrate = "1 Mbit/s"\n')
    figure = giusto.plot.record(record)
    rates, delays = figure.axes
    assert (rates.get_ylabel(), delays.get_ylabel(), delays.get_xlabel()) == (
        "rate (Mbit/s)",
        "queueing delay (ms)",
        "time (s)",
    )
    [shade] = rates.collections
    heights = shade.get_paths()[0].vertices[:, 1]
    assert set(numpy.round(heights, 6)) == {0.0, 1.0, 2.0}
    received, target = rates.get_lines()
    own = record.flows_over_time.to_pandas().query("flow == 'call'")
    assert received.get_ydata() == pytest.approx(own.received_rate_bps / 1e6)
    assert target.get_ydata() == pytest.approx(own.target_rate_bps / 1e6, nan_ok=True)
    labels = [text.get_text() for text in rates.get_legend().get_texts()]
    assert labels == ["capacity of bottleneck", "call", "call: target"]
    figure.savefig(tmp_path / "run.pdf")
    assert (tmp_path / "run.pdf").read_bytes().startswith(b"%PDF")


def test_the_capacity_is_that_of_the_flows_own_direction(scenarios: Path) -> None:
    record = giusto.run(scenarios / "paths/asymmetric.toml")
    for figure in (giusto.plot.record(record), giusto.plot.compare({"one": record}, "tcp")):
        [shade] = figure.axes[0].collections
        assert shade.get_label() == "capacity of down"


def test_runs_are_compared(media: str) -> None:
    names = ["gcc:libwebrtc", "scream:v2", "fixed"]
    runs = {name: giusto.run(media, set={"call.controller": name}) for name in names}
    rates, delays = giusto.plot.compare(runs, "call").axes
    assert [line.get_label() for line in rates.get_lines()] == names
    looks = {(line.get_color(), line.get_linestyle()) for line in delays.get_lines()}
    assert len(looks) == 3
    with pytest.raises(KeyError, match="has no flow 'video': use one of call"):
        giusto.plot.compare(runs, "video")
    with pytest.raises(ValueError, match="give at least one"):
        giusto.plot.compare({}, "call")


def test_long_names_fit_into_the_legend(media: str) -> None:
    run = giusto.run(media)
    widths = []
    for names in (["a", "b"], [f"scream:rfc8298+giusto, variant {number}" for number in range(4)], ["a name of many words " * 12]):
        figure = giusto.plot.compare(dict.fromkeys(names, run), "call")
        figure.draw_without_rendering()
        legend = figure.axes[0].get_legend()
        assert 0 <= legend.get_window_extent().x0 and legend.get_window_extent().x1 <= figure.bbox.x1
        widths.append(figure.axes[0].get_position().width)
    # The axes keep their width.
    assert min(widths) > 0.85 and widths == pytest.approx([widths[0]] * 3, abs=1e-3)


def test_notebooks_show_figures_and_pages_that_need_no_network(media: str, tmp_path: Path) -> None:
    record = giusto.run(media)
    figure = giusto.plot.record(record)
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert pickle.loads(pickle.dumps(figure))._repr_png_().startswith(b"\x89PNG")
    page = giusto.plot.interactive(record, height=500)
    record.write(tmp_path)
    assert page.html == (tmp_path / "report.html").read_text()
    shown = page._repr_html_()
    assert shown.startswith("<iframe srcdoc=") and 'height="500"' in shown
    # All of the page is within the attribute.
    assert html.unescape(shown.split('"')[1]) == page.html
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page.html)
    page.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page.html


def test_a_missing_matplotlib_is_named(media: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record = giusto.run(media)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "giusto._figure", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'giusto\[plot\]'"):
        giusto.plot.record(record)
