//! The state machine round by round, and the controller in a closed loop.

mod in_a_loop;
mod machine;
