//! Endpoints of quinn for moq-net, with controllers of giusto.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use giusto_quinn::{DataRate, GiustoConfig, Limits, Media};
use quinn::{
    ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig,
    congestion::CubicConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};

use crate::{Error, tls};

/// The highest target rate.
pub(crate) const MAX_RATE: DataRate = DataRate::from_bps(8_000_000);
/// A subscription that nobody has: 8 bytes of a QUIC integer, all ones. Its datagrams are dropped.
const PADDING: u8 = 0xff;

fn alpn() -> Vec<Vec<u8>> {
    moq_net::ALPNS.iter().map(|name| name.as_bytes().to_vec()).collect()
}

/// Settings of a connection: `cubic` is quinn's own controller, other names are giusto's.
fn transport(controller: &str) -> Result<TransportConfig, Error> {
    let mut transport = TransportConfig::default();
    // The end of a connection may be lost: the other side finds out within three seconds.
    transport.max_idle_timeout(Some(Duration::from_secs(3).try_into()?));
    transport.keep_alive_interval(Some(Duration::from_secs(1)));
    if controller == "cubic" {
        transport.congestion_controller_factory(Arc::new(CubicConfig::default()));
    } else {
        GiustoConfig::named(controller, Limits::DEFAULT.with_max(MAX_RATE))?.configure(&mut transport);
    }
    Ok(transport)
}

/// An endpoint that accepts sessions of Media over QUIC.
pub(crate) fn server(address: SocketAddr, controller: &str) -> Result<Endpoint, Error> {
    let mut crypto = tls::of_the_occasion()?;
    crypto.alpn_protocols = alpn();
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(crypto)?));
    config.transport_config(Arc::new(transport(controller)?));
    Ok(Endpoint::server(config, address)?)
}

/// Connects to a relay.
pub(crate) async fn connect(address: SocketAddr, controller: &str) -> Result<(Endpoint, Connection), Error> {
    let mut crypto = tls::trusting_any()?;
    crypto.alpn_protocols = alpn();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    config.transport_config(Arc::new(transport(controller)?));
    let endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    let connection = endpoint.connect_with(config, address, "localhost")?.await?;
    Ok((endpoint, connection))
}

/// Calls the controller of a connection every 5 ms and sends its padding, until the connection is closed. A connection whose controller
/// is not giusto's needs nothing.
pub(crate) async fn tend(connection: Connection) {
    let Some(media) = Media::of(connection.congestion_state()) else { return };
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    while connection.close_reason().is_none() {
        ticks.tick().await;
        let now = Instant::now();
        media.tick(now);
        while let (Some(size), Some(most)) = (media.padding(now), connection.max_datagram_size()) {
            if connection.send_datagram(Bytes::from(vec![PADDING; size.min(most)])).is_err() {
                break;
            }
        }
    }
}
