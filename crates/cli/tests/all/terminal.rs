//! What a newcomer sees in a terminal: tables that fit, first lines, errors and progress.

use std::{
    io::{BufRead, BufReader},
    net::{Ipv6Addr, SocketAddr, UdpSocket},
    process::Stdio,
    time::{Duration, Instant},
};

use crate::common::{Folder, run, skip, text};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use socket2::{Domain, Socket, Type};

/// Media, TCP and voice that share a link.
const SHARED: &str = r#"duration = "6 s"
[[link]]
id = "bottleneck"
from = "here"
to = "there"
rate = "3 Mbit/s"
delay = "20 ms"
duplex = true
[[flow]]
id = "call"
kind = "media"
controller = "gcc:libwebrtc+giusto"
audio = {}
[[flow]]
id = "download"
kind = "tcp"
[[flow]]
id = "voice"
kind = "cbr"
rate = "64 kbit/s"
size = "200 B"
"#;

fn in_columns(folder: &Folder, columns: &str, args: &[&str]) -> String {
    let output = folder.command(args).env("COLUMNS", columns).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn tables_fit_into_a_terminal_of_40_columns() {
    let folder = Folder::with(SHARED);
    let calls = ["compare", "s.toml", "--controller", "nada,scream:v2"];
    for args in [&["sim", "s.toml"][..], &calls] {
        let table = in_columns(&folder, "40", args);
        let rows = table.lines().filter(|line| !line.contains(['✓', '✗']) && !line.contains("seed "));
        let widest = rows.clone().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 40, "{widest}\n{table}");
        // Each part names its rows again.
        let names: &[&str] = if args[0] == "sim" { &["download", "voice"] } else { &["nada", "scream:v2"] };
        for name in names {
            let count = rows.clone().filter(|line| line.split_whitespace().next() == Some(name)).count();
            assert!(count >= 2, "{name}: {count}\n{table}");
        }
    }
}

/// The lines of a text that belong to tables: the two above a rule, it, and those below it up to an empty line or a sentence.
fn table_lines(printed: &str) -> Vec<&str> {
    let lines: Vec<&str> = printed.lines().collect();
    let mut found = Vec::new();
    for (place, _) in lines.iter().enumerate().filter(|(_, line)| line.starts_with('─')) {
        found.extend(lines[place.saturating_sub(2)..].iter().take(3));
        found.extend(lines[place + 1..].iter().take_while(|line| !line.is_empty() && !line.ends_with('.')));
    }
    found
}

fn assert_fits(printed: &str, columns: usize) {
    let lines = table_lines(printed);
    assert!(!lines.is_empty(), "{printed}");
    for line in lines {
        assert!(line.chars().count() <= columns, "{columns} columns: {line}\n{printed}");
    }
}

#[test]
fn tables_fit_the_terminal_and_wide_prints_all_columns() {
    let folder = Folder::with(SHARED);
    let benchmark =
        "benchmark --scenarios 1 --controller fixed,nada,gcc:libwebrtc+giusto,scream:v2 --out kept";
    let mut benchmark: Vec<&str> = benchmark.split(' ').collect();
    // Its runs are kept: what follows prints them.
    folder.run(&benchmark);
    benchmark.push("--resume");
    // Of each command: what a narrow terminal must show, and what only a wide one has.
    let commands: [(&[&str], &[&str], &[&str]); 4] = [
        (
            &["sim", "s.toml"],
            &["received", "loss", "queueing delay ms", "utilisation"],
            &["goodput", "marked"],
        ),
        (
            &["compare", "s.toml", "--controller", "fixed,nada,gcc:libwebrtc+giusto"],
            &["received", "target", "loss", "queueing delay"],
            &["changes", "feedback"],
        ),
        (
            &["sweep", "s.toml", "--set", "bottleneck.rate=2M,3M", "--seeds", "1,2"],
            &["bottleneck.rate", "flow", "received", "queueing delay"],
            &["one-way delay"],
        ),
        (&benchmark, &["utility", "use", "frame delay"], &["p10"]),
    ];
    for (args, narrow, wide) in commands {
        for columns in [80, 100, 140] {
            let printed = in_columns(&folder, &columns.to_string(), args);
            assert_fits(&printed, columns);
            for name in narrow {
                assert!(printed.contains(name), "{columns}: {name}: {printed}");
            }
        }
        let printed = in_columns(&folder, "80", args);
        assert!(printed.contains("--wide shows "), "{printed}");
        // Neither --wide nor what no terminal reads leaves out anything.
        let all = text(&folder.run(args).stdout);
        let asked = in_columns(&folder, "80", &[args, &["--wide"]].concat());
        for all in [&all, &asked] {
            for name in wide {
                assert!(all.contains(name), "{name}: {all}");
            }
            assert!(!all.contains("--wide shows "), "{all}");
        }
    }
}

#[test]
fn a_call_to_a_closed_port_fails_at_once() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = run(&["call", &port.to_string(), "-t", "60"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let expected = format!("error: {port}: no program listens at the port");
    assert!(error.starts_with(&expected) && error.contains("giusto call --listen"), "{error}");
}

/// All addresses were asked for: those of IPv4 alone would miss what comes by IPv6.
#[test]
fn a_port_that_is_taken_in_ipv6_alone_is_in_use() {
    let taken = Socket::new(Domain::IPV6, Type::DGRAM, None).and_then(|socket| {
        socket.set_only_v6(true)?;
        socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)).into())?;
        Ok(socket)
    });
    let Ok(taken) = taken else {
        return skip("a_port_that_is_taken_in_ipv6_alone_is_in_use", "there is no IPv6");
    };
    let port = taken.local_addr().unwrap().as_socket().unwrap().port().to_string();
    let output = Folder::with(SHARED).run(&["recv", "--port", &port, "--duration", "1s"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(&format!("cannot bind to [::]:{port}")), "{error}");
}

#[test]
fn a_merge_names_failed_runs_by_commands_that_repeat_them() {
    let file = format!(
        "{SHARED}[[expect]]\nflow = \"voice\"\nmetric = \"delay-p95\"\nmin = \"0 ms\"\nmax = \"1 ms\"\n"
    );
    let folder = Folder::with(&file);
    for (shard, out) in [("1/2", "1"), ("2/2", "2")] {
        let args =
            ["sweep", "s.toml", "--set", "duration=1s", "--seeds", "1,2", "--shard", shard, "--out", out];
        assert_eq!(folder.run(&args).status.code(), Some(1));
    }
    let merged = folder.run(&["merge", "1", "2"]);
    let message = text(&merged.stderr);
    assert_eq!(merged.status.code(), Some(1), "{message}");
    // The value has the spelling of the sweep, and is quoted for a shell.
    let command = "giusto sim s.toml --seed 2 --set 'duration=1 s'";
    assert!(message.contains(&format!("expectation not met: {command}: flow voice: delay-p95")), "{message}");
}

#[test]
fn a_reproduction_of_minutes_shows_its_progress_without_a_terminal() {
    let folder = Folder::with(SHARED);
    let mut command = folder.command(&["reproduce", "scream-lte", "--quick", "--json"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{line}");
    // Before that it is no news.
    assert!(began.elapsed() >= Duration::from_secs(4), "{line}");
    let (share, rest) = line.split_once(" %: ").unwrap_or_else(|| panic!("{line}"));
    assert!(share.parse::<u64>().unwrap() < 100 && rest.contains(" runs"), "{line}");
}
