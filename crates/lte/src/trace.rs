//! Traces of one user: the capacity that the scheduler gives to it, and the delay of its small packets.
//!
//! The user has a full buffer, and competes with users who fetch or send objects: FTP model 1 of TR 36.814 §A.2.1.3.1, Poisson
//! arrivals of users with one object of 0.5 MB each. The delay is that of a second run with the same seed, in which the user is on the
//! same path and has nothing but a packet of 100 B in every 10 ms, so that none waits for another. The other users arrive at the same
//! times, but their paths differ: they share a random stream, and leave earlier.

use std::collections::{BTreeMap, VecDeque};

use giusto_sim::{
    link::queue::{DropTail, Limit},
    packet::Packet,
    random::{self, Random},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};
use rand::RngExt;

use crate::{
    bearer::{Bearer, BearerConfig},
    carrier::Carrier,
    city::{CityConfig, CityError, environment},
    mac::{Channel, Delivered, Downlink, DownlinkConfig, Population, Radio, RadioUser, Uplink, UplinkConfig},
    radio::{
        fading::Profile,
        layout::{CELLS, Point},
        link::Direction,
        propagation::Deployment,
    },
    terminal::{Environment, MOVE_MS, Terminal, noise_per_block_mw},
};

/// Bytes of a delivery opportunity of Mahimahi (`mm-link(1)`), and of the packets that fill the buffer.
pub const OPPORTUNITY_BYTES: u32 = 1504;

/// Interval of the samples of a trace.
pub const SAMPLE: TimeDelta = TimeDelta::from_millis(100);

/// Size of an object (TR 36.814 §A.2.1.3.1: 0.5 Mbytes).
const OBJECT_BYTES: u32 = 500_000;

/// Size of the packets of an object.
const OBJECT_PACKET_BYTES: u32 = 1500;

/// An object that takes longer is given up. Chosen by us.
const PATIENCE_MS: u64 = 60_000;

/// A user leaves this long after its last packet has arrived, when the results of all its transmissions are known.
const LINGERS_MS: u64 = 20;

/// Time before the trace begins, in which other users arrive. Chosen by us.
const WARM_UP_MS: u64 = 15_000;

/// Users that are dropped to find those at the wanted place.
const DROPS: usize = 400;

/// Size and interval of the packets whose delay is measured.
const SMALL_BYTES: u32 = 100;
const SMALL_INTERVAL_MS: u64 = 10;

/// Bytes that wait in the full buffer at least: more than two transport blocks of 20 MHz (TS 36.213 table 7.1.7.2.1-1: 75,376
/// bit each) in every process.
const FULL_BYTES: u32 = 200_000;

/// Where the user is: its rank in the distribution of the wideband SINR of the downlink at full load, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// At the 95th percentile, and stays there.
    Centre,
    /// At the median, and stays there.
    Middle,
    /// At the 5th percentile, and stays there.
    Edge,
    /// At the median at first, and moves straight on with the speed: path loss, shadowing and cell change.
    Path,
}

giusto_units::names!(Position { Centre = "centre", Middle = "middle", Edge = "edge", Path = "path" });

impl Position {
    const fn percentile(self) -> f64 {
        match self {
            Self::Centre => 0.95,
            Self::Middle | Self::Path => 0.5,
            Self::Edge => 0.05,
        }
    }
}

giusto_units::defaults! {
    /// How a trace is made.
    #[derive(Debug, Clone, PartialEq)]
    pub struct TraceConfig {
        /// Random seed.
        pub seed: u64 = 1,
        /// Direction of the data.
        pub direction: Direction = Direction::Downlink,
        /// Where the user is.
        pub position: Position = Position::Middle,
        /// Mean load of each cell by other users: 0 to 12 Mbit/s down, 0 to 5 Mbit/s up.
        pub load: DataRate = DataRate::from_bps(4_000_000),
        /// Length: 1 s to 600 s.
        pub duration: TimeDelta = TimeDelta::from_seconds(60),
        /// Cells and propagation; its speed, 0 to 250 km/h, is that of all users.
        pub deployment: Deployment = Deployment::case_1(),
        /// Multipath.
        pub profile: Profile = Profile::default(),
    }
}

impl TraceConfig {
    /// Checks that every setting is within its range.
    ///
    /// # Errors
    ///
    /// [`CityError::Range`] names the first setting that is not.
    pub fn validate(&self) -> Result<(), CityError> {
        let number = CityError::within;
        // More is above the capacity of a cell with this user in it, and the other users would pile up.
        let (setting, most) = match self.direction {
            Direction::Downlink => ("load of a cell down", 12.0),
            Direction::Uplink => ("load of a cell up", 5.0),
        };
        // To a thousandth, since the speed is kept in m/s.
        let speed_kmh = libm::round(self.deployment.speed_mps * 3600.0) / 1000.0;
        number("speed", speed_kmh, 0.0, 250.0, " km/h")?;
        number(setting, self.load.as_bps() as f64 / 1e6, 0.0, most, " Mbit/s")?;
        number("duration", self.duration.as_seconds(), 1.0, 600.0, " s")
    }
}

/// What happened in one interval of [`SAMPLE`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Packets of [`OPPORTUNITY_BYTES`] delivered.
    pub packets: u32,
    /// Mean SINR of the milliseconds in dB, see [`Channel::sinr_db`].
    pub sinr_db: f32,
    /// Cell that served the user at the end.
    pub cell: u8,
    /// Place at the end.
    pub position: Point,
    /// Small packets delivered, the sum of their delays and the largest one, in ms.
    pub small: (u32, u32, u32),
}

impl Sample {
    /// Rate of the full buffer in bit/s.
    pub fn capacity_bps(&self) -> u64 {
        let bits = u64::from(self.packets * OPPORTUNITY_BYTES) * 8;
        bits * 1_000_000_000 / SAMPLE.as_nanos().unsigned_abs()
    }

    /// Mean delay of the small packets in ms; `None` if none arrived.
    pub fn delay_ms(&self) -> Option<f64> {
        let (count, sum, _) = self.small;
        (count > 0).then(|| f64::from(sum) / f64::from(count))
    }
}

/// The traces of one user.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Milliseconds, from 1 on, in which a packet of [`OPPORTUNITY_BYTES`] arrived; several packets repeat it.
    pub deliveries_ms: Vec<u32>,
    /// An entry for each interval of [`SAMPLE`].
    pub samples: Vec<Sample>,
    /// Wideband SINR at full load at the start, in dB.
    pub wideband_sinr_db: f64,
    /// Handovers of the user.
    pub handovers: u32,
    /// Share of the resource blocks of all cells that was used, this user included.
    pub used_ratio: f64,
    /// Small packets that did not arrive in time to be counted.
    pub missing_small: u32,
}

impl Trace {
    /// Makes the traces of `config`.
    ///
    /// # Errors
    ///
    /// [`CityError::Range`] names a setting out of range.
    #[expect(clippy::missing_panics_doc, reason = "nothing ends it")]
    pub fn new(config: &TraceConfig) -> Result<Self, CityError> {
        Ok(Self::new_unless(config, &|| false)?.expect("nothing ends it"))
    }

    /// Makes the traces of `config`, unless `ends`, which is called after each millisecond of them, is true before.
    ///
    /// # Errors
    ///
    /// [`CityError::Range`] names a setting out of range.
    pub fn new_unless(config: &TraceConfig, ends: &dyn Fn() -> bool) -> Result<Option<Self>, CityError> {
        config.validate()?;
        let mut full = Run::new(config, Traffic::Full);
        if !full.run(config, ends) {
            return Ok(None);
        }
        let mut small = Run::new(config, Traffic::Small);
        small.ahead = std::mem::take(&mut full.path).into();
        if !small.run(config, ends) {
            return Ok(None);
        }
        let (mut trace, delays) = (full.trace, small.trace);
        trace.missing_small = delays.missing_small;
        for (sample, delay) in trace.samples.iter_mut().zip(delays.samples) {
            sample.small = delay.small;
        }
        Ok(Some(trace))
    }

    /// Mean rate in bit/s, of the whole intervals of [`SAMPLE`].
    pub fn mean_bps(&self) -> f64 {
        let sum: u64 = self.samples.iter().map(Sample::capacity_bps).sum();
        sum as f64 / self.samples.len() as f64
    }
}

/// What the user sends or receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traffic {
    Full,
    Small,
}

/// One of the two runs.
struct Run {
    traffic: Traffic,
    environment: Environment,
    population: Population,
    cells: Cells,
    /// Place of the user in the population.
    user: u32,
    sequence: u64,
    /// The other users by their places.
    others: BTreeMap<u32, Other>,
    arrivals: Random,
    next_arrival_ms: f64,
    places: Random,
    /// The user after each of its moves so far.
    path: Vec<Terminal>,
    /// The user after each of its moves to come, if they are known.
    ahead: VecDeque<Terminal>,
    trace: Trace,
    current: Current,
}

/// A user with an object.
struct Other {
    /// Packets that are missing.
    missing: u32,
    leaves_ms: u64,
}

/// The direction that is modelled.
enum Cells {
    Down(Box<Downlink>),
    Up(Box<Uplink>),
}

/// The present sample.
#[derive(Default)]
struct Current {
    packets: u32,
    sinr: f32,
    milliseconds: u32,
    small: (u32, u32, u32),
}

impl Run {
    fn new(config: &TraceConfig, traffic: Traffic) -> Self {
        let seed = config.seed;
        let stream = |part: &str| random::stream(seed, &format!("lte trace: {part}"));
        let (down, up) = (DownlinkConfig::default(), UplinkConfig::default());
        let carrier = Carrier::downlink(down.blocks);
        let deployment = config.deployment.clone();
        let environment = environment(config.profile, deployment, carrier, &mut stream("fading"));
        let cells = match config.direction {
            Direction::Downlink => Cells::Down(Box::new(Downlink::new(down, &environment, stream("blocks")))),
            Direction::Uplink => Cells::Up(Box::new(Uplink::new(up, &environment, stream("blocks")))),
        };
        let (terminal, wideband_sinr_db) =
            terminal_at(config.position, &environment, &down, &mut stream("position"));
        let mut run = Self {
            traffic,
            environment,
            population: Population::default(),
            cells,
            user: 0,
            sequence: 0,
            others: BTreeMap::new(),
            arrivals: stream("arrivals"),
            next_arrival_ms: 0.0,
            places: stream("places"),
            path: Vec::new(),
            ahead: VecDeque::new(),
            trace: Trace {
                deliveries_ms: Vec::new(),
                samples: Vec::new(),
                wideband_sinr_db,
                handovers: 0,
                used_ratio: 0.0,
                missing_small: 0,
            },
            current: Current::default(),
        };
        run.user = run.add(terminal, config.direction);
        run.next_arrival_ms = run.wait_ms(config);
        run
    }

    fn add(&mut self, terminal: Terminal, direction: Direction) -> u32 {
        let queue = Box::new(DropTail::new(Limit::Unlimited));
        let channel = Some(Channel::new(
            Bearer::new(BearerConfig::default(), queue),
            CityConfig::default().fairness_window_ms,
        ));
        let (downlink, uplink) = match direction {
            Direction::Downlink => (channel, None),
            Direction::Uplink => (None, channel),
        };
        self.population.add(RadioUser { terminal, downlink, uplink })
    }

    /// Time until the next user arrives, in ms.
    fn wait_ms(&mut self, config: &TraceConfig) -> f64 {
        let bits = f64::from(OBJECT_BYTES) * 8.0;
        let per_ms = config.load.as_bps() as f64 * CELLS as f64 / bits / 1000.0;
        -libm::log(1.0 - self.arrivals.random::<f64>()) / per_ms
    }

    /// Returns whether it is complete.
    fn run(&mut self, config: &TraceConfig, ends: &dyn Fn() -> bool) -> bool {
        let length = config.duration.as_nanos().unsigned_abs() / 1_000_000;
        let mut delivered = Vec::new();
        for ms in 0..WARM_UP_MS + length {
            if ends() {
                return false;
            }
            let now = Timestamp::ZERO + TimeDelta::from_millis(ms as i64);
            self.others_arrive(now, ms, config);
            self.move_users(now, ms, config.position, &mut delivered);
            self.feed(now, ms, config.direction);
            match &mut self.cells {
                Cells::Down(cells) => {
                    cells.tick(now, ms, &self.environment, &mut self.population, &mut delivered);
                }
                Cells::Up(cells) => {
                    cells.tick(now, ms, &self.environment, &mut self.population, &mut delivered);
                }
            }
            let from_start = ms.checked_sub(WARM_UP_MS);
            for Delivered { user, packet } in delivered.drain(..) {
                if user == self.user {
                    self.count(now, from_start, &packet);
                } else if let Some(other) = self.others.get_mut(&user) {
                    other.missing = other.missing.saturating_sub(1);
                }
            }
            self.others_leave(ms, config.direction);
            if let Some(from_start) = from_start {
                self.sample(from_start, config.direction);
            }
        }
        let counters = match &self.cells {
            Cells::Down(cells) => cells.counters(),
            Cells::Up(cells) => cells.counters(),
        };
        self.trace.used_ratio = counters.used_ratio();
        true
    }

    fn others_arrive(&mut self, now: Timestamp, ms: u64, config: &TraceConfig) {
        while self.next_arrival_ms <= ms as f64 {
            self.next_arrival_ms += self.wait_ms(config);
            let terminal = Terminal::new(&self.environment, &mut self.places);
            let place = self.add(terminal, config.direction);
            let packets = OBJECT_BYTES.div_ceil(OBJECT_PACKET_BYTES);
            self.others.insert(place, Other { missing: packets, leaves_ms: ms + PATIENCE_MS });
            for number in 0..packets {
                let bytes = OBJECT_PACKET_BYTES.min(OBJECT_BYTES - number * OBJECT_PACKET_BYTES);
                self.offer(now, place, packet(now, bytes, u64::from(number)), config.direction);
            }
        }
    }

    fn offer(&mut self, now: Timestamp, place: u32, packet: Packet, direction: Direction) {
        // The user is there.
        let _ = self.population.offer(now, place, direction, packet);
    }

    /// Other users leave when their object is complete, or when it took too long.
    fn others_leave(&mut self, ms: u64, direction: Direction) {
        let Self { others, population, .. } = self;
        others.retain(|&place, other| {
            if let Some(channel) = population.get_mut(place).and_then(|user| user.channel_mut(direction)) {
                // A packet that was given up will never arrive.
                while channel.bearer.poll_dropped().is_some() {
                    other.missing = other.missing.saturating_sub(1);
                }
            }
            if other.missing == 0 {
                other.leaves_ms = other.leaves_ms.min(ms + LINGERS_MS);
            }
            let stays = ms < other.leaves_ms;
            if !stays {
                population.remove(place);
            }
            stays
        });
    }

    fn move_users(&mut self, now: Timestamp, ms: u64, position: Position, delivered: &mut Vec<Delivered>) {
        let mut place = (ms % MOVE_MS) as u32;
        while place < self.population.places() {
            let is_user = place == self.user;
            if let Some(radio) = self.population.get_mut(place)
                && (!is_user || (position == Position::Path && ms >= WARM_UP_MS))
            {
                let from = radio.terminal.serving();
                let next = is_user.then(|| self.ahead.pop_front()).flatten();
                let is_handed_over = match next {
                    Some(next) => {
                        radio.terminal = next;
                        radio.terminal.serving() != from
                    }
                    None => radio.terminal.advance(&self.environment, &mut self.places),
                };
                if is_user {
                    self.path.push(radio.terminal.clone());
                }
                if is_handed_over {
                    self.population.hand_over(now, place, from, delivered);
                    self.trace.handovers += u32::from(is_user);
                }
            }
            place += MOVE_MS as u32;
        }
    }

    /// Gives the user its packets.
    fn feed(&mut self, now: Timestamp, ms: u64, direction: Direction) {
        let user = self.population.get_mut(self.user);
        let Some(channel) = user.and_then(|user| user.channel_mut(direction)) else { return };
        while channel.bearer.poll_dropped().is_some() {}
        let missing = FULL_BYTES.saturating_sub(channel.bearer.backlog(now));
        let (packets, bytes) = match self.traffic {
            Traffic::Full => (missing.div_ceil(OPPORTUNITY_BYTES), OPPORTUNITY_BYTES),
            Traffic::Small if ms.is_multiple_of(SMALL_INTERVAL_MS) => (1, SMALL_BYTES),
            Traffic::Small => return,
        };
        for _ in 0..packets {
            self.offer(now, self.user, packet(now, bytes, self.sequence), direction);
            self.sequence += 1;
        }
        self.trace.missing_small += u32::from(self.traffic == Traffic::Small && ms >= WARM_UP_MS);
    }

    /// Counts a packet of the user that arrives.
    fn count(&mut self, now: Timestamp, from_start: Option<u64>, packet: &Packet) {
        let Some(from_start) = from_start else { return };
        if self.traffic == Traffic::Full {
            self.trace.deliveries_ms.push(from_start as u32 + 1);
            self.current.packets += 1;
        } else if packet.sent >= Timestamp::ZERO + TimeDelta::from_millis(WARM_UP_MS as i64) {
            self.trace.missing_small -= 1;
            let delay_ms = (now.saturating_since(packet.sent).as_nanos() / 1_000_000) as u32;
            let (count, sum, longest) = &mut self.current.small;
            (*count, *sum, *longest) = (*count + 1, *sum + delay_ms, (*longest).max(delay_ms));
        }
    }

    /// Counts a millisecond, and begins the next sample where one ends.
    fn sample(&mut self, from_start: u64, direction: Direction) {
        let Some(user) = self.population.get(self.user) else { return };
        let sinr_db = user.channel(direction).map_or(f32::NAN, Channel::sinr_db);
        if sinr_db.is_finite() {
            self.current.sinr += sinr_db;
            self.current.milliseconds += 1;
        }
        if (from_start + 1).is_multiple_of(MOVE_MS) {
            let Current { packets, sinr, milliseconds, small } = std::mem::take(&mut self.current);
            self.trace.samples.push(Sample {
                packets,
                sinr_db: sinr / milliseconds as f32,
                cell: user.terminal.serving() as u8,
                position: user.terminal.position(),
                small,
            });
        }
    }
}

const _: () = assert!(SAMPLE.as_nanos() == MOVE_MS as i64 * 1_000_000);

fn packet(now: Timestamp, bytes: u32, sequence: u64) -> Packet {
    Packet { bytes, sequence, sent: now, queued: now, ..Packet::default() }
}

/// A user at this position, and its wideband SINR at full load in dB.
fn terminal_at(
    position: Position,
    environment: &Environment,
    downlink: &DownlinkConfig,
    random: &mut Random,
) -> (Terminal, f64) {
    let power_mw = libm::pow(10.0, downlink.power_dbm / 10.0) / f64::from(downlink.blocks);
    let noise_mw = noise_per_block_mw(downlink.noise_figure_db);
    let mut drops: Vec<(f64, Terminal)> = (0..DROPS)
        .map(|_| {
            let terminal = Terminal::new(environment, random);
            (terminal.full_load_sinr_db(power_mw as f32, noise_mw), terminal)
        })
        .collect();
    drops.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (sinr_db, terminal) = drops.swap_remove((position.percentile() * DROPS as f64) as usize);
    (terminal, sinr_db)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(position: Position, load_bps: u64, seconds: i64) -> TraceConfig {
        TraceConfig {
            position,
            load: DataRate::from_bps(load_bps),
            duration: TimeDelta::from_seconds(seconds),
            ..TraceConfig::default()
        }
    }

    #[test]
    fn a_trace_is_made_again_by_its_seed() {
        let config = config(Position::Middle, 4_000_000, 2);
        let trace = Trace::new(&config).unwrap();
        assert_eq!(trace, Trace::new(&config).unwrap());
        let other = Trace::new(&TraceConfig { seed: 2, ..config }).unwrap();
        assert_ne!(trace.deliveries_ms, other.deliveries_ms);
        assert_eq!(trace.samples.len(), 20);
        let packets: u32 = trace.samples.iter().map(|sample| sample.packets).sum();
        assert_eq!(packets as usize, trace.deliveries_ms.len());
        assert!(trace.deliveries_ms.is_sorted() && trace.deliveries_ms.last() <= Some(&2000));
    }

    #[test]
    fn the_mean_rate_is_that_of_whole_samples() {
        let config = |millis| TraceConfig {
            duration: TimeDelta::from_millis(millis),
            ..config(Position::Middle, 0, 1)
        };
        let [whole, more] = [1000, 1099].map(|millis| Trace::new(&config(millis)).unwrap());
        assert!(more.deliveries_ms.len() > whole.deliveries_ms.len());
        assert!((more.mean_bps() - whole.mean_bps()).abs() < 1.0);
        let bits = f64::from(OPPORTUNITY_BYTES * 8) * whole.deliveries_ms.len() as f64;
        assert!((whole.mean_bps() - bits).abs() < 1.0, "in a second");
    }

    #[test]
    fn delays_are_those_of_the_path_of_the_capacity() {
        let mut config = config(Position::Path, 4_000_000, 5);
        config.deployment.speed_mps = 250.0 / 3.6;
        let mut full = Run::new(&config, Traffic::Full);
        assert!(full.run(&config, &|| false));
        let mut small = Run::new(&config, Traffic::Small);
        small.ahead = full.path.clone().into();
        assert!(small.run(&config, &|| false));
        let path = |run: &Run| -> Vec<_> {
            run.trace.samples.iter().map(|sample| (sample.cell, sample.position)).collect()
        };
        assert_eq!(path(&full), path(&small));
        assert!(full.trace.handovers > 0 && full.trace.handovers == small.trace.handovers);
    }

    #[test]
    fn an_empty_network_gives_the_rate_of_the_standard() {
        let trace = Trace::new(&config(Position::Centre, 0, 3)).unwrap();
        // Alone in the network, without interference: close to the peak of two streams in 50 resource blocks with MCS 28,
        // 2 × 36,696 bit in a millisecond (TS 36.213 table 7.1.7.2.1-1), and never above it.
        let mean = trace.mean_bps() / 1e6;
        assert!((55.0..73.4).contains(&mean), "{mean} Mbit/s");
        // A packet is sent at once: a millisecond on the air, three to decode, and sometimes a repetition 8 ms later.
        let delays: Vec<f64> = trace.samples.iter().filter_map(Sample::delay_ms).collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((3.5..8.0).contains(&mean), "{mean} ms");
        assert!(trace.missing_small <= 2, "{}", trace.missing_small);
    }

    #[test]
    fn rates_and_delays_follow_position_load_and_direction() {
        use Direction::{Downlink, Uplink};

        let of = |position, load, direction| {
            let config = TraceConfig { direction, ..config(position, load, 4) };
            let trace = Trace::new(&config).unwrap();
            let delays: Vec<f64> = trace.samples.iter().filter_map(Sample::delay_ms).collect();
            (trace.mean_bps() / 1e6, delays.iter().sum::<f64>() / delays.len() as f64, trace)
        };
        let (centre, _, near) = of(Position::Centre, 4_000_000, Downlink);
        let (edge, delay, far) = of(Position::Edge, 4_000_000, Downlink);
        assert!((14.0..15.9).contains(&near.wideband_sinr_db), "{}", near.wideband_sinr_db);
        assert!((-3.7..-1.5).contains(&far.wideband_sinr_db), "{}", far.wideband_sinr_db);
        assert!(centre > 2.0 * edge && edge > 0.2, "{centre} and {edge} Mbit/s");
        let (loaded, ..) = of(Position::Edge, 8_000_000, Downlink);
        assert!(loaded < edge, "{loaded} and {edge} Mbit/s");
        let (up, up_delay, _) = of(Position::Middle, 2_000_000, Uplink);
        assert!((0.5..25.0).contains(&up), "{up} Mbit/s");
        // A scheduling request comes first.
        assert!(up_delay > delay, "{up_delay} and {delay} ms");
    }

    #[test]
    fn settings_out_of_range_name_the_range() {
        let mut config = TraceConfig { load: DataRate::from_bps(13_000_000), ..TraceConfig::default() };
        let complaint = |config: &TraceConfig| Trace::new(config).unwrap_err().to_string();
        assert_eq!(complaint(&config), "load of a cell down must be 0 to 12 Mbit/s, found 13 Mbit/s");
        config = TraceConfig { direction: Direction::Uplink, ..config };
        assert_eq!(complaint(&config), "load of a cell up must be 0 to 5 Mbit/s, found 13 Mbit/s");
        config = TraceConfig { duration: TimeDelta::from_seconds(601), ..TraceConfig::default() };
        assert_eq!(complaint(&config), "duration must be 1 to 600 s, found 601 s");
        config = TraceConfig::default();
        config.deployment.speed_mps = 251.0 / 3.6;
        assert_eq!(complaint(&config), "speed must be 0 to 250 km/h, found 251 km/h");
    }
}
