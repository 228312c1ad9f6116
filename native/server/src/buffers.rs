//! Buffers of one data thread, lent to connections for as long as they hold bytes.
//!
//! An idle connection owns no buffer; a busy thread reads into memory that is mapped and warm. Fresh megabytes cost
//! page faults that exceed the copy itself, so buffers that have grown to a common frame size are kept.

/// A buffer is at least this large: many small requests in one read.
pub(crate) const BUFFER_BYTES_MIN: usize = 64 * 1024;
/// A larger one is given back to the allocator after use.
const BUFFER_BYTES_KEPT_MAX: usize = 4 * 1024 * 1024;
/// Kept per thread: one being read into, one being written from, and some that waited.
const BUFFERS_KEPT_MAX: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    free: Vec<Vec<u8>>,
}

impl BufferPool {
    /// An empty buffer with at least [`BUFFER_BYTES_MIN`] of capacity; the one used last, its memory is warm.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES_MIN))
    }

    /// Takes a buffer back.
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
