//! `giusto monitor`.

use crate::common::{run, text};

#[cfg(not(feature = "monitor"))]
#[test]
fn without_sqlite_the_monitor_says_how_to_get_it() {
    let output = run(&["monitor", "monitor.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.lines().count() == 1 && error.contains("--features monitor"), "{error}");
}

#[cfg(feature = "monitor")]
mod present {
    use std::{
        fs,
        io::{BufRead, BufReader, Read, Write},
        net::TcpListener,
        os::unix::fs::PermissionsExt as _,
        path::Path,
        process::{Command, Stdio},
        sync::mpsc,
        thread,
        time::{Duration, Instant},
    };

    use serde_json::Value;

    use super::{run, text};
    use crate::common::{
        get, giusto, key_file,
        namespace::{Far, Routed, in_namespace},
        process::Running,
        skip,
    };

    /// Hosts, with streams of 0.3 s each second.
    const FILE: &str = r#"
listen = "127.0.0.1:0"
keys = "keys"
[[host]]
id = "near"
address = "10.9.0.1"
[[host]]
id = "far"
address = "10.9.0.2"
[[stream]]
id = "load"
kind = "cbr"
rate = "200 kbit/s"
size = "250 B"
reverse = true
interval = "1 s"
duration = "300 ms"
[threshold]
loss = 0.5
"#;

    /// A monitor that runs, and what it says.
    struct Monitor {
        process: Running,
        page: String,
        lines: mpsc::Receiver<String>,
    }

    impl Monitor {
        fn start(folder: &Path) -> Self {
            let file = folder.join("monitor.toml");
            let mut command = giusto(&["monitor", file.to_str().unwrap(), "--here", "near"]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let stderr = BufReader::new(child.stderr.take().unwrap());
            let (say, lines) = mpsc::channel();
            thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(say.send(line))));
            let process = Running(child);
            let first = lines.recv_timeout(Duration::from_secs(60)).unwrap();
            let page = first.split("page at http://").nth(1).and_then(|rest| rest.split('/').next());
            let page = page.unwrap_or_else(|| panic!("{first}")).to_owned();
            Self { process, page, lines }
        }

        fn says(&self, part: &str) -> String {
            let end = Instant::now() + Duration::from_secs(60);
            loop {
                let left = end.saturating_duration_since(Instant::now());
                let line =
                    self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("it does not say {part:?}"));
                if line.contains(part) {
                    return line;
                }
            }
        }

        fn get(&self, path: &str) -> String {
            let answer = get(&self.page, path);
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer:.200}");
            answer
        }

        /// Waits until the metrics are as wanted, and returns them.
        #[track_caller]
        fn until(&self, is_wanted: impl Fn(&str) -> bool, wanted: &str) -> String {
            let end = Instant::now() + Duration::from_secs(60);
            loop {
                let metrics = self.get("/metrics");
                if is_wanted(&metrics) {
                    return metrics;
                }
                assert!(Instant::now() < end, "{wanted}\n{metrics}");
                thread::sleep(Duration::from_millis(100));
            }
        }

        /// Waits for lines of the metrics.
        fn shows(&self, wanted: &[String]) -> String {
            let has = |metrics: &str, line: &String| metrics.lines().any(|found| found == line);
            self.until(|metrics| wanted.iter().all(|line| has(metrics, line)), &wanted.join(" "))
        }

        /// Waits for this number of results more.
        fn has_results(&self, more: u64) {
            let before = results(&self.get("/metrics"));
            self.until(|metrics| results(metrics) >= before + more, "results");
        }
    }

    /// The number of results so far.
    fn results(metrics: &str) -> u64 {
        let counts = metrics.lines().filter(|line| line.starts_with("giusto_monitor_results_total"));
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Lines that say whether both directions are known.
    fn both(is_known: u8) -> [String; 2] {
        [known("near", "far", is_known), known("far", "near", is_known)]
    }

    fn known(from: &str, to: &str, known: u8) -> String {
        format!("giusto_monitor_known{{from=\"{from}\",to=\"{to}\",stream=\"load\"}} {known}")
    }

    /// A folder with the file, more lines in it, and keys.
    fn folder(more: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("monitor.toml"), format!("{FILE}{more}")).unwrap();
        write_keys(folder.path());
        folder
    }

    fn write_keys(folder: &Path) {
        let path = folder.join("keys");
        fs::write(&path, key_file("11")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// What `sqlite3` of Python, another program with `SQLite`, finds in the database.
    fn query(folder: &Path, text: &str) -> Option<Value> {
        let script = "import json, sqlite3, sys\n\
                      db = sqlite3.connect(sys.argv[1])\n\
                      print(json.dumps([db.execute('PRAGMA integrity_check').fetchall(), db.execute(sys.argv[2]).fetchall()]))";
        let database = folder.join("monitor.db");
        let output = Command::new("python3").arg("-c").arg(script).arg(database).arg(text).output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found[0][0][0], "ok");
        Some(found[1].clone())
    }

    #[test]
    fn every_error_of_a_file_is_said_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("m.toml");
        let wrong = "listen = \"9106\"\n[[host]]\nid = \"a\"\naddress = \"192.0.2.1:http\"\n[[host]]\nadress = \"b\"\n\
                     [[stream]]\nid = \"s\"\nkind = \"cbr\"\nduration = \"50 s\"\n[webhook]\nurl = \"ftp://a\"\n";
        fs::write(&file, wrong).unwrap();
        let output = run(&["monitor", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2));
        let errors = text(&output.stderr);
        for (line, part) in [
            (1, "listen: expected an address and a port"),
            (4, "host \"a\": address: expected HOST or HOST:PORT"),
            (5, "host 2: id is missing"),
            (5, "host 2: address is missing"),
            (6, "host 2: unknown key \"adress\": did you mean \"address\"?"),
            (10, "stream \"s\": duration: must be at most half of the interval, 30 s, found 50 s"),
            (12, "webhook: url: expected a URL such as https://example.org/alerts, found \"ftp://a\""),
        ] {
            let found = errors.lines().any(|error| error.contains(&format!("m.toml:{line}: {part}")));
            assert!(found, "{line}: {part}\n{errors}");
        }
        fs::write(&file, FILE).unwrap();
        let keyless = text(&run(&["monitor", file.to_str().unwrap(), "--here", "far"]).stderr);
        assert!(keyless.contains("m.toml: keys: ") && keyless.contains("No such file"), "{keyless}");
        fs::write(&file, FILE.replace("keys = \"keys\"\n", "")).unwrap();
        let nobody = run(&["monitor", file.to_str().unwrap(), "--here", "nobody"]);
        let said = text(&nobody.stderr);
        assert!(said.contains("no host is called \"nobody\": say which of near, far this is"), "{said}");
        let fine = run(&["monitor", file.to_str().unwrap(), "--here", "far", "--check"]);
        assert_eq!(fine.status.code(), Some(0));
    }

    /// A host that goes and comes, a monitor that is killed, reloaded and stopped.
    #[test]
    fn a_monitor_outlives_hosts_and_its_own_end() {
        in_namespace("a monitor that is killed", 65_536, || {
            let far = Far::behind(1500);
            let hook = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("\n[webhook]\nurl = \"http://{}/told\"\n", hook.local_addr().unwrap());
            let (tell, notices) = mpsc::channel();
            thread::spawn(move || while tell.send(told(&hook)).is_ok() {});
            let told = || notices.recv_timeout(Duration::from_secs(60)).unwrap();
            let folder = folder(&url);
            let keys = folder.path().join("keys");
            let receiver = far.listener(&["recv", "10.9.0.2:5005", "--key-file", keys.to_str().unwrap()]);

            let mut monitor = Monitor::start(folder.path());
            monitor.shows(&both(1));
            let page = monitor.get("/");
            assert!(page.contains("giusto monitor") && page.contains("\"link\":\"pair?from=near&to=far"));
            let charts = monitor.get("/pair?from=near&to=far&stream=load&span=6h");
            let figures = ["Round-trip time", "\"value\":\"0 %\""];
            assert!(figures.iter().all(|figure| charts.contains(figure)), "{charts:.1000}");

            // It is killed: what was written is there, and it goes on.
            let before = results(&monitor.get("/metrics"));
            monitor.process.0.kill().unwrap();
            monitor.process.0.wait().unwrap();
            if let Some(rows) = query(folder.path(), "SELECT count(*) FROM result") {
                assert!(rows[0][0].as_u64().unwrap() >= before, "{rows} {before}");
            }
            let mut monitor = Monitor::start(folder.path());
            monitor.shows(&[known("near", "far", 1)]);

            // The far end goes: unknown, not 0 % of loss, and told once.
            drop(receiver);
            monitor.shows(&[known("near", "far", 0)]);
            monitor.has_results(6);
            assert!(!monitor.get("/metrics").contains("loss_ratio{from=\"near\",to=\"far\""));
            let (first, second) = (told(), told());
            for notice in [&first, &second] {
                assert_eq!((&notice["event"], &notice["bound"]), (&"crossed".into(), &"reachable".into()));
            }
            assert_ne!(first["from"], second["from"]);
            let receiver = far.listener(&["recv", "10.9.0.2:5005", "--key-file", keys.to_str().unwrap()]);
            monitor.shows(&[known("near", "far", 1)]);
            assert_eq!(told()["event"], "kept");

            // A wrong file changes nothing, a right one what it says.
            let file = folder.path().join("monitor.toml");
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace("0.5", "50")).unwrap();
            monitor.process.signal("HUP");
            assert!(monitor.says("monitor.toml:").contains("threshold: loss: must be 0 to 1, found 50"));
            monitor.says("the configuration from before stays in force");
            fs::write(&file, text.replace("id = \"load\"", "id = \"flow\"")).unwrap();
            monitor.process.signal("HUP");
            monitor.says("the configuration was read again");
            let metrics = monitor.shows(&[known("near", "far", 1).replace("load", "flow")]);
            assert!(!metrics.contains("stream=\"load\""), "{metrics}");

            monitor.process.signal("TERM");
            assert!(monitor.process.0.wait().unwrap().success());
            drop(receiver);
            let outages = "SELECT count(*), sum(until IS NULL) FROM event WHERE kind = 'outage'";
            if let Some(rows) = query(folder.path(), outages) {
                assert_eq!(rows, serde_json::json!([[2, 0]]));
            }
        });
    }

    #[test]
    fn calls_are_watched_in_both_directions() {
        in_namespace("calls that are watched", 65_536, || {
            let far = Far::behind(1500);
            let folder = tempfile::tempdir().unwrap();
            let (load, rest) = FILE.split_once("id = \"load\"\n").unwrap();
            let (_, bounds) = rest.split_once("duration").unwrap();
            let call = "id = \"load\"\nkind = \"call\"\nmax-rate = \"500 kbit/s\"\nreverse = true\ninterval = \"2 s\"\nduration";
            let text = format!("{load}{call}{}", bounds.replace("300 ms", "900 ms"));
            fs::write(folder.path().join("monitor.toml"), text).unwrap();
            write_keys(folder.path());
            let keys = folder.path().join("keys");
            let listener =
                far.listener(&["call", "--listen", "10.9.0.2:5004", "--key-file", keys.to_str().unwrap()]);

            let monitor = Monitor::start(folder.path());
            let metrics = monitor.shows(&both(1));
            let figure = |name: &str, from: &str, more: &str| {
                let to = if from == "near" { "far" } else { "near" };
                let start =
                    format!("giusto_monitor_{name}{{from=\"{from}\",to=\"{to}\",stream=\"load\"{more}}} ");
                let value = metrics.lines().find_map(|line| line.strip_prefix(&start)).map(str::parse::<f64>);
                value.unwrap_or_else(|| panic!("{start}\n{metrics}")).unwrap()
            };
            for from in ["near", "far"] {
                // It begins at 300 kbit/s, and is bounded by 500.
                let (used, rate) =
                    (figure("use_ratio", from, ""), figure("received_bytes_per_second", from, ""));
                assert!(used > 0.1 && used < 1.3, "{from}: {used}");
                assert!((rate * 8.0 / 500e3 / used - 1.0).abs() < 1e-3, "{from}: {rate} {used}");
                let [p50, p99] = ["0.5", "0.99"]
                    .map(|part| figure("frame_delay_seconds", from, &format!(",quantile=\"{part}\"")));
                assert!(p50 > 0.0 && p50 <= p99, "{from}: {p50} {p99}");
                assert!((0.0..=1.0).contains(&figure("loss_ratio", from, "")));
            }
            let charts = monitor.get("/pair?from=far&to=near&stream=load&span=6h");
            assert!(charts.contains("Frame delay") && charts.contains("Use"), "{charts:.1000}");

            // Without a listener all is unknown, never 0.
            drop(listener);
            let metrics = monitor.shows(&both(0));
            for name in ["loss_ratio{", "use_ratio{", "frame_delay_seconds{", "received_bytes_per_second{"] {
                assert!(!metrics.contains(name), "{name}\n{metrics}");
            }
        });
    }

    /// Voice, a constant bit rate and a call find the MTU of a path, and then that it is smaller; their own datagrams are small.
    #[test]
    fn streams_find_the_mtu_of_their_path_and_its_change() {
        in_namespace("the MTU of watched paths", 65_536, || {
            let path = Routed::with_mtu(1300);
            let folder = tempfile::tempdir().unwrap();
            write_keys(folder.path());
            let hosts = FILE.split("[[stream]]").next().unwrap().replace("10.9.0.2", "10.9.1.3");
            let stream = |kind: &str, [interval, duration]: [u8; 2], more: &str| {
                format!(
                    "[[stream]]\nid = \"{kind}\"\nkind = \"{kind}\"\nmtu-discovery = true\n{more}interval = \"{interval} s\"\nduration = \"{duration} s\"\n"
                )
            };
            let (cbr, call) = ("rate = \"200 kbit/s\"\nsize = \"250 B\"\n", "max-rate = \"500 kbit/s\"\n");
            // A call looks for the MTU while it lasts.
            let text = [
                hosts,
                stream("voice", [2, 1], ""),
                stream("cbr", [2, 1], cbr),
                stream("call", [10, 5], call),
            ]
            .concat();
            fs::write(folder.path().join("monitor.toml"), text).unwrap();
            let keys = folder.path().join("keys");
            let keys = ["--key-file", keys.to_str().unwrap()];
            let receive = ["recv", "10.9.1.3:5005", "--accept-unauthenticated"];
            let _receiver = path.far.listener(&[&receive[..], &keys].concat());
            let _listener = path.far.listener(&[&["call", "--listen", "10.9.1.3:5004"], &keys[..]].concat());

            let monitor = Monitor::start(folder.path());
            let kinds = ["voice", "cbr", "call"];
            monitor.shows(&kinds.map(|kind| known("near", "far", 1).replace("load", kind)));
            // Each has seen the path as it was.
            monitor.has_results(3);
            path.router.run("ip link set outer mtu 1250");
            path.far.run("ip link set far mtu 1250");
            let end = Instant::now() + Duration::from_secs(60);
            for kind in kinds {
                let page = format!("/pair?from=near&to=far&stream={kind}&span=6h");
                while !monitor.get(&page).contains("MTU 1300 → 1250") {
                    assert!(Instant::now() < end, "{kind}");
                    thread::sleep(Duration::from_millis(200));
                }
                // Nothing else was taken for it, before or since.
                let events = monitor.get(&page).matches("MTU 1").count();
                assert_eq!(events, monitor.get(&page).matches("MTU 1300 → 1250").count(), "{kind}");
            }
        });
    }

    /// The next notice, which is accepted.
    fn told(hook: &TcpListener) -> Value {
        let (client, _) = hook.accept().unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut lines = BufReader::new(client);
        let (mut line, mut length) = (String::new(), 0);
        while lines.read_line(&mut line).unwrap() > 2 {
            length =
                line.strip_prefix("Content-Length: ").map_or(length, |text| text.trim().parse().unwrap());
            line.clear();
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body).unwrap();
        lines.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    /// A disk without room: measuring goes on, and what was measured meanwhile is written when there is room again.
    #[test]
    fn a_full_disk_loses_no_result() {
        in_namespace("a full disk", 65_536, || {
            let far = Far::behind(1500);
            let folder = folder("");
            let disk = folder.path().join("disk");
            fs::create_dir(&disk).unwrap();
            let mount = ["-t", "tmpfs", "-o", "size=400k", "tmpfs"];
            if !Command::new("mount").args(mount).arg(&disk).status().is_ok_and(|status| status.success()) {
                return skip("a full disk", "cannot mount a tmpfs");
            }
            let _unmount = Unmount(&disk);
            let file = disk.join("monitor.toml");
            fs::copy(folder.path().join("monitor.toml"), &file).unwrap();
            write_keys(&disk);
            let keys = folder.path().join("keys");
            let _receiver = far.listener(&["recv", "10.9.0.2:5005", "--key-file", keys.to_str().unwrap()]);
            let monitor = Monitor::start(&disk);
            monitor.shows(&[known("near", "far", 1)]);

            // The rest of the disk.
            let filler = disk.join("filler");
            let mut fill = fs::File::create(&filler).unwrap();
            while fill.write_all(&[7; 1024]).is_ok() {}
            drop(fill);
            let warning = monitor.says("results are not written");
            assert!(warning.contains("free some space; results wait in memory meanwhile"), "{warning}");
            monitor.shows(&["giusto_monitor_writing 0".to_owned()]);
            monitor.has_results(4);
            fs::remove_file(&filler).unwrap();
            monitor.says("results are written again");
            let count = results(&monitor.shows(&["giusto_monitor_waiting_results 0".to_owned()]));
            if let Some(rows) = query(&disk, "SELECT count(*) FROM result") {
                assert!(rows[0][0].as_u64().unwrap() >= count, "{rows} {count}");
            }
        });
    }

    /// Ends a mount with the test.
    struct Unmount<'a>(&'a Path);

    impl Drop for Unmount<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("-l").arg(self.0).status();
        }
    }
}
