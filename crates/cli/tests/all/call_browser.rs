//! `giusto call --browser`.

use crate::common::{run, text};

#[test]
fn flags_that_browsers_do_not_have_are_refused_by_name() {
    for (flags, complaint) in [
        (&["--once"][..], "--once: not supported with --browser: leave it out, or use --listen"),
        (&["--audio"], "--audio: not supported with --browser"),
        (&["--key-file", "keys"], "--key-file: not supported with --browser"),
        (&["--scenario", "s.toml"], "--scenario: not supported with --browser"),
        (&["192.0.2.1"], "unexpected \"192.0.2.1\": leave it out"),
    ] {
        let output = run(&[&["call", "--browser"], flags].concat());
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {printed}");
        assert!(printed.contains(complaint) && printed.lines().count() == 1, "{flags:?}: {printed}");
    }
}

#[cfg(not(feature = "browser"))]
#[test]
fn without_webrtc_the_message_says_how_to_get_it() {
    let output = run(&["call", "--browser", "--media", "a.ivf"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--features browser"), "{}", text(&output.stderr));
}

#[cfg(feature = "browser")]
pub(crate) mod with_webrtc {
    use std::{
        fs,
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
        thread,
    };

    use serde_json::Value;

    use crate::common::{
        Folder, chromium::Visitor, firefox::Firefox, giusto, json, namespace::in_network, process::Running,
        run, text,
    };

    const TEST: &str = "chromium_and_giusto_agree_on_a_call";

    pub(crate) fn data(name: &str) -> String {
        format!("{}/../webrtc/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn media_that_browsers_cannot_decode_are_refused() {
        let folder = Folder::with("");
        fs::write(folder.path("a.txt"), "no video").unwrap();
        let low = data("low.ivf");
        for (flags, complaint) in [
            (vec!["--repair", "flexfec", "--media", "a.ivf"], "--repair"),
            (vec![], "--browser needs --media"),
            (
                vec!["--save", "a.ivf", "--media", "a.ivf"],
                "--save: nothing comes from the browser: add --reverse or --bidir",
            ),
            (vec!["--codec", "vp9", "--media", &low], "--codec: only with --reverse"),
            (vec!["--reverse", "--codec", "av2"], "expected vp8, h264, vp9 or av1, found \"av2\""),
            (
                vec!["--reverse", "--codec", "vp9", "--save", "a.h264"],
                "--save: the file has no room for VP9: use a name that ends in .ivf or .mkv",
            ),
            (
                vec!["--reverse", "--controller", "tempo"],
                "gcc:remb or gcc:rmcat-02 can limit it, found tempo",
            ),
            (vec!["--reverse", "--save", "a.txt"], "a.txt: unknown kind of file"),
            (vec!["--bidir", "--media", &low, "--save", "a.h264"], "in both directions the video is VP8"),
            (vec!["--media", "missing.ivf"], "missing.ivf"),
            (vec!["--media", "a.txt"], "a.txt"),
        ] {
            let output = folder.run(&[&["call", "--browser"], &flags[..]].concat());
            let printed = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{flags:?}: {printed}");
            assert!(printed.contains(complaint), "{flags:?}: {printed}");
        }
        let output = run(&["call", "--browser", "--listen", "192.0.2.1:9", "--media", &data("low.ivf")]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("192.0.2.1:9"), "{}", text(&output.stderr));
    }

    /// A call on this machine whose page a browser visits, with a folder for its profile: the record, and the lines of standard error.
    /// `None` without a browser.
    pub(crate) fn called<B>(
        folder: &Folder,
        flags: &[&str],
        visit: impl FnOnce(&str, &str) -> Option<B>,
    ) -> Option<(Value, Vec<String>)> {
        let listen: &[&str] = if flags.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let mut command = giusto(&[&["call", "--browser"], listen, flags].concat());
        command.current_dir(folder.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let caller = Running(child);
        let mut lines = stderr.lines();
        let first = lines.next().unwrap().unwrap();
        let address = first.split("http://").nth(1).and_then(|it| it.split(' ').next()).unwrap();
        let browser = visit(&folder.path("profile").display().to_string(), &format!("http://{address}/"))?;
        // The record is longer than a pipe: both are read at once.
        let said = thread::spawn(move || lines.map(Result::unwrap).collect::<Vec<String>>());
        let output = caller.output();
        let said = said.join().unwrap();
        drop(browser);
        // 3: this machine was overloaded.
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said:?}");
        Some((json(&output), said))
    }

    #[test]
    fn chromium_decodes_av1() {
        const TEST: &str = "chromium_decodes_av1";
        let folder = Folder::with("");
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=15", "-t", "3"]);
        command.args(["-pix_fmt", "yuv420p", "-c:v", "libaom-av1", "-usage", "realtime", "-cpu-used", "8"]);
        command.args(["-b:v", "300k", "-g", "15"]).arg(folder.path("av1.ivf"));
        if !command.status().is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED {TEST}: ffmpeg has no libaom-av1");
            return;
        }
        let flags = ["--media", "av1.ivf", "--max-rate", "1M", "-t", "5", "--json"];
        let visit = |profile: &str, page: &str| Visitor::to(TEST, profile, &format!("{page}?auto"));
        let Some((record, said)) = called(&folder, &flags, visit) else { return };
        assert_eq!(record["call"]["video"]["codec"], "av1", "{record}");
        let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} of {said:?}"));
        let (decoded, sent) =
            (count(&record["browser"]["frames_decoded"]), count(&record["connection"]["frames"]));
        assert!(decoded >= 20 && decoded <= sent && decoded * 2 >= sent, "{decoded} of {sent}");
    }

    #[test]
    fn chromium_and_giusto_agree_on_a_call() {
        let folder = Folder::with("");
        let media = [data("low.ivf"), data("high.ivf")].join(",");
        let flags = ["--media", &media, "--max-rate", "1M", "-t", "5", "--json", "--out", "r.html"];
        let flags = [&flags[..], &["--trace", "t.csv", "--session-log", "log.jsonl"]].concat();
        let visit = |profile: &str, page: &str| Visitor::to(TEST, profile, &format!("{page}?auto"));
        let Some((record, said)) = called(&folder, &flags, visit) else { return };
        let (flow, browser) = (&record["flows"][0], &record["browser"]);
        let stream = &flow["streams"][0];
        let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{record}"));
        assert_eq!((&flow["id"], &flow["to"]), (&"call".into(), &"browser".into()));
        assert_eq!(record["call"]["error"], Value::Null);
        // What the browser has counted, and what left here: the last packets may come after its last sample.
        let (sent, received) = (count(&flow["sent_packets"]), count(&flow["received_packets"]));
        assert!(received > 20 && received <= sent && received == count(&browser["received_packets"]));
        let lost = browser["lost_packets"].as_i64().unwrap_or_else(|| panic!("{browser}")).max(0) as u64;
        assert_eq!(count(&flow["lost_packets"]), lost.min(sent - received));
        assert!(stream["repair"]["requested_packets"].is_u64(), "{stream}");
        let (decoded, frames) = (count(&browser["frames_decoded"]), count(&record["connection"]["frames"]));
        assert!(decoded >= 10 && decoded <= frames, "{decoded} of {frames}");
        assert!(flow["decisions"].as_u64().unwrap() >= 1 && flow["target_rate_bps"].as_f64().unwrap() > 0.0);
        assert!(browser["samples"].as_array().unwrap().len() > 10);
        assert_eq!(record["connection"]["end"], "ended here");
        assert!(said.iter().any(|line| line.starts_with("connected to 127.0.0.1:")), "{said:?}");
        assert!(said.iter().any(|line| line.contains(" s: sent ") && line.contains("received ")), "{said:?}");

        let page = fs::read_to_string(folder.path("r.html")).unwrap();
        assert!(page.contains("Rates at both ends") && page.contains("received by the browser"));
        assert!(fs::read_to_string(folder.path("t.csv")).unwrap().lines().count() > 100);
        let log = folder.path("log.jsonl").display().to_string();
        let replayed = run(&["replay", &log, "--json"]);
        assert_eq!(replayed.status.code(), Some(0), "{}", text(&replayed.stderr));
    }

    #[test]
    fn firefox_decodes_what_is_sent() {
        const TEST: &str = "firefox_decodes_what_is_sent";
        in_network(TEST, || {
            let folder = Folder::with("");
            let low = data("low.ivf");
            let flags = ["--listen", "192.0.2.1:0", "--media", &low, "--max-rate", "1M", "-t", "5", "--json"];
            let visit = |_: &str, page: &str| {
                let mut browser = Firefox::start(TEST)?;
                browser.visit(&format!("{page}?auto"));
                Some(browser)
            };
            let Some((record, said)) = called(&folder, &flags, visit) else { return };
            let count = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value} of {said:?}"));
            let (decoded, sent) =
                (count(&record["browser"]["frames_decoded"]), count(&record["connection"]["frames"]));
            assert!(decoded >= 10 && decoded <= sent, "{decoded} of {sent}");
            assert!(record["browser"]["user_agent"].as_str().unwrap().contains("Firefox"), "{record}");
        });
    }
}
