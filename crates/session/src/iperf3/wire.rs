//! Bytes of the control connection and greetings of the streams.

/// The TCP and UDP port of a server (`PORT` in `iperf.h`).
pub const DEFAULT_PORT: u16 = 5201;
/// The length of the cookie: 36 characters and a zero (`COOKIE_SIZE` in `iperf.h`).
pub const COOKIE_BYTES: usize = 37;
/// The maximum number of streams in one direction (`MAX_STREAMS` in `iperf.h`).
pub const MAX_STREAMS: usize = 128;
/// The version that giusto states: that of the protocol's source.
pub const VERSION: &str = concat!("giusto ", env!("CARGO_PKG_VERSION"));

/// What the client sends first.
pub type Cookie = [u8; COOKIE_BYTES];

/// The cookie that 36 random bytes make (`make_cookie` in `iperf_util.c`).
pub(super) fn cookie(random: &[u8; 36]) -> Cookie {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; COOKIE_BYTES];
    for (letter, byte) in cookie.iter_mut().zip(random) {
        *letter = LETTERS.get(usize::from(byte % 32)).copied().unwrap_or(b'a');
    }
    cookie
}

/// The states that a byte of the control connection announces (`iperf_api.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i8)]
pub enum State {
    /// The streams exist.
    TestStart = 1,
    /// Sending begins.
    TestRunning = 2,
    /// The client ends the test.
    TestEnd = 4,
    /// The server asks for the parameters.
    ParamExchange = 9,
    /// The server waits for the streams.
    CreateStreams = 10,
    /// The server ends early.
    ServerTerminate = 11,
    /// The client ends early.
    ClientTerminate = 12,
    /// The server asks for the client's figures.
    ExchangeResults = 13,
    /// Both ends have the figures.
    DisplayResults = 14,
    /// The server waits for a client; it is never sent.
    IperfStart = 15,
    /// The client has finished.
    IperfDone = 16,
    /// The server is busy.
    AccessDenied = -1,
    /// The server failed; two numbers follow.
    ServerError = -2,
}

impl State {
    /// The state of this byte; `None` if there is none.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte.cast_signed() {
            1 => Self::TestStart,
            2 => Self::TestRunning,
            4 => Self::TestEnd,
            9 => Self::ParamExchange,
            10 => Self::CreateStreams,
            11 => Self::ServerTerminate,
            12 => Self::ClientTerminate,
            13 => Self::ExchangeResults,
            14 => Self::DisplayResults,
            15 => Self::IperfStart,
            16 => Self::IperfDone,
            -1 => Self::AccessDenied,
            -2 => Self::ServerError,
            _ => return None,
        })
    }

    /// Its byte.
    pub const fn byte(self) -> u8 {
        (self as i8).cast_unsigned()
    }
}

/// The datagrams with which a stream begins (`UDP_CONNECT_MSG`, `UDP_CONNECT_REPLY` in `iperf.h`).
///
/// iperf3 writes them as numbers in the byte order of its machine. Its server accepts any datagram from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    /// Of the client.
    Connect,
    /// The server's answer.
    Reply,
}

impl Greeting {
    /// Its bytes, as a little-endian machine writes them.
    pub const fn bytes(self) -> [u8; 4] {
        match self {
            Self::Connect => *b"9876",
            Self::Reply => *b"6789",
        }
    }
}

/// Whether a datagram is a greeting of any version and byte order: the present words, or the numbers 123456789 and 987654321 of
/// versions before 3.10.
pub fn is_greeting(datagram: &[u8]) -> bool {
    const OLD: [u32; 2] = [123_456_789, 987_654_321];
    let Ok(bytes) = <[u8; 4]>::try_from(datagram) else { return false };
    let number = u32::from_le_bytes(bytes);
    bytes == Greeting::Connect.bytes()
        || bytes == Greeting::Reply.bytes()
        || OLD.contains(&number)
        || OLD.contains(&number.swap_bytes())
}

/// The identifier of stream `index`, counted from 0: 1, 3, 4, 5 … (`iperf_add_stream` in `iperf_api.c`).
pub const fn stream_id(index: usize) -> i64 {
    if index == 0 { 1 } else { index as i64 + 2 }
}
