//! Every datagram ends in exactly one state, and the states add up (docs/reference/statistics.md): through both ends, over a
//! network that loses, copies, reorders and damages, with senders that begin again.

use crate::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Plain,
    Authenticated,
    Rtp,
}

/// What the network does to the next datagram.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Arrives,
    Lost,
    /// That many datagrams in a row.
    Outage(u16),
    Copied(u8),
    /// Arrives after that many others.
    Held(u8),
    /// With this bit of its header changed.
    Damaged(u16),
    /// The sender begins again, with a new session.
    Restart,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        20 => Just(Fate::Arrives),
        3 => Just(Fate::Lost),
        1 => (1_u16..4000).prop_map(Fate::Outage),
        2 => (1_u8..4).prop_map(Fate::Copied),
        3 => (1_u8..40).prop_map(Fate::Held),
        2 => (0_u16..320).prop_map(Fate::Damaged),
        1 => Just(Fate::Restart),
    ]
}

/// A sender of datagrams of one format.
struct Source {
    format: Format,
    sender: Sender,
    token: StreamToken,
    /// Another one for each session.
    ssrc: u32,
    sent: u64,
}

const FIRST_RTP: u64 = 65_500;

impl Source {
    fn open(net: &mut Net, from: SocketAddr, format: Format, nonce: u64) -> Self {
        let ssrc = 0xABCD_EF00 + nonce as u32;
        let mut request = StreamRequest { packets: None, ..request() };
        if format == Format::Rtp {
            request.format = StreamFormat::Rtp { clock_rate_hz: 8000, voice: None };
            request.ssrc = Some(ssrc);
        }
        let keys = (format == Format::Authenticated).then(ring);
        let config = SenderConfig { keys, request, ..plain(nonce) };
        let (sender, token) = net.open_with(from, config);
        Self { format, sender, token, ssrc, sent: 0 }
    }

    fn next(&mut self, net: &Net) -> Vec<u8> {
        let datagram = match self.format {
            Format::Plain => datagram(self.token, self.sent, net.now.as_nanos()),
            Format::Authenticated => sealed(net, &self.sender, self.token, self.sent),
            Format::Rtp => {
                let number = FIRST_RTP + self.sent;
                let (sequence, timestamp) = (number as u16, (number * 8) as u32);
                let header = RtpHeader {
                    payload_type: 96,
                    sequence,
                    timestamp,
                    ssrc: self.ssrc,
                    ..RtpHeader::default()
                };
                let mut datagram = vec![0; SIZE];
                header.write(&mut datagram).unwrap();
                datagram
            }
        };
        self.sent += 1;
        datagram
    }
}

/// What arrived for streams, and what came to nothing.
fn measured(streams: &[&Stream]) -> u64 {
    let of = |stream: &&Stream| {
        let summary = stream.meter().summary();
        summary.received_packets
            + summary.duplicate_packets
            + summary.too_old_packets
            + summary.implausible_packets
    };
    streams.iter().map(of).sum()
}

fn outside(counters: Counters) -> u64 {
    counters.refused + counters.reasons().iter().map(|(.., count)| count).sum::<u64>()
}

/// Runs a stream over the network; checks the sums at both ends.
fn run(format: Format, fates: &[Fate]) -> Result<(), TestCaseError> {
    let keys = (format == Format::Authenticated).then(ring);
    let mut net = Net::new(ReceiverConfig { keys, ..receiver_config() });
    let from = address(5000);
    let mut nonce = 1;
    let mut source = Source::open(&mut net, from, format, nonce);
    let mut held: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut delivered = 0;
    let mut deliver = |net: &mut Net, datagram: &[u8]| {
        delivered += 1;
        net.deliver(from, datagram);
    };
    for fate in fates {
        if let Fate::Restart = fate {
            // An address may not replace its stream at once.
            net.now += TimeDelta::from_seconds(1);
            nonce += 1;
            source = Source::open(&mut net, from, format, nonce);
            continue;
        }
        let mut datagram = source.next(&net);
        match *fate {
            Fate::Arrives => deliver(&mut net, &datagram),
            Fate::Lost | Fate::Restart => {}
            Fate::Outage(count) => source.sent += u64::from(count) - 1,
            Fate::Copied(copies) => (0..=copies).for_each(|_| deliver(&mut net, &datagram)),
            Fate::Held(behind) => held.push((behind, datagram)),
            Fate::Damaged(bit) => {
                // RTP has no checksum: only damage to version or source can be noticed.
                let bit = if format == Format::Rtp { [0, 64, 95][usize::from(bit) % 3] } else { bit };
                datagram[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
                deliver(&mut net, &datagram);
            }
        }
        for (behind, datagram) in std::mem::take(&mut held) {
            match behind.checked_sub(1) {
                Some(behind) => held.push((behind, datagram)),
                None => deliver(&mut net, &datagram),
            }
        }
        // The time that the announced rate takes, in which sequence numbers are plausible.
        net.now += TimeDelta::from_millis(if let Fate::Outage(count) = fate { i64::from(*count) } else { 1 });
        if net.receiver.next_timeout().is_some_and(|at| at <= net.now) {
            net.receiver.handle_timeout(net.now);
            net.collect();
        }
    }
    net.answers();
    // An outage may have ended the stream as idle: then its sender's count is not known there, and nothing is to be compared.
    let is_open = net.receiver.streams().any(|(_, stream)| stream.token() == Some(source.token));
    let figures = SenderFigures { packets: source.sent, ..SenderFigures::default() };
    source.sender.finish(net.now, figures);
    // Messages to a stream that has ended are counted as well: they are no part of the sum.
    let before = outside(net.receiver.counters());
    let events = net.converse(from, &mut source.sender, TimeDelta::from_seconds(1));
    let messages = outside(net.receiver.counters()) - before;
    for (_, datagram) in held {
        deliver(&mut net, &datagram);
    }
    let streams: Vec<_> = net.closed.iter().collect();
    let states = measured(&streams) + outside(net.receiver.counters()) - messages;
    prop_assert_eq!(states, delivered, "{:?}", net.receiver.counters());
    for stream in &streams {
        let summary = stream.meter().summary();
        prop_assert_eq!(summary.received_packets + summary.lost_packets, summary.loss.expected);
    }
    if is_open {
        let mut reports = events.iter().filter_map(|event| match event {
            SenderEvent::Report(report) => Some(report),
            _ => None,
        });
        let Report { summary, .. } = &**reports.next_back().unwrap();
        prop_assert_eq!(summary.received_packets + summary.lost_packets, source.sent, "{:?}", summary);
        let last = streams.last().unwrap().meter().summary();
        prop_assert_eq!(
            (last.received_packets, last.lost_packets),
            (summary.received_packets, summary.lost_packets)
        );
    }
    Ok(())
}

#[test]
fn a_stream_that_ends_just_before_it_would_be_idle_has_the_figures_of_its_sender() {
    let idle = receiver_config().idle_timeout.as_millis();
    run(Format::Plain, &[Fate::Outage((idle - 217.0) as u16)]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn every_datagram_ends_in_one_state(
        format in prop::sample::select(vec![Format::Plain, Format::Authenticated, Format::Rtp]),
        fates in prop::collection::vec(fate(), 0..300),
    ) {
        run(format, &fates)?;
    }
}

#[test]
fn rtp_sequences_that_wrap_twice_add_up() {
    let mut fates = vec![Fate::Arrives; 70_000];
    for (index, fate) in fates.iter_mut().enumerate() {
        match index % 1000 {
            7 => *fate = Fate::Lost,
            20 => *fate = Fate::Held(5),
            30 => *fate = Fate::Copied(1),
            _ => {}
        }
    }
    run(Format::Rtp, &fates).unwrap();
}

#[test]
fn a_new_stream_counts_nothing_of_the_old_one() {
    let mut fates = vec![Fate::Arrives; 100];
    fates.extend([Fate::Held(3), Fate::Held(9), Fate::Restart]);
    fates.extend(vec![Fate::Arrives; 100]);
    for format in [Format::Plain, Format::Authenticated] {
        run(format, &fates).unwrap();
    }
}
