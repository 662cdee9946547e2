//! Priorities of streams.

/// Which of two groups of frames goes first. Quinn sends the stream of the highest priority first, retransmissions included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The newest, for calls: a group begins with a key frame, so older frames are no longer needed.
    #[default]
    NewestFirst,
    /// The oldest, for what is to be seen whole.
    OldestFirst,
}

/// Priority of a stream that is not media: below all groups.
pub const BULK: i32 = i32::MIN;
/// Priority of audio or control messages: above all groups.
pub const URGENT: i32 = i32::MAX;

/// The priority of the stream of group number `group`, for quinn's `SendStream::set_priority`.
///
/// # Example
///
/// ```
/// use giusto_quinn::priority::{self, Order};
///
/// assert!(priority::of_group(Order::NewestFirst, 8) > priority::of_group(Order::NewestFirst, 7));
/// assert!(priority::of_group(Order::OldestFirst, 8) < priority::of_group(Order::OldestFirst, 7));
/// assert!(priority::of_group(Order::OldestFirst, u64::MAX) > priority::BULK);
/// ```
pub fn of_group(order: Order, group: u64) -> i32 {
    let number = i32::try_from(group).unwrap_or(i32::MAX).min(URGENT - 1);
    match order {
        Order::NewestFirst => number,
        Order::OldestFirst => -number,
    }
}
