//! The MTU of a path is found by probes, with and without the reports of routers. What is true is set with ip(8).

use serde_json::Value;

use crate::common::{
    assert_measured, count, finished, json,
    namespace::{Far, Routed, in_namespace, ip, nft},
    process::start,
    run, skip, text,
};

fn send(to: &str, words: &[&str]) -> (Value, std::process::Output) {
    let words = [&["send", to, "--mtu-discovery", "-b", "1M", "--count", "50", "--json"], words].concat();
    let output = run(&words);
    let result = if output.stdout.is_empty() { Value::Null } else { json(&output) };
    (result, output)
}

#[track_caller]
fn assert_found(result: &Value, mtu: u64, payload: u64) {
    let found = &result["mtu_discovery"];
    assert_eq!(
        [&result["mtu_bytes"], &found["payload_bytes"], &found["complete"], &found["changes"]],
        [&mtu.into(), &payload.into(), &true.into(), &Value::from(0)],
        "{result}"
    );
    assert_eq!((&result["received_packets"], &result["lost_packets"]), (&50.into(), &0.into()), "{result}");
}

#[test]
fn a_smaller_mtu_behind_a_router_is_found_whether_it_says_so_or_not() {
    in_namespace("path MTU discovery", 65_536, || {
        let path = Routed::with_mtu(1300);
        let _receiver = path.far.listener(&["recv", "10.9.1.3:5005"]);
        let (result, output) = send("10.9.1.3:5005", &[]);
        assert_measured(output.status.code(), &result);
        assert_found(&result, 1300, 1272);
        let figure = |name: &str| count(&result["mtu_discovery"][name]);
        // The base size, the largest, what the router says, and what a busy machine delayed.
        assert!(figure("packets_too_big") == 1 && figure("probes") < 12, "{result}");

        let (_, output) = send("10.9.1.3:5005", &["-l", "1273"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        let expected = "size: 1273 B do not fit the MTU of 1300 B that was found on the path to 10.9.1.3:5005: use at most 1272 B";
        assert!(error.contains(expected), "{error}");

        // Below the first probe, and then with what the system remembers of the route: it would send the probe in fragments.
        path.router.run("ip link set outer mtu 1200");
        path.far.run("ip link set far mtu 1200");
        for _ in 0..2 {
            let (result, output) = send("10.9.1.3:5005", &["-l", "1000"]);
            assert_measured(output.status.code(), &result);
            assert_found(&result, 1200, 1172);
        }
        path.router.run("ip link set outer mtu 1300");
        path.far.run("ip link set far mtu 1300");

        // A black hole, from a route that the system knows nothing of: no report arrives.
        ip(&["route", "flush", "cache"]);
        let drop = "add table inet f\nadd chain inet f in { type filter hook input priority 0; }
            add rule inet f in icmp type destination-unreachable drop";
        if let Err(why) = nft(drop) {
            return skip("a black hole", &why);
        }
        let (result, output) = send("10.9.1.3:5005", &["-l", "1272"]);
        assert_measured(output.status.code(), &result);
        assert_found(&result, 1300, 1272);
        assert_eq!(result["mtu_discovery"]["packets_too_big"], 0, "{result}");
        assert!(count(&result["mtu_discovery"]["lost_probes"]) >= 3, "{result}");
    });
}

#[test]
fn a_call_finds_the_mtu_of_its_path() {
    in_namespace("path MTU discovery of a call", 65_536, || {
        let path = Routed::with_mtu(1300);
        let listener = path.far.listener(&["call", "--listen", "10.9.1.3:5004", "--json"]);
        let words = start(&["call", "10.9.1.3", "--mtu-discovery", "-t", "5"]);
        let call = &finished(&run(&["call", "10.9.1.3", "--mtu-discovery", "-t", "5", "--json"]))["call"];
        let words = text(&words.output().stdout);
        assert!(words.contains("MTU      1300 B: UDP payload of 1272 B; found by "), "{words}");
        let figures =
            [&call["mtu_bytes"], &call["mtu_discovery"]["payload_bytes"], &call["mtu_discovery"]["complete"]];
        assert_eq!(figures, [&1300.into(), &1272.into(), &Value::from(true)], "{call}");
        let probes = [&call["mtu_discovery"]["probes"], &call["mtu_discovery"]["lost_probes"]];
        assert!(probes.iter().all(|count| count.as_u64().is_some_and(|count| count < 60)), "{call}");
        assert_eq!(listener.stop().0["runs"].as_array().map(Vec::len), Some(2));
    });
}

#[test]
fn the_mtu_of_one_link_is_found_over_both_families_and_with_keys() {
    let keys = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(keys.path(), crate::common::key_file("07")).unwrap();
    let keys = keys.path().to_str().unwrap();
    in_namespace("path MTU discovery on one link", 65_536, || {
        let far = Far::behind(9000);
        ip(&["address", "add", "fd00:9::1/64", "dev", "near", "nodad"]);
        far.run("ip address add fd00:9::2/64 dev far nodad");
        let _receiver = far.listener(&["recv", "[::]:5005", "--key-file", keys, "--accept-unauthenticated"]);
        for (to, words, payload) in [
            ("10.9.0.2:5005", &[][..], 8972),
            ("[fd00:9::2]:5005", &[], 8952),
            ("[fd00:9::2]:5005", &["--key-file", keys, "-P", "2"], 8952),
        ] {
            let (result, output) = send(to, words);
            assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
            let runs = result["runs"].as_array().cloned().unwrap_or(vec![result]);
            assert_eq!(runs.len(), if words.is_empty() { 1 } else { 2 });
            for run in &runs {
                assert_found(run, 9000, payload);
            }
        }
    });
}

#[test]
fn a_size_above_the_mtu_ends_the_stream_at_the_receiver() {
    in_namespace("a size above the MTU", 65_536, || {
        let far = Far::behind(1500);
        let receiver = far.listener(&["recv", "10.9.0.2:5005", "--once", "--json", "--idle", "60s"]);
        let (_, output) = send("10.9.0.2:5005", &["--size", "1473"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let (received, _) = receiver.result();
        assert_eq!(received["ended"], "finished by the sender", "{received}");
    });
}
