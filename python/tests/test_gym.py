"""Environments for Gymnasium."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import numpy
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import giusto
import giusto.gym

CALL = giusto.Scenario(
    duration="20 s",
    link=giusto.Link("bottleneck", "camera", "viewer", rate="2 Mbit/s", delay_ms=25, duplex=True),
    flow=giusto.Flow("call", "media", max_rate="5 Mbit/s", video={"model": "perfect", "max": "5 Mbit/s"}),
)


@pytest.mark.parametrize("name", ["giusto/Benchmark-v0", "giusto/Fades-v0"])
def test_gymnasium_finds_no_fault(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(name).unwrapped)


def test_every_family_has_an_environment() -> None:
    assert len(giusto.gym.FAMILIES) == 23
    for name, family in giusto.gym.FAMILIES.items():
        environment = gymnasium.make(name, step_s=1.0)
        observation, info = environment.reset(seed=1)
        assert info["scenario"] == f"{family} {info['episode']}"
        assert observation in environment.observation_space


def test_the_same_seed_and_actions_give_the_same_episodes() -> None:
    def play(seed: int) -> list[Any]:
        environment = gymnasium.make("giusto/RandomLoss-v0", step_s=1.0)
        environment.action_space.seed(1)
        seen: list[Any] = []
        for number in range(2):
            observation, info = environment.reset(seed=seed if number == 0 else None)
            seen += [observation.tobytes(), info["episode"]]
            for _ in range(10):
                observation, reward, _, _, info = environment.step(environment.action_space.sample())
                seen += [observation.tobytes(), reward, info["target_bps"]]
        return seen

    assert play(7) == play(7)
    assert play(7) != play(8)


def test_actions_are_target_rates() -> None:
    assert giusto.gym.target(giusto.gym.action(1_000_000)) == pytest.approx(1e6, rel=1e-5)
    assert giusto.gym.target(-1.0) == 30_000 and giusto.gym.target(numpy.array([1.0])) == 100_000_000
    environment = gymnasium.make("giusto/Scenario-v0", scenario=CALL)
    environment.reset(seed=1)
    rewards = {}
    for rate in (300_000, 1_800_000, 4_000_000):
        environment.reset(options={"episode": 3})
        steps = [environment.step(giusto.gym.action(rate)) for _ in range(50)]
        observation, _, terminated, truncated, info = steps[-1]
        assert info["target_bps"] == pytest.approx(rate, rel=1e-5) and not (terminated or truncated)
        sent = giusto.gym.target(observation[giusto.gym.FEATURES.index("sent_rate")])
        assert sent == pytest.approx(rate, rel=0.06)
        rewards[rate] = float(numpy.mean([step[1] for step in steps]))
    # 0.15 of the capacity: the quality of coding at 125 kbit/s over that at 833 kbit/s (ITU-T G.1070) is 0.26.
    assert 0.2 < rewards[300_000] < 0.32
    assert 0.9 < rewards[1_800_000] <= 1
    assert 0 <= rewards[4_000_000] < 0.2


def follow(seen: Any) -> Any:
    """Follow the received rate, less while packets queue. `seen` are two observations."""
    received, delay = (giusto.gym.FEATURES.index(name) for name in ("received_rate", "queue_delay_s"))
    return numpy.array([numpy.clip(max(seen[0][received], seen[1][received]) + 0.04 - 2 * seen[1][delay], -1, 1)])


def targets(scenario: giusto.Scenario, policy: Any, seed: int, steps: int) -> list[float]:
    """The target in force in each step of a run."""
    own = giusto.gym.PolicyController(policy, stack=2)
    decisions = giusto.run(scenario, seed, set={"call.controller": own}).decisions.to_pylist()
    return [[row["to_bps"] for row in decisions if row["at_s"] <= step * 0.2 + 1e-6][-1] for step in range(steps)]


def test_a_policy_has_the_targets_of_its_episodes() -> None:
    lossy = CALL.with_settings({"bottleneck.loss": 0.02, "bottleneck.rate": "1 Mbit/s"})
    for scenario in (CALL, lossy):
        environment = gymnasium.wrappers.FrameStackObservation(
            gymnasium.make("giusto/Scenario-v0", scenario=scenario), 2
        )
        observation, _ = environment.reset(seed=1, options={"episode": 5})
        wanted, is_over = [], False
        while not is_over:
            observation, _, _, is_over, info = environment.step(follow(observation))
            wanted.append(info["target_bps"])
        assert len(wanted) == 100 and len(set(wanted)) > 30
        assert targets(scenario, follow, 5, 100) == wanted
        assert targets(scenario, lambda seen: follow(seen) - 0.01, 5, 100) != wanted


class Counting:
    """A recurrent policy, as `RecurrentPPO` of sb3-contrib: its state is the number of actions before."""

    def predict(self, observation: Any, state: Any = None, deterministic: bool = False) -> tuple[Any, Any]:
        before = numpy.zeros(1) if state is None else state
        return numpy.array([-0.5 + 0.01 * before[0]], numpy.float32), before + 1


class Constant:
    """An estimator."""

    def report_states(self, stats: dict[str, int]) -> None:
        pass

    def get_estimated_bandwidth(self) -> float:
        return 1e6


@pytest.mark.parametrize("kind", ["policy", "estimator"])
def test_a_process_that_was_stopped_goes_on(kind: str) -> None:
    made: list[tuple[giusto.Limits, giusto.QueueState]] = []
    acted: list[float] = []

    class Noting(giusto.Controller):
        def __init__(self, limits: giusto.Limits) -> None:
            self.limits = limits

        def on_timeout(self, now_s: float, queue: giusto.QueueState) -> None:
            made.append((self.limits, queue))

        def target(self) -> float:
            return 1e6

    giusto.run(CALL, set={"call.controller": Noting, "duration": "1 s"})
    limits, queue = made[0]
    policy = giusto.gym.PolicyController(lambda seen: acted.append(0.0) or 0.0)
    controller = (policy if kind == "policy" else giusto.gym.EstimatorController(Constant))(limits)
    controller.on_timeout(0.0, queue)
    now_s = 0.0
    for _ in range(20):
        now_s = controller.next_timeout() or 0.0
        controller.on_timeout(now_s, queue)
    assert 1.9 < now_s < 4.1
    before, stopped_s = len(acted), now_s + 1000.05
    # As soon as it goes on, it acts once; then it waits for the next multiple of 200 ms.
    for _ in range(3):
        if (controller.next_timeout() or 0.0) <= stopped_s:
            controller.on_timeout(stopped_s, queue)
    assert stopped_s < (controller.next_timeout() or 0.0) < stopped_s + 0.2
    assert (controller.next_timeout() or 0.0) * 5 == pytest.approx(round((controller.next_timeout() or 0.0) * 5), abs=1e-5)
    assert len(acted) - before in ((1, 2) if kind == "policy" else (0,))


def test_each_call_has_the_state_of_a_recurrent_policy_for_itself() -> None:
    wanted = [giusto.gym.target(-0.5 + 0.01 * number) for number in range(30)]
    assert targets(CALL, Counting(), 1, 30) == wanted
    policy = giusto.gym.PolicyController(Counting(), name="counting")
    pair = giusto.Scenario.parse(CALL.toml).with_settings({"call.controller": policy, "call.count": 2})
    first, second = (giusto.run(pair).flow(name) for name in ("call-1", "call-2"))
    assert first.target_rate_bps == second.target_rate_bps == giusto.run(pair).flow("call-1").target_rate_bps


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_policy_in_onnx_gets_its_kind_of_numbers(kind: str, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, number = onnx.helper, getattr(onnx.TensorProto, kind.upper())
    column = giusto.gym.FEATURES.index("received_rate")
    place = helper.make_tensor("place", onnx.TensorProto.INT64, [1], [column])
    nodes = [helper.make_node("Gather", ["seen", "place"], ["action"], axis=1)]
    seen = helper.make_tensor_value_info("seen", number, ["batch", 12])
    action = helper.make_tensor_value_info("action", number, ["batch", 1])
    state = helper.make_tensor_value_info("state", number, [1, 4])

    def saved(name: str, inputs: list[Any]) -> Path:
        model = helper.make_model(helper.make_graph(nodes, "policy", inputs, [action], [place]))
        model.ir_version, model.opset_import[0].version = 8, 13
        onnx.save(model, tmp_path / name)
        return tmp_path / name

    def played(path: Path) -> float:
        return giusto.run(CALL, set={"call.controller": giusto.gym.PolicyController(path)}).flow("call").received_rate_bps

    wanted = giusto.gym.PolicyController(lambda seen: seen[column], name="same")
    assert played(saved("one.onnx", [seen])) == giusto.run(CALL, set={"call.controller": wanted}).flow("call").received_rate_bps
    with pytest.raises(ValueError, match="two.onnx: expected one input, the observations, found seen, state: wrap it"):
        played(saved("two.onnx", [seen, state]))


def test_a_policy_may_return_more_than_its_action() -> None:
    class Model:
        def predict(self, observation: Any, deterministic: bool = False) -> tuple[Any, Any]:
            return numpy.array([-0.25], numpy.float32), {"value": 0.5}

    assert targets(CALL, Model(), 1, 10) == [giusto.gym.target(-0.25)] * 10


def test_policies_of_other_packages(tmp_path: Path) -> None:
    class Model:
        """As of Stable-Baselines3."""

        def predict(self, observation: Any, deterministic: bool = False) -> tuple[Any, None]:
            assert deterministic and observation.shape == (2, 12)
            return follow(observation), None

    assert targets(CALL, Model(), 5, 50) == targets(CALL, follow, 5, 50)
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, single = onnx.helper, onnx.TensorProto.FLOAT
    # The newest received rate and 0.05 more.
    nodes = [
        helper.make_node("Gather", ["seen", "row"], ["last"], axis=1),
        helper.make_node("Gather", ["last", "column"], ["rate"], axis=1),
        helper.make_node("Add", ["rate", "more"], ["action"]),
    ]
    constants = [
        helper.make_tensor("row", onnx.TensorProto.INT64, [], [1]),
        helper.make_tensor("column", onnx.TensorProto.INT64, [1], [giusto.gym.FEATURES.index("received_rate")]),
        helper.make_tensor("more", single, [1], [0.05]),
    ]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("seen", single, [1, 2, 12])],
        [helper.make_tensor_value_info("action", single, [1, 1])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    path = tmp_path / "policy.onnx"
    onnx.save(model, path)
    column = giusto.gym.FEATURES.index("received_rate")
    assert targets(CALL, path, 5, 50) == targets(CALL, lambda seen: seen[1][column] + numpy.float32(0.05), 5, 50)


class Half:
    """A model whose rate is half of the highest."""

    def predict(self, observation: Any, deterministic: bool = False) -> tuple[float, None]:
        return 0.5, None


def test_policies_are_sent_to_other_processes() -> None:
    def rates(policies: list[Any], **engine: Any) -> list[float]:
        swept = giusto.sweep(CALL, {"call.controller": policies}, seeds=[1], progress=False, **engine)
        return [float(rate) for rate in swept.flows["received_rate_bps"].to_pylist()]

    policies = [giusto.gym.PolicyController(follow, stack=2, name="f"), giusto.gym.PolicyController(Half(), name="h", step_s=0.5)]
    with ProcessPoolExecutor(1) as pool:
        assert rates(policies, engine=pool) == rates(policies)
    made = pickle.loads(pickle.dumps(policies[1]))
    assert (made.name, made._step_s, made.__module__) == ("h", 0.5, policies[1].__module__) and issubclass(made, giusto.Controller)
    # A class that is derived from one is sent by its name, and what cannot be sent says so.
    derived = type("Derived", (policies[0],), {"__module__": __name__})
    for local in (derived, giusto.gym.PolicyController(lambda seen: 0.0)):
        with pytest.raises((AttributeError, pickle.PicklingError), match="[Cc]an't (pickle|get)"):
            pickle.dumps(local)


def test_a_fork_without_its_threads_is_named() -> None:
    code = (
        "import giusto.gym, numpy, os\n"
        "for threads in (1, 2):\n"
        "    own = giusto.gym.VectorEnvironment(2, families=['static'], threads=threads)\n"
        "    own.reset(seed=1)\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        for use in (lambda: own.step(numpy.zeros((2, 1))), own.reset):\n"
        "            try:\n"
        "                use()\n"
        "                print('stepped', flush=True)\n"
        "            except RuntimeError as error:\n"
        "                print(error, flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["stepped"] * 2 and len(lines) == 4, done
    assert all(line.startswith("the threads of this environment are in process ") for line in lines[2:])
    assert lines[2].endswith("make the environment in the process that steps it, or with threads=1")


def test_a_policy_is_judged_by_the_benchmark() -> None:
    own = giusto.gym.PolicyController(follow, stack=2, name="follow")
    summary = giusto.benchmark([own, "fixed"], scenarios=1, progress=False).summary
    assert {row["name"] for row in summary["controllers"]} == {"follow", "fixed"}
    utility = {row["name"]: row["all"]["utility_mean"] for row in summary["controllers"]}
    assert 0.2 < utility["follow"] <= 1


def test_a_policy_has_the_utility_of_its_episodes(tmp_path: Path) -> None:
    # Scenario 23 is static and begins with a large frame, whose packets are of the first step; in scenario 24 the rate rises.
    for family, number in (("static", 23), ("step-up", 24)):
        environment = gymnasium.wrappers.FrameStackObservation(
            giusto.gym.Environment(families=[family], benchmark="held out"), 2
        )
        observation, _ = environment.reset(seed=1, options={"episode": number})
        is_over, info = False, {}
        while not is_over:
            observation, _, _, is_over, info = environment.step(follow(observation))
        own = giusto.gym.PolicyController(follow, stack=2, name="follow")
        shard = f"{number + 1}/{number + 1}"
        judged = giusto.benchmark([own], number + 1, seed="held out", shard=shard, out=tmp_path / family).runs
        rows = [row for row in judged.to_pylist() if row["controller"] == "follow"]
        assert [(row["scenario"], row["family"]) for row in rows] == [(number, family)]
        assert rows[0]["utility"] == info["utility"] > 0.05


def test_slips_are_named() -> None:
    environment = gymnasium.make("giusto/Scenario-v0", scenario=CALL).unwrapped
    environment.reset(seed=1)
    for actions, text in (([1.5], "action\\[0\\] must be a number from -1 to 1, found 1.5"), ([numpy.nan], "found nan")):
        with pytest.raises(ValueError, match=text):
            environment.step(numpy.array(actions, numpy.float32))
    environment.step(numpy.array([1.0], numpy.float32))
    vector = giusto.gym.VectorEnvironment(2, scenario=CALL)
    vector.reset(seed=1)
    with pytest.raises(ValueError, match="action\\[1\\] .*found -2"):
        vector.step(numpy.array([[0.0], [-2.0]], numpy.float32))
    with pytest.raises(ValueError, match="each of 2 environments"):
        vector.step(numpy.zeros((3, 1), numpy.float32))
    with pytest.raises(ValueError, match="step_s must be from 0.02 to 10, found nan"):
        giusto.gym.PolicyController(follow, step_s=numpy.nan)
    for action, found in ((1.5, "1.5"), (-1.01, "-1.01"), (numpy.inf, "inf"), (numpy.nan, "nan")):
        with pytest.raises(ValueError, match=f"the action must be a number from -1 to 1, found {found}"):
            giusto.gym.target(action)
    assert targets(CALL, lambda seen: 7.0, 5, 3) == targets(CALL, lambda seen: 1.0, 5, 3)
    with pytest.raises(ValueError, match="stack must be at least 1, found 0"):
        giusto.gym.PolicyController(follow, stack=0)
    with pytest.raises(TypeError, match="policy must be a function"):
        giusto.gym.PolicyController(7)
    with pytest.raises(ValueError, match="an action must be one number"):
        targets(CALL, lambda seen: numpy.zeros(2), 5, 1)


def test_each_episode_has_values_of_its_own() -> None:
    spreads: dict[str, Any] = {
        "bottleneck.rate": ("1 Mbit/s", "4 Mbit/s"),
        "bottleneck.loss": (0.0, 0.02),
        "bottleneck.queue.kind": ["drop-tail", "codel"],
    }
    environment = giusto.gym.Environment(scenario=CALL, randomise=spreads)
    drawn = []
    for seed in range(20):
        _, info = environment.reset(seed=seed)
        rate, unit = info["randomised"]["bottleneck.rate"].split()
        assert 1 <= float(rate) <= 4 and unit == "Mbit/s"
        assert 0 <= float(info["randomised"]["bottleneck.loss"]) <= 0.02
        drawn.append(info)
    assert len({info["randomised"]["bottleneck.rate"] for info in drawn}) == 20
    assert {info["randomised"]["bottleneck.queue.kind"] for info in drawn} == {"drop-tail", "codel"}
    # The number of an episode gives its values, also in a vector environment.
    again = environment.reset(options={"episode": drawn[3]["episode"]})[1]
    assert again == drawn[3]
    vector = giusto.gym.VectorEnvironment(2, scenario=CALL, randomise=spreads)
    infos = vector.reset(seed=[3, 4])[1]
    assert list(infos["randomised"]) == [drawn[3]["randomised"], drawn[4]["randomised"]]
    # Its own generator follows from the first seed, and what is not seeded from that.
    both = [giusto.gym.VectorEnvironment(2, scenario=CALL, randomise=spreads) for _ in range(2)]
    episodes = [list(own.reset(seed=[None, numpy.int64(3)])[1]["episode"]) for own in both]
    assert episodes[0] == episodes[1] and episodes[0][0] != episodes[0][1] == drawn[3]["episode"]
    assert both[0].np_random_seed == 3 and both[0].np_random.integers(2**32) == both[1].np_random.integers(2**32)
    # Whole numbers without a unit give whole ones, floats do not.
    _, info = giusto.gym.Environment(scenario=CALL, randomise={"call.video.frame-rate": (10, 60)}).reset(seed=1)
    assert int(info["randomised"]["call.video.frame-rate"]) in range(10, 61)
    _, info = giusto.gym.Environment(scenario=CALL, randomise={"bottleneck.loss": (0.0, 1.0)}).reset(seed=1)
    assert 0 < float(info["randomised"]["bottleneck.loss"]) < 1
    # Numbers of NumPy are numbers.
    for low, high in ((numpy.float64(0.0), numpy.float64(0.1)), (numpy.float32(0.0), numpy.float64(0.1))):
        own: dict[str, Any] = {"bottleneck.loss": (low, high)}
        _, info = giusto.gym.Environment(scenario=CALL, randomise=own).reset(seed=1)
        assert 0 < float(info["randomised"]["bottleneck.loss"]) < 0.1
    own = {"bottleneck.loss": list(numpy.linspace(0, 0.1, 3)), "call.video.frame-rate": (numpy.int64(10), numpy.int64(60))}
    _, info = giusto.gym.Environment(scenario=CALL, randomise=own).reset(seed=1)
    assert info["randomised"]["bottleneck.loss"] in ("0.0", "0.05", "0.1")
    assert int(info["randomised"]["call.video.frame-rate"]) in range(10, 61)
    assert "randomised" not in giusto.gym.Environment(scenario=CALL).reset(seed=1)[1]


@pytest.mark.parametrize(
    ("path", "spread", "error", "text"),
    [
        ("bottleneck.rat", ("1 Mbit/s", "2 Mbit/s"), ValueError, "bottleneck.rat"),
        ("bottleneck.rate", ("2 Mbit/s", "1 Mbit/s"), ValueError, "above 1 Mbit/s: give the lower value first"),
        ("bottleneck.loss", (0.5, 1.5), ValueError, "bottleneck.loss=1.5"),
        ("bottleneck.loss", (0.0, float("nan")), ValueError, "no number"),
        ("bottleneck.loss", (0.0, 0.1, 0.2), ValueError, "must have two values"),
        ("bottleneck.loss", 0.1, TypeError, "must be a tuple"),
        ("bottleneck.queue.kind", [], ValueError, "name at least one"),
    ],
)
def test_slips_in_spreads_are_named(path: str, spread: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        giusto.gym.Environment(scenario=CALL, randomise={path: spread})


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_vector_environment_does_what_single_ones_do(mode: AutoresetMode) -> None:
    keys: dict[str, Any] = {"families": ["static", "stalls", "equal-calls"], "step_s": 4.0}
    ours = gymnasium.make_vec("giusto/Benchmark-v0", num_envs=3, autoreset_mode=mode, **keys)
    theirs = SyncVectorEnv(
        [lambda: gymnasium.make("giusto/Benchmark-v0", **keys) for _ in range(3)], autoreset_mode=mode
    )
    assert isinstance(ours.unwrapped, giusto.gym.VectorEnvironment)
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"] == mode
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    assert ours.single_action_space == theirs.single_action_space
    compare(ours.reset(seed=5), theirs.reset(seed=5))
    ours.action_space.seed(1)
    ended = 0
    for _ in range(50):
        actions = ours.action_space.sample()
        mine = ours.step(actions)
        compare(mine, theirs.step(actions))
        ended += int(mine[3].sum())
        if mine[3].any() and mode == AutoresetMode.SAME_STEP:
            assert mine[4]["_final_obs"].tolist() == mine[3].tolist()
    # Some are 10 steps long, some 20.
    assert 6 <= ended <= 15
    mask = numpy.array([False, True, False])
    compare(
        ours.reset(seed=9, options={"reset_mask": mask}), theirs.reset(seed=9, options={"reset_mask": mask})
    )
    actions = ours.action_space.sample()
    compare(ours.step(actions), theirs.step(actions))


def compare(ours: Any, theirs: Any) -> None:
    """Compare what two environments returned, also its types."""
    assert type(ours) is type(theirs), (ours, theirs)
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            compare(value, theirs[key])
    elif isinstance(ours, tuple):
        assert len(ours) == len(theirs)
        for own, other in zip(ours, theirs):
            compare(own, other)
    elif isinstance(ours, numpy.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        for own, other in zip(ours, theirs):
            assert own is None and other is None or numpy.array_equal(own, other)
    else:
        assert ours == theirs


def test_seeds_may_be_integers_of_numpy() -> None:
    single, vector = giusto.gym.Environment(scenario=CALL), giusto.gym.VectorEnvironment(2, scenario=CALL)
    assert single.reset(seed=numpy.int64(3))[1] == single.reset(seed=3)[1]
    wanted = vector.reset(seed=3)[1]["episode"].tolist()
    for seed in (numpy.uint32(3), numpy.array([3, 4]), [numpy.int64(3), 4]):
        assert vector.reset(seed=seed)[1]["episode"].tolist() == wanted
    with pytest.raises(TypeError, match="float"):
        single.reset(seed=3.0)  # type: ignore[arg-type]


def test_other_threads_run_while_a_vector_environment_steps() -> None:
    # Steps of 10 s take long enough to be seen.
    environments = giusto.gym.VectorEnvironment(8, families=["static"], step_s=10.0, threads=1)
    environments.reset(seed=1)
    counted, is_over = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not is_over.is_set():
            counted += 1
            time.sleep(0.0005)

    other = threading.Thread(target=count)
    # With the GIL held a step would end before the other thread gets it.
    other.start()
    before = counted
    environments.step(numpy.zeros((8, 1), numpy.float32))
    during = counted - before
    is_over.set()
    other.join()
    assert during > 3


def test_a_built_in_controller_can_play() -> None:
    record = {}
    for controller in ("gcc:libwebrtc", "fixed"):
        environment = gymnasium.make("giusto/Scenario-v0", scenario=CALL, controller=controller)
        (episode,) = giusto.gym.record(environment, seed=1)
        record[controller] = episode
        run = giusto.run(CALL, episode.number, set={"call.controller": controller})
        # The run is that of the controller without the environment: its targets are the actions.
        at_s = numpy.arange(1, len(episode.actions) + 1) * 0.2
        decisions = run.decisions.to_pandas()
        for time_s, action in list(zip(at_s, episode.actions))[5::10]:
            target = decisions[decisions.at_s <= time_s].to_bps.iloc[-1]
            assert giusto.gym.target(action) == pytest.approx(max(target, 30_000), rel=1e-4)
    assert record["gcc:libwebrtc"].rewards.mean() > record["fixed"].rewards.mean() + 0.1
    assert record["gcc:libwebrtc"].utility > record["fixed"].utility + 0.1


def test_an_episode_has_the_shapes_of_its_space() -> None:
    single = giusto.gym.Environment(scenario=CALL, step_s=2.0)
    for action in (-0.25, numpy.float32(-0.25), [-0.25], numpy.array([[-0.25]])):
        (episode,) = giusto.gym.record(single, lambda _, action=action: action, seed=numpy.int64(1))  # type: ignore[misc, arg-type]
        assert episode.actions.shape == (10, 1) and (episode.actions == -0.25).all() and 0 < episode.utility < 1
    (cut,) = giusto.gym.record(gymnasium.wrappers.TimeLimit(single, 3), seed=1)
    assert cut.rewards.shape == (3,) and numpy.isnan(cut.utility)
    pytest.importorskip("minari")
    stacked = giusto.gym.record(gymnasium.wrappers.FrameStackObservation(single, 4), seed=1)
    with pytest.raises(ValueError, match=r"has observations of shape \(4, 12\), those of a wrapper: give its environment"):
        giusto.gym.to_minari(stacked, "giusto/stacked-v0")


def test_episodes_become_a_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    environment = gymnasium.make("giusto/Stalls-v0", controller="gcc:libwebrtc", step_s=1.0)
    episodes = giusto.gym.record(environment, episodes=2, seed=3)
    about = {"author": "giusto", "author_email": "giusto@example.org", "code_permalink": "https://example.org"}
    giusto.gym.to_minari(
        episodes, "giusto/stalls/gcc-v0", "giusto/Stalls-v0", algorithm_name="gcc:libwebrtc", **about
    )
    stored = minari.load_dataset("giusto/stalls/gcc-v0")
    assert stored.total_episodes == 2 and stored.total_steps == sum(len(own.rewards) for own in episodes)
    for own, other in zip(episodes, stored.iterate_episodes()):
        assert numpy.array_equal(own.observations, other.observations)
        assert numpy.array_equal(own.actions, other.actions)
        assert numpy.allclose(own.rewards, other.rewards)
        assert other.truncations[-1] and not other.truncations[:-1].any() and not other.terminations.any()
    again = stored.recover_environment()
    assert again.spec.id == "giusto/Stalls-v0"


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match='"steps" is unknown: expected one of static'):
        giusto.gym.Environment(families=["steps"])
    # Not the benchmark, which nobody asked for.
    for given in ({}, {"scenario": None}):
        for make in (gymnasium.make, gymnasium.make_vec):
            with pytest.raises(ValueError, match='neither a scenario nor a family of the benchmark: give one, such as scenario="media"'):
                make("giusto/Scenario-v0", **given)
    assert gymnasium.make("giusto/Scenario-v0", scenario=CALL).reset(seed=1)[1]["scenario"] == "scenario"
    for scenarios in (0, 2**32):
        with pytest.raises(ValueError, match=f"scenarios must be from 1 to 4294967295, found {scenarios}"):
            giusto.gym.Environment(scenarios=scenarios)
    with pytest.raises(ValueError, match="threads must be from 0 to 65535, found -1"):
        giusto.gym.VectorEnvironment(2, threads=-1)
    for number in (-1, 2**63):
        with pytest.raises(ValueError, match=f"episode must be from 0 to 9223372036854775807, found {number}"):
            giusto.gym.Environment(families=["static"]).reset(options={"episode": number})
    with pytest.raises(ValueError, match="from 20 ms to 10 s"):
        giusto.gym.Environment(step_s=0.001)
    with pytest.raises(ValueError, match="unknown controller"):
        giusto.gym.Environment(controller="tcp")
    with pytest.raises(ValueError, match="not both"):
        giusto.gym.Environment(families=["static"], scenario=CALL)
    with pytest.raises(ValueError, match='called "other"'):
        giusto.gym.Environment(scenario=CALL, flow="other")
    with pytest.raises(ValueError, match="at least 1, found 0"):
        giusto.gym.VectorEnvironment(0)
    with pytest.raises(ValueError, match="an action for each of 2 environments"):
        giusto.gym.VectorEnvironment(2).step(numpy.zeros((3, 1), numpy.float32))
    environment = giusto.gym.Environment(families=["static"], step_s=10.0)
    with pytest.raises(RuntimeError, match="call reset"):
        environment.step(numpy.zeros(1, numpy.float32))
    environment.reset(seed=1)
    with pytest.raises(ValueError, match="a number from -1 to 1"):
        environment.step(numpy.array([numpy.nan], numpy.float32))
    while not environment.step(numpy.zeros(1, numpy.float32))[3]:
        pass
    with pytest.raises(RuntimeError, match="call reset"):
        environment.step(numpy.zeros(1, numpy.float32))


@pytest.mark.parametrize(
    ("module", "call", "fix"),
    [
        ("gymnasium", "import giusto.gym", "pip install 'giusto[gym]'"),
        ("minari", "import giusto.gym; giusto.gym.to_minari([], 'x-v0')", "pip install 'giusto[minari]'"),
    ],
)
def test_a_missing_package_is_named_with_its_command(module: str, call: str, fix: str) -> None:
    program = f"import sys; sys.modules[{module!r}] = None; {call}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and fix in done.stderr.splitlines()[-1], done.stderr


@pytest.mark.slow
def test_a_short_training_beats_a_random_policy() -> None:
    """The cross-entropy method with a linear policy, judged on scenarios that it has not seen."""
    families = ["static", "step-down", "step-up", "fades"]
    count = len(giusto.gym.FEATURES) + 1
    random = numpy.random.default_rng(1)

    def score(weights: numpy.ndarray[Any, Any], benchmark: str, episodes: int, seed: int) -> Any:
        """Return the mean rewards of policies, one a row, each on the same episodes; None: random actions."""
        environments = giusto.gym.VectorEnvironment(
            len(weights) * episodes, families=families, benchmark=benchmark, step_s=0.4
        )
        seeds = [seed + place % episodes for place in range(len(weights) * episodes)]
        observations, _ = environments.reset(seed=seeds)
        policies = numpy.repeat(weights, episodes, axis=0)
        total = numpy.zeros(len(seeds))
        for _ in range(60):
            actions = (policies[:, :-1] * observations).sum(axis=1) + policies[:, -1]
            observations, rewards, _, _, _ = environments.step(numpy.clip(actions, -1, 1)[:, None])
            total += rewards
        return total.reshape(len(weights), episodes).mean(axis=1) / 60

    mean, spread = numpy.zeros(count), numpy.full(count, 0.5)
    for generation in range(8):
        population = mean + spread * random.standard_normal((16, count))
        best = population[numpy.argsort(-score(population, "training", 3, 100 * generation))[:4]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.02
    trained = score(mean[None], "judging", 12, 1)[0]
    environments = giusto.gym.VectorEnvironment(12, families=families, benchmark="judging", step_s=0.4)
    environments.reset(seed=1)
    environments.action_space.seed(1)
    rewards = [environments.step(environments.action_space.sample())[1].mean() for _ in range(60)]
    assert trained > numpy.mean(rewards) + 0.2, (trained, numpy.mean(rewards))
    assert trained < 1
