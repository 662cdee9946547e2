//! Laws by hand, and the controller in a closed loop.

mod by_hand;
mod in_a_loop;
