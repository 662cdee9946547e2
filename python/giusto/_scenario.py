"""Scenarios: links, flows, changes and expectations, as data."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeAlias

from giusto import _giusto
from giusto._arguments import _is_bool, checked
from giusto._controller import Controller

# Keys that end in one of these take numbers in that unit.
_UNITS = {
    "_bps": "bit/s",
    "_kbps": "kbit/s",
    "_mbps": "Mbit/s",
    "_gbps": "Gbit/s",
    "_ns": "ns",
    "_us": "us",
    "_ms": "ms",
    "_s": "s",
    "_bytes": "B",
}

Value: TypeAlias = "str | int | float | Sequence[Any] | Mapping[str, Any]"


class _Part(dict[str, Any]):
    """A table of a scenario with its keys as in a file."""

    def __init__(self, **keys: Any) -> None:
        table = _table(keys)
        own = type(self).__name__.lower()
        known = _keys().get(own, table.keys())
        for key in table:
            if key not in known:
                nearest = get_close_matches(key, known, 1)
                hint = f": did you mean {nearest[0]}?" if nearest else f": use one of {', '.join(sorted(known))}"
                hint = hint.replace("-", "_")
                name = repr(table.get("id", ""))
                raise TypeError(f"giusto.{type(self).__name__}({name}) has no key {key.replace('-', '_')}{hint}")
        super().__init__(table)


@cache
def _keys() -> dict[str, set[str]]:
    """Return the keys of each kind of table."""
    keys: dict[str, set[str]] = {"flow": {"kind"}}
    for path in _giusto.setting_paths():
        part, _, key = path.rpartition(".")
        if part:
            keys.setdefault(part.split(".")[0], set()).add(key)
    return keys


class Link(_Part):
    """A link in one direction between two nodes.

    Parameters
    ----------
    id : str
        Name.
    from_, to : str
        Nodes. Naming a node creates it.
    **keys
        Keys of ``[[link]]`` in `docs/reference/scenario.md`, with ``_`` for ``-``. A quantity is a string with its unit,
        ``rate="2 Mbit/s"``, or a number whose key names the unit, ``rate_bps=2e6``, ``delay_ms=20``: ``_bps``, ``_kbps``, ``_mbps``,
        ``_gbps``, ``_s``, ``_ms``, ``_us``, ``_ns`` or ``_bytes``. Rates, delays and losses over time are those of `rate_steps`,
        `delay_steps`, `loss_steps` and `loss_packets`.

    Examples
    --------
    >>> giusto.Link("wire", "here", "there", rate="2 Mbit/s", delay_ms=20, queue="codel", duplex=True)["delay"]
    '20 ms'
    """

    def __init__(self, id: str, from_: str, to: str, **keys: Any) -> None:
        super().__init__(id=id, from_=from_, to=to, **keys)


class Flow(_Part):
    """A flow of packets.

    Parameters
    ----------
    id : str
        Name.
    kind : str
        Kind of traffic, such as ``"media"`` or ``"tcp"``.
    **keys
        Keys of ``[[flow]]`` in `docs/reference/scenario.md`, written as those of `Link`. The `controller` of media may be a
        subclass of `Controller`.
    """

    def __init__(self, id: str, kind: str, **keys: Any) -> None:
        super().__init__(id=id, kind=kind, **keys)


class Change(_Part):
    """A change of a link during the run.

    Parameters
    ----------
    at : str
        Time since the start of the run.
    link : str
        Name of the link.
    **keys
        Keys of ``[[change]]`` in `docs/reference/scenario.md`, such as `rate`, written as those of `Link`.
    """

    def __init__(self, at: str, link: str, **keys: Any) -> None:
        super().__init__(at=at, link=link, **keys)


class Expect(_Part):
    """An expectation, which a run checks.

    Parameters
    ----------
    metric : str
        Statistic, such as ``"received-rate"`` or ``"queue-delay-p95"``.
    **keys
        Keys of ``[[expect]]`` in `docs/reference/scenario.md`, such as `flow` and `max`, with `from_` for `from`.

    Examples
    --------
    >>> giusto.Expect("queue-delay-p95", flow="voice", min="0 ms", max="10 ms")["max"]
    '10 ms'
    """

    def __init__(self, metric: str, **keys: Any) -> None:
        super().__init__(metric=metric, **keys)


class Scenario:
    """A network, its traffic, and what is expected of it.

    Parameters
    ----------
    duration : str, optional
        Simulated time, such as ``"30 s"``.
    link, flow, change, expect, medium : mapping or sequence of mappings, optional
        Parts: `Link`, `Flow`, `Change`, `Expect`, or mappings with the keys of a file.
    **keys
        Other top-level keys of a file, such as `seed` or `duration_s`.

    Raises
    ------
    ScenarioError
        The text has one line for each problem. Its lines are those of `toml`.

    See Also
    --------
    Scenario.load, Scenario.parse
    """

    def __init__(self, **keys: Any) -> None:
        table = _table(keys)
        for part in ("medium", "link", "flow", "change", "expect"):
            if isinstance(table.get(part), Mapping):
                table[part] = [table[part]]
        own: list[type[Controller]] = []
        text = _giusto.toml(json.dumps(_named(table, own)))
        self._take(_giusto.Document(text, "scenario"), own, [])

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str], controllers: Iterable[type[Controller]] = ()) -> Scenario:
        """Read a scenario file.

        Parameters
        ----------
        path
            TOML file, whose trace files are looked for in its folder, or the name of a built-in scenario, such as ``"codel"``.
        controllers
            Controllers of your own that the file may name.
        """
        scenario = cls.__new__(cls)
        scenario._take(_giusto.Document.load(os.fspath(path)), _classes(controllers), [])
        return scenario

    @classmethod
    @checked
    def parse(
        cls, text: str, name: str = "scenario", controllers: Iterable[type[Controller]] = ()
    ) -> Scenario:
        """Parse the text of a scenario file.

        Parameters
        ----------
        text
            TOML. Trace files are looked for in the current folder.
        name
            Name of the file in messages.
        controllers
            Controllers of your own that the text may name.
        """
        scenario = cls.__new__(cls)
        scenario._take(_giusto.Document(text, name), _classes(controllers), [])
        return scenario

    @checked
    def with_settings(self, settings: Mapping[str, Value | type[Controller]]) -> Scenario:
        """Return the scenario with other values.

        Parameters
        ----------
        settings
            Values by their paths, as ``--set`` of the command takes them: ``{"bottleneck.rate": "5 Mbit/s"}``. Lists and tables,
            such as that of `rate_steps`, are values too.
        """
        scenario = type(self).__new__(type(self))
        own = list(self._controllers)
        added = [(path, _setting(path, value, own)) for path, value in settings.items()]
        scenario._take(self._document, own, [*self._settings, *added])
        return scenario

    @property
    def name(self) -> str:
        """Name."""
        return self._name

    @property
    def seed(self) -> int:
        """Random seed of runs that are given none."""
        return self._seed

    @property
    def toml(self) -> str:
        """The text of the scenario file, without the values of `with_settings`. The command runs it too."""
        return self._document.text

    def __repr__(self) -> str:
        return f"<giusto.Scenario {self._name!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # With the texts of its trace files, which another machine lacks.
        parts = self._document.pickled(self._settings, self._controllers)
        return _restored, (type(self), *parts, self._controllers)

    def _take(
        self,
        document: _giusto.Document,
        controllers: list[type[Controller]],
        settings: list[tuple[str, str]],
    ) -> None:
        self._document = document
        self._controllers = list(dict.fromkeys(controllers))
        self._settings = settings
        self._name, self._seed = document.check(settings, self._controllers)


def _restored(
    kind: type[Scenario],
    text: str,
    name: str,
    traces: dict[str, str],
    settings: list[tuple[str, str]],
    controllers: list[type[Controller]],
) -> Scenario:
    scenario = kind.__new__(kind)
    scenario._take(_giusto.Document(text, name, traces), controllers, settings)
    return scenario


def scenario_of(scenario: Scenario | str | os.PathLike[str]) -> Scenario:
    """Return the scenario; a string of several lines is TOML, any other string is a path or a built-in name."""
    if isinstance(scenario, Scenario):
        return scenario
    if isinstance(scenario, str) and "\n" in scenario:
        return Scenario.parse(scenario)
    return Scenario.load(scenario)


@checked
def rate_steps(times_s: Iterable[float], rates_bps: Iterable[float], period_s: float | None = None) -> dict[str, Any]:
    """Return a rate that changes at given times, for `Link` or for ``Flow(kind="cbr")``.

    Parameters
    ----------
    times_s : array_like, shape (n,)
        Times since the start of the run in s, ascending, the first 0.
    rates_bps : array_like, shape (n,)
        Rates from these times on, in bit/s; 0 is an outage.
    period_s : float, optional
        The steps repeat after this time, in s.
    """
    times = _numbers("times_s", times_s)
    steps = _steps(times, [f"{round(rate)} bit/s" for rate in _numbers("rates_bps", rates_bps)])
    if period_s is None:
        return steps
    last_s = times[-1]
    if not (math.isfinite(period_s) and period_s > last_s):
        raise ValueError(f"period_s must be a time in s after the last step at {last_s:g}, found {period_s:g}")
    return {**steps, "period": _time(period_s)}


@checked
def delay_steps(times_s: Iterable[float], delays_ms: Iterable[float]) -> dict[str, Any]:
    """Return a propagation delay that changes at given times, for `Link`.

    Parameters
    ----------
    times_s : array_like, shape (n,)
        Times since the start of the run in s, ascending, the first 0.
    delays_ms : array_like, shape (n,)
        Delays from these times on, in ms.
    """
    return _steps(times_s, [_time(delay / 1e3) for delay in _numbers("delays_ms", delays_ms)])


@checked
def loss_steps(times_s: Iterable[float], ratios: Iterable[float]) -> dict[str, Any]:
    """Return a probability of loss that changes at given times, for `Link`.

    Parameters
    ----------
    times_s : array_like, shape (n,)
        Times since the start of the run in s, ascending, the first 0.
    ratios : array_like, shape (n,)
        Probabilities from these times on, 0 to 1.
    """
    return _steps(times_s, _numbers("ratios", ratios, 1.0))


@checked
def loss_packets(lost: Iterable[int]) -> dict[str, Any]:
    """Return losses of given packets, for `Link`.

    Parameters
    ----------
    lost : array_like of int, shape (n,), or of bool
        Numbers of the lost packets, from 0 in the order of transmission; or for each packet whether it is lost.
    """
    values = _list("lost", lost)
    if values and all(map(_is_bool, values)):
        values = [number for number, is_lost in enumerate(values) if is_lost]
    return {"packets": _integers("lost", values)}


@checked
def frame_sizes(sizes_bytes: Iterable[int], **keys: Any) -> dict[str, Any]:
    """Return a video whose frames have recorded sizes, for ``Flow(kind="media", video=…)``.

    Parameters
    ----------
    sizes_bytes : array_like of int, shape (n,)
        Sizes of the frames in order, 10 to 1,000,000 bytes; after the last the first follows again.
    **keys
        Other keys of the model ``recorded`` in `docs/reference/scenario.md`: `frame_rate`; `adapts`, whether the sizes are scaled
        so that their mean is the target rate (default True) or played as they are; `min`, `max`, `start`.

    Examples
    --------
    >>> giusto.frame_sizes([9000, 1000, 2000], frame_rate=25, max_mbps=4)["sizes"]
    [9000, 1000, 2000]
    """
    return {"model": "recorded", "sizes": _integers("sizes_bytes", _list("sizes_bytes", sizes_bytes)), **_table(keys)}


def _steps(times_s: Iterable[float], values: list[Any]) -> dict[str, Any]:
    times = _numbers("times_s", times_s)
    if len(times) != len(values):
        raise ValueError(f"times_s has {len(times)} elements and the values {len(values)}: give as many of each")
    if not times or times[0] != 0.0:
        raise ValueError(f"times_s[0] must be 0, found {times[0]:g}" if times else "times_s is empty: begin with 0")
    for place in range(1, len(times)):
        if times[place] <= times[place - 1]:
            raise ValueError(
                f"times_s must ascend: times_s[{place}] is {times[place]:g}, after {times[place - 1]:g}"
            )
    return {"steps": [[_time(time), value] for time, value in zip(times, values)]}


def _numbers(name: str, values: Any, most: float = math.inf) -> list[float]:
    """Return the values as floats, each finite, at least 0 and at most `most`."""
    numbers = []
    for place, value in enumerate(_list(name, values)):
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise TypeError(f"{name}[{place}]: must be a number, found {value!r}") from None
        if not (math.isfinite(number) and 0.0 <= number <= most):
            bounds = "at least 0" if most == math.inf else f"from 0 to {most:g}"
            raise ValueError(f"{name}[{place}] must be {bounds}, found {number:g}")
        numbers.append(number)
    return numbers


def _list(name: str, values: Any) -> list[Any]:
    """Return the elements of a list or of an array of one dimension."""
    elements = values.tolist() if hasattr(values, "tolist") else list(values)
    if not isinstance(elements, list) or any(isinstance(element, list) for element in elements):
        raise ValueError(f"{name} must have one dimension")
    return elements


def _integers(name: str, values: list[Any]) -> list[int]:
    """Return the values as integers; a float must be whole."""

    def integer(place: int, value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        try:
            return operator.index(value)
        except TypeError:
            raise ValueError(f"{name}[{place}]: must be an integer, found {value!r}") from None

    return [integer(place, value) for place, value in enumerate(values)]


def _time(seconds: float) -> str:
    """Return a time with its unit, to the nanosecond."""
    return f"{round(seconds * 1e9)} ns"


def _table(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys as in a file: without those that are None, with hyphens, and with units in the values."""
    table: dict[str, Any] = {}
    for key, value in keys.items():
        if value is None:
            continue
        suffix = next((suffix for suffix in _UNITS if key.endswith(suffix)), None)
        if suffix is not None:
            value = _with_unit(key, _known(key, _plain(value)), _UNITS[suffix])
            key = key.removesuffix(suffix)
        key = key.rstrip("_").replace("_", "-")
        if key in table:
            raise TypeError(f"{key} is given twice, as {table[key]!r} and as {value!r}: leave one out")
        table[key] = _known(key, _plain(value))
    return table


def _plain(value: Any) -> Any:
    """Return a value without arrays, and tables within it with keys as in a file."""
    if isinstance(value, Mapping):
        return _table(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    return value


def _known(key: str, value: Any) -> Any:
    """Return the value of a key; raise an error if it is, or holds, what files cannot hold."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{key}: expected a finite number, found {value}")
    if isinstance(value, list):
        for element in value:
            _known(key, element)
    elif not isinstance(value, (str, int, float, dict, type)):
        raise TypeError(f"{key}: expected a string, a number, a list or a table, found {value!r:.60}")
    return value


def _with_unit(key: str, value: Any, unit: str) -> Any:
    """Return a number, or each number in a list, with its unit."""
    if isinstance(value, list):
        return [_with_unit(key, element, unit) for element in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # Scenario files have no exponents.
        return f"{Decimal(repr(value)).normalize():f} {unit}"
    raise TypeError(f"{key}: expected a number in {unit}, found {value!r}")


def _named(value: Any, own: list[type[Controller]]) -> Any:
    """Return a value with names in place of controllers, which are added to `own`, and whole numbers that TOML lacks as strings."""
    if isinstance(value, dict):
        return {key: _named(element, own) for key, element in value.items()}
    if isinstance(value, list):
        return [_named(element, own) for element in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return _name(value, own) if isinstance(value, type) else value


def _name(controller: Any, own: list[type[Controller]]) -> str:
    if not (isinstance(controller, type) and issubclass(controller, Controller)):
        if isinstance(controller, type):
            raise TypeError(f"{controller.__name__} is no controller: derive it from giusto.Controller")
        raise TypeError(f"expected a class derived from giusto.Controller, found {controller!r:.60}")
    own.append(controller)
    return controller.name or controller.__name__


def _classes(controllers: Iterable[type[Controller]]) -> list[type[Controller]]:
    """Return the controllers; raise a `TypeError` unless each is one."""
    own: list[type[Controller]] = []
    for controller in controllers:
        _name(controller, own)
    return own


def _setting(path: str, value: Value | type[Controller], own: list[type[Controller]]) -> str:
    """Return a value as ``--set`` of the command takes it: as in a file, but a string needs no quotes."""
    if isinstance(value, type):
        return _name(value, own)
    value = _plain(value)
    try:
        return value if isinstance(value, str) else _toml(value)
    except TypeError as error:
        raise TypeError(f"{path}: {error}") from None


def _toml(value: Any) -> str:
    """Return a value as in a file, in one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        # Scenario files have no exponents.
        return f"{Decimal(repr(value)).normalize():f}"
    if isinstance(value, str):
        # The escapes of JSON are those of TOML.
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_toml(key)} = {_toml(element)}" for key, element in value.items())
        return f"{{ {', '.join(pairs)} }}"
    raise TypeError(f"expected a string, a number, a list or a table, found {value!r}")
