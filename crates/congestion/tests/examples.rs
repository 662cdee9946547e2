//! Runs the examples.

#[path = "../examples/embed_gcc.rs"]
#[expect(dead_code, reason = "`main` is called in the example alone")]
mod embed_gcc;

#[test]
fn embed_gcc_moves_from_the_first_pacing_factor_to_the_second() {
    let target = embed_gcc::run().unwrap();
    // The target is the start rate of 300 kbit/s or more; after feedback the pacing rate is 1.1 times the
    // target.
    let (media, pacing) = (target.media.as_bps(), target.pacing.as_bps());
    assert!((300_000..=2_000_000).contains(&media), "{media}");
    assert_eq!(pacing, media * 11 / 10);
}
