//! The application: frames from a sender to a receiver, perhaps beside a file. The same for all controllers.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bytes::Bytes;
use giusto_quinn::{
    DataRate, Media,
    priority::{self, Order},
};
use quinn_proto::{Connection, Dir, StreamId, VarInt};
use rand::RngExt;

use super::{Frame, Log, baseline::Side};

/// The application looks so often.
const TICK: Duration = Duration::from_millis(5);
const FRAMES_PER_SECOND: u32 = 30;
/// A group of frames, and a stream, has so many.
const GROUP: u64 = 30;
/// A key frame is so much larger than the mean.
const KEY: f64 = 2.0;
/// A frame begins with its number and its length.
const HEAD: usize = 12;
/// The first bytes of the stream of a file.
const FILE: u64 = u64::MAX;

/// How a file is sent beside the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bulk {
    /// With the priority of the frames.
    Equal,
    /// With a lower priority.
    Lower,
    /// With a lower priority, and no more than the target leaves.
    Spare,
}

/// The sender of frames.
pub(crate) struct Sender {
    pub(crate) skips: bool,
    pub(crate) bulk: Option<Bulk>,
    /// The encoder's highest rate.
    pub(crate) most: DataRate,
    pub(crate) log: Arc<Mutex<Log>>,
    pub(crate) random: giusto_sim::random::Random,
    /// Time zero of the log, when the sender stops, and when it looks next.
    pub(crate) origin: Instant,
    pub(crate) end: Instant,
    pub(crate) next: Instant,
    side: Option<Side>,
    next_frame: Option<Instant>,
    number: u64,
    group: Option<(u64, StreamId)>,
    previous: Option<StreamId>,
    file: Option<StreamId>,
}

impl Sender {
    pub(crate) fn new(
        (skips, bulk, most): (bool, Option<Bulk>, DataRate),
        log: Arc<Mutex<Log>>,
        random: giusto_sim::random::Random,
        (origin, end): (Instant, Instant),
    ) -> Self {
        Self {
            skips,
            bulk,
            most,
            log,
            random,
            origin,
            end,
            next: origin,
            side: None,
            next_frame: None,
            number: 0,
            group: None,
            previous: None,
            file: None,
        }
    }

    /// Does what is due.
    pub(crate) fn run(&mut self, now: Instant, connection: &mut Connection) {
        if now < self.next {
            return;
        }
        self.next = now + TICK;
        if connection.is_handshaking() || connection.is_closed() || now >= self.end {
            return;
        }
        let side = self.side.get_or_insert_with(|| Side::of(connection.congestion_state()));
        let media = side.media();
        side.tick(now);
        if let Side::Giusto(media) = side {
            let most = connection.datagrams().max_size().unwrap_or(0);
            while let Some(size) = media.padding(now).filter(|_| most > 0) {
                let _ = connection.datagrams().send(Bytes::from(vec![0; size.min(most)]), true);
            }
        }
        let rate = side.frame_rate().min(self.most);
        let interval = Duration::from_secs(1) / FRAMES_PER_SECOND;
        let due = *self.next_frame.get_or_insert(now);
        if due <= now {
            self.next_frame = Some(due + interval);
            self.frame(now, due, rate, &media, connection);
        }
        self.file(now, &media, connection);
        self.next = self.next.min(self.next_frame.unwrap_or(self.next));
    }

    fn frame(
        &mut self,
        now: Instant,
        captured: Instant,
        rate: DataRate,
        media: &Media,
        connection: &mut Connection,
    ) {
        let number = self.number;
        self.number += 1;
        let (group, is_key) = (number / GROUP, number.is_multiple_of(GROUP));
        let noise = self.random.random_range(0.8..1.2);
        let factor = if is_key { KEY } else { (GROUP as f64 - KEY) / (GROUP as f64 - 1.0) };
        let size = (rate.as_bps() as f64 / 8.0 / f64::from(FRAMES_PER_SECOND) * factor * noise) as usize;
        let size = size.max(HEAD);
        let since = captured.saturating_duration_since(self.origin);
        self.log.lock().expect("no panic").frames.push(Frame { captured: since, size, arrived: None });
        let is_late = self.skips && media.should_skip(now);
        if is_late && !is_key {
            return;
        }
        if self.group.is_none_or(|(current, _)| current != group)
            && !self.begin_group(group, is_late, media, connection)
        {
            return;
        }
        let Some((_, stream)) = self.group else { return };
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.extend((size as u32).to_be_bytes());
        bytes.resize(size, 0x55);
        let written = connection.send_stream(stream).write(&bytes).unwrap_or(0);
        assert_eq!(written, bytes.len(), "quinn's windows are large enough");
        media.on_frame(now, written);
    }

    /// Opens the stream of a group. Who skips frames needs no older ones when a group begins: it resets that before the previous group,
    /// whose frames are a second late, and the previous one if its frames still wait.
    fn begin_group(&mut self, group: u64, is_late: bool, media: &Media, connection: &mut Connection) -> bool {
        let previous = self.group.take().map(|(_, stream)| stream);
        if let Some(stream) = previous {
            let _ = connection.send_stream(stream).finish();
        }
        if let Some(stream) = self.previous.take().filter(|_| self.skips) {
            let _ = connection.send_stream(stream).reset(VarInt::from_u32(0));
        }
        if let Some(stream) = previous.filter(|_| is_late) {
            let _ = connection.send_stream(stream).reset(VarInt::from_u32(0));
            media.on_discarded();
        }
        self.previous = previous;
        let Some(stream) = connection.streams().open(Dir::Uni) else { return false };
        let order = if self.skips { Order::NewestFirst } else { Order::OldestFirst };
        let priority = if self.bulk == Some(Bulk::Equal) { 0 } else { priority::of_group(order, group) };
        let _ = connection.send_stream(stream).set_priority(priority);
        self.group = Some((group, stream));
        true
    }

    fn file(&mut self, now: Instant, media: &Media, connection: &mut Connection) {
        let Some(bulk) = self.bulk else { return };
        if self.file.is_none() {
            self.file = connection.streams().open(Dir::Uni);
            if let Some(stream) = self.file {
                let order = if bulk == Bulk::Equal { 0 } else { priority::BULK };
                let _ = connection.send_stream(stream).set_priority(order);
                let _ = connection.send_stream(stream).write(&FILE.to_be_bytes());
            }
        }
        let Some(stream) = self.file else { return };
        let most = if bulk == Bulk::Spare { media.spare(now) as usize } else { 1 << 20 };
        // Small pieces would make small packets.
        if most < 1000 {
            return;
        }
        let _ = connection.send_stream(stream).write(&vec![0xaa; most]);
    }
}

/// The receiver of frames.
pub(crate) struct Receiver {
    pub(crate) log: Arc<Mutex<Log>>,
    pub(crate) origin: Instant,
    streams: BTreeMap<StreamId, Vec<u8>>,
    files: Vec<StreamId>,
}

impl Receiver {
    pub(crate) fn new(log: Arc<Mutex<Log>>, origin: Instant) -> Self {
        Self { log, origin, streams: BTreeMap::new(), files: Vec::new() }
    }

    /// Accepts streams.
    pub(crate) fn on_opened(&mut self, now: Instant, connection: &mut Connection) {
        while let Some(stream) = connection.streams().accept(Dir::Uni) {
            self.streams.insert(stream, Vec::new());
            self.on_readable(now, stream, connection);
        }
    }

    /// Reads what has arrived.
    pub(crate) fn on_readable(&mut self, now: Instant, stream: StreamId, connection: &mut Connection) {
        let Some(bytes) = self.streams.get_mut(&stream) else { return };
        let mut receive = connection.recv_stream(stream);
        let Ok(mut chunks) = receive.read(true) else { return };
        let mut is_over = false;
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                Ok(None) | Err(quinn_proto::ReadError::Reset(_)) => {
                    is_over = true;
                    break;
                }
                Err(quinn_proto::ReadError::Blocked) => break,
            }
        }
        let _ = chunks.finalize();
        let mut log = self.log.lock().expect("no panic");
        let is_file = self.files.contains(&stream);
        if is_file || bytes.get(..8).is_some_and(|head| head == FILE.to_be_bytes()) {
            if !is_file {
                self.files.push(stream);
            }
            log.file.push((now.saturating_duration_since(self.origin), bytes.len()));
            bytes.clear();
        } else {
            while let Some((number, length)) = head(bytes).filter(|(_, length)| bytes.len() >= *length) {
                bytes.drain(..length);
                if let Some(frame) = log.frames.get_mut(number as usize) {
                    frame.arrived = Some(now.saturating_duration_since(self.origin));
                }
            }
        }
        if is_over {
            self.streams.remove(&stream);
        }
    }
}

/// Number and length of the frame at the start of `bytes`.
fn head(bytes: &[u8]) -> Option<(u64, usize)> {
    let number = u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?);
    let length = u32::from_be_bytes(bytes.get(8..HEAD)?.try_into().ok()?);
    Some((number, (length as usize).max(HEAD)))
}
