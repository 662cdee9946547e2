//! Files that are read as a whole, and those that cannot be.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// The largest file that is read as a whole, in MB: the memory of a small machine.
const MOST_MB: u64 = 500;

/// The bytes of a file.
///
/// # Errors
///
/// As [`std::fs::read`]; [`io::ErrorKind::FileTooLarge`] above 500 MB, also of a device that never ends.
pub fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    bounded(File::open(path)?, MOST_MB * 1_000_000)
}

/// The text of a file.
///
/// # Errors
///
/// As [`read_bounded`]; [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_bounded_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bounded(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

fn bounded(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if from.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {MOST_MB} MB")));
    }
    Ok(bytes)
}

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
        io::ErrorKind::FileTooLarge => "use a smaller one",
        _ => "use a file that can be read",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_not_read_for_ever() {
        assert_eq!(bounded(&[1, 2, 3][..], 3).unwrap(), [1, 2, 3]);
        let error = bounded(io::repeat(1), 1000).unwrap_err();
        let text = unreadable(Path::new("/dev/zero"), &error);
        assert_eq!(text, "/dev/zero: cannot be read (larger than 500 MB): use a smaller one");
    }
}
