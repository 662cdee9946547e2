//! Statistics of measured streams.

use super::{Read, Statistic};
use crate::measured::result::RunResult;

type Run = Statistic<RunResult>;

/// Statistics of a measured stream; the window is the whole stream.
pub const RUN: &[Run] = &[
    Run::datagrams("sent_packets", "sent", |run| run.sent_packets).defined("Handed to the network."),
    Run::datagrams("received_packets", "received", |run| run.received_packets)
        .defined("Arrived, each counted once."),
    Run::datagrams("lost_packets", "lost", |run| run.lost_packets)
        .defined("Sent and never arrived, those at the end included; unknown if the other end disappeared, and of raw datagrams that no sender announced."),
    Run::ratio("loss_ratio", "loss", RunResult::loss).defined("Lost over sent datagrams."),
    Run::datagrams("loss_bursts.longest", "longest loss burst", |run| {
        Some(run.loss_bursts.filter(|bursts| bursts.count > 0)?.longest)
    })
    .defined("The most datagrams lost in a row (loss periods of RFC 3357)."),
    Run::datagrams("slips.skipped_packets", "skipped", |run| Some(run.slips?.skipped_packets))
        .defined("Due, and never sent: the sender was too late.")
        .rare(),
    Run::datagrams("unsent_packets", "not taken by the system", |run| run.unsent_packets)
        .defined("Refused by the sender's system (`unsent_reason`: full send buffer, interface down, firewall); without a sequence number.")
        .rare(),
    Run::datagrams("kernel_dropped_packets", "lost in the receiver's buffer", |run| run.kernel_dropped_packets)
        .defined("Arrived, and dropped by the receiver's full socket buffer; among the lost, but no loss of the path. At most so many if the socket receives several streams or groups of datagrams (GRO)."),
    Run::datagrams("too_old_packets", "too late to be counted", |run| run.too_old_packets)
        .defined("Arrived more than 65,536 packets late, or before the stream's start; among the lost.")
        .rare(),
    Run::datagrams("implausible_packets", "implausible", |run| run.implausible_packets)
        .defined("Ignored: impossible sequence number; in no sum.")
        .rare(),
    Run::datagrams("duplicate_packets", "duplicates", |run| run.duplicate_packets)
        .defined("Further copies; they offset no loss. Unknown of raw datagrams."),
    Run::datagrams("reordered_packets", "reordered", |run| run.reordered_packets)
        .defined("Arrived after a later one (RFC 4737); among the received. Unknown of raw datagrams."),
    Run::rate("tx_rate_bps", "sent rate", |run| run.tx_rate_bps)
        .defined("(N − 1) · size / (last − first) at the sender."),
    Run::rate("rx_rate_bps", "received rate", |run| run.rx_rate_bps)
        .defined("(N − 1) · size / (last − first) at the receiver."),
    Run::new("rate_error_ppm", "rate error", Read::Ppm(|run| run.rate_error_ppm))
        .defined("The received rate less the requested rate, over the requested rate."),
    Run::rate("fencepost_rate_bps", "rate over N intervals", |run| run.fencepost_rate_bps)
        .defined("All bytes / (last − first), as some tools count."),
    Run::new("schedule_error_us", "schedule error", Read::Quantiles(1.0, |run| run.schedule_error_us))
        .defined("Deviation of a departure from its scheduled time, without sign, read just before the send call by the sender's clock."),
    Run::new("departure_lag_us", "departure lag", Read::Quantiles(1.0, |run| run.departure_lag_us.unwrap_or_default()))
        .defined("From the time that a datagram carries until the driver or the card sent it, of samples; part of the one-way delay.")
        .rare(),
    Run::new("gap_error_us", "gap error", Read::Quantiles(1.0, |run| run.gap_error_us))
        .defined("Deviation of an inter-arrival gap from size / rate, without sign, between successive sequence numbers, by the receiving kernel's clock."),
    Run::new("jitter_ms", "jitter (RFC 3550)", Read::Time(|run| run.jitter_ms))
        .defined("RFC 3550 §6.4.1, at the end of the stream."),
    Run::new("round_trip_ms", "round-trip time", Read::Quantiles(1e3, |run| run.round_trip_ms))
        .defined("RTT without the receiver's processing time, 4 samples a second."),
    Run::new("one_way_delay_ms", "one-way delay", Read::Quantiles(1e3, |run| run.one_way_delay_ms.quantiles))
        .defined("Arrival − departure, as far as the two clocks compare (`basis`)."),
    Run::new("clock.offset_ms", "clock offset", Read::Time(|run| run.clock?.offset_ms))
        .defined("The far clock less ours (RFC 5905 §8)."),
    Run::new("clock.uncertainty_ms", "clock uncertainty", Read::Time(|run| run.clock?.uncertainty_ms))
        .defined("The largest possible error of the offset."),
    Run::new("clock.drift_ppm", "clock drift", Read::Ppm(|run| run.clock?.drift_ppm))
        .defined("How much faster the far clock runs."),
    Run::new("voice.r_factor", "R factor", Read::Number(|run| run.voice.as_ref()?.r_factor))
        .defined("Rating by ITU-T G.107 from packets lost or too late for a modelled 40 ms jitter buffer; the delay is codec + RTT / 2 + buffer. For G.722 and Opus an estimate on the wideband scale; Opus uses impairment factors of a similar codec."),
    Run::new("voice.mos", "MOS", Read::Number(|run| run.voice.as_ref()?.mos))
        .defined("Mean opinion score of this R factor, 1 to 4.5."),
    Run::ratio("sender_cpu_ratio", "sender CPU", |run| run.sender_cpu_ratio)
        .defined("CPU time of the sending thread over elapsed time; of another program its own figure."),
    Run::ratio("receiver_cpu_ratio", "receiver CPU", |run| run.receiver_cpu_ratio)
        .defined("CPU time of the receiving thread over elapsed time; of another program its own figure."),
];
