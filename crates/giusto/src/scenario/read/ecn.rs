//! The ECN codepoint of a flow.

use giusto_units::Ecn;
use serde::Deserialize;

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EcnName {
    Off,
    Ect0,
    Ect1,
}

impl From<EcnName> for Ecn {
    fn from(name: EcnName) -> Self {
        match name {
            EcnName::Off => Self::NotEct,
            EcnName::Ect0 => Self::Ect0,
            EcnName::Ect1 => Self::Ect1,
        }
    }
}
