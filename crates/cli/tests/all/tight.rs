//! What `giusto send` sends and what times it: files, scripts, buffers, the kernel's pacing, histograms.

use std::{
    io::Write,
    net::UdpSocket,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::common::{
    Folder, assert_has, assert_measured_text, count, giusto, json, measured,
    namespace::{Far, in_namespace, ip},
    number,
    process::Listener,
    run, skip, text,
};

/// A socket, and its address.
fn sink() -> (UdpSocket, String) {
    let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
    sink.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let to = sink.local_addr().unwrap().to_string();
    (sink, to)
}

/// The datagrams that wait in a socket.
fn datagrams(sink: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    let mut all = Vec::new();
    while let Ok(length) = sink.recv(&mut buffer) {
        all.push(buffer[..length].to_vec());
    }
    all
}

#[test]
fn a_file_is_sent_in_pieces_and_ends_the_stream() {
    let folder = Folder::with("");
    let bytes: Vec<u8> = (0..2_500_u32).map(|byte| (byte % 251) as u8).collect();
    std::fs::write(folder.path("payload"), &bytes).unwrap();
    let (receiver, to) = sink();
    let words =
        ["send", &to, "--one-way", "--raw", "-b", "4M", "--size", "1000", "--payload-file", "payload"];
    assert_measured_text(&folder.run(&words));
    let pieces = datagrams(&receiver);
    assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [1000, 1000, 500]);
    assert_eq!(pieces.concat(), bytes);
    assert_measured_text(&folder.run(&[&words[..], &["--count", "4"]].concat()));
    assert_eq!(datagrams(&receiver).concat(), [&bytes[..], &bytes[..1000]].concat(), "it repeats");

    // Behind a header of 40 bytes.
    let listener = Listener::start(&["127.0.0.1:0", "--once", "--json"]);
    let to = listener.address.to_string();
    let send = ["send", &to, "--size", "1040", "--payload-file", "payload", "--json"];
    assert_eq!(measured(&folder.run(&send))["sent_packets"], 3);
    assert_eq!(listener.result().0["received_packets"], 3);
}

#[test]
fn frames_of_standard_input_are_datagrams() {
    let (receiver, to) = sink();
    let send = |input: &[u8]| {
        let mut command = giusto(&["send", &to, "--one-way", "--raw", "-b", "1M", "--payload-file", "-"]);
        let mut child =
            command.stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    };
    assert_measured_text(&send(b"\x00\x05hello\x00\x02to\x00\x01x"));
    assert_eq!(datagrams(&receiver), [&b"hello"[..], b"to", b"x"]);
    let output = send(b"\x00\x05hello\x00\x02t");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the frame at offset 7 lacks 1 bytes"), "{}", text(&output.stderr));
    assert!(datagrams(&receiver).is_empty(), "nothing of a broken input is sent");
    let output = send(b"\x00\x02to\x00\x00");
    assert!(text(&output.stderr).contains("at least 1 byte"), "{}", text(&output.stderr));
    assert!(datagrams(&receiver).is_empty(), "no filler stands for an empty frame");
}

#[test]
fn both_ends_take_their_parts_in_a_script() {
    let folder = Folder::with(
        "[[part]]\nwho = \"near\"\ntime = \"100 ms\"\nsize = \"172 B\"\nevery = \"20 ms\"\n\
         [[part]]\ntime = \"100 ms\"\n\
         [[part]]\nwho = \"far\"\ntime = \"40 ms\"\nsize = \"60 B\"\nevery = \"20 ms\"\n",
    );
    for (role, packets, size) in [("near", 5, 172), ("far", 2, 60)] {
        let (receiver, to) = sink();
        let send = ["send", &to, "--one-way", "--rtp", "--script", "s.toml", "--as", role, "--json"];
        let sent = measured(&folder.run(&send));
        assert_has(&sent, &json!({ "sent_packets": packets, "strategy": "recorded" }));
        let all = datagrams(&receiver);
        assert_eq!(all.iter().filter(|datagram| datagram.len() == size).count(), packets, "{}", all.len());
        // The far end begins after 200 ms; it does not wait for anybody.
        let duration = number(&sent["duration_s"]);
        let (least, most) = if role == "near" { (0.08, 0.2) } else { (0.22, f64::INFINITY) };
        assert!(duration >= least && duration < most + 2.0, "{role}: {duration}");
    }
}

#[test]
fn a_result_says_which_buffers_were_asked_for() {
    let (_receiver, to) = sink();
    let system = |flags: &[&str]| {
        let base = ["send", &to, "--one-way", "--raw", "--count", "2", "--json"];
        json(&run(&[&base, flags].concat()))["system"].clone()
    };
    let (default, small) = (system(&[]), system(&["-w", "60k"]));
    assert_has(
        &default,
        &json!({ "send_buffer_asked_bytes": 1_000_000, "receive_buffer_asked_bytes": 4_000_000 }),
    );
    for field in ["send_buffer", "receive_buffer"] {
        assert_eq!(small[format!("{field}_asked_bytes")], 60_000);
        // The kernel doubles what is asked and says so; half of it is what was asked.
        assert_eq!(small[format!("{field}_bytes")], 60_000, "{small}");
    }
}

#[test]
fn histograms_contain_every_datagram_and_only_if_asked() {
    let exchange = |flags: &[&str]| {
        let listener = Listener::start(&[&["127.0.0.1:0", "--once", "--json"], flags].concat());
        let to = listener.address.to_string();
        let output = run(&[&["send", &to, "-b", "1M", "--count", "100", "--json"], flags].concat());
        (json(&output), listener.result().0)
    };
    let (sent, received) = exchange(&["--histogram"]);
    let sum = |classes: &[Value]| classes.iter().map(|class| count(&class["count"])).sum::<u64>();
    let classes = |of: &Value, what: &str| of["histograms"][what].as_array().unwrap().clone();
    assert_eq!(sum(&classes(&sent, "schedule_error_us")), 100);
    // A gap lies between two datagrams.
    let gaps = classes(&received, "gap_error_us");
    assert_eq!(sum(&gaps), count(&received["received_packets"]) - 1);
    let median = number(&received["gap_error_us"]["p50"]);
    let half = (1..=gaps.len()).find(|place| sum(&gaps[..*place]) * 2 >= sum(&gaps)).unwrap() - 1;
    let (from, to) = (number(&gaps[half]["from"]), number(&gaps[half]["below"]));
    assert!(from * 0.9 <= median && median <= to * 1.1, "{median}: {}", gaps[half]);
    let (sent, received) = exchange(&[]);
    assert_eq!((sent.get("histograms"), received.get("histograms")), (None, None));
}

#[test]
fn without_fq_the_program_paces_and_the_result_says_why() {
    in_namespace("--pace kernel without fq", 65_536, || {
        let (receiver, to) = sink();
        let base = ["send", &to, "--one-way", "--raw", "-b", "1M", "--count", "20"];
        let sent = measured(&run(&[&base[..], &["--pace", "kernel", "--json"]].concat()));
        let said = sent["system"]["departures"].as_str().unwrap();
        assert_eq!(said, "program: lo has noqueue, not fq or etf (tc qdisc replace dev lo root fq)");
        assert!(sent["schedule_error_us"]["p50"].is_f64(), "the program knows when it sent");
        assert_eq!(datagrams(&receiver).len(), 20);
        let words = text(&run(&[&base[..], &["--pace", "kernel"]].concat()).stdout);
        assert!(words.contains("pacing   program: lo has noqueue"), "{words}");
        assert_eq!(json(&run(&[&base[..], &["--json"]].concat()))["system"].get("departures"), None);
    });
}

#[test]
fn the_result_says_who_stamped_departures_and_arrivals() {
    in_namespace("stamps of departures", 65_536, || {
        let far = Far::behind(1500);
        let listener = far.listener(&["recv", "10.9.0.2:5005", "--json"]);
        let send = ["send", "10.9.0.2:5005", "-b", "1M", "-t", "1.5"];
        let sent = measured(&run(&[&send[..], &["--json"]].concat()));
        let by = [&sent["system"]["departure_timestamps"], &sent["system"]["receive_timestamps"]];
        assert_eq!(by, ["kernel", "kernel"]);
        assert_eq!(sent["system"]["far_receive_timestamps"], "kernel", "as the receiver reports");
        // The driver of veth stamps what it sends: some microseconds later than it was written.
        let lag = |name: &str| sent["departure_lag_us"][name].as_f64().unwrap();
        assert!(lag("p50") > 0.0 && lag("p50") < 10_000.0 && lag("max") >= lag("p99"), "{sent}");
        let words = text(&run(&[&send[..], &["--verbose"]].concat()).stdout);
        assert!(!words.contains("clocks") && words.contains("departure lag"), "{words}");
        let one_way = json(&run(&[&send[..], &["--one-way", "--json"]].concat()));
        assert_eq!(one_way.get("departure_lag_us"), None, "nobody reads the stamps");
        drop(listener);
    });
}

#[test]
fn with_fq_the_kernel_sends_on_time() {
    let name = "--pace kernel with fq";
    in_namespace(name, 65_536, || {
        let far = Far::behind(1500);
        let tc = |words: &str| Command::new("tc").args(words.split(' ')).output();
        if !tc("qdisc replace dev near root fq").is_ok_and(|made| made.status.success()) {
            return skip(name, "the kernel has no fq, or tc is missing");
        }
        let listener = far.listener(&["recv", "10.9.0.2:5005", "--once", "--json"]);
        thread::sleep(Duration::from_millis(100));
        let sent =
            measured(&run(&["send", "10.9.0.2:5005", "-b", "4M", "-t", "2", "--pace", "kernel", "--json"]));
        assert_eq!(sent["system"]["departures"], "kernel (fq)");
        // The program does not know when the kernel sent.
        assert_eq!(sent["schedule_error_us"]["p50"], Value::Null);
        let (received, _) = listener.result();
        assert_eq!(received["lost_packets"], 0, "{received}");
        // Two in each batch are handed over ahead of their times: most wait for them in fq.
        let said = text(&tc("-s qdisc show dev near").unwrap().stdout);
        let waited = said.split("throttled ").skip(1).filter_map(|rest| rest.split([' ', ')', '\n']).next());
        let waited = waited.filter_map(|count| count.parse::<u64>().ok()).max().unwrap();
        let packets = sent["sent_packets"].as_u64().unwrap();
        assert!(waited > packets / 2, "{waited} of {packets}: {said}");
    });
}

/// This qdisc drops what has no launch time, such as a handshake: it is for streams that nobody answers, to a neighbour that is known.
#[test]
fn with_etf_the_kernel_sends_what_is_not_late() {
    let name = "--pace kernel with etf";
    in_namespace(name, 65_536, || {
        let far = Far::behind(1500);
        let shown = far.enter("ip").args(["-br", "link", "show", "far"]).output().unwrap();
        let shown = text(&shown.stdout);
        let address = shown.split_whitespace().nth(2).unwrap();
        let near = ["neighbour", "replace", "10.9.0.2", "dev", "near", "nud", "permanent", "lladdr"];
        ip(&[&near[..], &[address]].concat());
        let tc = |words: &str| Command::new("tc").args(words.split(' ')).output();
        let etf = "qdisc replace dev near root etf clockid CLOCK_TAI delta 500000 skip_sock_check";
        if !tc(etf).is_ok_and(|made| made.status.success()) {
            return skip(name, "the kernel has no etf, or tc is missing");
        }
        let words =
            ["send", "10.9.0.2:5005", "--one-way", "-b", "4M", "-t", "2", "--pace", "kernel", "--json"];
        let sent = json(&run(&words));
        assert_eq!(sent["system"]["departures"], "kernel (etf)", "{sent}");
        let packets = sent["sent_packets"].as_u64().unwrap();
        let said = text(&tc("-s qdisc show dev near").unwrap().stdout);
        let left = said.split(" bytes ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        // A busy machine hands some over too late: they are dropped.
        assert!(packets > 400 && left.is_some_and(|left| left > packets / 2), "{packets}: {said}");
    });
}

#[test]
fn tcp_load_is_what_the_far_end_received() {
    let listener = Listener::start(&["127.0.0.1:0", "--accept", "tcp", "--once", "--json"]);
    let to = listener.address.to_string();
    let sent = measured(&run(&["send", &to, "--protocol", "tcp", "-t", "1", "-i", "0.2", "--json"]));
    let received = count(&sent["received_bytes"]);
    assert!(received > 1_000_000, "{sent}");
    let (served, _) = listener.result();
    assert_eq!(served["connections"][0]["received_bytes"].as_u64(), Some(received));
    // What was acknowledged while it sent: at most all, and nearly all, because few buffers fit into loopback.
    let acknowledged = number(&sent["rate_bps"]) * number(&sent["duration_s"]) / 8.0;
    assert!(acknowledged <= received as f64 + 16.0 && acknowledged > received as f64 * 0.5, "{sent}");
    let intervals = sent["intervals"].as_array().unwrap();
    assert!((3..=6).contains(&intervals.len()), "{sent}");
    let length = |one: &Value| number(&one["end_s"]) - number(&one["start_s"]);
    let sum: f64 = intervals.iter().map(|one| number(&one["rate_bps"]) * length(one) / 8.0).sum();
    assert!((sum - acknowledged).abs() <= acknowledged * 1e-6 + 16.0, "{sum} {acknowledged}");
    assert!(sent["rtt_min_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(sent["responsiveness"], Value::Null);

    let output = run(&["send", &to, "--protocol", "tcp", "-t", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("is `giusto recv --accept tcp` running there?"), "{message}");
}

#[test]
fn tcp_load_has_rows_and_lines_as_streams_have() {
    let listener = Listener::start(&["127.0.0.1:0", "--accept", "tcp"]);
    let to = listener.address.to_string();
    let send = |words: &[&str]| {
        let output = run(&[&["send", &to, "--protocol", "tcp", "-t", "0.5"], words].concat());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let table = send(&["-i", "0.2", "--csv"]);
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    let (header, rows) = rows.split_first().unwrap();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let number = |row: &[&str], name: &str| row[column(name)].parse::<f64>().ok();
    let (result, intervals) = rows.split_last().unwrap();
    assert!(result[0] == "result" && (2..=3).contains(&intervals.len()), "{table}");
    assert!(rows.iter().all(|row| row.len() == header.len()), "{table}");
    let mut at = 0.0;
    for interval in intervals {
        assert_eq!((interval[0], number(interval, "start_s")), ("interval", Some(at)), "{table}");
        assert!(
            number(interval, "rate_bps") > Some(0.0) && number(interval, "rtt_ms") > Some(0.0),
            "{table}"
        );
        // What only the whole run has.
        assert_eq!((interval[column("to")], number(interval, "received_bytes")), ("", None), "{table}");
        at = number(interval, "end_s").unwrap();
    }
    assert_eq!((result[column("to")], number(result, "connections")), (&*to, Some(1.0)), "{table}");
    assert!(number(result, "received_bytes") > Some(0.0), "{table}");
    assert_eq!(number(result, "rpm"), None, "{table}");
    // The far end has the same columns.
    let there = Listener::start(&["127.0.0.1:0", "--accept", "tcp", "--once", "--csv"]);
    let sent = run(&["send", &there.address.to_string(), "--protocol", "tcp", "-t", "0.3"]);
    assert!(matches!(sent.status.code(), Some(0 | 3)), "{}", text(&sent.stderr));
    let output = text(&there.process.output().stdout);
    let served: Vec<Vec<&str>> = output.lines().map(|line| line.split(',').collect()).collect();
    let [there, row] = &served[..] else { panic!("{output}") };
    assert_eq!((there, row.len(), row[0]), (header, header.len(), "result"));
    assert!(row[column("from")].contains("127.0.0.1") && number(row, "connections") == Some(1.0), "{output}");
    let carried = number(row, "received_bytes").unwrap() * 8.0 / number(row, "end_s").unwrap();
    assert!((number(row, "rate_bps").unwrap() / carried - 1.0).abs() < 1e-6, "{output}");
    // Without -i there is the result alone; each line of JSON is one object.
    assert_eq!(send(&["--csv"]).lines().count(), 2);
    let lines = send(&["-i", "0.2", "--json-lines"]);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (result, intervals) = lines.split_last().unwrap();
    assert_eq!(result["result"]["intervals"].as_array().map(Vec::len), Some(intervals.len()), "{result}");
    for (line, own) in intervals.iter().zip(result["result"]["intervals"].as_array().unwrap()) {
        assert_eq!(&line["interval"], own);
    }
}

/// Segments that the kernel sent again, of all connections in the namespace of the calling thread.
fn resent_segments() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split_whitespace().position(|name| name == "RetransSegs").unwrap();
    values.split_whitespace().nth(at).unwrap().parse().unwrap()
}

#[test]
fn a_long_queue_makes_a_path_unresponsive_under_load() {
    in_namespace("--under-load", 65_536, || {
        let far = Far::behind(1500);
        let tbf = "qdisc add dev near root tbf rate 20mbit burst 10k latency 150ms";
        if !Command::new("tc").args(tbf.split(' ')).output().is_ok_and(|tbf| tbf.status.success()) {
            return skip("--under-load", "the kernel has no tbf, or tc is missing");
        }
        let _listener = far.listener(&["recv", "10.9.0.2:5005", "--accept", "tcp"]);
        let before = resent_segments();
        let args =
            ["send", "10.9.0.2:5005", "--protocol", "tcp", "--under-load", "-P", "4", "-t", "5", "--json"];
        let sent = measured(&run(&args));
        // 20 Mbit/s with the headers of Ethernet, IPv4 and TCP with timestamps: 1448 of 1514 bytes.
        let rate = number(&sent["rate_bps"]);
        assert!(rate > 15e6 && rate < 20e6 * 1448.0 / 1514.0 * 1.03, "{rate}");
        let responsiveness = &sent["responsiveness"];
        let figure = |name: &str| number(&responsiveness[name]);
        // The queue holds 150 ms. The means count the first second too, in which it fills; without load a request takes 0.3 ms.
        for name in ["handshake_ms", "request_ms", "loaded_request_ms"] {
            assert!(figure(name) > 25.0, "{name}: {responsiveness}");
        }
        assert!(figure("request_ms") < 400.0, "{responsiveness}");
        let foreign = 60_000.0 / f64::midpoint(figure("handshake_ms"), figure("request_ms"));
        let expected = f64::midpoint(foreign, 60_000.0 / figure("loaded_request_ms"));
        assert!((figure("rpm") / expected - 1.0).abs() < 1e-9, "{responsiveness}");
        assert!(figure("idle_rpm") > 10.0 * figure("rpm"), "{responsiveness}");
        assert!(figure("foreign_probes") >= 5.0 && figure("loaded_probes") >= 5.0, "{responsiveness}");
        // The kernel's own count includes what was resent after the last interval.
        let (ours, kernel) = (sent["retransmitted_segments"].as_u64().unwrap(), resent_segments() - before);
        assert!(ours > 0 && ours <= kernel && ours * 2 >= kernel, "{ours} {kernel}");
    });
}
