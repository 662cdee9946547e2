//! `giusto merge`: the shards of a sweep or a benchmark.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;

use crate::{
    benchmark as judged,
    console::{TableArgs, complain},
    sim::make_folder,
    sweep as swept,
    usage::{UsageError, misuse},
};
use giusto::{
    benchmark::{self, BenchmarkResult},
    run::sweep::{self, Part},
    whole_file::{read_bounded_text, unreadable},
};

/// Flags of `giusto merge`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  giusto merge part-1 part-2 part-3 part-4 --out whole
  giusto merge part-*/result.json --out judged

From directories of `giusto sweep --shard`, --out writes flows.csv and links.csv with the bytes of the undivided sweep. \
From files of `giusto benchmark --shard` it writes result.json and report.html.
Exit status: 0 success, 1 a run of a sweep failed or a judged expectation is not met, 2 parts are missing, repeated or \
of another sweep or benchmark.")]
pub(crate) struct MergeArgs {
    /// Directories that `giusto sweep --shard --out` wrote, or files result.json that `giusto benchmark --shard --out` wrote
    #[arg(value_name = "PART", required = true)]
    parts: Vec<PathBuf>,

    /// Write the whole to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    tables: TableArgs,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    if let Some(out) = &args.out
        && args.parts.iter().any(|part| is_same(part, out) || is_same(part, &out.join("result.json")))
    {
        misuse!("--out {}: this is a part, whose files would be lost: give another folder", out.display());
    }
    let (folders, files): (Vec<&PathBuf>, Vec<&PathBuf>) = args.parts.iter().partition(|path| path.is_dir());
    match (folders.first(), files.first()) {
        (Some(folder), Some(file)) => misuse!(
            "{} is a directory, as parts of a sweep are, {} is not: merge parts of one sweep or files of one benchmark",
            folder.display(),
            file.display()
        ),
        (Some(_), None) => sweeps(args),
        (None, _) => benchmarks(args),
    }
}

fn sweeps(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let parts = args.parts.iter().map(|path| Ok((path.display().to_string(), Part::read(path)?)));
    let whole = parts.collect::<Result<Vec<_>, _>>().and_then(sweep::merge).map_err(UsageError::new)?;
    args.out.as_deref().map(make_folder).transpose()?;
    wrote(&swept::finish(&whole, args.out.as_deref(), args.json, args.tables)?);
    swept::note_problems(&whole, complain);
    Ok(swept::status(&whole.outcome))
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

fn benchmarks(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let parts = args.parts.iter().map(|path| Ok((path.display().to_string(), read(path)?)));
    let parts = parts.collect::<Result<Vec<_>, UsageError>>()?;
    let result = benchmark::merge(parts).map_err(UsageError::new)?;
    args.out.as_deref().map(make_folder).transpose()?;
    wrote(&judged::finish(&result, args.out.as_deref(), args.json, args.tables)?);
    Ok(ExitCode::SUCCESS)
}

fn wrote(paths: &[PathBuf]) {
    for path in paths {
        complain(&format!("wrote {}", path.display()));
    }
}

fn read(path: &Path) -> Result<BenchmarkResult, UsageError> {
    let name = path.display();
    let fix =
        "name a result.json of `giusto benchmark --out`, or directories of `giusto sweep --shard --out`";
    let text = read_bounded_text(path).map_err(|error| UsageError::new(unreadable(path, &error)))?;
    serde_json::from_str(&text)
        .map_err(|error| UsageError::new(format!("{name}: it is no result of a benchmark ({error}): {fix}")))
}
