//! A map of the wideband SINR at full load.

use crate::{
    mac::DownlinkConfig,
    radio::{
        layout::{Layout, Point},
        propagation::{Deployment, Shadowing, mean_gains},
    },
    terminal::noise_per_block_mw,
};

/// Grid points along the distance between two sites.
const POINTS_PER_DISTANCE: f64 = 48.0;

/// The wideband SINR and the strongest cell at the points of a grid over the area: downlink, all cells transmit at full power,
/// without shadowing and without fast fading. Users draw their shadowing one by one, so that no map of it exists.
#[derive(Debug, Clone, PartialEq)]
pub struct Coverage {
    /// Distance of neighbouring points in m.
    pub step_m: f64,
    /// The point in the south-west.
    pub origin: Point,
    /// Rows from south to north, each with its points from west to east; `None` outside the area.
    pub rows: Vec<Vec<Option<Spot>>>,
}

/// A point of a [`Coverage`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    /// Wideband SINR in dB.
    pub sinr_db: f32,
    /// The strongest cell.
    pub cell: u8,
}

impl Coverage {
    /// Computes the map.
    pub fn new(layout: &Layout, deployment: &Deployment, downlink: &DownlinkConfig) -> Self {
        let step_m = layout.inter_site_distance_m() / POINTS_PER_DISTANCE;
        // The hexagon around a site reaches 1/√3 of the distance from it.
        let reach = layout.inter_site_distance_m() / libm::sqrt(3.0);
        let (mut low, mut high) = (Point::default(), Point::default());
        for site in layout.sites() {
            low = Point { x_m: low.x_m.min(site.x_m - reach), y_m: low.y_m.min(site.y_m - reach) };
            high = Point { x_m: high.x_m.max(site.x_m + reach), y_m: high.y_m.max(site.y_m + reach) };
        }
        let count = |from: f64, to: f64| libm::ceil((to - from) / step_m) as usize + 1;
        let (columns, rows) = (count(low.x_m, high.x_m), count(low.y_m, high.y_m));
        let power_mw = libm::pow(10.0, downlink.power_dbm / 10.0) / f64::from(downlink.blocks);
        let noise_mw = f64::from(noise_per_block_mw(downlink.noise_figure_db));
        let spot = |at: Point| {
            let none = Shadowing::none();
            let gains = mean_gains(layout, deployment, at, &none).map(|gain| f64::from(gain) * power_mw);
            let (cell, best) = gains.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
            let sinr = best / (gains.iter().sum::<f64>() - best + noise_mw);
            let is_inside = layout.contains(at);
            is_inside.then(|| Spot { sinr_db: (10.0 * libm::log10(sinr)) as f32, cell: cell as u8 })
        };
        let row = |row: usize| {
            let y_m = low.y_m + row as f64 * step_m;
            (0..columns).map(|column| spot(Point { x_m: low.x_m + column as f64 * step_m, y_m })).collect()
        };
        Self { step_m, origin: low, rows: (0..rows).map(row).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radio::layout::CELLS;

    #[test]
    fn cells_are_equally_large_and_strong_in_front_of_their_antenna() {
        let deployment = Deployment::case_1();
        let layout = Layout::hexagonal(deployment.inter_site_distance_m);
        let map = Coverage::new(&layout, &deployment, &DownlinkConfig::default());
        let spots: Vec<Spot> = map.rows.iter().flatten().flatten().copied().collect();
        // Seven hexagons.
        let area = spots.len() as f64 * map.step_m * map.step_m;
        let expected = 7.0 * libm::sqrt(3.0) / 2.0 * 500.0 * 500.0;
        assert!((area / expected - 1.0).abs() < 0.01, "{area} m², not {expected} m²");
        for cell in 0..CELLS {
            let share = spots.iter().filter(|spot| usize::from(spot.cell) == cell).count() as f64
                / spots.len() as f64;
            assert!((share * 21.0 - 1.0).abs() < 0.05, "cell {cell} has {share}");
            let ahead = layout.sites()[layout.site_of(cell)].moved(100.0, layout.boresight_rad(cell));
            let at = |value: f64, low: f64| libm::round((value - low) / map.step_m) as usize;
            let spot = map.rows[at(ahead.y_m, map.origin.y_m)][at(ahead.x_m, map.origin.x_m)].unwrap();
            assert_eq!(usize::from(spot.cell), cell);
            // Two sectors of the site, 20 dB down each: 17 dB, less the other sites.
            assert!((13.0..17.0).contains(&spot.sinr_db), "{} dB", spot.sinr_db);
        }
    }
}
