//! Small conversions between Python's and Rust's types, once.

use pybroker_model::TopicId;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::uuid::Uuid;

/// A topic's id; zero is none.
pub(crate) fn topic_id(id: Uuid) -> PyResult<TopicId> {
    TopicId::new(id.0).ok_or_else(|| PyValueError::new_err("the zero id names no topic"))
}

/// Settings under Kafka's names. What is absent or None has the default; a value of a wrong type is named.
pub(crate) struct Settings<'a, 'py>(pub(crate) &'a Bound<'py, PyDict>);

impl Settings<'_, '_> {
    fn get<T: for<'b> FromPyObject<'b, 'b>>(
        &self,
        name: &str,
        expected: &str,
    ) -> PyResult<Option<T>> {
        match self.0.get_item(name)? {
            None => Ok(None),
            Some(value) if value.is_none() => Ok(None),
            Some(value) => match value.extract() {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(PyValueError::new_err(format!(
                    "{name}={value}: {expected} expected"
                ))),
            },
        }
    }

    /// A whole number between bounds; outside, the bound (limits are not errors here: the control plane checked).
    pub(crate) fn number<T: TryFrom<i64> + Copy>(&self, name: &str, default: T) -> PyResult<T> {
        if let Some(value) = self.0.get_item(name)?
            && value.is_instance_of::<PyBool>()
        {
            return Err(PyValueError::new_err(format!(
                "{name}={value}: a whole number expected"
            )));
        }
        let Some(value) = self.get::<i64>(name, "a whole number")? else {
            return Ok(default);
        };
        T::try_from(value)
            .map_err(|_| PyValueError::new_err(format!("{name}={value} is out of range")))
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> PyResult<bool> {
        Ok(self.get(name, "true or false")?.unwrap_or(default))
    }

    pub(crate) fn text(&self, name: &str) -> PyResult<Option<String>> {
        self.get(name, "a text")
    }

    pub(crate) fn float(&self, name: &str, default: f64) -> PyResult<f64> {
        Ok(self.get(name, "a number")?.unwrap_or(default))
    }
}
