//! Bytes of record batches on their way from a log into a response, which Python only passes on.

use std::ops::Range;
use std::sync::Arc;

use pyo3::prelude::*;

/// Record batches whose bytes only a response reads.
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
