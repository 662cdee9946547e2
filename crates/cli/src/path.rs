//! Flags that choose the path: where datagrams leave, and what routers and switches read of them.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use giusto_net::PathOptions;

use crate::{
    args::whole,
    usage::{UsageError, misuse},
};

/// Flags of commands that send to one far end.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PathArgs {
    /// Send and receive by this interface alone
    #[arg(long, value_name = "NAME")]
    pub(crate) interface: Option<String>,

    /// Source address of what this end sends, one of this machine
    #[arg(long, value_name = "ADDR")]
    source: Option<IpAddr>,

    /// Flow label of IPv6 datagrams (RFC 6437), such as 0x12345
    #[arg(long, value_name = "LABEL", value_parser = flow_label)]
    flow_label: Option<u32>,

    /// Priority of every datagram in this machine's queues; a VLAN interface maps it to the PCP of 802.1Q (ip link set … type vlan
    /// egress-qos-map 5:5). 7 and above need privilege [default: by DSCP]
    #[arg(long, value_name = "0..15", value_parser = whole::<u8>(0, 15))]
    priority: Option<u8>,

    /// TTL (IPv4) or Hop Limit (IPv6) of every datagram [default: that of the system; 1 to a multicast group]
    #[arg(long, value_name = "1..255", value_parser = whole::<u8>(1, 255))]
    ttl: Option<u8>,
}

/// A decimal number, or a hexadecimal one behind 0x.
fn flow_label(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.ok().filter(|label| *label <= PathOptions::MAX_FLOW_LABEL).ok_or_else(|| {
        format!(
            "must be a number of at most 20 bits, 0 to 0x{:x}, found \"{text}\"",
            PathOptions::MAX_FLOW_LABEL
        )
    })
}

impl PathArgs {
    pub(crate) fn options(&self) -> PathOptions {
        PathOptions {
            interface: self.interface.clone(),
            source: self.source,
            flow_label: self.flow_label,
            priority: self.priority,
            ttl: self.ttl,
        }
    }

    /// Those of the far end's addresses that these flags can reach.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if there is none.
    pub(crate) fn reachable(
        &self,
        target: &str,
        addresses: Vec<SocketAddr>,
    ) -> Result<Vec<SocketAddr>, UsageError> {
        let mut addresses = addresses;
        if let Some(source) = self.source {
            addresses.retain(|address| address.is_ipv4() == source.is_ipv4());
            if addresses.is_empty() {
                let family = if source.is_ipv4() { "IPv4" } else { "IPv6" };
                misuse!(
                    "--source {source}: {target} has no {family} address: choose a source of the other family"
                );
            }
        }
        if self.flow_label.is_some() {
            addresses.retain(|address| address.is_ipv6() && !address.ip().to_canonical().is_ipv4());
            if addresses.is_empty() {
                misuse!(
                    "--flow-label: only IPv6 has flow labels, and {target} has no IPv6 address: leave it out"
                );
            }
        }
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_label_has_20_bits() {
        assert_eq!(flow_label("0xfffff"), Ok(0xF_FFFF));
        assert_eq!(flow_label("74565"), Ok(0x1_2345));
        for text in ["0x100000", "1048576", "", "0x", "-1", "five"] {
            let error = flow_label(text).unwrap_err();
            assert!(error.starts_with("must be a number of at most 20 bits, 0 to 0xfffff, found"), "{error}");
        }
    }

    #[test]
    fn only_addresses_that_the_flags_can_reach_remain() {
        let both: Vec<SocketAddr> =
            vec!["[2001:db8::7]:5005".parse().unwrap(), "192.0.2.7:5005".parse().unwrap()];
        let left = |args: PathArgs, all: &[SocketAddr]| {
            args.reachable("host", all.to_vec()).map_err(|error| error.to_string())
        };
        let from = |text: &str| PathArgs { source: Some(text.parse().unwrap()), ..PathArgs::default() };
        assert_eq!(left(PathArgs::default(), &both), Ok(both.clone()));
        assert_eq!(left(from("192.0.2.1"), &both), Ok(vec![both[1]]));
        assert_eq!(left(from("::1"), &both), Ok(vec![both[0]]));
        let error = left(from("::1"), &both[1..]).unwrap_err();
        assert!(error.starts_with("--source ::1: host has no IPv6 address"), "{error}");
        let labelled = PathArgs { flow_label: Some(1), ..PathArgs::default() };
        assert_eq!(left(labelled.clone(), &both), Ok(vec![both[0]]));
        assert!(left(labelled, &both[1..]).unwrap_err().starts_with("--flow-label: only IPv6"));
    }
}
