//! A second log of a log directory, written first: what all of its logs wait for is brought to disk by one write and
//! one sync, in blocks that exist. It knows bytes and places in files, no records.
//!
//! # Files
//! `journal.0` and `journal.1`, written in turn. While one is filled, what the other one holds is synced where it
//! belongs (by the caller), which gives its room back. Their blocks are written with zeros before they are used, and
//! used again: a sync then has no inode to write. Both are made when there is something to write and removed by a clean
//! stop; `meta.properties` names the journal meanwhile, and its format number is higher, so that nobody opens the
//! directory who would overlook what only the journal holds.
//!
//! # Groups
//! What is written at once is a group: whole blocks, numbered without gaps, never more than one under way. Each says
//! from which number on groups are needed (`floor`): all before are synced elsewhere. So everything from the last floor
//! up to the last group but one was on disk when the last one was written: what is missing there is damage, and the
//! directory cannot be used. Only the last group can be torn, and then nobody was told that it is on disk.
//!
//! # What kills an entry
//! Who takes records away (truncates, compacts, moves, deletes) first syncs the log's files, then writes a group that
//! says so: entries of that log before it are void. It never has to be said what exactly was done, see
//! [`crate::log::Log::leave_journal`].
//!
//! What a start does with entries: [`replay`].

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

/// More of one log at once is synced in its segment. `examples/journal_cost.rs`: up to 64 KiB of one log a journal saves
/// a third of the CPU and time, at 256 KiB both cost the same, and the bytes are written twice.
pub(crate) const SMALL_BYTES_MAX: usize = 128 << 10;
/// What zeros are written ahead of the groups at once.
const GROW_BYTES: u64 = 1 << 20;
/// Of each file, for groups without entries: what takes records away is held up neither by a full journal nor by a full
/// disk.
const RESERVED_BYTES: u64 = 256 << 10;
/// The smallest file that leaves room for entries.
pub(crate) const FILE_BYTES_MIN: u64 = RESERVED_BYTES * 2;

/// What a log asks of the journal that it may be in.
pub(crate) trait Entries: Send + Sync {
    /// Whether the journal may have entries of this log that count. Stays so while the log's flush lock is held.
    fn held(&self, log: TopicIdPartition) -> bool;

    /// Entries of these logs are void, durably when this returns. Their files are synced, and nothing of them is on its
    /// way into the journal.
    fn void(&self, logs: &[TopicIdPartition]) -> Result<(), StorageError>;
}

/// The journal of a log's directory; of a log that is only staged, none.
pub(crate) type OfLog = Option<Weak<dyn Entries>>;

/// Path of one of the two files.
pub(crate) fn path_of(dir: &Path, file: usize) -> PathBuf {
    dir.join(format!("journal.{file}"))
}

/// The journal of a log directory, open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: PathBuf,
    id: Uuid,
    files: [Output; 2],
    /// Bytes of each file whose blocks exist.
    grown: [u64; 2],
    file_bytes: u64,
    /// The file that is written, and where.
    current: usize,
    position: u64,
    /// Number of the next group, of the first one in the current file, and of the first one that is needed.
    next: u64,
    first_in_current: u64,
    floor: u64,
    /// How often a group was written, or was to be.
    writes: u64,
    /// The other file has groups that are needed.
    other_held: bool,
    /// The group in the making.
    group: Group,
}

impl Journal {
    /// Makes an empty journal; durable when it returns, but for `meta.properties`, which the caller writes before the
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

    /// What `meta.properties` knows it by. Nobody else does: records cannot pose as groups.
    pub(crate) const fn id(&self) -> Uuid {
        self.id
    }

    /// Begins a group. `bytes`: of all entries that are going to be added.
    pub(crate) fn begin(&mut self, bytes: usize) {
        self.group.begin(bytes);
    }

    /// Bytes of the group in the making.
    pub(crate) const fn group_bytes(&self) -> usize {
        self.group.len()
    }

    /// Whether as much was written to the current file as there is room left in it, or more.
    pub(crate) const fn is_half_full(&self) -> bool {
        self.position >= self.file_bytes / 2
    }

    /// Whether a group with so many bytes of entries finds room in the current file.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let end = self.position + padded(HEADER_BYTES + bytes) as u64;
        end <= self.file_bytes - RESERVED_BYTES
    }

    /// Adds an entry; `append` adds its bytes. The group is as before if that fails.
    pub(crate) fn push<E>(
        &mut self,
        head: &EntryHead<'_>,
        append: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.group.push(head, append)
    }

    /// Brings the group to disk. It is not begun anew: that is `begin`.
    ///
    /// # Errors
    /// [`StorageError::Full`]: the disk has no room for it, and the next group gets its number. What of it may be on disk
    /// counts until then; the caller takes it for written, and nobody is told. All others are final: nobody knows what
    /// is on disk.
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

    /// Zeros up to `end` in that file and beyond, once.
    fn grow(&mut self, file: usize, end: u64) -> Result<(), StorageError> {
        let grown = self.grown[file];
        if end <= grown {
            return Ok(());
        }
        let to = (end.max(grown + GROW_BYTES)).min(self.file_bytes).max(end);
        // What lies behind the groups is not looked at: that a part was written does no harm.
        self.files[file].fill((to - grown) as usize, grown)?;
        self.grown[file] = to;
        Ok(())
    }

    /// Goes on in the other file, if nothing in it is needed, and there is room for it on the disk; answers whether.
    ///
    /// # Errors
    /// As [`Journal::commit`], but for a full disk.
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

    /// The file that is written.
    pub(crate) const fn current(&self) -> usize {
        self.current
    }

    /// Whether the other file has groups that are needed.
    pub(crate) const fn other_held(&self) -> bool {
        self.other_held
    }

    /// What the other file holds is synced where it belongs: durably free when this returns.
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

    /// Whether there is room to say that `logs` logs have left.
    pub(crate) fn has_room_to_void(&self, logs: usize) -> bool {
        let bytes = padded(HEADER_BYTES + logs * format::VOID_BYTES) as u64;
        // One block is for who has no room.
        self.position + bytes + BLOCK_BYTES as u64 <= self.file_bytes
    }

    /// Entries of these logs so far are void, durably when this returns.
    ///
    /// # Errors
    /// As [`Journal::commit`].
    pub(crate) fn void(&mut self, logs: &[TopicIdPartition]) -> Result<(), StorageError> {
        self.begin(logs.len() * format::VOID_BYTES);
        logs.iter().for_each(|id| self.group.push_void(*id));
        self.commit(true)
    }

    /// Everything that was ever written here is synced where it belongs. The journal is empty, durably, and all of its
    /// room free.
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

    /// Removes the files of an empty journal that `meta.properties` does not name any more.
    pub(crate) fn remove(self) -> Result<(), StorageError> {
        remove_files(&self.dir)
    }

    /// From now on, or until then, writes find no room.
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

    /// From now on nothing can be written.
    #[cfg(test)]
    pub(crate) fn break_files(&mut self) {
        for (number, file) in self.files.iter_mut().enumerate() {
            file.replace(std::fs::File::open(path_of(&self.dir, number)).expect("opens"));
        }
    }

    /// From now on everything goes through the page cache.
    #[cfg(test)]
    pub(crate) fn use_cache(&mut self) {
        self.files.iter_mut().for_each(Output::use_cache);
    }
}

/// Removes the files of a journal, if there are any.
pub(crate) fn remove_files(dir: &Path) -> Result<(), StorageError> {
    for file in 0..2 {
        files::remove(&path_of(dir, file))?;
    }
    files::sync_dir(dir)
}

const fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(BLOCK_BYTES)
}
