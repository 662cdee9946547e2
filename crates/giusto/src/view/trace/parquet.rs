//! Traces as Apache Parquet.

use std::{io, sync::Arc};

use parquet::{
    basic::{Compression, Encoding},
    data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::{parser::parse_message_type, types::ColumnPath},
};

use super::{
    TraceNames,
    row::{COLUMNS, Column, Row, Type, Value},
};
use crate::whole_file::WholeFile;

/// Rows of a row group: some 60 MB while it is being collected.
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
            match column.holds {
                Type::Integer => format!("{repetition} int64 {};", column.name),
                Type::Number => format!("{repetition} double {};", column.name),
                Type::Text => format!("{repetition} byte_array {} (utf8);", column.name),
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

    pub(super) fn push(&mut self, row: Row) -> Result<(), io::Error> {
        self.rows.push(row);
        if self.rows.len() < ROWS_PER_GROUP { Ok(()) } else { self.write_group().map_err(io_error) }
    }

    pub(super) fn finish(mut self) -> Result<WholeFile, io::Error> {
        if !self.rows.is_empty() {
            self.write_group().map_err(io_error)?;
        }
        self.writer.into_inner().map_err(io_error)
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let (mut integers, mut numbers, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        let mut present = Vec::new();
        for column in &COLUMNS {
            let Some(mut writer) = group.next_column()? else { break };
            for rows in self.rows.chunks(ROWS_PER_BATCH) {
                integers.clear();
                numbers.clear();
                texts.clear();
                present.clear();
                for row in rows {
                    let value = (column.value)(row);
                    present.push(i16::from(value != Value::Null));
                    match value {
                        Value::Null => {}
                        Value::Integer(value) => integers.push(value),
                        Value::Number(value) => numbers.push(value),
                        Value::Text(text) => texts.push(text.into()),
                        Value::Flow(flow) => texts.push(name(&self.flows, flow)),
                        Value::Link(link) => texts.push(name(&self.links, link)),
                    }
                }
                let present = column.nullable.then_some(present.as_slice());
                match column.holds {
                    Type::Integer => writer.typed::<Int64Type>().write_batch(&integers, present, None)?,
                    Type::Number => writer.typed::<DoubleType>().write_batch(&numbers, present, None)?,
                    Type::Text => writer.typed::<ByteArrayType>().write_batch(&texts, present, None)?,
                };
            }
            writer.close()?;
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
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
