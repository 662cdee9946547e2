"""Calls over UDP."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from giusto import _giusto
from giusto._arguments import checked
from giusto._controller import Controller
from giusto._record import RunRecord
from giusto._scenario import _classes, _name
from giusto._statistics import Distribution

if TYPE_CHECKING:
    from typing_extensions import Self

PORT = 5004
"""The port of calls: that of RTP (RFC 3551 section 8)."""
# Streams of video that fit into a flow.
_VIDEOS = 16


@dataclass(frozen=True)
class CallFigures:
    """What only a call has.

    Attributes
    ----------
    role : str
        ``"caller"`` or ``"listener"``.
    far_end : str
        Address of the far end at the end of the call.
    error : str or None
        Why the call ended; None if it ended in good order.
    unreported : str or None
        Which figures of the record are unknown, and therefore None, because the far end sent no final report; None if it sent one.
    authenticated : bool
        Whether the two ends shared keys.
    protection : str
        How the media were protected: ``"handshake"`` (authenticated against those who do not read the packets), ``"key"``
        (authenticated by a shared key), ``"srtp"`` (encrypted) or ``"none"``.
    round_trip_ms : Distribution
        Round-trip time of the handshake's Pings.
    schedule_error_us : Distribution
        From each deadline of this end until its datagrams were sent.
    read_latency_us : Distribution
        From the arrival of each datagram until this end read it.
    cpu_ratio : float
        CPU time of the thread of this end, controller included, as a share of the time.
    address_changes : int
        How often an address changed.
    paths : tuple of dict
        Addresses at which the far end was, if there was more than one, with the packets of each.
    unsent_packets, socket_dropped_packets : int
        Datagrams of media and feedback that the system of this end did not take, and those that it dropped because they were not read in time.
    unsent_reason : str or None
        Latest reason why a datagram was not sent.
    ignored : dict
        Counts of datagrams that belonged to no call.
    doubts : tuple of str
        Reasons to doubt the figures.
    """

    role: str
    far_end: str
    error: str | None
    authenticated: bool
    cpu_ratio: float
    address_changes: int
    unsent_packets: int
    socket_dropped_packets: int
    ignored: dict[str, int]
    protection: str = "none"
    unreported: str | None = None
    unsent_reason: str | None = None
    round_trip_ms: Distribution = Distribution()
    schedule_error_us: Distribution = Distribution()
    read_latency_us: Distribution = Distribution()
    doubts: tuple[str, ...] = ()
    paths: tuple[dict[str, Any], ...] = ()


class CallRecord(RunRecord):
    """The record of one end of a call: what `giusto.call` and `Listener.serve` return.

    Its flows are ``call``, the media of the caller, and ``call:reverse``, those of the listener. Each end measures what it sees; at
    the end of the call the two exchange totals, and the other fields are those of the far end.

    Attributes
    ----------
    call : CallFigures
        What only a call has.
    """

    call: CallFigures

    @classmethod
    def _of(cls, result: _giusto.Run) -> Self:
        record = super()._of(result)
        figures = record._values["call"]
        lists = {name: tuple(figures.get(name, ())) for name in ("doubts", "paths")}
        fields = {**figures, **lists}
        for name in ("round_trip_ms", "schedule_error_us", "read_latency_us"):
            fields[name] = Distribution(**(fields.get(name) or {}))
        record.call = CallFigures(**fields)
        return record

    def to_dict(self) -> dict[str, Any]:
        """Return the record as `giusto call --json` prints it."""
        return super().to_dict()

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write ``result.json`` and the page ``report.html`` to a folder."""
        os.makedirs(folder, exist_ok=True)
        self._result.write(os.fspath(folder), f"giusto.call, {self.call.role} of {self.call.far_end}")

    def __str__(self) -> str:
        doubts = "".join(f"warning: {doubt}\n" for doubt in self.call.doubts)
        return doubts + super().__str__()

    def __repr__(self) -> str:
        return f"<giusto.CallRecord, {self.call.role} of {self.call.far_end}, {self.duration_s:g} s>"


@checked
def call(
    host: str,
    port: int = PORT,
    *,
    controller: str | type[Controller] | None = None,
    duration: str = "10 s",
    min_rate: str | None = None,
    start_rate: str | None = None,
    max_rate: str | None = None,
    video: int = 1,
    audio: bool = False,
    encoder: Literal["perfect", "statistical", "trace", "hybrid"] = "statistical",
    delay_target: str | None = None,
    repair: Literal["none", "nack", "flexfec", "nack+flexfec"] = "nack",
    direction: Literal["forward", "reverse", "both"] = "forward",
    seed: int = 1,
    silence: str = "15 s",
    timeline: bool = True,
) -> CallRecord:
    """Make a call over UDP, as ``giusto call HOST`` does.

    The far end is a `Listener` or ``giusto call --listen``. Ctrl-C ends the call in good order and raises `KeyboardInterrupt`.

    A controller of your own has the methods that it has in a simulation; times are in seconds since the start of the call. It runs in
    the thread of the call, with the GIL: while a method runs, or waits for the GIL, nothing is sent. The far end need not know it, unless
    it sends.

    Parameters
    ----------
    host : str
        Name or address of the listener.
    port : int
        Its UDP port.
    controller : str or type of Controller, optional
        Congestion controller. Default: ``"gcc:libwebrtc+giusto"``.
    duration : str
        Length of the call.
    min_rate, start_rate, max_rate : str, optional
        Bounds of the target rate and its first value, headers included. Default: 30 kbit/s, 300 kbit/s, 2.5 Mbit/s.
    video : int
        Number of video streams, which share the rate.
    audio : bool
        Whether to send an audio stream of 20 kbit/s too.
    encoder : str
        Model of the video encoders, as in scenarios.
    delay_target : str, optional
        Target of the queueing delay, of a controller that has one.
    repair : str
        Repair of lost packets.
    direction : str
        Who sends: ``"forward"`` the caller, ``"reverse"`` the listener, ``"both"`` both.
    seed : int
        Random seed of the encoders.
    silence : str
        Time without any datagram of the far end after which the call ends.
    timeline : bool
        Whether to record the call over time, which plots and decisions need.

    Returns
    -------
    CallRecord
        `CallRecord.call.error` says why a call ended early.

    Raises
    ------
    ValueError
        An argument is invalid.
    OSError
        The host is unknown, or there is no socket; `ConnectionError`: the far end does not answer or refuses the call.
    Exception
        What a controller of your own raised. The call ends in good order before.
    """
    if isinstance(controller, type):
        _name(controller, [])
    if not 0 <= operator.index(video) <= _VIDEOS:
        raise ValueError(f"video must be from 0 to {_VIDEOS}, found {video}")
    result = _giusto.call(
        _host(host),
        _port(port, 1),
        controller=controller,
        duration=duration,
        rates=(min_rate, start_rate, max_rate),
        video=video,
        audio=audio,
        encoder=encoder,
        delay_target=delay_target,
        repair=repair,
        direction=direction,
        seed=seed,
        silence=silence,
        timeline=timeline,
    )
    return CallRecord._of(result)


class Listener:
    """Serves calls over UDP, as ``giusto call --listen`` does: what `giusto.listen` returns.

    It is an iterator over the records of its calls. It serves one call at a time and refuses others meanwhile. The socket is closed
    when the object is deleted.

    Attributes
    ----------
    host : str
        Address at which it listens.
    port : int
        UDP port at which it listens.
    """

    host: str
    port: int

    def __init__(self) -> None:
        raise TypeError("giusto.listen makes listeners")

    @classmethod
    def _of(cls, listener: _giusto.Listener) -> Listener:
        own = cls.__new__(cls)
        own._listener = listener
        own.host = listener.host
        own.port = listener.port
        return own

    _listener: _giusto.Listener

    def serve(self) -> CallRecord:
        """Wait for a call and serve it to its end; return its record.

        Ctrl-C ends it with `KeyboardInterrupt`.

        Raises
        ------
        RuntimeError
            Another thread serves a call with this listener.
        OSError
            The socket failed.
        Exception
            What a controller of your own raised. The call ends in good order before.
        """
        return CallRecord._of(self._listener.serve())

    def __iter__(self) -> Iterator[CallRecord]:
        return self

    def __next__(self) -> CallRecord:
        return self.serve()

    def __repr__(self) -> str:
        return f"<giusto.Listener {self.host} port {self.port}>"


@checked
def listen(
    host: str,
    port: int = PORT,
    *,
    controllers: Iterable[type[Controller]] = (),
    max_rate: str | None = None,
    silence: str = "15 s",
    timeline: bool = True,
) -> Listener:
    """Open a socket that serves calls, as ``giusto call --listen`` does.

    Parameters
    ----------
    host : str
        Local address, such as ``"0.0.0.0"`` or ``"127.0.0.1"``.
    port : int
        UDP port; 0 for any free one.
    controllers
        Controllers of your own by which this end can send when a caller asks for them by name.
    max_rate : str, optional
        Highest target rate of what this end sends. Default: 2.5 Mbit/s.
    silence : str
        Time without any datagram of the far end after which a call ends.
    timeline : bool
        Whether to record calls over time.

    Returns
    -------
    Listener

    Raises
    ------
    ValueError
        An argument is invalid.
    OSError
        The address cannot be used.

    Examples
    --------
    >>> listener = giusto.listen("127.0.0.1", 0)
    >>> record = listener.serve()
    """
    return Listener._of(
        _giusto.Listener(
            _host(host),
            _port(port, 0),
            controllers=_classes(controllers),
            max_rate=max_rate,
            silence=silence,
            timeline=timeline,
        )
    )


def _host(host: str) -> str:
    """Return the host; raise a `ValueError` if a port is behind it."""
    if host.count(":") == 1:
        raise ValueError(f"host must have no port, found {host!r}: give it as port")
    return host


def _port(port: int, least: int) -> int:
    """Return the port; raise a `ValueError` unless it is from `least` to 65535."""
    if not least <= operator.index(port) <= 65535:
        raise ValueError(f"port must be from {least} to 65535, found {port}")
    return port
