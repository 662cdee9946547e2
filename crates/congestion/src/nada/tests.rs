//! Equations by hand, the authors' simulator, the receiver packet by packet, and the controller in a closed loop.

mod authors;
mod by_hand;
mod in_a_loop;
mod receiver;
mod sharing;
