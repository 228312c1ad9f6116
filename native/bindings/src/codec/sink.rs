//! Decoding: bytes to Python objects.

use std::vec::Drain;

use pybroker_model::Uuid as Id;
use pybroker_protocol::codec::{ClassIndex, EncodeError, ErrorPath, Message, Sink};
use pybroker_protocol::primitives::DecodeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::CodecError;
use super::classes::Classes;
use super::pace::Pace;
use crate::uuid::Uuid;

/// Error of decoding or encoding.
pub(super) enum Failure {
    Bytes(DecodeError),
    Message(EncodeError),
    Python(PyErr),
    /// The message has more elements than the caller allows.
    TooMany,
}

impl Failure {
    pub(super) fn into_error(self, message: &Message, version: i16) -> PyErr {
        match self {
            Failure::Bytes(error) => {
                CodecError::new_err(format!("{} v{version}: {error}", message.name()))
            }
            Failure::Message(error) => CodecError::new_err(format!("v{version}: {error}")),
            Failure::Python(error) => error,
            Failure::TooMany => CodecError::new_err(format!("v{version}: too many elements")),
        }
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Failure {
        Failure::Bytes(error)
    }
}

impl From<EncodeError> for Failure {
    fn from(error: EncodeError) -> Failure {
        Failure::Message(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Failure {
        Failure::Python(error)
    }
}

impl ErrorPath for Failure {
    fn within(self, field: &str) -> Failure {
        match self {
            Failure::Message(error) => Failure::Message(error.within(field)),
            other => other,
        }
    }
}

pub(super) struct PySink<'py> {
    py: Python<'py>,
    classes: &'static Classes,
    pace: Pace,
}

impl<'py> PySink<'py> {
    pub(super) fn new(py: Python<'py>, classes: &'static Classes, pace: Pace) -> PySink<'py> {
        PySink { py, classes, pace }
    }
}

impl<'py> Sink for PySink<'py> {
    type Value = Bound<'py, PyAny>;
    type Error = Failure;

    fn null(&mut self) -> Result<Self::Value, Failure> {
        Ok(self.py.None().into_bound(self.py))
    }
    fn boolean(&mut self, value: bool) -> Result<Self::Value, Failure> {
        Ok(PyBool::new(self.py, value).to_owned().into_any())
    }
    fn integer(&mut self, value: i64) -> Result<Self::Value, Failure> {
        Ok(PyInt::new(self.py, value).into_any())
    }
    fn float(&mut self, value: f64) -> Result<Self::Value, Failure> {
        Ok(PyFloat::new(self.py, value).into_any())
    }
    fn uuid(&mut self, value: Id) -> Result<Self::Value, Failure> {
        Ok(Bound::new(self.py, Uuid(value))?.into_any())
    }
    fn string(&mut self, value: &str) -> Result<Self::Value, Failure> {
        self.pace.step(self.py)?;
        Ok(PyString::new(self.py, value).into_any())
    }
    fn bytes(&mut self, value: &[u8]) -> Result<Self::Value, Failure> {
        Ok(PyBytes::new(self.py, value).into_any())
    }
    fn array(&mut self, elements: Drain<'_, Self::Value>) -> Result<Self::Value, Failure> {
        Ok(PyList::new(self.py, elements)?.into_any())
    }
    fn absent(&mut self, class: ClassIndex, field: usize) -> Result<Self::Value, Failure> {
        Ok(self.classes.default(self.py, class, field)?)
    }
    fn structure(
        &mut self,
        class: ClassIndex,
        fields: Drain<'_, Self::Value>,
    ) -> Result<Self::Value, Failure> {
        self.pace.step(self.py)?;
        let arguments = PyTuple::new(self.py, fields)?;
        Ok(self
            .classes
            .get(class)
            .class
            .bind(self.py)
            .call1(arguments)?)
    }
}
