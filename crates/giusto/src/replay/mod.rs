//! Sessions recorded and replayed: the input of a controller, run through any controller.
//!
//! A session log holds every call of a congestion controller. [`SessionLog`] writes one while a session runs; [`replay`] runs it
//! through any controllers and compares them with the recorded one. `docs/reference/session-log.md` describes the format.
//!
//! A replay is open loop: the history does not react. A controller that would have sent less is still shown the queue that the
//! recorded one has built. The recorded controller itself makes the same decisions again, to the last bit.
//!
//! [`open`] also reads RTC event logs of Chromium ([`chromium`]).
//!
//! # Example
//!
//! ```no_run
//! use giusto::replay::{self, ReplayOptions};
//!
//! let mut recording = replay::open("call.jsonl".as_ref())?;
//! let controllers = vec!["scream:v2".parse()?];
//! let replayed = replay::replay(recording.as_mut(), &ReplayOptions::of(controllers), &mut |_| {})?;
//! for controller in &replayed.controllers {
//!     println!("{}: {:?}", controller.side.name, controller.parting);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod chromium;
mod event;
mod play;
mod player;
mod read;
mod result;
mod sampled;
#[cfg(test)]
mod tests;
mod wire;
mod write;

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

pub use chromium::RtcEventLog;
pub use event::{Entry, Event, Lacks, Message, SessionInfo};
pub use play::{ReplayOptions, Step, replay};
pub use read::{LogReader, ReadError};
pub use result::{Parting, Replay, ReplayTimeline, Replayed, Side};
pub use wire::VERSION;
pub use write::{DEFAULT_MAX_BYTES, SessionLog, Written};

/// A recorded session that is read from the beginning.
pub trait Recording {
    /// What it says about its session.
    fn info(&self) -> &SessionInfo;

    /// The next event; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ReadError`] names the place and the fix.
    fn next_entry(&mut self) -> Result<Option<Entry>, ReadError>;

    /// After the last event: why the recording may not hold the whole session, if so.
    fn shortened(&self) -> Option<String>;
}

impl Recording for LogReader {
    fn info(&self) -> &SessionInfo {
        self.info()
    }

    fn next_entry(&mut self) -> Result<Option<Entry>, ReadError> {
        self.next_entry()
    }

    fn shortened(&self) -> Option<String> {
        self.shortened()
    }
}

/// Opens the recording at `path`.
///
/// # Errors
///
/// [`ReadError`]: there is no such file, or it is no recording.
pub fn open(path: &Path) -> Result<Box<dyn Recording>, ReadError> {
    let unreadable = |error| ReadError::unreadable(path, &error);
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    // A session log begins with a JSON object. No RTC event log does: 0x7b would be a field of a group, which protocol buffers of
    // this kind do not have.
    match file.fill_buf().map_err(unreadable)?.first() {
        Some(b'{') | None => Ok(Box::new(LogReader::from_reader(path, file)?)),
        Some(_) => Ok(Box::new(RtcEventLog::read(path, file)?)),
    }
}
