//! The Python module `giusto._giusto`: conversions between Python and giusto.
//!
//! The package in `python/giusto` gives it the interface that users see.

mod arrow;
mod command;
mod controller;
mod detached;
mod embed;
mod error;
mod experiments;
mod run;
mod scenario;
mod tasks;

// The same allocator as that of the command, so that simulations have its speed.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Conversions between Python and giusto; use the package `giusto`.
#[pyo3::pymodule(name = "_giusto")]
mod module {
    #[pymodule_export]
    use super::{
        arrow::ArrowStream,
        command::main,
        controller::{Feedback, Limits, PacketReport, Probe, QueueState, SentPacket, Target},
        embed::RateControl,
        error::ScenarioError,
        experiments::{Benchmark, Sweep, merge_benchmarks, run_benchmark, run_sweep},
        run::{Run, run},
        scenario::{Document, controllers, toml},
        tasks::{BenchmarkTasks, SweepTasks, benchmark_task, sweep_task},
    };
}
