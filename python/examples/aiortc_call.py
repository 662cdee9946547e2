"""A video call with aiortc, in which a controller of giusto sets the rate of the encoder.

    pip install aiortc
    python aiortc_call.py --limit 600000

Both ends are in this process: ICE, DTLS, SRTP and VP8 are real, the path is loopback. `--limit` puts a bottleneck with a queue of
300 ms in front of the sender's socket. aiortc's receiver sends REMB and receiver reports, so the controller is ``gcc:remb``.

`attach` works with any sender of aiortc, also with a browser at the far end. It uses names of aiortc that are not public, since aiortc has
no interface for congestion control; it was written for aiortc 1.16.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCRtpSender, VideoStreamTrack
from aiortc.clock import current_ntp_time
from aiortc.contrib.media import MediaBlackhole
from aiortc.rtp import is_rtcp
from av import VideoFrame

import giusto

# IPv4, UDP and the tag of SRTP, which the network carries besides RTP.
OVERHEAD_BYTES = 20 + 8 + 10
Send = Callable[[bytes], Awaitable[None]]


class Tiles(VideoStreamTrack):
    """Tiles that change their colour ten times a second: video that has something to encode, with key frames of some kB."""

    async def recv(self) -> VideoFrame:
        """Return the next frame, at its time."""
        pts, time_base = await self.next_timestamp()
        random = numpy.random.default_rng(pts // 9000)
        coarse = random.integers(0, 255, (15, 20, 3), dtype=numpy.uint8)
        frame = VideoFrame.from_ndarray(coarse.repeat(16, axis=0).repeat(16, axis=1), format="rgb24")
        frame.pts, frame.time_base = pts, time_base
        return frame


class Counted(MediaStreamTrack):
    """A track that counts its frames."""

    kind = "video"

    def __init__(self, track: MediaStreamTrack) -> None:
        super().__init__()
        self.track, self.frames = track, 0

    async def recv(self) -> Any:
        """Return the next frame."""
        frame = await self.track.recv()
        self.frames += 1
        return frame


class Bottleneck:
    """A link of constant rate with a drop-tail queue, in front of a socket."""

    def __init__(self, send: Send, rate_bps: float, queue_s: float = 0.3) -> None:
        self.send, self.rate_bps, self.queue_s = send, rate_bps, queue_s
        self.free_at = 0.0
        self.dropped = 0
        self.under_way: set[asyncio.Task[None]] = set()

    async def __call__(self, data: bytes) -> None:
        """Send a datagram once those before it have left; drop it if the queue is full."""
        now = time.monotonic()
        self.free_at = max(self.free_at, now)
        if self.free_at - now > self.queue_s:
            self.dropped += 1
            return
        self.free_at += (len(data) + OVERHEAD_BYTES) * 8 / self.rate_bps
        task = asyncio.ensure_future(self.later(data, self.free_at))
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    async def later(self, data: bytes, at: float) -> None:
        """Send a datagram at a time."""
        await asyncio.sleep(at - time.monotonic())
        try:
            await self.send(data)
        except ConnectionError:
            pass  # The call is over.


def attach(sender: RTCRtpSender, control: giusto.RateControl, began: float) -> list[tuple[float, float]]:
    """Let `control` set the rate of a sender of aiortc. Its time 0 is `began`, of `time.monotonic`.

    Returns the targets as they come: time in s, bit/s.
    """
    transport: Any = sender.transport
    send, handle = transport._send_rtp, transport._handle_rtcp_data
    targets: list[tuple[float, float]] = []

    def apply(now_s: float) -> None:
        target_bps = control.target.media_bps
        encoder = getattr(sender, "_RTCRtpSender__encoder", None)
        if encoder is not None and hasattr(encoder, "target_bitrate"):
            encoder.target_bitrate = round(target_bps)
        if not targets or targets[-1][1] != target_bps:
            targets.append((now_s, target_bps))

    async def sent(data: bytes) -> None:
        await send(data)
        if not is_rtcp(data):
            ssrc, sequence = int.from_bytes(data[8:12], "big"), int.from_bytes(data[2:4], "big")
            control.on_sent(time.monotonic() - began, len(data) + OVERHEAD_BYTES, ssrc=ssrc, sequence=sequence)

    async def received(data: bytes) -> None:
        await handle(data)
        now_s = time.monotonic() - began
        control.on_rtcp(now_s, data)
        # After aiortc's own handler, which sets the encoder to the REMB.
        apply(now_s)

    async def timer() -> None:
        while transport.state != "closed":
            now_s = time.monotonic() - began
            due_s = control.next_timeout()
            if due_s is None or due_s > now_s:
                await asyncio.sleep(0.1 if due_s is None else min(due_s - now_s, 0.1))
                continue
            control.on_timeout(now_s)
            apply(now_s)

    transport._send_rtp, transport._handle_rtcp_data = sent, received
    transport._giusto_timer = asyncio.ensure_future(timer())
    return targets


async def call(duration_s: float, limit_bps: float | None, controller: str = "gcc:remb") -> dict[str, Any]:
    """Make a call and return what was seen of it."""
    began = time.monotonic()
    control = giusto.RateControl(
        controller, min_bps=250_000, start_bps=500_000, max_bps=1_500_000, ntp_at_zero=current_ntp_time()
    )
    caller, callee = RTCPeerConnection(), RTCPeerConnection()
    seen: list[Counted] = []
    sink = MediaBlackhole()

    @callee.on("track")
    def on_track(track: MediaStreamTrack) -> None:
        seen.append(Counted(track))
        sink.addTrack(seen[0])

    sender = caller.addTrack(Tiles())
    await caller.setLocalDescription(await caller.createOffer())
    await callee.setRemoteDescription(caller.localDescription)
    await callee.setLocalDescription(await callee.createAnswer())
    bottleneck = None
    if limit_bps is not None:
        transport: Any = sender.transport
        bottleneck = Bottleneck(transport._send_rtp, limit_bps)
        transport._send_rtp = bottleneck
    targets = attach(sender, control, began)
    await caller.setRemoteDescription(callee.localDescription)
    await sink.start()
    await asyncio.sleep(duration_s)
    result = {
        "frames": seen[0].frames if seen else 0,
        "targets": list(targets),
        "decision": control.decision,
        "encoder_bps": getattr(sender, "_RTCRtpSender__encoder").target_bitrate,
        "dropped": bottleneck.dropped if bottleneck else 0,
    }
    await asyncio.gather(caller.close(), callee.close(), sink.stop())
    return result


def main() -> None:
    """Make a call and print its targets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration", type=float, default=20, help="s (default 20)")
    parser.add_argument("--limit", type=float, default=None, help="rate of a bottleneck, bit/s (default: none)")
    given = parser.parse_args()
    result = asyncio.run(call(given.duration, given.limit))
    for at_s, target_bps in result["targets"]:
        print(f"{at_s:6.2f} s  {target_bps / 1e3:7.0f} kbit/s")
    print(f"{result['frames']} frames arrived, {result['dropped']} packets were dropped; the last decision: {result['decision']}")


if __name__ == "__main__":
    main()
