"""Runs: their records, traces and errors."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pandas
import polars
import pyarrow
import pytest
from conftest import command

import giusto


def scenario(**keys: object) -> giusto.Scenario:
    given = {
        "duration": "10 s",
        "link": giusto.Link("wire", "here", "there", rate="1 Mbit/s", delay="20 ms"),
        "flow": giusto.Flow("voice", "cbr", rate="64 kbit/s", size="200 B"),
    }
    return giusto.Scenario(**{**given, **keys})


def test_a_run_has_the_figures_of_arithmetic() -> None:
    record = giusto.run(scenario(), seed=3)
    voice = record.flow("voice")
    assert (record.seed, record.duration_s, voice.sent_packets) == (3, 10.0, 400)
    # 20 ms of propagation, and 200 B at 1 Mbit/s.
    assert voice.delay_ms.max == pytest.approx(21.6)
    assert voice.delay_ms.p50 == pytest.approx(21.6)
    assert record.link("wire").utilisation_ratio == pytest.approx(0.064, rel=0.01)
    with pytest.raises(KeyError, match="no flow is called 'video': use one of voice"):
        record.flow("video")


@pytest.mark.parametrize("name", ["media/media.toml", "queues/codel.toml", "media/media-repair.toml", "media/media-audio-and-screen.toml"])
def test_a_record_is_that_of_the_command(scenarios: Path, name: str) -> None:
    record = giusto.run(scenarios / name, seed=7)
    printed = json.loads(command("sim", scenarios / name, "--seed", "7", "--json"))
    printed["wall_s"] = record.wall_s
    assert record.to_dict() == printed
    assert [flow.id for flow in record.flows] == [flow["id"] for flow in printed["flows"]]
    assert record.passed == all(check["passed"] for check in printed["checks"])
    assert "received" in str(record)


def test_timeline_and_decisions_add_up_to_the_record(media: str) -> None:
    record = giusto.run(media)
    flow = record.flow("call")
    own = record.flows_over_time.filter(pyarrow.compute.equal(record.flows_over_time["flow"], "call"))
    assert sum(own["sent_packets"].to_pylist()) == flow.sent_packets
    assert len(own) == 500
    link = record.links_over_time.to_pandas().query("link == 'bottleneck'")
    assert link.transmitted_bytes.sum() * 8 / (2e6 * 20) == pytest.approx(
        record.link("bottleneck").utilisation_ratio, rel=0.01
    )
    assert flow.decisions is not None
    assert len(record.decisions) >= flow.decisions > 10
    decisions = record.decisions.to_pandas()
    assert (decisions.from_bps[1:].to_numpy() == decisions.to_bps[:-1].to_numpy()).all()
    assert set(decisions.cause) >= {"delay", "probe"}


def test_a_trace_has_the_rows_of_the_commands_file(media: str, tmp_path: Path) -> None:
    path = tmp_path / "call.toml"
    path.write_text(media)
    trace = giusto.run(path, trace=True).trace
    command("sim", path, "--out", tmp_path / "out", "--trace", "csv")
    with open(tmp_path / "out" / "trace.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert trace.column_names == list(rows[0])
    assert len(trace) == len(rows) > 10_000
    kinds = {"int64": int, "double": float}
    for name in trace.column_names:
        kind = kinds.get(str(trace.schema.field(name).type), str)
        # The only text that is empty and not missing.
        missing = "" if name == "ecn" else None
        expected = [missing if row[name] == "" else kind(row[name]) for row in rows]
        assert trace[name].to_pylist() == expected, name


def test_a_trace_is_not_copied(media: str) -> None:
    record = giusto.run(media, trace=True)
    stream = record._result.trace()

    def addresses(table: pyarrow.Table) -> list[int]:
        return [
            buffer.address
            for column in table.columns
            for chunk in column.chunks
            for buffer in chunk.buffers()
            if buffer is not None
        ]

    # Two tables of one record share its memory.
    first, second = pyarrow.table(stream), pyarrow.table(stream)
    assert addresses(first) == addresses(second)
    assert len(addresses(first)) > 30
    # The memory outlives the record.
    del record, stream
    assert first.equals(second)


def test_pandas_polars_and_numpy_read_a_trace(media: str) -> None:
    trace = giusto.run(media, trace=True).trace
    with_pandas = trace.to_pandas()
    with_polars = polars.DataFrame(trace)
    times = trace["time_ns"].to_numpy()
    assert isinstance(with_pandas, pandas.DataFrame)
    assert isinstance(times, numpy.ndarray)
    assert (numpy.diff(times) >= 0).all()
    delays = with_pandas[with_pandas.event == "delivered"].groupby("flow", observed=True).delay_ns.mean()
    same = with_polars.filter(polars.col("event") == "delivered").group_by("flow").agg(polars.col("delay_ns").mean())
    assert dict(same.iter_rows()) == pytest.approx(delays.to_dict())


def test_differences_of_columns_may_be_negative(media: str) -> None:
    record = giusto.run(media)
    decisions, over_time = record.decisions, record.flows_over_time
    for changes in (
        decisions.to_pandas().eval("to_bps - from_bps"),
        polars.from_arrow(decisions).select(polars.col("to_bps") - polars.col("from_bps"))["to_bps"],
        over_time.to_pandas().received_rate_bps.diff(),
    ):
        assert -5e6 < changes.min() < 0 < changes.max() < 5e6
    largest = giusto.sweep("first", seeds=[2**64 - 1]).flows
    assert largest["seed"].to_pylist() == [2**64 - 1] and largest.schema.field("sent_packets").type == pyarrow.int64()


def test_the_same_seed_gives_the_same_record(scenarios: Path) -> None:
    def run(seed: int) -> dict[str, object]:
        return {**giusto.run(scenarios / "paths/on-off.toml", seed).to_dict(), "wall_s": 0}

    assert run(1) == run(1)
    assert run(1)["flows"] != run(2)["flows"]


def test_what_was_not_recorded_is_named() -> None:
    record = giusto.run(scenario(), timeline=False)
    with pytest.raises(ValueError, match="run it with trace=True"):
        record.trace
    for missing in ("flows_over_time", "links_over_time", "decisions"):
        with pytest.raises(ValueError, match="run it with timeline=True"):
            getattr(record, missing)


def test_a_record_is_written_as_the_command_does(media: str, tmp_path: Path) -> None:
    path = tmp_path / "call.toml"
    path.write_text(media)
    record = giusto.run(path)
    record.write(tmp_path / "python")
    command("sim", path, "--out", tmp_path / "command")

    def result(folder: str) -> object:
        return {**json.loads((tmp_path / folder / "result.json").read_text()), "wall_s": 0}

    assert result("python") == result("command")
    assert "giusto.run, scenario call, seed 1" in (tmp_path / "python" / "report.html").read_text()


def test_ctrl_c_ends_a_run() -> None:
    # 50 million packets take longer than the test waits; a run looks five hundred times whether it is to end.
    text = 'duration = "5000 s"\nlink = [{ id = "a", from = "b", to = "c", rate = "1 Gbit/s" }]\n'
    text += 'flow = [{ id = "d", kind = "cbr", rate = "8 Mbit/s", size = "100 B" }]\n'
    program = f"""
import giusto, sys
print("running", flush=True)
try:
    giusto.sweep({text!r}, seeds=[1, 2, 3])
except KeyboardInterrupt:
    print("interrupted")
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        time.sleep(0.5)
        os.kill(process.pid, signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert (output, process.returncode) == ("interrupted\n", 0)


@pytest.mark.parametrize("how", ["run(text)", "sweep(text, seeds=[1, 2], jobs=2)"])
def test_ctrl_c_ends_an_endless_loop_of_a_controller(media: str, how: str) -> None:
    text = media.replace('kind = "media"', 'kind = "media"\ncontroller = "Endless"')
    program = f"""
import os, giusto

class Endless(giusto.Controller):
    def __init__(self, limits):
        pass

    def target(self):
        return 1e6

    def on_sent(self, now_s, packet):
        os.write(1, b"running\\n")
        while True:
            pass

text = giusto.Scenario.parse({text!r}, controllers=[Endless])
try:
    giusto.{how}
except KeyboardInterrupt:
    print("interrupted")
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "running\n"
            os.kill(process.pid, signal.SIGINT)
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
        assert (output.removeprefix("running\n"), process.returncode) == ("interrupted\n", 0)


def test_results_are_tables_in_notebooks(media: str) -> None:
    record = giusto.run(media + '[[expect]]\nflow = "call"\nmetric = "loss"\nmin = 0\nmax = 0.5\n', seed=1)
    html = record._repr_html_()
    call = record.flow("call")
    for part in ("<td", "call", f"{call.received_rate_bps / 1e6:.3g} Mbit/s", f"{call.frame_delay_ms.p95:.3g} ms", "<polyline", "✓"):
        assert part in html, part
    # Without a timeline there is no chart.
    assert "<polyline" not in giusto.run(media, seed=1, timeline=False)._repr_html_()
    sweep = giusto.sweep(media, {"bottleneck.rate": ["1 Mbit/s", "2 Mbit/s"]}, seeds=[1], progress=False)
    html = sweep._repr_html_()
    assert html.count("<tr>") == 3 and "1 Mbit/s" in html
    html = giusto.benchmark(["fixed", "tempo"], scenarios=1, progress=False)._repr_html_()
    assert html.count("<tr>") == 3 and html.count("<rect") == 2


def test_a_distribution_without_a_sample_is_false() -> None:
    assert not giusto.Distribution() and math.isnan(giusto.Distribution().p95)
    assert giusto.Distribution(1.0, 1.0, 1.0, 1.0, 1.0)


def test_a_dictionary_of_a_record_is_its_own() -> None:
    record = giusto.run("first")
    sent = record.to_dict()["flows"][0]["sent_packets"]
    record.to_dict()["flows"][0]["sent_packets"] = -1
    assert record.to_dict()["flows"][0]["sent_packets"] == sent == record.flows[0].sent_packets


def test_rates_over_time_are_means_of_the_windows_around() -> None:
    rows = giusto.run("media", 1).flows_over_time.to_pandas()
    rows = rows[rows.flow == "call"]
    width_s = rows.t_s.diff().median()
    exact = rows.received_bytes.to_numpy() * 8 / width_s
    # Here three windows hold 25 packets: the window itself, the one before and the one after.
    around = (exact[:-2] + exact[1:-1] + exact[2:]) / 3
    assert rows.received_rate_bps.to_numpy()[1:-2] == pytest.approx(around[:-1], abs=1)
    assert rows.received_rate_bps.to_numpy()[1:-2] != pytest.approx(exact[1:-2], rel=0.1)
