//! The function of the fuzz target for what browsers and others on the network send. The ordinary tests run the seeds in
//! `fuzz/seeds/browser` through the same code.

use std::{net::SocketAddr, sync::OnceLock, time::Instant};

use giusto_congestion::{Algorithm, Limits};
use giusto_net::{Clock, http::Request};
use giusto_session::{
    media::{Frame, RateRange},
    video::{VideoCodec, VideoSource},
};
use giusto_units::{DataRate, Ecn, TimeDelta, Timestamp};
use giusto_webrtc::{
    ice::{Credentials, IceLite},
    peer::{BrowserPeer, PeerConfig, PeerMedia, ReceiveConfig, Secrets},
};
use rand::SeedableRng as _;

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 5000);
const BROWSER: ([u8; 4], u16) = ([192, 0, 2, 9], 6000);
const OFFER: &str = include_str!("../crates/webrtc/tests/data/chromium-transport-cc.sdp");

/// A source without frames.
#[derive(Debug)]
struct Empty;

impl VideoSource for Empty {
    fn codec(&self) -> VideoCodec {
        VideoCodec::Vp8
    }

    fn limits(&self) -> RateRange {
        RateRange::fixed(DataRate::from_bps(100_000))
    }

    fn next_frame_at(&self) -> Option<Timestamp> {
        None
    }

    fn poll_frame(&mut self, _: Timestamp) -> Option<Frame> {
        None
    }

    fn set_target(&mut self, _: Timestamp, _: DataRate) {}

    fn request_key_frame(&mut self, _: Timestamp) {}

    fn on_skipped(&mut self, _: Timestamp) {}
}

/// Secrets and an origin, made once.
fn fixed() -> &'static (Secrets, Instant) {
    static MADE: OnceLock<(Secrets, Instant)> = OnceLock::new();
    MADE.get_or_init(|| {
        let secrets = Secrets::draw(&mut rand::rngs::StdRng::seed_from_u64(1));
        (secrets.expect("a certificate can be made"), Clock::start().origin_instant())
    })
}

/// The answer of an end that sends, or of one that receives too, or alone.
fn answer(offer: &str, sends: bool, receives: bool) -> Option<(BrowserPeer, String)> {
    let (secrets, origin) = fixed();
    let algorithm: Algorithm = "gcc:libwebrtc".parse().expect("a known controller");
    let media = sends.then(|| PeerMedia {
        source: Box::new(Empty),
        controller: algorithm.build(Limits::default()),
        voice: None,
    });
    let receive = receives.then(ReceiveConfig::default);
    let config = PeerConfig { receive, ..PeerConfig::new(SERVER.into()) };
    BrowserPeer::answer(Timestamp::ZERO, offer, config, secrets, media, *origin).ok()
}

/// The first byte chooses: an offer, a STUN message, datagrams of a call, the head of an HTTP request.
pub(crate) fn browser(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => {
            let offer = String::from_utf8_lossy(rest);
            for (sends, receives) in [(true, false), (true, true), (false, true)] {
                let Some((_, answer)) = answer(&offer, sends, receives) else { continue };
                // An offer cannot put lines of its own into the answer.
                for line in answer.split_terminator("\r\n") {
                    let mut letters = line.chars();
                    assert!(
                        letters.next().is_some_and(|it| it.is_ascii_lowercase())
                            && letters.next() == Some('='),
                        "{line}"
                    );
                    assert!(!line.contains(['\r', '\n']), "{line}");
                }
                // One for the video, and one for the audio that is received.
                let lines = answer.matches("a=fingerprint:").count();
                assert!(lines == 1 || receives && lines == 2, "{answer}");
            }
        }
        1 => {
            let ours =
                Credentials { ufrag: "evtj".to_owned(), password: "VOkJxbRl1RmTxUk/WvJxBt".to_owned() };
            let mut agent = IceLite::new(ours, "h6vY");
            let from: SocketAddr = BROWSER.into();
            if agent.handle(Timestamp::ZERO, from, rest).is_some() {
                // Only an authentic check is answered.
                assert!(agent.is_checked(from) || agent.counters().checks == 1);
            } else {
                assert_eq!(agent.counters().checks, 0);
            }
        }
        2 => {
            let Some((mut peer, _)) = answer(OFFER, true, false) else { return };
            let (mut now, mut rest) = (Timestamp::ZERO, rest);
            while let Some((&length, after)) = rest.split_first() {
                let (datagram, next) = after.split_at(after.len().min(length.into()));
                peer.handle_datagram(now, BROWSER.into(), datagram, Ecn::NotEct);
                if peer.poll_timeout().is_some_and(|at| at <= now) {
                    peer.handle_timeout(now);
                }
                // Without an authentic check, nothing is sent.
                assert!(peer.poll_transmit(now).is_none());
                now += TimeDelta::from_millis(7);
                rest = next;
            }
            assert!(peer.sender().is_none());
        }
        _ => {
            if let Some((request, _)) = Request::parse(rest) {
                assert!(!request.path.contains('?') && request.body.is_empty());
            }
        }
    }
}
