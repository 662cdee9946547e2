//! The messages of an RTC event log that a replay uses, with the field numbers of libwebrtc's
//! `logging/rtc_event_log/rtc_event_log2.proto`. Other fields are skipped.

use prost::Message;

/// A whole log, or a part of one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EventStream {
    /// Events of version 1, which is not read.
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) legacy: Vec<Vec<u8>>,
    #[prost(message, repeated, tag = "3")]
    pub(super) outgoing_rtp: Vec<OutgoingRtp>,
    #[prost(message, repeated, tag = "4")]
    pub(super) incoming_rtcp: Vec<Rtcp>,
    #[prost(message, repeated, tag = "5")]
    pub(super) outgoing_rtcp: Vec<Rtcp>,
    #[prost(message, repeated, tag = "16")]
    pub(super) begin: Vec<Begin>,
    #[prost(message, repeated, tag = "17")]
    pub(super) end: Vec<End>,
    #[prost(message, repeated, tag = "18")]
    pub(super) loss_based: Vec<LossBased>,
    #[prost(message, repeated, tag = "19")]
    pub(super) delay_based: Vec<DelayBased>,
    #[prost(message, repeated, tag = "21")]
    pub(super) probes: Vec<Probe>,
    #[prost(message, repeated, tag = "22")]
    pub(super) probe_success: Vec<ProbeSuccess>,
    #[prost(message, repeated, tag = "23")]
    pub(super) probe_failure: Vec<ProbeFailure>,
    #[prost(message, repeated, tag = "24")]
    pub(super) alr: Vec<Alr>,
    #[prost(message, repeated, tag = "32")]
    pub(super) routes: Vec<Route>,
    #[prost(message, repeated, tag = "35")]
    pub(super) scream: Vec<Scream>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OutgoingRtp {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(uint32, optional, tag = "4")]
    pub(super) sequence_number: Option<u32>,
    #[prost(fixed32, optional, tag = "6")]
    pub(super) ssrc: Option<u32>,
    #[prost(uint32, optional, tag = "8")]
    pub(super) payload_size: Option<u32>,
    #[prost(uint32, optional, tag = "9")]
    pub(super) header_size: Option<u32>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) padding_size: Option<u32>,
    #[prost(uint32, optional, tag = "11")]
    pub(super) number_of_deltas: Option<u32>,
    #[prost(uint32, optional, tag = "15")]
    pub(super) transport_sequence_number: Option<u32>,
    #[prost(bytes = "vec", tag = "101")]
    pub(super) timestamp_ms_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "104")]
    pub(super) sequence_number_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "106")]
    pub(super) ssrc_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "108")]
    pub(super) payload_size_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "109")]
    pub(super) header_size_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "110")]
    pub(super) padding_size_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "115")]
    pub(super) transport_sequence_number_deltas: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Rtcp {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) raw_packet: Vec<u8>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) number_of_deltas: Option<u32>,
    #[prost(bytes = "vec", tag = "101")]
    pub(super) timestamp_ms_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "102")]
    pub(super) raw_packet_blobs: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Begin {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) version: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct End {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LossBased {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) bitrate_bps: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) fraction_loss: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(super) total_packets: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub(super) number_of_deltas: Option<u32>,
    #[prost(bytes = "vec", tag = "101")]
    pub(super) timestamp_ms_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "102")]
    pub(super) bitrate_bps_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "103")]
    pub(super) fraction_loss_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "104")]
    pub(super) total_packets_deltas: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DelayBased {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) bitrate_bps: Option<u32>,
    /// 1 normal, 2 under-use, 3 over-use.
    #[prost(uint32, optional, tag = "3")]
    pub(super) detector_state: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(super) number_of_deltas: Option<u32>,
    #[prost(bytes = "vec", tag = "101")]
    pub(super) timestamp_ms_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "102")]
    pub(super) bitrate_bps_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "103")]
    pub(super) detector_state_deltas: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Probe {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) id: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) bitrate_bps: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(super) min_packets: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub(super) min_bytes: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProbeSuccess {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) id: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) bitrate_bps: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProbeFailure {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) id: Option<u32>,
    /// 1 invalid interval, 2 invalid ratio, 3 timeout.
    #[prost(uint32, optional, tag = "3")]
    pub(super) failure: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Alr {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(bool, optional, tag = "2")]
    pub(super) in_alr: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Route {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(bool, optional, tag = "2")]
    pub(super) connected: Option<bool>,
    /// Bytes of a packet below RTP.
    #[prost(uint32, optional, tag = "3")]
    pub(super) overhead: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Scream {
    #[prost(int64, optional, tag = "1")]
    pub(super) timestamp_ms: Option<i64>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) ref_window_bytes: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) target_rate_kbps: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(super) smoothed_rtt_ms: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    pub(super) avg_queue_delay_ms: Option<u32>,
    #[prost(uint32, optional, tag = "15")]
    pub(super) number_of_deltas: Option<u32>,
    #[prost(bytes = "vec", tag = "101")]
    pub(super) timestamp_ms_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "102")]
    pub(super) ref_window_bytes_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "103")]
    pub(super) target_rate_kbps_deltas: Vec<u8>,
    #[prost(bytes = "vec", tag = "105")]
    pub(super) avg_queue_delay_ms_deltas: Vec<u8>,
}
