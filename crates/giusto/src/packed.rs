//! Texts that the program carries packed, since they are half a megabyte: `build.rs` packs them.

use std::sync::LazyLock;

static SCENARIOS: LazyLock<String> =
    LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/scenarios"))));
static PAGES: LazyLock<String> =
    LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/html"))));

/// The file `name` of the folder `scenarios`.
pub(crate) fn scenario(name: &str) -> &'static str {
    text(&SCENARIOS, name)
}

/// The file `name` of the folder `scenarios`, whose lines are packed as differences.
pub(crate) fn times(name: &str) -> String {
    sums(scenario(name))
}

fn sums(text: &str) -> String {
    let mut last = 0_u64;
    let line = |line: &str| {
        let Ok(more) = line.parse::<u64>() else { return line.to_owned() + "\n" };
        last += more;
        format!("{last}\n")
    };
    text.lines().map(line).collect()
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
            let text = if name.ends_with(".mahimahi") { times(name) } else { text.to_owned() };
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
