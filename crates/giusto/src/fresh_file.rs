//! Files that grow while a run lasts.

use std::{
    fs::{self, File},
    io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// A file that replaces an earlier one only when content comes after its head, and is gone if none came: what turns out to be
/// wrong before a run, such as another flag, costs no earlier recording.
#[derive(Debug)]
pub(crate) struct FreshFile {
    /// `None` once it is closed.
    file: Option<BufWriter<Replacing>>,
    is_head: bool,
    has_content: bool,
}

impl FreshFile {
    /// Opens `path`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: Some(BufWriter::new(Replacing::open(path)?)), is_head: true, has_content: false })
    }

    /// What was written is the head: says at once if there is no space for it. Content follows.
    pub(crate) fn end_head(&mut self) -> io::Result<()> {
        self.is_head = false;
        match &mut self.file {
            Some(file) if file.get_ref().is_new => file.flush(),
            _ => Ok(()),
        }
    }

    /// Closes it, with its head alone if there was no content.
    pub(crate) fn close(mut self) -> io::Result<()> {
        self.keep();
        self.flush()
    }

    fn keep(&mut self) {
        self.has_content = true;
        if let Some(file) = &mut self.file {
            file.get_mut().keep();
        }
    }
}

impl Write for FreshFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_head {
            self.keep();
        }
        self.file.as_mut().map_or(Ok(bytes.len()), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for FreshFile {
    fn drop(&mut self) {
        if !self.has_content {
            // Not its own drop, which would write the head.
            self.file.take().map(BufWriter::into_parts);
        }
    }
}

/// A file whose earlier content is removed by the first write, and which is gone again unless it is kept.
#[derive(Debug)]
pub(crate) struct Replacing {
    file: File,
    path: PathBuf,
    /// It is to be removed again.
    is_new: bool,
    /// It has earlier content.
    is_old: bool,
}

impl Replacing {
    /// Opens `path`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let of = |file, is_new, is_old| Self { file, path: path.to_owned(), is_new, is_old };
        match File::create_new(path) {
            Ok(file) => Ok(of(file, true, false)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // A name that points to a file that is not there yet exists, too.
                let file = File::options().write(true).create(true).truncate(false).open(path)?;
                let is_old = file.metadata()?.is_file();
                Ok(of(file, false, is_old))
            }
            Err(error) => Err(error),
        }
    }

    /// It stays, also if it is empty.
    pub(crate) fn keep(&mut self) {
        self.is_new = false;
    }
}

impl Write for Replacing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if std::mem::take(&mut self.is_old) {
            self.file.set_len(0)?;
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Replacing {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for Replacing {
    fn drop(&mut self) {
        if self.is_new {
            // A file that stays does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_head(path: &Path) -> FreshFile {
        let mut file = FreshFile::open(path).unwrap();
        file.write_all(b"head").unwrap();
        file.end_head().unwrap();
        file
    }

    #[test]
    fn a_file_without_content_was_never_there() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "an earlier recording").unwrap();
        for path in [&old, &new] {
            drop(with_head(path));
        }
        assert_eq!(fs::read_to_string(&old).unwrap(), "an earlier recording");
        assert!(!new.exists());
        for path in [&old, &new] {
            let mut file = with_head(path);
            file.write_all(b" body").unwrap();
            file.flush().unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "head body");
            drop(file);
            assert_eq!(fs::read_to_string(path).unwrap(), "head body");
            with_head(path).close().unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "head");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_device_is_noticed() {
        let full = with_head(Path::new("/dev/full")).close().unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        with_head(Path::new("/dev/null")).close().unwrap();
        assert!(Path::new("/dev/null").exists());
    }
}
