//! The Python module `giusto._giusto`: conversions between Python and giusto.
//!
//! The package in `python/giusto` gives it the interface that users see.

mod arrow;
mod call;
mod city;
mod command;
mod controller;
mod detached;
mod embed;
mod error;
mod experiments;
mod gym;
mod judge;
mod run;
mod scenario;
mod seed;
mod tasks;
mod values;

// The same allocator as that of the command, so that simulations have its speed.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Conversions between Python and giusto; use the package `giusto`.
#[pyo3::pymodule(name = "_giusto")]
mod module {
    #[pymodule_export]
    use super::{
        arrow::ArrowStream,
        call::{Listener, call},
        city::{City, run_city},
        command::main,
        embed::RateControl,
        error::ScenarioError,
        experiments::{Benchmark, Sweep, merge_benchmarks, merge_sweeps, run_benchmark, run_sweep},
        gym::{
            Environments, Observer, Steps, action_of_target, environment_families, environment_features,
            environment_scale, target_of_action,
        },
        judge::{interval, judge},
        run::{Run, run},
        scenario::{Document, constants, controllers, setting_paths, toml, with_constants},
        tasks::{BenchmarkTasks, SweepTasks, benchmark_task, sweep_task},
        values::{
            Feedback, Limits, NadaReport, PacketReport, Probe, QueueState, SentPacket, StreamState, Target,
        },
    };
}
