//! Flags that protect the media of a call.

#[cfg(feature = "browser")]
use std::path::Path;
use std::path::PathBuf;

use clap::Args;
#[cfg(feature = "browser")]
use giusto::call::{Certificate, Fingerprint, Identity};
use giusto_session::{call::Protection, keys::KeyRing};

#[cfg(feature = "browser")]
use crate::console::complain;
use crate::{args, usage::UsageError};

#[cfg(not(feature = "browser"))]
pub(super) const NO_WEBRTC: &str = "this giusto was built without WebRTC: build it with `cargo install --locked --path crates/cli --features browser`";

/// How the media of an end are protected, whose far end is giusto.
#[derive(Debug, Args)]
pub(super) struct ProtectionArgs {
    /// File of keys that both ends share, one line "ID KEY" for each: every datagram is authenticated, also against those on the path;
    /// nothing is encrypted. Without it media are authenticated against those who cannot read the packets of the call, and not against
    /// others
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Do not authenticate media, as plain RTP: whoever guesses 24 bits can forge media and feedback from the far end's address. Both
    /// ends need it
    #[arg(long, conflicts_with = "key_file")]
    insecure: bool,

    /// Encrypt media by SRTP (AES-128-GCM; RFC 3711, RFC 7714), with keys from --key-file, or else from DTLS: then the caller gives the
    /// --fingerprint that the listener prints. Protects also against those on the path. Both ends need it; it needs the feature `browser`
    #[arg(long, conflicts_with = "insecure")]
    srtp: bool,

    /// With --srtp: SHA-256 fingerprint that the certificate of the far end must have, such as 0A:1B:…; a listener without it accepts every
    /// caller
    #[arg(long, value_name = "HEX", requires = "srtp", conflicts_with = "key_file")]
    fingerprint: Option<String>,

    /// With --srtp: file of this end's certificate and private key, made if it is missing [default: a new one at each start]
    #[arg(long, value_name = "FILE", requires = "srtp", conflicts_with = "key_file")]
    certificate: Option<PathBuf>,
}

/// The same, once the files are read.
pub(super) struct Protecting {
    pub(super) keys: Option<KeyRing>,
    pub(super) media: Protection,
    #[cfg(feature = "browser")]
    pub(super) identity: Option<Identity>,
}

impl ProtectionArgs {
    /// Reads the keys and the certificate.
    pub(super) fn take(&self, is_caller: bool) -> Result<Protecting, UsageError> {
        #[cfg(not(feature = "browser"))]
        if self.srtp {
            let _ = (is_caller, &self.fingerprint, &self.certificate);
            return Err(UsageError::new(format!("--srtp: {NO_WEBRTC}")));
        }
        Ok(Protecting {
            keys: self.key_file.as_deref().map(args::read_keys).transpose()?,
            media: self.media(),
            #[cfg(feature = "browser")]
            identity: self.identity(is_caller)?,
        })
    }

    fn media(&self) -> Protection {
        match (self.insecure, self.srtp) {
            (true, _) => Protection::Insecure,
            (_, true) => Protection::Encrypted,
            _ => Protection::Authenticated,
        }
    }

    /// Who this end is in DTLS, if keys come from there.
    #[cfg(feature = "browser")]
    fn identity(&self, is_caller: bool) -> Result<Option<Identity>, UsageError> {
        if !self.srtp || self.key_file.is_some() {
            return Ok(None);
        }
        let unusable =
            |path: &Path, why: String| UsageError::new(format!("--certificate {}: {why}", path.display()));
        let certificate = match &self.certificate {
            Some(path) if path.exists() => Certificate::read(path).map_err(|why| unusable(path, why))?,
            Some(path) => Certificate::generate_in(path).map_err(|why| unusable(path, why))?,
            None => Certificate::generate().map_err(UsageError::new)?,
        };
        let expected = self.fingerprint.as_deref().map(Fingerprint::parse).transpose();
        let expected = expected.map_err(|error| UsageError::new(format!("--fingerprint: {error}")))?;
        if is_caller && expected.is_none() {
            return Err(UsageError::new(
                "--srtp: a caller must know its listener: add --fingerprint with what the listener prints, or --key-file",
            ));
        }
        complain(&format!("fingerprint of this end: {}", certificate.fingerprint()));
        Ok(Some(Identity { certificate, expected }))
    }
}
