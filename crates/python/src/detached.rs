//! The one place where the GIL is released and Ctrl-C is honoured.

use std::{
    ffi::c_ulong,
    panic::resume_unwind,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use pyo3::{exceptions::PyKeyboardInterrupt, ffi, prelude::*};

/// How often Python's signal handlers run while nothing else happens.
const POLL: Duration = Duration::from_millis(50);

/// Work that has not ended after so many of them has `KeyboardInterrupt` raised in the code of the user that it calls: an endless loop there
/// would never look at the flag.
const PATIENCE: u32 = 20;

/// How the work on other threads is ended.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    /// Whether it is to end.
    pub(crate) stop: AtomicBool,
    /// The threads that may call the user's code, as Python numbers them.
    threads: Mutex<Vec<c_ulong>>,
}

impl Interrupt {
    fn change<T>(&self, change: impl FnOnce(&mut Vec<c_ulong>) -> T) -> T {
        change(&mut self.threads.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Raises the exception in the user's code that runs now.
    fn raise(&self, py: Python<'_>) {
        let exception = py.get_type::<PyKeyboardInterrupt>();
        self.change(|threads| {
            for thread in threads.iter() {
                // SAFETY: the caller holds the GIL, the exception lives, and for a thread that is not there nothing happens.
                #[expect(unsafe_code, reason = "nothing else ends a loop in the code of the user")]
                let _ = unsafe { ffi::PyThreadState_SetAsyncExc(*thread as _, exception.as_ptr()) };
            }
        });
    }
}

/// Takes a thread off the list.
struct Entered<'a>(&'a Interrupt, c_ulong);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.change(|threads| threads.retain(|thread| *thread != self.1));
    }
}

/// Calls `work` on another thread, without the GIL, and returns its result.
///
/// Meanwhile this thread runs Python's signal handlers, and calls `on_progress` with what the work sends. If one of them raises an
/// exception, such as `KeyboardInterrupt`, the work is to end: its first argument says so. The exception is then the result.
pub(crate) fn detached<P: Send, R: Send>(
    py: Python<'_>,
    mut on_progress: impl FnMut(Python<'_>, P) -> PyResult<()> + Send,
    work: impl FnOnce(&Interrupt, Sender<P>) -> R + Send,
) -> PyResult<R> {
    let interrupt = Interrupt::default();
    py.detach(|| {
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let work = || on_python_thread(&interrupt, || work(&interrupt, sender));
            let worker = thread::Builder::new().spawn_scoped(scope, work)?;
            let mut raised = None;
            let mut waits = 0;
            loop {
                let news = match receiver.recv_timeout(POLL) {
                    Ok(news) => Some(news),
                    Err(RecvTimeoutError::Timeout) => None,
                    // The work has ended.
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if raised.is_some() {
                    waits += u32::from(news.is_none());
                    if news.is_none() && waits % PATIENCE == 0 {
                        Python::attach(|py| interrupt.raise(py));
                    }
                    continue;
                }
                let handled = Python::attach(|py| {
                    py.check_signals()?;
                    news.map_or(Ok(()), |news| on_progress(py, news))
                });
                if let Err(error) = handled {
                    raised = Some(error);
                    interrupt.stop.store(true, Ordering::Relaxed);
                }
            }
            let result = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            raised.map_or(Ok(result), Err)
        })
    })
}

/// Calls `work` without the GIL on a thread that Python knows meanwhile, and that `interrupt` reaches. On any other thread, each call into
/// Python makes a thread state and removes it again, which takes longer than the call.
pub(crate) fn on_python_thread<R: Send>(interrupt: &Interrupt, work: impl FnOnce() -> R + Send) -> R {
    Python::attach(|py| {
        // SAFETY: it has no conditions.
        #[expect(unsafe_code, reason = "Python numbers its threads itself")]
        let thread = unsafe { ffi::PyThread_get_thread_ident() };
        interrupt.change(|threads| threads.push(thread));
        let _entered = Entered(interrupt, thread);
        py.detach(work)
    })
}

/// What calls a function of the user with the number of finished runs and of all.
pub(crate) fn reporter(
    progress: Option<Py<PyAny>>,
    mut done: usize,
    total: usize,
) -> impl FnMut(Python<'_>, ()) -> PyResult<()> + Send {
    move |py, ()| {
        done += 1;
        progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (done, total)).map(drop))
    }
}
