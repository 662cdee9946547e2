//! One of several equal parts of a sweep or a benchmark.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

giusto_units::defaults! {
    /// The share of one of several processes: of everything that is numbered from 0, what has a number whose remainder by
    /// [`count`](Self::count) is [`index`](Self::index) − 1.
    ///
    /// # Example
    ///
    /// ```
    /// use giusto::run::Shard;
    ///
    /// let shard: Shard = "2/3".parse()?;
    /// assert_eq!(shard.of(vec!["a", "b", "c", "d", "e"]), ["b", "e"]);
    /// # Ok::<(), String>(())
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(try_from = "String", into = "String")]
    pub struct Shard {
        /// From 1 to the count.
        pub index: u64 = 1,
        /// Number of shards, at least 1.
        pub count: u64 = 1,
    }
}

impl Shard {
    /// The numbers below `all` that are in the share, ascending.
    pub fn numbers(self, all: u64) -> impl Iterator<Item = u64> {
        (self.index.saturating_sub(1)..all).step_by(self.step())
    }

    /// The share of `all`, in that order.
    pub fn of<T>(self, all: Vec<T>) -> Vec<T> {
        let first = usize::try_from(self.index.saturating_sub(1)).unwrap_or(usize::MAX);
        all.into_iter().skip(first).step_by(self.step()).collect()
    }

    fn step(self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX).max(1)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(index, count)| {
            Some(Self { index: index.trim().parse().ok()?, count: count.trim().parse().ok()? })
        });
        match parts {
            Some(shard) if (1..=shard.count).contains(&shard.index) => Ok(shard),
            _ => Err(format!(
                "\"{text}\" is not a shard: write i/n with i from 1 to n, such as 1/4 for the first of four"
            )),
        }
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_in_one_share() {
        for (count, all) in [(1, 5), (3, 10), (7, 4), (4, 0)] {
            let shards = || (1..=count).map(|index| Shard { index, count });
            let mut numbers: Vec<u64> = shards().flat_map(|shard| shard.numbers(all)).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..all).collect::<Vec<_>>());
            for shard in shards() {
                let numbers: Vec<u64> = shard.numbers(all).collect();
                assert_eq!(shard.of((0..all).collect()), numbers);
                assert!(all / count <= numbers.len() as u64 && numbers.len() as u64 <= all.div_ceil(count));
            }
        }
    }

    #[test]
    fn a_shard_is_read_and_a_wrong_one_is_refused_with_the_fix() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, count: 3 }));
        for text in ["0/3", "4/3", "3", "1/0", "a/b", "", "-1/2"] {
            let complaint = text.parse::<Shard>().unwrap_err();
            assert!(complaint.starts_with(&format!("\"{text}\" is not a shard: write i/n")), "{complaint}");
        }
    }
}
