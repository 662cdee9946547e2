//! Packet fates per 250 ms of send time, and the average loss.

use alloc::vec::Vec;

use giusto_units::{DataRate, DataSize, Timestamp, math};

use super::config::{Measure, ModelConfig};
use crate::{
    feedback::PacketReport,
    gcc::arithmetic::{scaled, sum},
};

/// The fate of the packets in one interval of send time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observation {
    /// Number, starting at zero.
    id: u64,
    packets: u64,
    lost_packets: u64,
    size: DataSize,
    lost_size: DataSize,
    /// Amounts of data sent and lost.
    pub(super) counts: Counts,
    /// Their send rate.
    pub(super) send_rate: DataRate,
}

/// Data of an observation: packets, or thousands of bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counts {
    pub(super) lost: f64,
    pub(super) received: f64,
    pub(super) all: f64,
}

impl Counts {
    /// Counts packets or their size: all of them, and the lost ones.
    fn of(measure: Measure, all: (u64, DataSize), lost: (u64, DataSize)) -> Self {
        let (lost, received, all) = match measure {
            Measure::Bytes => (thousands(lost.1), thousands(all.1.saturating_sub(lost.1)), thousands(all.1)),
            Measure::Packets => (lost.0 as f64, all.0.saturating_sub(lost.0) as f64, all.0 as f64),
        };
        Self { lost, received, all }
    }
}

/// The stored observations, and the incomplete one.
#[derive(Debug, Clone, Default)]
pub(super) struct Observations {
    /// Observation `id` is stored at `id` modulo the length.
    kept: Vec<Option<Observation>>,
    /// Weights in the objective and in the average, by age.
    weights: Vec<f64>,
    average_weights: Vec<f64>,
    /// Total number of completed observations.
    made: u64,
    /// Send time of the last packet of the latest observation. Before the first observation: of the first
    /// packet.
    end: Option<Timestamp>,
    packets: u64,
    size: DataSize,
    /// Packets that are currently regarded as lost, by sequence number.
    lost: Vec<(u64, DataSize)>,
    /// Scratch space for the median.
    rates: Vec<DataRate>,
    average_loss: f64,
}

impl Observations {
    pub(super) fn new(config: &ModelConfig) -> Self {
        let powers = |factor: f64| {
            let ages = 0..config.observations_kept;
            ages.map(|age| math::powi(factor, u32::try_from(age).unwrap_or(u32::MAX))).collect()
        };
        Self {
            kept: vec![None; config.observations_kept],
            weights: powers(config.temporal_weight),
            average_weights: powers(config.average_weight),
            rates: Vec::with_capacity(config.observations_kept),
            ..Self::default()
        }
    }

    /// Total number of completed observations.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// The end of the latest observation in send time: the clock of the model.
    pub(super) fn end(&self) -> Option<Timestamp> {
        self.end
    }

    /// The average loss over all observations, with higher weight on newer ones: 0 to 1.
    pub(super) fn average_loss(&self) -> f64 {
        self.average_loss
    }

    /// The stored observations, each with its weight in the objective.
    pub(super) fn weighted(&self) -> impl Iterator<Item = (f64, &Observation)> {
        self.by_age(&self.weights)
    }

    fn by_age<'a>(&'a self, weights: &'a [f64]) -> impl Iterator<Item = (f64, &'a Observation)> {
        let latest = self.made.saturating_sub(1);
        self.kept.iter().flatten().filter_map(move |observation| {
            let age = usize::try_from(latest.saturating_sub(observation.id)).ok()?;
            Some((*weights.get(age)?, observation))
        })
    }

    /// Processes the fate of `packets`. Returns whether that completed an observation.
    ///
    /// A packet that is reported as lost and then as received counts as received, but is counted twice as
    /// sent. libwebrtc does the same.
    pub(super) fn take(&mut self, config: &ModelConfig, packets: &[PacketReport]) -> bool {
        let Some(any) = packets.first().map(|packet| packet.sent.at) else { return false };
        let (mut first, mut last) = (any, any);
        for packet in packets {
            (first, last) = (first.min(packet.sent.at), last.max(packet.sent.at));
            self.count(packet);
        }
        let duration = last - *self.end.get_or_insert(first);
        if duration < config.observation_duration {
            return false;
        }
        let Some(rate) = DataRate::of(self.size, duration) else { return false };
        self.end = Some(last);
        let lost_packets = self.lost.len() as u64;
        let lost_size = self.lost.iter().map(|&(_, size)| size).sum();
        let counts = Counts::of(config.measure, (self.packets, self.size), (lost_packets, lost_size));
        let observation = Observation {
            id: self.made,
            packets: self.packets,
            lost_packets,
            size: self.size,
            lost_size,
            counts,
            send_rate: self.smoothed(config, rate),
        };
        let place = self.place(self.made);
        if let Some(slot) = self.kept.get_mut(place) {
            *slot = Some(observation);
        }
        self.made += 1;
        self.packets = 0;
        self.size = DataSize::ZERO;
        self.lost.clear();
        self.average_loss = match config.measure {
            Measure::Bytes => self.average_bytes(config),
            Measure::Packets => self.average_packets(),
        };
        true
    }

    fn count(&mut self, packet: &PacketReport) {
        self.packets += 1;
        self.size += packet.sent.size;
        // Most packets come in order and after all lost ones.
        let is_new = self.lost.last().is_none_or(|&(last, _)| last < packet.sent.sequence);
        if is_new && packet.arrival.is_some() {
            return;
        }
        let place = self.lost.binary_search_by_key(&packet.sent.sequence, |&(sequence, _)| sequence);
        match (place, packet.arrival) {
            (Ok(place), Some(_)) => {
                self.lost.remove(place);
            }
            (Err(place), None) => self.lost.insert(place, (packet.sent.sequence, packet.sent.size)),
            _ => {}
        }
    }

    fn place(&self, id: u64) -> usize {
        (id % self.kept.len().max(1) as u64) as usize
    }

    fn smoothed(&self, config: &ModelConfig, rate: DataRate) -> DataRate {
        let latest = self.made.checked_sub(1).map(|id| self.place(id));
        let Some(Some(latest)) = latest.and_then(|place| self.kept.get(place)) else { return rate };
        let old = config.send_rate_smoothing;
        sum(scaled(latest.send_rate, old), scaled(rate, 1.0 - old))
    }

    fn average_packets(&self) -> f64 {
        let (mut all, mut lost) = (0.0, 0.0);
        for (weight, observation) in self.by_age(&self.average_weights) {
            all += weight * observation.packets as f64;
            lost += weight * observation.lost_packets as f64;
        }
        ratio(lost, all)
    }

    /// The average without the observations of lowest and highest loss, because a single spike has little
    /// significance. The extremes are kept if the one with the highest loss was sent much faster than usual,
    /// which explains its loss.
    fn average_bytes(&mut self, config: &ModelConfig) -> f64 {
        let mut sum = Weighed::default();
        let mut best: Option<(f64, Weighed)> = None;
        let mut worst: Option<(f64, Weighed, DataRate)> = None;
        for (weight, observation) in self.by_age(&self.average_weights) {
            let weighed =
                Weighed { all: weigh(observation.size, weight), lost: weigh(observation.lost_size, weight) };
            sum = sum.plus(weighed);
            if self.made <= config.extremes_kept_up_to {
                continue;
            }
            let loss = ratio(observation.lost_size.as_bytes() as f64, observation.size.as_bytes() as f64);
            // An observation without any loss cannot be the highest, and one without any arrival cannot be
            // the lowest.
            if loss > worst.map_or(0.0, |(worst, ..)| worst) {
                worst = Some((loss, weighed, observation.send_rate));
            }
            if loss < best.map_or(1.0, |(best, _)| best) {
                best = Some((loss, weighed));
            }
        }
        let (worst, worst_rate) = worst.map(|(_, worst, rate)| (worst, rate)).unwrap_or_default();
        let best = best.map(|(_, best)| best).unwrap_or_default();
        let extremes = best.plus(worst);
        let usual = scaled(self.median_send_rate(), config.median_send_rate_factor);
        if usual <= worst_rate || sum.all == extremes.all {
            return ratio(sum.lost as f64, sum.all as f64);
        }
        ratio(sum.lost.saturating_sub(extremes.lost) as f64, sum.all.saturating_sub(extremes.all) as f64)
    }

    fn median_send_rate(&mut self) -> DataRate {
        self.rates.clear();
        let rates = self.kept.iter().flatten().map(|observation| observation.send_rate);
        self.rates.extend(rates.filter(|&rate| rate > DataRate::ZERO));
        self.rates.sort_unstable();
        let middle = self.rates.len() / 2;
        let rate = |place: usize| self.rates.get(place).map_or(0, |rate| rate.as_bps());
        if self.rates.len() % 2 == 1 {
            DataRate::from_bps(rate(middle))
        } else {
            DataRate::from_bps(rate(middle.wrapping_sub(1)).midpoint(rate(middle)))
        }
    }
}

/// Weighted bytes, rounded to a whole number.
#[derive(Debug, Clone, Copy, Default)]
struct Weighed {
    all: u64,
    lost: u64,
}

impl Weighed {
    fn plus(self, other: Self) -> Self {
        Self { all: self.all.saturating_add(other.all), lost: self.lost.saturating_add(other.lost) }
    }
}

fn weigh(size: DataSize, weight: f64) -> u64 {
    math::round(size.as_bytes() as f64 * weight) as u64
}

fn thousands(size: DataSize) -> f64 {
    size.as_bytes() as f64 / 1000.0
}

/// `part / whole`, or zero if `whole` is zero.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "what is compared is computed in the same way or exact")]
mod tests {
    use giusto_units::TimeDelta;

    use super::*;
    use crate::{feedback::SentPacket, gcc::loss::model::tests::packet};

    /// One observation of 250 ms: `packets` of 1000 bytes, the first `lost` of which are lost.
    fn observe(observations: &mut Observations, config: &ModelConfig, packets: u64, lost: u64) {
        let begin = observations.end().unwrap_or(Timestamp::ZERO);
        let sequence = observations.made() * 1000;
        let reports: Vec<_> = (0..packets)
            .map(|i| {
                let last = i + 1 == packets;
                let at = begin + TimeDelta::from_millis(if last { 250 } else { 0 });
                packet(sequence + i, at, 1000, i >= lost)
            })
            .collect();
        assert!(observations.take(config, &reports));
    }

    #[test]
    fn an_observation_spans_a_quarter_of_a_second_of_send_time() {
        let config = ModelConfig::default();
        let mut observations = Observations::new(&config);
        let at = |millis: i64| Timestamp::ZERO + TimeDelta::from_millis(millis);
        assert!(!observations.take(&config, &[]));
        assert!(!observations.take(&config, &[packet(0, at(1000), 1000, true)]));
        assert!(!observations.take(&config, &[packet(1, at(1249), 1000, false)]));
        // Time that runs backwards counts as no time.
        assert!(!observations.take(&config, &[packet(2, at(10), 1000, true)]));
        assert!(observations.take(&config, &[packet(3, at(1250), 1000, true)]));
        let (weight, only) = observations.weighted().next().unwrap();
        assert_eq!(weight, 1.0);
        // 4000 bytes in 250 ms.
        assert_eq!(only.send_rate, DataRate::from_bps(128_000));
        assert_eq!(only.counts, Counts { lost: 1.0, received: 3.0, all: 4.0 });
        assert_eq!(observations.average_loss(), 0.25);
    }

    #[test]
    fn a_packet_that_arrives_late_is_not_lost() {
        let config = ModelConfig::default();
        let mut observations = Observations::new(&config);
        let late = packet(7, Timestamp::ZERO, 1000, false);
        assert!(!observations.take(&config, &[late]));
        let end = Timestamp::ZERO + TimeDelta::from_millis(250);
        let came = PacketReport { arrival: packet(7, end, 1, true).arrival, ..late };
        let next = PacketReport { sent: SentPacket { at: end, ..late.sent }, ..came };
        assert!(observations.take(&config, &[came, next]));
        assert_eq!(observations.average_loss(), 0.0);
        assert_eq!(observations.weighted().next().unwrap().1.counts.all, 3.0);
    }

    #[test]
    fn the_average_gives_newer_observations_more_weight() {
        let config = ModelConfig { measure: Measure::Packets, ..ModelConfig::default() };
        let mut observations = Observations::new(&config);
        observe(&mut observations, &config, 10, 5);
        observe(&mut observations, &config, 10, 0);
        // (0.9 × 5) / (0.9 × 10 + 10)
        assert!((observations.average_loss() - 4.5 / 19.0).abs() < 1e-12);
    }

    #[test]
    fn a_spike_is_ignored_unless_caused_by_the_send_rate() {
        let config = ModelConfig { average_weight: 1.0, ..ModelConfig::default() };
        let mut observations = Observations::new(&config);
        for lost in [1, 0, 2, 10] {
            observe(&mut observations, &config, 10, lost);
        }
        // Without the lowest (0 of 10) and the highest (10 of 10): 3 of 20.
        assert!((observations.average_loss() - 3.0 / 20.0).abs() < 1e-12);
        // If two have lost all, the first one is the extreme: 13 of 20 lost, minus its 10.
        observe(&mut observations, &config, 20, 20);
        assert!((observations.average_loss() - 23.0 / 40.0).abs() < 1e-12);
        // If the extreme was sent at twice the median rate, nothing is left out.
        let mut fresh = Observations::new(&config);
        for (packets, lost) in [(10, 1), (10, 0), (10, 2), (10, 0), (20, 20)] {
            observe(&mut fresh, &config, packets, lost);
        }
        assert!((fresh.average_loss() - 23.0 / 60.0).abs() < 1e-12);
    }

    #[test]
    fn the_oldest_observations_are_discarded() {
        let config =
            ModelConfig { observations_kept: 3, measure: Measure::Packets, ..ModelConfig::default() };
        let mut observations = Observations::new(&config);
        observe(&mut observations, &config, 10, 10);
        for _ in 0..3 {
            observe(&mut observations, &config, 10, 0);
        }
        assert_eq!(observations.weighted().count(), 3);
        assert_eq!(observations.average_loss(), 0.0);
    }
}
