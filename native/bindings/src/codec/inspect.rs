//! Protocol tables for Python: for `pybroker.protocol`, its stubs and its tests.

use pybroker_protocol::codec::{DefaultValue, FieldType, Message, MessageKind};
use pybroker_protocol::{Api, ErrorCode, Plane, api_key};
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::classes::Classes;
use super::registry_of;
use crate::convert::shown;

/// Return the class of a message or of one of its structs (`CreateTopicsRequest`,
/// `CreateTopicsRequest_CreatableTopic`), or None if the name is unknown.
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

/// Return the names of all messages that a registry defines itself.
#[pyfunction]
#[pyo3(signature = (*, interbroker = false))]
pub fn message_names(interbroker: bool) -> Vec<&'static str> {
    registry_of(interbroker).names().collect()
}

/// (first, last) version. There are no versions if first > last.
type Versions = (i16, i16);

/// A field of a schema.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Clone, Debug, PartialEq)]
pub struct FieldSchema {
    name: String,
    /// Type as in the schema, but with complete class names.
    type_name: String,
    /// Versions that have the field.
    versions: Versions,
    /// Versions in which the field is nullable.
    nullable: Versions,
    /// Default value in Python syntax.
    default: String,
}

/// The struct of a message, or one nested in it.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Clone, Debug, PartialEq)]
pub struct StructSchema {
    name: String,
    fields: Vec<FieldSchema>,
}

/// The schema of a message.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub struct MessageSchema {
    /// One of request, response, header or data.
    kind: &'static str,
    api_key: Option<i16>,
    min_version: i16,
    max_version: i16,
    /// All structs, beginning with the message's own.
    structs: Vec<StructSchema>,
}

/// An API of the protocol.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub struct ApiInfo {
    key: i16,
    name: &'static str,
    /// Lowest version on client listeners.
    min_version: i16,
    max_version: i16,
    /// The plane that answers: native or python.
    plane: &'static str,
    served: bool,
}

/// A Kafka error code.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub struct ErrorCodeInfo {
    code: i16,
    name: &'static str,
    /// Whether clients retry after this error.
    retriable: bool,
}

shown!(
    FieldSchema,
    StructSchema,
    MessageSchema,
    ApiInfo,
    ErrorCodeInfo
);

/// Return the schema of a message, or None if the name is unknown.
#[pyfunction]
#[pyo3(signature = (name, *, interbroker = false))]
pub fn message_schema(name: &str, interbroker: bool) -> Option<MessageSchema> {
    let message = registry_of(interbroker).named(name)?;
    let kind = match message.kind {
        MessageKind::Request => "request",
        MessageKind::Response => "response",
        MessageKind::Header => "header",
        MessageKind::Data => "data",
    };
    let structs = message.classes.iter().map(|class| {
        let fields = class.fields.iter().map(|field| FieldSchema {
            name: field.name.clone(),
            type_name: type_text(message, &field.kind),
            versions: (field.versions.first, field.versions.last),
            nullable: (field.nullable.first, field.nullable.last),
            default: default_text(&field.default),
        });
        StructSchema {
            name: class.name.clone(),
            fields: fields.collect(),
        }
    });
    Some(MessageSchema {
        kind,
        api_key: message.api_key,
        min_version: message.versions.first,
        max_version: message.versions.last,
        structs: structs.collect(),
    })
}

fn type_text(message: &Message, kind: &FieldType) -> String {
    match kind {
        FieldType::Array(element) => format!("[]{}", type_text(message, element)),
        FieldType::Struct(class) => message.classes[*class].name.clone(),
        plain => format!("{plain:?}").to_lowercase(),
    }
}

/// Return a default value in Python syntax.
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

/// Return every API.
#[pyfunction]
pub fn api_table() -> Vec<ApiInfo> {
    api_key::APIS
        .iter()
        .map(|api: &Api| ApiInfo {
            key: api.key.code(),
            name: api.name(),
            min_version: api.min_version,
            max_version: api.max_version,
            plane: match api.plane {
                Plane::Native => "native",
                Plane::Python => "python",
            },
            served: api.served,
        })
        .collect()
}

/// Return every error code.
#[pyfunction]
pub fn error_code_table() -> Vec<ErrorCodeInfo> {
    ErrorCode::ALL
        .iter()
        .map(|&(code, name)| ErrorCodeInfo {
            code: code.0,
            name,
            retriable: code.is_retriable(),
        })
        .collect()
}
