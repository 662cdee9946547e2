//! Network namespaces: a thread that lives in one, and the rights to make them.

use std::{
    fs, io,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
};

use nix::{
    errno::Errno,
    sched::{CloneFlags, unshare},
    unistd::{getegid, geteuid},
};

/// Capabilities that are needed to make a network namespace and its interfaces: `linux/capability.h`.
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;

/// A namespace that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// The kernel has no network namespaces, or forbids them to this process.
    #[error("cannot make a network namespace: {source}")]
    Network {
        /// The system's error.
        source: io::Error,
    },
    /// The kernel has no user namespaces, or forbids them.
    #[error("cannot make a user namespace: {source}")]
    User {
        /// The system's error.
        source: io::Error,
    },
    /// The user's ids cannot be mapped into the namespace.
    #[error("cannot write {path}: {source}")]
    Map {
        /// The file.
        path: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A thread could not be started, or ended before its time.
    #[error("the thread of the network namespace: {source}")]
    Thread {
        /// The system's error.
        source: io::Error,
    },
}

/// Whether this process may make network namespaces and configure interfaces without a user namespace.
pub fn may_configure_network() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    [CAP_NET_ADMIN, CAP_SYS_ADMIN].iter().all(|capability| effective & 1 << capability != 0)
}

/// Moves this process into a user namespace and a network namespace of its own, in which it may configure interfaces. Its user and
/// group stay the same; programs that it starts have no rights beyond those of the user. Call it before any thread is started.
///
/// # Errors
///
/// [`NamespaceError`]: the kernel does not permit it. The process is unchanged, unless the ids cannot be mapped.
pub fn enter_user_namespace() -> Result<(), NamespaceError> {
    let (user, group) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .map_err(|errno| NamespaceError::User { source: errno.into() })?;
    // Without this the group cannot be mapped: user_namespaces(7).
    for (path, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        fs::write(path, text).map_err(|source| NamespaceError::Map { path, source })?;
    }
    Ok(())
}

type Work = Box<dyn FnOnce() + Send>;

/// A network namespace that lasts as long as this value, the processes started in it, and its open sockets.
///
/// A thread lives in it. What [`run`](Self::run) does there, such as opening sockets, creating interfaces or starting processes,
/// happens in the namespace.
#[derive(Debug)]
pub struct Namespace {
    work: Option<mpsc::Sender<Work>>,
    thread: Option<JoinHandle<Result<(), Errno>>>,
}

impl Namespace {
    /// Makes a namespace with nothing but a loopback interface, which is down.
    ///
    /// # Errors
    ///
    /// [`NamespaceError::Network`]: the right is missing, or the kernel has no namespaces.
    pub fn new() -> Result<Self, NamespaceError> {
        let (work, tasks) = mpsc::channel::<Work>();
        let (made, entered) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("namespace".to_owned()).spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            // The other side waits for it.
            let _ = made.send(());
            for task in tasks {
                task();
            }
            Ok(())
        });
        let thread = thread.map_err(|source| NamespaceError::Thread { source })?;
        if entered.recv().is_err() {
            let errno = thread.join().ok().and_then(Result::err).unwrap_or(Errno::ESRCH);
            return Err(NamespaceError::Network { source: errno.into() });
        }
        Ok(Self { work: Some(work), thread: Some(thread) })
    }

    /// Runs `task` in the thread of the namespace and waits for its result.
    ///
    /// # Errors
    ///
    /// [`NamespaceError::Thread`]: the task panicked, now or earlier.
    pub fn run<R: Send + 'static>(
        &self,
        task: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, NamespaceError> {
        let ended = || NamespaceError::Thread { source: io::ErrorKind::BrokenPipe.into() };
        // A channel of results would be compiled anew for each kind of result.
        let result = Arc::new(Mutex::new(None));
        let (done, finished) = mpsc::channel::<()>();
        let work: Work = Box::new({
            let result = Arc::clone(&result);
            move || {
                let own = task();
                *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(own);
                drop(done);
            }
        });
        self.work.as_ref().ok_or_else(ended)?.send(work).map_err(|_| ended())?;
        let _ = finished.recv();
        result.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(ended)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The thread ends with its tasks.
        self.work = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
