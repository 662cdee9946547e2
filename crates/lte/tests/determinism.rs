//! The same seed gives the same digits on every machine.

use giusto_lte::radio::{
    fading::{Fading, PackedSample, Profile, Sample},
    layout::{Layout, SITES},
    link::LinkModel,
    propagation::{Deployment, Shadowing, from_db, mean_gains},
};
use giusto_sim::random;

/// The 64-bit FNV-1a hash of the bits.
fn digest(values: impl Iterator<Item = f32>) -> u64 {
    let bytes = values.flat_map(|value| value.to_bits().to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn fading_is_the_same_everywhere() {
    let mut random = random::stream(1, "fading");
    let fading = Fading::new(Profile::TypicalUrban6, 8.33, 2e9, 17, 540e3, 256, 2, &mut random);
    let link = fading.link(&mut random);
    let of = |s: &PackedSample| {
        let Sample { a, b, determinant, best } = s.unpack();
        [a, b, determinant, best]
    };
    let samples = (0..256).flat_map(|ms| fading.at(link, ms).iter().flat_map(of));
    assert_eq!(digest(samples), 12_654_633_219_350_376_135);
}

#[test]
fn gains_are_the_same_everywhere() {
    let (layout, deployment) = (Layout::hexagonal(500.0), Deployment::case_1());
    let mut random = random::stream(1, "gains");
    let mut shadowing = Shadowing::new(SITES, &mut random);
    let gains: Vec<f32> = (0..500)
        .map(|i| {
            shadowing.advance(7.0, &mut random);
            let (cell, at) = (i % layout.cells(), layout.random_point(&mut random));
            mean_gains(&layout, &deployment, at, &shadowing)[cell]
        })
        .collect();
    assert_eq!(digest(gains.into_iter()), 9_962_136_646_241_859_252);
}

#[test]
fn the_link_model_is_the_same_everywhere() {
    let model = LinkModel::new();
    let values = (0..400).flat_map(|i| {
        let information = model.information(from_db(-20.0 + f64::from(i) / 8.0) as f32);
        let error = model.block_error(information.0[0] * 10_000.0, 6000, 10_000);
        information.0.into_iter().chain([error])
    });
    assert_eq!(digest(values), 12_108_478_456_860_707_335);
}
