//! What was written last, kept until it is on disk: the journal takes it from here instead of reading the file.

use super::Segment;

/// More is read from the file: the copy would cost as much.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// A stretch of the file.
#[derive(Debug, Default)]
pub(super) struct Kept {
    position: u64,
    bytes: Vec<u8>,
}

impl Kept {
    fn end(&self) -> u64 {
        self.position + self.bytes.len() as u64
    }

    fn add(&mut self, bytes: &[u8], position: u64) {
        if self.end() != position || self.bytes.len() + bytes.len() > KEPT_BYTES_MAX {
            self.bytes.clear();
            self.position = position;
        }
        if bytes.len() <= KEPT_BYTES_MAX {
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn copy(&self, position: u64, out: &mut [u8]) -> bool {
        let Some(skipped) = position.checked_sub(self.position) else {
            return false;
        };
        let Some(bytes) = self.bytes.get(skipped as usize..) else {
            return false;
        };
        let Some(bytes) = bytes.get(..out.len()) else {
            return false;
        };
        out.copy_from_slice(bytes);
        true
    }

    fn forget(&mut self, position: u64) {
        if position >= self.end() {
            // Partitions that rest hold no memory.
            *self = Self::default();
        } else if position > self.position {
            self.bytes.drain(..(position - self.position) as usize);
            self.position = position;
        }
    }
}

impl Segment {
    /// Keeps bytes that were just written at `position`, for who holds the writer lock.
    pub(crate) fn keep(&self, bytes: &[u8], position: u64) {
        self.kept.lock().add(bytes, position);
    }

    /// Fills `out` with what was written at `position`; false if not all of it is kept.
    pub(crate) fn copy_kept(&self, position: u64, out: &mut [u8]) -> bool {
        self.kept.lock().copy(position, out)
    }

    /// What lies below is on disk.
    pub(super) fn forget_kept(&self, position: u64) {
        self.kept.lock().forget(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(kept: &Kept, position: u64, count: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; count];
        kept.copy(position, &mut out).then_some(out)
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
        kept.add(&vec![1; KEPT_BYTES_MAX], 0);
        assert!(copied(&kept, 0, KEPT_BYTES_MAX).is_some());
        kept.add(b"abc", KEPT_BYTES_MAX as u64);
        assert_eq!(copied(&kept, KEPT_BYTES_MAX as u64 - 1, 2), None);
        assert_eq!(
            copied(&kept, KEPT_BYTES_MAX as u64, 3),
            Some(b"abc".to_vec())
        );
        let next = KEPT_BYTES_MAX as u64 + 3;
        kept.add(&vec![1; KEPT_BYTES_MAX + 1], next);
        assert_eq!(copied(&kept, next, 1), None);
        assert!(kept.bytes.is_empty());
        kept.add(b"def", next + KEPT_BYTES_MAX as u64 + 1);
        assert_eq!(
            copied(&kept, next + KEPT_BYTES_MAX as u64 + 1, 3),
            Some(b"def".to_vec())
        );
    }
}
