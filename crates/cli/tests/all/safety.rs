//! `giusto recv` among unknown senders: keys, prefixes, limits, and output that is not read.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::UdpSocket,
    process::{ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

use crate::common::{giusto, json, process::Running, run, text};
use giusto_session::probe::wire::{FINISH_BYTES, Message, OPENING_BYTES, SenderFigures, StreamRequest};

/// A `giusto recv` on a free port of loopback; killed at the end of the test. Its output is read only where a test asks for it.
struct Receiver {
    process: Running,
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl Receiver {
    fn start(args: &[&str]) -> Self {
        let mut command = giusto(&["recv", "127.0.0.1:0"]);
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        // Warnings come first, such as that of a key file that all may read.
        while line.starts_with("warning: ") {
            line.clear();
            stderr.read_line(&mut line).unwrap();
        }
        let address = line.split_whitespace().nth(2).unwrap_or_else(|| panic!("no address in {line:?}"));
        Self { address: address.to_owned(), process: Running(child), stderr }
    }

    fn stop(&self) {
        self.process.signal("TERM");
    }

    /// Its exit status, within a minute.
    fn status(&mut self) -> i32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.process.0.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(start.elapsed() < Duration::from_secs(60), "the receiver does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn rest_of_stderr(&mut self) -> String {
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).unwrap();
        text
    }
}

fn request() -> StreamRequest {
    StreamRequest { rate_bps: Some(1_000_000), ..StreamRequest::nothing() }
}

/// A session without data, from a socket of its own. False if the receiver does not answer.
fn session(to: &str, nonce: u64) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut buffer = [0; 2048];
    let mut ask = |message: Message, bytes| {
        socket.send(&message.encode(bytes)).unwrap();
        let length = socket.recv(&mut buffer).ok()?;
        Message::decode(&buffer[..length]).ok()
    };
    let Some(Message::Challenge { nonce, cookie }) = ask(Message::Hello { nonce }, OPENING_BYTES) else {
        return false;
    };
    let open = Message::Open { nonce, cookie, request: request() };
    let Some(Message::Accepted { token, .. }) = ask(open, OPENING_BYTES) else { return false };
    let finish = Message::Finish { token, figures: SenderFigures::default() };
    matches!(ask(finish, FINISH_BYTES), Some(Message::Report { .. }))
}

#[test]
fn unread_output_does_not_block_reception() {
    let mut receiver = Receiver::start(&[]);
    // A pipe holds 64 KiB: 81 results, or so.
    for number in 0..400 {
        assert!(session(&receiver.address, number), "no answer to session {number}");
    }
    receiver.stop();
    assert_eq!(receiver.status(), 1);
    let stderr = receiver.rest_of_stderr();
    assert!(stderr.contains("standard output is not read: "), "{stderr}");
    assert!(stderr.contains(" were not printed"), "{stderr}");
}

#[test]
fn output_that_is_read_is_complete() {
    let mut receiver = Receiver::start(&[]);
    let mut stdout = receiver.process.0.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    for number in 0..200 {
        assert!(session(&receiver.address, number), "no answer to session {number}");
    }
    receiver.stop();
    assert_eq!(receiver.status(), 0);
    let text = reader.join().unwrap().unwrap();
    let results = text.matches("\nloss     ").count();
    assert_eq!(results, 200, "{}", &text[..text.len().min(2000)]);
}

#[test]
fn both_ends_need_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (one, other) = ("07".repeat(32), "08".repeat(32));
    let key = file("key", &format!("1 {one}\n"));
    let wrong = file("wrong", &format!("1 {other}\n"));
    let both = file("both", &format!("2 {other}\n1 {one}\n"));
    let send = |to: &str, args: &[&str]| {
        let common = ["send", to, "--rate", "1M", "--size", "200", "--count", "200", "--json"];
        run(&[&common[..], args].concat())
    };
    let mut receiver = Receiver::start(&["--json", "--key-file", &key]);
    for (args, message) in [
        (&[][..], "it accepts only authenticated senders: give both ends the same keys (--key-file)"),
        (&["--key-file", &wrong], "it does not have this key, or another one under its id"),
    ] {
        let output = send(&receiver.address, args);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
    for keys in [&key, &both] {
        let sent = send(&receiver.address, &["--key-file", keys]);
        let sent = json(&sent);
        assert_eq!((&sent["received_packets"], &sent["authenticated"]), (&200.into(), &true.into()));
        assert_eq!(sent["one_way_delay_ms"]["basis"], "absolute: one clock at both ends");
    }
    receiver.stop();
    // 3: a busy machine sends late.
    assert!([0, 3].contains(&receiver.status()));
    let mut stdout = String::new();
    receiver.process.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    let received: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(received["runs"].as_array().unwrap().len(), 2);
    assert_eq!(received["runs"][1]["authenticated"], true);
    assert!(received["unmeasured_datagrams"]["unauthenticated"].as_u64().unwrap() >= 2);

    let receiver = Receiver::start(&[]);
    let output = send(&receiver.address, &["--key-file", &key]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("its unauthenticated answer: it has no keys"),
        "{}",
        text(&output.stderr)
    );
    let output = send(&receiver.address, &["--key-file", &key, "--one-way"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_limit_ends_a_stream_with_a_reason_at_both_ends() {
    let mut receiver = Receiver::start(&["--once", "--json", "--max-bytes", "20000"]);
    let output =
        run(&["send", &receiver.address, "--rate", "1M", "--size", "200", "--duration", "20s", "--json"]);
    let reason = "it carried more than the receiver's maximum of bytes (--max-bytes)";
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(reason), "{}", text(&output.stderr));
    assert_eq!(receiver.status(), 1);
    let stderr = receiver.rest_of_stderr();
    assert!(stderr.contains(reason), "{stderr}");
    let mut stdout = String::new();
    receiver.process.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    let received: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let packets = received["received_packets"].as_u64().unwrap();
    assert!((101..=1000).contains(&packets), "{packets}");
    assert_eq!(received["ended"], format!("ended by the receiver: {reason}"));
}

#[test]
fn denied_addresses_get_no_answer() {
    for args in [["--deny", "127.0.0.0/8"], ["--allow", "192.0.2.0/24,2001:db8::/32"]] {
        let receiver = Receiver::start(&args);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        socket.send_to(&Message::Hello { nonce: 1 }.encode(OPENING_BYTES), &receiver.address).unwrap();
        assert!(socket.recv(&mut [0; 2048]).is_err());
    }
    assert!(session(&Receiver::start(&["--allow", "127.0.0.1"]).address, 1));
    let wrong = run(&["recv", "--allow", "192.0.2.0/33"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("found \"192.0.2.0/33\""), "{}", text(&wrong.stderr));
}

#[test]
fn the_service_unit_is_valid_and_hardened() {
    // Its flags exist: what is missing is the key file.
    assert_unit("giusto-recv", "--key-file ${CREDENTIALS_DIRECTORY}/keys: cannot be read");
}

#[cfg(feature = "monitor")]
#[test]
fn the_unit_of_the_monitor_is_valid_and_hardened() {
    assert_unit("giusto-monitor", "/etc/giusto/monitor.toml: cannot be read");
}

fn assert_unit(name: &str, missing: &str) {
    let unit = format!("{}/../../packaging/{name}.service", env!("CARGO_MANIFEST_DIR"));
    let unit = fs::read_to_string(unit).unwrap();
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let (program, args) = command.split_once(' ').unwrap();
    let output = run(&args.split(' ').collect::<Vec<_>>());
    assert!(text(&output.stderr).contains(missing), "{}", text(&output.stderr));

    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("SKIPPED {name}.service: no systemd-analyze");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{name}.service"));
    fs::write(&path, unit.replace(program, env!("CARGO_BIN_EXE_giusto"))).unwrap();
    let analyze = |args: &[&str]| Command::new("systemd-analyze").args(args).arg(&path).output().unwrap();
    let verified = analyze(&["verify"]);
    assert!(verified.status.success(), "{}", text(&verified.stderr));
    // An exposure of 0 is the best, one of 100 the worst.
    let security = analyze(&["security", "--offline=true", "--threshold=25"]);
    assert!(security.status.success(), "{}", text(&security.stdout));
}
