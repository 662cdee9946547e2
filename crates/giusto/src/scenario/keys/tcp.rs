//! Keys of TCP.

use giusto_sim::traffic::tcp::{Algorithm, RtoFloor, Settings};
use giusto_units::DataSize;

use super::prelude::*;
use crate::scenario::model::TCP_CONTROLS;

keys! { TCP, tcp(to: Settings) {
    "control", choice::<Algorithm>(), Shown("cubic"),
        "Congestion control; BBR is version 3 (draft-ietf-ccwg-bbr-03), Prague sends ECT(1) with accurate ECN (draft-briscoe-iccrg-prague-congestion-control-04)"
        => to.algorithm;
    "mss", Size(within(64.0, 65_495.0)), Is("1460 B"), "Maximum segment size, with options";
    "sack", Switch, Is("true"), "Selective acknowledgements (RFC 2018)" => to.sack;
    "timestamps", Switch, Is("true"), "Timestamps (RFC 7323)" => to.timestamps;
    "ecn", Switch, Shown("false"), "ECN (RFC 3168); BBR ignores marks" => to.ecn;
    "prr", Switch, Is("true"), "Proportional rate reduction (RFC 9937)" => to.prr;
    "rack", Switch, Is("true"), "Loss detection by time and tail loss probes (RFC 8985)" => to.rack;
    "frto", Switch, Is("true"), "Undo spurious timeouts (RFC 5682)" => to.frto;
    "hystart", Switch, Said("with CUBIC"), "HyStart++ (RFC 9406)" => to.hystart;
    "initial-window", Whole(within(1.0, 10.0)), Is("10"), "Segments before the first acknowledgement (RFC 6928)" => to.initial_window;
    "segments-per-ack", Whole(within(1.0, 2.0)), Is("2"), "Segments of an acknowledgement" => to.segments_per_ack;
    "slow-start-limit", Whole(within(1.0, 8.0)), Said("`2`; `8` with HyStart++"),
        "Segments by which slow start grows per acknowledgement" => to.slow_start_limit;
    "initial-threshold", Size(ABOVE_0), Unset, "Slow-start threshold at the start" => to.initial_threshold;
    "receive-window", Size(up_to(1_073_741_824.0)), Is("6 MB"), "Receive window, at least `mss`" => to.receive_window;
    "delayed-ack", Time(up_to(0.5)), Is("40 ms"), "Delay of a single acknowledgement" => to.delayed_ack;
    "min-rto", Time(within(0.0, 60.0)), Said("200 ms + rtt"), "Minimum retransmission timeout" => to.rto_floor;
} }

pub(super) fn settings(keys: &mut read::Table<'_>) -> Settings {
    let mut settings = tcp(keys, Settings::default());
    if let Some(mss) = keys.optional("mss").map(DataSize::as_bytes) {
        settings.mss = u32::try_from(mss).unwrap_or(u32::MAX);
    }
    settings
}

names!(Algorithm: TCP_CONTROLS.to_vec());

impl Read for RtoFloor {
    fn read(node: &Node<'_>) -> Found<Self> {
        Read::read(node).map(Self::Whole)
    }
}
