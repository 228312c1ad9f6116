//! Buffers of one data thread, lent to connections while they hold bytes.
//!
//! An idle connection owns no buffer; a busy thread reads into memory that is already mapped and cached. The page
//! faults of fresh megabytes cost more than the copy itself, so the pool keeps buffers that have grown to a common
//! frame size.

/// Minimum size of a buffer, so that one read fetches many small requests.
pub(crate) const BUFFER_BYTES_MIN: usize = 64 * 1024;
/// Maximum size of a buffer that the pool keeps. Larger buffers are freed after use.
const BUFFER_BYTES_KEPT_MAX: usize = 4 * 1024 * 1024;
/// Buffers kept per thread: one for reading, one for writing, and a few from requests that had to wait.
const BUFFERS_KEPT_MAX: usize = 8;

/// Pool of the buffers of one data thread.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    free: Vec<Vec<u8>>,
}

impl BufferPool {
    /// Take an empty buffer with at least [`BUFFER_BYTES_MIN`] of capacity: the last one returned, because its memory
    /// is cached.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES_MIN))
    }

    /// Return a buffer to the pool.
    #[inline]
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if (BUFFER_BYTES_MIN..=BUFFER_BYTES_KEPT_MAX).contains(&capacity)
            && self.free.len() < BUFFERS_KEPT_MAX
        {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}
