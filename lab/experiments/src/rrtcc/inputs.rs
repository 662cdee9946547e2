//! The thesis's tables of inputs, as they are used here.

use std::fmt::Display;

use giusto_congestion::internals::thesis;

use super::{
    network::{MEAN_DELAY, PROBABILITIES, TABLE_9, UPDATE},
    session::PACKETS,
};
use crate::page::PageTable;
use giusto::view::format::grouped;

/// Tables 6 to 9.
pub(super) fn inputs() -> [PageTable; 3] {
    let (aimd, detector) = (thesis::aimd(), thesis::detector());
    let row = |name: &str, value: &dyn Display, unit: &str| {
        vec![name.to_owned(), value.to_string(), unit.to_owned()]
    };
    let rate = |bps: u64| grouped(bps as f64);
    let rrtcc = vec![
        row("del_var_th[1]", &detector.initial_threshold_ms, "ms"),
        row("K_u", &detector.rise, "per ms"),
        row("K_d", &detector.fall, "per ms"),
        row("Beta", &aimd.decrease, ""),
        row("T", &thesis::WINDOW.as_seconds(), "s"),
    ];
    let application = vec![
        row("Initial sending rate", &rate(thesis::START.as_bps()), "bit/s"),
        row("Maximum sending rate", &rate(aimd.max.as_bps()), "bit/s"),
        row("Minimum sending rate", &rate(aimd.min.as_bps()), "bit/s"),
        row("Number of RTP packets", &PACKETS, "packets"),
        row("RTCP interval", &thesis::REPORT_INTERVAL.as_seconds(), "s"),
        row("Mean of network delay", &MEAN_DELAY.as_seconds(), "s"),
        row("Variance of network delay", &"0.001", "s, taken as a standard deviation"),
        row("Network update interval", &UPDATE.as_seconds(), "s"),
        row("Size of a packet", &"not stated", "60,000 B taken"),
    ];
    let states = PROBABILITIES.map(|p| format!("{} %", p * 100.0));
    let states = std::iter::once("probability".to_owned()).chain(states).chain([String::new()]).collect();
    let lines = TABLE_9.iter().zip(1..).map(|(line, number)| {
        let rates = line.0.map(rate).into_iter().chain([grouped(line.mean_bps())]);
        [number.to_string()].into_iter().chain(rates).collect()
    });
    let states: Vec<Vec<String>> = std::iter::once(states).chain(lines).collect();
    let parameters = ["parameter", "value", "unit"];
    let gains = "The table's gains: §3.4.3.1 has them the other way round.";
    let bandwidths = "Table 8 is line 2. The 25 % of cross-traffic are printed once for both and halved here; the means are ours.";
    let as_printed = ["Table 7: application and network", "As printed, except as noted."];
    [
        PageTable::new("", ["Table 6: RRTCC", gains], &parameters, 1, &rrtcc),
        PageTable::new("", as_printed, &parameters, 1, &application),
        PageTable::new(
            "",
            ["Tables 8 and 9: bandwidth of each state of the network, in bit/s", bandwidths],
            &["line", "Idle", "Cross-traffic 1", "Cross-traffic 2", "Saturated", "mean"],
            0,
            &states,
        ),
    ]
}
