//! Settings from Python, and conversion of the Spark client's errors for Python.

use std::collections::BTreeMap;

use pybroker_spark::{Error, Settings};
use pyo3::prelude::*;

use crate::errors::native_error;

/// Read settings under Kafka's names. The values are texts.
pub(super) fn read(given: &BTreeMap<String, String>) -> PyResult<Settings> {
    Settings::new(given).map_err(|error| spark_error(&error))
}

/// Return the names of all settings.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    Settings::known().map(|setting| setting.name)
}

pub(super) fn spark_error(error: &Error) -> PyErr {
    native_error(error.code().0, error)
}
