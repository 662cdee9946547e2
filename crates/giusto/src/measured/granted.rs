//! The resources that the system granted, as a result shows them.

use giusto_net::{Asked, Granted};

use super::result::SystemGranted;

impl From<&Granted> for SystemGranted {
    fn from(granted: &Granted) -> Self {
        let asked = |buffer: &Option<Asked<u64>>| buffer.as_ref().map(|buffer| buffer.asked);
        let got = |buffer: &Option<Asked<u64>>| buffer.as_ref().map(|buffer| buffer.granted);
        Self {
            platform: Some(format!("Linux {}", granted.kernel_release)),
            processors: u32::try_from(granted.cores).ok(),
            timer_slack_ns: granted.timer_slack_ns,
            realtime_priority: Some(
                granted.realtime_priority.as_ref().map_or(0, |asked| asked.granted.into()),
            ),
            send_buffer_asked_bytes: asked(&granted.send_buffer_bytes),
            send_buffer_bytes: got(&granted.send_buffer_bytes),
            receive_buffer_asked_bytes: asked(&granted.receive_buffer_bytes),
            receive_buffer_bytes: got(&granted.receive_buffer_bytes),
            receive_timestamps: Some(granted.receive_timestamps.to_string()),
            segmentation_offload: Some(granted.segmentation_offload),
            receive_offload: Some(granted.receive_offload),
            time_slice_ns: granted.time_slice_ns,
            clock_synchronised: granted.clock_synchronised,
            ..Self::default()
        }
    }
}
