//! The frame around a response body: length prefix and response header.

use pybroker_protocol::header::write_response_header;

/// Fields of a response header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyHeader {
    /// Correlation id of the request.
    pub(crate) correlation_id: i32,
    /// Response header v1, which ends with tagged fields.
    pub(crate) flexible: bool,
}

/// A reply being appended to a buffer, with the position of its length prefix.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub(crate) struct ReplyFrame {
    start: usize,
}

impl ReplyFrame {
    /// Append space for the length, and the header.
    #[inline]
    pub(crate) fn begin(out: &mut Vec<u8>, header: ReplyHeader) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        write_response_header(out, header.correlation_id, header.flexible);
        ReplyFrame { start }
    }

    /// Resume a reply that starts at `start` of its buffer.
    pub(crate) fn resume(start: usize) -> Self {
        ReplyFrame { start }
    }

    /// Write the length after the body was appended.
    #[inline]
    pub(crate) fn end(self, out: &mut [u8]) {
        self.end_with(out, 0);
    }

    /// Write the length for a body of which `elsewhere` bytes are not in this buffer (file slices between its parts).
    #[inline]
    pub(crate) fn end_with(self, out: &mut [u8], elsewhere: usize) {
        let length = (out.len() - self.start - 4 + elsewhere) as u32;
        out[self.start..self.start + 4].copy_from_slice(&length.to_be_bytes());
    }
}
