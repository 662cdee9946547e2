use super::*;
use crate::explore::{MAX_SEEDS, Question, entries};

#[test]
fn the_page_is_small_and_asks_nobody_else() {
    let start = Question::default();
    let html = Exploration::new(Some("call.toml"), Some(&start), &entries(), MAX_SEEDS).to_html("abc");
    assert!((100_000..1_500_000).contains(&html.len()), "{} B", html.len());
    let script = html.rsplit_once("<script nonce=\"abc\">").unwrap().1;
    assert!(script.contains("post(\"run\""));
    for forbidden in ["<link", "<img", "<iframe", "@import", "url(\"http"] {
        assert!(!html.contains(forbidden), "the page contains {forbidden}");
    }
}

#[test]
fn a_page_without_a_server_has_the_engine_and_the_file() {
    let file = Document::parse("# </script>\n", "call.toml").unwrap();
    let page = Exploration::new(Some("call.toml"), Some(&Question::default()), &entries(), MAX_SEEDS);
    let html = page.to_whole_html(Some(&file), b"engine");
    let engine = ["id=\"engine\">ZW5naW5l</script>", "'wasm-unsafe-eval'; worker-src blob:;"];
    assert!(engine.iter().all(|part| html.contains(part)));
    assert!(html.contains(r##""own":{"beside":{},"name":"call.toml","text":"# \u003c/script>\n"}"##));
    assert!(!html.contains("fetch(") && !page.to_html("abc").contains("new Worker("));
}

#[test]
fn a_band_is_the_range_of_the_seeds() {
    let run = |values: &str| serde_json::from_str::<Value>(&format!(r#"{{"t": {values}}}"#)).unwrap();
    let record = json!({ "runs": [run("[1.0, null, 5.0]")] });
    let others = vec![vec![run("[3.0, null, 5.0]"), run("[2.0, 7.0, 5.0]")]];
    let found = band(&record, "/runs/0/t", &others).unwrap();
    assert_eq!(found, json!({ "low": [1.0, 7.0, 5.0], "high": [3.0, 7.0, 5.0] }));
    // As many seeds are above it as below.
    let more = vec![(2..=6).map(|value| run(&format!("[{value}.0]"))).collect()];
    let found = band(&json!({ "runs": [run("[1.0]")] }), "/runs/0/t", &more).unwrap();
    assert_eq!(found, json!({ "low": [2.0], "high": [5.0] }));
    assert_eq!(band(&record, "/runs/0/none", &others), None);
    assert_eq!(band(&record, "/runs/0/t", &[Vec::new()]), None);
}
