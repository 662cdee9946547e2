//! `giusto lte`, as users and scripts run it.

use std::fs;

use crate::common::{Folder, json, text};

/// A scenario with a link of a trace.
const SCENARIO: &str = r#"duration = "4 s"
[[link]]
id = "cell"
from = "server"
to = "phone"
rate = { mahimahi = "traces/down-30kmh-2M-middle.mahimahi" }
delay = "20 ms"
[[flow]]
id = "full"
kind = "cbr"
rate = "200 Mbit/s"
size = "1504 B"
from = "server"
to = "phone"
"#;

#[test]
fn traces_are_accepted_and_their_files_agree() {
    let folder = Folder::with(SCENARIO);
    let command = |out| {
        let options = ["--speed", "30", "--load", "2M", "--duration", "2s", "--seed", "7", "--json"];
        let output = folder.run(&[&["lte", "traces", "--out", out], &options[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        json(&output)
    };
    let printed = command("traces");
    let file = |out: &str, name: &str| fs::read_to_string(folder.path(out).join(name)).unwrap();
    let (name, read_me) = ("down-30kmh-2M-middle", file("traces", "README.md"));
    assert_eq!(printed["traces"][0]["name"], name);
    assert!(
        read_me.contains("CC0-1.0") && read_me.contains("--speed 30 --load 2M --position middle"),
        "{read_me}"
    );

    let opportunities = file("traces", &format!("{name}.mahimahi")).lines().count() as f64;
    let csv = file("traces", &format!("{name}.csv"));
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(
        reader.headers().unwrap().iter().take(4).collect::<Vec<_>>(),
        ["time_s", "capacity_bps", "sinr_db", "delay_ms"]
    );
    let rates: Vec<f64> = reader.records().map(|row| row.unwrap()[1].parse().unwrap()).collect();
    assert_eq!(rates.len(), 20);
    let mean = rates.iter().sum::<f64>() / 20.0;
    assert!((mean - opportunities * 1504.0 * 8.0 / 2.0).abs() < 1.0, "{mean}");
    assert!((mean - printed["traces"][0]["mean_bps"].as_f64().unwrap()).abs() < 1.0);

    // The link of a scenario offers what the trace has, twice in four seconds.
    let output = folder.run(&["sim", "s.toml", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let received = json(&output)["flows"][0]["received_rate_bps"].as_f64().unwrap();
    assert!((received / mean - 1.0).abs() < 0.03, "{received} and {mean} bit/s");
}
