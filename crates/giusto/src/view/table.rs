//! Tables for the terminal.

use comfy_table::{CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, Row, Table, TableStyle};

use crate::{
    measured::result::RunResult,
    view::{
        figures::figures,
        format::{asked_rate, load, or_unknown, pair, percent, plural, ppm, rate, short},
    },
};

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
    /// The column with the highest number is left out first where the width is too small; 0 always stays.
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

/// One run: a line for every known figure.
pub fn run(run: &RunResult) -> String {
    let mut table = bare();
    for (name, value) in figures(run) {
        table.add_row([name.to_owned(), value]);
    }
    finish(&table)
}

/// A table of finished cells; each column has a header and an alignment.
pub fn of_cells(columns: &[(&str, CellAlignment)], rows: Vec<Vec<String>>) -> String {
    finish(&with_header(columns.iter().copied(), rows))
}

/// A table without borders and colours.
fn bare() -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// A bare table with headers, and the alignments of their columns.
fn with_header<'a>(
    columns: impl Iterator<Item = (&'a str, CellAlignment)> + Clone,
    rows: impl IntoIterator<Item: Into<Row>>,
) -> Table {
    let mut table = bare();
    table.set_header(columns.clone().map(|(header, _)| header)).add_rows(rows);
    for ((_, alignment), shape) in columns.zip(table.column_iter_mut()) {
        shape.set_cell_alignment(alignment);
        shape.set_padding((0, 1));
    }
    table
}

/// The text of `table`, without blanks at the ends of its lines.
fn finish(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// A table of all `columns`.
pub fn full<T>(columns: &[Column<T>], rows: &[T]) -> String {
    fitted(columns, rows, u16::MAX)
}

/// A table of as many of `columns` as fit into `width`.
pub fn fitted<T>(columns: &[Column<T>], rows: &[T], width: u16) -> String {
    let mut shown: Vec<&Column<T>> = columns.iter().collect();
    loop {
        let headers = shown.iter().map(|column| (column.header, column.alignment));
        let table = with_header(
            headers,
            rows.iter().map(|row| shown.iter().map(|column| (column.cell)(row)).collect::<Vec<_>>()),
        );
        let needed: u32 = table.column_max_content_widths().iter().map(|&w| u32::from(w) + 2).sum();
        let last = shown.iter().map(|column| column.dispensable).max().unwrap_or(0);
        if needed.saturating_sub(2) <= width.into() || last == 0 {
            return finish(&table);
        }
        shown.retain(|column| column.dispensable != last);
    }
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
    }

    #[test]
    fn a_narrow_terminal_shows_the_accuracy() {
        let text = runs(&sample(), 80);
        assert!(widest(&text) <= 80, "{text}");
        insta::assert_snapshot!(text, @r"
        requested  size  sender              received       rate    loss     gap error
             rate     B                          rate  error ppm          µs p50 / p99
        ───────────────────────────────────────────────────────────────────────────────
         1 Mbit/s  1200  grid            1.000 Mbit/s      +0.20  0.03 %   0.41 / 12.3
         1 Mbit/s  1200  send-compare    1.011 Mbit/s    +11,406  0.03 %   0.41 / 12.3
              max  1200  iperf3 3.12   938.829 Mbit/s          –  0.03 %   0.41 / 12.3
        ");
    }

    #[test]
    fn one_run_shows_its_known_figures() {
        let text = super::run(&sample()[1]);
        insta::assert_snapshot!(text, @r"
        sender           send-compare
        requested rate   1 Mbit/s
        payload          1200 B
        per cycle        13 datagrams
        received rate    1.011 Mbit/s
        rate error       +11,406 ppm
        schedule error   0.20 µs median, 114 ms p99
        gap error        0.41 µs median, 12.3 µs p99
        sender CPU       100 %
        receiver CPU     3 %
        ");
    }
}
