"""Train a small policy that sets the target rate of calls, and judge it beside built-in controllers.

    python train_policy.py train --generations 12 --out policy.json
    python train_policy.py judge policy.json --board board.json

Training imitates `tempo`, then improves the benchmark's utility by an evolution strategy (CMA-ES), both with NumPy alone. The policy is
linear: 23 numbers, made of the observations of the last 1.2 s, times 23 weights, are the change of the target's logarithm in 200 ms.

The file `policy.json` beside this one was made by the first command, in four minutes of one core. Mean utility in the scenarios 0 to 45, two
of each family, of the seeds `held-out-1` to `held-out-5`, with half of the 95 % confidence interval over the seeds:

    tempo                  0.704 ± 0.039
    the trained policy     0.573 ± 0.039, by 0.108 ± 0.044 better than gcc:libwebrtc
    gcc:libwebrtc          0.465 ± 0.061
    0.95 × received rate   0.120 ± 0.049

What was needed, beyond the received rate as an observation:

- **The change of the target is the action**, not the target: most of what a network would have to learn about the scale, 30 kbit/s to
  100 Mbit/s, is in the observation already.
- **A second of history.** The received rate of one step is that of a burst, up to 2.5 times the target.
- **Scaled and split features.** A queueing delay of 20 ms calls for another reaction than one of 400 ms: each delay and loss is split into
  ranges of which each has a weight.
- **A start from imitation.** Random weights lose nearly all calls, which teaches nothing.
- **The utility of whole calls as the reward**, over the same calls for all candidates of a generation. Steps alone reward a queue that
  grows.
- **Other calls in every generation**, of all families but two, which take most of the time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

import giusto
from giusto.gym import FAMILIES, FEATURES, Environment, PolicyController, VectorEnvironment, record

Floats = NDArray[numpy.float64]

STACK = 6
AT = {name: place for place, name in enumerate(FEATURES)}
# One unit of the output changes the target by 0.1 of the scale of actions, 1.5 times; at most 0.15 up and 0.5 down in a step.
UNIT, UP, DOWN = 0.1, 0.15, 0.5
# Calls beside others simulate all of them: no training in these families, so that they show whether the policy generalises.
TRAINED = [family for family in FAMILIES.values() if family not in ("equal-calls", "mixed-calls")]
# Steps of the longest call, 80 s; shorter ones are played twice.
STEPS = 401


def features(seen: Floats) -> Floats:
    """Return 23 numbers, about -2 to 2, for stacked observations of shape (..., 6, 12), the latest last."""
    last = {name: seen[..., -1, place] for name, place in AT.items()}
    before = {name: seen[..., place] for name, place in AT.items()}
    target, delay, loss = last["target_rate"], last["queue_delay_s"], last["loss_ratio"]
    # Without packets the received rate says nothing.
    received = numpy.where(before["received_rate"] <= -1, before["target_rate"], before["received_rate"])
    clip = numpy.clip
    made: Floats = numpy.stack(
        [
            numpy.ones_like(target),
            clip((received[..., -1] - target) / 0.1, -5, 2),
            clip((received.mean(-1) - target) / 0.1, -5, 2),
            clip((received.max(-1) - target) / 0.1, -5, 2),
            clip((last["maximum_rate"] - target) / 0.1, -2, 2),
            clip(delay / 0.05, 0, 1),
            clip((delay - 0.05) / 0.1, 0, 2),
            clip((delay - 0.25) / 0.25, 0, 4),
            clip((last["queue_delay_max_s"] - delay) / 0.05, 0, 2),
            clip(before["queue_delay_s"].min(-1) / 0.05, 0, 2),
            clip(last["queue_delay_change_s"] / 0.03, -2, 2),
            clip(loss / 0.05, 0, 1),
            clip((loss - 0.1) / 0.1, 0, 3),
            clip(before["loss_ratio"].mean(-1) / 0.05, 0, 2),
            clip(last["mark_ratio"] / 0.1, 0, 2),
            clip(last["round_trip_s"] / 0.2, 0, 2),
            clip(last["sender_queue_s"] / 0.05, 0, 3),
            clip((last["silence_s"] - 0.2) / 0.2, 0, 3),
            clip((target + 0.2) / 0.4, -2, 2),
            clip((target - before["target_rate"][..., 0]) / 0.1, -2, 2),
            # What a queue, a loss and jitter change about the others.
            clip(delay / 0.1, 0, 1) * clip((received.mean(-1) - target) / 0.1, -5, 2),
            clip(loss / 0.1, 0, 1) * clip((received.mean(-1) - target) / 0.1, -5, 2),
            clip(before["queue_delay_s"].std(-1) / 0.02, 0, 2),
        ],
        -1,
    )
    return made


SIZE = 23


def actions(weights: Floats, seen: Floats) -> Floats:
    """Return the actions of candidates with weights of shape (candidates, 23) on observations of shape (candidates, calls, 6, 12)."""
    change = UNIT * numpy.einsum("kcf,kf->kc", features(seen), weights)
    target: Floats = numpy.clip(seen[..., -1, AT["target_rate"]] + numpy.clip(change, -DOWN, UP), -1.0, 1.0)
    return target


class Policy:
    """A trained policy, which `PolicyController` makes a controller."""

    def __init__(self, weights: Sequence[float]) -> None:
        self.weights = numpy.asarray(weights, numpy.float64)[None]

    def __call__(self, seen: NDArray[numpy.float32]) -> float:
        return float(actions(self.weights, seen[None, None].astype(numpy.float64))[0, 0])


def imitated(controller: str, episodes: int, seed: int) -> Floats:
    """Return the weights that come closest to a built-in controller, by least squares on its logs."""
    inputs, outputs = [], []
    environment = Environment(families=TRAINED, controller=controller, scenarios=20)
    for episode in record(environment, episodes=episodes, seed=seed):
        seen = episode.observations.astype(numpy.float64)
        past = numpy.maximum(numpy.arange(len(seen) - 1)[:, None] + numpy.arange(1 - STACK, 1), 0)
        inputs.append(features(seen[past]))
        outputs.append((episode.actions[:, 0] - seen[:-1, AT["target_rate"]]).clip(-DOWN, UP) / UNIT)
    x, y = numpy.concatenate(inputs), numpy.concatenate(outputs)
    weights = numpy.linalg.solve(x.T @ x + 1e-4 * len(x) * numpy.eye(SIZE), x.T @ y)
    return numpy.asarray(weights, numpy.float64)


class Calls:
    """Calls in which candidates play, each the same ones."""

    def __init__(self, candidates: int, calls: int, *, benchmark: str, threads: int) -> None:
        self.shape = (candidates, calls)
        self.environments = VectorEnvironment(
            candidates * calls,
            families=TRAINED,
            benchmark=benchmark,
            scenarios=20,
            threads=threads,
            autoreset_mode=AutoresetMode.NEXT_STEP,
        )

    def utilities(self, weights: Floats, seed: int, steps: int = STEPS) -> Floats:
        """Return the mean utility of each candidate over the calls that end within `steps`."""
        candidates, calls = self.shape
        seeds = [seed * calls + call for call in range(calls)] * candidates
        begun, _ = self.environments.reset(seed=seeds)
        seen = numpy.repeat(begun[:, None], STACK, 1).reshape(candidates, calls, STACK, -1).astype(numpy.float64)
        total, ended = numpy.zeros(candidates * calls), numpy.zeros(candidates * calls)
        over = numpy.zeros(self.shape, numpy.bool_)
        for _ in range(steps):
            action = actions(weights, seen).astype(numpy.float32)
            latest, _, _, truncated, infos = self.environments.step(action.reshape(-1, 1))
            latest = latest.reshape(candidates, calls, 1, -1)
            # The first observation of the next call stands for those before it.
            seen = numpy.where(over[..., None, None], latest, numpy.concatenate([seen[:, :, 1:], latest], 2))
            over = truncated.reshape(self.shape)
            if "utility" in infos:
                total += numpy.where(infos["_utility"], infos["utility"], 0.0)
                ended += infos["_utility"]
        means = numpy.divide(total, ended, out=numpy.zeros_like(total), where=ended > 0)
        return numpy.asarray(means.reshape(self.shape).mean(1), numpy.float64)


class Evolution:
    """CMA-ES: N. Hansen, "The CMA Evolution Strategy: A Tutorial", arXiv 1604.00772, with the defaults of its table 1."""

    def __init__(self, mean: Floats, sigma: float, candidates: int, seed: int) -> None:
        size, best = len(mean), candidates // 2
        ranks = numpy.log(best + 0.5) - numpy.log(numpy.arange(1, best + 1))
        self.mean, self.sigma, self.candidates = mean.copy(), sigma, candidates
        self.ranks = ranks / ranks.sum()
        mass = self.mass = 1.0 / (self.ranks**2).sum()
        self.rate_sigma = (mass + 2) / (size + mass + 5)
        self.damping = 1 + self.rate_sigma + 2 * max(0.0, ((mass - 1) / (size + 1)) ** 0.5 - 1)
        self.rate_path = (4 + mass / size) / (size + 4 + 2 * mass / size)
        self.rate_one = 2 / ((size + 1.3) ** 2 + mass)
        self.rate_best = min(1 - self.rate_one, 2 * (mass - 2 + 1 / mass) / ((size + 2) ** 2 + mass))
        self.length = size**0.5 * (1 - 1 / (4 * size) + 1 / (21 * size**2))
        self.covariance, self.path, self.path_sigma = numpy.eye(size), numpy.zeros(size), numpy.zeros(size)
        self.generation = 0
        self.random = numpy.random.default_rng(seed)

    def ask(self) -> Floats:
        """Return the candidates of a generation, of shape (candidates, size)."""
        variances, self.axes = numpy.linalg.eigh(self.covariance)
        self.deviations = numpy.sqrt(numpy.maximum(variances, 1e-12))
        normal = self.random.normal(size=(self.candidates, len(self.mean)))
        self.steps = (normal * self.deviations) @ self.axes.T
        return numpy.asarray(self.mean + self.sigma * self.steps)

    def tell(self, utilities: Floats) -> None:
        """Move towards the better half."""
        self.generation += 1
        best = self.steps[numpy.argsort(-utilities, kind="stable")[: len(self.ranks)]]
        step = self.ranks @ best
        self.mean = self.mean + self.sigma * step
        whitened = self.axes @ ((self.axes.T @ step) / self.deviations)
        keep = 1 - self.rate_sigma
        self.path_sigma = keep * self.path_sigma + (self.rate_sigma * (2 - self.rate_sigma) * self.mass) ** 0.5 * whitened
        length = float(numpy.linalg.norm(self.path_sigma))
        is_short = length / (1 - keep ** (2 * self.generation)) ** 0.5 < (1.4 + 2 / (len(self.mean) + 1)) * self.length
        self.path = (1 - self.rate_path) * self.path
        if is_short:
            self.path += (self.rate_path * (2 - self.rate_path) * self.mass) ** 0.5 * step
        self.covariance = (
            (1 - self.rate_one - self.rate_best) * self.covariance
            + self.rate_one * numpy.outer(self.path, self.path)
            + self.rate_best * (best.T * self.ranks) @ best
        )
        self.sigma *= float(numpy.exp(min(1.0, self.rate_sigma / self.damping * (length / self.length - 1))))


def train(
    generations: int, *, candidates: int = 12, calls: int = 32, logs: int = 100, seed: int = 1, threads: int = 0
) -> Iterator[tuple[Floats, float]]:
    """Yield the weights after the imitation and after each generation, with the mean utility of its candidates."""
    weights = imitated("tempo", logs, seed)
    yield weights, numpy.nan
    evolution = Evolution(weights, 0.12, candidates, seed)
    played = Calls(candidates, calls, benchmark="training", threads=threads)
    for generation in range(generations):
        utilities = played.utilities(evolution.ask(), seed * 1_000_000 + generation)
        evolution.tell(utilities)
        yield evolution.mean, float(utilities.mean())


def judge(weights: Sequence[float], board: Path, scenarios: int, seeds: Sequence[str], jobs: int | None) -> giusto.Leaderboard:
    """Judge the policy, 0.95 times the received rate, and two built-in controllers on other seeds than those of the training."""
    received, less = AT["received_rate"], numpy.log(1 / 0.95) / numpy.log(100e6 / 30e3) * 2
    judged: list[str | type[giusto.Controller]] = [
        PolicyController(Policy(weights), stack=STACK, name="trained policy"),
        PolicyController(lambda seen: max(seen[received] - less, -1.0), name="0.95 × received rate"),
        "gcc:libwebrtc",
        "tempo",
    ]
    leaderboard = giusto.Leaderboard(board)
    leaderboard.add(giusto.benchmark(judged, scenarios, seed=seeds, jobs=jobs), replace=True)
    return leaderboard


def main() -> None:
    """Train or judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train", help="train a policy")
    training.add_argument("--out", type=Path, required=True, help="file for the weights")
    training.add_argument("--generations", type=int, default=30, help="default 30")
    training.add_argument("--candidates", type=int, default=12, help="candidates of a generation (default 12)")
    training.add_argument("--calls", type=int, default=32, help="calls in which each candidate plays (default 32)")
    training.add_argument("--logs", type=int, default=100, help="calls of tempo to imitate (default 100)")
    training.add_argument("--seed", type=int, default=1)
    training.add_argument("--threads", type=int, default=0, help="default: all cores")
    judging = commands.add_parser("judge", help="judge a policy on held-out seeds")
    judging.add_argument("file", type=Path, help="file of the weights")
    judging.add_argument("--board", type=Path, default=Path("board.json"), help="leaderboard to add the results to")
    judging.add_argument("--scenarios", type=int, default=46, help="scenarios of each seed (default 46, two of each family)")
    judging.add_argument("--seeds", default="held-out-1,held-out-2,held-out-3,held-out-4,held-out-5")
    judging.add_argument("--jobs", type=int, help="default: one on each core")
    given = parser.parse_args()
    if given.command == "judge":
        weights = json.loads(given.file.read_text())["weights"]
        print(judge(weights, given.board, given.scenarios, given.seeds.split(","), given.jobs))
        return
    began = time.monotonic()
    options = {name: getattr(given, name) for name in ("candidates", "calls", "logs", "seed", "threads")}
    for generation, (weights, utility) in enumerate(train(given.generations, **options)):
        given.out.write_text(json.dumps({"weights": [round(float(own), 4) for own in weights]}) + "\n")
        about = f"utility of the candidates {utility:.3f}" if generation else "imitates tempo"
        print(f"generation {generation}, {time.monotonic() - began:.0f} s: {about}", flush=True)


if __name__ == "__main__":
    main()
