//! Messages as plain trees, for the interpreter without Python. Tests compare the hand-written codecs with it.

use std::borrow::Cow;
use std::vec::Drain;

use pybroker_model::Uuid;

use super::decode::{Sink, decode};
use super::encode::{Source, encode};
use super::error::EncodeError;
use super::message::Message;
use super::schema::{ClassIndex, DefaultValue};
use crate::primitives::DecodeError;

/// A value of any field type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Uuid(Uuid),
    String(String),
    Bytes(Vec<u8>),
    Array(Vec<Value>),
    /// One value for each field of the class, in order.
    Struct(Vec<Value>),
}

impl Value {
    /// Return the default of a field.
    pub fn default_of(message: &Message, class: ClassIndex, field: usize) -> Value {
        match &message.classes[class].fields[field].default {
            DefaultValue::Null => Value::Null,
            DefaultValue::Int(value) => Value::Int(*value),
            DefaultValue::Bool(value) => Value::Bool(*value),
            DefaultValue::Float(value) => Value::Float(*value),
            DefaultValue::String(value) => Value::String(value.clone()),
            DefaultValue::ZeroUuid => Value::Uuid(Uuid::ZERO),
            DefaultValue::NoBytes => Value::Bytes(Vec::new()),
            DefaultValue::EmptyArray => Value::Array(Vec::new()),
            DefaultValue::Struct(inner) => Value::default_struct(message, *inner),
        }
    }

    /// Return a struct whose fields all have their defaults.
    pub fn default_struct(message: &Message, class: ClassIndex) -> Value {
        let fields = 0..message.classes[class].fields.len();
        Value::Struct(
            fields
                .map(|field| Value::default_of(message, class, field))
                .collect(),
        )
    }

    /// Return the field `name` of the message itself.
    pub fn get<'a>(
        &'a self,
        message: &Message,
        class: ClassIndex,
        name: &str,
    ) -> Option<&'a Value> {
        let place = message.classes[class]
            .fields
            .iter()
            .position(|field| field.name == name)?;
        match self {
            Value::Struct(fields) => fields.get(place),
            _ => None,
        }
    }
}

/// Decode `body` as `version` of `message`; `None` if there is no such version.
///
/// # Errors
///
/// The fault in the bytes.
pub fn decode_value(
    message: &Message,
    version: i16,
    body: &[u8],
    elements_max: u32,
) -> Option<Result<Value, DecodeError>> {
    message
        .layout(version)
        .map(|layout| decode(layout, body, elements_max, &mut Tree(message)))
}

/// Encode `value` as `version` of `message`.
///
/// # Errors
///
/// Like [`encode`].
pub fn encode_value(
    message: &Message,
    version: i16,
    value: &Value,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::new();
    encode(message, version, &Tree(message), &value, &mut out)?;
    Ok(out)
}

struct Tree<'m>(&'m Message);

impl Sink for Tree<'_> {
    type Value = Value;
    type Error = DecodeError;

    fn null(&mut self) -> Result<Value, DecodeError> {
        Ok(Value::Null)
    }
    fn boolean(&mut self, value: bool) -> Result<Value, DecodeError> {
        Ok(Value::Bool(value))
    }
    fn integer(&mut self, value: i64) -> Result<Value, DecodeError> {
        Ok(Value::Int(value))
    }
    fn float(&mut self, value: f64) -> Result<Value, DecodeError> {
        Ok(Value::Float(value))
    }
    fn uuid(&mut self, value: Uuid) -> Result<Value, DecodeError> {
        Ok(Value::Uuid(value))
    }
    fn string(&mut self, value: &str) -> Result<Value, DecodeError> {
        Ok(Value::String(value.to_owned()))
    }
    fn bytes(&mut self, value: &[u8]) -> Result<Value, DecodeError> {
        Ok(Value::Bytes(value.to_vec()))
    }
    fn array(&mut self, elements: Drain<'_, Value>) -> Result<Value, DecodeError> {
        Ok(Value::Array(elements.collect()))
    }
    fn absent(&mut self, class: ClassIndex, field: usize) -> Result<Value, DecodeError> {
        Ok(Value::default_of(self.0, class, field))
    }
    fn structure(&mut self, _: ClassIndex, fields: Drain<'_, Value>) -> Result<Value, DecodeError> {
        Ok(Value::Struct(fields.collect()))
    }
}

fn wrong(wanted: &str, value: &Value) -> EncodeError {
    EncodeError::new(format!("{value:?} is not {wanted}"))
}

impl<'m> Source for Tree<'m> {
    type Value = &'m Value;
    type Error = EncodeError;

    fn is_null(&self, value: &&'m Value) -> bool {
        matches!(value, Value::Null)
    }
    fn boolean(&self, value: &&'m Value) -> Result<bool, EncodeError> {
        if let Value::Bool(value) = value {
            Ok(*value)
        } else {
            Err(wrong("a bool", value))
        }
    }
    fn integer(&self, value: &&'m Value) -> Result<i64, EncodeError> {
        if let Value::Int(value) = value {
            Ok(*value)
        } else {
            Err(wrong("an integer", value))
        }
    }
    fn float(&self, value: &&'m Value) -> Result<f64, EncodeError> {
        if let Value::Float(value) = value {
            Ok(*value)
        } else {
            Err(wrong("a float", value))
        }
    }
    fn uuid(&self, value: &&'m Value) -> Result<Uuid, EncodeError> {
        if let Value::Uuid(value) = value {
            Ok(*value)
        } else {
            Err(wrong("a uuid", value))
        }
    }
    fn string<'a>(&self, value: &'a &'m Value) -> Result<Cow<'a, str>, EncodeError> {
        if let Value::String(value) = value {
            Ok(value.into())
        } else {
            Err(wrong("a string", value))
        }
    }
    fn bytes<'a>(&self, value: &'a &'m Value) -> Result<Cow<'a, [u8]>, EncodeError> {
        if let Value::Bytes(value) = value {
            Ok(value.into())
        } else {
            Err(wrong("bytes", value))
        }
    }
    fn count(&self, value: &&'m Value) -> Result<usize, EncodeError> {
        if let Value::Array(elements) = value {
            Ok(elements.len())
        } else {
            Err(wrong("an array", value))
        }
    }
    fn element(&self, value: &&'m Value, place: usize) -> Result<&'m Value, EncodeError> {
        match value {
            Value::Array(elements) if place < elements.len() => Ok(&elements[place]),
            _ => Err(wrong("an array", value)),
        }
    }
    fn field(
        &self,
        value: &&'m Value,
        _: ClassIndex,
        field: usize,
    ) -> Result<&'m Value, EncodeError> {
        match value {
            Value::Struct(fields) if field < fields.len() => Ok(&fields[field]),
            _ => Err(wrong("the struct", value)),
        }
    }
    fn is_default(
        &self,
        value: &&'m Value,
        class: ClassIndex,
        field: usize,
    ) -> Result<bool, EncodeError> {
        Ok(**value == Value::default_of(self.0, class, field))
    }
}
