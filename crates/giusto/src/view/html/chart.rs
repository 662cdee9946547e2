//! Plots: what they show is said here, how they look is the same for all.

use plotly::{
    Bar, Configuration, Layout, Plot, Scatter,
    common::{
        Anchor, DashType, ErrorData, ErrorType, Fill, Font, HoverInfo, Label, Line, LineShape, Marker,
        MarkerSymbol, Mode, Orientation, Pattern, PatternShape, TextPosition, Title,
    },
    configuration::{DisplayModeBar, ModeBarButtonName},
    layout::{
        Annotation, Axis, AxisType, BarMode, DragMode, HoverMode, Legend, Margin, Shape, ShapeLayer,
        ShapeLine, ShapeType,
    },
};

/// Colours that tell series apart on light and on dark ground, also for eyes that see red and green alike
/// (after Okabe and Ito, *Color Universal Design*, 2008, darkened where white ground needs it).
const COLOURS: [&str; 7] = ["#1f83c9", "#d9670b", "#12936b", "#b85c97", "#a97f00", "#7d7d8c", "#5a4fcf"];

/// The same where all lines of several plots are told by colour alone: without orange, which is that of what bounds them. The last
/// four are for those who compare more than six things; not every eye tells them from the others.
const KEYED_COLOURS: [&str; 10] = [
    "#7d7d8c", "#1f83c9", "#12936b", "#b85c97", "#a97f00", "#5a4fcf", "#7a5230", "#4aa5b8", "#a3243b",
    "#6f8f1f",
];

const DASHES: [DashType; 7] = [
    DashType::Solid,
    DashType::Dash,
    DashType::DashDot,
    DashType::Dot,
    DashType::LongDash,
    DashType::LongDashDot,
    DashType::Solid,
];
const SYMBOLS: [MarkerSymbol; 6] = [
    MarkerSymbol::Circle,
    MarkerSymbol::Diamond,
    MarkerSymbol::Square,
    MarkerSymbol::TriangleUp,
    MarkerSymbol::Cross,
    MarkerSymbol::X,
];
const PATTERNS: [PatternShape; 6] = [
    PatternShape::None,
    PatternShape::RightDiagonalLine,
    PatternShape::Dot,
    PatternShape::HorizontalLine,
    PatternShape::Cross,
    PatternShape::VerticalLine,
];

/// A line through more points is solid, whatever its place.
const MOST_DASHED: usize = 250;

/// The colour of what says where something should be.
const MARK_COLOUR: &str = "#c2410c";

/// The cursor: seen on light and on dark ground.
const CURSOR_COLOUR: &str = "#808893";

/// Room for the numbers and the title of a y axis that is linked with others.
const CURSOR_LEFT: usize = 62;

/// A line may hold this many points; a longer one is thinned so that its peaks stay.
const MAX_POINTS: usize = 2000;

/// What is drawn of one thing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Series {
    /// A line through points; it is broken where a value is no number.
    Line {
        /// What it is.
        name: String,
        /// Its points, from the left.
        points: Vec<(f64, f64)>,
    },
    /// Points, each with the least and the largest value that it may have.
    Points {
        /// What they are.
        name: String,
        /// Label, value, least, largest.
        points: Vec<(String, f64, f64, f64)>,
    },
    /// Amounts that lie on top of each other, each until the next point.
    Stacked {
        /// What it is.
        name: String,
        /// Its points, from the left; all stacked series of a plot have the same x.
        points: Vec<(f64, f64)>,
    },
    /// What bounds the others, such as a capacity: it holds until the next point. It is named in the plot, on linear axes.
    Limit {
        /// What it is.
        name: String,
        /// Its points, from the left.
        points: Vec<(f64, f64)>,
    },
    /// Marks at single moments, each with a text to be seen when it is pointed at.
    Events {
        /// What they are.
        name: String,
        /// From the left.
        events: Vec<Event>,
    },
    /// Classes with their counts, drawn as steps.
    Steps {
        /// What it is.
        name: String,
        /// Begin, end, count.
        classes: Vec<(f64, f64, u64)>,
    },
    /// Bars, each with its label and the text at its end.
    Bars {
        /// What they are.
        name: String,
        /// Label, length, text at the end.
        bars: Vec<(String, f64, String)>,
    },
}

/// A mark at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Where, from left to right.
    pub(crate) x: f64,
    /// Where, from below.
    pub(crate) y: f64,
    /// What it says.
    pub text: String,
}

/// A straight line across the plot that says where something should be.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Mark {
    /// An upright line at this x.
    AtX(f64, String),
    /// A level line at this y.
    AtY(f64, String),
}

/// An axis: what it shows, in which unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scale {
    /// The quantity and its unit.
    pub title: String,
    /// Whether it is logarithmic.
    pub logarithmic: bool,
    /// Its ends; automatic if `None`.
    pub range: Option<(f64, f64)>,
    /// Labelled positions; automatic if empty.
    pub ticks: Vec<(f64, String)>,
}

/// A plot with its heading and its caption.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Its heading.
    pub(crate) title: String,
    /// What to see in it, in a sentence.
    pub caption: String,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Where things should be.
    pub marks: Vec<Mark>,
    /// The horizontal axis.
    pub x: Scale,
    /// The vertical axis.
    pub y: Scale,
    pub(crate) full_width: bool,
    /// Where the cursor of a [`Linked`](super::Linked) plot stands at first.
    pub(crate) cursor: Option<f64>,
    /// Whether the names of the lines, and their values at the cursor, stand elsewhere on the page.
    pub(crate) keyed_elsewhere: bool,
}

impl Chart {
    /// An empty plot.
    pub fn new(title: impl Into<String>, caption: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            caption: caption.into(),
            series: Vec::new(),
            marks: Vec::new(),
            x: Scale::default(),
            y: Scale::default(),
            full_width: false,
            cursor: None,
            keyed_elsewhere: false,
        }
    }

    /// The same plot with what its axes show, units included.
    #[must_use]
    pub fn with_axes(mut self, x: impl Into<String>, y: impl Into<String>) -> Self {
        self.x.title = x.into();
        self.y.title = y.into();
        self
    }

    /// The same plot with a logarithmic x axis.
    #[must_use]
    pub fn with_log_x(mut self) -> Self {
        self.x.logarithmic = true;
        self
    }

    /// The same plot with a logarithmic y axis.
    #[must_use]
    pub fn with_log_y(mut self) -> Self {
        self.y.logarithmic = true;
        self
    }

    /// The same plot with a line of its own.
    #[must_use]
    pub fn with_full_width(mut self) -> Self {
        self.full_width = true;
        self
    }

    /// The same plot, linked with others: a line of its own, an x axis that begins where theirs begin, and a cursor at `x`.
    #[must_use]
    pub(crate) fn with_cursor(mut self, x: f64) -> Self {
        self.cursor = Some(x);
        self.full_width = true;
        self
    }

    /// The same plot without legend and without labels at the pointer.
    #[must_use]
    pub(crate) fn keyed_elsewhere(mut self) -> Self {
        self.keyed_elsewhere = true;
        self
    }

    /// The same plot with one more series.
    #[must_use]
    pub fn with_series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// The same plot with a mark.
    #[must_use]
    pub fn with_mark(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }

    /// What the plot shows, for those who cannot see it.
    pub(crate) fn alt(&self) -> String {
        let names: Vec<&str> = self.series.iter().map(Series::name).filter(|name| !name.is_empty()).collect();
        let mut parts = vec![format!("Plot: {}. {}", self.title, self.caption)];
        if !self.y.title.is_empty() && !self.x.title.is_empty() {
            parts.push(format!("{} over {}.", self.y.title, self.x.title));
        }
        if names.len() > 1 {
            parts.push(format!("Series: {}.", names.join(", ")));
        }
        parts.join(" ")
    }

    /// Whether it names so many things along its x axis that it needs the whole width.
    pub(crate) fn is_wide(&self) -> bool {
        const MOST_BARS: usize = 6;
        let named = self.series.iter().map(|series| match series {
            Series::Bars { bars, .. } => bars.len(),
            Series::Points { points, .. } => points.len(),
            _ => 0,
        });
        named.sum::<usize>() > MOST_BARS
    }

    pub(crate) fn to_plot(&self) -> Plot {
        let mut plot = Plot::new();
        for (index, series) in self.series.iter().enumerate() {
            add(&mut plot, series, (index, self.keyed_elsewhere));
        }
        plot.set_layout(self.layout());
        plot.set_configuration(
            Configuration::new()
                .responsive(true)
                .display_logo(false)
                .display_mode_bar(DisplayModeBar::Hover)
                .mode_bar_buttons_to_remove(vec![
                    ModeBarButtonName::Zoom2d,
                    ModeBarButtonName::Pan2d,
                    ModeBarButtonName::Select2d,
                    ModeBarButtonName::Lasso2d,
                    ModeBarButtonName::ZoomIn2d,
                    ModeBarButtonName::ZoomOut2d,
                    ModeBarButtonName::AutoScale2d,
                ])
                .typeset_math(false),
        );
        plot
    }

    fn layout(&self) -> Layout {
        let bars = self.series.iter().any(|series| matches!(series, Series::Bars { .. }));
        let legend = Legend::new()
            .orientation(Orientation::Horizontal)
            .x(0.0)
            .x_anchor(Anchor::Left)
            .y(1.02)
            .y_anchor(Anchor::Bottom);
        let mut layout = Layout::new()
            .auto_size(true)
            .margin(Margin::new().left(12).right(18).top(26).bottom(12).auto_expand(true))
            .paper_background_color("rgba(0,0,0,0)")
            .plot_background_color("rgba(0,0,0,0)")
            .font(Font::new().family("system-ui, sans-serif").size(12).color("#545d6b"))
            .hover_label(Label::new().font(Font::new().family("system-ui, sans-serif").size(12)))
            .hover_mode(match (bars, self.keyed_elsewhere) {
                (true, _) => HoverMode::Closest,
                (false, true) => HoverMode::X,
                (false, false) => HoverMode::XUnified,
            })
            .show_legend(self.series.len() > 1 && !self.keyed_elsewhere)
            .legend(legend)
            .bar_mode(BarMode::Group)
            .bar_gap(0.28)
            .x_axis(axis(&self.x))
            .y_axis(axis(&self.y));
        if self.is_wide() {
            // On a narrow screen a wide plot is moved sideways: a finger across it is no wish to zoom.
            layout = layout.drag_mode(DragMode::False);
        }
        if let Some(x) = self.cursor {
            // However wide its numbers are, all of them begin at the same place. The script moves the first shape.
            layout = layout
                .margin(Margin::new().left(CURSOR_LEFT).right(18).top(26).bottom(12).auto_expand(true))
                .y_axis(axis(&self.y).auto_margin(false));
            let line = ShapeLine::new().color(CURSOR_COLOUR).width(1.0);
            let shape = Shape::new().shape_type(ShapeType::Line).line(line).layer(ShapeLayer::Above);
            layout.add_shape(shape.x_ref("x").y_ref("paper").x0(x).x1(x).y0(0.0).y1(1.0));
        }
        let limits = self.series.iter().filter_map(|series| match series {
            Series::Limit { name, points } if !self.keyed_elsewhere => {
                Some((name, points.first()?, points.last()?))
            }
            _ => None,
        });
        for (index, (name, first, last)) in limits.enumerate() {
            // Each is named where it ends or begins, so that two of them stay apart.
            let at_end = index.is_multiple_of(2);
            let (&(x, y), anchor) = if at_end { (last, Anchor::Right) } else { (first, Anchor::Left) };
            layout.add_annotation(
                Annotation::new()
                    .show_arrow(false)
                    .font(Font::new().size(12))
                    .text(literal(name))
                    .x_ref("x")
                    .y_ref("y")
                    .x(x)
                    .y(y)
                    .x_anchor(anchor)
                    .y_anchor(Anchor::Bottom),
            );
        }
        for mark in &self.marks {
            let (shape, annotation) = self.mark(mark);
            layout.add_shape(shape);
            layout.add_annotation(annotation);
        }
        layout
    }

    fn mark(&self, mark: &Mark) -> (Shape, Annotation) {
        let line = ShapeLine::new().color(MARK_COLOUR).width(1.6).dash(DashType::Dash);
        let shape = Shape::new().shape_type(ShapeType::Line).line(line);
        let label = Annotation::new().show_arrow(false).font(Font::new().size(12));
        // On a logarithmic axis a shape is placed by its value, a label by the value's logarithm.
        let place = |value: f64, scale: &Scale| if scale.logarithmic { value.log10() } else { value };
        match mark {
            Mark::AtX(x, text) => (
                shape.layer(ShapeLayer::Above).x_ref("x").y_ref("paper").x0(*x).x1(*x).y0(0.0).y1(1.0),
                label
                    .text(literal(text))
                    .x_ref("x")
                    .y_ref("paper")
                    .x(place(*x, &self.x))
                    .y(1.0)
                    .x_anchor(Anchor::Left)
                    .y_anchor(Anchor::Top)
                    .x_shift(4.0),
            ),
            Mark::AtY(y, text) => (
                shape.layer(ShapeLayer::Below).x_ref("paper").y_ref("y").x0(0.0).x1(1.0).y0(*y).y1(*y),
                label
                    .text(literal(text))
                    .x_ref("paper")
                    .y_ref("y")
                    .x(1.0)
                    .y(place(*y, &self.y))
                    .x_anchor(Anchor::Right)
                    .y_anchor(Anchor::Bottom)
                    .y_shift(1.0),
            ),
        }
    }
}

impl Series {
    fn name(&self) -> &str {
        match self {
            Self::Line { name, .. }
            | Self::Stacked { name, .. }
            | Self::Limit { name, .. }
            | Self::Events { name, .. }
            | Self::Points { name, .. }
            | Self::Steps { name, .. }
            | Self::Bars { name, .. } => name,
        }
    }
}

fn axis(scale: &Scale) -> Axis {
    let mut axis = Axis::new()
        .title(Title::with_text(literal(&scale.title)))
        .auto_margin(true)
        .zero_line(false)
        .show_grid(true)
        .grid_color("#e8ebef")
        .line_color("#dde1e7");
    if scale.logarithmic {
        axis = axis.type_(AxisType::Log).dtick(1.0);
    }
    if let Some((low, high)) = scale.range {
        axis = if scale.logarithmic {
            axis.range(vec![low.log10(), high.log10()])
        } else {
            axis.range(vec![low, high])
        };
    }
    if !scale.ticks.is_empty() {
        axis = axis
            .tick_values(scale.ticks.iter().map(|(value, _)| *value).collect())
            .tick_text(scale.ticks.iter().map(|(_, text)| text.as_str()).collect());
    }
    axis
}

/// Adds `series`, the one at `index`; a `quiet` one has no labels at the pointer, and its colour alone tells it from others.
fn add(plot: &mut Plot, series: &Series, (index, quiet): (usize, bool)) {
    let colour = if quiet { keyed_colour(index) } else { of(&COLOURS, index).copied().unwrap_or("#1f83c9") };
    let line =
        Line::new().color(colour).width(2.0).dash(of(&DASHES, index).cloned().unwrap_or(DashType::Solid));
    let name = literal(series.name());
    match series {
        Series::Line { points, .. } => {
            let points = thinned(points, MAX_POINTS);
            // Between points that lie close a dash is not seen as one, but as noise.
            let line = if quiet || points.len() > MOST_DASHED {
                line.width(1.5).dash(DashType::Solid)
            } else {
                line
            };
            let (x, y) = points.into_iter().unzip();
            let trace = Scatter::new(x, y).name(name).mode(Mode::Lines).line(line);
            // Without a label the pointer is followed all the same.
            plot.add_trace(if quiet { trace.hover_info(HoverInfo::None) } else { trace });
        }
        Series::Stacked { points, .. } => {
            let (x, y) = points.iter().copied().unzip();
            let outline = line.width(0.8).dash(DashType::Solid).shape(LineShape::Hv);
            plot.add_trace(
                Scatter::new(x, y).name(name).mode(Mode::Lines).line(outline).stack_group("amounts"),
            );
        }
        Series::Limit { points, .. } => {
            let (x, y) = points.iter().copied().unzip();
            let dash = if index.is_multiple_of(2) { DashType::Dash } else { DashType::Dot };
            let outline = Line::new().color(MARK_COLOUR).width(1.6).dash(dash).shape(LineShape::Hv);
            let trace = Scatter::new(x, y).name(name).mode(Mode::Lines).line(outline).show_legend(false);
            plot.add_trace(if quiet { trace.hover_info(HoverInfo::Skip) } else { trace });
        }
        Series::Steps { classes, .. } => {
            let (x, y) = steps(classes);
            let outline = line.width(1.4).shape(LineShape::Hv);
            let trace = Scatter::new(x, y).name(name).mode(Mode::Lines).line(outline).fill(Fill::ToZeroY);
            plot.add_trace(trace);
        }
        Series::Events { events, .. } => {
            let (x, y) = events.iter().map(|event| (event.x, event.y)).unzip();
            let texts = events.iter().map(|event| literal(&event.text)).collect();
            let symbol = of(&SYMBOLS, index).cloned().unwrap_or(MarkerSymbol::Circle);
            let marker = Marker::new().color(colour).size(7).symbol(symbol).opacity(0.8);
            plot.add_trace(
                Scatter::new(x, y)
                    .name(name)
                    .mode(Mode::Markers)
                    .marker(marker)
                    .hover_text_array(texts)
                    .hover_info(HoverInfo::Text),
            );
        }
        Series::Points { points, .. } => {
            let labels: Vec<String> = points.iter().map(|(label, ..)| literal(label)).collect();
            let values = points.iter().map(|(_, value, ..)| *value).collect();
            let errors = ErrorData::new(ErrorType::Data)
                .array(points.iter().map(|(_, value, _, high)| high - value).collect())
                .array_minus(points.iter().map(|(_, value, low, _)| value - low).collect())
                .symmetric(false)
                .color(colour)
                .thickness(1.6)
                .width(5);
            let symbol = of(&SYMBOLS, index).cloned().unwrap_or(MarkerSymbol::Circle);
            let marker = Marker::new().color(colour).size(10).symbol(symbol);
            plot.add_trace(
                Scatter::new(labels, values).name(name).mode(Mode::Markers).marker(marker).error_y(errors),
            );
        }
        Series::Bars { bars, .. } => {
            let labels: Vec<String> = bars.iter().map(|(label, ..)| literal(label)).collect();
            let lengths = bars.iter().map(|(_, length, _)| *length).collect();
            let texts = bars.iter().map(|(.., text)| literal(text)).collect();
            let shape = of(&PATTERNS, index).cloned().unwrap_or(PatternShape::None);
            let marker =
                Marker::new().color(colour).pattern(Pattern::new().shape(shape).solidity(0.35).size(7.0));
            plot.add_trace(
                Bar::new(labels, lengths)
                    .name(name)
                    .marker(marker)
                    .text_array(texts)
                    .text_position(TextPosition::Outside)
                    .clip_on_axis(false),
            );
        }
    }
}

/// The colour of series `index` of plots that are [keyed elsewhere](Chart::keyed_elsewhere).
pub(crate) fn keyed_colour(index: usize) -> &'static str {
    of(&KEYED_COLOURS, index).copied().unwrap_or("#1f83c9")
}

/// The entry for series `index`; they repeat when there are more series than entries.
fn of<T>(entries: &[T], index: usize) -> Option<&T> {
    entries.get(index % entries.len().max(1))
}

/// Classes as the corners of steps. An empty class stays below one, so that a logarithmic axis can show that it is empty.
fn steps(classes: &[(f64, f64, u64)]) -> (Vec<f64>, Vec<f64>) {
    const EMPTY: f64 = 0.1;
    let mut x = Vec::with_capacity(classes.len() + 2);
    let mut y = Vec::with_capacity(classes.len() + 2);
    let mut end = None;
    for &(low, high, count) in classes {
        match end {
            Some(end) if end < low => {
                x.push(end);
                y.push(EMPTY);
            }
            Some(_) => {}
            None => {
                x.push(low);
                y.push(EMPTY);
            }
        }
        x.push(low);
        y.push(if count == 0 { EMPTY } else { count as f64 });
        end = Some(high);
    }
    if let Some(end) = end {
        x.push(end);
        y.push(EMPTY);
    }
    (x, y)
}

/// At most about `limit` of `points`: of each stretch the lowest and the highest, so that peaks stay.
fn thinned(points: &[(f64, f64)], limit: usize) -> Vec<(f64, f64)> {
    if points.len() <= limit {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil((limit / 2).max(1));
    let mut kept = Vec::with_capacity(limit + 2);
    for part in points.chunks(stretch) {
        let low = part.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        let high = part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let (Some(low), Some(high)) = (low, high) else { continue };
        kept.extend(if low.0 <= high.0 { [low, high] } else { [high, low] });
    }
    kept
}

/// The library reads a small markup in its texts: what is ours means itself, and a line break is one.
fn literal(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\n', "<br>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_thinned_and_keeps_its_peak_and_its_trough() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), 1.0)).collect();
        points[54_321].1 = 9.0;
        points[77_777].1 = -9.0;
        let kept = thinned(&points, MAX_POINTS);
        assert!((MAX_POINTS / 2..=MAX_POINTS + 2).contains(&kept.len()), "{}", kept.len());
        assert!(kept.contains(&(54_321.0, 9.0)));
        assert!(kept.contains(&(77_777.0, -9.0)));
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(thinned(&points[..5], MAX_POINTS), points[..5]);
    }

    #[test]
    fn steps_close_at_both_ends_and_over_holes() {
        let (x, y) = steps(&[(1.0, 2.0, 5), (4.0, 5.0, 7)]);
        assert_eq!(x, [1.0, 1.0, 2.0, 4.0, 5.0]);
        assert_eq!(y, [0.1, 5.0, 0.1, 7.0, 0.1]);
        assert_eq!(steps(&[]), (vec![], vec![]));
    }

    #[test]
    fn text_in_a_plot_means_itself() {
        let chart = Chart::new("t", "c").with_series(Series::Line {
            name: "<script>alert(1)</script>".to_owned(),
            points: vec![(0.0, 1.0)],
        });
        let json = chart.to_plot().to_json();
        assert!(!json.contains("<script>"), "{json}");
        assert!(json.contains("&lt;script&gt;"), "{json}");
    }
}
