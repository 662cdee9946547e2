//! Tables for the terminal.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle,
};

use crate::{
    measured::result::RunResult,
    statistics::{Part, Statistic},
    view::{
        figures::figures,
        format::{UNKNOWN, asked_rate, load, or_unknown, pair, percent, plural, ppm, rate, short},
    },
};

/// The width of tables that show all their columns.
pub const ALL: u16 = u16::MAX;

/// A line below the header, and no other lines.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none())
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none());

/// A column of a table whose rows are made from `T`.
pub struct Column<T> {
    /// At most two lines: the quantity, and its unit.
    pub header: &'static str,
    /// How its cells are aligned.
    pub alignment: CellAlignment,
    /// Where the width is too small, columns are added in the order of these numbers, those of a number together, while they fit; 0 always
    /// stays.
    pub dispensable: u8,
    /// The text of a row's cell.
    pub cell: fn(&T) -> String,
}

impl<T> Column<T> {
    /// A column of numbers.
    pub const fn number(header: &'static str, dispensable: u8, cell: fn(&T) -> String) -> Self {
        Self { header, alignment: CellAlignment::Right, dispensable, cell }
    }

    /// A column of words.
    pub const fn words(header: &'static str, dispensable: u8, cell: fn(&T) -> String) -> Self {
        Self { header, alignment: CellAlignment::Left, dispensable, cell }
    }
}

/// The columns of the accuracy table, in the terminal and in reports.
pub const RUN_COLUMNS: &[Column<RunResult>] = &[
    Column::number("requested\nrate", 0, |run| asked_rate(run.rate_bps)),
    Column::number("size\nB", 0, |run| or_unknown(run.size_bytes, |bytes| bytes.to_string())),
    Column::words("sender", 0, |run| run.sender().to_owned()),
    Column::number("per\ncycle", 4, |run| or_unknown(run.packets_per_cycle, |n| n.to_string())),
    Column::number("received\nrate", 0, |run| or_unknown(run.rx_rate_bps, rate)),
    Column::number("rate\nerror ppm", 0, |run| or_unknown(run.rate_error_ppm, ppm)),
    Column::number("loss", 0, |run| or_unknown(run.loss(), percent)),
    Column::number("gap error\nµs p50 / p99", 0, |run| {
        pair(run.gap_error_us.p50, run.gap_error_us.p99, short)
    }),
    Column::number("schedule error\nµs p50 / p99", 2, |run| {
        pair(run.schedule_error_us.p50, run.schedule_error_us.p99, short)
    }),
    Column::number("sender\nCPU %", 3, |run| or_unknown(run.sender_cpu_ratio, load)),
    Column::number("receiver\nCPU %", 3, |run| or_unknown(run.receiver_cpu_ratio, load)),
];

/// The accuracy table: one line for each run, at most `width` characters wide if possible.
///
/// A smaller width leaves out columns: 120 characters hold all, 80 hold the accuracy.
///
/// # Example
///
/// ```
/// use giusto::{measured::result::RunResult, view::table};
///
/// let run = RunResult { rate_bps: Some(1_000_000), rx_rate_bps: Some(1_000_000.2), ..RunResult::default() };
/// assert!(table::runs(&[run], 80).contains("1.000 Mbit/s"));
/// ```
pub fn runs(runs: &[RunResult], width: u16) -> String {
    let text = fitted(RUN_COLUMNS, runs, width);
    match runs.iter().filter_map(|run| run.repeats).max() {
        Some(repeats) => {
            format!("{text}Each line is the median of {}.\n", plural(repeats.into(), "run", "runs"))
        }
        None => text,
    }
}

/// One run: a line for every known figure, or two on a terminal of less than 60 columns.
pub fn run(run: &RunResult, width: u16) -> String {
    const NARROW: u16 = 60;
    if width < NARROW {
        let lines = figures(run).into_iter().map(|(name, value)| format!("{name}\n  {value}"));
        return lines.collect::<Vec<_>>().join("\n") + "\n";
    }
    let mut table = bare();
    for (name, value) in figures(run) {
        table.add_row([name.to_owned(), value]);
    }
    finish(&table)
}

/// The head of a column of finished cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// At most two lines: the quantity, and its unit.
    pub(super) header: String,
    pub(super) alignment: CellAlignment,
    /// As that of a [`Column`].
    pub(super) dispensable: u8,
}

impl Head {
    /// The header in one line.
    pub(super) fn in_a_line(&self) -> String {
        self.header.replace("-\n", "").replace('\n', " ")
    }

    /// Of a column of numbers.
    pub fn number(header: impl Into<String>, dispensable: u8) -> Self {
        Self { header: header.into(), alignment: CellAlignment::Right, dispensable }
    }

    /// Of a column of words.
    pub fn words(header: impl Into<String>, dispensable: u8) -> Self {
        Self { header: header.into(), alignment: CellAlignment::Left, dispensable }
    }
}

/// A table without borders and colours.
fn bare() -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// The text of `table`, without blanks at the ends of its lines.
fn finish(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A table of finished cells, column by column: for the terminal and for pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grid {
    pub(super) columns: Vec<(Head, Vec<String>)>,
}

impl Grid {
    /// A table with these columns.
    pub fn of<'a, T: 'a>(columns: &[Column<T>], rows: impl IntoIterator<Item = &'a T>) -> Self {
        let rows: Vec<&T> = rows.into_iter().collect();
        let column = |column: &Column<T>| {
            let head = Head {
                header: column.header.to_owned(),
                alignment: column.alignment,
                dispensable: column.dispensable,
            };
            (head, rows.iter().map(|row| (column.cell)(row)).collect())
        };
        Self { columns: columns.iter().map(column).collect() }
    }

    /// A table of these rows.
    pub fn of_rows(heads: impl IntoIterator<Item = Head>, rows: &[Vec<String>]) -> Self {
        let cells = |place| rows.iter().map(|row| row.get(place).cloned().unwrap_or_default()).collect();
        Self { columns: heads.into_iter().enumerate().map(|(place, head)| (head, cells(place))).collect() }
    }

    /// The headers, in one line each.
    pub fn headers(&self) -> impl Iterator<Item = String> {
        self.columns.iter().map(|(head, _)| head.in_a_line())
    }

    /// The rows.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let rows = self.columns.first().map_or(0, |(_, cells)| cells.len());
        let row = |place| self.columns.iter().filter_map(|(_, cells)| cells.get(place).cloned()).collect();
        (0..rows).map(row).collect()
    }

    /// Adds a column of words.
    pub fn words(&mut self, header: &str, dispensable: u8, cells: impl IntoIterator<Item = String>) {
        self.columns.push((Head::words(header, dispensable), cells.into_iter().collect()));
    }

    /// Adds a column of numbers.
    pub fn numbers(
        &mut self,
        header: impl Into<String>,
        dispensable: u8,
        cells: impl IntoIterator<Item = String>,
    ) {
        self.columns.push((Head::number(header, dispensable), cells.into_iter().collect()));
    }

    /// Adds the columns of `table`, of a distribution these `parts`. One that can be spared is left out where nothing is known.
    pub fn statistics<T>(&mut self, table: &[Statistic<T>], rows: &[&T], parts: &[Part]) {
        for row in table {
            let Some(place) = row.column else { continue };
            if place == 0 || rows.iter().any(|of| row.is_known(of)) {
                let cells = rows.iter().map(|of| row.text(of, parts));
                self.numbers(row.header(parts), place, cells);
            }
        }
    }

    /// As text of as many columns as fit into `width`: see [`of_cells`].
    pub fn text(&self, width: u16) -> String {
        let heads: Vec<Head> = self.columns.iter().map(|(head, _)| head.clone()).collect();
        of_cells(&heads, self.rows(), width)
    }
}

/// A table of as many of `columns` as fit into `width`: see [`of_cells`].
pub fn fitted<T>(columns: &[Column<T>], rows: &[T], width: u16) -> String {
    Grid::of(columns, rows).text(width)
}

/// A table of as many columns of finished cells as fit into `width`, and below it the number of those left out, if any. Columns in which
/// nothing is known come last. Where even those that always stay do not fit, they are tables one below the other, each with the first
/// column.
pub fn of_cells(heads: &[Head], rows: Vec<Vec<String>>, width: u16) -> String {
    let is_known = |place: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(place));
        place == 0 || cells.any(|cell| cell != UNKNOWN && !cell.is_empty())
    };
    let known = |(place, head): (usize, &Head)| if is_known(place) { head.dispensable } else { u8::MAX };
    let numbers: Vec<u8> = heads.iter().enumerate().map(known).collect();
    let mut table = bare();
    table.set_header(heads.iter().map(|head| &head.header)).add_rows(rows);
    for (head, shape) in heads.iter().zip(table.column_iter_mut()) {
        shape.set_cell_alignment(head.alignment);
        shape.set_padding((0, 1));
    }
    let widths = table.column_max_content_widths();
    let shown = shown(&numbers, &widths, width.into());
    let mut part = |places: &[usize]| {
        for (place, shape) in table.column_iter_mut().enumerate() {
            if places.contains(&place) {
                shape.remove_constraint();
            } else {
                shape.set_constraint(ColumnConstraint::Hidden);
            }
        }
        finish(&table)
    };
    let parts: Vec<String> = parts(&shown, &widths, width.into()).iter().map(|places| part(places)).collect();
    let text = parts.join("\n");
    match shown.iter().filter(|is_shown| !**is_shown).count() as u64 {
        0 => text,
        hidden => format!("{text}--wide shows {}.\n", plural(hidden, "more column", "more columns")),
    }
}

/// Blanks between two columns.
const GAP: u32 = 2;

/// The columns that are `shown`, in as few tables as possible, each at most `available` wide, if possible, and with the first column.
fn parts(shown: &[bool], widths: &[u16], available: u32) -> Vec<Vec<usize>> {
    let (mut parts, mut used) = (Vec::<Vec<usize>>::new(), 0);
    let first = widths.first().map_or(0, |&width| u32::from(width) + GAP);
    for (place, (_, &width)) in shown.iter().zip(widths).enumerate().filter(|(_, (shown, _))| **shown) {
        let own = u32::from(width) + GAP;
        match parts.last_mut() {
            Some(part) if part.len() < 2 || used + own < available.saturating_add(GAP) => {
                part.push(place);
                used += own;
            }
            Some(_) => {
                parts.push(vec![0, place]);
                used = first + own;
            }
            None => {
                parts.push(vec![place]);
                used = own;
            }
        }
    }
    parts
}

/// Which columns are shown, whose numbers are `numbers`, and whose contents are as wide as `widths`.
fn shown(numbers: &[u8], widths: &[u16], available: u32) -> Vec<bool> {
    let mut in_order = numbers.to_vec();
    in_order.sort_unstable();
    in_order.dedup();
    let (mut chosen, mut used): (Vec<u8>, u32) = (Vec::new(), 0);
    for number in in_order {
        let own = numbers.iter().zip(widths).filter(|(own, _)| **own == number);
        let own: u32 = own.map(|(_, &width)| u32::from(width) + GAP).sum();
        // The line below the header ends one character behind the last column.
        if number == 0 || used + own < available.saturating_add(GAP) {
            chosen.push(number);
            used += own;
        }
    }
    numbers.iter().map(|number| chosen.contains(number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::result::Quantiles;

    fn run(rate_bps: Option<u64>, strategy: &str, rx_rate_bps: f64) -> RunResult {
        RunResult {
            strategy: strategy.to_owned(),
            rate_bps,
            size_bytes: Some(1200),
            packets_per_cycle: Some(13),
            rx_rate_bps: Some(rx_rate_bps),
            rate_error_ppm: rate_bps
                .and_then(|target| crate::measured::result::rate_error_ppm(rx_rate_bps, target as f64)),
            loss_ratio: Some(0.000_3),
            gap_error_us: Quantiles { p50: Some(0.41), p99: Some(12.34), ..Quantiles::default() },
            schedule_error_us: Quantiles { p50: Some(0.2), p99: Some(113_600.0), ..Quantiles::default() },
            sender_cpu_ratio: Some(1.0),
            receiver_cpu_ratio: Some(0.034),
            ..RunResult::default()
        }
    }

    fn sample() -> [RunResult; 3] {
        [
            run(Some(1_000_000), "grid", 1_000_000.2),
            run(Some(1_000_000), "send-compare", 1_011_406.0),
            RunResult { peer: Some("iperf3 3.12".to_owned()), ..run(None, "iperf3", 938_829_083.0) },
        ]
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_wide_terminal_shows_every_column() {
        let text = runs(&sample(), 120);
        assert!(widest(&text) <= 120, "{text}");
        insta::assert_snapshot!(text, @r"
        requested  size  sender          per        received       rate    loss     gap error  schedule error  sender  receiver
             rate     B                cycle            rate  error ppm          µs p50 / p99    µs p50 / p99   CPU %     CPU %
        ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
         1 Mbit/s  1200  grid             13    1.000 Mbit/s      +0.20  0.03 %   0.41 / 12.3  0.20 / 113,600     100         3
         1 Mbit/s  1200  send-compare     13    1.011 Mbit/s    +11,406  0.03 %   0.41 / 12.3  0.20 / 113,600     100         3
              max  1200  iperf3 3.12      13  938.829 Mbit/s          –  0.03 %   0.41 / 12.3  0.20 / 113,600     100         3
        ");
        // A narrow one shows the accuracy.
        let text = runs(&sample(), 80);
        let header = "requested  size  sender              received       rate    loss     gap error\n";
        assert!(text.starts_with(header) && widest(&text) <= 80, "{text}");
    }

    #[test]
    fn what_does_not_fit_beside_stands_below() {
        let text = runs(&sample()[..2], 40);
        assert!(widest(&text) <= 40, "{text}");
        insta::assert_snapshot!(text, @r"
        requested  size  sender
             rate     B
        ──────────────────────────────
         1 Mbit/s  1200  grid
         1 Mbit/s  1200  send-compare

        requested      received       rate
             rate          rate  error ppm
        ───────────────────────────────────
         1 Mbit/s  1.000 Mbit/s      +0.20
         1 Mbit/s  1.011 Mbit/s    +11,406

        requested    loss     gap error
             rate          µs p50 / p99
        ────────────────────────────────
         1 Mbit/s  0.03 %   0.41 / 12.3
         1 Mbit/s  0.03 %   0.41 / 12.3
        --wide shows 4 more columns.
        ");
        // Not even two columns fit: each is by itself beside the first, and nothing is left out.
        let heads = ["name", "a", "b"].map(|name| Head::words(name, 0));
        let rows = vec![["x", "1234567", "y"].map(str::to_owned).to_vec()];
        let text = of_cells(&heads, rows, 1);
        assert_eq!(text.matches("name").count(), 2, "{text}");
        assert!(text.contains("x     1234567") && text.contains("x     y"), "{text}");
    }

    #[test]
    fn columns_are_added_by_their_numbers_while_they_fit() {
        let heads = [Head::words("name", 0), Head::number("a wide one", 1), Head::number("few", 2)];
        let table = |width| of_cells(&heads, vec![["x", "1", "2"].map(str::to_owned).to_vec()], width);
        // 4, 10 and 3 characters with two between them, and one behind the last.
        for (width, header) in [
            (22, "name  a wide one  few"),
            (21, "name  a wide one\n"),
            (17, "name  a wide one\n"),
            (16, "name  few\n"),
            (9, "name\n"),
            (1, "name\n"),
        ] {
            let text = table(width);
            let widest = widest(&text.replace("--wide shows", ""));
            assert!(text.starts_with(header) && widest <= usize::from(width.max(19)), "{width}: {text}");
        }
        assert!(table(21).ends_with("--wide shows 1 more column.\n"));
        assert!(table(1).ends_with("--wide shows 2 more columns.\n"));
        assert_eq!(table(22), table(ALL));
        // Nothing is known of the second column, and room for two.
        let rows = vec![["x", "–", "2"].map(str::to_owned).to_vec()];
        assert!(of_cells(&heads, rows, 17).starts_with("name  few\n"));
    }

    #[test]
    fn a_rate_that_nobody_has_asked_for_is_not_shown() {
        let of = |strategy: &str| {
            let run = RunResult { strategy: strategy.to_owned(), rate_bps: None, ..sample()[1].clone() };
            super::run(&run, ALL)
        };
        assert!(of("max").contains("requested rate   max\n"), "{}", of("max"));
        assert!(!of("unknown").contains("requested rate"), "{}", of("unknown"));
    }

    #[test]
    fn one_run_shows_its_known_figures() {
        let narrow = super::run(&sample()[1], 40);
        assert!(narrow.starts_with("sender\n  send-compare\n") && widest(&narrow) <= 40, "{narrow}");
        let text = super::run(&sample()[1], 80);
        insta::assert_snapshot!(text, @r"
        sender           send-compare
        requested rate   1 Mbit/s
        payload          1200 B
        per cycle        13 datagrams
        loss             0.03 %
        received rate    1.011 Mbit/s
        rate error       +11,406 ppm
        schedule error   0.20 µs median, 114 ms p99
        gap error        0.41 µs median, 12.3 µs p99
        sender CPU       100.0 %
        receiver CPU     3.40 %
        ");
    }
}
