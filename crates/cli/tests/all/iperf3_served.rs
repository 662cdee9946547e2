//! `giusto recv --accept iperf3` against the installed iperf3, on loopback.

use std::{
    fs,
    io::{BufRead, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use crate::{
    common::{
        assert_has, assert_measured, count, intervals_and_results, measured, number,
        process::{Running, start_by},
        run, text, total,
    },
    iperf3::{Server, assert_sum, iperf3_sum},
};
use serde_json::{Value, json};

#[test]
fn hostile_and_idle_connections_keep_no_client_out() {
    let server = Server::start(&["--json", "--once"]);
    let huge = [&[b'a'; 37][..], &u32::MAX.to_be_bytes(), &[b'{'; 1000]].concat();
    for bytes in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[0xff; 10_000], &huge] {
        let _ = TcpStream::connect(server.0.address).unwrap().write_all(bytes);
    }
    thread::sleep(Duration::from_millis(500));
    let idle: Vec<_> = (0..20).map(|_| TcpStream::connect(server.0.address).unwrap()).collect();
    thread::sleep(Duration::from_millis(300));
    let to = server.0.address.to_string();
    let sent =
        measured(&run(&["send", &to, "--protocol", "iperf3", "--count", "50", "--rate", "1M", "--json"]));
    assert_eq!(sent["sent_packets"], 50);
    // They are refused as busy as soon as there is a test, or room is needed, not after their time.
    for mut stream in idle {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, [0xff]);
    }
    let (received, status) = server.result();
    assert_measured(Some(status), &received);
    assert_sum(&received);
}

#[test]
fn an_iperf3_client_is_served() {
    let server = Server::start(&["--once", "--json"]);
    let Some(mut client) = server.client(&["-u", "-b", "2M", "-l", "500", "-t", "1", "-J"]) else { return };
    let theirs = iperf3_sum(&client.output().unwrap().stdout);
    let (ours, code) = server.result();
    assert_eq!(code, 0, "{ours}");
    assert_sum(&ours);
    assert!(ours["peer"].as_str().unwrap().starts_with("iperf3 3."), "{ours}");
    assert_has(&ours, &json!({ "rate_bps": 2_000_000, "size_bytes": 500 }));
    assert!(!ours["gap_error_us"]["p50"].is_null() && !ours["jitter_ms"].is_null(), "{ours}");
    // iperf3 shows what giusto reported it.
    assert_has(&theirs, &json!({ "packets": ours["sent_packets"], "lost_packets": ours["lost_packets"] }));
    assert!((number(&theirs["jitter_ms"]) - number(&ours["jitter_ms"])).abs() < 1e-3, "{theirs} {ours}");
}

#[test]
fn an_iperf3_client_divides_by_the_time_of_the_test() {
    // Two datagrams in a second: half a second lies between them.
    let server = Server::start(&["--once", "--json"]);
    let args = ["-u", "-b", "200k", "-l", "12500", "-t", "1", "-J"];
    let Some(mut client) = server.client(&args) else { return };
    let output: Value = serde_json::from_slice(&client.output().unwrap().stdout).unwrap();
    server.result();
    let received = &output["end"]["sum_received"];
    assert!((0.9..2.0).contains(&number(&received["seconds"])), "{received}");
}

#[test]
fn an_iperf3_client_is_sent_to_with_reverse() {
    let server = Server::start(&["--once", "--json"]);
    let Some(mut client) = server.client(&["-u", "-R", "-b", "2M", "-l", "500", "-t", "1", "-J"]) else {
        return;
    };
    let theirs = iperf3_sum(&client.output().unwrap().stdout);
    let (ours, code) = server.result();
    assert_measured(Some(code), &ours);
    assert_eq!(ours["strategy"], "grid");
    let (sent, received) = (count(&ours["sent_packets"]), count(&ours["far_end"]["received_packets"]));
    assert!(received > 0 && received <= sent, "{ours}");
    // iperf3 tells what it received until the end of the test; its own report may hold what was still on the way then.
    let reported = received * 500;
    assert!((reported..=reported + 5_000).contains(&count(&theirs["bytes"])), "{theirs} {ours}");
    assert_eq!(theirs["lost_packets"], ours["far_end"]["lost_packets"]);
}

#[test]
fn parallel_streams_and_both_directions_are_served() {
    let server = Server::start(&["--once", "--json"]);
    let args = ["-u", "-b", "1M", "-l", "250", "-t", "1", "-P", "2", "--bidir", "-J"];
    let Some(mut client) = server.client(&args) else { return };
    let output = client.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
    let (ours, _) = server.result();
    let runs = ours["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    runs[..2].iter().for_each(assert_sum);
    for run in &runs[2..] {
        let received = count(&run["far_end"]["received_packets"]);
        assert!(received > 0 && received <= count(&run["sent_packets"]), "{run}");
    }
    let ports: std::collections::BTreeSet<_> =
        runs.iter().map(|run| run["from"].as_str().or(run["to"].as_str()).unwrap()).collect();
    assert_eq!(ports.len(), 4, "each stream has a port of its own");
}

#[test]
fn a_killed_iperf3_client_is_an_error_with_figures() {
    let server = Server::start(&["--once", "--json"]);
    let Some(client) = server.client(&["-u", "-t", "60"]) else { return };
    let client = start_by(client);
    assert!(server.0.next_line().contains("1 stream from the client"));
    thread::sleep(Duration::from_secs(1));
    drop(client);
    let (ours, code) = server.result();
    assert_eq!(code, 1, "{ours}");
    assert!(ours["ended"].as_str().unwrap().contains("the client"), "{ours}");
    assert!(count(&ours["received_packets"]) > 0 && ours["lost_packets"].is_null(), "{ours}");
}

#[test]
fn a_busy_server_refuses_others_and_informs_its_client_of_its_end() {
    let server = Server::start(&["--json"]);
    let Some(mut client) = server.client(&["-u", "-t", "60"]) else { return };
    let client = client.spawn().unwrap();
    assert!(server.0.next_line().contains("1 stream from the client"));
    let second = server.client(&["-u", "-t", "1"]).unwrap().output().unwrap();
    assert!(text(&second.stderr).contains("the server is busy running a test"), "{}", text(&second.stderr));
    let (ours, code) = server.0.stop();
    assert_measured(Some(code), &ours);
    assert_eq!(ours["runs"][0]["ended"], "the server was stopped");
    let output = client.wait_with_output().unwrap();
    assert!(text(&output.stderr).contains("the server has terminated"), "{}", text(&output.stderr));
}

#[test]
fn iperf3_prints_the_limits_of_the_server() {
    let server = Server::start(&["--max-rate", "5M", "--max-streams", "2"]);
    for (args, words) in [
        (&["-b", "3M", "-P", "2"][..], "total required bandwidth is larger than server"),
        (&["-b", "1M", "-P", "3"], "number of parallel streams"),
    ] {
        let Some(mut client) = server.client(&["-u", "-t", "1"]) else { return };
        let output = client.args(args).output().unwrap();
        let error = text(&output.stderr).to_lowercase();
        assert!(error.contains(words), "{error}");
        assert!(server.0.next_line().contains("refused"));
    }
    let tcp = server.client(&["-t", "1"]).unwrap().output().unwrap();
    assert!(text(&tcp.stderr).contains("protocol does not exist"), "{}", text(&tcp.stderr));
    assert!(server.0.next_line().contains("only UDP is served"));
    // It goes on serving.
    let good = server.client(&["-u", "-t", "1", "-b", "1M"]).unwrap().output().unwrap();
    assert!(good.status.success(), "{}", text(&good.stderr));
}

#[test]
fn what_a_server_sends_to_an_iperf3_client_is_limited() {
    let server = Server::start(&["--json"]);
    for (args, words) in
        [(["-b", "101M"], "total required bandwidth is larger than server"), (["-S", "192"], "bad tos value")]
    {
        let Some(mut client) = server.client(&["-u", "-R", "-t", "1"]) else { return };
        let error = text(&client.args(args).output().unwrap().stderr).to_lowercase();
        assert!(error.contains(words), "{error}");
        assert!(server.0.next_line().contains("refused"));
    }
    for args in [["-S", "188"].as_slice(), &["-R", "-S", "188"], &["-S", "192"]] {
        let served = server.client(&["-u", "-b", "1M", "-t", "1"]).unwrap().args(args).output().unwrap();
        assert!(served.status.success(), "{args:?} {}", text(&served.stderr));
    }
}

#[test]
fn intervals_of_a_server_add_up_to_its_result() {
    for (client_args, field) in
        [(&["-t", "1", "-O", "1"][..], "received_packets"), (&["-t", "2", "-R"], "sent_packets")]
    {
        let server = Server::start(&["--once", "-i", "0.5", "--json-lines"]);
        let Some(mut client) = server.client(&["-u", "-b", "2M", "-l", "500"]) else { return };
        assert!(client.args(client_args).output().unwrap().status.success());
        let lines = text(&server.0.process.output().stdout);
        let (intervals, results) = intervals_and_results(&lines);
        assert!(intervals.len() >= 2 && results.len() == 1, "{lines}");
        assert_eq!(total(&intervals, field), results[0][field].as_i64().unwrap(), "{lines}");
        if field == "received_packets" {
            // 500 datagrams a second, of which those of one second count.
            assert!((250..750).contains(&count(&results[0]["sent_packets"])), "{lines}");
            assert_eq!(
                total(&intervals, "lost_packets"),
                results[0]["lost_packets"].as_i64().unwrap(),
                "{lines}"
            );
        }
    }
    let server = Server::start(&["--once", "-i", "0.5", "--csv"]);
    let mut client = server.client(&["-u", "-b", "2M", "-l", "500", "-t", "1"]).unwrap();
    assert!(client.output().unwrap().status.success());
    let table = text(&server.0.process.output().stdout);
    let kinds: Vec<&str> = table.lines().filter_map(|line| line.split(',').next()).collect();
    assert_eq!((kinds[0], kinds[1], *kinds.last().unwrap()), ("record", "interval", "result"), "{table}");
}

#[test]
fn clients_that_are_not_allowed_get_no_answer() {
    for flags in [["--deny", "127.0.0.0/8"], ["--allow", "192.0.2.0/24"]] {
        let server = Server::start(&[&["--json"], &flags[..]].concat());
        let mut stream = TcpStream::connect(server.0.address).unwrap();
        stream.write_all(&[b'a'; 37]).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut answer = Vec::new();
        // The end, or a reset.
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"");
        let (ours, code) = server.0.stop();
        assert_eq!((code, &ours["denied_connections"], &ours["runs"]), (0, &1.into(), &Value::Array(vec![])));
    }
}

#[test]
fn the_duration_of_a_test_is_limited() {
    let server = Server::start(&["--max-lifetime", "2"]);
    let Some(mut long) = server.client(&["-u", "-b", "1M", "-t", "5"]) else { return };
    assert!(!long.output().unwrap().status.success());
    let line = server.0.next_line();
    assert!(line.contains("refused: a test of 5 s, at most 2 s are allowed"), "{line}");
    // One that announces no end is ended; one that is short enough is not.
    let endless = server.client(&["-u", "-b", "1M", "-n", "1G"]).unwrap().output().unwrap();
    assert!(!endless.status.success());
    assert!(server.0.next_line().contains("1 stream from the client"));
    let line = server.0.next_line();
    assert!(line.contains("the test was ended after 2 s, the maximum duration"), "{line}");
    let short = server.client(&["-u", "-b", "1M", "-t", "2"]).unwrap().output().unwrap();
    assert!(short.status.success(), "{}", text(&short.stderr));
}

#[test]
fn a_server_without_file_descriptors_waits() {
    let script =
        format!("ulimit -n 14; exec {} recv --accept iperf3 127.0.0.1:0", env!("CARGO_BIN_EXE_giusto"));
    let mut command = Command::new("sh");
    command.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut server = Running(command.spawn().unwrap());
    let mut lines = std::io::BufReader::new(server.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let first = lines.next().unwrap();
    let address: SocketAddr = first.split_whitespace().nth(2).unwrap().parse().unwrap();
    // More than it has room for, while the first is served until its time is over.
    let _clients: Vec<_> = (0..16).map(|_| TcpStream::connect(address).unwrap()).collect();
    let warning = lines.find(|line| line.contains("clients cannot be accepted")).unwrap();
    assert!(warning.contains("ulimit -n"), "{warning}");
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.0.id())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // User and system time, in ticks of 10 ms, of about 10 s.
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    assert!(ticks < 200, "{ticks} ticks");
}
