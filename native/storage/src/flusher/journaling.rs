//! Connection between logs and their directory's journal. It records which logs have entries in the journal, selects
//! the logs to write next, and decides when to sync segments to free space in the journal.

use crate::error::StorageError;
use crate::files;
use crate::health::Health;
use crate::journal::{Entries, Journal, SMALL_BYTES_MAX, entry_bytes};
use crate::log::{JournalSample, Log, UnflushedData};
use crate::waker_batch::WakerBatch;
use parking_lot::{Condvar, Mutex, MutexGuard};
use pybroker_model::{TopicIdPartition, Uuid};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

mod segments;

/// Approximate size limit of a group. Further logs go into the next group.
const GROUP_BYTES: usize = 2 << 20;

/// A function that records in `meta.properties` whether there is a journal.
pub(crate) type NoteJournal = Box<dyn Fn(Option<Uuid>) -> Result<(), StorageError> + Send + Sync>;

/// Journal statistics of a log directory since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalFigures {
    /// Number of entries. One entry has all waiting appends of a log.
    pub entries: u64,
    /// Bytes of records.
    pub bytes: u64,
    /// Number of writes. Each write flushed all entries of a group.
    pub flushes: u64,
    /// Number of writes that found no space in the journal or on the disk. Their logs were synced one by one instead.
    pub full: u64,
    /// Sum over all groups of the time from a group's first append until the group was on disk, in microseconds.
    pub waited_us: u64,
}

impl std::ops::Add for JournalFigures {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            entries: self.entries + other.entries,
            bytes: self.bytes + other.bytes,
            flushes: self.flushes + other.flushes,
            full: self.full + other.full,
            waited_us: self.waited_us + other.waited_us,
        }
    }
}

#[derive(Debug, Default)]
struct Counters {
    entries: AtomicU64,
    bytes: AtomicU64,
    flushes: AtomicU64,
    full: AtomicU64,
    waited_us: AtomicU64,
}

/// The journal of a log directory and the logs in it.
pub(crate) struct DirectoryJournal {
    root: PathBuf,
    /// Size of each of the two files; 0: no journal.
    file_bytes: u64,
    syncfs_logs: usize,
    health: Arc<Health>,
    note: NoteJournal,
    state: Mutex<State>,
    /// Signals segments to sync, or the stop.
    wake: Condvar,
    /// Descriptor for barriers. It is opened before the first write, so that it reports all later errors.
    barrier: Mutex<File>,
    counters: Counters,
}

#[derive(Default)]
struct State {
    journal: Option<Journal>,
    /// Logs with live entries, by file.
    logs: [HashMap<TopicIdPartition, Arc<Log>>; 2],
    /// Number of switches between the files.
    turns: u64,
    /// Whether the journal has ended: by a clean stop, or because the process ends.
    ended: bool,
}

impl State {
    fn holds(&self, id: TopicIdPartition) -> bool {
        self.logs.iter().any(|logs| logs.contains_key(&id))
    }
}

/// A log to write, the guard of its flush lock, and its waiting bytes.
type Turn<'a> = (&'a Arc<Log>, MutexGuard<'a, ()>, JournalSample);

impl std::fmt::Debug for DirectoryJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectoryJournal")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl DirectoryJournal {
    pub(super) fn new(
        root: &Path,
        health: &Arc<Health>,
        file_bytes: u64,
        syncfs_logs: usize,
        note: NoteJournal,
    ) -> Result<Self, StorageError> {
        Ok(Self {
            root: root.to_path_buf(),
            file_bytes,
            syncfs_logs,
            health: Arc::clone(health),
            note,
            state: Mutex::default(),
            wake: Condvar::new(),
            barrier: Mutex::new(open(root)?),
            counters: Counters::default(),
        })
    }

    pub(super) const fn is_on(&self) -> bool {
        self.file_bytes > 0
    }

    pub(super) fn figures(&self) -> JournalFigures {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        JournalFigures {
            entries: of(&self.counters.entries),
            bytes: of(&self.counters.bytes),
            flushes: of(&self.counters.flushes),
            full: of(&self.counters.full),
            waited_us: of(&self.counters.waited_us),
        }
    }

    /// Record how long the first append of the last group waited.
    pub(super) fn note_wait(&self, waited: Duration) {
        let micros = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.counters.waited_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// Make the waiting bytes of `logs` durable and notify the waiters; return the logs whose files must be synced
    /// instead.
    pub(super) fn flush(&self, logs: &[Arc<Log>]) -> Vec<Arc<Log>> {
        let mut others = Vec::new();
        let mut rest = logs;
        while !rest.is_empty() && self.health.check().is_ok() {
            let taken = self.flush_some(rest, &mut others);
            rest = &rest[taken..];
        }
        others
    }

    /// Write one group; return how many of the logs it covered.
    fn flush_some(&self, logs: &[Arc<Log>], others: &mut Vec<Arc<Log>>) -> usize {
        let mut turns: Vec<Turn<'_>> = Vec::with_capacity(logs.len());
        let (mut taken, mut bytes) = (0, 0);
        for log in logs {
            if bytes >= GROUP_BYTES {
                break;
            }
            taken += 1;
            // Another thread holds the lock for a sync, truncation or move. Skip this log, because the other logs must
            // not wait.
            let Some(flushing) = log.flush.try_lock() else {
                others.push(Arc::clone(log));
                continue;
            };
            match log.unflushed_data(&flushing, SMALL_BYTES_MAX) {
                UnflushedData::Nothing => {}
                UnflushedData::Other => others.push(Arc::clone(log)),
                UnflushedData::Small(sample) => {
                    bytes += sample.bytes();
                    turns.push((log, flushing, sample));
                }
            }
        }
        if turns.is_empty() {
            return taken;
        }
        match self.write(&turns) {
            Ok(true) => {
                let publish = |(log, flushing, sample): Turn<'_>| {
                    let moved = log.publish_journaled(&flushing, &sample);
                    drop(flushing);
                    (Arc::clone(log), moved)
                };
                let told: Vec<_> = turns.into_iter().map(publish).collect();
                let mut woken = WakerBatch::default();
                for (log, moved) in told {
                    log.tell_flushed_with(moved, &mut woken);
                }
            }
            Ok(false) => others.extend(turns.into_iter().map(|(log, ..)| Arc::clone(log))),
            // Ignore the error: the directory is offline, which all waiters notice.
            Err(_) => {}
        }
        taken
    }

    /// Write one group, durably; return whether there was space.
    fn write(&self, turns: &[Turn<'_>]) -> Result<bool, StorageError> {
        let names: Option<Vec<_>> = turns
            .iter()
            .map(|(log, ..)| log.name_in(&self.root))
            .collect();
        let Some(names) = names else {
            return Ok(false);
        };
        let mut state = self.state.lock();
        let samples = turns.iter().map(|(_, _, sample)| sample.bytes());
        let bytes = names
            .iter()
            .zip(samples)
            .map(|(name, bytes)| entry_bytes(name, bytes));
        if !self.make_room(&mut state, bytes.sum())? {
            self.counters.full.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        }
        let State { journal, logs, .. } = &mut *state;
        let Some(journal) = journal else {
            return Ok(false);
        };
        for ((log, _, sample), name) in turns.iter().zip(&names) {
            let head = sample.head(log, name);
            if journal.push(&head, |out| sample.append_to(out)).is_err() {
                // Sync the segment file instead; that sync reports the error.
                return Ok(false);
            }
        }
        let bytes = journal.group_bytes();
        // Record the logs before the write, because a removal of records must also void the entries of a partly written
        // group.
        let logs = &mut logs[journal.current()];
        let first = logs.is_empty();
        for (log, ..) in turns {
            logs.entry(log.id()).or_insert_with(|| Arc::clone(log));
        }
        if first {
            self.wake.notify_one();
        }
        match journal.commit(false) {
            Ok(()) => {}
            Err(StorageError::Full { .. }) => {
                self.counters.full.fetch_add(1, Ordering::Relaxed);
                return Ok(false);
            }
            Err(error) => return Err(self.failed(error)),
        }
        let add =
            |counter: &AtomicU64, count: usize| counter.fetch_add(count as u64, Ordering::Relaxed);
        add(&self.counters.entries, turns.len());
        add(&self.counters.bytes, bytes);
        add(&self.counters.flushes, 1);
        Ok(true)
    }

    /// Make sure that there is a journal, begin a group, and return whether the current file has space for `bytes`.
    fn make_room(&self, state: &mut State, bytes: usize) -> Result<bool, StorageError> {
        if state.ended {
            return Ok(false);
        }
        if state.journal.is_none() {
            let made = Journal::create(&self.root, self.file_bytes)
                .and_then(|journal| (self.note)(Some(journal.id())).map(|()| journal));
            match made {
                Ok(journal) => state.journal = Some(journal),
                Err(StorageError::Full { .. }) => return Ok(false),
                Err(error) => return Err(self.failed(error)),
            }
        }
        let State { journal, turns, .. } = state;
        let Some(journal) = journal else {
            return Ok(false);
        };
        journal.begin(bytes);
        if journal.has_room(bytes) {
            return Ok(true);
        }
        // While new groups go to the new file, the segments thread syncs the old file's records in their segments.
        let changed = journal.change_files().map_err(|error| self.failed(error))?;
        if changed {
            *turns += 1;
        }
        self.wake.notify_one();
        Ok(changed && journal.has_room(bytes))
    }

    /// Sync all files of the logs, without their flush locks.
    #[cfg(target_os = "linux")]
    fn sync_everything(
        &self,
        _: &[HashMap<TopicIdPartition, Arc<Log>>; 2],
    ) -> Result<(), StorageError> {
        let synced = files::sync_filesystem(&self.barrier.lock());
        synced.map_err(|error| self.failed(StorageError::io("sync", &self.root)(error)))
    }

    #[cfg(not(target_os = "linux"))]
    fn sync_everything(
        &self,
        logs: &[HashMap<TopicIdPartition, Arc<Log>>; 2],
    ) -> Result<(), StorageError> {
        logs.iter()
            .flat_map(HashMap::values)
            .try_for_each(|log| log.sync_sampled())
    }

    /// Run [`Log::leave_journal`] for closed logs whose directories are about to be moved. Afterwards this journal
    /// neither syncs nor writes these logs.
    pub(crate) fn retire(&self, logs: &[&Log]) -> Result<(), StorageError> {
        let mut moved = Vec::new();
        {
            // Taking the lock waits for a running sync.
            let locked: Vec<_> = logs.iter().map(|log| (*log, log.flush.lock())).collect();
            let held: Vec<_> = {
                let state = self.state.lock();
                let is_held = |(log, _): &&(&Log, _)| state.holds(log.id());
                locked.iter().filter(is_held).collect()
            };
            if held.len() >= self.syncfs_logs && cfg!(target_os = "linux") {
                self.health.check()?;
                let samples: Vec<_> = held.iter().map(|(log, _)| log.sample()).collect();
                self.sync_everything(&Default::default())?;
                for ((log, _), sample) in held.iter().zip(&samples) {
                    moved.push((*log, log.publish_flushed(sample)));
                }
            } else {
                for (log, flushing) in &held {
                    moved.push((*log, log.flush_locked(flushing)?));
                }
            }
            if !held.is_empty() {
                let ids: Vec<_> = held.iter().map(|(log, _)| log.id()).collect();
                self.void(&ids)?;
            }
            // The waiting appends were never acknowledged. Mark the logs as moved, so that no later flush acknowledges
            // these appends.
            for (log, _) in &locked {
                log.staged.store(true, Ordering::Release);
            }
        }
        let mut woken = WakerBatch::default();
        for (log, moved) in moved {
            log.tell_flushed_with(moved, &mut woken);
        }
        Ok(())
    }

    /// Clean stop, after everything was synced in the segments: close the journal, remove it, and record that in
    /// `meta.properties`.
    pub(crate) fn end(&self) -> Result<(), StorageError> {
        let mut state = self.state.lock();
        state.ended = true;
        self.wake.notify_one();
        let Some(journal) = state.journal.take() else {
            return Ok(());
        };
        state.logs.iter_mut().for_each(HashMap::clear);
        (self.note)(None)?;
        journal.remove()
    }

    /// Stop because the process ends or the directory is closed; keep the journal's content.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        state.logs.iter_mut().for_each(HashMap::clear);
        self.wake.notify_one();
    }

    /// Take the directory offline, except on a full disk, which leaves the journal unchanged. Return the same error.
    fn unless_full(&self, error: StorageError) -> StorageError {
        if matches!(error, StorageError::Full { .. }) {
            return error;
        }
        self.failed(error)
    }

    fn failed(&self, error: StorageError) -> StorageError {
        self.health.fail(&error.to_string());
        error
    }
}

impl Entries for DirectoryJournal {
    fn held(&self, id: TopicIdPartition) -> bool {
        self.state.lock().holds(id)
    }

    fn void(&self, ids: &[TopicIdPartition]) -> Result<(), StorageError> {
        self.health.check()?;
        let mut state = self.state.lock();
        let State {
            journal,
            logs,
            turns,
            ..
        } = &mut *state;
        let Some(journal) = journal else {
            return Ok(());
        };
        if journal.has_room_to_void(ids.len()) {
            journal.void(ids).map_err(|error| self.unless_full(error))?;
            for logs in logs {
                ids.iter().for_each(|id| drop(logs.remove(id)));
            }
            return Ok(());
        }
        // There is no space to void this many entries: sync everything and empty the journal instead.
        self.sync_everything(logs)?;
        journal.empty().map_err(|error| self.unless_full(error))?;
        *turns += 1;
        logs.iter_mut().for_each(HashMap::clear);
        Ok(())
    }
}

fn open(root: &Path) -> Result<File, StorageError> {
    File::open(root).map_err(StorageError::io("open", root))
}

#[cfg(test)]
mod tests;
