"""Bandwidth estimators with AlphaRTC's interface as congestion controllers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar, Protocol, cast

from giusto._arguments import checked
from giusto._controller import Controller
from giusto._giusto import Feedback, Limits, QueueState
from giusto.gym._classes import Made

# Time between calls of get_estimated_bandwidth, in s.
_INTERVAL_S = 0.2
# Of video: estimators of the challenge at ACM MMSys 2021 ignore packets of other types.
_VIDEO = 126
_SSRC = 1
# RTP header without extensions (RFC 3550, section 5.1), in bytes.
_HEADER = 12
# Headers of IPv4 and UDP, in bytes.
_LOWER_HEADERS = 28
_SEQUENCE_NUMBERS = 1 << 16


class Estimator(Protocol):
    """AlphaRTC's interface of a bandwidth estimator."""

    def report_states(self, stats: dict[str, int], /) -> object:
        """Note a packet that was received."""

    def get_estimated_bandwidth(self) -> float:
        """Return the estimate in bit/s."""


@checked
def EstimatorController(
    estimator: Callable[[], Estimator] | Estimator, *, name: str = "estimator", payload_type: int = _VIDEO
) -> type[Controller]:
    """Return a controller whose target a bandwidth estimator with AlphaRTC's interface sets.

    The class is accepted wherever the name of a controller is, in `giusto.run`, `giusto.sweep`, `giusto.benchmark` and `giusto.call`.

    The estimator gets each received packet once, in order of arrival, by ``report_states(stats)``. Then, every 200 ms,
    ``get_estimated_bandwidth()`` gives the target in bit/s, which is kept within the limits. It is not called before the first packet
    is reported. Lost packets are not reported: they are gaps of the sequence numbers.

    AlphaRTC runs the estimator in the receiver. Here it runs in the sender, on transport-wide feedback: packets of a lost feedback
    message are not reported either.

    | key | value |
    |---|---|
    | ``send_time_ms``, ``arrival_time_ms`` | times since the start of the run in whole ms, rounded down |
    | ``sequence_number`` | transport-wide sequence number modulo 65536 |
    | ``payload_size``, ``header_length`` | size in bytes without the headers of IPv4, UDP (28 together) and RTP; and 12 |
    | ``padding_length``, ``payload_type``, ``ssrc`` | always 0, `payload_type` and 1: a controller does not see them |

    Parameters
    ----------
    estimator
        A class, of which each call makes its own object without arguments; or an object, of which each call gets a deep copy.
    name : str
        Name in scenarios and results.
    payload_type : int
        That of video. Estimators of the challenge at ACM MMSys 2021 expect 126, some later ones 125; others do not look at it.

    Returns
    -------
    type of Controller
        It can be pickled if `estimator` can: a class of a module can.

    Raises
    ------
    TypeError
        `estimator` lacks a method. In a run: an estimate is not a number.
    ValueError
        In a run: an estimate is negative or not finite.

    Examples
    --------
    Less while packets wait, more while they do not:

    >>> class Waiting:
    ...     def __init__(self):
    ...         self.estimate_bps, self.shortest_ms, self.delay_ms = 300_000, None, 0
    ...
    ...     def report_states(self, stats):
    ...         self.delay_ms = stats["arrival_time_ms"] - stats["send_time_ms"]
    ...         if self.shortest_ms is None or self.delay_ms < self.shortest_ms:
    ...             self.shortest_ms = self.delay_ms
    ...
    ...     def get_estimated_bandwidth(self):
    ...         self.estimate_bps *= 0.85 if self.delay_ms > self.shortest_ms + 20 else 1.05
    ...         return self.estimate_bps
    >>> waiting = giusto.gym.EstimatorController(Waiting, name="waiting")
    >>> giusto.run("media", set={"call.controller": waiting}).flow("call").received_rate_bps > 500_000
    True
    """
    for method in ("report_states", "get_estimated_bandwidth"):
        if not callable(getattr(estimator, method, None)):
            raise TypeError(f"estimator must be a class or an object with the method {method}(), found {estimator!r}")
    return _controller(estimator if isinstance(estimator, type) else _Copies(estimator), name, payload_type)


def _controller(make: Callable[[], Any], name: str, payload_type: int) -> type[Controller]:
    members = {
        "__doc__": f"The estimator {name!r}.",
        "__module__": __name__,
        "name": name,
        "_payload_type": payload_type,
        "_make": staticmethod(make),
        "_made_by": (_controller, (make, name, payload_type)),
    }
    made = Made("EstimatorController", (_Estimated,), members)
    return cast("type[Controller]", made)


class _Copies:
    """Makes deep copies of an object."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __call__(self) -> Any:
        return copy.deepcopy(self._own)


class _Estimated(Controller, metaclass=Made):
    feedback: ClassVar[str] = "transport-wide"
    _make: ClassVar[Callable[[], Any]]
    _payload_type: ClassVar[int]

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._estimate_bps = float(limits.start_bps)
        self._estimator = type(self)._make()
        self._is_told = False
        self._next_s: float | None = None

    def on_feedback(self, now_s: float, feedback: Feedback) -> None:
        received = [(report.arrival_s, report.sent) for report in feedback.packets if report.arrival_s is not None]
        for arrival_s, sent in sorted(received, key=lambda packet: (packet[0], packet[1].sequence)):
            self._is_told = True
            self._estimator.report_states(
                {
                    "send_time_ms": _whole_ms(sent.at_s),
                    "arrival_time_ms": _whole_ms(arrival_s),
                    "payload_type": self._payload_type,
                    "sequence_number": sent.sequence % _SEQUENCE_NUMBERS,
                    "ssrc": _SSRC,
                    "padding_length": 0,
                    "header_length": _HEADER,
                    "payload_size": max(sent.size_bytes - _LOWER_HEADERS - _HEADER, 0),
                }
            )

    def on_timeout(self, now_s: float, queue: QueueState) -> None:
        if self._next_s is None:
            # The call begins.
            self._next_s = now_s + _INTERVAL_S
        elif now_s >= self._next_s - 1e-9:
            # A process that was stopped has missed some.
            self._next_s += (1 + int((now_s - self._next_s) / _INTERVAL_S)) * _INTERVAL_S
            if self._is_told:
                self._estimate_bps = self._checked(self._estimator.get_estimated_bandwidth())

    def next_timeout(self) -> float | None:
        return self._next_s

    def set_limits(self, now_s: float, limits: Limits) -> None:
        self._limits = limits

    def target(self) -> float:
        return min(max(self._estimate_bps, self._limits.min_bps), self._limits.max_bps)

    def _checked(self, estimate: Any) -> float:
        what = f"estimator {self.name!r}: get_estimated_bandwidth() must return"
        if not isinstance(estimate, Real) or isinstance(estimate, bool):
            raise TypeError(f"{what} a number in bit/s, found {estimate!r} ({type(estimate).__name__})")
        if not math.isfinite(estimate) or estimate < 0:
            raise ValueError(f"{what} a finite number of at least 0 bit/s, found {estimate!r}")
        return float(estimate)


def _whole_ms(time_s: float) -> int:
    """Whole ms, where 0.057 s, which is 56.99… ms in binary, is 57."""
    return math.floor(time_s * 1000 + 1e-6)
