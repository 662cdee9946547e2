"""Trained policies as congestion controllers."""

from __future__ import annotations

import inspect
import math
import os
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, cast

import numpy

from giusto import _giusto
from giusto._arguments import checked
from giusto._controller import Controller
from giusto._giusto import Feedback, Limits, QueueState, SentPacket, Target
from giusto.gym._classes import Made
from giusto.gym._environment import STEP_S, Array, check_step, target

# An action takes effect right after the end of a step, as in the environment.
_AFTER_S = 1e-9


@checked
def PolicyController(
    policy: object, *, stack: int = 1, step_s: float = STEP_S, name: str = "policy"
) -> type[Controller]:
    """Return a controller whose target a trained policy sets.

    Observations and actions are those of the environments: with the same policy a simulated call has the same targets as an episode. What is
    beyond -1 or 1 is taken as -1 or 1, as Stable-Baselines3 clips it. The class is accepted wherever the name of a controller is, in `giusto.run`, `giusto.sweep`, `giusto.benchmark` and `giusto.call`.

    Parameters
    ----------
    policy
        A function from an observation to an action; an object with a method ``predict``, as models of Stable-Baselines3 have, also with a
        state, which each call has for itself; the path of an ONNX file, whose only input is a batch of observations and whose first
        output is one of actions; or an ``onnxruntime.InferenceSession``.
    stack : int
        Number of latest observations that the policy gets, as ``gymnasium.wrappers.FrameStackObservation`` stacks them: an array of
        shape (stack, 12). With 1 the shape is (12,).
    step_s : float
        Time between actions in s, 0.02 to 10, as in training.
    name : str
        Name in scenarios and results.

    Returns
    -------
    type of Controller
        It can be pickled if `policy` can: a function of a module can, a lambda cannot.

    Raises
    ------
    ValueError
        `stack` or `step_s` is out of range.
    TypeError
        `policy` is of another type.

    Examples
    --------
    >>> eager = giusto.gym.PolicyController(lambda seen: seen[giusto.gym.FEATURES.index("received_rate")] + 0.02)
    >>> giusto.run("media", set={"call.controller": eager}).flow("call").received_rate_bps > 500_000
    True
    """
    if stack < 1:
        raise ValueError(f"stack must be at least 1, found {stack}")
    return _controller(_decider(policy), stack, check_step(step_s), name)


def _controller(decide: Callable[[Array], object], stack: int, step_s: float, name: str) -> type[Controller]:
    members = {
        "__doc__": f"The policy {name!r}.",
        "__module__": __name__,
        "name": name,
        "_decide": staticmethod(decide),
        "_stack": stack,
        "_step_s": step_s,
        "_made_by": (_controller, (decide, stack, step_s, name)),
    }
    made = Made("PolicyController", (_Policy,), members)
    return cast("type[Controller]", made)


class _Policy(Controller, metaclass=Made):
    feedback: ClassVar[str] = "rfc8888"
    marks: ClassVar[bool] = True
    _decide: ClassVar[Callable[[Array], object]]
    _stack: ClassVar[int]
    _step_s: ClassVar[float]

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        decide = type(self)._decide
        self._decided = _Remembering(decide) if isinstance(decide, _Model) else decide
        self._rate_bps = float(limits.start_bps)
        self._observer = _giusto.Observer(limits)
        self._seen: deque[Array] = deque(maxlen=self._stack)
        self._began_s: float | None = None
        self._ends_s: float | None = None
        self._acts_s: float | None = None
        self._oldest_s = 0.0

    def on_sent(self, now_s: float, packet: SentPacket) -> None:
        self._observer.on_sent(packet)

    def on_feedback(self, now_s: float, feedback: Feedback) -> None:
        self._observer.on_feedback(now_s, feedback)

    def on_route_change(self, now_s: float) -> None:
        self._observer.on_route_change()

    def set_limits(self, now_s: float, limits: Limits) -> None:
        self._limits = limits
        self._observer.set_limits(limits)
        self._set(self._rate_bps)

    def on_timeout(self, now_s: float, queue: QueueState) -> None:
        if self._ends_s is None:
            # The call begins, and the first action comes before the first packet.
            self._ends_s = self._began_s = max(now_s - _AFTER_S, 0.0)
            self._oldest_s = queue.oldest_s
            self._act()
        elif self._acts_s is not None and now_s >= self._acts_s - _AFTER_S / 2:
            self._act()
        elif now_s >= self._ends_s - _AFTER_S / 2:
            # A process that was stopped makes one step of all that it missed.
            self._ends_s += int((now_s - self._ends_s) / self._step_s) * self._step_s
            self._oldest_s = queue.oldest_s
            self._acts_s = self._ends_s + _AFTER_S

    def next_timeout(self) -> float | None:
        return self._ends_s if self._acts_s is None else self._acts_s

    def target(self) -> Target:
        # Whole bit/s, as in the environment: other rounding would be another run.
        return Target(self._rate_bps, pacing_bps=float(int(self._rate_bps) * 5 // 2))

    def _act(self) -> None:
        """End a step: observe, and take the next action."""
        assert self._began_s is not None and self._ends_s is not None
        seen = self._observer.observe(self._began_s, self._ends_s, self._rate_bps, self._oldest_s)
        observation: Array = numpy.frombuffer(seen, numpy.float32).copy()
        while len(self._seen) < self._stack - 1:
            self._seen.append(observation)
        self._seen.append(observation)
        given = observation if self._stack == 1 else numpy.stack(self._seen)
        action = numpy.asarray(self._decided(given), dtype=numpy.float32)
        if action.size != 1 or not math.isfinite(action.item()):
            raise ValueError(f"policy {self.name!r}: an action must be one number from -1 to 1, found {action.tolist()}")
        self._set(target(action.clip(-1.0, 1.0).reshape(1)))
        self._began_s, self._ends_s, self._acts_s = self._ends_s, self._ends_s + self._step_s, None

    def _set(self, rate_bps: float) -> None:
        self._rate_bps = min(max(rate_bps, self._limits.min_bps), self._limits.max_bps)


def _decider(policy: Any) -> Callable[[Array], object]:
    """Return the policy as a function from an observation to an action."""
    if isinstance(policy, (str, os.PathLike)):
        return _Onnx(os.fspath(policy))
    if callable(getattr(policy, "predict", None)):
        return _Model(policy)
    if callable(getattr(policy, "run", None)) and callable(getattr(policy, "get_inputs", None)):
        return _Onnx("", policy)
    if callable(policy):
        decide: Callable[[Array], object] = policy
        return decide
    raise TypeError(
        f"policy must be a function, an object with predict(), the path of an ONNX file or an ONNX session, found {policy!r}"
    )


class _Model:
    """A policy that predicts, as models of Stable-Baselines3 do."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, observation: Array, **state: Any) -> Any:
        return self._model.predict(observation, deterministic=True, **state)

    def takes_state(self) -> bool:
        """Return whether `predict` has a parameter for the state that it returned."""
        try:
            parameters = inspect.signature(self._model.predict).parameters.values()
        except (TypeError, ValueError):
            return True
        return any(own.name == "state" or own.kind is own.VAR_KEYWORD for own in parameters)


class _Remembering:
    """Such a policy in one call, with the state that recurrent ones return."""

    def __init__(self, model: _Model) -> None:
        self._model = model
        self._takes_state = model.takes_state()
        self._state: dict[str, Any] = {}

    def __call__(self, observation: Array) -> object:
        returned = self._model(observation, **self._state)
        # Models without a state need not know of it, and may return something else beside the action.
        has_state = self._takes_state and isinstance(returned, tuple) and len(returned) > 1 and returned[1] is not None
        self._state = {"state": returned[1]} if has_state else {}
        return returned[0]


class _Onnx:
    """A policy in ONNX, whose file each process opens itself."""

    def __init__(self, path: str, session: Any = None) -> None:
        if session is None and not os.path.exists(path):
            raise FileNotFoundError(f"policy {path}: no such file")
        self._path = path
        self._session = session

    def __getstate__(self) -> str:
        if not self._path:
            raise TypeError("a session of onnxruntime stays in its process: give the path of the ONNX file")
        return self._path

    def __setstate__(self, path: str) -> None:
        self._path, self._session = path, None

    def __call__(self, observation: Array) -> object:
        if self._session is None:
            try:
                import onnxruntime
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError("this policy needs ONNX Runtime: pip install onnxruntime", name=error.name) from error
            # A policy is too small for threads, and a process that is forked would end those that it does not have.
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            self._session = onnxruntime.InferenceSession(self._path, options, providers=["CPUExecutionProvider"])
        taken, *others = self._session.get_inputs()
        if others:
            names = ", ".join(own.name for own in (taken, *others))
            raise ValueError(
                f"policy {self._path or 'of a session'}: expected one input, the observations, found {names}: wrap it in an object "
                "with predict(), which may have a state"
            )
        kind = numpy.float64 if taken.type == "tensor(double)" else numpy.float32
        return self._session.run(None, {taken.name: observation[None].astype(kind, copy=False)})[0]
