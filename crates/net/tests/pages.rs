//! Raw requests to a server: what is answered, refused and cut off.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

use giusto_net::http::{Limits, Pages, Response, Routes, StartError};
use giusto_units::TimeDelta;

/// A page, an echo of bodies and queries, and a handler that fails.
fn routes() -> Routes {
    Routes::new()
        .get("", |request| Response::page(format!("<script nonce={}>", request.nonce())))
        .post("echo", |request| Response::json(format!("{} {}", request.body().len(), request.query())))
        .get("bad", |_| panic!("a handler that fails"))
}

fn server() -> Pages {
    Pages::start(routes(), 0, Limits::default()).unwrap()
}

/// The answer until the server closes the connection. A reset after the answer is no failure.
fn read_all(client: &mut TcpStream) -> String {
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn exchange(address: SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    // A server that refuses early may not read it all.
    let _ = client.write_all(request.as_bytes());
    read_all(&mut client)
}

/// The answer to `METHOD PATH`, below the token, with further header lines.
fn ask(server: &Pages, method: &str, path: &str, lines: &[&str]) -> String {
    let (address, token) = (server.address(), server.path());
    let lines: String = lines.iter().flat_map(|line| [*line, "\r\n"]).collect();
    let head = format!("{method} {token}{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    exchange(address, &format!("{head}{lines}\r\n"))
}

fn status(answer: &str) -> &str {
    answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).unwrap_or_else(|| panic!("{answer:?}"))
}

/// The lines of the header `name`.
fn header<'a>(answer: &'a str, name: &str) -> Vec<&'a str> {
    let head = answer.split_once("\r\n\r\n").map_or(answer, |(head, _)| head);
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).collect()
}

#[test]
fn a_page_has_its_nonce_and_a_strict_policy() {
    let server = server();
    let [first, second] = [0, 1].map(|_| ask(&server, "GET", "", &[]));
    let (_, body) = first.split_once("\r\n\r\n").unwrap();
    let nonce = body.strip_prefix("<script nonce=").and_then(|rest| rest.strip_suffix('>')).unwrap();
    assert!(nonce.len() == 32 && nonce.bytes().all(|digit| digit.is_ascii_hexdigit()), "{nonce}");
    assert!(!second.contains(nonce));
    let [policy] = header(&first, "Content-Security-Policy")[..] else { panic!("{first}") };
    let parts: Vec<&str> = policy.split("; ").collect();
    assert!(parts.contains(&"default-src 'none'") && parts.contains(&"frame-ancestors 'none'"), "{policy}");
    assert!(parts.contains(&format!("script-src 'nonce-{nonce}'").as_str()), "{policy}");
    assert!(parts.contains(&format!("style-src 'nonce-{nonce}'").as_str()), "{policy}");
    assert!(parts.contains(&"connect-src 'self'") && !policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("Cache-Control", "no-store"),
        ("X-Frame-Options", "DENY"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
    ] {
        assert_eq!(header(&first, name), [value]);
    }
    // Other answers may hold nothing active at all.
    let text = ask(&server, "GET", "nothing", &[]);
    assert_eq!(status(&text), "404");
    assert!(!header(&text, "Content-Security-Policy")[0].contains("script-src"));
    assert!(!text.to_lowercase().contains("access-control-allow"));
}

#[test]
fn requests_without_the_token_find_nothing() {
    let (server, another) = (server(), server());
    let (address, path) = (server.address(), server.path());
    let other = token_changed(path);
    let short = &path[..path.len() - 2];
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        status(&exchange(address, &request)).to_owned()
    };
    assert_eq!(get(path), "200");
    for wrong in ["/", "//", "/index.html", &other, short, &format!("{short}/"), &path.to_uppercase()] {
        assert_eq!(get(wrong), "404", "{wrong}");
    }
    assert_ne!(path, another.path(), "each server has a token of its own");
}

/// The path with another last digit in its token.
fn token_changed(path: &str) -> String {
    let (token, last) = path.trim_end_matches('/').split_at(path.len() - 2);
    format!("{token}{}/", if last == "0" { "1" } else { "0" })
}

#[test]
fn a_name_that_was_rebound_is_refused() {
    let server = server();
    let (address, path, port) = (server.address(), server.path(), server.address().port());
    let get = |lines: &str| {
        let answer = exchange(address, &format!("GET {path} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n"));
        status(&answer).to_owned()
    };
    for own in [format!("127.0.0.1:{port}"), format!("localhost:{port}")] {
        assert_eq!(get(&format!("Host: {own}\r\n")), "200", "{own}");
    }
    for other in [
        format!("evil.example:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port ^ 1),
        format!("localhost.evil.example:{port}"),
        format!("[::1]:{port}"),
        String::new(),
    ] {
        assert_eq!(get(&format!("Host: {other}\r\n")), "421", "{other}");
    }
    assert_eq!(get(""), "421");
    let twice = format!("Host: 127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}\r\n");
    assert_eq!(get(&twice), "400");
}

#[test]
fn pages_of_other_sites_are_refused() {
    let server = server();
    let port = server.address().port();
    let post = |origins: &[&str]| {
        let lines: Vec<String> = origins.iter().map(|origin| format!("Origin: {origin}")).collect();
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.push("Content-Length: 0");
        status(&ask(&server, "POST", "echo", &lines)).to_owned()
    };
    let own = format!("http://127.0.0.1:{port}");
    assert_eq!((post(&[]), post(&[&own])), ("200".to_owned(), "200".to_owned()));
    for other in [
        "http://evil.example",
        "null",
        "http://127.0.0.1",
        &format!("https://127.0.0.1:{port}"),
        &format!("http://127.0.0.1:{}", port ^ 1),
        &format!("http://localhost:{port}"),
    ] {
        assert_eq!(post(&[other]), "403", "{other}");
    }
    assert_eq!(post(&[&own, "http://evil.example"]), "400");
}

#[test]
fn methods_and_failures_have_their_status() {
    let server = server();
    let wrong = ask(&server, "POST", "", &["Content-Length: 0"]);
    assert_eq!((status(&wrong), header(&wrong, "Allow")), ("405", vec!["GET, HEAD"]));
    let wrong = ask(&server, "GET", "echo", &[]);
    assert_eq!((status(&wrong), header(&wrong, "Allow")), ("405", vec!["POST"]));
    let head = ask(&server, "HEAD", "", &[]);
    assert_eq!((status(&head), head.ends_with("\r\n\r\n")), ("200", true));
    assert_eq!(status(&ask(&server, "GET", "bad", &[])), "500");
    assert_eq!(status(&exchange(server.address(), "\x16\x03\x01\r\n\r\n")), "400");
    assert_eq!(status(&ask(&server, "GET", "", &[])), "200");
}

#[test]
fn bodies_are_bounded() {
    const MAX_BODY: usize = 1 << 20;
    let server = server();
    let post = |length: usize, sent: usize| {
        let body = "a".repeat(sent);
        let (address, path) = (server.address(), server.path());
        let head = format!("POST {path}echo?q=1 HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        exchange(address, &format!("{head}Content-Length: {length}\r\n\r\n{body}"))
    };
    assert!(post(MAX_BODY, MAX_BODY).ends_with(&format!("\r\n\r\n{MAX_BODY} q=1")));
    // It is refused before it comes.
    assert_eq!(status(&post(MAX_BODY + 1, 0)), "413");
}

#[test]
fn slow_clients_are_cut_off() {
    let limits = Limits { timeout: TimeDelta::from_millis(300), ..Limits::default() };
    let server = Pages::start(routes(), 0, limits).unwrap();
    let (address, path) = (server.address(), server.path());
    let mut silent = TcpStream::connect(address).unwrap();
    assert_eq!(read_all(&mut silent), "");
    // A header line now and then prolongs nothing.
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n").as_bytes()).unwrap();
    let cut = (0..600).any(|number| {
        thread::park_timeout(Duration::from_millis(100));
        slow.write_all(format!("A{number}: b\r\n").as_bytes()).is_err()
    });
    assert!(cut);
    // The header was complete, the body is not.
    let answer = ask(&server, "POST", "echo", &["Content-Length: 10"]);
    assert_eq!(status(&answer), "408");
    let long = format!("A: {}", "b".repeat(64 * 1024));
    assert_eq!(status(&ask(&server, "GET", "", &[&long])), "431");
    assert_eq!(status(&ask(&server, "GET", "", &[])), "200");
}

#[test]
fn silent_clients_keep_nobody_out_and_end_no_stream() {
    let (tell, server) = told();
    let mut client = follow(&server);
    let address = server.address();
    let silent: Vec<_> =
        (0..2 * Limits::default().max_connections).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(status(&ask(&server, "GET", "nothing", &[])), "404");
    tell.send("still here").unwrap();
    assert!(read_all(&mut client).contains("data: still here\n"));
    drop(silent);
}

#[test]
fn a_stream_stops_when_its_client_goes_away() {
    let sent = Arc::new(AtomicUsize::new(0));
    let (ended, end) = mpsc::channel();
    let routes = {
        let sent = Arc::clone(&sent);
        Routes::new().post("run", move |_| {
            let (sent, ended) = (Arc::clone(&sent), ended.clone());
            Response::lines(move |sink| {
                while sink.send(format!("{{\"n\":{}}}\n", sent.fetch_add(1, SeqCst))).is_ok() {}
                ended.send(sink.is_gone()).unwrap();
            })
        })
    };
    let server = Pages::start(routes, 0, Limits::default()).unwrap();
    let (address, path) = (server.address(), server.path());
    let mut client = TcpStream::connect(address).unwrap();
    let head = format!("POST {path}run HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    while !answer.contains("{\"n\":2}\n") {
        let mut part = [0; 1024];
        let length = client.read(&mut part).unwrap();
        assert_ne!(length, 0, "{answer}");
        answer.push_str(std::str::from_utf8(&part[..length]).unwrap());
    }
    assert_eq!(header(&answer, "Content-Type"), ["application/x-ndjson"]);
    // Nobody reads now: the stream waits for the client instead of filling the memory.
    let waits = (0..600).any(|_| {
        let before = sent.load(SeqCst);
        thread::park_timeout(Duration::from_millis(200));
        sent.load(SeqCst) == before
    });
    assert!(waits);
    drop(client);
    assert_eq!(end.recv_timeout(Duration::from_secs(60)), Ok(true));
}

/// A stream that waits for a word, sends it as an event, and ends.
fn told() -> (mpsc::Sender<&'static str>, Pages) {
    let (tell, word) = mpsc::channel();
    let word = std::sync::Mutex::new(Some(word));
    let routes = Routes::new().get("events", move |_| {
        let word = word.lock().unwrap().take().unwrap();
        Response::events(move |sink| {
            sink.event("begin", "").unwrap();
            if let Ok(word) = word.recv() {
                let _ = sink.event("end", word);
            }
        })
    });
    (tell, Pages::start(routes, 0, Limits::default()).unwrap())
}

fn follow(server: &Pages) -> TcpStream {
    let (address, path) = (server.address(), server.path());
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(format!("GET {path}events HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut begin = Vec::new();
    while !begin.ends_with(b"event: begin\ndata: \n\n") {
        let mut byte = [0];
        assert_eq!(client.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&begin));
        begin.push(byte[0]);
    }
    client
}

#[test]
fn the_end_waits_for_streams() {
    let (tell, server) = told();
    let mut client = follow(&server);
    let finished = thread::spawn(move || server.finish(Duration::from_secs(60)));
    thread::park_timeout(Duration::from_millis(200));
    tell.send("two\nlines").unwrap();
    let end = read_all(&mut client);
    assert!(end.contains("event: end\ndata: two\ndata: lines\n\n"), "{end}");
    finished.join().unwrap();
}

#[test]
fn the_end_does_not_wait_for_ever() {
    let (tell, server) = told();
    let (address, mut client) = (server.address(), follow(&server));
    // The word comes only after the server has ended, which lets its thread go.
    let finished = thread::spawn(move || server.finish(Duration::from_millis(100)));
    assert!(!read_all(&mut client).contains("end"));
    finished.join().unwrap();
    assert!(TcpStream::connect(address).is_err());
    drop(tell);
}

#[test]
fn it_listens_on_loopback_alone_and_names_a_taken_port() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let refused = Pages::start(Routes::new(), port, Limits::default());
    let error = refused.map(drop).unwrap_err();
    assert!(matches!(error, StartError::Bind { .. }));
    let text = error.to_string();
    assert!(text.starts_with(&format!("127.0.0.1:{port}: ")) && text.ends_with("any free port"), "{text}");
    let server = server();
    assert_eq!(server.address().ip(), Ipv4Addr::LOCALHOST);
    assert_eq!(server.url(), format!("http://{}{}", server.address(), server.path()));
    // Another address of loopback is not served.
    let other = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), server.address().port()));
    assert!(TcpStream::connect(other).is_err());
}
