//! BBR version 3 for media (draft-ietf-ccwg-bbr-06, "the draft").
//!
//! | part | draft | module |
//! |---|---|---|
//! | constants | §2.4 to §2.16 | [`Config`] |
//! | delivery-rate samples | §4.1 | `delivery` |
//! | rounds | §5.5.1 | `round` |
//! | maximum bandwidth of two cycles | §5.5.2 to §5.5.6 | `max_rate` |
//! | minimum RTT, when to probe for it | §5.3.4.3, §5.5.7 | `min_rtt` |
//! | full pipe | §5.3.1.2 | `full_pipe` |
//! | allowance for data acknowledged in bursts | §5.5.9 | `aggregation` |
//! | long-term bound of the data in flight | §5.3.3.5, §5.3.3.9, §5.5.10.2 | `long_term` |
//! | short-term bounds of rate and flight | §5.5.10.3 | `short_term` |
//! | states and gains | §5.6.1 | [`Phase`] |
//! | state machine, pacing rate, window | §5.2.3, §5.3, §5.4, §5.6 | `model` |
//! | application-limited media | ours, for §4.1.2.4 | `usage` |
//! | controller | | [`Bbr`] |
//!
//! # What the draft leaves open for media
//!
//! | question | the draft | here |
//! |---|---|---|
//! | media rate | – | the pacing rate, less what drains the sender's queue; at most the window in an RTT and an interval of feedback; half of the bandwidth in `ProbeRTT` |
//! | when the application limits the sender | at each time at which nothing waits (§4.1.2.4), which between two frames is always | while less than 80 % of the target was sent within 100 ms, unless the window is full |
//! | when the window limits the sender | while it is full (`C.is_cwnd_limited`) | the same, and while it rather than pacing sets the rate of media that use what they may: it is then never full |
//! | samples of such times | only if they raise the maximum (§5.5.4) | the same |
//! | `Startup` and `ProbeBW_UP` while the application limits | they do not end without losses (appendix of test cases) | the same, but the sender pads up to the target in these states and in `ProbeBW_REFILL`, as libwebrtc's former BBR did ([`Config::pads`]) |
//! | first rate | initial window / RTT × 2.77 | the start rate |
//! | acknowledgements | each at its time | a report of several packets counts as one acknowledgement; its time is that of the newest packet's own acknowledgement, so neither the feedback interval nor a queue on the return path changes a rate or an RTT |
//! | window during an interval of feedback | `extra_acked` | the same, also in `ProbeRTT` |
//! | offload | send quantum × 3 | none |
//! | ECN | "MUST treat any CE marks as congestion" | a marked packet has arrived and counts as lost |
//! | discontiguous losses of `Startup` | 6 | 6 packets |
//! | random wait for the next probe | 2 s to 3 s | the same, derived from the time of the call: a controller draws no random numbers |
//! | when a packet is lost | after a reordering window, as in RACK (§5.5.10.2) | the window of `scream:rfc8298`: the longest time by which a packet was late, between a quarter of the minimum RTT and all of it (RFC 8985 §6.2) |
//! | retransmissions, spurious recovery | §5.5.11, §5.6.4.4 | none: media are not retransmitted by it; a packet that arrives after it counted as lost stays lost |
//! | media that wait | – | discarded after 400 ms, as in SCReAM |
//! | missing feedback | window of one packet (§5.6.4.4) | that of SCReAM: after a second the media rate is halved, and two packets are sent every 0.48 s; the model is kept |
//!
//! The TCP of `giusto-sim` has a model of its own (draft -03): it knows sequence numbers, retransmissions and offload, works with each
//! acknowledgement, and its results are published. Both take their laws from the same sections.

mod aggregation;
mod config;
mod controller;
mod delivery;
mod full_pipe;
mod long_term;
mod max_rate;
mod min_rtt;
mod model;
mod phase;
mod round;
mod short_term;
#[cfg(test)]
mod tests;
mod usage;

pub use config::Config;
pub use controller::Bbr;
pub use phase::Phase;
