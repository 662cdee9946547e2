//! The user's browser.

use std::{
    env,
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

use tempfile::{Builder, NamedTempFile, TempPath};

/// No browser was opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// The file with the address cannot be written.
    #[error("no browser was opened, cannot write a file in {folder}: {source}: open the address by hand")]
    File {
        /// Its folder.
        folder: String,
        /// Why.
        source: io::Error,
    },
    /// The program that opens browsers cannot be run.
    #[error("no browser was opened, xdg-open: {0}: open the address by hand")]
    Program(#[from] io::Error),
}

/// A page that was opened in a browser. The file that took the address there is removed when this is dropped.
#[derive(Debug)]
#[must_use = "the browser reads a file that is removed with this"]
pub(crate) struct Opened(#[expect(dead_code, reason = "it is removed on drop")] TempPath);

/// Whether a display is there, on which a browser could appear.
pub(crate) fn has_display() -> bool {
    ["WAYLAND_DISPLAY", "DISPLAY"].iter().any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// Opens `url` in the browser that the user has chosen, by `xdg-open`. Does not wait for it.
///
/// Other users of the machine can read the arguments of a process. They get the name of a file that only this user can read, in
/// `XDG_RUNTIME_DIR` or else in the folder of temporary files; it sends the browser on to `url`.
///
/// # Errors
///
/// [`OpenError`]: the file cannot be written, or there is no such program. This is no reason to end: the user can open the address by
/// hand.
pub(crate) fn open(url: &str) -> Result<Opened, OpenError> {
    let folder = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(env::temp_dir);
    let file = redirect(url, &folder)
        .map_err(|source| OpenError::File { folder: folder.display().to_string(), source })?;
    let path = file.into_temp_path();
    let mut opener = Command::new("xdg-open")
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // Some openers end with the browser only; none is left behind as a zombie.
    thread::Builder::new().name("browser".to_owned()).spawn(move || opener.wait())?;
    Ok(Opened(path))
}

/// A page that sends the browser on to `url`. Its mode is 0600, as of all files of `tempfile`.
fn redirect(url: &str, folder: &std::path::Path) -> io::Result<NamedTempFile> {
    let mut file = Builder::new().prefix("giusto-").suffix(".html").tempfile_in(folder)?;
    write!(
        file,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={url}\">\
         <title>giusto</title><p><a href=\"{url}\">The page of giusto</a></p></html>"
    )?;
    Ok(file)
}
