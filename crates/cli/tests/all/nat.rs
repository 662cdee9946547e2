//! Through a router that masquerades: what an end behind it can do, and that its mappings live as long as it needs them.

use serde_json::{Value, json};

use crate::common::{
    assert_has, finished, key_file, measured,
    namespace::{Routed, in_namespace},
    run,
};

/// A path through a router whose mappings are short: 1 s, and 2 s once there was an answer.
fn masqueraded(test: &str) -> Option<Routed> {
    let path = Routed::with_mtu(1500);
    if !path.masquerade(test) {
        return None;
    }
    path.router.run(
        "sysctl -qw net.netfilter.nf_conntrack_udp_timeout=1
        sysctl -qw net.netfilter.nf_conntrack_udp_timeout_stream=2",
    );
    Some(path)
}

#[test]
fn streams_in_both_directions_pass_a_nat_and_keep_its_mapping() {
    in_namespace("streams through a NAT", 65_536, || {
        let Some(path) = masqueraded("streams through a NAT") else { return };
        let receiver = path.far.listener(&["recv", "10.9.1.3:5005", "--json"]);
        // A datagram in 2.5 s: without more, the mapping would not live to the next.
        let slow = ["-b", "3200", "-l", "1000", "-t", "7", "--json"];
        for (words, from) in [(&[][..], Value::Null), (&["--reverse"], "10.9.1.3:5005".into())] {
            let result = measured(&run(&[&["send", "10.9.1.3:5005"], &slow[..], words].concat()));
            assert_has(
                &result,
                &json!({ "sent_packets": 3, "received_packets": 3, "lost_packets": 0, "from": from }),
            );
        }
        let (received, _) = receiver.stop();
        // The receiver sees the router, not us, and all the time the same port.
        let run = &received["runs"][0];
        assert!(run["from"].as_str().unwrap().starts_with("10.9.1.2:"), "{received}");
        assert_eq!(run["paths"], Value::Array(Vec::new()), "{received}");
    });
}

#[test]
fn a_call_from_behind_a_nat_works_in_both_directions() {
    in_namespace("a call through a NAT", 65_536, || {
        let Some(path) = masqueraded("a call through a NAT") else { return };
        let keys = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(keys.path(), key_file("11")).unwrap();
        let keys = ["--key-file", keys.path().to_str().unwrap()];
        // Encrypted, if this build supports that.
        let srtp: &[&str] = if cfg!(feature = "browser") { &["--srtp"] } else { &[] };
        let listen = ["call", "--listen", "10.9.1.3:5004", "--once", "--json"];
        let listener = path.far.listener(&[&listen, &keys[..], srtp].concat());
        let call = finished(&run(
            &[&["call", "10.9.1.3", "--bidir", "-t", "4", "--json"], &keys[..], srtp].concat()
        ));
        assert_eq!(call["call"]["error"], Value::Null, "{call}");
        assert_eq!(call["call"]["protection"] == "srtp", cfg!(feature = "browser"), "{call}");
        for flow in call["flows"].as_array().unwrap() {
            assert!(flow["received_packets"].as_u64().is_some_and(|packets| packets > 100), "{flow}");
        }
        let (answered, _) = listener.result();
        assert!(answered["call"]["far_end"].as_str().unwrap().starts_with("10.9.1.2:"), "{answered}");
        assert_eq!(answered["call"]["address_changes"], 0, "{answered}");
    });
}
