use std::sync::Mutex;

use giusto::explore::Question;
use serde_json::{Value, json};

use super::*;

const CALL: &str = r#"
    duration = "10 s"
    link = [{ id = "wire", from = "a", to = "b", rate = { trace = "folder/own.csv" }, duplex = true }]
    flow = [{ id = "call", kind = "media", from = "a", to = "b" }]
"#;

fn call(beside: &Value) -> String {
    json!({ "file": { "name": "call.toml", "text": CALL, "beside": beside } }).to_string()
}

fn value(answer: Result<String, Vec<String>>) -> Value {
    serde_json::from_str(&answer.unwrap()).unwrap()
}

/// Without the times that runs took, which the engine does not know.
fn without_times(mut picture: Value) -> Value {
    for run in picture["record"]["runs"].as_array_mut().unwrap() {
        run["wall_s"] = Value::Null;
    }
    picture
}

#[test]
fn pictures_are_those_of_the_command_wherever_runs_are_made() {
    let question =
        r#"{"sides": [{"scenario": "media"}], "controllers": ["gcc:libwebrtc", "nada"], "seeds": 3}"#;
    let expected = Mutex::new(Vec::new());
    let explorer = Explorer::new(None);
    let asked: Question = serde_json::from_str(question).unwrap();
    explorer.answer(&asked, &|| false, &|update| expected.lock().unwrap().push(update)).unwrap();
    let expected = expected.into_inner().unwrap();
    let pictures = expected.iter().map(|update| serde_json::to_value(update).unwrap());
    let pictures: Vec<Value> =
        pictures.filter(|update| update["kind"] == "picture").map(without_times).collect();

    let (mut main, mut helper) = (Engine::default(), Engine::default());
    let ask = format!("{{\"ask\": {question}}}");
    assert_eq!(value(main.answer(&ask)), json!({ "variants": 2, "seeds": 3 }));
    helper.answer(&ask).unwrap();
    let mut found = Vec::new();
    for seed in [0, 2, 1] {
        main.answer(&format!("{{\"run\": [0, {seed}]}}")).unwrap();
        let record = helper.answer(&format!("{{\"lend\": [1, {seed}]}}")).unwrap();
        main.answer(&format!("{{\"keep\": [[1, {seed}], {record}]}}")).unwrap();
        if seed != 2 {
            found.push(without_times(value(main.answer("\"picture\""))));
        }
    }
    assert_eq!((pictures.len(), found.len()), (2, 2));
    for (found, expected) in found.iter().zip(&pictures) {
        assert!(found == expected, "{:.300} {:.300}", found.to_string(), expected.to_string());
    }
    assert_ne!(found[0]["report"], found[1]["report"], "the second has bands");
}

#[test]
fn a_picture_of_all_seeds_stays_one() {
    let mut engine = Engine::default();
    engine.answer(r#"{"ask": {"sides": [{"scenario": "media"}], "seeds": 2}}"#).unwrap();
    engine.answer(r#"{"run": [0, 0]}"#).unwrap();
    assert_eq!(value(engine.answer("\"picture\""))["last"], false);
    engine.answer(r#"{"run": [0, 1]}"#).unwrap();
    // A worker asks for the picture of the first seeds when the others are there already, and for that of all.
    let [one, other] = [(); 2].map(|()| value(engine.answer("\"picture\"")));
    assert_eq!(one["last"], true);
    assert!(one == other, "{:.300} {:.300}", one["report"], other["report"]);
}

#[test]
fn a_file_of_the_user_finds_the_traces_beside_it() {
    let mut engine = Engine::default();
    let missing = |engine: &mut Engine| engine.answer(r#"{"ask": {"sides": [{}]}}"#).unwrap_err();
    assert_eq!(missing(&mut engine), ["scenario: missing: name one of the gallery, or start with a FILE"]);
    engine.answer(&call(&json!({}))).unwrap();
    let problems = missing(&mut engine);
    assert!(problems[0].contains("folder/own.csv"), "{problems:?}");
    engine.answer(&call(&json!({ "own.csv": "t_s,rate_bps\n0,1000000\n5,2000000\n" }))).unwrap();
    let picture = value(engine.answer(r#"{"ask": {"sides": [{}]}}"#));
    let rate = &picture["picture"]["record"]["runs"][0]["links"][0]["rate"];
    assert_eq!(rate, "1 to 2 Mbit/s");
}

#[test]
fn requests_that_cannot_be_answered_say_why() {
    let mut engine = Engine::default();
    let mut problem = |request: &str| engine.answer(request).unwrap_err().join(" ");
    assert!(problem("{").starts_with("the request cannot be read: "));
    assert_eq!(problem("\"picture\""), "nothing was asked before this request");
    assert!(problem(r#"{"sketch": "nowhere"}"#).contains("the gallery has no \"nowhere\""));
    let city = json!({ "file": { "name": "c.toml", "text": "[city]\n" } }).to_string();
    assert_eq!(problem(&city), "c.toml: a city is no network of links: run it by `giusto sim`");
    assert!(
        problem(r#"{"ask": {"sides": [{"scenario": "media", "settings": [["seed", "x"]]}]}}"#)
            .contains("seed")
    );
    engine.answer(r#"{"ask": {"sides": [{"scenario": "media"}], "seeds": 2}}"#).unwrap();
    let mut problem = |request: &str| engine.answer(request).unwrap_err().join(" ");
    assert_eq!(problem(r#"{"run": [1, 0]}"#), "run 1 of the question: there are 1");
    assert_eq!(problem("\"picture\""), "0 of 1 runs are there");
}

#[test]
fn a_film_is_that_of_the_command() {
    let side = r#"{"scenario": "lessons/01-bufferbloat", "settings": [["home.queue.limit", "300 ms"]]}"#;
    let found = value(Engine::default().answer(&format!("{{\"film\": {side}}}")));
    let film = Explorer::new(None).film(&serde_json::from_str(side).unwrap()).unwrap();
    assert_eq!(found, serde_json::to_value(&film).unwrap());
    assert!(found["packets"].as_array().unwrap().len() > 60_000 && found["link"] == 0, "{}", found["end_s"]);
    let wrong = Engine::default().answer(r#"{"film": {"scenario": "nowhere"}}"#).unwrap_err();
    assert!(wrong[0].contains("the gallery has no \"nowhere\""), "{wrong:?}");
}
