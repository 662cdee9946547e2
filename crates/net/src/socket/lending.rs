//! The setting of a network card, which outlasts a process: it is put back when the last socket that needs it is gone.

use std::{
    io,
    os::{fd::AsFd, unix::net::UnixDatagram},
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::sys::card::{self, Setting};

/// What reads and sets cards.
pub(super) trait Cards {
    /// What the interface is set to.
    fn setting(&self, interface: &str) -> io::Result<Setting>;
    /// Sets the interface; returns what it is then set to.
    fn set(&self, interface: &str, setting: Setting) -> io::Result<Setting>;
}

/// The cards of this machine, by a socket of any kind (netdevice(7)).
#[derive(Debug)]
pub(super) struct Machine;

impl Cards for Machine {
    fn setting(&self, interface: &str) -> io::Result<Setting> {
        card::setting(UnixDatagram::unbound()?.as_fd(), interface)
    }

    fn set(&self, interface: &str, setting: Setting) -> io::Result<Setting> {
        card::set(UnixDatagram::unbound()?.as_fd(), interface, setting)
    }
}

/// The cards that this process has set. A process that is killed puts nothing back.
pub(super) static LOANS: Loans<Machine> = Loans::new(Machine);

/// The cards that were set, each with its users.
#[derive(Debug)]
pub(super) struct Loans<C> {
    cards: C,
    open: Mutex<Vec<Loan>>,
}

#[derive(Debug)]
struct Loan {
    interface: String,
    before: Setting,
    during: Setting,
    users: usize,
}

/// A user of a setting that is put back after the last one.
#[derive(Debug)]
pub(super) struct Use<'a, C: Cards> {
    loans: &'a Loans<C>,
    interface: String,
}

/// How an interface is set for a new user.
#[derive(Debug)]
pub(super) struct Lent<'a, C: Cards> {
    /// What it is set to now.
    pub(super) now: Setting,
    /// This process has set it.
    pub(super) changed: bool,
    /// To be kept as long as the setting is needed; `None` where nothing is to be put back.
    pub(super) held: Option<Use<'a, C>>,
}

impl<C: Cards> Loans<C> {
    pub(super) const fn new(cards: C) -> Self {
        Self { cards, open: Mutex::new(Vec::new()) }
    }

    /// Sets the interface to what `wanted` makes of its setting. `unset` is that of a driver which does not say how it is set, and is
    /// not put back.
    pub(super) fn lend(
        &self,
        interface: &str,
        unset: Setting,
        wanted: impl FnOnce(Setting) -> Option<Setting>,
    ) -> Lent<'_, C> {
        let held = || Some(Use { loans: self, interface: interface.to_owned() });
        let mut open = self.lock();
        if let Some(loan) = open.iter_mut().find(|loan| loan.interface == interface) {
            loan.users += 1;
            return Lent { now: loan.during, changed: true, held: held() };
        }
        let before = self.cards.setting(interface).ok();
        let now = before.unwrap_or(unset);
        let Some(during) = wanted(now).and_then(|best| self.cards.set(interface, best).ok()) else {
            return Lent { now, changed: false, held: None };
        };
        let held = before.and_then(|before| {
            open.push(Loan { interface: interface.to_owned(), before, during, users: 1 });
            held()
        });
        Lent { now: during, changed: true, held }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Loan>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Cards> Drop for Use<'_, C> {
    fn drop(&mut self) {
        let mut open = self.loans.lock();
        let Some(at) = open.iter().position(|loan| loan.interface == self.interface) else { return };
        let Some(loan) = open.get_mut(at) else { return };
        loan.users -= 1;
        if loan.users > 0 {
            return;
        }
        let Loan { before, during, .. } = open.swap_remove(at);
        // What another program has set since then is its own.
        if self.loans.cards.setting(&self.interface).is_ok_and(|now| now == during) {
            let _ = self.loans.cards.set(&self.interface, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: Setting = Setting { transmit: 0, receive: 0 };
    const ON: Setting = Setting { transmit: 1, receive: 1 };
    /// As ptp4l sets a card.
    const PTP: Setting = Setting { transmit: 1, receive: 12 };

    /// One interface, of a driver that may not say how it is set.
    #[derive(Debug)]
    struct Fake {
        now: Mutex<Setting>,
        says: bool,
        allows: bool,
    }

    impl Fake {
        fn loans(now: Setting) -> Loans<Self> {
            Loans::new(Self { now: Mutex::new(now), says: true, allows: true })
        }

        fn now(&self) -> Setting {
            *self.now.lock().unwrap()
        }
    }

    impl Cards for Fake {
        fn setting(&self, interface: &str) -> io::Result<Setting> {
            assert_eq!(interface, "eth0");
            if self.says { Ok(self.now()) } else { Err(io::ErrorKind::Unsupported.into()) }
        }

        fn set(&self, _: &str, setting: Setting) -> io::Result<Setting> {
            if !self.allows {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            *self.now.lock().unwrap() = setting;
            Ok(setting)
        }
    }

    fn stamping(now: Setting) -> Option<Setting> {
        (now == OFF).then_some(ON)
    }

    #[test]
    fn a_card_is_put_back_after_its_last_user() {
        let loans = Fake::loans(OFF);
        let first = loans.lend("eth0", OFF, stamping);
        assert_eq!((first.now, first.changed, loans.cards.now()), (ON, true, ON));
        let second = loans.lend("eth0", OFF, stamping);
        assert_eq!((second.now, second.changed), (ON, true));
        drop(first);
        assert_eq!(loans.cards.now(), ON, "the second one needs it");
        drop(second);
        assert_eq!(loans.cards.now(), OFF);
        let third = loans.lend("eth0", OFF, stamping);
        assert_eq!(loans.cards.now(), ON);
        drop(third);
        assert_eq!(loans.cards.now(), OFF);
    }

    #[test]
    fn what_another_program_has_set_is_left_as_it_is() {
        let loans = Fake::loans(PTP);
        let lent = loans.lend("eth0", OFF, stamping);
        assert!(lent.now == PTP && !lent.changed && lent.held.is_none());
        drop(lent);
        assert_eq!(loans.cards.now(), PTP);

        let loans = Fake::loans(OFF);
        let lent = loans.lend("eth0", OFF, stamping);
        loans.cards.set("eth0", PTP).unwrap();
        drop(lent);
        assert_eq!(loans.cards.now(), PTP, "since then");
    }

    #[test]
    fn a_card_that_cannot_be_read_or_set_is_not_put_back() {
        let mut loans = Fake::loans(OFF);
        loans.cards.says = false;
        let lent = loans.lend("eth0", OFF, stamping);
        assert!(lent.now == ON && lent.changed && lent.held.is_none());
        drop(lent);
        assert_eq!(loans.cards.now(), ON);

        let mut loans = Fake::loans(OFF);
        loans.cards.allows = false;
        let lent = loans.lend("eth0", OFF, stamping);
        assert!(lent.now == OFF && !lent.changed && lent.held.is_none());
    }
}
