//! Appends that become durable in the log directory's journal before they are synced in the segment.

use super::Log;
use crate::config::FlushMode;
use crate::error::StorageError;
use crate::journal::EntryHead;
use crate::segment::{Place, Segment};
use parking_lot::MutexGuard;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Unflushed content of a log.
pub(crate) enum UnflushedData {
    /// Nothing.
    Nothing,
    /// Bytes that fit the journal.
    Small(JournalSample),
    /// Bytes that do not fit the journal or do not need it: the log's files are synced instead.
    Other,
}

/// A range of the active segment that goes to the journal.
pub(crate) struct JournalSample {
    segment: Arc<Segment>,
    from: Place,
    to: Place,
}

impl JournalSample {
    pub(crate) const fn bytes(&self) -> usize {
        (self.to.position - self.from.position) as usize
    }

    /// Return the entry header for the journal.
    pub(crate) fn head<'a>(&self, log: &Log, directory: &'a str) -> EntryHead<'a> {
        EntryHead {
            id: log.id,
            segment: self.segment.base_offset,
            position: self.from.position,
            length: self.to.position - self.from.position,
            directory,
        }
    }

    /// Append the range's bytes to `out`, as they are in the segment's file.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) -> Result<(), StorageError> {
        let position = u64::from(self.from.position);
        if self.segment.append_unflushed(position, self.bytes(), out) {
            return Ok(());
        }
        let begin = out.len();
        out.resize(begin + self.bytes(), 0);
        let out = &mut out[begin..];
        let path = || self.segment.path(crate::file_names::LOG);
        let file = self.segment.file(false)?;
        let count = file
            .read_at_most(out, position)
            .map_err(|error| StorageError::io("read", &path())(error))?;
        if count < out.len() {
            let short = std::io::ErrorKind::UnexpectedEof.into();
            return Err(StorageError::io("read", &path())(short));
        }
        Ok(())
    }
}

impl Log {
    /// Return whether the unflushed content probably fits the journal. This check is cheap and takes no locks;
    /// [`Log::unflushed_data`] decides.
    pub(crate) fn is_small(&self, bytes_max: usize) -> bool {
        let segments = self.segments.load();
        segments.last().is_some_and(|active| {
            let (from, to) = (active.flushed(), active.end());
            from.position > 0 && (to.position.saturating_sub(from.position) as usize) <= bytes_max
        })
    }

    /// Return the unflushed content; requires the flush lock.
    ///
    /// The journal takes bytes that continue a segment whose name and first bytes are on disk: a replay never creates a
    /// file. The rest (a new segment, the leader epochs' file, large appends) is synced in place.
    pub(crate) fn unflushed_data(
        &self,
        _flushing: &MutexGuard<'_, ()>,
        bytes_max: usize,
    ) -> UnflushedData {
        let flushed = self.flushed_end_offset();
        // Read the end first: an epoch is in its file before the log end covers its first record.
        let end = self.log_end_offset();
        let segments = self.segments.load();
        let Some(active) = segments.last() else {
            return UnflushedData::Other;
        };
        let (from, to) = (active.flushed(), active.end());
        let epochs_dirty = self.epochs_dirty.load(Ordering::Acquire);
        if end <= flushed && !epochs_dirty {
            return UnflushedData::Nothing;
        }
        let continues = active.entry_synced.load(Ordering::Acquire)
            && from.position > 0
            && active.base_offset + i64::from(from.relative_offset) == flushed
            && to.position > from.position
            && (to.position - from.position) as usize <= bytes_max;
        let journaled = self.config.load().flush_mode == FlushMode::Commit
            && self.journal.is_some()
            && !self.staged.load(Ordering::Acquire);
        if epochs_dirty || !continues || !journaled {
            return UnflushedData::Other;
        }
        UnflushedData::Small(JournalSample {
            segment: Arc::clone(active),
            from,
            to,
        })
    }

    /// Publish bytes that are durable in the journal; return the flushed end if it moved.
    pub(crate) fn publish_journaled(
        &self,
        _flushing: &MutexGuard<'_, ()>,
        sample: &JournalSample,
    ) -> Option<i64> {
        let end = sample.segment.base_offset + i64::from(sample.to.relative_offset);
        sample.segment.set_flushed(sample.to);
        let before = self.flushed_end.fetch_max(end, Ordering::AcqRel);
        (before < end).then_some(end)
    }

    /// Return the name of the log's directory for a journal entry.
    pub(crate) fn name_in(&self, root: &Path) -> Option<String> {
        let directory = self.dir.read();
        // In the usual case the log's path was made from the root path, so compare them as text. Parsing both paths
        // costs more than the rest of the entry.
        let texts = directory.to_str().zip(root.to_str());
        let name = texts
            .and_then(|(directory, root)| directory.strip_prefix(root))
            .and_then(|name| name.strip_prefix(std::path::MAIN_SEPARATOR));
        match name {
            Some(name) => Some(name.to_owned()),
            None => directory
                .strip_prefix(root)
                .ok()?
                .to_str()
                .map(str::to_owned),
        }
    }

    /// Remove this log from the journal, before bytes are removed from its files or the files are renamed: flush
    /// everything into the log's own files and void its entries.
    ///
    /// # Errors
    /// [`StorageError`]; an IO error takes the log directory offline.
    pub(crate) fn leave_journal(&self) -> Result<(), StorageError> {
        let moved = {
            let flushing = self.flush.lock();
            self.leave_journal_locked(&flushing)?
        };
        self.tell_flushed(moved);
        Ok(())
    }

    /// Like [`Log::leave_journal`], for a caller that holds the flush lock, so that no new entries are written. The
    /// caller must later call [`Log::tell_flushed`] with the result.
    pub(crate) fn leave_journal_locked(
        &self,
        flushing: &MutexGuard<'_, ()>,
    ) -> Result<Option<i64>, StorageError> {
        let Some(journal) = self.journal.as_ref().and_then(Weak::upgrade) else {
            return Ok(None);
        };
        if !journal.held(self.id) {
            return Ok(None);
        }
        let moved = self.flush_locked(flushing)?;
        journal.void(&[self.id])?;
        Ok(moved)
    }
}
