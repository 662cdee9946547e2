//! SRTP and SRTCP with the keys of a DTLS connection (RFC 3711, RFC 5764 §4.2, RFC 7714).

use std::collections::HashSet;

use dimpl::SrtpProfile;
use giusto_session::call::MediaCipher;
use rtc_srtp::{
    context::Context,
    crypto::default_provider,
    option::{srtcp_replay_protection, srtp_replay_protection},
    protection_profile::ProtectionProfile,
};

/// Packets within which repeats are recognised (RFC 3711 §3.3.2 requires at least 64).
const REPLAY_WINDOW: usize = 1024;

/// Error of SRTP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SrtpError {
    /// The profile is not supported.
    #[error(
        "the SRTP profile {0} is not supported: use AEAD_AES_128_GCM, AEAD_AES_256_GCM or AES128_CM_SHA1_80"
    )]
    Profile(String),
    /// The keys cannot be used.
    #[error("the DTLS connection gave {0} B of keys, too few for SRTP")]
    Keys(usize),
    /// The cipher failed.
    #[error("SRTP failed: {0}")]
    Cipher(String),
    /// A packet cannot be protected, or is forged, repeated or damaged.
    #[error("an SRTP packet was refused: {0}")]
    Packet(String),
}

/// Master keys and salts of both directions.
#[derive(Clone)]
pub struct MasterKeys {
    profile: ProtectionProfile,
    name: String,
    local: (Vec<u8>, Vec<u8>),
    remote: (Vec<u8>, Vec<u8>),
}

impl std::fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MasterKeys").field("profile", &self.name).finish_non_exhaustive()
    }
}

impl MasterKeys {
    /// Divides the exported material: client's key, server's key, client's salt, server's salt (RFC 5764 §4.2).
    ///
    /// # Errors
    ///
    /// [`SrtpError`] if the profile is not supported or the material is too short.
    pub fn split(material: &[u8], profile: SrtpProfile, is_client: bool) -> Result<Self, SrtpError> {
        let name = profile.to_string();
        let profile = match profile {
            SrtpProfile::AES128_CM_SHA1_80 => ProtectionProfile::Aes128CmHmacSha1_80,
            SrtpProfile::AEAD_AES_128_GCM => ProtectionProfile::AeadAes128Gcm,
            SrtpProfile::AEAD_AES_256_GCM => ProtectionProfile::AeadAes256Gcm,
            _ => return Err(SrtpError::Profile(name)),
        };
        let (key, salt) = (profile.key_len(), profile.salt_len());
        let part = |from: usize, length: usize| {
            material.get(from..from + length).map(<[u8]>::to_vec).ok_or(SrtpError::Keys(material.len()))
        };
        let client = (part(0, key)?, part(2 * key, salt)?);
        let server = (part(key, key)?, part(2 * key + salt, salt)?);
        let (local, remote) = if is_client { (client, server) } else { (server, client) };
        Ok(Self { profile, name, local, remote })
    }

    fn context(&self, (key, salt): &(Vec<u8>, Vec<u8>), replay: bool) -> Result<Context, SrtpError> {
        let failed = |error: &dyn std::fmt::Display| SrtpError::Cipher(error.to_string());
        let provider = default_provider().map_err(|error| failed(&error))?;
        let rtp = replay.then(|| srtp_replay_protection(REPLAY_WINDOW));
        let rtcp = replay.then(|| srtcp_replay_protection(REPLAY_WINDOW));
        Context::new(key, salt, self.profile, rtp, rtcp, provider.crypto()).map_err(|error| failed(&error))
    }
}

/// Protects what we send, and checks what we receive.
pub struct Srtp {
    profile: String,
    overhead: u64,
    /// Bytes from the flag E of SRTCP to the end of the packet.
    rtcp_tail: usize,
    outgoing: Context,
    incoming: Context,
    keys: MasterKeys,
    /// The sources of genuine packets of RTP, and those of RTCP.
    known: [HashSet<u32>; 2],
}

impl std::fmt::Debug for Srtp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Srtp").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Srtp {
    /// From the keys of a connection.
    ///
    /// # Errors
    ///
    /// [`SrtpError::Cipher`] if the library does not support the profile.
    pub fn new(keys: &MasterKeys) -> Result<Self, SrtpError> {
        let tag = keys.profile.rtp_auth_tag_len() + keys.profile.aead_auth_tag_len();
        Ok(Self {
            profile: keys.name.clone(),
            overhead: tag as u64,
            rtcp_tail: INDEX_BYTES + keys.profile.rtcp_auth_tag_len(),
            outgoing: keys.context(&keys.local, false)?,
            incoming: keys.context(&keys.remote, true)?,
            keys: keys.clone(),
            known: Default::default(),
        })
    }

    /// The name of its profile.
    pub fn profile(&self) -> &str {
        &self.profile
    }

    /// The bytes that it adds to an RTP packet.
    pub const fn overhead(&self) -> u64 {
        self.overhead
    }

    /// Protects a packet that is to be sent: RTCP by its second byte (RFC 5761 §4), otherwise RTP.
    ///
    /// # Errors
    ///
    /// [`SrtpError::Packet`].
    pub fn protect(&mut self, packet: &[u8]) -> Result<Vec<u8>, SrtpError> {
        let protected = if is_rtcp(packet) {
            self.outgoing.encrypt_rtcp(packet)
        } else {
            self.outgoing.encrypt_rtp(packet)
        };
        protected.map(Into::into).map_err(refused)
    }

    /// Checks and decrypts a received packet.
    ///
    /// # Errors
    ///
    /// [`SrtpError::Packet`] if it is forged, repeated or damaged.
    pub fn unprotect(&mut self, packet: &[u8]) -> Result<Vec<u8>, SrtpError> {
        let is_rtcp = is_rtcp(packet);
        // The library takes SRTCP that says it is not encrypted as it is, without a look at its tag.
        let flag = packet.len().checked_sub(self.rtcp_tail).and_then(|at| packet.get(at));
        if is_rtcp && flag.is_none_or(|flag| flag & ENCRYPTED == 0) {
            return Err(SrtpError::Packet("SRTCP that is not encrypted".to_owned()));
        }
        let decrypt = |context: &mut Context| {
            let clear = if is_rtcp { context.decrypt_rtcp(packet) } else { context.decrypt_rtp(packet) };
            clear.map_err(refused)
        };
        let source = packet.get(if is_rtcp { 4 } else { 8 }..).and_then(|rest| rest.first_chunk());
        let source = u32::from_be_bytes(*source.ok_or_else(|| refused("too short"))?);
        let [rtp, rtcp] = &mut self.known;
        let known = if is_rtcp { rtcp } else { rtp };
        if !known.contains(&source) {
            // The library would remember the source of each forged packet for ever: a context of its own forgets it.
            decrypt(&mut self.keys.context(&self.keys.remote, false)?)?;
            known.insert(source);
        }
        decrypt(&mut self.incoming).map(Into::into)
    }
}

/// The cipher of a call between two giusto ends: `AEAD_AES_128_GCM` (RFC 7714), whose master keys and salts are the first 28 bytes of the
/// secrets.
pub fn cipher(outgoing: &[u8; 32], incoming: &[u8; 32]) -> Option<Box<dyn MediaCipher>> {
    let profile = ProtectionProfile::AeadAes128Gcm;
    let part = |secret: &[u8; 32]| {
        let (key, rest) = secret.split_at_checked(profile.key_len())?;
        Some((key.to_vec(), rest.get(..profile.salt_len())?.to_vec()))
    };
    let name = SrtpProfile::AEAD_AES_128_GCM.to_string();
    let keys = MasterKeys { profile, name, local: part(outgoing)?, remote: part(incoming)? };
    Some(Box::new(Srtp::new(&keys).ok()?))
}

impl MediaCipher for Srtp {
    fn protect(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        Self::protect(self, datagram).ok()
    }

    fn open(&mut self, datagram: &[u8]) -> Option<Vec<u8>> {
        self.unprotect(datagram).ok()
    }
}

/// The flag E and the index of SRTCP, and the flag (RFC 3711 §3.4; RFC 7714 §9.2).
const INDEX_BYTES: usize = 4;
const ENCRYPTED: u8 = 0x80;

fn refused(error: impl std::fmt::Display) -> SrtpError {
    SrtpError::Packet(error.to_string())
}

/// Whether a packet is RTCP (RFC 5761 §4).
pub(crate) fn is_rtcp(packet: &[u8]) -> bool {
    matches!(packet.get(1), Some(192..=223))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forged_packets_of_any_source_leave_nothing_behind() {
        for (profile, length) in [(SrtpProfile::AEAD_AES_128_GCM, 56), (SrtpProfile::AES128_CM_SHA1_80, 60)] {
            let material: Vec<u8> = (0..length).collect();
            let end =
                |is_client| Srtp::new(&MasterKeys::split(&material, profile, is_client).unwrap()).unwrap();
            let (mut client, mut server) = (end(true), end(false));
            // RTP, and a receiver report without blocks.
            let packets = |source: u32| {
                let rtp = [&[0x80, 96, 0, 1, 0, 0, 0, 0][..], &source.to_be_bytes(), b"media"].concat();
                [rtp, [&[0x80, 201, 0, 1][..], &source.to_be_bytes()].concat()]
            };
            for source in 0..1000 {
                for packet in packets(source) {
                    let mut forged = client.protect(&packet).unwrap();
                    *forged.last_mut().unwrap() ^= 1;
                    assert!(server.unprotect(&forged).is_err());
                }
            }
            assert!(server.known.iter().all(HashSet::is_empty));
            for packet in packets(7) {
                let genuine = client.protect(&packet).unwrap();
                assert_eq!(server.unprotect(&genuine), Ok(packet));
                assert!(server.unprotect(&genuine).is_err(), "a repeat");
            }
            assert_eq!(server.known, [HashSet::from([7]), HashSet::from([7])]);
            assert!(server.unprotect(&[0x80, 96, 0]).is_err());
        }
    }
}
