//! `giusto call --browser`.

#[cfg(not(feature = "browser"))]
use crate::common::{run, text};

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
        Folder, chromium::Visitor, count, firefox::Firefox, giusto, json, namespace::in_network, number,
        process::Running, run, skip, text,
    };

    pub(crate) fn data(name: &str) -> String {
        format!("{}/../webrtc/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
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
            return skip(TEST, "ffmpeg has no libaom-av1");
        }
        let flags = ["--media", "av1.ivf", "--max-rate", "1M", "-t", "4", "--json"];
        let visit = |profile: &str, page: &str| Visitor::to(TEST, profile, &format!("{page}?auto"));
        let Some((record, said)) = called(&folder, &flags, visit) else { return };
        assert_eq!(record["call"]["video"]["codec"], "av1", "{record}");
        let (decoded, sent) =
            (count(&record["browser"]["frames_decoded"]), count(&record["connection"]["frames"]));
        assert!(decoded >= 20 && decoded <= sent && decoded * 2 >= sent, "{decoded} of {sent}: {said:?}");
    }

    #[test]
    fn chromium_and_giusto_agree_on_a_call() {
        let folder = Folder::with("");
        let media = [data("low.ivf"), data("high.ivf")].join(",");
        let flags = ["--media", &media, "--max-rate", "1M", "-t", "4", "--json", "--out", "r.html"];
        let flags = [&flags[..], &["--trace", "t.csv", "--session-log", "log.jsonl"]].concat();
        let test = "chromium_and_giusto_agree_on_a_call";
        let visit = |profile: &str, page: &str| Visitor::to(test, profile, &format!("{page}?auto"));
        let Some((record, said)) = called(&folder, &flags, visit) else { return };
        let (flow, browser) = (&record["flows"][0], &record["browser"]);
        let stream = &flow["streams"][0];
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
        assert!(count(&flow["decisions"]) >= 1 && number(&flow["target_rate_bps"]) > 0.0);
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
            let flags = ["--listen", "192.0.2.1:0", "--media", &low, "--max-rate", "1M", "-t", "4", "--json"];
            let visit = |_: &str, page: &str| {
                let mut browser = Firefox::start(TEST)?;
                browser.visit(&format!("{page}?auto"));
                Some(browser)
            };
            let Some((record, said)) = called(&folder, &flags, visit) else { return };
            let (decoded, sent) =
                (count(&record["browser"]["frames_decoded"]), count(&record["connection"]["frames"]));
            assert!(decoded >= 10 && decoded <= sent, "{decoded} of {sent}: {said:?}");
            assert!(record["browser"]["user_agent"].as_str().unwrap().contains("Firefox"), "{record}");
        });
    }
}
