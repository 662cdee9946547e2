//! Packs texts at build time without dependencies: what has come before is named by its length and its distance (LZ77).
//! `src/packed.rs` reads it.

#![allow(
    clippy::indexing_slicing,
    clippy::needless_range_loop,
    reason = "places are below the length; a build may end"
)]

/// The shortest text that is named so.
const SHORTEST: usize = 4;

/// How many earlier places with the same first bytes are tried.
const TRIED: usize = 40;

/// The files as `name NUL text NUL …`, packed: for each part how many bytes follow as they are, these, and length and distance of what
/// follows them. Numbers have seven bits in each byte, the lowest first.
pub(crate) fn pack(mut files: Vec<(String, Vec<u8>)>) -> Vec<u8> {
    files.sort();
    let mut all = Vec::new();
    for (name, text) in files {
        assert!(!text.contains(&0), "{name} is no text");
        all.extend_from_slice(name.as_bytes());
        all.push(0);
        all.extend_from_slice(&text);
        all.push(0);
    }
    let mut packed = Vec::new();
    // The last place of each kind of first bytes, and before each place the one before it.
    let (mut last, mut before) = (vec![usize::MAX; 1 << 16], vec![usize::MAX; all.len()]);
    let (mut at, mut plain) = (0, 0);
    while at < all.len() {
        let (length, from) = longest(&all, at, &last, &before);
        // What is longer from the next place on is taken there.
        let step = if length < SHORTEST || longest(&all, at + 1, &last, &before).0 > length {
            1
        } else {
            number(&mut packed, at - plain);
            packed.extend_from_slice(&all[plain..at]);
            number(&mut packed, length);
            number(&mut packed, at - from);
            plain = at + length;
            length
        };
        for place in at..at + step {
            if let Some(kind) = kind(&all, place) {
                before[place] = std::mem::replace(&mut last[kind], place);
            }
        }
        at += step;
    }
    number(&mut packed, at - plain);
    packed.extend_from_slice(&all[plain..]);
    packed
}

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

/// The longest text before `at` that is also at `at`, and where it is.
fn longest(all: &[u8], at: usize, last: &[usize], before: &[usize]) -> (usize, usize) {
    let (mut best, mut from) = (0, 0);
    let mut place = kind(all, at).map_or(usize::MAX, |kind| last[kind]);
    for _ in 0..TRIED {
        if place == usize::MAX {
            break;
        }
        let rest = all.get(at..).unwrap_or_default();
        // Only what can be longer is compared.
        if rest.get(best) == all.get(place + best) {
            let length = rest.iter().zip(&all[place..]).take_while(|(a, b)| a == b).count();
            if length > best {
                (best, from) = (length, place);
            }
        }
        place = before[place];
    }
    (best, from)
}

/// The kind of the first four bytes at `at`.
fn kind(all: &[u8], at: usize) -> Option<usize> {
    let bytes = u32::from_le_bytes(all.get(at..at + 4)?.try_into().ok()?);
    Some((bytes.wrapping_mul(0x9e37_79b1) >> 16) as usize)
}

fn number(packed: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        packed.push(number as u8 | 0x80);
        number >>= 7;
    }
    packed.push(number as u8);
}
