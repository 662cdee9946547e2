//! A video encoder as a child process.
//!
//! | pipe | content |
//! |---|---|
//! | its standard output | IVF, H.264 as a byte stream of ITU-T H.264 Annex B, or OBUs of AV1 |
//! | its standard input | lines: `start` when the session begins, `bitrate 640000` when the target changes, `key-frame` |
//! | its standard error | messages; the last line is part of the error if it fails |
//!
//! `bitrate` comes first before any other line; later at most every 100 ms, and if the rate changes by at least 2 %. It is in bit/s,
//! headers not included. A program may ignore each of the lines. It should write the header of its container (or one access unit
//! delimiter) at once, so that the codec is known before the session begins.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError},
    },
    thread,
};

use giusto_session::{
    media::{Frame, RateRange},
    video::{EncoderCommand, LiveVideo, VideoCodec, VideoError, VideoFrame, VideoReader, VideoSource},
};
use giusto_units::{DataRate, TimeDelta, Timestamp};

use crate::{Clock, group::ProcessGroup};

/// Bytes that are read at once.
const CHUNK: usize = 1 << 16;
/// Frames between the reading thread and the session; then the program waits. Chosen by us.
const FRAMES: usize = 4;
/// Lines that wait while the program does not read; further ones are dropped. Chosen by us.
const LINES: usize = 8;
/// The part of a line of standard error that is kept. Chosen by us.
const MAX_LINE: usize = 400;
/// Time within which the codec must be known. Chosen by us.
const CODEC_TIMEOUT: TimeDelta = TimeDelta::from_seconds(10);
/// A program that writes no frame for this long has failed. Chosen by us: the default silence after which a call ends.
const SILENCE: TimeDelta = TimeDelta::from_seconds(15);
/// Time that the program has to end by itself. Chosen by us.
const FAREWELL: TimeDelta = TimeDelta::from_millis(500);
/// Time that its last frame has to leave. Chosen by us: twice a usual round-trip time, for its repair.
const LEAVING: TimeDelta = TimeDelta::from_millis(500);
/// Time from the end of its output until its exit status is known. Chosen by us.
const EXIT_WAIT: TimeDelta = TimeDelta::from_seconds(1);

/// What an encoder is started with.
#[derive(Debug, Clone)]
pub struct EncoderConfig {
    /// The command, for `sh -c`.
    pub command: String,
    /// The rates that it is asked for, headers not included.
    pub limits: RateRange,
    /// The first rate.
    pub start_rate: DataRate,
    /// The least time between two frames of H.264, on average: Annex B has no times.
    pub interval: TimeDelta,
}

/// Why an encoder has failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncoderError {
    /// It could not be started.
    #[error("the encoder could not be started: {0}")]
    Start(#[from] std::io::Error),
    /// It wrote nothing.
    #[error(
        "the encoder wrote no video within {0:.0}{1}: it must write IVF (VP8) or H.264 (Annex B) to its standard output"
    )]
    Nothing(TimeDelta, LastLine),
    /// It wrote no video.
    #[error("the output of the encoder is not a video that can be sent: {0}{1}")]
    Output(VideoError, LastLine),
    /// It has ended before its output began, or with an error.
    #[error("the encoder has ended ({0}){1}")]
    Ended(ExitStatus, LastLine),
    /// It has closed its output without ending.
    #[error("the encoder closed its standard output but did not end{0}")]
    Closed(LastLine),
    /// It has written no frame for this long.
    #[error("the encoder wrote no frame for {0:.0}{1}")]
    Silent(TimeDelta, LastLine),
    /// It is used by another session.
    #[error("an encoder serves one session: make one call at a time with it")]
    Taken,
}

/// The last line that the program wrote to standard error; empty if there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastLine(String);

impl std::fmt::Display for LastLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; its last message: {}", self.0) }
    }
}

/// A running encoder; copies are the same one. It is ended with [`stop`](Self::stop), or when the last copy is dropped.
#[derive(Debug, Clone)]
pub struct EncoderProcess {
    process: Arc<Process>,
    codec: VideoCodec,
    config: EncoderConfig,
    clock: Clock,
}

#[derive(Debug)]
struct Process {
    group: Mutex<ProcessGroup>,
    /// Lines for standard input; taken away when it is to end.
    lines: Mutex<Option<SyncSender<EncoderCommand>>>,
    frames: Mutex<Option<Receiver<ReadFrame>>>,
    state: Arc<Mutex<State>>,
    /// Ends when its output has ended.
    output: Mutex<Receiver<()>>,
    /// It was ended: its id may belong to another process.
    is_stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    codec: Option<VideoCodec>,
    last_line: String,
    /// When the last frame was read; from the start on.
    read_at: Timestamp,
    /// When its output ended, and how.
    output: Option<(Timestamp, Result<(), VideoError>)>,
    /// When the last of all frames was taken.
    drained_at: Option<Timestamp>,
    /// The session has ended: how the program ends is of no interest.
    is_released: bool,
    messages_ended: bool,
}

/// A frame, and when it was read.
type ReadFrame = (Timestamp, VideoFrame);

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EncoderProcess {
    /// Starts an encoder and waits until its codec is known, at most 10 s.
    ///
    /// # Errors
    ///
    /// [`EncoderError`], after which it no longer runs.
    pub fn start(config: EncoderConfig, clock: Clock) -> Result<Self, EncoderError> {
        let mut shell = Command::new("sh");
        shell.args(["-c", &config.command]).stdin(Stdio::piped());
        let mut group = ProcessGroup::start(shell.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        let child = group.leader();
        let state = Arc::new(Mutex::new(State { read_at: clock.now(), ..State::default() }));
        let (frame_in, frames) = mpsc::sync_channel(FRAMES);
        let (codec_in, codec_known) = mpsc::channel();
        let (ended, output) = mpsc::channel();
        let (lines, line_out) = mpsc::sync_channel(LINES);
        if let Some(stdout) = child.stdout.take() {
            let state = Arc::clone(&state);
            thread::Builder::new().spawn(move || {
                let result = read_frames(stdout, clock, &frame_in, &codec_in, &state);
                locked(&state).output = Some((clock.now(), result));
                drop(ended);
            })?;
        }
        if let Some(stderr) = child.stderr.take() {
            let state = Arc::clone(&state);
            thread::Builder::new().spawn(move || read_messages(stderr, &state))?;
        }
        if let Some(stdin) = child.stdin.take() {
            thread::Builder::new().spawn(move || write_lines(stdin, &line_out))?;
        }
        let process = Process {
            group: Mutex::new(group),
            lines: Mutex::new(Some(lines)),
            frames: Mutex::new(Some(frames)),
            state,
            output: Mutex::new(output),
            is_stopped: AtomicBool::new(false),
        };
        process.send(EncoderCommand::Rate(config.limits.clamp(config.start_rate)));
        let waited = codec_known.recv_timeout(CODEC_TIMEOUT.to_std());
        let codec = locked(&process.state).codec;
        let codec = match (codec, waited) {
            (Some(codec), _) => codec,
            (None, Err(RecvTimeoutError::Timeout)) => {
                return Err(EncoderError::Nothing(CODEC_TIMEOUT, process.last_line()));
            }
            (None, _) => return Err(process.early_end()),
        };
        Ok(Self { process: Arc::new(process), codec, config, clock })
    }

    /// The codec of its output.
    pub const fn codec(&self) -> VideoCodec {
        self.codec
    }

    /// The rates that it is asked for.
    pub const fn limits(&self) -> RateRange {
        self.config.limits
    }

    /// Its frames, for the one session that it serves.
    ///
    /// # Errors
    ///
    /// [`EncoderError::Taken`] if they were taken before.
    pub fn source(&self) -> Result<EncoderSource, EncoderError> {
        let frames = locked(&self.process.frames).take().ok_or(EncoderError::Taken)?;
        let mut live = LiveVideo::new(self.codec, self.config.limits, self.config.interval);
        live.set_target(Timestamp::ZERO, self.config.start_rate);
        locked(&self.process.state).read_at = self.clock.now();
        Ok(EncoderSource {
            process: Arc::clone(&self.process),
            live,
            frames: Some(frames),
            clock: self.clock,
        })
    }

    /// Whether it has ended: `Ok` if it ended by itself, its output was complete, and its last frame was taken half a second ago.
    /// `None` after the end of the session. Never blocks.
    pub fn ended(&self) -> Option<Result<(), EncoderError>> {
        let now = self.clock.now();
        let state = locked(&self.process.state);
        if state.is_released {
            return None;
        }
        let line = || LastLine(state.last_line.clone());
        let Some((since, result)) = &state.output else {
            let silent = now.saturating_since(state.read_at);
            return (silent >= SILENCE).then(|| Err(EncoderError::Silent(silent, line())));
        };
        let waited = now.saturating_since(*since);
        let status = locked(&self.process.group).poll().ok().flatten();
        let is_known = status.is_some() && (state.messages_ended || waited >= EXIT_WAIT);
        match (result, status) {
            _ if !is_known && waited < EXIT_WAIT => None,
            // A stream that is cut off, because the program failed.
            (_, Some(status)) if !status.success() => Some(Err(EncoderError::Ended(status, line()))),
            (Err(error), _) => Some(Err(EncoderError::Output(error.clone(), line()))),
            (Ok(()), Some(_)) => {
                let drained = state.drained_at.is_some_and(|at| now.saturating_since(at) >= LEAVING);
                drained.then_some(Ok(()))
            }
            (Ok(()), None) => Some(Err(EncoderError::Closed(line()))),
        }
    }

    /// Ends it: its standard input is closed, then it gets SIGTERM, and SIGKILL if it still runs after half a second.
    pub fn stop(&self) {
        self.process.stop();
    }
}

impl Process {
    /// Returns false if the program does not read its lines.
    fn send(&self, command: EncoderCommand) -> bool {
        let sent = locked(&self.lines).as_ref().map(|lines| lines.try_send(command));
        !matches!(sent, Some(Err(TrySendError::Full(_))))
    }

    fn last_line(&self) -> LastLine {
        LastLine(locked(&self.state).last_line.clone())
    }

    /// Why its output ended before its codec was known.
    fn early_end(&self) -> EncoderError {
        // The status and the last message follow.
        let _ = locked(&self.output).recv_timeout(FAREWELL.to_std());
        let result = locked(&self.state).output.clone();
        if let Some((_, Err(error))) = result
            && !matches!(error, VideoError::Truncated(_))
        {
            return EncoderError::Output(error, self.last_line());
        }
        match self.stop() {
            Some(status) => EncoderError::Ended(status, self.last_line()),
            None => EncoderError::Closed(self.last_line()),
        }
    }

    fn stop(&self) -> Option<ExitStatus> {
        locked(&self.lines).take();
        if self.is_stopped.swap(true, Ordering::Relaxed) {
            return None;
        }
        locked(&self.group).end(FAREWELL).ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads frames until the output ends or is no video.
fn read_frames(
    mut stdout: impl Read,
    clock: Clock,
    frames: &SyncSender<ReadFrame>,
    codec_known: &mpsc::Sender<()>,
    state: &Mutex<State>,
) -> Result<(), VideoError> {
    let mut reader = VideoReader::default();
    let mut chunk = vec![0; CHUNK];
    loop {
        let bytes = match stdout.read(&mut chunk) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        let at = clock.now();
        reader.push(chunk.get(..bytes).unwrap_or_default());
        loop {
            let frame = reader.poll_frame()?;
            if let Some(known) = reader.codec()
                && locked(state).codec.replace(known).is_none()
            {
                // Nobody waits any more: the encoder is being ended.
                let _ = codec_known.send(());
            }
            let Some(frame) = frame else { break };
            locked(state).read_at = at;
            // The time at which it could be sent: while frames wait, the program waits too.
            if frames.send((at, frame)).is_err() {
                return Ok(());
            }
        }
    }
    match reader.finish()? {
        Some(frame) => {
            let _ = frames.send((clock.now(), frame));
        }
        None if locked(state).codec.is_none() => return Err(VideoError::Truncated(0)),
        None => {}
    }
    Ok(())
}

/// Keeps the last line.
fn read_messages(stderr: impl Read, state: &Mutex<State>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A line without an end does not fill the memory.
        let read = (&mut reader).take(CHUNK as u64).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let text: String = text.trim().chars().filter(|it| !it.is_control()).take(MAX_LINE).collect();
        if !text.is_empty() {
            locked(state).last_line = text;
        }
    }
    locked(state).messages_ended = true;
}

/// Writes lines until the program no longer reads them, or is to end.
fn write_lines(mut stdin: ChildStdin, lines: &Receiver<EncoderCommand>) {
    for line in lines {
        if writeln!(stdin, "{line}").and_then(|()| stdin.flush()).is_err() {
            break;
        }
    }
}

/// The frames of a running encoder, for one session.
#[derive(Debug)]
pub struct EncoderSource {
    process: Arc<Process>,
    live: LiveVideo,
    frames: Option<Receiver<ReadFrame>>,
    clock: Clock,
}

impl EncoderSource {
    /// Passes on the frames that were read, and sends the commands that are due.
    fn exchange(&mut self, now: Timestamp) {
        while self.live.wants_input()
            && let Some(frames) = &self.frames
        {
            match frames.try_recv() {
                Ok((at, frame)) => {
                    let age = self.clock.now().saturating_since(at);
                    self.live.push(now - age, frame);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.frames = None;
                    self.live.end();
                }
            }
        }
        while let Some(command) = self.live.poll_command(now) {
            if !self.process.send(command) {
                break;
            }
        }
    }
}

impl Drop for EncoderSource {
    fn drop(&mut self) {
        locked(&self.process.state).is_released = true;
    }
}

impl VideoSource for EncoderSource {
    fn codec(&self) -> VideoCodec {
        self.live.codec()
    }

    fn limits(&self) -> RateRange {
        self.live.limits()
    }

    fn next_frame_at(&self) -> Option<Timestamp> {
        self.live.next_frame_at()
    }

    fn poll_frame(&mut self, now: Timestamp) -> Option<Frame> {
        self.exchange(now);
        let frame = self.live.poll_frame(now);
        if self.live.is_done() {
            let now = self.clock.now();
            locked(&self.process.state).drained_at.get_or_insert(now);
        }
        frame
    }

    fn set_target(&mut self, now: Timestamp, rate: DataRate) {
        self.live.set_target(now, rate);
    }

    fn request_key_frame(&mut self, now: Timestamp) {
        self.live.request_key_frame(now);
    }

    fn on_skipped(&mut self, now: Timestamp) {
        self.live.on_skipped(now);
    }
}
