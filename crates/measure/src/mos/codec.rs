//! Impairments of codecs and packet loss on the scale of the E-model.

use std::fmt;

use giusto_rtp::voice::VoiceProfile;

/// Maximum total impairment of the equipment (G.107 (7-29)); G.107.1 (7-15) has the same 95.
const EQUIPMENT_CEILING: f64 = 95.0;

/// Scale of a rating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum MosScale {
    /// The telephone band, rated according to G.107, with factors published in ITU-T G.113: R to 100,
    /// MOS-CQE.
    Narrowband,
    /// The band to 7 kHz, *estimated*: R to 129, MOS according to G.107.1 Annex A.
    ///
    /// R = 129 − Id − Ie-eff. Three things are estimated: Ie and Bpl are those of a similar codec; Id is that
    /// of G.107, although G.107.1 §7.4 has its own echo terms; and bursts count as in G.107 (7-29), although
    /// G.107.1 (7-15) covers only random loss.
    WidebandEstimate,
}

impl fmt::Display for MosScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Narrowband => "narrowband (G.107)",
            Self::WidebandEstimate => "wideband, estimated",
        })
    }
}

/// The impairment of a codec, without and with loss.
///
/// | codec | Ie | Bpl | source |
/// |---|---|---|---|
/// | G.711, losses concealed | 0 | 25.1 | G.113 (2007) Table I.4, packets of 10 ms |
/// | G.711, losses silent | 0 | 4.3 | G.113 (2007) Table I.4, packets of 10 ms |
/// | G.729A with voice activity detection | 11 | 19.0 | G.113 (2007) Table I.4, packets of 20 ms |
/// | G.729 without | 10 | 19.0 | Ie from G.113 (2007) Table I.1; Bpl is that of the row above, for none is published |
/// | G.722 at 64 kbit/s | 13 | 4.3 | Ie,wb as it is cited from G.113 (2007) Appendix IV, whose text was not at hand; Bpl,wb borrowed from G.722.2 at 12.65 kbit/s, whose Ie,wb is the same (G.113 (2024) Tables IV.1, IV.4) |
/// | Opus | 8 | 4.6 | none published; those of G.722.2 at 23.05 kbit/s for both ears (G.113 (2024) Tables IV.3, IV.4), thought to be too low for Opus |
///
/// G.113 calls its values provisional and intended for planning. There are no values for other packet
/// lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CodecImpairment {
    /// Equipment impairment without loss, on the scale's own rating: 0 to 95.
    pub impairment: f64,
    /// Packet-loss robustness in percent, above 0: at this loss, half of the difference to 95 is added.
    pub loss_robustness: f64,
    /// The scale to which both belong.
    pub scale: MosScale,
}

impl CodecImpairment {
    /// G.711 with loss concealment at the receiver.
    pub const G711: Self = Self::narrowband(0.0, 25.1);
    /// G.711 with silence in place of lost packets.
    pub const G711_WITHOUT_CONCEALMENT: Self = Self::narrowband(0.0, 4.3);
    /// G.729 Annex A with voice activity detection (Annex B).
    pub const G729A_VAD: Self = Self::narrowband(11.0, 19.0);
    /// G.729 without voice activity detection.
    pub const G729: Self = Self::narrowband(10.0, 19.0);
    /// G.722 at 64 kbit/s: an estimate.
    pub const G722: Self = Self { impairment: 13.0, loss_robustness: 4.3, scale: MosScale::WidebandEstimate };
    /// Opus for speech at about 32 kbit/s: an estimate.
    pub const OPUS: Self = Self { impairment: 8.0, loss_robustness: 4.6, scale: MosScale::WidebandEstimate };

    /// A codec with values of one's own: `impairment` (Ie) and `loss_robustness` (Bpl, in percent) on `scale`.
    pub const fn new(impairment: f64, loss_robustness: f64, scale: MosScale) -> Self {
        Self { impairment, loss_robustness, scale }
    }

    const fn narrowband(impairment: f64, loss_robustness: f64) -> Self {
        Self { impairment, loss_robustness, scale: MosScale::Narrowband }
    }

    /// The impairment of a codec as our sources send it: without voice activity detection, with loss
    /// concealment at the receiver.
    pub const fn of(profile: VoiceProfile) -> Self {
        match profile {
            VoiceProfile::G711Ulaw | VoiceProfile::G711Alaw => Self::G711,
            VoiceProfile::G729 => Self::G729,
            VoiceProfile::G722 => Self::G722,
            VoiceProfile::Opus => Self::OPUS,
        }
    }

    /// Ie-eff: the impairment with losses (G.107 (7-29)).
    ///
    /// `loss_ratio` is 0 to 1; a `burst_ratio` below 1 (losses more even than random ones) counts as 1.
    pub fn effective(&self, loss_ratio: f64, burst_ratio: f64) -> f64 {
        let percent = 100.0 * if loss_ratio.is_nan() { 0.0 } else { loss_ratio.clamp(0.0, 1.0) };
        if percent == 0.0 {
            return self.impairment;
        }
        let share = percent / (percent / burst_ratio.max(1.0) + self.loss_robustness);
        // In long bursts (7-29) can exceed its own maximum.
        (self.impairment + (EQUIPMENT_CEILING - self.impairment) * share).min(EQUIPMENT_CEILING)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::loss::burst_ratio;

    #[test]
    fn effective_impairments_match_published_values() {
        // G.113 Appendix I (09/1999) Table I.2 gave Ie of G.729A with voice activity detection under random loss, before Bpl.
        for (loss, published) in [(0.0, 11.0), (0.02, 19.0), (0.08, 36.0), (0.16, 49.0)] {
            let found = CodecImpairment::G729A_VAD.effective(loss, 1.0);
            assert!((found - published).abs() < 0.5, "{loss}: {found}");
        }
        // The same for G.711 with concealment: 5 at 1 %, 15 at 5 %, 25 at 10 %, where the later formula gives
        // slightly more.
        for (loss, published) in [(0.01, 5.0), (0.05, 15.0), (0.1, 25.0)] {
            let found = CodecImpairment::G711.effective(loss, 1.0);
            assert!((-1.5..2.5).contains(&(found - published)), "{loss}: {found}");
        }
    }

    #[test]
    fn bursts_impair_more_than_random_losses() {
        // A two-state chain that enters loss with probability 0.01 and leaves it with 0.49 loses 2 % in
        // bursts of 1 / 0.49, so BurstR is 1 / (0.01 + 0.49) (G.107 (7-30)). Calculated in a lecture on the
        // E-model of the Technical University of Ostrava.
        let ratio = burst_ratio(1.0 / 0.49, 0.02);
        assert!((ratio - 2.0).abs() < 1e-12);
        for (codec, random, bursts) in
            [(CodecImpairment::G711_WITHOUT_CONCEALMENT, 30.2, 35.8), (CodecImpairment::G711, 7.0, 7.3)]
        {
            assert!((codec.effective(0.02, 1.0) - random).abs() < 0.05);
            assert!((codec.effective(0.02, ratio) - bursts).abs() < 0.05);
        }
    }

    #[test]
    fn the_burst_ratio_of_random_or_no_losses_is_1() {
        assert!((burst_ratio(1.25, 0.2) - 1.0).abs() < 1e-12);
        for (mean, loss) in [(0.0, 0.0), (5.0, 1.0), (f64::NAN, 0.1), (f64::INFINITY, 0.1), (1.0, 2.0)] {
            assert!((burst_ratio(mean, loss) - 1.0).abs() < 1e-12);
        }
    }

    proptest! {
        #[test]
        fn more_loss_never_impairs_less(low in 0.0_f64..1.0, more in 0.0_f64..1.0, burst in 0.0_f64..100.0) {
            for codec in VoiceProfile::ALL.map(CodecImpairment::of) {
                let (before, after) = (codec.effective(low, burst), codec.effective(low + more, burst));
                prop_assert!(before <= after + 1e-9, "{} {}", before, after);
                prop_assert!((codec.impairment..=95.0).contains(&after));
            }
        }
    }
}
