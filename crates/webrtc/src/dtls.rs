//! DTLS 1.2 or 1.3 (RFC 6347, RFC 9147), whose keys protect the media (DTLS-SRTP, RFC 5764).

use std::{
    collections::VecDeque,
    fs::File,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use dimpl::{Config, DtlsCertificate, Output};
use giusto_units::Timestamp;

use crate::{
    fingerprint::Fingerprint,
    srtp::{MasterKeys, SrtpError},
};

/// The most datagrams of a handshake that are queued; beyond that the oldest is dropped, and repeated later.
const MAX_QUEUE: usize = 64;
/// A first buffer for records; it grows where needed.
const BUFFER_BYTES: usize = 2048;

/// Error of a DTLS connection: it cannot be used any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DtlsError {
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The handshake failed.
    #[error("the DTLS handshake failed: {0}")]
    Handshake(String),
    /// The other end's certificate is not the one of its description.
    #[error(
        "the certificate of the DTLS connection has the fingerprint {found}, expected was {expected}: refused"
    )]
    Fingerprint {
        /// Of the certificate.
        found: Fingerprint,
        /// Of the description.
        expected: Fingerprint,
    },
    /// The keys cannot be used.
    #[error(transparent)]
    Srtp(#[from] SrtpError),
}

/// A certificate for one call.
#[derive(Debug, Clone)]
pub struct Certificate(DtlsCertificate);

impl Certificate {
    /// Makes a key pair and a certificate that it signs. Its randomness is the system's.
    ///
    /// # Errors
    ///
    /// [`DtlsError::Certificate`] if the system gives no random numbers.
    pub fn generate() -> Result<Self, DtlsError> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "giusto");
        // The number must differ between certificates (RFC 5280 §4.1.2.2); the key does.
        let public = Fingerprint::of(key.public_key_raw());
        parameters.serial_number = Some(public.serial().to_vec().into());
        let certificate = parameters.self_signed(&key)?;
        Ok(Self(DtlsCertificate {
            certificate: certificate.der().to_vec(),
            private_key: key.serialize_der(),
        }))
    }

    /// The certificate and the private key of a file that [`generate_in`](Self::generate_in) has written.
    ///
    /// # Errors
    ///
    /// The text says what is wrong with the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let part = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            found.and_then(bytes_of).ok_or_else(|| {
                format!("no line \"{name}\" with hexadecimal digits: not a file of --certificate; remove it, and it is made anew")
            })
        };
        Ok(Self(DtlsCertificate { certificate: part("certificate")?, private_key: part("key")? }))
    }

    /// A new certificate, written with its private key to a new file that only its owner may read.
    ///
    /// # Errors
    ///
    /// The text says what failed.
    pub fn generate_in(path: &Path) -> Result<Self, String> {
        let made = Self::generate().map_err(|error| error.to_string())?;
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let text = format!("certificate {}\nkey {}\n", hex(&made.0.certificate), hex(&made.0.private_key));
        let file = File::options().write(true).create_new(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| error.to_string())?;
        Ok(made)
    }

    /// Its fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.0.certificate)
    }
}

/// What a connection has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DtlsState {
    /// The handshake is not complete.
    Handshake,
    /// It is complete, and the certificate is the expected one.
    Connected,
    /// The other end has closed the connection.
    Closed,
}

/// One end of a DTLS connection, without clock and socket.
#[derive(Debug)]
pub struct Dtls {
    inner: dimpl::Dtls,
    /// Time 0.
    origin: Instant,
    expected: Option<Fingerprint>,
    is_verified: bool,
    is_client: bool,
    keys: Option<MasterKeys>,
    /// What the keys are made of.
    material: Vec<u8>,
    state: DtlsState,
    timeout: Option<Timestamp>,
    queue: VecDeque<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Dtls {
    /// An end that waits for the other (server), or opens the connection (client), whose certificate must have the fingerprint
    /// `expected`; without one any certificate is accepted. `origin` is time 0.
    pub fn new(
        certificate: &Certificate,
        expected: Option<Fingerprint>,
        is_client: bool,
        origin: Instant,
    ) -> Self {
        let mut inner = dimpl::Dtls::new_auto(Arc::new(Config::default()), certificate.0.clone(), origin);
        inner.set_active(is_client);
        Self {
            inner,
            origin,
            expected,
            is_verified: false,
            is_client,
            keys: None,
            material: Vec::new(),
            state: DtlsState::Handshake,
            timeout: None,
            queue: VecDeque::new(),
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// What it has reached.
    pub fn state(&self) -> DtlsState {
        self.state
    }

    /// The protocol version, once known.
    pub fn version(&self) -> Option<&'static str> {
        match self.inner.protocol_version()? {
            dimpl::ProtocolVersion::DTLS1_2 => Some("1.2"),
            dimpl::ProtocolVersion::DTLS1_3 => Some("1.3"),
            _ => None,
        }
    }

    /// The keys, once connected; they are handed over once.
    pub fn take_keys(&mut self) -> Option<MasterKeys> {
        if self.state == DtlsState::Connected { self.keys.take() } else { None }
    }

    /// The exported material that both ends share, once connected (RFC 5705); it is handed over once.
    pub(crate) fn take_material(&mut self) -> Option<Vec<u8>> {
        let is_there = self.state == DtlsState::Connected && !self.material.is_empty();
        is_there.then(|| std::mem::take(&mut self.material))
    }

    /// Handles a received datagram.
    ///
    /// # Errors
    ///
    /// [`DtlsError`]: the connection cannot be used any more. Damaged datagrams are no error.
    pub fn handle(&mut self, now: Timestamp, datagram: &[u8]) -> Result<(), DtlsError> {
        self.tick(now)?;
        self.inner.handle_packet(datagram).map_err(|error| failed(&error))?;
        self.drain()
    }

    /// Handles the deadline of [`poll_timeout`](Self::poll_timeout); of a client, the first call opens the connection.
    ///
    /// # Errors
    ///
    /// As [`handle`](Self::handle).
    pub fn handle_timeout(&mut self, now: Timestamp) -> Result<(), DtlsError> {
        self.tick(now)?;
        self.drain()
    }

    /// Closes the connection with a notification (`close_notify`).
    pub fn close(&mut self) {
        // A connection that has failed sends no notification.
        let _ = self.inner.close().map_err(|error| failed(&error)).and_then(|()| self.drain());
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.queue.pop_front()
    }

    /// Time at which [`handle_timeout`](Self::handle_timeout) must be called next.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.timeout
    }

    fn tick(&mut self, now: Timestamp) -> Result<(), DtlsError> {
        let now = self.origin + Duration::from_nanos(now.as_nanos());
        self.inner.handle_timeout(now).map_err(|error| failed(&error))
    }

    fn drain(&mut self) -> Result<(), DtlsError> {
        loop {
            match self.inner.poll_output(&mut self.buffer) {
                Output::Packet(bytes) => {
                    if self.queue.len() >= MAX_QUEUE {
                        self.queue.pop_front();
                    }
                    self.queue.push_back(bytes.to_vec());
                }
                Output::BufferTooSmall { needed } => {
                    let larger = needed.max(self.buffer.len() + 1);
                    self.buffer.resize(larger, 0);
                }
                Output::Timeout(at) => {
                    let since = at.saturating_duration_since(self.origin).as_nanos();
                    self.timeout = u64::try_from(since).ok().map(Timestamp::from_nanos);
                    return Ok(());
                }
                Output::PeerCert(certificate) => {
                    let found = Fingerprint::of(certificate);
                    if let Some(expected) = self.expected.filter(|expected| *expected != found) {
                        return Err(DtlsError::Fingerprint { found, expected });
                    }
                    self.is_verified = true;
                }
                Output::KeyingMaterial(material, profile) => {
                    self.keys = Some(MasterKeys::split(&material, profile, self.is_client)?);
                    self.material = material.to_vec();
                }
                Output::CloseNotify => self.state = DtlsState::Closed,
                // Data channels are not offered.
                _ => {}
            }
            // The end of the handshake is reported before or after the certificate and the keys.
            if self.state == DtlsState::Handshake && self.is_verified && self.keys.is_some() {
                self.state = DtlsState::Connected;
            }
        }
    }
}

/// The bytes of hexadecimal digits; at least one.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.trim().as_bytes().as_chunks::<2>() else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    bytes.filter(|bytes| !bytes.is_empty())
}

fn failed(error: &dimpl::Error) -> DtlsError {
    DtlsError::Handshake(error.to_string())
}
