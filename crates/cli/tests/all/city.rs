//! `giusto sim` with a city, as users and scripts run it.

use crate::common::{Folder, json, text};

/// A small city: 6 s are evaluated.
const CITY: &str = r#"
[city]
users-per-cell = 0.5
evaluation = ["3 s", "9 s"]
call = "20 s"
files = "none"
opposite = "fixed"
[[expect]]
metric = "packet-median"
min = "10 ms"
max = "60 ms"
"#;

#[test]
fn a_city_is_simulated_and_checked() {
    let folder = Folder::with(CITY);
    let output =
        folder.run(&["sim", "s.toml", "--json", "--seed", "4", "--set", "city.controller=scream:v2"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = json(&output);
    assert_eq!((&result["scenario"], &result["seed"]), (&"s".into(), &"4".into()));
    assert_eq!(result["duration_s"], 13.0);
    assert!(result["wall_s"].as_f64().unwrap() > 0.0);
    assert_eq!(result["city"]["controller"], "scream:v2");
    assert_eq!(result["checks"][0]["passed"], true);
    assert_eq!(result["checks"][0]["value"], result["city"]["packet_median_ms"]);
    assert!(result["city"]["uplink"].is_null() && result["city"]["downlink"].is_object());

    // The same seed gives the same figures; a bound that is not met gives status 1.
    let strict = ["--seed", "4", "--set", "city.controller=scream:v2", "--set", "expect.1.max=11 ms"];
    let output = folder.run(&[&["sim", "s.toml", "--out", "out"], &strict[..]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let tables = text(&output.stdout);
    for wanted in ["0.5 users per cell at 3.0 km/h", "downlink scream:v2", "NOT MET: expected 10 ms to 11 ms"]
    {
        assert!(tables.contains(wanted), "{wanted}: {tables}");
    }
    let kept = std::fs::read_to_string(folder.path("out").join("result.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    let same = |key: &str| assert_eq!(kept["city"][key], result["city"][key], "{key}");
    ["events", "packets", "packet_tail_ms", "received_video_bps", "downlink"].into_iter().for_each(same);
}

#[test]
fn what_a_city_cannot_do_is_refused_with_the_fix() {
    let folder = Folder::with(CITY);
    let complaint = |args: &[&str]| {
        let output = folder.run(args);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        text(&output.stderr).trim_end().to_owned()
    };
    insta::assert_snapshot!(complaint(&["sim", "s.toml", "--why", "3s"]), @r#"error: --why: "s" is a city, of which it is not recorded: remove the flag"#);
    insta::assert_snapshot!(complaint(&["sweep", "s.toml"]), @"error: s.toml:2: city: a city is no network of links: run it by `giusto sim`, in Python by `giusto.city`");
    insta::assert_snapshot!(complaint(&["sim", "s.toml", "--set", "city.bandwidth=11 MHz"]), @"error: s.toml: --set city.bandwidth=11 MHz: city: bandwidth: must be one of 1.4, 3, 5, 10, 15, 20 MHz, found 11 MHz");
}
