//! Structures that cross the boundary. Each begins with its size, so that later versions can add fields.

/// No time, no limit: the value of times and sizes that are absent.
pub const GIUSTO_NEVER: u64 = u64::MAX;

/// The packet carries `transport_sequence`.
pub const GIUSTO_HAS_TRANSPORT_SEQUENCE: u32 = 1;
/// The packet carries `ssrc` and `rtp_sequence`.
pub const GIUSTO_HAS_RTP: u32 = 2;
/// The packet belongs to the probe `probe`.
pub const GIUSTO_HAS_PROBE: u32 = 4;

/// Transport-wide feedback (TWCC).
pub const GIUSTO_FEEDBACK_TRANSPORT_WIDE: u32 = 1;
/// RFC 8888.
pub const GIUSTO_FEEDBACK_RFC8888: u32 = 2;
/// The first draft of SCReAM (draft-johansson-rmcat-scream-cc-00).
pub const GIUSTO_FEEDBACK_SCREAM_DRAFT: u32 = 4;
/// NADA (RFC 8698 section 5.3).
pub const GIUSTO_FEEDBACK_NADA: u32 = 8;
/// REMB.
pub const GIUSTO_FEEDBACK_REMB: u32 = 16;
/// RTCP receiver reports.
pub const GIUSTO_FEEDBACK_RECEIVER_REPORTS: u32 = 32;

/// What a controller is made with. Set `size` to `sizeof(GiustoConfig)`; all other fields may be 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GiustoConfig {
    /// `sizeof(GiustoConfig)`.
    pub size: usize,
    /// Lowest target rate, bit/s, all headers included. 0: 30000.
    pub min_bps: u64,
    /// Target rate at the start and after a change of the route, bit/s. 0: 300000, moved between the other two.
    pub start_bps: u64,
    /// Highest target rate, bit/s. 0: 2000000.
    pub max_bps: u64,
    /// The 64-bit NTP time in your RTCP sender reports at time 0, for the RTT of receiver reports. 0: unknown, no RTT.
    pub ntp_at_zero: u64,
    /// Target of the queueing delay, ns, for controllers that have one. 0: the controller's own.
    pub delay_target_ns: u64,
    /// Weight among other flows of the controller, for controllers that have one. 0: 1.
    pub priority: f64,
    /// Not 0: probe while the media use less than the target, where the controller can.
    pub probe_while_limited: u32,
    /// Not 0: the packets leave as Not-ECT, so that congestion marks (ECN-CE) in feedback are ignored.
    pub ignore_marks: u32,
}

/// A packet that has left.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GiustoPacket {
    /// `sizeof(GiustoPacket)`.
    pub size: usize,
    /// Bytes that count towards the rates: payload and all headers that the target rate has to cover.
    pub bytes: u64,
    /// Which of the numbers below are set: `GIUSTO_HAS_...`. Set each number that the packet carries: TWCC refers to
    /// `transport_sequence`, all other RTCP to `ssrc` and `rtp_sequence`, reports of your own to what `giusto_on_sent` returns.
    pub flags: u32,
    /// RTP source.
    pub ssrc: u32,
    /// The `cluster` of the probe to which it belongs.
    pub probe: u32,
    /// RTP sequence number.
    pub rtp_sequence: u16,
    /// Transport-wide sequence number.
    pub transport_sequence: u16,
}

/// What feedback in a format of your own says of one packet.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GiustoReport {
    /// The number that `giusto_on_sent` gave the packet. An unknown one is ignored.
    pub number: u64,
    /// When it arrived, ns, on the receiver's clock, whatever its origin. `GIUSTO_NEVER`: it did not arrive.
    pub arrival_ns: u64,
    /// Its two ECN bits on arrival: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u32,
    /// 0.
    pub reserved: u32,
}

/// Feedback in a format of your own: reports of packets in any order, and what else it says.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GiustoFeedback {
    /// `sizeof(GiustoFeedback)`.
    pub size: usize,
    /// An array of `report_count` reports. It may be NULL if there are none.
    pub reports: *const GiustoReport,
    /// Number of reports.
    pub report_count: usize,
    /// `sizeof(GiustoReport)`.
    pub report_size: usize,
    /// Round-trip time, ns. 0: unknown.
    pub rtt_ns: u64,
    /// The receiver's estimate of the available rate (REMB), bit/s. 0: none.
    pub receiver_estimate_bps: u64,
    /// Packets lost over packets expected since the report before, 0 to 1: of receivers that do not report packets one by one.
    pub loss_ratio: f64,
    /// Packets expected. 0: no such report.
    pub expected_packets: u64,
}

/// What may be sent now.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GiustoTarget {
    /// `sizeof(GiustoTarget)`.
    pub size: usize,
    /// Rate of the media, bit/s, all headers included.
    pub media_bps: u64,
    /// Rate at which queued packets leave, bit/s.
    pub pacing_bps: u64,
    /// Rate up to which to add padding if the media rate is lower, bit/s. 0: no padding.
    pub padding_bps: u64,
    /// Most bytes in flight. `GIUSTO_NEVER`: no such limit.
    pub window_bytes: u64,
    /// Drop one frame in this number. 0: none.
    pub frame_drop_interval: u32,
    /// 0.
    pub reserved: u32,
}

/// Packets to send faster than the target, to measure what the path carries.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GiustoProbe {
    /// `sizeof(GiustoProbe)`.
    pub size: usize,
    /// Sending rate, bit/s.
    pub rate_bps: u64,
    /// Minimum duration, ns.
    pub duration_ns: u64,
    /// Packets leave in batches of this duration at the rate, ns.
    pub batch_ns: u64,
    /// Minimum number of packets.
    pub packets: u32,
    /// Number of the probe: `probe` of its packets.
    pub cluster: u32,
}

/// What a controller requires of sender and receiver. Constant for a controller.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GiustoRequirements {
    /// `sizeof(GiustoRequirements)`.
    pub size: usize,
    /// The feedback for which the controller was designed: one of `GIUSTO_FEEDBACK_...`.
    pub feedback: u32,
    /// All feedback to which it reacts: a sum of `GIUSTO_FEEDBACK_...`. Reports of `giusto_on_feedback` serve where
    /// `GIUSTO_FEEDBACK_TRANSPORT_WIDE` or `GIUSTO_FEEDBACK_RFC8888` is among them.
    pub accepted: u32,
    /// Longest burst of the pacer, ns at the pacing rate. 0: one packet at a time.
    pub burst_ns: u64,
    /// Encode no frame while the oldest queued packet is older than this, ns. `GIUSTO_NEVER`: encode all.
    pub skip_after_ns: u64,
    /// Discard queued packets that are older than this, ns. `GIUSTO_NEVER`: discard none.
    pub discard_after_ns: u64,
    /// 1 if it uses the queue that `giusto_on_timeout` receives, else 0.
    pub sender_queue: u32,
    /// 1 if it reacts to congestion marks (ECN-CE), else 0.
    pub marks: u32,
}

/// What has been sent and reported.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GiustoTotals {
    /// `sizeof(GiustoTotals)`.
    pub size: usize,
    /// Bytes of packets that are not reported, and after which no packet is reported.
    pub in_flight_bytes: u64,
    /// Packets that have arrived.
    pub arrived_packets: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
    /// Packets that were reported as lost and not as arrived afterwards.
    pub lost_packets: u64,
}
