//! A set of traces of the radio of one user, in files: capacity in Mahimahi's format, capacity and delay as CSV.

use std::path::Path;

use giusto_lte::{
    city::CityError,
    trace::{OPPORTUNITY_BYTES, SAMPLE, Trace, TraceConfig},
};
pub use giusto_lte::{radio::link::Direction, trace::Position};
use giusto_units::{DataRate, TimeDelta};
use serde::Serialize;

use crate::{
    text::format::{or_unknown, percent, rate, rate_range, short},
    whole_file::{self, Content, WholeFile, WriteError},
};

/// A trace as a file.
const TRACE: Content = Content { name: "trace", example: "down-3kmh-4M-middle.mahimahi" };

/// The description of a set.
const README: Content = Content { name: "description", example: "README.md" };

/// Which traces are made.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSet {
    /// Random seed of all.
    pub seed: u64,
    /// Length of each.
    pub duration: TimeDelta,
    /// The traces.
    pub traces: Vec<Traced>,
}

/// One of the traces of a set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traced {
    /// Direction of the data.
    pub direction: Direction,
    /// Speed of all users in km/h.
    pub speed_kmh: f64,
    /// Load of each cell by other users.
    pub load: DataRate,
    /// Where the user is.
    pub position: Position,
}

/// The name of a direction: `down` or `up`.
pub const fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Downlink => "down",
        Direction::Uplink => "up",
    }
}

impl Traced {
    /// Its name: `down-3kmh-4M-middle`.
    pub fn name(&self) -> String {
        let Self { direction, speed_kmh, load, position } = self;
        format!("{}-{speed_kmh}kmh-{}-{}", direction_name(*direction), megabits(*load), position.name())
    }

    /// The configuration of its simulation.
    pub fn config(&self, seed: u64, duration: TimeDelta) -> TraceConfig {
        let mut config = TraceConfig {
            seed,
            direction: self.direction,
            position: self.position,
            load: self.load,
            duration,
            ..TraceConfig::default()
        };
        config.deployment.speed_mps = self.speed_kmh / 3.6;
        config
    }
}

impl std::fmt::Display for Traced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

/// `4M`, `2.5M`, `0M`.
fn megabits(load: DataRate) -> String {
    format!("{}M", load.as_bps() as f64 / 1e6)
}

impl TraceSet {
    /// Every combination of these values.
    pub fn combined(
        seed: u64,
        duration: TimeDelta,
        directions: &[Direction],
        speeds_kmh: &[f64],
        loads: &[DataRate],
        positions: &[Position],
    ) -> Self {
        let mut traces = Vec::new();
        for &direction in directions {
            for &speed_kmh in speeds_kmh {
                for &load in loads {
                    traces.extend(positions.iter().map(|&position| Traced {
                        direction,
                        speed_kmh,
                        load,
                        position,
                    }));
                }
            }
        }
        Self { seed, duration, traces }
    }

    /// The set of twenty: down at two loads with 3 and 30 km/h at three positions, and on paths with 30 and 120 km/h; up at one
    /// load with 3 km/h at three positions, and on a path with 30 km/h.
    ///
    /// The loads are below what the cells can carry, which is less at higher speeds: channel reports are out of date sooner.
    pub fn twenty(seed: u64, duration: TimeDelta) -> Self {
        use Position::{Centre, Edge, Middle, Path};
        let mega = |rate: u64| DataRate::from_bps(rate * 1_000_000);
        let (down, up, still) = ([Direction::Downlink], [Direction::Uplink], [Centre, Middle, Edge]);
        let (slow, fast) = ([mega(8), mega(11)], [mega(6), mega(7)]);
        let parts = [
            Self::combined(seed, duration, &down, &[3.0], &slow, &still),
            Self::combined(seed, duration, &down, &[30.0], &fast, &still),
            Self::combined(seed, duration, &down, &[30.0, 120.0], &fast, &[Path]),
            Self::combined(seed, duration, &up, &[3.0], &[mega(2)], &still),
            Self::combined(seed, duration, &up, &[30.0], &[mega(2)], &[Path]),
        ];
        Self { seed, duration, traces: parts.into_iter().flat_map(|part| part.traces).collect() }
    }

    /// Checks every trace of it.
    ///
    /// # Errors
    ///
    /// [`CityError::Range`] names the first setting out of range.
    pub fn validate(&self) -> Result<(), CityError> {
        self.traces.iter().try_for_each(|traced| traced.config(self.seed, self.duration).validate())
    }

    /// The command that makes one of its traces again.
    pub fn command(&self, traced: &Traced) -> String {
        let Self { seed, duration, .. } = self;
        let Traced { direction, speed_kmh, load, position } = traced;
        format!(
            "giusto lte traces --out traces --direction {} --speed {speed_kmh} --load {} --position {} --duration {}s --seed {seed}",
            direction_name(*direction),
            megabits(*load),
            position.name(),
            duration.as_seconds(),
        )
    }

    /// Makes one of its traces; `None` if `ends`, which is called after each millisecond of it, was true before the end.
    ///
    /// # Errors
    ///
    /// [`TraceError::City`] names a setting out of range; [`TraceError::Empty`] if no packet arrived.
    pub fn make_unless(
        &self,
        traced: Traced,
        ends: &dyn Fn() -> bool,
    ) -> Result<Option<MadeTrace>, TraceError> {
        let trace = Trace::new_unless(&traced.config(self.seed, self.duration), ends)?;
        match trace {
            Some(trace) if trace.deliveries_ms.is_empty() => Err(TraceError::Empty { name: traced.name() }),
            trace => Ok(trace.map(|trace| MadeTrace { traced, trace })),
        }
    }

    /// Writes `README.md`, which names the licence and lists the traces in `folder`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn write_readme(&self, folder: &Path, made: &[MadeTrace]) -> Result<(), WriteError> {
        whole_file::write(&folder.join("README.md"), README, self.readme(made).as_bytes())
    }

    fn readme(&self, made: &[MadeTrace]) -> String {
        let rows = made.iter().map(|made| {
            let TraceFigures {
                name,
                mean_bps,
                min_second_bps,
                max_second_bps,
                wideband_sinr_db,
                delay_ms,
                handovers,
                used_ratio,
            } = made.figures();
            let [low, high] = rate_range(min_second_bps, max_second_bps);
            format!(
                "{name} | {} | {low} to {high} | {wideband_sinr_db:.1} | {} | {handovers} | {}\n",
                rate(mean_bps),
                or_unknown(delay_ms, short),
                percent(used_ratio),
            )
        });
        let rows: String = rows.collect();
        let commands = made.iter().map(|made| self.command(&made.traced) + "\n").collect::<String>();
        format!(
            "<!-- Generated by `giusto lte traces`. -->

# LTE traces

Capacity and delay of the radio of one user in a simulated LTE network: 21 cells, 10 MHz, 3GPP case 1 (500 m between sites), typical
urban multipath. giusto {} made them with seed {}, {} s each. docs/explanation/lte.md describes the model.

Licence: CC0 1.0 Universal (SPDX-License-Identifier: CC0-1.0, https://creativecommons.org/publicdomain/zero/1.0/). Anybody may use
these files for anything, without asking and without naming the source.

## Names

`DIRECTION-SPEED-LOAD-POSITION`. The load is that of each cell by other users: Poisson arrivals of users with one object of 0.5 MB
(FTP model 1 of TR 36.814), who move with the same speed. Positions: `centre`, `middle` and `edge` are the 95th, 50th and 5th
percentile of the wideband SINR of the downlink at full load, also of traces `up`; the user stays there, and its fast fading is that of
the speed. `path` begins at the median and moves straight on.

## Files

- `.mahimahi`: milliseconds at which {OPPORTUNITY_BYTES} B of the user's full buffer arrive, as `mm-link` reads them.
- `.csv`: a row for each 0.1 s. `time_s`: its start. `capacity_bps`: what arrived of the full buffer. `sinr_db`: SINR, mean over the
  milliseconds. `delay_ms`, `max_delay_ms`: mean and maximum of the radio delay of packets of 100 B, one in 10 ms, in a second run of the
  same user on the same path without the full buffer; empty where none arrived. `cell`, `x_m`, `y_m`: serving cell and place.

## Traces

trace | mean rate | lowest and highest second | wideband SINR (dB) | median delay (ms) | handovers | resource blocks used
---|---|---|---|---|---|---
{rows}
## Commands

```
{commands}```
",
            env!("CARGO_PKG_VERSION"),
            self.seed,
            self.duration.as_seconds(),
        )
    }
}

/// Why a trace cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A setting is out of range.
    #[error(transparent)]
    City(#[from] CityError),
    /// No packet arrived.
    #[error(
        "{name}: no packet of {OPPORTUNITY_BYTES} B arrived: make the trace longer, or choose another seed"
    )]
    Empty {
        /// The name of the trace.
        name: String,
    },
}

/// A trace that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct MadeTrace {
    /// What was asked for.
    pub traced: Traced,
    /// The trace.
    pub trace: Trace,
}

/// The figures of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceFigures {
    /// Its name.
    pub name: String,
    /// Mean rate in bit/s.
    pub mean_bps: f64,
    /// Rate of the slowest second in bit/s.
    pub min_second_bps: f64,
    /// Rate of the fastest second in bit/s.
    pub max_second_bps: f64,
    /// Wideband SINR at full load at the start, in dB.
    pub wideband_sinr_db: f64,
    /// Median over the samples of the mean delay of small packets, in ms.
    pub delay_ms: Option<f64>,
    /// Handovers of the user.
    pub handovers: u32,
    /// Share of the resource blocks of all cells that was used.
    pub used_ratio: f64,
}

impl MadeTrace {
    /// Its figures.
    pub fn figures(&self) -> TraceFigures {
        let Trace { samples, wideband_sinr_db, handovers, used_ratio, .. } = &self.trace;
        let per_second = (1_000_000_000 / SAMPLE.as_nanos()) as usize;
        let seconds = samples.chunks(per_second).map(|second| {
            second.iter().map(|sample| sample.capacity_bps() as f64).sum::<f64>() / second.len() as f64
        });
        let (min_second_bps, max_second_bps) =
            seconds.fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
        let mut delays: Vec<f64> = samples.iter().filter_map(giusto_lte::trace::Sample::delay_ms).collect();
        delays.sort_unstable_by(f64::total_cmp);
        TraceFigures {
            name: self.traced.name(),
            mean_bps: self.trace.mean_bps(),
            min_second_bps,
            max_second_bps,
            wideband_sinr_db: *wideband_sinr_db,
            delay_ms: delays.get(delays.len() / 2).copied(),
            handovers: *handovers,
            used_ratio: *used_ratio,
        }
    }

    /// The trace in Mahimahi's format.
    pub fn mahimahi(&self) -> String {
        let lines: Vec<String> = self.trace.deliveries_ms.iter().map(u32::to_string).collect();
        lines.join("\n") + "\n"
    }

    /// Capacity and delay as CSV.
    pub fn csv(&self) -> String {
        let mut lines = vec!["time_s,capacity_bps,sinr_db,delay_ms,max_delay_ms,cell,x_m,y_m".to_owned()];
        for (number, sample) in (0_u32..).zip(&self.trace.samples) {
            let time_s = f64::from(number) * SAMPLE.as_seconds();
            let delay = sample.delay_ms().map_or_else(String::new, |ms| format!("{ms:.1}"));
            let max = sample.delay_ms().map_or_else(String::new, |_| sample.small.2.to_string());
            let sinr =
                if sample.sinr_db.is_finite() { format!("{:.1}", sample.sinr_db) } else { String::new() };
            let (rate, cell, at) = (sample.capacity_bps(), sample.cell, sample.position);
            lines.push(format!("{time_s:.1},{rate},{sinr},{delay},{max},{cell},{:.1},{:.1}", at.x_m, at.y_m));
        }
        lines.join("\n") + "\n"
    }

    /// Writes both files into `folder`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn write(&self, folder: &Path) -> Result<(), WriteError> {
        let name = self.traced.name();
        let file = |ending: &str, text: &str| {
            whole_file::prepare(&folder.join(format!("{name}.{ending}")), TRACE, text.as_bytes())
        };
        for file in [file("mahimahi", &self.mahimahi())?, file("csv", &self.csv())?] {
            WholeFile::commit(file)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::trace::{self, Recorded};

    #[test]
    fn a_link_plays_a_csv_from_its_first_sample_on() {
        let second = TimeDelta::from_seconds(1);
        let set = TraceSet::combined(
            1,
            second,
            &[Direction::Downlink],
            &[3.0],
            &[DataRate::ZERO],
            &[Position::Middle],
        );
        let made = set.make_unless(set.traces[0], &|| false).unwrap().unwrap();
        let csv = made.csv();
        assert!(csv.lines().nth(1).unwrap().starts_with("0.0,"), "{csv}");
        let Ok(Recorded::Rates(steps)) = trace::recorded(Path::new("own.csv"), &csv, trace::Direction::Down)
        else {
            panic!("{csv}")
        };
        let samples = (0..).zip(&made.trace.samples);
        let expected = samples.map(|(number, sample)| {
            (giusto_units::Timestamp::ZERO + SAMPLE * number, DataRate::from_bps(sample.capacity_bps()))
        });
        assert_eq!(steps, expected.collect::<Vec<_>>());
    }
}
