//! Equations by hand, the receiver packet by packet, and the controller in a closed loop.

mod by_hand;
mod in_a_loop;
mod receiver;
mod sharing;
