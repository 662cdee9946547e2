//! The messages of an RTC event log that a replay uses, with the field numbers of libwebrtc's
//! `logging/rtc_event_log/rtc_event_log2.proto`. Other fields are skipped.

use super::protobuf::{Field, Value};

/// A message: its fields with their numbers, optional, repeated or bytes that are empty by default.
macro_rules! message {
    ($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $number:literal => $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub(super) struct $name {
            $($(#[$field_about])* pub(super) $field: $kind,)*
        }

        impl $name {
            /// The message; `None` if it is damaged.
            pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
                let mut message = Self::default();
                let mut rest = bytes;
                while !rest.is_empty() {
                    let (number, value) = Value::read(&mut rest)?;
                    match number {
                        $($number => message.$field.take_in(value)?,)*
                        _ => {}
                    }
                }
                Some(message)
            }
        }

        impl Field for Vec<$name> {
            fn take_in(&mut self, value: Value<'_>) -> Option<()> {
                self.push($name::decode(value.bytes()?)?);
                Some(())
            }
        }
    };
}

message! {
    /// A whole log, or a part of one.
    EventStream {
        /// Events of version 1, which is not read.
        1 => legacy: Vec<Vec<u8>>,
        3 => outgoing_rtp: Vec<OutgoingRtp>,
        4 => incoming_rtcp: Vec<Rtcp>,
        5 => outgoing_rtcp: Vec<Rtcp>,
        16 => begin: Vec<Begin>,
        17 => end: Vec<End>,
        18 => loss_based: Vec<LossBased>,
        19 => delay_based: Vec<DelayBased>,
        21 => probes: Vec<Probe>,
        22 => probe_success: Vec<ProbeSuccess>,
        23 => probe_failure: Vec<ProbeFailure>,
        24 => alr: Vec<Alr>,
        32 => routes: Vec<Route>,
        35 => scream: Vec<Scream>,
    }
}

message! {
    OutgoingRtp {
        1 => timestamp_ms: Option<i64>,
        4 => sequence_number: Option<u32>,
        6 => ssrc: Option<u32>,
        8 => payload_size: Option<u32>,
        9 => header_size: Option<u32>,
        10 => padding_size: Option<u32>,
        11 => number_of_deltas: Option<u32>,
        15 => transport_sequence_number: Option<u32>,
        101 => timestamp_ms_deltas: Vec<u8>,
        104 => sequence_number_deltas: Vec<u8>,
        106 => ssrc_deltas: Vec<u8>,
        108 => payload_size_deltas: Vec<u8>,
        109 => header_size_deltas: Vec<u8>,
        110 => padding_size_deltas: Vec<u8>,
        115 => transport_sequence_number_deltas: Vec<u8>,
    }
}

message! {
    Rtcp {
        1 => timestamp_ms: Option<i64>,
        2 => raw_packet: Vec<u8>,
        3 => number_of_deltas: Option<u32>,
        101 => timestamp_ms_deltas: Vec<u8>,
        102 => raw_packet_blobs: Vec<u8>,
    }
}

message! {
    Begin {
        1 => timestamp_ms: Option<i64>,
        2 => version: Option<u32>,
    }
}

message! {
    End {
        1 => timestamp_ms: Option<i64>,
    }
}

message! {
    LossBased {
        1 => timestamp_ms: Option<i64>,
        2 => bitrate_bps: Option<u32>,
        3 => fraction_loss: Option<u32>,
        4 => total_packets: Option<u32>,
        5 => number_of_deltas: Option<u32>,
        101 => timestamp_ms_deltas: Vec<u8>,
        102 => bitrate_bps_deltas: Vec<u8>,
        103 => fraction_loss_deltas: Vec<u8>,
        104 => total_packets_deltas: Vec<u8>,
    }
}

message! {
    DelayBased {
        1 => timestamp_ms: Option<i64>,
        2 => bitrate_bps: Option<u32>,
        /// 1 normal, 2 under-use, 3 over-use.
        3 => detector_state: Option<u32>,
        4 => number_of_deltas: Option<u32>,
        101 => timestamp_ms_deltas: Vec<u8>,
        102 => bitrate_bps_deltas: Vec<u8>,
        103 => detector_state_deltas: Vec<u8>,
    }
}

message! {
    Probe {
        1 => timestamp_ms: Option<i64>,
        2 => id: Option<u32>,
        3 => bitrate_bps: Option<u32>,
        4 => min_packets: Option<u32>,
        5 => min_bytes: Option<u32>,
    }
}

message! {
    ProbeSuccess {
        1 => timestamp_ms: Option<i64>,
        2 => id: Option<u32>,
        3 => bitrate_bps: Option<u32>,
    }
}

message! {
    ProbeFailure {
        1 => timestamp_ms: Option<i64>,
        2 => id: Option<u32>,
        /// 1 invalid interval, 2 invalid ratio, 3 timeout.
        3 => failure: Option<u32>,
    }
}

message! {
    Alr {
        1 => timestamp_ms: Option<i64>,
        2 => in_alr: Option<bool>,
    }
}

message! {
    Route {
        1 => timestamp_ms: Option<i64>,
        2 => connected: Option<bool>,
        /// Bytes of a packet below RTP.
        3 => overhead: Option<u32>,
    }
}

message! {
    Scream {
        1 => timestamp_ms: Option<i64>,
        2 => ref_window_bytes: Option<u32>,
        3 => target_rate_kbps: Option<u32>,
        4 => smoothed_rtt_ms: Option<u32>,
        5 => avg_queue_delay_ms: Option<u32>,
        15 => number_of_deltas: Option<u32>,
        101 => timestamp_ms_deltas: Vec<u8>,
        102 => ref_window_bytes_deltas: Vec<u8>,
        103 => target_rate_kbps_deltas: Vec<u8>,
        105 => avg_queue_delay_ms_deltas: Vec<u8>,
    }
}
