//! The two flows of a call in its record, one in each direction.

use giusto_sim::{
    link::Link,
    packet::{FlowId, LinkId},
    record::{PlannedFlow, RecordedRun},
};
use giusto_units::Timestamp;

use super::side::{Received, SideConfig};
use crate::{
    record::FlowRecord,
    run::media,
    scenario::{MediaSpec, feedback_name},
};

/// The flows of a call in its record: media and feedback of each direction.
pub(super) const FORWARD: [FlowId; 2] = [FlowId(0), FlowId(1)];
pub(super) const REVERSE: [FlowId; 2] = [FlowId(2), FlowId(3)];

/// The ids of the two flows in a record.
pub(crate) const FORWARD_ID: &str = "call";
pub(crate) const REVERSE_ID: &str = "call:reverse";

/// A run without links of its own.
pub(super) struct Alone {
    pub(super) seed: u64,
}

impl RecordedRun for Alone {
    fn seed(&self) -> u64 {
        self.seed
    }

    fn events(&self) -> u64 {
        0
    }

    fn link(&self, _: LinkId) -> Option<&Link> {
        None
    }
}

/// The flows of the record: that of the caller's media first.
pub(super) fn planned(
    config: &SideConfig,
    window: std::ops::Range<Timestamp>,
    [outgoing, incoming]: [[FlowId; 2]; 2],
) -> Vec<PlannedFlow> {
    let own = config.sends.as_ref().map(|spec| (outgoing, (spec, spec.controller.name()), config.sources.0));
    let far = config.receives.as_ref();
    let far = far
        .map(|Received { spec, controller, .. }| (incoming, (spec, controller.as_str()), config.sources.1));
    let mut flows: Vec<_> = own.into_iter().chain(far).collect();
    crate::order::sort_by_key(&mut flows, |(flow, ..)| *flow);
    let flows = flows.into_iter().map(|([flow, answers], media, first)| PlannedFlow {
        flow,
        answers: Some(answers),
        window: window.clone(),
        about: about(media.0, media.1, flow == FORWARD[0], first),
    });
    flows.collect()
}

fn about(spec: &MediaSpec, controller: &str, is_forward: bool, first: u32) -> FlowRecord {
    let id = if is_forward { FORWARD_ID } else { REVERSE_ID };
    let (from, to) = if is_forward { ("caller", "listener") } else { ("listener", "caller") };
    FlowRecord {
        id: id.to_owned(),
        group: id.to_owned(),
        kind: "media".to_owned(),
        controller: Some(controller.to_owned()),
        feedback: Some(feedback_name(spec.reported()).to_owned()),
        from: from.to_owned(),
        to: to.to_owned(),
        streams: media::stream_records(spec, first),
        ..FlowRecord::default()
    }
}
