//! `gcc:libwebrtc` beside libwebrtc's own controller: the same events in, the targets compared.
//!
//! # The histories in `libwebrtc/`
//!
//! Six histories of the C++ `GoogCcNetworkController` (signalapp/webrtc `bd635df`, 17 July 2026) without field trials, with an ideal encoder of 30
//! frames per second (100 ms late) over a drop-tail bottleneck: 50 ms each way, a queue of 300 ms.
//!
//! | file | bottleneck | random loss |
//! |---|---|---|
//! | `clean.txt` | 3 Mbit/s | – |
//! | `overload.txt` | 3 Mbit/s, start rate 12 Mbit/s | – |
//! | `loss5.txt`, `loss20.txt` | 3 Mbit/s | 5 %, 20 % |
//! | `up.txt` | 0.6, from 15 s 3 Mbit/s | – |
//! | `down.txt` | 3, from 15 s 1 Mbit/s | – |
//!
//! One event a line. `time` is that since the previous event in units of 100 µs; rates are in bit/s, sizes in bytes.
//!
//! | line | direction | fields |
//! |---|---|---|
//! | `start` | in | start rate, minimum, maximum, total allocated rate |
//! | `p` | in | time: periodic processing |
//! | `s` | in | time, size, probe cluster if any: a packet, numbered from 0, was sent |
//! | `r` | in | time, round-trip time in units of 100 µs |
//! | `l` | in | time, packets lost and received since the previous report |
//! | `f` | in | feedback: time, data in flight, `@` and the first packet, then for each packet `-` if lost, or its arrival in steps of 250 µs since the previous one |
//! | `=` | out | target, pacing rate, padding rate |
//! | `+` | out | a probe: cluster, rate, duration in µs, packets |

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a history that cannot be read fails the test"
)]

use giusto_congestion::{
    Algorithm, Controller, Feedback, Limits, LossReport, PacketReport, QueueState, SentPacket,
};
use giusto_units::{DataRate, DataSize, PeerTimestamp, TimeDelta, Timestamp};

/// Rates after feedback, ours and libwebrtc's, and the probes.
#[derive(Debug, Default)]
struct Trajectory {
    /// Our target and libwebrtc's, in bit/s.
    targets: Vec<(u64, u64)>,
    /// Our padding rate and libwebrtc's, in bit/s.
    paddings: Vec<(u64, u64)>,
    /// Rates of the probes in bit/s, ours and libwebrtc's.
    probes: (Vec<u64>, Vec<u64>),
}

/// Share of the pairs in which the first is within 1 % of the second.
fn agreement(pairs: &[(u64, u64)]) -> f64 {
    let near = |&&(ours, theirs): &&(u64, u64)| ours.abs_diff(theirs) * 100 <= theirs;
    pairs.iter().filter(near).count() as f64 / pairs.len() as f64
}

fn units(text: &str) -> i64 {
    text.parse().unwrap()
}

/// Feeds a history to `gcc:libwebrtc`.
struct Replay {
    controller: Box<dyn Controller>,
    now: Timestamp,
    /// Latest arrival, in steps of 250 µs. Starts at 1 s, so that no reordering makes it negative.
    arrival: i64,
    sent: Vec<SentPacket>,
    in_flight: DataSize,
    /// libwebrtc's current target and padding rate in bit/s.
    theirs: (u64, u64),
    /// Whether the rates after the latest feedback have not been compared yet.
    compares: bool,
    trajectory: Trajectory,
}

impl Replay {
    fn run(history: &str) -> Trajectory {
        let mut lines = history.lines();
        let start = lines.next().unwrap().split(' ').skip(1);
        let start: Vec<_> = start.map(|bps| DataRate::from_bps(bps.parse().unwrap())).collect();
        let limits = Limits::DEFAULT.with_min(start[1]).with_start(start[0]).with_max(start[2]);
        let mut this = Self {
            controller: "gcc:libwebrtc".parse::<Algorithm>().unwrap().build(limits),
            now: Timestamp::ZERO,
            arrival: 4000,
            sent: Vec::new(),
            in_flight: DataSize::ZERO,
            theirs: (start[0].as_bps(), 0),
            compares: false,
            trajectory: Trajectory::default(),
        };
        lines.for_each(|line| this.on_line(line));
        this.compare();
        this.trajectory
    }

    fn on_line(&mut self, line: &str) {
        let fields: Vec<_> = line.split(' ').collect();
        match fields[0] {
            "=" => return self.theirs = (fields[1].parse().unwrap(), fields[3].parse().unwrap()),
            "+" => return self.trajectory.probes.1.push(fields[2].parse().unwrap()),
            _ => self.compare(),
        }
        self.now += TimeDelta::from_micros(100 * units(fields[1]));
        let now = self.now;
        match fields[0] {
            "p" => self.controller.on_timeout(now, &QueueState::default()),
            "s" => self.on_sent(DataSize::from_bytes(fields[2].parse().unwrap()), fields.get(3)),
            "r" => {
                let rtt = Some(TimeDelta::from_micros(100 * units(fields[2])));
                self.controller.on_feedback(now, &Feedback::default().with_rtt(rtt));
            }
            "l" => {
                let (lost, expected) = (units(fields[2]), units(fields[2]) + units(fields[3]));
                let loss = Some(LossReport::new(lost as f64 / expected as f64, expected as u64));
                self.controller.on_feedback(now, &Feedback::default().with_loss(loss));
            }
            "f" => self.on_packets(DataSize::from_bytes(fields[2].parse().unwrap()), &fields[3..]),
            other => panic!("unknown event {other}"),
        }
        while let Some(probe) = self.controller.next_probe() {
            self.trajectory.probes.0.push(probe.rate.as_bps());
        }
    }

    fn on_sent(&mut self, size: DataSize, probe: Option<&&str>) {
        self.in_flight += size;
        let packet = SentPacket::new(self.sent.len() as u64, self.now, size)
            .with_probe(probe.map(|cluster| cluster.parse().unwrap()))
            .with_in_flight(self.in_flight);
        self.sent.push(packet);
        self.controller.on_sent(self.now, &packet);
    }

    fn on_packets(&mut self, in_flight: DataSize, fields: &[&str]) {
        self.in_flight = in_flight;
        let first: usize = fields[0].trim_start_matches('@').parse().unwrap();
        let mut packets = Vec::new();
        for (sent, field) in self.sent[first..].iter().zip(&fields[1..]) {
            let arrival = (*field != "-").then(|| {
                self.arrival += units(field);
                PeerTimestamp::from_nanos(u64::try_from(self.arrival).unwrap() * 250_000)
            });
            packets.push(PacketReport::new(*sent, arrival));
        }
        self.controller.on_feedback(self.now, &Feedback::new(&packets, in_flight));
        self.compares = true;
    }

    fn compare(&mut self) {
        if std::mem::take(&mut self.compares) {
            let target = self.controller.target();
            self.trajectory.targets.push((target.media.as_bps(), self.theirs.0));
            self.trajectory.paddings.push((target.padding.as_bps(), self.theirs.1));
        }
    }
}

/// In `overload` the first report of losses comes before the loss model has made its observations: the threshold rule decides.
const HISTORIES: [(&str, &str); 6] = [
    ("clean", include_str!("libwebrtc/clean.txt")),
    ("overload", include_str!("libwebrtc/overload.txt")),
    ("loss5", include_str!("libwebrtc/loss5.txt")),
    ("loss20", include_str!("libwebrtc/loss20.txt")),
    ("up", include_str!("libwebrtc/up.txt")),
    ("down", include_str!("libwebrtc/down.txt")),
];

#[test]
fn rates_are_within_1_percent_of_libwebrtcs() {
    for (name, history) in HISTORIES {
        let Trajectory { targets, paddings, probes } = Replay::run(history);
        let [target, padding] = [&targets, &paddings].map(|pairs| agreement(pairs));
        eprintln!("{name}: target {target:.4}, padding {padding:.4} of {} feedbacks", targets.len());
        assert!(targets.len() >= 597, "{name}: {} feedbacks", targets.len());
        assert!(target >= 0.998, "{name}: target in {target} of {} feedbacks", targets.len());
        assert!(padding >= 0.998, "{name}: padding in {padding} of {} feedbacks", targets.len());
        assert_eq!(probes.0.len(), probes.1.len(), "{name}: {probes:?}");
        let probes: Vec<_> = probes.0.into_iter().zip(probes.1).collect();
        assert!(probes.iter().all(|probe| agreement(&[*probe]) > 0.0), "{name}: {probes:?}");
    }
}
