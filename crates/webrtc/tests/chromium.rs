//! Calls to headless Chromium on loopback.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may fail loudly")]

use std::{
    io::Write as _,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use giusto_congestion::{Algorithm, Limits};
use giusto_session::video::{Clip, FileSource, Ladder};
use giusto_units::{DataRate, TimeDelta, Timestamp};
use giusto_webrtc::{
    call::{CallEvent, CallPlan, run},
    peer::{PeerMedia, Secrets},
    result::CallResult,
};
use rand::SeedableRng as _;

const CCFB: &str = "--force-fieldtrials=WebRTC-RFC8888CongestionControlFeedback/Enabled,offer:true/";

/// Ends the browser with the test.
struct Browser(Child, #[expect(dead_code, reason = "it is removed when dropped")] tempfile::TempDir);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Chromium at this address; `None` if it is not installed.
fn chromium(address: SocketAddr, flag: Option<&str>) -> Option<Browser> {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("chromium");
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    command.arg("--autoplay-policy=no-user-gesture-required").args(flag);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("http://localhost:{}/?auto", address.port()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => Some(Browser(child, profile)),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: no chromium is installed ({error})");
            None
        }
    }
}

/// A call of six seconds. The browser has two minutes to start.
fn call(controller: &str, flag: Option<&str>) -> Option<CallResult> {
    let files = [&include_bytes!("data/low.ivf")[..], include_bytes!("data/high.ivf")];
    let ladder = Ladder::new(files.map(|file| Clip::parse(file, TimeDelta::ZERO).unwrap()).into()).unwrap();
    let max = DataRate::from_bps(ladder.limits().max().as_bps() * 2);
    let limits = Limits::DEFAULT.with_start(DataRate::from_bps(100_000)).with_max(max);
    let algorithm = controller.parse::<Algorithm>().unwrap();
    let media = PeerMedia {
        source: Box::new(FileSource::new(ladder, Timestamp::ZERO)),
        controller: algorithm.build(limits),
        voice: None,
    };
    let plan = CallPlan {
        duration: Some(TimeDelta::from_seconds(6)),
        ..CallPlan::new(([127, 0, 0, 1], 0).into(), Some(media), controller)
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (serving, address) = mpsc::channel();
    let (done, outcome) = mpsc::channel();
    let stopped = Arc::clone(&stop);
    let caller = thread::spawn(move || {
        let mut random = rand::rngs::StdRng::seed_from_u64(7);
        let mut on_event = |event| {
            if let CallEvent::Serving(address) = event {
                let _ = serving.send(address);
            }
        };
        let _ = done.send(run(plan, || Secrets::draw(&mut random), &stopped, &mut on_event));
    });
    let address = address.recv_timeout(Duration::from_secs(30)).unwrap();
    let browser = chromium(address, flag);
    let outcome = browser.as_ref().map(|_| outcome.recv_timeout(Duration::from_secs(120)));
    stop.store(true, Relaxed);
    caller.join().unwrap();
    Some(outcome?.expect("the call lasts six seconds").unwrap())
}

/// What every call must show, however busy the machine is.
fn judge(result: &CallResult, feedback: &str) {
    let counters = &result.counters;
    assert!(result.connected && result.feedback == feedback, "{} {}", result.feedback, result.end);
    assert_eq!(result.end, "ended here");
    assert!((5.9..20.0).contains(&result.duration_s), "{}", result.duration_s);
    // 15 frames a second: at most 90, of which a busy machine may leave some out.
    assert!((20..=92).contains(&counters.frames), "{counters:?}");
    let browser = &result.browser;
    let decoded = browser.frames_decoded.unwrap();
    assert!(decoded >= 10 && decoded <= counters.frames, "{decoded} of {}", counters.frames);
    assert_eq!(browser.dimensions, Some((320, 180)));
    assert!(browser.user_agent.contains("Chrome"), "{}", browser.user_agent);
    let (received, sent) = (browser.received_packets.unwrap(), counters.sent_datagrams);
    assert!(received > 20 && received <= sent, "{received} of {sent}");
    assert!(counters.rtcp_datagrams > 10 && counters.refused_packets == 0, "{counters:?}");
    assert!(browser.samples.len() > 10 && result.samples.len() > 10);
}

#[test]
fn chromium_decodes_calls_by_transport_cc_and_by_rfc_8888() {
    for (controller, flag, feedback) in
        [("gcc:libwebrtc", None, "transport-cc"), ("scream:v2", Some(CCFB), "ccfb")]
    {
        let Some(result) = call(controller, flag) else { return };
        judge(&result, feedback);
        // Nothing limits loopback: the target rises from 100 kbit/s.
        let target = result.samples.back().unwrap().target_rate_bps;
        assert!(target > 110_000, "{controller}: {target}");
    }
}
