//! The tables of the protocol as Python sees them: for `pybroker.protocol`, its stubs and its tests.

use pybroker_protocol::codec::{DefaultValue, FieldType, Message, MessageKind};
use pybroker_protocol::{Api, ErrorCode, Plane, api_key};
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::classes::Classes;
use super::registry_of;

/// The class of a message or of one of its structs (`CreateTopicsRequest`, `CreateTopicsRequest_CreatableTopic`);
/// None if there is none of that name.
#[pyfunction]
#[pyo3(signature = (name, *, interbroker = false))]
pub fn message_class(
    py: Python<'_>,
    name: &str,
    interbroker: bool,
) -> PyResult<Option<Py<PyType>>> {
    let message = name.split('_').next().unwrap_or(name);
    let Some(message) = registry_of(interbroker).named(message) else {
        return Ok(None);
    };
    Ok(Classes::of(py, message)?
        .named(name)
        .map(|found| found.class.clone_ref(py)))
}

/// The names of all messages that a registry describes itself.
#[pyfunction]
#[pyo3(signature = (*, interbroker = false))]
pub fn message_names(interbroker: bool) -> Vec<&'static str> {
    registry_of(interbroker).names().collect()
}

/// (field, type as the schema writes it but with full class names, versions that have it, versions in which it may
/// be null, default as Python writes it); versions are (first, last), none if first > last.
type FieldRow = (String, String, (i16, i16), (i16, i16), String);

/// (kind, key or None, lowest version, highest version, [(class, fields)]).
type MessageRow = (
    &'static str,
    Option<i16>,
    i16,
    i16,
    Vec<(String, Vec<FieldRow>)>,
);

/// What a schema says of a message; None if there is none of that name.
#[pyfunction]
#[pyo3(signature = (name, *, interbroker = false))]
pub fn message_schema(name: &str, interbroker: bool) -> Option<MessageRow> {
    let message = registry_of(interbroker).named(name)?;
    let kind = match message.kind {
        MessageKind::Request => "request",
        MessageKind::Response => "response",
        MessageKind::Header => "header",
        MessageKind::Data => "data",
    };
    let classes = message.classes.iter().map(|class| {
        let fields = class.fields.iter().map(|field| {
            (
                field.name.clone(),
                type_text(message, &field.kind),
                (field.versions.first, field.versions.last),
                (field.nullable.first, field.nullable.last),
                default_text(&field.default),
            )
        });
        (class.name.clone(), fields.collect())
    });
    Some((
        kind,
        message.api_key,
        message.versions.first,
        message.versions.last,
        classes.collect(),
    ))
}

fn type_text(message: &Message, kind: &FieldType) -> String {
    match kind {
        FieldType::Array(element) => format!("[]{}", type_text(message, element)),
        FieldType::Struct(class) => message.classes[*class].name.clone(),
        plain => format!("{plain:?}").to_lowercase(),
    }
}

/// As Python writes it.
fn default_text(default: &DefaultValue) -> String {
    match default {
        DefaultValue::Null => "None".to_owned(),
        DefaultValue::Int(value) => value.to_string(),
        DefaultValue::Bool(value) => if *value { "True" } else { "False" }.to_owned(),
        DefaultValue::Float(value) => format!("{value:?}"),
        DefaultValue::String(value) => format!("{value:?}"),
        DefaultValue::ZeroUuid => "Uuid.ZERO".to_owned(),
        DefaultValue::NoBytes => "b\"\"".to_owned(),
        DefaultValue::EmptyArray => "[]".to_owned(),
        DefaultValue::Struct(_) => "...".to_owned(),
    }
}

/// (key, name, lowest, highest version on client listeners, plane, whether it is served) of every API.
#[pyfunction]
pub fn api_table() -> Vec<(i16, &'static str, i16, i16, &'static str, bool)> {
    api_key::APIS
        .iter()
        .map(|api: &Api| {
            let plane = match api.plane {
                Plane::Native => "native",
                Plane::Python => "python",
            };
            (
                api.key.code(),
                api.name(),
                api.min_version,
                api.max_version,
                plane,
                api.served,
            )
        })
        .collect()
}

/// (code, name, whether clients retry) of every error code.
#[pyfunction]
pub fn error_code_table() -> Vec<(i16, &'static str, bool)> {
    ErrorCode::ALL
        .iter()
        .map(|&(code, name)| (code.0, name, code.is_retriable()))
        .collect()
}
