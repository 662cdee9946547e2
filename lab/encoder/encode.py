#!/usr/bin/python3
"""A live video encoder for `giusto call --encoder-command`, by GStreamer.

It writes IVF (VP8) or a byte stream (H.264) to standard output, in real time, and reads lines on standard input:

    start           the session has begun: the video begins
    bitrate 640000  the new rate, in bit/s
    key-frame       the next frame is a key frame
    frame           with --on-demand: encode the next frame

Debian: python3-gst-1.0 gstreamer1.0-plugins-base gstreamer1.0-plugins-good (VP8), gstreamer1.0-plugins-ugly (x264).

    giusto call far.example --encoder-command 'lab/encoder/encode.py --input video.y4m'
"""

import argparse
import os
import signal
import struct
import sys
import threading

# The bindings of GStreamer are a package of the system, for the Python of the system, whatever else comes first in PATH.
try:
    import gi

    gi.require_version("Gst", "1.0")
    gi.require_version("GstVideo", "1.0")
    from gi.repository import GLib, Gst, GstVideo
except (ImportError, ValueError) as error:
    sys.exit(f"{sys.executable}: {error}: install python3-gst-1.0 and gstreamer1.0-plugins-good, or what your system calls them")

# The delimiter of an access unit (ITU-T H.264 §7.3.2.4), for any type of slice.
DELIMITER = b"\0\0\0\1\x09\xf0"
# Units of the IVF time base per second: those of RTP.
CLOCK = 90_000


def arguments():
    parser = argparse.ArgumentParser(description="Live video encoder for giusto call --encoder-command.")
    parser.add_argument("--codec", choices=["vp8", "h264"], default="vp8")
    parser.add_argument("--input", help="a Y4M file, which begins again at its end; default: a test picture")
    parser.add_argument("--once", action="store_true", help="end with the file")
    parser.add_argument(
        "--on-demand", action="store_true", help="one frame of --input for each line `frame`, not in real time, the same bytes each time"
    )
    parser.add_argument("--size", default="640x360", help="of the test picture [default: 640x360]")
    parser.add_argument("--fps", type=int, default=30, help="of the test picture [default: 30]")
    parser.add_argument("--key-interval", type=int, default=300, help="frames from one key frame to the next at most [default: 300]")
    args = parser.parse_args()
    if args.on_demand and not args.input:
        parser.error("--on-demand: name the frames with --input FILE")
    return args


class Y4m:
    """The frames of a Y4M file with 4:2:0 samples."""

    SAMPLES = ("C420", "C420jpeg", "C420mpeg2", "C420paldv")

    def __init__(self, path):
        self.file = open(path, "rb")
        words = self.file.readline(1000).decode("ascii", "replace").split()
        if not words or words[0] != "YUV4MPEG2":
            sys.exit(f"{path}: not a Y4M file: make one such as by `ffmpeg -i INPUT -pix_fmt yuv420p {path}`")
        found = {word[0]: word for word in words[1:]}
        if found.get("C", "C420") not in self.SAMPLES:
            sys.exit(f"{path}: samples {found['C']}: expected 4:2:0 with 8 bits (-pix_fmt yuv420p)")
        self.width, self.height = int(found["W"][1:]), int(found["H"][1:])
        self.rate, self.scale = (int(part) for part in found.get("F", "F30:1")[1:].split(":"))
        chroma = ((self.width + 1) // 2) * ((self.height + 1) // 2)
        self.size = self.width * self.height + 2 * chroma
        self.first = self.file.tell()

    def frame(self, once):
        for _ in range(2):
            head = self.file.readline(1000)
            if head.startswith(b"FRAME"):
                data = self.file.read(self.size)
                if len(data) == self.size:
                    return data
            if once:
                return None
            self.file.seek(self.first)
        return None


class Encoder:
    def __init__(self, args):
        self.args = args
        self.loop = GLib.MainLoop()
        self.status = 0
        self.first = None
        self.frames = 0
        self.video = Y4m(args.input) if args.input else None
        if self.video:
            self.width, self.height = self.video.width, self.video.height
            rate = f"{self.video.rate}/{self.video.scale}"
            source = "appsrc name=source is-live=true format=time do-timestamp=false block=true max-buffers=1"
            if not args.on_demand:
                source += " ! identity sync=true"
        else:
            self.width, self.height = (int(part) for part in args.size.split("x"))
            rate = f"{args.fps}/1"
            source = "videotestsrc is-live=true pattern=zone-plate kx2=20 ky2=20 kt=2"
        # In real time the speed of VP8 follows the machine, and threads divide the frames of H.264.
        speed, threads = (-8, 1) if args.on_demand else (8, 0)
        caps = f"video/x-raw,format=I420,width={self.width},height={self.height},framerate={rate}"
        if args.codec == "vp8":
            coder = (
                f"vp8enc name=coder deadline=1 cpu-used={speed} threads=1 end-usage=cbr lag-in-frames=0 error-resilient=default "
                f"keyframe-max-dist={args.key_interval} buffer-size=600 buffer-initial-size=400 buffer-optimal-size=500 "
                f"undershoot=100 overshoot=15 min-quantizer=4 max-quantizer=56"
            )
        else:
            coder = (
                f"x264enc name=coder tune=zerolatency speed-preset=veryfast threads={threads} bframes=0 aud=false key-int-max={args.key_interval} "
                f"byte-stream=true vbv-buf-capacity=400 ! video/x-h264,stream-format=byte-stream,alignment=au,profile=constrained-baseline"
            )
        self.pipeline = Gst.parse_launch(
            f"{source} ! {caps} ! {coder} ! appsink name=sink sync=false max-buffers=2 emit-signals=true"
        )
        self.coder = self.pipeline.get_by_name("coder")
        self.pipeline.get_by_name("sink").connect("new-sample", self.on_sample)
        bus = self.pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message", self.on_message)
        self.caps = Gst.Caps.from_string(caps)

    def write(self, data):
        while data:
            data = data[os.write(1, data):]

    def begin(self):
        """Writes the bytes by which the reader recognises the codec, before there is any frame."""
        if self.args.codec == "vp8":
            self.write(struct.pack("<4sHH4sHHIIII", b"DKIF", 0, 32, b"VP80", self.width, self.height, CLOCK, 1, 0, 0))
        else:
            self.write(DELIMITER)

    def on_sample(self, sink):
        buffer = sink.emit("pull-sample").get_buffer()
        data = buffer.extract_dup(0, buffer.get_size())
        if self.first is None:
            self.first = buffer.pts
        try:
            if self.args.codec == "vp8":
                ticks = ((buffer.pts - self.first) * CLOCK + Gst.SECOND // 2) // Gst.SECOND
                self.write(struct.pack("<IQ", len(data), ticks) + data)
            else:
                # A delimiter after the frame: it is complete at once.
                self.write(data + DELIMITER)
        except OSError:
            GLib.idle_add(self.loop.quit)
            return Gst.FlowReturn.EOS
        return Gst.FlowReturn.OK

    def feed(self):
        """Passes the frames of the file to the pipeline, which takes each at its time."""
        while self.feed_one():
            pass

    def feed_one(self):
        """Passes the next frame of the file to the pipeline. Returns whether it was taken."""
        source = self.pipeline.get_by_name("source")
        data = self.video.frame(self.args.once)
        if data is None:
            source.emit("end-of-stream")
            return False
        buffer = Gst.Buffer.new_wrapped(data)
        buffer.pts = self.frames * Gst.SECOND * self.video.scale // self.video.rate
        buffer.duration = Gst.SECOND * self.video.scale // self.video.rate
        self.frames += 1
        return source.emit("push-buffer", buffer) == Gst.FlowReturn.OK

    def on_message(self, _, message):
        if message.type == Gst.MessageType.EOS:
            self.loop.quit()
        elif message.type == Gst.MessageType.ERROR:
            print(message.parse_error().gerror.message, file=sys.stderr, flush=True)
            self.status = 1
            self.loop.quit()

    def on_line(self, line):
        words = line.split()
        if words[:1] == ["start"]:
            if self.video:
                self.pipeline.get_by_name("source").set_property("caps", self.caps)
            self.pipeline.set_state(Gst.State.PLAYING)
            if self.video and not self.args.on_demand:
                threading.Thread(target=self.feed, daemon=True).start()
        elif words[:1] == ["bitrate"] and len(words) == 2 and words[1].isdigit():
            rate = int(words[1])
            if self.args.codec == "vp8":
                self.coder.set_property("target-bitrate", rate)
            else:
                self.coder.set_property("bitrate", max(1, rate // 1000))
        elif words[:1] == ["frame"] and self.args.on_demand:
            self.feed_one()
        elif words[:1] == ["key-frame"]:
            event = GstVideo.video_event_new_upstream_force_key_unit(Gst.CLOCK_TIME_NONE, True, 0)
            self.coder.get_static_pad("src").send_event(event)
        return False

    def read_lines(self):
        for line in sys.stdin:
            GLib.idle_add(self.on_line, line)
        GLib.idle_add(self.loop.quit)

    def run(self):
        self.begin()
        threading.Thread(target=self.read_lines, daemon=True).start()
        self.loop.run()
        self.pipeline.set_state(Gst.State.NULL)
        return self.status


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    arguments_ = arguments()
    Gst.init(None)
    sys.stdout.flush()
    os._exit(Encoder(arguments_).run())
