//! The configuration of a socket.

use std::time::Duration;

use giusto_units::DataSize;

use socket2::Socket;

use super::{PathOptions, SocketError};

giusto_units::defaults! {
    /// The configuration of a [`UdpSocket`](super::UdpSocket). The defaults suit measurement.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SocketConfig {
        /// The send buffer; `None`: the system's default. Default: 1 MB, about 15 full messages. A larger one would hide a slow
        /// interface behind a queue.
        pub send_buffer: Option<DataSize> = Some(DataSize::from_bytes(1_000_000)),
        /// The receive buffer; `None`: the system's default. Default: 4 MB, which holds about 30 ms at 1 Gbit/s. The kernel
        /// counts its own overhead too: a datagram of 200 bytes may take 768 bytes.
        pub receive_buffer: Option<DataSize> = Some(DataSize::from_bytes(4_000_000)),
        /// DSCP and ECN of every datagram sent. Default: best effort, not ECN-capable.
        pub traffic_class: TrafficClass = TrafficClass::default(),
        /// Where the datagrams leave, and what routers and switches read of them. Default: all is left to the system.
        pub path: PathOptions = PathOptions::default(),
        /// Forbid fragments: a datagram that exceeds the path MTU is an error (`IP_PMTUDISC_DO`, `IPV6_DONTFRAG`). Default: no, the
        /// system fragments such a datagram.
        pub dont_fragment: bool = false,
        /// Receive runs of equal datagrams as one message (`UDP_GRO`). A run has one timestamp and one traffic class. Default: no.
        pub gro: bool = false,
        /// The kernel timestamps each message on arrival, in nanoseconds (`SO_TIMESTAMPNS`); and the card of the interface, where it has a
        /// clock (`SO_TIMESTAMPING`). Default: yes.
        pub kernel_timestamps: bool = true,
        /// The kernel, or the card, timestamps samples of what is sent, for [`departure_lag`](super::UdpSocket::departure_lag). Someone must
        /// read the stamps often, as [`Conversation`](crate::driver::Conversation) does: until then the socket counts as readable.
        /// Default: no.
        pub sample_departures: bool = false,
        /// The kernel reports with each message how many it dropped at this socket (`SO_RXQ_OVFL`). Default: yes.
        pub drop_counts: bool = true,
        /// The kernel reports DSCP and ECN with each message. Default: yes.
        pub receive_traffic_class: bool = true,
        /// The kernel reports TTL or Hop Limit with each message. Default: no.
        pub receive_ttl: bool = false,
        /// Keep what hosts and routers answer to undeliverable datagrams, for
        /// [`take_answers`](super::UdpSocket::take_answers), which must then be called often: until then the socket counts as readable.
        /// Default: no.
        pub report_unreachable: bool = false,
        /// Maximum time for which a send waits for space in the send buffer. Default: 100 ms.
        pub send_timeout: Duration = Duration::from_millis(100),
    }
}

/// The byte of the IP header that holds DSCP (RFC 2474 §3) and ECN (RFC 3168 §5).
///
/// # Example
///
/// ```
/// use giusto_net::TrafficClass;
///
/// let expedited = TrafficClass::new(46, 1).expect("46 is a code point, 1 is ECT(1)");
/// assert_eq!(expedited.byte(), 0xb9);
/// assert_eq!(TrafficClass::new(64, 0), None);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TrafficClass(u8);

impl TrafficClass {
    /// From a DSCP of at most 63 and an ECN field of at most 3; `None` beyond.
    pub const fn new(dscp: u8, ecn: u8) -> Option<Self> {
        if dscp < 64 && ecn < 4 { Some(Self(dscp << 2 | ecn)) } else { None }
    }

    /// From the byte of the header.
    pub const fn from_byte(byte: u8) -> Self {
        Self(byte)
    }

    /// Sets it for what a socket sends.
    pub(super) fn apply(self, socket: &Socket, v6: bool) -> Result<(), SocketError> {
        let failed = |source| SocketError::Option { option: "the traffic class", source };
        let byte = u32::from(self.0);
        // An IPv6 socket needs both: the IPv4 options apply to its IPv4 traffic.
        socket.set_tos_v4(byte).map_err(failed)?;
        if v6 { socket.set_tclass_v6(byte).map_err(failed) } else { Ok(()) }
    }

    /// The byte for the header.
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// The differentiated-services code point, 0 to 63.
    pub const fn dscp(self) -> u8 {
        self.0 >> 2
    }

    /// The ECN field: 0 not capable, 1 ECT(1), 2 ECT(0), 3 congestion experienced.
    pub const fn ecn(self) -> u8 {
        self.0 & 3
    }
}
