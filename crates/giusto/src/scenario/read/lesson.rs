//! Keys of lessons.

use super::{
    each,
    expectation::expectation,
    subject,
    value::{Found, Node, Read, elements, table, within, wrong},
};
use crate::scenario::{
    lesson::{Lesson, Step},
    setting::Setting,
};

/// Reads the lesson in a file's `root` table; `text` is that of the file.
pub(in crate::scenario) fn of_file(root: &Node<'_>, text: &str) -> Found<Option<Lesson>> {
    let node = root.get_ref().get("lesson");
    node.map(|node| lesson(node, text).map_err(|problems| within(problems, "lesson"))).transpose()
}

pub(super) fn lesson(node: &Node<'_>, text: &str) -> Found<Lesson> {
    table(node, |keys| {
        let title = keys.required("title");
        let question = keys.required("question");
        let steps = keys.required_with("step", |node| elements(node, |_| None, |node| step(node, text)));
        Lesson { title, question, steps: steps.unwrap_or_default(), answer: keys.required("answer") }
    })
}

fn step(node: &Node<'_>, file: &str) -> Found<Step> {
    table(node, |keys| {
        let text = keys.required("text");
        let set = keys.required_with("set", |node| elements(node, |_| None, setting));
        // Whether they fit the scenario is seen when the step is read as a scenario.
        each(keys, "expect", subject, expectation);
        let expect = keys.required_with("expect", |node| {
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
