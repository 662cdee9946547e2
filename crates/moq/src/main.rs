//! Media over QUIC with a congestion controller of giusto: [moq-net](https://crates.io/crates/moq-net) publishes, relays and subscribes to
//! video over connections of quinn, whose congestion control is `giusto-quinn`.
//!
//! ```sh
//! cargo run -p giusto-moq -- relay 127.0.0.1:4443 &
//! giusto link media-step --relay 5000=127.0.0.1:4443 --duration 30s &
//! cargo run -p giusto-moq -- watch 127.0.0.1:4443 &
//! cargo run -p giusto-moq -- publish 127.0.0.1:5000 tempo 20 [LOW.ivf HIGH.ivf]
//! ```
//!
//! The publisher sends files of VP8 or H.264, the same video at several rates, or frames made to the target rate. Each group begins with a
//! key frame and is a stream. The watcher prints goodput and the delay of frames, from capture to their last byte: both must run on one
//! machine. `quinn:cubic` is quinn's own controller. `publish.rs` and `quic::tend` are the parts to copy into a program. `examples/table`
//! compares controllers in virtual time.
//!
//! # What moq-net 0.3 permits from outside
//!
//! - It takes any connection of quinn, by `web_transport_quinn::Session::raw`. Its own `moq-native` does not: there an option chooses among
//!   quinn's controllers.
//! - Its streams have priorities: the newest group goes first. Frames carry their time of capture on the wire.
//! - A group that is given up is a reset stream. A subscriber also gives up groups older than its `max_age`; the publisher is not told, so
//!   that `Media` counts their bytes as waiting until quinn runs out of data.
//! - Datagrams of an unknown subscription are dropped: these are the padding of probes.
#![allow(clippy::disallowed_methods, reason = "a program on real time")]

#[path = "../../quinn/examples/table/world/baseline.rs"]
mod baseline;
mod film;
#[cfg(test)]
#[path = "../examples/table/net.rs"]
mod net;
mod publish;
mod quic;
mod relay;
#[cfg(test)]
mod tests;
#[path = "../../quinn/examples/frames/tls.rs"]
mod tls;
mod watch;
#[cfg(test)]
#[path = "../examples/table/world.rs"]
mod world;

use std::{env, fs, time::Duration};

use film::Film;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["relay", address] => relay::Relay::bind(address.parse()?)?.run().await,
        ["watch", address] => {
            println!("{}", watch::Figures::of(&watch::watch(&quic::client()?, address.parse()?).await?));
            Ok(())
        }
        ["publish", address, controller, seconds, files @ ..] => {
            let files: Vec<Vec<u8>> = files.iter().map(fs::read).collect::<Result<_, _>>()?;
            let film = if files.is_empty() { Film::made() } else { Film::of_files(&files)? };
            let duration = Duration::try_from_secs_f64(seconds.parse()?)?;
            let sent =
                publish::publish(&quic::client()?, address.parse()?, controller, film, duration, |text| {
                    println!("{text}");
                })
                .await?;
            println!("{sent}");
            Ok(())
        }
        _ => {
            Err("expected relay ADDRESS, watch ADDRESS, or publish ADDRESS CONTROLLER SECONDS [FILE...]"
                .into())
        }
    }
}
