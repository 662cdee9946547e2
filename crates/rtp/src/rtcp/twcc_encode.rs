//! From times of arrival to transport-wide feedback, in packets of a size.

use giusto_units::Timestamp;

use super::{
    twcc::{
        ArrivalTicks, MOST_STATUSES, TICKS_PER_REFERENCE, TransportFeedback, nearest_tick, packet_bytes,
        wrapped_reference,
    },
    twcc_chunks::{Status, StatusChunks},
};

/// The longest gap before an arrival that feedback can show, half the sequence numbers: across more, nobody could tell old
/// from new (libwebrtc keeps the same limit).
const LONGEST_GAP: u64 = 1 << 15;
/// A packet that takes any first arrival with any gap before it: five chunks and a delta.
const LEAST_BYTES: usize = packet_bytes(5, 2);

/// A packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Its transport-wide sequence number, made 64 bits wide.
    pub sequence: u64,
    /// When it arrived, on our clock.
    pub at: Timestamp,
}

/// How far one feedback packet reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoded {
    /// How many of the arrivals were used up: told of, or left out as duplicates or as too early.
    pub arrivals: usize,
    /// The sequence number behind the last that was told of: where the next feedback begins.
    pub next: u64,
}

/// Turns arrivals into [`TransportFeedback`].
///
/// Times are rounded to the nearest 250 µs, so that errors do not add up along a packet. A feedback ends at its last arrival,
/// and early where the next one would make it too large, lies 8.2 s or more from the one before it, or 32 768 numbers behind.
///
/// # Example
///
/// ```
/// use giusto_rtp::rtcp::{Arrival, TransportFeedback, TransportFeedbackEncoder};
/// use giusto_units::Timestamp;
///
/// let mut encoder = TransportFeedbackEncoder::new(1200);
/// let at = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
/// let arrivals = [Arrival { sequence: 10, at: at(64) }, Arrival { sequence: 12, at: at(65) }];
/// let mut feedback = TransportFeedback { sender_ssrc: 1, media_ssrc: 2, ..TransportFeedback::default() };
/// let encoded = encoder.encode(10, &arrivals, &mut feedback).expect("something arrived");
/// let mut datagram = Vec::new();
/// feedback.write(&mut datagram)?;
/// assert_eq!((encoded.arrivals, encoded.next, datagram.len()), (2, 13, 24));
/// # Ok::<(), giusto_rtp::rtcp::RtcpError>(())
/// ```
#[derive(Debug, Clone)]
pub struct TransportFeedbackEncoder {
    most_bytes: usize,
    feedback_count: u8,
}

impl TransportFeedbackEncoder {
    /// Fills feedback whose packet takes at most `most_bytes` bytes, or 32 where that is less.
    pub fn new(most_bytes: usize) -> Self {
        Self { most_bytes: most_bytes.max(LEAST_BYTES), feedback_count: 0 }
    }

    /// Fills `feedback` with what arrived from sequence number `first` on, as much as fits; gives how far that is, or `None`
    /// where nothing is to be told, which leaves `feedback` as it was. Its two sources stay as they are, and its memory is
    /// used again.
    ///
    /// `arrivals` are in order of their sequence numbers; of several with the same number the first one counts. Numbers below
    /// `first` are passed over; to tell of a packet that came late, begin at its number again. Call again with the rest, and with [`next`](Encoded::next) as `first`, until nothing is left.
    pub fn encode(
        &mut self,
        first: u64,
        arrivals: &[Arrival],
        feedback: &mut TransportFeedback,
    ) -> Option<Encoded> {
        let passed = arrivals.iter().take_while(|arrival| arrival.sequence < first).count();
        let start = arrivals.get(passed)?;
        let base = if start.sequence - first < LONGEST_GAP { first } else { start.sequence };
        let reference = nearest_tick(start.at).div_euclid(TICKS_PER_REFERENCE);

        feedback.packets.clear();
        let mut used = passed;
        let mut next = base;
        let mut before = reference * TICKS_PER_REFERENCE;
        let (mut chunks, mut delta_bytes) = (StatusChunks::new(), 0);
        for arrival in arrivals.iter().skip(passed) {
            if arrival.sequence < next {
                used += 1;
                continue;
            }
            let missing = arrival.sequence - next;
            let tick = nearest_tick(arrival.at);
            let Ok(delta) = i16::try_from(tick - before) else { break };
            if missing >= LONGEST_GAP || arrival.sequence - base >= MOST_STATUSES as u64 {
                break;
            }
            let status = Status::of(delta);
            let mut tried = chunks;
            for _ in 0..missing {
                tried.push(Status::Missing);
            }
            tried.push(status);
            if packet_bytes(tried.chunks(), delta_bytes + status.delta_bytes()) > self.most_bytes {
                break;
            }
            chunks = tried;
            delta_bytes += status.delta_bytes();
            feedback.packets.extend(std::iter::repeat_n(None, missing as usize));
            // At most 65 535 steps of 16 bits from the reference.
            feedback.packets.push(Some(ArrivalTicks::new((tick - reference * TICKS_PER_REFERENCE) as i32)));
            (before, next, used) = (tick, arrival.sequence + 1, used + 1);
        }
        feedback.base_sequence = base as u16;
        feedback.reference_time = wrapped_reference(reference);
        feedback.feedback_count = self.feedback_count;
        self.feedback_count = self.feedback_count.wrapping_add(1);
        Some(Encoded { arrivals: used, next })
    }
}
