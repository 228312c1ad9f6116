//! `Uuid` for Python: the 128-bit id of pybroker-model, immutable.

use pybroker_model::Uuid as Id;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A 128-bit id (KIP-516). It is immutable and ordered by its bytes. `str()` returns 22 characters of url-safe base64.
#[pyclass(frozen, from_py_object, eq, ord, hash, module = "pybroker._native")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub Id);

impl std::fmt::Debug for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Uuid({})", self.0)
    }
}

#[pymethods]
impl Uuid {
    /// The id whose bits are all zero: null on the wire.
    #[classattr]
    const ZERO: Uuid = Uuid(Id::ZERO);

    /// The reserved id of the metadata topic.
    #[classattr]
    const METADATA: Uuid = Uuid(Id::METADATA);

    /// Create an id from Java's two halves, each modulo 2**64.
    #[new]
    fn new(
        most_significant_bits: &Bound<'_, PyAny>,
        least_significant_bits: &Bound<'_, PyAny>,
    ) -> PyResult<Uuid> {
        let half = |number: &Bound<'_, PyAny>| {
            number
                .call_method1("__and__", (u64::MAX,))?
                .extract::<u64>()
        };
        Ok(Uuid(Id::from_parts(
            half(most_significant_bits)?,
            half(least_significant_bits)?,
        )))
    }

    /// Return a new version-4 id. It is never ZERO or METADATA, and its text never starts with '-'.
    #[staticmethod]
    fn random() -> Uuid {
        Uuid(Id::random())
    }

    /// Parse base64 (22 characters), 32 hex digits or the dashed form.
    #[staticmethod]
    fn parse(text: &str) -> PyResult<Uuid> {
        Id::parse(text)
            .map(Uuid)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Create an id from 16 big-endian bytes.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Uuid> {
        let bytes: [u8; 16] = data.try_into().map_err(|_| {
            PyValueError::new_err(format!("a Uuid has 16 bytes, not {}", data.len()))
        })?;
        Ok(Uuid(Id::from_bytes(bytes)))
    }

    /// Return 16 big-endian bytes.
    #[getter]
    fn bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    /// Return 32 hex digits.
    #[getter]
    fn hex(&self) -> String {
        self.0.to_hex()
    }

    /// Upper half, signed as in Java.
    #[getter]
    fn most_significant_bits(&self) -> i64 {
        self.0.most_significant_bits().cast_signed()
    }

    /// Lower half, signed as in Java.
    #[getter]
    fn least_significant_bits(&self) -> i64 {
        self.0.least_significant_bits().cast_signed()
    }

    fn __bool__(&self) -> bool {
        !self.0.is_zero()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("{self:?}")
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        Ok((
            py.get_type::<Uuid>().getattr("from_bytes")?,
            (self.bytes(py),),
        ))
    }
}
