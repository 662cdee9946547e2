//! What else sees the controllers of a run or a call, and the datagrams of a simulated run.

use giusto_congestion::Controller;
use giusto_sim::traffic::Agent;

use crate::scenario::MediaSpec;

/// A media flow of a run or a call.
#[derive(Debug, Clone, Copy)]
pub struct MediaFlow<'a> {
    /// Its own name: numbered if there are several instances; `call` or `call:reverse` in a call.
    pub name: &'a str,
    /// As the scenario or the plan of the call describes it.
    pub spec: &'a MediaSpec,
}

/// One end of a media flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// It sends media.
    Sender,
    /// It sends feedback.
    Receiver,
}

/// Wraps the controllers and the ends of media flows before a run. The default changes nothing.
pub trait Taps {
    /// The controller that the sender of `flow` uses.
    fn controller(&mut self, flow: MediaFlow<'_>, controller: Box<dyn Controller>) -> Box<dyn Controller> {
        let _ = flow;
        controller
    }

    /// The agent that is one end of `flow`; not in calls, whose datagrams a [`CallCapture`](crate::capture::CallCapture) sees.
    fn agent(&mut self, flow: MediaFlow<'_>, end: End, agent: Box<dyn Agent>) -> Box<dyn Agent> {
        let _ = (flow, end);
        agent
    }
}

impl Taps for () {}
