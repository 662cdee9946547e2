//! Keys of lessons.

use super::{
    expectation::{EXPECT, expectation, subject},
    parts::each,
    prelude::*,
};
use crate::scenario::{
    lesson::{Lesson, Step},
    setting::Setting,
};

pub(super) const LESSON: Group = Group::new("lesson", &[LESSON_KEYS]);
const STEP: Group = Group::new("step", &[STEP_KEYS]);

keys! { LESSON_KEYS {
    "title", Text, Required("NAME"), "A few words";
    "question", Text, Required("NAME"), "What the reader should find out";
    "step", List(&Table(&STEP)), Required("[{ text = \"…\", set = [\"PATH=VALUE\"], expect = [] }]"), "What the reader can try, as `[[lesson.step]]`";
    "answer", Text, Required("NAME"), "What the charts show, and why";
} }

keys! { STEP_KEYS {
    "text", Text, Required("NAME"), "What to change, and what to look at";
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
        Lesson { title, question, steps: steps.unwrap_or_default(), answer: keys.value("answer") }
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
        Step { text, settings: set.into_iter().flatten().chain(expect).collect() }
    })
}

fn setting(node: &Node<'_>) -> Found<Setting> {
    String::read(node)?.parse().or_else(|text: String| wrong(node, text))
}
