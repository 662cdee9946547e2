"""Environments for Gymnasium in which an action is the target rate of a call: ``pip install 'giusto[gym]'``.

>>> import gymnasium
>>> import giusto.gym
>>> environment = gymnasium.make("giusto/Static-v0")
>>> observation, info = environment.reset(seed=1)
>>> observation, reward, terminated, truncated, info = environment.step(giusto.gym.action(1_000_000))
>>> info["target_bps"]
1000000.0

``giusto/Benchmark-v0`` draws its scenarios from all families of the benchmark, ``giusto/Static-v0`` and the others of `FAMILIES` from one,
``giusto/Scenario-v0`` takes one of yours: ``gymnasium.make("giusto/Scenario-v0", scenario="media")``. An episode lasts as long as the
call, 40 to 80 s in the benchmark, and ends with ``truncated``. The same seed and actions give the same bytes. In ``equal-calls`` and
``mixed-calls`` the environment controls ``call-1``, and ``scream:v2`` the other judged calls.

An action is a number from -1 to 1, an array of shape (1,): the target rate on a logarithmic scale from 30 kbit/s to 100 Mbit/s. The limits
of the call bound it. Packets are paced at 2.5 times the target. `action` and `target` convert.

An observation is what a sender knows from its packets and the feedback (RFC 8888) of the last step: 12 numbers of float32, clamped to their
range. ``gymnasium.wrappers.FrameStackObservation`` adds earlier steps.

| number | content | range |
|---|---|---|
| `target_rate`, `sent_rate` | on the scale of actions | -1 to 1 |
| `received_rate` | rate of the packets reported as received, over the time in which they arrived; -1 if there are none | -1 to 1 |
| `maximum_rate` | highest rate that the media can use | -1 to 1 |
| `queue_delay_s`, `queue_delay_max_s` | mean and maximum one-way delay, above the lowest one since the last change of the route | 0 to 2 |
| `queue_delay_change_s` | change of the mean since the step before | -1 to 1 |
| `round_trip_s` | lowest time from a packet's departure to its report, since the last change of the route | 0 to 2 |
| `loss_ratio` | packets reported as missing over all that were reported | 0 to 1 |
| `mark_ratio` | packets with a congestion mark (ECN-CE) over those received | 0 to 1 |
| `sender_queue_s` | age of the oldest packet in the sender's queue | 0 to 2 |
| `silence_s` | time since the last feedback; 0 before the first | 0 to 2 |

The reward is rate × delay × frames, 0 to 1, with the parts of the benchmark's utility (`docs/reference/benchmark.md`) for one step. The
utility of the whole call is ``info["utility"]`` at its end.

| part | of |
|---|---|
| rate | media received in the step over the fair share of the bottleneck (`use_ratio` of `info`); 1 where the share is 0 |
| delay | the longest frame delay of the step, frames that still wait included (`frame_delay_s`) |
| frames | share of missed frames among those decided in the step: complete, skipped, or 400 ms too late (`missed_ratio`) |

``gymnasium.make_vec("giusto/Static-v0", num_envs=16)`` makes environments that step together on all cores.

`PolicyController` makes a controller of a trained policy, for `giusto.benchmark`, sweeps and calls.
`EstimatorController` makes one of a bandwidth estimator with the interface of AlphaRTC.
"""

from __future__ import annotations

try:
    import gymnasium as _gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("giusto.gym needs Gymnasium: pip install 'giusto[gym]'", name=error.name) from error

from giusto import _giusto
from giusto.gym._environment import FEATURES, Environment, action, target
from giusto.gym._episodes import Episode, record, to_minari
from giusto.gym._estimator import EstimatorController
from giusto.gym._policy import PolicyController
from giusto.gym._vector import VectorEnvironment

__all__ = [
    "FAMILIES",
    "FEATURES",
    "Environment",
    "Episode",
    "EstimatorController",
    "PolicyController",
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
    # Without families, so that a scenario is required.
    _register("giusto/Scenario-v0", families=[])
    for _name, _family in FAMILIES.items():
        _register(_name, families=[_family])
