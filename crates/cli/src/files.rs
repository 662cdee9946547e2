//! The files of one result: all of them appear, or none.

use std::path::{Path, PathBuf};

use serde::Serialize;

use giusto::{
    view::html::Report,
    whole_file::{self, Content, WholeFile, WriteError},
};

/// Files that are written, but not visible yet.
#[derive(Debug, Default)]
pub(crate) struct Files(Vec<WholeFile>);

impl Files {
    /// Adds `result.json` in `folder`.
    pub(crate) fn add_result(&mut self, folder: &Path, result: &impl Serialize) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(result)? + "\n";
        self.0.push(whole_file::prepare(&folder.join("result.json"), Content::RESULT, json.as_bytes())?);
        Ok(())
    }

    /// Adds `report.html` in `folder`.
    pub(crate) fn add_report(&mut self, folder: &Path, report: &Report) -> anyhow::Result<()> {
        let page = report.to_html();
        self.0.push(whole_file::prepare(&folder.join("report.html"), Content::REPORT, page.as_bytes())?);
        Ok(())
    }

    /// Makes the files visible; gives their paths.
    pub(crate) fn commit(self) -> anyhow::Result<Vec<PathBuf>> {
        Ok(self.0.into_iter().map(WholeFile::commit).collect::<Result<_, WriteError>>()?)
    }
}
