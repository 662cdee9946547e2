//! The two flows of a call in its record, one in each direction.

use giusto_sim::{
    link::Link,
    packet::{FlowId, LinkId},
    record::RecordedRun,
};

use crate::{record::FlowRecord, run::media, scenario::MediaSpec};

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

/// What the record says of a flow at first; `first`: its first synchronisation source.
pub(super) fn about(spec: &MediaSpec, controller: &str, is_forward: bool, first: u32) -> FlowRecord {
    let id = if is_forward { FORWARD_ID } else { REVERSE_ID };
    let (from, to) = if is_forward { ("caller", "listener") } else { ("listener", "caller") };
    FlowRecord {
        id: id.to_owned(),
        group: id.to_owned(),
        kind: "media".to_owned(),
        controller: Some(controller.to_owned()),
        feedback: Some(spec.reported().name().to_owned()),
        from: from.to_owned(),
        to: to.to_owned(),
        streams: media::stream_records(spec, first),
        ..FlowRecord::default()
    }
}
