//! The one place where the GIL is released and Ctrl-C is honoured.

use std::{
    panic::resume_unwind,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};

use pyo3::prelude::*;

/// How often Python's signal handlers run while nothing else happens.
const POLL: Duration = Duration::from_millis(50);

/// Calls `work` on another thread, without the GIL, and returns its result.
///
/// Meanwhile this thread runs Python's signal handlers, and calls `on_progress` with what the work sends. If one of them raises an
/// exception, such as `KeyboardInterrupt`, the work is to end: its first argument is set. The exception is then the result.
pub(crate) fn detached<P: Send, R: Send>(
    py: Python<'_>,
    mut on_progress: impl FnMut(Python<'_>, P) -> PyResult<()> + Send,
    work: impl FnOnce(&AtomicBool, Sender<P>) -> R + Send,
) -> PyResult<R> {
    let stop = AtomicBool::new(false);
    py.detach(|| {
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let worker =
                thread::Builder::new().spawn_scoped(scope, || on_python_thread(|| work(&stop, sender)))?;
            let mut raised = None;
            loop {
                let news = match receiver.recv_timeout(POLL) {
                    Ok(news) => Some(news),
                    Err(RecvTimeoutError::Timeout) => None,
                    // The work has ended.
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if raised.is_some() {
                    continue;
                }
                let handled = Python::attach(|py| {
                    py.check_signals()?;
                    news.map_or(Ok(()), |news| on_progress(py, news))
                });
                if let Err(error) = handled {
                    raised = Some(error);
                    stop.store(true, Ordering::Relaxed);
                }
            }
            let result = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            raised.map_or(Ok(result), Err)
        })
    })
}

/// Calls `work` without the GIL on a thread that Python knows meanwhile. On any other thread, each call into Python makes a thread state
/// and removes it again, which takes longer than the call.
pub(crate) fn on_python_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    Python::attach(|py| py.detach(work))
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
