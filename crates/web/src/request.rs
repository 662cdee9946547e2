//! What a page asks of its engine.

use std::collections::BTreeMap;

use giusto::{
    explore::{Question, Side},
    record::RunRecord,
};
use serde::Deserialize;

/// A request, as JSON: `"picture"`, or an object with one field, such as `{"sketch": "media"}`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// The version of the engine.
    Version,
    /// Explore this file from now on; the answer is whether it is well formed.
    File(File),
    /// A question; the answer is the number of variants and of seeds, and the picture where it is one run.
    Ask(Question),
    /// Run a variant of the question with a seed and keep the record; the answer is empty.
    Run(Run),
    /// The same, but the answer is the record.
    Lend(Run),
    /// Keep the record of a run that was made elsewhere.
    Keep(Run, Box<RunRecord>),
    /// The picture of the records that are kept: of the first seed, then of all.
    Picture,
    /// The text of the side's file with its settings.
    Save(Side),
    /// The run of a side, packet by packet.
    Film(Side),
    /// A small picture of a scenario of the gallery.
    Sketch(String),
    /// The record of a file, as `giusto sim --json` prints it, but without the time that it took.
    Simulate(File),
}

/// One run of a question, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Run(
    /// Its variant.
    pub usize,
    /// Its seed.
    pub u16,
);

/// A scenario file and the files beside it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Traces and controllers that it may name: their names, with any folder or none, and texts.
    #[serde(default)]
    pub beside: BTreeMap<String, String>,
}
