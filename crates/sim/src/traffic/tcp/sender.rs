//! The sending end: opens connections, sends what its application has.

use giusto_units::{Ecn, TimeDelta, Timestamp};
use serde::Serialize;

use super::{
    application::Application,
    control::CongestionControl,
    rto::RtoEstimator,
    segment::{Flags, Segment},
    settings::{Settings, SettingsError},
    transmission::{Outgoing, Transmission},
};
use crate::{
    packet::{FlowId, Packet},
    traffic::{Agent, Body, Transmit},
};

/// Sends the data of an [`Application`] to a [`Receiver`](super::Receiver).
#[derive(Debug)]
pub struct Sender {
    flow: FlowId,
    settings: Settings,
    application: Application,
    now: Timestamp,
    stop: Option<Timestamp>,
    stage: Stage,
    connection: u32,
    transmission: Transmission,
    transfer: Transfer,
    transfers: u64,
    transfer_time: TimeDelta,
    last_transfer: Option<Transfer>,
    syn_timeouts: u64,
}

/// How far the sender is.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Until the next transfer begins.
    Waiting { until: Timestamp },
    /// The SYN was sent, or is to be sent.
    Opening { rto: RtoEstimator, sent: Timestamp, tries: u32, due: Option<Timestamp> },
    /// Data flows.
    Open,
    /// Nothing more will come.
    Done,
}

/// A transfer of a finite number of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Transfer {
    /// Its size in bytes of data.
    pub bytes: u64,
    /// When it began: when the SYN was sent, or the data was written to an open connection.
    pub began: Timestamp,
    /// When its last byte was acknowledged.
    pub ended: Timestamp,
}

/// What a [`Sender`] does and did. Counts are over all its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TcpStats {
    /// Congestion window in bytes.
    pub window: u64,
    /// Slow start threshold in bytes; `None`: none yet.
    pub threshold: Option<u64>,
    /// Bytes believed to be in the network (RFC 6675 §4).
    pub pipe: u64,
    /// Smoothed round trip, once measured.
    pub round_trip: Option<TimeDelta>,
    /// Retransmission timeout.
    pub timeout: TimeDelta,
    /// Bytes of data acknowledged.
    pub acknowledged: u64,
    /// Segments with data sent, those sent again included.
    pub segments: u64,
    /// Of those, the ones sent again.
    pub resent: u64,
    /// Retransmission timeouts of data.
    pub timeouts: u64,
    /// Retransmission timeouts of SYNs.
    pub syn_timeouts: u64,
    /// Fast recoveries entered.
    pub fast_recoveries: u64,
    /// Reductions of the window, by loss, timeout or mark.
    pub reductions: u64,
    /// Of those, the ones by an echoed mark.
    pub marks_heeded: u64,
    /// Connections opened, or tried to.
    pub connections: u64,
    /// Transfers completed.
    pub transfers: u64,
    /// How long they took, in all.
    pub transfer_time: TimeDelta,
    /// The latest that was completed.
    pub last_transfer: Option<Transfer>,
}

impl Sender {
    /// A sender on `flow`, with the congestion control that `settings` name, from the beginning of the run.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a setting is out of its range.
    pub fn new(flow: FlowId, settings: Settings, application: Application) -> Result<Self, SettingsError> {
        let control = settings.algorithm.build();
        Self::with_control(flow, settings, application, control)
    }

    /// The same with a congestion control of one's own.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] if a setting is out of its range.
    pub fn with_control(
        flow: FlowId,
        settings: Settings,
        mut application: Application,
        control: Box<dyn CongestionControl>,
    ) -> Result<Self, SettingsError> {
        settings.validate()?;
        let until = Timestamp::ZERO + application.first_wait();
        Ok(Self {
            flow,
            transmission: Transmission::new(settings.clone(), control),
            settings,
            application,
            now: Timestamp::ZERO,
            stop: None,
            stage: Stage::Waiting { until },
            connection: 0,
            transfer: Transfer::default(),
            transfers: 0,
            transfer_time: TimeDelta::ZERO,
            last_transfer: None,
            syn_timeouts: 0,
        })
    }

    /// Begins at `start` instead of the beginning of the run. To be called before the run.
    #[must_use]
    pub fn starting_at(mut self, start: Timestamp) -> Self {
        if let Stage::Waiting { until } = &mut self.stage {
            *until += start - Timestamp::ZERO;
        }
        self
    }

    /// Sends no new data from `stop` on; what is under way then is still brought to its end.
    #[must_use]
    pub fn stopping_at(mut self, stop: Timestamp) -> Self {
        self.stop = Some(stop);
        self
    }

    /// What it does and did.
    pub fn stats(&self) -> TcpStats {
        let counts = self.transmission.counts();
        let rto = match &self.stage {
            Stage::Opening { rto, .. } => rto,
            _ => self.transmission.rto(),
        };
        TcpStats {
            window: self.transmission.window(),
            threshold: Some(self.transmission.threshold()).filter(|&threshold| threshold < u64::MAX),
            pipe: self.transmission.pipe(),
            round_trip: rto.smoothed(),
            timeout: rto.timeout(),
            acknowledged: counts.acknowledged,
            segments: counts.segments,
            resent: counts.resent,
            timeouts: counts.timeouts,
            syn_timeouts: self.syn_timeouts,
            fast_recoveries: counts.fast_recoveries,
            reductions: counts.reductions,
            marks_heeded: counts.marks_heeded,
            connections: u64::from(self.connection),
            transfers: self.transfers,
            transfer_time: self.transfer_time,
            last_transfer: self.last_transfer,
        }
    }

    /// Does what is due.
    fn fire_due(&mut self) {
        let now = self.now;
        let stopped = self.stop.is_some_and(|stop| stop <= now);
        match &mut self.stage {
            Stage::Waiting { until } if *until <= now => {
                if stopped {
                    self.stage = Stage::Done;
                } else {
                    self.begin_transfer();
                }
            }
            Stage::Opening { .. } if stopped => self.stage = Stage::Done,
            Stage::Opening { rto, due, .. } if due.is_some_and(|due| due <= now) => {
                rto.back_off();
                *due = None;
                self.syn_timeouts += 1;
            }
            Stage::Open => {
                if stopped {
                    self.transmission.stop();
                }
                self.transmission.fire_due(now);
                self.end_transfer();
            }
            Stage::Waiting { .. } | Stage::Opening { .. } | Stage::Done => {}
        }
    }

    fn begin_transfer(&mut self) {
        let bytes = self.application.next_size();
        self.transfer = Transfer { bytes: bytes.unwrap_or(u64::MAX), began: self.now, ended: self.now };
        if self.connection > 0 && self.application.is_persistent() {
            self.stage = Stage::Open;
            self.transmission.offer(self.now, bytes);
        } else {
            self.connection += 1;
            let rto = RtoEstimator::new(self.settings.rto_floor);
            self.stage = Stage::Opening { rto, sent: self.now, tries: 0, due: None };
        }
    }

    fn end_transfer(&mut self) {
        if !self.transmission.is_done() {
            return;
        }
        let stopped = self.stop.is_some_and(|stop| stop <= self.now);
        // What was cut short is no transfer completed.
        let goal = self.transfer.bytes;
        let whole =
            if self.application.is_persistent() { !stopped } else { self.transmission.offered() == goal };
        if whole {
            let transfer = Transfer { ended: self.now, ..self.transfer };
            self.transfers += 1;
            self.transfer_time += transfer.ended - transfer.began;
            self.last_transfer = Some(transfer);
        }
        let wait = if stopped { None } else { self.application.next_wait() };
        self.stage = wait.map_or(Stage::Done, |wait| Stage::Waiting {
            until: self.now + wait.max(TimeDelta::from_nanos(1)),
        });
    }

    fn on_syn_ack(&mut self, segment: &Segment) {
        let Stage::Opening { mut rto, sent, tries, .. } = self.stage else { return };
        let ecn = Flags::ECE;
        let agreed = |flag: Flags, wanted: bool| wanted && segment.flags.contains(flag);
        let uses = Flags::NONE
            .with_if(agreed(Flags::TIMESTAMPS, self.settings.timestamps), Flags::TIMESTAMPS)
            .with_if(agreed(Flags::SACK_PERMITTED, self.settings.sack), Flags::SACK_PERMITTED)
            .with_if(agreed(ecn, self.settings.ecn), ecn);
        if uses.contains(Flags::TIMESTAMPS) {
            rto.on_sample(self.now.saturating_since(segment.echo));
        } else if tries <= 1 {
            rto.on_sample(self.now.saturating_since(sent));
        }
        if tries > 1 {
            rto.on_opened_late();
        }
        self.transmission.begin(rto, uses, tries > 1);
        let bytes = Some(self.transfer.bytes).filter(|&bytes| bytes < u64::MAX);
        self.transmission.offer(self.now, bytes);
        self.stage = Stage::Open;
    }

    fn syn(&mut self) -> Option<Segment> {
        let now = self.now;
        let Stage::Opening { rto, sent, tries, due } = &mut self.stage else { return None };
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
                .with_if(self.settings.ecn, Flags::ECE.with(Flags::CWR)),
            ..Segment::default()
        })
    }

    fn data(&self, outgoing: Outgoing) -> Segment {
        let (from, to) = outgoing.range;
        let is_last = to == self.transmission.offered() && !self.application.is_persistent();
        Segment {
            sequence: from,
            length: (to - from) as u32,
            stamp: self.now,
            connection: self.connection,
            flags: Flags::ACK
                .with_if(self.settings.timestamps, Flags::TIMESTAMPS)
                .with_if(is_last, Flags::FIN)
                .with_if(outgoing.reduced, Flags::CWR),
            ..Segment::default()
        }
    }
}

impl Agent for Sender {
    fn handle_packet(&mut self, now: Timestamp, _packet: &Packet, body: &Body) {
        self.now = self.now.max(now);
        let ours = match body {
            Body::Tcp(segment) if segment.connection == self.connection => Some(segment),
            _ => None,
        };
        if let Some(segment) = ours.filter(|segment| segment.flags.contains(Flags::ACK)) {
            if segment.flags.contains(Flags::SYN) {
                self.on_syn_ack(segment);
            } else if matches!(self.stage, Stage::Open) {
                self.transmission.on_ack(self.now, segment);
            }
        }
        self.fire_due();
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        self.fire_due();
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Transmit> {
        self.now = self.now.max(now);
        self.fire_due();
        let (segment, ecn) = match self.stage {
            Stage::Opening { .. } => (self.syn()?, Ecn::NotEct),
            Stage::Open => {
                let outgoing = self.transmission.next_segment(self.now)?;
                // Data is ECN-capable, but not when sent again (RFC 3168 §6.1.5).
                let capable = !outgoing.again && self.transmission.uses_ecn();
                (self.data(outgoing), if capable { Ecn::Ect0 } else { Ecn::NotEct })
            }
            Stage::Waiting { .. } | Stage::Done => return None,
        };
        Some(Transmit { flow: self.flow, bytes: segment.wire_bytes(), ecn, body: Body::Tcp(segment) })
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        match &self.stage {
            Stage::Waiting { until } => Some(*until),
            Stage::Opening { due, .. } => *due,
            Stage::Open => self.transmission.timer(),
            Stage::Done => None,
        }
    }

    /// | name | what |
    /// |---|---|
    /// | `cwnd_bytes`, `ssthresh_bytes` | congestion window, slow start threshold once there is one |
    /// | `pipe_bytes` | what is believed to be in the network |
    /// | `srtt_ms` | smoothed round trip, once measured |
    /// | `acked_bytes`, `resent_segments`, `timeouts`, `reductions`, `transfers` | counted since the beginning |
    fn gauges(&self, report: &mut dyn FnMut(FlowId, &'static str, f64)) {
        let stats = self.stats();
        // Before the first round trip there is nothing to tell.
        let Some(round_trip) = stats.round_trip else { return };
        let mut tell = |name, value| report(self.flow, name, value);
        tell("cwnd_bytes", stats.window as f64);
        tell("srtt_ms", round_trip.as_millis());
        tell("pipe_bytes", stats.pipe as f64);
        if let Some(threshold) = stats.threshold {
            tell("ssthresh_bytes", threshold as f64);
        }
        tell("acked_bytes", stats.acknowledged as f64);
        tell("resent_segments", stats.resent as f64);
        tell("timeouts", stats.timeouts as f64);
        tell("reductions", stats.reductions as f64);
        tell("transfers", stats.transfers as f64);
    }
}
