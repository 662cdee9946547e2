//! Sites, sectors and wrap-around.
//!
//! Seven sites form a hexagonal grid: one in the middle and six around it at the inter-site distance. Each site has three sectors,
//! so that there are 21 cells. Sector bearings are 30, 150 and 270 degrees (TR 25.996 §5.3 and TR 36.814 §A.2.1.1, recalled), and
//! each points at a neighbouring site ("towards the flat side" of the site's hexagon).
//!
//! The area wraps around: the cluster of seven sites is repeated six times, translated by vectors of length √7 times the inter-site
//! distance. Distances and bearings are those to the nearest image of a site, so that every cell sees two rings of interferers.

use std::f64::consts::{FRAC_PI_6, PI};

use giusto_sim::random::Random;
use rand::RngExt;

/// Number of sites.
pub const SITES: usize = 7;

/// Number of sectors of a site.
pub const SECTORS: usize = 3;

/// Number of cells.
pub const CELLS: usize = SITES * SECTORS;

/// Shortest distance between a user and a site, m (TR 36.814 table A.2.1.1-1: "minimum distance between UE and cell >= 35 m").
pub const MINIMUM_DISTANCE_M: f64 = 35.0;

/// A place in the plane.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// East, m.
    pub x_m: f64,
    /// North, m.
    pub y_m: f64,
}

impl Point {
    /// Returns the point that is `distance_m` away in the direction `bearing_rad` (0 is east, π/2 is north).
    #[must_use]
    pub fn moved(self, distance_m: f64, bearing_rad: f64) -> Self {
        let (sine, cosine) = libm::sincos(bearing_rad);
        Self { x_m: self.x_m + distance_m * cosine, y_m: self.y_m + distance_m * sine }
    }

    fn minus(self, other: Self) -> Self {
        Self { x_m: self.x_m - other.x_m, y_m: self.y_m - other.y_m }
    }

    fn plus(self, other: Self) -> Self {
        Self { x_m: self.x_m + other.x_m, y_m: self.y_m + other.y_m }
    }

    fn length_squared(self) -> f64 {
        self.x_m * self.x_m + self.y_m * self.y_m
    }
}

/// Seven sites with three sectors each, repeated in all directions.
#[derive(Debug, Clone)]
pub struct Layout {
    inter_site_distance_m: f64,
    sites: [Point; SITES],
    /// The images of the area: itself first, then the six around it.
    images: [Point; 7],
}

impl Layout {
    /// Returns the layout with an inter-site distance of `inter_site_distance_m`, m. Site 0 is at the origin.
    ///
    /// A distance of less than 100 m, which would leave hardly any room beside [`MINIMUM_DISTANCE_M`], counts as 100 m.
    pub fn hexagonal(inter_site_distance_m: f64) -> Self {
        let distance = if inter_site_distance_m >= 100.0 { inter_site_distance_m } else { 100.0 };
        let origin = Point::default();
        // A neighbour at 30 degrees and every 60 degrees from there.
        let around = |length: f64, first: f64| {
            std::array::from_fn(|i| {
                if i == 0 { origin } else { origin.moved(length, first + (i - 1) as f64 * PI / 3.0) }
            })
        };
        // The image is at 2 e1 + e2, where e1 and e2 are neighbours 60 degrees apart: its length is √7, and it is turned from e1 by
        // the angle whose tangent is √3/5.
        let turn = libm::atan2(libm::sqrt(3.0), 5.0);
        Self {
            inter_site_distance_m: distance,
            sites: around(distance, FRAC_PI_6),
            images: around(distance * libm::sqrt(7.0), FRAC_PI_6 + turn),
        }
    }

    /// Returns the inter-site distance, m.
    pub fn inter_site_distance_m(&self) -> f64 {
        self.inter_site_distance_m
    }

    /// Returns the sites; site `i` has the cells `3 i` to `3 i + 2`.
    pub fn sites(&self) -> &[Point] {
        &self.sites
    }

    /// Returns the number of cells.
    pub fn cells(&self) -> usize {
        CELLS
    }

    /// Returns the site of the cell `cell`.
    pub fn site_of(&self, cell: usize) -> usize {
        cell / SECTORS
    }

    /// Returns the direction in which the antenna of the cell `cell` points, rad (0 is east).
    pub fn boresight_rad(&self, cell: usize) -> f64 {
        FRAC_PI_6 + (cell % SECTORS) as f64 * (2.0 * PI / 3.0)
    }

    /// Returns the distance (m) and the bearing (rad, from the site to the point) from the nearest image of `site` to `at`, which
    /// must be in the area.
    ///
    /// A site that does not exist is infinitely far away.
    pub fn to_site(&self, site: usize, at: Point) -> (f64, f64) {
        let Some(&site) = self.sites.get(site) else { return (f64::INFINITY, 0.0) };
        let nearest = self.nearest_image(at.minus(site)).1;
        (libm::sqrt(nearest.length_squared()), libm::atan2(nearest.y_m, nearest.x_m))
    }

    /// Whether `at` is in the area, i.e. nearer to one of the sites than to any image of one.
    pub fn contains(&self, at: Point) -> bool {
        self.wrap(at) == at
    }

    /// Returns the place in the area that `at` is an image of, at most one area away.
    pub fn wrap(&self, at: Point) -> Point {
        let mut best = (f64::INFINITY, Point::default());
        for site in &self.sites {
            let (image, offset) = self.nearest_image(at.minus(*site));
            let distance = offset.length_squared();
            // A tie (a point on a border) stays where it is.
            if distance < best.0 - 1e-6 || (distance < best.0 + 1e-6 && image == Point::default()) {
                best = (distance, image);
            }
        }
        at.minus(best.1)
    }

    /// Draws a place, evenly distributed over the area, at least [`MINIMUM_DISTANCE_M`] from every site.
    pub fn random_point(&self, random: &mut Random) -> Point {
        let site = self.sites.get(random.random_range(0..SITES)).copied().unwrap_or_default();
        let reach = self.inter_site_distance_m / libm::sqrt(3.0);
        let apothem = self.inter_site_distance_m / 2.0;
        loop {
            let at = Point {
                x_m: random.random_range(-1.0..1.0) * reach,
                y_m: random.random_range(-1.0..1.0) * reach,
            };
            let inside = (0..3).all(|side| {
                let (sine, cosine) = libm::sincos(FRAC_PI_6 + f64::from(side) * PI / 3.0);
                (at.x_m * cosine + at.y_m * sine).abs() < apothem
            });
            if inside && at.length_squared() >= MINIMUM_DISTANCE_M * MINIMUM_DISTANCE_M {
                return site.plus(at);
            }
        }
    }

    /// Of the images of the area, the one from which `offset` is shortest, and the offset from there.
    fn nearest_image(&self, offset: Point) -> (Point, Point) {
        let mut best = (Point::default(), offset);
        let mut shortest = offset.length_squared();
        for &image in &self.images {
            let candidate = offset.minus(image);
            let length = candidate.length_squared();
            if length < shortest {
                shortest = length;
                best = (image, candidate);
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use giusto_sim::random;

    use super::*;

    #[test]
    fn every_site_has_six_neighbours_at_the_inter_site_distance() {
        let layout = Layout::hexagonal(500.0);
        for &site in layout.sites() {
            let distances: Vec<f64> = (0..SITES).map(|other| layout.to_site(other, site).0).collect();
            assert_eq!(distances.iter().filter(|d| **d < 1e-6).count(), 1, "{distances:?}");
            assert_eq!(distances.iter().filter(|d| (**d - 500.0).abs() < 1e-6).count(), 6, "{distances:?}");
        }
    }

    #[test]
    fn wrapping_brings_images_back() {
        let layout = Layout::hexagonal(500.0);
        let mut random = random::stream(1, "wrap");
        for _ in 0..500 {
            let inside = layout.random_point(&mut random);
            assert!(layout.contains(inside), "{inside:?}");
            for image in layout.images {
                let outside = inside.plus(image);
                let back = layout.wrap(outside);
                assert!(
                    back.minus(inside).length_squared() < 1e-12,
                    "{outside:?} -> {back:?}, not {inside:?}"
                );
                for site in 0..SITES {
                    let (here, there) = (layout.to_site(site, inside), layout.to_site(site, back));
                    assert!((here.0 - there.0).abs() < 1e-6, "{here:?} {there:?}");
                    assert!(here.0 < 500.0 * libm::sqrt(7.0 / 3.0), "an image must be nearer: {here:?}");
                }
            }
        }
    }

    #[test]
    fn points_are_even_over_the_area_and_not_too_near() {
        let layout = Layout::hexagonal(500.0);
        let mut random = random::stream(1, "points");
        let count = 20_000;
        // A third of the ideal circle's radius: the share of the area within r of a site is π r² / (√3/2 ISD²).
        let mut within_150 = 0;
        for _ in 0..count {
            let at = layout.random_point(&mut random);
            let nearest = (0..SITES).map(|s| layout.to_site(s, at).0).fold(f64::INFINITY, f64::min);
            assert!((MINIMUM_DISTANCE_M..=500.0 / libm::sqrt(3.0)).contains(&nearest), "{nearest}");
            within_150 += usize::from(nearest < 150.0);
        }
        let hole = PI * 35.0 * 35.0;
        let expected = (PI * 150.0 * 150.0 - hole) / (libm::sqrt(3.0) / 2.0 * 250_000.0 - hole);
        let share = f64::from(u32::try_from(within_150).unwrap()) / f64::from(count);
        assert!((share - expected).abs() < 0.015, "{share} against {expected}");
    }

    #[test]
    fn boresights_point_at_neighbours() {
        let layout = Layout::hexagonal(1732.0);
        for (cell, degrees) in [(0, 30.0_f64), (4, 150.0), (8, 270.0)] {
            assert!((layout.boresight_rad(cell).to_degrees() - degrees).abs() < 1e-9);
            let ahead = layout.sites()[layout.site_of(cell)].moved(1732.0, layout.boresight_rad(cell));
            assert!((0..SITES).any(|site| layout.to_site(site, ahead).0 < 1e-6), "cell {cell}");
        }
    }
}
