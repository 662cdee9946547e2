//! Runs the examples.

#[path = "../examples/embed_gcc.rs"]
#[expect(dead_code, reason = "`main` is called in the example alone")]
mod embed_gcc;
#[path = "../examples/without_rtp.rs"]
#[expect(dead_code, reason = "`main` is called in the example alone")]
mod without_rtp;

use giusto_congestion::Algorithm;
use giusto_units::TimeDelta;

#[test]
fn embed_gcc_moves_from_the_first_pacing_factor_to_the_second() {
    let target = embed_gcc::run().unwrap();
    // The target is the start rate of 300 kbit/s or more; after feedback the pacing rate is 1.1 times the
    // target.
    let (media, pacing) = (target.media.as_bps(), target.pacing.as_bps());
    assert!((300_000..=2_000_000).contains(&media), "{media}");
    assert_eq!(pacing, media * 11 / 10);
}

#[test]
fn each_controller_uses_the_link_without_rtp() {
    for algorithm in Algorithm::all() {
        // A share of 2 Mbit/s after 10 s. `fixed` stays at 300 kbit/s; the draft and the thesis rise slowly.
        let min = match algorithm.name() {
            "fixed" => 0.14,
            "gcc:thesis" => 0.18,
            name if name.starts_with("gcc:draft-02") => 0.35,
            _ => 0.8,
        };
        // A packet takes 4.8 ms.
        for late in [0, 4] {
            match without_rtp::run(algorithm, TimeDelta::from_millis(late)) {
                Ok(used) => assert!((min..=1.001).contains(&used), "{algorithm}, {late} ms late: {used}"),
                Err(_) => assert!(["gcc:remb", "gcc:rmcat-02"].contains(&algorithm.name()), "{algorithm}"),
            }
        }
    }
}
