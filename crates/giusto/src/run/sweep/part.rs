//! The shards of a sweep that is divided over several processes, and the whole of them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    journal::{self, JournalError},
    outcome::{Failed, Finished, Outcome},
    plan::{MAX_RUNS, Planned, Seeds, Sweep, Values, combinations, number_of_runs},
};
use crate::{
    json, order,
    run::Shard,
    scenario::Setting,
    whole_file::{self, Content, WriteError, unreadable},
};

/// The name of the file of a part in its folder.
const NAME: &str = "part.json";

/// The shard of a sweep that one process ran: what `part.json` contains, and the runs of the journal beside it.
///
/// It states the plan of the whole sweep, so that [`merge`] can tell which shards and runs are missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    giusto: String,
    scenario: String,
    shard: Shard,
    values: Vec<Values>,
    seeds: Seeds,
    /// Of each combination of the values.
    fingerprints: Vec<String>,
    /// Of each combination, whether its expectations are judged.
    judged: Vec<bool>,
    failed: Vec<Failed>,
    /// The scenario's file where it was read.
    file: String,
    #[serde(skip)]
    finished: Vec<Finished>,
}

/// A divided sweep whose shards are all there.
#[derive(Debug, Clone, PartialEq)]
pub struct Whole {
    /// Name of the scenario.
    pub scenario: String,
    /// Its file, where the first part was run.
    pub file: String,
    /// The parameters that were set.
    pub paths: Vec<String>,
    /// All runs, in the order of the plan of the undivided sweep.
    pub outcome: Outcome,
}

/// Parts of a sweep that cannot be written, read or put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PartError {
    /// There is nothing to merge.
    #[error("no part: name the folders that `giusto sweep --shard --out` wrote")]
    Nothing,
    /// A folder has no part.
    #[error(
        "{0}: it has no {NAME}: finish the part with --resume; of a benchmark, name the files result.json"
    )]
    NoPart(String),
    /// The file of a part is not valid.
    #[error("{name}/{NAME}: it cannot be used ({why}): copy the part again, or make it again")]
    Invalid {
        /// Name of the part.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// The system returned an error.
    #[error("{}", unreadable(&Path::new(name).join(NAME), source))]
    Io {
        /// Name of the part.
        name: String,
        /// That error.
        source: io::Error,
    },
    /// The journal of a part cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A part was made by another version.
    #[error("{name}: it was made by giusto {found}, this is {}: use the same version", env!("CARGO_PKG_VERSION"))]
    Version {
        /// Name of the part.
        name: String,
        /// That version.
        found: String,
    },
    /// A part is of another sweep.
    #[error(
        "{name}: its {what} is {found}, that of {first} is {expected}: merge parts of one sweep, made by one program"
    )]
    Other {
        /// Name of that part.
        name: String,
        /// What differs.
        what: String,
        /// Its value.
        found: String,
        /// Name of the first part.
        first: String,
        /// The value there.
        expected: String,
    },
    /// A shard is there twice.
    #[error("{name}: shard {shard} is in {other} too: name each part once")]
    Twice {
        /// Name of the second part.
        name: String,
        /// The shard.
        shard: Shard,
        /// Name of the first.
        other: String,
    },
    /// Shards are missing.
    #[error("{missing} of {} shards are missing, the first is {first}: add the folders of their parts", first.count)]
    Missing {
        /// Number of missing shards.
        missing: u64,
        /// The first of them.
        first: Shard,
    },
    /// A part was ended early.
    #[error("{name}: {missing} of its runs are missing, the first is {run}: continue it with --resume")]
    Incomplete {
        /// Name of the part.
        name: String,
        /// Number of missing runs.
        missing: usize,
        /// Seed and parameters of the first.
        run: String,
    },
}

impl Part {
    /// The part of `shard` of a sweep with this plan, without runs.
    pub fn new(sweep: &Sweep, planned: &[Planned], shard: Shard) -> Self {
        let of_each = || planned.iter().step_by(sweep.seeds.0.len().max(1));
        Self {
            giusto: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: planned.first().map_or("", |run| run.scenario.name()).to_owned(),
            shard,
            values: sweep.values.clone(),
            seeds: sweep.seeds.clone(),
            fingerprints: of_each().map(|run| run.fingerprint.clone()).collect(),
            judged: of_each().map(|run| run.judged).collect(),
            failed: Vec::new(),
            file: sweep.document.path().to_owned(),
            finished: Vec::new(),
        }
    }

    /// The name of its journal.
    pub fn journal(&self) -> String {
        format!("{}, shard {}", self.scenario, self.shard)
    }

    /// Writes `part.json` to `folder`, where the journal has the finished runs; gives its path.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn write(mut self, folder: &Path, outcome: &Outcome) -> Result<PathBuf, WriteError> {
        self.failed.clone_from(&outcome.failed);
        let (path, content) = (folder.join(NAME), Content { name: "part", example: NAME });
        let text = json::pretty(&self).map_err(|error| WriteError::io(&path, content, error.into()))?;
        whole_file::write(&path, content, (text + "\n").as_bytes())?;
        Ok(path)
    }

    /// Reads the part in `folder`, with the finished runs of its journal.
    ///
    /// # Errors
    ///
    /// [`PartError`]: there is none, it is of another version, or it is not valid.
    pub fn read(folder: &Path) -> Result<Self, PartError> {
        let name = || folder.display().to_string();
        let text = fs::read_to_string(folder.join(NAME)).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound if folder.is_dir() => PartError::NoPart(name()),
            io::ErrorKind::InvalidData => PartError::Invalid { name: name(), why: source.to_string() },
            _ => PartError::Io { name: name(), source },
        })?;
        let invalid = |why: String| PartError::Invalid { name: name(), why };
        let part: Self = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if part.giusto != env!("CARGO_PKG_VERSION") {
            return Err(PartError::Version { name: name(), found: part.giusto });
        }
        let (combinations, seeds) = (number_of_runs(&part.values, &Seeds(vec![0])), part.seeds.0.len());
        if combinations.saturating_mul(seeds.max(1)) > MAX_RUNS {
            return Err(invalid(format!("more than {MAX_RUNS} runs")));
        }
        if part.fingerprints.len() != combinations.min(combinations * seeds) {
            let found = part.fingerprints.len();
            return Err(invalid(format!("fingerprints: {found}, combinations of values: {combinations}")));
        }
        if part.judged.len() != part.fingerprints.len() {
            let found = part.judged.len();
            return Err(invalid(format!("judged: {found}, combinations of values: {combinations}")));
        }
        let (finished, _) = journal::read(folder, &part.journal()).map_err(|error| match error {
            JournalError::Missing(_) => invalid("its journal.jsonl is missing".to_owned()),
            error => error.into(),
        })?;
        Ok(Self { finished, ..part })
    }

    /// What must agree between parts that are merged.
    fn identity(&self) -> Vec<(String, String)> {
        let fact = |what: &str, value: String| (what.to_owned(), value);
        let paths: Vec<&str> = self.values.iter().map(|values| values.path.as_str()).collect();
        let mut identity = vec![
            fact("scenario", format!("{:?}", self.scenario)),
            fact("number of shards", self.shard.count.to_string()),
            fact("list of parameters", format!("\"{}\"", paths.join(","))),
        ];
        let values = |own: &Values| (format!("list of values of {}", own.path), own.values.join(","));
        identity.extend(self.values.iter().map(values));
        identity.push(fact("list of seeds", self.seeds.to_string()));
        let digest = |own: &String| fact("digest of scenario and algorithms", own.clone());
        identity.extend(self.fingerprints.iter().map(digest));
        identity
    }
}

/// Puts the parts of a sweep together; each has a name for error messages.
///
/// # Errors
///
/// [`PartError`]: a shard or a run is missing, a shard is there twice, or they are of different sweeps.
pub fn merge(parts: Vec<(String, Part)>) -> Result<Whole, PartError> {
    let Some((first, plan)) = parts.first().cloned() else { return Err(PartError::Nothing) };
    let identity = plan.identity();
    let mut shards: BTreeMap<u64, (String, Part)> = BTreeMap::new();
    for (name, part) in parts {
        let differing = identity.iter().zip(part.identity()).find(|(a, b)| *a != b);
        if let Some(((what, expected), (_, found))) = differing {
            let (what, expected) = (what.clone(), expected.clone());
            return Err(PartError::Other { name, what, found, first, expected });
        }
        let shard = part.shard;
        if let Some((other, _)) = shards.get(&shard.index) {
            return Err(PartError::Twice { name, shard, other: other.clone() });
        }
        shards.insert(shard.index, (name, part));
    }
    let count = plan.shard.count;
    if let Some(index) = (1..=count).find(|index| !shards.contains_key(index)) {
        let missing = count.saturating_sub(shards.len() as u64);
        return Err(PartError::Missing { missing, first: Shard { index, count } });
    }
    let names: BTreeMap<u64, String> =
        order::map(shards.iter().map(|(index, (name, _))| (*index, name.clone())));
    let mut ends: BTreeMap<u64, Ends> =
        order::map(shards.into_iter().map(|(index, (_, part))| (index, Ends::of(part))));
    let mut outcome = Outcome::default();
    let mut missing: Vec<(u64, Key)> = Vec::new();
    let parameters = |settings: Vec<Setting>| -> BTreeMap<String, String> {
        order::map(settings.into_iter().map(|setting| (setting.path, setting.value)))
    };
    let combinations = combinations(&plan.values).into_iter().map(parameters);
    let unjudged = combinations.clone().zip(&plan.judged).filter(|(_, judged)| !**judged);
    outcome.unjudged = unjudged.map(|(parameters, _)| parameters).collect();
    let runs = combinations.zip(&plan.fingerprints).flat_map(|(parameters, fingerprint)| {
        plan.seeds.0.iter().map(move |seed| ((parameters.clone(), seed.to_string()), fingerprint))
    });
    for (number, (key, fingerprint)) in (0..).zip(runs) {
        let index = number % count + 1;
        let Some(own) = ends.get_mut(&index) else { continue };
        if let Some(run) = own.finished.remove(&key).filter(|run| run.fingerprint == *fingerprint) {
            outcome.finished.push(run);
        } else if let Some(run) = own.failed.remove(&key) {
            outcome.failed.push(run);
        } else {
            missing.push((index, key));
        }
    }
    if let Some((index, first)) = missing.first() {
        let name = names.get(index).cloned().unwrap_or_default();
        let missing = missing.iter().filter(|(own, _)| own == index).count();
        return Err(PartError::Incomplete { name, missing, run: name_of(first) });
    }
    let paths = plan.values.into_iter().map(|values| values.path).collect();
    Ok(Whole { scenario: plan.scenario, file: plan.file, paths, outcome })
}

/// Parameters and seed of a run.
type Key = (BTreeMap<String, String>, String);

/// The runs of a part by their keys.
struct Ends {
    finished: BTreeMap<Key, Finished>,
    failed: BTreeMap<Key, Failed>,
}

impl Ends {
    fn of(part: Part) -> Self {
        let finished = order::map(
            part.finished.into_iter().map(|run| ((run.parameters.clone(), run.seed.clone()), run)),
        );
        let failed =
            order::map(part.failed.into_iter().map(|run| ((run.parameters.clone(), run.seed.clone()), run)));
        Self { finished, failed }
    }
}

/// Seed and parameters of a run, for error messages.
fn name_of((parameters, seed): &Key) -> String {
    parameters.iter().fold(format!("seed {seed}"), |text, (path, value)| format!("{text}, {path}={value}"))
}
