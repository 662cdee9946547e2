//! The element between two pads of a test.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::{
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use gst::{glib, prelude::*};
use gstgiusto::GiustoBwe;

/// What comes out.
#[derive(Debug)]
enum Out {
    /// When, on the clock of `rtpsession`, and its size.
    Buffer(gst::ClockTime, usize),
    Event(gst::EventType),
}

/// An element with a pad before it and one behind it, which sends what comes to a channel.
struct Bench {
    element: gst::Element,
    before: gst::Pad,
    behind: gst::Pad,
    out: Receiver<Out>,
}

impl Bench {
    fn new(controller: &str, bitrate: u32) -> Self {
        gst::init().unwrap();
        let element: gst::Element = glib::Object::new::<GiustoBwe>().upcast();
        element.set_property("controller", controller);
        element.set_property("estimated-bitrate", bitrate);
        let (sender, out) = channel();
        let events = sender.clone();
        let clock = gst::SystemClock::obtain();
        let before = gst::Pad::builder(gst::PadDirection::Src).build();
        let behind = gst::Pad::builder(gst::PadDirection::Sink)
            .chain_function(move |_, _, buffer| {
                sender
                    .send(Out::Buffer(clock.time(), buffer.size()))
                    .map(|()| gst::FlowSuccess::Ok)
                    .map_err(|_| gst::FlowError::Eos)
            })
            .event_function(move |_, _, event| events.send(Out::Event(event.type_())).is_ok())
            .build();
        before.link(&element.static_pad("sink").unwrap()).unwrap();
        element.static_pad("src").unwrap().link(&behind).unwrap();
        behind.set_active(true).unwrap();
        Self { element, before, behind, out }
    }

    fn play(self) -> Self {
        self.element.set_state(gst::State::Playing).unwrap();
        self.before.set_active(true).unwrap();
        assert!(self.before.push_event(gst::event::StreamStart::new("test")));
        let caps = gst::Caps::builder("application/x-rtp").field("media", "video").build();
        assert!(self.before.push_event(gst::event::Caps::new(&caps)));
        let segment = gst::FormattedSegment::<gst::ClockTime>::new();
        assert!(self.before.push_event(gst::event::Segment::new(&segment)));
        self
    }

    fn push(&self, count: usize) {
        for _ in 0..count {
            self.before.push(gst::Buffer::with_size(1250).unwrap()).unwrap();
        }
    }

    fn next(&self) -> Out {
        self.out.recv_timeout(Duration::from_secs(10)).expect("something comes out")
    }

    /// Skips events, then returns when this many buffers came out.
    fn buffers(&self, count: usize) -> Vec<gst::ClockTime> {
        let mut times = Vec::new();
        while times.len() < count {
            if let Out::Buffer(at, size) = self.next() {
                assert_eq!(size, 1250);
                times.push(at);
            }
        }
        times
    }

    fn stats(&self) -> gst::Structure {
        self.element.property("stats")
    }

    /// Sends the event of `rtpsession` with these packets: number, departure, arrival.
    fn report(&self, packets: &[(u32, gst::ClockTime, Option<gst::ClockTime>)]) {
        let packets: Vec<_> = packets
            .iter()
            .map(|(number, left, arrived)| {
                let (left, lost) = (left.nseconds(), arrived.is_none());
                let arrived = arrived.map_or(u64::MAX, gst::ClockTime::nseconds);
                format!(
                    "(structure)[RTPTWCCPacket, seqnum=(uint){number}, local-ts=(guint64){left}, \
                     remote-ts=(guint64){arrived}, size=(uint)1230, lost=(boolean){lost}]"
                )
            })
            .collect();
        self.event(&format!("RTPTWCCPackets, packets=<{}>", packets.join(",")));
    }

    fn event(&self, structure: &str) {
        let structure = structure.parse().expect("a structure");
        self.behind.push_event(gst::event::CustomUpstream::new(structure));
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = self.element.set_state(gst::State::Null);
    }
}

#[test]
fn packets_leave_at_the_pacing_rate_and_events_keep_their_place() {
    // 800 kbit/s of media are paced at 2 Mbit/s: 5 ms for each packet of 1250 B, after a burst of 40 ms.
    let bench = Bench::new("fixed", 800_000).play();
    bench.push(60);
    assert!(bench.before.push_event(gst::event::Eos::new()));
    for expected in [gst::EventType::StreamStart, gst::EventType::Caps, gst::EventType::Segment] {
        assert!(matches!(bench.next(), Out::Event(kind) if kind == expected));
    }
    let times = bench.buffers(60);
    let took = (*times.last().unwrap() - times[0]).seconds_f64();
    // A busy machine adds to it.
    assert!((0.24..0.6).contains(&took), "{took} s instead of (60 - 1 - 8) times 5 ms");
    assert!(matches!(bench.next(), Out::Event(gst::EventType::Eos)));
    assert_eq!(bench.stats().get::<u64>("packets-sent").unwrap(), 60);
}

#[test]
fn feedback_changes_estimate_and_statistics() {
    let bench = Bench::new("scream:v2", 1_000_000).play();
    let (told, tells) = channel();
    bench.element.connect_notify(Some("estimated-bitrate"), move |element, _| {
        let _ = told.send(element.property::<u32>("estimated-bitrate"));
    });
    for number in 0..40 {
        bench.push(1);
        let passed = bench.buffers(1)[0];
        // Half of the packets are lost.
        let arrived = (number % 2 == 0).then_some(gst::ClockTime::from_seconds(9) + passed);
        bench.report(&[(number, passed, arrived)]);
        thread::park_timeout(Duration::from_millis(20));
    }
    let stats = bench.stats();
    let get = |name| stats.get::<u64>(name).unwrap();
    assert_eq!(
        [get("packets-lost"), get("feedback-messages"), get("unmatched-reports")],
        [20, 40, 0],
        "{stats}"
    );
    let loss = stats.get::<f64>("loss").unwrap();
    assert!((0.4..=0.6).contains(&loss), "{stats}");
    assert!(stats.get::<String>("decision").unwrap().contains("Mbit/s"), "{stats}");
    let estimates: Vec<_> = tells.try_iter().collect();
    let last = *estimates.last().unwrap();
    assert_eq!(last, bench.element.property::<u32>("estimated-bitrate"));
    assert!(estimates.windows(2).all(|pair| pair[0] != pair[1]), "each is notified once: {estimates:?}");
}

#[test]
fn limits_apply_at_once_while_it_plays() {
    let bench = Bench::new("tempo", 1_000_000).play();
    assert_eq!(bench.element.property::<u32>("estimated-bitrate"), 1_000_000);
    bench.element.set_property("max-bitrate", 400_000_u32);
    assert_eq!(bench.element.property::<u32>("estimated-bitrate"), 400_000);
    bench.element.set_property("max-bitrate", 2_000_000_u32);
    bench.element.set_property("min-bitrate", 700_000_u32);
    assert_eq!(bench.element.property::<u32>("estimated-bitrate"), 700_000);
}

#[test]
fn an_unknown_controller_is_refused_with_the_names() {
    let bench = Bench::new("tempp", 1_000_000);
    let bus = gst::Bus::new();
    bench.element.set_bus(Some(&bus));
    assert!(bench.element.set_state(gst::State::Playing).is_err());
    let message = bus.pop_filtered(&[gst::MessageType::Error]).unwrap();
    let gst::MessageView::Error(error) = message.view() else { panic!("{message:?}") };
    let text = error.error().to_string();
    assert!(text.contains("unknown controller \"tempp\"") && text.contains("scream:v2"), "{text}");
    // Changed while stopped, it plays.
    bench.element.set_property("controller", "copa");
    let bench = bench.play();
    bench.push(1);
    bench.buffers(1);
}

#[test]
fn a_flush_empties_the_queue_and_it_plays_on() {
    let bench = Bench::new("fixed", 100_000).play();
    bench.push(100);
    bench.buffers(1);
    // A sticky event that waits behind the buffers holds after the flush.
    assert!(bench.before.push_event(gst::event::Tag::new(gst::TagList::new())));
    assert!(bench.before.push_event(gst::event::FlushStart::new()));
    assert!(bench.before.push(gst::Buffer::with_size(1250).unwrap()).is_err());
    assert!(bench.before.push_event(gst::event::FlushStop::new(true)));
    while bench.out.try_recv().is_ok() {}
    assert_eq!(bench.stats().get::<u64>("queue-size").unwrap(), 0);
    let segment = gst::FormattedSegment::<gst::ClockTime>::new();
    assert!(bench.before.push_event(gst::event::Segment::new(&segment)));
    bench.push(1);
    for expected in [gst::EventType::Segment, gst::EventType::Tag] {
        assert!(matches!(bench.next(), Out::Event(kind) if kind == expected));
    }
    assert!(matches!(bench.next(), Out::Buffer(_, 1250)));
    let sent = bench.stats().get::<u64>("packets-sent").unwrap();
    assert!((2..100).contains(&sent), "{sent}");
}

#[test]
fn events_of_another_form_change_nothing() {
    let bench = Bench::new("tempo", 1_000_000).play();
    bench.push(1);
    bench.buffers(1);
    bench.event("RTPTWCCPackets");
    bench.event("RTPTWCCPackets, packets=(int)7");
    bench.event("RTPTWCCPackets, packets=<>");
    bench.event("RTPTWCCPackets, packets=<(int)7, (structure)[RTPTWCCPacket]>");
    bench.report(&[(3, gst::ClockTime::from_seconds(0), None)]);
    bench.report(&[(u32::MAX, gst::ClockTime::MAX, Some(gst::ClockTime::MAX))]);
    bench.push(1);
    bench.buffers(1);
    let stats = bench.stats();
    assert_eq!(stats.get::<u64>("packets-sent").unwrap(), 2);
    assert_eq!(stats.get::<u64>("packets-lost").unwrap(), 0, "{stats}");
    assert_eq!(bench.element.property::<u32>("estimated-bitrate"), 1_000_000);
}

#[test]
fn it_stops_with_a_full_queue_and_starts_again() {
    let bench = Bench::new("fixed", 10_000).play();
    bench.push(100);
    bench.element.set_state(gst::State::Null).unwrap();
    assert!(bench.stats().get::<u64>("packets-sent").is_err(), "statistics end with the session");
    let bench = bench.play();
    bench.push(1);
    bench.buffers(1);
}
