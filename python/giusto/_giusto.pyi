"""Conversions between Python and giusto; use the package `giusto`."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from typing_extensions import Buffer

from giusto._controller import Controller

__all__ = [
    "ArrowStream",
    "Benchmark",
    "BenchmarkTasks",
    "City",
    "Document",
    "Environments",
    "Feedback",
    "Limits",
    "Listener",
    "NadaReport",
    "Observer",
    "PacketReport",
    "Probe",
    "QueueState",
    "RateControl",
    "Run",
    "ScenarioError",
    "SentPacket",
    "Steps",
    "StreamState",
    "Sweep",
    "SweepTasks",
    "Target",
    "action_of_target",
    "benchmark_task",
    "call",
    "constants",
    "controllers",
    "environment_families",
    "environment_features",
    "environment_scale",
    "interval",
    "judge",
    "main",
    "merge_benchmarks",
    "merge_sweeps",
    "run",
    "run_benchmark",
    "run_city",
    "run_sweep",
    "setting_paths",
    "target_of_action",
    "sweep_task",
    "toml",
    "with_constants",
]

class ScenarioError(ValueError): ...

@final
class ArrowStream:
    def __arrow_c_schema__(self) -> Any: ...
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...

@final
class Document:
    def __new__(cls, text: str, name: str, traces: Mapping[str, str] = ...) -> Document: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> Document: ...
    @property
    def text(self) -> str: ...
    def check(
        self, settings: Sequence[tuple[str, str]], controllers: Sequence[type[Controller]]
    ) -> tuple[str, int]: ...
    def pickled(
        self, settings: Sequence[tuple[str, str]], controllers: Sequence[type[Controller]] = ...
    ) -> tuple[str, str, dict[str, str], list[tuple[str, str]]]: ...
    def contenders(
        self,
        settings: Sequence[tuple[str, str]],
        controllers: Sequence[type[Controller]],
        names: Sequence[str],
        flow: str | None,
    ) -> tuple[list[tuple[str, list[tuple[str, str]]]], list[str]]: ...

@final
class Run:
    def json(self) -> str: ...
    def tables(self) -> str: ...
    def flows_over_time(self) -> ArrowStream: ...
    def links_over_time(self) -> ArrowStream: ...
    def decisions(self) -> ArrowStream: ...
    def trace(self) -> ArrowStream: ...
    def write(self, folder: str | os.PathLike[str], command: str) -> None: ...

@final
class Listener:
    def __new__(
        cls,
        host: str,
        port: int,
        *,
        controllers: Sequence[type[Controller]],
        max_rate: str | None,
        silence: str,
        timeline: bool,
    ) -> Listener: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    def serve(self) -> Run: ...

@final
class City:
    def json(self) -> str: ...
    @property
    def passed(self) -> bool: ...
    def tables(self) -> str: ...
    def calls(self) -> ArrowStream: ...
    def calls_over_time(self) -> ArrowStream: ...
    def write(self, folder: str | os.PathLike[str], command: str) -> None: ...

@final
class Sweep:
    def flows(self) -> ArrowStream: ...
    def links(self) -> ArrowStream: ...
    def json(self) -> str: ...
    @property
    def passed(self) -> bool: ...
    def write(self, folder: str | os.PathLike[str]) -> None: ...

@final
class Benchmark:
    def runs(self) -> ArrowStream: ...
    def json(self) -> str: ...
    def write(self, folder: str | os.PathLike[str], command: str) -> None: ...

@final
class SweepTasks:
    def __new__(
        cls,
        document: Document,
        values: Sequence[tuple[str, Sequence[str]]],
        seeds: Sequence[int],
        controllers: Sequence[type[Controller]],
        *,
        shard: str | None,
        out: str | os.PathLike[str] | None,
        resume: bool,
    ) -> SweepTasks: ...
    @property
    def document(self) -> tuple[str, str, dict[str, str]]: ...
    @property
    def total(self) -> int: ...
    @property
    def done(self) -> int: ...
    def tasks(self, size: int) -> list[list[tuple[list[tuple[str, str]], list[int]]]]: ...
    def take(self, made: Sequence[str]) -> None: ...
    def finish(self, out: str | os.PathLike[str] | None) -> Sweep: ...

@final
class BenchmarkTasks:
    def __new__(
        cls,
        seeds: Sequence[str],
        scenarios: int,
        names: Sequence[str] | None,
        controllers: Sequence[type[Controller]],
        *,
        shard: str | None,
        out: str | os.PathLike[str] | None,
        resume: bool,
    ) -> BenchmarkTasks: ...
    @property
    def total(self) -> int: ...
    @property
    def done(self) -> int: ...
    def tasks(self) -> list[tuple[str, int, list[str]]]: ...
    def take(self, made: str) -> None: ...
    def finish(self) -> Benchmark: ...

@final
class Limits:
    @property
    def min_bps(self) -> float: ...
    @property
    def start_bps(self) -> float: ...
    @property
    def max_bps(self) -> float: ...

@final
class SentPacket:
    @property
    def sequence(self) -> int: ...
    @property
    def at_s(self) -> float: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def probe(self) -> int | None: ...
    @property
    def in_flight_bytes(self) -> int: ...

@final
class PacketReport:
    @property
    def sent(self) -> SentPacket: ...
    @property
    def arrival_s(self) -> float | None: ...
    @property
    def ecn(self) -> str: ...

@final
class NadaReport:
    @property
    def ramp_up(self) -> bool: ...
    @property
    def signal_ms(self) -> float: ...
    @property
    def received_bps(self) -> float: ...

@final
class Feedback:
    @property
    def packets(self) -> list[PacketReport]: ...
    @property
    def round_trip_s(self) -> float | None: ...
    @property
    def receiver_estimate_bps(self) -> float | None: ...
    @property
    def loss_ratio(self) -> float | None: ...
    @property
    def nada(self) -> NadaReport | None: ...
    @property
    def quench(self) -> bool: ...
    @property
    def in_flight_bytes(self) -> int: ...

@final
class QueueState:
    @property
    def size_bytes(self) -> int: ...
    @property
    def oldest_s(self) -> float: ...

@final
class StreamState:
    @property
    def priority(self) -> float: ...
    @property
    def min_bps(self) -> float: ...
    @property
    def max_bps(self) -> float: ...
    @property
    def paused(self) -> bool: ...
    @property
    def queue(self) -> QueueState: ...

@final
class Target:
    def __new__(
        cls,
        media_bps: float,
        *,
        pacing_bps: float | None = None,
        padding_bps: float = 0.0,
        window_bytes: int | None = None,
    ) -> Target: ...
    @property
    def media_bps(self) -> float: ...
    @property
    def pacing_bps(self) -> float: ...
    @property
    def padding_bps(self) -> float: ...
    @property
    def window_bytes(self) -> int | None: ...

@final
class Probe:
    def __new__(
        cls, cluster: int, rate_bps: float, *, duration_s: float = 0.015, packets: int = 5
    ) -> Probe: ...
    @property
    def cluster(self) -> int: ...
    @property
    def rate_bps(self) -> float: ...
    @property
    def duration_s(self) -> float: ...
    @property
    def packets(self) -> int: ...

@final
class Environments:
    def __new__(
        cls,
        count: int,
        *,
        benchmark: str,
        families: Sequence[str],
        scenarios: int | None,
        document: Document | None,
        settings: Sequence[tuple[str, str]],
        randomise: Sequence[tuple[str, bool, list[str]]],
        flow: str | None,
        controller: str | None,
        step_s: float,
        autoreset: str,
        threads: int,
    ) -> Environments: ...
    def reset(self, begin: Sequence[tuple[int | None, int | None] | None]) -> Steps: ...
    def step(self, actions: Sequence[float]) -> Steps: ...

@final
class Steps:
    @property
    def observations(self) -> bytes: ...
    @property
    def figures(self) -> bytes: ...
    @property
    def flags(self) -> bytes: ...
    @property
    def news(self) -> list[tuple[int, dict[str, Any]]]: ...

@final
class Observer:
    def __new__(cls, limits: Limits) -> Observer: ...
    def __deepcopy__(self, memo: dict[Any, Any]) -> Observer: ...
    def on_sent(self, packet: SentPacket) -> None: ...
    def on_feedback(self, now_s: float, feedback: Feedback) -> None: ...
    def set_limits(self, limits: Limits) -> None: ...
    def on_route_change(self) -> None: ...
    def observe(self, began_s: float, now_s: float, target_bps: float, oldest_s: float) -> bytes: ...

def environment_features() -> list[tuple[str, float, float]]: ...
def environment_families() -> list[str]: ...
def environment_scale() -> tuple[float, int, int]: ...
def target_of_action(action: float) -> int: ...
def action_of_target(target_bps: float) -> float: ...

@final
class RateControl:
    def __new__(
        cls,
        controller: str,
        *,
        min_bps: float,
        start_bps: float,
        max_bps: float,
        ntp_at_zero: int | None = None,
    ) -> RateControl: ...
    @property
    def name(self) -> str: ...
    @property
    def accepted_feedback(self) -> list[str]: ...
    @property
    def target(self) -> Target: ...
    @property
    def in_flight_bytes(self) -> int: ...
    @property
    def decision(self) -> dict[str, Any]: ...
    def on_sent(
        self,
        now_s: float,
        size_bytes: int,
        *,
        ssrc: int | None = None,
        sequence: int | None = None,
        transport_sequence: int | None = None,
        probe: int | None = None,
    ) -> SentPacket: ...
    def on_rtcp(self, now_s: float, datagram: Buffer) -> Feedback | None: ...
    def on_timeout(self, now_s: float, *, queue_bytes: int = 0, oldest_s: float = 0.0) -> None: ...
    def next_timeout(self) -> float | None: ...
    def set_limits(
        self,
        now_s: float,
        *,
        min_bps: float | None = None,
        start_bps: float | None = None,
        max_bps: float | None = None,
    ) -> None: ...
    def on_route_change(self, now_s: float) -> None: ...
    def next_probe(self) -> Probe | None: ...

def main(words: Sequence[str]) -> int: ...
def toml(json: str) -> str: ...
def setting_paths() -> list[str]: ...
def controllers() -> list[tuple[str, str]]: ...
def constants(controller: str) -> tuple[str, list[tuple[str, str, str, tuple[float, float], bool, float]]]: ...
def with_constants(controller: str, values: Sequence[tuple[str, float]]) -> str: ...
def judge(
    scenario: tuple[str, int] | tuple[tuple[str, str, dict[str, str], list[tuple[str, str]]], int, str | None],
    controllers: Sequence[str],
) -> list[str]: ...
def interval(values: Sequence[float]) -> tuple[float, float | None, float | None] | None: ...
def run(
    document: Document,
    settings: Sequence[tuple[str, str]],
    controllers: Sequence[type[Controller]],
    seed: int | None,
    *,
    timeline: bool,
    trace: bool,
) -> Run: ...
def call(
    host: str,
    port: int,
    *,
    controller: str | type[Controller] | None,
    duration: str,
    rates: Sequence[str | None],
    video: int,
    audio: bool,
    encoder: str,
    delay_target: str | None,
    repair: str,
    direction: str,
    seed: int,
    silence: str,
    timeline: bool,
) -> Run: ...
def run_city(document: Document, settings: Sequence[tuple[str, str]], seed: int | None) -> City: ...
def run_sweep(
    document: Document,
    values: Sequence[tuple[str, Sequence[str]]],
    seeds: Sequence[int],
    controllers: Sequence[type[Controller]],
    *,
    shard: str | None,
    jobs: int,
    out: str | os.PathLike[str] | None,
    resume: bool,
    progress: Callable[[int, int], object] | None,
) -> Sweep: ...
def run_benchmark(
    seeds: Sequence[str],
    scenarios: int,
    recordings: tuple[str, bool, float] | None,
    names: Sequence[str] | None,
    controllers: Sequence[type[Controller]],
    *,
    shard: str | None,
    jobs: int,
    out: str | os.PathLike[str] | None,
    resume: bool,
    progress: Callable[[int, int], object] | None,
) -> Benchmark: ...
def sweep_task(
    document: tuple[str, str, dict[str, str]],
    controllers: Sequence[type[Controller]],
    runs: Sequence[tuple[Sequence[tuple[str, str]], Sequence[int]]],
) -> list[str]: ...
def benchmark_task(
    scenarios: int, controllers: Sequence[type[Controller]], run: tuple[str, int, Sequence[str]]
) -> str: ...
def merge_sweeps(folders: Sequence[str | os.PathLike[str]]) -> Sweep: ...
def merge_benchmarks(parts: Sequence[tuple[str, str]]) -> Benchmark: ...
