//! Pads, properties, events and the thread that sends.

use std::{
    collections::VecDeque,
    sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
};

use giusto_congestion::{Algorithm, QueueState};
use giusto_pace::media::Permit;
use giusto_units::{DataSize, PeerTimestamp, TimeDelta, Timestamp};
use gst::{glib, prelude::*, subclass::prelude::*};

use super::settings::{self, Settings};
use crate::{
    engine::{self, Engine},
    sent::Report,
};

static LOG: LazyLock<gst::DebugCategory> = LazyLock::new(|| {
    let flags = gst::DebugColorFlags::empty();
    gst::DebugCategory::new("giustobwe", flags, Some("Congestion control and pacing by giusto"))
});

/// What waits to leave, in order.
enum Item {
    Buffer(gst::Buffer, Timestamp),
    Event(gst::Event),
}

struct State {
    settings: Settings,
    /// From READY to PAUSED on.
    engine: Option<Engine>,
    queue: VecDeque<Item>,
    queued: DataSize,
    /// What a buffer that comes now is answered with.
    flow: Result<gst::FlowSuccess, gst::FlowError>,
    /// As last notified to the application.
    estimate: u32,
}

impl State {
    fn queue_state(&self, now: Timestamp) -> QueueState {
        let oldest = self.queue.iter().find_map(|item| match item {
            Item::Buffer(_, since) => Some(now.saturating_since(*since)),
            Item::Event(_) => None,
        });
        QueueState::new(self.queued, oldest.unwrap_or(TimeDelta::ZERO))
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.queued = DataSize::ZERO;
    }

    /// Whether the application must be notified of a new estimate.
    fn has_new_estimate(&mut self) -> bool {
        let estimate = self.engine.as_ref().map_or(self.estimate, Engine::estimate);
        std::mem::replace(&mut self.estimate, estimate) != estimate
    }
}

/// What the thread does next.
enum Next {
    Send(gst::Buffer),
    Forward(gst::Event),
    /// The estimate has changed.
    Tell,
    Stop,
}

pub struct GiustoBwe {
    sink: gst::Pad,
    src: gst::Pad,
    clock: gst::Clock,
    state: Mutex<State>,
    /// The queue, the pacer or the state has changed.
    changed: Condvar,
}

impl GiustoBwe {
    /// The time of the clock with which `rtpsession` stamps its reports.
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.clock.time().nseconds())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.obj().notify("estimated-bitrate");
    }

    fn enqueue(
        &self,
        buffers: impl Iterator<Item = gst::Buffer>,
    ) -> Result<gst::FlowSuccess, gst::FlowError> {
        let mut state = self.lock();
        if state.flow.is_ok() {
            let now = self.now();
            for buffer in buffers {
                state.queued += DataSize::from_bytes(buffer.size() as u64);
                state.queue.push_back(Item::Buffer(buffer, now));
            }
            self.changed.notify_all();
        }
        state.flow
    }

    /// Waits until there is something to do.
    fn next(&self) -> Next {
        let mut state = self.lock();
        loop {
            if state.flow.is_err() {
                return Next::Stop;
            }
            let now = self.now();
            let queue = state.queue_state(now);
            let Some(engine) = state.engine.as_mut() else { return Next::Stop };
            if engine.next_timeout().is_some_and(|due| due <= now) {
                engine.on_timeout(now, &queue);
                if state.has_new_estimate() {
                    return Next::Tell;
                }
                // A controller whose deadline does not move would be called for ever: the rest is done first.
            }
            let wake = match state.queue.pop_front() {
                Some(Item::Event(event)) => return Next::Forward(event),
                Some(Item::Buffer(buffer, since)) => {
                    let size = DataSize::from_bytes(buffer.size() as u64);
                    let permit =
                        state.engine.as_ref().map_or(Permit::Now, |engine| engine.permit(now, size, since));
                    if permit == Permit::Now {
                        state.queued = state.queued.saturating_sub(size);
                        if let Some(engine) = &mut state.engine {
                            engine.on_leaving(now, size);
                        }
                        return Next::Send(buffer);
                    }
                    state.queue.push_front(Item::Buffer(buffer, since));
                    if let Permit::At(at) = permit { Some(at) } else { None }
                }
                None => None,
            };
            let timeout = state.engine.as_ref().and_then(Engine::next_timeout);
            let wake = Timestamp::earliest([wake, timeout]);
            state = if let Some(wake) = wake {
                let wait = wake.saturating_since(now).max(TimeDelta::from_micros(50)).to_std();
                self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
            } else {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            };
        }
    }

    /// One step of the thread of the source pad.
    fn step(&self) {
        match self.next() {
            Next::Send(buffer) => {
                let flow = self.src.push(buffer);
                let now = self.now();
                let mut state = self.lock();
                if let Some(engine) = &mut state.engine {
                    engine.on_handled(now);
                }
                let tell = state.has_new_estimate();
                if let Err(error) = flow
                    && state.flow.is_ok()
                {
                    gst::debug!(LOG, imp = self, "downstream answers {error:?}: sending stops");
                    state.flow = Err(error);
                    state.clear();
                }
                drop(state);
                if tell {
                    self.tell();
                }
            }
            Next::Forward(event) => {
                self.src.push_event(event);
            }
            Next::Tell => self.tell(),
            Next::Stop => {
                let _ = self.src.pause_task();
            }
        }
    }

    fn start(&self) -> Result<(), gst::LoggableError> {
        self.lock().flow = Ok(gst::FlowSuccess::Ok);
        let weak = self.obj().downgrade();
        self.src
            .start_task(move || {
                if let Some(element) = weak.upgrade() {
                    element.imp().step();
                }
            })
            .map_err(|error| gst::loggable_error!(LOG, "the thread does not start: {error}"))
    }

    /// Makes the thread and the elements before us stop.
    fn flush(&self) {
        let mut state = self.lock();
        state.flow = Err(gst::FlowError::Flushing);
        self.changed.notify_all();
    }

    /// Discards what waits. Caps and others that outlast a flush come before the next buffer.
    fn discard(&self) {
        let mut state = self.lock();
        let waiting = std::mem::take(&mut state.queue);
        state.clear();
        drop(state);
        for item in waiting {
            if let Item::Event(event) = item
                && event.is_sticky()
                && !matches!(event.type_(), gst::EventType::Segment | gst::EventType::Eos)
            {
                let _ = self.src.store_sticky_event(&event);
            }
        }
    }

    fn activate(&self, mode: gst::PadMode, active: bool) -> Result<(), gst::LoggableError> {
        if mode != gst::PadMode::Push {
            return Err(gst::loggable_error!(LOG, "pad mode {mode:?} is not supported: use push"));
        }
        if active {
            return self.start();
        }
        self.flush();
        let stopped = self.src.stop_task();
        self.lock().clear();
        stopped.map_err(|error| gst::loggable_error!(LOG, "the thread does not stop: {error}"))
    }

    fn sink_event(&self, event: gst::Event) -> bool {
        match event.view() {
            gst::EventView::FlushStart(_) => {
                self.flush();
                let forwarded = self.src.push_event(event);
                let _ = self.src.pause_task();
                forwarded
            }
            gst::EventView::FlushStop(_) => {
                let forwarded = self.src.push_event(event);
                self.discard();
                self.start().is_ok() && forwarded
            }
            _ if event.is_serialized() => {
                let mut state = self.lock();
                if state.flow.is_ok() {
                    state.queue.push_back(Item::Event(event));
                    self.changed.notify_all();
                }
                state.flow.is_ok()
            }
            _ => self.src.push_event(event),
        }
    }

    /// The reports of `rtpsession` come as an event against the stream.
    fn src_event(&self, event: &gst::Event) {
        let Some(structure) = event.structure().filter(|own| own.name() == "RTPTWCCPackets") else { return };
        let Some(reports) = reports(structure) else {
            gst::warning!(LOG, imp = self, "RTPTWCCPackets without packets: {structure:?}");
            return;
        };
        let now = self.now();
        let mut state = self.lock();
        let Some(engine) = state.engine.as_mut() else { return };
        engine.on_feedback(now, &reports);
        let tell = state.has_new_estimate();
        self.changed.notify_all();
        drop(state);
        if tell {
            self.tell();
        }
    }

    fn stats(&self) -> gst::Structure {
        let now = self.now();
        let mut state = self.lock();
        let stats = gst::Structure::builder("application/x-giustobwe-stats")
            .field("controller", &state.settings.controller);
        let queue = state.queue_state(now);
        let Some(engine) = state.engine.as_mut() else { return stats.build() };
        let figures = engine.figures(now);
        stats
            .field("target-bitrate", figures.target.media.as_bps())
            .field("pacing-bitrate", figures.target.pacing.as_bps())
            .field("received-bitrate", figures.received.as_bps())
            .field_if_some("window", figures.target.window.map(DataSize::as_bytes))
            .field("in-flight", figures.in_flight.as_bytes())
            .field("queue-size", queue.size.as_bytes())
            .field("queue-time", queue.oldest.as_nanos() as u64)
            .field_if_some("rtt", figures.rtt.map(|rtt| rtt.as_nanos() as u64))
            .field("loss", figures.loss)
            .field("packets-sent", figures.sent_packets)
            .field("packets-lost", figures.lost_packets)
            .field("feedback-messages", figures.feedback_messages)
            .field("unmatched-reports", figures.unmatched_reports)
            .field("decision", figures.decision)
            .build()
    }

    /// The controller that is set, or a message on the bus.
    fn algorithm(&self, name: &str) -> Result<Algorithm, gst::StateChangeError> {
        engine::algorithm(name).map_err(|error| {
            gst::element_imp_error!(self, gst::LibraryError::Settings, ("{error}"));
            gst::StateChangeError
        })
    }
}

/// The reports in an event of `rtpsession`, whose array is one of `GLib`. One of `GStreamer` will do.
fn reports(structure: &gst::StructureRef) -> Option<Vec<Report>> {
    if let Ok(packets) = structure.get::<glib::ValueArray>("packets") {
        return Some(packets.iter().filter_map(report).collect());
    }
    let packets = structure.get::<gst::Array>("packets").ok()?;
    Some(packets.iter().filter_map(|value| report(value)).collect())
}

/// A report of one packet.
fn report(value: &glib::Value) -> Option<Report> {
    let structure = value.get::<gst::Structure>().ok()?;
    let time =
        |name| structure.get::<Option<gst::ClockTime>>(name).ok().flatten().map(gst::ClockTime::nseconds);
    let lost = structure.get::<bool>("lost").ok()?;
    Some(Report {
        number: structure.get::<u32>("seqnum").ok()? as u16,
        passed: time("local-ts").map(Timestamp::from_nanos),
        arrived: time("remote-ts").filter(|_| !lost).map(PeerTimestamp::from_nanos),
    })
}

#[glib::object_subclass]
impl ObjectSubclass for GiustoBwe {
    const NAME: &'static str = "GstGiustoBwe";
    type Type = super::GiustoBwe;
    type ParentType = gst::Element;

    fn with_class(class: &Self::Class) -> Self {
        let pad = |name: &str| {
            let template = class.pad_template(name).expect("pad_templates has both");
            gst::Pad::builder_from_template(&template).flags(gst::PadFlags::PROXY_CAPS)
        };
        let sink = pad("sink")
            .chain_function(|_, parent, buffer| {
                let error = || Err(gst::FlowError::Error);
                Self::catch_panic_pad_function(parent, error, |imp| imp.enqueue(std::iter::once(buffer)))
            })
            .chain_list_function(|_, parent, list| {
                let error = || Err(gst::FlowError::Error);
                Self::catch_panic_pad_function(parent, error, |imp| {
                    imp.enqueue(list.iter_owned().collect::<Vec<_>>().into_iter())
                })
            })
            .event_function(|_, parent, event| {
                Self::catch_panic_pad_function(parent, || false, |imp| imp.sink_event(event))
            })
            .build();
        let src = pad("src")
            .event_function(|pad, parent, event| {
                Self::catch_panic_pad_function(
                    parent,
                    || false,
                    |imp| {
                        imp.src_event(&event);
                        gst::Pad::event_default(pad, parent, event)
                    },
                )
            })
            .activatemode_function(|_, parent, mode, active| {
                let error = || Err(gst::loggable_error!(LOG, "panic while the pad was activated"));
                Self::catch_panic_pad_function(parent, error, |imp| imp.activate(mode, active))
            })
            .build();
        let settings = Settings::default();
        let estimate = settings.start_bitrate;
        let state = State {
            settings,
            engine: None,
            queue: VecDeque::new(),
            queued: DataSize::ZERO,
            flow: Err(gst::FlowError::Flushing),
            estimate,
        };
        Self {
            sink,
            src,
            clock: gst::SystemClock::obtain(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }
}

impl ObjectImpl for GiustoBwe {
    fn constructed(&self) {
        self.parent_constructed();
        for pad in [&self.sink, &self.src] {
            self.obj().add_pad(pad).expect("a new element has no pads");
        }
    }

    fn properties() -> &'static [glib::ParamSpec] {
        settings::properties()
    }

    fn set_property(&self, _: usize, value: &glib::Value, spec: &glib::ParamSpec) {
        let now = self.now();
        let mut state = self.lock();
        let bitrate = value.get::<u32>();
        match (spec.name(), bitrate) {
            ("estimated-bitrate", Ok(bitrate)) => {
                state.settings.start_bitrate = bitrate;
                if state.engine.is_none() {
                    state.estimate = bitrate;
                }
            }
            ("min-bitrate", Ok(bitrate)) => state.settings.min_bitrate = bitrate,
            ("max-bitrate", Ok(bitrate)) => state.settings.max_bitrate = bitrate,
            ("controller", _) => {
                let name = value.get::<Option<String>>().ok().flatten();
                state.settings.controller = name.unwrap_or_else(|| Settings::default().controller);
                if state.engine.is_some() {
                    gst::warning!(LOG, imp = self, "controller: a new one is used from the next start on");
                }
            }
            _ => {}
        }
        let limits = state.settings.limits();
        let Some(engine) = state.engine.as_mut().filter(|_| spec.name().ends_with("-bitrate")) else {
            return;
        };
        engine.set_limits(now, limits);
        let tell = state.has_new_estimate();
        drop(state);
        if tell {
            self.tell();
        }
    }

    fn property(&self, _: usize, spec: &glib::ParamSpec) -> glib::Value {
        if spec.name() == "stats" {
            return self.stats().to_value();
        }
        let state = self.lock();
        match spec.name() {
            "estimated-bitrate" => state.estimate.to_value(),
            "min-bitrate" => state.settings.min_bitrate.to_value(),
            "max-bitrate" => state.settings.max_bitrate.to_value(),
            _ => state.settings.controller.to_value(),
        }
    }
}

impl GstObjectImpl for GiustoBwe {}

impl ElementImpl for GiustoBwe {
    fn metadata() -> Option<&'static gst::subclass::ElementMetadata> {
        static METADATA: LazyLock<gst::subclass::ElementMetadata> = LazyLock::new(|| {
            gst::subclass::ElementMetadata::new(
                "giusto bandwidth estimator",
                "Network/WebRTC/RTP/Filter",
                "Congestion control by name with transport-wide feedback, and pacing",
                "the giusto authors",
            )
        });
        Some(&*METADATA)
    }

    fn pad_templates() -> &'static [gst::PadTemplate] {
        static TEMPLATES: LazyLock<Vec<gst::PadTemplate>> = LazyLock::new(|| {
            let caps = gst::Caps::new_empty_simple("application/x-rtp");
            let template = |name, direction| {
                gst::PadTemplate::new(name, direction, gst::PadPresence::Always, &caps)
                    .expect("name and caps are valid")
            };
            vec![template("sink", gst::PadDirection::Sink), template("src", gst::PadDirection::Src)]
        });
        TEMPLATES.as_ref()
    }

    fn change_state(
        &self,
        change: gst::StateChange,
    ) -> Result<gst::StateChangeSuccess, gst::StateChangeError> {
        if change == gst::StateChange::ReadyToPaused {
            let settings = self.lock().settings.clone();
            let algorithm = self.algorithm(&settings.controller)?;
            let engine = Engine::new(self.now(), algorithm, settings.limits());
            self.lock().engine = Some(engine);
            let tell = self.lock().has_new_estimate();
            if tell {
                self.tell();
            }
        }
        let success = self.parent_change_state(change)?;
        if change == gst::StateChange::PausedToReady {
            self.lock().engine = None;
        }
        Ok(success)
    }
}
