//! A client from Python's settings, and its errors for Python.

use std::collections::BTreeMap;

use pybroker_spark::{Client, Error, Settings};
use pyo3::prelude::*;

use crate::errors::native_error;

pub(super) fn spark_error(error: &Error) -> PyErr {
    native_error(error.code().0, error)
}

/// Not connected yet.
pub(super) fn client_of(settings: &BTreeMap<String, String>) -> PyResult<Client> {
    let settings = Settings::new(settings).map_err(|error| spark_error(&error))?;
    Ok(Client::new(settings))
}
