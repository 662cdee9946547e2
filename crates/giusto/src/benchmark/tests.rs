use super::*;

#[test]
fn every_drawn_scenario_is_valid() {
    for number in 0..18 * 12 {
        let drawn = draw("valid", number);
        for controller in ["gcc:libwebrtc", "scream:v2"] {
            let scenario = drawn.scenario(controller.parse().unwrap());
            if let Err(error) = &scenario {
                panic!("{number}: {error}\n{}", drawn.text(controller.parse().unwrap()));
            }
        }
    }
}
