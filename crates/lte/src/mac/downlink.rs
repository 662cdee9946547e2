//! The downlink of all cells: proportional fair scheduling with 2x2 spatial multiplexing.

use std::cmp::Reverse;

use giusto_sim::random::Random;
use giusto_units::Timestamp;
use rand::RngExt;

use super::{
    Radio,
    adaptation::{Best, Prediction, Report},
    channel::{Channel, Delivered, MacCounters, Population, RadioUser},
    harq::{Block, PROCESSES, Pending, ROUND_TRIP_MS},
    ladder::Ladder,
    memory::Averages,
    results::Results,
};
use crate::{
    carrier::{Carrier, MAX_GROUPS},
    radio::{
        fading::PackedSample,
        layout::CELLS,
        link::{Direction, mmse, single_layer},
        tables::{DOWNLINK_MCS, transport_block_bits},
    },
    terminal::{Environment, Terminal, decibels, noise_per_block_mw},
};

/// Time from a channel measurement until the scheduler uses it, in ms.
const REPORT_DELAY_MS: u64 = 6;

giusto_units::defaults! {
    /// Configuration of the downlink.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct DownlinkConfig {
        /// Resource blocks.
        pub blocks: u32 = 50,
        /// Transmit power of a cell in dBm. Default: 46 (40 W).
        pub power_dbm: f64 = 46.0,
        /// Noise figure of a user's receiver in dB. Default: 9.
        pub noise_figure_db: f64 = 9.0,
        /// Interval of channel reports in ms. Default: 5.
        pub report_interval_ms: u64 = 5,
        /// Users scheduled in a cell and a millisecond at most: room for downlink control information. Default: 8.
        pub max_users: usize = 8,
        /// Whether a user may receive two streams. Default: yes.
        pub two_streams: bool = true,
    }
}

/// Groups that are summed at once, and room for whole such lanes.
const LANE: usize = 4;
const LANES: usize = MAX_GROUPS.next_multiple_of(LANE);

/// A number for each resource block group.
type Groups = [f32; LANES];

/// The downlink of all cells.
#[derive(Debug)]
pub struct Downlink {
    config: DownlinkConfig,
    carrier: Carrier,
    ladder: Ladder,
    prediction: Prediction,
    /// Power of each group in mW.
    power: Groups,
    /// Noise in each group in mW.
    noise: Groups,
    /// Power that each cell transmits in each group in this millisecond, and its averages, as channel measurements see it.
    sent: Vec<Groups>,
    averages: Averages<Groups>,
    transmissions: Vec<Transmission>,
    results: Results,
    candidates: Vec<Candidate>,
    random: Random,
    counters: MacCounters,
}

/// A transmission in this millisecond.
#[derive(Debug, Clone, Copy)]
struct Transmission {
    user: u32,
    cell: usize,
    process: usize,
    /// A bit for each group.
    groups: u32,
}

/// A user with something to send.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    user: u32,
    process: usize,
    /// One over its average rate.
    weight: f32,
    /// Bits that wait.
    wanted: f32,
    /// Bits per resource element that its report permits in each group.
    rates: [f32; MAX_GROUPS],
    groups: u32,
}

impl Radio for Downlink {
    const DIRECTION: Direction = Direction::Downlink;

    fn tick(
        &mut self,
        now: Timestamp,
        ms: u64,
        environment: &Environment,
        population: &mut Population,
        delivered: &mut Vec<Delivered>,
    ) {
        self.results.handle(now, ms, population, &mut self.counters, delivered);
        self.transmissions.clear();
        for sent in &mut self.sent {
            sent.fill(0.0);
        }
        for cell in 0..CELLS {
            self.schedule(now, ms, cell, environment, population);
        }
        self.transmit(ms, environment, population);
        self.averages.add(ms, &self.sent);
    }
}

#[expect(clippy::indexing_slicing, reason = "every index is a cell or a group")]
impl Downlink {
    /// An idle downlink.
    pub fn new(config: DownlinkConfig, environment: &Environment, random: Random) -> Self {
        let carrier = Carrier::downlink(config.blocks);
        let total = libm::pow(10.0, config.power_dbm / 10.0);
        let noise = noise_per_block_mw(config.noise_figure_db);
        // The last report may be an interval old.
        let age_ms = REPORT_DELAY_MS as f64 + (config.report_interval_ms as f64 - 1.0) / 2.0;
        Self {
            config,
            carrier,
            ladder: Ladder::new(&environment.model, carrier, &DOWNLINK_MCS),
            prediction: Prediction::new(environment.deployment.doppler_hz(), age_ms),
            power: std::array::from_fn(|group| carrier.group_power_mw(group, total, config.blocks)),
            noise: std::array::from_fn(|group| noise * carrier.blocks_of(group).max(1) as f32),
            sent: vec![[0.0; LANES]; CELLS],
            averages: Averages::new(CELLS, config.report_interval_ms),
            transmissions: Vec::new(),
            results: Results::new(Direction::Downlink),
            candidates: Vec::new(),
            random,
            counters: MacCounters::default(),
        }
    }

    /// Counters since the start.
    pub fn counters(&self) -> MacCounters {
        self.counters
    }

    /// Assigns the groups of `cell`: retransmissions first, then proportional fair, group by group.
    fn schedule(
        &mut self,
        now: Timestamp,
        ms: u64,
        cell: usize,
        environment: &Environment,
        population: &mut Population,
    ) {
        let groups = self.carrier.groups();
        let all = (1_u32 << groups) - 1;
        let mut free = all;
        let mut scheduled = 0;
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        for place in 0..population.members(cell).len() {
            let Some(&user) = population.members(cell).get(place) else { break };
            if !population.is_busy(user, Direction::Downlink) {
                continue;
            }
            let Some(RadioUser { terminal, downlink: Some(channel), .. }) = population.get_mut(user) else {
                continue;
            };
            if channel.is_idle() {
                population.set_busy(user, Direction::Downlink, false);
                continue;
            }
            channel.bearer.run_timer(now);
            let backlog = channel.bearer.backlog(now);
            let has_room = free != 0 && scheduled < self.config.max_users;
            if channel.retransmit == 0 && (backlog == 0 || channel.holding == u8::MAX) || !has_room {
                continue;
            }
            self.update_report(ms, environment, terminal, channel);
            if channel.retransmit != 0 {
                let process = channel.retransmit.trailing_zeros() as usize;
                let count = channel.processes[process].groups.1;
                let used = best_groups(&channel.report, free, count);
                free &= !used;
                scheduled += 1;
                self.transmissions.push(Transmission { user, cell, process, groups: used });
                continue;
            }
            let process = channel.holding.trailing_ones() as usize;
            let (weight, wanted) = (1.0 / channel.average(ms), (backlog + 5) as f32 * 8.0);
            let rates = channel.report.rates;
            candidates.push(Candidate { user, process, weight, wanted, rates, groups: 0 });
        }
        self.assign(free, scheduled, &mut candidates);
        for candidate in &candidates {
            let Some(channel) = population.get_mut(candidate.user).and_then(|user| user.downlink.as_mut())
            else {
                continue;
            };
            if candidate.groups == 0 {
                continue;
            }
            let bits = self.begin(now, channel, candidate);
            if bits > 0 {
                let Candidate { user, process, groups, .. } = *candidate;
                channel.hold(process);
                channel.on_scheduled(ms, bits);
                self.transmissions.push(Transmission { user, cell, process, groups });
            }
        }
        self.candidates = candidates;
        self.counters.groups += groups as u64;
    }

    /// Gives each free group to the candidate with the highest ratio of rate to average rate.
    fn assign(&self, free: u32, scheduled: usize, candidates: &mut [Candidate]) {
        let mut users = scheduled;
        let best_of = |candidates: &[Candidate], users: usize| {
            let open = candidates.iter().enumerate().filter(|(_, candidate)| {
                candidate.wanted > 0.0 && (candidate.groups != 0 || users < self.config.max_users)
            });
            Best::new(0.0, open.map(|(place, candidate)| (place, &candidate.rates, candidate.weight)))
        };
        let mut best = best_of(candidates, users);
        for group in groups_of(free) {
            let Some(candidate) = candidates.get_mut(best.place[group] as usize) else { continue };
            let is_first = candidate.groups == 0;
            users += usize::from(is_first);
            candidate.groups |= 1 << group;
            candidate.wanted -=
                candidate.rates[group] * (self.carrier.blocks_of(group) * self.carrier.elements) as f32;
            if candidate.wanted <= 0.0 || is_first && users == self.config.max_users {
                best = best_of(candidates, users);
            }
        }
    }

    /// Chooses the schemes of a new transmission and fills its blocks. Returns their bits.
    fn begin(&mut self, now: Timestamp, channel: &mut Channel, candidate: &Candidate) -> u32 {
        let blocks = groups_of(candidate.groups).map(|group| self.carrier.blocks_of(group)).sum();
        let (mut total, streams) = (0, usize::from(channel.report.rank));
        for stream in 0..streams {
            let scheme = self.scheme(channel, candidate.groups, stream);
            let bits = transport_block_bits(scheme.i_tbs, blocks);
            let content = channel.bearer.fill(now, bits / 8);
            if content.is_empty() {
                break;
            }
            total += bits;
            let process = &mut channel.processes[candidate.process];
            process.groups = (0, candidate.groups.count_ones() as u8);
            process.blocks[stream] = Some(Block::new(content, bits, scheme.modulation, None));
        }
        total
    }

    /// The scheme for a stream in these groups.
    fn scheme(&self, channel: &Channel, groups: u32, stream: usize) -> super::ladder::Scheme {
        let (mut sum, mut blocks) = (0.0, 0.0);
        for group in groups_of(groups) {
            let size = self.carrier.blocks_of(group) as f32;
            sum += size * self.ladder.efficiency(channel.report.quality(group, stream));
            blocks += size;
        }
        self.ladder.scheme(self.ladder.sinr_db(sum / blocks) + channel.outer.offset_db())
    }

    /// Sends everything that was scheduled and draws which blocks are decoded.
    fn transmit(&mut self, ms: u64, environment: &Environment, population: &mut Population) {
        for transmission in &self.transmissions {
            for group in groups_of(transmission.groups) {
                self.sent[transmission.cell][group] = self.power[group];
            }
        }
        for &Transmission { user, cell, process, groups } in &self.transmissions {
            let Some(radio) = population.get_mut(user) else { continue };
            let Some(channel) = radio.downlink.as_mut() else { continue };
            let snr = self.mean_sinr(ms, environment, &radio.terminal, cell, &self.sent, groups);
            let samples = radio.terminal.channel(&environment.fading, cell, ms);
            channel.retransmit &= !(1 << process);
            let sending = &mut channel.processes[process];
            let streams = sending.blocks.iter().flatten().count();
            let (mut both, mut sum) = ([0.0_f32; 2], 0.0);
            let count = groups.count_ones();
            // Information per coded bit of each block.
            let modulations =
                [0, 1].map(|stream: usize| sending.blocks[stream].as_ref().map(|block| block.modulation));
            for group in groups_of(groups) {
                let sample = &samples[group].unpack();
                let sinr = if streams == 2 {
                    mmse(sample, snr[group])
                } else {
                    [single_layer(sample, snr[group]); 2]
                };
                sum += snr[group] * (sample.a + sample.b) * 0.25;
                for stream in 0..2 {
                    if let Some(modulation) = modulations[stream] {
                        both[stream] += environment.model.information_of(modulation, sinr[stream]);
                    }
                }
            }
            channel.sinr_db = decibels(sum / count as f32);
            let blocks: u32 = groups_of(groups).map(|group| self.carrier.blocks_of(group)).sum();
            let elements = blocks * self.carrier.elements;
            for (block, information) in sending.blocks.iter_mut().zip(both) {
                let Some(block) = block else { continue };
                block.receive(&environment.model, information / count as f32, elements, self.random.random());
                self.counters.blocks += 1;
            }
            self.counters.transmissions += 1;
            self.counters.two_streams += u64::from(streams == 2);
            self.counters.used_groups += u64::from(count);
            let pending = Pending { user, epoch: channel.epoch, process };
            self.results.expect(ms, pending);
        }
    }

    /// Mean SINR in each of `groups`: the power of the serving cell without fast fading over noise and interference, in which the
    /// strongest interferers fade.
    fn mean_sinr(
        &self,
        ms: u64,
        environment: &Environment,
        terminal: &Terminal,
        cell: usize,
        sent: &[Groups],
        groups: u32,
    ) -> Groups {
        // Reading the fading is bound by memory: it is begun first.
        let fading =
            terminal.strongest().map(|other| (other, terminal.interferer(&environment.fading, other, ms)));
        let mut gains = *terminal.gains();
        gains[cell] = 0.0;
        let mut interference = self.noise;
        for (lane, sums) in interference.as_chunks_mut::<LANE>().0.iter_mut().enumerate() {
            if groups >> (lane * LANE) & ((1 << LANE) - 1) == 0 {
                continue;
            }
            for (gain, sent) in gains.iter().zip(sent) {
                for (sum, power) in sums.iter_mut().zip(&sent.as_chunks::<LANE>().0[lane]) {
                    *sum += gain * power;
                }
            }
        }
        for (other, powers) in fading {
            // Its gain is 0 if it is the serving cell.
            let gain = gains[other];
            for group in groups_of(groups) {
                let power = sent[other][group];
                if power > 0.0 {
                    interference[group] += gain * power * (powers[group].unpack() - 1.0);
                }
            }
        }
        let gain = terminal.gain(cell);
        let mut sinr = [0.0; LANES];
        for group in groups_of(groups) {
            // Without rounding errors the noise remains.
            sinr[group] = gain * self.power[group] / interference[group].max(self.noise[group]);
        }
        sinr
    }

    /// Computes the report that the scheduler uses at `ms`, unless it has it.
    fn update_report(&self, ms: u64, environment: &Environment, terminal: &Terminal, channel: &mut Channel) {
        let measured = self.averages.measured_by(ms.saturating_sub(REPORT_DELAY_MS));
        if channel.measured == Some(measured) {
            return;
        }
        channel.measured = Some(measured);
        let groups = (1_u32 << self.carrier.groups()) - 1;
        let (cell, sent) = (terminal.serving(), self.averages.at(measured));
        let snr = self.mean_sinr(measured, environment, terminal, cell, sent, groups);
        let samples = terminal.channel(&environment.fading, cell, measured);
        channel.report = self.report(samples, &snr);
    }

    fn report(&self, samples: &[PackedSample], snr: &Groups) -> Report {
        let mut report = Report::default();
        let groups = self.carrier.groups();
        let (mut one, mut two) = (0.0, 0.0);
        for group in 0..groups {
            let sample = &samples[group].unpack();
            report.one[group] = self.ladder.quality(single_layer(sample, snr[group]));
            one += self.ladder.efficiency(report.one[group]);
            if self.config.two_streams {
                report.two[group] = mmse(sample, snr[group]).map(|sinr| self.ladder.quality(sinr));
                two += report.two[group].map(|quality| self.ladder.efficiency(quality)).iter().sum::<f32>();
            }
        }
        if two > one {
            report.rank = 2;
        }
        report.predict(self.prediction, groups);
        for group in 0..groups {
            let streams = 0..usize::from(report.rank);
            let rates = streams.map(|stream| self.ladder.efficiency(report.quality(group, stream)));
            report.rates[group] = rates.sum();
        }
        report
    }
}

/// The places of the bits that are set.
pub(super) fn groups_of(mut groups: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let group = (groups != 0).then(|| groups.trailing_zeros() as usize)?;
        groups &= groups - 1;
        Some(group)
    })
}

/// The `count` groups with the highest quality of the first stream among `free`, or fewer.
fn best_groups(report: &Report, mut free: u32, count: u8) -> u32 {
    let all = free;
    for _ in 0..count {
        let best = groups_of(free).max_by_key(|&group| (report.quality(group, 0), Reverse(group)));
        let Some(best) = best else { break };
        free &= !(1 << best);
    }
    all & !free
}

const _: () = assert!(PROCESSES == ROUND_TRIP_MS as usize);
