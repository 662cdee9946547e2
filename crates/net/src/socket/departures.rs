//! When datagrams leave: the kernel's driver or the card stamps samples of them (`MSG_ERRQUEUE`).

use std::{
    io,
    os::fd::AsFd,
    sync::{Mutex, MutexGuard, PoisonError},
};

use giusto_measure::ErrorHistogram;
use giusto_units::Timestamp;

use super::{
    UdpSocket,
    stamping::{self, departed},
};
use crate::{
    Clock, StampConverter,
    sys::{self, MESSAGES_PER_CALL, Slot},
};

/// How long after the time that they carry the sampled datagrams of a socket left.
#[derive(Debug, Clone)]
pub struct DepartureLag {
    /// The time from writing a datagram until it left.
    pub lag: ErrorHistogram,
    /// Whose stamps those are: `kernel` (its driver), or `card` with the interface and its clock.
    pub stamped_by: String,
}

/// The samples of a socket.
#[derive(Debug, Default)]
pub(super) struct Departures(Mutex<Samples>);

#[derive(Debug, Default)]
struct Samples {
    /// What the datagram whose stamp is awaited says of its departure.
    written: Option<Timestamp>,
    stamps: Option<StampConverter>,
    lag: Option<ErrorHistogram>,
    by_card: u64,
    by_kernel: u64,
}

impl Departures {
    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A datagram that is sent while this exists is a sample.
pub(crate) struct Sample<'a> {
    socket: &'a UdpSocket,
    samples: MutexGuard<'a, Samples>,
}

impl Sample<'_> {
    /// It was sent, and says that it left at `written`. Those after it are no samples.
    pub(crate) fn sent(mut self, written: Timestamp) {
        self.samples.written = Some(written);
        // Where the kernel refuses, more stamps come, which are passed over.
        let _ = self.socket.ask_for_departures(false);
    }
}

impl UdpSocket {
    /// Asks for stamps of what is sent from now on, ahead of a [`sample`](Self::sample): that takes some microseconds. Returns whether
    /// they come, which is so only with [`sample_departures`](super::SocketConfig::sample_departures).
    pub(crate) fn begin_sample(&self, clock: Clock) -> bool {
        if !self.config.sample_departures {
            return false;
        }
        // The thread that sends does not wait for the one that reads stamps.
        let Ok(mut samples) = self.departures.0.try_lock() else { return false };
        samples.stamps.get_or_insert_with(|| StampConverter::new(clock));
        samples.written = None;
        self.ask_for_departures(true).is_ok()
    }

    /// Makes the next datagram a sample, unless the stamps are just being read.
    pub(crate) fn sample(&self) -> Option<Sample<'_>> {
        self.departures.0.try_lock().ok().map(|samples| Sample { socket: self, samples })
    }

    fn ask_for_departures(&self, ask: bool) -> io::Result<()> {
        sys::set_timestamping(self.as_fd(), stamping::flags(self.card().map(|card| &**card), ask))
    }

    /// Reads the stamp that was asked for, if it has come. While it has not been read, the socket counts as readable.
    pub(crate) fn take_sample(&self, clock: Clock) {
        let mut samples = self.departures.lock();
        if !self.config.sample_departures || samples.stamps.is_none() {
            return;
        }
        let (mut payload, mut slots) = ([0; MESSAGES_PER_CALL], [Slot::EMPTY; 8]);
        while let Ok(taken) =
            sys::receive_flagged(self.as_fd(), &mut payload, 1, &mut slots, libc::MSG_ERRQUEUE)
        {
            for slot in slots.iter().take(taken) {
                if let Some(stamps) = departed(slot.control.messages()) {
                    let of_card = stamps.card.zip(self.card());
                    let of_card = of_card.map(|(time, card)| card.line().system(time));
                    samples.add(of_card, stamps.kernel, clock.now());
                }
            }
            if taken < slots.len() {
                break;
            }
        }
    }

    /// What the samples say; `None` without any.
    pub fn departure_lag(&self) -> Option<DepartureLag> {
        let samples = self.departures.lock();
        let card = self.card().map(|card| &**card);
        let stamped_by = stamping::departures_by(card, samples.by_card, samples.by_kernel);
        Some(DepartureLag { lag: samples.lag.clone()?, stamped_by })
    }
}

impl Samples {
    /// Takes the stamps of a departure; those of the card are the better ones.
    fn add(&mut self, card: Option<u64>, kernel: Option<u64>, now: Timestamp) {
        let Some((stamps, written)) = self.stamps.as_mut().zip(self.written) else { return };
        let Some(stamp) = card.or(kernel) else { return };
        stamps.refresh(now);
        let left = stamps.convert(stamp, now);
        // One of a datagram before.
        if left < written {
            return;
        }
        self.written = None;
        self.lag.get_or_insert_with(ErrorHistogram::new).record_many(left - written, 1);
        if card.is_some() { self.by_card += 1 } else { self.by_kernel += 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use giusto_units::TimeDelta;

    use super::*;
    use crate::{ReceiveBatch, SocketConfig, Wait};

    const SECOND: TimeDelta = TimeDelta::from_seconds(1);

    #[test]
    fn the_kernel_stamps_departures_on_loopback() {
        let config = SocketConfig { sample_departures: true, ..SocketConfig::default() };
        for home in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(receiver) = UdpSocket::bind(home.parse().unwrap(), &SocketConfig::default()) else {
                eprintln!("SKIPPED departures at {home}: the system has no such address");
                continue;
            };
            let sender = UdpSocket::connected(receiver.local_addr(), &config).unwrap();
            let (clock, mut batch) = (Clock::start(), ReceiveBatch::new(4, 100));
            sender.send(b"not sampled").unwrap();
            let sampled = 20;
            for _ in 0..sampled {
                assert!(sender.begin_sample(clock));
                // Stamped, and too early to be meant.
                sender.send(b"a message of another thread").unwrap();
                let sample = sender.sample().unwrap();
                assert!(sender.sample().is_none(), "one at a time");
                let written = clock.now();
                // The first one counts, also of a run.
                sender.send_segments(None, &[1; 300], 100, crate::Grouping::Each).unwrap();
                sample.sent(written);
                sender.send(b"not sampled").unwrap();
                while sender.departures.lock().written.is_some() && clock.now() - written < SECOND {
                    sender.take_sample(clock);
                }
                // Nothing is left that would make the socket readable.
                assert_eq!(sender.recv_batch(&mut batch, Wait::For(Duration::ZERO)).unwrap(), 0);
            }
            let DepartureLag { lag, stamped_by } =
                sender.departure_lag().expect("loopback stamps departures");
            let found = lag.quantiles().unwrap();
            assert_eq!((stamped_by.as_str(), lag.count()), ("kernel", sampled));
            // From before the call until the driver of loopback: some microseconds, on a busy machine more.
            assert!(found.p50 > TimeDelta::ZERO && found.max < SECOND, "{found:?}");
        }
    }

    #[test]
    fn a_socket_that_does_not_sample_has_no_lag() {
        let socket = UdpSocket::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default()).unwrap();
        let clock = Clock::start();
        assert!(!socket.begin_sample(clock));
        socket.take_sample(clock);
        assert!(socket.departure_lag().is_none());
    }

    #[test]
    fn a_late_stamp_is_not_that_of_the_next_datagram() {
        let clock = Clock::start();
        let written = clock.now();
        let mut samples = Samples {
            written: Some(written),
            stamps: Some(StampConverter::new(clock)),
            ..Samples::default()
        };
        let origin = clock.origin_realtime_nanos();
        let now = written + TimeDelta::from_millis(50);
        samples.add(None, Some(origin.saturating_sub(1_000_000)), now);
        assert!(samples.lag.is_none() && samples.written.is_some());
        let left = origin + written.as_nanos() + 2_000_000;
        samples.add(Some(left), Some(left + 5_000_000), now);
        let lag = samples.lag.as_ref().unwrap().quantiles().unwrap().p50.as_millis();
        assert!((1.9..2.1).contains(&lag), "{lag}");
        assert_eq!((samples.by_card, samples.by_kernel, samples.written), (1, 0, None));
        samples.add(Some(left), None, now);
        assert_eq!(samples.by_card, 1, "of nothing that was asked for");
    }
}
