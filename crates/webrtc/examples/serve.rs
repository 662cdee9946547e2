//! Calls a browser with VP8 files: `cargo run --release -p giusto-webrtc --example serve -- 127.0.0.1:8080 30 low.ivf high.ivf`,
//! where 30 is the duration in seconds. Prints the result as JSON.

use std::sync::atomic::AtomicBool;

use giusto_congestion::Limits;
use giusto_units::{DataRate, TimeDelta};
use giusto_webrtc::{
    call::{CallPlan, run},
    ivf::Ivf,
    peer::Secrets,
    source::Ladder,
};
use rand::{
    SeedableRng as _,
    rngs::{StdRng, SysRng},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(listen), Some(seconds)) = (arguments.next(), arguments.next()) else {
        return Err("expected an address, a duration in seconds, and files".into());
    };
    let mut files = Vec::new();
    for path in arguments {
        files.push(Ivf::parse(&std::fs::read(path)?)?);
    }
    let plan = CallPlan {
        listen: listen.parse()?,
        algorithm: "gcc:libwebrtc".parse()?,
        limits: Limits { max: DataRate::from_bps(4_000_000), ..Limits::default() },
        duration: Some(TimeDelta::from_seconds(seconds.parse()?)),
        source: Box::new(Ladder::new(files)?),
    };
    let mut random = StdRng::try_from_rng(&mut SysRng)?;
    let stop = AtomicBool::new(false);
    let result = run(plan, || Secrets::draw(&mut random), &stop, |event| eprintln!("{event:?}"))?;
    println!("{}", serde_json::to_string_pretty(&result)?);
    Ok(())
}
