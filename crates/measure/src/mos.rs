//! Estimated quality of a call: the E-model of ITU-T G.107 (06/2015).
//!
//! R = Ro − Is − Id − Ie-eff + A is a rating of 0 to 100 that sums all impairments of a call: noise,
//! loudness, delay, echo, and the codec with its losses. [`r_to_mos`] converts it to an opinion score of 1 to
//! 4.5. All terms are implemented with the defaults of G.107 Table 2, so that a caller only sets what a
//! network changes: delay, loss, burstiness, codec.
//!
//! It is a planning model: G.107 §1 says "not for actual customer opinion prediction".
//!
//! # Wideband codecs
//!
//! G.722 and Opus have more than the telephone band, and G.107 does not rate them. ITU-T G.107.1 (06/2019)
//! does, on a scale to 129. But no impairment factors are published for Opus, and none under loss for G.722.
//! The result for them is an estimate, marked as [`MosScale::WidebandEstimate`]: see there. Scores of
//! different scales must not be compared.
//!
//! # Example
//!
//! ```
//! use giusto_measure::mos::{CodecImpairment, EModel};
//! use giusto_units::TimeDelta;
//!
//! let clean = EModel::default().rate();
//! assert_eq!((clean.r_factor * 10.0).round(), 932.0);
//! assert_eq!((clean.mos * 100.0).round(), 441.0);
//!
//! let call = EModel { codec: CodecImpairment::G729A_VAD, loss_ratio: 0.02, ..EModel::default() };
//! let rating = call.with_delay(TimeDelta::from_millis(150)).rate();
//! assert_eq!((rating.mos * 100.0).round(), 362.0);
//! ```

mod codec;
mod e_model;
mod quality;

pub use self::{
    codec::{CodecImpairment, MosScale},
    e_model::{EModel, Rating, r_to_mos},
    quality::{VoicePath, VoiceQuality},
};
pub use crate::loss::burst_ratio;
