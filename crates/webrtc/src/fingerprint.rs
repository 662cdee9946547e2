//! Fingerprints of certificates (RFC 8122 §5).

use std::{fmt, str::FromStr};

use sha2::{Digest, Sha256};

/// The SHA-256 hash of a certificate, as `a=fingerprint` carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// It is not a SHA-256 fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a fingerprint: expected sha-256 and 32 bytes such as 0A:1B:…")]
pub struct FingerprintError;

impl Fingerprint {
    /// Sixteen bytes for a serial number, which is positive (RFC 5280 §4.1.2.2).
    pub(crate) fn serial(self) -> [u8; 16] {
        let mut serial = [0; 16];
        serial.iter_mut().zip(self.0).for_each(|(to, from)| *to = from);
        if let Some(first) = serial.first_mut() {
            *first = *first & 0x7f | 1;
        }
        serial
    }

    /// Reads its bytes such as `0A:1B:…`, with or without `sha-256 ` before them.
    ///
    /// # Errors
    ///
    /// [`FingerprintError`] if it is none.
    pub fn parse(text: &str) -> Result<Self, FingerprintError> {
        let text = text.trim();
        if text.contains(' ') { text.parse() } else { format!("sha-256 {text}").parse() }
    }

    /// The fingerprint of a certificate in DER.
    pub fn of(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha-256 ")?;
        for (index, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02X}", if index > 0 { ":" } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let (hash, bytes) = text.trim().split_once(' ').ok_or(FingerprintError)?;
        if !hash.eq_ignore_ascii_case("sha-256") {
            return Err(FingerprintError);
        }
        let byte = |text: &str| {
            (text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_hexdigit()))
                .then(|| u8::from_str_radix(text, 16).ok())
                .flatten()
        };
        let bytes: Option<Vec<u8>> = bytes.trim().split(':').map(byte).collect();
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(FingerprintError)
    }
}
