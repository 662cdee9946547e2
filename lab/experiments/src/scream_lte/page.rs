//! The tables in the terminal, and the report.

use serde::Serialize;

use super::{
    NAME, Plan, Printed, Run, ScreamLte, TEXT,
    published::{Link, PLACES, Published, Quantity, table_of},
    setting::{JUDGED, READINGS, Reading},
    statements::{derived, in_words, numbers, rule},
};
use crate::{
    item::{Item, Reproduction},
    page::{Findings, Page, PageTable, chart, line},
};
use giusto::view::{
    format::{UNKNOWN, or_unknown, plural},
    html::{Card, Chart, Section},
    sweep::Interval,
};

/// A load: the draft's numbers and ours, of GCC and of SCReAM.
struct Load {
    place: (Link, u32),
    users: u32,
    /// By algorithm, by quantity.
    cells: [[String; 4]; 2],
}

/// A number in the digits of the draft.
fn digits(quantity: Quantity, value: f64) -> String {
    match quantity {
        Quantity::Loss => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A mean with half of its confidence interval.
fn with_half(quantity: Quantity, ours: Interval) -> String {
    let half = ours.half().map(|half| format!(" ± {}", digits(quantity, half)));
    digits(quantity, ours.mean) + &half.unwrap_or_default()
}

impl Findings for ScreamLte {
    fn printed(&self) -> impl Serialize {
        Printed { reproduction: self.reproduction(), planned_runs: self.plan.runs(), runs: self.runs.clone() }
    }

    fn page(&self) -> Page {
        let (items, numbers) = (only(derived(self)), only(numbers(self)));
        let measured = numbers.items.iter().filter(|item| item.ours.is_some()).count();
        let today = self.today();
        let charts = PLACES.into_iter().flat_map(|place| {
            let drawn = [Quantity::FrameTail, Quantity::Rate];
            let all = (!today.is_empty()).then(|| drawn.map(|quantity| self.of_today(place, quantity)));
            drawn
                .map(|quantity| self.against_the_draft(place, quantity))
                .into_iter()
                .chain(all.into_iter().flatten())
        });
        let pictures = charts.map(Section::from).collect();
        let draft = PLACES.map(|place| self.side_by_side(place));
        Page {
            headline: self.headline(),
            cards: vec![
                Card::new(
                    "Numbers",
                    format!("{} of {measured}", numbers.agreeing()),
                    "of tables 2 to 9 that agree, of those measured",
                ),
                Card::new("Runs", self.runs.len().to_string(), format!("of {}", self.plan.runs())),
            ],
            pictures,
            tables: draft.into_iter().chain(self.readings()).chain(today).collect(),
            text: TEXT,
            items,
            ..Page::default()
        }
    }
}

/// A reproduction of these items alone.
fn only(items: Vec<Item>) -> Reproduction {
    Reproduction { name: NAME.to_owned(), items, ..Reproduction::default() }
}

impl ScreamLte {
    fn headline(&self) -> String {
        let share = |items: Vec<Item>| {
            let of = only(items);
            (of.agreeing(), of.judged())
        };
        let ((derived, statements), (agreeing, numbers)) = (share(derived(self)), share(numbers(self)));
        let early = if self.runs.len() < self.plan.runs() { "Ended early: " } else { "" };
        format!(
            "{early}{derived} of {statements} measured statements about ratios and orders agree with the draft, and {agreeing} of \
             {numbers} measured numbers within a factor of 2.{}",
            self.limits()
        )
    }

    /// What was left out with --quick.
    fn limits(&self) -> String {
        let (run, all) = (self.plan.loads.len(), Plan::new(false).loads.len());
        if run == all {
            return String::new();
        }
        let seeds = plural(self.plan.seeds, "seed", "seeds");
        format!(
            " Only {run} of {all} loads were run, with {seeds}, and nothing that the draft leaves unsaid was varied."
        )
    }

    /// Every load of the draft, with ours where it was run.
    fn loads(&self) -> Vec<Load> {
        let mut loads = Vec::new();
        for place in PLACES {
            let [Some(gcc), Some(scream)] = Published::ALL.map(|of| table_of(place, of)) else { continue };
            for (gcc_row, scream_row) in gcc.rows.iter().zip(&scream.rows) {
                let users = gcc_row.users;
                let cells = [(gcc, gcc_row), (scream, scream_row)].map(|(table, row)| {
                    Quantity::ALL.map(|quantity| {
                        let published = row.value(quantity);
                        let ours = self.mean(place, users, table.of.controller(), quantity);
                        let mark =
                            ours.filter(|ours| !agrees(quantity, published, ours.mean)).map_or("", |_| "*");
                        let ours = or_unknown(ours, |ours| with_half(quantity, ours));
                        format!("{} / {ours}{mark}", digits(quantity, published))
                    })
                });
                if self.runs.iter().any(|run| (run.link, run.speed_kmh) == place && run.users == users) {
                    loads.push(Load { place, users, cells });
                }
            }
        }
        loads
    }

    /// Two tables of the draft beside ours.
    fn side_by_side(&self, place: (Link, u32)) -> PageTable {
        let columns =
            |of: Published| Quantity::ALL.map(|quantity| format!("{}, {}", of.name(), in_column(quantity)));
        let [gcc, scream] = Published::ALL.map(|of| table_of(place, of).map_or(0, |table| table.number));
        let loads = self.loads().into_iter().filter(|load| load.place == place);
        let row = |load: Load| {
            let cells = load.cells.into_iter().flatten();
            std::iter::once(load.users.to_string()).chain(cells).collect()
        };
        let headers: Vec<String> =
            std::iter::once("users".to_owned()).chain(Published::ALL.into_iter().flat_map(columns)).collect();
        let title = format!("Tables {gcc} and {scream}: {}", in_words(place));
        let caption = "The draft / ours, the mean over the seeds with its 95 % confidence interval; * marks numbers that differ.";
        PageTable::new("tables", [&title, caption], &headers, 1, &loads.map(row).collect::<Vec<_>>())
    }

    /// One quantity against the load: the draft and ours.
    fn against_the_draft(&self, place: (Link, u32), quantity: Quantity) -> Chart {
        let mut lines = Vec::new();
        for of in Published::ALL {
            let Some(table) = table_of(place, of) else { continue };
            let points = |value: &dyn Fn(u32, f64) -> Option<f64>| {
                let point = |row: &super::published::Row| {
                    Some((f64::from(row.users), drawn(quantity, value(row.users, row.value(quantity))?)))
                };
                table.rows.iter().filter_map(point).collect::<Vec<_>>()
            };
            lines.push(line(format!("{}, draft", of.name()), points(&|_, published| Some(published))));
            let ours = |users, _| Some(self.mean(place, users, of.controller(), quantity)?.mean);
            lines.push(line(format!("{}, ours", of.name()), points(&ours)));
        }
        load_chart(place, quantity, "", lines)
    }

    /// One quantity against the load: all controllers.
    fn of_today(&self, place: (Link, u32), quantity: Quantity) -> Chart {
        let loads = table_of(place, Published::Gcc).map(|table| table.rows.map(|row| row.users));
        let lines = self.plan.controllers.iter().map(|controller| {
            let point = |users: u32| {
                let ours = self.mean(place, users, controller.name(), quantity)?;
                Some((f64::from(users), drawn(quantity, ours.mean)))
            };
            line(controller.name(), loads.into_iter().flatten().filter_map(point))
        });
        load_chart(place, quantity, "all controllers, ", lines.collect())
    }

    /// How far each unknown moves the result.
    fn readings(&self) -> Vec<PageTable> {
        let has_run = |&&(place, users): &&((Link, u32), u32)| {
            let of = |run: &&Run| run.reading != JUDGED && (run.link, run.speed_kmh) == place;
            self.runs.iter().filter(of).any(|run| run.users == users)
        };
        let points = self.plan.varied.iter().filter(has_run);
        let points = points.map(|&(place, users)| self.readings_at(place, users));
        self.statements_by_reading().into_iter().chain(points).collect()
    }

    /// How many statements agree with each reading that was run at all loads.
    fn statements_by_reading(&self) -> Option<PageTable> {
        let row = |reading: &Reading| {
            let read = self.read_as(reading.name);
            let statements = derived(&read);
            let of = |kind: &str| {
                let items = statements.iter().filter(|item| item.id.starts_with(kind)).cloned();
                let items = only(items.collect());
                format!("{} of {}", items.agreeing(), items.judged())
            };
            let all = only(numbers(&read));
            let (name, numbers) =
                (reading.name.to_owned(), format!("{} of {}", all.agreeing(), all.judged()));
            let counts = [of(""), of("ratio"), of("saturation"), of("crossover"), numbers];
            (all.judged() > 0).then(|| std::iter::once(name).chain(counts).collect::<Vec<_>>())
        };
        let rows: Vec<Vec<String>> =
            READINGS.iter().filter(|reading| reading.is_whole).filter_map(row).collect();
        let headers = ["reading", "statements", "ratios", "full cells", "crossings", "numbers"];
        let headers = headers.map(str::to_owned);
        let caption = "How many statements and numbers agree with the draft, of those measured.";
        let texts = ["What the draft leaves unsaid, all loads", caption];
        (rows.len() > 1).then(|| PageTable::new("readings", texts, &headers, 1, &rows))
    }

    fn readings_at(&self, place: (Link, u32), users: u32) -> PageTable {
        let columns =
            |of: Published| Quantity::ALL.map(|quantity| format!("{}, {}", of.name(), in_column(quantity)));
        let mut rows = Vec::new();
        let [gcc, scream] = Published::ALL.map(|of| {
            let table = table_of(place, of)?;
            table.rows.iter().find(|row| row.users == users)
        });
        let published = |row: Option<&super::published::Row>| {
            Quantity::ALL.map(|quantity| or_unknown(row, |row| digits(quantity, row.value(quantity))))
        };
        let rate = |row: Option<&super::published::Row>| row.map(|row| row.value(Quantity::Rate));
        let ratio = |gcc: Option<f64>, scream: Option<f64>| {
            gcc.zip(scream).map_or_else(|| UNKNOWN.to_owned(), |(gcc, scream)| format!("{:.2}", scream / gcc))
        };
        let row = |name: &str, cells: [[String; 4]; 2], ratio: String| {
            let cells = cells.into_iter().flatten();
            std::iter::once(name.to_owned()).chain(cells).chain([ratio]).collect::<Vec<_>>()
        };
        rows.push(row("the draft", [published(gcc), published(scream)], ratio(rate(gcc), rate(scream))));
        for reading in READINGS {
            let mean = |of: Published, quantity: Quantity| {
                let runs = self.at(reading.name, place, users, of.controller());
                let runs = runs.filter(|run| run.seed <= self.plan.beside_seeds);
                Some(
                    Interval::of(&runs.filter_map(|run: &Run| run.value(quantity)).collect::<Vec<_>>())?.mean,
                )
            };
            let cells = Published::ALL.map(|of| {
                Quantity::ALL.map(|quantity| or_unknown(mean(of, quantity), |mean| digits(quantity, mean)))
            });
            let [gcc, scream] = Published::ALL.map(|of| mean(of, Quantity::Rate));
            if gcc.or(scream).is_some() {
                rows.push(row(reading.name, cells, ratio(gcc, scream)));
            }
        }
        let columns = Published::ALL.into_iter().flat_map(columns);
        let headers: Vec<String> = std::iter::once("reading".to_owned())
            .chain(columns)
            .chain(["SCReAM over GCC, bitrate".to_owned()])
            .collect();
        let title = format!("What the draft leaves unsaid, {}, {users} users", in_words(place));
        let caption = "One thing at a time differs from what is judged. Means over the seeds.";
        PageTable::new("readings", [&title, caption], &headers, 1, &rows)
    }

    /// The controllers that the draft does not have, beside those that it has; nothing if none ran.
    fn today(&self) -> Vec<PageTable> {
        let is_today = |name: &str| Published::ALL.iter().all(|of| of.controller() != name);
        if !self.runs.iter().any(|run| is_today(&run.controller)) {
            return Vec::new();
        }
        let grid = |place| {
            let mut rows = Vec::new();
            for row in table_of(place, Published::Gcc).iter().flat_map(|table| &table.rows) {
                for controller in &self.plan.controllers {
                    let cells = Quantity::ALL.map(|quantity| {
                        Some((quantity, self.mean(place, row.users, controller.name(), quantity)?))
                    });
                    if cells.iter().any(Option::is_some) {
                        let cells = cells
                            .into_iter()
                            .map(|cell| or_unknown(cell, |(quantity, mean)| with_half(quantity, mean)));
                        let first = format!("{}, {} users", controller.name(), row.users);
                        rows.push(std::iter::once(first).chain(cells).collect());
                    }
                }
            }
            let headers = Quantity::ALL.map(in_column);
            let headers: Vec<String> = std::iter::once("controller".to_owned()).chain(headers).collect();
            let title = format!("All controllers, {}", in_words(place));
            let caption = "Means over the seeds with their 95 % confidence intervals.";
            PageTable::new("today", [&title, caption], &headers, 1, &rows)
        };
        PLACES.map(grid).into()
    }
}

/// A chart of one quantity against the load.
fn load_chart(
    place: (Link, u32),
    quantity: Quantity,
    what: &str,
    lines: Vec<giusto::view::html::Series>,
) -> Chart {
    let (name, caption, axis) = match quantity {
        Quantity::Rate => ("Bitrate", "Mean rate of the video that a user sends.", "bitrate (Mbit/s)"),
        _ => (
            "Frame delay",
            "The 95th percentile over users of the 98th percentile of the delay of video frames.",
            "delay (ms)",
        ),
    };
    let title = format!("{name}: {what}{}", in_words(place));
    let chart = chart([&title, caption], ["users per cell", axis], None, lines);
    if quantity == Quantity::Rate { chart } else { chart.with_log_y() }
}

/// The name of a quantity with its unit.
fn in_column(quantity: Quantity) -> String {
    let (name, _, unit) = quantity.names();
    format!("{name} ({unit})")
}

/// A value in the unit of the charts.
fn drawn(quantity: Quantity, value: f64) -> f64 {
    if quantity == Quantity::Rate { value / 1e3 } else { value }
}

/// Whether ours agrees with a number of the tables.
fn agrees(quantity: Quantity, published: f64, ours: f64) -> bool {
    let ours = crate::item::Spread { low: ours, median: ours, high: ours };
    rule(quantity, published).agrees(published, ours)
}
