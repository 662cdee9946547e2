//! Both ends against each other, and against invalid bytes.

use giusto_units::{DataRate, DataSize, TimeDelta, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::{
    Client, ClientError, ClientEvent, Control, DataHeader, ErrorCode, Greeting, Incoming, IncomingConfig,
    Outcome, Parameters, Server, ServerConfig, ServerError, ServerEvent, State, StreamOutcome, is_greeting,
    stream_id,
};

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

fn after(seconds: i64) -> Timestamp {
    NOW + TimeDelta::from_seconds(seconds)
}

fn parameters() -> Parameters {
    Parameters {
        duration: TimeDelta::from_seconds(2),
        omit: TimeDelta::ZERO,
        bytes: 0,
        packets: 0,
        streams: 2,
        reverse: false,
        bidirectional: false,
        size: DataSize::from_bytes(1200),
        rate: Some(DataRate::from_bps(5_000_000)),
        traffic_class: 184,
        wide_counters: true,
        version: Some("3.12".to_owned()),
    }
}

fn outcome(packets: u64) -> Outcome {
    let stream = |index| StreamOutcome {
        id: stream_id(index),
        bytes: packets * 1200,
        packets,
        duration: TimeDelta::from_seconds(2),
        jitter: TimeDelta::from_micros(17),
        ..StreamOutcome::default()
    };
    Outcome { cpu_ratio: 0.25, streams: vec![stream(0), stream(1)] }
}

fn client() -> Client {
    Client::new(NOW, parameters(), &[7; 36])
}

fn server() -> Server {
    Server::new(NOW, ServerConfig::default())
}

/// The bytes that wait to be sent.
fn sent(mut poll: impl FnMut() -> Option<Vec<u8>>) -> Vec<u8> {
    std::iter::from_fn(&mut poll).flatten().collect()
}

fn client_events(client: &mut Client) -> Vec<ClientEvent> {
    std::iter::from_fn(|| client.poll_event()).collect()
}

fn server_events(server: &mut Server) -> Vec<ServerEvent> {
    std::iter::from_fn(|| server.poll_event()).collect()
}

fn client_end(client: &mut Client) -> ClientError {
    let event = client_events(client).pop();
    let Some(ClientEvent::Ended(Err(error))) = event else { panic!("{event:?}") };
    error
}

fn server_end(server: &mut Server) -> ServerError {
    let event = server_events(server).pop();
    let Some(ServerEvent::Ended(Err(error))) = event else { panic!("{event:?}") };
    error
}

/// Carries bytes between both ends, `step` bytes at a time, until there are none.
fn exchange(client: &mut Client, server: &mut Server, step: usize) {
    loop {
        let (up, down) = (sent(|| client.poll_transmit()), sent(|| server.poll_transmit()));
        if up.is_empty() && down.is_empty() {
            return;
        }
        up.chunks(step).for_each(|bytes| server.handle_bytes(NOW, bytes));
        down.chunks(step).for_each(|bytes| client.handle_bytes(NOW, bytes));
    }
}

/// A length and a JSON text.
fn framed(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn message(value: &serde_json::Value) -> Vec<u8> {
    framed(&value.to_string())
}

/// A server that has the cookie.
fn server_with_cookie() -> Server {
    let mut server = server();
    server.handle_bytes(NOW, &[b'a'; 37]);
    assert_eq!(sent(|| server.poll_transmit()), [9]);
    server
}

/// What a server says to these parameters.
fn refusal(fields: &serde_json::Value) -> (ServerError, Vec<u8>) {
    let mut server = server_with_cookie();
    server.handle_bytes(NOW, &message(fields));
    (server_end(&mut server), sent(|| server.poll_transmit()))
}

fn refused_with(code: i32) -> Vec<u8> {
    [&[0xfe][..], &code.to_be_bytes(), &[0; 4]].concat()
}

#[test]
fn both_ends_come_to_the_results() {
    for step in [1, 3, 10_000] {
        let (mut client, mut server) = (client(), server());
        exchange(&mut client, &mut server, step);
        let Some(ServerEvent::OpenStreams(asked)) = server.poll_event() else { panic!() };
        assert_eq!(asked, parameters());
        assert_eq!(client.poll_event(), None, "the port of the streams is not open yet");
        server.on_ready();
        exchange(&mut client, &mut server, step);
        assert_eq!(client_events(&mut client), [ClientEvent::CreateStreams]);
        server.on_streams_open(NOW);
        exchange(&mut client, &mut server, step);
        assert_eq!(client_events(&mut client), [ClientEvent::Running]);
        assert_eq!(server_events(&mut server), [ServerEvent::Running]);
        client.finish(NOW, outcome(100));
        exchange(&mut client, &mut server, step);
        assert_eq!(server_events(&mut server), [ServerEvent::Ending, ServerEvent::Outcome(outcome(100))]);
        server.set_outcome(NOW, &outcome(99));
        exchange(&mut client, &mut server, step);
        assert_eq!(
            client_events(&mut client),
            [ClientEvent::Outcome(outcome(99)), ClientEvent::Ended(Ok(()))]
        );
        assert_eq!(server_events(&mut server), [ServerEvent::Ended(Ok(()))]);
    }
}

#[test]
fn a_client_writes_what_iperf3_reads() {
    let mut client = client();
    let cookie = sent(|| client.poll_transmit());
    // `make_cookie` in iperf_util.c: 36 of 32 letters, and a zero.
    assert_eq!((cookie.len(), cookie.last()), (37, Some(&0)));
    assert!(cookie[..36].iter().all(|letter| b"abcdefghijklmnopqrstuvwxyz234567".contains(letter)));
    client.handle_bytes(NOW, &[State::ParamExchange.byte()]);
    let text = sent(|| client.poll_transmit());
    assert_eq!(text[..4], (text.len() as u32 - 4).to_be_bytes());
    let fields: serde_json::Value = serde_json::from_slice(&text[4..]).unwrap();
    let expected = json!({
        "udp": true, "omit": 0, "time": 2, "num": 0, "blockcount": 0, "parallel": 2, "len": 1200, "bandwidth": 5_000_000,
        "TOS": 184, "udp_counters_64bit": 1,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(fields[name], *value, "{name}");
    }
    assert!(fields.get("reverse").is_none());
}

#[test]
fn what_iperf3_3_12_sends_is_read() {
    // Captured from `iperf3 -u -c 127.0.0.1 -b 3M -t 1 -l 1000 -R` of version 3.12.
    let fields = json!({
        "udp": true, "omit": 0, "time": 1, "num": 0, "blockcount": 0, "parallel": 1, "reverse": true, "len": 1000,
        "bandwidth": 3_000_000, "pacing_timer": 1000, "client_version": "3.12",
    });
    let mut server = server_with_cookie();
    server.handle_bytes(NOW, &message(&fields));
    let Some(ServerEvent::OpenStreams(asked)) = server.poll_event() else { panic!() };
    assert!(asked.reverse && asked.client_receives() && !asked.client_sends() && !asked.wide_counters);
    assert_eq!((asked.size, asked.streams), (DataSize::from_bytes(1000), 1));
    assert_eq!(asked.version.as_deref(), Some("3.12"));
}

#[test]
fn stream_numbers_are_those_of_iperf3() {
    assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
}

#[test]
fn greetings_of_all_versions_are_known() {
    // 0x36373839 and 0x39383736 as a little-endian machine writes them (iperf.h).
    assert_eq!(Greeting::Connect.bytes(), 0x3637_3839_u32.to_le_bytes());
    assert_eq!(Greeting::Reply.bytes(), 0x3938_3736_u32.to_le_bytes());
    for number in [0x3637_3839_u32, 0x3938_3736, 123_456_789, 987_654_321, 0xb168_de3a] {
        assert!(is_greeting(&number.to_le_bytes()) && is_greeting(&number.to_be_bytes()), "{number:x}");
    }
    assert!(!is_greeting(b"9876 ") && !is_greeting(b"987") && !is_greeting(&[0; 4]) && !is_greeting(&[]));
}

#[test]
fn a_narrow_counter_leaves_the_rest_of_the_datagram() {
    let mut datagram = [0xaa; 20];
    DataHeader { sent_ns: 1_999_999_999, sequence: 0x1_0000_0002 }.write(&mut datagram, false);
    assert_eq!(datagram[..12], [0, 0, 0, 1, 0, 15, 66, 63, 0, 0, 0, 2]);
    assert_eq!(datagram[12..], [0xaa; 8]);
    assert_eq!(DataHeader::parse(&datagram, false), Some(DataHeader { sent_ns: 1_999_999_000, sequence: 2 }));
    assert_eq!(DataHeader::parse(&datagram[..15], false), None);
}

#[test]
fn a_server_refuses_what_it_cannot_do_with_iperf3s_numbers() {
    let (error, bytes) = refusal(&json!({"tcp": true}));
    assert_eq!(error.to_string(), "refused: only UDP is served: start the client with -u");
    assert_eq!(bytes, refused_with(131));
    for (field, value, code) in [
        ("parallel", json!(129), 6),
        ("parallel", json!(0), 6),
        ("parallel", json!("1"), 6),
        ("time", json!(86_401), 5),
        ("time", json!(-1), 5),
        ("omit", json!(601), 5),
        ("len", json!(15), 20),
        ("len", json!(65_508), 20),
        ("num", json!(-1), 114),
        ("bandwidth", json!(1e300), 114),
        ("TOS", json!(256), 114),
    ] {
        let (error, bytes) = refusal(&json!({"udp": true, field: value}));
        assert!(error.to_string().starts_with(&format!("refused: {field}: expected")), "{error}");
        assert_eq!(bytes, refused_with(code), "{field} {value}");
    }
    for fields in [json!([]), json!(7), json!({})] {
        assert!(matches!(refusal(&fields).0, ServerError::Message(_)), "{fields}");
    }
}

#[test]
fn a_server_keeps_its_limits() {
    let config = ServerConfig {
        max_streams: 3,
        max_rate: Some(DataRate::from_bps(10_000_000)),
        ..ServerConfig::default()
    };
    let ask = |parallel: u32, bandwidth: u32, bidirectional: bool| {
        let mut server = Server::new(NOW, config);
        server.handle_bytes(NOW, &[b'a'; 37]);
        let asked = json!({"udp": true, "parallel": parallel, "bandwidth": bandwidth, "bidirectional": bidirectional});
        server.handle_bytes(NOW, &message(&asked));
        server_events(&mut server).pop().unwrap()
    };
    assert!(matches!(ask(2, 5_000_000, false), ServerEvent::OpenStreams(_)));
    assert!(matches!(ask(1, 5_000_000, true), ServerEvent::OpenStreams(_)));
    assert!(matches!(ask(3, 5_000_000, false), ServerEvent::Ended(Err(ServerError::Rate { .. }))));
    assert!(matches!(ask(2, 5_000_000, true), ServerEvent::Ended(Err(ServerError::Streams { .. }))));
    assert!(matches!(ask(1, 0, false), ServerEvent::Ended(Err(ServerError::Rate { rate: None, .. }))));
}

#[test]
fn what_a_server_sends_is_limited_by_default() {
    let ask = |fields: &[(&str, u64)]| {
        let mut asked =
            json!({"udp": true, "bandwidth": 100_000_000, "time": 3600, "reverse": true, "TOS": 47 << 2});
        for (name, value) in fields {
            asked[*name] = if *name == "reverse" { json!(false) } else { json!(value) };
        }
        let mut server = server_with_cookie();
        server.handle_bytes(NOW, &message(&asked));
        server
    };
    for fields in [
        &[][..],
        &[("parallel", 2), ("bandwidth", 50_000_000)],
        &[("reverse", 0), ("bandwidth", 0), ("time", 86_400), ("TOS", 56 << 2)],
    ] {
        let mut server = ask(fields);
        assert!(matches!(server_events(&mut server)[..], [ServerEvent::OpenStreams(_)]), "{fields:?}");
    }
    for (field, code, words) in [
        (("bandwidth", 100_000_001), 27, "at most 100 Mbit/s is allowed (--max-rate)"),
        (("bandwidth", 0), 27, "refused: an unlimited rate, at most 100 Mbit/s"),
        (("parallel", 2), 27, "refused: 200 Mbit/s, at most 100 Mbit/s"),
        (("time", 3601), 37, "a test of 3601 s, at most 3600 s"),
        (("TOS", 48 << 2), 21, "DSCP 48 is network control"),
    ] {
        let mut server = ask(&[field]);
        let error = server_end(&mut server).to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(sent(|| server.poll_transmit()), refused_with(code), "{error}");
    }
    // Without an announced end it is ended, a little later.
    let mut server = ask(&[("time", 0)]);
    server.on_ready();
    server.on_streams_open(NOW);
    assert_eq!(server_events(&mut server).len(), 2);
    server.handle_timeout(after(3601));
    assert_eq!(server_events(&mut server), []);
    server.handle_timeout(after(3602));
    assert!(matches!(server_end(&mut server), ServerError::Limit { .. }));
}

#[test]
fn a_length_beyond_the_limit_is_refused_at_once() {
    for length in [0_u32, 8 * 1024 + 1, u32::MAX] {
        let mut server = server_with_cookie();
        server.handle_bytes(NOW, &length.to_be_bytes());
        assert!(matches!(server_end(&mut server), ServerError::Message(_)), "{length}");
        assert_eq!(sent(|| server.poll_transmit()), refused_with(114));
    }
    let mut server = server_with_cookie();
    server.handle_bytes(NOW, &(8 * 1024_u32).to_be_bytes());
    assert_eq!(server_events(&mut server), [], "the limit itself is waited for");
}

#[test]
fn silence_ends_each_phase_at_either_end() {
    let mut server = server();
    server.handle_bytes(after(9), b"a slow cookie");
    server.handle_timeout(after(9));
    assert_eq!(server_events(&mut server), []);
    server.handle_timeout(after(10));
    let error = server_end(&mut server);
    assert_eq!(error.to_string(), "nothing came from the client for 10 s before its cookie");
    let mut client = client();
    client.handle_timeout(after(9));
    assert_eq!(client_events(&mut client), []);
    client.handle_timeout(after(10));
    assert!(matches!(client_end(&mut client), ClientError::Silent { .. }));

    let mut server = server_with_cookie();
    server.handle_timeout(after(10));
    assert!(server_end(&mut server).to_string().contains("before its parameters"));

    let running = |asked: serde_json::Value| {
        let mut server = server_with_cookie();
        server.handle_bytes(NOW, &message(&asked));
        server.on_ready();
        server.on_streams_open(NOW);
        assert_eq!(server_events(&mut server).len(), 2, "opened and running");
        server
    };
    let mut receiving = running(json!({"udp": true, "time": 2}));
    receiving.on_data(after(3));
    receiving.handle_timeout(after(7));
    assert_eq!(server_events(&mut receiving), []);
    receiving.handle_timeout(after(8));
    assert!(server_end(&mut receiving).to_string().contains("for 5 s during the test"));
    // A kilobit a second of 1460 B is a datagram in 11.7 s.
    let mut slow = running(json!({"udp": true, "bandwidth": 1000}));
    slow.handle_timeout(after(35));
    assert_eq!(server_events(&mut slow), []);
    slow.handle_timeout(after(36));
    assert!(matches!(server_end(&mut slow), ServerError::Silent { .. }));
    // Where the server sends, the announced time bounds the test: 2 s and 40 s.
    let mut sending = running(json!({"udp": true, "time": 2, "bandwidth": 1000, "reverse": true}));
    sending.handle_timeout(after(41));
    assert_eq!(server_events(&mut sending), []);
    sending.handle_timeout(after(42));
    assert_eq!(server_end(&mut sending), ServerError::Expired);
}

#[test]
fn a_client_says_why_the_server_refused() {
    let reported = |bytes: &[u8], close: bool| {
        let mut client = client();
        client.handle_bytes(NOW, &[9]);
        client.handle_bytes(NOW, bytes);
        if close {
            client.handle_close();
        }
        client_end(&mut client)
    };
    assert_eq!(reported(&[0xff], false), ClientError::Busy);
    assert_eq!(reported(&[11], false), ClientError::Stopped);
    let code = ErrorCode(142);
    // Version 3.12 closes after the first number.
    assert_eq!(reported(&[0xfe, 0, 0, 0, 142], true), ClientError::Server { code, errno: 0 });
    let refused = reported(&[0xfe, 0, 0, 0, 142, 0, 0, 0, 11], false);
    assert_eq!(refused, ClientError::Server { code, errno: 11 });
    assert!(refused.to_string().contains("user name and a password"), "{refused}");
    assert_eq!(reported(&[], true), ClientError::Closed("after the parameters of the test"));
    let other = reported(b"SSH-2.0", false);
    assert!(other.to_string().contains("not an iperf3 server"), "{other}");
}

#[test]
fn hostile_results_are_bounded() {
    let ending = || {
        let mut client = client();
        client.handle_bytes(NOW, &[9, 10, 1, 2]);
        client.finish(NOW, outcome(1));
        client.handle_bytes(NOW, &[13]);
        client_events(&mut client);
        client
    };
    let many = message(&json!({"streams": vec![json!({}); 257]}));
    for bytes in [&many[..], &(256 * 1024 + 1_u32).to_be_bytes()] {
        let mut client = ending();
        client.handle_bytes(NOW, bytes);
        assert!(matches!(client_end(&mut client), ClientError::Results(_)));
    }
    // A number that makes no sense is nothing.
    let mut client = ending();
    let wild = json!({"id": 1, "bytes": -5, "jitter": -1, "packets": 1e300, "errors": "many"});
    client.handle_bytes(NOW, &message(&json!({"streams": [wild]})));
    let Some(ClientEvent::Outcome(outcome)) = client.poll_event() else { panic!() };
    let stream = outcome.stream(1).unwrap();
    assert_eq!((stream.bytes, stream.jitter, stream.lost_packets), (0, TimeDelta::ZERO, 0));
    // A server that fails here sends its state in place of the length.
    let mut client = ending();
    client.handle_bytes(NOW, &refused_with(117));
    assert!(matches!(client_end(&mut client), ClientError::Server { code: ErrorCode(117), .. }));
}

fn incoming(wide_counters: bool) -> Incoming {
    Incoming::new(IncomingConfig {
        rate: Some(DataRate::from_bps(1_000_000)),
        size: DataSize::from_bytes(200),
        wide_counters,
        origin_monotonic_ns: 77_000_000_000_000,
    })
}

/// Datagram `number` of a stream of 1 Mbit/s; its sender's clock began at `origin_ns`.
fn arrive(stream: &mut Incoming, origin_ns: u64, number: u64, wide: bool) {
    let at = number * 1_600_000;
    let mut datagram = [0; 200];
    DataHeader { sent_ns: origin_ns + at, sequence: number }.write(&mut datagram, wide);
    assert!(stream.on_datagram(Timestamp::from_nanos(at + 5_000), &datagram, Some(0)));
}

#[test]
fn a_stream_is_measured_by_our_meter() {
    for wide in [false, true] {
        let mut stream = incoming(wide);
        // A greeting is no datagram of the stream.
        assert!(!stream.on_datagram(Timestamp::ZERO, b"9876", None));
        for number in (1..=100).filter(|number| *number != 50) {
            arrive(&mut stream, 77_000_000_000_000, number, wide);
        }
        arrive(&mut stream, 77_000_000_000_000, 100, wide);
        stream.finish(102);
        let summary = stream.meter().unwrap().summary();
        assert_eq!((summary.received_packets, summary.lost_packets, summary.duplicate_packets), (99, 3, 1));
        let delay = summary.delay.unwrap();
        assert_eq!(delay.basis, giusto_measure::DelayBasis::SameClock);
        assert_eq!(delay.max, TimeDelta::from_micros(5));
        let reported = stream.outcome(1, TimeDelta::from_seconds(1));
        assert_eq!((reported.packets, reported.lost_packets, reported.bytes), (102, 3, 100 * 200));
    }
    // The time of another clock.
    let mut stream = incoming(true);
    (1..=10).for_each(|number| arrive(&mut stream, 3_000_000_000, number, true));
    let delay = stream.meter().unwrap().summary().delay.unwrap();
    assert_eq!(delay.basis, giusto_measure::DelayBasis::Relative);
}

#[test]
fn the_omitted_time_does_not_count() {
    let mut stream = incoming(true);
    (1..=10).filter(|number| *number != 3).for_each(|number| arrive(&mut stream, 0, number, true));
    stream.end_omitted();
    (11..=20).filter(|number| *number != 15).for_each(|number| arrive(&mut stream, 0, number, true));
    stream.finish(21);
    let summary = stream.meter().unwrap().summary();
    assert_eq!((summary.received_packets, summary.lost_packets), (9, 2));
    let reported = stream.outcome(1, TimeDelta::ZERO);
    assert_eq!((reported.packets, reported.omitted_packets, reported.bytes), (21, 10, 9 * 200));
    assert_eq!((reported.lost_packets, reported.omitted_lost_packets), (3, 1));
}

/// A call of either state machine.
#[derive(Debug, Clone)]
enum Call {
    Bytes(Vec<u8>),
    Wait(i64),
    Close,
    Finish,
    Ready,
    StreamsOpen,
    SetOutcome,
    Data,
}

fn any_call() -> impl Strategy<Value = Call> {
    let states = prop::sample::select(vec![1_u8, 2, 4, 9, 10, 11, 12, 13, 14, 16, 0xff, 0xfe, 0]);
    let texts = prop::sample::select(vec![
        r#"{"udp":true,"parallel":2}"#,
        r#"{"udp":true,"time":1e308,"parallel":128}"#,
        r#"{"udp":true,"bidirectional":true,"omit":600}"#,
        r#"{"streams":[{"id":-1e308,"packets":1e308,"end_time":-1e308,"start_time":1e308}]}"#,
        "[[[[[[[[]]]]]]]]",
    ]);
    prop_oneof![
        4 => prop::collection::vec(states, 0..4).prop_map(Call::Bytes),
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(Call::Bytes),
        2 => texts.prop_map(|text| Call::Bytes(framed(text))),
        1 => Just(Call::Bytes(vec![b'a'; 37])),
        1 => (0_i64..20_000).prop_map(Call::Wait),
        6 => prop::sample::select(vec![
            Call::Close, Call::Finish, Call::Ready, Call::StreamsOpen, Call::SetOutcome, Call::Data,
        ]),
    ]
}

proptest! {
    #[test]
    fn any_calls_are_safe_and_end_at_most_once(calls in prop::collection::vec(any_call(), 0..60)) {
        let (mut client, mut server) = (client(), server());
        let mut now = NOW;
        for call in calls {
            match call {
                Call::Bytes(bytes) => {
                    client.handle_bytes(now, &bytes);
                    server.handle_bytes(now, &bytes);
                }
                Call::Wait(millis) => {
                    now += TimeDelta::from_millis(millis);
                    client.handle_timeout(now);
                    server.handle_timeout(now);
                }
                Call::Close => {
                    client.handle_close();
                    server.handle_close();
                }
                Call::Finish => client.finish(now, outcome(3)),
                Call::Ready => server.on_ready(),
                Call::StreamsOpen => server.on_streams_open(now),
                Call::SetOutcome => server.set_outcome(now, &outcome(3)),
                Call::Data => server.on_data(now),
            }
        }
        let ends = client_events(&mut client).iter().filter(|e| matches!(e, ClientEvent::Ended(_))).count();
        prop_assert!(ends <= 1);
        let ends = server_events(&mut server).iter().filter(|e| matches!(e, ServerEvent::Ended(_))).count();
        prop_assert!(ends <= 1);
    }

    #[test]
    fn any_datagrams_are_safe_and_counted_once(
        datagrams in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..40)), 0..40),
        wide: bool,
        omit_after in 0_usize..40,
        sent: u64,
    ) {
        let mut stream = incoming(wide);
        let mut taken = 0;
        for (index, (at, bytes)) in datagrams.iter().enumerate() {
            if index == omit_after {
                stream.end_omitted();
                taken = 0;
            }
            taken += u64::from(stream.on_datagram(Timestamp::from_nanos(*at), bytes, None));
        }
        if let Some(meter) = stream.meter() {
            let summary = meter.summary();
            let counted = summary.received_packets
                + summary.duplicate_packets
                + summary.too_old_packets
                + summary.implausible_packets;
            prop_assert_eq!(counted, taken);
        }
        stream.finish(sent);
        stream.outcome(1, TimeDelta::ZERO);
    }
}
