//! The sending end of a connection.

use giusto_units::{Ecn, TimeDelta, Timestamp};

use super::{
    application::Application,
    control::CongestionControl,
    rto::RtoEstimator,
    settings::{Settings, SettingsError},
    stats::{TcpStats, Transfer},
    transmission::{Outgoing, Transmission},
};
use crate::{
    packet::{FlowId, Packet},
    random,
    traffic::{
        agent::{Agent, Body, Transmit},
        segment::{Flags, Segment},
    },
};

/// Opens connections and sends the data of an [`Application`] to a [`Receiver`](super::Receiver).
#[derive(Debug)]
pub struct Sender {
    flow: FlowId,
    settings: Settings,
    application: Application,
    now: Timestamp,
    stop: Option<Timestamp>,
    state: State,
    connection: u32,
    transmission: Transmission,
    transfer: Transfer,
    transfers: u64,
    transfer_time: TimeDelta,
    last_transfer: Option<Transfer>,
    syn_timeouts: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Idle until the next transfer.
    Idle {
        until: Timestamp,
    },
    /// The SYN was sent or is due.
    Opening {
        rto: RtoEstimator,
        sent: Timestamp,
        tries: u32,
        due: Option<Timestamp>,
    },
    /// Data phase.
    Open,
    Done,
}

impl Sender {
    /// Creates a sender on `flow` with the congestion control of `settings`. It starts at time 0.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a setting is out of range.
    pub fn new(flow: FlowId, settings: Settings, application: Application) -> Result<Self, SettingsError> {
        let control = settings.algorithm.build(random::stream(u64::from(flow.0), "tcp"));
        Self::with_control(flow, settings, application, control)
    }

    /// Creates a sender with a custom congestion control.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a setting is out of range.
    pub fn with_control(
        flow: FlowId,
        settings: Settings,
        mut application: Application,
        control: Box<dyn CongestionControl>,
    ) -> Result<Self, SettingsError> {
        settings.validate()?;
        let until = Timestamp::ZERO + application.initial_idle();
        Ok(Self {
            flow,
            transmission: Transmission::new(settings.clone(), control),
            settings,
            application,
            now: Timestamp::ZERO,
            stop: None,
            state: State::Idle { until },
            connection: 0,
            transfer: Transfer::default(),
            transfers: 0,
            transfer_time: TimeDelta::ZERO,
            last_transfer: None,
            syn_timeouts: 0,
        })
    }

    /// Sets the start time. Call it before the run.
    #[must_use]
    pub fn starting_at(mut self, start: Timestamp) -> Self {
        if let State::Idle { until } = &mut self.state {
            *until += start - Timestamp::ZERO;
        }
        self
    }

    /// Sets the stop time: no new data is sent from then on. Outstanding data is still delivered.
    #[must_use]
    pub fn stopping_at(mut self, stop: Timestamp) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Returns the current state and counters.
    pub fn stats(&self) -> TcpStats {
        let rto = match &self.state {
            State::Opening { rto, .. } => rto,
            _ => self.transmission.rto(),
        };
        TcpStats {
            window: self.transmission.window(),
            threshold: Some(self.transmission.threshold()).filter(|&threshold| threshold < u64::MAX),
            pipe: self.transmission.pipe(),
            smoothed_rtt: rto.smoothed(),
            rto: rto.timeout(),
            syn_timeouts: self.syn_timeouts,
            connections: u64::from(self.connection),
            transfers: self.transfers,
            transfer_time: self.transfer_time,
            last_transfer: self.last_transfer,
            ..self.transmission.counts()
        }
    }

    #[inline]
    fn run_timers(&mut self) {
        let now = self.now;
        let stopped = self.stop.is_some_and(|stop| stop <= now);
        match &mut self.state {
            State::Idle { until } if *until <= now => {
                if stopped {
                    self.state = State::Done;
                } else {
                    self.begin_transfer();
                }
            }
            State::Opening { .. } if stopped => self.state = State::Done,
            State::Opening { rto, due, .. } if due.is_some_and(|due| due <= now) => {
                rto.back_off();
                *due = None;
                self.syn_timeouts += 1;
            }
            State::Open => {
                if stopped {
                    self.transmission.stop();
                }
                self.transmission.run_timer(now);
                self.end_transfer();
            }
            State::Idle { .. } | State::Opening { .. } | State::Done => {}
        }
    }

    fn begin_transfer(&mut self) {
        let bytes = self.application.next_size();
        self.transfer = Transfer { bytes: bytes.unwrap_or(u64::MAX), start: self.now, end: self.now };
        if self.connection > 0 && self.application.is_persistent() {
            self.state = State::Open;
            self.transmission.write(self.now, bytes);
        } else {
            self.connection += 1;
            let rto = RtoEstimator::new(self.settings.rto_floor);
            self.state = State::Opening { rto, sent: self.now, tries: 0, due: None };
        }
    }

    fn end_transfer(&mut self) {
        if !self.transmission.is_done() {
            return;
        }
        let stopped = self.stop.is_some_and(|stop| stop <= self.now);
        // A transfer that was cut short is not complete.
        let size = self.transfer.bytes;
        let is_complete =
            if self.application.is_persistent() { !stopped } else { self.transmission.written() == size };
        if is_complete {
            let transfer = Transfer { end: self.now, ..self.transfer };
            self.transfers += 1;
            self.transfer_time += transfer.end - transfer.start;
            self.last_transfer = Some(transfer);
        }
        let idle = if stopped { None } else { self.application.next_idle() };
        self.state = idle
            .map_or(State::Done, |idle| State::Idle { until: self.now + idle.max(TimeDelta::from_nanos(1)) });
    }

    fn on_syn_ack(&mut self, segment: &Segment) {
        let State::Opening { mut rto, sent, tries, .. } = self.state else { return };
        let ecn = Flags::ECE;
        let agreed = |flag: Flags, wanted: bool| wanted && segment.flags.contains(flag);
        let uses = Flags::NONE
            .with_if(agreed(Flags::TIMESTAMPS, self.settings.timestamps), Flags::TIMESTAMPS)
            .with_if(agreed(Flags::SACK_PERMITTED, self.settings.sack), Flags::SACK_PERMITTED)
            .with_if(agreed(ecn, self.settings.uses_ecn()), ecn);
        if uses.contains(Flags::TIMESTAMPS) {
            rto.on_sample(self.now.saturating_since(segment.echo));
        } else if tries <= 1 {
            rto.on_sample(self.now.saturating_since(sent));
        }
        if tries > 1 {
            rto.on_handshake_after_timeout();
        }
        self.transmission.begin(rto, uses, tries > 1);
        let bytes = Some(self.transfer.bytes).filter(|&bytes| bytes < u64::MAX);
        self.transmission.write(self.now, bytes);
        self.state = State::Open;
    }

    fn syn(&mut self) -> Option<Segment> {
        let now = self.now;
        let State::Opening { rto, sent, tries, due } = &mut self.state else { return None };
        if due.is_some() {
            return None;
        }
        *sent = now;
        *tries += 1;
        *due = Some(now + rto.timeout());
        Some(Segment {
            stamp: now,
            connection: self.connection,
            flags: Flags::SYN
                .with_if(self.settings.sack, Flags::SACK_PERMITTED)
                .with_if(self.settings.timestamps, Flags::TIMESTAMPS)
                .with_if(self.settings.uses_ecn(), Flags::ECE.with(Flags::CWR)),
            ..Segment::default()
        })
    }

    fn data(&self, outgoing: Outgoing) -> Segment {
        let (from, to) = outgoing.range;
        let is_last = to == self.transmission.written() && !self.application.is_persistent();
        Segment {
            sequence: from,
            length: (to - from) as u32,
            stamp: self.now,
            connection: self.connection,
            flags: Flags::ACK
                .with_if(self.settings.timestamps, Flags::TIMESTAMPS)
                .with_if(is_last, Flags::FIN)
                .with_if(outgoing.announces_reduction, Flags::CWR),
            ..Segment::default()
        }
    }
}

impl Agent for Sender {
    fn handle_packet(&mut self, now: Timestamp, _packet: &Packet, body: &Body) {
        self.now = self.now.max(now);
        let segment = match body {
            Body::Tcp(segment) if segment.connection == self.connection => Some(segment),
            _ => None,
        };
        if let Some(segment) = segment.filter(|segment| segment.flags.contains(Flags::ACK)) {
            if segment.flags.contains(Flags::SYN) {
                self.on_syn_ack(segment);
            } else if matches!(self.state, State::Open) {
                self.transmission.on_ack(self.now, segment);
            }
        }
        self.run_timers();
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.run_timers();
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        self.now = self.now.max(now);
        self.run_timers();
        let (segment, ecn) = match self.state {
            State::Opening { .. } => (self.syn()?, Ecn::NotEct),
            State::Open => {
                let outgoing = self.transmission.next_segment(self.now)?;
                // Only new data is ECN-capable (RFC 3168 §6.1.5), but all data of an L4S sender (RFC 9331 §4.1).
                let ecn = match (self.transmission.uses_ecn(), self.settings.uses_accurate_ecn()) {
                    (true, true) => Ecn::Ect1,
                    (true, false) if !outgoing.is_retransmission => Ecn::Ect0,
                    _ => Ecn::NotEct,
                };
                (self.data(outgoing), ecn)
            }
            State::Idle { .. } | State::Done => return None,
        };
        Some(Transmit { flow: self.flow, bytes: segment.wire_bytes(), ecn, body: Body::Tcp(segment) })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        match &self.state {
            State::Idle { until } => Some(*until),
            State::Opening { due, .. } => *due,
            State::Open => self.transmission.timer(),
            State::Done => None,
        }
    }

    /// | name | meaning |
    /// |---|---|
    /// | `cwnd_bytes`, `ssthresh_bytes` | congestion window, and slow start threshold if there is one |
    /// | `pipe_bytes` | estimated data in flight |
    /// | `srtt_ms` | smoothed RTT |
    /// | `acked_bytes`, `resent_segments`, `timeouts`, `reductions`, `transfers` | counters since the start |
    ///
    /// Reports nothing before the first RTT sample.
    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        let stats = self.stats();
        let Some(smoothed_rtt) = stats.smoothed_rtt else { return };
        let mut gauge = |name, value| report(self.flow, name, value);
        gauge("cwnd_bytes", stats.window as f64);
        gauge("srtt_ms", smoothed_rtt.as_millis());
        gauge("pipe_bytes", stats.pipe as f64);
        if let Some(threshold) = stats.threshold {
            gauge("ssthresh_bytes", threshold as f64);
        }
        gauge("acked_bytes", stats.acknowledged as f64);
        gauge("resent_segments", stats.retransmitted as f64);
        gauge("timeouts", stats.timeouts as f64);
        gauge("reductions", stats.reductions as f64);
        gauge("transfers", stats.transfers as f64);
    }
}
