//! A headless Chromium, driven by `WebDriver` (W3C).
#![allow(clippy::disallowed_methods, reason = "processes are given time to get going")]

use std::{
    env,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// How long a page may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A browser with one window. It ends with the test.
pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let path = format!("/session/{}", self.session);
        // A driver that is gone has ended its browser.
        let _ = exchange(self.address, "DELETE", &path, None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

impl Browser {
    /// The installed browser; downloads go to `downloads`. Without one, the test says that it is skipped.
    pub(crate) fn start(test: &str, downloads: &Path) -> Option<Self> {
        let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
        let is_there = |name: &str| folders.iter().any(|folder| folder.join(name).is_file());
        if let Some(missing) = ["chromium", "chromedriver"].into_iter().find(|name| !is_there(name)) {
            // Past the capture of the test harness.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {missing} is not installed");
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Self { driver, address, session: String::new(), profile };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < PATIENCE, "chromedriver does not listen");
            thread::sleep(Duration::from_millis(50));
        }
        let folder = format!("--user-data-dir={}", browser.profile.path().display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=1400,1000",
            &folder,
        ];
        let options = json!({ "args": arguments });
        let wanted = json!({ "capabilities": { "alwaysMatch": { "goog:chromeOptions": options } } });
        let session = call(address, "POST", "/session", Some(&wanted));
        session["sessionId"].as_str().unwrap_or_else(|| panic!("{session}")).clone_into(&mut browser.session);
        let behaviour = json!({ "behavior": "allow", "downloadPath": downloads });
        let command = json!({ "cmd": "Browser.setDownloadBehavior", "params": behaviour });
        browser.post("goog/cdp/execute", &command);
        Some(browser)
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        call(self.address, "POST", &format!("/session/{}/{path}", self.session), Some(body))
    }

    pub(crate) fn open(&self, url: &str) {
        self.post("url", &json!({ "url": url }));
    }

    /// Sets the size of the page; a window cannot be as narrow as a phone.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let body = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": size });
        self.post("goog/cdp/execute", &body);
    }

    /// What the body of a function returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until the body of a function returns something true, and returns it.
    pub(crate) fn wait_for(&self, script: &str) -> Value {
        let began = Instant::now();
        loop {
            let found = self.run(script);
            if !matches!(found, Value::Null | Value::Bool(false)) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "never true: {script}");
            thread::sleep(Duration::from_millis(30));
        }
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub(crate) fn press(&self, keys: &[&str]) {
        let mut actions = Vec::new();
        for key in keys {
            actions.push(json!({ "type": "keyDown", "value": key }));
            actions.push(json!({ "type": "keyUp", "value": key }));
        }
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.post("actions", &json!({ "actions": [keyboard] }));
    }

    /// Drags along points of the window.
    pub(crate) fn drag(&self, points: &[(i64, i64)]) {
        let move_to = |(x, y): &(i64, i64)| json!({ "type": "pointerMove", "duration": 20, "x": x, "y": y });
        let mut actions: Vec<Value> = points.iter().map(move_to).collect();
        actions.insert(1, json!({ "type": "pointerDown", "button": 0 }));
        actions.push(json!({ "type": "pointerUp", "button": 0 }));
        let mouse = json!({ "type": "pointer", "id": "mouse", "parameters": { "pointerType": "mouse" }, "actions": actions });
        self.post("actions", &json!({ "actions": [mouse] }));
    }
}

/// The value that a command of `WebDriver` returns.
fn call(address: SocketAddr, method: &str, path: &str, body: Option<&Value>) -> Value {
    let (status, answer) =
        exchange(address, method, path, body).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert!(status.contains(" 200 "), "{method} {path}: {}", answer["value"]["message"]);
    answer["value"].clone()
}

/// The status line and the body of an answer. The driver keeps its connections open.
fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<(String, Value)> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let (mut status, mut length) = (String::new(), 0);
    reader.read_line(&mut status)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut content = vec![0; length];
    reader.read_exact(&mut content)?;
    Ok((status, serde_json::from_slice(&content)?))
}
