//! `giusto reproduce rfc8867`, as users and scripts run it.

use crate::common::{giusto, json, text};
use serde_json::Value;

#[test]
fn the_scoreboard_is_written_to_the_given_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut command =
        giusto(&["reproduce", "rfc8867", "--quick", "--json", "--controller", "fixed", "--out", "board"]);
    let output = command.args(["--markdown", "page.md"]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));

    let printed = json(&output);
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
