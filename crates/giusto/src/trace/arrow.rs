//! Traces as Apache Arrow record batches in memory.

use std::{fmt, mem, sync::Arc};

use arrow_array::{
    Array, ArrayRef, DictionaryArray, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch,
    StringArray, new_null_array,
    types::{Int8Type, Int32Type},
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use giusto_sim::trace::{Event, Note, Observer};
use giusto_units::Timestamp;

use super::{
    Notes, TraceNames,
    row::{COLUMNS, Row, Values, What},
};

/// Rows of a batch: their columns fit a processor's cache while they are filled.
const ROWS: usize = 1 << 15;

/// An observer that stores each event in columns: those of trace files, of the same names.
///
/// Texts are dictionaries, a byte a row; names of flows and links take four bytes. Of columns that are empty in a batch of 32,768 rows,
/// nothing is stored.
///
/// # Example
///
/// ```
/// use giusto::{
///     run::{self, RecordOptions},
///     scenario::Scenario,
///     view::trace::{TraceNames, TraceTable},
/// };
///
/// let scenario = Scenario::parse(
///     r#"
///     duration = "10 s"
///     link = [{ id = "wire", from = "here", to = "there", rate = "1 Mbit/s" }]
///     flow = [{ id = "voice", kind = "cbr", rate = "64 kbit/s", size = "200 B" }]
///     "#,
///     "voice.toml",
/// )?;
/// let mut trace = TraceTable::new(TraceNames::of(&scenario));
/// run::simulate(&scenario, 1, RecordOptions::default(), &mut trace);
/// let (schema, batches) = trace.finish()?;
/// assert_eq!(schema.field(0).name(), "time_ns");
/// // 400 packets, each sent, queued, dequeued, delivered.
/// assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1600);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TraceTable {
    names: TraceNames,
    notes: Notes,
    /// Rows that are not in a batch yet.
    rows: Vec<Row>,
    /// Numbers, and places in dictionaries, of each column of each batch.
    batches: Vec<Vec<ArrayRef>>,
    /// The dictionaries of the text columns.
    texts: [Vec<&'static str>; COLUMNS.len()],
    /// Columns of integers and of numbers without a value.
    empty: [ArrayRef; 2],
}

impl TraceTable {
    /// A table without events.
    pub fn new(names: TraceNames) -> Self {
        Self {
            names,
            notes: Notes::default(),
            rows: Vec::with_capacity(ROWS),
            batches: Vec::new(),
            texts: Default::default(),
            empty: [DataType::Int64, DataType::Float64].map(|kind| new_null_array(&kind, ROWS)),
        }
    }

    /// The schema and the batches, in order.
    ///
    /// # Errors
    ///
    /// The columns do not fit together, which is a bug.
    pub fn finish(mut self) -> Result<(SchemaRef, Vec<RecordBatch>), ArrowError> {
        self.store();
        let text: fn() -> Box<DataType> = || Box::new(DataType::Utf8);
        let field = |column: &super::row::Column| {
            let kind = match column.values {
                Values::Integer(_) => DataType::Int64,
                Values::Number(_) => DataType::Float64,
                Values::Text(_) => DataType::Dictionary(Box::new(DataType::Int8), text()),
                Values::Flow | Values::Link => DataType::Dictionary(Box::new(DataType::Int32), text()),
            };
            Field::new(column.name, kind, column.nullable)
        };
        let schema: SchemaRef = Arc::new(Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>()));
        let names = |names: &[String]| -> ArrayRef { Arc::new(StringArray::from_iter_values(names)) };
        let dictionaries: Vec<ArrayRef> = COLUMNS
            .iter()
            .zip(&self.texts)
            .map(|(column, texts)| match column.values {
                Values::Flow => names(&self.names.flows),
                Values::Link => names(&self.names.links),
                _ => Arc::new(StringArray::from_iter_values(texts)),
            })
            .collect();
        let batch = |columns: Vec<ArrayRef>| {
            let columns = COLUMNS.iter().zip(columns).zip(&dictionaries);
            let columns = columns.map(|((column, array), names)| match column.values {
                Values::Integer(_) | Values::Number(_) => Ok(array),
                Values::Text(_) => dictionary::<Int8Type>(&array, names),
                Values::Flow | Values::Link => dictionary::<Int32Type>(&array, names),
            });
            RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<_, ArrowError>>()?)
        };
        let batches = mem::take(&mut self.batches).into_iter().map(batch).collect::<Result<_, _>>()?;
        Ok((schema, batches))
    }

    fn push(&mut self, row: Row) {
        self.rows.push(row);
        if self.rows.len() == ROWS {
            self.store();
        }
    }

    /// Makes a batch of the rows.
    fn store(&mut self) {
        if self.rows.is_empty() {
            return;
        }
        let rows = &self.rows;
        let [no_integers, no_numbers] = &self.empty;
        let columns = COLUMNS.iter().zip(&mut self.texts).map(|(column, texts)| -> ArrayRef {
            match column.values {
                Values::Integer(value) if column.nullable => {
                    unless_empty(Arc::new(rows.iter().map(value).collect::<Int64Array>()), no_integers)
                }
                Values::Integer(value) => Arc::new(Int64Array::from_iter_values(
                    rows.iter().map(|row| value(row).unwrap_or_default()),
                )),
                Values::Number(value) => {
                    unless_empty(Arc::new(rows.iter().map(value).collect::<Float64Array>()), no_numbers)
                }
                Values::Text(value) => {
                    Arc::new(rows.iter().map(|row| Some(place(texts, value(row)?))).collect::<Int8Array>())
                }
                Values::Flow => {
                    let flows = &mut self.names.flows;
                    Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| named(flows, row.flow()))))
                }
                Values::Link => {
                    let links = &mut self.names.links;
                    Arc::new(rows.iter().map(|row| Some(named(links, row.link()?))).collect::<Int32Array>())
                }
            }
        });
        self.batches.push(columns.collect());
        self.rows.clear();
    }
}

impl Observer for TraceTable {
    fn on_event(&mut self, now: Timestamp, event: &Event) {
        self.push(Row { at: now, what: What::Event(*event) });
    }

    fn on_note(&mut self, now: Timestamp, note: &Note) {
        if let Some(row) = self.notes.row(now, note) {
            self.push(row);
        }
    }
}

impl fmt::Debug for TraceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceTable")
            .field("names", &self.names)
            .field("batches", &self.batches.len())
            .finish_non_exhaustive()
    }
}

/// The array, or one that is shared if it has no value.
fn unless_empty(array: ArrayRef, empty: &ArrayRef) -> ArrayRef {
    if array.null_count() == array.len() { empty.slice(0, array.len()) } else { array }
}

/// The place of a text in its dictionary, which it enters if it is new. A column has about twenty texts at most.
fn place(texts: &mut Vec<&'static str>, text: &'static str) -> i8 {
    let known = texts.iter().position(|known| *known == text);
    let place = known.unwrap_or_else(|| {
        texts.push(text);
        texts.len() - 1
    });
    place as i8
}

/// The place of the name of a flow or a link. One without a name is called by its number.
fn named(names: &mut Vec<String>, number: u32) -> i32 {
    while names.len() <= number as usize {
        names.push(names.len().to_string());
    }
    number as i32
}

/// The texts whose places in `names` are in `places`.
fn dictionary<K>(places: &ArrayRef, names: &ArrayRef) -> Result<ArrayRef, ArrowError>
where
    K: arrow_array::types::ArrowDictionaryKeyType,
{
    use arrow_array::cast::AsArray;
    let places = places.as_primitive::<K>().clone();
    Ok(Arc::new(DictionaryArray::try_new(places, Arc::clone(names))?))
}
