#!/usr/bin/python3
"""One-way video with congestion control by giustobwe: H.264 over RTP with transport-wide feedback.

    call.py receive 127.0.0.1:6000
    call.py send 127.0.0.1:6000 --control "giustobwe controller=tempo"

Both ends use one UDP socket each: RTP there, RTCP back. Needs python3-gst-1.0, GStreamer's good and ugly plugins, and GST_PLUGIN_PATH with
the folder of libgstgiusto.so. With --control rtpgccbwe the same pipeline runs with the element of gst-plugins-rs.
"""

import argparse
import json
import signal

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstNet", "1.0")
gi.require_version("GstRtp", "1.0")
from gi.repository import Gio, GLib, Gst, GstNet, GstRtp  # noqa: E402

EXTENSION = "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01"
EXTENSION_ID = 1
ENCODER = (
    "x264enc name=encoder tune=zerolatency speed-preset=ultrafast key-int-max=600 vbv-buf-capacity=100 threads=1 ! "
    "rtph264pay name=payloader pt=96 mtu=1200 aggregate-mode=zero-latency config-interval=-1"
)
# Of the estimate, the RTP headers take 20 B of 1200, and an encoder exceeds its rate now and then.
ENCODER_SHARE = 0.95


def udp_socket(address):
    """A socket bound to this (host, port)."""
    socket = Gio.Socket.new(Gio.SocketFamily.IPV4, Gio.SocketType.DATAGRAM, Gio.SocketProtocol.UDP)
    socket.bind(Gio.InetSocketAddress.new_from_string(*address), False)
    return socket


def seconds():
    """The time of the monotonic clock, which both ends share on one machine."""
    return GLib.get_monotonic_time() / 1e6


def buffers(info):
    """The buffers of a pad probe."""
    if info.type & Gst.PadProbeType.BUFFER_LIST:
        packets = info.get_buffer_list()
        return [packets.get(place) for place in range(packets.length())]
    return [info.get_buffer()]


def on_packets(pad, handle):
    """Calls `handle` with RTP timestamp and size of each packet that passes."""

    def probe(_pad, info):
        for buffer in buffers(info):
            ok, packet = GstRtp.RTPBuffer.map(buffer, Gst.MapFlags.READ)
            if ok:
                handle(packet.get_timestamp(), buffer.get_size())
                packet.unmap()
        return Gst.PadProbeReturn.OK

    pad.add_probe(Gst.PadProbeType.BUFFER | Gst.PadProbeType.BUFFER_LIST, probe)


class Frames:
    """First and last packet of each frame: RTP timestamp -> [first, last, packets, bytes]."""

    def __init__(self, pad):
        self.seen = {}
        on_packets(pad, self.add)

    def add(self, timestamp, size):
        now = seconds()
        frame = self.seen.setdefault(timestamp, [now, now, 0, 0])
        frame[1], frame[2], frame[3] = now, frame[2] + 1, frame[3] + size


def sender(options):
    """Builds the sending pipeline. Returns it with a function that gives its figures."""
    pipeline = Gst.parse_launch(
        f"rtpbin name=bin rtp-profile=avpf "
        f"videotestsrc is-live=true pattern={options.pattern} ! "
        f"video/x-raw,width={options.width},height={options.height},framerate=30/1 ! "
        f"{ENCODER} ! {options.control} name=control ! bin.send_rtp_sink_0 "
        "bin.send_rtp_src_0 ! udpsink name=rtp host=127.0.0.1 sync=false async=false "
        'udpsrc name=rtcp caps="application/x-rtcp" ! bin.recv_rtcp_sink_0'
    )
    socket = udp_socket(("0.0.0.0", 0))
    rtp, rtcp = pipeline.get_by_name("rtp"), pipeline.get_by_name("rtcp")
    rtp.set_property("socket", socket)
    rtp.set_property("host", options.address[0])
    rtp.set_property("port", options.address[1])
    rtcp.set_property("socket", socket)
    for udp in (rtp, rtcp):
        udp.set_property("close-socket", False)

    # The header extension with the transport-wide sequence number.
    payload = pipeline.get_by_name("payloader")
    extension = GstRtp.RTPHeaderExtension.create_from_uri(EXTENSION)
    extension.set_id(EXTENSION_ID)
    payload.emit("add-extension", extension)

    control, encode = pipeline.get_by_name("control"), pipeline.get_by_name("encoder")
    control.set_property("estimated-bitrate", options.start)
    control.set_property("min-bitrate", options.min)
    control.set_property("max-bitrate", options.max)
    estimates = []

    def follow(element, _property):
        estimate = element.get_property("estimated-bitrate")
        estimates.append((seconds(), estimate))
        encode.set_property("bitrate", max(int(ENCODER_SHARE * estimate) // 1000, 50))

    control.connect("notify::estimated-bitrate", follow)
    follow(control, None)
    frames = Frames(payload.get_static_pad("src"))

    statistics = []

    def look():
        stats = control.get_property("stats")
        names = [stats.nth_field_name(place) for place in range(stats.n_fields())]
        statistics.append({"time": seconds(), **{name: stats.get_value(name) for name in names}})
        return True

    if control.find_property("stats"):
        GLib.timeout_add(100, look)

    def figures():
        return {"estimates": estimates, "frames": frames.seen, "stats": statistics}

    return pipeline, figures


def receiver(options):
    """Builds the receiving pipeline. Returns it with a function that gives its figures."""
    caps = (
        "application/x-rtp,media=video,clock-rate=90000,payload=96,"
        f"encoding-name=H264,rtcp-fb-transport-cc=true,"
        f'extmap-{EXTENSION_ID}="{EXTENSION}"'
    )
    pipeline = Gst.parse_launch(
        "rtpbin name=bin rtp-profile=avpf latency=0 "
        f"udpsrc name=rtp caps=\"{caps.replace(chr(34), chr(92) + chr(34))}\" ! bin.recv_rtp_sink_0 "
        "bin.send_rtcp_src_0 ! udpsink name=rtcp host=127.0.0.1 sync=false async=false"
    )
    socket = udp_socket(options.address)
    rtp, rtcp = pipeline.get_by_name("rtp"), pipeline.get_by_name("rtcp")
    for udp in (rtp, rtcp):
        udp.set_property("socket", socket)
        udp.set_property("close-socket", False)

    def answer(_pad, info):
        # Feedback goes to where the packets come from.
        meta = GstNet.buffer_get_net_address_meta(info.get_buffer())
        rtcp.set_property("host", meta.addr.get_address().to_string())
        rtcp.set_property("port", meta.addr.get_port())
        return Gst.PadProbeReturn.REMOVE

    def show(_bin, pad):
        # A viewer would have depayloader, decoder and a video sink here.
        if pad.get_name().startswith("recv_rtp_src_"):
            sink = Gst.ElementFactory.make("fakesink")
            sink.set_property("sync", False)
            pipeline.add(sink)
            sink.sync_state_with_parent()
            pad.link(sink.get_static_pad("sink"))

    pipeline.get_by_name("bin").connect("pad-added", show)
    pad = rtp.get_static_pad("src")
    pad.add_probe(Gst.PadProbeType.BUFFER, answer)
    frames = Frames(pad)
    return pipeline, lambda: {"frames": frames.seen}


def run(pipeline, duration):
    """Plays until the duration, the end or a signal. Raises the error of a pipeline that fails."""
    loop, failures = GLib.MainLoop(), []

    def on_message(_bus, message):
        if message.type == Gst.MessageType.ERROR:
            failures.append(message.parse_error()[0].message)
        if message.type in (Gst.MessageType.ERROR, Gst.MessageType.EOS):
            loop.quit()

    pipeline.get_bus().add_signal_watch()
    pipeline.get_bus().connect("message", on_message)
    for number in (signal.SIGINT, signal.SIGTERM):
        GLib.unix_signal_add(GLib.PRIORITY_HIGH, number, loop.quit)
    if duration:
        GLib.timeout_add(int(duration * 1000), loop.quit)
    pipeline.set_state(Gst.State.PLAYING)
    loop.run()
    return failures


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=["send", "receive"])
    parser.add_argument("address", type=address, help="HOST:PORT to send to, or to listen at")
    parser.add_argument("--control", default="giustobwe", help="element that controls the rate, with its properties")
    parser.add_argument("--pattern", default="snow", help="of videotestsrc; snow fills any rate")
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--height", type=int, default=240)
    parser.add_argument("--start", type=int, default=500_000, help="first estimate in bit/s")
    parser.add_argument("--min", type=int, default=100_000)
    parser.add_argument("--max", type=int, default=6_000_000)
    parser.add_argument("--duration", type=float, help="in seconds")
    parser.add_argument("--out", help="write the figures to this JSON file")
    options = parser.parse_args()

    Gst.init(None)
    begin = seconds()
    pipeline, figures = (sender if options.role == "send" else receiver)(options)
    failures = run(pipeline, options.duration)
    result = figures()
    pipeline.set_state(Gst.State.NULL)
    if options.out:
        with open(options.out, "w") as file:
            json.dump({"begin": begin, **result}, file)
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
