//! What the thesis prints: its tables of inputs, and Table 3, which it cites.

use giusto_congestion::gcc::thesis;

use super::network::{Bandwidths, MEAN_DELAY, State, UPDATE};
use giusto::view::{
    format::grouped,
    html::{Column, Table},
};

/// Mean of the final estimate in the main run (§4.1), in bit/s.
pub(super) const MEAN_ESTIMATE_BPS: f64 = 7_082_516.0;

/// A cell of Table 3: one RRTCC flow and five of TCP on 5 Mbit/s, from V. Singh, "Fairness of RRTCC".
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Fairness {
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    /// With a link delay of 50 ms, and of 100 ms.
    pub(super) published: [f64; 2],
    /// The deviations printed beside them.
    pub(super) deviation: [f64; 2],
}

/// Table 3. The last deviation, 0.21, is in another unit than its neighbour, 8: it stands as printed.
pub(super) const TABLE_3: [Fairness; 4] = [
    Fairness {
        id: "goodput",
        what: "goodput of the RRTCC flow",
        unit: "bit/s",
        published: [3_593_000.0, 3_700_000.0],
        deviation: [279_000.0, 420_000.0],
    },
    Fairness {
        id: "loss",
        what: "packets that the RRTCC flow loses",
        unit: "ratio",
        published: [0.0368, 0.04],
        deviation: [0.0026, 0.0019],
    },
    Fairness {
        id: "tcp",
        what: "throughput of a TCP flow in its ON time, on average",
        unit: "bit/s",
        published: [688_500.0, 323_000.0],
        deviation: [53_000.0, 111_000.0],
    },
    Fairness {
        id: "tfs",
        what: "throughput of TCP over its fair share",
        unit: "ratio",
        published: [1.51, 0.72],
        deviation: [0.08, 0.0021],
    },
];

/// The delays of Table 3, in ms.
pub(super) const TABLE_3_DELAYS_MS: [u64; 2] = [50, 100];

/// Rate of the shared link of Table 3 (§2.3), in bit/s.
pub(super) const TABLE_3_LINK_BPS: f64 = 5e6;

/// Tables 6 to 9 as they are fed in.
pub(super) fn inputs() -> Vec<Table> {
    let aimd = thesis::aimd();
    let detector = thesis::detector();
    let row = |cells: [String; 3]| cells.map(Into::into).to_vec();
    let pair = |title: &str, caption: &str, rows: Vec<[String; 3]>| Table {
        title: title.to_owned(),
        caption: caption.to_owned(),
        columns: vec![Column::words("parameter"), Column::number("value"), Column::words("unit")],
        rows: rows.into_iter().map(row).collect(),
        folded: true,
    };
    let line = |name: &str, value: String, unit: &str| [name.to_owned(), value, unit.to_owned()];
    let rate = |bps: u64| grouped(bps as f64);
    let six = vec![
        line("del_var_th[1]", detector.initial_threshold_ms.to_string(), "ms"),
        line("K_u", detector.rise.to_string(), "per ms"),
        line("K_d", detector.fall.to_string(), "per ms"),
        line("Beta", aimd.decrease.to_string(), ""),
        line("T", thesis::WINDOW.as_seconds().to_string(), "s"),
    ];
    let seven = vec![
        line("Initial sending rate", rate(thesis::START.as_bps()), "bit/s"),
        line("Maximum sending rate", rate(aimd.max.as_bps()), "bit/s"),
        line("Minimum sending rate", rate(aimd.min.as_bps()), "bit/s"),
        line("Numbers of RTP packets", super::session::PACKETS.to_string(), "packets"),
        line("RTCP interval", thesis::REPORT_INTERVAL.as_seconds().to_string(), "s"),
        line("Mean of network delay", MEAN_DELAY.as_seconds().to_string(), "s"),
        line("Variance of network delay", "0.001".to_owned(), "s, taken as a standard deviation"),
        line("Network updating interval time", UPDATE.as_seconds().to_string(), "s"),
        line("Size of a packet", "not stated".to_owned(), "60,000 B taken"),
    ];
    let mut columns = vec![Column::number("configuration")];
    columns.extend(State::ALL.map(|state| Column::number(state.name())));
    columns.push(Column::number("mean"));
    let mut rows = vec![
        std::iter::once("probability".to_owned())
            .chain(State::ALL.map(|state| format!("{} %", state.probability() * 100.0)))
            .chain([String::new()])
            .map(Into::into)
            .collect(),
    ];
    rows.extend(Bandwidths::TABLE_9.map(|bandwidths| {
        let states = State::ALL.map(|state| rate(bandwidths.of(state).as_bps()));
        let cells = std::iter::once(bandwidths.number.to_string()).chain(states);
        cells.chain([grouped(bandwidths.mean_bps())]).map(Into::into).collect()
    }));
    vec![
        pair("Table 6: RRTCC", "The table's gains, not the prose's: §3.4.3.1 has them the other way round.", six),
        pair("Table 7: application and network", "As printed, but for what is said at the side.", seven),
        Table {
            title: "Tables 8 and 9: what each state of the network lets through, in bit/s".to_owned(),
            caption: "Table 8 is line 2. The 25 % of cross-traffic are printed once for both and halved here; the means are ours."
                .to_owned(),
            columns,
            rows,
            folded: true,
        },
    ]
}
