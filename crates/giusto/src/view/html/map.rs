//! A map of cells: SINR, borders, paths, handovers.

use serde::Serialize;

use super::chart::significant;
use crate::city::CityLog;

/// A map of cells. The page draws it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Map {
    /// The heading.
    pub title: String,
    /// A sentence below the heading.
    pub caption: String,
    /// Distance between grid points in m, and the east and north of the first one.
    step_m: f64,
    origin: (f64, f64),
    /// SINR at the points in whole dB, in rows from south to north.
    sinr_db: Vec<Vec<Option<i32>>>,
    /// The strongest cell at each point.
    cells: Vec<Vec<Option<u8>>>,
    /// The middle of each cell.
    middles: Vec<(f64, f64)>,
    /// East and north of the sites in m.
    sites: Vec<(f64, f64)>,
    paths: Vec<Path>,
    handovers: Vec<Mark>,
}

/// The path of a user.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Path {
    name: String,
    /// Parts of the path, each without a jump to the other side of the area.
    parts: Vec<Vec<(f64, f64)>>,
    /// Whether it is shown over time as well.
    chosen: bool,
}

/// A handover.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Mark {
    at: (f64, f64),
    text: String,
}

impl Map {
    /// The map of a city, in which the path of `chosen` stands out.
    pub(super) fn new(title: &str, caption: String, log: &CityLog, chosen: Option<u32>) -> Self {
        let rows = &log.coverage.rows;
        let origin = (log.coverage.origin.x_m, log.coverage.origin.y_m);
        let short = |(x, y): (f64, f64)| (significant(x), significant(y));
        let paths = log.calls.iter().map(|call| {
            let (from, until) = call.time_s;
            let handovers = call.handovers.len();
            Path {
                name: format!("call {}, {from:.1} s to {until:.1} s, handovers: {handovers}", call.number),
                parts: parts(&call.path, log.inter_site_distance_m)
                    .map(|part| part.iter().copied().map(short).collect())
                    .collect(),
                chosen: chosen == Some(call.number),
            }
        });
        let handovers = log.calls.iter().flat_map(|call| {
            call.handovers.iter().map(|handover| Mark {
                at: short(handover.at),
                text: format!(
                    "call {}, {:.1} s: cell {} to cell {}",
                    call.number, handover.time_s, handover.from, handover.to
                ),
            })
        });
        Self {
            title: title.to_owned(),
            caption,
            step_m: significant(log.coverage.step_m),
            origin: short(origin),
            sinr_db: rows
                .iter()
                .map(|row| row.iter().map(|spot| spot.map(|spot| spot.sinr_db.round() as i32)).collect())
                .collect(),
            cells: rows
                .iter()
                .map(|row| row.iter().map(|spot| spot.map(|spot| spot.cell)).collect())
                .collect(),
            middles: log.middles.iter().copied().map(short).collect(),
            sites: log.sites.iter().copied().map(short).collect(),
            paths: paths.collect(),
            handovers: handovers.collect(),
        }
    }
}

/// The parts of a path that leaves the area on one side and enters it on the other.
fn parts(path: &[(f64, f64)], far_m: f64) -> impl Iterator<Item = &[(f64, f64)]> {
    path.chunk_by(move |a, b| (a.0 - b.0).hypot(a.1 - b.1) < far_m)
}
