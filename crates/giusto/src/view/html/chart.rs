//! The model of a chart. It says what is drawn; `page.js` and `page.css` decide how it looks.

use serde::Serialize;

/// A line with more points is thinned to about this many; peaks and troughs stay.
const MAX_POINTS: usize = 2000;

/// Significant digits of a coordinate: a chart of 1000 pixels cannot show more.
const DIGITS: i32 = 5;

/// The points of a line: inline, or a reference into the record that the page embeds.
///
/// # Example
///
/// ```
/// use giusto::view::html::{Points, Series};
///
/// let inline = Series::line("received", vec![(0.0, 1.5), (1.0, 2.5)]);
/// let referenced = Series::line(
///     "received",
///     Points::in_record("/timeline/t_s", "/timeline/flows/0/received_rate_bps").scaled(1e-6),
/// );
/// assert_ne!(inline, referenced);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Points {
    /// Coordinates, from the left. The line is broken where y is not a number.
    Inline {
        /// The x coordinates.
        x: Vec<f64>,
        /// The y coordinates.
        y: Vec<f64>,
    },
    /// JSON pointers (RFC 6901) to two arrays of numbers of the same length in the page's record.
    InRecord {
        /// The x coordinates.
        x: String,
        /// The y coordinates.
        y: String,
        /// Each y coordinate is multiplied by this number.
        scale: f64,
        /// How nulls are drawn.
        gaps: Gaps,
    },
}

/// How a line is drawn where the record holds no value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Gaps {
    /// The line is broken.
    #[default]
    Break,
    /// The line goes on over up to five missing values, and is broken by more.
    BridgeShort,
    /// The line goes on to the next value.
    Bridge,
    /// The value is zero.
    Zero,
}

impl Points {
    /// Points that the page's record holds: JSON pointers (RFC 6901) to the x and the y coordinates.
    /// [`Report::with_record`](super::Report::with_record) embeds the record.
    pub fn in_record(x: impl Into<String>, y: impl Into<String>) -> Self {
        Self::InRecord { x: x.into(), y: y.into(), scale: 1.0, gaps: Gaps::Break }
    }

    /// Sets how nulls in the record are drawn; by default the line is broken.
    #[must_use]
    pub fn with_gaps(mut self, drawn: Gaps) -> Self {
        if let Self::InRecord { gaps, .. } = &mut self {
            *gaps = drawn;
        }
        self
    }

    /// The same points with other y coordinates in the record.
    #[must_use]
    pub(super) fn at(mut self, pointer: String) -> Self {
        if let Self::InRecord { y, .. } = &mut self {
            *y = pointer;
        }
        self
    }

    /// Multiplies each y coordinate by `factor`, for example to show a ratio in percent.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        match &mut self {
            Self::Inline { y, .. } => y.iter_mut().for_each(|y| *y *= factor),
            Self::InRecord { scale, .. } => *scale *= factor,
        }
        self
    }
}

/// A long line is thinned, and coordinates are rounded: a chart cannot show more.
impl From<Vec<(f64, f64)>> for Points {
    fn from(points: Vec<(f64, f64)>) -> Self {
        let points = thinned(points, MAX_POINTS).into_iter();
        let (x, y) = points.map(|(x, y)| (significant(x), significant(y))).unzip();
        Self::Inline { x, y }
    }
}

/// One thing that a chart draws.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Series {
    /// A line through points.
    Line {
        /// Its name in the legend.
        name: String,
        /// Its points.
        points: Points,
    },
    /// A range around a line, filled.
    Band {
        /// The place of the line among the series of the chart.
        of: usize,
        /// Its lower end.
        low: Points,
        /// Its upper end.
        high: Points,
    },
    /// Labelled values, each with an interval.
    Estimates {
        /// Their name in the legend.
        name: String,
        /// Label, value, low end and high end of the interval.
        estimates: Vec<(String, f64, f64, f64)>,
    },
    /// Amounts stacked on each other; each holds until the next point.
    Stacked {
        /// Its name in the legend.
        name: String,
        /// Its points; all stacked series of a chart have the same x.
        points: Points,
    },
    /// A limit of the other series, such as a capacity; each value holds until the next point.
    Limit {
        /// Its name in the legend.
        name: String,
        /// Its points.
        points: Points,
    },
    /// Marks at moments, each with a text that is shown while the pointer is over it.
    Events {
        /// Their name in the legend.
        name: String,
        /// The marks, from the left.
        events: Vec<Event>,
    },
    /// A histogram, drawn as steps.
    Steps {
        /// Its name in the legend.
        name: String,
        /// Lower bound, upper bound and count of each class.
        classes: Vec<(f64, f64, u64)>,
    },
    /// Horizontal bars.
    Bars {
        /// Their name in the legend.
        name: String,
        /// Label, length, and the text at the end of the bar.
        bars: Vec<(String, f64, String)>,
    },
}

impl Series {
    /// A line through points.
    pub fn line(name: impl Into<String>, points: impl Into<Points>) -> Self {
        Self::Line { name: name.into(), points: points.into() }
    }

    /// Amounts that are stacked on those of the other stacked series.
    pub fn stacked(name: impl Into<String>, points: impl Into<Points>) -> Self {
        Self::Stacked { name: name.into(), points: points.into() }
    }

    /// A limit of the other series, such as a capacity.
    pub fn limit(name: impl Into<String>, points: impl Into<Points>) -> Self {
        Self::Limit { name: name.into(), points: points.into() }
    }
}

/// A mark at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// The x coordinate.
    pub x: f64,
    /// The y coordinate.
    pub y: f64,
    /// The text that is shown while the pointer is over the mark.
    pub text: String,
    /// The name that stands beside the mark, if any. All marks of a chart have one or none has.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
}

/// A straight line across the chart, such as a target, with its name in the legend.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "axis", content = "at")]
#[non_exhaustive]
pub enum Mark {
    /// A vertical line at this x.
    #[serde(rename = "x")]
    AtX(f64, String),
    /// A horizontal line at this y; in a chart of bars or estimates, a line at this value.
    #[serde(rename = "y")]
    AtY(f64, String),
}

/// An axis.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Scale {
    /// The quantity, with its unit unless `unit` gives it.
    pub title: String,
    /// The unit of the values. `bit/s`, `B` and `s` are written with the prefix that fits the largest value, a `ratio`
    /// is written in percent.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub unit: &'static str,
    /// Whether the axis is logarithmic.
    pub logarithmic: bool,
    /// Whether the axis begins at zero.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_zero: bool,
    /// The range that is shown; by default that of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<(f64, f64)>,
    /// The places of the tick labels with their texts; by default round numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ticks: Vec<(f64, String)>,
}

giusto_units::defaults! {
    /// A chart with its heading and its caption.
    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub struct Chart {
        /// The heading.
        pub title: String = title.into(),
        /// A sentence below the heading.
        pub caption: String = caption.into(),
        /// What is drawn. A chart holds either bars and estimates, or series of the other kinds.
        pub series: Vec<Series> = Vec::new(),
        /// Straight lines across the chart.
        pub marks: Vec<Mark> = Vec::new(),
        /// The horizontal axis. Charts of bars and estimates have none: they draw the values along the horizontal.
        pub x: Scale = Scale::default(),
        /// The axis of the values.
        pub y: Scale = Scale::default(),
        /// Whether the chart fills the width of the page.
        pub full_width: bool = false,
    }
    /// A chart without series.
    pub fn new(title: impl Into<String>, caption: impl Into<String>);
}

impl Chart {
    /// Sets the quantities of the axes, with their units.
    #[must_use]
    pub fn with_axes(mut self, x: impl Into<String>, y: impl Into<String>) -> Self {
        self.x.title = x.into();
        self.y.title = y.into();
        self
    }

    /// Makes the x axis logarithmic.
    #[must_use]
    pub fn with_log_x(mut self) -> Self {
        self.x.logarithmic = true;
        self
    }

    /// Makes the axis of the values logarithmic.
    #[must_use]
    pub fn with_log_y(mut self) -> Self {
        self.y.logarithmic = true;
        self
    }

    /// A wide chart over time of a quantity in `unit`; without a unit its axis need not begin at zero.
    pub(super) fn over_time<T: Into<String>>(
        title: T,
        caption: &str,
        quantity: &str,
        unit: &'static str,
    ) -> Self {
        let mut chart = Self::new(title, caption).with_axes("time (s)", quantity).with_full_width();
        (chart.y.unit, chart.y.from_zero) = (unit, !unit.is_empty());
        chart
    }

    /// Gives the chart the full width of the page.
    #[must_use]
    pub fn with_full_width(mut self) -> Self {
        self.full_width = true;
        self
    }

    /// Adds a series.
    #[must_use]
    pub fn with_series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a straight line.
    #[must_use]
    pub fn with_mark(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }
}

/// At most about `limit` of `points`: the lowest and the highest of each stretch, and its break if it has one.
fn thinned(points: Vec<(f64, f64)>, limit: usize) -> Vec<(f64, f64)> {
    if points.len() <= limit {
        return points;
    }
    let stretch = points.len().div_ceil((limit / 2).max(1));
    let mut kept = Vec::with_capacity(limit + 2);
    for part in points.chunks(stretch) {
        let finite = || part.iter().copied().enumerate().filter(|(_, point)| point.1.is_finite());
        let low = finite().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let high = finite().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let gap = part.iter().copied().enumerate().find(|(_, point)| !point.1.is_finite());
        let mut stretch: Vec<(usize, (f64, f64))> = [low, high, gap].into_iter().flatten().collect();
        crate::order::sort_by_key(&mut stretch, |(place, _)| *place);
        kept.extend(stretch.into_iter().map(|(_, point)| point));
    }
    kept
}

/// `value` with [`DIGITS`] significant digits: more would be bytes that nobody sees.
pub(super) fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let decimals = DIGITS - 1 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(decimals.abs());
    // Dividing an integer by a power of ten gives the closest number to the decimal, which is written with few digits.
    if decimals >= 0 { (value * scale).round() / scale } else { (value / scale).round() * scale }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_line_is_thinned_and_keeps_peak_trough_and_break() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), 1.0)).collect();
        points[34_321].1 = 9.0;
        points[50_003].1 = f64::NAN;
        points[77_777].1 = -9.0;
        let kept = thinned(points.clone(), MAX_POINTS);
        assert!((MAX_POINTS / 2..=MAX_POINTS + 2).contains(&kept.len()), "{}", kept.len());
        assert!(kept.contains(&(34_321.0, 9.0)) && kept.contains(&(77_777.0, -9.0)));
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
        // A break stays one.
        let breaks: Vec<f64> = kept.iter().filter(|point| point.1.is_nan()).map(|point| point.0).collect();
        let before = kept.iter().filter(|point| point.0 < 50_003.0).count() as f64 / kept.len() as f64;
        assert!(breaks == [50_003.0] && (0.45..=0.55).contains(&before), "{breaks:?} {before}");
        assert_eq!(thinned(points[..5].to_vec(), MAX_POINTS), points[..5]);
    }

    #[test]
    fn coordinates_are_written_with_five_digits() {
        let points =
            Points::from(vec![(0.1 + 0.2, 1_234_567.891), (1.0 / 3.0, f64::NAN), (-0.0, 5e-9 / 3.0)]);
        let json = serde_json::to_string(&points).unwrap();
        assert_eq!(json, r#"{"x":[0.3,0.33333,-0.0],"y":[1234600.0,null,1.6667e-9]}"#);
    }

    #[test]
    fn points_can_refer_to_the_record() {
        let points = Points::in_record("/t_s", "/flows/0/rate_bps").with_gaps(Gaps::Bridge);
        let series = Series::line("rate", points.scaled(1e-6));
        let expected = json!({
            "kind": "line",
            "name": "rate",
            "points": {"x": "/t_s", "y": "/flows/0/rate_bps", "scale": 1e-6, "gaps": "bridge"},
        });
        assert_eq!(serde_json::to_value(series).unwrap(), expected);
        let inline = Points::from(vec![(1.0, 2.0)]).scaled(3.0);
        assert_eq!(inline, Points::Inline { x: vec![1.0], y: vec![6.0] });
    }

    #[test]
    fn a_chart_is_serialised_with_its_marks_and_axes() {
        let bars = vec![("l".to_owned(), 2.0, "2".to_owned())];
        let mut chart = Chart::new("t", "c")
            .with_axes("time (s)", "rate")
            .with_log_y()
            .with_series(Series::Bars { name: "b".to_owned(), bars })
            .with_mark(Mark::AtY(1.5, "limit".to_owned()));
        chart.y.range = Some((0.5, 3.0));
        let value = serde_json::to_value(&chart).unwrap();
        assert_eq!(value["marks"], json!([{"axis": "y", "at": [1.5, "limit"]}]));
        assert_eq!(value["series"][0], json!({"kind": "bars", "name": "b", "bars": [["l", 2.0, "2"]]}));
        assert_eq!(value["x"], json!({"title": "time (s)", "logarithmic": false}));
        assert_eq!(value["y"], json!({"title": "rate", "logarithmic": true, "range": [0.5, 3.0]}));
    }
}
