//! A sender whose address changes, or whose interface goes away: the stream goes on, what could not be sent is not lost, and the receiver
//! shows each address.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::common::{
    assert_has, count, finished, json, key_file,
    namespace::{Far, Routed, in_namespace, ip, with_hosts},
    process::{Listener, Running, start, start_by},
};

/// 100 datagrams a second for 6 s, to a receiver that is patient.
fn send(to: &str) -> Running {
    start(&["send", to, "-b", "800k", "-l", "1000", "-t", "6", "--silence", "20s", "--json"])
}

const RECEIVER: [&str; 4] = ["--idle", "20s", "--once", "--json"];

fn pause(millis: u64) {
    thread::sleep(Duration::from_millis(millis));
}

/// The packets of each path of a receiver are all that it received, and the paths begin with these addresses.
#[track_caller]
fn assert_paths(paths: &Value, address: &str, ours: [&str; 2], received: u64) {
    let paths = paths.as_array().unwrap();
    let from: Vec<_> = paths.iter().map(|path| path[address].as_str().unwrap()).collect();
    assert!(from.len() == 2 && from.iter().zip(ours).all(|(from, ours)| from.starts_with(ours)), "{from:?}");
    let each: Vec<u64> = paths.iter().map(|path| count(&path["received_packets"])).collect();
    assert!(each.iter().sum::<u64>() == received && each.iter().all(|packets| *packets > 50), "{paths:?}");
}

/// Checks the counts of both ends; returns the number of datagrams that were not sent.
#[track_caller]
fn assert_moved(sender: Running, receiver: Listener, paths: [&str; 2], most_lost: u64) -> u64 {
    let sent = finished(&sender.output());
    let (received, _) = receiver.result();
    let [accepted, unsent, lost] =
        ["sent_packets", "unsent_packets", "lost_packets"].map(|name| count(&sent[name]));
    // A busy machine may skip some.
    assert_eq!(accepted + unsent + count(&sent["slips"]["skipped_packets"]), 600, "{sent}");
    assert!(lost <= most_lost, "{lost} lost: {sent}");
    assert_has(&received, &json!({ "received_packets": accepted - lost, "unsent_packets": unsent }));
    assert_paths(&received["paths"], "from", paths, accepted - lost);
    unsent
}

/// The call at both ends, whose caller sends for 7 s: the number of datagrams that were not sent.
#[track_caller]
fn assert_call_moved(caller: Running, listener: Listener, paths: [&str; 2], most_lost: u64) -> u64 {
    let (called, (answered, _)) = (finished(&caller.output()), listener.result());
    for record in [&called, &answered] {
        assert_eq!(record["call"]["error"], Value::Null, "{record}");
    }
    let [of_caller, of_listener] = [&called, &answered].map(|record| &record["flows"][0]);
    let names = ["sent_packets", "received_packets", "lost_packets"];
    for name in names {
        assert_eq!(of_caller[name], of_listener[name], "{name}: {called} {answered}");
    }
    let [sent, received, lost] = names.map(|name| count(&of_caller[name]));
    assert!(sent == received + lost && lost <= most_lost, "{lost} lost: {called}");
    assert!(count(&called["call"]["address_changes"]) >= 1, "{called}");
    assert_paths(&answered["call"]["paths"], "far_end", paths, received);
    assert!(!answered["call"]["doubts"].to_string().contains("changed on the way"), "{answered}");
    count(&called["call"]["unsent_packets"])
}

fn call(to: &str) -> Running {
    let rate = ["--controller", "fixed", "--start-rate", "400k"];
    start(&[&["call", to], &rate[..], &["-t", "7", "--silence", "20s", "--json"]].concat())
}

const LISTENER: [&str; 4] = ["--silence", "20s", "--once", "--json"];

#[test]
fn a_stream_and_a_call_go_on_from_another_address_after_one_is_lost() {
    in_namespace("a stream and a call whose address changes", 65_536, || {
        let far = Far::behind(1500);
        let receiver = far.listener(&[&["recv", "10.9.0.2:5005"], &RECEIVER[..]].concat());
        let listener = far.listener(&[&["call", "--listen", "10.9.0.2:5004"], &LISTENER[..]].concat());
        let (sender, caller) = (send("10.9.0.2:5005"), call("10.9.0.2:5004"));
        pause(2_000);
        ip(&["address", "del", "10.9.0.1/24", "dev", "near"]);
        pause(1_500);
        ip(&["address", "add", "10.9.0.77/24", "dev", "near"]);
        let paths = ["10.9.0.1:", "10.9.0.77:"];
        let unsent = assert_moved(sender, receiver, paths, 0);
        // 1.5 s without an address, and at most a second until that is noticed.
        assert!((130..300).contains(&unsent), "{unsent}");
        // About 50 packets a second of audio and 30 of video.
        let unsent = assert_call_moved(caller, listener, paths, 20);
        assert!((45..300).contains(&unsent), "{unsent}");
    });
}

/// The mapping goes with the router's address. The senders know nothing of it.
#[test]
fn a_stream_and_a_call_survive_a_new_mapping_of_a_nat() {
    in_namespace("a stream and a call whose mapping changes", 65_536, || {
        let path = Routed::with_mtu(1500);
        if !path.masquerade("a stream and a call whose mapping changes") {
            return;
        }
        let receiver = path.far.listener(&[&["recv", "10.9.1.3:5005"], &RECEIVER[..]].concat());
        let listener = path.far.listener(&[&["call", "--listen", "10.9.1.3:5004"], &LISTENER[..]].concat());
        let (sender, caller) = (send("10.9.1.3:5005"), call("10.9.1.3:5004"));
        pause(2_000);
        path.router.run("ip address del 10.9.1.2/24 dev outer\nip address add 10.9.1.4/24 dev outer");
        let paths = ["10.9.1.2:", "10.9.1.4:"];
        assert_eq!(assert_moved(sender, receiver, paths, 60), 0);
        assert_eq!(assert_call_moved(caller, listener, paths, 150), 0);
    });
}

#[test]
fn a_stream_goes_on_by_another_interface_when_one_goes_away() {
    in_namespace("a stream whose interface goes away", 65_536, || {
        let far = Far::behind(1500);
        ip(&["link", "add", "near2", "type", "veth", "peer", "name", "far2"]);
        ip(&["link", "set", "far2", "netns", &far.pid()]);
        ip(&["address", "add", "10.8.0.1/24", "dev", "near2"]);
        ip(&["link", "set", "near2", "up"]);
        far.run(
            "ip link set lo up
            ip address add 10.9.9.9/32 dev lo
            ip address add 10.8.0.2/24 dev far2
            ip link set far2 up",
        );
        ip(&["route", "add", "10.9.9.9", "via", "10.9.0.2", "metric", "10"]);
        ip(&["route", "add", "10.9.9.9", "via", "10.8.0.2", "metric", "20"]);
        let receiver = far.listener(&[&["recv", "10.9.9.9:5005"], &RECEIVER[..]].concat());
        let sender = send("10.9.9.9:5005");
        pause(1_500);
        ip(&["link", "set", "near", "down"]);
        // The former address is still known: datagrams leave with it by the other interface, and arrive.
        assert_moved(sender, receiver, ["10.9.0.1:", "10.8.0.1:"], 250);
    });
}

/// Both addresses of this end are shown, and nearly all of what is lost was sent while it had none.
#[track_caller]
fn assert_away(received: &Value, ours: [&str; 2]) {
    assert_eq!(received["ended"], "finished by the sender", "{received}");
    let lost = count(&received["lost_packets"]);
    assert_paths(&received["paths"], "to", ours, count(&received["received_packets"]));
    assert!(
        [0, 1].iter().all(|path| count(&received["paths"][path]["received_packets"]) > 100),
        "{received}"
    );
    let away = count(&received["paths"][0]["away_packets"]);
    assert!(away <= lost && away + 20 > lost && away > 30, "{away} of {lost}: {received}");
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
        let ask =
            |time| start(&["send", "10.9.0.2:5005", "-R", "-b", "800k", "-l", "1000", "-t", time, "--json"]);
        // Without any absence there is nothing to say.
        assert_eq!(json(&ask("1").output())["paths"], json!([]));
        let asker = ask("4");
        pause(1_500);
        ip(&["address", "del", "10.9.0.1/24", "dev", "near"]);
        pause(800);
        ip(&["address", "add", "10.9.0.1/24", "dev", "near"]);
        assert_away(&json(&asker.output()), ["10.9.0.1:", "10.9.0.1:"]);

        // Where the interface is down, the system of the far end keeps a part until it knows the neighbour again.
        let asker = ask("4");
        pause(1_500);
        ip(&["link", "set", "near", "down"]);
        pause(800);
        ip(&["link", "set", "near", "up"]);
        let received = json(&asker.output());
        assert_eq!(received["paths"].as_array().map(Vec::len), Some(2), "{received}");
        let [got, lost, sent] =
            ["received_packets", "lost_packets", "sent_packets"].map(|name| count(&received[name]));
        assert_eq!(got + lost, sent, "{received}");
        assert!(count(&received["paths"][0]["away_packets"]) <= lost, "{received}");
    });
}

/// The far end sends, and this end has another address after half a second without one.
#[test]
fn a_stream_that_the_far_end_sends_follows_a_new_address() {
    in_namespace("a stream to an address that changes", 65_536, || {
        let far = Far::behind(1500);
        let keys = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(keys.path(), key_file("17")).unwrap();
        let keyed = ["--key-file", keys.path().to_str().unwrap()];
        let _open = far.listener(&["recv", "10.9.0.2:5005"]);
        let _keyed = far.listener(&[&["recv", "10.9.0.2:5006"], &keyed[..]].concat());
        let askers = [("10.9.0.2:5005", &[][..]), ("10.9.0.2:5006", &keyed)].map(|(to, keys)| {
            start(&[&["send", to, "-R", "-b", "800k", "-l", "1000", "-t", "6", "--json"], keys].concat())
        });
        pause(2_000);
        ip(&["address", "del", "10.9.0.1/24", "dev", "near"]);
        pause(500);
        ip(&["address", "add", "10.9.0.77/24", "dev", "near"]);
        for asker in askers {
            // What went to the former address is lost: the far end knew nothing of it.
            let received = finished(&asker.output());
            assert_away(&received, ["10.9.0.1:", "10.9.0.77:"]);
            let [got, lost] = ["received_packets", "lost_packets"].map(|name| count(&received[name]));
            assert!((30..250).contains(&lost) && got > 300, "{got} {lost} {received}");
        }
    });
}

/// The far end, which is found by its name and can move to another address.
struct Named(Far, tempfile::NamedTempFile);

impl Named {
    fn new() -> Self {
        let named = Self(Far::behind(1500), tempfile::NamedTempFile::new().unwrap());
        std::fs::write(named.1.path(), "10.9.0.2 receiver\n").unwrap();
        named
    }

    /// Moves it. The name leads to the former address for `kept` ms more, as names do whose records are cached.
    fn moves(&self, kept: u64) {
        self.0.run("ip address del 10.9.0.2/24 dev far\nip address add 10.9.0.3/24 dev far");
        pause(kept);
        std::fs::write(self.1.path(), "10.9.0.3 receiver\n").unwrap();
    }

    fn start(&self, words: &str) -> Running {
        start_by(with_hosts(self.1.path(), &words.split(' ').collect::<Vec<_>>()))
    }
}

/// Streams in both directions, STAMP and calls.
#[test]
fn sessions_follow_the_name_of_their_far_end() {
    in_namespace("far ends whose address changes", 65_536, || {
        let named = Named::new();
        let far = &named.0;
        let receiver = far.listener(&[&["recv", "0.0.0.0:5005"], &RECEIVER[..]].concat());
        let _sender = far.listener(&["recv", "0.0.0.0:5006"]);
        let _reflector = far.listener(&["recv", "0.0.0.0:8620", "--accept", "stamp"]);
        let listener = far.listener(&[&["call", "--listen", "0.0.0.0:5004"], &LISTENER[..]].concat());
        let sender = named.start("send receiver -b 800k -l 1000 -t 7 --silence 20s --json");
        let asker = named.start("send receiver:5006 --reverse -b 800k -l 1000 -t 9 --json");
        let stamp = named.start("send receiver:8620 --protocol stamp -t 9 --json");
        let caller =
            named.start("call receiver --controller fixed --start-rate 400k -t 9 --silence 20s --json");
        pause(2_000);
        named.moves(0);

        let (sent, (received, _)) = (json(&sender.output()), receiver.result());
        let [got, lost] = ["received_packets", "lost_packets"].map(|name| count(&sent[name]));
        // What went to the former address is lost: nobody said that it is away.
        assert!(got > 200 && (50..450).contains(&lost), "{sent}");
        assert_eq!(received["received_packets"], got, "{received}");
        assert_eq!(received["paths"].as_array().map(Vec::len), Some(2), "{received}");

        let received = json(&asker.output());
        let [got, lost] = ["received_packets", "lost_packets"].map(|name| count(&received[name]));
        assert!(got > 300 && got + lost <= 900, "{received}");
        assert_eq!(received["ended"], "finished by the sender", "{received}");

        let stamped = json(&stamp.output());
        assert!(stamped["to"].as_str().unwrap().starts_with("10.9.0.3:"), "{stamped}");
        // Of ten a second in 9 s, at most 5 s of which nobody hears.
        assert!((40..90).contains(&count(&stamped["answered_packets"])), "{stamped}");
        // The port has stayed: for the reflector it is the same session.
        assert_eq!(stamped["reflector_stateful"], true, "{stamped}");

        let (called, (answered, _)) = (finished(&caller.output()), listener.result());
        assert_eq!(called["call"]["error"], Value::Null, "{called}");
        assert_eq!(called["flows"][0]["received_packets"], answered["flows"][0]["received_packets"]);
        assert!(called["call"]["far_end"].as_str().unwrap().starts_with("10.9.0.3:"), "{called}");
    });
}

#[test]
fn a_stream_from_the_far_end_is_found_within_a_second_of_its_name() {
    in_namespace("a stream from a name", 65_536, || {
        let named = Named::new();
        let _receiver = named.0.listener(&["recv", "0.0.0.0:5005"]);
        let asker = named.start("send receiver --reverse -b 800k -l 1000 -t 9 --json");
        pause(2_000);
        named.moves(1_500);
        let received = json(&asker.output());
        assert_eq!(received["ended"], "finished by the sender", "{received}");
        // Nothing arrives for 1.5 s and at most another second: questions 3 s apart would leave at most 540.
        assert!((590..800).contains(&count(&received["received_packets"])), "{received}");
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
        let caller = start_by(with_hosts(hosts.path(), &words.split(' ').collect::<Vec<_>>()));
        pause(2_500);
        path.far.run("ip address del 10.9.1.3/24 dev far\nip address add 10.9.1.5/24 dev far");
        std::fs::write(hosts.path(), "10.9.1.5 listener\n").unwrap();
        let (called, (answered, _)) = (finished(&caller.output()), listener.result());
        assert_eq!(called["call"]["error"], Value::Null, "{called}");
        assert!(called["call"]["far_end"].as_str().unwrap().starts_with("10.9.1.5:"), "{called}");
        let names = ["sent_packets", "received_packets", "lost_packets"];
        let [sent, got, lost] = names.map(|name| count(&called["flows"][0][name]));
        assert_eq!(answered["flows"][0]["received_packets"], got, "{answered}");
        // A quarter of the call at the most.
        assert!(got + lost == sent && lost < sent / 4, "{lost} of {sent} lost: {called}");
    });
}
