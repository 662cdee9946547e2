//! SIGTERM ends every command soon, by the clock on the wall, with its result so far.

use std::{
    io::Read,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use crate::common::{Folder, process::Running};
use nix::{sys::stat::Mode, unistd::mkfifo};
use serde_json::Value;

/// Time to begin.
const BEGIN: Duration = Duration::from_secs(2);
/// On an idle machine all end within a second. Each of them takes many minutes if it is not ended.
const SOON: Duration = Duration::from_secs(45);

/// 100,000 flows of 100 Mbit/s each: an hour of it takes days.
const MANY: &str = "duration = \"3600 s\"\n\
    link = [{ id = \"wire\", from = \"here\", to = \"there\", rate = \"100 Gbit/s\", delay = \"10 ms\" }]\n\
    flow = [{ id = \"any\", kind = \"cbr\", rate = \"100 Mbit/s\", size = \"1200 B\", count = 100000 }]\n";

/// A media flow for a hundred days.
const LONG: &str = "duration = \"8640000 s\"\n\
    link = [{ id = \"wire\", from = \"here\", to = \"there\", rate = \"5 Mbit/s\", delay = \"10 ms\", duplex = true }]\n\
    flow = [{ id = \"call\", kind = \"media\" }]\n";

/// Starts all commands, ends them with SIGTERM, and returns what each printed and its exit status.
fn ended(folder: &Folder, commands: &[&[&str]]) -> Vec<(String, Option<i32>)> {
    let start = |args: &&[&str]| {
        let mut command = folder.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let printed = thread::spawn(move || {
            let mut printed = String::new();
            stdout.read_to_string(&mut printed).unwrap();
            printed
        });
        (Running(child), printed)
    };
    let all: Vec<_> = commands.iter().map(start).collect();
    thread::sleep(BEGIN);
    for (running, _) in &all {
        running.signal("TERM");
    }
    let signalled = Instant::now();
    let end = |((mut running, printed), args): ((Running, thread::JoinHandle<String>), &&[&str])| {
        let status = loop {
            if let Some(status) = running.0.try_wait().unwrap() {
                break status;
            }
            assert!(signalled.elapsed() < SOON, "still runs: {args:?}");
            thread::sleep(Duration::from_millis(10));
        };
        (printed.join().unwrap(), status.code())
    };
    all.into_iter().zip(commands).map(end).collect()
}

#[test]
fn a_simulation_of_many_flows_ends_with_what_it_has() {
    let folder = Folder::with(MANY);
    let [(printed, status)] = &ended(&folder, &[&["sim", "s.toml", "--json"]])[..] else { panic!() };
    let record: Value = serde_json::from_str(printed).unwrap();
    assert_eq!((*status, &record["interrupted"]), (Some(0), &true.into()));
    assert!(!record["flows"].as_array().unwrap().is_empty() && record["checks"] == Value::Array(vec![]));
}

#[test]
fn every_command_ends_soon() {
    let folder = Folder::with(LONG);
    std::fs::write(folder.path("many.toml"), LONG.replace("8640000 s", "1 s")).unwrap();
    let values = |unit: &str| (1..=1000).map(|n| format!("{n}{unit}")).collect::<Vec<_>>().join(",");
    let (delays, rates) = (format!("wire.delay={}", values("ms")), format!("wire.rate={}", values("M")));
    let speeds = (1..=200).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let commands: [&[&str]; 13] = [
        &["sweep", "s.toml", "--json"],
        // A million scenarios are read before the first run.
        &["sweep", "many.toml", "--set", &delays, "--set", &rates, "--seeds", "1"],
        &["compare", "s.toml", "--json"],
        &["compare", "s.toml", "--json", "--live"],
        &["benchmark", "--scenarios", "100000", "--json"],
        &["reproduce", "rrtcc", "--json"],
        &["reproduce", "scream-lte", "--seeds", "1000", "--json"],
        &["lte", "traces", "--duration", "600s", "--speed", &speeds, "--out", "traces", "--json"],
        &["explore", "--no-open"],
        &["cbr", "-t", "3600s", "--rate", "1M", "--size", "1200", "--json"],
        // Nobody calls or sends.
        &["call", "--listen", "127.0.0.1:0", "--once", "--json"],
        &["call", "--listen", "127.0.0.1:0", "--json"],
        &["recv", "127.0.0.1:0", "--json"],
    ];
    for ((printed, status), args) in ended(&folder, &commands).iter().zip(commands) {
        // 1: an expectation; 3: a busy machine.
        assert!(matches!(status, Some(0 | 1 | 3)), "{status:?} {args:?}");
        if args.contains(&"--json") {
            assert!(serde_json::from_str::<Value>(printed).is_ok(), "{args:?}: {printed:.200}");
        }
    }
}

#[test]
fn a_merge_has_no_result_so_far_and_ends_at_once() {
    let folder = Folder::with(LONG);
    // Nobody writes to it: who reads it waits.
    mkfifo(&folder.path("part"), Mode::S_IRWXU).unwrap();
    let [(printed, status)] = &ended(&folder, &[&["merge", "part"]])[..] else { panic!() };
    assert_eq!((printed.as_str(), *status), ("", None));
}
