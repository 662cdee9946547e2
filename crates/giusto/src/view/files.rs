//! The files of one result: all of them appear, or none.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    json,
    view::html::Report,
    whole_file::{self, Content, WholeFile, WriteError},
};

/// Files that are written, but not visible yet.
#[derive(Debug, Default)]
pub struct Files(Vec<WholeFile>);

impl Files {
    /// Adds `result.json` in `folder`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn add_result(&mut self, folder: &Path, result: &impl Serialize) -> Result<(), WriteError> {
        let path = folder.join("result.json");
        let json = json::pretty(result)
            .map_err(|error| WriteError::io(&path, Content::RESULT, io::Error::other(error)))?;
        self.0.push(whole_file::prepare(&path, Content::RESULT, (json + "\n").as_bytes())?);
        Ok(())
    }

    /// Adds `report.html` in `folder`.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn add_report(&mut self, folder: &Path, report: &Report) -> Result<(), WriteError> {
        let page = report.to_html();
        self.0.push(whole_file::prepare(&folder.join("report.html"), Content::REPORT, page.as_bytes())?);
        Ok(())
    }

    /// Makes the files visible; gives their paths.
    ///
    /// # Errors
    ///
    /// [`WriteError`] names the path and the fix.
    pub fn commit(self) -> Result<Vec<PathBuf>, WriteError> {
        self.0.into_iter().map(WholeFile::commit).collect()
    }
}
