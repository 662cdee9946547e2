//! Streams that nobody has announced, RTP or raw, and the RTCP of the former.

use std::{collections::VecDeque, net::SocketAddr};

use giusto_rtp::{RtpError, RtpHeader, rtcp::Packet};
use giusto_units::Timestamp;

use super::{
    super::{
        inbound::Inbound,
        stream::{Stream, reports},
        transmit::Transmit,
        wire::StreamFormat,
    },
    Passive, Receiver, send_within_credit,
};

/// Addresses whose first RTP datagram is remembered.
const MAX_PROBATION: usize = 1024;

/// The last RTP datagram of an address without a stream.
#[derive(Debug)]
pub(super) struct Probation {
    /// Source and sequence number.
    pub(super) datagram: (u32, u16),
    /// The RTCP that followed: senders begin with it.
    pub(super) rtcp: Option<EarlyRtcp>,
}

/// RTCP of a sender before its stream is confirmed.
#[derive(Debug)]
pub(super) struct EarlyRtcp {
    at: Timestamp,
    bytes: Vec<u8>,
    /// Its source, if it came to the port of RTCP.
    apart: Option<SocketAddr>,
}

/// RTCP of an address without a stream that is longer is not kept.
const MAX_EARLY_RTCP: usize = 256;

impl Receiver {
    /// Handles a datagram that came to the port of RTCP, the one above that of the media (RFC 3550 §11).
    ///
    /// It belongs to the RTP stream of its source that comes from the same IP address, whatever the ports. Reports about that
    /// stream then leave from the port of RTCP ([`poll_rtcp_transmit`](Self::poll_rtcp_transmit)) to where this came from
    /// (RFC 4961 §4).
    pub fn handle_rtcp(&mut self, now: Timestamp, inbound: &Inbound<'_>) {
        self.latest = self.latest.max(now);
        if !self.config.prefixes.admit(inbound.from.ip()) {
            self.counters.denied += 1;
            return;
        }
        let Some(sources) = rtcp_sources(inbound.bytes).filter(|_| !inbound.truncated) else {
            self.counters.foreign += 1;
            return;
        };
        let ports = SocketAddr::new(inbound.from.ip(), 0)..=SocketAddr::new(inbound.from.ip(), u16::MAX);
        let mut streams = self.streams.range_mut(ports.clone()).map(|(_, (_, stream))| stream);
        if let Some(stream) = streams.find(|stream| stream.ssrc().is_some_and(|ssrc| sources.contains(&ssrc)))
        {
            stream.credit = stream.credit.saturating_add(inbound.bytes.len() as u64);
            stream.on_rtcp_apart(inbound.bytes, inbound.from, inbound.at);
            return;
        }
        let mut waiting = self.probation.range_mut(ports).map(|(_, last)| last);
        match waiting
            .find(|last| sources.contains(&last.datagram.0))
            .filter(|_| inbound.bytes.len() <= MAX_EARLY_RTCP)
        {
            Some(last) => {
                let (at, bytes, apart) = (inbound.at, inbound.bytes.to_vec(), Some(inbound.from));
                last.rtcp = Some(EarlyRtcp { at, bytes, apart });
                self.counters.probation += 1;
            }
            None => self.counters.foreign += 1,
        }
    }

    /// The next datagram to send from the port of RTCP.
    pub fn poll_rtcp_transmit(&mut self) -> Option<Transmit> {
        if self.config.group {
            self.rtcp_outbox.clear();
        }
        self.rtcp_outbox.pop_front()
    }

    pub(super) fn handle_unannounced(&mut self, now: Timestamp, datagram: &[u8], inbound: &Inbound<'_>) {
        let from = inbound.from;
        // Of an RTP or raw stream that has ended.
        if self.lingering.contains_key(&from) {
            self.counters.late += 1;
            return;
        }
        if self.config.passive.is_some() && self.config.authenticated_only() {
            self.counters.unauthenticated += 1;
            return;
        }
        let format = match self.config.passive {
            Some(Passive::Raw) if !datagram.is_empty() => StreamFormat::Raw,
            Some(Passive::Rtp) => match RtpHeader::parse(datagram) {
                Ok((header, _)) => {
                    let before = (header.ssrc, header.sequence.wrapping_sub(1));
                    if self.probation.get(&from).map(|last| last.datagram) != Some(before) {
                        self.counters.probation += 1;
                        if self.probation.len() >= MAX_PROBATION {
                            self.probation.clear();
                        }
                        let datagram = (header.ssrc, header.sequence);
                        self.probation.insert(from, Probation { datagram, rtcp: None });
                        return;
                    }
                    Stream::rtp_format(header.payload_type)
                }
                Err(RtpError::Rtcp(_)) if datagram.len() <= MAX_EARLY_RTCP => {
                    match self.probation.get_mut(&from) {
                        Some(last) => {
                            let (at, bytes) = (inbound.at, datagram.to_vec());
                            last.rtcp = Some(EarlyRtcp { at, bytes, apart: None });
                            self.counters.probation += 1;
                        }
                        None => self.counters.foreign += 1,
                    }
                    return;
                }
                Err(_) => return self.counters.foreign += 1,
            },
            _ => return self.counters.foreign += 1,
        };
        if self.room_for_unannounced(from) {
            let early = self.probation.remove(&from).and_then(|last| last.rtcp);
            let mut stream = Stream::unannounced(now, from, format, &self.config.clock);
            stream.begin_kernel_dropped(self.kernel_dropped);
            stream.on_datagrams(&mut std::iter::once(datagram).peekable(), inbound, &mut self.counters);
            match early {
                Some(EarlyRtcp { at, bytes, apart: None }) => stream.on_early_rtcp(&bytes, at),
                Some(EarlyRtcp { at, bytes, apart: Some(source) }) => {
                    stream.on_rtcp_apart(&bytes, source, at);
                }
                None => {}
            }
            self.insert(from, stream);
        } else {
            self.counters.refused += 1;
        }
    }
}

/// Sends a report to where the sender's RTCP comes from, within the byte budget of its stream.
pub(super) fn send_rtcp(
    muxed: &mut VecDeque<Transmit>,
    apart: &mut VecDeque<Transmit>,
    stream: &mut Stream,
    bytes: Vec<u8>,
) {
    match stream.rtcp_from() {
        None => send_within_credit(muxed, stream, bytes),
        Some(to) if bytes.len() as u64 <= stream.credit => {
            stream.credit -= bytes.len() as u64;
            apart.push_back(Transmit { to, bytes });
        }
        Some(_) => {}
    }
}

/// The senders of the reports of an RTCP datagram; `None` if it is none.
fn rtcp_sources(datagram: &[u8]) -> Option<Vec<u32>> {
    let mut sources = Vec::new();
    for packet in reports(datagram)? {
        match packet {
            Packet::SenderReport(report) => sources.push(report.ssrc),
            Packet::ReceiverReport(report) => sources.push(report.ssrc),
            Packet::Bye(bye) => sources.extend(bye.sources),
            _ => {}
        }
    }
    Some(sources)
}

#[cfg(test)]
mod tests {
    use giusto_rtp::rtcp::Bye;

    use super::{
        super::{super::LocalClock, ReceiverConfig},
        *,
    };

    #[test]
    fn rtcp_of_another_host_is_not_kept_for_a_source() {
        let config = ReceiverConfig::new([1; 32], LocalClock::default());
        let mut receiver = Receiver::new(ReceiverConfig { passive: Some(Passive::Rtp), ..config });
        let (at, host) = (Timestamp::ZERO, |host: u8| SocketAddr::from(([192, 0, 2, host], 5004)));
        let inbound = |from, bytes| Inbound {
            from,
            bytes,
            segment: bytes.len(),
            at,
            tos: None,
            kernel_dropped: None,
            truncated: false,
        };
        let mut rtp = vec![0; 40];
        (rtp[0], rtp[11]) = (0x80, 1);
        receiver.handle(at, &inbound(host(1), &rtp));
        let mut rtcp = Vec::new();
        Bye { sources: vec![1], reason: None }.write(&mut rtcp).unwrap();
        receiver.handle_rtcp(at, &inbound(host(9), &rtcp));
        assert_eq!((receiver.counters().probation, receiver.counters().foreign), (1, 1));
        receiver.handle_rtcp(at, &inbound(host(1), &rtcp));
        assert_eq!((receiver.counters().probation, receiver.counters().foreign), (2, 1));
    }
}
