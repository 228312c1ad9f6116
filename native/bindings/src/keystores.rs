//! Keystores and truststores that Python has read from a file or from a setting.

use pybroker_keystore::{Kind, Store, identity, kind_of, trusted};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A keystore or truststore that is not decoded yet. `repr` hides it, because it may contain a private key.
#[pyclass(
    frozen,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone)]
pub(crate) struct TlsStore {
    prefix: String,
    place: String,
    kind: String,
    content: Vec<u8>,
    password: Option<String>,
}

impl TlsStore {
    fn store(&self) -> PyResult<Store<'_>> {
        let kind = if self.kind.is_empty() {
            kind_of(&self.content)
        } else {
            Kind::of(&self.kind).ok_or_else(|| {
                let told = "must be one of PEM, JKS, PKCS12";
                PyValueError::new_err(format!("{}type={}: {told}", self.prefix, self.kind))
            })?
        };
        Ok(Store {
            prefix: &self.prefix,
            place: &self.place,
            kind,
            content: &self.content,
            password: self.password.as_deref(),
        })
    }
}

#[pymethods]
impl TlsStore {
    fn identity<'py>(
        &self,
        py: Python<'py>,
        key_password: Option<&str>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let store = self.store()?;
        // Release the GIL, because this is slow by design: the password is hashed thousands of times.
        let read = py.detach(|| identity(&store, key_password));
        let pem = read.map_err(|problem| PyValueError::new_err(problem.to_string()))?;
        Ok(PyBytes::new(py, &pem))
    }

    fn trusted<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let store = self.store()?;
        let read = py.detach(|| trusted(&store));
        let pem = read.map_err(|problem| PyValueError::new_err(problem.to_string()))?;
        Ok(PyBytes::new(py, &pem))
    }
}
