//! The result of a STAMP session, as `--json` prints it.
//!
//! A quantity that was not measured is `None`, in JSON `null`, never 0. The unit is in the name of each field.

use std::collections::BTreeMap;

use giusto_session::stamp::ReflectorCounters;
use serde::Serialize;

use super::{OneWayDelay, Quantiles};

/// What a Session-Sender has measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StampResult {
    /// `stamp`.
    pub protocol: &'static str,
    /// The reflector's address and port.
    pub to: String,
    /// `unauthenticated` or `authenticated`.
    pub mode: &'static str,
    /// The identifier of the session (RFC 8972 §3).
    pub ssid: u16,
    /// The requested rate, in bit/s; `None` for "max".
    pub rate_bps: Option<u64>,
    /// The layer whose bytes the rate counts.
    pub layer: Option<String>,
    /// The UDP payload of one packet, in bytes.
    pub size_bytes: u64,
    /// How long the sender sent, in seconds.
    pub duration_s: f64,
    /// Packets handed to the network.
    pub sent_packets: u64,
    /// Packets that the system did not take. They are not among the sent ones.
    pub unsent_packets: u64,
    /// The latest reason.
    pub unsent_reason: Option<String>,
    /// Packets that were never sent because they were late.
    pub skipped_packets: u64,
    /// Packets with an answer.
    pub answered_packets: u64,
    /// Packets without an answer: sent − answered.
    pub lost_packets: u64,
    /// Lost over sent packets, 0 to 1; `None` if nothing was sent.
    pub loss_ratio: Option<f64>,
    /// Packets without an answer whose direction of loss is unknown: all with a stateless reflector; else those behind the last
    /// answer.
    pub unattributed_lost_packets: u64,
    /// Packets, among the lost ones, whose answers arrived and were dropped by the full socket buffer of this machine: neither way lost
    /// them.
    pub kernel_dropped_packets: u64,
    /// Whether the reflector counts what reaches it; `None` if that is unknown.
    pub reflector_stateful: Option<bool>,
    /// Further answers to a packet.
    pub duplicate_packets: u64,
    /// Answers after one to a later packet (RFC 4737 §3.3), in both directions together.
    pub reordered_packets: u64,
    /// Datagrams that were ignored: no key verifies them.
    pub forged_packets: u64,
    /// Datagrams that were ignored: they answer no packet of this session.
    pub unmatched_packets: u64,
    /// Datagrams that were ignored: too short to be an answer.
    pub malformed_packets: u64,
    /// Answers whose times cannot be used.
    pub answers_without_times: u64,
    /// Answers "port unreachable" of the far host.
    pub port_unreachable: u64,
    /// Round-trip time without the reflector's processing time, in ms: (T4 − T1) − (T3 − T2).
    pub round_trip_ms: Quantiles,
    /// The reflector's processing time, in ms: T3 − T2.
    pub reflector_processing_ms: Quantiles,
    /// The way to the reflector.
    pub forward: StampPath,
    /// The way back.
    pub backward: StampPath,
    /// The sum of the error estimates of both clocks, in ms; `None` unless both are synchronised.
    pub clock_uncertainty_ms: Option<f64>,
    /// TTL or Hop Limit with which packets reached the reflector; `None` if it does not report it.
    pub ttl_at_reflector: Option<StampTtl>,
    /// Answers with the session identifier 0: the reflector does not support RFC 8972.
    pub answers_without_ssid: u64,
    /// The flags of our Extra Padding in the answers; `None` if there was none.
    pub extensions: Option<StampExtensions>,
    /// Deviation of departures from their scheduled times, in µs, without sign.
    pub schedule_error_us: Quantiles,
    /// CPU time of the sending thread over elapsed time, 0 to 1.
    pub sender_cpu_ratio: f64,
    /// Why the run ended, such as `all sent` or `interrupted`.
    pub ended: String,
    /// Reasons to doubt the figures; empty if there are none.
    pub doubts: Vec<String>,
}

/// One direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StampPath {
    /// Packets lost in this direction; `None` if it is unknown.
    pub lost_packets: Option<u64>,
    /// One-way delay, in ms.
    pub one_way_delay_ms: OneWayDelay,
    /// Interarrival jitter at the end of the run, in ms (RFC 3550 §6.4.1).
    pub jitter_ms: Option<f64>,
    /// Packets that arrived after a later one (RFC 4737 §3.3); `None` if the direction is unknown.
    pub reordered_packets: Option<u64>,
}

/// The lowest and the highest TTL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StampTtl {
    /// The lowest.
    pub min: u8,
    /// The highest.
    pub max: u8,
}

/// The flags of our extensions in the answers (RFC 8972 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StampExtensions {
    /// U: the reflector does not understand them.
    pub unrecognised: bool,
    /// M: it considers them malformed.
    pub malformed: bool,
    /// I: their HMAC does not verify.
    pub not_authentic: bool,
}

/// What a Session-Reflector has counted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReflectorResult {
    /// Why senders may not trust the losses on the way to this reflector; empty if they can.
    pub doubts: Vec<String>,
    /// `stamp`.
    pub protocol: &'static str,
    /// Packets that were answered.
    pub reflected_packets: u64,
    /// Answers, among these, without the DSCP that was asked for.
    pub refused_dscp_packets: u64,
    /// Sessions that began.
    pub sessions: u64,
    /// Packets that were not answered, by reason.
    pub unanswered_packets: BTreeMap<&'static str, u64>,
    /// Answers that the system did not take.
    pub unsent_packets: u64,
    /// How long it reflected, in seconds.
    #[serde(skip)]
    pub duration_s: f64,
    /// The same counts.
    #[serde(skip)]
    pub counters: ReflectorCounters,
}
