use giusto_congestion::FeedbackKind;
use giusto_rtp::rtcp::ReceptionTime;
use giusto_units::{DataSize, PeerTimestamp, Timestamp};

use super::*;
use crate::media::stream::PacketFields;

const SIZE: DataSize = DataSize::from_bytes(1000);

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

/// A source that has sent `count` packets, the first with number 65 530, and what hears of them.
struct Sent {
    rtp: RtpStream,
    history: History,
    acknowledged: Acknowledged,
}

/// Number on the transport, milliseconds of the arrival, and whether it is marked.
type Told = Vec<(u64, Option<u64>, bool)>;

impl Sent {
    fn new(count: u64) -> Self {
        let mut this = Self {
            rtp: RtpStream::new(7, 96, 65_530),
            history: History::default(),
            acknowledged: Acknowledged::default(),
        };
        for number in 0..count {
            this.history.on_sent(at(number), SIZE, None);
            let fields =
                PacketFields { marker: false, media_timestamp: 0, transport_sequence: number, payload: SIZE };
            this.rtp.write(at(number), FeedbackKind::ScreamDraft, fields);
        }
        this
    }

    /// The highest packet, by how many were sent before it, came at `millis`, of those before it `received`.
    fn hears(&mut self, highest: u16, millis: u64, received: u32, ecn_echo: u8) -> (Option<bool>, Told) {
        let message = ScreamFeedback {
            media_ssrc: 7,
            time: ReceptionTime::from_timestamp(at(millis)),
            highest_sequence: 65_530_u16.wrapping_add(highest),
            ecn_echo,
            received,
            ..ScreamFeedback::default()
        };
        self.hears_message(&message)
    }

    fn hears_message(&mut self, message: &ScreamFeedback) -> (Option<bool>, Told) {
        let mut reports = Vec::new();
        let quench = self.acknowledged.on_message(message, &self.rtp, &mut self.history, &mut reports);
        reports.sort_by_key(|report| report.sent.sequence);
        let millis = |time: PeerTimestamp| time.as_nanos() / 1_000_000;
        let told = |one: &PacketReport| (one.sent.sequence, one.arrival.map(millis), one.ecn == Ecn::Ce);
        (quench, reports.iter().map(told).collect())
    }
}

#[test]
fn what_came_is_reported_with_the_time_of_the_highest_and_gaps_as_lost() {
    let mut sent = Sent::new(60);
    // Of 0 to 4 the second is missing.
    let (quench, told) = sent.hears(4, 100, 0b1101 << 28, 0);
    let came = Some(100);
    assert_eq!(quench, Some(false));
    assert_eq!(
        told,
        [(0, came, false), (1, None, false), (2, came, false), (3, came, false), (4, came, false)]
    );
    assert_eq!(sent.history.in_flight(), SIZE * 55);
    // It came after all; and again says nothing.
    assert_eq!(sent.hears(4, 100, 0b1111 << 28, 0).1, [(1, came, false)]);
    assert_eq!(sent.hears(4, 100, 0b1111 << 28, 0).1, []);
    // 6 to 17 lie before the 33 packets: nobody knows of them, but what has been followed is not in flight.
    let (_, told) = sent.hears(50, 200, u32::MAX, 0);
    assert_eq!(told, (18..=50).map(|number| (number, Some(200), false)).collect::<Vec<_>>());
    assert_eq!(sent.history.in_flight(), SIZE * 9);
}

#[test]
fn marks_are_the_difference_of_the_counts_on_what_is_new() {
    let mut sent = Sent::new(1000);
    let marked = |(_, told): (_, Told)| told.iter().filter(|one| one.2).map(|one| one.0).collect::<Vec<_>>();
    assert_eq!(marked(sent.hears(3, 10, 0b111 << 29, 2)), [2, 3]);
    assert_eq!(marked(sent.hears(5, 20, 0b11111 << 27, 2)), []);
    // A message is lost; its marks are not. What is missing is not marked.
    assert_eq!(marked(sent.hears(9, 30, 0b1011_1111 << 24, 5)), [6, 8, 9]);
    // The count wraps: 256 + 1 are 252 more, of which 33 find a packet.
    assert_eq!(marked(sent.hears(300, 40, u32::MAX, 1)).len(), 33);
    assert_eq!(marked(sent.hears(302, 50, u32::MAX, 2)), [302]);
}

#[test]
fn a_message_that_was_overtaken_tells_only_what_came() {
    let mut sent = Sent::new(100);
    let quench = |highest_sequence: u16, ecn_echo, received| ScreamFeedback {
        media_ssrc: 7,
        highest_sequence: 65_530_u16.wrapping_add(highest_sequence),
        ecn_echo,
        source_quench: true,
        received,
        ..ScreamFeedback::default()
    };
    assert_eq!(sent.hears_message(&quench(60, 9, 0)).0, Some(true));
    // 20 came, 19 was late; neither is lost, nor are 247 packets marked.
    let (asks, told) = sent.hears_message(&quench(20, 0, 0b11 << 30 & !(1 << 31)));
    assert_eq!((asks, told), (Some(false), vec![(18, Some(0), false), (20, Some(0), false)]));
    // Of two on the same packet the lower count is the older one.
    assert_eq!(sent.hears_message(&quench(60, 8, 0)).0, Some(false));
    assert_eq!(sent.hears_message(&quench(60, 9, 0)).0, Some(true));
    assert!(sent.hears(61, 100, 0, 9).1.iter().all(|one| !one.2));
    // What was never sent.
    assert_eq!(sent.hears(100, 100, 0, 0), (None, vec![]));
    assert_eq!(sent.hears(u16::MAX, 100, 0, 0), (None, vec![]));
}

#[test]
fn sources_have_one_clock() {
    let mut sent = Sent::new(10);
    let day = 24 * 3_600_000;
    // The clock wraps each 13 h 15 min; messages that say nothing new do not move it.
    assert_eq!(sent.hears(0, 40_000_000, 0, 0).1, [(0, Some(40_000_000), false)]);
    assert_eq!(sent.hears(0, day, 0, 0).1, []);
    let wrapped = 40_000_000 + 20_000_000;
    assert_eq!(sent.hears(1, wrapped, 1 << 31, 0).1, [(1, Some(wrapped), false)]);
}

#[test]
fn a_clock_that_jumps_back_before_its_first_message_is_followed() {
    let mut sent = Sent::new(10);
    assert_eq!(sent.hears(0, 1000, 0, 0).1, [(0, Some(1000), false)]);
    // Nearest to a second is 27 minutes before zero, for 32 bits of 90 kHz are 47 722 s.
    let late = 46_100_000;
    assert_eq!(sent.hears(1, late, 1 << 31, 0).1, [(1, Some(late), false)]);
    assert_eq!(sent.hears(2, late + 20, 0b11 << 30, 0).1, [(2, Some(late + 20), false)]);
}
