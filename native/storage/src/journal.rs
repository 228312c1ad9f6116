//! Journal of a log directory, a write-ahead log: one write and one sync make the waiting appends of all logs in the
//! directory durable, in blocks that are already allocated. The journal stores bytes and file positions; it does not
//! parse records.
//!
//! # Files
//! `journal.0` and `journal.1`, written in turn. While one fills, the caller syncs the records of the other one in
//! their segments, which frees its space. Blocks are filled with zeros before the first use and then reused, so that a
//! sync has no inode to write. Both files are created with the first write and removed by a clean stop. While they
//! exist, `meta.properties` names the journal and has a higher format number. A release without journal support thus
//! refuses the directory instead of missing the journal's records.
//!
//! # Groups
//! Each write is a group: whole blocks with a number. Numbers have no gaps, and only one group is written at a time.
//! Each group names the first group that is still needed (`floor`); the records of earlier groups are synced in their
//! segments. When the last group was written, all earlier groups from the last floor on were on disk. So if one of them
//! is missing, the journal is damaged and the directory cannot be used. Only the last group can be torn; in that case
//! no waiter was notified of it.
//!
//! # Voiding entries
//! An operation that removes records (truncation, compaction, move, deletion) first syncs the log's files, then writes
//! a group that voids all earlier entries of that log. The group does not contain the operation; see
//! [`crate::log::Log::leave_journal`].
//!
//! Replay at start: [`replay`].

use crate::error::StorageError;
use crate::files;
use pybroker_model::{TopicIdPartition, Uuid};
use std::path::{Path, PathBuf};
use std::sync::Weak;

pub(crate) mod format;
mod group;
mod output;
pub(crate) mod replay;
#[cfg(test)]
mod tests;

use format::{BLOCK_BYTES, GroupHeader, HEADER_BYTES};
pub(crate) use format::{EntryHead, entry_bytes};
use group::Group;
use output::Output;

/// Maximum size of a log's entry; larger appends are synced in their segment. According to `examples/journal_cost.rs`,
/// up to 64 KiB of one log the journal saves a third of CPU and time. At 256 KiB the costs are equal, and the bytes are
/// written twice.
pub(crate) const SMALL_BYTES_MAX: usize = 128 << 10;
/// Number of zero bytes that one step writes ahead of the groups.
const GROW_BYTES: u64 = 1 << 20;
/// Reserved bytes of each file for groups that void entries: neither a full journal nor a full disk may block a removal
/// of records.
const RESERVED_BYTES: u64 = 256 << 10;
/// The smallest file with space for entries.
pub(crate) const FILE_BYTES_MIN: u64 = RESERVED_BYTES * 2;

/// Interface of the journal for its logs.
pub(crate) trait Entries: Send + Sync {
    /// Return whether the journal may have live entries of this log. Constant while the log's flush lock is held.
    fn held(&self, log: TopicIdPartition) -> bool;

    /// Void the entries of these logs, durably on return. The caller has synced the logs' files and must not write
    /// entries of them meanwhile.
    fn void(&self, logs: &[TopicIdPartition]) -> Result<(), StorageError>;
}

/// The journal of a log's directory; `None` for a staged log.
pub(crate) type OfLog = Option<Weak<dyn Entries>>;

/// Return the path of one of the two files.
pub(crate) fn path_of(dir: &Path, file: usize) -> PathBuf {
    dir.join(format!("journal.{file}"))
}

/// The journal of a log directory, open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    id: Uuid,
    files: [Output; 2],
    /// Number of bytes at the start of each file whose blocks are allocated.
    grown: [u64; 2],
    file_bytes: u64,
    /// The file being written, and the position in it.
    current: usize,
    position: u64,
    /// Numbers of the next group, of the first group in the current file, and of the first group still needed.
    next: u64,
    first_in_current: u64,
    floor: u64,
    /// Number of attempted group writes.
    writes: u64,
    /// Whether the other file has groups that are still needed.
    other_held: bool,
    /// The group under construction.
    group: Group,
}

impl Journal {
    /// Create an empty journal; durable on return except for `meta.properties`, which the caller writes before the
    /// first entry.
    pub(crate) fn create(dir: &Path, file_bytes: u64) -> Result<Self, StorageError> {
        let create = |file| Output::create(path_of(dir, file));
        let mut journal = Self {
            dir: dir.to_path_buf(),
            id: Uuid::random(),
            files: [create(0)?, create(1)?],
            grown: [0; 2],
            file_bytes: file_bytes.max(FILE_BYTES_MIN),
            current: 0,
            position: 0,
            next: 1,
            first_in_current: 1,
            floor: 1,
            writes: 0,
            other_held: false,
            group: Group::default(),
        };
        journal.grow(0, RESERVED_BYTES)?;
        journal.begin(0);
        journal.commit(false)?;
        files::sync_dir(dir)?;
        Ok(journal)
    }

    /// Return the id in `meta.properties`. Clients do not know it, so their records cannot imitate groups.
    pub(crate) const fn id(&self) -> Uuid {
        self.id
    }

    /// Begin a group. `bytes`: size of all its entries.
    pub(crate) fn begin(&mut self, bytes: usize) {
        self.group.begin(bytes);
    }

    /// Return the size of the group under construction.
    pub(crate) const fn group_bytes(&self) -> usize {
        self.group.len()
    }

    /// Return whether at least half of the current file is written.
    pub(crate) const fn is_half_full(&self) -> bool {
        self.position >= self.file_bytes / 2
    }

    /// Return whether the current file has space for a group with this many bytes of entries.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let end = self.position + padded(HEADER_BYTES + bytes) as u64;
        end <= self.file_bytes - RESERVED_BYTES
    }

    /// Add an entry; `append` adds its bytes. On failure the group is unchanged.
    pub(crate) fn push<E>(
        &mut self,
        head: &EntryHead<'_>,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.group.push(head, append)
    }

    /// Write the group to disk. Call `begin` to start the next one.
    ///
    /// # Errors
    /// [`StorageError::Full`]: the disk has no space, and the next group gets the same number. A part of the group may
    /// be on disk and is valid until the next group replaces it. The caller treats the group as written but does not
    /// notify waiters. All other errors are final: the state on disk is unknown.
    pub(crate) fn commit(&mut self, voids: bool) -> Result<(), StorageError> {
        let end = self.position + padded(self.group.len()) as u64;
        let reserved = if self.group.entries() > 0 && !voids {
            RESERVED_BYTES
        } else {
            0
        };
        self.grow(self.current, end + reserved)?;
        self.writes += 1;
        self.group.close(|body_bytes, entries| GroupHeader {
            journal: self.id,
            sequence: self.next,
            write: self.writes,
            floor: self.floor,
            body_bytes,
            entries,
            voids,
        });
        self.files[self.current].write(self.group.blocks(), self.position)?;
        self.position = end;
        self.next += 1;
        Ok(())
    }

    /// Fill the file with zeros up to `end` and some distance beyond, unless they are written already.
    fn grow(&mut self, file: usize, end: u64) -> Result<(), StorageError> {
        let grown = self.grown[file];
        if end <= grown {
            return Ok(());
        }
        let to = (end.max(grown + GROW_BYTES)).min(self.file_bytes).max(end);
        // Replay ignores bytes after the last group, so a partial write is harmless.
        self.files[file].fill((to - grown) as usize, grown)?;
        self.grown[file] = to;
        Ok(())
    }

    /// Switch to the other file, if none of its groups is needed and the disk has space for it. Return whether the
    /// journal switched.
    ///
    /// # Errors
    /// As [`Journal::commit`], except for a full disk.
    pub(crate) fn change_files(&mut self) -> Result<bool, StorageError> {
        if self.other_held {
            return Ok(false);
        }
        match self.grow(1 - self.current, RESERVED_BYTES) {
            Ok(()) => {}
            Err(StorageError::Full { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        self.current = 1 - self.current;
        self.position = 0;
        self.first_in_current = self.next;
        self.other_held = true;
        Ok(true)
    }

    /// Return the file being written.
    pub(crate) const fn current(&self) -> usize {
        self.current
    }

    /// Return whether the other file has groups that are needed.
    pub(crate) const fn other_held(&self) -> bool {
        self.other_held
    }

    /// Free the other file, whose records are synced in their segments; durable on return.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub(crate) fn release_other(&mut self) -> Result<(), StorageError> {
        let before = self.floor;
        self.floor = self.first_in_current;
        self.begin(0);
        if let Err(error) = self.commit(false) {
            self.floor = before;
            return Err(error);
        }
        self.other_held = false;
        Ok(())
    }

    /// Return whether there is space to void the entries of `logs` logs.
    pub(crate) fn has_room_to_void(&self, logs: usize) -> bool {
        let bytes = padded(HEADER_BYTES + logs * format::VOID_BYTES) as u64;
        // Keep one block free for [`Journal::empty`].
        self.position + bytes + BLOCK_BYTES as u64 <= self.file_bytes
    }

    /// Void all entries that the journal has of these logs now. The change is on disk when this returns.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub(crate) fn void(&mut self, logs: &[TopicIdPartition]) -> Result<(), StorageError> {
        self.begin(logs.len() * format::VOID_BYTES);
        logs.iter().for_each(|id| self.group.push_void(*id));
        self.commit(true)
    }

    /// Empty the journal durably and free all its space. The caller must have synced all records of the journal in
    /// their segments.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub(crate) fn empty(&mut self) -> Result<(), StorageError> {
        let before = self.floor;
        self.floor = self.next;
        self.begin(0);
        if let Err(error) = self.commit(false) {
            self.floor = before;
            return Err(error);
        }
        self.other_held = false;
        self.change_files()?;
        self.other_held = false;
        Ok(())
    }

    /// Remove the files of an empty journal that `meta.properties` no longer names.
    pub(crate) fn remove(self) -> Result<(), StorageError> {
        remove_files(&self.dir)
    }

    /// For tests: set whether all writes fail with a full disk.
    #[cfg(test)]
    pub(crate) fn fill_disk(&mut self, full: bool) {
        for (number, file) in self.files.iter_mut().enumerate() {
            let path = if full {
                PathBuf::from("/dev/full")
            } else {
                path_of(&self.dir, number)
            };
            file.replace(
                std::fs::File::options()
                    .write(true)
                    .open(path)
                    .expect("opens"),
            );
        }
    }

    /// Make all writes fail.
    #[cfg(test)]
    pub(crate) fn break_files(&mut self) {
        for (number, file) in self.files.iter_mut().enumerate() {
            file.replace(std::fs::File::open(path_of(&self.dir, number)).expect("opens"));
        }
    }

    /// Make all writes go through the page cache.
    #[cfg(test)]
    pub(crate) fn use_cache(&mut self) {
        self.files.iter_mut().for_each(Output::use_cache);
    }
}

/// Remove the files of a journal, if there are any.
pub(crate) fn remove_files(dir: &Path) -> Result<(), StorageError> {
    for file in 0..2 {
        files::remove(&path_of(dir, file))?;
    }
    files::sync_dir(dir)
}

const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}
