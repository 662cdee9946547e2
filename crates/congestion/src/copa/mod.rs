//! Copa for media: "Copa: Practical Delay-Based Congestion Control for the Internet" (V. Arun, H. Balakrishnan, NSDI 2018).
//!
//! | part | paper | module |
//! |---|---|---|
//! | constants | §2.1, §2.2 | [`Config`] |
//! | standing RTT, minimum RTT, queueing delay | §2.1, equation 2 | `delay` |
//! | target rate, window update, slow start | §2.1, equation 1, steps 2 and 3 | `window` |
//! | velocity | §2.1, step 4 | `velocity` |
//! | competitive mode | §2.2 | `competition` |
//! | application-limited media | ours, after RFC 7661 | `usage` |
//! | heavy losses | ours | `losses` |
//! | controller | | [`Copa`] |
//!
//! In equilibrium a flow keeps 1/δ packets in the queue on average: 2 in default mode.
//!
//! # What the paper leaves open for media
//!
//! | question | the paper | here |
//! |---|---|---|
//! | packets | of equal size | the largest packet so far, at most 1500 bytes; the window counts bytes, and an update is in proportion to the bytes acknowledged |
//! | acknowledgements | each packet at once | each packet of a report is handled in turn, at the time at which its own acknowledgement would have arrived |
//! | RTT of a packet | time until its acknowledgement | its one-way delay, plus the minimum of the way back over 10 s: the interval of feedback is not part of the path |
//! | clocks that jump | – | a packet whose queueing delay would be above its RTT begins new minima, as in SCReAM and NADA here; so does the way back, if it becomes longer while the one-way delay becomes shorter |
//! | interval of feedback | – | each change waits for it, so "over 1 RTT, the change is v/δ packets" holds for an RTT and one interval; so do the 5 and the 4 RTTs of the modes |
//! | media rate | – | window / standing RTT, less what drains the sender's queue; the pacer sends at twice that (§2.1) |
//! | limit of the bytes in flight | the window | the window, and the data of one interval of feedback |
//! | first window | – | start rate × first standing RTT |
//! | application-limited sender | – | the window grows only while half of it is used (RFC 7661 §4.3), and not above what the maximum rate needs |
//! | minimum window | – | 2 packets, as in the authors' code (genericCC, `markoviancc.cc`) |
//! | bound of the velocity | – | the window changes at most by itself in an RTT, as in the authors' code |
//! | slow start after losses | – | goes on: up to 10 %, losses matter in competitive mode alone |
//! | losses of more than 10 % | – | the window is at most what arrives in a standing RTT, divided by 0.9: in a queue of few packets that is full for 10 s the minimum RTT is that of the full queue, and the window would grow |
//! | when a packet is lost | – | after the reordering window of `scream:rfc8298` (RFC 8985 §6.2) |
//! | media that wait | – | discarded after 400 ms, as in SCReAM |
//! | change of 1/δ | AIMD | 1 more in each RTT without loss, half after a loss, at most once in an RTT, as in the authors' code |
//! | missing feedback | – | that of SCReAM: after a second the window is halved, and two packets are sent every 0.48 s |
//!
//! Compared with Meta's QUIC (mvfst, `Copa.cpp`): it has no competitive mode, takes δ = 0.05 and ends a high velocity at once when the
//! update changes its direction; the paper waits for the end of the window, as this does.

mod competition;
mod config;
mod controller;
mod delay;
mod losses;
mod usage;
mod velocity;
mod window;

#[cfg(test)]
mod tests;

pub use config::Config;
pub use controller::Copa;
