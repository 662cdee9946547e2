//! Typed columns of a table, as text or as an Arrow record batch.

/// The value of a row, if it has one.
type Value<'a, R, T> = Box<dyn Fn(&R) -> Option<T> + 'a>;

/// The values of a column, one for each row.
pub(crate) enum Values<'a, R> {
    Text(Value<'a, R, String>),
    Integer(Value<'a, R, u64>),
    Number(Value<'a, R, f64>),
    Flag(Value<'a, R, bool>),
}

/// A column of a table whose rows are made from `R`.
pub(crate) struct Column<'a, R> {
    pub(crate) name: String,
    pub(crate) values: Values<'a, R>,
}

impl<'a, R> Column<'a, R> {
    pub(crate) fn text(name: impl Into<String>, value: impl Fn(&R) -> Option<String> + 'a) -> Self {
        Self { name: name.into(), values: Values::Text(Box::new(value)) }
    }

    pub(crate) fn integer(name: impl Into<String>, value: impl Fn(&R) -> Option<u64> + 'a) -> Self {
        Self { name: name.into(), values: Values::Integer(Box::new(value)) }
    }

    pub(crate) fn number(name: impl Into<String>, value: impl Fn(&R) -> Option<f64> + 'a) -> Self {
        Self { name: name.into(), values: Values::Number(Box::new(value)) }
    }

    pub(crate) fn flag(name: impl Into<String>, value: impl Fn(&R) -> Option<bool> + 'a) -> Self {
        Self { name: name.into(), values: Values::Flag(Box::new(value)) }
    }

    /// The cell of a row as text; empty without a value.
    pub(crate) fn cell(&self, row: &R) -> String {
        match &self.values {
            Values::Text(value) => value(row).unwrap_or_default(),
            Values::Integer(value) => value(row).map(|value| value.to_string()).unwrap_or_default(),
            Values::Number(value) => value(row).map(|value| value.to_string()).unwrap_or_default(),
            Values::Flag(value) => value(row).map(|value| value.to_string()).unwrap_or_default(),
        }
    }
}

/// A table as comma-separated values.
///
/// # Errors
///
/// If a row cannot be written, which does not happen in memory.
pub(crate) fn csv<R>(columns: &[Column<'_, R>], rows: &[R]) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(columns.iter().map(|column| column.name.as_str()))?;
    for row in rows {
        writer.write_record(columns.iter().map(|column| column.cell(row)))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

/// A table as an Arrow record batch. Integers are unsigned with 64 bits, numbers have double precision; a missing value is null.
///
/// # Errors
///
/// The columns do not fit together, which is a bug.
#[cfg(feature = "arrow")]
pub(crate) fn batch<R>(
    columns: &[Column<'_, R>],
    rows: &[R],
) -> Result<arrow_array::RecordBatch, arrow_schema::ArrowError> {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, BooleanArray, Float64Array, RecordBatch, RecordBatchOptions, StringArray, UInt64Array,
    };
    use arrow_schema::{Field, Schema};

    let array = |column: &Column<'_, R>| -> ArrayRef {
        match &column.values {
            Values::Text(value) => Arc::new(rows.iter().map(value).collect::<StringArray>()),
            Values::Integer(value) => Arc::new(rows.iter().map(value).collect::<UInt64Array>()),
            Values::Number(value) => Arc::new(rows.iter().map(value).collect::<Float64Array>()),
            Values::Flag(value) => Arc::new(rows.iter().map(value).collect::<BooleanArray>()),
        }
    };
    let arrays: Vec<ArrayRef> = columns.iter().map(array).collect();
    let field = |(column, array): (&Column<'_, R>, &ArrayRef)| {
        Field::new(&column.name, array.data_type().clone(), true)
    };
    let schema = Schema::new(columns.iter().zip(&arrays).map(field).collect::<Vec<_>>());
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)
}
