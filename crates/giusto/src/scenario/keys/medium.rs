//! Keys of media that links share, and of the links on them.

use giusto_sim::{
    link::rate::RateProfile,
    medium::{Access, Station, WifiConfig},
};

use super::prelude::*;
use crate::scenario::model::{LinkSpec, MediumSpec, OnMedium};

pub(in crate::scenario) const MEDIUM: Group = Group::new("medium", &[ID]).with_kinds(
    "kind",
    None,
    &[variant("wifi", "A half-duplex channel of IEEE 802.11n, 5 GHz, 20 MHz", &[WIFI])],
);

keys! { ID {
    "id", Name, Required("wifi"), "Name, which links give as their `medium`";
} }

keys! { WIFI, wifi(to: WifiConfig) {
    "aggregation", Whole(within(1.0, 64.0)), Is("1"), "Largest number of packets in a frame (A-MPDU)" => to.aggregation;
    "retries", Whole(ANY), Is("6"), "Retransmissions of a packet" => to.retries;
    "slot", Time(ANY), Is("9 us"), "Slot time" => to.slot;
    "sifs", Time(ANY), Is("16 us"), "Short interframe space" => to.sifs;
    "contention-window", Pair(&Whole(ANY), &Whole(ANY)), Is("[15, 1023]"),
        "Minimum and maximum of the contention window" => to.window;
} }

keys! {
    /// Of links on a medium only.
    ON_MEDIUM, on_medium(to: OnMedium) {
    "access", choice::<Access>(), Is("best-effort"), "Access category" => to.access;
    "frame-error", RATIO, Is("0"), "Probability that a packet of a frame arrives in error and is sent again" => to.error;
} }

pub(super) fn medium(keys: &mut read::Table<'_>) -> MediumSpec {
    keys.kind(&MEDIUM);
    MediumSpec { id: keys.value("id"), config: wifi(keys, WifiConfig::default()) }
}

/// Sets the medium of a direction of a link, and the default of its rate there.
pub(super) fn membership(keys: &mut read::Table<'_>, link: &mut LinkSpec) {
    if let Some(id) = keys.optional("medium") {
        link.medium = Some(OnMedium { id, access: Access::default(), error: 0.0 });
        if link.config.rate == RateProfile::Unlimited {
            link.config.rate = RateProfile::Fixed(Station::default().rate);
        }
    }
    match link.medium.take() {
        Some(medium) => link.medium = Some(on_medium(keys, medium)),
        None => ON_MEDIUM.iter().for_each(|row| {
            keys.refuse(row.name, "only a link on a medium has it: add medium = \"ID\", or remove this");
        }),
    }
}

names!(Access: Self::ALL.to_vec());
