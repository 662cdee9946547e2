//! A headless Chromium.

use std::{env, fs, path::PathBuf, process::Command};

use serde_json::Value;

const PROBE: &str = include_str!("probe.js");

/// A window cannot be as narrow as a phone, a frame can.
const OUTER: &str = r#"<!doctype html><meta name="color-scheme" content="light dark">
<iframe src="page.html" style="border: 0; width: WIDTHpx; height: 900px"></iframe>
<script>
addEventListener("message", ({ data }) => {
  const found = document.createElement("script");
  found.type = "application/json";
  found.id = "found";
  found.textContent = data;
  document.body.append(found);
});
</script>"#;

/// How a page is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) width: u32,
    pub(crate) dark: bool,
}

impl Look {
    pub(crate) const ALL: [Self; 4] = [
        Self { width: 1400, dark: false },
        Self { width: 400, dark: false },
        Self { width: 1400, dark: true },
        Self { width: 400, dark: true },
    ];
}

pub(crate) struct Browser(PathBuf);

impl Browser {
    /// The installed browser. Without one, the test says that it is skipped.
    pub(crate) fn find() -> Option<Self> {
        use std::io::Write;
        let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
        let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
        let found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        let found = found.into_iter().find(|path| path.is_file()).map(Self);
        if found.is_none() {
            // Past the capture of the test harness.
            let _ = writeln!(std::io::stderr(), "SKIPPED pages in a browser: no chromium is installed");
        }
        found
    }

    /// What the probe finds on the page.
    pub(crate) fn open(&self, name: &str, html: &str, look: Look) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.html");
        let probed = html.replacen("<head>", &format!("<head><script>{PROBE}</script>"), 1);
        fs::write(&page, probed).unwrap();
        let outer = folder.path().join("outer.html");
        fs::write(&outer, OUTER.replace("WIDTH", &look.width.to_string())).unwrap();
        // `timeout` ends a browser that hangs; the profile is its own, so that browsers do not wait for each other.
        let output = Command::new("timeout")
            .args(["--kill-after=5", "180"])
            .arg(&self.0)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--virtual-time-budget=60000",
            ])
            .arg("--window-size=1500,1000")
            .arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!look.dark)))
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg("--dump-dom")
            .arg(format!("file://{}", outer.display()))
            .output()
            .unwrap();
        let dom = String::from_utf8_lossy(&output.stdout);
        if let Some(kept) = env::var_os("GIUSTO_KEEP_PAGES") {
            fs::write(PathBuf::from(kept).join(format!("{name}.html")), html).unwrap();
        }
        let result = dom.rsplit_once("id=\"found\">").and_then(|(_, rest)| rest.split_once("</script>"));
        let Some((found, _)) = result else {
            panic!("{name} at {look:?}: no result: {}", String::from_utf8_lossy(&output.stderr))
        };
        serde_json::from_str(found).unwrap()
    }
}
