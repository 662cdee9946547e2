//! The thesis's tables of inputs, as they are used here.

use giusto_congestion::gcc::thesis;

use super::{
    network::{Bandwidths, MEAN_DELAY, State, UPDATE},
    session::PACKETS,
};
use crate::page::table;
use giusto::view::{format::grouped, html::Table};

/// Mean of the final estimate in the main run (§4.1), in bit/s.
pub(super) const MEAN_ESTIMATE_BPS: f64 = 7_082_516.0;

/// Tables 6 to 9.
pub(super) fn inputs() -> [Table; 3] {
    let (aimd, detector) = (thesis::aimd(), thesis::detector());
    let rate = |bps: u64| grouped(bps as f64);
    let six = [
        ["del_var_th[1]".to_owned(), detector.initial_threshold_ms.to_string(), "ms".to_owned()],
        ["K_u".to_owned(), detector.rise.to_string(), "per ms".to_owned()],
        ["K_d".to_owned(), detector.fall.to_string(), "per ms".to_owned()],
        ["Beta".to_owned(), aimd.decrease.to_string(), String::new()],
        ["T".to_owned(), thesis::WINDOW.as_seconds().to_string(), "s".to_owned()],
    ];
    let seven = [
        ("Initial sending rate", rate(thesis::START.as_bps()), "bit/s"),
        ("Maximum sending rate", rate(aimd.max.as_bps()), "bit/s"),
        ("Minimum sending rate", rate(aimd.min.as_bps()), "bit/s"),
        ("Number of RTP packets", PACKETS.to_string(), "packets"),
        ("RTCP interval", thesis::REPORT_INTERVAL.as_seconds().to_string(), "s"),
        ("Mean of network delay", MEAN_DELAY.as_seconds().to_string(), "s"),
        ("Variance of network delay", "0.001".to_owned(), "s, taken as a standard deviation"),
        ("Network update interval", UPDATE.as_seconds().to_string(), "s"),
        ("Size of a packet", "not stated".to_owned(), "60,000 B taken"),
    ]
    .map(|(name, value, unit)| [name.to_owned(), value, unit.to_owned()]);
    let probabilities = State::ALL.map(|state| format!("{} %", state.probability() * 100.0));
    let states =
        std::iter::once(["probability".to_owned()].into_iter().chain(probabilities).chain([String::new()]))
            .map(Iterator::collect::<Vec<_>>);
    let lines = Bandwidths::TABLE_9.map(|line| {
        let rates = State::ALL.map(|state| rate(line.of(state).as_bps()));
        [line.number.to_string()].into_iter().chain(rates).chain([grouped(line.mean_bps())]).collect()
    });
    let headers = ["#line", "#Idle", "#Cross-traffic 1", "#Cross-traffic 2", "#Saturated", "#mean"];
    let parameters = ["parameter", "#value", "unit"];
    let folded = |text: [&str; 2], headers: &[&str], rows: Vec<Vec<String>>| {
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into).collect()).collect();
        Table { folded: true, ..table(text, headers, rows) }
    };
    [
        folded(
            ["Table 6: RRTCC", "The table's gains: §3.4.3.1 has them the other way round."],
            &parameters,
            six.map(Vec::from).into(),
        ),
        folded(
            ["Table 7: application and network", "As printed, except as noted."],
            &parameters,
            seven.map(Vec::from).into(),
        ),
        folded(
            [
                "Tables 8 and 9: bandwidth of each state of the network, in bit/s",
                "Table 8 is line 2. The 25 % of cross-traffic are printed once for both and halved here; the means are ours.",
            ],
            &headers,
            states.chain(lines).collect(),
        ),
    ]
}
