//! A UDP relay between two programs that does with each datagram what a test wants.

use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// The direction of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Forth,
    Back,
}

/// What happens to a datagram: each copy with the time after which it goes on.
pub(crate) type Rule = Box<dyn FnMut(Way, &[u8]) -> Vec<(Duration, Vec<u8>)> + Send>;

/// Everything goes on at once.
pub(crate) fn pass() -> Rule {
    Box::new(|_, bytes| vec![(Duration::ZERO, bytes.to_vec())])
}

/// Passes datagrams from whoever sends to `address` on to a target, and the answers back. It ends with the test.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    rule: Arc<Mutex<Rule>>,
    moves: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn to(target: SocketAddr) -> Self {
        let front = open();
        let address = front.local_addr().unwrap();
        let rule = Arc::new(Mutex::new(pass()));
        let [moves, stop] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let thread = {
            let (rule, moves, stop) = (rule.clone(), moves.clone(), stop.clone());
            thread::spawn(move || relay(&front, target, &rule, &moves, &stop))
        };
        Self { address, rule, moves, stop, thread: Some(thread) }
    }

    /// From now on this happens to each datagram.
    pub(crate) fn set(&self, rule: Rule) {
        *self.rule.lock().unwrap() = rule;
    }

    /// From now on it sends from another port, as a NAT does that has forgotten its binding (RFC 4787 §4.3).
    pub(crate) fn move_port(&self) {
        self.moves.store(true, Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn relay(front: &UdpSocket, target: SocketAddr, rule: &Mutex<Rule>, moves: &AtomicBool, stop: &AtomicBool) {
    let mut back = open();
    let mut client = None;
    let mut waiting: Vec<(Instant, Way, Vec<u8>)> = Vec::new();
    let mut bytes = [0; 2048];
    while !stop.load(Relaxed) {
        if moves.swap(false, Relaxed) {
            back = open();
        }
        let mut idle = true;
        for way in [Way::Forth, Way::Back] {
            let socket = if way == Way::Forth { front } else { &back };
            while let Ok((length, from)) = socket.recv_from(&mut bytes) {
                if way == Way::Forth {
                    client = Some(from);
                }
                let copies = rule.lock().unwrap()(way, &bytes[..length]);
                let now = Instant::now();
                waiting.extend(copies.into_iter().map(|(delay, bytes)| (now + delay, way, bytes)));
                idle = false;
            }
        }
        let now = Instant::now();
        waiting.retain(|(due, way, bytes)| {
            if *due > now {
                return true;
            }
            // A program that has ended answers with ICMP.
            let _ = match way {
                Way::Forth => back.send_to(bytes, target),
                Way::Back => client.map_or(Ok(0), |client| front.send_to(bytes, client)),
            };
            false
        });
        if idle {
            thread::sleep(Duration::from_micros(300));
        }
    }
}
