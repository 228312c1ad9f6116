//! Copy in memory of the unflushed end of a segment: the journal takes these bytes from here instead of reading the file.

use super::Segment;
use crate::journal::SMALL_BYTES_MAX;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit over all segments of the process, however many wait for a slow disk.
const ALL_KEPT_BYTES_MAX: usize = 32 << 20;

static ALL_KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A range of the file, at most as long as the largest journal entry.
#[derive(Debug)]
pub(super) struct Kept {
    position: u64,
    bytes: Vec<u8>,
    /// Total bytes of all segments.
    all: &'static AtomicUsize,
}

impl Default for Kept {
    fn default() -> Self {
        Self::of(&ALL_KEPT_BYTES)
    }
}

impl Kept {
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
        if others + bytes.len() > ALL_KEPT_BYTES_MAX {
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
            // Idle partitions hold no memory.
            self.free();
        } else if position > self.position {
            let gone = (position - self.position) as usize;
            self.bytes.drain(..gone);
            self.position = position;
            self.all.fetch_sub(gone, Ordering::Relaxed);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Segment {
    /// Keep bytes that were just written at `position`; requires the writer lock.
    pub(crate) fn keep(&self, bytes: &[u8], position: u64) {
        self.kept.lock().add(bytes, position);
    }

    /// Append `count` bytes written at `position` to `out`; return false if some are not kept.
    pub(crate) fn append_kept(&self, position: u64, count: usize, out: &mut Vec<u8>) -> bool {
        let kept = self.kept.lock();
        let bytes = kept.get(position, count);
        out.extend_from_slice(bytes.unwrap_or_default());
        bytes.is_some()
    }

    /// Drop bytes below `position`, which are on disk.
    pub(super) fn forget_kept(&self, position: u64) {
        self.kept.lock().forget(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(kept: &Kept, position: u64, count: usize) -> Option<Vec<u8>> {
        kept.get(position, count).map(<[u8]>::to_vec)
    }

    #[test]
    fn what_is_not_on_disk_is_kept() {
        let mut kept = Kept::default();
        kept.add(b"abc", 100);
        kept.add(b"def", 103);
        assert_eq!(copied(&kept, 100, 6), Some(b"abcdef".to_vec()));
        assert_eq!(copied(&kept, 102, 2), Some(b"cd".to_vec()));
        assert_eq!(copied(&kept, 99, 2), None, "that was before");
        assert_eq!(copied(&kept, 104, 3), None, "that is still to come");
        assert_eq!(copied(&kept, 107, 0), None);
        kept.forget(103);
        assert_eq!(copied(&kept, 102, 2), None);
        assert_eq!(copied(&kept, 103, 3), Some(b"def".to_vec()));
        kept.forget(102);
        assert_eq!(copied(&kept, 103, 3), Some(b"def".to_vec()));
        kept.forget(200);
        assert_eq!(kept.bytes.capacity(), 0, "who rests holds nothing");
    }

    #[test]
    fn what_does_not_continue_it_begins_anew() {
        let mut kept = Kept::default();
        kept.add(b"abcdef", 100);
        kept.add(b"xyz", 103);
        assert_eq!(copied(&kept, 103, 3), Some(b"xyz".to_vec()));
        assert_eq!(copied(&kept, 100, 6), None, "it was taken back");
    }

    #[test]
    fn much_is_not_kept() {
        let mut kept = Kept::default();
        kept.add(&vec![1; SMALL_BYTES_MAX], 0);
        assert!(copied(&kept, 0, SMALL_BYTES_MAX).is_some());
        kept.add(b"abc", SMALL_BYTES_MAX as u64);
        assert_eq!(copied(&kept, SMALL_BYTES_MAX as u64 - 1, 2), None);
        assert_eq!(
            copied(&kept, SMALL_BYTES_MAX as u64, 3),
            Some(b"abc".to_vec())
        );
        let next = SMALL_BYTES_MAX as u64 + 3;
        kept.add(&vec![1; SMALL_BYTES_MAX + 1], next);
        assert_eq!(copied(&kept, next, 1), None);
        assert!(kept.bytes.is_empty());
        kept.add(b"def", next + SMALL_BYTES_MAX as u64 + 1);
        assert_eq!(
            copied(&kept, next + SMALL_BYTES_MAX as u64 + 1, 3),
            Some(b"def".to_vec())
        );
    }

    #[test]
    fn all_together_keep_so_much() {
        static ALL: AtomicUsize = AtomicUsize::new(ALL_KEPT_BYTES_MAX - 6);
        let held = || ALL.load(Ordering::Relaxed) + 6 - ALL_KEPT_BYTES_MAX;
        let (mut one, mut other) = (Kept::of(&ALL), Kept::of(&ALL));
        one.add(b"abc", 100);
        other.add(b"def", 0);
        assert_eq!(held(), 6);
        one.add(b"g", 103);
        assert_eq!((copied(&one, 100, 3), held()), (None, 3), "no room for it");
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
