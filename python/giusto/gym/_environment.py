"""One environment."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar, TypeAlias, cast

import gymnasium
import numpy
from numpy.typing import NDArray

from giusto import _giusto
from giusto._arguments import checked
from giusto._scenario import Scenario, Value, _plain, _setting, scenario_of

Array: TypeAlias = NDArray[numpy.float32]

FEATURES: tuple[str, ...] = tuple(name for name, _, _ in _giusto.environment_features())
"""The names of the numbers of an observation, in order."""

STEP_S = _giusto.environment_scale()[0]


@checked
def action(target_bps: float) -> Array:
    """Return the action of a target rate.

    Parameters
    ----------
    target_bps
        Target rate in bit/s, headers included. Rates below 30 kbit/s are -1, those above 100 Mbit/s are 1.

    Returns
    -------
    numpy.ndarray, shape (1,), float32
    """
    return numpy.array([_giusto.action_of_target(target_bps)], dtype=numpy.float32)


def target(action: Array | float) -> int:
    """Return the target rate of an action, in bit/s.

    Parameters
    ----------
    action : array_like, shape (1,) or ()
        From -1 to 1: the logarithm of the rate is linear between 30 kbit/s and 100 Mbit/s.

    Raises
    ------
    ValueError
        The action is beyond -1 or 1.
    """
    value = float(numpy.asarray(action).reshape(()))
    if abs(value) > 1.0:
        raise ValueError(f"the action must be a number from -1 to 1, found {value}: clip it to the action space")
    return _giusto.target_of_action(value)


def observation_space() -> gymnasium.Space[Array]:
    """Return the space of observations."""
    features = _giusto.environment_features()
    low, high = (numpy.array([own[bound] for own in features], dtype=numpy.float32) for bound in (1, 2))
    return cast("gymnasium.Space[Array]", gymnasium.spaces.Box(low, high, dtype=numpy.float32))


def action_space() -> gymnasium.Space[Array]:
    """Return the space of actions."""
    return cast("gymnasium.Space[Array]", gymnasium.spaces.Box(-1.0, 1.0, shape=(1,), dtype=numpy.float32))


Spread: TypeAlias = "tuple[Value, Value] | Sequence[Value]"
"""From what a value is drawn: a number from the first to the second of a tuple, or one element of a list."""


def _spread(path: str, spread: Spread) -> tuple[str, bool, list[str]]:
    """Return a spread as the native module takes it."""
    if not isinstance(spread, (tuple, list)):
        raise TypeError(f"randomise[{path!r}] must be a tuple (low, high) or a list of values, found {spread!r}")
    if isinstance(spread, tuple) and len(spread) != 2:
        raise ValueError(f"randomise[{path!r}] must have two values, (low, high), or be a list of values: found {spread!r}")
    return path, isinstance(spread, tuple), [_end(path, value) for value in spread]


def _end(path: str, value: Value) -> str:
    """Return a value as in a file, where 1.0, unlike 1, means that the numbers beside it are no whole ones."""
    value = _plain(value)
    if not isinstance(value, float):
        return _setting(path, value, [])
    text = f"{Decimal(repr(value)):f}"
    return f"{text}.0" if text.lstrip("-").isdigit() else text


class Core:
    """The environments of the native module, with what a call did to them as arrays."""

    def __init__(
        self,
        count: int,
        *,
        families: Sequence[str] | None,
        benchmark: str,
        scenarios: int | None,
        scenario: Scenario | str | os.PathLike[str] | None,
        set: Mapping[str, Value] | None,
        randomise: Mapping[str, Spread] | None,
        flow: str | None,
        controller: str | None,
        step_s: float,
        autoreset: str,
        threads: int,
    ) -> None:
        planned = None if scenario is None else scenario_of(scenario)
        if planned is not None and set:
            planned = planned.with_settings(set)
        if planned is not None and planned._controllers:
            raise ValueError("environments do not run controllers in Python: name built-in ones")
        if planned is not None and families:
            raise ValueError("give a scenario or families of the benchmark, not both")
        if planned is None and (set or randomise or flow is not None):
            raise ValueError("set, randomise and flow belong to a scenario: give one")
        if planned is None and families is not None and not len(families):
            raise ValueError('there is neither a scenario nor a family of the benchmark: give one, such as scenario="media"')
        if scenarios is not None:
            check_range("scenarios", scenarios, 1, 2**32 - 1)
        check_range("threads", threads, 0, 2**16 - 1)
        self.environments = _giusto.Environments(
            count,
            benchmark=benchmark,
            families=_giusto.environment_families() if families is None else families,
            scenarios=scenarios,
            document=None if planned is None else planned._document,
            settings=[] if planned is None else planned._settings,
            randomise=[_spread(path, spread) for path, spread in (randomise or {}).items()],
            flow=flow,
            controller=controller,
            step_s=step_s,
            autoreset=autoreset,
            threads=threads,
        )
        self.count = count
        self._process = os.getpid()
        self._has_threads = threads != 1

    def reset(self, begin: Sequence[tuple[int | None, int | None] | None]) -> Steps:
        """Begin episodes: None, or a seed and a number, for each environment."""
        self._check_process()
        return Steps(self.environments.reset(begin), self.count)

    def step(self, actions: Sequence[float]) -> Steps:
        """Step every environment."""
        self._check_process()
        return Steps(self.environments.step(actions), self.count)

    def _check_process(self) -> None:
        # A fork copies no threads: the native module would wait for them forever.
        if self._has_threads and os.getpid() != self._process:
            raise RuntimeError(
                f"the threads of this environment are in process {self._process}, which was forked: make the environment in the "
                "process that steps it, or with threads=1"
            )


class Steps:
    """What a call did to all environments."""

    def __init__(self, steps: _giusto.Steps, count: int) -> None:
        self.observations: Array = numpy.frombuffer(steps.observations, numpy.float32).reshape(count, -1).copy()
        figures = numpy.frombuffer(steps.figures, numpy.float64).reshape(-1, count).copy()
        self.rewards: NDArray[numpy.float64] = figures[0]
        flags = numpy.frombuffer(steps.flags, numpy.bool_).reshape(-1, count).copy()
        self.stepped, self.over, self.began, uses = flags
        self.news = steps.news
        # Each figure with the environments that have it.
        self.figures = {
            "target_bps": (figures[1], self.stepped),
            "use_ratio": (figures[2], uses),
            "frame_delay_s": (figures[3], self.stepped),
            "missed_ratio": (figures[4], self.stepped),
        }


class Environment(gymnasium.Env[Array, Array]):
    """A call in which each action sets the target rate for the next 200 ms.

    Parameters
    ----------
    families : sequence of str, optional
        Families of the benchmark's scenarios from which episodes are drawn. Default: all.
    benchmark : str
        Seed of these scenarios: any text. Judge with another than that of the training.
    scenarios : int, optional
        Number of different scenarios of each family, 1 to 2^32 - 1 (default). If it is at most 1000, scenarios of ``lte``, which
        take about a second each to draw, are kept in memory.
    scenario : Scenario, path or str, optional
        A scenario that is used instead, with another random seed in each episode. Its link ``bottleneck``, which must end where the
        flow ends, limits the rate.
    set : mapping, optional
        Other values of `scenario`, by their paths.
    randomise : mapping, optional
        Values of `scenario` that are drawn for each episode, by their paths: a tuple ``(low, high)`` of two numbers with the same unit,
        between which all are equally likely, or a list of values. The number of an episode gives its values, and ``reset`` tells them.
    flow : str, optional
        Media flow of `scenario` whose target is set. Default: the first.
    controller : str, optional
        A built-in controller that sets the target instead of the actions, which are ignored.
    step_s : float
        Duration of a step in s, 0.02 to 10.

    Raises
    ------
    ScenarioError
        The scenario is not valid.
    ValueError
        An argument is out of range, a value cannot be drawn, or the scenario has no such flow or link.

    Examples
    --------
    Another link in each episode:

    >>> links = {"bottleneck.rate": ("1 Mbit/s", "4 Mbit/s"), "bottleneck.queue.kind": ["drop-tail", "codel"]}
    >>> environment = giusto.gym.Environment(scenario="media", randomise=links)
    >>> observation, info = environment.reset(seed=1)
    >>> sorted(info["randomised"])
    ['bottleneck.queue.kind', 'bottleneck.rate']
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}  # type: ignore[misc]

    @checked
    def __init__(
        self,
        *,
        families: Sequence[str] | None = None,
        benchmark: str = "training",
        scenarios: int | None = None,
        scenario: Scenario | str | os.PathLike[str] | None = None,
        set: Mapping[str, Value] | None = None,
        randomise: Mapping[str, Spread] | None = None,
        flow: str | None = None,
        controller: str | None = None,
        step_s: float = STEP_S,
        render_mode: None = None,
    ) -> None:
        self._core = Core(
            1,
            families=families,
            benchmark=benchmark,
            scenarios=scenarios,
            scenario=scenario,
            set=set,
            randomise=randomise,
            flow=flow,
            controller=controller,
            step_s=step_s,
            autoreset="Disabled",
            threads=1,
        )
        self.render_mode = render_mode
        self.controller = controller
        self.action_space = action_space()
        self.observation_space = observation_space()
        self._is_seeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode.

        Parameters
        ----------
        seed : int, optional
            Seed of this and all later episodes.
        options : dict, optional
            ``{"episode": 21}`` begins the episode of this number, 0 to 2^63 - 1: scenario 21 of the benchmark, or the seed of the
            scenario.

        Returns
        -------
        observation : numpy.ndarray, shape (12,), float32
        info : dict
            `episode`, its number, `scenario`, its name, and with `randomise` `randomised`: the values that were drawn, as in a
            scenario file, by their paths.
        """
        number = number_of(options)
        # Gymnasium takes no integer of NumPy.
        super().reset(seed=None if seed is None else operator.index(seed))
        begin = None
        if seed is not None or not self._is_seeded:
            begin = int(self.np_random.integers(2**63))
        steps = self._core.reset([(begin, number)])
        self._is_seeded = True
        return steps.observations[0], steps.news[0][1]

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Set the target rate and simulate a step.

        Parameters
        ----------
        action : array_like, shape (1,)
            From -1 to 1: see `target`.

        Returns
        -------
        observation : numpy.ndarray, shape (12,), float32
        reward : float
            0 to 1.
        terminated : bool
            Always False.
        truncated : bool
            Whether the call has ended.
        info : dict
            `target_bps`, `use_ratio`, `frame_delay_s`, `missed_ratio`; at the end of the call `utility`.
        """
        steps = self._core.step(check_actions(action, 1))
        info: dict[str, Any] = {
            name: float(values[0]) for name, (values, is_there) in steps.figures.items() if is_there[0]
        }
        for _, news in steps.news:
            info |= news
        return steps.observations[0], float(steps.rewards[0]), False, bool(steps.over[0]), info


def number_of(options: Mapping[str, Any] | None) -> int | None:
    """Return the number of the episode that the options of a reset ask for."""
    number = (options or {}).get("episode")
    if number is None:
        return None
    # Infos of vector environments are int64.
    return check_range("episode", operator.index(number), 0, 2**63 - 1)


def check_range(name: str, value: int, low: int, high: int) -> int:
    """Return the value; raise a `ValueError` unless it is from `low` to `high`."""
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low} to {high}, found {value}")
    return value


def check_step(step_s: float) -> float:
    """Return the duration of a step; raise a `ValueError` unless it is from 0.02 to 10."""
    if not 0.02 <= step_s <= 10.0:
        raise ValueError(f"step_s must be from 0.02 to 10, found {step_s}")
    return step_s


def check_actions(actions: Any, count: int) -> list[float]:
    """Return the actions of `count` environments; raise a `ValueError` unless each is a number from -1 to 1."""
    values = numpy.asarray(actions, numpy.float32)
    if values.size != count:
        raise ValueError(f"expected an action for each of {count} environments, found an array of shape {values.shape}")
    outside = numpy.flatnonzero(~(numpy.abs(values.reshape(-1)) <= 1.0))
    if outside.size:
        place = int(outside[0])
        raise ValueError(
            f"action[{place}] must be a number from -1 to 1, found {values.reshape(-1)[place]}: clip it to the action space"
        )
    return [float(value) for value in values.reshape(-1)]
