//! Time, rate, size and ECN codepoints, each as a type of its own.
//!
//! Only SI prefixes are known: 1 kbit/s is 1000 bit/s, 1 kB is 1000 bytes. Times are whole nanoseconds, rates whole bits
//! per second, sizes whole bytes. A time that data takes rounds *up* and the data that fits a time rounds *down*, so that a
//! rate is never exceeded by rounding.
//!
//! # Example
//!
//! ```
//! use giusto_units::{DataRate, DataSize, TimeDelta};
//!
//! let rate: DataRate = "3 Mbit/s".parse()?;
//! let size: DataSize = "1200 B".parse()?;
//! assert_eq!(rate.time_for(size), Some(TimeDelta::from_micros(3200)));
//! assert_eq!(rate.to_string(), "3 Mbit/s");
//! # Ok::<(), giusto_units::UnitError>(())
//! ```

mod ecn;
mod quantity;

pub use ecn::Ecn;
pub use quantity::{DataRate, DataSize, NANOS_PER_SECOND, PeerTimestamp, TimeDelta, Timestamp, UnitError};
