//! RTP streams: their sources, and the RTCP beside them.

use std::net::SocketAddr;

use giusto_measure::{Arrival, ClockEstimate, ClockRelation, playout::PlayoutVerdict};
use giusto_rtp::{
    RtpError, RtpHeader,
    rtcp::{Packet, Packets},
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};

use super::{Stream, Verdict, relation};
use crate::probe::{
    inbound::Inbound,
    reception::{Reception, Reporter, voip_metrics},
    wire::StreamFormat,
};

/// For how long a source is silent before another one may take its address. Voice has a datagram each 60 ms at least.
const SILENCE: TimeDelta = TimeDelta::from_millis(100);

/// For how long datagrams may still come that a goodbye has overtaken. A stream that goes on for longer has not ended.
const OVERTAKEN: TimeDelta = TimeDelta::from_millis(150);

/// The longest RTCP datagram that is read: senders keep theirs within the MTU of the path. Chosen by us.
const MAX_RTCP_BYTES: usize = 1500;

/// The reports and goodbyes of an RTCP datagram; `None` if it is none, or too long. Other packets are not decoded: a few bytes of
/// feedback can stand for thousands of packets.
pub(in crate::probe) fn reports(datagram: &[u8]) -> Option<impl Iterator<Item = Packet>> {
    Packets::new(datagram).ok().filter(|_| datagram.len() <= MAX_RTCP_BYTES)?;
    let mut rest = datagram;
    let packets = std::iter::from_fn(move || {
        let &[_, kind, high, low] = rest.first_chunk()?;
        let words = usize::from(u16::from_be_bytes([high, low])) + 1;
        let (packet, after) = rest.split_at_checked(words * 4)?;
        rest = after;
        Some((kind, packet))
    });
    let known = packets.filter(|(kind, _)| matches!(kind, 200 | 201 | 203));
    Some(known.filter_map(|(_, packet)| Packets::new(packet).ok()?.next()?.ok()))
}

impl Stream {
    pub(super) fn on_rtp(&mut self, datagram: &[u8], inbound: &Inbound<'_>) -> Verdict {
        let header = match RtpHeader::parse(datagram) {
            Ok((header, _payload)) => header,
            Err(RtpError::Rtcp(_)) => return self.on_rtcp(datagram, inbound.at),
            Err(_) => return Verdict::Foreign,
        };
        if *self.media.ssrc.get_or_insert(header.ssrc) != header.ssrc {
            return self.on_other_source(&header, inbound.at);
        }
        (self.media.heard, self.media.other) = (inbound.at, None);
        // Ignored: sent before the first datagram that arrived.
        let Some((sequence, media_time)) = self.media.clock.unwrap(header.sequence, header.timestamp) else {
            return Verdict::Malformed;
        };
        let size = DataSize::from_bytes(datagram.len() as u64);
        let arrival = Arrival::new(inbound.at, sequence, size).with_sent(media_time).with_tos(inbound.tos);
        self.meter.on_arrival(&arrival);
        if let Some(playout) = &mut self.playout {
            let first = *self.media.first_sequence.get_or_insert(sequence);
            let media_time = TimeDelta::from_nanos(i64::try_from(media_time.as_nanos()).unwrap_or(i64::MAX));
            if let Some(ordinal) = sequence.checked_sub(first)
                && playout.on_packet(ordinal, media_time, inbound.at) == PlayoutVerdict::Played
            {
                self.bursts.on_packet(ordinal);
            }
        }
        Verdict::Measured
    }

    /// A datagram of another source. After the second one in sequence while its own source is silent, or has said goodbye, it
    /// takes over an unannounced stream (RFC 3550 §8.2, §A.1).
    fn on_other_source(&mut self, header: &RtpHeader, now: Timestamp) -> Verdict {
        let before = (header.ssrc, header.sequence.wrapping_sub(1));
        let follows = self.media.other.replace((header.ssrc, header.sequence)) == Some(before);
        let is_silent = self.left.is_some() || now - self.media.heard >= SILENCE;
        if self.request.is_none() && follows && is_silent {
            self.successor = Some(before);
            return Verdict::Successor;
        }
        Verdict::OtherSource
    }

    /// RTCP on the port of the media (RFC 5761).
    fn on_rtcp(&mut self, datagram: &[u8], now: Timestamp) -> Verdict {
        let Some(packets) = reports(datagram) else { return Verdict::Malformed };
        let rate = self.rate();
        for packet in packets {
            match packet {
                Packet::SenderReport(report) if self.media.ssrc == Some(report.ssrc) => {
                    self.media.clock.on_report(&report);
                    self.reported_packets = Some(report.packets);
                    self.reception.on_sender_report(now, report.time.short());
                    self.reception.on_rtcp(now, rate);
                }
                Packet::ReceiverReport(report) if self.media.ssrc == Some(report.ssrc) => {
                    self.reception.on_rtcp(now, rate);
                }
                Packet::Bye(bye)
                    if self.request.is_none()
                        && self.left.is_none()
                        && self.media.ssrc.is_some_and(|ssrc| bye.sources.contains(&ssrc)) =>
                {
                    self.left = Some(now);
                    self.reception.on_goodbye(now);
                }
                _ => {}
            }
        }
        self.relate_media_clock(now);
        Verdict::Measured
    }

    /// RTCP that arrived before the stream was confirmed.
    pub(in crate::probe) fn on_early_rtcp(&mut self, datagram: &[u8], at: Timestamp) {
        self.on_rtcp(datagram, at);
    }

    /// RTCP from `from` that came to the port of RTCP (RFC 3550 §11).
    pub(in crate::probe) fn on_rtcp_apart(&mut self, datagram: &[u8], from: SocketAddr, at: Timestamp) {
        self.rtcp_from = Some(from);
        self.on_rtcp(datagram, at);
    }

    /// Its synchronisation source, if it is RTP.
    pub(in crate::probe) fn ssrc(&self) -> Option<u32> {
        self.media.ssrc
    }

    /// Where its RTCP comes from; `None` if from the port of the media.
    pub(in crate::probe) fn rtcp_from(&self) -> Option<SocketAddr> {
        self.rtcp_from
    }

    /// The announced rate, or the received one.
    fn rate(&self) -> Option<DataRate> {
        let announced = self.request.as_ref().and_then(|request| request.rate_bps);
        let bps = announced.or_else(|| self.meter.rate().rate().map(|bps| bps as u64));
        bps.map(DataRate::from_bps)
    }

    /// When its next RTCP is due, or it must be seen whether its source has left; `None` unless it is RTP whose sender sends RTCP.
    pub(in crate::probe) fn next_rtcp(&self) -> Option<Timestamp> {
        let left = self.left.map(|at| at + OVERTAKEN * 2);
        [self.reception.next(), left].into_iter().flatten().min()
    }

    /// Whether its source has left by now. A goodbye after which the stream goes on is forgotten.
    pub(in crate::probe) fn has_left(&mut self, now: Timestamp) -> bool {
        let Some(at) = self.left.filter(|at| *at + OVERTAKEN * 2 <= now) else { return false };
        if self.media.heard > at + OVERTAKEN {
            self.left = None;
        }
        self.left.is_some()
    }

    /// The reception report that is due, if one is.
    pub(in crate::probe) fn poll_rtcp(&mut self, now: Timestamp, reporter: &Reporter) -> Option<Vec<u8>> {
        self.reception.next().filter(|at| *at <= now)?;
        Some(self.reception_report(now, reporter))
    }

    /// The last reception report, if its sender gets them.
    pub(in crate::probe) fn last_rtcp(&mut self, now: Timestamp, reporter: &Reporter) -> Option<Vec<u8>> {
        self.reception.next()?;
        Some(self.reception_report(now, reporter))
    }

    fn reception_report(&mut self, now: Timestamp, reporter: &Reporter) -> Vec<u8> {
        let sequence = self.meter.sequence();
        let clock_rate_hz =
            if let StreamFormat::Rtp { clock_rate_hz, .. } = self.format { clock_rate_hz } else { 0 };
        let reception = Reception {
            ssrc: self.media.ssrc.unwrap_or(0),
            expected: sequence.losses().expected,
            received: sequence.received() + sequence.duplicates() + sequence.too_old(),
            highest: sequence.highest().unwrap_or(0),
            jitter: self.meter.jitter().unwrap_or_default(),
            clock_rate_hz,
        };
        let voice = self.voice_format().zip(self.voice()).map(|(format, report)| {
            let rtt = self.path.as_ref().map_or(TimeDelta::ZERO, |path| path.rtt);
            let bursts = self.bursts.metrics(report.playout.expected);
            voip_metrics(&format, &report, &bursts, rtt)
        });
        let rate = self.rate();
        self.reception.write(now, reporter, &reception, rate, voice)
    }

    /// Applies what the latest sender report says of the media clock, so that delays are those since the sampling time.
    pub(super) fn relate_media_clock(&mut self, now: Timestamp) {
        /// A clock that is farther off does not state the time of day.
        const FARTHEST: TimeDelta = TimeDelta::from_seconds(10);
        let Some(reported) = self.media.clock.reported() else { return };
        let since = |origin_unix_ns: u64| i128::from(reported.unix_ns) - i128::from(origin_unix_ns);
        let exact = ClockEstimate::new(now, TimeDelta::ZERO, TimeDelta::ZERO);
        let theirs = self.request.as_ref().map(|request| &request.clock);
        // The report's time on our clock, and the estimate that it relies on.
        let (ours, estimate) =
            match (theirs, theirs.map(|theirs| relation(theirs, self.their_origin, &self.clock)), &self.path)
            {
                (Some(theirs), Some((ClockRelation::Same, shift)), _) => {
                    (since(theirs.origin_unix_ns) + shift, exact)
                }
                (Some(theirs), Some((ClockRelation::Synchronised { uncertainty }, shift)), _) => (
                    since(theirs.origin_unix_ns) + shift,
                    ClockEstimate::new(now, TimeDelta::ZERO, uncertainty),
                ),
                (Some(theirs), _, Some(path)) => {
                    let offset = path.clock.offset_at(now).as_nanos();
                    (since(theirs.origin_unix_ns) - i128::from(offset), path.clock)
                }
                (Some(_), ..) => return,
                (None, ..) => (since(self.clock.origin_unix_ns), exact),
            };
        let offset = i128::from(reported.media.as_nanos()) - ours;
        let (Ok(ours), Ok(offset)) = (i64::try_from(ours), i64::try_from(offset)) else { return };
        let from_now = TimeDelta::from_nanos(ours) - (now - Timestamp::ZERO);
        if from_now > FARTHEST || from_now < -FARTHEST {
            return;
        }
        let mut relation = estimate;
        (relation.at, relation.offset) = (now, TimeDelta::from_nanos(offset));
        relation.uncertainty += self.media.clock.unit();
        if theirs.is_some() {
            self.meter.on_clock(&relation);
        } else {
            self.meter.on_stated_clock(&relation);
        }
    }
}

#[cfg(test)]
mod tests {
    use giusto_rtp::rtcp::{Bye, Nack, NackEntry, ReceiverReport};

    use super::*;

    #[test]
    fn feedback_and_long_datagrams_are_not_decoded() {
        let report = ReceiverReport { ssrc: 1, blocks: vec![] };
        let bye = Bye { sources: vec![1], reason: None };
        let entries = vec![NackEntry { packet_id: 1, following: 0 }];
        let nack = Nack { sender_ssrc: 1, media_ssrc: 2, entries };
        let mut bytes = Vec::new();
        report.write(&mut bytes).unwrap();
        nack.write(&mut bytes).unwrap();
        bye.write(&mut bytes).unwrap();
        let known: Vec<_> = reports(&bytes).unwrap().collect();
        assert_eq!(known, [Packet::ReceiverReport(report), Packet::Bye(bye)]);
        let long = bytes.repeat(1 + MAX_RTCP_BYTES / bytes.len());
        assert!(Packets::new(&long).is_ok() && reports(&long).is_none());
        assert!(reports(&bytes[1..]).is_none());
    }
}
