//! `GStreamer` and `FFmpeg` as RTP senders into `giusto recv`, each in a network namespace of its own.

use std::{
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::common::{assert_has, count, namespace::in_namespace, process::Listener, skip};
use serde_json::{Value, json};

/// Waits for a sender and returns its status; `None` if it had to be stopped. `GStreamer` sometimes does not end by itself after it
/// has sent everything.
fn ended(mut sender: Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Ok(Some(status)) = sender.try_wait() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(50));
    }
    let _ = sender.kill();
    let _ = sender.wait();
    None
}

/// What `giusto recv` says of the stream that `sender` sends to port 6000, with RTCP to port 6001.
fn received(name: &str, program: &str, arguments: &str) -> Option<Value> {
    let mut found = None;
    in_namespace(name, 65_536, || {
        let listener = Listener::start(&["127.0.0.1:6000", "--accept", "rtp", "--once", "--json"]);
        let mut sender = Command::new(program);
        sender.args(arguments.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::null());
        match sender.stderr(Stdio::null()).spawn().map(ended) {
            Err(_) => skip(name, &format!("{program} is not installed")),
            Ok(Some(status)) if !status.success() => {
                skip(name, &format!("{program} lacks the encoder or the format"));
            }
            Ok(_) => found = Some(listener.result().0),
        }
    });
    found
}

#[test]
fn rtp_and_rtcp_of_gstreamer_are_measured() {
    let pipeline = "-q rtpbin name=bin \
        audiotestsrc is-live=true num-buffers=150 samplesperbuffer=160 ! audio/x-raw,rate=8000 ! mulawenc ! rtppcmupay \
        ! bin.send_rtp_sink_0 bin.send_rtp_src_0 ! udpsink host=127.0.0.1 port=6000 \
        bin.send_rtcp_src_0 ! udpsink host=127.0.0.1 port=6001 sync=false async=false";
    let Some(result) = received("RTP of GStreamer", "gst-launch-1.0", pipeline) else { return };
    assert_has(&result, &json!({ "format": "rtp g711", "lost_packets": 0 }));
    // 150 buffers of 20 ms; the payloader may pack them otherwise.
    assert!((100..=151).contains(&count(&result["received_packets"])), "{result}");
    // Its last report has come with the goodbye. The first datagram only announces the stream.
    let sent = count(&result["far_end"]["sent_packets"]);
    assert_eq!(count(&result["received_packets"]) + 1, sent, "{result}");
    assert_eq!(result["ended"], "left by the sender", "only RTCP tells: {result}");
    assert_eq!(result["one_way_delay_ms"]["reference"], "stated", "only RTCP tells: {result}");
}

#[test]
fn rtp_and_rtcp_of_ffmpeg_are_measured() {
    let line = "-v error -re -f lavfi -i sine=frequency=440:sample_rate=8000 -t 3 -ac 1 -c:a pcm_mulaw \
        -f rtp rtp://127.0.0.1:6000?rtcpport=6001";
    let Some(result) = received("RTP of FFmpeg", "ffmpeg", line) else { return };
    assert_has(&result, &json!({ "format": "rtp g711", "lost_packets": 0 }));
    // Three seconds of packets of at most 1460 B. FFmpeg does not say goodbye.
    assert!((16..=30).contains(&count(&result["received_packets"])), "{result}");
    assert_eq!(result["one_way_delay_ms"]["reference"], "stated", "only RTCP tells: {result}");
}
