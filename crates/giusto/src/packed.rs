//! Texts that the program carries packed, since they are half a megabyte: `build.rs` packs them.

use std::{fmt::Write, sync::LazyLock};

static SCENARIOS: LazyLock<String> =
    LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/scenarios"))));
static LTE: LazyLock<String> = LazyLock::new(|| sums(scenario("traces/lte/down-30kmh-6M-edge.mahimahi")));
static WANDERING: LazyLock<String> = LazyLock::new(|| sums(scenario("traces/wandering.mahimahi")));
static PAGES: LazyLock<String> =
    LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/html"))));

/// The file `name` of the folder `scenarios`.
pub(crate) fn scenario(name: &str) -> &'static str {
    text(&SCENARIOS, name)
}

/// The trace `name` of the folder `scenarios`, if scenarios that are carried read it.
pub(crate) fn trace(name: &str) -> Option<&'static str> {
    match name {
        "traces/half-seconds.csv" => Some(scenario(name)),
        "traces/lte/down-30kmh-6M-edge.mahimahi" => Some(&LTE),
        "traces/wandering.mahimahi" => Some(&WANDERING),
        _ => None,
    }
}

/// A text whose lines are packed as differences.
fn sums(text: &str) -> String {
    let (mut last, mut all) = (0_u64, String::with_capacity(4 * text.len()));
    for line in text.lines() {
        // Writing to a string cannot fail.
        let _ = match line.parse::<u64>() {
            Ok(more) => {
                last += more;
                writeln!(all, "{last}")
            }
            Err(_) => writeln!(all, "{line}"),
        };
    }
    all
}

/// The script or style sheet `name` of the folder `src/view/html`.
pub(crate) fn page(name: &str) -> &'static str {
    text(&PAGES, name)
}

/// Empty where there is no such file: tests read all of them.
fn text<'a>(all: &'a str, name: &str) -> &'a str {
    let mut parts = all.split('\0');
    while let (Some(own), Some(text)) = (parts.next(), parts.next()) {
        if own == name {
            return text;
        }
    }
    ""
}

/// Empty where it is damaged, which a test excludes.
fn unpacked(packed: &[u8]) -> String {
    String::from_utf8(snap::raw::Decoder::new().decompress_vec(packed).unwrap_or_default())
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "../build/differences.rs"]
mod differences;

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn is_whole(folder: &str, carried: &str) -> usize {
        let mut count = 0;
        let mut parts = carried.split('\0');
        while let (Some(name), Some(text)) = (parts.next(), parts.next()) {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name);
            let text = if name.ends_with(".mahimahi") { sums(text) } else { text.to_owned() };
            let asked = if name.starts_with("traces/") { trace(name) } else { Some(text.as_str()) };
            assert_eq!(asked, Some(text.as_str()), "{}", path.display());
            assert_eq!(text, fs::read_to_string(&path).unwrap(), "{}", path.display());
            count += 1;
        }
        count
    }

    #[test]
    fn every_carried_text_is_that_of_its_file() {
        assert!(is_whole("scenarios", &SCENARIOS) > 80);
        assert!(is_whole("src/view/html", &PAGES) > 8);
    }

    proptest! {
        #[test]
        fn differences_add_up(steps in vec(0_u64..2_000, 0..50)) {
            let mut at = 0;
            let times = steps.iter().map(|step| {
                at += step;
                format!("{at}\n")
            });
            let text = "# milliseconds\n".to_owned() + &times.collect::<String>();
            let differences = differences::differences(&text);
            prop_assert_eq!(differences.lines().skip(1).map(|line| line.parse::<u64>().unwrap()).collect::<Vec<_>>(), steps);
            prop_assert_eq!(sums(&differences), text);
        }
    }
}
