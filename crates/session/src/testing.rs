//! Quantities in the units in which tests write them, and test films.

use std::process::Command;

use giusto_units::Timestamp;

pub(crate) const fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

/// A film of ffmpeg's test picture in a temporary file, which goes with it.
pub(crate) struct Film(pub(crate) String);

impl Film {
    /// `None` where ffmpeg has no such encoder. `arguments` are divided by spaces.
    pub(crate) fn encoded(suffix: &str, size: &str, codec: &str, arguments: &str) -> Option<Self> {
        let name = format!("giusto-{codec}-{size}-{}{suffix}", std::process::id());
        let film = Self(std::env::temp_dir().join(name).display().to_string());
        let source = format!("testsrc=size={size}:rate=30");
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-y", "-f", "lavfi", "-i", &source, "-c:v", codec]);
        command.args(arguments.split_whitespace()).arg(&film.0);
        let is_made = command.status().is_ok_and(|status| status.success());
        if !is_made {
            eprintln!("SKIPPED a film: ffmpeg has no {codec}");
        }
        is_made.then_some(film)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap()
    }
}

impl Drop for Film {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
