//! What the system granted of what was asked for, and what a thread cost.

use giusto_units::TimeDelta;
use nix::{sys::utsname::uname, time::ClockId};
use serde::Serialize;

use crate::clock::{self, Clock};

/// Something asked for, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Asked<T> {
    /// What was asked for.
    pub asked: T,
    /// What the system gave.
    pub granted: T,
}

/// What the system granted: part of every result, for it tells how far the result can be trusted.
///
/// A socket fills in its part ([`UdpSocket::granted`](crate::UdpSocket::granted)), a sleeper the thread's
/// ([`Sleeper::describe`](crate::Sleeper::describe)).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one answer of the kernel's, and a field of the result"
)]
pub struct Granted {
    /// How much later than asked the kernel may wake the sending thread on purpose, in nanoseconds; `None` if not asked.
    pub timer_slack_ns: Option<u64>,
    /// The time slice that the sending thread asked for and has, in nanoseconds: a short one lets it in sooner when it wakes
    /// on a busy machine. `None` if not asked, or not known to the kernel.
    pub time_slice_ns: Option<u64>,
    /// The real-time priority of the sending thread, 0 for none; `None` if not asked.
    pub realtime_priority: Option<Asked<u8>>,
    /// Room for datagrams on their way out, in bytes; `None` where the system's default was left.
    pub send_buffer_bytes: Option<Asked<u64>>,
    /// Room for datagrams that wait to be read, in bytes; `None` where the system's default was left.
    pub receive_buffer_bytes: Option<Asked<u64>>,
    /// The kernel stamps arrivals.
    pub kernel_timestamps: bool,
    /// The kernel knows `UDP_SEGMENT`. A route may still refuse it: then datagrams are sent one by one, and counted.
    pub segmentation_offload: bool,
    /// The kernel hands over runs of datagrams as one message.
    pub receive_offload: bool,
    /// The kernel counts what it dropped at the socket.
    pub drop_counts: bool,
    /// DSCP and ECN of arrivals are reported.
    pub receive_traffic_class: bool,
    /// The kernel says that the system's clock is kept synchronised; `None` where it does not answer.
    pub clock_synchronised: Option<bool>,
    /// The release of the kernel.
    pub kernel_release: String,
    /// Cores that this process may use.
    pub cores: usize,
}

impl Granted {
    /// What is known of the system before anything was asked for.
    pub fn of_this_system() -> Self {
        Self {
            timer_slack_ns: None,
            time_slice_ns: None,
            realtime_priority: None,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
            kernel_timestamps: false,
            segmentation_offload: false,
            receive_offload: false,
            drop_counts: false,
            receive_traffic_class: false,
            clock_synchronised: Clock::synchronisation().ok().map(|state| state.synchronised),
            kernel_release: uname()
                .map(|name| name.release().to_string_lossy().into_owned())
                .unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The processor time of the calling thread, from its creation on.
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
    /// Counts from now on.
    pub fn start() -> Self {
        Self { begun: clock::read(ClockId::CLOCK_THREAD_CPUTIME_ID) }
    }

    /// Processor time, user and system, that the *calling* thread used since the start. Ask in the thread that started it.
    pub fn used(self) -> TimeDelta {
        let now = clock::read(ClockId::CLOCK_THREAD_CPUTIME_ID);
        TimeDelta::from_nanos(i64::try_from(now.saturating_sub(self.begun)).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_processor_time() {
        let cpu = ThreadCpu::start();
        let mut sum = 0_u64;
        while cpu.used() < TimeDelta::from_millis(2) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }

    #[test]
    fn the_system_is_described() {
        let granted = Granted::of_this_system();
        assert!(granted.cores >= 1);
        assert!(!granted.kernel_release.is_empty());
    }
}
