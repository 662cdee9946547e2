//! Helpers of the tests of the command.
#![allow(dead_code, reason = "each test program uses some of them")]

pub(crate) mod chromium;
pub(crate) mod namespace;
pub(crate) mod process;
pub(crate) mod relay;

use std::{
    fs,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

/// The command with `args`, without input.
pub(crate) fn giusto(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_giusto"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs the command with `args` to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    giusto(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The JSON on standard output.
pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr)))
}

/// A directory with `s.toml`, in which commands run.
pub(crate) struct Folder(pub(crate) TempDir);

impl Folder {
    pub(crate) fn with(text: &str) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        fs::write(folder.path("s.toml"), text).unwrap();
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = giusto(args);
        command.current_dir(self.0.path());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The names in the directory, except that of the scenario.
    pub(crate) fn others(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "s.toml").collect()
    }
}

/// Lines of JSON: the intervals, and the results.
pub(crate) fn intervals_and_results(lines: &str) -> (Vec<Value>, Vec<Value>) {
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter_map(|line| line.get(kind)).cloned().collect();
    (of("interval"), of("result"))
}

pub(crate) fn total(intervals: &[Value], field: &str) -> i64 {
    intervals.iter().filter_map(|interval| interval[field].as_i64()).sum()
}
