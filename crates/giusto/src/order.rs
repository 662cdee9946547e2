//! One sort for what is not hot: each kind of `sort_by` is six kilobytes of the program, and maps that are collected are sorted first.

use std::{cmp::Ordering, collections::BTreeMap, mem};

/// `pairs.collect()`.
pub fn map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(pairs);
    map
}

/// `values.sort_by_key(key)`.
pub fn sort_by_key<T, K: Ord>(values: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(values, |a, b| key(a).cmp(&key(b)));
}

/// `values.sort_by(compare)`.
pub fn sort_by<T>(values: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let mut order = places(values.len(), &|a, b| match (values.get(a), values.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    });
    for start in 0..order.len() {
        let mut at = start;
        while let Some(place) = order.get_mut(at) {
            let from = mem::replace(place, at);
            if from == start || from == at {
                break;
            }
            values.swap(at, from);
            at = from;
        }
    }
}

/// The places of values in their order.
fn places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|&a, &b| compare(a, b));
    places
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn order_is_that_of_the_standard_library(mut values in vec((0_u8..9, any::<u32>()), 0..60)) {
            let mut expected = values.clone();
            expected.sort_by_key(|&(key, _)| key);
            sort_by_key(&mut values, |&(key, _)| key);
            prop_assert_eq!(values, expected);
        }
    }
}
