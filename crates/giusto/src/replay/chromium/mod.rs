//! Reads RTC event logs of Chromium (version 2, `rtc_event_log2.proto`) as recordings.
//!
//! | in the log | becomes |
//! |---|---|
//! | outgoing RTP packets | sent packets, with their transport-wide or RTP sequence numbers |
//! | incoming RTCP | feedback, by the [history](giusto_congestion::History) that a sender of ours uses |
//! | loss-based updates, SCReAM updates | the recorded target |
//! | delay-based updates, probe results, application-limited periods | what the recorded controller was doing, in words |
//! | probe clusters | probes; their packets are those that follow until the cluster has its packets and its bytes |
//! | route changes | route changes, and the overhead of each packet |
//!
//! Times are whole milliseconds. The log has neither the state of the sender's queue nor the calls of Chromium's controller. Within a
//! millisecond, the order is: probe clusters, routes, packets, RTCP, estimates.

mod deltas;
mod messages;
mod protobuf;
mod session;

use std::{io::Read, path::Path};

use super::{
    Recording,
    event::{Entry, SessionInfo},
    read::ReadError,
};
use messages::EventStream;
use protobuf::Value;

/// The largest log that is read. Chosen by us: some hours of a call.
const MAX_BYTES: u64 = 512_000_000;

/// An RTC event log.
#[derive(Debug)]
pub struct RtcEventLog {
    info: SessionInfo,
    entries: std::vec::IntoIter<Entry>,
    shortened: Option<String>,
}

impl RtcEventLog {
    /// Reads a log from `file`; `path` is its name in errors.
    ///
    /// # Errors
    ///
    /// [`ReadError`]: it is not an RTC event log of version 2, it is damaged, or it holds no sent media.
    pub fn read(path: &Path, file: impl Read) -> Result<Self, ReadError> {
        let error = |problem: String, fix: &str| ReadError {
            path: path.to_owned(),
            place: String::new(),
            problem,
            fix: fix.to_owned(),
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| ReadError::unreadable(path, &error))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(error(format!("the log is larger than {MAX_BYTES} B"), "record a shorter time"));
        }
        let complete = complete_part(&bytes);
        let shortened = (complete.len() < bytes.len()).then(|| {
            format!(
                "of {} B, the last {} are not a complete event",
                bytes.len(),
                bytes.len() - complete.len()
            )
        });
        let stream = EventStream::decode(complete);
        let not_a_log = "give the FILE of --session-log, or an RTC event log of Chromium";
        let stream = match stream {
            Some(stream) if !stream.begin.is_empty() || !stream.outgoing_rtp.is_empty() => stream,
            Some(stream) if !stream.legacy.is_empty() => {
                let fix = "record with a Chromium of 2019 or later, which writes version 2";
                return Err(error("this is an RTC event log of version 1".to_owned(), fix));
            }
            _ => {
                return Err(error(
                    "this is neither a session log nor an RTC event log".to_owned(),
                    not_a_log,
                ));
            }
        };
        if let Some(version) =
            stream.begin.iter().find_map(|begin| begin.version).filter(|version| *version != 2)
        {
            let problem = format!("the RTC event log has version {version}, and this giusto reads version 2");
            return Err(error(problem, "use a newer giusto"));
        }
        if stream.outgoing_rtp.is_empty() {
            let fix = "give the log of the peer connection that sends; Chromium writes one for each";
            return Err(error("the log holds no outgoing RTP packets".to_owned(), fix));
        }
        let (info, entries) = session::session(&stream)
            .map_err(|problem| error(format!("the log is damaged: {problem}"), "record the call again"))?;
        Ok(Self { info, entries: entries.into_iter(), shortened })
    }
}

impl Recording for RtcEventLog {
    fn info(&self) -> &SessionInfo {
        &self.info
    }

    fn next_entry(&mut self) -> Result<Option<Entry>, ReadError> {
        Ok(self.entries.next())
    }

    fn shortened(&self) -> Option<String> {
        self.shortened.clone()
    }
}

/// The part that holds whole events: a browser that is killed leaves a part of one at the end.
fn complete_part(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    let mut left = bytes.len();
    // All events are messages.
    while let Some((_, Value::Bytes(_))) = Value::read(&mut rest) {
        left = rest.len();
    }
    bytes.get(..bytes.len() - left).unwrap_or_default()
}
