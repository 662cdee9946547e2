//! Calls a browser with VP8 files: `cargo run --release -p giusto-webrtc --example serve -- 127.0.0.1:8080 30 low.ivf high.ivf`,
//! where 30 is the duration in seconds. Prints the result as JSON.

use std::sync::atomic::AtomicBool;

use giusto_congestion::{Algorithm, Limits};
use giusto_session::video::{Clip, FileSource, Ladder};
use giusto_units::{DataRate, TimeDelta, Timestamp};
use giusto_webrtc::{
    call::{CallEvent, CallPlan, run},
    peer::{PeerMedia, Secrets},
};
use rand::{SeedableRng as _, rngs::StdRng};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, seconds, paths @ ..] = &arguments[..] else {
        return Err("expected an address, a duration in seconds, and files".into());
    };
    let files = paths.iter().map(|path| Ok(Clip::parse(&std::fs::read(path)?, TimeDelta::ZERO)?));
    let ladder = Ladder::new(files.collect::<Result<_, Box<dyn std::error::Error>>>()?)?;
    let source = FileSource::new(ladder, Timestamp::ZERO);
    let limits = Limits::DEFAULT.with_max(DataRate::from_bps(4_000_000));
    let controller = "gcc:libwebrtc".parse::<Algorithm>()?.build(limits);
    let media = PeerMedia { source: Box::new(source), controller, voice: None };
    let plan = CallPlan {
        duration: Some(TimeDelta::from_seconds(seconds.parse()?)),
        ..CallPlan::new(listen.parse()?, Some(media), "gcc:libwebrtc")
    };
    let mut random = StdRng::try_from_rng(&mut rand::rngs::SysRng)?;
    let mut observer = |event: CallEvent| eprintln!("{event:?}");
    let result = run(plan, || Secrets::draw(&mut random), &AtomicBool::new(false), &mut observer)?;
    println!("{}", serde_json::to_string_pretty(&result)?);
    Ok(())
}
