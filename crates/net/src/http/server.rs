//! The server: its threads, its connections and their limits.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    io::{self, PipeReader, PipeWriter, Read as _, Write as _},
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd as _,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use giusto_session::host;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{
    limits::Limits,
    message::{Content, Request, Response},
    receive::{Received, receive},
    stream::Sink,
};

/// After a failed accept: too many open files, for example; they become fewer. In ms.
const RETRY: u16 = 200;

/// An HTTP/1.1 server with one request per connection. Dropping it closes its port and cuts its streams off.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    connections: Arc<Connections>,
    /// Closing it ends the thread that accepts.
    stop: Option<PipeWriter>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Listens on `address`; `respond` answers each request, with the client's address. It runs in threads of the server.
    ///
    /// # Errors
    ///
    /// Where the address is not available.
    pub fn start(
        address: SocketAddr,
        limits: Limits,
        respond: impl Fn(SocketAddr, &Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Self> {
        Self::listen(TcpListener::bind(address)?, limits, respond)
    }

    /// The same on a port that is bound already.
    pub(super) fn listen(
        listener: TcpListener,
        limits: Limits,
        respond: impl Fn(SocketAddr, &Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let connections = Arc::new(Connections::default());
        let (stopped, stop) = io::pipe()?;
        let desk = Desk { limits, respond: Box::new(respond), connections: Arc::clone(&connections) };
        let serve = move || accept(&listener, &Arc::new(desk), &stopped);
        let thread = thread::Builder::new().name("http".to_owned()).spawn(serve)?;
        Ok(Self { address, connections, stop: Some(stop), thread: Some(thread) })
    }

    /// The address on which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts no more connections, and waits for the answers under way, but no longer than `patience`.
    pub fn finish(mut self, patience: Duration) {
        self.stop_accepting();
        self.connections.wait(patience);
    }

    fn stop_accepting(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only fails if that thread has panicked.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_accepting();
        self.connections.cut();
    }
}

/// Answers a request of a client.
type Respond = dyn Fn(SocketAddr, &Request) -> Response + Send + Sync;

/// What all connections use.
struct Desk {
    limits: Limits,
    respond: Box<Respond>,
    connections: Arc<Connections>,
}

/// The open connections, by number.
#[derive(Debug, Default)]
struct Connections {
    open: Mutex<Open>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Open {
    clients: BTreeMap<u64, Client>,
    next: u64,
}

#[derive(Debug)]
struct Client {
    stream: TcpStream,
    host: IpAddr,
    /// Its request has come. A browser also opens connections that it may need later.
    asked: bool,
}

impl Open {
    /// The number of the client that makes room for another.
    fn least_wanted(&self) -> Option<u64> {
        let held = |host: IpAddr| self.clients.values().filter(|client| client.host == host).count();
        let rank = |client: &Client| (held(client.host), !client.asked);
        let ranked = self.clients.iter().map(|(number, client)| (rank(client), Reverse(*number)));
        ranked.max().map(|(_, Reverse(number))| number)
    }
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, Open> {
        // What it guards is valid after each statement.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a client in. If there are `max` already, one of them is closed.
    ///
    /// # Errors
    ///
    /// Too many open files.
    fn admit(self: &Arc<Self>, client: &TcpStream, from: IpAddr, max: usize) -> io::Result<Slot> {
        let client = Client { stream: client.try_clone()?, host: host(from), asked: false };
        let mut open = self.lock();
        if open.clients.len() >= max
            && let Some(client) = open.least_wanted().and_then(|number| open.clients.remove(&number))
        {
            // Its thread reads the end.
            let _ = client.stream.shutdown(Shutdown::Both);
        }
        let number = open.next;
        open.next += 1;
        open.clients.insert(number, client);
        Ok(Slot { connections: Arc::clone(self), number })
    }

    /// Waits for the answers under way. Those that are still open afterwards are cut off.
    fn wait(&self, patience: Duration) {
        let is_answering = |open: &mut Open| open.clients.values().any(|client| client.asked);
        drop(self.ended.wait_timeout_while(self.lock(), patience, is_answering));
    }

    /// Ends what clients read and write.
    fn cut(&self) {
        for client in self.lock().clients.values() {
            // It may be closed already.
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }
}

/// One of the open connections; dropping it makes room for another.
struct Slot {
    connections: Arc<Connections>,
    number: u64,
}

impl Slot {
    fn on_request(&self) {
        if let Some(client) = self.connections.lock().clients.get_mut(&self.number) {
            client.asked = true;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.lock().clients.remove(&self.number);
        self.connections.ended.notify_all();
    }
}

fn accept(listener: &TcpListener, desk: &Arc<Desk>, stopped: &PipeReader) {
    loop {
        let mut wanted = [
            PollFd::new(stopped.as_fd(), PollFlags::POLLIN),
            PollFd::new(listener.as_fd(), PollFlags::POLLIN),
        ];
        // An interruption of the wait is handled in the next turn.
        let _ = poll(&mut wanted, PollTimeout::NONE);
        let [stop, _] = &wanted;
        if stop.any() == Some(true) {
            return;
        }
        match listener.accept() {
            Ok((client, from)) => {
                // Without a descriptor for it, the connection is closed.
                if let Ok(slot) = desk.connections.admit(&client, from.ip(), desk.limits.max_connections) {
                    let desk = Arc::clone(desk);
                    // Without a thread, the connection is closed.
                    let _ = thread::Builder::new().name("http-client".to_owned()).spawn(move || {
                        // A client that has disconnected needs no answer.
                        let _ = answer(client, from, &desk, &slot);
                        drop(slot);
                    });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => {
                let mut wanted = [PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
                // As above.
                let _ = poll(&mut wanted, RETRY);
            }
        }
    }
}

fn answer(mut client: TcpStream, from: SocketAddr, desk: &Desk, slot: &Slot) -> io::Result<()> {
    client.set_nonblocking(false)?;
    // A page draws each update when it comes.
    client.set_nodelay(true)?;
    client.set_write_timeout(Some(desk.limits.timeout.to_std()))?;
    let (response, is_head) = match receive(&mut client, &desk.limits)? {
        Received::Request(request) => {
            slot.on_request();
            // A handler that panics has said so on standard error; the others go on.
            let made = catch_unwind(AssertUnwindSafe(|| (desk.respond)(from, &request)));
            let failed = |_| Response::text("500 Internal Server Error", "the handler failed\n");
            (made.unwrap_or_else(failed), request.method == "HEAD")
        }
        Received::Refused(response) => {
            client.write_all(&response.whole())?;
            client.shutdown(Shutdown::Write)?;
            // What is still on its way would otherwise reset the connection before the answer is read.
            return io::copy(&mut client.take(desk.limits.max_body as u64), &mut io::sink()).map(drop);
        }
    };
    client.write_all(response.head().as_bytes())?;
    match response.content {
        _ if is_head => {}
        Content::Whole(bytes) => client.write_all(&bytes)?,
        Content::Stream(write) => {
            // A stream waits for its client.
            client.set_write_timeout(None)?;
            let sink = Sink::new(client.try_clone()?);
            // As above.
            let _ = catch_unwind(AssertUnwindSafe(|| write(&sink)));
        }
    }
    client.shutdown(Shutdown::Write)
}

#[cfg(test)]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;

    #[test]
    fn a_dropped_server_closes_its_port() {
        let respond = |_, _: &Request| Response::ok("text/plain", "a");
        // An address of its own: the ports that other tests draw on 127.0.0.1 are not in the way.
        let server = Server::start(([127, 0, 0, 117], 0).into(), Limits::default(), respond).unwrap();
        let address = server.local_addr();
        drop(server);
        assert!(TcpStream::connect(address).is_err());
        assert!(TcpListener::bind(address).is_ok());
    }

    #[test]
    fn all_addresses_of_an_ipv6_prefix_are_one_host() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let connections = Arc::new(Connections::default());
        let hosts = ["192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"];
        let slots = hosts.map(|host| {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            connections.admit(&client, host.parse().unwrap(), 3).unwrap()
        });
        let open: Vec<u64> = connections.lock().clients.keys().copied().collect();
        assert_eq!(open, [0, 2, 3], "the first of those with the same prefix made room");
        drop(slots);
    }

    #[test]
    fn a_posted_body_arrives_whole_or_not_at_all() {
        let respond = |_, request: &Request| {
            let text = format!("{} {} {:?}", request.method, request.body.len(), request.origin);
            Response::ok("text/plain", text)
        };
        let limits = Limits { timeout: TimeDelta::from_seconds(60), ..Limits::default() };
        let server = Server::start(([127, 0, 0, 1], 0).into(), limits, respond).unwrap();
        let post = |lines: &str, sent: usize| {
            let mut client = TcpStream::connect(server.local_addr()).unwrap();
            let head = format!("POST /a HTTP/1.1\r\nOrigin: http://x\r\n{lines}\r\n\r\n");
            client.write_all(&[head.as_bytes(), &vec![b'a'; sent]].concat()).unwrap();
            let mut answer = String::new();
            // A reset after the answer is no failure.
            let _ = client.read_to_string(&mut answer);
            answer
        };
        assert!(post("content-length: 100000", 100_000).ends_with("POST 100000 Some(\"http://x\")"));
        assert!(post("content-length: 0", 0).ends_with("POST 0 Some(\"http://x\")"));
        for length in ["-1", "99999999999999999999", "ten"] {
            let answer = post(&format!("content-length: {length}"), 10);
            assert!(answer.starts_with("HTTP/1.1 400"), "{length}: {answer}");
        }
        let waiting = post("Content-Length: 3\r\nExpect: 100-continue", 3);
        assert!(waiting.ends_with("POST 3 Some(\"http://x\")"), "{waiting}");
        assert!(post("Transfer-Encoding: chunked", 3).starts_with("HTTP/1.1 411"));
    }
}
