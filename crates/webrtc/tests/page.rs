//! The page of a call: who may ask for one, and what the others read.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

mod common;

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use common::{Counting, media};
use giusto_webrtc::{
    call::{CallError, CallEvent, CallPlan, run},
    peer::Secrets,
    result::CallResult,
};
use rand::SeedableRng as _;
use serde_json::{Value, json};

const OFFER: &str = include_str!("data/chromium-transport-cc.sdp");
/// A machine that is busy with other things may be slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A call that waits for a browser.
struct Page {
    address: SocketAddr,
    events: mpsc::Receiver<CallEvent>,
    stop: Arc<AtomicBool>,
    caller: JoinHandle<Result<CallResult, CallError>>,
}

impl Page {
    fn serve() -> Self {
        let (sender, events) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let caller = thread::spawn(move || {
            let mut random = rand::rngs::StdRng::seed_from_u64(7);
            let media = Some(media("gcc:libwebrtc", Counting::new()));
            let plan = CallPlan::new(([127, 0, 0, 1], 0).into(), media, "gcc:libwebrtc");
            let mut on_event = |event| {
                let _ = sender.send(event);
            };
            run(plan, || Secrets::draw(&mut random), &stopped, &mut on_event)
        });
        let CallEvent::Serving(address) = events.recv_timeout(PATIENCE).unwrap() else {
            panic!("no address")
        };
        Self { address, events, stop, caller }
    }

    /// Status and body of the answer.
    fn ask(&self, head: &str, body: &str) -> (u16, String) {
        self.ask_as(head, &format!("Host: {}", self.address), body)
    }

    fn ask_as(&self, head: &str, headers: &str, body: &str) -> (u16, String) {
        let mut client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!("{head} HTTP/1.1\r\n{headers}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn offer(&self) -> (u16, String) {
        self.ask("POST /offer", &json!({ "sdp": OFFER }).to_string())
    }

    fn token(&self) -> String {
        let (status, body) = self.offer();
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert!(answer["sdp"].as_str().unwrap().contains("a=ice-lite"));
        answer["token"].as_str().unwrap().to_owned()
    }

    fn end(self) -> Result<CallResult, CallError> {
        self.stop.store(true, Relaxed);
        self.caller.join().unwrap()
    }
}

#[test]
fn a_second_browser_reads_that_the_call_is_taken() {
    let page = Page::serve();
    let token = page.token();
    let (status, body) = page.offer();
    assert_eq!(status, 409);
    assert!(body.contains("this call already has a browser"), "{body}");
    // The page of the first one goes on.
    let (status, body) = page.ask("POST /stats", &json!({ "token": token, "samples": [] }).to_string());
    assert_eq!(status, 200, "{body}");
    let result = page.end().unwrap();
    assert!(!result.connected && result.end == "ended here", "{}", result.end);
}

#[test]
fn only_the_page_of_the_call_can_end_it() {
    let page = Page::serve();
    let token = page.token();
    for wrong in
        [json!({ "end": true }), json!({ "token": "x", "end": true }), json!({ "token": null, "end": true })]
    {
        let (status, body) = page.ask("POST /stats", &wrong.to_string());
        assert_eq!(status, 403, "{wrong}: {body}");
    }
    assert_eq!(page.offer().0, 409, "the call goes on");
    let (status, _) = page.ask("POST /stats", &json!({ "token": token, "end": true }).to_string());
    assert_eq!(status, 200);
    // The browser had not connected: another may come.
    assert_eq!(page.events.recv_timeout(PATIENCE), Ok(CallEvent::Left));
    let next = page.token();
    assert_ne!(next, token);
    let (status, _) = page.ask("POST /stats", &json!({ "token": token, "end": true }).to_string());
    assert_eq!(status, 403, "the token of a call that is over");
    assert!(!page.end().unwrap().connected);
}

#[test]
fn the_complaint_of_a_page_is_passed_on() {
    let page = Page::serve();
    let complaint = json!({ "error": "this browser has no WebRTC\u{1b}[2J" }).to_string();
    assert_eq!(page.ask("POST /stats", &complaint).0, 403);
    let event = page.events.recv_timeout(PATIENCE).unwrap();
    assert_eq!(event, CallEvent::PageError("this browser has no WebRTC[2J".to_owned()));
    assert!(matches!(page.end(), Err(CallError::NoBrowser)));
}

#[test]
fn bad_requests_are_refused_and_slow_clients_block_nobody() {
    let page = Page::serve();
    // They never send a request.
    let slow: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(page.address).unwrap()).collect();
    let long = "a".repeat(300_000);
    for (head, body, expected) in [
        ("GET /", "", 200),
        ("GET /etc/passwd", "", 404),
        ("PUT /offer", "", 405),
        ("POST /offer", "v=0", 400),
        ("POST /offer", "{\"sdp\": \"v=0\"}", 400),
        ("POST /stats", "7", 400),
        ("POST /stats", "{\"samples\": [{\"page_ms\": 1e999}]}", 400),
    ] {
        let (status, answer) = page.ask(head, body);
        assert_eq!(status, expected, "{head} {body}: {answer}");
    }
    // Pages of other sites.
    for headers in ["Host: evil.example", "Host: localhost\r\nOrigin: http://evil.example"] {
        assert_eq!(page.ask_as("POST /offer", headers, "{}").0, 403, "{headers}");
    }
    // It is too long to be read whole: the connection may be reset before the answer is.
    let mut client = TcpStream::connect(page.address).unwrap();
    let head =
        format!("POST /offer HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n", page.address, long.len());
    let _ = client.write_all(head.as_bytes()).and_then(|()| client.write_all(long.as_bytes()));
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(page.ask("GET /", "").0, 200);
    drop(slow);
    assert!(matches!(page.end(), Err(CallError::NoBrowser)));
}
