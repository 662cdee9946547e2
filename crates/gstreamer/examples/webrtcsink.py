#!/usr/bin/python3
"""One-way video from webrtcsink to webrtcsrc, with giustobwe under the name rtpgccbwe, which webrtcsink creates.

    webrtcsink.py send 127.0.0.1:8443
    webrtcsink.py receive 127.0.0.1:8443

The address is that of the signalling server, which the sender runs. Needs python3-gst-1.0, GStreamer's good, bad and ugly plugins and
gstreamer1.0-nice; and in GST_PLUGIN_PATH libgstrswebrtc.so (crate gst-plugin-webrtc) and libgstgiusto.so, built with --features rtpgccbwe.
"""

import argparse
import json

import gi

gi.require_version("Gst", "1.0")
from gi.repository import GLib, Gst  # noqa: E402

from call import buffers, run, seconds  # noqa: E402


def send(options, found):
    host, port = options.address.rsplit(":", 1)
    pipeline = Gst.parse_launch(
        "videotestsrc is-live=true pattern=snow ! video/x-raw,width=320,height=240,framerate=30/1 ! "
        "webrtcsink name=sink congestion-control=gcc run-signalling-server=true video-caps=video/x-h264 "
        f"signalling-server-host={host} signalling-server-port={port} signaller::uri=ws://{options.address} "
        f"min-bitrate=100000 start-bitrate={options.start} max-bitrate={options.max}"
    )
    sink = pipeline.get_by_name("sink")
    sink.set_property("stun-server", None)
    controls = []
    found.update(estimates=[])

    def look():
        for control in controls:
            found["estimates"].append((seconds(), control.get_property("estimated-bitrate")))
        return True

    def added(_sink, _peer, webrtcbin):
        def inner(_bin, _sub, element):
            if element.get_factory() and element.get_factory().get_name() in ("rtpgccbwe", "giustobwe"):
                controls.append(element)

        webrtcbin.connect("deep-element-added", inner)

    sink.connect("consumer-added", added)
    GLib.timeout_add(100, look)
    return pipeline


def receive(options, found):
    pipeline, source = Gst.Pipeline(), Gst.ElementFactory.make("webrtcsrc")
    pipeline.add(source)
    source.get_property("signaller").set_property("uri", f"ws://{options.address}")
    source.set_property("connect-to-first-producer", True)
    source.set_property("stun-server", None)
    found.update(packets=[])

    def on_packet(_pad, info):
        for buffer in buffers(info):
            found["packets"].append((seconds(), buffer.get_size()))
        return Gst.PadProbeReturn.OK

    def inner(_bin, _sub, element):
        if element.get_factory() and element.get_factory().get_name() == "rtpjitterbuffer":
            pad = element.get_static_pad("sink")
            pad.add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.BUFFER_LIST, on_packet)

    def show(_source, pad):
        sink = Gst.ElementFactory.make("fakesink")
        pipeline.add(sink)
        sink.sync_state_with_parent()
        pad.link(sink.get_static_pad("sink"))

    source.connect("deep-element-added", inner)
    source.connect("pad-added", show)
    return pipeline


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=["send", "receive"])
    parser.add_argument("address")
    parser.add_argument("--start", type=int, default=1_000_000)
    parser.add_argument("--max", type=int, default=4_000_000)
    parser.add_argument("--duration", type=float, default=30)
    parser.add_argument("--out", help="write the figures to this JSON file")
    options = parser.parse_args()
    Gst.init(None)
    found = {}
    pipeline = (send if options.role == "send" else receive)(options, found)
    found["begin"] = seconds()
    failures = run(pipeline, options.duration)
    if options.out:
        with open(options.out, "w") as file:
            json.dump(found, file)
    pipeline.set_state(Gst.State.NULL)
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
