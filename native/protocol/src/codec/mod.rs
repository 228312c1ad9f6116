//! The codec of all messages without a hand-written codec: an interpreter decodes and encodes messages by their
//! schemas.
//!
//! `schema/*.schema` (names, types, versions) → [`notation`] parses a file on the first use of one of its messages →
//! [`Message`] → [`Layout`] of one version → [`decode`] into a [`Sink`], [`encode`] from a [`Source`]. [`check`] is a
//! sink without values. With it, data threads reject invalid frames before Python receives them. The bindings implement
//! the sink and the source for Python objects; for tests, [`Value`] is both.
//!
//! Limits for hostile bytes: a count is checked against the remaining bytes and an element budget before anything is
//! allocated; variable-length integers have at most five bytes; tags must ascend, and a tagged field must fill its size
//! exactly; unknown tags are skipped; null is accepted only where the schema allows it; strings are UTF-8; remaining
//! bytes are an error. The schema determines the depth of recursion.

mod check;
mod decode;
mod encode;
mod error;
mod files;
mod layout;
mod message;
mod notation;
mod registry;
mod schema;
mod schema_file;
mod value;

#[cfg(test)]
mod tests;

pub use check::{check, check_request, count_elements};
pub use decode::{ELEMENTS_MAX_TRUSTED, Sink, decode, decode_front};
pub use encode::{Source, encode};
pub use error::{EncodeError, ErrorPath};
pub use layout::{Kind, Layout, Presence, Slot};
pub use message::{Message, MessageKind};
pub use registry::{Direction, Registry};
pub use schema::{Class, ClassIndex, DefaultValue, Field, FieldType, VersionRange};
pub use value::{Value, decode_value, encode_value};
