//! What the system granted, and the CPU time of a thread.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use giusto_session::probe::wire::ArrivalStamps;
use giusto_units::TimeDelta;
use nix::{sys::utsname::uname, time::ClockId};
use serde::{Serialize, Serializer};

use crate::clock::{self, Clock};

/// A requested value and the granted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Asked<T> {
    /// The requested value.
    pub asked: T,
    /// The granted value.
    pub granted: T,
}

giusto_units::defaults! {
    /// What the system granted: part of every result, because precision depends on it.
    ///
    /// [`UdpSocket::granted`](crate::UdpSocket::granted) fills in the fields of a socket,
    /// [`Sleeper::describe`](crate::Sleeper::describe) those of a thread.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Granted {
        /// The timer slack of the sending thread, in nanoseconds; `None` if not requested.
        pub timer_slack_ns: Option<u64> = None,
        /// The time slice of the sending thread, in nanoseconds: a thread with a short slice runs sooner after it
        /// wakes. `None` if not requested, or not supported by the kernel.
        pub time_slice_ns: Option<u64> = None,
        /// The real-time priority of the sending thread, 0 for none; `None` if not requested.
        pub realtime_priority: Option<Asked<u8>> = None,
        /// The send buffer, in bytes; `None` for the system's default.
        pub send_buffer_bytes: Option<Asked<u64>> = None,
        /// The receive buffer, in bytes; `None` for the system's default.
        pub receive_buffer_bytes: Option<Asked<u64>> = None,
        /// What timestamps arrivals.
        pub receive_timestamps: Stamper = Stamper::Program,
        /// Whether the kernel supports `UDP_SEGMENT`. A route may still not support it: then datagrams are sent
        /// one by one, and counted.
        pub segmentation_offload: bool = false,
        /// Whether the kernel delivers runs of datagrams as one message (`UDP_GRO`).
        pub receive_offload: bool = false,
        /// Whether the kernel counts the messages that it dropped at the socket.
        pub drop_counts: bool = false,
        /// Whether DSCP and ECN of arrivals are reported.
        pub receive_traffic_class: bool = false,
        /// Whether a time service keeps the system's clock synchronised; `None` if the kernel does not answer.
        pub clock_synchronised: Option<bool> = Clock::synchronisation().ok().map(|state| state.synchronised),
        /// The release of the kernel.
        pub kernel_release: String = uname()
            .map(|name| name.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        /// Cores that this process may use.
        pub cores: usize = std::thread::available_parallelism().map_or(1, usize::from),
    }
    /// The system before any request.
    pub fn of_this_system();
}

/// How many arrivals of a socket a card has stamped.
#[derive(Debug)]
pub struct CardStamps {
    /// `eth0 (ptp0)`.
    name: String,
    stamped: AtomicU64,
    arrived: AtomicU64,
}

impl CardStamps {
    pub(crate) const fn new(name: String) -> Self {
        Self { name, stamped: AtomicU64::new(0), arrived: AtomicU64::new(0) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Adds messages that have arrived, and those of them that the card stamped.
    pub(crate) fn add(&self, arrived: u64, stamped: u64) {
        self.arrived.fetch_add(arrived, Relaxed);
        self.stamped.fetch_add(stamped, Relaxed);
    }
}

/// What timestamps the arrivals of a socket.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Stamper {
    /// This program, when it reads them.
    Program,
    /// The kernel.
    Kernel,
    /// The card, and the kernel where it does not: it is said how many.
    Card(Arc<CardStamps>),
}

impl fmt::Display for Stamper {
    /// `card eth0 (ptp0)`, `kernel` or `program`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Card(card) = self else {
            return f.write_str(if matches!(self, Self::Kernel) { "kernel" } else { "program" });
        };
        match (card.stamped.load(Relaxed), card.arrived.load(Relaxed)) {
            (0, 1..) => f.write_str("kernel"),
            (stamped, arrived) if stamped < arrived => {
                write!(f, "card {}, {} of {arrived} by the kernel", card.name, arrived - stamped)
            }
            _ => write!(f, "card {}", card.name),
        }
    }
}

impl Stamper {
    /// The same for a report, which names no interface.
    pub(crate) fn of_arrivals(&self) -> ArrivalStamps {
        match self {
            Self::Program => ArrivalStamps::Program,
            Self::Kernel => ArrivalStamps::Kernel,
            Self::Card(card) => match (card.stamped.load(Relaxed), card.arrived.load(Relaxed)) {
                (0, 1..) => ArrivalStamps::Kernel,
                (stamped, messages) => {
                    ArrivalStamps::Card { messages, by_kernel: messages.saturating_sub(stamped) }
                }
            },
        }
    }
}

impl PartialEq for Stamper {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Serialize for Stamper {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The CPU time of the calling thread.
///
/// # Example
///
/// ```
/// use giusto_net::{Clock, ThreadCpu};
///
/// let (clock, cpu) = (Clock::start(), ThreadCpu::start());
/// let ratio = cpu.used().as_seconds() / clock.now().as_seconds();
/// assert!(ratio >= 0.0);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ThreadCpu {
    begun: u64,
}

impl ThreadCpu {
    /// Starts counting.
    pub fn start() -> Self {
        Self { begun: clock::read(ClockId::CLOCK_THREAD_CPUTIME_ID) }
    }

    /// CPU time, user and system, of the *calling* thread since the start. Call it in the thread that started it.
    pub fn used(self) -> TimeDelta {
        let now = clock::read(ClockId::CLOCK_THREAD_CPUTIME_ID);
        TimeDelta::from_nanos(i64::try_from(now.saturating_sub(self.begun)).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_cpu_time() {
        let cpu = ThreadCpu::start();
        let mut sum = 0_u64;
        while cpu.used() < TimeDelta::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }

    #[test]
    fn what_the_card_did_not_stamp_is_said() {
        let counts = Arc::new(CardStamps::new("eth0 (ptp0)".to_owned()));
        let said = || Stamper::Card(Arc::clone(&counts)).to_string();
        assert_eq!(said(), "card eth0 (ptp0)");
        counts.add(3, 0);
        let told = || Stamper::Card(Arc::clone(&counts)).of_arrivals().to_string();
        assert_eq!([said(), told()], ["kernel", "kernel"], "its driver stamps nothing");
        counts.add(7, 7);
        assert_eq!(said(), "card eth0 (ptp0), 3 of 10 by the kernel");
        assert_eq!(told(), "card, 3 of 10 by the kernel", "the far end need not know the interface");
        assert_eq!([Stamper::Kernel, Stamper::Program].map(|by| by.to_string()), ["kernel", "program"]);
    }

    #[test]
    fn the_system_is_described() {
        let granted = Granted::of_this_system();
        assert!(granted.cores >= 1);
        assert!(!granted.kernel_release.is_empty());
    }
}
