//! Runs the examples.

#[path = "../examples/paced_sender.rs"]
mod paced_sender;

#[test]
fn a_paced_sender_sends_over_loopback() {
    paced_sender::main().expect("loopback has room for 4 Mbit/s");
}
