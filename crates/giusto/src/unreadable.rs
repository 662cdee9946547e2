//! Files that cannot be read.

use std::{io, path::Path};

/// Why the file at `path` cannot be read: it, the error and the fix.
///
/// # Example
///
/// ```
/// use std::path::Path;
/// use giusto::whole_file::unreadable;
///
/// let error = std::fs::read("none.toml").unwrap_err();
/// assert!(unreadable(Path::new("none.toml"), &error).starts_with("none.toml: cannot be read (No such file"));
/// ```
pub fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("{}: cannot be read ({error}): {}", path.display(), reading_fix(error))
}

/// How to make a file readable.
pub(crate) fn reading_fix(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "check the name",
        io::ErrorKind::PermissionDenied => "make it readable",
        io::ErrorKind::InvalidData => "it must be UTF-8 text",
        _ => "use a file that can be read",
    }
}
