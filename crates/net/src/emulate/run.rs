//! Datagrams that a relay sends in one call.

/// Maximum number of bytes per send call.
const RUN_BYTES: usize = 65_507;

/// Consecutive datagrams of equal length to the same destination, which one call can send.
///
/// # Example
///
/// ```
/// use giusto_net::emulate::DatagramRun;
///
/// let mut run = DatagramRun::default();
/// run.push(b"one");
/// assert!(run.fits(3) && !run.fits(4));
/// run.push(b"two");
/// assert_eq!((run.packets(), run.segment(), run.bytes()), (2, 3, &b"onetwo"[..]));
/// ```
#[derive(Debug, Default)]
pub struct DatagramRun {
    bytes: Vec<u8>,
    segment: usize,
    packets: usize,
}

impl DatagramRun {
    /// Whether a further datagram of `len` bytes fits. Any datagram fits into an empty run, and an empty one into no other.
    pub const fn fits(&self, len: usize) -> bool {
        self.packets == 0 || (len == self.segment && len > 0 && self.bytes.len() + len <= RUN_BYTES)
    }

    /// Appends a datagram that [fits](Self::fits).
    pub fn push(&mut self, datagram: &[u8]) {
        self.segment = datagram.len();
        self.packets += 1;
        self.bytes.extend_from_slice(datagram);
    }

    /// The datagrams, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The length of each datagram, in bytes.
    pub const fn segment(&self) -> usize {
        self.segment
    }

    /// The number of datagrams.
    pub const fn packets(&self) -> usize {
        self.packets
    }

    /// Removes all datagrams.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.packets = 0;
    }
}
