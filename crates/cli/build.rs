//! Packs the addresses that the loader of a position-independent program adjusts (ELF `SHT_RELR`): 24 bytes each become a few bits. And
//! where LLVM's linker links, which is Rust's own on most machines, functions with the same instructions become one.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

const FOLD: &str = "link-arg=-Wl,--icf=all";

/// The first glibc whose loader reads them.
const FIRST: [u32; 2] = [2, 36];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_for_here =
        env::var("TARGET").is_ok_and(|target| env::var("HOST").is_ok_and(|host| host == target));
    if is_for_here && glibc().is_some_and(|version| version >= FIRST) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") && folds() {
        println!("cargo:rustc-{}", FOLD.replacen("link-arg", "link-arg-bins", 1));
    }
}

/// Whether the linker of this build can fold: it is asked to, with a program that does nothing.
fn folds() -> bool {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let folder = variable("OUT_DIR");
    let source = Path::new(&folder).join("nothing.rs");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.arg(&source).args(["--out-dir", &folder, "--target", &variable("TARGET"), "-C", FOLD]);
    rustc.args(variable("CARGO_ENCODED_RUSTFLAGS").split('\x1f').filter(|flag| !flag.is_empty()));
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    fs::write(&source, "fn main() {}").is_ok()
        && rustc.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The version of this system's glibc; `None` where the C library is another.
fn glibc() -> Option<[u32; 2]> {
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|library| library != "gnu") {
        return None;
    }
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some([major.parse().ok()?, minor.split('.').next()?.parse().ok()?])
}
