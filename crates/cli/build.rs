//! Packs the addresses that the loader of a position-independent program adjusts (ELF `SHT_RELR`): 24 bytes each become a few bits.

use std::{env, process::Command};

/// The first glibc whose loader reads them.
const FIRST: [u32; 2] = [2, 36];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is_for_here =
        env::var("TARGET").is_ok_and(|target| env::var("HOST").is_ok_and(|host| host == target));
    if is_for_here && glibc().is_some_and(|version| version >= FIRST) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
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
