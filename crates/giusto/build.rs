//! Digests the sources of the algorithms, so that a sweep is not resumed by a program that would give other results.

use std::{env, fs, io, path::Path};

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

fn main() -> io::Result<()> {
    let root = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let mut files = Vec::new();
    for source in SOURCES {
        // Outside the repository the version alone tells the sources apart.
        let folder = Path::new(&root).join(source);
        if folder.is_dir() {
            println!("cargo:rerun-if-changed={}", folder.display());
            collect(&folder, source, &mut files)?;
        }
    }
    println!("cargo:rustc-env=GIUSTO_ALGORITHMS={:016x}", digest::digest(files));
    Ok(())
}

/// Adds each Rust file below `folder` by its name within the repository.
fn collect(folder: &Path, name: &str, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), format!("{name}/{}", entry.file_name().to_string_lossy()));
        if path.is_dir() {
            collect(&path, &name, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push((name, fs::read(&path)?));
        }
    }
    Ok(())
}
