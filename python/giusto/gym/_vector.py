"""Many environments at once."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from giusto._arguments import checked
from giusto._scenario import Scenario, Value
from giusto.gym._environment import (
    Array,
    Core,
    STEP_S,
    Spread,
    Steps,
    action_space,
    check_actions,
    number_of,
    observation_space,
)


class VectorEnvironment(gymnasium.vector.VectorEnv[Array, Array, NDArray[Any]]):
    """Environments that step together on several threads, without the GIL.

    With the same seeds and actions each does what an `Environment` does alone.

    Parameters
    ----------
    num_envs : int
        Number of environments.
    autoreset_mode : gymnasium.vector.AutoresetMode
        ``NEXT_STEP`` (default): the step after the end of an episode begins the next, ignores the action and has reward 0.
        ``SAME_STEP``: the last step of an episode returns the first observation of the next, and its own as
        ``infos["final_obs"]``. ``DISABLED``: a step after the end of an episode is an error.
    threads : int
        Number of threads, 0 to 65,535. Default 0: one for each core.
    **keys
        Those of `Environment`.
    """

    @checked
    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        threads: int = 0,
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
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, found {num_envs}")
        mode = AutoresetMode(autoreset_mode)
        self._core = Core(
            num_envs,
            families=families,
            benchmark=benchmark,
            scenarios=scenarios,
            scenario=scenario,
            set=set,
            randomise=randomise,
            flow=flow,
            controller=controller,
            step_s=step_s,
            autoreset=mode.value,
            threads=threads,
        )
        self._is_same_step = mode == AutoresetMode.SAME_STEP
        self.metadata = {"render_modes": [], "autoreset_mode": mode}
        self.render_mode = render_mode
        self.num_envs = num_envs
        self.controller = controller
        self.single_action_space = action_space()
        self.single_observation_space = observation_space()
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._observations: Array = numpy.zeros(self.observation_space.shape or (), numpy.float32)
        self._is_seeded = numpy.zeros(num_envs, numpy.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode in each environment.

        Parameters
        ----------
        seed : int or sequence of int, optional
            Seed of the first environment; the others have the numbers after it. Or the seed of each.
        options : dict, optional
            ``{"episode": 21}`` as in `Environment.reset`; ``{"reset_mask": mask}`` with a boolean for each environment resets
            only those.

        Returns
        -------
        observations : numpy.ndarray, shape (num_envs, 12), float32
        infos : dict
            Arrays of shape (num_envs,) by name: `episode`, `scenario`; those with ``_`` before the name say which are set.
        """
        number = number_of(options)
        mask = (options or {}).get("reset_mask")
        if mask is None:
            mask = numpy.ones(self.num_envs, numpy.bool_)
        elif numpy.shape(mask) != (self.num_envs,) or numpy.asarray(mask).dtype != numpy.bool_:
            raise ValueError(f"reset_mask must be an array of {self.num_envs} booleans")
        elif not numpy.any(mask):
            raise ValueError("reset_mask must have an element that is true")
        seeds = self._seeds(seed)
        begin = [(seeds[place], number) if mask[place] else None for place in range(self.num_envs)]
        steps = self._core.reset(begin)
        self._is_seeded |= mask
        self._observations[mask] = steps.observations[mask]
        return self._observations.copy(), self._infos(steps)

    def step(
        self, actions: Array
    ) -> tuple[
        Array, NDArray[numpy.float64], NDArray[numpy.bool_], NDArray[numpy.bool_], dict[str, Any]
    ]:
        """Step each environment.

        Parameters
        ----------
        actions : array_like, shape (num_envs, 1)

        Returns
        -------
        observations : numpy.ndarray, shape (num_envs, 12), float32
        rewards : numpy.ndarray, shape (num_envs,)
        terminations : numpy.ndarray of bool, shape (num_envs,)
            All False.
        truncations : numpy.ndarray of bool, shape (num_envs,)
            Which calls have ended.
        infos : dict
            Those of the environments as arrays.
        """
        steps = self._core.step(check_actions(actions, self.num_envs))
        self._observations = steps.observations
        over = steps.over
        return steps.observations.copy(), steps.rewards, numpy.zeros_like(over), over, self._infos(steps)

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        """Return the seeds of the native environments: those that `Environment` would draw."""
        if seed is None:
            seed = [None] * self.num_envs
        if isinstance(seed, (int, numpy.integer)):
            seed = range(operator.index(seed), operator.index(seed) + self.num_envs)
        # Gymnasium takes no integer of NumPy.
        seeds = [None if own is None else operator.index(own) for own in seed]
        if len(seeds) != self.num_envs:
            raise ValueError(f"expected a seed for each of the {self.num_envs} environments, found {len(seeds)}")
        drawn = [None if own is None else int(seeding.np_random(own)[0].integers(2**63)) for own in seeds]
        # As in Gymnasium, the first seed is also that of the vector's own generator.
        super().reset(seed=next((own for own in seeds if own is not None), None))
        # Not that generator itself: its first number is that of the environment with the same seed.
        others = seeding.np_random(int(self.np_random.integers(2**63)))[0]
        return [
            int(others.integers(2**63)) if own is None and not known else own
            for own, known in zip(drawn, self._is_seeded)
        ]

    def _infos(self, steps: Steps) -> dict[str, Any]:
        """Return the infos of all environments, in the form of Gymnasium's own vector environments."""
        infos: dict[str, Any] = {}
        final: dict[str, Any] = {}
        ended = steps.over if self._is_same_step else numpy.zeros_like(steps.over)
        for name, (values, is_there) in steps.figures.items():
            for into, own in ((infos, is_there & ~ended), (final, is_there & ended)):
                if own.any():
                    into[name], into[f"_{name}"] = numpy.where(own, values, 0.0), own
        for place, news in steps.news:
            for name, value in news.items():
                if name == "final":
                    last = numpy.frombuffer(value, numpy.float32).copy()
                    self._put(infos, "final_obs", place, last)
                else:
                    self._put(final if name == "utility" and ended[place] else infos, name, place, value)
        if final:
            infos["final_info"], infos["_final_info"] = final, ended.copy()
        return infos

    def _put(self, into: dict[str, Any], name: str, place: int, value: object) -> None:
        if name not in into:
            kind = type(value) if isinstance(value, (int, float)) else object
            into[name] = numpy.full(self.num_envs, 0 if kind is not object else None, kind)
            into[f"_{name}"] = numpy.zeros(self.num_envs, numpy.bool_)
        into[name][place], into[f"_{name}"][place] = value, True
