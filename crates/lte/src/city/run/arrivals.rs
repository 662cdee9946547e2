//! People come, call or transfer a file, and leave.

use std::cmp::Reverse;

use giusto_sim::{
    packet::FlowId,
    random::{self, Random},
    traffic::{Agent, tcp},
};
use giusto_units::{DataSize, TimeDelta, Timestamp};
use rand::RngExt;

use super::{COVERAGE_DB, City, FILE_LINGERS, Kind, LINGERS, Resident, Wake};
use crate::{
    bearer::Bearer,
    city::{
        air::Motion,
        config::{CityConfig, CityError, FileTransfers},
        ends::{Change, Completed, End, Key},
        measures::CallMeasures,
        people::{Activity, CallPlan, CallTotals, Workload},
    },
    mac::{Channel, RadioUser},
    radio::{layout::CELLS, link::Direction},
    terminal::{Terminal, Walker, noise_per_block_mw},
};

impl City<'_> {
    /// The file of a person is complete.
    pub(super) fn complete(&mut self, completed: Completed) {
        let Completed { at, by_radio, number, id, .. } = completed;
        let Some(resident) = self.persons.get_mut(number as usize).and_then(Option::as_mut) else { return };
        if resident.id != id {
            return;
        }
        self.counters.completed_files += 1;
        self.counters.file_time += at - resident.joined;
        resident.leaves = Key { at: at + FILE_LINGERS, scheduled: at, by_radio };
        resident.kind = Kind::File { is_complete: true };
        self.events.schedule(resident.leaves.at, Wake::Leave(number, id));
    }

    pub(super) fn schedule_call(&mut self) {
        let intensity = self.config.call_intensity();
        if intensity > 0.0 {
            let wait = exponential(&mut self.arrivals[0]) / intensity;
            self.events.schedule(self.events.now() + TimeDelta::from_seconds_f64(wait), Wake::Call);
        }
    }

    pub(super) fn schedule_file(&mut self) {
        let Some(files) = &self.config.files else { return };
        let intensity = files.load.as_bps() as f64 * CELLS as f64 / files.size.as_bits() as f64;
        if intensity > 0.0 {
            let wait = exponential(&mut self.arrivals[1]) / intensity;
            self.events.schedule(self.events.now() + TimeDelta::from_seconds_f64(wait), Wake::File);
        }
    }

    pub(super) fn begin_call(&mut self, now: Timestamp) {
        let time = (now, now + self.config.call);
        let number = self.counters.calls as u32;
        self.counters.calls += 1;
        // Calls and files have different numbers: theirs in turn.
        let flows = (FlowId(4 * number), FlowId(4 * number + 1));
        let call = match self.workload.call(&CallPlan { number, flows, time }) {
            Ok(call) => call,
            Err(reason) => {
                self.error.get_or_insert(CityError::Call(reason));
                return;
            }
        };
        let walker = self.walker("call", number);
        self.counters.uncovered_calls += u64::from(!self.is_covered(&walker.terminal));
        let measures = Box::new(CallMeasures::new(self.config.evaluation, time));
        let overlap = measures.overlap;
        let activity = Activity::Call {
            number,
            media: flows.0,
            video_ssrc: call.video_ssrc,
            time,
            target: giusto_units::DataRate::ZERO,
            totals: CallTotals::default(),
            measures,
        };
        let agents = (call.sender, call.receiver);
        self.join((now, time.1 + LINGERS), walker, (activity, Kind::Call(overlap)), agents);
    }

    pub(super) fn begin_file(&mut self, now: Timestamp) {
        let Some(FileTransfers { size, settings, patience, .. }) = self.config.files.clone() else { return };
        let number = self.counters.files as u32;
        self.counters.files += 1;
        let flows = (FlowId(4 * number + 2), FlowId(4 * number + 3));
        let sender = file_sender(self.config.seed, number, size, settings.clone());
        match (sender, tcp::Receiver::new(flows.1, settings)) {
            (Ok(sender), Ok(receiver)) => {
                let agents: (Box<dyn Agent>, Box<dyn Agent>) =
                    (Box::new(sender.starting_at(now)), Box::new(receiver));
                let activity = Activity::File { missing: size.as_bytes() };
                let walker = self.walker("file", number);
                self.join(
                    (now, now + patience),
                    walker,
                    (activity, Kind::File { is_complete: false }),
                    agents,
                );
            }
            (Err(error), _) | (_, Err(error)) => {
                self.error.get_or_insert(error.into());
            }
        }
    }

    /// The user of the call or the file of this number: its path is the same whatever the others do, and for how long they stay.
    fn walker(&self, what: &str, number: u32) -> Walker {
        let random = random::stream(self.config.seed, &format!("lte: {what} {number} place"));
        Walker::new(&self.environment, random, number)
    }

    fn is_covered(&self, terminal: &Terminal) -> bool {
        let downlink = &self.config.downlink;
        let noise = noise_per_block_mw(downlink.noise_figure_db);
        let power = libm::pow(10.0, downlink.power_dbm / 10.0) / f64::from(downlink.blocks);
        terminal.full_load_sinr_db(power as f32, noise) >= COVERAGE_DB
    }

    /// A person joins with its agents: the one that sends and the one that receives.
    fn join(
        &mut self,
        (now, leaves): (Timestamp, Timestamp),
        walker: Walker,
        (activity, kind): (Activity, Kind),
        (sender, receiver): (Box<dyn Agent>, Box<dyn Agent>),
    ) {
        let terminal = &walker.terminal;
        let place = self.free_places.pop().unwrap_or_else(|| {
            self.walkers.push(None);
            self.walkers.len() as u32 - 1
        });
        let number = self.free_persons.pop().unwrap_or_else(|| {
            self.persons.push(None);
            self.persons.len() as u32 - 1
        });
        let id = self.joined;
        self.joined += 1;
        let channel = |workload: &mut dyn Workload, config: &CityConfig| {
            Channel::new(Bearer::new(config.bearer, workload.queue()), config.fairness_window_ms)
        };
        let [downlink_motions, uplink_motions] = &mut self.news.motions;
        if self.modelled.0 {
            let downlink = Some(channel(self.workload, &self.config));
            let user = Box::new(RadioUser { terminal: terminal.clone(), downlink, uplink: None });
            downlink_motions.push((self.ms, Motion::Join { id, place, user }));
        }
        if self.modelled.1 {
            let uplink = Some(channel(self.workload, &self.config));
            let user = Box::new(RadioUser { terminal: terminal.clone(), downlink: None, uplink });
            uplink_motions.push((self.ms, Motion::Join { id, place, user }));
        }
        if let Some(slot) = self.walkers.get_mut(place as usize) {
            *slot = Some(walker);
        }
        let (network, user) = match self.config.direction {
            Direction::Downlink => (sender, receiver),
            Direction::Uplink => (receiver, sender),
        };
        for (changes, agent) in self.news.changes.iter_mut().zip([network, user]) {
            let end = End::new(agent, (id, number, place), now, activity.clone());
            changes.push((id, Change::Join(Box::new(end))));
        }
        if matches!(kind, Kind::File { .. }) {
            self.patience.push(Reverse((leaves, number, id)));
        }
        if let Some(slot) = self.persons.get_mut(number as usize) {
            let key = Key { at: leaves, scheduled: now, by_radio: false };
            *slot = Some(Resident { id, place, joined: now, leaves: key, kind });
            self.events.schedule(leaves, Wake::Leave(number, id));
        }
    }

    /// A person leaves.
    pub(super) fn leave(&mut self, now: Timestamp, number: u32, id: u32) {
        let is_due = |resident: &mut Resident| resident.id == id && resident.leaves.at <= now;
        let Some(slot) = self.persons.get_mut(number as usize) else { return };
        let Some(Resident { place, leaves: key, kind, .. }) = slot.take_if(is_due) else { return };
        self.free_persons.push(number);
        self.free_places.push(place);
        if let Some(slot) = self.walkers.get_mut(place as usize) {
            *slot = None;
        }
        for motions in &mut self.news.motions {
            motions.push((self.ms, Motion::Leave { at: now, place }));
        }
        let mut measures = None;
        match kind {
            Kind::Call(overlap) => {
                if overlap > TimeDelta::ZERO {
                    measures = Some(self.finished.len());
                    self.finished.push(CallMeasures::default());
                }
            }
            Kind::File { is_complete } => self.counters.abandoned_files += u64::from(!is_complete),
        }
        for changes in &mut self.news.changes {
            changes.push((id, Change::Leave { id, key, measures }));
        }
    }
}

/// Sends the file of this number, with random numbers of its own.
fn file_sender(
    seed: u64,
    number: u32,
    size: DataSize,
    settings: tcp::Settings,
) -> Result<tcp::Sender, tcp::SettingsError> {
    let control = settings.algorithm.build(random::stream(seed, &format!("lte: file {number} control")));
    let application = tcp::Application::Bytes(size.as_bytes());
    tcp::Sender::with_control(FlowId(4 * number + 2), settings, application, control)
}

/// A draw from the exponential distribution of mean 1.
fn exponential(random: &mut Random) -> f64 {
    -libm::log(1.0 - random.random::<f64>())
}

#[cfg(test)]
mod tests {
    use giusto_sim::{
        link::{
            LinkConfig,
            queue::{DropTail, Limit},
            rate::RateProfile,
        },
        simulation::Simulation,
        trace::Event,
    };
    use giusto_units::DataRate;

    use super::*;

    /// When the packets of the first file, endless and over BBR, are sent in 30 s at 5 Mbit/s.
    fn sent(seed: u64) -> Vec<Timestamp> {
        let mut simulation = Simulation::new(seed);
        let (cell, user) = (simulation.node("cell"), simulation.node("user"));
        let rate = RateProfile::Fixed(DataRate::from_bps(5_000_000));
        let config = LinkConfig { rate, delay: TimeDelta::from_millis(20).into(), ..LinkConfig::default() };
        for ends in [(cell, user), (user, cell)] {
            simulation.add_link("link", ends, &config, Box::new(DropTail::new(Limit::Packets(100)))).unwrap();
        }
        let flows = [(cell, user), (user, cell)].repeat(2);
        let flows: Vec<FlowId> =
            flows.iter().map(|(from, to)| simulation.add_flow(*from, *to).unwrap()).collect();
        let settings = tcp::Settings { algorithm: tcp::Algorithm::Bbr, ..tcp::Settings::default() };
        let sender = file_sender(seed, 0, DataSize::from_bytes(1 << 40), settings.clone()).unwrap();
        let sender = simulation.add_agent(Box::new(sender));
        let receiver = simulation.add_agent(Box::new(tcp::Receiver::new(flows[3], settings).unwrap()));
        simulation.deliver(flows[2], receiver);
        simulation.deliver(flows[3], sender);
        let mut events: Vec<(Timestamp, Event)> = Vec::new();
        simulation.run_until(Timestamp::from_nanos(30_000_000_000), &mut events);
        let of_file = |event: &Event| matches!(event, Event::Sent { packet } if packet.flow == flows[2]);
        events.into_iter().filter(|(_, event)| of_file(event)).map(|(at, _)| at).collect()
    }

    #[test]
    fn a_file_draws_by_the_seed() {
        let [one, two] = [sent(1), sent(2)];
        assert!([&one, &two].iter().all(|sent| (11_000..=12_600).contains(&sent.len())));
        assert!(one == sent(1) && one != two);
    }
}
