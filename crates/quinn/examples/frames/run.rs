//! What the example and its test do.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use giusto_quinn::{
    DataRate, GiustoConfig, Limits, Media,
    priority::{self, Order},
};
use quinn::{
    ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig, VarInt,
    congestion::CubicConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use tokio::sync::mpsc;

mod tls;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

const FRAMES_PER_SECOND: u64 = 30;
/// Number, time of capture and size at the start of a frame.
const HEAD: usize = 20;

/// A frame that arrived. Times are of the system's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    pub(crate) captured: Duration,
    pub(crate) delay: Duration,
    pub(crate) size: usize,
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Waits for one connection.
pub(crate) struct Receiver(pub(crate) Endpoint);

impl Receiver {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, Error> {
        let mut config =
            ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls::of_the_occasion()?)?));
        config.transport_config(Arc::new(transport()?));
        Ok(Self(Endpoint::server(config, address)?))
    }

    /// Receives until the sender closes the connection.
    pub(crate) async fn run(self) -> Result<Vec<Frame>, Error> {
        let connection = self.0.accept().await.ok_or("the endpoint was closed")?.await?;
        let (found, mut frames) = mpsc::unbounded_channel();
        while let Ok(stream) = connection.accept_uni().await {
            tokio::spawn(receive(stream, found.clone()));
        }
        drop(found);
        let mut all = Vec::new();
        while let Some(frame) = frames.recv().await {
            all.push(frame);
        }
        all.sort_by_key(|frame: &Frame| frame.number);
        Ok(all)
    }
}

/// Receives the frames of a group.
async fn receive(mut stream: RecvStream, found: mpsc::UnboundedSender<Frame>) {
    let mut head = [0; HEAD];
    while stream.read_exact(&mut head).await.is_ok() {
        let (numbers, size) = head.split_at(16);
        let (number, captured) = numbers.split_at(8);
        let number = u64::from_be_bytes(number.try_into().expect("8 bytes"));
        let captured = Duration::from_nanos(u64::from_be_bytes(captured.try_into().expect("8 bytes")));
        let size = u32::from_be_bytes(size.try_into().expect("4 bytes")) as usize;
        if stream.read_exact(&mut vec![0; size.min(1 << 24)]).await.is_err() {
            return;
        }
        let delay = now().saturating_sub(captured);
        let _ = found.send(Frame { number, captured, delay, size });
    }
}

/// The end of a connection may be lost: the other side finds out within three seconds.
fn transport() -> Result<TransportConfig, Error> {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(Duration::from_secs(3).try_into()?));
    Ok(transport)
}

/// Connects to `address` by a controller of giusto or by `cubic`, quinn's own.
async fn connect(address: SocketAddr, controller: &str) -> Result<(Endpoint, Connection), Error> {
    let mut transport = transport()?;
    if controller == "cubic" {
        transport.congestion_controller_factory(Arc::new(CubicConfig::default()));
    } else {
        let limits = Limits::DEFAULT.with_max(DataRate::from_bps(8_000_000));
        GiustoConfig::named(controller, limits)?.configure(&mut transport);
    }
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls::trusting_any()?)?));
    config.transport_config(Arc::new(transport));
    let endpoint = Endpoint::client(SocketAddr::from(([0, 0, 0, 0], 0)))?;
    let connection = endpoint.connect_with(config, address, "localhost")?.await?;
    Ok((endpoint, connection))
}

/// Sends frames for `duration`, and calls `report` each second.
pub(crate) async fn send(
    address: SocketAddr,
    controller: &str,
    duration: Duration,
    mut report: impl FnMut(String),
) -> Result<(), Error> {
    let (endpoint, connection) = connect(address, controller).await?;
    let media = Media::of(connection.congestion_state());
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let mut group: Option<mpsc::UnboundedSender<Vec<u8>>> = None;
    let (mut number, mut skipped) = (0, 0);
    while begin.elapsed() < duration {
        ticks.tick().await;
        let at = Instant::now();
        // Quinn's own controllers tell a window: the rate that fills it, less a tenth.
        let path = connection.stats().path;
        let mut rate = path.cwnd as f64 * 8.0 / path.rtt.as_secs_f64() * 0.9;
        if let Some(media) = &media {
            media.tick(at);
            while let (Some(size), Some(most)) = (media.padding(at), connection.max_datagram_size()) {
                let _ = connection.send_datagram(vec![0; size.min(most)].into());
            }
            rate = media.frame_rate().as_bps() as f64;
        }
        if begin.elapsed() < Duration::from_millis(1000 * number / FRAMES_PER_SECOND) {
            continue;
        }
        let frame = number;
        number += 1;
        if media.as_ref().is_some_and(|media| media.should_skip(at)) {
            skipped += 1;
            continue;
        }
        if frame.is_multiple_of(FRAMES_PER_SECOND) || group.is_none() {
            let stream = connection.open_uni().await?;
            stream.set_priority(priority::of_group(Order::NewestFirst, frame / FRAMES_PER_SECOND))?;
            let (frames, written) = mpsc::unbounded_channel();
            tokio::spawn(write(stream, written));
            group = Some(frames);
            let reason = media.as_ref().map(Media::decision_text).unwrap_or_default();
            report(format!(
                "{} s: {:.0} kbit/s, {skipped} skipped; {reason}",
                frame / FRAMES_PER_SECOND,
                rate / 1e3
            ));
        }
        // A real application has an encoder, which gets `rate`.
        let size = (rate.min(8e6) / 8.0 / FRAMES_PER_SECOND as f64) as usize;
        let mut bytes = frame.to_be_bytes().to_vec();
        bytes.extend((now().as_nanos() as u64).to_be_bytes());
        bytes.extend((size as u32).to_be_bytes());
        bytes.resize(HEAD + size, 0x55);
        if let Some(media) = &media {
            media.on_frame(at, bytes.len());
        }
        if let Some(frames) = &group {
            frames.send(bytes)?;
        }
    }
    drop(group);
    tokio::time::sleep(Duration::from_millis(500)).await;
    connection.close(VarInt::from_u32(0), b"the end");
    endpoint.wait_idle().await;
    Ok(())
}

/// Writes the frames of a group.
async fn write(
    mut stream: SendStream,
    mut frames: mpsc::UnboundedReceiver<Vec<u8>>,
) -> Result<(), quinn::WriteError> {
    while let Some(frame) = frames.recv().await {
        stream.write_all(&frame).await?;
    }
    let _ = stream.finish();
    Ok(())
}
