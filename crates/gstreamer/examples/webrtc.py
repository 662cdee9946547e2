#!/usr/bin/python3
"""Two webrtcbins in one process, the sender's with giustobwe as its auxiliary sender: H.264 to the other one over loopback.

Needs what call.py needs, and gstreamer1.0-plugins-bad and gstreamer1.0-nice.
"""

import argparse
import json

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtp", "1.0")
gi.require_version("GstSdp", "1.0")
gi.require_version("GstWebRTC", "1.0")
from gi.repository import GLib, Gst, GstRtp, GstSdp, GstWebRTC  # noqa: E402

from call import ENCODER, ENCODER_SHARE, EXTENSION, EXTENSION_ID, run  # noqa: E402

CAPS = (
    "application/x-rtp,media=video,encoding-name=H264,payload=96,clock-rate=90000,packetization-mode=(string)1,"
    f'rtcp-fb-transport-cc=true,extmap-{EXTENSION_ID}="{EXTENSION}"'
)


def negotiate(sender, receiver):
    """Offer and answer, and candidates as they come."""

    def described(promise, kind, first, second, then):
        reply = promise.get_reply()
        description = reply.get_value(kind)
        first.emit("set-local-description", description, None)
        second.emit("set-remote-description", description, None)
        then()

    def answer():
        promise = Gst.Promise.new_with_change_func(
            lambda promise: described(promise, "answer", receiver, sender, lambda: None)
        )
        receiver.emit("create-answer", None, promise)

    def offer(_element):
        promise = Gst.Promise.new_with_change_func(lambda promise: described(promise, "offer", sender, receiver, answer))
        sender.emit("create-offer", None, promise)

    for one, other in ((sender, receiver), (receiver, sender)):
        one.connect("on-ice-candidate", lambda _one, line, text, other=other: other.emit("add-ice-candidate", line, text))
    sender.connect("on-negotiation-needed", offer)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--control", default="giustobwe", help="element that controls the rate, with its properties")
    parser.add_argument("--start", type=int, default=500_000)
    parser.add_argument("--max", type=int, default=2_000_000)
    parser.add_argument("--duration", type=float, default=10)
    parser.add_argument("--out", help="write the figures to this JSON file")
    options = parser.parse_args()
    Gst.init(None)
    pipeline = Gst.parse_launch(
        "webrtcbin name=sender bundle-policy=max-bundle webrtcbin name=receiver bundle-policy=max-bundle "
        "videotestsrc is-live=true pattern=snow ! video/x-raw,width=320,height=240,framerate=30/1 ! "
        f"{ENCODER} ! capsfilter name=caps ! sender."
    )
    get = pipeline.get_by_name
    get("caps").set_property("caps", Gst.Caps.from_string(CAPS))
    extension = GstRtp.RTPHeaderExtension.create_from_uri(EXTENSION)
    extension.set_id(EXTENSION_ID)
    get("payloader").emit("add-extension", extension)

    name, *properties = options.control.split()
    control = Gst.ElementFactory.make(name)
    for line in properties:
        Gst.util_set_object_arg(control, *line.split("=", 1))
    control.set_property("estimated-bitrate", options.start)
    control.set_property("max-bitrate", options.max)
    estimates = []

    def follow(element, _property):
        estimate = element.get_property("estimated-bitrate")
        estimates.append(estimate)
        get("encoder").set_property("bitrate", max(int(ENCODER_SHARE * estimate) // 1000, 50))

    control.connect("notify::estimated-bitrate", follow)
    follow(control, None)
    # Here giustobwe takes the place of rtpgccbwe.
    get("sender").connect("request-aux-sender", lambda _element, _transport: control)

    received = []

    def show(_element, pad):
        sink = Gst.ElementFactory.make("fakesink")
        sink.set_property("sync", False)
        pipeline.add(sink)
        sink.sync_state_with_parent()
        pad.link(sink.get_static_pad("sink"))
        pad.add_probe(Gst.PadProbeType.BUFFER, count)

    def count(_pad, info):
        received.append(info.get_buffer().get_size())
        return Gst.PadProbeReturn.OK

    get("receiver").connect("pad-added", show)
    get("receiver").connect(
        "on-new-transceiver",
        lambda _element, transceiver: transceiver.set_property("codec-preferences", Gst.Caps.from_string(CAPS)),
    )
    negotiate(get("sender"), get("receiver"))
    stats = {}

    def look():
        found = control.get_property("stats")
        names = [found.nth_field_name(place) for place in range(found.n_fields())]
        stats.update({name: found.get_value(name) for name in names})
        return True

    if control.find_property("stats"):
        GLib.timeout_add(100, look)
    failures = run(pipeline, options.duration)
    pipeline.set_state(Gst.State.NULL)
    if options.out:
        with open(options.out, "w") as file:
            json.dump({"estimates": estimates, "stats": stats, "received_bytes": sum(received)}, file)
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
