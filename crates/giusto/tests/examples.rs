//! Runs the examples.

#[path = "../examples/custom_controller.rs"]
#[expect(dead_code, reason = "`main` is called in the example alone")]
mod custom_controller;

#[test]
fn a_custom_controller_fills_most_of_its_link() {
    let utilisation = custom_controller::run().unwrap();
    assert!((0.6..=1.0).contains(&utilisation), "{utilisation}");
}
