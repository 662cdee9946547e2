//! The JSON messages: parameters and results.

use giusto_units::{DataRate, DataSize, TimeDelta};
use serde_json::{Map, Value, json};

use super::{
    datagram::{HEADER_BYTES, MAX_DATAGRAM_BYTES},
    error::ErrorCode,
    wire::{MAX_STREAMS, VERSION},
};
use crate::printable::printable;

/// The longest parameters (`MAX_PARAMS_JSON_STRING` in `iperf.h`).
pub(super) const MAX_PARAMETERS_BYTES: usize = 8 * 1024;
/// The longest results that are read: those of 2 × 128 streams take up to about 64 kB. iperf3 has no limit.
pub(super) const MAX_OUTCOME_BYTES: usize = 256 * 1024;
/// The longest duration (`MAX_TIME` in `iperf.h`).
const MAX_SECONDS: f64 = 86_400.0;
/// The longest time at the start that does not count (`MAX_OMIT_TIME` in `iperf.h`).
const MAX_OMIT_SECONDS: f64 = 600.0;
/// How much of the version's text is kept.
const MAX_VERSION_CHARS: usize = 40;

/// Why a message cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The length is 0 or above the limit.
    #[error("a message must have 1 to {limit} bytes, found {bytes}")]
    Length {
        /// The stated length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// It is not JSON.
    #[error("a message is not JSON: {0}")]
    Json(String),
    /// A field is missing, of another type, or out of range.
    #[error("{field}: expected {expected}, found {found}")]
    Field {
        /// Its name.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// The client does not ask for UDP.
    #[error("only UDP is served: start the client with -u")]
    NotUdp,
}

impl MessageError {
    /// The number by which iperf3 knows it.
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            Self::NotUdp => ErrorCode::PROTOCOL,
            Self::Field { field: "time" | "omit", .. } => ErrorCode::DURATION,
            Self::Field { field: "parallel", .. } => ErrorCode::STREAMS,
            Self::Field { field: "len", .. } => ErrorCode::SIZE,
            _ => ErrorCode::PARAMETERS,
        }
    }
}

/// What the client asks for (`send_parameters` and `get_parameters` in `iperf_api.c`).
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// How long to send; zero: until another limit, or the client, ends the test. At most a day.
    pub duration: TimeDelta,
    /// Time at the start that does not count. At most 10 minutes.
    pub omit: TimeDelta,
    /// Payload of all streams after which the client ends the test; 0: no limit.
    pub bytes: u64,
    /// Datagrams of all streams after which the client ends the test; 0: no limit.
    pub packets: u64,
    /// Streams in each direction, 1 to 128.
    pub streams: usize,
    /// The server sends.
    pub reverse: bool,
    /// Both ends send.
    pub bidirectional: bool,
    /// The UDP payload of each datagram, 16 to 65 507 bytes.
    pub size: DataSize,
    /// The rate of each stream, of UDP payload; `None`: unlimited.
    pub rate: Option<DataRate>,
    /// The byte of the IP header that holds DSCP and ECN.
    pub traffic_class: u8,
    /// Sequence numbers have 64 bits instead of 32.
    pub wide_counters: bool,
    /// The client's version, such as `3.12`.
    pub version: Option<String>,
}

impl Parameters {
    /// The size of datagrams where the client states none (`DEFAULT_UDP_BLKSIZE` in `iperf.h`).
    pub const DEFAULT_SIZE: DataSize = DataSize::from_bytes(1460);

    /// The client receives.
    pub const fn client_receives(&self) -> bool {
        self.reverse || self.bidirectional
    }

    /// The client sends.
    pub const fn client_sends(&self) -> bool {
        self.bidirectional || !self.reverse
    }

    /// The number of streams, in both directions.
    pub const fn all_streams(&self) -> usize {
        if self.bidirectional { self.streams * 2 } else { self.streams }
    }

    pub(super) fn to_json(&self) -> Value {
        // A server ends a test that lasts much longer than the announced whole seconds.
        let mut fields = json!({
            "udp": true,
            "omit": self.omit.as_seconds().round() as u64,
            "time": self.duration.as_seconds().ceil() as u64,
            "num": self.bytes,
            "blockcount": self.packets,
            "parallel": self.streams,
            "len": self.size.as_bytes(),
            "bandwidth": self.rate.map_or(0, DataRate::as_bps),
            "pacing_timer": 1000,
            "client_version": self.version.as_deref().unwrap_or(VERSION),
        });
        let optional = [
            ("reverse", self.reverse.then_some(json!(true))),
            ("bidirectional", self.bidirectional.then_some(json!(true))),
            ("TOS", (self.traffic_class != 0).then_some(json!(self.traffic_class))),
            ("udp_counters_64bit", self.wide_counters.then_some(json!(1))),
        ];
        if let Value::Object(fields) = &mut fields {
            for (name, value) in optional {
                if let Some(value) = value {
                    fields.insert(name.to_owned(), value);
                }
            }
        }
        fields
    }

    pub(super) fn from_json(value: &Value) -> Result<Self, MessageError> {
        let fields = object(value)?;
        let truth = |field| fields.get(field).is_some_and(|value| value.as_bool() == Some(true));
        if !truth("udp") {
            return Err(MessageError::NotUdp);
        }
        let number = |field, expected, range: std::ops::RangeInclusive<f64>| match fields.get(field) {
            None => Ok(None),
            Some(value) => value
                .as_f64()
                .filter(|number| range.contains(number))
                .map(Some)
                .ok_or_else(|| wrong(field, expected, value)),
        };
        let seconds = |field, expected, most| {
            number(field, expected, 0.0..=most)
                .map(|seconds| TimeDelta::from_seconds_f64(seconds.unwrap_or(0.0)))
        };
        let counted = |field| {
            // 2⁵³: the largest number that a double holds exactly.
            let count = number(field, "a number from 0 to 9007199254740992", 0.0..=9_007_199_254_740_992.0);
            count.map(|count| count.unwrap_or(0.0) as u64)
        };
        let length = match counted("len")? {
            0 => Self::DEFAULT_SIZE,
            bytes @ 16..=MAX_DATAGRAM_BYTES => DataSize::from_bytes(bytes),
            bytes => return Err(wrong("len", "0, or 16 to 65507 bytes", &json!(bytes))),
        };
        const { assert!(HEADER_BYTES == 16) };
        Ok(Self {
            duration: seconds("time", "0 to 86400 seconds", MAX_SECONDS)?,
            omit: seconds("omit", "0 to 600 seconds", MAX_OMIT_SECONDS)?,
            bytes: counted("num")?,
            packets: counted("blockcount")?,
            streams: number("parallel", "1 to 128 streams", 1.0..=MAX_STREAMS as f64)?.unwrap_or(1.0)
                as usize,
            reverse: truth("reverse"),
            bidirectional: truth("bidirectional"),
            size: length,
            rate: Some(counted("bandwidth")?).filter(|bps| *bps > 0).map(DataRate::from_bps),
            traffic_class: number("TOS", "0 to 255", 0.0..=255.0)?.unwrap_or(0.0) as u8,
            wide_counters: counted("udp_counters_64bit")? > 0,
            version: fields.get("client_version").and_then(Value::as_str).map(short),
        })
    }
}

/// What one end counted (`send_results` and `get_results` in `iperf_api.c`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// CPU time of the whole program over elapsed time, 0 to 1 for each processor.
    pub cpu_ratio: f64,
    /// Each stream's figures.
    pub streams: Vec<StreamOutcome>,
}

/// One stream, as one end counted it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StreamOutcome {
    /// The identifier: [`stream_id`](super::stream_id).
    pub id: i64,
    /// Payload sent, or received with duplicates.
    pub bytes: u64,
    /// Interarrival jitter, RFC 3550 §6.4.1; 0 at the sending end.
    pub jitter: TimeDelta,
    /// Datagrams lost, as far as a gap in the numbers shows; 0 at the sending end. iperf3 counts a duplicate as one less.
    pub lost_packets: u64,
    /// Those of the omitted time.
    pub omitted_lost_packets: u64,
    /// Datagrams sent, or the highest sequence number received, with those of the omitted time.
    pub packets: u64,
    /// Those of the omitted time.
    pub omitted_packets: u64,
    /// How long it sent, or could receive: the time of the test.
    pub duration: TimeDelta,
}

impl Outcome {
    /// The figures of this stream.
    pub fn stream(&self, id: i64) -> Option<&StreamOutcome> {
        self.streams.iter().find(|stream| stream.id == id)
    }

    pub(super) fn to_json(&self, receives: bool) -> Value {
        let percent = self.cpu_ratio * 100.0;
        let streams = self.streams.iter().map(|stream| {
            json!({
                "id": stream.id,
                "bytes": stream.bytes,
                "retransmits": -1,
                "jitter": stream.jitter.as_seconds(),
                "errors": stream.lost_packets,
                "omitted_errors": stream.omitted_lost_packets,
                "packets": stream.packets,
                "omitted_packets": stream.omitted_packets,
                "start_time": 0,
                "end_time": stream.duration.as_seconds(),
            })
        });
        json!({
            "cpu_util_total": percent,
            "cpu_util_user": percent,
            "cpu_util_system": 0,
            "sender_has_retransmits": if receives { -1 } else { 0 },
            "streams": streams.collect::<Vec<_>>(),
        })
    }

    /// Numbers that make no sense are 0, because an end may have nothing to tell about a stream.
    pub(super) fn from_json(value: &Value) -> Result<Self, MessageError> {
        let fields = object(value)?;
        let Some(Value::Array(streams)) = fields.get("streams") else {
            let found = fields.get("streams").unwrap_or(&Value::Null);
            return Err(wrong("streams", "an array", found));
        };
        if streams.len() > 2 * MAX_STREAMS {
            return Err(wrong("streams", "at most 256 streams", &json!(streams.len())));
        }
        let number = |stream: &Value, field| stream.get(field).and_then(Value::as_f64);
        let count = |stream: &Value, field| number(stream, field).unwrap_or(0.0) as u64;
        let seconds =
            |stream: &Value, field| TimeDelta::from_seconds_f64(number(stream, field).unwrap_or(0.0));
        let streams = streams.iter().map(|stream| StreamOutcome {
            id: number(stream, "id").unwrap_or(0.0) as i64,
            bytes: count(stream, "bytes"),
            jitter: seconds(stream, "jitter").max(TimeDelta::ZERO),
            lost_packets: count(stream, "errors"),
            omitted_lost_packets: count(stream, "omitted_errors"),
            packets: count(stream, "packets"),
            omitted_packets: count(stream, "omitted_packets"),
            duration: seconds(stream, "end_time") - seconds(stream, "start_time"),
        });
        Ok(Self {
            cpu_ratio: number(value, "cpu_util_total").unwrap_or(0.0) / 100.0,
            streams: streams.collect(),
        })
    }
}

fn object(value: &Value) -> Result<&Map<String, Value>, MessageError> {
    value.as_object().ok_or_else(|| wrong("message", "a JSON object", value))
}

fn wrong(field: &'static str, expected: &'static str, found: &Value) -> MessageError {
    let found = short(&found.to_string());
    MessageError::Field { field, expected, found }
}

fn short(text: &str) -> String {
    printable(text, MAX_VERSION_CHARS)
}
