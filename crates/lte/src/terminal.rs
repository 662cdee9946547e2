//! The radio environment and the place of a user in it.

use giusto_sim::random::Random;
use rand::RngExt;

use crate::{
    carrier::Carrier,
    radio::{
        fading::{Fading, FadingLink, PackedPower, PackedSample},
        layout::{CELLS, Layout, Point, SITES},
        link::LinkModel,
        propagation::{Deployment, Shadowing, mean_gains, noise_mw},
    },
};

/// Interfering cells whose fast fading is followed; the others count with their mean.
pub const FADING_INTERFERERS: usize = 3;

/// By how much another cell must be stronger before a user is handed over, in dB: the hysteresis of event A3 (TS 36.331
/// §5.5.4.4). 3 dB is the usual choice.
const HANDOVER_DB: f64 = 3.0;

/// Interval at which path gains and the serving cell are evaluated, in ms. A user moves 0.8 m at 30 km/h.
pub const MOVE_MS: u64 = 100;

/// Ten times the decimal logarithm.
pub fn decibels(ratio: f32) -> f32 {
    10.0 * libm::log10f(ratio)
}

/// The inverse of [`decibels`].
pub fn from_decibels(decibels: f32) -> f32 {
    libm::exp10f(decibels / 10.0)
}

/// What all users share: places, propagation, fading.
#[derive(Debug)]
pub struct Environment {
    /// Sites, sectors, borders.
    pub layout: Layout,
    /// Propagation and transmitters.
    pub deployment: Deployment,
    /// Precomputed fast fading.
    pub fading: Fading,
    /// What a SINR carries, and which blocks are lost.
    pub model: LinkModel,
}

/// Noise power of one resource block in mW with a receiver of this noise figure in dB.
pub fn noise_per_block_mw(figure_db: f64) -> f32 {
    noise_mw(Deployment::RESOURCE_BLOCK_HZ, figure_db) as f32
}

/// What a scheduler reads of a user who has moved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved {
    gains: [f32; CELLS],
    serving: usize,
    strongest: [usize; FADING_INTERFERERS],
}

/// A user's place, heading and channels.
#[derive(Debug, Clone)]
pub struct Terminal {
    position: Point,
    /// Direction of movement: cosine and sine.
    heading: (f64, f64),
    shadowing: Shadowing,
    /// Mean path gain to each cell, antennas and shadowing included, linear.
    gains: [f32; CELLS],
    links: [FadingLink; CELLS],
    serving: usize,
    strongest: [usize; FADING_INTERFERERS],
}

#[expect(clippy::indexing_slicing, reason = "every index is a cell")]
impl Terminal {
    /// A user at a random place, moving in a random direction, served by the strongest cell.
    pub fn new(environment: &Environment, random: &mut Random) -> Self {
        let position = environment.layout.random_point(random);
        let angle = random.random::<f64>() * std::f64::consts::TAU;
        let shadowing = Shadowing::new(SITES, random);
        let first = environment.fading.link(random);
        let mut terminal = Self {
            position,
            heading: (libm::cos(angle), libm::sin(angle)),
            shadowing,
            gains: [0.0; CELLS],
            links: [first; CELLS],
            serving: 0,
            strongest: [0; FADING_INTERFERERS],
        };
        for link in &mut terminal.links {
            *link = environment.fading.link(random);
        }
        terminal.update_gains(environment);
        terminal.serving = terminal.best();
        terminal.update_strongest();
        terminal
    }

    /// Moves it for [`MOVE_MS`]. Returns whether it has been handed over to another cell.
    pub fn advance(&mut self, environment: &Environment, random: &mut Random) -> bool {
        let moved = environment.deployment.speed_mps * MOVE_MS as f64 / 1000.0;
        let next = Point {
            x_m: self.position.x_m + moved * self.heading.0,
            y_m: self.position.y_m + moved * self.heading.1,
        };
        self.position = environment.layout.wrap(next);
        self.shadowing.advance(moved, random);
        self.update_gains(environment);
        let best = self.best();
        let threshold = f64::from(self.gains[self.serving]) * libm::pow(10.0, HANDOVER_DB / 10.0);
        let is_handed_over = f64::from(self.gains[best]) > threshold;
        if is_handed_over {
            self.serving = best;
        }
        self.update_strongest();
        is_handed_over
    }

    /// What has changed with its place.
    pub(crate) fn moved(&self) -> Moved {
        Moved { gains: self.gains, serving: self.serving, strongest: self.strongest }
    }

    /// Takes over what has changed with the place of the terminal that this one is a copy of.
    pub(crate) fn follow(&mut self, moved: &Moved) {
        (self.gains, self.serving, self.strongest) = (moved.gains, moved.serving, moved.strongest);
    }

    fn update_gains(&mut self, environment: &Environment) {
        let Environment { layout, deployment, .. } = environment;
        self.gains = mean_gains(layout, deployment, self.position, &self.shadowing);
    }

    fn best(&self) -> usize {
        (0..CELLS).max_by(|&a, &b| self.gains[a].total_cmp(&self.gains[b])).unwrap_or(0)
    }

    fn update_strongest(&mut self) {
        for place in 0..FADING_INTERFERERS {
            let (known, rest) = self.strongest.split_at_mut(place);
            let others = (0..CELLS).filter(|cell| *cell != self.serving && !known.contains(cell));
            // The first of equals.
            let next = others.rev().max_by(|&a, &b| self.gains[a].total_cmp(&self.gains[b]));
            rest[0] = next.unwrap_or(self.serving);
        }
    }

    /// Where it is.
    pub fn position(&self) -> Point {
        self.position
    }

    /// Its cell.
    pub fn serving(&self) -> usize {
        self.serving
    }

    /// Mean path gain to `cell`, linear.
    pub fn gain(&self, cell: usize) -> f32 {
        self.gains[cell]
    }

    /// Mean path gains to all cells, linear.
    pub fn gains(&self) -> &[f32; CELLS] {
        &self.gains
    }

    /// The strongest other cells.
    pub fn strongest(&self) -> [usize; FADING_INTERFERERS] {
        self.strongest
    }

    /// The channel from `cell` at `ms` in each resource block group.
    pub fn channel<'a>(&self, fading: &'a Fading, cell: usize, ms: u64) -> &'a [PackedSample] {
        fading.at(self.links[cell], ms)
    }

    /// The power of the uplink to `cell` at `ms` in each resource block group, of one transmit and both receive antennas: |h1|². The two
    /// directions differ, since they use other frequencies.
    pub fn first<'a>(&self, fading: &'a Fading, cell: usize, ms: u64) -> &'a [PackedPower] {
        // The uplink is another part of the same periodic trace, far beyond the coherence time.
        fading.first(self.links[cell], ms + UPLINK_SHIFT_MS)
    }

    /// The power of `cell` as a downlink interferer at `ms` over its mean, in each group.
    pub fn interferer<'a>(&self, fading: &'a Fading, cell: usize, ms: u64) -> &'a [PackedPower] {
        fading.powers(self.links[cell], ms)
    }

    /// SINR in dB at full load of all cells, without fast fading: `power_mw` and `noise_mw` of one resource block.
    pub fn full_load_sinr_db(&self, power_mw: f32, noise_mw: f32) -> f64 {
        let all: f32 = self.gains.iter().sum();
        let own = self.gains[self.serving];
        10.0 * libm::log10(f64::from(own * power_mw / ((all - own) * power_mw + noise_mw)))
    }
}

const UPLINK_SHIFT_MS: u64 = 4_999;

/// A terminal with the random stream of its path, which no other draws from.
#[derive(Debug)]
pub(crate) struct Walker {
    pub(crate) terminal: Terminal,
    random: Random,
    /// The millisecond of each [`MOVE_MS`] in which it moves.
    turn_ms: u64,
}

impl Walker {
    /// A user at a random place. Users of successive numbers move in successive milliseconds.
    pub(crate) fn new(environment: &Environment, mut random: Random, number: u32) -> Self {
        Self::at(Terminal::new(environment, &mut random), random, number)
    }

    /// A user that is this terminal at first.
    pub(crate) fn at(terminal: Terminal, random: Random, number: u32) -> Self {
        Self { terminal, random, turn_ms: u64::from(number) % MOVE_MS }
    }

    /// Whether it moves in the millisecond `ms`.
    pub(crate) fn moves_at(&self, ms: u64) -> bool {
        ms % MOVE_MS == self.turn_ms
    }

    /// Moves it for [`MOVE_MS`]. Returns whether it has been handed over to another cell.
    pub(crate) fn advance(&mut self, environment: &Environment) -> bool {
        self.terminal.advance(environment, &mut self.random)
    }
}

impl Carrier {
    /// Transmit power of group `group` in mW when `total_mw` is spread evenly over `of` resource blocks.
    pub fn group_power_mw(self, group: usize, total_mw: f64, of: u32) -> f32 {
        (total_mw * f64::from(self.blocks_of(group)) / f64::from(of)) as f32
    }
}
