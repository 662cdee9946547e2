//! Texts of a far end.

/// The first `max` characters of a text of a far end, without those that could control a terminal.
pub(crate) fn printable(text: &str, max: usize) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(max).collect()
}
