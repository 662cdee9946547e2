//! The files of one result: all of them appear, or none.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use serde::Serialize;

use giusto::{
    view::html::Report,
    whole_file::{Content, WholeFile, WriteError},
};

/// Files that are written, but not visible yet.
#[derive(Debug, Default)]
pub(crate) struct Files(Vec<(WholeFile, PathBuf)>);

impl Files {
    /// Adds `result.json` in `folder`.
    pub(crate) fn add_result(&mut self, folder: &Path, result: &impl Serialize) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(result)? + "\n";
        self.add(folder.join("result.json"), Content::RESULT, json.as_bytes())
    }

    /// Adds `report.html` in `folder`.
    pub(crate) fn add_report(&mut self, folder: &Path, report: &Report) -> anyhow::Result<()> {
        self.add(folder.join("report.html"), Content::REPORT, report.to_html().as_bytes())
    }

    /// Makes the files visible; gives their paths.
    pub(crate) fn commit(self) -> anyhow::Result<Vec<PathBuf>> {
        let commit = |(file, path): (WholeFile, PathBuf)| file.commit().map(|()| path);
        Ok(self.0.into_iter().map(commit).collect::<Result<_, WriteError>>()?)
    }

    fn add(&mut self, path: PathBuf, content: Content, bytes: &[u8]) -> anyhow::Result<()> {
        let mut file = WholeFile::create(&path, content)?;
        file.write_all(bytes).map_err(|error| WriteError::io(&path, content, error))?;
        self.0.push((file, path));
        Ok(())
    }
}
