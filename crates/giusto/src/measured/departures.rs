//! What times the departures of streams: the program, or the kernel.

use std::net::IpAddr;

use giusto_net::{Launch, UdpSocket};

use crate::measured::plan::ResolvedPlan;

/// What times the departures.
#[derive(Debug, Default)]
pub(super) struct Departures {
    /// How the kernel does.
    pub(super) launch: Option<Launch>,
    /// As a result says it; `None` where nobody asked.
    pub(super) said: Option<String>,
}

impl Departures {
    /// Asks the kernel, if the plan says so. It times those of all streams or of none.
    pub(super) fn new(plan: &ResolvedPlan, to: IpAddr, sockets: &[UdpSocket]) -> Self {
        if !plan.plan().pacing.by_kernel {
            return Self::default();
        }
        let asked = sockets.iter().map(|socket| socket.launch_by_kernel(to));
        match asked.collect::<Result<Vec<Launch>, _>>() {
            Ok(launches) => {
                let launch = launches.first().copied();
                Self { launch, said: launch.map(|launch| format!("kernel ({launch})")) }
            }
            Err(why) => Self { launch: None, said: Some(format!("program: {why}")) },
        }
    }
}
