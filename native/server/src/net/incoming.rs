//! The read side of a connection: bytes from the socket into whole frames.
//!
//! The buffer is borrowed from the thread's pool while it holds bytes. An incomplete frame at the end of a turn stays
//! with the connection and is charged to the memory budget. Small remainders are copied to a buffer of their own size,
//! so that ten thousand slow senders hold kilobytes, not megabytes.

use std::io;
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::BufMut;
use pybroker_protocol::frame::{
    FrameLength, Guess, LENGTH_BYTES, frame_length, frame_length_between,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::net::budget::MemoryBudget;
use crate::net::buffers::{BUFFER_BYTES_MIN, BufferPool};
use crate::net::frame::OwnedFrame;
use crate::net::tls::{PLAIN_BYTES_MAX, TlsProblem, TlsSession};

/// Maximum bytes of one socket read, unless a frame needs more: this size fits a core's cache.
const READ_BYTES_MAX: usize = 256 * 1024;
/// Maximum size of a remainder that is copied to a buffer of its own size.
const SMALL_REST_BYTES_MAX: usize = 16 * 1024;

/// Result of looking for the next frame.
#[derive(Debug)]
pub(crate) enum NextFrame {
    /// A whole frame: the range of its content (without length prefix) in the buffer.
    Frame(Range<usize>),
    /// More bytes are needed.
    Incomplete,
    /// The peer does not speak Kafka, or the frame is too large.
    Refused {
        /// The claimed length.
        length: i32,
        /// The protocol that the peer probably speaks.
        guess: Guess,
    },
}

/// Read state of a connection.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// Received bytes that are not processed. Between turns, an empty buffer has no capacity, because the pool has it.
    buffer: Vec<u8>,
    /// Start of the first unprocessed frame.
    start: usize,
    /// Bytes charged to the budget.
    charged: usize,
    /// When the last bytes of an incomplete frame arrived; `None` if there is no incomplete frame.
    partial_since: Option<Instant>,
}

impl Incoming {
    /// Return when the last bytes of an incomplete frame arrived.
    pub(crate) fn partial_since(&self) -> Option<Instant> {
        self.partial_since
    }

    /// Return whether the buffer has bytes of an incomplete frame.
    pub(crate) fn holds_bytes(&self) -> bool {
        self.start < self.buffer.len()
    }

    /// Read once. `Ready(0)` means that the peer has closed its side.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut TcpStream,
        pool: &mut BufferPool,
    ) -> Poll<io::Result<usize>> {
        let wanted = self.make_room(pool, 1);
        let mut limited = (&mut self.buffer).limit(wanted);
        let read = ready!(pin!(socket.read_buf(&mut limited)).poll(context))?;
        Poll::Ready(Ok(read))
    }

    /// Read once through TLS, which appends decrypted content to the buffer. Return the number of bytes from the
    /// socket.
    pub(crate) fn poll_read_tls(
        &mut self,
        context: &mut Context<'_>,
        socket: &mut TcpStream,
        tls: &mut TlsSession,
        pool: &mut BufferPool,
    ) -> Poll<Result<usize, TlsProblem>> {
        if !tls.is_handshaking() {
            // Reserve the upper bound of one read. Otherwise the buffer might have to grow while TLS records are
            // decrypted, and growing copies it.
            self.make_room(pool, PLAIN_BYTES_MAX);
        }
        tls.poll_read(context, socket, pool, &mut self.buffer)
    }

    /// Make room for the next read, at least `least` bytes, and return how many bytes it may read.
    fn make_room(&mut self, pool: &mut BufferPool, least: usize) -> usize {
        if self.buffer.capacity() < BUFFER_BYTES_MIN {
            let mut larger = pool.take();
            larger.extend_from_slice(&self.buffer[self.start..]);
            self.buffer = larger;
            self.start = 0;
        }
        let held = self.buffer.len() - self.start;
        let missing = match frame_length(&self.buffer[self.start..], usize::MAX) {
            FrameLength::Body(length) => (LENGTH_BYTES + length).saturating_sub(held),
            _ => 0,
        };
        let spare = self.buffer.capacity() - self.buffer.len();
        if spare < missing.max(least) {
            // Move the incomplete frame to the front, then grow the buffer. Its new size is at most twice the bytes
            // that have arrived, plus one read beyond the frame, so that the last read does not grow it again.
            if self.start > 0 {
                self.buffer.copy_within(self.start.., 0);
                self.buffer.truncate(held);
                self.start = 0;
            }
            let needed = missing.min(held.max(BUFFER_BYTES_MIN)) + least - 1;
            let needed = needed.max(least);
            if self.buffer.capacity() - held < needed {
                self.buffer.reserve_exact(needed);
            }
        }
        (self.buffer.capacity() - self.buffer.len()).min(missing.max(READ_BYTES_MAX))
    }

    /// Take the buffer out, so that frames in it can be modified while the connection is borrowed.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.buffer)
    }

    /// Put the buffer back.
    pub(crate) fn restore_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Find the next frame in the buffer that was taken out, and advance past it if it is whole.
    #[inline]
    pub(crate) fn next_frame(&mut self, buffer: &[u8], min: usize, max: usize) -> NextFrame {
        match frame_length_between(&buffer[self.start..], min, max) {
            FrameLength::Incomplete => NextFrame::Incomplete,
            FrameLength::Refused { length, guess } => NextFrame::Refused { length, guess },
            FrameLength::Body(length) => {
                let body = self.start + LENGTH_BYTES;
                if buffer.len() - body < length {
                    return NextFrame::Incomplete;
                }
                self.start = body + length;
                NextFrame::Frame(body..body + length)
            }
        }
    }

    /// Turn a frame that [`Incoming::next_frame`] has just found into an owned frame that takes over this buffer. The
    /// bytes after the frame move to another buffer.
    pub(crate) fn detach(
        &mut self,
        buffer: &mut Vec<u8>,
        content: Range<usize>,
        pool: &mut BufferPool,
    ) -> OwnedFrame {
        let mut rest = pool.take();
        rest.extend_from_slice(&buffer[self.start..]);
        self.start = 0;
        OwnedFrame::new(core::mem::replace(buffer, rest), content)
    }

    /// End a turn: return the buffer, or keep and charge the remaining bytes.
    pub(crate) fn end_turn(
        &mut self,
        pool: &mut BufferPool,
        budget: &MemoryBudget,
        got_bytes: bool,
        now: Instant,
    ) {
        let held = self.buffer.len() - self.start;
        if held == 0 {
            self.partial_since = None;
            if self.buffer.capacity() > 0 {
                pool.give(core::mem::take(&mut self.buffer));
            }
            self.start = 0;
        } else {
            if got_bytes || self.partial_since.is_none() {
                self.partial_since = Some(now);
            }
            if held < SMALL_REST_BYTES_MAX && self.buffer.capacity() >= BUFFER_BYTES_MIN {
                let rest = self.buffer[self.start..].to_vec();
                pool.give(core::mem::replace(&mut self.buffer, rest));
                self.start = 0;
            }
        }
        let capacity = self.buffer.capacity();
        if capacity != self.charged {
            budget.adjust(self.charged, capacity);
            self.charged = capacity;
        }
    }

    /// Release all memory when the connection closes.
    pub(crate) fn release(&mut self, budget: &MemoryBudget) {
        budget.adjust(self.charged, 0);
        self.charged = 0;
        self.buffer = Vec::new();
        self.start = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TLS appends decrypted content, so the buffer must always have room for it. If it grew instead, it would copy
    /// frames that are already answered, and become too large for the pool.
    #[test]
    fn frames_through_tls_never_make_the_buffer_grow_while_they_are_appended() {
        const FRAME: usize = 930_000;
        let mut frame = vec![7; LENGTH_BYTES + FRAME];
        frame[..LENGTH_BYTES].copy_from_slice(&u32::try_from(FRAME).unwrap().to_be_bytes());
        let stream: Vec<u8> = frame.repeat(12);
        let mut pool = BufferPool::default();
        let mut incoming = Incoming::default();
        let mut found = 0;
        for read in stream.chunks(PLAIN_BYTES_MAX) {
            incoming.make_room(&mut pool, PLAIN_BYTES_MAX);
            let capacity = incoming.buffer.capacity();
            incoming.buffer.extend_from_slice(read);
            assert_eq!(incoming.buffer.capacity(), capacity);
            let buffer = incoming.take_buffer();
            while let NextFrame::Frame(content) = incoming.next_frame(&buffer, 0, FRAME) {
                assert_eq!(content.len(), FRAME);
                found += 1;
            }
            incoming.restore_buffer(buffer);
            assert!(incoming.buffer.capacity() <= 2 * FRAME);
        }
        assert_eq!(found, 12);
        assert!(!incoming.holds_bytes());
    }

    /// For large requests through TLS each byte is copied once: after decryption, to the request's other bytes. Only
    /// two more copies occur. The thread's buffer grows with the first request (by at most twice the received bytes).
    /// For pipelined requests, the bytes that a read returned beyond the end of a request move to the front.
    #[test]
    fn large_requests_through_tls_are_copied_once() {
        const FRAME: usize = 930_000;
        const FRAMES: usize = 12;
        let mut frame = vec![7; LENGTH_BYTES + FRAME];
        frame[..LENGTH_BYTES].copy_from_slice(&u32::try_from(FRAME).unwrap().to_be_bytes());
        let budget = MemoryBudget::new(usize::MAX);
        let mut pool = BufferPool::default();
        let mut incoming = Incoming::default();
        // Address of the first held byte, and the bytes held when it last changed.
        let place = |incoming: &Incoming| incoming.buffer.as_ptr().wrapping_add(incoming.start);
        let read = |incoming: &mut Incoming, pool: &mut BufferPool, bytes: &[u8]| {
            let (before, held) = (place(incoming), incoming.buffer.len() - incoming.start);
            incoming.make_room(pool, PLAIN_BYTES_MAX);
            let moved = if place(incoming) == before { 0 } else { held };
            incoming.buffer.extend_from_slice(bytes);
            moved
        };
        let take = |incoming: &mut Incoming| {
            let buffer = incoming.take_buffer();
            let found = matches!(
                incoming.next_frame(&buffer, 0, FRAME),
                NextFrame::Frame(content) if content.len() == FRAME
            );
            incoming.restore_buffer(buffer);
            found
        };
        // Send the requests one after the other, like a client that waits for each answer.
        for number in 0..FRAMES {
            let mut moved = 0;
            for bytes in frame.chunks(PLAIN_BYTES_MAX) {
                moved += read(&mut incoming, &mut pool, bytes);
            }
            assert!(take(&mut incoming));
            assert!(!incoming.holds_bytes());
            incoming.end_turn(&mut pool, &budget, true, Instant::now());
            let allowed = if number == 0 { 2 * FRAME } else { 0 };
            assert!(moved <= allowed, "request {number}: {moved} bytes");
        }
        // Send the requests pipelined.
        let (mut moved, mut found) = (0, 0);
        for bytes in frame.repeat(FRAMES).chunks(PLAIN_BYTES_MAX) {
            moved += read(&mut incoming, &mut pool, bytes);
            found += usize::from(take(&mut incoming));
        }
        assert_eq!(found, FRAMES);
        assert!(moved <= FRAMES * PLAIN_BYTES_MAX, "{moved} bytes");
    }
}
