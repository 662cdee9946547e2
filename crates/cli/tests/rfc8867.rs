//! `giusto reproduce rfc8867` as a person or a script meets it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::process::{Command, Stdio};

use serde_json::Value;

#[test]
fn the_scoreboard_needs_no_file_and_writes_where_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_giusto"));
    command.args(["reproduce", "rfc8867", "--quick", "--json", "--controller", "fixed", "--out", "board"]);
    command.args(["--markdown", "page.md"]);
    let output = command.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["name"], "rfc8867");
    let items = printed["items"].as_array().unwrap();
    let agreeing = items.iter().filter(|item| item["agrees"] == true).count();
    assert!(agreeing > 0 && agreeing < items.len(), "{agreeing} of {}", items.len());
    for item in items {
        assert!(item["id"].as_str().unwrap().contains("/fixed/"), "{item}");
        assert!(item["published"].is_number() && item["agrees"] != item["why"].is_string(), "{item}");
    }
    let held_out = &printed["held_out"][0];
    assert!(
        held_out["held_out_seeds"]["judged"].as_u64() == held_out["tuning_seeds"]["judged"].as_u64(),
        "{held_out}"
    );
    assert_eq!(held_out["has_own_rules"], false);
    let page = std::fs::read_to_string(folder.path().join("page.md")).unwrap();
    assert!(page.contains("|5.6|4|4|") && page.contains("|fixed|"), "{page}");
    let run = &printed["runs"][0];
    assert_eq!(
        (&run["case"], &run["controller"], &run["seed"]),
        (&"5.1".into(), &"fixed".into(), &"1".into())
    );
    assert_eq!(run["metrics"]["periods"][0]["capacity_bps"], 1e6);

    let kept = std::fs::read(folder.path().join("board/result.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&kept).unwrap(), printed);
    let page = std::fs::read_to_string(folder.path().join("board/report.html")).unwrap();
    assert!(page.contains("5.6: queueing delay"));
}

#[test]
fn a_controller_that_nobody_knows_is_bad_usage() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_giusto"));
    command.args(["reproduce", "rfc8867", "--controller", "gcc:libwebrct"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("gcc:libwebrtc+giusto"), "{error}");
}
