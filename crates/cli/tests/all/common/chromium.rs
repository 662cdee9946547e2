//! A headless Chromium, driven by the Chrome `DevTools` Protocol.

use std::{
    env,
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
};

use nix::{
    sys::{
        signal::{Signal, kill},
        stat::Mode,
    },
    unistd::{Pid, mkfifo},
};
use serde_json::{Value, json};

use super::{browser::Browser, skip};

/// A browser with one page. It ends with the test.
pub(crate) struct Chromium {
    child: Child,
    /// Pipes of JSON objects, each with a zero byte after it.
    to: File,
    from: BufReader<File>,
    session: Value,
    number: u64,
    loads: u64,
    /// Errors that the page has logged.
    pub(crate) errors: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

impl Chromium {
    /// The installed browser, if possible the one without windows, which takes less time. Without one, the test says that it is skipped.
    pub(crate) fn start(test: &str) -> Option<Self> {
        let folders = env::var_os("PATH").unwrap_or_default();
        let installed = |name: &&str| env::split_paths(&folders).any(|folder| folder.join(name).is_file());
        let Some(program) = ["chromium-headless-shell", "chromium"].into_iter().find(installed) else {
            skip(test, "chromium is not installed");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let [to, from] = ["to", "from"].map(|name| profile.path().join(name));
        mkfifo(&to, Mode::S_IRWXU).unwrap();
        mkfifo(&from, Mode::S_IRWXU).unwrap();
        let flags = "--headless=new --no-sandbox --disable-gpu --no-first-run --hide-scrollbars --window-size=1400,1000";
        // `timeout` ends a browser that hangs, and with it the pipes.
        let script = format!(
            "exec timeout --kill-after=5 600 {program} {flags} --remote-debugging-pipe \"--user-data-dir=$0/profile\" \
             about:blank 3<\"$0/to\" 4>\"$0/from\""
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(profile.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Each waits for the other end, in the order of the shell.
        let to = File::options().write(true).open(to).unwrap();
        let from = BufReader::new(File::open(from).unwrap());
        let (session, errors) = (Value::Null, Vec::new());
        let mut browser = Self { child, to, from, session, number: 0, loads: 0, errors, _profile: profile };
        let target =
            browser.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].clone();
        for domain in ["Log", "Runtime", "Page"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Calls a method of the protocol.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": params });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == self.number {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// The next answer or event.
    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "the browser has ended");
        let message: Value = serde_json::from_slice(&message).unwrap();
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Page.loadEventFired") => self.loads += 1,
            Some("Runtime.exceptionThrown") => self.errors.push(params.to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.errors.push(params.to_string());
            }
            _ => {}
        }
        message
    }

    fn load(&mut self, method: &str, params: &Value) {
        let before = self.loads;
        self.call(method, params);
        while self.loads == before {
            self.receive();
        }
    }

    /// Opens a page and waits until it is loaded.
    pub(crate) fn open(&mut self, url: &str) {
        self.load("Page.navigate", &json!({ "url": url }));
    }

    /// Loads the page again.
    pub(crate) fn reload(&mut self) {
        self.load("Page.reload", &json!({}));
    }

    /// The value of an expression on the page, or of a block.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is neither null nor false, and returns it.
    pub(crate) fn wait(&mut self, expression: &str) -> Value {
        Browser::wait(self, expression)
    }

    /// Sets the size of the page.
    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Sets whether the reader prefers a dark page.
    pub(crate) fn prefer_dark(&mut self, dark: bool) {
        self.prefer("prefers-color-scheme", if dark { "dark" } else { "light" });
    }

    /// Sets a preference of the reader, and takes others back.
    pub(crate) fn prefer(&mut self, name: &str, value: &str) {
        let features = json!([{ "name": name, "value": value }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Runs a script before those of each page from now on.
    pub(crate) fn precede(&mut self, script: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": script }));
    }

    /// Lets the page save files.
    pub(crate) fn save_to(&mut self, folder: &Path) {
        let behaviour = json!({ "behavior": "allow", "downloadPath": folder });
        self.call("Browser.setDownloadBehavior", &behaviour);
    }

    /// Presses a key, wherever the focus is.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "ArrowLeft" => (37, ""),
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            _ => panic!("{key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let own =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", &own);
        }
    }

    /// Drags the mouse along points of the window.
    pub(crate) fn drag(&mut self, points: &[(i64, i64)]) {
        let mut dispatch = |kind: &str, buttons: u8, &(x, y): &(i64, i64)| {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        };
        let [first, .., last] = points else { panic!("{points:?}") };
        dispatch("mousePressed", 1, first);
        for point in points {
            dispatch("mouseMoved", 1, point);
        }
        dispatch("mouseReleased", 0, last);
    }
}

impl Browser for Chromium {
    fn open(&mut self, url: &str) {
        self.open(url);
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        self.evaluate(expression)
    }

    fn errors(&mut self) -> Vec<String> {
        self.errors.clone()
    }
}

/// A browser that has opened one page, and that nothing drives. It ends with the test.
#[cfg(feature = "browser")]
pub(crate) struct Visitor(Child);

#[cfg(feature = "browser")]
impl Drop for Visitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(feature = "browser")]
impl Visitor {
    /// A camera and a microphone that Chromium makes: a picture that moves, and beeps.
    const CAMERA: [&str; 2] = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"];

    /// The installed browser at this page. Without one, the test says that it is skipped.
    pub(crate) fn to(test: &str, profile: &str, url: &str) -> Option<Self> {
        Self::with(test, profile, url, &[])
    }

    /// The same with a camera and a microphone, which the page may use; it sees the addresses of this machine then.
    pub(crate) fn with_camera(test: &str, profile: &str, url: &str) -> Option<Self> {
        Self::with(test, profile, url, &Self::CAMERA)
    }

    fn with(test: &str, profile: &str, url: &str, flags: &[&str]) -> Option<Self> {
        let mut command = Command::new("chromium");
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
        command.arg("--autoplay-policy=no-user-gesture-required").args(flags);
        command.arg(format!("--user-data-dir={profile}")).arg(url);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => Some(Self(child)),
            Err(error) => {
                skip(test, &format!("no chromium is installed ({error})"));
                None
            }
        }
    }
}
