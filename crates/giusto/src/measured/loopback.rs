//! Both ends on this machine: what `giusto cbr`, `demo` and `reproduce` run.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::atomic::AtomicBool,
    thread,
};

use giusto_net::{Granted, TrafficClass, driver::Verdict};
use giusto_session::probe::{ReceiverEvent, Stream};

use crate::measured::{
    figures,
    plan::ResolvedPlan,
    recv::{Reception, ReceptionConfig, ReceptionError},
    result::{RunPlots, RunResult},
    send::{self, Destination, Live, RaisedOnDrop, StreamOutcome, Transmission, TransmissionError},
};

/// Why a run on loopback failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopbackError {
    /// At the receiving end.
    #[error(transparent)]
    Reception(#[from] ReceptionError),
    /// At the sending end.
    #[error(transparent)]
    Transmission(#[from] TransmissionError),
    /// The receiving thread broke off: a defect.
    #[error("the receiving thread broke off; please report this")]
    Thread,
}

/// What both ends measured.
#[derive(Debug)]
pub struct LoopbackRun {
    /// At the sending end.
    pub transmission: Transmission,
    /// At the receiving end, as streams ended.
    pub received: Vec<Box<Stream>>,
    /// What the system granted to the receiving end.
    pub receiver_granted: Granted,
}

impl LoopbackRun {
    /// The figures of the run, as both ends know them; nothing where nothing was sent.
    pub fn result(&self, plan: &ResolvedPlan) -> Option<RunResult> {
        let stream = self.transmission.streams.first()?;
        let mut result = figures::sent_stream(plan, &self.transmission, stream);
        result.system = Some(figures::both(&self.transmission, &self.receiver_granted));
        Some(result)
    }

    /// What went wrong, in words, if anything did: then the figures are of a part of the run.
    pub fn trouble(&self) -> Option<String> {
        self.transmission.streams.iter().find_map(StreamOutcome::trouble)
    }

    /// What plots of the run need.
    pub fn plots(&self) -> RunPlots {
        match (self.transmission.streams.first(), self.received.first()) {
            (Some(sent), Some(received)) => figures::plots(received.meter(), &sent.sent),
            _ => RunPlots::default(),
        }
    }
}

/// Sends as `plan` says to a receiver in another thread, over 127.0.0.1.
///
/// # Errors
///
/// [`LoopbackError`] where an end could not begin, or the receiving end broke off.
pub fn run(
    plan: &ResolvedPlan,
    stop: &AtomicBool,
    on_live: impl FnMut(&Live),
) -> Result<LoopbackRun, LoopbackError> {
    let mut reception = Reception::open(&ReceptionConfig::at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))?;
    let destination = Destination {
        to: reception.address(),
        streams: 1,
        one_way: false,
        traffic_class: TrafficClass::default(),
    };
    let receiver_granted = reception.granted().clone();
    let sent = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut streams = Vec::new();
            let outcome = reception.run(&sent, |_, event| {
                if let Some(ReceiverEvent::Closed(_, stream)) = event {
                    streams.push(stream);
                    return Verdict::Stop;
                }
                Verdict::GoOn
            });
            outcome.map(|()| streams)
        });
        let transmission = {
            let _ends_the_receiver = RaisedOnDrop(&sent);
            send::run(plan, &destination, stop, on_live)
        };
        let received = receiving.join().map_err(|_| LoopbackError::Thread)??;
        Ok(LoopbackRun { transmission: transmission?, received, receiver_granted })
    })
}
