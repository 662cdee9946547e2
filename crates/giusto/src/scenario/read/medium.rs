//! Keys of media that links share, and of the links on them.

use giusto_sim::{
    link::rate::RateProfile,
    medium::{Access, Station, WifiConfig},
};

use super::{
    quantity::at_least,
    value::{Found, Kind, Node, Read, Table, choice},
};
use crate::scenario::model::{LinkSpec, MediumSpec, OnMedium};

/// A medium of a file.
pub(super) fn medium(keys: &mut Table<'_>) -> MediumSpec {
    let id = keys.required("id");
    let kinds: [Kind<'_, '_, WifiConfig>; 1] = [("wifi", &wifi)];
    let config = keys.kind("kind", None, &kinds).unwrap_or_default();
    MediumSpec { id, config }
}

fn wifi(keys: &mut Table<'_>) -> WifiConfig {
    let mut config = WifiConfig::default();
    keys.set("slot", &mut config.slot);
    keys.set("sifs", &mut config.sifs);
    keys.set("contention-window", &mut config.window);
    keys.set_with("retries", &mut config.retries, at_least(0));
    keys.set("aggregation", &mut config.aggregation);
    config
}

/// Sets the medium of a direction of a link, and the default of its rate there.
pub(super) fn membership(keys: &mut Table<'_>, link: &mut LinkSpec) {
    if let Some(id) = keys.optional("medium") {
        link.medium = Some(OnMedium { id, access: Access::default(), error: 0.0 });
        if link.config.rate == RateProfile::Unlimited {
            link.config.rate = RateProfile::Fixed(Station::default().rate);
        }
    }
    // Without a medium they are unknown keys.
    if let Some(medium) = &mut link.medium {
        keys.set("access", &mut medium.access);
        keys.set("frame-error", &mut medium.error);
    }
}

impl Read for Access {
    fn read(node: &Node<'_>) -> Found<Self> {
        choice(node, Self::ALL)
    }
}
