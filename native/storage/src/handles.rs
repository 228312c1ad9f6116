//! Bounded number of open segment files: 10,000 logs must not need 10,000 descriptors.
//!
//! A [`FileSlot`] is one file that may be open or not. The cache closes slots with the CLOCK algorithm: a slot that was
//! used since the last round stays open for another round. Closing only drops the cache's reference: a read in progress
//! keeps its descriptor through its own [`SegmentFile`].

use crate::direct::DirectWrites;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Maximum number of open segment files of a log directory, even if the process limit is high.
pub(crate) const OPEN_FILES_MAX: usize = 4096;

/// Return how many segment files each of `dirs` log directories may keep open: together half of the process limit. The
/// other half is for connections, and for files with unsynced writes.
#[must_use]
pub fn open_files_max(dirs: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let all = limit.map_or(usize::MAX, |files| {
        usize::try_from(files / 2).unwrap_or(usize::MAX)
    });
    (all / dirs.max(1)).min(OPEN_FILES_MAX)
}

/// An open segment file. Readers hold it while they send from it.
#[derive(Debug)]
pub struct SegmentFile {
    file: File,
}

impl SegmentFile {
    /// Return the file, for sendfile and positioned reads.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Fill `out` from `position`, up to the end of the file; return the number of bytes.
    ///
    /// # Errors
    /// Any error of the operating system.
    pub fn read_at_most(&self, out: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match self.file.read_at(&mut out[done..], position + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

impl AsFd for SegmentFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A file that may be open or not.
#[derive(Debug, Default)]
pub(crate) struct FileSlot {
    open: ArcSwapOption<SegmentFile>,
    used: AtomicBool,
    /// Whether the file has unsynced writes and must stay open: the kernel reports a writeback error only through
    /// descriptors that were open when it happened.
    pub(crate) dirty: AtomicBool,
}

impl FileSlot {
    /// Drop the open file, for example because another file takes its name.
    pub(crate) fn close(&self) {
        self.open.store(None);
    }
}

/// Cache of open files with a bound.
#[derive(Debug)]
pub(crate) struct HandleCache {
    capacity: usize,
    clock: Mutex<VecDeque<Weak<FileSlot>>>,
    /// Writes that bypass the page cache.
    pub(crate) direct: DirectWrites,
}

impl HandleCache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            clock: Mutex::new(VecDeque::new()),
            direct: DirectWrites::default(),
        }
    }

    /// Return the open file of `slot`; open `path` for reading and writing if necessary.
    pub(crate) fn get(
        &self,
        slot: &Arc<FileSlot>,
        create: bool,
        path: impl FnOnce() -> std::path::PathBuf,
    ) -> io::Result<Arc<SegmentFile>> {
        if !slot.used.load(Ordering::Relaxed) {
            slot.used.store(true, Ordering::Relaxed);
        }
        if let Some(file) = slot.open.load_full() {
            return Ok(file);
        }
        let mut clock = self.clock.lock();
        // Another thread may have opened the file meanwhile.
        if let Some(file) = slot.open.load_full() {
            return Ok(file);
        }
        self.make_room(&mut clock);
        let file = Arc::new(SegmentFile {
            file: open(&path(), create)?,
        });
        slot.open.store(Some(Arc::clone(&file)));
        clock.push_back(Arc::downgrade(slot));
        Ok(file)
    }

    fn make_room(&self, clock: &mut VecDeque<Weak<FileSlot>>) {
        // Two rounds, because the first round only clears the marks of recently used slots. Dirty slots can exceed the
        // capacity while the flushers are slow.
        let mut steps = clock.len() * 2;
        while clock.len() >= self.capacity && steps > 0 {
            steps -= 1;
            let Some(weak) = clock.pop_front() else {
                return;
            };
            let Some(slot) = weak.upgrade() else { continue };
            if slot.open.load().is_none() {
                continue;
            }
            if slot.used.swap(false, Ordering::Relaxed) || slot.dirty.load(Ordering::Acquire) {
                clock.push_back(weak);
            } else {
                slot.close();
            }
        }
    }
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_share_what_the_process_may_have() {
        let alone = open_files_max(1);
        assert!((1..=OPEN_FILES_MAX).contains(&alone));
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let all = limit.map_or(u64::MAX, |files| files / 2);
        assert_eq!(open_files_max(1 << 40), (all >> 40) as usize);
    }

    #[test]
    fn open_files_stay_within_the_capacity() {
        let dir = tempfile::tempdir().expect("temp dir");
        let cache = HandleCache::new(4);
        let slots: Vec<_> = (0..50).map(|_| Arc::new(FileSlot::default())).collect();
        let path = |i: usize| dir.path().join(i.to_string());
        let open_now = || slots.iter().filter(|s| s.open.load().is_some()).count();
        for round in 0..3 {
            for (i, slot) in slots.iter().enumerate() {
                cache.get(slot, round == 0, || path(i)).expect("opens");
                assert!(open_now() <= 4);
            }
        }
        for slot in &slots[..10] {
            slot.dirty.store(true, Ordering::Release);
        }
        for (i, slot) in slots.iter().enumerate() {
            cache.get(slot, false, || path(i)).expect("opens");
        }
        assert!(
            slots[..10].iter().all(|s| s.open.load().is_some()),
            "dirty files stay open"
        );
        let held = cache.get(&slots[20], false, || path(20)).expect("opens");
        slots[20].close();
        assert!(
            held.file().metadata().is_ok(),
            "a reader keeps its descriptor"
        );
    }
}
