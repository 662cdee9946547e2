//! Helpers of the tests of the command.

pub(crate) mod browser;
pub(crate) mod chromium;
pub(crate) mod firefox;
pub(crate) mod namespace;
pub(crate) mod process;
pub(crate) mod relay;
pub(crate) mod shark;
mod strict;

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

/// The command with `args`, without input. Its tables have all columns, wherever the tests run.
pub(crate) fn giusto(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_giusto"));
    command.args(args).stdin(Stdio::null()).env_remove("COLUMNS");
    command
}

/// Runs the command with `args` to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    giusto(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The JSON on standard output, of which no object has a name twice.
pub(crate) fn json(output: &Output) -> Value {
    strict::check(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)));
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr)))
}

/// Checks the exit status of a measurement that came to its end: 3 if `result` or a part of it names a doubt, as on a busy
/// machine, and 0 if not. The doubt is printed also where the output of tests is captured.
#[track_caller]
pub(crate) fn assert_measured(code: Option<i32>, result: &Value) {
    let doubt = first_doubt(result);
    if let Some(doubt) = &doubt {
        let _ = writeln!(std::io::stderr(), "DOUBTFUL figures in a test: {doubt}");
    }
    assert_eq!(code, Some(if doubt.is_some() { 3 } else { 0 }), "{doubt:?} {result}");
}

/// The first of all doubts in a result.
fn first_doubt(result: &Value) -> Option<String> {
    match result {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| match name.as_str() {
            "doubts" => Some(value.get(0)?.as_str()?.to_owned()),
            _ => first_doubt(value),
        }),
        Value::Array(values) => values.iter().find_map(first_doubt),
        _ => None,
    }
}

/// The JSON of a measurement that came to its end, whose exit status is that of [`assert_measured`].
#[track_caller]
pub(crate) fn measured(output: &Output) -> Value {
    let result = json(output);
    assert_measured(output.status.code(), &result);
    result
}

/// The JSON of a command that came to its end, on a busy machine (3) or not.
#[track_caller]
pub(crate) fn finished(output: &Output) -> Value {
    assert!(matches!(output.status.code(), Some(0 | 3)), "{} {}", text(&output.stdout), text(&output.stderr));
    json(output)
}

/// Asserts that `value` has the fields of `expected`, with these values; it may have more.
#[track_caller]
pub(crate) fn assert_has(value: &Value, expected: &Value) {
    for (name, own) in expected.as_object().unwrap() {
        assert_eq!(&value[name], own, "{name}: {value}");
    }
}

#[track_caller]
pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

#[track_caller]
pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no count: {value}"))
}

/// The content of a key file: key 1, which is this byte again and again.
pub(crate) fn key_file(byte: &str) -> String {
    format!("1 {}\n", byte.repeat(32))
}

/// What a server answers to a request for `path`.
pub(crate) fn get(host: &str, path: &str) -> String {
    let mut client = TcpStream::connect(host).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

/// Says that a test is skipped, also where the output of tests is captured.
pub(crate) fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

/// The same of a command that prints text: its warnings come first.
#[track_caller]
pub(crate) fn assert_measured_text(output: &Output) {
    let printed = text(&output.stdout);
    let warned = printed.starts_with("warning: ");
    assert_eq!(output.status.code(), Some(if warned { 3 } else { 0 }), "{printed} {}", text(&output.stderr));
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
