"""Run a bandwidth estimator that was written for AlphaRTC as a controller of giusto.

    python alphartc_estimator.py BandwidthEstimator.py

AlphaRTC (https://github.com/OpenNetLab/AlphaRTC) imports a class ``Estimator`` from a file ``BandwidthEstimator.py``. Its receiver calls
``report_states(stats)`` for each packet that arrives and ``get_estimated_bandwidth()`` every 200 ms, and tells the sender the result. The
estimators of the bandwidth estimation challenge at ACM MMSys 2021 are written so, for example those of
https://github.com/OpenNetLab/gym and https://github.com/thegreatwb/HRCC.

Here the sender calls them, with the arrival times of transport-wide feedback. So an estimate is in effect half a round trip earlier than
in AlphaRTC, and the packets of a feedback message come together.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import giusto
from giusto.gym import EstimatorController


def estimator(path: Path, name: str = "Estimator") -> type:
    """Return the class `name` of a file; it looks for its modules in the folder of the file."""
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file: name the file that has the class {name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    made: type = getattr(module, name)
    return made


def scenario(judged: str | type[giusto.Controller]) -> giusto.Scenario:
    """Return a call over a link whose rate falls and recovers."""
    rate = giusto.rate_steps([0, 20, 40], [2e6, 1e6, 2e6])
    link = giusto.Link("bottleneck", "camera", "viewer", rate=rate, delay_ms=40, reverse={"rate": "unlimited", "delay_ms": 40})
    video = {"model": "perfect", "min_kbps": 80, "max_kbps": 2500, "frame_rate": 30}
    rates = {"min_rate_kbps": 80, "start_rate_kbps": 300, "max_rate_kbps": 2500}
    return giusto.Scenario(duration_s=60, link=link, flow=giusto.Flow("call", "media", controller=judged, video=video, **rates))


def main() -> None:
    """Compare an estimator with libwebrtc's GCC."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="file with the class")
    parser.add_argument("--name", default="Estimator", help="name of the class (default Estimator)")
    parser.add_argument("--plot", type=Path, help="file for a figure")
    parser.add_argument("--payload-type", type=int, default=126, help="payload type of video (default 126)")
    given = parser.parse_args()
    judged = EstimatorController(estimator(given.file, given.name), name="alphartc", payload_type=given.payload_type)
    runs = {
        given.name: giusto.run(scenario(judged)),
        "gcc:libwebrtc": giusto.run(scenario("gcc:libwebrtc")),
    }
    for name, record in runs.items():
        flow = record.flow("call")
        delay_ms = f"{flow.frame_delay_ms.p95:.0f}"
        print(f"{name}: {flow.received_rate_bps / 1e6:.2f} Mbit/s, frame delay {delay_ms} ms (p95), loss {flow.loss_ratio or 0:.1%}")
    if given.plot:
        giusto.plot.compare(runs, "call").savefig(given.plot)


if __name__ == "__main__":
    main()
