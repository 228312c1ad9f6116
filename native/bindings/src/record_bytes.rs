//! Bytes of record batches that Python passes from a log to a response without reading them.

use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;

/// Record batches for a response; Python does not read their bytes.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct RecordBytes {
    bytes: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl RecordBytes {
    pub(crate) fn new(bytes: &Arc<Vec<u8>>, range: Range<usize>) -> Self {
        Self {
            bytes: Arc::clone(bytes),
            range,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

#[pymethods]
impl RecordBytes {
    fn __len__(&self) -> usize {
        self.range.len()
    }
}
