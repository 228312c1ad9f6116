//! Decoding of bytes into values of any type, in one pass.

use std::vec::Drain;

use pybroker_model::Uuid;

use super::layout::{Kind, Layout, Presence};
use super::schema::ClassIndex;
use crate::primitives::{DecodeError, Reader};

/// The element limit for messages of brokers, and for responses to this broker's requests. A full LeaderAndIsr has
/// about seven elements per partition. Clients' requests have the limit [`crate::primitives::ELEMENTS_MAX`].
pub const ELEMENTS_MAX_TRUSTED: u32 = 4_000_000;

/// Builds values from decoded data.
pub trait Sink {
    /// The type of a value; `()` for a sink that builds no values.
    type Value;
    /// The type of errors of the bytes or of the sink.
    type Error: From<DecodeError>;

    /// Null, where the schema allows it.
    fn null(&mut self) -> Result<Self::Value, Self::Error>;
    /// A bool.
    fn boolean(&mut self, value: bool) -> Result<Self::Value, Self::Error>;
    /// An integer of any width.
    fn integer(&mut self, value: i64) -> Result<Self::Value, Self::Error>;
    /// A float64.
    fn float(&mut self, value: f64) -> Result<Self::Value, Self::Error>;
    /// A uuid.
    fn uuid(&mut self, value: Uuid) -> Result<Self::Value, Self::Error>;
    /// A string.
    fn string(&mut self, value: &str) -> Result<Self::Value, Self::Error>;
    /// Bytes or record batches.
    fn bytes(&mut self, value: &[u8]) -> Result<Self::Value, Self::Error>;
    /// An array of these elements.
    fn array(&mut self, elements: Drain<'_, Self::Value>) -> Result<Self::Value, Self::Error>;
    /// The default of a field that the version does not have or the sender left out.
    fn absent(&mut self, class: ClassIndex, field: usize) -> Result<Self::Value, Self::Error>;
    /// A struct with one value per field of its class, in order.
    fn structure(
        &mut self,
        class: ClassIndex,
        fields: Drain<'_, Self::Value>,
    ) -> Result<Self::Value, Self::Error>;
}

/// Decode a complete message without header: all bytes of `body`. `elements_max` limits the elements of all arrays
/// together.
///
/// # Errors
///
/// [`DecodeError`] if the bytes are invalid, and errors of the sink.
pub fn decode<S: Sink>(
    layout: &Layout,
    body: &[u8],
    elements_max: u32,
    sink: &mut S,
) -> Result<S::Value, S::Error> {
    let mut reader = Reader::with_budget(body, elements_max);
    let message = structure(layout, &mut reader, sink)?;
    reader.finish()?;
    Ok(message)
}

/// Like [`decode`], but ignore bytes after the fields of `layout`. Used for data that group members exchange, because
/// later versions of it only add fields at the end.
///
/// # Errors
///
/// Like [`decode`].
pub fn decode_front<S: Sink>(
    layout: &Layout,
    body: &[u8],
    elements_max: u32,
    sink: &mut S,
) -> Result<S::Value, S::Error> {
    structure(layout, &mut Reader::with_budget(body, elements_max), sink)
}

pub(super) fn structure<S: Sink>(
    layout: &Layout,
    reader: &mut Reader<'_>,
    sink: &mut S,
) -> Result<S::Value, S::Error> {
    let mut decoder = Decoder {
        values: Vec::new(),
        sink,
    };
    decoder.structure(layout, reader)
}

struct Decoder<'s, S: Sink> {
    /// Values of incomplete structs and arrays: one vector for the whole message.
    values: Vec<S::Value>,
    sink: &'s mut S,
}

impl<S: Sink> Decoder<'_, S> {
    fn structure(
        &mut self,
        layout: &Layout,
        reader: &mut Reader<'_>,
    ) -> Result<S::Value, S::Error> {
        let base = self.values.len();
        for (place, slot) in layout.slots.iter().enumerate() {
            let value = match slot.presence {
                Presence::Inline => self.value(&slot.kind, reader)?,
                Presence::Absent | Presence::Tagged => self.sink.absent(layout.class, place)?,
            };
            self.values.push(value);
        }
        if layout.flexible {
            reader.tags_into(|tag, reader| -> Result<bool, S::Error> {
                let Ok(found) = layout
                    .tagged
                    .binary_search_by_key(&tag, |&(known, _)| known)
                else {
                    return Ok(false);
                };
                let place = layout.tagged[found].1;
                self.values[base + place] = self.value(&layout.slots[place].kind, reader)?;
                Ok(true)
            })?;
        }
        self.sink.structure(layout.class, self.values.drain(base..))
    }

    fn value(&mut self, kind: &Kind, reader: &mut Reader<'_>) -> Result<S::Value, S::Error> {
        match kind {
            Kind::Bool => self.sink.boolean(reader.bool()?),
            Kind::Int8 => self.sink.integer(reader.i8()?.into()),
            Kind::Int16 => self.sink.integer(reader.i16()?.into()),
            Kind::Uint16 => self.sink.integer(reader.u16()?.into()),
            Kind::Int32 => self.sink.integer(reader.i32()?.into()),
            Kind::Int64 => self.sink.integer(reader.i64()?),
            Kind::Float64 => self.sink.float(reader.f64()?),
            Kind::Uuid => self.sink.uuid(reader.uuid()?),
            // Like Kafka, replace invalid UTF-8 (client software names, group ids, metadata of commits).
            Kind::String { nullable, compact } => match reader.nullable_string_bytes(*compact)? {
                None => self.null(*nullable),
                Some(bytes) => self.sink.string(&String::from_utf8_lossy(bytes)),
            },
            Kind::Bytes { nullable, compact } => match reader.nullable_bytes(*compact)? {
                None => self.null(*nullable),
                Some(bytes) => self.sink.bytes(bytes),
            },
            Kind::Array {
                nullable,
                compact,
                element,
                element_min_bytes,
            } => match reader.nullable_array(*compact, *element_min_bytes)? {
                None => self.null(*nullable),
                Some(count) => self.array(count, element, reader),
            },
            Kind::Struct {
                nullable: false,
                layout,
                ..
            } => self.structure(layout, reader),
            // As in Kafka, a null struct is 0 in a tagged field, and elsewhere a negative byte.
            Kind::Struct {
                nullable: true,
                tagged,
                layout,
            } => {
                let is_null = if *tagged {
                    reader.unsigned_varint()? == 0
                } else {
                    reader.i8()? < 0
                };
                if is_null {
                    self.sink.null()
                } else {
                    self.structure(layout, reader)
                }
            }
        }
    }

    /// Decode `count` elements; the reader has limited the count by the remaining bytes and by the budget.
    fn array(
        &mut self,
        count: usize,
        element: &Kind,
        reader: &mut Reader<'_>,
    ) -> Result<S::Value, S::Error> {
        let base = self.values.len();
        self.values.reserve(count);
        for _ in 0..count {
            let value = self.value(element, reader)?;
            self.values.push(value);
        }
        self.sink.array(self.values.drain(base..))
    }

    fn null(&mut self, allowed: bool) -> Result<S::Value, S::Error> {
        if allowed {
            self.sink.null()
        } else {
            Err(DecodeError::UnexpectedNull.into())
        }
    }
}
