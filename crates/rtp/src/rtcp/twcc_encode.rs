//! Encodes arrival times as transport-wide feedback in packets of limited size.

use giusto_units::Timestamp;

use super::{
    twcc::{
        ArrivalTicks, MAX_STATUSES, TICKS_PER_REFERENCE, TransportFeedback, nearest_tick, packet_bytes,
        wrapped_reference,
    },
    twcc_chunks::{Status, StatusChunks},
};

/// Maximum gap before an arrival, half of the sequence numbers: with a larger gap old and new numbers could
/// not be distinguished (libwebrtc has the same limit).
const MAX_GAP: u64 = 1 << 15;
/// Length of a packet that can contain any first arrival with any gap before it: five chunks and a delta.
const MIN_BYTES: usize = packet_bytes(5, 2);

/// A received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Arrival {
    /// Its transport-wide sequence number, unwrapped to 64 bits.
    pub sequence: u64,
    /// Its arrival time on the local clock.
    pub at: Timestamp,
}

/// Progress of one feedback packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Encoded {
    /// Number of arrivals processed: reported, or skipped as duplicates or as too early.
    pub arrivals: usize,
    /// Sequence number after the last reported one: the start of the next feedback.
    pub next: u64,
}

/// Encodes arrivals as [`TransportFeedback`].
///
/// Times are rounded to the nearest 250 µs, so that errors do not add up within a packet. A message ends at
/// its last arrival. It ends early if the next arrival would make it too large, is 8.2 s or more from the
/// previous one, or 32 768 numbers after it.
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
    max_bytes: usize,
    feedback_count: u8,
}

impl TransportFeedbackEncoder {
    /// An encoder for packets of at most `max_bytes` bytes, but no less than 32.
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes.max(MIN_BYTES), feedback_count: 0 }
    }

    /// Fills `feedback` with the arrivals from sequence number `first` on, as many as fit, and returns the
    /// progress. Returns `None` if there is nothing to report, which leaves `feedback` unchanged. Its two
    /// sources are kept, and its memory is reused.
    ///
    /// `arrivals` are in order of their sequence numbers; of several with the same number the first one
    /// counts. Numbers below `first` are skipped. To report a late packet, start at its number again. Call
    /// again with the remaining arrivals and with [`next`](Encoded::next) as `first` until none is left.
    pub fn encode(
        &mut self,
        first: u64,
        arrivals: &[Arrival],
        feedback: &mut TransportFeedback,
    ) -> Option<Encoded> {
        let passed = arrivals.iter().take_while(|arrival| arrival.sequence < first).count();
        let start = arrivals.get(passed)?;
        let base = if start.sequence - first < MAX_GAP { first } else { start.sequence };
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
            if missing >= MAX_GAP || arrival.sequence - base >= MAX_STATUSES as u64 {
                break;
            }
            let status = Status::of(delta);
            let mut tried = chunks;
            for _ in 0..missing {
                tried.push(Status::Missing);
            }
            tried.push(status);
            if packet_bytes(tried.chunks(), delta_bytes + status.delta_bytes()) > self.max_bytes {
                break;
            }
            chunks = tried;
            delta_bytes += status.delta_bytes();
            feedback.packets.extend(core::iter::repeat_n(None, missing as usize));
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
