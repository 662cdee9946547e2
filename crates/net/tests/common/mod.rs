//! Functions shared by the tests over loopback.

use std::{
    net::{Ipv6Addr, SocketAddr},
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

use giusto_net::{ReceiveBatch, SocketConfig, TrafficClass, UdpSocket, Wait};

/// A datagram that arrived, with its metadata.
pub(crate) struct Datagram {
    pub(crate) bytes: Vec<u8>,
    pub(crate) from: SocketAddr,
    pub(crate) class: Option<TrafficClass>,
    pub(crate) dropped: Option<u32>,
    pub(crate) truncated: bool,
    /// Number of datagrams in its message.
    pub(crate) neighbours: usize,
}

/// The loopback address of each family that this machine has.
pub(crate) fn addresses() -> Vec<SocketAddr> {
    let v4 = SocketAddr::from(([127, 0, 0, 1], 0));
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    if let Err(error) = UdpSocket::bind(v6, &SocketConfig::default()) {
        eprintln!("skip: IPv6: {error}");
        return vec![v4];
    }
    vec![v4, v6]
}

/// A port where no program listens.
pub(crate) fn closed_port(any: SocketAddr) -> SocketAddr {
    UdpSocket::bind(any, &SocketConfig::default()).expect("a free port").local_addr()
}

/// A run of `count` numbered datagrams of `size` bytes, the last of `last` bytes.
pub(crate) fn run_of(count: usize, size: usize, last: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..count * size).map(|n| (n / size * 7 + n % size) as u8).collect();
    bytes.truncate((count - 1) * size + last);
    bytes
}

const PATIENCE: Wait = Wait::For(Duration::from_secs(5));

/// Receives until `count` datagrams have arrived, or for five seconds after the last one.
pub(crate) fn collect(socket: &UdpSocket, batch: &mut ReceiveBatch, count: usize) -> Vec<Datagram> {
    let mut all = Vec::new();
    while all.len() < count && socket.recv_batch(batch, PATIENCE).expect("a working socket") > 0 {
        for received in batch.iter() {
            let neighbours = received.datagrams().count();
            all.extend(received.datagrams().map(|bytes| Datagram {
                bytes: bytes.to_vec(),
                from: received.from,
                class: received.traffic_class,
                dropped: received.kernel_dropped,
                truncated: received.truncated,
                neighbours,
            }));
        }
    }
    assert_eq!(all.len(), count, "datagrams that arrived");
    all
}

/// Configures the socket to send without checksums.
#[allow(unsafe_code)]
pub(crate) fn send_without_checksums(socket: &UdpSocket) {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int that outlives the call, and its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0, "SO_NO_CHECK");
}
