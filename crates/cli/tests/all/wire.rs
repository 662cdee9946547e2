//! What a receiver loses itself: it reads what arrives as fast as other programs do, and says what it did not read in time. It is no loss
//! of the path. No test depends on how fast this machine is: on loopback, all that is lost is lost at an end.

use std::{process::Command, thread, time::Duration};

use crate::{
    common::{
        count, giusto, json, number,
        process::{Listener, Running, start, start_by},
        run, skip, text,
    },
    iperf3::{Server, iperf3_server},
};
use serde_json::Value;

/// 20,000 datagrams a second of 44 B, and of 200 B.
const STREAMS: [[&str; 4]; 2] = [["-b", "7040k", "-l", "44"], ["-b", "32M", "-l", "200"]];
/// Sequence numbers of RTP have 16 bits: slow enough to tell how many are missing.
const SLOWER: [&str; 4] = ["-b", "3M", "-l", "44"];
/// How often a busy machine may spoil a comparison.
const ATTEMPTS: usize = 3;
/// So much fills the largest receive buffer several times.
const STANDS: Duration = Duration::from_secs(2);

/// All that is lost was lost in the receiver's buffer, and said to be. Returns the number.
#[track_caller]
fn assert_own_loss(run: &Value) -> u64 {
    let [lost, dropped] = ["lost_packets", "kernel_dropped_packets"].map(|name| count(&run[name]));
    assert_eq!(lost, dropped, "{run}");
    let doubt = run["doubts"][0].as_str().unwrap_or_default();
    let said = format!("{lost} lost, all in the receiver's buffer, not on the path");
    assert_eq!(doubt.starts_with(&said), lost > 0, "{run}");
    assert!(count(&run["received_packets"]) > 0, "{run}");
    lost
}

/// The same of a result whose receiver was stopped.
#[track_caller]
fn assert_doubted(code: Option<i32>, run: &Value) {
    assert!(assert_own_loss(run) > 1_000, "{run}");
    assert_eq!(code, Some(3), "{run}");
}

/// Stops a process for a time in the middle of a stream.
fn stop_for_a_while(process: &Running) {
    thread::sleep(Duration::from_millis(700));
    process.signal("STOP");
    thread::sleep(STANDS);
    process.signal("CONT");
}

#[test]
fn both_ends_know_what_a_stopped_receiver_lost() {
    let receiver = Listener::start(&["127.0.0.1:0", "--once"]);
    let to = receiver.address.to_string();
    let sender = start(&[&["send", &to, "-t", "4", "--json"], &STREAMS[0][..]].concat());
    stop_for_a_while(&receiver.process);
    let sent = sender.output();
    assert_doubted(sent.status.code(), &json(&sent));
    let lost = count(&json(&sent)["lost_packets"]);
    let received = receiver.process.output();
    let printed = text(&received.stdout);
    let first = format!("warning: {lost} lost, all in the receiver's buffer, not on the path: ");
    assert!(printed.starts_with(&first), "{printed}");
    assert_eq!(received.status.code(), Some(3), "{printed}");
}

#[test]
fn a_stopped_receiver_of_rtp_knows_what_it_lost() {
    // It is not idle while what has arrived is not read.
    let receiver = Listener::start(&["127.0.0.1:0", "--accept", "rtp", "--idle", "1s", "--once", "--json"]);
    let to = receiver.address.to_string();
    let sender = start(&[&["send", &to, "-t", "4", "--one-way", "--rtp"], &SLOWER[..]].concat());
    stop_for_a_while(&receiver.process);
    let sent = sender.output();
    assert!(matches!(sent.status.code(), Some(0 | 3)), "{}", text(&sent.stdout));
    let (received, code) = receiver.result();
    assert_doubted(Some(code), &received);
    let arrived = count(&received["received_packets"]) + count(&received["lost_packets"]);
    assert!(arrived > 20_000, "{received}");
}

#[test]
fn stopped_ends_of_iperf3_know_what_they_lost() {
    let server = Server::start(&["--once", "--json"]);
    let Some(client) = server.client(&[&["-u", "-t", "4"][..], &STREAMS[0]].concat()) else { return };
    let client = start_by(client);
    assert!(server.0.next_line().contains("1 stream from the client"));
    stop_for_a_while(&server.0.process);
    drop(client.output());
    let (received, code) = server.result();
    assert_doubted(Some(code), &received);

    let (_server, to) = iperf3_server(&["-1"]).unwrap();
    let flags = ["--protocol", "iperf3", "-R", "-t", "4", "--json"];
    let receiver = start(&[&["send", &to], &flags[..], &STREAMS[0]].concat());
    stop_for_a_while(&receiver);
    let received = receiver.output();
    assert_doubted(received.status.code(), &json(&received));
}

#[test]
fn a_stopped_reflector_knows_what_it_lost() {
    let reflector = Listener::start(&["127.0.0.1:0", "--accept", "stamp"]);
    let to = reflector.address.to_string();
    let sender =
        start(&[&["send", &to, "--protocol", "stamp", "-t", "4", "--json"], &STREAMS[0][..]].concat());
    stop_for_a_while(&reflector.process);
    let sent = json(&sender.output());
    reflector.process.signal("INT");
    let reflected = reflector.process.output();
    let printed = text(&reflected.stdout);
    let doubt = printed.strip_prefix("warning: ").unwrap_or_else(|| panic!("{printed}"));
    let (dropped, rest) = doubt.split_once(' ').unwrap();
    assert!(rest.starts_with("lost in the reflector's buffer, not on the path: "), "{printed}");
    assert_eq!(reflected.status.code(), Some(3), "{printed}");
    // To the sender, it is loss on the way there. It may also have lost answers itself.
    let lost = count(&sent["lost_packets"]) - count(&sent["kernel_dropped_packets"]);
    assert_eq!(dropped.parse::<u64>().unwrap(), lost, "{printed} {sent}");
    assert!(lost > 1_000, "{sent}");
}

/// A test with iperf3 in both directions: the loss at giusto's end, and at that of iperf3.
type Role = fn(&[&str]) -> Option<[u64; 2]>;

/// Loss at giusto's end, and at that of iperf3, in one test in both directions.
fn losses(runs: &Value) -> [u64; 2] {
    let runs = runs["runs"].as_array().unwrap();
    let received = runs.iter().find(|run| run["from"].is_string()).unwrap();
    let sent = runs.iter().find(|run| !run["from"].is_string()).unwrap();
    assert_own_loss(received);
    [&received["lost_packets"], &sent["far_end"]["lost_packets"]].map(count)
}

#[test]
fn giusto_loses_no_more_than_iperf3() {
    let as_client = |stream: &[&str]| {
        let (_server, to) = iperf3_server(&["-1"])?;
        let flags = ["--protocol", "iperf3", "--bidir", "-t", "1", "--json"];
        Some(losses(&json(&run(&[&["send", &to], &flags[..], stream].concat()))))
    };
    let as_server = |stream: &[&str]| {
        let server = Server::start(&["--once", "--json"]);
        let mut client = server.client(&[&["-u", "--bidir", "-t", "1"], stream].concat())?;
        assert!(client.output().unwrap().status.success());
        Some(losses(&server.result().0))
    };
    let roles: [Role; 2] = [as_client, as_server];
    for (role, stream) in roles.iter().flat_map(|role| STREAMS.map(|stream| (role, stream))) {
        let mut seen: Vec<[u64; 2]> = Vec::new();
        while seen.last().is_none_or(|[ours, theirs]| ours > theirs) {
            assert!(seen.len() < ATTEMPTS, "{stream:?}: [giusto, iperf3] lost {seen:?}");
            let Some(losses) = role(&stream) else { return };
            seen.push(losses);
        }
    }
}

/// A receiver that is ended while it sends prints what it has sent.
#[test]
fn a_reverse_stream_has_its_result_when_the_far_end_is_ended() {
    let listener = Listener::start(&["127.0.0.1:0", "--json", "-t", "1"]);
    let to = listener.to();
    thread::scope(|scope| {
        scope.spawn(|| run(&["send", &to, "-R", "-t", "4", "-b", "1M"]));
        let (received, _) = listener.result();
        let runs = received["runs"].as_array().unwrap();
        assert!(runs.len() == 1 && count(&runs[0]["sent_packets"]) > 0, "{received}");
    });
}

#[test]
fn a_time_namespace_has_a_clock_of_its_own() {
    let mut namespace = Command::new("unshare");
    namespace.args(["--time", "--fork", "--monotonic", "5000", "--kill-child"]);
    let has_one = namespace.arg("true").status().is_ok_and(|status| status.success());
    if !has_one {
        return skip("a clock in a time namespace", "unshare makes none here");
    }
    let giusto = giusto(&[]);
    let mut inside = Command::new("unshare");
    inside.args(["--time", "--fork", "--monotonic", "5000", "--kill-child"]).arg(giusto.get_program());
    inside.args(["recv", "127.0.0.1:0", "--once", "--json"]);
    let receiver = Listener::by(inside);
    let sent = json(&run(&["send", &receiver.to(), "--count", "50", "--json"]));
    let (received, _) = receiver.result();
    for result in [sent, received] {
        let delay = &result["one_way_delay_ms"];
        let basis = delay["basis"].as_str().unwrap();
        assert!(!basis.contains("one clock"), "{delay}");
        assert!(number(&delay["p50"]).abs() < 500.0, "{delay}");
    }
}
