//! Keys of lessons.

use super::{
    expectation::{EXPECT, expectation, subject},
    parts::each,
    prelude::*,
};
use crate::scenario::{
    lesson::{Knob, Lesson, Step},
    setting::Setting,
};

pub(super) const LESSON: Group = Group::new("lesson", &[LESSON_KEYS]);
const KNOB: Group = Group::new("knob", &[KNOB_KEYS]);
const POSITION: Group = Group::new("position", &[POSITION_KEYS]);
const STEP: Group = Group::new("step", &[STEP_KEYS]);

keys! { LESSON_KEYS {
    "title", Text, Required("NAME"), "A few words";
    "question", Text, Required("NAME"), "What the reader should find out";
    "guess", List(&Text), Unset, "Answers to choose from before the first run";
    "right", COUNT, Unset, "Number of the right guess, from 1";
    "seen", Text, Said("empty"), "What the first run shows";
    "chart", List(&Text), Unset, "Charts, such as `\"voice delay\"`: a flow, or the first link, and `delay`, `rate`, `sent`, `queue`, `target`, `frame`, `window`, also joined by `+`";
    "figure", List(&Text), Unset, "Figures to compare, such as `\"voice delay\"`: `delay`, `queue`, `rate`, `sent`, `loss`, `frame`, `marked`, `use`";
    "speed", Number(within(0.001, 1.0)), Shown("0.5"), "Simulated seconds that pass in one second of the moving picture, at first";
    "knob", List(&Table(&KNOB)), Unset, "What the reader can turn, as `[[lesson.knob]]`";
    "step", List(&Table(&STEP)), Required("[{ text = \"…\", set = [\"PATH=VALUE\"], expect = [] }]"), "What the reader can try, as `[[lesson.step]]`";
    "answer", Text, Required("NAME"), "What the charts show, and why";
    "command", Text, Said("empty"), "Command for the reader's own network";
} }

keys! { KNOB_KEYS {
    "name", Text, Required("NAME"), "A few words";
    "position", List(&Table(&POSITION)), Required("[{ text = \"…\", set = [\"PATH=VALUE\"] }]"), "Its positions, as `[[lesson.knob.position]]`; one without `set` is that of the file";
} }

keys! { POSITION_KEYS {
    "text", Text, Required("NAME"), "A few words";
    "set", List(&Text), Unset, "Settings, as for `--set`";
} }

keys! { STEP_KEYS {
    "text", Text, Required("NAME"), "What to change, and what to look at";
    "seen", Text, Said("empty"), "What is seen then";
    "set", List(&Text), Required("[\"PATH=VALUE\"]"), "Settings, as for `--set`";
    "expect", List(&Table(&EXPECT)), Required("[]"), "Expectations that hold with the change, in place of those of the file";
} }

/// Reads the lesson in a file's `root` table; `text` is that of the file.
pub(in crate::scenario) fn of_file(root: &Node<'_>, text: &str) -> Found<Option<Lesson>> {
    let node = root.get_ref().get("lesson");
    node.map(|node| lesson(node, text).map_err(|problems| read::within(problems, "lesson"))).transpose()
}

pub(super) fn lesson(node: &Node<'_>, text: &str) -> Found<Lesson> {
    table(node, &LESSON, |keys| {
        let title = keys.value("title");
        let question = keys.value("question");
        let steps = keys.with("step", |node| elements(node, |_| None, |node| step(node, text)));
        let knobs = keys.with("knob", |node| elements(node, |_| None, knob));
        Lesson {
            title,
            question,
            guesses: keys.value("guess"),
            right: keys.value("right"),
            seen: keys.value("seen"),
            charts: keys.value("chart"),
            figures: keys.value("figure"),
            speed: keys.value("speed"),
            knobs: knobs.unwrap_or_default(),
            steps: steps.unwrap_or_default(),
            answer: keys.value("answer"),
            command: keys.value("command"),
        }
    })
}

fn knob(node: &Node<'_>) -> Found<Knob> {
    table(node, &KNOB, |keys| {
        let name = keys.value("name");
        let positions = keys.with("position", |node| elements(node, |_| None, position));
        Knob { name, positions: positions.unwrap_or_default() }
    })
}

fn position(node: &Node<'_>) -> Found<Step> {
    table(node, &POSITION, |keys| {
        let text = keys.value("text");
        let set = keys.with("set", |node| elements(node, |_| None, setting));
        Step { text, seen: String::new(), settings: set.unwrap_or_default() }
    })
}

fn step(node: &Node<'_>, file: &str) -> Found<Step> {
    table(node, &STEP, |keys| {
        let text = keys.value("text");
        let set = keys.with("set", |node| elements(node, |_| None, setting));
        // Whether they fit the scenario is seen when the step is read as a scenario.
        each(keys, "expect", &EXPECT, subject, expectation);
        let expect = keys.with("expect", |node| {
            Ok(Setting {
                path: "expect".to_owned(),
                value: file.get(node.span()).unwrap_or_default().to_owned(),
            })
        });
        let seen = keys.value("seen");
        Step { text, seen, settings: set.into_iter().flatten().chain(expect).collect() }
    })
}

fn setting(node: &Node<'_>) -> Found<Setting> {
    String::read(node)?.parse().or_else(|text: String| wrong(node, text))
}
