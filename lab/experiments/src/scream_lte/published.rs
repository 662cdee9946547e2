//! Tables 2 to 9 of draft-johansson-rmcat-scream-cc-00, §10.

use serde::{Deserialize, Serialize};

use giusto_lte::radio::link::Direction;

/// Direction of the media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Link {
    /// From the base station.
    Downlink,
    /// To the base station.
    Uplink,
}

giusto_units::names!(Link { Downlink = "downlink", Uplink = "uplink" });

impl Link {
    pub(super) const fn direction(self) -> Direction {
        match self {
            Self::Downlink => Direction::Downlink,
            Self::Uplink => Direction::Uplink,
        }
    }

    /// Mean load of file transfers in a cell, in bit/s (Table 1).
    pub(super) const fn files_bps(self) -> u64 {
        match self {
            Self::Downlink => 4_000_000,
            Self::Uplink => 2_000_000,
        }
    }
}

/// An algorithm of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    Gcc,
    Scream,
}

impl Published {
    pub(super) const ALL: [Self; 2] = [Self::Gcc, Self::Scream];

    /// As the draft calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Gcc => "GCC",
            Self::Scream => "SCReAM",
        }
    }

    /// The controller that stands for it: that of draft-alvestrand-rmcat-congestion-02, to which the draft refers, and SCReAM of draft -00.
    pub(super) const fn controller(self) -> &'static str {
        match self {
            Self::Gcc => "gcc:rmcat-02",
            Self::Scream => "scream:d00",
        }
    }
}

/// A column of the tables, as a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantity {
    /// "Video tail latency [ms]".
    FrameTail,
    /// "IP packet tail latency [ms]".
    PacketTail,
    /// "Average PLR [%]".
    Loss,
    /// "Average bitrate [kbps]".
    Rate,
}

impl Quantity {
    pub(super) const ALL: [Self; 4] = [Self::FrameTail, Self::PacketTail, Self::Loss, Self::Rate];

    /// Name, name in an identifier, unit.
    pub(super) const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::FrameTail => ("frame tail", "frame", "ms"),
            Self::PacketTail => ("packet tail", "packet", "ms"),
            Self::Loss => ("loss", "loss", "%"),
            Self::Rate => ("bitrate", "rate", "kbit/s"),
        }
    }
}

/// A load of a table: users per cell, and the values in the order of [`Quantity::ALL`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    pub(super) users: u32,
    values: [f64; 4],
}

impl Row {
    pub(super) const fn value(&self, quantity: Quantity) -> f64 {
        let [frame, packet, loss, rate] = self.values;
        match quantity {
            Quantity::FrameTail => frame,
            Quantity::PacketTail => packet,
            Quantity::Loss => loss,
            Quantity::Rate => rate,
        }
    }
}

/// A table of the draft.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Table {
    pub(super) number: u8,
    /// Direction, and speed in km/h.
    pub(super) place: (Link, u32),
    pub(super) of: Published,
    pub(super) rows: [Row; 6],
}

/// The table of `of` at this place.
pub(super) fn table_of(place: (Link, u32), of: Published) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.place == place && table.of == of)
}

/// Directions and speeds, in the order of the tables.
pub(super) const PLACES: [(Link, u32); 4] =
    [(Link::Downlink, 3), (Link::Downlink, 30), (Link::Uplink, 3), (Link::Uplink, 30)];

const fn row(users: u32, values: [f64; 4]) -> Row {
    Row { users, values }
}

/// Tables 2 to 9.
pub(super) const TABLES: [Table; 8] = [
    Table {
        number: 2,
        place: (Link::Downlink, 3),
        of: Published::Gcc,
        rows: [
            row(2, [35.0, 35.0, 0.0, 423.0]),
            row(4, [65.0, 65.0, 0.0, 371.0]),
            row(6, [168.0, 168.0, 0.0, 358.0]),
            row(8, [828.0, 826.0, 0.5, 332.0]),
            row(12, [1028.0, 1028.0, 3.8, 247.0]),
            row(16, [1071.0, 1073.0, 9.4, 177.0]),
        ],
    },
    Table {
        number: 3,
        place: (Link::Downlink, 3),
        of: Published::Scream,
        rows: [
            row(2, [126.0, 92.0, 0.0, 1202.0]),
            row(4, [192.0, 126.0, 0.0, 812.0]),
            row(6, [192.0, 139.0, 0.0, 575.0]),
            row(8, [258.0, 171.0, 0.1, 461.0]),
            row(12, [412.0, 233.0, 0.2, 328.0]),
            row(16, [559.0, 293.0, 0.9, 232.0]),
        ],
    },
    Table {
        number: 4,
        place: (Link::Downlink, 30),
        of: Published::Gcc,
        rows: [
            row(2, [64.0, 63.0, 0.0, 342.0]),
            row(4, [237.0, 237.0, 0.0, 332.0]),
            row(6, [847.0, 823.0, 0.6, 261.0]),
            row(8, [1304.0, 1281.0, 2.1, 201.0]),
            row(12, [2023.0, 2023.0, 15.2, 105.0]),
            row(16, [2195.0, 2192.0, 50.5, 61.0]),
        ],
    },
    Table {
        number: 5,
        place: (Link::Downlink, 30),
        of: Published::Scream,
        rows: [
            row(2, [229.0, 134.0, 0.0, 878.0]),
            row(4, [263.0, 164.0, 0.1, 512.0]),
            row(6, [350.0, 197.0, 0.1, 351.0]),
            row(8, [414.0, 224.0, 0.2, 277.0]),
            row(12, [748.0, 438.0, 1.6, 184.0]),
            row(16, [1470.0, 920.0, 11.3, 131.0]),
        ],
    },
    Table {
        number: 6,
        place: (Link::Uplink, 3),
        of: Published::Gcc,
        rows: [
            row(1, [93.0, 94.0, 0.4, 770.0]),
            row(2, [103.0, 106.0, 0.3, 757.0]),
            row(3, [183.0, 195.0, 2.0, 655.0]),
            row(5, [261.0, 237.0, 1.9, 612.0]),
            row(8, [607.0, 608.0, 19.2, 381.0]),
            row(10, [494.0, 497.0, 27.2, 361.0]),
        ],
    },
    Table {
        number: 7,
        place: (Link::Uplink, 3),
        of: Published::Scream,
        rows: [
            row(1, [111.0, 95.0, 0.0, 1286.0]),
            row(2, [124.0, 101.0, 0.0, 1123.0]),
            row(3, [174.0, 118.0, 0.4, 856.0]),
            row(5, [182.0, 128.0, 0.4, 663.0]),
            row(8, [209.0, 154.0, 1.2, 451.0]),
            row(10, [268.0, 170.0, 2.6, 362.0]),
        ],
    },
    Table {
        number: 8,
        place: (Link::Uplink, 30),
        of: Published::Gcc,
        rows: [
            row(1, [200.0, 225.0, 4.8, 718.0]),
            row(2, [340.0, 374.0, 4.0, 681.0]),
            row(3, [757.0, 747.0, 21.7, 557.0]),
            row(5, [845.0, 829.0, 14.7, 456.0]),
            row(8, [1020.0, 1020.0, 80.0, 266.0]),
            row(10, [1017.0, 1017.0, 91.1, 230.0]),
        ],
    },
    Table {
        number: 9,
        place: (Link::Uplink, 30),
        of: Published::Scream,
        rows: [
            row(1, [144.0, 109.0, 1.1, 848.0]),
            row(2, [174.0, 113.0, 0.9, 698.0]),
            row(3, [232.0, 134.0, 2.4, 572.0]),
            row(5, [263.0, 141.0, 2.2, 456.0]),
            row(8, [276.0, 167.0, 3.5, 302.0]),
            row(10, [357.0, 215.0, 11.2, 240.0]),
        ],
    },
];
