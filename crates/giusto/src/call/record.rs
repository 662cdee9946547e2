//! The record of one end of a call.

use giusto_measure::ErrorHistogram;
use giusto_session::call::{CallCounters, DelayFigures};
use giusto_units::TimeDelta;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::{heard::HeardVoice, save::SavedVideo, video::SentVideo, voice::SentVoice};
use crate::{
    measured::{own_loss, result::MtuFigures},
    record::{Distribution, FlowEnd, RunRecord},
    trust::{self, Late},
};

/// The record of one end of a call: that of a simulated run, and what only a call has.
///
/// Each end measures what it sees: its sender the sent rate, the target and the decisions; its receiver the received rate, losses,
/// frames and their delays. At the end the two ends exchange totals: the other fields are those of the far end.
///
/// In JSON the figures of a far end that sent no final report are null.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallRecord {
    /// The record. Its flows are `call`, the media of the caller, and `call:reverse`, those of the listener.
    pub run: RunRecord,
    /// What only a call has.
    pub call: CallFigures,
}

impl Serialize for CallRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            run: &'a RunRecord,
            call: &'a CallFigures,
        }
        let Self { run, call } = self;
        let whole = Whole { run, call };
        if run.flows.iter().all(|flow| flow.unknown.is_none()) {
            return whole.serialize(serializer);
        }
        let mut json = crate::json::tree(&whole).map_err(serde::ser::Error::custom)?;
        let flows = json.get_mut("flows").and_then(Value::as_array_mut);
        for (json, flow) in flows.into_iter().flatten().zip(&run.flows) {
            let Some(end) = flow.unknown else { continue };
            for key in of_end(end) {
                set_null(json, key);
            }
            let streams = json.get_mut("streams").and_then(Value::as_array_mut);
            for (json, stream) in streams.into_iter().flatten().zip(&flow.streams) {
                if stream.is_unreported {
                    for key in OF_STREAM {
                        set_null(json, key);
                    }
                }
            }
        }
        json.serialize(serializer)
    }
}

/// The figures of a flow that only this end knows, and that are numbers in its record.
const fn of_end(end: FlowEnd) -> &'static [&'static str] {
    match end {
        FlowEnd::Sender => &["sent_rate_bps", "sent_packets"],
        FlowEnd::Receiver => &["received_rate_bps", "received_packets", "lost_packets", "duplicate_packets"],
    }
}

/// Those of a stream that only its receiver knows.
const OF_STREAM: [&str; 2] = ["goodput_bps", "frames"];

fn set_null(object: &mut Value, key: &str) {
    if let Some(value) = object.get_mut(key) {
        *value = Value::Null;
    }
}

/// What only a call has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallFigures {
    /// `caller` or `listener`.
    pub role: String,
    /// The address of the far end at the end of the call.
    pub far_end: String,
    /// Why the call ended, or why it has no trace; `None` if it ended in good order.
    pub error: Option<String>,
    /// Why figures of the far end are unknown, null in JSON; `None` if it has reported them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreported: Option<String>,
    /// Whether the two ends shared keys.
    pub authenticated: bool,
    /// How the media were protected: `handshake` (authenticated against those who do not read the packets), `key` (authenticated by a
    /// shared key), `srtp` (encrypted) or `none`.
    #[serde(default)]
    pub protection: String,
    /// The round-trip time of the handshake's Pings; `None` without an answer.
    pub round_trip_ms: Option<Distribution>,
    /// The time from each deadline of this end until its datagrams were sent, once for each of them.
    pub schedule_error_us: Option<Distribution>,
    /// The time from the arrival of each datagram until it was read; `None` without kernel timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_latency_us: Option<Distribution>,
    /// CPU time of the thread of this end's calls, as a share of the time.
    pub cpu_ratio: f64,
    /// How often an address changed.
    pub address_changes: u32,
    /// The addresses at which the far end was, if there was more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<CallPath>,
    /// The MTU of the path, in bytes, where it was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_bytes: Option<u64>,
    /// How it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu_discovery: Option<MtuFigures>,
    /// Datagrams of media and feedback that the system of this end did not take; they do not count as sent.
    pub unsent_packets: u64,
    /// The latest reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent_reason: Option<String>,
    /// Datagrams of media and feedback that the system of this end dropped because they were not read in time: the path did not lose
    /// them. At most so many where the socket served other calls too.
    pub socket_dropped_packets: u64,
    /// Datagrams that belonged to no call.
    pub ignored: IgnoredFigures,
    /// The real video that this end sent; `None`: that of encoder models, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub video: Option<SentVideo>,
    /// The speech that this end sent; `None`: that of a model, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice: Option<SentVoice>,
    /// The speech that this end received; `None`: that of a model, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<HeardVoice>,
    /// The received video that was saved (`--save`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<SavedVideo>,
    /// Reasons to doubt the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
}

/// One address at which a far end was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallPath {
    /// The address.
    pub far_end: String,
    /// Until when it was there, in seconds from the beginning of the call.
    pub until_s: f64,
    /// Packets of media that were sent there.
    pub sent_packets: u64,
    /// Packets of media that came from there.
    pub received_packets: u64,
}

/// Datagrams that belonged to no call at this end's socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IgnoredFigures {
    /// Neither RTP, RTCP nor a message of a call.
    pub foreign_packets: u64,
    /// RTP or RTCP of another address or another synchronisation source.
    pub other_source_packets: u64,
    /// Damaged messages.
    pub damaged_packets: u64,
    /// Without valid authentication, or copies of messages or of encrypted media. Copies of other media are duplicates of the flow.
    pub unauthenticated_packets: u64,
    /// With a token or cookie that was not issued to their address.
    pub forged_packets: u64,
    /// Requests that were not answered: there were too many during calls.
    #[serde(default)]
    pub unanswered_handshakes: u64,
}

impl From<CallCounters> for IgnoredFigures {
    fn from(counters: CallCounters) -> Self {
        Self {
            foreign_packets: counters.foreign,
            other_source_packets: counters.unknown_source,
            damaged_packets: counters.damaged,
            unauthenticated_packets: counters.unauthenticated,
            forged_packets: counters.forged,
            unanswered_handshakes: counters.unanswered_handshakes,
        }
    }
}

impl CallFigures {
    /// Says which figures of `run` are unknown, and why.
    pub(crate) fn note_unreported(&mut self, run: &RunRecord) {
        let unknown = run.flows.iter().filter_map(|flow| {
            Some(match flow.unknown? {
                FlowEnd::Sender => format!("sent of \"{}\"", flow.id),
                FlowEnd::Receiver => format!("received of \"{}\"", flow.id),
            })
        });
        let unknown: Vec<String> = unknown.collect();
        self.unreported = (!unknown.is_empty()).then(|| {
            format!("what the far end {} is unknown: it sent no final report", unknown.join(" and "))
        });
    }

    /// Why the figures of this end may not be trusted; `run` is its record.
    pub(crate) fn find_doubts(&self, run: &RunRecord) -> Vec<String> {
        let mut doubts: Vec<_> =
            own_loss(&self.role, self.socket_dropped_packets, None).into_iter().collect();
        // The deadlines are those of the pacer, the frames and the feedback; feedback waits for the reads, too. Each delay that is
        // measured has this in it.
        let bound = trust::bound(packet_interval(run));
        let beyond = |late: Option<Distribution>, what| {
            let late = late?;
            Late::from_micros(Some(late.p50), Some(late.p99))?.beyond(what, bound)
        };
        let late =
            [beyond(self.schedule_error_us, "deadlines"), beyond(self.read_latency_us, "reads of datagrams")];
        let late: Vec<String> = late.into_iter().flatten().collect();
        if !late.is_empty() {
            let late = late.join(" and ");
            doubts.push(format!(
                "this machine was overloaded: {late}; end other programs, or make fewer calls"
            ));
        }
        doubts
    }
}

/// The mean time between two packets of the flow with the most packets.
fn packet_interval(run: &RunRecord) -> Option<TimeDelta> {
    let packets = run.flows.iter().map(|flow| flow.sent_packets.max(flow.received_packets)).max();
    let packets = packets.filter(|&packets| packets > 0)?;
    Some(TimeDelta::from_seconds_f64(run.duration_s / packets as f64))
}

/// A histogram of errors or times in units of `1 / per_second`.
pub(crate) fn distribution_of(histogram: &ErrorHistogram, scale: f64) -> Option<Distribution> {
    let all = Distribution::of(histogram)?;
    Some(Distribution {
        mean: all.mean * scale,
        p50: all.p50 * scale,
        p95: all.p95 * scale,
        p99: all.p99 * scale,
        max: all.max * scale,
    })
}

pub(crate) fn delay_figures(delay: Distribution) -> DelayFigures {
    let [mean, p50, p95, p99, max] =
        [delay.mean, delay.p50, delay.p95, delay.p99, delay.max].map(|value| value as f32);
    DelayFigures { mean, p50, p95, p99, max }
}

/// A number of a far end, which may send any; JSON has none that are not finite.
pub(crate) fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

pub(crate) fn distribution(delay: DelayFigures) -> Distribution {
    let DelayFigures { mean, p50, p95, p99, max } = delay;
    let [mean, p50, p95, p99, max] = [mean, p50, p95, p99, max].map(|value| finite(value.into()));
    Distribution { mean, p50, p95, p99, max }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::FlowRecord;

    #[test]
    fn late_or_dropped_datagrams_are_doubted() {
        let doubts = |packets: u64, p99: f64, dropped: u64| {
            let schedule_error_us = Some(Distribution { p50: 100.0, p99, ..Distribution::default() });
            let socket_dropped_packets = dropped;
            let figures = CallFigures { schedule_error_us, socket_dropped_packets, ..CallFigures::default() };
            let flow = |sent_packets| FlowRecord { sent_packets, ..FlowRecord::default() };
            let flows = vec![flow(packets), flow(packets / 10)];
            figures.find_doubts(&RunRecord { duration_s: 10.0, flows, ..RunRecord::default() }).len()
        };
        // 1 Mbit/s of 1000 B: a packet in 8 ms.
        assert_eq!((doubts(1_250, 8_000.0, 0), doubts(1_250, 8_001.0, 0)), (0, 1));
        // An end that sends nothing, and one that sends 10 000 packets a second.
        assert_eq!((doubts(0, 20_000.0, 0), doubts(0, 20_001.0, 0)), (0, 1));
        assert_eq!((doubts(100_000, 1_000.0, 0), doubts(100_000, 1_001.0, 0)), (0, 1));
        assert_eq!((doubts(1_250, 20.0, 3), doubts(1_250, 9e9, 1)), (1, 2));
        let read_latency_us = Some(Distribution { p99: 20_001.0, ..Distribution::default() });
        let late = CallFigures { read_latency_us, ..CallFigures::default() };
        let late = late.find_doubts(&RunRecord::default());
        assert!(late[0].contains("1 % of the reads of datagrams were at least 20.0 ms late"), "{late:?}");
    }

    #[test]
    fn figures_of_a_far_end_are_finite_numbers() {
        let delay = DelayFigures { mean: f32::NAN, p50: f32::INFINITY, p95: 2.5, p99: 3.0, max: 4.0 };
        let expected = Distribution { mean: 0.0, p50: 0.0, p95: 2.5, p99: 3.0, max: 4.0 };
        assert_eq!(distribution(delay), expected);
    }
}
