//! Decompression of client data outside of record batches.

use pybroker_model::{Codec, decompress};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Decompress `data` without the GIL. `codec` is the codec's number in batch attributes. Raises `ValueError` if the
/// data is corrupt or expands to more than `max` bytes, and uses no more memory than that.
#[pyfunction]
pub(crate) fn unpacked<'py>(
    py: Python<'py>,
    codec: u8,
    data: &[u8],
    max: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let known = Codec::from_code(codec)
        .ok_or_else(|| PyValueError::new_err(format!("there is no codec {codec}")))?;
    let mut out = Vec::new();
    py.detach(|| decompress(known, data, &mut out, max))
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(PyBytes::new(py, &out))
}
