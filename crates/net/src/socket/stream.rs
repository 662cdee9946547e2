//! TCP connections whose path is chosen.

use std::{
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{PathOptions, SocketError, TrafficClass};

/// A TCP connection to `to`, made within `limit`. Its first segment already has the path and the DSCP of `class`; ECN of TCP is the
/// matter of the kernel.
///
/// # Errors
///
/// [`SocketError`]: an option or an address that the system does not take, or [`Connect`](SocketError::Connect).
pub fn connect_tcp(
    to: SocketAddr,
    path: &PathOptions,
    class: TrafficClass,
    limit: Duration,
) -> Result<TcpStream, SocketError> {
    let (socket, name) = stream_socket(to, path, class)?;
    socket.connect_timeout(&name, limit).map_err(|source| SocketError::Connect { address: to, source })?;
    Ok(socket.into())
}

/// A socket for a TCP connection to `to`, and the name by which it connects.
pub(crate) fn stream_socket(
    to: SocketAddr,
    path: &PathOptions,
    class: TrafficClass,
) -> Result<(Socket, SockAddr), SocketError> {
    let failed = |source| SocketError::Open { address: to, source };
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP)).map_err(failed)?;
    class.apply(&socket, to.is_ipv6())?;
    path.apply(&socket, to.is_ipv6())?;
    if let Some(source) = path.source {
        let address = SocketAddr::from((source, 0));
        let failed = |source| SocketError::Bind { address, source };
        socket.bind(&SockAddr::from(address)).map_err(failed)?;
    }
    Ok((socket, path.name(to)))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, TcpListener};

    use super::*;

    #[test]
    fn a_connection_has_the_path_that_was_asked_for() {
        let limit = Duration::from_secs(5);
        let class = TrafficClass::new(46, 0).unwrap();
        for (here, source) in [("127.0.0.1:0", Some("127.0.0.9")), ("[::1]:0", None)] {
            let Ok(listener) = TcpListener::bind(here) else { continue };
            let to = listener.local_addr().unwrap();
            let source: Option<IpAddr> = source.map(|source| source.parse().unwrap());
            let path = PathOptions {
                source,
                priority: Some(5),
                ttl: Some(9),
                interface: Some("lo".to_owned()),
                ..PathOptions::default()
            };
            let near = Socket::from(connect_tcp(to, &path, class, limit).unwrap());
            let (_, from) = listener.accept().unwrap();
            assert_eq!(from.ip(), source.unwrap_or(to.ip()));
            assert_eq!((near.priority().unwrap(), near.ttl_v4().unwrap()), (5, 9));
            if to.is_ipv6() {
                assert_eq!((near.unicast_hops_v6().unwrap(), near.tclass_v6().unwrap()), (9, 184));
            } else {
                assert_eq!(near.tos_v4().unwrap(), 184);
            }
            // Without them, all is the system's.
            let plain = connect_tcp(to, &PathOptions::default(), TrafficClass::default(), limit).unwrap();
            let plain = Socket::from(plain);
            assert_eq!((plain.priority().unwrap(), plain.tos_v4().unwrap()), (0, 0));
            drop(listener);
            let refused = connect_tcp(to, &path, class, limit).unwrap_err();
            assert!(matches!(refused, SocketError::Connect { .. }), "{refused}");
        }
    }

    #[test]
    fn what_the_system_does_not_take_is_named() {
        let to = ([127, 0, 0, 1], 9).into();
        let error = |path: PathOptions| {
            connect_tcp(to, &path, TrafficClass::default(), Duration::from_secs(1)).unwrap_err().to_string()
        };
        let unknown =
            error(PathOptions { interface: Some("nonsense7".to_owned()), ..PathOptions::default() });
        assert!(unknown.starts_with("cannot use the interface nonsense7: "), "{unknown}");
        let foreign = error(PathOptions { source: Some([192, 0, 2, 77].into()), ..PathOptions::default() });
        assert!(foreign.starts_with("cannot bind to 192.0.2.77:0: "), "{foreign}");
    }
}
