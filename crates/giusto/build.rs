//! Digests the sources of the algorithms, so that a sweep is not resumed by a program that would give other results; and packs the texts
//! that the program carries.

use std::{env, fs, io, path::Path};

#[path = "build/differences.rs"]
mod differences;
#[path = "build/digest.rs"]
mod digest;

/// The crates whose code decides the results of a run, this one's part included.
const SOURCES: [&str; 7] = [
    "../units/src",
    "../pace/src",
    "../rtp/src",
    "../congestion/src",
    "../session/src",
    "../sim/src",
    "src/run",
];

/// The traces that scenarios of the gallery read.
const TRACES: [&str; 3] =
    ["traces/half-seconds.csv", "traces/lte/down-30kmh-6M-edge.mahimahi", "traces/wandering.mahimahi"];

fn main() -> io::Result<()> {
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let mut files = Vec::new();
    for source in SOURCES {
        // Outside the repository the version alone tells the sources apart.
        let folder = Path::new(&root).join(source);
        if folder.is_dir() {
            println!("cargo:rerun-if-changed={}", folder.display());
            collect(&folder, source, "rs", &mut files)?;
        }
    }
    println!("cargo:rustc-env=GIUSTO_ALGORITHMS={:016x}", digest::digest(files));
    packed("scenarios", "toml", &TRACES)?;
    packed("src/view/html", "js", &["page.css", "explore.css"])
}

/// Packs the files in `folder` with this extension, and `more` of them, as `name NUL text NUL …` to a file of its name.
fn packed(folder: &str, extension: &str, more: &[&str]) -> io::Result<()> {
    println!("cargo:rerun-if-changed={folder}");
    let mut files = Vec::new();
    collect(Path::new(folder), "", extension, &mut files)?;
    for name in more {
        let path = Path::new(folder).join(name);
        let text = if name.ends_with(".mahimahi") {
            differences::differences(&fs::read_to_string(path)?).into_bytes()
        } else {
            fs::read(path)?
        };
        files.push(((*name).to_owned(), text));
    }
    files.sort();
    let mut all = Vec::new();
    for (name, text) in files {
        all.extend([name.as_bytes(), &[0], &text, &[0]].concat());
    }
    let name = folder.rsplit('/').next().unwrap_or(folder);
    let packed = snap::raw::Encoder::new().compress_vec(&all)?;
    fs::write(Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join(name), packed)
}

/// Adds each file below `folder` with this extension by its name within the repository.
fn collect(folder: &Path, name: &str, extension: &str, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, own) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let name = if name.is_empty() { own } else { format!("{name}/{own}") };
        if path.is_dir() {
            collect(&path, &name, extension, files)?;
        } else if path.extension().is_some_and(|own| own == extension) {
            files.push((name, fs::read(&path)?));
        }
    }
    Ok(())
}
