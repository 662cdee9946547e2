//! The E-model of ITU-T G.107 (06/2015).

use giusto_units::{
    TimeDelta,
    math::{exp, hypot, log2, log10, pow, powi},
};

use super::codec::{CodecImpairment, MosScale};

/// The basic rating of the wideband scale (G.107.1 §7.2).
const WIDEBAND_RATING: f64 = 129.0;
/// Divisor that converts the wideband scale to 0 to 100 (G.107.1 Annex A, (A-1)).
const WIDEBAND_DIVISOR: f64 = 1.29;

giusto_units::defaults! {
    /// The parameters of the E-model: symbols, permitted ranges and defaults are those of G.107 (06/2015) Tables 1 and 2.
    #[derive(Debug, Clone, Copy, PartialEq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct EModel {
        /// SLR: loudness from the talker to the network, in dB: 0 to 18, default 8.
        pub send_loudness: f64 = 8.0,
        /// RLR: loudness from the network to the listener, in dB: −5 to 14, default 2.
        pub receive_loudness: f64 = 2.0,
        /// STMR: level of the talker's own voice in the earpiece below the voice, in dB: 10 to 20, default 15.
        pub sidetone_masking: f64 = 15.0,
        /// Ds: the D-factor of the talker's handset: −3 to 3, default 3.
        pub send_d: f64 = 3.0,
        /// Dr: the D-factor of the listener's handset: −3 to 3, default 3. The listener's sidetone LSTR is STMR + Dr.
        pub receive_d: f64 = 3.0,
        /// TELR: level of the talker's echo below the voice, in dB: 5 to 65, default 65.
        pub talker_echo_loudness: f64 = 65.0,
        /// WEPL: loss of the loop of the listener's echo, in dB: 5 to 110, default 110.
        pub echo_path_loss: f64 = 110.0,
        /// T: one-way delay of the echo path: 0 to 500 ms, default 0.
        pub echo_delay: TimeDelta = TimeDelta::ZERO,
        /// Tr: round-trip time of the loop: 0 to 1000 ms, default 0.
        pub loop_delay: TimeDelta = TimeDelta::ZERO,
        /// Ta: mouth-to-ear delay: 0 to 500 ms, default 0.
        pub absolute_delay: TimeDelta = TimeDelta::ZERO,
        /// mT: maximum delay that is not noticed: 20 to 120 ms, default 100 ms (Table 1).
        pub delay_threshold: TimeDelta = TimeDelta::from_millis(100),
        /// sT: sensitivity of the conversation to delay: 0.4 to 1, default 1 (Table 1).
        pub delay_sensitivity: f64 = 1.0,
        /// qdu: pairs of PCM encoder and decoder: 1 to 14, default 1.
        pub quantising_units: f64 = 1.0,
        /// Ie and Bpl. Our deviation: the default is G.711 with concealment, where Table 2 has Bpl = 4.3. Only
        /// relevant with losses.
        pub codec: CodecImpairment = CodecImpairment::G711,
        /// Ppl / 100: share of packets that are not played (lost or late): 0 to 0.2, default 0.
        pub loss_ratio: f64 = 0.0,
        /// `BurstR`, see [`burst_ratio`](super::burst_ratio): 1 to 2, or more if the loss ratio is below 0.02;
        /// default 1.
        pub burst_ratio: f64 = 1.0,
        /// Nc: noise of the circuits at the 0 dBr point, in dBm0p: −80 to −40, default −70.
        pub circuit_noise: f64 = -70.0,
        /// Nfor: noise floor of the receiver, in dBmp: default −64.
        pub receive_noise_floor: f64 = -64.0,
        /// Ps: noise around the talker, in dB(A): 35 to 85, default 35.
        pub send_room_noise: f64 = 35.0,
        /// Pr: noise around the listener, in dB(A): 35 to 85, default 35.
        pub receive_room_noise: f64 = 35.0,
        /// A: advantage factor, what users tolerate for mobility or access: 0 to 20, default 0.
        pub advantage: f64 = 0.0,
    }
}

/// A rating and its components.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Rating {
    /// The scale of `r_factor` and `mos`.
    pub scale: MosScale,
    /// Ro: the basic signal-to-noise ratio.
    pub basic: f64,
    /// Is: impairments simultaneous with the voice.
    pub simultaneous_impairment: f64,
    /// Id: impairment by delay and echo.
    pub delay_impairment: f64,
    /// Ie-eff: impairment by codec and loss.
    pub equipment_impairment: f64,
    /// R: the rating, 0 to 100, or 0 to 129 on the wideband scale.
    pub r_factor: f64,
    /// The mean opinion score, 1 to 4.5.
    pub mos: f64,
    /// Whether delay, loss and bursts are within the ranges that G.107 permits. Beyond them the model
    /// extrapolates.
    pub within_permitted_range: bool,
}

impl EModel {
    /// Sets the mouth-to-ear delay everywhere, as G.107 §7.4 simplifies: T = Ta, Tr = 2 T.
    #[must_use]
    pub fn with_delay(self, delay: TimeDelta) -> Self {
        let delay = delay.max(TimeDelta::ZERO);
        Self { echo_delay: delay, absolute_delay: delay, loop_delay: delay * 2, ..self }
    }

    /// The rating.
    ///
    /// Any finite parameters give a rating without panic; outside the permitted ranges it has little meaning.
    pub fn rate(&self) -> Rating {
        let noise = self.noise();
        let ratio = 15.0 - 1.5 * (self.send_loudness + noise); // (7-2)
        let sidetone = self.sidetone_impairment();
        let delay_impairment = self.talker_echo_impairment(noise, sidetone)
            + self.listener_echo_impairment(ratio)
            + self.absolute_delay_impairment(); // (7-18)
        let equipment_impairment = self.codec.effective(self.loss_ratio, self.burst_ratio);
        let (basic, simultaneous_impairment) = match self.codec.scale {
            MosScale::Narrowband => {
                let loudness = self.loudness_impairment(noise);
                (ratio, loudness + sidetone + self.quantising_impairment(ratio)) // (7-8)
            }
            // G.107.1 (7-2), (7-3).
            MosScale::WidebandEstimate => (WIDEBAND_RATING, 0.0),
        };
        let sum = basic - simultaneous_impairment - delay_impairment - equipment_impairment + self.advantage; // (7-1)
        let (max, divisor) = match self.codec.scale {
            MosScale::Narrowband => (100.0, 1.0),
            MosScale::WidebandEstimate => (WIDEBAND_RATING, WIDEBAND_DIVISOR),
        };
        let r_factor = sum.clamp(0.0, max);
        Rating {
            scale: self.codec.scale,
            basic,
            simultaneous_impairment,
            delay_impairment,
            equipment_impairment,
            r_factor,
            mos: r_to_mos(r_factor / divisor),
            within_permitted_range: self.is_within_range(),
        }
    }

    /// Whether the parameters that a network changes are within G.107 Table 2.
    fn is_within_range(&self) -> bool {
        let delay = TimeDelta::ZERO..=TimeDelta::from_millis(500);
        let burst = (1.0..=2.0).contains(&self.burst_ratio.max(1.0)) || self.loss_ratio < 0.02;
        delay.contains(&self.absolute_delay) && (0.0..=0.2).contains(&self.loss_ratio) && burst
    }

    /// No: the total noise at the 0 dBr point, in dBm0p (7-3).
    fn noise(&self) -> f64 {
        let loudness = self.send_loudness + self.receive_loudness; // OLR
        let send_distance = self.send_room_noise - loudness - self.send_d - 14.0;
        let send = self.send_room_noise - self.send_loudness - self.send_d - 100.0
            + 0.004 * send_distance * send_distance; // (7-4)
        let listener_sidetone = self.sidetone_masking + self.receive_d; // LSTR
        let effective =
            self.receive_room_noise + 10.0 * log10(1.0 + pow(10.0, (10.0 - listener_sidetone) / 10.0)); // (7-6)
        let receive =
            self.receive_loudness - 121.0 + effective + 0.008 * (effective - 35.0) * (effective - 35.0); // (7-5)
        let floor = self.receive_noise_floor + self.receive_loudness; // (7-7)
        let powers = [self.circuit_noise, send, receive, floor].map(|level| pow(10.0, level / 10.0));
        10.0 * log10(powers.iter().sum::<f64>())
    }

    /// Iolr: impairment by excessive loudness (7-9), (7-10).
    fn loudness_impairment(&self, noise: f64) -> f64 {
        let loudness = self.send_loudness + self.receive_loudness;
        let x = (loudness + 0.2 * (64.0 + noise - self.receive_loudness)) / 8.0;
        20.0 * (pow(1.0 + powi(x, 8), 1.0 / 8.0) - x)
    }

    /// Ist: impairment by sidetone (7-11), (7-12).
    fn sidetone_impairment(&self) -> f64 {
        let echo = exp(-millis(self.echo_delay) / 4.0) * pow(10.0, -self.talker_echo_loudness / 10.0);
        let sidetone = -10.0 * log10(pow(10.0, -self.sidetone_masking / 10.0) + echo); // STMRo
        let bend = |offset: f64, width: f64, order: f64| {
            // In the permitted range only the even order has a negative base; outside of it there must be a
            // root too.
            pow(1.0 + pow(((sidetone + offset) / width).abs(), order), 1.0 / order)
        };
        12.0 * bend(-13.0, 6.0, 8.0) - 28.0 * bend(1.0, 19.4, 35.0) - 13.0 * bend(-3.0, 33.0, 13.0) + 29.0
    }

    /// Iq: quantising distortion (7-13) to (7-17).
    fn quantising_impairment(&self, ratio: f64) -> f64 {
        let q = 37.0 - 15.0 * log10(self.quantising_units);
        let g = 1.07 + 0.258 * q + 0.0602 * q * q;
        let y = (ratio - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
        let z = 46.0 / 30.0 - g / 40.0;
        15.0 * log10(1.0 + pow(10.0, y) + pow(10.0, z))
    }

    /// Idte: impairment by talker echo (7-19) to (7-24).
    fn talker_echo_impairment(&self, noise: f64, sidetone: f64) -> f64 {
        let delay = millis(self.echo_delay);
        if delay < 1.0 {
            return 0.0;
        }
        let mut loudness = self.talker_echo_loudness
            - 40.0 * log10((1.0 + delay / 10.0) / (1.0 + delay / 150.0))
            + 6.0 * exp(-0.3 * delay * delay); // TERV (7-22)
        if self.sidetone_masking < 9.0 {
            loudness += sidetone / 2.0; // (7-23)
        }
        let echo = 80.0 + 2.5 * (loudness - 14.0); // Re (7-21)
        let gap = -1.5 * (noise - self.receive_loudness) - echo; // Roe − Re (7-20)
        let impairment = (gap / 2.0 + (gap * gap / 4.0 + 100.0).sqrt() - 1.0) * (1.0 - exp(-delay)); // (7-19)
        if self.sidetone_masking > 20.0 { hypot(impairment, sidetone) } else { impairment } // (7-24)
    }

    /// Idle: impairment by listener echo (7-25), (7-26).
    fn listener_echo_impairment(&self, ratio: f64) -> f64 {
        let echo = 10.5 * (self.echo_path_loss + 7.0) * pow(millis(self.loop_delay) + 1.0, -0.25); // Rle
        let gap = ratio - echo;
        gap / 2.0 + (gap * gap / 4.0 + 169.0).sqrt()
    }

    /// Idd: impairment by the absolute delay, with or without echo (7-27), (7-28).
    fn absolute_delay_impairment(&self) -> f64 {
        if self.absolute_delay <= self.delay_threshold || self.delay_threshold <= TimeDelta::ZERO {
            return 0.0;
        }
        let x = log2(millis(self.absolute_delay) / millis(self.delay_threshold));
        let order = 6.0 * self.delay_sensitivity;
        let bend = |x: f64| pow(1.0 + pow(x, order), 1.0 / order);
        25.0 * (bend(x) - 3.0 * bend(x / 3.0) + 2.0)
    }
}

/// A delay in milliseconds, at least zero.
fn millis(delay: TimeDelta) -> f64 {
    delay.max(TimeDelta::ZERO).as_millis()
}

/// The mean opinion score of a rating R on the scale of 0 to 100 (G.107 Annex B, (B-4)): 1 to 4.5.
///
/// Our deviation: between R = 0 and 6.5 the polynomial falls to 0.99; values below 1 are raised to 1.
pub fn r_to_mos(r_factor: f64) -> f64 {
    if r_factor >= 100.0 {
        4.5
    } else if r_factor > 0.0 {
        let curve = r_factor * (r_factor - 60.0) * (100.0 - r_factor) * 7e-6;
        (1.0 + 0.035 * r_factor + curve).max(1.0)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delayed(millis: i64) -> EModel {
        EModel::default().with_delay(TimeDelta::from_millis(millis))
    }

    #[test]
    fn the_defaults_give_the_rating_of_g107() {
        let rating = EModel::default().rate();
        assert_eq!(format!("{:.1} {:.2}", rating.r_factor, rating.mos), "93.2 4.41");
        // Intermediate values of flent's `mos_score`, which its authors compared with the ITU's web
        // calculator.
        assert!((EModel::default().noise() - -61.179_214_386_241_69).abs() < 1e-9);
        let published = 1.413_568_081_343_861_6;
        // The value there for a long delay, whose echo no longer adds to the sidetone.
        let found = delayed(1000).rate().simultaneous_impairment;
        assert!((found - published).abs() < 1e-9, "{found}");
        assert!(rating.within_permitted_range);
    }

    /// Parameters with the R of an independent implementation in Go (github.com/manucorporat/e-model), to six digits.
    #[test]
    fn every_term_matches_an_independent_implementation() {
        let default = EModel::default();
        let echo = |talker_echo_loudness, millis| EModel { talker_echo_loudness, ..delayed(millis) };
        let loudness =
            |send_loudness, receive_loudness| EModel { send_loudness, receive_loudness, ..default };
        let codec = |impairment, loss_robustness| CodecImpairment {
            impairment,
            loss_robustness,
            scale: MosScale::Narrowband,
        };
        let table = [
            (default, 93.206_208),
            (delayed(50), 91.756_161),
            (delayed(150), 89.539_132),
            (delayed(250), 79.177_101),
            (delayed(400), 62.246_827),
            (echo(45.0, 100), 70.145_693),
            (echo(55.0, 150), 81.979_343),
            (loudness(2.0, -3.0), 85.436_922),
            (loudness(14.0, 8.0), 76.561_912),
            (EModel { sidetone_masking: 10.0, ..default }, 93.188_181),
            (EModel { sidetone_masking: 20.0, ..default }, 93.116_353),
            (EModel { sidetone_masking: 8.0, ..echo(50.0, 60) }, 85.874_846),
            (EModel { sidetone_masking: 22.0, ..echo(50.0, 60) }, 85.116_995),
            (EModel { send_room_noise: 70.0, receive_room_noise: 60.0, ..default }, 52.183),
            (EModel { circuit_noise: -45.0, ..default }, 69.179_24),
            (EModel { quantising_units: 4.0, ..default }, 88.203_149),
            (EModel { quantising_units: 14.0, ..default }, 66.262_066),
            (EModel { echo_path_loss: 20.0, ..delayed(20) }, 85.991_229),
            (EModel { codec: CodecImpairment::G729A_VAD, loss_ratio: 0.02, ..delayed(150) }, 70.539_132),
            (EModel { loss_ratio: 0.05, burst_ratio: 2.0, ..default }, 75.996_063),
            (
                EModel {
                    codec: codec(5.0, 10.0),
                    loss_ratio: 0.1,
                    burst_ratio: 1.5,
                    advantage: 10.0,
                    ..default
                },
                44.206_208,
            ),
        ];
        for (model, expected) in table {
            let found = model.rate().r_factor;
            assert!((found - expected).abs() < 1e-6, "{found}, not {expected}: {model:?}");
        }
    }

    #[test]
    fn published_examples_are_reproduced() {
        // A lecture on the E-model of the Technical University of Ostrava: G.729A with voice activity
        // detection, 2 % random loss, 150 ms; the same with G.711; the delay alone.
        let call = EModel { codec: CodecImpairment::G729A_VAD, loss_ratio: 0.02, ..delayed(150) };
        let rating = call.rate();
        assert_eq!(format!("{:.1} {:.2}", rating.r_factor, rating.mos), "70.5 3.62");
        assert_eq!(format!("{:.1} {:.1}", rating.delay_impairment, rating.equipment_impairment), "3.8 19.0");
        let rating = EModel { codec: CodecImpairment::G711, ..call }.rate();
        assert_eq!(format!("{:.1} {:.2}", rating.r_factor, rating.mos), "82.5 4.12");
    }

    #[test]
    fn delay_impairment_matches_cole_and_rosenbluth() {
        // "Voice over IP performance monitoring", CCR 31(2), 2001: Id of G.107 (2000), fitted below 400 ms.
        for millis in (0..=400).step_by(10) {
            let delay = f64::from(millis);
            let fit = 0.024 * delay + 0.11 * (delay - 177.3).max(0.0);
            let found = delayed(i64::from(millis)).rate().delay_impairment;
            assert!((found - fit).abs() < 3.5, "{millis} ms: {found}, fitted {fit}");
        }
    }

    #[test]
    fn wideband_scores_match_g107_1() {
        // MOS-CQEW without delay, by Ie,wb of G.722.2 (G.113 (2024) Tables IV.1, IV.3), as published by an
        // analyser that implements G.107.1 Annex A. A delay of zero reduces the rating by 0.15 here and by
        // nothing there.
        let table = [(1.0, 4.49), (8.0, 4.42), (13.0, 4.337_096), (26.0, 4.02), (41.0, 3.51), (56.0, 2.92)];
        for (impairment, mos) in table {
            assert!((r_to_mos((129.0 - impairment) / 1.29) - mos).abs() < 0.005, "{impairment}");
            let codec = CodecImpairment { impairment, ..CodecImpairment::G722 };
            let rating = EModel { codec, ..EModel::default() }.rate();
            assert!((rating.mos - mos).abs() < 0.01, "{impairment}: {}", rating.mos);
            assert_eq!(rating.scale, MosScale::WidebandEstimate);
        }
    }

    #[test]
    fn opinion_scores_follow_annex_b_within_1_to_4_5() {
        // G.107 Table B.1.
        for (r_factor, mos) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            assert!((r_to_mos(r_factor) - mos).abs() < 0.01, "{r_factor}");
        }
        let scores: Vec<f64> = (-100..2000).map(|n| r_to_mos(f64::from(n) / 10.0)).collect();
        assert!(scores.windows(2).all(|pair| pair[0] <= pair[1]));
        assert!(scores.iter().all(|score| (1.0..=4.5).contains(score)));
        assert!((r_to_mos(f64::NAN) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn values_outside_g107_are_marked() {
        let outside = [
            delayed(501),
            EModel { loss_ratio: 0.21, ..EModel::default() },
            EModel { loss_ratio: 0.05, burst_ratio: 2.1, ..EModel::default() },
        ];
        assert!(outside.iter().all(|model| !model.rate().within_permitted_range));
        let inside = [delayed(500), EModel { loss_ratio: 0.019, burst_ratio: 8.0, ..EModel::default() }];
        assert!(inside.iter().all(|model| model.rate().within_permitted_range));
    }

    proptest! {
        #[test]
        fn longer_delay_and_more_loss_never_improve_the_rating(delay in 0_i64..2000, more in 0_i64..2000, loss in 0.0_f64..0.5) {
            let model = EModel { loss_ratio: loss, ..delayed(delay) };
            let before = model.rate();
            prop_assert!(model.with_delay(TimeDelta::from_millis(delay + more)).rate().r_factor <= before.r_factor + 0.3);
            let lossier = EModel { loss_ratio: loss * 1.5, ..model };
            prop_assert!(lossier.rate().r_factor <= before.r_factor + 1e-9);
            prop_assert!((0.0..=100.0).contains(&before.r_factor));
        }
    }
}
