//! The uplink of all cells: scheduling requests, grants of contiguous blocks, power control, two receive antennas.

use std::cmp::Reverse;

use giusto_sim::random::Random;
use giusto_units::Timestamp;
use rand::RngExt;

use super::{
    Radio,
    adaptation::{Best, Prediction},
    channel::{Channel, Delivered, MacCounters, Population, RadioUser},
    downlink::groups_of,
    harq::{Block, Calendar, DECODE_MS, PROCESSES, Pending, ROUND_TRIP_MS},
    ladder::{Ladder, Scheme},
    memory::Averages,
    results::{Results, channel_of},
};
use crate::{
    bearer::BLOCK_HEADER,
    carrier::{Carrier, MAX_GROUPS},
    radio::{
        layout::CELLS,
        link::{Direction, maximum_ratio},
        tables::{UPLINK_MCS, UPLINK_MCS_16QAM, transport_block_bits},
    },
    terminal::{Environment, Terminal, decibels, from_decibels, noise_per_block_mw},
};

/// Time from a grant until the transmission, in ms (TS 36.213 §8: n + 4).
const GRANT_MS: u64 = 4;

/// An interferer that makes up more than this share of the interference in a group fades; the others count with their mean.
const FADING_SHARE: f32 = 0.15;

giusto_units::defaults! {
    /// Configuration of the uplink.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct UplinkConfig {
        /// Resource blocks of the carrier, those for control information included.
        pub blocks: u32 = 50,
        /// Largest transmit power of a user in dBm (TS 36.101 §6.2.2, class 3). Default: 23.
        pub power_dbm: f64 = 23.0,
        /// `P0` of open-loop power control in dBm per resource block (TS 36.213 §5.1.1.1). Default: -84, with which the
        /// mean interference over noise stays below 10 dB at full load, as evaluations demand (ITU-R M.2135 §7.1).
        pub target_dbm: f64 = -84.0,
        /// Share of the path loss that is compensated: `alpha` of TS 36.213 §5.1.1.1. Default: 0.8.
        pub compensation: f64 = 0.8,
        /// Noise figure of the base station in dB. Default: 5.
        pub noise_figure_db: f64 = 5.0,
        /// Interval of opportunities for scheduling requests in ms (TS 36.213 §10.1.5: 5 to 80). Default: 10.
        pub request_interval_ms: u64 = 10,
        /// Interval of sounding in ms (TS 36.213 §8.2: 2 to 320). Default: 10.
        pub sounding_interval_ms: u64 = 10,
        /// Users scheduled in a cell and a millisecond at most. Default: 8.
        pub max_users: usize = 8,
    }
}

/// The uplink of all cells.
#[derive(Debug)]
pub struct Uplink {
    config: UplinkConfig,
    carrier: Carrier,
    ladder: Ladder,
    prediction: Prediction,
    /// Noise in a group, and the largest transmit power of a user, in mW.
    noise: f32,
    limit: f32,
    /// Interference in each cell and group without fast fading, and its averages for link adaptation.
    interference: Vec<[f32; MAX_GROUPS]>,
    averages: Averages<[f32; MAX_GROUPS]>,
    /// Transmissions by the time at which they take place.
    granted: Calendar<Grant>,
    sending: Vec<Grant>,
    /// Power per group of each of them in each cell without fast fading, in mW, and those that may fade in the present cell.
    received: Vec<[f32; CELLS]>,
    fading: Vec<Interferer>,
    results: Results,
    candidates: Vec<Candidate>,
    random: Random,
    counters: MacCounters,
    /// Sum of the interference over the noise in dB, and their number.
    over_noise: (f64, u64),
}

/// A transmission of a user.
#[derive(Debug, Clone, Copy)]
struct Grant {
    user: u32,
    epoch: u32,
    cell: usize,
    process: usize,
    groups: u32,
    /// Scheme of a new block and what its buffer status report needs; a retransmission keeps its own.
    new: Option<(Scheme, u64)>,
    /// Transmit power per group in mW.
    power: f32,
}

/// A transmission in another cell whose fast fading may count.
#[derive(Debug, Clone, Copy)]
struct Interferer {
    user: u32,
    groups: u32,
    /// Mean received power per group in mW.
    mean: f32,
}

/// A user with something to send.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    user: u32,
    /// One over its average rate.
    weight: f32,
    /// Bits that wait.
    wanted: f32,
    /// Bits in each group.
    rates: [f32; MAX_GROUPS],
    /// Transmit power per group in mW, and the groups that it permits at most.
    power: f32,
    most: u32,
    groups: u32,
}

impl Radio for Uplink {
    const DIRECTION: Direction = Direction::Uplink;

    fn tick(
        &mut self,
        now: Timestamp,
        ms: u64,
        environment: &Environment,
        population: &mut Population,
        delivered: &mut Vec<Delivered>,
    ) {
        self.results.handle(now, ms, population, &mut self.counters, delivered);
        self.transmit(now, ms, environment, population);
        for cell in 0..CELLS {
            self.schedule(now, ms, cell, environment, population);
        }
    }
}

#[expect(clippy::indexing_slicing, reason = "every index is a cell or a group")]
impl Uplink {
    /// An idle uplink.
    pub fn new(config: UplinkConfig, environment: &Environment, random: Random) -> Self {
        let carrier = Carrier::uplink(config.blocks);
        let noise = noise_per_block_mw(config.noise_figure_db) * carrier.group as f32;
        // The last measurement may be an interval old.
        let age_ms = (DECODE_MS + GRANT_MS) as f64 + (config.sounding_interval_ms as f64 - 1.0) / 2.0;
        Self {
            config,
            carrier,
            prediction: Prediction::new(environment.deployment.doppler_hz(), age_ms),
            ladder: Ladder::new(&environment.model, carrier, &UPLINK_MCS[..UPLINK_MCS_16QAM]),
            noise,
            limit: from_decibels(config.power_dbm as f32),
            interference: vec![[0.0; MAX_GROUPS]; CELLS],
            averages: Averages::new(CELLS, config.sounding_interval_ms),
            granted: Calendar::new(ROUND_TRIP_MS as usize),
            sending: Vec::new(),
            received: Vec::new(),
            fading: Vec::new(),
            results: Results::new(Direction::Uplink),
            candidates: Vec::new(),
            random,
            counters: MacCounters::default(),
            over_noise: (0.0, 0),
        }
    }

    /// Counters since the start.
    pub fn counters(&self) -> MacCounters {
        self.counters
    }

    /// Mean of the interference over the noise (`IoT`) in dB, over all cells and groups.
    pub fn interference_over_noise_db(&self) -> f64 {
        self.over_noise.0 / (self.over_noise.1 as f64).max(1.0)
    }

    /// Sends everything that was granted for now and draws which blocks are decoded.
    fn transmit(&mut self, now: Timestamp, ms: u64, environment: &Environment, population: &mut Population) {
        let mut sending = std::mem::take(&mut self.sending);
        self.granted.take(ms, &mut sending);
        // Fill the new blocks; a grant that has nothing to carry sends padding.
        sending.retain(|grant| {
            let Some(channel) = channel_of(population, Direction::Uplink, grant.user, grant.epoch) else {
                return false;
            };
            let Some((scheme, granted)) = grant.new else {
                return !channel.processes[grant.process].is_free();
            };
            let blocks = grant.groups.count_ones() * self.carrier.group;
            let bits = transport_block_bits(scheme.i_tbs, blocks);
            let content = channel.bearer.fill(now, bits / 8);
            let report = channel.status.sent(granted, channel.bearer.backlog(now));
            let process = &mut channel.processes[grant.process];
            process.groups = (grant.groups.trailing_zeros() as u8, grant.groups.count_ones() as u8);
            process.blocks[0] = Some(Block::new(content, bits, scheme.modulation, Some(report)));
            channel.hold(grant.process);
            true
        });
        for sums in &mut self.interference {
            sums.fill(0.0);
        }
        self.received.clear();
        for grant in &sending {
            let gains = population.get(grant.user).map_or([0.0; CELLS], |radio| *radio.terminal.gains());
            let received = gains.map(|gain| gain * grant.power);
            for (cell, (power, sums)) in received.iter().zip(&mut self.interference).enumerate() {
                if cell != grant.cell {
                    for group in groups_of(grant.groups) {
                        sums[group] += power;
                    }
                }
            }
            self.received.push(received);
        }
        for in_cell in sending.chunk_by(|a, b| a.cell == b.cell) {
            self.find_fading(in_cell, &sending);
            for grant in in_cell {
                self.receive(ms, grant, environment, population);
            }
        }
        let groups = self.carrier.groups();
        self.averages.add(ms, &self.interference);
        if ms.is_multiple_of(10) {
            for average in self.averages.present().iter().flat_map(|sums| &sums[..groups]) {
                self.over_noise.0 += f64::from(decibels((average + self.noise) / self.noise));
                self.over_noise.1 += 1;
            }
        }
        self.counters.groups += (groups * CELLS) as u64;
        self.sending = sending;
    }

    /// Finds who may make up enough of the interference in a group of `in_cell`, the transmissions in one cell, to fade.
    fn find_fading(&mut self, in_cell: &[Grant], sending: &[Grant]) {
        self.fading.clear();
        let Some(cell) = in_cell.first().map(|grant| grant.cell) else { return };
        let used = in_cell.iter().fold(0, |used, grant| used | grant.groups);
        let lowest =
            groups_of(used).map(|group| self.interference[cell][group]).fold(f32::INFINITY, f32::min);
        for (other, received) in sending.iter().zip(&self.received) {
            let mean = received[cell];
            if mean >= FADING_SHARE * lowest && other.cell != cell && other.groups & used != 0 {
                self.fading.push(Interferer { user: other.user, groups: other.groups, mean });
            }
        }
    }

    /// Receives one transmission in its cell.
    fn receive(&mut self, ms: u64, grant: &Grant, environment: &Environment, population: &mut Population) {
        let mut interference = self.interference[grant.cell];
        for other in &self.fading {
            let common = other.groups & grant.groups;
            if common == 0 {
                continue;
            }
            let strongest = common.trailing_zeros() as usize;
            if other.mean < FADING_SHARE * self.interference[grant.cell][strongest] {
                continue;
            }
            let Some(radio) = population.get(other.user) else { continue };
            let powers = radio.terminal.first(&environment.fading, grant.cell, ms);
            for group in groups_of(common) {
                // One transmit and two receive antennas: the mean of the column is 2.
                interference[group] += other.mean * (powers[group].unpack() * 0.5 - 1.0);
            }
        }
        let Some(radio) = population.get_mut(grant.user) else { return };
        let Some(channel) = radio.uplink.as_mut() else { return };
        let powers = radio.terminal.first(&environment.fading, grant.cell, ms);
        channel.retransmit &= !(1 << grant.process);
        let process = &mut channel.processes[grant.process];
        let Some(block) = process.blocks[0].as_mut() else { return };
        let signal = radio.terminal.gain(grant.cell) * grant.power;
        let mut equalised = Equalised::default();
        for group in groups_of(grant.groups) {
            let noise = interference[group].max(0.0) + self.noise;
            equalised.add(maximum_ratio(powers[group].unpack(), signal / noise));
        }
        let (count, sinr) = (grant.groups.count_ones(), equalised.sinr());
        channel.sinr_db = decibels(sinr);
        let information = environment.model.information_of(block.modulation, sinr);
        let elements = count * self.carrier.group * self.carrier.elements;
        block.receive(&environment.model, information, elements, self.random.random());
        self.counters.blocks += 1;
        self.counters.transmissions += 1;
        self.counters.used_groups += u64::from(count);
        let pending = Pending { user: grant.user, epoch: grant.epoch, process: grant.process };
        self.results.expect(ms, pending);
    }

    /// Grants the groups of `cell` in the millisecond [`GRANT_MS`] ahead.
    fn schedule(
        &mut self,
        now: Timestamp,
        ms: u64,
        cell: usize,
        environment: &Environment,
        population: &mut Population,
    ) {
        let at = ms + GRANT_MS;
        // A process belongs to a millisecond: retransmissions are synchronous (TS 36.321 §5.4.2.1).
        let process = (at % PROCESSES as u64) as usize;
        let mut free = (1_u32 << self.carrier.groups()) - 1;
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        for place in 0..population.members(cell).len() {
            let Some(&user) = population.members(cell).get(place) else { break };
            if !population.is_busy(user, Direction::Uplink) {
                continue;
            }
            let Some(RadioUser { terminal, uplink: Some(channel), .. }) = population.get_mut(user) else {
                continue;
            };
            channel.bearer.run_timer(now);
            // Each user has opportunities of its own.
            let interval = self.config.request_interval_ms;
            let (backlog, is_sending) = (channel.bearer.backlog(now), channel.holding != 0);
            channel.status.request(ms, backlog, is_sending, u64::from(user) % interval, interval);
            if channel.is_idle() && channel.holding == 0 {
                population.set_busy(user, Direction::Uplink, false);
                continue;
            }
            let used = &channel.processes[process];
            if let Some(block) = &used.blocks[0] {
                // A block that is decoded by now, or given up, leaves its process before the next transmission.
                if !block.decoded && block.transmissions < super::harq::MAX_TRANSMISSIONS {
                    let (first, count) = used.groups;
                    let groups = ((1_u32 << count) - 1) << first;
                    free &= !groups;
                    let (epoch, power) = (channel.epoch, self.power(terminal, channel));
                    self.granted.add(at, Grant { user, epoch, cell, process, groups, new: None, power });
                    continue;
                }
            }
            let known = channel.status.known();
            if known == 0 {
                continue;
            }
            self.update_report(ms, environment, terminal, channel);
            // Groups that it can fill without lowering its power per block: at least one.
            let power = self.power(terminal, channel);
            let most = ((self.limit / power) as u32).clamp(1, self.carrier.groups() as u32);
            let (weight, wanted) = (1.0 / channel.average(ms), (known + BLOCK_HEADER) as f32 * 8.0);
            let rates = channel.report.rates;
            candidates.push(Candidate { user, weight, wanted, rates, power, most, groups: 0 });
        }
        self.assign(free, &mut candidates);
        for candidate in &candidates {
            let Some(radio) = population.get_mut(candidate.user) else { continue };
            let power = candidate.power;
            let Some(channel) = radio.uplink.as_mut() else { continue };
            if candidate.groups == 0 {
                continue;
            }
            let (user, groups, epoch) = (candidate.user, candidate.groups, channel.epoch);
            let scheme = self.scheme(channel, groups);
            let bits = transport_block_bits(scheme.i_tbs, groups.count_ones() * self.carrier.group);
            let granted = channel.status.granted((bits / 8).saturating_sub(BLOCK_HEADER));
            channel.on_scheduled(ms, bits);
            self.granted
                .add(at, Grant { user, epoch, cell, process, groups, new: Some((scheme, granted)), power });
        }
        self.candidates = candidates;
    }

    /// Transmit power of a user per group in mW: open-loop power control.
    fn power(&self, terminal: &Terminal, channel: &mut Channel) -> f32 {
        let gain = terminal.gain(terminal.serving());
        // It changes only when the user has moved.
        if channel.power.0.to_bits() != gain.to_bits() {
            let per_block = self.config.target_dbm as f32 - self.config.compensation as f32 * decibels(gain);
            let group_db = decibels(self.carrier.group as f32);
            let limit = self.config.power_dbm as f32;
            channel.power = (gain, from_decibels((per_block + group_db).min(limit)));
        }
        channel.power.1
    }

    /// Gives contiguous groups to the candidates: the one with the highest metric takes its best group and those around it as
    /// long as its metric is the highest there (recursive maximum expansion, Temiño et al., "Channel-aware scheduling
    /// algorithms for SC-FDMA in LTE uplink", PIMRC 2008); then what is left goes to neighbours that want more.
    fn assign(&self, mut free: u32, candidates: &mut [Candidate]) {
        let best_of = |candidates: &[Candidate]| {
            let open = candidates.iter().enumerate().filter(|(_, candidate)| candidate.groups == 0);
            Best::new(-1.0, open.map(|(place, candidate)| (place, &candidate.rates, candidate.weight)))
        };
        let mut best = best_of(candidates);
        for _ in 0..self.config.max_users {
            let mut first: Option<usize> = None;
            for group in groups_of(free) {
                let rank = |group: usize| (best.metric[group], Reverse(best.place[group]));
                if first.is_none_or(|first| rank(group) > rank(first)) {
                    first = Some(group);
                }
            }
            let Some(group) = first else { break };
            let place = best.place[group] as usize;
            let Some(&candidate) = candidates.get(place) else { break };
            let (mut low, mut high) = (group, group);
            let mut wanted = candidate.wanted - candidate.rates[group];
            let mut count = 1;
            while wanted > 0.0 && count < candidate.most {
                let next = |group: usize| {
                    let own = candidate.rates[group] * candidate.weight;
                    (free & 1 << group != 0 && own >= best.metric[group]).then(|| candidate.rates[group])
                };
                let up = (high + 1 < self.carrier.groups()).then(|| next(high + 1)).flatten();
                let down = low.checked_sub(1).and_then(next);
                match (down, up) {
                    (None, None) => break,
                    (Some(below), above) if above.is_none_or(|above| below >= above) => {
                        low -= 1;
                        wanted -= below;
                    }
                    (_, above) => {
                        high += 1;
                        wanted -= above.unwrap_or(0.0);
                    }
                }
                count += 1;
            }
            let taken = ((1_u32 << count) - 1) << low;
            candidates[place].groups = taken;
            candidates[place].wanted = wanted;
            free &= !taken;
            if groups_of(free).any(|group| best.place[group] as usize == place) {
                best = best_of(candidates);
            }
        }
        Self::extend(free, candidates);
        for candidate in candidates.iter_mut() {
            candidate.groups = transformable(candidate.groups);
        }
    }

    /// Gives free groups to neighbours that want more.
    fn extend(mut free: u32, candidates: &mut [Candidate]) {
        for candidate in candidates.iter_mut().filter(|candidate| candidate.groups != 0) {
            while candidate.wanted > 0.0 && candidate.groups.count_ones() < candidate.most {
                let around = (candidate.groups << 1 | candidate.groups >> 1) & free;
                if around == 0 {
                    break;
                }
                let group = around.trailing_zeros() as usize;
                candidate.groups |= 1 << group;
                candidate.wanted -= candidate.rates[group];
                free &= !(1 << group);
            }
        }
    }

    /// The scheme for these groups.
    fn scheme(&self, channel: &Channel, groups: u32) -> Scheme {
        let mut equalised = Equalised::default();
        for group in groups_of(groups) {
            equalised.add(self.ladder.sinr(channel.report.quality(group, 0)));
        }
        self.ladder.scheme(decibels(equalised.sinr()) + channel.outer.offset_db())
    }

    /// Computes the measurement that the scheduler uses at `ms`, unless it has it.
    fn update_report(&self, ms: u64, environment: &Environment, terminal: &Terminal, channel: &mut Channel) {
        let measured = self.averages.measured_by(ms.saturating_sub(DECODE_MS));
        if channel.measured == Some(measured) {
            return;
        }
        channel.measured = Some(measured);
        let cell = terminal.serving();
        let interference = &self.averages.at(measured)[cell];
        let powers = terminal.first(&environment.fading, cell, measured);
        let signal = terminal.gain(cell) * self.power(terminal, channel);
        let elements = (self.carrier.group * self.carrier.elements) as f32;
        for (group, power) in powers.iter().enumerate().take(self.carrier.groups()) {
            let sinr = maximum_ratio(power.unpack(), signal / (interference[group] + self.noise));
            channel.report.one[group] = self.ladder.quality(sinr);
        }
        channel.report.predict(self.prediction, self.carrier.groups());
        for (rate, &quality) in channel.report.rates.iter_mut().zip(&channel.report.one) {
            *rate = self.ladder.efficiency(quality) * elements;
        }
    }
}

/// The SINR of a single-carrier signal behind a linear MMSE equaliser: m / (1 - m), where m is the mean of s / (1 + s) over the
/// SINR s of its subcarriers (Sari, Karam and Jeanclaude, "Transmission techniques for digital terrestrial TV broadcasting", IEEE
/// Communications Magazine 33(2), 1995). It is below the mean: a faded subcarrier harms all symbols.
#[derive(Debug, Clone, Copy, Default)]
struct Equalised {
    sum: f32,
    count: f32,
}

impl Equalised {
    fn add(&mut self, sinr: f32) {
        self.sum += sinr / (1.0 + sinr);
        self.count += 1.0;
    }

    fn sinr(self) -> f32 {
        self.sum / (self.count - self.sum).max(f32::MIN_POSITIVE)
    }
}

/// The largest number of contiguous groups, from the first on, that a transform of lengths 2, 3 and 5 permits
/// (TS 36.211 §5.3.3).
fn transformable(groups: u32) -> u32 {
    let mut count = groups.count_ones();
    while count > 0 && !is_smooth(count) {
        count -= 1;
    }
    if count == 0 { 0 } else { ((1_u32 << count) - 1) << groups.trailing_zeros() }
}

/// Whether it has no prime factor above 5.
fn is_smooth(mut number: u32) -> bool {
    for factor in [2, 3, 5] {
        while number.is_multiple_of(factor) {
            number /= factor;
        }
    }
    number == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faded_subcarrier_harms_the_whole_signal() {
        let of = |sinrs: &[f32]| {
            let mut equalised = Equalised::default();
            for &sinr in sinrs {
                equalised.add(sinr);
            }
            equalised.sinr()
        };
        assert!((of(&[3.0, 3.0]) - 3.0).abs() < 1e-5);
        // m = (0.9 + 0) / 2.
        assert!((of(&[9.0, 0.0]) - 0.45 / 0.55).abs() < 1e-5);
    }

    #[test]
    fn allocations_have_permitted_lengths() {
        assert_eq!(transformable(0b1111_1110), 0b111_1110, "7 becomes 6");
        assert_eq!(transformable(0b111), 0b111);
        assert_eq!(transformable(0), 0);
        let permitted: Vec<u32> = (1..=16).filter(|&count| is_smooth(count)).collect();
        assert_eq!(permitted, [1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16]);
    }
}
