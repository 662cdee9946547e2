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
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn to(target: SocketAddr) -> Self {
        let front = open();
        let address = front.local_addr().unwrap();
        let rule = Arc::new(Mutex::new(pass()));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (rule, stop) = (rule.clone(), stop.clone());
            thread::spawn(move || relay(&front, target, &rule, &stop))
        };
        Self { address, rule, stop, thread: Some(thread) }
    }

    /// From now on this happens to each datagram.
    pub(crate) fn set(&self, rule: Rule) {
        *self.rule.lock().unwrap() = rule;
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

fn relay(front: &UdpSocket, target: SocketAddr, rule: &Mutex<Rule>, stop: &AtomicBool) {
    // Each client has a socket of its own towards the target.
    let mut clients: Vec<(SocketAddr, UdpSocket)> = Vec::new();
    let mut waiting: Vec<(Instant, Way, usize, Vec<u8>)> = Vec::new();
    let mut bytes = [0; 2048];
    while !stop.load(Relaxed) {
        let mut arrived = Vec::new();
        while let Ok((length, from)) = front.recv_from(&mut bytes) {
            let known = clients.iter().position(|(client, _)| *client == from);
            let place = known.unwrap_or_else(|| {
                clients.push((from, open()));
                clients.len() - 1
            });
            arrived.push((Way::Forth, place, bytes[..length].to_vec()));
        }
        for (place, (_, socket)) in clients.iter().enumerate() {
            while let Ok(length) = socket.recv(&mut bytes) {
                arrived.push((Way::Back, place, bytes[..length].to_vec()));
            }
        }
        let is_idle = arrived.is_empty();
        for (way, place, datagram) in arrived {
            let copies = rule.lock().unwrap()(way, &datagram);
            let now = Instant::now();
            waiting.extend(copies.into_iter().map(|(delay, bytes)| (now + delay, way, place, bytes)));
        }
        let now = Instant::now();
        waiting.retain(|(due, way, place, bytes)| {
            if *due > now {
                return true;
            }
            let (client, back) = &clients[*place];
            // A program that has ended answers with ICMP.
            let _ = match way {
                Way::Forth => back.send_to(bytes, target),
                Way::Back => front.send_to(bytes, *client),
            };
            false
        });
        if is_idle {
            thread::sleep(Duration::from_micros(300));
        }
    }
}
