"""Environments for Gymnasium in which an action is the target rate of a call: ``pip install 'giusto[gym]'``.

>>> import gymnasium
>>> import giusto.gym
>>> environment = gymnasium.make("giusto/Static-v0")
>>> observation, info = environment.reset(seed=1)
>>> observation, reward, terminated, truncated, info = environment.step(giusto.gym.action(1_000_000))
>>> info["target_bps"]
1000000.0

`docs/reference/python.md` describes actions, observations, rewards and episodes.
"""

from __future__ import annotations

try:
    import gymnasium as _gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("giusto.gym needs Gymnasium: pip install 'giusto[gym]'", name=error.name) from error

from giusto import _giusto
from giusto.gym._environment import FEATURES, Environment, action, target
from giusto.gym._episodes import Episode, record, to_minari
from giusto.gym._vector import VectorEnvironment

__all__ = [
    "FAMILIES",
    "FEATURES",
    "Environment",
    "Episode",
    "VectorEnvironment",
    "action",
    "record",
    "target",
    "to_minari",
]

FAMILIES: dict[str, str] = {
    f"giusto/{family.title().replace('-', '')}-v0": family for family in _giusto.environment_families()
}
"""The families of the benchmark's scenarios by the names of their environments."""


def _register(name: str, **keys: object) -> None:
    _gymnasium.register(
        name,
        entry_point="giusto.gym:Environment",
        vector_entry_point="giusto.gym:VectorEnvironment",
        kwargs=keys,
    )


# An import after a reload would warn of environments that are known.
if "giusto/Benchmark-v0" not in _gymnasium.registry:
    _register("giusto/Benchmark-v0")
    _register("giusto/Scenario-v0")
    for _name, _family in FAMILIES.items():
        _register(_name, families=[_family])
