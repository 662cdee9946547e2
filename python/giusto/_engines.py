"""Engines that make the runs of sweeps and benchmarks on other machines: Dask, Ray, and executors."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Engine(Protocol):
    """What calls functions elsewhere."""

    def cores(self) -> int:
        """Return the number of tasks that it works on at a time."""

    def completed(
        self, function: Callable[..., _Result], common: tuple[Any, ...], tasks: Sequence[_Task]
    ) -> Generator[_Result, None, None]:
        """Call ``function(*common, task)`` for each task; yield the results as they come. When closed, cancel the rest."""


def engine_of(given: object) -> Engine:
    """Return the engine that a user gave: by its name, or a client, a module or an executor."""
    if given == "dask":
        return _Dask(_dask_client())
    if given == "ray":
        return _Ray(_import("ray", "ray"))
    if isinstance(given, str):
        raise ValueError(f'engine "{given}" is unknown: use "dask", "ray", a dask.distributed.Client, or an executor')
    kind = type(given)
    if kind.__module__.split(".")[0] == "distributed":
        return _Dask(given)
    if getattr(given, "__name__", None) == "ray" or kind.__module__.split(".")[0] == "ray":
        return _Ray(_import("ray", "ray"))
    if callable(getattr(given, "submit", None)):
        return _Executor(given)
    raise TypeError(
        f"engine {given!r} is not supported: give a dask.distributed.Client, the module ray, or a concurrent.futures.Executor"
    )


class _Dask:
    def __init__(self, client: Any) -> None:
        self._client = client

    def cores(self) -> int:
        # An adaptive cluster may begin with no worker.
        return sum(self._client.nthreads().values()) or 16

    def completed(
        self, function: Callable[..., _Result], common: tuple[Any, ...], tasks: Sequence[_Task]
    ) -> Generator[_Result, None, None]:
        distributed = _import("distributed", "dask")
        # What is common is sent once, as results that the tasks depend on: unlike scattered data they are made again when their
        # worker is lost, and need no worker yet.
        given = [self._client.submit(_itself, value, pure=False) for value in common]
        # A task that is lost with its worker is made again elsewhere; an exception is final.
        futures = [self._client.submit(function, *given, task, pure=False) for task in tasks]
        try:
            for future, result in distributed.as_completed(futures, with_results=True):
                future.release()
                yield result
        finally:
            self._client.cancel([future for future in futures if not future.done()])
            self._client.cancel(given)


def _itself(value: _Result) -> _Result:
    return value


class _Ray:
    def __init__(self, ray: Any) -> None:
        self._ray = ray
        if not ray.is_initialized():
            ray.init()

    def cores(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0)) or 16

    def completed(
        self, function: Callable[..., _Result], common: tuple[Any, ...], tasks: Sequence[_Task]
    ) -> Generator[_Result, None, None]:
        # A task that is lost with its worker is made again, three times as Ray's default is; an exception is final.
        remote = self._ray.remote(num_cpus=1)(function)
        given = [self._ray.put(value) for value in common]
        waiting = list(reversed(tasks))
        # Not all at once: each call of `wait` takes a time that grows with their number.
        at_once = 8 * self.cores()
        running: list[Any] = []
        try:
            while waiting or running:
                while waiting and len(running) < at_once:
                    running.append(remote.remote(*given, waiting.pop()))
                done, running = self._ray.wait(running)
                yield from self._ray.get(done)
        finally:
            for task in running:
                self._ray.cancel(task)


class _Executor:
    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def cores(self) -> int:
        return getattr(self._executor, "_max_workers", None) or os.cpu_count() or 1

    def completed(
        self, function: Callable[..., _Result], common: tuple[Any, ...], tasks: Sequence[_Task]
    ) -> Generator[_Result, None, None]:
        from concurrent.futures import as_completed

        futures = [self._executor.submit(function, *common, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def _dask_client() -> Any:
    distributed = _import("distributed", "dask")
    try:
        return distributed.get_client()
    except ValueError:
        return distributed.Client()


def _import(module: str, extra: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"this engine needs {module}: pip install 'giusto[{extra}]'") from error
