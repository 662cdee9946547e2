//! UDP across the links.

use std::{net::SocketAddr, ops::ControlFlow, sync::Arc};

use giusto_net::{
    Clock,
    emulate::{LiveConfig, Start, UdpPair, UdpRelay},
};
use giusto_units::Timestamp;

use super::{
    live::{LinkError, LinkEvent, LinkOptions, LinkRun, LiveLinks, World, sleeper},
    plan::LinkPlan,
};

/// Relays UDP between clients and targets across the links until the end that the options give. The time of the links begins as the
/// options say.
///
/// `tell` receives the addresses of the relay, `report` the state once a second.
///
/// # Errors
///
/// [`LinkError::Socket`] names the address that is not available. [`LinkError::Unused`]: there is a duration, and nothing came.
pub fn relay(
    plan: &LinkPlan<'_>,
    pairs: &[UdpPair],
    options: &LinkOptions,
    tell: impl FnOnce(&LinkEvent),
    report: impl FnMut(&LiveLinks),
) -> Result<LinkRun, LinkError> {
    let mut world = World::new(plan, pairs.len(), "udp", options.duration)?;
    let clock = Clock::start();
    let mut shell = UdpRelay::new(pairs, clock)?;
    let listen: Vec<SocketAddr> = shell.addresses().collect();
    tell(&LinkEvent::Relay(listen.clone()));
    let config = LiveConfig {
        start: match &options.start {
            Some(start) => Start::Signal { start: start.clone(), crosses: is_media },
            None if options.with_media => Start::First(is_media),
            None => Start::First(begins),
        },
        duration: options.duration,
        stop: Some(Arc::clone(&options.stop)),
        clock: Some(clock),
        sleeper: sleeper(options),
        ..LiveConfig::default()
    };
    let patience = options.duration.filter(|_| options.start.is_none()).map(|run| run.max(options.patience));
    let mut unused = None;
    let look = |now: Timestamp| {
        let waited = clock.now().saturating_since(Timestamp::ZERO);
        match patience {
            Some(patience) if now == Timestamp::ZERO && waited >= patience => {
                unused = Some(waited);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    };
    let began_with = match &options.start {
        Some(_) => "signal",
        None if options.with_media => "media",
        None => "datagram",
    };
    let live = world.run(&mut shell, &config, look, report);
    if let Some(waited) = unused {
        let datagram = if options.with_media { "RTP or RTCP datagram" } else { "datagram of a stream" };
        return Err(LinkError::Unused { datagram, waited });
    }
    let counts = shell.report();
    let run = world.finish(live, counts.kernel_dropped_packets, began_with, options);
    Ok(LinkRun { listen, relay: Some(counts), ..run })
}

/// Whether a datagram is RTP or RTCP: RFC 7983 §7.
pub(super) fn is_media(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(128..=191))
}

/// Whether a datagram is more than a handshake, whose time is not that of what follows. STUN by its cookie (RFC 8489 §5), DTLS by its
/// content type and version (RFC 9147 §4).
fn begins(datagram: &[u8]) -> bool {
    let is_handshake = matches!(datagram, [0..=3, _, _, _, 0x21, 0x12, 0xa4, 0x42, ..] | [20..=63, 254, ..]);
    !is_handshake && !giusto_session::is_control(datagram)
}

#[cfg(test)]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;
    use crate::{link::Ends, scenario::Document};

    #[test]
    fn a_relay_with_a_duration_and_nothing_to_relay_ends() {
        let text = "duration = \"1 s\"\n[[link]]\nid = \"path\"\nfrom = \"a\"\nto = \"b\"\nreverse = {}\n";
        let scenario = Document::parse(text, "path.toml").and_then(|links| links.links(&[])).unwrap();
        let plan = LinkPlan::new(&scenario, 1, &Ends::default()).unwrap();
        let (listen, target) = ("127.0.0.1:0".parse().unwrap(), "127.0.0.1:9".parse().unwrap());
        let run = |duration: i64, patience: i64, with_media| {
            let [duration, patience] = [duration, patience].map(TimeDelta::from_millis);
            let options =
                LinkOptions { duration: Some(duration), patience, with_media, ..LinkOptions::default() };
            relay(&plan, &[UdpPair { listen, target }], &options, |_| (), |_| ()).unwrap_err().to_string()
        };
        let begins = "no datagram of a stream came within ";
        assert!(run(50, 200, false).starts_with(begins) && run(200, 50, false).starts_with(begins));
        assert!(run(50, 50, true).starts_with("no RTP or RTCP datagram came within "));
    }
}
