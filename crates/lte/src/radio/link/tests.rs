use giusto_sim::random;
use rand::RngExt;

use super::*;
use crate::radio::{draw, tables::CQI};

fn near(value: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((value - expected).abs() <= tolerance, "{what}: {value}, not {expected} ± {tolerance}");
}

#[test]
fn thresholds_are_those_of_a_link_level_simulation() {
    // SNR for a block error rate of 0.1 at the first transmission of CQI 1 to 15 in AWGN, in 1.4 MHz: the link adaptation table of the
    // Vienna LTE link level simulator (Mehlführer et al., "Simulating the Long Term Evolution physical layer", EUSIPCO 2009).
    let published = [
        -6.934, -5.147, -3.18, -1.254, 0.761, 2.70, 4.697, 6.528, 8.576, 10.37, 12.3, 14.18, 15.89, 17.82,
        19.83,
    ];
    let model = LinkModel::new();
    let mut sum = 0.0;
    for (i, (cqi, published)) in CQI.iter().zip(published).enumerate() {
        // Six resource blocks without a control region, with the reference signals of one antenna.
        let coded = 6 * (168 - 8) * cqi.modulation.bits();
        let ours = model.threshold_db(cqi.modulation, (coded * u32::from(cqi.rate_1024)) >> 10, coded);
        near(ours, published, 0.7, &format!("CQI {}", i + 1));
        sum += ours - published;
    }
    near(sum / 15.0, 0.0, 0.15, "mean deviation");
}

#[test]
fn the_binary_channel_reaches_capacity_at_the_published_limits() {
    // The Shannon limit of rate 1/2 is a noise deviation of 0.97869 at unit amplitude (Richardson, Shokrollahi and Urbanke, "Design of
    // capacity-approaching irregular low-density parity-check codes", 2001); that of rate 1/3 is Eb/N0 = −0.495 dB.
    near(capacity::binary(1.0 / (0.978_69 * 0.978_69)).0, 0.5, 2e-4, "rate 1/2");
    near(capacity::binary(2.0 * from_db(-0.495) / 3.0).0, 1.0 / 3.0, 3e-4, "rate 1/3");
    // With little power, C = γ/2 log2 e and V = γ (log2 e)².
    let log2_e = std::f64::consts::LOG2_E;
    let (capacity, dispersion) = capacity::binary(0.001);
    near(capacity, 0.0005 * log2_e, 1e-6, "capacity of a weak signal");
    near(dispersion, 0.001 * log2_e * log2_e, 1e-5, "dispersion of a weak signal");
    let (capacity, dispersion) = capacity::binary(100.0);
    near(capacity, 1.0, 1e-6, "capacity of a strong signal");
    near(dispersion, 0.0, 1e-6, "dispersion of a strong signal");
}

#[test]
fn mutual_information_agrees_with_a_simulation_of_the_symbols() {
    let mut random = random::stream(1, "symbols");
    for (modulation, sinr) in [(Modulation::Qam16, 4.0), (Modulation::Qam64, 9.9), (Modulation::Qam64, 50.0)]
    {
        // One dimension, brute force: 1 − the mean of log2 of the inverse of each bit's probability.
        let bits = modulation.bits() / 2;
        let points = 1_u32 << bits;
        let energy = f64::from(points * points - 1) / 3.0;
        let level = |p: u32| 2.0 * f64::from(p) - f64::from(points - 1);
        let deviation = libm::sqrt(energy / sinr);
        let mut lost = 0.0;
        let draws = 40_000;
        for _ in 0..draws {
            let sent = random.random_range(0..points);
            let received = level(sent) + deviation * draw::normal(&mut random);
            let likelihood = |p: u32| {
                libm::exp(-(received - level(p)) * (received - level(p)) / (2.0 * deviation * deviation))
            };
            let all: f64 = (0..points).map(likelihood).sum();
            for bit in 0..bits {
                let gray = |p: u32| ((p ^ (p >> 1)) >> bit) & 1;
                let right: f64 = (0..points).filter(|p| gray(*p) == gray(sent)).map(likelihood).sum();
                lost += libm::log2(all / right);
            }
        }
        let simulated = 1.0 - lost / f64::from(draws) / f64::from(bits);
        let ours = capacity::per_coded_bit(modulation, sinr);
        near(ours, simulated, 0.008, &format!("{modulation:?} at {sinr}"));
    }
    // A second source: the tables of ns-3 at the same places.
    for (modulation, sinr, theirs) in [
        (Modulation::Qpsk, 1.0, 0.486),
        (Modulation::Qpsk, 2.0, 0.722),
        (Modulation::Qam16, 1.0, 0.227),
        (Modulation::Qam16, 8.0, 0.708),
        (Modulation::Qam64, 9.9, 0.513),
        (Modulation::Qam64, 50.0, 0.848),
    ] {
        near(capacity::per_coded_bit(modulation, sinr), theirs, 0.03, &format!("{modulation:?} at {sinr}"));
    }
}

#[test]
fn information_interpolates_its_capacity() {
    let model = LinkModel::with_loss(0.0);
    let mut before = Information::default();
    for i in 0..400 {
        let sinr = from_db(-40.0 + 0.217 * f64::from(i));
        let information = model.information(sinr as f32);
        for modulation in Modulation::ALL {
            let exact = capacity::per_coded_bit(modulation, sinr);
            near(f64::from(information.of(modulation)), exact, 0.001, &format!("{modulation:?} at {sinr}"));
            assert!(information.of(modulation) >= before.of(modulation));
            let efficiency = f64::from(information.of(modulation)) * f64::from(modulation.bits());
            assert!(efficiency <= libm::log2(1.0 + sinr) + 1e-3, "{modulation:?} beats Shannon at {sinr}");
        }
        before = information;
    }
    for nothing in [0.0, -1.0, f32::NAN, f32::NEG_INFINITY] {
        assert_eq!(model.information(nothing), Information::default(), "{nothing}");
    }
    assert!(model.information(f32::INFINITY).of(Modulation::Qam64) > 0.999);
}

#[test]
fn block_error_falls_with_information() {
    let model = LinkModel::new();
    for (payload, coded) in [(16, 240), (328, 240), (6120, 18_000), (36_696, 36_696 + 2000), (75_376, 79_200)]
    {
        let mut before = 1.0;
        for i in 0..=200 {
            let error = model.block_error(i as f32 / 200.0 * coded as f32, payload, coded);
            assert!(
                (0.0..=1.0_f32.min(before + 1e-6)).contains(&error),
                "{payload} in {coded}: {error}, {before}"
            );
            before = error;
        }
        assert!(model.block_error(0.0, payload, coded) > 0.999, "{payload} in {coded}");
        let fits = payload < coded;
        assert_eq!(before < 1e-3, fits, "{payload} in {coded}: {before}");
    }
    assert_eq!(model.block_error(0.0, 0, 0).to_bits(), 0.0_f32.to_bits());
    assert_eq!(model.block_error(10.0, 100, 0).to_bits(), 1.0_f32.to_bits());
}

#[test]
fn a_transport_block_fails_with_any_of_its_code_blocks() {
    let model = LinkModel::new();
    // 36,696 + 24 bit make 6 code blocks of 6120 + 24 bit each, of which the one is the payload of 6120 bit with its CRC.
    let (coded, mean) = (9000, 0.688);
    let one = f64::from(model.block_error(mean * coded as f32, 6120, coded));
    let six = f64::from(model.block_error(mean * 6.0 * coded as f32, 36_696, 6 * coded));
    assert!((0.01..0.5).contains(&one), "{one}");
    near(six, 1.0 - libm::pow(1.0 - one, 6.0), 1e-3, "six code blocks");
}

#[test]
fn retransmissions_add_information_and_then_power() {
    let model = LinkModel::with_loss(0.0);
    // Rate 0.8 at 0 dB: hopeless once, certain twice, because two times 0.486 is above 0.8.
    let (payload, coded) = (4000, 5000);
    let information = model.information(1.0).of(Modulation::Qpsk) * coded as f32;
    assert!(model.block_error(information, payload, coded) > 0.999);
    assert!(model.block_error(2.0 * information, payload, 2 * coded) < 1e-3);
    // Rate 1/3, four times: as strong as once at four times the power, i.e. 6 dB better.
    let (payload, coded) = (1000, 3 * 1024 + 12);
    let shifted = model.threshold_db(Modulation::Qpsk, payload, 4 * coded)
        - model.threshold_db(Modulation::Qpsk, payload, coded);
    near(shifted, -6.02, 0.1, "gain of four times");
}

#[test]
fn mmse_streams_are_those_of_the_inverse_matrix() {
    let mut random = random::stream(1, "channels");
    for _ in 0..200 {
        let mut h = || (draw::normal(&mut random), draw::normal(&mut random));
        let (h11, h21, h12, h22) = (h(), h(), h(), h());
        let power = |h: (f64, f64)| h.0 * h.0 + h.1 * h.1;
        let inner = (
            h11.0 * h12.0 + h11.1 * h12.1 + h21.0 * h22.0 + h21.1 * h22.1,
            h11.0 * h12.1 - h11.1 * h12.0 + h21.0 * h22.1 - h21.1 * h22.0,
        );
        let sample = Sample {
            a: (power(h11) + power(h21)) as f32,
            b: (power(h12) + power(h22)) as f32,
            determinant: ((power(h11) + power(h21)) * (power(h12) + power(h22)) - power(inner)) as f32,
            best: 0.0,
        };
        // The first stream, from the definition: h1^H (I/ρ + h2 h2^H)^-1 h1, with the inverse by Sherman and Morrison.
        let snr = 20.0;
        let rho = snr / 2.0;
        let (a, b) = (f64::from(sample.a), f64::from(sample.b));
        let first = rho * (a - rho * power(inner) / (1.0 + rho * b));
        let second = rho * (b - rho * power(inner) / (1.0 + rho * a));
        let ours = mmse(&sample, snr as f32);
        near(f64::from(ours[0]), first, 1e-3 * (1.0 + first), "first stream");
        near(f64::from(ours[1]), second, 1e-3 * (1.0 + second), "second stream");
    }
    // Orthogonal columns do not disturb each other; equal ones leave less than 1 for either.
    let apart = Sample { a: 2.0, b: 2.0, determinant: 4.0, best: 2.0 };
    assert!(mmse(&apart, 10.0).iter().all(|sinr| (sinr - 10.0).abs() < 1e-3));
    let same = Sample { a: 2.0, b: 2.0, determinant: 0.0, best: 4.0 };
    assert!(mmse(&same, 1e3).iter().all(|sinr| (0.9..1.0).contains(sinr)));
    near(f64::from(single_layer(&same, 10.0)), 40.0, 1e-3, "beamforming and combining: four times");
    near(f64::from(maximum_ratio(same.a, 10.0)), 20.0, 1e-3, "combining: two times");
}

#[test]
fn a_block_is_decoded_as_its_error_rate_says() {
    let model = LinkModel::new();
    let draws = [1.0 / 16_777_216.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0 - 1.0 / 16_777_216.0];
    let mut decided = [0; 2];
    for (payload, coded) in [(328, 720), (6120, 12_000), (36_696, 50_000)] {
        for (i, draw) in (0..=400).flat_map(|i| draws.map(|draw| (i, draw))) {
            let information = i as f32 / 400.0 * coded as f32;
            let is_decoded = model.is_decoded(information, payload, coded, draw);
            let error = model.block_error(information, payload, coded);
            assert_eq!(is_decoded, draw >= error, "{payload} in {coded}: {information}, {draw}, {error}");
            decided[usize::from(is_decoded)] += 1;
        }
    }
    assert!(decided.iter().all(|&count| count > 1000), "{decided:?}");
}
