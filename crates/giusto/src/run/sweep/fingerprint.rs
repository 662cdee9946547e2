//! What a finished run depends on, besides its seed.

use sha2::{Digest, Sha256};

use crate::scenario::Scenario;

/// A digest of the meaning of `scenario`, of this version and of the sources of the algorithms: equal digests and equal seeds
/// give equal records.
pub fn fingerprint(scenario: &Scenario) -> String {
    of(&scenario.fingerprint(), env!("CARGO_PKG_VERSION"), env!("GIUSTO_ALGORITHMS"))
}

fn of(scenario: &str, version: &str, algorithms: &str) -> String {
    let digest = Sha256::digest([scenario, version, algorithms].join("\n"));
    let start: [u8; 8] = std::array::from_fn(|place| digest.get(place).copied().unwrap_or(0));
    format!("{:016x}", u64::from_be_bytes(start))
}

#[cfg(test)]
#[path = "../../../build/digest.rs"]
mod digest;

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
duration = "2 s"
link = [{ id = "wire", from = "here", to = "there", rate = "1 Mbit/s" }]
flow = [{ id = "voice", kind = "cbr", rate = "64 kbit/s", size = "200 B" }]
"#;

    #[test]
    fn it_changes_with_the_scenario_the_version_and_the_algorithms() {
        let scenario = |text: &str| fingerprint(&Scenario::parse(text, "s.toml").unwrap());
        assert_eq!(scenario(FILE), scenario(&FILE.replace("1 Mbit/s", "1000 kbit/s")));
        assert_ne!(scenario(FILE), scenario(&FILE.replace("1 Mbit/s", "2 Mbit/s")));
        assert_ne!(of("s", "1", "a"), of("s", "2", "a"));
        assert_ne!(of("s", "1", "a"), of("s", "1", "b"));
    }

    #[test]
    fn the_digest_of_the_sources_knows_names_and_contents() {
        let digest = |files: &[(&str, &str)]| {
            let owned = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
            digest::digest(owned.collect())
        };
        let files = digest(&[("a.rs", "1"), ("b.rs", "2")]);
        assert_eq!(files, digest(&[("b.rs", "2"), ("a.rs", "1")]));
        assert_ne!(files, digest(&[("a.rs", "1"), ("b.rs", "3")]));
        assert_ne!(files, digest(&[("a.rs", "1"), ("c.rs", "2")]));
        assert_ne!(files, digest(&[("a.rs", "12"), ("b.rs", "")]));
        // In this repository there are sources to digest.
        assert_ne!(env!("GIUSTO_ALGORITHMS"), format!("{:016x}", digest(&[])));
    }
}
