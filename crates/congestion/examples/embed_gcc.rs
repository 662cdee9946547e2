//! Google Congestion Control beside an RTP stack. Input: sent packets and RTCP. Output: rates and probes.

use giusto_congestion::{Algorithm, History, Limits, OutgoingPacket, QueueState, Target};
use giusto_units::{DataSize, Timestamp};

/// Transport-wide feedback: packets 10 to 19 arrived about 25 ms after they left; packet 14 was lost.
const RTCP: [u8; 32] = [
    0x8f, 205, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 10, 0, 10, 0, 0, 1, 0, 0xbd, 0xf0, 100, 20, 20, 20, 40, 20,
    20, 20, 20, 0,
];

/// Runs the controller for a tenth of a second and returns its target.
pub(crate) fn run() -> Result<Target, Box<dyn std::error::Error>> {
    let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
    let mut controller = "gcc:libwebrtc".parse::<Algorithm>()?.build(Limits::default());
    let mut history = History::new();

    controller.on_timeout(at(0), &QueueState::default());
    while let Some(probe) = controller.next_probe() {
        println!("probe at {} with {} packets or more", probe.rate, probe.packets);
    }
    for number in 0..20 {
        let (now, size) = (at(5 * number), DataSize::from_bytes(1200));
        let packet = OutgoingPacket::new(size).with_transport_sequence(Some(number as u16));
        controller.on_sent(now, &history.on_sent(now, packet));
    }
    if let Some(feedback) = history.on_rtcp(at(130), &RTCP)? {
        println!("{} packets reported, {} in flight", feedback.packets.len(), feedback.in_flight);
        controller.on_feedback(at(130), &feedback);
    }
    Ok(controller.target())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = run()?;
    println!("media {}, pacing {}", target.media, target.pacing);
    Ok(())
}
