"""Congestion controllers written in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from numbers import Real
from typing import Any, ClassVar

from giusto._arguments import _is_bool
from giusto._giusto import Feedback, Limits, Probe, QueueState, SentPacket, StreamState, Target


# Names that share so much of their letters are taken for one another: one wrong, missing or exchanged letter of a short name.
_ALIKE = 0.86
# The types of attributes, and how messages name them.
_ATTRIBUTES: dict[str, tuple[tuple[type, ...], str]] = {
    "name": ((str, type(None)), "a string that is not empty, or None"),
    "feedback": ((str,), 'a string, such as "transport-wide"'),
    "burst_s": ((Real, type(None)), "a time in s, or None"),
    "discard_after_s": ((Real, type(None)), "a time in s, or None"),
    "marks": ((bool,), "True or False"),
    "receiver_limit": ((bool,), "True or False"),
}


def _check(controller: str, attribute: str, value: Any) -> None:
    """Raise a `TypeError` unless the attribute of a controller is of its type."""
    types, expected = _ATTRIBUTES[attribute]
    # Properties and the like have their value when they are read.
    if hasattr(value, "__get__"):
        return
    is_right = _is_bool(value) if bool in types else isinstance(value, types) and not _is_bool(value) and value != ""
    if not is_right:
        raise TypeError(f'controller "{controller}": {attribute}: expected {expected}, found {value!r:.60}')


class Controller:
    """Congestion control as a state machine: the base class of controllers of your own.

    A controller has a constructor that takes the limits, and `target`. It defines the other methods where it needs them; a
    method that it does not define costs nothing. It should read no clock and draw no random numbers of its own, so that the same
    seed gives the same run. Times are in seconds since the start of the run.

    The simulator makes one object for each media flow. An exception in a method ends the run; `giusto.run` raises it.

    Methods of your own may have any other name. A public one that begins with ``on_``, ``next_`` or ``handle_``, or that looks like a
    misspelt member of this class, is a `TypeError` when the class is made, since it would never be called.

    The class is accepted wherever the name of a controller is: in `Flow`, in settings, in `sweep`, `benchmark`, `call` and `listen`.

    After `on_timeout`, `next_timeout` must be later than before, and `next_probe` must return None at some time. Otherwise the run
    ends with an error after 100 calls.

    Parameters
    ----------
    limits : Limits
        Bounds of the target rate. The simulator keeps the target within them.

    Attributes
    ----------
    name : str, optional
        Name in scenarios and results. Default: the name of the class.
    feedback : str
        Feedback of the receiver: ``"transport-wide"`` (default), ``"rfc8888"``, ``"scream-draft"``, ``"nada"``, ``"remb"`` or
        ``"reports"``.
    burst_s : float, optional
        Maximum burst of the pacer in seconds at the pacing rate. Default: 0.04, as in libwebrtc.
    discard_after_s : float, optional
        Queued packets older than this are discarded. Default: never.
    marks : bool
        Whether the controller reacts to congestion marks (ECN-CE). Default: False.
    receiver_limit : bool
        Whether the controller reduces its rate when the receiver requests it (`Feedback.quench`). Default: False.

    Examples
    --------
    Additive increase, multiplicative decrease:

    >>> class Aimd(giusto.Controller):
    ...     def __init__(self, limits):
    ...         self.rate_bps = limits.start_bps
    ...
    ...     def on_feedback(self, now_s, feedback):
    ...         lost = any(report.arrival_s is None for report in feedback.packets)
    ...         self.rate_bps = self.rate_bps * 0.85 if lost else self.rate_bps + 10_000
    ...
    ...     def target(self):
    ...         return self.rate_bps
    """

    name: ClassVar[str | None] = None
    feedback: ClassVar[str] = "transport-wide"
    burst_s: ClassVar[float | None] = None
    discard_after_s: ClassVar[float | None] = None
    marks: ClassVar[bool] = False
    receiver_limit: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        known = [name for name in vars(Controller) if not name.startswith("_")]
        for name, member in vars(cls).items():
            if name in _ATTRIBUTES:
                _check(cls.__name__, name, member)
            if name.startswith("_") or name in known:
                continue
            nearest = get_close_matches(name, known, 1, _ALIKE)
            if nearest or (callable(member) and name.startswith(("on_", "next_", "handle_"))):
                near = nearest or get_close_matches(name, known, 1)
                hint = f": did you mean {near[0]}?" if near else "."
                raise TypeError(
                    f'controller "{cls.__name__}": {name} is no member of giusto.Controller, so nothing would use it{hint} '
                    f"A member of your own needs another name, such as _{name}"
                )

    def __init__(self, limits: Limits) -> None:
        """Make a controller with these limits."""

    def target(self) -> float | Target:
        """Return what may be sent now: the media rate in bit/s, or a `Target`.

        Read after every call of another method.
        """
        raise NotImplementedError(f"{type(self).__name__} must define target()")

    def on_sent(self, now_s: float, packet: SentPacket) -> None:
        """Handle a packet that has left."""

    def on_feedback(self, now_s: float, feedback: Feedback) -> None:
        """Handle feedback from the receiver."""

    def on_timeout(self, now_s: float, queue: QueueState) -> None:
        """Handle the time of `next_timeout`. `queue` is the sender's queue. It may be called earlier too."""

    def next_timeout(self) -> float | None:
        """Return the latest time at which `on_timeout` must be called, in seconds since the start of the run."""
        return None

    def set_limits(self, now_s: float, limits: Limits) -> None:
        """Handle new limits."""

    def on_route_change(self, now_s: float) -> None:
        """Handle a change of the route: estimates of the path are worthless now."""

    def next_probe(self) -> Probe | None:
        """Return the next probe to send, once; None when there are no more."""
        return None

    def frame_drop_interval(self) -> int | None:
        """Return n to drop one frame in n, because too much data is in flight or queued; 1 drops all, None drops none."""
        return None

    def on_streams(self, now_s: float, streams: Sequence[StreamState]) -> None:
        """Handle the state of the sender's streams, always in the same order; before each `on_timeout`."""

    def stream_targets(self) -> Sequence[float]:
        """Return the share of the target of each stream in bit/s, headers included, in the order of `on_streams`.

        When it is empty, the sender divides the target by priority.
        """
        return ()

    def cause(self) -> str | Mapping[str, str | float]:
        """Return why the target has just changed, for the record of decisions.

        The name of a cause, or a mapping with its fields as in JSON, such as ``{"cause": "loss", "ratio": 0.02}``.
        `docs/reference/controllers.md` lists the causes. Without this method the cause is ``"unstated"``.
        """
        return "unstated"
