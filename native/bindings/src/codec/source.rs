//! Encoding: Python objects to bytes.

use std::borrow::Cow;

use pybroker_model::Uuid as Id;
use pybroker_protocol::codec::{ClassIndex, EncodeError, Source};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::classes::Classes;
use super::pace::Pace;
use super::sink::Failure;
use crate::record_bytes::RecordBytes;
use crate::uuid::Uuid;

pub(super) struct PySource<'py> {
    py: Python<'py>,
    classes: &'static Classes,
    pace: Pace,
}

impl<'py> PySource<'py> {
    pub(super) fn new(py: Python<'py>, classes: &'static Classes, pace: Pace) -> PySource<'py> {
        PySource { py, classes, pace }
    }
}

fn wrong(wanted: &str, value: &Bound<'_, PyAny>) -> Failure {
    let class = value
        .get_type()
        .name()
        .map_or_else(|_| "?".to_owned(), |name| name.to_string());
    EncodeError::new(format!("expected {wanted}, got {class}")).into()
}

impl<'py> Source for PySource<'py> {
    type Value = Bound<'py, PyAny>;
    type Error = Failure;

    fn is_null(&self, value: &Self::Value) -> bool {
        value.is_none()
    }

    fn boolean(&self, value: &Self::Value) -> Result<bool, Failure> {
        value.extract().map_err(|_| wrong("bool", value))
    }

    fn integer(&self, value: &Self::Value) -> Result<i64, Failure> {
        if !value.is_instance_of::<PyInt>() {
            return Err(wrong("int", value));
        }
        value
            .extract()
            .map_err(|_| EncodeError::new(format!("{value} does not fit int64")).into())
    }

    fn float(&self, value: &Self::Value) -> Result<f64, Failure> {
        if !value.is_instance_of::<PyFloat>() && !value.is_instance_of::<PyInt>() {
            return Err(wrong("float", value));
        }
        Ok(value.extract()?)
    }

    fn uuid(&self, value: &Self::Value) -> Result<Id, Failure> {
        value
            .cast::<Uuid>()
            .map(|uuid| uuid.get().0)
            .map_err(|_| wrong("Uuid", value))
    }

    fn string<'a>(&self, value: &'a Self::Value) -> Result<Cow<'a, str>, Failure> {
        let text = value.cast::<PyString>().map_err(|_| wrong("str", value))?;
        Ok(text
            .to_str()
            .map_err(|_| EncodeError::new("a string with a lone surrogate has no UTF-8"))?
            .into())
    }

    fn bytes<'a>(&self, value: &'a Self::Value) -> Result<Cow<'a, [u8]>, Failure> {
        if let Ok(bytes) = value.cast::<PyBytes>() {
            Ok(bytes.as_bytes().into())
        } else if let Ok(bytes) = value.cast::<PyByteArray>() {
            Ok(bytes.to_vec().into())
        } else if let Ok(records) = value.cast::<RecordBytes>() {
            Ok(records.get().bytes().into())
        } else {
            Err(wrong("bytes", value))
        }
    }

    fn count(&self, value: &Self::Value) -> Result<usize, Failure> {
        if let Ok(list) = value.cast::<PyList>() {
            Ok(list.len())
        } else if let Ok(tuple) = value.cast::<PyTuple>() {
            Ok(tuple.len())
        } else {
            Err(wrong("list or tuple", value))
        }
    }

    fn element(&self, value: &Self::Value, place: usize) -> Result<Self::Value, Failure> {
        self.pace.step(self.py)?;
        match value.cast::<PyList>() {
            Ok(list) => Ok(list.get_item(place)?),
            Err(_) => Ok(value.get_item(place)?),
        }
    }

    fn field(
        &self,
        value: &Self::Value,
        class: ClassIndex,
        field: usize,
    ) -> Result<Self::Value, Failure> {
        let known = self.classes.get(class);
        if !value.get_type().is(&known.class) {
            return Err(wrong(&self.classes.message.classes[class].name, value));
        }
        Ok(value.getattr(known.names[field].bind(self.py))?)
    }

    fn is_default(
        &self,
        value: &Self::Value,
        class: ClassIndex,
        field: usize,
    ) -> Result<bool, Failure> {
        Ok(self.classes.is_default(value, class, field)?)
    }
}
