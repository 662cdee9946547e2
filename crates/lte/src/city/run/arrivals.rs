//! People come, call or transfer a file, and leave.

use giusto_sim::{
    packet::FlowId,
    random::Random,
    traffic::{Agent, tcp},
};
use giusto_units::{TimeDelta, Timestamp};
use rand::RngExt;

use super::{COVERAGE_DB, City, FILE_LINGERS, LINGERS, Side, Slot, Wake, release};
use crate::{
    bearer::Bearer,
    city::{
        config::{CityConfig, CityError, FileTransfers},
        measures::CallMeasures,
        people::{Activity, CallPlan, CallTotals, Person, Workload},
    },
    mac::{Channel, RadioUser},
    radio::{layout::CELLS, link::Direction},
    terminal::{Terminal, noise_per_block_mw},
};

impl City<'_> {
    /// The file of a person is complete.
    pub(super) fn complete(&mut self, now: Timestamp, number: u32) {
        let Some(files) = &self.config.files else { return };
        let Some((life, Some(person))) = self.persons.get_mut(number as usize) else { return };
        self.counters.completed_files += 1;
        let began = person.leaves - files.patience;
        self.counters.file_time += now - began;
        let leaves = now + FILE_LINGERS;
        person.leaves = leaves;
        self.events.schedule(leaves, Wake::Leave(number, *life));
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
        let measures = Box::new(CallMeasures::new(self.config.evaluation, time));
        let activity = Activity::Call {
            number,
            media: flows.0,
            video_ssrc: call.video_ssrc,
            time,
            target: giusto_units::DataRate::ZERO,
            totals: CallTotals::default(),
            measures,
        };
        self.join(now, activity, (call.sender, call.receiver), time.1 + LINGERS);
    }

    pub(super) fn begin_file(&mut self, now: Timestamp) {
        let Some(FileTransfers { size, settings, patience, .. }) = self.config.files.clone() else { return };
        let number = self.counters.files as u32;
        self.counters.files += 1;
        let flows = (FlowId(4 * number + 2), FlowId(4 * number + 3));
        let application = tcp::Application::Bytes(size.as_bytes());
        let (sender, receiver) =
            (tcp::Sender::new(flows.0, settings.clone(), application), tcp::Receiver::new(flows.1, settings));
        match (sender, receiver) {
            (Ok(sender), Ok(receiver)) => {
                let agents: (Box<dyn Agent>, Box<dyn Agent>) =
                    (Box::new(sender.starting_at(now)), Box::new(receiver));
                self.join(now, Activity::File { missing: size.as_bytes() }, agents, now + patience);
            }
            (Err(error), _) | (_, Err(error)) => {
                self.error.get_or_insert(error.into());
            }
        }
    }

    /// A person joins with its agents: the one that sends and the one that receives.
    fn join(
        &mut self,
        now: Timestamp,
        activity: Activity,
        (sender, receiver): (Box<dyn Agent>, Box<dyn Agent>),
        leaves: Timestamp,
    ) {
        let terminal = Terminal::new(&self.environment, &mut self.places);
        let noise = noise_per_block_mw(self.config.downlink.noise_figure_db);
        let power =
            libm::pow(10.0, self.config.downlink.power_dbm / 10.0) / f64::from(self.config.downlink.blocks);
        let is_covered = terminal.full_load_sinr_db(power as f32, noise) >= COVERAGE_DB;
        self.counters.uncovered_users += u64::from(!is_covered);
        let channel = |present: bool, workload: &mut dyn Workload, config: &CityConfig| {
            let bearer = |workload: &mut dyn Workload| Bearer::new(config.bearer, workload.queue());
            present.then(|| Channel::new(bearer(workload), config.fairness_window_ms))
        };
        let downlink = channel(self.downlink.is_some(), self.workload, &self.config);
        let uplink = channel(self.uplink.is_some(), self.workload, &self.config);
        let place = self.population.add(RadioUser { terminal, downlink, uplink });
        let number = self.free_persons.pop().unwrap_or_else(|| {
            self.persons.push((0, None));
            self.persons.len() as u32 - 1
        });
        let (network, user) = match self.config.direction {
            Direction::Downlink => (sender, receiver),
            Direction::Uplink => (receiver, sender),
        };
        let agents =
            (self.add_agent(number, Side::Network, network), self.add_agent(number, Side::User, user));
        let owners = self.population.places() as usize;
        self.owners.resize(owners, u32::MAX);
        if let Some(owner) = self.owners.get_mut(place as usize) {
            *owner = number;
        }
        if let Some((life, slot)) = self.persons.get_mut(number as usize) {
            *life += 1;
            *slot = Some(Person { place, agents, activity, leaves });
            self.events.schedule(leaves, Wake::Leave(number, *life));
        }
        self.drain(now, agents.0);
        self.drain(now, agents.1);
    }

    fn add_agent(&mut self, person: u32, side: Side, agent: Box<dyn Agent>) -> u32 {
        let place = self.free_agents.pop().unwrap_or_else(|| {
            let slot = Slot { agent: None, at: Timestamp::MAX, life: 0, person, side, sent: 0 };
            self.agents.push(slot);
            self.agents.len() as u32 - 1
        });
        if let Some(slot) = self.agents.get_mut(place as usize) {
            let life = slot.life + 1;
            *slot = Slot { agent: Some(agent), at: Timestamp::MAX, life, person, side, sent: 0 };
        }
        place
    }

    /// A person leaves.
    pub(super) fn leave(&mut self, now: Timestamp, number: u32, life: u32) {
        let is_due = |person: &Person| person.leaves <= now;
        let Some((_, slot)) = self.persons.get_mut(number as usize).filter(|(of, _)| *of == life) else {
            return;
        };
        let Some(person) = slot.take_if(|person| is_due(person)) else { return };
        self.free_persons.push(number);
        for agent in [person.agents.0, person.agents.1] {
            if let Some(slot) = self.agents.get_mut(agent as usize) {
                slot.agent = None;
                slot.life += 1;
                self.free_agents.push(agent);
            }
        }
        if let Some(user) = self.population.remove(person.place) {
            for (channel, sums) in [user.downlink, user.uplink].into_iter().zip(&mut self.counters.bearers) {
                if let Some(mut channel) = channel {
                    sums.add(channel.bearer.counters());
                    while let Some(packet) = channel.bearer.clear(now) {
                        release(&mut self.bodies, &mut self.free_bodies, packet.body);
                    }
                }
            }
        }
        match person.activity {
            Activity::Call { measures, .. } => {
                if measures.overlap > TimeDelta::ZERO {
                    self.finished.push(*measures);
                }
            }
            Activity::File { missing } => self.counters.abandoned_files += u64::from(missing > 0),
        }
    }
}

/// A draw from the exponential distribution of mean 1.
fn exponential(random: &mut Random) -> f64 {
    -libm::log(1.0 - random.random::<f64>())
}
