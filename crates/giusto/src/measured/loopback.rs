//! Both ends on this machine, for `giusto cbr`, `demo` and `reproduce`.

use std::{sync::atomic::AtomicBool, thread};

use giusto_net::{Granted, driver::Verdict};
use giusto_session::probe::{Receiver, ReceiverEvent, Stream};
use giusto_units::Timestamp;

use crate::measured::{
    RunError,
    live::Live,
    plan::ResolvedPlan,
    recv::{Reception, ReceptionConfig},
    result::{RunPlots, RunResult},
    send::{self, Destination, RaisedOnDrop, Transmission},
};

/// A run, as both ends know it.
#[derive(Debug)]
pub struct LoopbackRun {
    transmission: Transmission,
    received: Option<Box<Stream>>,
}

impl LoopbackRun {
    /// The result of the run; `None` where nothing was sent.
    pub fn result(&self, plan: &ResolvedPlan) -> Option<RunResult> {
        self.transmission.results(plan).into_iter().next()
    }

    /// The error that ended the run early, if one did: then the result covers a part of the run.
    pub fn failure(&self) -> Option<String> {
        self.transmission.failure()
    }

    /// Series and histograms for plots.
    pub fn plots(&self) -> RunPlots {
        match (self.transmission.streams.first(), &self.received) {
            (Some(sent), Some(received)) => RunPlots::new(received.meter(), &sent.sent.schedule_error),
            _ => RunPlots::default(),
        }
    }
}

/// Sends as planned to a receiver in another thread, over 127.0.0.1.
///
/// # Errors
///
/// [`RunError`] where an end could not begin, or the receiving end failed.
pub fn run(
    plan: &ResolvedPlan,
    stop: &AtomicBool,
    on_live: impl FnMut(&Live),
) -> Result<LoopbackRun, RunError> {
    run_watched(plan, stop, on_live, |_, _, _| ())
}

/// Like [`run`]; `on_received` is called by the receiving thread with its time, with every event, and now and then without one.
///
/// # Errors
///
/// As [`run`].
pub fn run_watched(
    plan: &ResolvedPlan,
    stop: &AtomicBool,
    on_live: impl FnMut(&Live),
    mut on_received: impl FnMut(Timestamp, &Receiver, Option<&ReceiverEvent>) + Send,
) -> Result<LoopbackRun, RunError> {
    let mut reception = Reception::open(&ReceptionConfig::default())?;
    let clock = reception.clock;
    let destination = Destination::new(reception.socket.local_addr());
    let granted = reception.socket.granted();
    let sent = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiving = thread::Builder::new().spawn_scoped(scope, || {
            let mut received = None;
            let outcome = reception.run(&sent, |receiver, event| {
                on_received(clock.now(), receiver, event.as_ref());
                if let Some(ReceiverEvent::Closed(_, stream)) = event {
                    received.get_or_insert(stream);
                    return Verdict::Stop;
                }
                Verdict::Continue
            });
            outcome.map(|()| received)
        });
        let receiving = receiving.map_err(|_| RunError::Thread("receiving"))?;
        let transmission = {
            let _ends_the_receiver = RaisedOnDrop(&sent);
            send::run(plan, &destination, stop, on_live)
        };
        let received = receiving.join().map_err(|_| RunError::Thread("receiving"))??;
        let mut transmission = transmission?;
        transmission.granted = Granted {
            receive_buffer_bytes: granted.receive_buffer_bytes,
            receive_timestamps: granted.receive_timestamps,
            receive_offload: granted.receive_offload,
            ..transmission.granted
        };
        Ok(LoopbackRun { transmission, received })
    })
}
