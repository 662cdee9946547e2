//! A call between two Chromiums across `giusto link`, by the scripts of `lab/chromium`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::{Folder, count, namespace::in_namespace, run, skip, text};
use serde_json::Value;

const TEST: &str = "two_chromiums_hold_a_call_across_the_link";
/// Length of the call, in seconds.
const SECONDS: &str = "6";

#[test]
fn two_chromiums_hold_a_call_across_the_link() {
    let Some(python) = installed() else { return };
    in_namespace(TEST, 1500, || {
        let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/chromium");
        let folder = Folder::with("");
        let script = |name: &str| tools.join(name).display().to_string();
        let shared = folder.path("").display().to_string();
        let far = format!("exec {python} {} {shared} --seconds {SECONDS}", script("far.py"));
        let (scenario, near) = (script("call.toml"), script("near.py"));
        let out = folder.path("link").display().to_string();
        let link =
            ["link", &scenario, "--max-lateness", "10s", "--out", &out, "--set", "warmup=0s", "--far", &far];
        let near = ["--", &python, &near, &shared, "--seconds", SECONDS];
        let output = run(&[&link[..], &near].concat());
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{printed}");

        let record: Value =
            serde_json::from_slice(&fs::read(folder.path("link/result.json")).unwrap()).unwrap();
        let (near, far) = (last(&folder.path("near.jsonl")), last(&folder.path("far.jsonl")));
        assert!(near["state"] == "connected" && far["state"] == "connected", "{near} {far}");

        // The camera gives 20 frames a second.
        let decoded = count(&far["inbound-rtp:video"]["framesDecoded"]);
        assert!((10..=200).contains(&decoded), "{far}");
        let encoded = count(&near["outbound-rtp:video"]["framesEncoded"]);
        assert!(decoded <= encoded + 20, "{near} {far}");

        // Chromium counts datagrams, the link IP packets: 28 bytes more in each. The sender hangs up after its last sample; what it
        // sends meanwhile is little at 1 Mbit/s.
        let bottleneck = |links: &Value| {
            links.as_array().unwrap().iter().find(|link| link["id"] == "bottleneck").unwrap().clone()
        };
        let sum = |values: &Value| values.as_array().unwrap().iter().filter_map(Value::as_u64).sum::<u64>();
        let link = bottleneck(&record["timeline"]["links"]);
        let (bytes, packets) = (sum(&link["transmitted_bytes"]), sum(&link["transmitted_packets"]));
        let counters = bottleneck(&record["links"]);
        let [delivered, in_flight] =
            ["delivered_packets", "in_flight_packets"].map(|name| count(&counters[name]));
        assert!((delivered..=delivered + in_flight).contains(&packets), "{packets} {counters}");
        let counted = |end: &Value, way: &str| {
            let of = |what: &str| count(&end["transport"][format!("{what}{way}")]);
            (of("bytes") + 28 * of("packets"), of("packets"))
        };
        let (sent, received) = (counted(&near, "Sent"), counted(&far, "Received"));
        assert!(received.0 <= bytes && received.1 <= packets, "{received:?} {bytes} {packets}");
        assert!(sent.0 <= bytes + 60_000 && bytes <= sent.0 + 250_000, "{sent:?} {bytes} {packets}");
        assert!(bytes > 50_000, "{bytes}");
    });
}

/// The last line of a file of samples.
fn last(path: &Path) -> Value {
    let samples = fs::read_to_string(path).unwrap();
    serde_json::from_str(samples.lines().last().unwrap()).unwrap()
}

/// A Python with selenium, if the browser and its driver are there too. If not, the test says what is missing.
fn installed() -> Option<String> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let is_there = |name: &str| folders.iter().any(|folder| folder.join(name).is_file());
    let python = env::var("GIUSTO_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let selenium = || {
        let imported = Command::new(&python).args(["-c", "import selenium"]).output();
        imported.is_ok_and(|output| output.status.success())
    };
    let missing = match () {
        () if !is_there("chromium") => "chromium is not installed".to_owned(),
        () if !is_there("chromedriver") => {
            "chromedriver is not installed (Debian: chromium-driver)".to_owned()
        }
        () if !selenium() => {
            format!("{python} has no selenium (pip install -r lab/chromium/requirements.txt)")
        }
        () => return Some(python),
    };
    skip(TEST, &missing);
    None
}
