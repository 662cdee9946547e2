"""Recorded episodes."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy
from numpy.typing import NDArray

from giusto._arguments import checked
from giusto.gym._environment import Array, Environment, action

if TYPE_CHECKING:
    from minari import MinariDataset


@dataclass(frozen=True)
class Episode:
    """A recorded episode of n steps."""

    number: int
    """Its number: ``reset(options={"episode": number})`` begins it again."""
    scenario: str
    """Name of its scenario."""
    observations: Array
    """Shape (n + 1, 12): before each step, and after the last."""
    actions: Array
    """Shape (n, 1). Those of a built-in controller are its target rates at the ends of the steps."""
    rewards: NDArray[numpy.float64]
    """Shape (n,)."""
    utility: float
    """The benchmark's utility of the call, 0 to 1; NaN if a wrapper ended the episode before the call."""


@checked
def record(
    environment: gymnasium.Env[Array, Array],
    policy: Callable[[Array], Array] | None = None,
    *,
    episodes: int = 1,
    seed: int | None = None,
) -> list[Episode]:
    """Play episodes and record them.

    Parameters
    ----------
    environment
        An `Environment`, also with wrappers. With a `controller`, that one plays.
    policy
        Returns the action for an observation. Default: random actions of ``environment.action_space``.
    episodes
        Number of episodes.
    seed
        Seed of the episodes, and of random actions.

    Returns
    -------
    list of Episode
    """
    inner = environment.unwrapped
    follows = isinstance(inner, Environment) and inner.controller is not None
    # Gymnasium takes no integer of NumPy.
    seed = None if seed is None else operator.index(seed)
    environment.action_space.seed(seed)
    recorded = []
    for _ in range(episodes):
        observation, begun = environment.reset(seed=seed)
        seed = None
        observations, actions, rewards = [observation], [], []
        is_over = False
        info: dict[str, Any] = {}
        while not is_over:
            own = environment.action_space.sample() if policy is None else policy(observation)
            observation, reward, terminated, truncated, info = environment.step(own)
            played = numpy.asarray(own, numpy.float32).reshape(environment.action_space.shape)
            actions.append(action(info["target_bps"]) if follows else played)
            observations.append(observation)
            rewards.append(float(reward))
            is_over = terminated or truncated
        recorded.append(
            Episode(
                number=begun["episode"],
                scenario=begun["scenario"],
                observations=numpy.stack(observations),
                actions=numpy.stack(actions),
                rewards=numpy.array(rewards),
                utility=info.get("utility", math.nan),
            )
        )
    return recorded


def to_minari(
    episodes: Iterable[Episode],
    dataset_id: str,
    environment: gymnasium.Env[Array, Array] | str | None = None,
    **about: Any,
) -> MinariDataset:
    """Store episodes as a dataset of Minari: ``pip install 'giusto[minari]'``.

    The dataset is stored with Arrow, in Minari's folder of datasets; each episode has its number as ``options["episode"]``.

    Parameters
    ----------
    episodes
        What `record` returned.
    dataset_id
        Name of the dataset, such as ``"giusto/fades/gcc-v0"``.
    environment
        The environment of the episodes or its name, which is stored with them. Default: none.
    **about
        Further arguments of ``minari.create_dataset_from_buffers``, such as `author`, `algorithm_name`, `description`.

    Returns
    -------
    minari.MinariDataset
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("to_minari needs Minari: pip install 'giusto[minari]'", name=error.name) from error
    shown = Environment() if environment is None else None
    episodes = list(episodes)
    for episode in episodes:
        shape = episode.observations.shape[1:]
        if shown is not None and shape != shown.observation_space.shape:
            raise ValueError(f"episode {episode.number} has observations of shape {shape}, those of a wrapper: give its environment")
    buffers: Sequence[EpisodeBuffer] = [
        EpisodeBuffer(
            id=place,
            options={"episode": episode.number},
            observations=list(episode.observations),
            actions=list(episode.actions),
            rewards=episode.rewards.tolist(),
            terminations=[False] * len(episode.rewards),
            truncations=[False] * (len(episode.rewards) - 1) + [True],
        )
        for place, episode in enumerate(episodes)
    ]
    return minari.create_dataset_from_buffers(
        dataset_id,
        list(buffers),
        env=environment,
        action_space=shown and shown.action_space,
        observation_space=shown and shown.observation_space,
        data_format="arrow",
        **about,
    )
