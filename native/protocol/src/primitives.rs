//! Kafka's primitive types on the wire, read and written within bounds.
//!
//! Everything a client sends goes through [`Reader`]. It borrows from the frame, never copies and never
//! allocates; a count is believed only if that many elements could still fit into the bytes that remain, and
//! the elements of one request are counted against a budget. Both are checked *before* a caller may reserve
//! memory.
//!
//! The legacy encoding (fixed-width lengths, −1 = null) and the flexible one of KIP-482 (unsigned varints,
//! 0 = null, tagged fields) differ only in how lengths are written, so one reader serves both: `flexible` is
//! passed where a length is read.

mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use reader::{DecodeError, Reader, Span};
pub use writer::{Writer, unsigned_varint_bytes};

/// How many array elements one request may carry, all arrays together.
///
/// A full fetch of every partition that the design allows on one broker (10,000 topics of 20 partitions) stays
/// below; an 18 MB frame that claims a million topics is refused in microseconds.
pub const ELEMENTS_MAX: u32 = 400_000;
