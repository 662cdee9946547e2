//! NADA: Network-Assisted Dynamic Adaptation (RFC 8698).
//!
//! | part | RFC 8698 | module |
//! |---|---|---|
//! | constants | Table 2 | [`Config`], [`ReceiverConfig`] |
//! | base delay, queueing delay, minimum filter | §4.2, §5.1.1 | `delay` |
//! | losses, marks and received rate of the latest 500 ms | §5.1.2, §5.1.3 | `window` |
//! | average loss interval | §4.2, RFC 5348 §5.4 | `loss_interval` |
//! | congestion signal | equations 1 and 2 | `signal` |
//! | receiver: the parts above and the mode | §4.2 | [`Receiver`] |
//! | reference rate | equations 3 to 9 | `reference_rate` |
//! | rates of the encoder and the pacer | equations 11 to 14 | `shaping` |
//! | controller | §4.3 | [`Nada`] |
//!
//! The receiver sends a report ([`Report`]) every 100 ms. The RFC lists its fields and defines no message;
//! [`NadaFeedback`](giusto_rtp::rtcp::NadaFeedback) is ours. The controller also accepts feedback about single packets. Then it computes the
//! report itself, which §6.4 permits.
//!
//! [`Config::ns3`] has the choices of the authors' module for ns-3.
//!
//! # Where the RFC leaves a choice
//!
//! | question | the RFC | here |
//! |---|---|---|
//! | memory of the base delay | "tens of minutes" (§5.1.1) | 20 minutes: a longer route is taken for a queue until then, unless the host reports the change |
//! | clocks of different speed | re-estimating the base delay (§5.1.1) | a line through the minima of its minutes is skew, up to 200 ppm (RFC 6817 A.2), as in SCReAM here |
//! | clocks that jump | – | a packet whose queueing delay would be above its RTT begins a new base delay, as in SCReAM here; without the RTT (reports of the receiver) so does a delay that rises by D ≥ 500 ms from one packet to the next and does not fall by D / 4 within 2 D + 2 s |
//! | rate at the start | `RMIN` (§4.3) | [`Limits::start`](crate::Limits), as for all controllers |
//! | step of the smoothing of loss and mark ratios | "on receiving a media packet" in the outline (§4.2), equation 10 without a step | each packet; [`RatioSmoothing`] |
//! | delay samples that decide the mode | `d_fwd`: filtered in Table 1, raw in the outline of §4.2 and in the authors' simulator | filtered, since equation 3 allows for the delay of the filter; [`DelaySamples`] |
//! | average loss interval | RFC 5348 §5.4, where losses within an RTT are one event | each gap is an event: the receiver does not know the RTT |
//! | packets before the first loss | nothing; RFC 5348 §6.3.1 is for TFRC | the first loss interval, as in the authors' simulator |
//! | RTT before the first receiver report | zero | the same |
//! | losses of a report that is computed at the sender (§6.4) | – | packets whose feedback is lost do not count |
//! | maximum of the congestion signal | 15 bits of 100 µs (§5.3); 500 ms in the authors' simulator | 3276.7 ms, also where nothing is written to the wire; [`ReceiverConfig::max_signal`] |
//! | step of the gradual update after a pause | δ, "typically close to the target feedback interval" (equation 7) | at most `TAU`: the signal of one report does not stand for a longer time |
//! | size of the sender's queue (equations 11 and 12) | "typically stays empty" (§5.2.2) | as at the report: a frame that is being paced counts, which takes up to 5 % from the encoder, and more than the ramp-up adds where the RTT is above 0.73 s |
//! | missing feedback | nothing | while packets are sent without feedback for 3 s, 0.8 of the rate each second, as `gcc:remb` |

mod config;
mod controller;
mod delay;
mod loss_interval;
mod receiver;
mod reference_rate;
mod shaping;
mod signal;
mod window;

#[cfg(test)]
mod tests;

pub use crate::nada_report::{RateMode, Report};
pub use config::{Config, DelaySamples, RatioSmoothing, ReceiverConfig};
pub use controller::Nada;
pub use receiver::{ReceivedMedia, Receiver};
