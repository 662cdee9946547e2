//! Streams to a multicast group: what is announced beside the sending thread.

use std::{net::SocketAddr, time::Duration};

use giusto_net::{
    Clock, UdpSocket,
    driver::{Driver, Link, local_clock},
};
use giusto_session::{
    Session,
    probe::{
        Announcer,
        wire::{SenderFigures, StreamFormat, StreamToken},
    },
};
use rand::{TryRng, rngs::SysRng};

use crate::measured::{RunError, plan::ResolvedPlan};

/// Nothing arrives here.
const LONGEST: usize = 64;

/// The announcements of the streams to a group; none of other streams.
#[derive(Debug)]
pub(super) struct Announcements<'a> {
    clock: Clock,
    driver: Driver,
    links: Vec<Link<'a, Announcer>>,
}

impl<'a> Announcements<'a> {
    /// Those of streams to `to` over these sockets, with their tokens: none unless it is a group.
    ///
    /// # Errors
    ///
    /// [`RunError::Random`].
    pub(super) fn new(
        clock: Clock,
        sockets: &'a [UdpSocket],
        plan: &ResolvedPlan,
        to: SocketAddr,
    ) -> Result<(Self, Vec<StreamToken>), RunError> {
        let (mut links, mut tokens) = (Vec::new(), Vec::new());
        let request = plan.request(None);
        // Receivers of other formats are not ours.
        let is_announced = to.ip().is_multicast() && request.format == StreamFormat::Giusto;
        for socket in sockets.iter().filter(|_| is_announced) {
            let token = StreamToken(SysRng.try_next_u64().map_err(RunError::Random)?);
            links.push(Link::new(socket, Announcer::new(clock.now(), token, &request, &local_clock(clock))));
            tokens.push(token);
        }
        Ok((Self { clock, driver: Driver::new(clock, LONGEST), links }, tokens))
    }

    /// Announces what is due. Call it often.
    pub(super) fn turn(&mut self, sockets: &[UdpSocket]) {
        for (link, socket) in self.links.iter_mut().zip(sockets) {
            link.session.on_sent(socket.send_counters().run_datagrams);
            // A socket that fails is silent: the sending thread finds out.
            let _ = self.driver.turn(link);
        }
    }

    /// Announces the end, several times.
    pub(super) fn finish(&mut self, figures: impl Iterator<Item = SenderFigures>) {
        const LOOK: Duration = Duration::from_millis(50);
        for (link, figures) in self.links.iter_mut().zip(figures) {
            link.session.finish(self.clock.now(), figures);
        }
        while self.links.iter().any(|link| link.session.poll_timeout().is_some()) {
            for link in &mut self.links {
                let _ = self.driver.turn(link);
            }
            self.driver.wait(&self.links, LOOK);
        }
    }
}
