//! The frame around a response body: length prefix and response header.

use pybroker_protocol::header::write_response_header;

/// What the header of a reply is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyHeader {
    /// The request's, by which the client finds what it asked.
    pub(crate) correlation_id: i32,
    /// Response header v1, which ends with tagged fields.
    pub(crate) flexible: bool,
}

/// A reply being appended to a buffer: where its length prefix stands.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub(crate) struct ReplyFrame {
    start: usize,
}

impl ReplyFrame {
    /// Appends room for the length, and the header.
    #[inline]
    pub(crate) fn begin(out: &mut Vec<u8>, header: ReplyHeader) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        write_response_header(out, header.correlation_id, header.flexible);
        ReplyFrame { start }
    }

    /// One that was begun before, at `start` of its buffer.
    pub(crate) fn resume(start: usize) -> Self {
        ReplyFrame { start }
    }

    /// Writes the length, now that the body is there.
    #[inline]
    pub(crate) fn end(self, out: &mut [u8]) {
        self.end_with(out, 0);
    }

    /// The same for a body of which `elsewhere` bytes are not in this buffer (file slices between its parts).
    #[inline]
    pub(crate) fn end_with(self, out: &mut [u8], elsewhere: usize) {
        let length = (out.len() - self.start - 4 + elsewhere) as u32;
        out[self.start..self.start + 4].copy_from_slice(&length.to_be_bytes());
    }
}
