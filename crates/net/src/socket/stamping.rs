//! Timestamps of network cards: which interface has them, what they mean, and what the kernel says of each datagram.
//!
//! Control messages and flags: `Documentation/networking/timestamping.rst` of Linux.

use std::{
    fs::File,
    net::SocketAddr,
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, PoisonError},
};

use giusto_units::NANOS_PER_SECOND;
use nix::net::if_::{if_indextoname, if_nameindex, if_nametoindex};

use super::{
    SocketConfig,
    launch::interface_to,
    lending::{Cards, LOANS, Lent, Machine, Use},
};
use crate::{
    Clock,
    sys::card::{self, Abilities, FILTER_ALL, FILTER_NONE, Reading, Setting, TRANSMIT_OFF, TRANSMIT_ON},
    system::CardStamps,
};

/// What a socket asks for while it only receives, and of the answers to what it sends.
const REPORTS: u32 = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY;
const CARD_REPORTS: u32 =
    libc::SOF_TIMESTAMPING_RAW_HARDWARE | libc::SOF_TIMESTAMPING_RX_HARDWARE | OPT_PKTINFO;
/// `linux/net_tstamp.h`, `asm-generic/socket.h` and `linux/errqueue.h`; `libc` lacks them.
const OPT_PKTINFO: u32 = 1 << 13;
/// `SCM_TSTAMP_SND`: the driver or the card has sent it.
const TSTAMP_SND: u32 = 0;
const SCM_TIMESTAMPING_PKTINFO: i32 = 58;

/// The clock of a card is read so often: its speed and the system's may differ by 100 ppm.
const REFRESH_NANOS: u64 = 100_000_000;

/// The stamps of one message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stamps {
    /// `CLOCK_REALTIME` at the driver, in nanoseconds.
    pub(super) kernel: Option<u64>,
    /// The time of the card's clock, in nanoseconds.
    pub(super) card: Option<u64>,
}

impl Stamps {
    /// From the content of `SCM_TIMESTAMPING`: three times, the second of which is no longer used. One of zero is none.
    pub(super) fn read(content: &[u8]) -> Self {
        let time = |index: usize| content.get(16 * index..).and_then(timespec).filter(|nanos| *nanos > 0);
        Self { kernel: time(0), card: time(2) }
    }
}

/// A `struct timespec` of two longs of 64 bits, in nanoseconds.
pub(super) fn timespec(content: &[u8]) -> Option<u64> {
    let field = |at: usize| u64::try_from(i64::from_ne_bytes(*content.get(at..)?.first_chunk()?)).ok();
    field(0)?.checked_mul(NANOS_PER_SECOND)?.checked_add(field(8)?)
}

/// The stamps of a datagram that has left, from a message of the error queue; `None` of any other message.
pub(super) fn departed<'a>(messages: impl Iterator<Item = (i32, i32, &'a [u8])>) -> Option<Stamps> {
    let (mut stamps, mut is_departure) = (None, false);
    for (level, kind, content) in messages {
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => stamps = Some(Stamps::read(content)),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                // `struct sock_extended_err`: errno, origin, type, code, padding, info, data.
                is_departure = content.get(4) == Some(&libc::SO_EE_ORIGIN_TIMESTAMPING)
                    && content.get(8..12) == Some(&TSTAMP_SND.to_ne_bytes()[..]);
            }
            _ => {}
        }
    }
    stamps.filter(|_| is_departure)
}

/// Which stamps an interface gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Choice {
    receives: bool,
    transmits: bool,
}

/// What `found` can do as it is set now.
fn choose(found: &Abilities, now: Setting) -> Choice {
    let has = |flags: u32| found.clock >= 0 && found.flags & flags == flags;
    let raw = libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    Choice {
        receives: has(raw | libc::SOF_TIMESTAMPING_RX_HARDWARE) && now.receive == FILTER_ALL,
        transmits: has(raw | libc::SOF_TIMESTAMPING_TX_HARDWARE) && now.transmit == TRANSMIT_ON,
    }
}

/// What to set an interface to, so that it gives the most stamps; `None` where that is so already, or another program has chosen what
/// it needs: a card has one setting for all.
fn wanted(found: &Abilities, now: Setting) -> Option<Setting> {
    let can = |bits: u32, bit: i32| bits & 1 << bit != 0;
    let is_free = [FILTER_NONE, FILTER_ALL].contains(&now.receive)
        && [TRANSMIT_OFF, TRANSMIT_ON].contains(&now.transmit);
    let best = Setting {
        transmit: if can(found.transmit, TRANSMIT_ON) { TRANSMIT_ON } else { now.transmit },
        receive: if can(found.receive, FILTER_ALL) { FILTER_ALL } else { now.receive },
    };
    (is_free && best != now && choose(found, now) != choose(found, best)).then_some(best)
}

/// A card's time as the system's, by two readings: the card's clock may have another speed, and another zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    last: Reading,
    /// How much more the system's clock advances than the card's, of 2^40.
    slope: i64,
}

impl Line {
    const UNIT: i128 = 1 << 40;
    /// Clocks of cards are adjusted by less (`max_adj` is mostly below 0.1): more is a step.
    const MAX_SLOPE: i128 = Self::UNIT / 100;

    pub(super) const fn new(first: Reading) -> Self {
        Self { last: first, slope: 0 }
    }

    fn learn(&mut self, reading: Reading) {
        let card = i128::from(reading.card) - i128::from(self.last.card);
        let system = i128::from(reading.system) - i128::from(self.last.system);
        let slope = if card > 0 { (system - card) * Self::UNIT / card } else { Self::UNIT };
        // After a step of either clock the speed is as before, for all that is known.
        if slope.abs() <= Self::MAX_SLOPE {
            self.slope = slope as i64;
        }
        self.last = reading;
    }

    /// `CLOCK_REALTIME` when the card's clock showed `card`.
    pub(super) fn system(&self, card: u64) -> u64 {
        let since = i128::from(card) - i128::from(self.last.card);
        let system = i128::from(self.last.system) + since + since * i128::from(self.slope) / Self::UNIT;
        u64::try_from(system.max(0)).unwrap_or(u64::MAX)
    }
}

/// The card whose stamps a socket uses, with a clock of its own.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) counts: Arc<CardStamps>,
    index: u32,
    choice: Choice,
    clock: File,
    line: Mutex<Line>,
    /// Puts the setting of the card back.
    _held: Option<Use<'static, Machine>>,
}

/// The name of a card in results: its interface and clock, and whether it was set to stamp.
fn said<C: Cards>(interface: &str, clock: i32, lent: &Lent<'_, C>) -> String {
    let set = match (lent.changed, lent.held.is_some()) {
        (false, _) => "",
        (true, true) => ", turned on for this run",
        (true, false) => ", turned on and left on",
    };
    format!("{interface} (ptp{clock}{set})")
}

impl Card {
    /// The card of the interface to `peer`, or of the chosen one; without either, of the only one that has a clock.
    pub(super) fn find(
        socket: BorrowedFd<'_>,
        config: &SocketConfig,
        peer: Option<SocketAddr>,
    ) -> Option<Self> {
        let name_of = |index| if_indextoname(index).ok()?.into_string().ok();
        let names = match (&config.path.interface, peer) {
            (Some(name), _) => vec![name.clone()],
            (None, Some(peer)) => vec![name_of(interface_to(peer.ip()).ok()?)?],
            (None, None) => if_nameindex().ok()?.iter().filter_map(|each| name_of(each.index())).collect(),
        };
        let mut cards = names.iter().filter_map(|name| {
            let found = card::abilities(socket, name).ok().filter(|found| found.clock >= 0)?;
            Some((name, found))
        });
        let (name, found) = cards.next()?;
        // The kernel gives the times of several clocks to one socket, and one zero to none.
        if cards.next().is_some() {
            return None;
        }
        Self::open(name, found)
    }

    /// Opens the clock before the card is set.
    fn open(name: &str, found: Abilities) -> Option<Self> {
        let clock = File::open(format!("/dev/ptp{}", found.clock)).ok()?;
        let first = card::read_clock(&clock).ok()?;
        // An old driver does not say what it is set to.
        let unset = Setting { transmit: TRANSMIT_OFF, receive: FILTER_NONE };
        let lent = LOANS.lend(name, unset, |now| wanted(&found, now));
        let choice = choose(&found, lent.now);
        if !choice.receives && !choice.transmits {
            return None;
        }
        Some(Self {
            counts: Arc::new(CardStamps::new(said(name, found.clock, &lent))),
            _held: lent.held,
            index: if_nametoindex(name).unwrap_or(0),
            choice,
            clock,
            line: Mutex::new(Line::new(first)),
        })
    }

    /// How its times are the system's at this moment.
    pub(super) fn line(&self) -> Line {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if Clock::time_of_day_nanos().abs_diff(line.last.system) >= REFRESH_NANOS
            && let Ok(reading) = card::read_clock(&self.clock)
        {
            line.learn(reading);
        }
        *line
    }

    /// Whether it stamps arrivals.
    pub(super) const fn receives(&self) -> bool {
        self.choice.receives
    }

    /// The interface of what its times come from.
    pub(super) const fn index(&self) -> u32 {
        self.index
    }
}

/// What a socket asks the kernel for.
pub(super) fn flags(card: Option<&Card>, departures: bool) -> u32 {
    let mut flags = REPORTS;
    if card.is_some() {
        flags |= CARD_REPORTS;
    }
    if departures {
        flags |= libc::SOF_TIMESTAMPING_TX_SOFTWARE;
        if card.is_some_and(|card| card.choice.transmits) {
            flags |= libc::SOF_TIMESTAMPING_TX_HARDWARE;
        }
    }
    flags
}

/// What stamped departures.
pub(super) fn departures_by(card: Option<&Card>, by_card: u64, by_kernel: u64) -> String {
    match card.filter(|_| by_card > 0) {
        None => "kernel".to_owned(),
        Some(card) if by_kernel > 0 => {
            format!("card {}, {by_kernel} of {} by the kernel", card.counts.name(), by_card + by_kernel)
        }
        Some(card) => format!("card {}", card.counts.name()),
    }
}

/// The interface of a message that a card stamped: the content of `SCM_TIMESTAMPING_PKTINFO`.
pub(super) fn stamped_at(level: i32, kind: i32, content: &[u8]) -> Option<u32> {
    let is_it = (level, kind) == (libc::SOL_SOCKET, SCM_TIMESTAMPING_PKTINFO);
    content.first_chunk().filter(|_| is_it).map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sys::Control;

    /// A control message as the kernel writes it on a machine of 64 bits.
    pub(in super::super) fn message(level: i32, kind: i32, content: &[u8]) -> Vec<u8> {
        let length = content.len() + 16;
        let mut bytes =
            [&length.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), content].concat();
        bytes.resize(length.next_multiple_of(8), 0);
        bytes
    }

    /// `struct scm_timestamping`.
    pub(in super::super) fn stamping(times: [(i64, i64); 3]) -> Vec<u8> {
        let fields = times.iter().flat_map(|(seconds, nanos)| [seconds.to_ne_bytes(), nanos.to_ne_bytes()]);
        message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &fields.flatten().collect::<Vec<_>>())
    }

    /// `struct scm_ts_pktinfo`.
    pub(in super::super) fn stamped_by(interface: u32) -> Vec<u8> {
        message(
            libc::SOL_SOCKET,
            SCM_TIMESTAMPING_PKTINFO,
            &[interface, 60, 0, 0].map(u32::to_ne_bytes).concat(),
        )
    }

    /// `struct sock_extended_err` and the address after it.
    fn extended(level: i32, kind: i32, origin: u8, info: u32) -> Vec<u8> {
        let errno = (libc::ENOMSG as u32).to_ne_bytes();
        let fields = [&errno[..], &[origin, 0, 0, 0], &info.to_ne_bytes(), &[0; 20]];
        message(level, kind, &fields.concat())
    }

    fn departed_of(messages: &[Vec<u8>]) -> Option<Stamps> {
        departed(Control::recorded(&messages.concat()).messages())
    }

    #[test]
    fn the_stamps_of_a_departure_are_those_of_driver_or_card() {
        let of_the_kernel = || stamping([(1_700_000_000, 5), (0, 0), (0, 0)]);
        let of_the_card = || stamping([(0, 0), (0, 0), (37, 7)]);
        let v4 = |origin, info| extended(libc::IPPROTO_IP, libc::IP_RECVERR, origin, info);
        let sent = || v4(libc::SO_EE_ORIGIN_TIMESTAMPING, TSTAMP_SND);
        let kernel = Some(Stamps { kernel: Some(1_700_000_000_000_000_005), card: None });
        assert_eq!(departed_of(&[of_the_kernel(), sent()]), kernel);
        let card = Some(Stamps { kernel: None, card: Some(37_000_000_007) });
        assert_eq!(departed_of(&[of_the_card(), sent()]), card);
        assert_eq!(departed_of(&[sent(), of_the_card()]), card);
        let v6 =
            extended(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, libc::SO_EE_ORIGIN_TIMESTAMPING, TSTAMP_SND);
        assert_eq!(departed_of(&[of_the_kernel(), v6]), kernel);
        // SCM_TSTAMP_SCHED.
        let scheduled = v4(libc::SO_EE_ORIGIN_TIMESTAMPING, 1);
        assert_eq!(departed_of(&[of_the_kernel(), scheduled]), None, "it has entered a queue");
        assert_eq!(departed_of(&[of_the_kernel(), v4(libc::SO_EE_ORIGIN_ICMP, 0)]), None);
        assert_eq!(departed_of(&[]), None);
        let whole = [of_the_kernel(), sent()].concat();
        for length in 0..whole.len() {
            // What is cut off is not there.
            assert_eq!(departed(Control::recorded(&whole[..length]).messages()), None, "{length}");
        }
    }

    #[test]
    fn what_was_set_on_a_card_is_said() {
        let of = |changed, held| {
            let now = Setting { transmit: TRANSMIT_ON, receive: FILTER_ALL };
            said("eth0", 2, &Lent::<Machine> { now, changed, held })
        };
        assert_eq!(of(false, None), "eth0 (ptp2)");
        assert_eq!(of(true, None), "eth0 (ptp2, turned on and left on)");
    }

    #[test]
    fn a_time_of_zero_or_before_1970_is_none() {
        let read =
            |times| Control::recorded(&stamping(times)).messages().map(|(.., of)| Stamps::read(of)).next();
        assert_eq!(read([(0, 0); 3]), Some(Stamps::default()));
        assert_eq!(read([(-1, 0), (3, 3), (0, 9)]), Some(Stamps { kernel: None, card: Some(9) }));
        assert_eq!(Stamps::read(&[1; 20]).card, None);
    }

    #[test]
    fn a_card_is_used_as_far_as_it_can_and_nobody_else_has_set_it() {
        // As igb has it: raw stamps of both directions, off and on, none and all.
        let igb = Abilities { flags: 0x7f, clock: 0, transmit: 0b11, receive: 0b11 };
        let setting = |transmit, receive| Setting { transmit, receive };
        let off = setting(TRANSMIT_OFF, FILTER_NONE);
        assert_eq!(choose(&igb, off), Choice { receives: false, transmits: false });
        assert_eq!(wanted(&igb, off), Some(setting(TRANSMIT_ON, FILTER_ALL)));
        let on = setting(TRANSMIT_ON, FILTER_ALL);
        assert_eq!((choose(&igb, on), wanted(&igb, on)), (Choice { receives: true, transmits: true }, None));
        // HWTSTAMP_FILTER_PTP_V2_EVENT, as ptp4l sets it.
        let ptp = setting(TRANSMIT_ON, 12);
        assert_eq!(
            (choose(&igb, ptp), wanted(&igb, ptp)),
            (Choice { receives: false, transmits: true }, None)
        );
        // One that stamps only packets of PTP when they arrive.
        let e1000e = Abilities { receive: 0b1_0000_0000_0001, ..igb };
        assert_eq!(wanted(&e1000e, off), Some(setting(TRANSMIT_ON, FILTER_NONE)));
        // Loopback, and one without a clock.
        for none in
            [Abilities { flags: 0x58, clock: -1, transmit: 0, receive: 0 }, Abilities { clock: -1, ..igb }]
        {
            assert_eq!((choose(&none, on).receives, wanted(&none, off)), (false, None));
        }
    }

    #[test]
    fn the_times_of_a_card_are_converted_by_its_offset_and_speed() {
        const SECOND: u64 = NANOS_PER_SECOND;
        let reading = |card, system| Reading { card, system, width: 0 };
        // In TAI, 37 s ahead, and slower by 50 ppm.
        let mut line = Line::new(reading(1_037 * SECOND, 1_000 * SECOND));
        assert_eq!(line.system(1_037 * SECOND + 5), 1_000 * SECOND + 5);
        assert_eq!(line.system(1_036 * SECOND), 999 * SECOND);
        line.learn(reading(1_037 * SECOND + 100_000_000, 1_000 * SECOND + 100_005_000));
        let found = line.system(1_037 * SECOND + 200_000_000);
        assert!(found.abs_diff(1_000 * SECOND + 200_010_000) <= 1, "{found}");
        // The card is set: the speed stays.
        line.learn(reading(5 * SECOND, 1_001 * SECOND));
        let found = line.system(5 * SECOND + 1_000_000);
        assert!(found.abs_diff(1_001 * SECOND + 1_000_050) <= 1, "{found}");
        let before = line.system(0);
        assert!(before.abs_diff(995_999_750_000) <= 1, "{before}");
        assert_eq!(Line::new(reading(10, 5)).system(0), 0);
    }
}
