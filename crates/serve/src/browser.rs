//! The user's browser.

use std::{
    env, io,
    process::{Command, Stdio},
    thread,
};

/// No browser was opened.
#[derive(Debug, thiserror::Error)]
#[error("no browser was opened, xdg-open: {0}: open the address by hand")]
pub struct OpenError(#[from] io::Error);

/// Whether a display is there, on which a browser could appear.
pub fn has_display() -> bool {
    ["WAYLAND_DISPLAY", "DISPLAY"].iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Opens `url` in the browser that the user has chosen, by `xdg-open`. Does not wait for it. Other users of the machine can read the
/// arguments of a process, and so the token in `url`, while it runs.
///
/// # Errors
///
/// Where there is no such program. This is no reason to end: the user can open the address by hand.
pub fn open(url: &str) -> Result<(), OpenError> {
    let mut opener = Command::new("xdg-open")
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // Some openers end with the browser only; none is left behind as a zombie.
    thread::Builder::new().name("browser".to_owned()).spawn(move || opener.wait())?;
    Ok(())
}
