//! What the published crates promise beside their documentation.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Types that are comparable and cloned, but no values of their own: places in a packet, a repair packet in the making, and a plan that only
/// its constructor makes.
const NOT_VALUES: [&str; 4] = ["RtpHeader", "RtpExtension", "Parity", "CyclePlan"];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The names of the public value types of a source file that serde does not know, and the number of those that it knows.
fn unserialised(source: &str) -> (Vec<&str>, usize) {
    let (mut missing, mut covered, mut attributes) = (Vec::new(), 0, String::new());
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap();
    for line in code.lines() {
        if line.starts_with("#[") {
            attributes += line;
            continue;
        }
        let declared = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum "));
        if let Some(rest) = declared {
            let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            let value = attributes.contains("Clone") && attributes.contains("PartialEq");
            let generic = rest[name.len()..].starts_with('<');
            let error = name.ends_with("Error") || name.starts_with("Unknown");
            if value && !generic && !error && !NOT_VALUES.contains(&name) {
                if attributes.contains("Serialize") && attributes.contains("Deserialize") {
                    covered += 1;
                } else {
                    missing.push(name);
                }
            }
        }
        if !line.starts_with("///") && !line.starts_with(' ') {
            attributes.clear();
        }
    }
    (missing, covered)
}

#[test]
fn serde_covers_every_public_value_type() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (name, at_least) in [("units", 6), ("pace", 20), ("rtp", 40), ("measure", 25)] {
        let mut all = 0;
        for path in sources(&crates.join(name).join("src")) {
            let source = fs::read_to_string(&path).unwrap();
            let (missing, covered) = unserialised(&source);
            assert!(missing.is_empty(), "{}: {missing:?}", path.display());
            all += covered;
        }
        assert!(all >= at_least, "{name}: {all}");
    }
}
