"""One end of a call: a headless Chromium with a fake camera, driven by WebDriver."""

import argparse
import functools
import http.server
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

HERE = pathlib.Path(__file__).resolve().parent
# Modes of Chromium, and its switches for them.
FIELD_TRIALS = {
    "gcc": "",
    # Without EncoderBitrateAdjuster, which gives the encoder less than its share while frame sizes vary.
    "gcc-whole": "WebRTC-VideoRateControl/bitrate_adjuster:false/",
    # And without parity.
    "gcc-no-fec": "WebRTC-VideoRateControl/bitrate_adjuster:false/",
    "rfc8888": "WebRTC-RFC8888CongestionControlFeedback/Enabled,offer:true/",
    "scream": "WebRTC-RFC8888CongestionControlFeedback/Enabled,offer:true/WebRTC-Bwe-ScreamV2/mode:always/",
}
# Modes in which nothing but VP8 and its retransmission is offered.
WITHOUT_FEC = ("gcc-no-fec",)
STATS_PERIOD_MS = 100
# Figures of getStats that are written; the rest are names, constants, or of no use here.
KEPT = {
    "outbound-rtp": (
        "targetBitrate bytesSent headerBytesSent packetsSent retransmittedBytesSent retransmittedPacketsSent "
        "framesEncoded framesSent framesPerSecond frameWidth frameHeight keyFramesEncoded totalEncodeTime "
        "totalPacketSendDelay hugeFramesSent qualityLimitationReason qualityLimitationDurations nackCount pliCount "
        "qpSum encoderImplementation"
    ),
    "remote-inbound-rtp": "packetsLost fractionLost roundTripTime jitter",
    "candidate-pair": (
        "availableOutgoingBitrate currentRoundTripTime bytesSent bytesReceived packetsSent packetsReceived"
    ),
    "transport": "ccfbMessagesReceived ccfbMessagesSent bytesSent bytesReceived packetsSent packetsReceived",
    "inbound-rtp": (
        "bytesReceived headerBytesReceived packetsReceived packetsLost packetsDiscarded retransmittedBytesReceived "
        "retransmittedPacketsReceived framesReceived framesDecoded framesDropped framesPerSecond frameWidth "
        "frameHeight keyFramesDecoded freezeCount totalFreezesDuration pauseCount totalPausesDuration "
        "jitterBufferDelay jitterBufferEmittedCount totalDecodeTime totalInterFrameDelay nackCount pliCount jitter"
    ),
}
# Counters that belong to RFC 8888, wherever this Chromium puts them.
KEPT_WORDS = ("ccfb", "WithCe", "WithEct1", "ReportedAsLost", "BleachedEct1")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves the page without a line for each request."""

    def log_message(self, *_):
        pass


class Peer:
    """A Chromium that shows call.html."""

    def __init__(self, mode, camera=None):
        # `giusto link` ends its programs so; without this the browser would go on.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        handler = functools.partial(QuietHandler, directory=str(HERE))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.profile = tempfile.mkdtemp(prefix="giusto-chromium-")
        self.driver = None
        try:
            self.driver = webdriver.Chrome(options=self._options(mode, camera), service=service())
            self.driver.set_script_timeout(30)
            self.driver.get(f"http://127.0.0.1:{self.server.server_port}/call.html")
        except BaseException:
            self.close()
            raise

    def _options(self, mode, camera):
        options = Options()
        options.binary_location = program("chromium")
        flags = [
            "headless=new",
            "no-sandbox",
            "disable-gpu",
            "disable-dev-shm-usage",
            "use-fake-ui-for-media-stream",
            "use-fake-device-for-media-stream=fps=20",
            "autoplay-policy=no-user-gesture-required",
            # The link carries the call alone: no updates, no look-ups of names.
            "disable-background-networking",
            "disable-component-update",
            "disable-sync",
            "no-first-run",
            "host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            # A hidden page must not be slowed down.
            "disable-background-timer-throttling",
            "disable-backgrounding-occluded-windows",
            "disable-renderer-backgrounding",
            f"user-data-dir={self.profile}",
        ]
        if FIELD_TRIALS[mode]:
            flags.append(f"force-fieldtrials={FIELD_TRIALS[mode]}")
        if camera:
            flags.append(f"use-file-for-fake-video-capture={camera}")
        for flag in flags:
            options.add_argument(f"--{flag}")
        return options

    def call(self, function, *values):
        """The result of an asynchronous function of the page."""
        script = (
            "const values = [...arguments]; const done = values.pop();"
            f"Promise.resolve({function}(...values)).then((value) => done([value]), (error) => done(String(error)));"
        )
        result = self.driver.execute_async_script(script, *values)
        if not isinstance(result, list):
            sys.exit(f"{function} in Chromium: {result}")
        return result[0]

    def record(self, path, link_start_unix_s, until_s):
        """Writes getStats as JSON lines until this second of link time, and ends the call."""
        self.call("observe", STATS_PERIOD_MS)
        with open(path, "w", encoding="utf-8") as file:
            while True:
                rest_s = until_s - (time.time() - link_start_unix_s)
                time.sleep(max(0.0, min(1.0, rest_s)))
                for sample in self.call("take"):
                    file.write(json.dumps(line(sample, link_start_unix_s)) + "\n")
                if rest_s <= 0:
                    break
        self.call("hangUp")

    def close(self):
        """Ends the browser."""
        if self.driver:
            self.driver.quit()
        self.server.shutdown()
        shutil.rmtree(self.profile, ignore_errors=True)


def program(name):
    """The path of a program, or an end with a message."""
    path = shutil.which(name)
    if not path:
        sys.exit(f"{name}: not found: install it (Debian: chromium, chromium-driver)")
    return path


def service():
    """ChromeDriver of the system: selenium would download one."""
    return Service(program("chromedriver"))


def line(sample, link_start_unix_s):
    """A sample with what is kept of its figures, by link time. The figures of several streams are apart."""
    out = {"t_s": round(sample["unix_ms"] / 1000 - link_start_unix_s, 4), "state": sample["state"]}
    codecs = {entry["id"]: entry.get("mimeType") for entry in sample["stats"] if entry["type"] == "codec"}
    for entry in sample["stats"]:
        kept = KEPT.get(entry["type"])
        if kept is None:
            continue
        wanted = set(kept.split())
        figures = {
            key: value for key, value in entry.items() if key in wanted or any(word in key for word in KEPT_WORDS)
        }
        if "codecId" in entry:
            figures["codec"] = codecs.get(entry["codecId"])
        kind = f"{entry['type']}:{entry['kind']}" if "kind" in entry else entry["type"]
        out[kind] = figures
    return out


def process_start_unix_s():
    """When this process started, which is when `giusto link` started its clock, to 10 ms."""
    with open("/proc/self/stat", encoding="ascii") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age_s


def put(path, text):
    """Writes a file that appears whole."""
    temporary = path.with_suffix(".part")
    temporary.write_text(text, encoding="utf-8")
    temporary.rename(path)


def wait_for(path, seconds):
    """The content of a file as soon as it exists."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists():
            return path.read_text(encoding="utf-8")
        time.sleep(0.01)
    sys.exit(f"{path}: did not appear within {seconds:.0f} s: look at the messages of the other end")


def arguments(description):
    """The arguments that both ends have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("dir", type=pathlib.Path, help="directory that both ends share; getStats goes there")
    parser.add_argument("--mode", choices=FIELD_TRIALS, default="gcc", help="congestion control [default: gcc]")
    parser.add_argument(
        "--start",
        type=float,
        help="start of the call, in seconds of link time [default: as soon as both browsers are ready]",
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the call [default: 60]")
    parser.add_argument("--max-rate", type=int, help="of the encoder, in bit/s [default: Chromium's, 1.7 Mbit/s]")
    parser.add_argument("--camera", help="film for the fake camera, Y4M [default: Chromium's own pictures]")
    return parser.parse_args()


def address(name):
    """An address that `giusto link` puts into the environment."""
    value = os.environ.get(name)
    if not value:
        sys.exit(f"{name}: not set: start this program by `giusto link`")
    return value
