//! Jumps of a clock, which would look like a queue.

use giusto_units::TimeDelta;

/// Maximum error of the feedback: its resolution, 1/1024 s in RFC 8888 §3.1 and 1/90000 s in the SCReAM draft's message, and clock corrections.
const INEXACT: TimeDelta = TimeDelta::from_millis(10);

/// Whether the clock of the receiver has jumped: the queueing delay of a packet cannot exceed the time `since` it was sent. If it appears to,
/// delays before and after cannot be compared, and the base delay must be measured again. This rule is ours.
pub(crate) fn has_jumped(queueing: TimeDelta, since: TimeDelta) -> bool {
    queueing > since + INEXACT
}
