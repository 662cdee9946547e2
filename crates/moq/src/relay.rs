//! A relay: whatever one session publishes, the others can subscribe to.

use std::net::SocketAddr;

use moq_net::{Server, origin, time};
use quinn::Endpoint;
use web_transport_quinn::Session;

use crate::{Error, quic};

/// Accepts sessions. What it sends is controlled by `tempo`.
pub(crate) struct Relay(pub(crate) Endpoint);

impl Relay {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, Error> {
        Ok(Self(Endpoint::server(quic::server("tempo")?, address)?))
    }

    /// Runs until its endpoint is closed.
    pub(crate) async fn run(self) -> Result<(), Error> {
        let (origin, driver) = origin::Producer::new(origin::Config::new(moq_net::Hop::random()));
        let driver = tokio::spawn(time::run(driver));
        while let Some(incoming) = self.0.accept().await {
            let origin = origin.clone();
            tokio::spawn(async move {
                let connection = incoming.await?;
                tokio::spawn(quic::tend(connection.clone()));
                let server = Server::new().with_origin(origin);
                let (session, driver) = server.accept(quic::now(), Session::raw(connection)).await?;
                time::run(driver).await;
                drop(session);
                Ok::<_, Error>(())
            });
        }
        driver.abort();
        Ok(())
    }
}
