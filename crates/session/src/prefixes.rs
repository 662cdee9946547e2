//! Which addresses are served.

use std::net::IpAddr;

use ipnet::IpNet;

/// The addresses that are served: those of `allow`, less those of `deny`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// Only these; if empty, all.
    pub allow: Vec<IpNet>,
    /// None of these.
    pub deny: Vec<IpNet>,
}

impl Prefixes {
    /// Whether this address is served. An IPv4 address mapped to IPv6 counts as the IPv4 address.
    pub fn admit(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let within = |prefixes: &[IpNet]| prefixes.iter().any(|prefix| prefix.contains(&address));
        (self.allow.is_empty() || within(&self.allow)) && !within(&self.deny)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_allow_and_deny() {
        let nets = |text: &str| text.split_whitespace().map(|net| net.parse().unwrap()).collect();
        let admits = |prefixes: &Prefixes, address: &str| prefixes.admit(address.parse().unwrap());
        assert!(admits(&Prefixes::default(), "192.0.2.1"));
        let some = Prefixes { allow: nets("192.0.2.0/24 2001:db8::/32"), deny: nets("192.0.2.128/25") };
        for (address, expected) in [
            ("192.0.2.127", true),
            ("192.0.2.128", false),
            ("192.0.3.1", false),
            ("::ffff:192.0.2.1", true),
            ("::ffff:192.0.2.129", false),
            ("2001:db8:7::1", true),
            ("2001:db9::1", false),
        ] {
            assert_eq!(admits(&some, address), expected, "{address}");
        }
    }
}
