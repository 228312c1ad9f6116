//! The bytes of one request: borrowed from its connection's buffer during a call, or owned, so that the request can
//! wait or change threads.

use core::ops::Range;

use pybroker_protocol::ApiKey;

use crate::net::buffers::BUFFER_BYTES_MIN;

/// The content of a request frame.
pub(crate) enum Frame<'b> {
    /// Borrowed from the connection's buffer until the call returns.
    Lent(&'b mut [u8]),
    /// Owned by the request.
    Own(OwnedFrame),
}

/// A frame with its buffer, which returns to the pool of a data thread when the request is answered.
pub(crate) struct OwnedFrame {
    buffer: Vec<u8>,
    content: Range<usize>,
}

impl OwnedFrame {
    /// Create a frame from the range `content` of `buffer`, which must contain the range.
    pub(crate) fn new(buffer: Vec<u8>, content: Range<usize>) -> Self {
        debug_assert!(content.start <= content.end && content.end <= buffer.len());
        OwnedFrame { buffer, content }
    }

    /// Return the memory held, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.buffer[self.content.clone()]
    }

    /// Return the frame without its first `count` bytes.
    pub(crate) fn after(mut self, count: usize) -> Self {
        self.content.start = (self.content.start + count).min(self.content.end);
        self
    }

    /// Return the buffer, when the frame is not needed any more.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

impl Frame<'_> {
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        match self {
            Frame::Lent(bytes) => bytes,
            Frame::Own(frame) => frame.bytes(),
        }
    }

    /// Return an owned frame; a borrowed one is copied.
    pub(crate) fn into_own(self) -> OwnedFrame {
        match self {
            Frame::Lent(bytes) => OwnedFrame::new(bytes.to_vec(), 0..bytes.len()),
            Frame::Own(frame) => frame,
        }
    }
}

/// Return whether the frame at `content` should take over `buffer` when it changes threads. The bytes after the frame
/// are then copied, so they must be fewer than the frame's own.
pub(crate) fn takes_buffer(buffer: &[u8], content: &Range<usize>) -> bool {
    let frame = &buffer[content.clone()];
    frame.len() >= BUFFER_BYTES_MIN
        && buffer.len() - content.end < frame.len()
        && frame.starts_with(&ApiKey::IngestAppend.code().to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_staged_appends_take_their_buffer_unless_more_lies_behind_them() {
        let mut buffer = vec![0; 4 + BUFFER_BYTES_MIN];
        let content = 4..buffer.len();
        assert!(!takes_buffer(&buffer, &content), "another request");
        buffer[4..6].copy_from_slice(&ApiKey::IngestAppend.code().to_be_bytes());
        assert!(takes_buffer(&buffer, &content));
        assert!(
            !takes_buffer(&buffer, &(4..buffer.len() - 1)),
            "a small one"
        );
        buffer.resize(content.end + BUFFER_BYTES_MIN - 1, 1);
        assert!(takes_buffer(&buffer, &content));
        buffer.push(1);
        assert!(!takes_buffer(&buffer, &content), "as much behind it");
    }

    #[test]
    fn a_frame_that_is_kept_is_the_same_frame() {
        let mut lent = [1, 2, 3];
        let mut kept = Frame::Lent(&mut lent).into_own();
        assert_eq!(kept.bytes(), [1, 2, 3]);
        let kept = OwnedFrame::new(vec![0, 0, 1, 2, 3, 9], 2..5);
        let mut body = Frame::Own(kept).into_own().after(1);
        assert_eq!(body.bytes(), [2, 3]);
        assert_eq!(body.into_buffer().len(), 6);
    }
}
