//! Which requests are answered at all.

use std::{fmt::Write as _, net::SocketAddr};

use hyper::{
    HeaderMap,
    header::{HOST, HeaderName, ORIGIN},
};
use rand::{TryRng, rngs::SysRng};
use subtle::ConstantTimeEq as _;

use crate::content::{Response, Status};

/// The bytes of a token and of a nonce.
const RANDOM: usize = 16;

/// Random hexadecimal digits of the system.
///
/// # Errors
///
/// Where the system has no random numbers.
pub(crate) fn random() -> Result<String, rand::rngs::SysError> {
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
pub(crate) struct Guard {
    token: String,
    hosts: [String; 2],
}

impl Guard {
    pub(crate) fn new(token: String, address: SocketAddr) -> Self {
        Self { token, hosts: [address.to_string(), format!("localhost:{}", address.port())] }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The path below the token, or the answer to those who may not ask.
    pub(crate) fn admit<'a>(&self, path: &'a str, headers: &HeaderMap) -> Result<&'a str, Response> {
        let host =
            only(headers, &HOST).ok().flatten().filter(|host| self.hosts.iter().any(|own| own == host));
        let Some(host) = host else {
            let text = format!("Host must be {}\n", self.hosts.join(" or "));
            return Err(Response::text(Status::MISDIRECTED_REQUEST, text));
        };
        let same = match only(headers, &ORIGIN) {
            Ok(None) => true,
            Ok(Some(origin)) => origin.strip_prefix("http://") == Some(host),
            Err(()) => false,
        };
        if !same {
            return Err(Response::text(Status::FORBIDDEN, "requests of other sites are not answered\n"));
        }
        let (token, below) = path.strip_prefix('/').and_then(|path| path.split_once('/')).unwrap_or_default();
        // The length is no secret.
        if bool::from(token.as_bytes().ct_eq(self.token.as_bytes())) {
            Ok(below)
        } else {
            Err(Response::text(Status::NOT_FOUND, "nothing here: the whole address is on the terminal\n"))
        }
    }
}

/// The header `name`, which may occur once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() { Err(()) } else { value.to_str().map(Some).map_err(drop) }
}
