//! Files of one result: all of them appear, or none.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use serde::Serialize;

use giusto::{
    view::html::Report,
    whole_file::{Content, WholeFile, WriteError},
};

/// Files that are written and not yet seen.
#[derive(Debug, Default)]
pub(crate) struct Files(Vec<(WholeFile, PathBuf)>);

impl Files {
    /// `result.json` in `folder`.
    pub(crate) fn add_result(&mut self, folder: &Path, result: &impl Serialize) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(result)? + "\n";
        self.add(folder.join("result.json"), Content::RESULT, json.as_bytes())
    }

    /// `report.html` in `folder`.
    pub(crate) fn add_report(&mut self, folder: &Path, report: &Report) -> anyhow::Result<()> {
        self.add(folder.join("report.html"), Content::REPORT, report.to_html().as_bytes())
    }

    /// Lets them be seen, and names them.
    pub(crate) fn commit(self) -> anyhow::Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        for (file, path) in self.0 {
            file.commit()?;
            written.push(path);
        }
        Ok(written)
    }

    fn add(&mut self, path: PathBuf, content: Content, bytes: &[u8]) -> anyhow::Result<()> {
        let mut file = WholeFile::create(&path, content)?;
        file.write_all(bytes).map_err(|error| WriteError::io(&path, content, error))?;
        self.0.push((file, path));
        Ok(())
    }
}
