//! A call over QUIC in virtual time: two endpoints of quinn without I/O across links of the simulator, seeded.

#![allow(dead_code, reason = "a test and the table use different parts")]

mod application;
mod baseline;
mod peer;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use giusto_quinn::{DataRate, GiustoConfig, Limits};
use giusto_sim::{
    link::{
        LinkConfig,
        delay::Jitter,
        loss::Loss,
        queue::{DropTail, Limit},
        rate::RateProfile,
    },
    random,
    simulation::Simulation,
    traffic::tcp,
};
use giusto_units::{TimeDelta, Timestamp};
use quinn_proto::{
    AckFrequencyConfig, ClientConfig, Endpoint, EndpointConfig, ServerConfig, TransportConfig, VarInt,
    congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig},
};
use rand::RngExt;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer},
};

pub(crate) use application::Bulk;
use application::{Receiver, Sender};
use baseline::Observed;
use peer::{Peer, Role, address};

/// A call, and what crosses its way.
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// A controller of giusto, or `quinn:newreno`, `quinn:cubic` or `quinn:bbr`.
    pub(crate) controller: String,
    /// Whether the application leaves out frames while others have waited for too long.
    pub(crate) skips: bool,
    pub(crate) bulk: Option<Bulk>,
    /// The encoder's highest rate.
    pub(crate) most: DataRate,
    pub(crate) rate: RateProfile,
    pub(crate) queue: Limit,
    pub(crate) loss: f64,
    /// Whether a CUBIC download crosses the link from 10 s on.
    pub(crate) beside_cubic: bool,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// Whether the peer acknowledges each packet at once.
    pub(crate) fast_acknowledgements: bool,
    /// The way back adds up to so much to its delay, in order.
    pub(crate) jitter_back: Option<TimeDelta>,
    /// Whether the peer tells when packets arrived.
    pub(crate) receive_timestamps: bool,
}

/// A frame, with times since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) captured: Duration,
    pub(crate) size: usize,
    pub(crate) arrived: Option<Duration>,
}

/// What happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Log {
    /// All frames that were due, skipped ones included.
    pub(crate) frames: Vec<Frame>,
    /// Bytes of the file, when they arrived.
    pub(crate) file: Vec<(Duration, usize)>,
    /// Bytes that the CUBIC download delivered.
    pub(crate) cubic_bytes: u64,
}

/// Frames that arrive later than this after their capture are missed (`giusto_session::media::PLAYOUT_DEADLINE`).
pub(crate) const DEADLINE: Duration = Duration::from_millis(400);

/// The figures of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Figures {
    /// Mbit/s of frames that arrived.
    pub(crate) goodput: f64,
    /// Delay of those from capture, in ms.
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    /// Share of the frames that were due and did not arrive within [`DEADLINE`].
    pub(crate) missed: f64,
    /// Mbit/s of the other traffic.
    pub(crate) other: f64,
}

impl Log {
    /// The figures of the frames captured from `from` to `until`.
    pub(crate) fn figures(&self, from: Duration, until: Duration) -> Figures {
        let due: Vec<&Frame> =
            self.frames.iter().filter(|frame| (from..until).contains(&frame.captured)).collect();
        let seconds = until.saturating_sub(from).as_secs_f64();
        let megabits = |bytes: usize| bytes as f64 * 8e-6 / seconds;
        let delays = due.iter().filter_map(|frame| frame.arrived.map(|at| at.saturating_sub(frame.captured)));
        let mut delays: Vec<Duration> = delays.collect();
        delays.sort_unstable();
        let quantile = |share: f64| {
            let place = (share * delays.len() as f64) as usize;
            delays
                .get(place.min(delays.len().saturating_sub(1)))
                .map_or(f64::NAN, |delay| delay.as_secs_f64() * 1e3)
        };
        let in_time = delays.iter().filter(|delay| **delay <= DEADLINE).count();
        let file =
            self.file.iter().filter(|(at, _)| (from..until).contains(at)).map(|(_, bytes)| bytes).sum();
        Figures {
            goodput: megabits(
                due.iter().filter(|frame| frame.arrived.is_some()).map(|frame| frame.size).sum(),
            ),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            missed: 1.0 - in_time as f64 / due.len().max(1) as f64,
            other: megabits(file) + self.cubic_bytes as f64 * 8e-6 / seconds,
        }
    }
}

/// The limits of every call.
pub(crate) fn limits() -> Limits {
    Limits::DEFAULT
        .with_min(DataRate::from_bps(100_000))
        .with_start(DataRate::from_bps(300_000))
        .with_max(DataRate::from_bps(4_000_000))
}

/// Figures are taken from then on.
pub(crate) const WARM_UP: Duration = Duration::from_secs(5);

impl Call {
    /// A call over a link of this rate, with a queue of 300 ms.
    pub(crate) fn over(controller: &str, rate: RateProfile, seed: u64) -> Self {
        Self {
            controller: controller.to_owned(),
            skips: true,
            bulk: None,
            most: limits().max,
            rate,
            queue: Limit::Time(TimeDelta::from_millis(300)),
            loss: 0.0,
            beside_cubic: false,
            seconds: 60,
            seed,
            fast_acknowledgements: true,
            jitter_back: None,
            receive_timestamps: false,
        }
    }

    /// 3 Mbit/s, 1 Mbit/s from a third of the time on, 3 Mbit/s again for the last third.
    pub(crate) fn over_steps(controller: &str, seconds: u64, seed: u64) -> Self {
        let at = |third: u64, bps| {
            (Timestamp::from_nanos(third * seconds * 1_000_000_000 / 3), DataRate::from_bps(bps))
        };
        let steps = vec![at(0, 3_000_000), at(1, 1_000_000), at(2, 3_000_000)];
        Self { seconds, ..Self::over(controller, RateProfile::Steps { steps, period: None }, seed) }
    }

    /// Holds the call.
    pub(crate) fn run(&self) -> Log {
        let mut draws = random::stream(self.seed, "call");
        let mut simulation = Simulation::new(self.seed);
        let (near, far) = (simulation.node("near"), simulation.node("far"));
        // Runs differ in loss, in the sizes of frames, in quinn's own draws and a little in delay.
        let delay = TimeDelta::from_micros(draws.random_range(25_000..35_000));
        let there = LinkConfig {
            rate: self.rate.clone(),
            delay: delay.into(),
            loss: if self.loss > 0.0 { Loss::Random(self.loss) } else { Loss::None },
            ..LinkConfig::default()
        };
        let jitter = self.jitter_back.map(|max| Jitter::Uniform { max });
        let back = LinkConfig { delay: delay.into(), jitter, ..LinkConfig::default() };
        let queue = Box::new(DropTail::new(self.queue));
        simulation.add_link("there", (near, far), &there, queue).expect("a link");
        simulation
            .add_link("back", (far, near), &back, Box::new(DropTail::new(Limit::Unlimited)))
            .expect("a link");
        let mut flow = |from, to| simulation.add_flow(from, to).expect("a route");
        let (to, fro) = (flow(near, far), flow(far, near));
        let (data, acknowledgements) = (flow(near, far), flow(far, near));

        let origin = origin();
        let log = Arc::new(Mutex::new(Log::default()));
        let (client, server) = self.endpoints(&mut draws);
        let (mut client, config) = client;
        let connection = client.connect(origin, config, address(true), "localhost").expect("a connection");
        let end = origin + Duration::from_secs(self.seconds);
        let choice = (self.skips, self.bulk, self.most);
        let sender =
            Sender::new(choice, Arc::clone(&log), random::stream(self.seed, "frames"), (origin, end));
        let role = Role::Sender(Box::new(sender));
        let arrivals = self.receive_timestamps.then(peer::Arrivals::default);
        let sender = Peer::new(client, Some(connection), origin, to, role).with_arrivals(arrivals.clone());
        let sender = simulation.add_agent(Box::new(sender));
        let role = Role::Receiver(Box::new(Receiver::new(Arc::clone(&log), origin)));
        let receiver = Peer::new(server, None, origin, fro, role).with_arrivals(arrivals);
        let receiver = simulation.add_agent(Box::new(receiver));
        simulation.deliver(to, receiver);
        simulation.deliver(fro, sender);
        if self.beside_cubic {
            let settings = tcp::Settings::default();
            let start = Timestamp::from_nanos(CUBIC_FROM.as_nanos() as u64);
            let download =
                tcp::Sender::new(data, settings.clone(), tcp::Application::Unlimited).expect("settings");
            let download = simulation.add_agent(Box::new(download.starting_at(start)));
            let sink = tcp::Receiver::new(acknowledgements, settings).expect("settings");
            let sink = simulation.add_agent(Box::new(sink));
            simulation.deliver(data, sink);
            simulation.deliver(acknowledgements, download);
        }
        let time = |after: Duration| Timestamp::from_nanos(after.as_nanos() as u64);
        simulation.run_until(time(self.from()), &mut ());
        let before = simulation.flow(data).delivered_bytes;
        simulation.run_until(time(Duration::from_secs(self.seconds)), &mut ());
        let cubic_bytes = simulation.flow(data).delivered_bytes - before;
        // What is still on its way when the call ends arrives.
        simulation.run_until(time(Duration::from_secs(self.seconds + 20)), &mut ());
        drop(simulation);
        let mut log = Arc::into_inner(log).expect("the agents are gone").into_inner().expect("no panic");
        log.cubic_bytes = cubic_bytes;
        log
    }

    /// From when on figures are taken.
    fn from(&self) -> Duration {
        if self.beside_cubic { CUBIC_FROM + WARM_UP } else { WARM_UP }
    }

    /// Holds the call and returns its figures.
    pub(crate) fn figures(&self) -> Figures {
        self.run().figures(self.from(), Duration::from_secs(self.seconds))
    }

    fn transport(&self) -> TransportConfig {
        let mut transport = TransportConfig::default();
        let factory: Option<Arc<dyn ControllerFactory + Send + Sync>> = match &self.controller[..] {
            "quinn:newreno" => Some(Arc::new(NewRenoConfig::default())),
            "quinn:cubic" => Some(Arc::new(CubicConfig::default())),
            "quinn:bbr" => Some(Arc::new(BbrConfig::default())),
            _ => None,
        };
        match factory {
            Some(factory) => {
                let mut acknowledgements = AckFrequencyConfig::default();
                acknowledgements.ack_eliciting_threshold(VarInt::from_u32(0));
                transport.ack_frequency_config(Some(acknowledgements));
                transport.congestion_controller_factory(Arc::new(Observed { factory, limits: limits() }));
            }
            None => GiustoConfig::named(&self.controller, limits())
                .expect("a controller")
                .configure(&mut transport),
        }
        if !self.fast_acknowledgements {
            transport.ack_frequency_config(None);
        }
        // Frames are never blocked by these.
        transport.send_window(64 << 20).max_concurrent_uni_streams(VarInt::from_u32(1000));
        transport
    }

    fn endpoints(&self, draws: &mut random::Random) -> ((Endpoint, ClientConfig), Endpoint) {
        let (certificate, key) = certificate();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("a certificate");
        let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).expect("a client");
        client.transport_config(Arc::new(self.transport()));
        let mut server = ServerConfig::with_single_cert(vec![certificate], key).expect("a server");
        server.transport_config(Arc::new(self.transport()));
        let mut config = || {
            let mut config = EndpointConfig::default();
            config.rng_seed(Some(draws.random()));
            Arc::new(config)
        };
        let near = Endpoint::new(config(), None, true, None);
        let far = Endpoint::new(config(), Some(Arc::new(server)), true, None);
        ((near, client), far)
    }
}

/// When the CUBIC download starts.
const CUBIC_FROM: Duration = Duration::from_secs(10);

/// The first instant of a run. There is no other way to get one; results do not depend on it.
#[expect(clippy::disallowed_methods, reason = "an origin for virtual times")]
fn origin() -> Instant {
    Instant::now()
}

/// A certificate of a kind whose signatures all have one length: handshakes are equally long in each run.
fn certificate() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    parameters.serial_number = Some(1_u64.into());
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    (certificate.der().clone(), PrivateKeyDer::try_from(key.serialize_der()).expect("a key"))
}
