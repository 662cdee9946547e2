//! Input and output of a controller ([how to record and replay](../how-to/replay.md)): JSON, one value a line, 2 MB a minute at 3 Mbit/s.
//!
//! The first line is an object:
//!
//! | key | meaning |
//! |---|---|
//! | `giusto` | `"session-log"` |
//! | `version` | 1; other versions are refused |
//! | `recorder`, `name` | program and flow |
//! | `controller`, `min_bps`, `start_bps`, `max_bps`, `delay_target_ns`, `priority`, `probe_while_limited`, `authors_laws` | controller and configuration |
//! | `feedback` | `transport-wide`, `rfc8888`, `scream-draft`, `nada`, `remb`, `reports` |
//! | `lacks` | missing: `queue`, `ecn`, `calls`, `precise-times` |
//!
//! Each further line is `[time, event]`; times in ns since the beginning, rates in bit/s, sizes in bytes.
//!
//! | event | calls of the controller |
//! |---|---|
//! | `{"sent": {"n", "b", "f", "p", "at"}}` | number, size, bytes in flight, probe cluster; departure if not the time of the line |
//! | `{"feedback": {"p": [[n, arrival, ecn]], "rtt", "remb", "nada": [gradual, signal, rate], "loss": [ratio, packets], "quench", "f", "unknown"}}` | arrival on the receiver's clock, or null if lost; ECN bits; bytes in flight; `unknown` holds reported packets that the log lacks |
//! | `{"timeout": [size, age]}` | deadline, with the sender's queue |
//! | `{"streams": [[priority, min, max, paused, size, age]]}` | streams and their queues |
//! | `{"limits": [min, start, max]}`, `"route-change"` | |
//!
//! | event | answers, when they change |
//! |---|---|
//! | `{"target": [media, pacing, padding, window]}` | |
//! | `{"decision": {"at", "from", "to", "why"}}` | [cause](controllers.md#reading-a-decision) and its values |
//! | `{"probe": [cluster, rate, duration, packets, batch]}` | when the sender takes it |
//! | `{"shares": [rate]}` | target of each stream |
//! | `{"end": [lines, reason]}` | the last line, unless the program was killed |
//!
//! A file ends at 2 GB.

// JSON lines were chosen over a binary encoding because any tool reads them, a damaged file loses lines and not its rest, and
// times and rates are exact: integers stay integers, and a number is read back as the bits that were written.

use std::collections::BTreeMap;

use giusto_congestion::{
    Cause, Decision, Extension, FeedbackKind, Limits, LossReport, Options, PacketReport, Probe, QueueState,
    SentPacket, StreamState, Target,
    nada::{self, RateMode},
};
use giusto_units::{DataRate, DataSize, Ecn, PeerTimestamp, TimeDelta, Timestamp};
use serde::{Deserialize, Serialize};

use super::event::{Entry, Event, Lacks, Message, SessionInfo};

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;
/// The value of the first key of a file.
pub(super) const FORMAT: &str = "session-log";
/// Packets to which reports can refer by their number: as many as a history stores.
const MAX_SENT: usize = 1 << 16;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) giusto: String,
    pub(super) version: u32,
    pub(super) recorder: String,
    pub(super) name: String,
    pub(super) controller: String,
    pub(super) min_bps: u64,
    pub(super) start_bps: u64,
    pub(super) max_bps: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) delay_target_ns: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) probe_while_limited: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) authors_laws: bool,
    pub(super) feedback: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lacks: Vec<String>,
}

impl From<&SessionInfo> for Head {
    fn from(info: &SessionInfo) -> Self {
        let Lacks { queue, ecn, calls, precise_times } = info.lacks;
        let lacks = [(queue, "queue"), (ecn, "ecn"), (calls, "calls"), (precise_times, "precise-times")];
        Self {
            giusto: FORMAT.to_owned(),
            version: VERSION,
            recorder: info.recorder.clone(),
            name: info.name.clone(),
            controller: info.controller.clone(),
            min_bps: info.limits.min.as_bps(),
            start_bps: info.limits.start.as_bps(),
            max_bps: info.limits.max.as_bps(),
            delay_target_ns: info.options.delay_target.map(TimeDelta::as_nanos),
            priority: info.options.priority,
            probe_while_limited: info.options.probe_while_limited,
            authors_laws: info.options.authors_laws,
            feedback: info.feedback.name().to_owned(),
            lacks: lacks.into_iter().filter(|(lacks, _)| *lacks).map(|(_, name)| name.to_owned()).collect(),
        }
    }
}

impl Head {
    /// What it says, or the value that is unknown.
    pub(super) fn info(self) -> Result<SessionInfo, String> {
        let lacks = |name: &str| self.lacks.iter().any(|lack| lack == name);
        let feedback = FeedbackKind::named(&self.feedback)
            .ok_or_else(|| format!("unknown feedback \"{}\"", self.feedback))?;
        Ok(SessionInfo {
            limits: limits(self.min_bps, self.start_bps, self.max_bps),
            options: Options::default()
                .with_delay_target(self.delay_target_ns.map(TimeDelta::from_nanos))
                .with_priority(self.priority)
                .with_probe_while_limited(self.probe_while_limited)
                .with_authors_laws(self.authors_laws),
            feedback,
            lacks: Lacks {
                queue: lacks("queue"),
                ecn: lacks("ecn"),
                calls: lacks("calls"),
                precise_times: lacks("precise-times"),
            },
            recorder: self.recorder,
            name: self.name,
            controller: self.controller,
        })
    }
}

/// Every other line: the time in nanoseconds, and the event.
pub(super) type Line = (u64, Item);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Item {
    Sent(Sent),
    Feedback(Feedback),
    /// Bytes in the queue, age of the oldest in nanoseconds.
    Timeout(u64, i64),
    Streams(Vec<Stream>),
    /// Minimum, start, maximum, in bit/s.
    Limits(u64, u64, u64),
    RouteChange,
    /// Media, pacing and padding rate in bit/s, and window in bytes.
    Target(u64, u64, u64, Option<u64>),
    Decision {
        at: u64,
        from: u64,
        to: u64,
        why: Cause,
    },
    /// Cluster, rate in bit/s, duration in ns, packets, batch in ns.
    Probe(u32, u64, i64, u32, i64),
    Shares(Vec<u64>),
    Estimate(String),
    /// The session ended: the number of lines before this one, and why the log ends.
    End(u64, String),
}

/// A packet that was sent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sent {
    /// Number.
    n: u64,
    /// Bytes.
    b: u64,
    /// Bytes in flight.
    f: u64,
    /// Probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    p: Option<u32>,
    /// Departure, if it is not the time of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Feedback {
    /// Number, arrival in ns of the receiver's clock or null, ECN bits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    p: Vec<(u64, Option<u64>, u8)>,
    /// Those of the packets above that are not in the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<Sent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rtt: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remb: Option<u64>,
    /// Whether the mode is gradual, congestion signal in ms, received rate in bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nada: Option<(bool, f64, u64)>,
    /// Ratio, expected packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    loss: Option<(f64, u64)>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    quench: bool,
    /// Bytes in flight.
    f: u64,
}

/// Priority, lowest and highest usable rate in bit/s, paused, bytes in the queue, age of the oldest in ns.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stream(f64, u64, u64, bool, u64, i64);

impl Sent {
    fn new(at: Timestamp, packet: &SentPacket) -> Self {
        Self {
            n: packet.sequence,
            b: packet.size.as_bytes(),
            f: packet.in_flight.as_bytes(),
            p: packet.probe,
            at: (packet.at != at).then(|| packet.at.as_nanos()),
        }
    }

    fn packet(&self, at: u64) -> SentPacket {
        SentPacket::new(self.n, Timestamp::from_nanos(self.at.unwrap_or(at)), DataSize::from_bytes(self.b))
            .with_probe(self.p)
            .with_in_flight(DataSize::from_bytes(self.f))
    }
}

fn limits(min: u64, start: u64, max: u64) -> Limits {
    let [min, start, max] = [min, start, max].map(DataRate::from_bps);
    Limits::DEFAULT.with_min(min).with_start(start).with_max(max)
}

fn queue(size: u64, oldest: i64) -> QueueState {
    QueueState::new(DataSize::from_bytes(size), TimeDelta::from_nanos(oldest))
}

/// The latest packets, to which reports refer by number. Writer and reader drop the oldest by the same rule.
#[derive(Debug, Default)]
pub(super) struct Packets(BTreeMap<u64, SentPacket>);

impl Packets {
    fn push(&mut self, packet: SentPacket) {
        self.0.insert(packet.sequence, packet);
        while self.0.len() > MAX_SENT {
            self.0.pop_first();
        }
    }

    /// The line of an event.
    pub(super) fn line(&mut self, at: Timestamp, event: &Event) -> Line {
        let item = match event {
            Event::Sent(packet) => {
                self.push(*packet);
                Item::Sent(Sent::new(at, packet))
            }
            Event::Feedback(message) => Item::Feedback(self.feedback(at, message)),
            Event::Timeout(queue) => Item::Timeout(queue.size.as_bytes(), queue.oldest.as_nanos()),
            Event::Streams(streams) => Item::Streams(
                streams
                    .iter()
                    .map(|StreamState { priority, usable, paused, queue, .. }| {
                        let (low, high) = (usable.0.as_bps(), usable.1.as_bps());
                        Stream(*priority, low, high, *paused, queue.size.as_bytes(), queue.oldest.as_nanos())
                    })
                    .collect(),
            ),
            Event::Limits(limits) => {
                Item::Limits(limits.min.as_bps(), limits.start.as_bps(), limits.max.as_bps())
            }
            Event::RouteChange => Item::RouteChange,
            Event::Target(target) => {
                let rates = [target.media, target.pacing, target.padding].map(DataRate::as_bps);
                Item::Target(rates[0], rates[1], rates[2], target.window.map(DataSize::as_bytes))
            }
            Event::Decision(decision) => Item::Decision {
                at: decision.at.as_nanos(),
                from: decision.from.as_bps(),
                to: decision.to.as_bps(),
                why: decision.cause,
            },
            Event::Probe(probe) => {
                let (duration, batch) = (probe.duration.as_nanos(), probe.batch.as_nanos());
                Item::Probe(probe.cluster, probe.rate.as_bps(), duration, probe.packets, batch)
            }
            Event::Shares(rates) => Item::Shares(rates.iter().map(|rate| rate.as_bps()).collect()),
            Event::Estimate(words) => Item::Estimate(words.clone()),
        };
        (at.as_nanos(), item)
    }

    fn feedback(&self, at: Timestamp, message: &Message) -> Feedback {
        let known = |report: &&PacketReport| self.0.get(&report.sent.sequence) != Some(&report.sent);
        let report = |report: &PacketReport| {
            (report.sent.sequence, report.arrival.map(PeerTimestamp::as_nanos), report.ecn.bits())
        };
        Feedback {
            p: message.packets.iter().map(report).collect(),
            unknown: message.packets.iter().filter(known).map(|report| Sent::new(at, &report.sent)).collect(),
            rtt: message.rtt.map(TimeDelta::as_nanos),
            remb: message.receiver_estimate.map(DataRate::as_bps),
            nada: match message.extension {
                Some(Extension::Nada(report)) => {
                    Some((report.mode == RateMode::Gradual, report.signal_ms, report.received.as_bps()))
                }
                _ => None,
            },
            loss: message.loss.map(|loss| (loss.ratio, loss.expected_packets)),
            quench: message.extension == Some(Extension::SourceQuench),
            f: message.in_flight.as_bytes(),
        }
    }

    /// The event of a line; `None` for the end of the log.
    pub(super) fn entry(&mut self, (at, item): Line) -> Result<Option<Entry>, String> {
        let event = match item {
            Item::Sent(sent) => {
                let packet = sent.packet(at);
                self.push(packet);
                Event::Sent(packet)
            }
            Item::Feedback(feedback) => Event::Feedback(self.message(at, &feedback)?),
            Item::Timeout(size, oldest) => Event::Timeout(queue(size, oldest)),
            Item::Streams(streams) => Event::Streams(
                streams
                    .into_iter()
                    .map(|Stream(priority, low, high, paused, size, oldest)| {
                        StreamState::new(
                            (DataRate::from_bps(low), DataRate::from_bps(high)),
                            queue(size, oldest),
                        )
                        .with_priority(priority)
                        .with_paused(paused)
                    })
                    .collect(),
            ),
            Item::Limits(min, start, max) => Event::Limits(limits(min, start, max)),
            Item::RouteChange => Event::RouteChange,
            Item::Target(media, pacing, padding, window) => {
                let [media, pacing, padding] = [media, pacing, padding].map(DataRate::from_bps);
                Event::Target(
                    Target::new(media, pacing)
                        .with_padding(padding)
                        .with_window(window.map(DataSize::from_bytes)),
                )
            }
            Item::Decision { at, from, to, why } => Event::Decision(
                Decision::new(Timestamp::from_nanos(at), DataRate::from_bps(to), why)
                    .with_from(DataRate::from_bps(from)),
            ),
            Item::Probe(cluster, rate, duration, packets, batch) => Event::Probe(
                Probe::new(cluster, DataRate::from_bps(rate))
                    .with_duration(TimeDelta::from_nanos(duration))
                    .with_packets(packets)
                    .with_batch(TimeDelta::from_nanos(batch)),
            ),
            Item::Shares(rates) => Event::Shares(rates.into_iter().map(DataRate::from_bps).collect()),
            Item::Estimate(words) => Event::Estimate(words),
            Item::End(..) => return Ok(None),
        };
        Ok(Some(Entry { at: Timestamp::from_nanos(at), event }))
    }

    fn message(&self, at: u64, feedback: &Feedback) -> Result<Message, String> {
        let report = |&(number, arrival, ecn): &(u64, Option<u64>, u8)| {
            let own = feedback.unknown.iter().find(|sent| sent.n == number).map(|sent| sent.packet(at));
            let sent = own.or_else(|| self.0.get(&number).copied());
            let sent =
                sent.ok_or_else(|| format!("feedback reports packet {number}, which is not in the log"))?;
            let arrival = arrival.map(PeerTimestamp::from_nanos);
            Ok::<_, String>(PacketReport::new(sent, arrival).with_ecn(Ecn::from_bits(ecn)))
        };
        let nada = feedback.nada.map(|(gradual, signal_ms, bps)| {
            let mode = if gradual { RateMode::Gradual } else { RateMode::RampUp };
            Extension::Nada(nada::Report::new(mode, signal_ms, DataRate::from_bps(bps)))
        });
        let quench = feedback.quench.then_some(Extension::SourceQuench);
        Ok(Message {
            packets: feedback.p.iter().map(report).collect::<Result<_, _>>()?,
            rtt: feedback.rtt.map(TimeDelta::from_nanos),
            receiver_estimate: feedback.remb.map(DataRate::from_bps),
            loss: feedback.loss.map(|(ratio, expected_packets)| LossReport::new(ratio, expected_packets)),
            extension: nada.or(quench),
            in_flight: DataSize::from_bytes(feedback.f),
        })
    }
}

#[cfg(test)]
mod tests {
    /// The page is the text at the top of this file.
    #[test]
    fn the_reference_is_that_of_this_file() {
        let lines = include_str!("wire.rs").lines().map_while(|line| line.strip_prefix("//!"));
        let text: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        let head = "# Session log\n\n<!-- Generated by `make reference` from crates/giusto/src/replay/wire.rs: change it there. -->";
        crate::generated::is_current("session-log.md", &format!("{head}\n\n{}\n", text.join("\n")));
    }
}
