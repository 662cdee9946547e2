//! `giusto recv` among unknown senders: keys, prefixes, limits, and output that is not read.

use std::{fs, net::UdpSocket, os::unix::fs::PermissionsExt as _, process::Command, thread, time::Duration};

use crate::common::{
    assert_has, count, json, key_file,
    process::{Listener, start},
    run, skip, text,
};
use giusto_session::probe::wire::{FINISH_BYTES, Message, OPENING_BYTES, SenderFigures, StreamRequest};
use serde_json::json;

fn receiver(args: &[&str]) -> Listener {
    Listener::start(&[&["127.0.0.1:0"], args].concat())
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
    let mut receiver = receiver(&[]);
    // A pipe holds 64 KiB: 81 results, or so.
    for number in 0..400 {
        assert!(session(&receiver.to(), number), "no answer to session {number}");
    }
    receiver.process.signal("TERM");
    assert_eq!(receiver.process.0.wait().unwrap().code(), Some(1));
    let mut lines = std::iter::repeat_with(|| receiver.next_line());
    let line = lines.find(|line| line.contains("standard output is not read: ")).unwrap();
    assert!(line.contains(" were not printed"), "{line}");
}

#[test]
fn output_that_is_read_is_complete() {
    let mut receiver = receiver(&[]);
    let mut stdout = receiver.process.0.stdout.take().unwrap();
    let reader = thread::spawn(move || std::io::read_to_string(&mut stdout));
    for number in 0..200 {
        assert!(session(&receiver.to(), number), "no answer to session {number}");
    }
    receiver.process.signal("TERM");
    assert_eq!(receiver.process.0.wait().unwrap().code(), Some(0));
    let text = reader.join().unwrap().unwrap();
    assert_eq!(text.matches("\nloss     ").count(), 200, "{}", &text[..text.len().min(2000)]);
}

#[test]
fn both_ends_need_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let [key, wrong] = ["07", "08"].map(|byte| file(byte, &key_file(byte)));
    let both = file("both", &format!("2 {}\n{}", "08".repeat(32), key_file("07")));
    let send = |to: &str, args: &[&str]| {
        run(&[&["send", to, "--rate", "1M", "--size", "200", "--count", "200", "--json"], args].concat())
    };
    let receivers = [receiver(&["--json", "--key-file", &key]), receiver(&[])];
    let [with, without] = receivers.each_ref().map(Listener::to);
    for (to, args, message) in [
        (&with, &[][..], "it accepts only authenticated senders: give both ends the same keys (--key-file)"),
        (&with, &["--key-file", &wrong], "it does not have this key, or another one under its id"),
        (&without, &["--key-file", &key], "its unauthenticated answer: it has no keys"),
    ] {
        let output = send(to, args);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(message), "{said}");
    }
    for keys in [&key, &both] {
        let sent = json(&send(&with, &["--key-file", keys]));
        assert_has(&sent, &json!({ "received_packets": 200, "authenticated": true }));
        assert_eq!(sent["one_way_delay_ms"]["basis"], "absolute: one clock at both ends");
    }
    let [receiver, _] = receivers;
    let (received, code) = receiver.stop();
    // 3: a busy machine sends late.
    assert!([0, 3].contains(&code) && received["runs"].as_array().unwrap().len() == 2, "{received}");
    assert_eq!(received["runs"][1]["authenticated"], true);
    assert!(count(&received["unmeasured_datagrams"]["unauthenticated"]) >= 2);
}

#[test]
fn a_limit_ends_a_stream_with_a_reason_at_both_ends() {
    let receiver = receiver(&["--once", "--json", "--max-bytes", "20000"]);
    let output = run(&["send", &receiver.to(), "--rate", "1M", "--size", "200", "--duration", "20s"]);
    let reason = "it carried more than the receiver's maximum of bytes (--max-bytes)";
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).contains(reason),
        "{}",
        text(&output.stderr)
    );
    let mut lines = std::iter::repeat_with(|| receiver.next_line());
    assert!(lines.any(|line| line.contains(reason)));
    let (received, code) = receiver.result();
    assert_eq!((code, &received["ended"]), (1, &format!("ended by the receiver: {reason}").into()));
    assert!((101..=1000).contains(&count(&received["received_packets"])), "{received}");
}

#[test]
fn a_stream_beyond_the_limits_is_refused() {
    for limit in ["--max-streams", "--max-streams-per-host"] {
        let receiver = receiver(&[limit, "1"]);
        let send = ["send", &receiver.to(), "--rate", "1M", "--size", "200", "--duration", "20s"];
        let _first = start(&send);
        receiver.next_line();
        let refused = text(&run(&send).stderr);
        assert!(refused.contains("maximum number of streams"), "{limit}: {refused}");
    }
}

#[test]
fn denied_addresses_get_no_answer() {
    for args in [["--deny", "127.0.0.0/8"], ["--allow", "192.0.2.0/24,2001:db8::/32"]] {
        let receiver = receiver(&args);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        socket.send_to(&Message::Hello { nonce: 1 }.encode(OPENING_BYTES), receiver.address).unwrap();
        assert!(socket.recv(&mut [0; 2048]).is_err());
    }
    assert!(session(&receiver(&["--allow", "127.0.0.1"]).to(), 1));
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
        return skip(name, "no systemd-analyze");
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
