//! Bounds of the frames of encoder models.

use giusto_units::{DataSize, TimeDelta};

/// Minimum frame size (RFC 8593 §6.2.1, `fs_min`).
pub const FRAME_MIN: DataSize = DataSize::from_bytes(10);
/// Maximum frame size of a trace (RFC 8593 §6.2.1, `fs_max`).
pub const FRAME_MAX: DataSize = DataSize::from_bytes(1_000_000);
/// Maximum lateness of a poll: older frames with a due successor are skipped.
///
/// Chosen by us: three frames at 30 Hz, and well above the delays of an ordinary scheduler.
pub const LATENESS_MAX: TimeDelta = TimeDelta::from_millis(100);
