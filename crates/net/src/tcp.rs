//! What the kernel knows of a TCP connection.

use std::{io, os::fd::AsFd, time::Duration};

use giusto_units::{DataSize, TimeDelta};
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};

use crate::sys::tcp::tcp_info;

/// Figures of a TCP connection at this end, from `TCP_INFO` (`linux/tcp.h`). What an old kernel lacks is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpFigures {
    /// The smoothed round-trip time.
    pub rtt: TimeDelta,
    /// The smallest round-trip time of late.
    pub min_rtt: Option<TimeDelta>,
    /// The congestion window, in segments.
    pub window_segments: u32,
    /// Segments sent again, in total.
    pub retransmitted_segments: u32,
    /// Data that the peer has acknowledged.
    pub acked: Option<DataSize>,
}

/// Waits until something can be read or accepted, at most for `limit`. A signal ends it early.
pub fn await_readable(socket: impl AsFd, limit: Duration) {
    let mut wanted = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    // The next read finds out.
    let _ = ppoll(&mut wanted, Some(TimeSpec::from_duration(limit)), None);
}

impl TcpFigures {
    /// Those of this connection.
    ///
    /// # Errors
    ///
    /// The kernel's, if `socket` is no TCP socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let mut info = [0; 256];
        let length = tcp_info(socket.as_fd(), &mut info)?;
        Ok(Self::read(info.get(..length).unwrap_or(&info)))
    }

    /// From the bytes of a `struct tcp_info`.
    fn read(info: &[u8]) -> Self {
        let u32_at =
            |at: usize| info.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
        let u64_at =
            |at: usize| info.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
        let micros = |micros: u32| TimeDelta::from_micros(micros.into());
        Self {
            rtt: micros(u32_at(68).unwrap_or(0)),
            // Without a sample it is the largest number.
            min_rtt: u32_at(148).filter(|micros| *micros != u32::MAX).map(micros),
            window_segments: u32_at(80).unwrap_or(0),
            retransmitted_segments: u32_at(100).unwrap_or(0),
            acked: u64_at(120).map(DataSize::from_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream, UdpSocket},
    };

    use super::*;

    #[test]
    fn the_kernel_counts_what_was_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 10_000]).unwrap();
        let mut read = [0; 10_000];
        far.read_exact(&mut read).unwrap();
        far.write_all(b"x").unwrap();
        near.read_exact(&mut [0]).unwrap();
        let figures = TcpFigures::of(&near).unwrap();
        // The SYN counts as one byte.
        let acked = figures.acked.unwrap().as_bytes();
        assert!((10_000..=10_001).contains(&acked), "{figures:?}");
        assert!(figures.rtt > TimeDelta::ZERO && figures.rtt < TimeDelta::from_seconds(5), "{figures:?}");
        assert!(figures.min_rtt.unwrap() <= figures.rtt + TimeDelta::from_seconds(1), "{figures:?}");
        assert!(figures.window_segments >= 1);
        assert!(TcpFigures::of(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }

    #[test]
    fn a_short_answer_of_an_old_kernel_is_no_zero() {
        let mut info = [0; 104];
        info[68..72].copy_from_slice(&1_500_u32.to_ne_bytes());
        info[100..104].copy_from_slice(&3_u32.to_ne_bytes());
        let figures = TcpFigures::read(&info);
        assert_eq!((figures.rtt, figures.retransmitted_segments), (TimeDelta::from_micros(1_500), 3));
        assert_eq!((figures.acked, figures.min_rtt), (None, None));
    }
}
