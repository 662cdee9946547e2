"""Real-time media that leaves on time and fits the network: simulations, calls and congestion control.

>>> import giusto
>>> scenario = giusto.Scenario(
...     duration="10 s",
...     link=giusto.Link("wire", "here", "there", rate="1 Mbit/s", delay="20 ms"),
...     flow=giusto.Flow("voice", "cbr", rate="64 kbit/s", size="200 B"),
... )
>>> record = giusto.run(scenario, seed=1)
>>> record.flow("voice").delay_ms.max
21.6

Names are those of scenario files and of JSON results. A number carries its unit in its name: ``_bps`` is bit/s, ``_ms``
milliseconds, ``_bytes`` bytes. Tables are `pyarrow.Table`, which pandas, polars and NumPy read.
"""

from giusto import plot
from giusto._call import CallFigures, CallRecord, Listener, call, listen
from giusto._city import CityRun, city
from giusto._controller import Controller
from giusto._experiments import Benchmark, Sweep, benchmark, merge, sweep
from giusto._giusto import (
    Feedback,
    Limits,
    NadaReport,
    PacketReport,
    Probe,
    QueueState,
    RateControl,
    ScenarioError,
    SentPacket,
    StreamState,
    Target,
)
from giusto._leaderboard import Leaderboard
from giusto._paper import paper
from giusto._record import (
    Check,
    FlowRecord,
    LinkRecord,
    RunRecord,
    StreamRecord,
)
from giusto._run import controllers, run
from giusto._scenario import (
    Change,
    Expect,
    Flow,
    Link,
    Scenario,
    delay_steps,
    frame_sizes,
    loss_packets,
    loss_steps,
    rate_steps,
)
from giusto._statistics import Distribution, RepairRecord
from giusto._tune import Tuning, tune
from giusto._tune_constants import Constant, constants

__all__ = [
    "Benchmark",
    "CallFigures",
    "CallRecord",
    "Change",
    "Check",
    "CityRun",
    "Constant",
    "Controller",
    "Distribution",
    "Expect",
    "Feedback",
    "Flow",
    "FlowRecord",
    "Leaderboard",
    "Limits",
    "Link",
    "LinkRecord",
    "Listener",
    "NadaReport",
    "PacketReport",
    "Probe",
    "QueueState",
    "RateControl",
    "RepairRecord",
    "RunRecord",
    "Scenario",
    "ScenarioError",
    "SentPacket",
    "StreamRecord",
    "StreamState",
    "Sweep",
    "Target",
    "Tuning",
    "benchmark",
    "call",
    "city",
    "constants",
    "controllers",
    "delay_steps",
    "frame_sizes",
    "listen",
    "loss_packets",
    "loss_steps",
    "merge",
    "paper",
    "plot",
    "rate_steps",
    "run",
    "sweep",
    "tune",
]
