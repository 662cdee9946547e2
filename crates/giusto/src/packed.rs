//! Texts that the program carries packed, since they are half a megabyte: `build/pack.rs` says how.

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

fn unpacked(mut packed: &[u8]) -> String {
    let mut all = Vec::new();
    loop {
        let plain = number(&mut packed);
        let Some((plain, rest)) = packed.split_at_checked(plain) else { break };
        all.extend_from_slice(plain);
        packed = rest;
        if packed.is_empty() {
            break;
        }
        let (length, distance) = (number(&mut packed), number(&mut packed));
        let from = all.len().saturating_sub(distance);
        // One by one: it may reach into itself.
        for place in from..from + length {
            all.extend(all.get(place).copied());
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// The number at the start, which is taken off.
fn number(packed: &mut &[u8]) -> usize {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let Some((&byte, rest)) = packed.split_first() else { break };
        *packed = rest;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

#[cfg(test)]
#[path = "../build/pack.rs"]
mod pack;

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
            let (mut at, mut text) = (0, "# milliseconds\n".to_owned());
            for step in &steps {
                at += step;
                text += &format!("{at}\n");
            }
            let differences = pack::differences(&text);
            prop_assert_eq!(differences.lines().skip(1).map(|line| line.parse::<u64>().unwrap()).collect::<Vec<_>>(), steps);
            prop_assert_eq!(sums(&differences), text);
        }

        #[test]
        fn what_is_packed_is_unpacked(texts in vec("[abc]{0,40}|(ab){3,200}|.{0,9}", 0..9)) {
            let texts: Vec<String> = texts.into_iter().map(|text| text.replace('\0', "")).collect();
            let files = texts.iter().enumerate().map(|(place, text)| (place.to_string(), text.clone().into_bytes()));
            let carried = unpacked(&pack::pack(files.collect()));
            for (place, expected) in texts.iter().enumerate() {
                prop_assert_eq!(text(&carried, &place.to_string()), expected);
            }
        }
    }
}
