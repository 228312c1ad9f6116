//! Encoding of values into bytes.

use std::borrow::Cow;

use pybroker_model::Uuid;

use super::error::{EncodeError, ErrorPath};
use super::layout::{Kind, Layout, Presence};
use super::message::Message;
use super::schema::ClassIndex;

/// Provides values to the encoder.
pub trait Source {
    /// A reference to a value, which is cheap to create.
    type Value;
    /// The type of errors of the values or of the source.
    type Error: From<EncodeError> + ErrorPath;

    /// Return whether the value is null.
    fn is_null(&self, value: &Self::Value) -> bool;
    /// A bool.
    fn boolean(&self, value: &Self::Value) -> Result<bool, Self::Error>;
    /// An integer, whose range the encoder checks.
    fn integer(&self, value: &Self::Value) -> Result<i64, Self::Error>;
    /// A float64.
    fn float(&self, value: &Self::Value) -> Result<f64, Self::Error>;
    /// A uuid.
    fn uuid(&self, value: &Self::Value) -> Result<Uuid, Self::Error>;
    /// A string.
    fn string<'a>(&self, value: &'a Self::Value) -> Result<Cow<'a, str>, Self::Error>;
    /// Bytes or record batches.
    fn bytes<'a>(&self, value: &'a Self::Value) -> Result<Cow<'a, [u8]>, Self::Error>;
    /// Number of elements in an array.
    fn count(&self, value: &Self::Value) -> Result<usize, Self::Error>;
    /// One element of an array.
    fn element(&self, value: &Self::Value, place: usize) -> Result<Self::Value, Self::Error>;
    /// One field of a struct.
    fn field(
        &self,
        value: &Self::Value,
        class: ClassIndex,
        field: usize,
    ) -> Result<Self::Value, Self::Error>;
    /// Return whether a field's value is the schema's default. If so, a tagged field is left out.
    fn is_default(
        &self,
        value: &Self::Value,
        class: ClassIndex,
        field: usize,
    ) -> Result<bool, Self::Error>;
}

/// Append `value`, a message of `version`, to `out`. Fields that the version does not have are silently omitted, so
/// that a handler can set all fields for every version.
///
/// # Errors
///
/// If a value is out of its field's range, if a field is null that this version does not allow to be null, or if the
/// version is unknown. `out` then contains a partial message.
pub fn encode<S: Source>(
    message: &Message,
    version: i16,
    source: &S,
    value: &S::Value,
    out: &mut Vec<u8>,
) -> Result<(), S::Error> {
    let layout = message
        .layout(version)
        .ok_or_else(|| EncodeError::new(format!("{} has no version {version}", message.name())))?;
    Encoder {
        message,
        source,
        out,
    }
    .structure(layout, value)
    .map_err(|error| error.within(message.name()))
}

struct Encoder<'a, S: Source> {
    message: &'a Message,
    source: &'a S,
    out: &'a mut Vec<u8>,
}

impl<S: Source> Encoder<'_, S> {
    fn structure(&mut self, layout: &Layout, value: &S::Value) -> Result<(), S::Error> {
        for (place, slot) in layout.slots.iter().enumerate() {
            if slot.presence == Presence::Inline {
                self.source
                    .field(value, layout.class, place)
                    .and_then(|field| self.value(&slot.kind, &field))
                    .map_err(|error| {
                        error.within(&self.message.classes[layout.class].fields[place].name)
                    })?;
            }
        }
        if layout.flexible {
            self.tags(layout, value)
        } else {
            Ok(())
        }
    }

    fn tags(&mut self, layout: &Layout, value: &S::Value) -> Result<(), S::Error> {
        let count_at = self.out.len();
        self.out.push(0);
        let mut count = 0u8;
        for &(tag, place) in &layout.tagged {
            let field = self.source.field(value, layout.class, place)?;
            if self.source.is_default(&field, layout.class, place)? {
                continue;
            }
            count += 1;
            put_uvarint(self.out, tag);
            let start = self.out.len();
            self.value(&layout.slots[place].kind, &field)
                .map_err(|error| {
                    error.within(&self.message.classes[layout.class].fields[place].name)
                })?;
            self.put_size_before(start)?;
        }
        // A schema has fewer than 128 tags, so the count is one byte (a test asserts it).
        self.out[count_at] = count;
        Ok(())
    }

    /// Insert at `start` the number of bytes that follow it.
    fn put_size_before(&mut self, start: usize) -> Result<(), S::Error> {
        let end = self.out.len();
        put_uvarint(self.out, length_u32(end - start)?);
        let size_bytes = self.out.len() - end;
        self.out[start..].rotate_right(size_bytes);
        Ok(())
    }

    fn value(&mut self, kind: &Kind, value: &S::Value) -> Result<(), S::Error> {
        match kind {
            Kind::Bool => self.out.push(u8::from(self.source.boolean(value)?)),
            Kind::Int8 => self
                .out
                .extend(narrow::<i8, S>(self.source, value, "int8")?.to_be_bytes()),
            Kind::Int16 => self
                .out
                .extend(narrow::<i16, S>(self.source, value, "int16")?.to_be_bytes()),
            Kind::Uint16 => self
                .out
                .extend(narrow::<u16, S>(self.source, value, "uint16")?.to_be_bytes()),
            Kind::Int32 => self
                .out
                .extend(narrow::<i32, S>(self.source, value, "int32")?.to_be_bytes()),
            Kind::Int64 => self.out.extend(self.source.integer(value)?.to_be_bytes()),
            Kind::Float64 => self.out.extend(self.source.float(value)?.to_be_bytes()),
            Kind::Uuid => self.out.extend(self.source.uuid(value)?.to_bytes()),
            Kind::String { nullable, compact } => {
                if self.null(value, *nullable)? {
                    put_length(self.out, None, *compact, LengthWidth::Short)?;
                } else {
                    let text = self.source.string(value)?;
                    put_length(self.out, Some(text.len()), *compact, LengthWidth::Short)?;
                    self.out.extend_from_slice(text.as_bytes());
                }
            }
            Kind::Bytes { nullable, compact } => {
                if self.null(value, *nullable)? {
                    put_length(self.out, None, *compact, LengthWidth::Long)?;
                } else {
                    let bytes = self.source.bytes(value)?;
                    put_length(self.out, Some(bytes.len()), *compact, LengthWidth::Long)?;
                    self.out.extend_from_slice(&bytes);
                }
            }
            Kind::Array {
                nullable,
                compact,
                element,
                ..
            } => {
                if self.null(value, *nullable)? {
                    put_length(self.out, None, *compact, LengthWidth::Long)?;
                } else {
                    let count = self.source.count(value)?;
                    put_length(self.out, Some(count), *compact, LengthWidth::Long)?;
                    for place in 0..count {
                        self.source
                            .element(value, place)
                            .and_then(|each| self.value(element, &each))
                            .map_err(|error| error.within(&format!("[{place}]")))?;
                    }
                }
            }
            Kind::Struct {
                nullable: false,
                layout,
                ..
            } => {
                self.null(value, false)?;
                self.structure(layout, value)?;
            }
            Kind::Struct {
                nullable: true,
                tagged,
                layout,
            } => {
                if self.source.is_null(value) {
                    self.out.push(if *tagged { 0 } else { 0xff });
                } else {
                    self.out.push(1);
                    self.structure(layout, value)?;
                }
            }
        }
        Ok(())
    }

    fn null(&self, value: &S::Value, allowed: bool) -> Result<bool, S::Error> {
        match self.source.is_null(value) {
            true if !allowed => Err(EncodeError::new("null is not allowed in this version").into()),
            is_null => Ok(is_null),
        }
    }
}

fn narrow<T: TryFrom<i64>, S: Source>(
    source: &S,
    value: &S::Value,
    name: &str,
) -> Result<T, S::Error> {
    let value = source.integer(value)?;
    T::try_from(value).map_err(|_| EncodeError::new(format!("{value} does not fit {name}")).into())
}

#[derive(Clone, Copy)]
enum LengthWidth {
    /// Two bytes, or a varint in compact form.
    Short,
    /// Four bytes, or a varint in compact form.
    Long,
}

fn put_length(
    out: &mut Vec<u8>,
    length: Option<usize>,
    compact: bool,
    width: LengthWidth,
) -> Result<(), EncodeError> {
    match (compact, width, length) {
        (true, _, None) => out.push(0),
        (true, _, Some(length)) => put_uvarint(out, length_u32(length)? + 1),
        (false, LengthWidth::Short, None) => out.extend((-1i16).to_be_bytes()),
        (false, LengthWidth::Short, Some(length)) => {
            let length = i16::try_from(length).map_err(|_| {
                EncodeError::new(format!("a string of {length} bytes is longer than 32767"))
            })?;
            out.extend(length.to_be_bytes());
        }
        (false, LengthWidth::Long, None) => out.extend((-1i32).to_be_bytes()),
        (false, LengthWidth::Long, Some(length)) => out.extend(length_u32(length)?.to_be_bytes()),
    }
    Ok(())
}

/// Check a length against Kafka's signed 32-bit lengths.
fn length_u32(length: usize) -> Result<u32, EncodeError> {
    i32::try_from(length)
        .map(i32::cast_unsigned)
        .map_err(|_| EncodeError::new(format!("{length} is more than a length field can say")))
}

fn put_uvarint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}
