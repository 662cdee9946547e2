//! A headless Firefox, driven by Marionette, the protocol beneath its `WebDriver`.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use super::{
    browser::{Browser, PATIENCE},
    skip,
};

/// No page asks for anything outside this machine, and the browser's own services must not: they get a proxy that nobody is.
const PREFERENCES: &str = r#"
user_pref("marionette.port", 0);
user_pref("network.proxy.type", 1);
user_pref("network.proxy.http", "127.0.0.1");
user_pref("network.proxy.http_port", 9);
user_pref("network.proxy.ssl", "127.0.0.1");
user_pref("network.proxy.ssl_port", 9);
user_pref("network.proxy.no_proxies_on", "192.0.2.0/24");
user_pref("media.peerconnection.ice.proxy_only_if_behind_proxy", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("media.peerconnection.ice.obfuscate_host_addresses", false);
user_pref("media.navigator.streams.fake", true);
user_pref("media.navigator.permission.disabled", true);
user_pref("media.autoplay.default", 0);
"#;

/// Runs a script on the page and returns what it tells. The page's security policy allows scripts of its own text, and no `eval`.
const RUN: &str = "
const [script, done] = arguments;
document.addEventListener('told', ({ detail }) => done(detail), { once: true });
window.addEventListener('error', ({ message }) => done(JSON.stringify({ error: message })), { once: true });
const element = document.createElement('script');
element.textContent = script;
document.documentElement.append(element);
element.remove();";

/// A browser with one page. It ends with the test.
pub(crate) struct Firefox {
    child: Child,
    stream: BufReader<TcpStream>,
    number: u64,
    _profile: tempfile::TempDir,
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

impl Firefox {
    /// The installed browser. Without one, the test says that it is skipped.
    pub(crate) fn start(test: &str) -> Option<Self> {
        let folders = env::var_os("PATH").unwrap_or_default();
        let found = ["firefox", "firefox-esr"]
            .into_iter()
            .find(|name| env::split_paths(&folders).any(|folder| folder.join(name).is_file()));
        let Some(program) = found else {
            skip(test, "firefox is not installed");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        fs::write(profile.path().join("user.js"), PREFERENCES).unwrap();
        // `timeout` ends a browser that hangs.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "600", program, "--headless", "--marionette", "--no-remote"]);
        command.arg("--profile").arg(profile.path()).env("HOME", profile.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + PATIENCE;
        let stream = loop {
            let port = fs::read_to_string(profile.path().join("MarionetteActivePort")).unwrap_or_default();
            let port = port.trim().parse::<u16>().ok();
            if let Some(Ok(stream)) = port.map(|port| TcpStream::connect(("127.0.0.1", port))) {
                break stream;
            }
            assert!(Instant::now() < end, "{program} opens no port for Marionette");
            thread::sleep(Duration::from_millis(100));
        };
        stream.set_read_timeout(Some(PATIENCE * 2)).unwrap();
        let mut browser = Self { child, stream: BufReader::new(stream), number: 0, _profile: profile };
        let hello = browser.receive();
        assert_eq!(hello["marionetteProtocol"], 3, "{hello}");
        browser.call("WebDriver:NewSession", &json!({}));
        browser.call("WebDriver:SetTimeouts", &json!({ "script": 60_000, "pageLoad": 90_000 }));
        Some(browser)
    }

    /// Goes to a page that runs by itself, whose security policy may forbid other scripts.
    #[cfg(feature = "browser")]
    pub(crate) fn visit(&mut self, url: &str) {
        self.call("WebDriver:Navigate", &json!({ "url": url }));
    }

    /// The text of the first element that a selector of CSS finds.
    #[cfg(feature = "browser")]
    pub(crate) fn text(&mut self, selector: &str) -> String {
        let found =
            self.call("WebDriver:FindElement", &json!({ "using": "css selector", "value": selector }));
        let element = found["value"].as_object().and_then(|all| all.values().next()).cloned();
        let text = self.call("WebDriver:GetElementText", &json!({ "id": element }));
        text["value"].as_str().unwrap_or_default().to_owned()
    }

    /// Calls a method of the protocol: `[0, number, name, parameters]`, answered by `[1, number, error, result]`.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.number += 1;
        let message = json!([0, self.number, method, params]).to_string();
        write!(self.stream.get_mut(), "{}:{message}", message.len()).unwrap();
        let answer = self.receive();
        assert_eq!((&answer[1], &answer[2]), (&json!(self.number), &Value::Null), "{method}: {answer}");
        answer[3].clone()
    }

    /// A message: its length in bytes, a colon, and JSON.
    fn receive(&mut self) -> Value {
        let mut length = Vec::new();
        self.stream.read_until(b':', &mut length).unwrap();
        assert_eq!(length.pop(), Some(b':'), "the browser has ended");
        let mut message = vec![0; std::str::from_utf8(&length).unwrap().parse().unwrap()];
        self.stream.read_exact(&mut message).unwrap();
        serde_json::from_slice(&message).unwrap()
    }

    fn run(&mut self, script: &str) -> Value {
        let answer = self.call("WebDriver:ExecuteAsyncScript", &json!({ "script": RUN, "args": [script] }));
        serde_json::from_str(answer["value"].as_str().unwrap_or("null")).unwrap()
    }
}

impl Browser for Firefox {
    fn open(&mut self, url: &str) {
        self.call("WebDriver:Navigate", &json!({ "url": url }));
        self.run(
            "var errorsSeen = []; \
             for (const kind of ['error', 'unhandledrejection']) \
             addEventListener(kind, (event) => errorsSeen.push(event.message ?? String(event.reason))); \
             document.dispatchEvent(new CustomEvent('told', { detail: 'null' }));",
        );
    }

    fn evaluate(&mut self, expression: &str) -> Value {
        let body = if expression.ends_with(';') {
            format!("{{ {expression} }}")
        } else {
            format!("return ({expression});")
        };
        let told = self.run(&format!(
            "(async () => {{ {body} }})().then((value) => ({{ value }}), (error) => ({{ error: String(error) }}))\
             .then((told) => document.dispatchEvent(new CustomEvent('told', {{ detail: JSON.stringify(told) }})));"
        ));
        assert!(told.get("error").is_none(), "{expression}: {told}");
        told["value"].clone()
    }

    fn errors(&mut self) -> Vec<String> {
        let errors = self.evaluate("errorsSeen");
        errors.as_array().into_iter().flatten().map(ToString::to_string).collect()
    }
}
