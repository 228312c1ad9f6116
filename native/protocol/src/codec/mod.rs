//! The codec of every message that has no typed code of its own: schemas are data, one interpreter reads and writes them.
//!
//! `schema/*.schema` (facts: names, types, versions) → [`notation`] parses a file when one of its messages is first
//! asked for → [`Message`] → [`Layout`] of one version → [`decode`] into a [`Sink`], [`encode`] from a [`Source`].
//! [`check`] is the sink that keeps nothing: data threads refuse bad frames with it before Python sees them. The
//! bindings have the sink and source for Python objects; [`Value`] is both, for tests.
//!
//! What a peer can do with bytes: nothing is allocated for a count before it is bounded by the bytes
//! that remain and by an element budget; variable-length integers have at most five bytes; tags ascend and their
//! sizes are kept exactly, unknown ones are skipped; null only where the schema allows it; strings are UTF-8; bytes
//! left over refuse the message. The depth of recursion is the schema's.

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
pub use error::{EncodeError, Located};
pub use layout::{Kind, Layout, Presence, Slot};
pub use message::{Message, MessageKind};
pub use registry::{Direction, Registry};
pub use schema::{Class, ClassIndex, DefaultValue, Field, FieldType, VersionRange};
pub use value::{Value, decode_value, encode_value};
