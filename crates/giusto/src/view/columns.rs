//! Typed columns of a table, as text or as an Arrow record batch.

use crate::statistics::{Part, Read, Statistic};

/// Adds columns that have the names of fields: `fields!(columns.number, |row| row.figures => jain, rise_s)`.
#[cfg(feature = "arrow")]
macro_rules! fields {
    ($columns:ident.$kind:ident, |$row:ident| $of:expr => $($field:ident),+ $(,)?) => {
        $($columns.$kind(stringify!($field), |$row| $of.$field);)+
    };
}
#[cfg(feature = "arrow")]
pub(super) use fields;

/// The values of a column, one for each row.
pub(crate) enum Values {
    Text(Vec<Option<String>>),
    Integer(Vec<Option<u64>>),
    Seed(Vec<Option<u64>>),
    Number(Vec<Option<f64>>),
    Flag(Vec<Option<bool>>),
}

/// A table of columns, made from rows. A value may be missing: a column takes `T` and `Option<T>`.
pub(crate) struct Columns<'a, R> {
    rows: &'a [R],
    columns: Vec<(String, Values)>,
}

impl<'a, R> Columns<'a, R> {
    pub(crate) fn of(rows: &'a [R]) -> Self {
        Self { rows, columns: Vec::new() }
    }

    pub(crate) fn text<V: Into<Option<String>>>(&mut self, name: &str, of: impl Fn(&R) -> V) -> &mut Self {
        let values = self.rows.iter().map(|row| of(row).into()).collect();
        self.push(name, Values::Text(values))
    }

    pub(crate) fn integer<V: Into<Option<u64>>>(&mut self, name: &str, of: impl Fn(&R) -> V) -> &mut Self {
        let values = self.rows.iter().map(|row| of(row).into()).collect();
        self.push(name, Values::Integer(values))
    }

    pub(crate) fn seed<V: Into<Option<u64>>>(&mut self, name: &str, of: impl Fn(&R) -> V) -> &mut Self {
        let values = self.rows.iter().map(|row| of(row).into()).collect();
        self.push(name, Values::Seed(values))
    }

    pub(crate) fn number<V: Into<Option<f64>>>(&mut self, name: &str, of: impl Fn(&R) -> V) -> &mut Self {
        let values = self.rows.iter().map(|row| of(row).into()).collect();
        self.push(name, Values::Number(values))
    }

    pub(crate) fn flag<V: Into<Option<bool>>>(&mut self, name: &str, of: impl Fn(&R) -> V) -> &mut Self {
        let values = self.rows.iter().map(|row| of(row).into()).collect();
        self.push(name, Values::Flag(values))
    }

    /// The statistics that tables of sweeps have; a distribution has a column for each of its parts.
    pub(crate) fn statistics<T>(&mut self, table: &[Statistic<T>], of: fn(&R) -> &T) -> &mut Self {
        for row in table.iter().filter(|row| row.in_sweeps) {
            match row.read {
                Read::Rate(read)
                | Read::Ratio(read)
                | Read::Time(read)
                | Read::Decibel(read)
                | Read::Ppm(read)
                | Read::Number(read) => _ = self.number(row.name, |row| read(of(row))),
                Read::Count(_, read) => _ = self.integer(row.name, |row| read(of(row))),
                Read::Delay(read) => {
                    for part in Part::ALL {
                        self.number(&row.name_of(Some(part)), |row| Some(part.of(&read(of(row))?)));
                    }
                }
                // Measured streams and expectations have these; sweeps have neither.
                Read::Quantiles(..) | Read::Metric(_) => {}
            }
        }
        self
    }

    fn push(&mut self, name: &str, values: Values) -> &mut Self {
        self.columns.push((name.to_owned(), values));
        self
    }

    /// As comma-separated values; a missing value is empty.
    ///
    /// # Errors
    ///
    /// If a row cannot be written, which does not happen in memory.
    pub(crate) fn csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.columns.iter().map(|(name, _)| name))?;
        for row in 0..self.rows.len() {
            writer
                .write_record(self.columns.iter().map(|(_, values)| values.text(row).unwrap_or_default()))?;
        }
        writer.into_inner().map_err(|error| error.into_error().into())
    }

    /// As an Arrow record batch. Integers have 64 bits and a sign, so that a difference may be negative; seeds have none. Numbers have
    /// double precision; a missing value is null.
    ///
    /// # Errors
    ///
    /// The columns do not fit together, which is a bug.
    #[cfg(feature = "arrow")]
    pub(crate) fn batch(&self) -> Result<arrow_array::RecordBatch, arrow_schema::ArrowError> {
        use std::sync::Arc;

        use arrow_array::{
            ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
            UInt64Array,
        };
        use arrow_schema::{Field, Schema};

        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let array = |(_, values): &(String, Values)| -> ArrayRef {
            match values {
                Values::Text(values) => {
                    Arc::new(values.iter().map(Option::as_deref).collect::<StringArray>())
                }
                Values::Seed(values) => Arc::new(values.iter().copied().collect::<UInt64Array>()),
                Values::Integer(values) => {
                    Arc::new(values.iter().map(|value| value.map(signed)).collect::<Int64Array>())
                }
                Values::Number(values) => Arc::new(values.iter().copied().collect::<Float64Array>()),
                Values::Flag(values) => Arc::new(values.iter().copied().collect::<BooleanArray>()),
            }
        };
        let arrays: Vec<ArrayRef> = self.columns.iter().map(array).collect();
        let field = |((name, _), array): (&(String, Values), &ArrayRef)| {
            Field::new(name, array.data_type().clone(), true)
        };
        let schema = Schema::new(self.columns.iter().zip(&arrays).map(field).collect::<Vec<_>>());
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)
    }
}

impl Values {
    fn text(&self, row: usize) -> Option<String> {
        match self {
            Self::Text(values) => values.get(row)?.clone(),
            Self::Integer(values) | Self::Seed(values) => values.get(row)?.map(|value| value.to_string()),
            Self::Number(values) => values.get(row)?.map(|value| value.to_string()),
            Self::Flag(values) => values.get(row)?.map(|value| value.to_string()),
        }
    }
}

#[cfg(all(test, feature = "arrow"))]
mod tests {
    use arrow_array::{
        Array,
        cast::AsArray,
        types::{Int64Type, UInt64Type},
    };

    use super::*;

    #[test]
    fn differences_may_be_negative_and_seeds_large() {
        let rows = [(u64::MAX, Some(7)), (1, Some(5)), (0, None)];
        let batch =
            Columns::of(&rows).seed("random", |row| row.0).integer("seed", |row| row.1).batch().unwrap();
        let seeds = batch.column(0).as_primitive::<UInt64Type>();
        assert_eq!(seeds.values().to_vec(), [u64::MAX, 1, 0]);
        let bytes = batch.column(1).as_primitive::<Int64Type>();
        assert_eq!((bytes.value(1) - bytes.value(0), bytes.is_null(2)), (-2, true));
    }
}
