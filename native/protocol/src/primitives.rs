//! Kafka's primitive types on the wire, decoded and encoded within limits.
//!
//! [`Reader`] decodes everything that a client sends. It borrows from the frame, never copies and never allocates. It
//! accepts a count only if that many elements can fit into the remaining bytes, and charges the elements of one request
//! to a budget. It makes both checks *before* a caller may reserve memory.
//!
//! The legacy encoding (fixed-width lengths, −1 = null) and the flexible one of KIP-482 (unsigned varints, 0 = null,
//! tagged fields) differ only in the encoding of lengths, so one reader supports both: callers pass `flexible` when
//! they read a length.

mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{DecodeError, Reader, Span};
pub use writer::{Writer, unsigned_varint_bytes};

/// Maximum array elements of one request, in all arrays together.
///
/// A full fetch of every partition that the design allows on one broker (10,000 topics of 20 partitions) stays below
/// this limit. An 18 MB frame that claims a million topics is refused within microseconds.
pub const ELEMENTS_MAX: u32 = 400_000;
