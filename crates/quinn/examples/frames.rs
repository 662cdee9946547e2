//! A sender and a receiver of frames over QUIC: one stream for each group of a second, frames skipped while others wait.
//!
//! ```sh
//! cargo run --release -p giusto-quinn --example frames -- receive 127.0.0.1:4433 &
//! giusto link media-step --relay 5000=127.0.0.1:4433 --duration 20s &
//! cargo run --release -p giusto-quinn --example frames -- send 127.0.0.1:5000 tempo 15
//! ```
//!
//! Prints, each second, at the sender the rate and why, at the receiver the goodput and the largest delay of a frame. Both must run on one
//! machine, because the delay is a difference of its clock. The certificate is made for the occasion: the sender trusts any.

#![expect(clippy::disallowed_methods, reason = "a program on real time")]

use std::{env, net::SocketAddr, time::Duration};

#[path = "frames/run.rs"]
mod run;

#[tokio::main]
async fn main() -> Result<(), run::Error> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["receive", address] => {
            let receiver = run::Receiver::bind(address.parse()?)?;
            let frames = receiver.run().await?;
            for second in frames.chunk_by(|one, other| one.captured.as_secs() == other.captured.as_secs()) {
                let bytes: usize = second.iter().map(|frame| frame.size).sum();
                let worst = second.iter().map(|frame| frame.delay).max().unwrap_or_default();
                println!("{} frames, {} kbit/s, up to {worst:.0?}", second.len(), bytes / 125);
            }
        }
        ["send", address, controller, seconds] => {
            let address: SocketAddr = address.parse()?;
            let duration = Duration::from_secs_f64(seconds.parse()?);
            run::send(address, controller, duration, |text| println!("{text}")).await?;
        }
        _ => return Err("expected receive ADDRESS, or send ADDRESS CONTROLLER SECONDS".into()),
    }
    Ok(())
}
