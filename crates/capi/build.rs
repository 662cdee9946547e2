//! Names the shared library as programs look for it at run time.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // The number is `GIUSTO_ABI_VERSION`.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libgiusto.so.1");
    }
}
