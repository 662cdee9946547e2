//! The scenarios of the repository, within the program.

use std::path::Path;

use serde::Serialize;

use super::error::ExploreError;
use crate::{
    packed,
    scenario::{Document, Lesson, ScenarioError, error::nearest},
};

/// A scenario of the gallery.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Its name: that of its file, without the extension.
    pub name: String,
    /// What it shows, in one sentence.
    pub sentence: String,
    /// The lesson that it teaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lesson: Option<Lesson>,
}

/// Paths and values, as in a [`Side`](super::Side).
pub type Settings = Vec<(String, String)>;

/// Names, in the order in which they are shown. Scenarios of a city are not among them.
const SCENARIOS: &[&str] = &[
    "lessons/01-bufferbloat",
    "lessons/02-many-flows",
    "lessons/03-aqm",
    "lessons/04-l4s",
    "lessons/05-pacing",
    "lessons/06-frames",
    "lessons/07-gcc",
    "lessons/08-yield",
    "lessons/09-scream-window",
    "lessons/10-tempo",
    "lessons/11-random-loss",
    "lessons/12-wifi-and-lte",
    "lessons/13-two-calls",
    "lessons/14-oversleep",
    "lessons/15-fence-posts",
    "first",
    "media/media",
    "media/media-vs-cubic",
    "queues/codel",
    "queues/bufferbloat",
    "paths/asymmetric",
    "tcp/bbr-vs-cubic",
    "media/compare",
    "tcp/cubic-vs-newreno",
    "queues/dualpi2-l4s",
    "tcp/dumbbell",
    "queues/ecn",
    "queues/fq-codel",
    "paths/gilbert-elliott",
    "paths/jitter",
    "paths/lte-trace",
    "paths/mahimahi",
    "media/media-audio-and-screen",
    "media/media-heavy-loss",
    "media/media-loss",
    "media/media-overload",
    "media/media-priorities",
    "media/media-repair",
    "media/media-step",
    "media/media-two-equal",
    "media/nada-priority",
    "paths/on-off",
    "tcp/one-cubic",
    "tcp/one-newreno",
    "paths/outage",
    "tcp/parking-lot",
    "queues/pie",
    "tcp/prague-dualpi2",
    "tcp/prague-step-mark",
    "paths/rate-steps",
    "paths/rate-trace",
    "queues/red",
    "media/scream-drop",
    "media/scream-fades",
    "media/scream-fifo",
    "media/scream-l4s",
    "media/scream-quench",
    "media/scream-step",
    "paths/shaper",
    "tcp/short-flows",
    "queues/step-mark",
    "rfc8867/5.1-variable-capacity-udp",
    "rfc8867/5.1-variable-capacity",
    "rfc8867/5.2-several-flows-udp",
    "rfc8867/5.2-several-flows",
    "rfc8867/5.3-clean-feedback",
    "rfc8867/5.3-congested-feedback",
    "rfc8867/5.4-same-algorithm",
    "rfc8867/5.5-rtt-fairness",
    "rfc8867/5.6-long-tcp",
    "rfc8867/5.7-short-tcp",
    "rfc8867/5.8-pause-resume",
    "rfc8867/6.1-priority",
    "rfc8867/6.2-ecn",
    "rfc8867/6.3-multiple-bottlenecks",
    "rfc8869/3.1-pair-cbr-first",
    "rfc8869/3.1-pair-cbr-later",
    "rfc8869/3.1-pair",
    "rfc8869/3.1-tcp",
    "rfc8869/3.1-uplink",
    "rfc8869/3.2-both-ways",
    "rfc8869/3.2-cbr-first",
    "rfc8869/3.2-cbr-later",
    "rfc8869/3.2-downlink",
    "rfc8869/3.2-tcp",
    "rfc8869/3.2-uplink",
    "rfc8869/3.2-varying-04",
    "rfc8869/3.2-varying-08",
    "rfc8869/3.2-varying-12",
    "rfc8869/3.2-varying-20",
];

/// Scenarios of a city, which are run by their names, too.
const CITIES: &[&str] = &[
    "rfc8869/2.1-downlink-far",
    "rfc8869/2.1-downlink-fast",
    "rfc8869/2.1-downlink-no-aqm",
    "rfc8869/2.1-downlink",
    "rfc8869/2.1-uplink-far",
    "rfc8869/2.1-uplink-fast",
    "rfc8869/2.1-uplink-no-aqm",
    "rfc8869/2.1-uplink",
    "rfc8869/2.2-downlink",
    "rfc8869/2.2-uplink",
];

/// A trace that they read, by the name that their files give it.
fn trace(name: &str) -> Option<&'static str> {
    packed::trace(name.strip_prefix("../")?)
}

/// The text of the scenario called `name`.
fn text(name: &str) -> &'static str {
    packed::scenario(&format!("{name}.toml"))
}

/// Every scenario of the gallery.
pub fn entries() -> Vec<Entry> {
    let entry = |name: &&str| {
        let document = Document::parse(text(name), name).ok();
        let sentence = document.as_ref().and_then(Document::description).unwrap_or_default();
        let lesson = document.and_then(|document| document.lesson().ok().flatten());
        Entry { name: (*name).to_owned(), sentence, lesson }
    };
    SCENARIOS.iter().map(entry).collect()
}

/// The scenario of the gallery called `name`.
pub(super) fn document(name: &str) -> Result<Document, ExploreError> {
    if named(name, SCENARIOS).is_none() {
        let text = format!("scenario: the gallery has no \"{name}\": take a name from it");
        return Err(ExploreError::Question(text));
    }
    Ok(built_in(name)?)
}

/// The scenario of the repository called `name`, such as `codel` or `rfc8869/2.1-downlink`; its folder may be left out.
///
/// # Errors
///
/// [`ScenarioError`]: there is none.
pub fn built_in(name: &str) -> Result<Document, ScenarioError> {
    let Some(name) = named(name, SCENARIOS).or_else(|| named(name, CITIES)) else {
        return Err(ScenarioError::new(vec![format!("no scenario is called \"{name}\"")]));
    };
    Ok(Document::parse(text(name), &format!("{name}.toml"))?.with_carried_traces(trace))
}

/// The scenario of this name among `known`; the folder may be left out.
fn named(name: &str, known: &[&'static str]) -> Option<&'static str> {
    let alone = |known: &str| known.rsplit_once('/').map_or(known, |(_, file)| file) == name;
    known.iter().find(|known| **known == name).or_else(|| known.iter().find(|known| alone(known))).copied()
}

/// Reads the scenario file at `path`; `-` is standard input. Where there is no such file, a name of the gallery or of a city of the
/// repository, such as `codel` or `rfc8869/2.1-downlink`, is that scenario; its folder may be left out.
///
/// # Errors
///
/// [`ScenarioError`]: there is no such file and no such name, it cannot be read, or it is not TOML.
pub fn load(path: impl AsRef<Path>) -> Result<Document, ScenarioError> {
    let path = path.as_ref();
    // A folder may have the name of the scenario whose results it holds.
    if path.is_dir() || !(path.as_os_str() == "-" || path.exists()) {
        let find = |name: &str| named(name, SCENARIOS).or_else(|| named(name, CITIES));
        let file = path.strip_prefix("scenarios").unwrap_or(path).to_string_lossy();
        if let Some(name) = find(&path.to_string_lossy()) {
            return built_in(name);
        }
        let wrong = |text: String| Err(ScenarioError::new(vec![format!("{}: {text}", path.display())]));
        let stem = file.strip_suffix(".toml");
        if let Some(name) = stem.and_then(find) {
            return wrong(format!("no such file: the built-in scenario is called \"{name}\""));
        }
        let names = SCENARIOS.iter().chain(CITIES).flat_map(|name| [Some(*name), name.split('/').nth(1)]);
        if let Some(near) = nearest(stem.unwrap_or(&file), &names.flatten().collect::<Vec<_>>())
            && !path.exists()
        {
            return wrong(format!("no such file or built-in scenario: did you mean \"{near}\"?"));
        }
    }
    Document::load(path)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// The scenario files of the repository: those of cities, or the others.
    fn in_repository(of_cities: bool) -> BTreeSet<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let entries = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let folders = entries(&root).filter(|path| path.is_dir()).chain([root.clone()]);
        let files = folders.flat_map(|folder| entries(&folder));
        let scenarios = files.filter(|file| file.extension().is_some_and(|extension| extension == "toml"));
        let wanted =
            scenarios.filter(|file| fs::read_to_string(file).unwrap().contains("[city]") == of_cities);
        wanted
            .map(|file| file.strip_prefix(&root).unwrap().with_extension("").display().to_string())
            .collect()
    }

    #[test]
    fn the_gallery_holds_the_scenarios_of_the_repository() {
        for (list, of_cities) in [(SCENARIOS, false), (CITIES, true)] {
            let listed: BTreeSet<String> = list.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(listed, in_repository(of_cities));
        }
    }

    #[test]
    fn each_scenario_of_the_gallery_is_valid_and_says_what_it_shows() {
        for Entry { name, sentence, lesson } in entries() {
            assert_eq!(lesson.is_some(), name.starts_with("lessons/"), "{name}");
            let scenario = document(&name).unwrap().scenario(&[]);
            assert!(scenario.is_ok(), "{name}: {}", scenario.unwrap_err());
            assert!((10..300).contains(&sentence.len()), "{name}: \"{sentence}\"");
        }
    }
}
