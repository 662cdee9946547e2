//! The media of a call: its halves, its frames, and what comes from the browser.

use giusto_congestion::Controller;
use giusto_session::{
    media::{
        DEFAULT_MAX_PAYLOAD, DecodeTarget, ExtensionIds, FrameArrival, KeyFrameRequest, MediaReceiver,
        MediaReceiverConfig, MediaSender, MediaSenderConfig, MediaStream, Packetizer, PayloadFormat,
        RateRange, RepairConfig, SourceFigures, StreamId, StreamRepair, pacer_config,
    },
    video::{VideoCodec, dimensions},
};
use giusto_units::{DataSize, Ecn, Timestamp};

use super::{BrowserPeer, Incoming, IncomingStream, ReceiveConfig, VoiceSource};

/// A padding packet has at most this many bytes after its header: their number is its last byte (RFC 3550 §5.1).
const MAX_PADDING: DataSize = DataSize::from_bytes(255);
/// The most frames that are taken from the source at once. Chosen by us.
const MAX_FRAMES: usize = 4;
/// The RTP clock of Opus (RFC 7587 §4.1).
const OPUS_CLOCK: u32 = 48_000;
/// The most sources whose sizes are kept: as many as the receiver has.
const MAX_SIZES: usize = 64;
/// The stream of speech at the sender, after the video.
const VOICE_STREAM: usize = 1;

impl BrowserPeer {
    /// Handles RTP, of the payload types of the answer.
    pub(super) fn handle_media(&mut self, now: Timestamp, clear: &[u8], ecn: Ecn) {
        let Ok((header, _)) = giusto_rtp::RtpHeader::parse(clear) else {
            self.counters.strange_datagrams += 1;
            return;
        };
        let number = header.payload_type;
        let opus = self.offer.opus().filter(|(.., receives)| *receives);
        let [video, audio] = &mut self.incoming;
        if self.config.receive.is_none() {
            self.counters.strange_datagrams += 1;
            return;
        } else if number == self.offer.payload_type {
            *video = Some(header.ssrc);
        } else if opus.is_some_and(|(opus, ..)| opus == number) {
            *audio = Some(header.ssrc);
        } else if Some(number) != self.offer.rtx {
            self.counters.strange_datagrams += 1;
            return;
        }
        self.counters.received_datagrams += 1;
        self.endpoint.handle_datagram(now, clear, ecn);
        self.drain_events(now);
    }

    /// The synchronisation source of the speech that goes to the browser.
    pub fn voice_ssrc(&self) -> Option<u32> {
        self.voice_line().map(|_| self.ssrc[1].wrapping_add(1))
    }

    /// Which stream of the browser has this synchronisation source.
    pub fn incoming(&self, ssrc: u32) -> Option<IncomingStream> {
        self.stream_of(ssrc, self.endpoint.receiver().and_then(|receiver| receiver.stream_id(ssrc)))
    }

    /// Of several encodings, those that the answer names.
    fn stream_of(&self, ssrc: u32, rid: Option<StreamId>) -> Option<IncomingStream> {
        let rid = rid.filter(|rid| self.offer.encodings().any(|known| known == *rid));
        let [video, audio] = self.incoming.map(|known| known == Some(ssrc));
        let has_one = self.encodings().next().is_none();
        let kind = match (rid, audio) {
            (Some(_), _) => Incoming::Video,
            (None, true) => Incoming::Audio,
            (None, false) => {
                return (video && has_one).then_some(IncomingStream { kind: Incoming::Video, rid });
            }
        };
        Some(IncomingStream { kind, rid })
    }

    /// The encodings of its video that the browser sends at once, in its order; none: one without a name.
    pub fn encodings(&self) -> impl Iterator<Item = StreamId> {
        self.offer.encodings()
    }

    /// Figures of the browser's streams.
    pub fn received(&self) -> impl Iterator<Item = (IncomingStream, SourceFigures)> {
        let sources = self.endpoint.receiver().into_iter().flat_map(MediaReceiver::sources);
        sources.filter_map(|figures| Some((self.stream_of(figures.ssrc, figures.stream_id)?, figures)))
    }

    /// The decode targets of a source, if it comes with dependency descriptors.
    pub fn decode_targets(&self, ssrc: u32) -> Vec<DecodeTarget> {
        self.endpoint.receiver().map(|receiver| receiver.decode_targets(ssrc)).unwrap_or_default()
    }

    /// Width and height of the latest key frame of a source.
    pub fn dimensions(&self, ssrc: u32) -> Option<(u16, u16)> {
        self.sizes.iter().find(|(known, _)| *known == ssrc).map(|(_, size)| *size)
    }

    pub(super) fn measure(&mut self, frame: &FrameArrival) {
        let Some(size) = dimensions(self.codec(), &frame.payload.to_vec()) else { return };
        self.sizes.retain(|(known, _)| *known != frame.ssrc);
        if self.sizes.len() < MAX_SIZES {
            self.sizes.push((frame.ssrc, size));
        }
    }

    /// Requests a key frame of one of the browser's videos, unless one is requested already.
    pub fn request_key_frame(&mut self, now: Timestamp, ssrc: u32) {
        if let Some(receiver) = self.endpoint.receiver_mut() {
            receiver.request_key_frame(now, ssrc);
        }
    }

    /// The codec of the video.
    pub fn codec(&self) -> VideoCodec {
        self.offer.codec
    }

    /// Whether video goes to the browser, and whether any comes from it.
    pub fn directions(&self) -> (bool, bool) {
        (self.source.is_some(), self.config.receive.is_some())
    }

    fn extension_ids(&self) -> ExtensionIds {
        let ids = ExtensionIds::default();
        let (stream_id, repaired_stream_id) = self.offer.stream_ids();
        ExtensionIds {
            transport_sequence: self.offer.transport_sequence.unwrap_or(ids.transport_sequence),
            abs_send_time: self.offer.abs_send_time.unwrap_or(ids.abs_send_time),
            // Not offered: a browser gets no packets with it.
            capture_time: 0,
            dependency: self.offer.dependency.unwrap_or(0),
            stream_id,
            repaired_stream_id,
        }
    }

    /// The receiving half. `None`: the constants of the estimate are out of range.
    pub(super) fn media_receiver(&self, receive: &ReceiveConfig) -> Option<MediaReceiver> {
        let video =
            PayloadFormat::video(self.offer.payload_type).with_header(self.offer.codec.payload_header());
        let rtx = self.offer.rtx.map(|rtx| PayloadFormat::rtx(rtx, self.offer.payload_type));
        let opus = self.offer.opus().map(|(opus, ..)| PayloadFormat::audio(opus, OPUS_CLOCK));
        let config = MediaReceiverConfig {
            payloads: [Some(video), rtx, opus].into_iter().flatten().collect(),
            repair: RepairConfig { nack: self.repairs(), key_frames: KeyFrameRequest::PictureLoss },
            playout_deadline: self.config.repair_deadline,
            receive_side: receive.receive_side,
            max_estimate: receive.max_rate,
            overhead: self.overhead(),
            extension_ids: self.extension_ids(),
            numbers_from_timestamp: false,
            ..MediaReceiverConfig::new(self.ssrc[0], "giusto", self.feedback)
        };
        MediaReceiver::new(config).ok()
    }

    pub(super) fn media_sender(&self, limits: RateRange, controller: Box<dyn Controller>) -> MediaSender {
        let needs = controller.requirements();
        let config = MediaSenderConfig {
            feedback: self.feedback,
            pacer: pacer_config(needs.pacer),
            overhead: self.overhead(),
            ecn: self.config.ecn,
            padding: (self.ssrc[1], self.offer.rtx.unwrap_or(self.offer.payload_type)),
            max_padding: MAX_PADDING,
            extension_ids: self.extension_ids(),
            ..MediaSenderConfig::default()
        };
        let packetizer = Packetizer::new(DEFAULT_MAX_PAYLOAD)
            .and_then(|packetizer| packetizer.with_header(self.offer.codec.payload_header()))
            .unwrap_or_default();
        let stream = MediaStream {
            // The first sequence number is made of the lower 16 bits. SRTP needs the first packet to be below 2^15, lest a loss
            // hides a rollover (RFC 3711 §3.3.1).
            timestamp_offset: self.timestamp_offset & !0x8000,
            packetizer,
            skip_after: needs.staleness.skip_after,
            // Discarding would end within a frame whose successors refer to it: a key frame follows at once.
            discard_after: needs.staleness.discard_after,
            repair: StreamRepair {
                rtx: self.offer.rtx.filter(|_| self.repairs()).map(|rtx| (self.ssrc[1], rtx)),
                deadline: self.config.repair_deadline,
                ..StreamRepair::default()
            },
            ..MediaStream::video(self.ssrc[0], self.offer.payload_type, limits)
        };
        let voice = self.voice_line().map(|(payload_type, voice)| MediaStream {
            timestamp_offset: self.timestamp_offset.rotate_left(16) & !0x8000,
            ..MediaStream::audio(self.ssrc[1].wrapping_add(1), payload_type, OPUS_CLOCK, voice.rate())
        });
        MediaSender::new(config, controller, std::iter::once(stream).chain(voice).collect())
    }

    /// The payload type and the source of speech, if the browser receives any.
    pub(super) fn voice_line(&self) -> Option<(u8, &dyn VoiceSource)> {
        let (payload_type, ..) = self.offer.opus().filter(|(_, sends, _)| *sends)?;
        Some((payload_type, self.voice.as_deref()?))
    }

    pub(super) fn push_due_voice(&mut self, now: Timestamp) {
        if self.voice_line().is_none() {
            return;
        }
        for _ in 0..MAX_FRAMES {
            let Some(voice) = &mut self.voice else { return };
            if voice.next_packet_at().is_none_or(|at| at > now) {
                return;
            }
            let Some(mut frame) = voice.poll_packet(now) else { return };
            let first = *self.first_voice.get_or_insert(frame.media_timestamp);
            frame.media_timestamp = frame.media_timestamp.wrapping_sub(first);
            if self.endpoint.push_frame(now, VOICE_STREAM, frame).is_err() {
                self.counters.refused_frames += 1;
            }
        }
    }

    pub(super) fn push_due_frames(&mut self, now: Timestamp) {
        for _ in 0..MAX_FRAMES {
            if self.source.as_ref().and_then(|source| source.next_frame_at()).is_none_or(|at| at > now) {
                return;
            }
            let is_wanted = self.endpoint.wants_frame(now, 0);
            // Discards may have asked for a key frame.
            self.drain_events(now);
            let Some(source) = &mut self.source else { return };
            let Some(mut frame) = source.poll_frame(now) else { return };
            if !is_wanted {
                self.endpoint.skip_frame(now, 0);
                source.on_skipped(now);
                self.counters.skipped_frames += 1;
                continue;
            }
            let (key, first) = (frame.key, *self.first_timestamp.get_or_insert(frame.media_timestamp));
            frame.media_timestamp = frame.media_timestamp.wrapping_sub(first);
            if self.endpoint.push_frame(now, 0, frame).is_ok() {
                self.counters.frames += 1;
                self.counters.key_frames += u64::from(key);
            } else {
                self.counters.refused_frames += 1;
            }
        }
    }
}

/// Whether a datagram with this header is padding: of the source of padding and retransmissions, whose header a retransmission makes
/// longer by the number of the original packet (RFC 4588 §4).
pub(super) fn is_padding(head: &[u8], padding: u32) -> bool {
    if crate::srtp::is_rtcp(head) || head.get(8..12) != Some(&padding.to_be_bytes()) {
        return false;
    }
    let extension = if head.first().is_some_and(|first| first & 0x10 != 0) {
        let words = head.get(14..16).and_then(|it| it.try_into().ok()).map_or(0, u16::from_be_bytes);
        4 + 4 * usize::from(words)
    } else {
        0
    };
    head.len() == 12 + extension
}

/// Makes a padding packet of RFC 3550 §5.1 of one that ends with this many zeros.
pub(super) fn mark_padding(packet: &mut [u8], zeros: u64) {
    if let (Ok(zeros), Some(first)) = (u8::try_from(zeros), packet.first_mut()) {
        *first |= 0x20;
        if let Some(last) = packet.last_mut() {
            *last = zeros;
        }
    }
}
