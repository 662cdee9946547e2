//! What tests ask of any browser.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Time for what happens soon on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A browser with one page.
pub(crate) trait Browser {
    /// Opens a page and waits until it is loaded.
    fn open(&mut self, url: &str);

    /// The value of an expression on the page. Statements end with a semicolon and have no value.
    fn evaluate(&mut self, expression: &str) -> Value;

    /// Errors that the page has logged.
    fn errors(&mut self) -> Vec<String>;

    /// Waits until an expression is neither null nor false, and returns it.
    fn wait(&mut self, expression: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let found = self.evaluate(expression);
            if !matches!(found, Value::Null | Value::Bool(false)) {
                return found;
            }
            if Instant::now() > end {
                let now = self.evaluate("document.body?.innerText");
                panic!("{expression}: {now} {:?}", self.errors());
            }
            thread::sleep(Duration::from_millis(30));
        }
    }
}
