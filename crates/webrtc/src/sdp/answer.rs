//! Our answer to an offer (JSEP, RFC 8829 §5.3).

use std::{fmt::Write as _, net::SocketAddr};

use giusto_congestion::FeedbackKind;
use giusto_units::DataRate;

use super::{
    ABS_SEND_TIME_URI, ALLOW_MIXED, Accepted, DEPENDENCY_URI, MediaLine, Offer, Setup, TRANSPORT_CC_URI,
    extension::write_extension,
};
use crate::fingerprint::Fingerprint;

/// Our side of the answer.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The session identifier (RFC 8866 §5.2).
    pub session: u64,
    /// The address of our socket, which the browser can reach.
    pub address: SocketAddr,
    /// Our ICE user name fragment.
    pub ufrag: &'a str,
    /// Our ICE password.
    pub password: &'a str,
    /// The hash of our certificate.
    pub fingerprint: Fingerprint,
    /// The feedback that we want.
    pub feedback: FeedbackKind,
    /// Whether we answer negative acknowledgements.
    pub nack: bool,
    /// Synchronisation source of the video.
    pub ssrc: u32,
    /// Synchronisation source of its retransmissions and of padding.
    pub rtx_ssrc: u32,
    /// Synchronisation source of the audio.
    pub audio_ssrc: u32,
    /// The most that the browser may send of the video.
    pub max_rate: Option<DataRate>,
}

impl Offer {
    /// The answer: the lines of the call are accepted, all others are rejected.
    pub fn answer(&self, ours: &Answer<'_>) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_answer(ours, &mut text);
        text
    }

    fn write_answer(&self, ours: &Answer<'_>, text: &mut String) -> std::fmt::Result {
        let (family, ip) = (if ours.address.is_ipv6() { "IP6" } else { "IP4" }, ours.address.ip());
        let accepted = |index| {
            [Some(&self.video), self.audio.as_ref()].into_iter().flatten().find(|it| it.index == index)
        };
        write!(text, "v=0\r\no=- {} 1 IN {family} {ip}\r\ns=-\r\nt=0 0\r\na=group:BUNDLE", ours.session)?;
        for line in (0..self.lines.len()).filter_map(accepted) {
            write!(text, " {}", line.mid)?;
        }
        text.push_str("\r\na=ice-lite\r\n");
        for (index, line) in self.lines.iter().enumerate() {
            if let Some(accepted) = accepted(index) {
                self.write_line(ours, line, accepted, text)?;
                continue;
            }
            let MediaLine { kind, protocol, first_format, mid } = line;
            write!(text, "m={kind} 0 {protocol} {first_format}\r\nc=IN IP4 0.0.0.0\r\na=inactive\r\n")?;
            if let Some(mid) = mid {
                write!(text, "a=mid:{mid}\r\n")?;
            }
        }
        Ok(())
    }

    fn write_line(
        &self,
        ours: &Answer<'_>,
        MediaLine { kind, protocol, .. }: &MediaLine,
        line: &Accepted,
        text: &mut String,
    ) -> std::fmt::Result {
        let Answer {
            address, ufrag, password, fingerprint, feedback, nack, ssrc, rtx_ssrc, audio_ssrc, ..
        } = *ours;
        let (family, ip) = (if address.is_ipv6() { "IP6" } else { "IP4" }, address.ip());
        let is_video = line.index == self.video.index;
        let rtx = self.rtx.filter(|_| is_video);
        let number = line.payload_type;
        write!(text, "m={kind} {} {protocol} {number}", address.port())?;
        if let Some(rtx) = rtx {
            write!(text, " {rtx}")?;
        }
        write!(text, "\r\nc=IN {family} {ip}\r\n")?;
        // In kbit/s, with the headers of RTP, UDP and IP (RFC 8866 §5.8, RFC 3550 §6.2).
        if let Some(max) = ours.max_rate.filter(|_| is_video && line.directions.1) {
            write!(text, "b=AS:{}\r\n", (max.as_bps() / 1000).max(1))?;
        }
        write!(text, "a=rtcp:9 IN IP4 0.0.0.0\r\na=mid:{}\r\n", line.mid)?;
        write!(text, "a=ice-ufrag:{ufrag}\r\na=ice-pwd:{password}\r\na=fingerprint:{fingerprint}\r\n")?;
        let setup = if self.setup == Setup::Passive { "active" } else { "passive" };
        let direction = match line.directions {
            (true, true) => "sendrecv",
            (true, false) => "sendonly",
            _ => "recvonly",
        };
        write!(text, "a=setup:{setup}\r\na={direction}\r\na=rtcp-mux\r\n")?;
        if line.reduced_size {
            text.push_str("a=rtcp-rsize\r\n");
        }
        write!(text, "a=rtpmap:{number} {}\r\n", line.name)?;
        if let Some(parameters) = &line.parameters {
            write!(text, "a=fmtp:{number} {parameters}\r\n")?;
        }
        match feedback {
            FeedbackKind::TransportWide if line.offers("transport-cc") => {
                write!(text, "a=rtcp-fb:{number} transport-cc\r\n")?;
                write_extension(text, line.transport_sequence, TRANSPORT_CC_URI)?;
            }
            // RFC 8888 §6: always for all payload types.
            FeedbackKind::CongestionControl if line.offers("ack ccfb") => {
                text.push_str("a=rtcp-fb:* ack ccfb\r\n");
            }
            FeedbackKind::ReceiverEstimate => {
                if line.offers("goog-remb") {
                    write!(text, "a=rtcp-fb:{number} goog-remb\r\n")?;
                }
                write_extension(text, line.abs_send_time, ABS_SEND_TIME_URI)?;
            }
            _ => {}
        }
        if let Some((extension, is_mixed)) = line.dependency {
            if is_mixed {
                write!(text, "a={ALLOW_MIXED}\r\n")?;
            }
            extension.write(text, DEPENDENCY_URI)?;
        }
        if let Some(simulcast) = &line.simulcast {
            simulcast.write(text)?;
        }
        for value in ["nack", "nack pli", "ccm fir"] {
            if is_video && line.offers(value) && (value != "nack" || nack) {
                write!(text, "a=rtcp-fb:{number} {value}\r\n")?;
            }
        }
        if let Some(rtx) = rtx {
            write!(text, "a=rtpmap:{rtx} rtx/90000\r\na=fmtp:{rtx} apt={number}\r\n")?;
        }
        if line.directions.0 {
            let ssrc = if is_video { ssrc } else { audio_ssrc };
            if rtx.is_some() {
                write!(text, "a=ssrc-group:FID {ssrc} {rtx_ssrc}\r\n")?;
            }
            write!(text, "a=msid:giusto {kind}\r\na=ssrc:{ssrc} cname:giusto\r\n")?;
            if rtx.is_some() {
                write!(text, "a=ssrc:{rtx_ssrc} cname:giusto\r\n")?;
            }
        }
        // The priority of a host candidate of component 1 (RFC 8445 §5.1.2.2).
        write!(text, "a=candidate:1 1 udp 2130706431 {ip} {} typ host\r\n", address.port())?;
        text.push_str("a=end-of-candidates\r\n");
        Ok(())
    }
}
