//! Conversion of messages between bytes and Python objects: the schema codec with a sink and a source for msgspec
//! structs.
//!
//! A class is built from its schema on first use, so that the start is cheap; `pybroker.protocol.messages` provides the
//! same classes to handlers. This module needs the GIL. Before it, [`pybroker_protocol::codec::check`] validates frames
//! without the GIL.

use std::collections::HashMap;

mod classes;
mod inspect;
mod pace;
mod sink;
mod source;
mod stored;

use pybroker_protocol::codec::{self, Direction, ELEMENTS_MAX_TRUSTED, Layout, Message, Registry};
use pybroker_protocol::header;
use pybroker_protocol::primitives::{ELEMENTS_MAX, Reader};
use pybroker_protocol::{Api, ApiKey};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use classes::Classes;
pub use inspect::{
    ApiInfo, ErrorCodeInfo, FieldSchema, MessageSchema, StructSchema, api_table, error_code_table,
    message_class, message_names, message_schema,
};
use pace::Pace;
use sink::{Failure, PySink};
use source::PySource;
pub use stored::stored_offset;

create_exception!(
    pybroker._native,
    CodecError,
    PyValueError,
    "Bytes that are no message of that key and version, or a message that this version cannot carry."
);

/// Decode a request of a client or a broker into its class. `registry` is the registry of the listener. With `paused`,
/// release the GIL repeatedly, because the caller is a separate thread.
///
/// # Errors
///
/// `CodecError` if the bytes are invalid; the caller must then close the connection.
pub fn decode_request(
    py: Python<'_>,
    registry: Registry,
    (api_key, version): (i16, i16),
    body: &[u8],
    paused: bool,
) -> PyResult<Py<PyAny>> {
    let message = find(registry, api_key, Direction::Request)?;
    let layout = layout_of(message, version)?;
    let mut sink = PySink::new(py, Classes::of(py, message)?, Pace::of_request(paused));
    codec::decode(layout, body, registry.elements_max(), &mut sink)
        .map(Bound::unbind)
        .map_err(|failure| failure.into_error(message, version))
}

/// Return the number of elements in all arrays of a request; 0 for undecodable bytes.
pub fn elements_of(registry: Registry, (api_key, version): (i16, i16), body: &[u8]) -> u32 {
    registry
        .message(api_key, Direction::Request)
        .and_then(|message| message.layout(version))
        .and_then(|layout| codec::count_elements(layout, body, registry.elements_max()).ok())
        .unwrap_or(0)
}

/// Encode the body of the response to a request with this key and version.
///
/// # Errors
///
/// `CodecError` if `response` is of another class or does not fit the version, which is a bug of the broker.
pub fn encode_response(
    py: Python<'_>,
    registry: Registry,
    (api_key, version): (i16, i16),
    response: &Bound<'_, PyAny>,
    paused: bool,
) -> PyResult<Vec<u8>> {
    let message = find(registry, api_key, Direction::Response)?;
    let pace = Pace::of_request(paused);
    encode_at(py, Classes::of(py, message)?, version, response, pace)
        .map_err(|failure| failure.into_error(message, version))
}

/// Encode the body, unless the response has more than `elements_max` elements.
///
/// # Errors
///
/// Like [`encode_response`].
pub fn encode_small_response(
    py: Python<'_>,
    registry: Registry,
    (api_key, version): (i16, i16),
    response: &Bound<'_, PyAny>,
    elements_max: u32,
) -> PyResult<Option<Vec<u8>>> {
    let message = find(registry, api_key, Direction::Response)?;
    let pace = Pace::at_most(elements_max);
    match encode_at(py, Classes::of(py, message)?, version, response, pace) {
        Ok(body) => Ok(Some(body)),
        Err(Failure::TooMany) => Ok(None),
        Err(failure) => Err(failure.into_error(message, version)),
    }
}

fn find(registry: Registry, api_key: i16, direction: Direction) -> PyResult<&'static Message> {
    registry
        .message(api_key, direction)
        .ok_or_else(|| CodecError::new_err(format!("there is no API key {api_key}")))
}

fn registry_of(interbroker: bool) -> Registry {
    if interbroker {
        Registry::InterBroker
    } else {
        Registry::Client
    }
}

fn decode_message(
    py: Python<'_>,
    message: &'static Message,
    version: i16,
    body: &[u8],
    elements_max: u32,
) -> PyResult<Py<PyAny>> {
    let layout = layout_of(message, version)?;
    let mut sink = PySink::new(py, Classes::of(py, message)?, Pace::unbroken());
    codec::decode(layout, body, elements_max, &mut sink)
        .map(Bound::unbind)
        .map_err(|failure| failure.into_error(message, version))
}

fn layout_of(message: &'static Message, version: i16) -> PyResult<&'static Layout> {
    message
        .layout(version)
        .ok_or_else(|| CodecError::new_err(format!("{} has no version {version}", message.name())))
}

fn encode_message(
    py: Python<'_>,
    classes: &'static Classes,
    version: i16,
    object: &Bound<'_, PyAny>,
) -> PyResult<Vec<u8>> {
    encode_at(py, classes, version, object, Pace::unbroken())
        .map_err(|failure| failure.into_error(classes.message, version))
}

fn encode_at(
    py: Python<'_>,
    classes: &'static Classes,
    version: i16,
    object: &Bound<'_, PyAny>,
    pace: Pace,
) -> Result<Vec<u8>, Failure> {
    let mut out = Vec::new();
    let source = PySource::new(py, classes, pace);
    codec::encode(classes.message, version, &source, object, &mut out)?;
    Ok(out)
}

/// Encode the body of a message of `pybroker.protocol.messages` or `.interbroker`. Fields that `version` does not have
/// are omitted.
#[pyfunction]
pub fn encode<'py>(
    py: Python<'py>,
    message: &Bound<'py, PyAny>,
    version: i16,
) -> PyResult<Bound<'py, PyBytes>> {
    encode_message(py, Classes::of_object(message)?, version, message)
        .map(|body| PyBytes::new(py, &body))
}

/// Use these classes for the structs of an inter-broker message. Each must have the same fields in the same order as
/// the struct.
#[pyfunction]
pub fn use_classes(
    py: Python<'_>,
    message: &str,
    classes: HashMap<String, Py<PyType>>,
) -> PyResult<()> {
    let found = Registry::InterBroker
        .named(message)
        .ok_or_else(|| CodecError::new_err(format!("there is no message {message}")))?;
    Classes::give(py, found, classes)
}

/// Decode a message body. Remaining bytes are an error.
#[pyfunction]
#[pyo3(signature = (api_key, version, data, request, *, interbroker = false))]
pub fn decode(
    py: Python<'_>,
    api_key: i16,
    version: i16,
    data: &[u8],
    request: bool,
    interbroker: bool,
) -> PyResult<Py<PyAny>> {
    let direction = if request {
        Direction::Request
    } else {
        Direction::Response
    };
    let message = find(registry_of(interbroker), api_key, direction)?;
    decode_message(py, message, version, data, ELEMENTS_MAX_TRUSTED)
}

/// Decode data in records or inside other messages, by the name of its class (`StoredOffset`,
/// `ConsumerProtocolSubscription`). Such bytes start with their version; `data` is the part after it. With `front`,
/// ignore remaining bytes, because later versions only add fields at the end.
#[pyfunction]
#[pyo3(signature = (name, version, data, *, front = false))]
pub fn decode_data(
    py: Python<'_>,
    name: &str,
    version: i16,
    data: &[u8],
    front: bool,
) -> PyResult<Py<PyAny>> {
    let message = Registry::Client
        .named(name)
        .ok_or_else(|| CodecError::new_err(format!("there is no message {name}")))?;
    if !front {
        return decode_message(py, message, version, data, ELEMENTS_MAX);
    }
    let layout = layout_of(message, version)?;
    let mut sink = PySink::new(py, Classes::of(py, message)?, Pace::unbroken());
    codec::decode_front(layout, data, ELEMENTS_MAX, &mut sink)
        .map(Bound::unbind)
        .map_err(|failure| failure.into_error(message, version))
}

/// Encode a complete request (header and body, without the length prefix) for clients.
#[pyfunction]
#[pyo3(signature = (message, version, correlation_id, client_id = None))]
pub fn encode_request<'py>(
    py: Python<'py>,
    message: &Bound<'py, PyAny>,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> PyResult<Bound<'py, PyBytes>> {
    let classes = Classes::of_object(message)?;
    let Some(api_key) = classes.message.api_key else {
        return Err(CodecError::new_err(format!(
            "{} is not a request",
            classes.message.name()
        )));
    };
    let prefix = header::RequestPrefix {
        api_key,
        api_version: version,
        correlation_id,
    };
    let mut frame = Vec::new();
    header::RequestHeader { prefix, client_id }
        .write(&mut frame, classes.message.is_flexible(version));
    frame.extend(encode_message(py, classes, version, message)?);
    Ok(PyBytes::new(py, &frame))
}

/// Encode a request and return its API key and its body, for clients that write the header themselves.
///
/// # Errors
///
/// `CodecError` if `message` is not a request or does not fit the version.
pub(crate) fn encode_request_body(
    py: Python<'_>,
    message: &Bound<'_, PyAny>,
    version: i16,
) -> PyResult<(i16, Vec<u8>)> {
    let classes = Classes::of_object(message)?;
    let Some(api_key) = classes.message.api_key else {
        let text = format!("{} is not a request", classes.message.name());
        return Err(CodecError::new_err(text));
    };
    Ok((api_key, encode_message(py, classes, version, message)?))
}

/// Decode the body of a response, for clients.
///
/// # Errors
///
/// `CodecError` if the bytes are not such a response.
pub(crate) fn decode_response_body(
    py: Python<'_>,
    api_key: i16,
    version: i16,
    body: &[u8],
) -> PyResult<Py<PyAny>> {
    let message = find(Registry::Client, api_key, Direction::Response)?;
    decode_message(py, message, version, body, ELEMENTS_MAX_TRUSTED)
}

/// Decode a complete response, without the length prefix, into correlation id and message, for clients.
#[pyfunction]
#[pyo3(signature = (api_key, version, frame, *, interbroker = false))]
pub fn decode_response(
    py: Python<'_>,
    api_key: i16,
    version: i16,
    frame: &[u8],
    interbroker: bool,
) -> PyResult<(i32, Py<PyAny>)> {
    let message = find(registry_of(interbroker), api_key, Direction::Response)?;
    let header_is_flexible = message.is_flexible(version)
        && Api::find(api_key).is_none_or(|api| api.key != ApiKey::ApiVersions);
    let mut reader = Reader::new(frame);
    let correlation_id = header::read_response_header(&mut reader, header_is_flexible)
        .map_err(|error| CodecError::new_err(format!("response header: {error}")))?;
    Ok((
        correlation_id,
        decode_message(py, message, version, reader.rest(), ELEMENTS_MAX_TRUSTED)?,
    ))
}
