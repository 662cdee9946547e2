//! Traces of increasing times as differences, which are packed better; `src/packed.rs` adds them up.

/// Each line that is a number, as what it is more than the one before.
pub(crate) fn differences(text: &str) -> String {
    let (mut last, mut all) = (0_u64, String::new());
    for line in text.lines() {
        let number = line.parse().ok();
        all += &number.map_or_else(|| line.to_owned(), |number: u64| (number - last).to_string());
        all.push('\n');
        last = number.unwrap_or(last);
    }
    all
}
