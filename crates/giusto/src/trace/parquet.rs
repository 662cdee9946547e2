//! Traces as Apache Parquet.

use std::{io, sync::Arc};

use parquet::{
    basic::{Compression, Encoding},
    data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::{parser::parse_message_type, types::ColumnPath},
};

use super::{
    TraceNames, Writer,
    row::{COLUMNS, Row, Values},
};
use crate::whole_file::WholeFile;

/// Rows of a row group: some 90 MB while it is being collected.
const ROWS_PER_GROUP: usize = 1 << 20;

/// Rows that are encoded at a time.
pub(super) const ROWS_PER_BATCH: usize = 8192;

/// Columns whose values seldom repeat: a dictionary of them would be large, their differences are small.
const DIFFERENCES: [&str; 4] = ["time_ns", "sequence", "sojourn_ns", "delay_ns"];

#[derive(Debug)]
pub(super) struct Parquet {
    writer: SerializedFileWriter<WholeFile>,
    /// Names as they are written; a copy costs a reference count.
    flows: Vec<ByteArray>,
    links: Vec<ByteArray>,
    rows: Vec<Row>,
}

impl Parquet {
    pub(super) fn new(file: WholeFile, names: &TraceNames) -> Result<Self, io::Error> {
        let columns = COLUMNS.iter().map(|column| {
            let repetition = if column.nullable { "optional" } else { "required" };
            match column.values {
                Values::Integer(_) => format!("{repetition} int64 {};", column.name),
                Values::Number(_) => format!("{repetition} double {};", column.name),
                _ => format!("{repetition} byte_array {} (utf8);", column.name),
            }
        });
        let schema = format!("message trace {{ {} }}", columns.collect::<String>());
        let schema = parse_message_type(&schema).map_err(io_error)?;
        let mut properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        for column in DIFFERENCES {
            let path = ColumnPath::from(column);
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
        let texts = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()));
        Ok(Self {
            writer: writer.map_err(io_error)?,
            flows: texts(&names.flows),
            links: texts(&names.links),
            rows: Vec::new(),
        })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let (rows, flows, links) = (&self.rows, &self.flows, &self.links);
        for column in &COLUMNS {
            let Some(mut writer) = group.next_column()? else { break };
            let (to, nullable) = (&mut writer, column.nullable);
            match column.values {
                Values::Integer(value) => write_column::<Int64Type>(to, nullable, rows, value)?,
                Values::Number(value) => write_column::<DoubleType>(to, nullable, rows, value)?,
                Values::Text(value) => {
                    write_column::<ByteArrayType>(to, nullable, rows, |row| value(row).map(ByteArray::from))?;
                }
                Values::Flow => {
                    write_column::<ByteArrayType>(to, nullable, rows, |row| Some(name(flows, row.flow())))?;
                }
                Values::Link => {
                    write_column::<ByteArrayType>(to, nullable, rows, |row| Some(name(links, row.link()?)))?;
                }
            }
            writer.close()?;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

impl Writer for Parquet {
    fn write(&mut self, row: Row) -> Result<(), io::Error> {
        self.rows.push(row);
        if self.rows.len() < ROWS_PER_GROUP { Ok(()) } else { self.write_group().map_err(io_error) }
    }

    fn finish(mut self: Box<Self>) -> Result<WholeFile, io::Error> {
        if !self.rows.is_empty() {
            self.write_group().map_err(io_error)?;
        }
        self.writer.into_inner().map_err(io_error)
    }
}

fn write_column<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    nullable: bool,
    rows: &[Row],
    value: impl Fn(&Row) -> Option<T::T>,
) -> Result<(), ParquetError> {
    for rows in rows.chunks(ROWS_PER_BATCH) {
        let values: Vec<Option<T::T>> = rows.iter().map(&value).collect();
        let present: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
        let values: Vec<T::T> = values.into_iter().flatten().collect();
        writer.typed::<T>().write_batch(&values, nullable.then_some(&present), None)?;
    }
    Ok(())
}

fn name(names: &[ByteArray], place: u32) -> ByteArray {
    names.get(place as usize).cloned().unwrap_or_else(|| place.to_string().as_str().into())
}

/// The system's error inside a Parquet error, if there is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}
