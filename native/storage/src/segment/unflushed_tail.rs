//! In-memory copy of the unflushed end of a segment. The journal takes these bytes from the copy instead of reading the
//! file.

use super::Segment;
use crate::journal::SMALL_BYTES_MAX;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit for all segments of the process together, regardless of how many wait for a slow disk.
const ALL_TAILS_BYTES_MAX: usize = 32 << 20;

static ALL_TAILS_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A range of the file, at most as long as the largest journal entry.
#[derive(Debug)]
pub(super) struct UnflushedTail {
    position: u64,
    bytes: Vec<u8>,
    /// Total bytes of all segments.
    all: &'static AtomicUsize,
}

impl Default for UnflushedTail {
    fn default() -> Self {
        Self::of(&ALL_TAILS_BYTES)
    }
}

impl UnflushedTail {
    const fn of(all: &'static AtomicUsize) -> Self {
        Self {
            position: 0,
            bytes: Vec::new(),
            all,
        }
    }

    fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }

    fn add(&mut self, bytes: &[u8], position: u64) {
        if self.end() != position || self.bytes.len() + bytes.len() > SMALL_BYTES_MAX {
            self.clear();
            self.position = position;
        }
        if bytes.len() > SMALL_BYTES_MAX {
            return;
        }
        let others = self.all.fetch_add(bytes.len(), Ordering::Relaxed);
        self.bytes.extend_from_slice(bytes);
        if others + bytes.len() > ALL_TAILS_BYTES_MAX {
            self.free();
        }
    }

    fn clear(&mut self) {
        self.all.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        self.bytes.clear();
    }

    /// Release the memory.
    fn free(&mut self) {
        *self = Self::of(self.all);
    }

    fn get(&self, position: u64, count: usize) -> Option<&[u8]> {
        let skipped = position.checked_sub(self.position)?;
        self.bytes.get(skipped as usize..)?.get(..count)
    }

    fn forget(&mut self, position: u64) {
        if position >= self.end() {
            // Release the memory, so that idle partitions hold none.
            self.free();
        } else if position > self.position {
            let gone = (position - self.position) as usize;
            self.bytes.drain(..gone);
            self.position = position;
            self.all.fetch_sub(gone, Ordering::Relaxed);
        }
    }
}

impl Drop for UnflushedTail {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Segment {
    /// Keep bytes that were just written at `position`; requires the writer lock.
    pub(crate) fn keep(&self, bytes: &[u8], position: u64) {
        self.unflushed_tail.lock().add(bytes, position);
    }

    /// Append `count` bytes that were written at `position` to `out`. Return false if the copy does not have all of
    /// them.
    pub(crate) fn append_unflushed(&self, position: u64, count: usize, out: &mut Vec<u8>) -> bool {
        let tail = self.unflushed_tail.lock();
        let bytes = tail.get(position, count);
        out.extend_from_slice(bytes.unwrap_or_default());
        bytes.is_some()
    }

    /// Drop bytes below `position`, which are on disk.
    pub(super) fn forget_flushed(&self, position: u64) {
        self.unflushed_tail.lock().forget(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(tail: &UnflushedTail, position: u64, count: usize) -> Option<Vec<u8>> {
        tail.get(position, count).map(<[u8]>::to_vec)
    }

    #[test]
    fn unflushed_bytes_stay_in_memory() {
        let mut tail = UnflushedTail::default();
        tail.add(b"abc", 100);
        tail.add(b"def", 103);
        assert_eq!(copied(&tail, 100, 6), Some(b"abcdef".to_vec()));
        assert_eq!(copied(&tail, 102, 2), Some(b"cd".to_vec()));
        assert_eq!(copied(&tail, 99, 2), None, "before the tail");
        assert_eq!(copied(&tail, 104, 3), None, "after the tail");
        assert_eq!(copied(&tail, 107, 0), None);
        tail.forget(103);
        assert_eq!(copied(&tail, 102, 2), None);
        assert_eq!(copied(&tail, 103, 3), Some(b"def".to_vec()));
        tail.forget(102);
        assert_eq!(copied(&tail, 103, 3), Some(b"def".to_vec()));
        tail.forget(200);
        assert_eq!(tail.bytes.capacity(), 0, "an idle segment holds no memory");
    }

    #[test]
    fn what_does_not_continue_it_begins_anew() {
        let mut tail = UnflushedTail::default();
        tail.add(b"abcdef", 100);
        tail.add(b"xyz", 103);
        assert_eq!(copied(&tail, 103, 3), Some(b"xyz".to_vec()));
        assert_eq!(copied(&tail, 100, 6), None, "overwritten");
    }

    #[test]
    fn long_tail_is_not_stored() {
        let mut tail = UnflushedTail::default();
        tail.add(&vec![1; SMALL_BYTES_MAX], 0);
        assert!(copied(&tail, 0, SMALL_BYTES_MAX).is_some());
        tail.add(b"abc", SMALL_BYTES_MAX as u64);
        assert_eq!(copied(&tail, SMALL_BYTES_MAX as u64 - 1, 2), None);
        assert_eq!(
            copied(&tail, SMALL_BYTES_MAX as u64, 3),
            Some(b"abc".to_vec())
        );
        let next = SMALL_BYTES_MAX as u64 + 3;
        tail.add(&vec![1; SMALL_BYTES_MAX + 1], next);
        assert_eq!(copied(&tail, next, 1), None);
        assert!(tail.bytes.is_empty());
        tail.add(b"def", next + SMALL_BYTES_MAX as u64 + 1);
        assert_eq!(
            copied(&tail, next + SMALL_BYTES_MAX as u64 + 1, 3),
            Some(b"def".to_vec())
        );
    }

    #[test]
    fn all_tails_share_one_limit() {
        static ALL: AtomicUsize = AtomicUsize::new(ALL_TAILS_BYTES_MAX - 6);
        let held = || ALL.load(Ordering::Relaxed) + 6 - ALL_TAILS_BYTES_MAX;
        let (mut one, mut other) = (UnflushedTail::of(&ALL), UnflushedTail::of(&ALL));
        one.add(b"abc", 100);
        other.add(b"def", 0);
        assert_eq!(held(), 6);
        one.add(b"g", 103);
        assert_eq!(
            (copied(&one, 100, 3), held()),
            (None, 3),
            "the shared limit is reached"
        );
        one.add(b"hij", 104);
        assert_eq!(copied(&one, 104, 3), Some(b"hij".to_vec()));
        other.forget(1);
        assert_eq!(held(), 5);
        one.add(b"k", 100);
        assert_eq!((copied(&one, 100, 1), held()), (Some(b"k".to_vec()), 3));
        drop((one, other));
        assert_eq!(held(), 0);
    }
}
