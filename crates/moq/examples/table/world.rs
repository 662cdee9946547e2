//! A broadcast in virtual time: publisher, a path, relay, watcher.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use giusto_net::emulate::Emulator;
use giusto_sim::{
    link::{
        Link, LinkConfig,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    packet::LinkId,
};
use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use quinn::{Endpoint, EndpointConfig, ServerConfig, TokioRuntime};

use crate::{
    Error,
    film::Film,
    net::Net,
    publish::{self, Published},
    quic,
    relay::Relay,
    watch::{self, Frame},
};

/// The path from the publisher to the relay. The watcher is 5 ms behind that.
pub(crate) struct Path<'a> {
    /// Capacities in kbit/s, one after the other.
    pub(crate) capacities: &'a [u64],
    /// The time of each.
    pub(crate) step: Duration,
    /// Of each way.
    pub(crate) delay: TimeDelta,
    pub(crate) queue: Limit,
}

/// Holds a broadcast on a clock of its own, which jumps to the next event.
pub(crate) fn broadcast(
    controller: &str,
    film: Film,
    path: &Path<'_>,
) -> Result<(Published, Vec<Frame>), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async move {
        let address = |host: u8| SocketAddr::from(([192, 0, 2, host], 4443));
        let (publisher, relay, watcher) = (address(1), address(2), address(3));
        let steps = (0_u64..).zip(path.capacities).map(|(place, kbps)| {
            let at = Timestamp::from_nanos(place * path.step.as_nanos() as u64);
            (at, DataRate::from_bps(kbps * 1000))
        });
        let there = LinkConfig {
            rate: RateProfile::Steps { steps: steps.collect(), period: None },
            delay: path.delay.into(),
            ..LinkConfig::default()
        };
        let back = LinkConfig { delay: path.delay.into(), ..LinkConfig::default() };
        let near = LinkConfig { delay: TimeDelta::from_millis(5).into(), ..LinkConfig::default() };
        let mut links = Vec::new();
        for (config, limit) in [
            (&there, path.queue),
            (&back, Limit::Unlimited),
            (&near, Limit::Unlimited),
            (&near, Limit::Unlimited),
        ] {
            let id = LinkId(links.len() as u32);
            links.push(Link::new(id, config, Box::new(DropTail::new(limit)), 1, "link")?);
        }
        let ways = [(publisher, relay), (relay, publisher), (relay, watcher), (watcher, relay)];
        let routes = (0..links.len() as u32).map(|link| vec![LinkId(link)]).collect();
        let emulator = Emulator::new(links, routes, DataSize::from_bytes(10_000_000))?;
        let net = Net::new(emulator, ways.into_iter().zip(0..).collect());
        let endpoint = |address, server: Option<ServerConfig>| {
            let (config, runtime) = (EndpointConfig::default(), Arc::new(TokioRuntime));
            Endpoint::new_with_abstract_socket(config, server, net.socket(address), runtime)
        };
        let far = Relay(endpoint(relay, Some(quic::server("tempo")?))?);
        let (near, watching) = (endpoint(publisher, None)?, endpoint(watcher, None)?);
        tokio::spawn(Arc::clone(&net).run());
        tokio::spawn(far.run());
        let watching = tokio::spawn(async move { watch::watch(&watching, relay).await });
        let duration = path.step * path.capacities.len() as u32;
        let published = publish::publish(&near, relay, controller, film, duration, |_| {}).await?;
        Ok((published, watching.await??))
    })
}
