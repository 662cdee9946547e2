//! Tables on their way to Arrow, without copies: the `PyCapsule` interface of Arrow.

use arrow_array::{RecordBatch, RecordBatchIterator, ffi_stream::FFI_ArrowArrayStream};
use arrow_schema::{SchemaRef, ffi::FFI_ArrowSchema};
use pyo3::{prelude::*, types::PyCapsule};

use crate::error::Outcome;

/// A table for Arrow: an object with the methods of its `PyCapsule` interface.
#[pyclass(frozen, module = "giusto._giusto")]
pub(crate) struct ArrowStream {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl ArrowStream {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }
}

impl From<RecordBatch> for ArrowStream {
    fn from(batch: RecordBatch) -> Self {
        Self { schema: batch.schema(), batches: vec![batch] }
    }
}

#[pymethods]
impl ArrowStream {
    /// The schema as a capsule.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> Outcome<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(&*self.schema)?;
        Ok(PyCapsule::new_with_value(py, schema, c"arrow_schema")?)
    }

    /// The batches as a capsule. They share their memory with this table; a requested schema is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> Outcome<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        Ok(PyCapsule::new_with_value(py, stream, c"arrow_array_stream")?)
    }
}
