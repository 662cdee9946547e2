//! x
use giusto::{scenario::Document, simulation};
use giusto_core::units::Timestamp;
use giusto_sim::{
    packet::FlowId,
    trace::{Event, Note, Observer},
};
struct Show(u64, u64, u64, u64, u64);
impl Observer for Show {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Dequeued { sojourn, packet, .. } if packet.flow == FlowId(0) => {
                self.0 = self.0.max(sojourn.as_nanos() as u64)
            }
            Event::Delivered { packet } if packet.flow == FlowId(0) => self.1 += u64::from(packet.bytes),
            Event::Sent { packet } if packet.flow == FlowId(0) => self.3 += u64::from(packet.bytes),
            Event::Dropped { packet, .. } if packet.flow == FlowId(0) => self.4 += 1,
            _ => {}
        }
        if now.as_nanos() / 500_000_000 != self.2 {
            self.2 = now.as_nanos() / 500_000_000;
            eprintln!(
                "      {:.1} sent {:.2} received {:.2} Mbit/s, queue max {:.0} ms, drops {}",
                now.as_seconds(),
                self.3 as f64 * 16e-6,
                self.1 as f64 * 16e-6,
                self.0 as f64 * 1e-6,
                self.4
            );
            self.0 = 0;
            self.1 = 0;
            self.3 = 0;
            self.4 = 0;
        }
    }
    fn on_note(&mut self, _now: Timestamp, note: &Note) {
        if let Note::Decided { flow: FlowId(0), decision } = note {
            eprintln!(
                "{:.3} {} -> {} {:?}",
                decision.at.as_seconds(),
                decision.from.as_bps() / 1000,
                decision.to.as_bps() / 1000,
                decision.cause
            );
        }
    }
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let sets: Vec<_> = args[2..].iter().map(|s| s.parse().unwrap()).collect();
    let scenario = Document::load(&args[1]).unwrap().scenario(&sets).unwrap();
    let result = simulation::run(&scenario, scenario.seed(), &mut Show(0, 0, 0, 0, 0));
    eprintln!("{:?}", result.flows[0]);
}
