//! Which requests of a page are answered at all.

use std::{fmt::Write as _, net::SocketAddr};

use rand::{TryRng as _, rngs::SysRng};
use subtle::ConstantTimeEq as _;

use super::message::{Request, Response};

/// The bytes of a token and of a nonce.
const RANDOM: usize = 16;

/// Random hexadecimal digits of the system.
///
/// # Errors
///
/// Where the system has no random numbers.
pub(super) fn random() -> Result<String, rand::rngs::SysError> {
    let mut bytes = [0; RANDOM];
    SysRng.try_fill_bytes(&mut bytes)?;
    let mut digits = String::with_capacity(2 * RANDOM);
    for byte in bytes {
        // Writing to memory does not fail.
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(digits)
}

/// Checks that a request comes from a page of this server, or from the user.
#[derive(Debug)]
pub(super) struct Guard {
    token: String,
    hosts: [String; 2],
}

impl Guard {
    pub(super) fn new(token: String, address: SocketAddr) -> Self {
        Self { token, hosts: [address.to_string(), format!("localhost:{}", address.port())] }
    }

    /// The path below the token, or the answer to those who may not ask.
    pub(super) fn admit<'a>(&self, request: &'a Request) -> Result<&'a str, Response> {
        let host = request.host.as_deref().filter(|host| self.hosts.iter().any(|own| own == host));
        let Some(host) = host else {
            let text = format!("Host must be {}\n", self.hosts.join(" or "));
            return Err(Response::text("421 Misdirected Request", text));
        };
        let origin = request.origin.as_deref();
        if origin.is_some_and(|origin| origin.strip_prefix("http://") != Some(host)) {
            return Err(Response::text("403 Forbidden", "requests of other sites are not answered\n"));
        }
        let path = request.path.strip_prefix('/').and_then(|path| path.split_once('/'));
        let (token, below) = path.unwrap_or_default();
        // The length is no secret.
        if bool::from(token.as_bytes().ct_eq(self.token.as_bytes())) {
            Ok(below)
        } else {
            Err(Response::text("404 Not Found", "nothing here: the whole address is on the terminal\n"))
        }
    }
}
