//! Endpoints of quinn for moq-net, with controllers of giusto.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use giusto_quinn::{DataRate, GiustoConfig, Limits};
use quinn::{
    ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig,
    congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig},
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};

use crate::{
    Error,
    baseline::{Observed, Side},
    tls,
};

/// The highest target rate.
pub(crate) const MAX_RATE: DataRate = DataRate::from_bps(8_000_000);
/// A subscription that nobody has: 8 bytes of a QUIC integer, all ones. Its datagrams are dropped.
const PADDING: u8 = 0xff;

fn alpn() -> Vec<Vec<u8>> {
    moq_net::ALPNS.iter().map(|name| name.as_bytes().to_vec()).collect()
}

/// The time by the clock of the connections.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Settings of a connection: quinn's own controllers are `quinn:newreno`, `quinn:cubic` and `quinn:bbr`, other names are giusto's.
fn transport(controller: &str) -> Result<TransportConfig, Error> {
    let mut transport = TransportConfig::default();
    // The end of a connection may be lost: the other side finds out within three seconds.
    transport.max_idle_timeout(Some(Duration::from_secs(3).try_into()?));
    transport.keep_alive_interval(Some(Duration::from_secs(1)));
    let limits = Limits::DEFAULT.with_max(MAX_RATE);
    // What giusto's controllers need is for all.
    GiustoConfig::named("fixed", limits)?.configure(&mut transport);
    let own: Arc<dyn ControllerFactory + Send + Sync> = match controller {
        "quinn:newreno" => Arc::new(NewRenoConfig::default()),
        "quinn:cubic" => Arc::new(CubicConfig::default()),
        "quinn:bbr" => Arc::new(BbrConfig::default()),
        _ => {
            GiustoConfig::named(controller, limits)?.configure(&mut transport);
            return Ok(transport);
        }
    };
    transport.congestion_controller_factory(Arc::new(Observed { factory: own, limits }));
    Ok(transport)
}

/// For an endpoint that accepts sessions of Media over QUIC.
pub(crate) fn server(controller: &str) -> Result<ServerConfig, Error> {
    let mut crypto = tls::of_the_occasion()?;
    crypto.alpn_protocols = alpn();
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
    config.transport_config(Arc::new(transport(controller)?));
    Ok(config)
}

/// An endpoint that connects.
pub(crate) fn client() -> Result<Endpoint, Error> {
    Ok(Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?)
}

/// Connects to a relay.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    address: SocketAddr,
    controller: &str,
) -> Result<Connection, Error> {
    let mut crypto = tls::trusting_any()?;
    crypto.alpn_protocols = alpn();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    config.transport_config(Arc::new(transport(controller)?));
    Ok(endpoint.connect_with(config, address, "localhost")?.await?)
}

/// Calls the controller of a connection every 5 ms and sends its padding, until the connection is closed.
pub(crate) async fn tend(connection: Connection) {
    let side = Side::of(&*connection.congestion_state());
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    while connection.close_reason().is_none() {
        ticks.tick().await;
        let now = now();
        side.tick(now);
        let Side::Giusto(media) = &side else { continue };
        while let (Some(size), Some(most)) = (media.padding(now), connection.max_datagram_size()) {
            if connection.send_datagram(Bytes::from(vec![PADDING; size.min(most)])).is_err() {
                break;
            }
        }
    }
}
