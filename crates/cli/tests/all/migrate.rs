//! A sender whose address changes, or whose interface goes away: the stream goes on, what could not be sent is not lost, and the receiver
//! shows each address.

use std::{
    process::{Output, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::common::{
    giusto, json,
    namespace::{Far, Routed, in_namespace, ip, with_hosts},
    process::{Listener, Running},
};

/// 100 datagrams a second for 6 s, to a receiver that is patient.
fn send(to: &str) -> Running {
    let words = ["-b", "800k", "-l", "1000", "-t", "6", "--silence", "20s", "--json"];
    let mut sender = giusto(&[&["send", to], &words[..]].concat());
    Running(sender.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
}

const RECEIVER: [&str; 4] = ["--idle", "20s", "--once", "--json"];

fn pause(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// Checks the counts of both ends; returns the number of datagrams that were not sent.
#[track_caller]
fn assert_moved(output: &Output, receiver: Listener, paths: [&str; 2], most_lost: u64) -> u64 {
    let sent = json(output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{sent}");
    let (received, _) = receiver.result();
    let count =
        |result: &Value, name: &str| result[name].as_u64().unwrap_or_else(|| panic!("{name}: {result}"));
    let [accepted, unsent, lost] =
        ["sent_packets", "unsent_packets", "lost_packets"].map(|name| count(&sent, name));
    // A busy machine may skip some.
    let skipped = count(&sent["slips"], "skipped_packets");
    assert_eq!(accepted + unsent + skipped, 600, "{sent}");
    assert!(lost <= most_lost, "{lost} lost: {sent}");
    assert_eq!(count(&received, "received_packets") + lost, accepted, "{received}");
    assert_eq!(count(&received, "unsent_packets"), unsent, "{received}");
    let of_paths = received["paths"].as_array().unwrap();
    let from: Vec<_> = of_paths.iter().map(|path| path["from"].as_str().unwrap()).collect();
    assert!(from.len() == 2 && from.iter().zip(paths).all(|(from, path)| from.starts_with(path)), "{from:?}");
    let each: Vec<u64> = of_paths.iter().map(|path| count(path, "received_packets")).collect();
    assert_eq!(each.iter().sum::<u64>(), count(&received, "received_packets"), "{received}");
    assert!(each.iter().all(|packets| *packets > 50), "{received}");
    unsent
}

#[test]
fn a_stream_goes_on_from_another_address_after_one_is_lost() {
    in_namespace("a stream whose address changes", 65_536, || {
        let far = Far::behind(1500);
        let receiver = far.listener(&[&["recv", "10.9.0.2:5005"], &RECEIVER[..]].concat());
        let sender = send("10.9.0.2:5005");
        pause(1_500);
        ip(&["address", "del", "10.9.0.1/24", "dev", "near"]);
        pause(1_500);
        ip(&["address", "add", "10.9.0.77/24", "dev", "near"]);
        let unsent = assert_moved(&sender.output(), receiver, ["10.9.0.1:", "10.9.0.77:"], 0);
        // 1.5 s without an address, and at most a second until that is noticed.
        assert!((130..300).contains(&unsent), "{unsent}");
    });
}

#[test]
fn a_stream_goes_on_by_another_interface_when_one_goes_away() {
    in_namespace("a stream whose interface goes away", 65_536, || {
        let far = Far::behind(1500);
        ip(&["link", "add", "near2", "type", "veth", "peer", "name", "far2"]);
        let pid = far.pid();
        ip(&["link", "set", "far2", "netns", &pid]);
        ip(&["address", "add", "10.8.0.1/24", "dev", "near2"]);
        ip(&["link", "set", "near2", "up"]);
        for words in [
            "link set lo up",
            "address add 10.9.9.9/32 dev lo",
            "address add 10.8.0.2/24 dev far2",
            "link set far2 up",
        ] {
            assert!(far.enter("ip").args(words.split(' ')).status().unwrap().success());
        }
        ip(&["route", "add", "10.9.9.9", "via", "10.9.0.2", "metric", "10"]);
        ip(&["route", "add", "10.9.9.9", "via", "10.8.0.2", "metric", "20"]);
        let receiver = far.listener(&[&["recv", "10.9.9.9:5005"], &RECEIVER[..]].concat());
        let sender = send("10.9.9.9:5005");
        pause(1_500);
        ip(&["link", "set", "near", "down"]);
        // The former address is still known: datagrams leave with it by the other interface, and arrive.
        assert_moved(&sender.output(), receiver, ["10.9.0.1:", "10.8.0.1:"], 250);
    });
}

/// The call at both ends, whose caller sends for 7 s: what the caller counts, and the number of datagrams that were not sent.
#[track_caller]
fn assert_call_moved(caller: Running, listener: Listener, paths: [&str; 2], most_lost: u64) -> u64 {
    let output = caller.output();
    let called = json(&output);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{called}");
    assert_eq!(called["call"]["error"], Value::Null, "{called}");
    let (answered, _) = listener.result();
    assert_eq!(answered["call"]["error"], Value::Null, "{answered}");
    let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}"));
    let [of_caller, of_listener] = [&called, &answered].map(|record| &record["flows"][0]);
    for name in ["sent_packets", "received_packets", "lost_packets"] {
        assert_eq!(of_caller[name], of_listener[name], "{name}: {called} {answered}");
    }
    let [sent, received, lost] =
        ["sent_packets", "received_packets", "lost_packets"].map(|name| count(&of_caller[name]));
    assert_eq!(sent, received + lost, "{called}");
    assert!(lost <= most_lost, "{lost} lost: {called}");
    assert!(count(&called["call"]["address_changes"]) >= 1, "{called}");
    let of_paths = answered["call"]["paths"].as_array().unwrap();
    let from: Vec<_> = of_paths.iter().map(|path| path["far_end"].as_str().unwrap()).collect();
    assert!(from.len() == 2 && from.iter().zip(paths).all(|(from, path)| from.starts_with(path)), "{from:?}");
    let each: Vec<u64> = of_paths.iter().map(|path| count(&path["received_packets"])).collect();
    assert_eq!(each.iter().sum::<u64>(), received, "{answered}");
    assert!(each.iter().all(|packets| *packets > 50), "{answered}");
    assert!(!answered["call"]["doubts"].to_string().contains("changed on the way"), "{answered}");
    count(&called["call"]["unsent_packets"])
}

fn call(to: &str) -> Running {
    let rate = ["--controller", "fixed", "--start-rate", "400k"];
    let words = ["-t", "7", "--silence", "20s", "--json"];
    let mut caller = giusto(&[&["call", to], &rate[..], &words].concat());
    Running(caller.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
}

const LISTENER: [&str; 4] = ["--silence", "20s", "--once", "--json"];

#[test]
fn a_call_goes_on_from_another_address_after_one_is_lost() {
    in_namespace("a call whose address changes", 65_536, || {
        let far = Far::behind(1500);
        let listener = far.listener(&[&["call", "--listen", "10.9.0.2:5004"], &LISTENER[..]].concat());
        let caller = call("10.9.0.2:5004");
        pause(2_000);
        ip(&["address", "del", "10.9.0.1/24", "dev", "near"]);
        pause(2_000);
        ip(&["address", "add", "10.9.0.77/24", "dev", "near"]);
        let unsent = assert_call_moved(caller, listener, ["10.9.0.1:", "10.9.0.77:"], 20);
        // 2 s of about 50 packets a second of audio and 30 of video.
        assert!((60..400).contains(&unsent), "{unsent}");
    });
}

#[test]
fn a_call_survives_a_new_mapping_of_a_nat() {
    in_namespace("a call whose mapping changes", 65_536, || {
        let path = Routed::with_mtu(1500);
        if !path.masquerade("a call whose mapping changes") {
            return;
        }
        let words = [&["call", "--listen", "10.9.1.3:5004"], &LISTENER[..]].concat();
        let listener = path.far.listener(&words);
        let caller = call("10.9.1.3:5004");
        pause(3_000);
        path.router.run("ip address del 10.9.1.2/24 dev outer\nip address add 10.9.1.4/24 dev outer");
        let unsent = assert_call_moved(caller, listener, ["10.9.1.2:", "10.9.1.4:"], 150);
        assert_eq!(unsent, 0);
    });
}

/// Both addresses of this end are shown, and nearly all of what is lost was sent while it had none.
#[track_caller]
fn assert_away(received: &Value, ours: [&str; 2], lost: u64) {
    let paths = received["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 2, "{received}");
    for (path, ours) in paths.iter().zip(ours) {
        assert!(path["to"].as_str().unwrap().starts_with(ours), "{received}");
    }
    let away = paths[0]["away_packets"].as_u64().unwrap();
    assert!(away <= lost && away + 20 > lost && away > 30, "{away} of {lost}: {received}");
    let got = [&paths[0], &paths[1]].map(|path| path["received_packets"].as_u64().unwrap());
    assert!(got.iter().all(|got| *got > 100), "{received}");
    assert_eq!(got.iter().sum::<u64>(), received["received_packets"].as_u64().unwrap(), "{received}");
    let said = format!("this end had no address or no route for a time: {away} of the {lost} lost datagrams");
    let doubts = received["doubts"].as_array().unwrap();
    assert!(doubts.iter().any(|doubt| doubt.as_str().unwrap().starts_with(&said)), "{received}");
}

/// The far end sends, and the address of this end, or its interface, is away for a while.
#[test]
fn what_the_far_end_sends_while_this_end_is_away_is_said() {
    in_namespace("a stream to an end that is away", 65_536, || {
        let far = Far::behind(1500);
        let _receiver = far.listener(&["recv", "10.9.0.2:5005"]);
        let ask = || {
            let words = ["--reverse", "-b", "800k", "-l", "1000", "-t", "4", "--json"];
            let mut asker = giusto(&[&["send", "10.9.0.2:5005"], &words[..]].concat());
            Running(asker.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
        };
        // Without any absence there is nothing to say.
        let undisturbed = json(&ask().output());
        assert_eq!(undisturbed["paths"], serde_json::json!([]), "{undisturbed}");
        let asker = ask();
        pause(1_500);
        ip(&["address", "del", "10.9.0.1/24", "dev", "near"]);
        pause(800);
        ip(&["address", "add", "10.9.0.1/24", "dev", "near"]);
        let received = json(&asker.output());
        let lost = received["lost_packets"].as_u64().unwrap();
        assert_away(&received, ["10.9.0.1:", "10.9.0.1:"], lost);
        assert_eq!(received["ended"], "finished by the sender", "{received}");

        // Where the interface is down, the system of the far end keeps a part until it knows the neighbour again.
        let asker = ask();
        pause(1_500);
        ip(&["link", "set", "near", "down"]);
        pause(800);
        ip(&["link", "set", "near", "up"]);
        let received = json(&asker.output());
        let paths = received["paths"].as_array().unwrap();
        assert_eq!(paths.len(), 2, "{received}");
        let count = |value: &Value| value.as_u64().unwrap();
        let [got, lost, sent] =
            ["received_packets", "lost_packets", "sent_packets"].map(|name| count(&received[name]));
        assert_eq!(got + lost, sent, "{received}");
        assert!(count(&paths[0]["away_packets"]) <= lost, "{received}");
    });
}

/// The far end sends, and this end has another address after half a second without one.
#[test]
fn a_stream_that_the_far_end_sends_follows_a_new_address() {
    in_namespace("a stream to an address that changes", 65_536, || {
        let far = Far::behind(1500);
        let keys = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(keys.path(), format!("1 {}\n", "17".repeat(32))).unwrap();
        let keyed = ["--key-file", keys.path().to_str().unwrap()];
        let open = far.listener(&["recv", "10.9.0.2:5005"]);
        let _keyed = far.listener(&[&["recv", "10.9.0.2:5006"], &keyed[..]].concat());
        let ask = |to, keys: &[&str]| {
            let words = ["--reverse", "-b", "800k", "-l", "1000", "-t", "6", "--json"];
            let mut asker = giusto(&[&["send", to], &words[..], keys].concat());
            Running(asker.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
        };
        let askers = [ask("10.9.0.2:5005", &[]), ask("10.9.0.2:5006", &keyed)];
        pause(2_000);
        ip(&["address", "del", "10.9.0.1/24", "dev", "near"]);
        pause(500);
        ip(&["address", "add", "10.9.0.77/24", "dev", "near"]);
        for asker in askers {
            let output = asker.output();
            let received = json(&output);
            assert!(matches!(output.status.code(), Some(0 | 3)), "{received}");
            let [got, lost] =
                ["received_packets", "lost_packets"].map(|name| received[name].as_u64().unwrap());
            // What went to the former address is lost: the far end knew nothing of it.
            assert_eq!(received["ended"], "finished by the sender", "{received}");
            assert_away(&received, ["10.9.0.1:", "10.9.0.77:"], lost);
            assert!((30..250).contains(&lost) && got > 300, "{got} {lost} {received}");
        }
        drop(open);
    });
}

#[test]
fn a_stream_follows_the_name_of_its_receiver() {
    in_namespace("a receiver whose address changes", 65_536, || {
        let far = Far::behind(1500);
        let hosts = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(hosts.path(), "10.9.0.2 receiver\n").unwrap();
        let receiver = far.listener(&[&["recv", "0.0.0.0:5005"], &RECEIVER[..]].concat());
        let words = ["send", "receiver", "-b", "800k", "-l", "1000", "-t", "7", "--silence", "20s", "--json"];
        let mut sender = with_hosts(hosts.path(), &words);
        let sender = Running(sender.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        pause(1_500);
        far.run("ip address del 10.9.0.2/24 dev far\nip address add 10.9.0.3/24 dev far");
        std::fs::write(hosts.path(), "10.9.0.3 receiver\n").unwrap();
        let sent = json(&sender.output());
        let (received, _) = receiver.result();
        let [got, lost] = ["received_packets", "lost_packets"].map(|name| sent[name].as_u64().unwrap());
        // What went to the former address is lost: nobody said that it is away.
        assert!(got > 200 && (50..450).contains(&lost), "{sent}");
        assert_eq!(received["received_packets"], got, "{received}");
        assert_eq!(received["paths"].as_array().map(Vec::len), Some(2), "{received}");
    });
}

/// Streams that the far end sends, STAMP and calls, whose far end, found by its name, gets another address.
#[test]
fn other_sessions_follow_the_name_of_their_far_end_too() {
    in_namespace("far ends whose address changes", 65_536, || {
        let far = Far::behind(1500);
        let hosts = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(hosts.path(), "10.9.0.2 receiver\n").unwrap();
        let _receiver = far.listener(&["recv", "0.0.0.0:5005"]);
        let _reflector = far.listener(&["recv", "0.0.0.0:8620", "--accept", "stamp"]);
        let listener = far.listener(&[&["call", "--listen", "0.0.0.0:5004"], &LISTENER[..]].concat());
        let start = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            let mut command = with_hosts(hosts.path(), &words);
            Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
        };
        let asker = start("send receiver --reverse -b 800k -l 1000 -t 9 --json");
        let stamp = start("send receiver:8620 --protocol stamp -t 9 --json");
        let caller = start("call receiver --controller fixed --start-rate 400k -t 9 --silence 20s --json");
        pause(2_000);
        far.run("ip address del 10.9.0.2/24 dev far\nip address add 10.9.0.3/24 dev far");
        std::fs::write(hosts.path(), "10.9.0.3 receiver\n").unwrap();

        let received = json(&asker.output());
        let [got, lost] = ["received_packets", "lost_packets"].map(|name| received[name].as_u64().unwrap());
        assert!(got > 300 && got + lost <= 900, "{received}");
        assert_eq!(received["ended"], "finished by the sender", "{received}");

        let stamped = json(&stamp.output());
        assert!(stamped["to"].as_str().unwrap().starts_with("10.9.0.3:"), "{stamped}");
        let answered = stamped["answered_packets"].as_u64().unwrap();
        // Of ten a second in 9 s, at most 5 s of which nobody hears.
        assert!((40..90).contains(&answered), "{stamped}");
        // The port has stayed: for the reflector it is the same session.
        assert_eq!(stamped["reflector_stateful"], true, "{stamped}");

        let output = caller.output();
        let called = json(&output);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{called}");
        assert_eq!(called["call"]["error"], Value::Null, "{called}");
        let (answered, _) = listener.result();
        assert_eq!(called["flows"][0]["received_packets"], answered["flows"][0]["received_packets"]);
        assert!(called["call"]["far_end"].as_str().unwrap().starts_with("10.9.0.3:"), "{called}");
    });
}

/// The caller's NAT lets nothing in from the new address until the caller has sent there.
#[test]
fn a_call_from_behind_a_nat_follows_the_name_of_its_listener() {
    in_namespace("a call to a name through a NAT", 65_536, || {
        let path = Routed::with_mtu(1500);
        if !path.masquerade("a call to a name through a NAT") {
            return;
        }
        let hosts = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(hosts.path(), "10.9.1.3 listener\n").unwrap();
        let words = [&["call", "--listen", "0.0.0.0:5004"], &LISTENER[..]].concat();
        let listener = path.far.listener(&words);
        let words = "call listener --controller fixed --start-rate 400k -t 8 --silence 20s --json";
        let mut caller = with_hosts(hosts.path(), &words.split(' ').collect::<Vec<_>>());
        let caller = Running(caller.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
        pause(2_500);
        path.far.run("ip address del 10.9.1.3/24 dev far\nip address add 10.9.1.5/24 dev far");
        std::fs::write(hosts.path(), "10.9.1.5 listener\n").unwrap();
        let output = caller.output();
        let called = json(&output);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{called}");
        assert_eq!(called["call"]["error"], Value::Null, "{called}");
        assert!(called["call"]["far_end"].as_str().unwrap().starts_with("10.9.1.5:"), "{called}");
        let (answered, _) = listener.result();
        let count = |record: &Value, name: &str| record["flows"][0][name].as_u64().unwrap();
        let [sent, got, lost] =
            ["sent_packets", "received_packets", "lost_packets"].map(|name| count(&called, name));
        assert_eq!(got, count(&answered, "received_packets"), "{answered}");
        // A quarter of the call at the most.
        assert!(got + lost == sent && lost < sent / 4, "{lost} of {sent} lost: {called}");
    });
}

#[test]
fn a_stream_survives_a_new_mapping_of_a_nat() {
    in_namespace("a stream whose mapping changes", 65_536, || {
        let path = Routed::with_mtu(1500);
        if !path.masquerade("a stream whose mapping changes") {
            return;
        }
        let receiver = path.far.listener(&[&["recv", "10.9.1.3:5005"], &RECEIVER[..]].concat());
        let sender = send("10.9.1.3:5005");
        pause(2_000);
        // The mapping goes with the address. The sender knows nothing of it.
        path.router.run("ip address del 10.9.1.2/24 dev outer\nip address add 10.9.1.4/24 dev outer");
        let unsent = assert_moved(&sender.output(), receiver, ["10.9.1.2:", "10.9.1.4:"], 60);
        assert_eq!(unsent, 0);
    });
}
