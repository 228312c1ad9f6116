//! The Arrow C data interface in PyCapsules. This is the only module in which foreign pointers become Arrow arrays.

use std::ffi::CStr;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::{Array, RecordBatch, StructArray};
use arrow_schema::DataType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

const ARRAY: &CStr = c"arrow_array";
const SCHEMA: &CStr = c"arrow_schema";

/// Import the rows of an object with `__arrow_c_array__` (a pyarrow `RecordBatch`, for instance), without a copy.
pub(super) fn import(batch: &Bound<'_, PyAny>) -> PyResult<StructArray> {
    let given = batch.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = given
        .cast::<PyTuple>()
        .map_err(PyErr::from)
        .and_then(|pair| pair.extract())?;
    let schema = schema.pointer_checked(Some(SCHEMA))?;
    let array = array.pointer_checked(Some(ARRAY))?;
    // SAFETY: capsules named `arrow_schema` and `arrow_array` hold structs of the Arrow C data interface (its PyCapsule
    // protocol); `pointer_checked` compared the names. `from_raw` moves the content out and leaves a released struct
    // behind, which the capsule's destructor recognises.
    #[allow(unsafe_code)]
    let (schema, array) = unsafe {
        (
            FFI_ArrowSchema::from_raw(schema.as_ptr().cast()),
            FFI_ArrowArray::from_raw(array.as_ptr().cast()),
        )
    };
    // SAFETY: both came from one producer in one call. It promises that the buffers match the schema and live until the
    // array is released; the array created here owns them.
    #[allow(unsafe_code)]
    let data = unsafe { from_ffi(array, &schema) }
        .map_err(|problem| PyValueError::new_err(format!("no Arrow data: {problem}")))?;
    if !matches!(data.data_type(), DataType::Struct(_)) {
        return Err(PyTypeError::new_err(format!(
            "a batch of rows is needed, not {}",
            data.data_type()
        )));
    }
    // Validate data from another program before indexing it.
    data.validate()
        .map_err(|problem| PyValueError::new_err(format!("damaged Arrow data: {problem}")))?;
    Ok(StructArray::from(data))
}

/// Rows for Arrow consumers such as `pyarrow.record_batch(batch)`, without a copy.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct ArrowBatch(StructArray);

impl ArrowBatch {
    pub(super) fn new(rows: RecordBatch) -> Self {
        Self(StructArray::from(rows))
    }
}

#[pymethods]
impl ArrowBatch {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Export the rows through the Arrow PyCapsule interface. The requested schema is ignored.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let (array, schema) = to_ffi(&self.0.to_data())
            .map_err(|problem| PyValueError::new_err(problem.to_string()))?;
        Ok((
            PyCapsule::new_with_value(py, schema, SCHEMA)?,
            PyCapsule::new_with_value(py, array, ARRAY)?,
        ))
    }
}
