//! Appends that become durable in the log directory's journal before they are so in the segment.

use super::Log;
use crate::config::FlushMode;
use crate::error::StorageError;
use crate::journal::EntryHead;
use crate::segment::{Place, Segment};
use parking_lot::MutexGuard;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// What of a log waits to become durable.
pub(crate) enum Waiting {
    /// Nothing.
    Nothing,
    /// Something for the journal.
    Small(JournalSample),
    /// Something that the journal cannot hold, or need not: the log's files are to be synced.
    Other,
}

/// A stretch of the active segment.
pub(crate) struct JournalSample {
    segment: Arc<Segment>,
    from: Place,
    to: Place,
}

impl JournalSample {
    pub(crate) const fn bytes(&self) -> usize {
        (self.to.position - self.from.position) as usize
    }

    /// How the journal names it.
    pub(crate) fn head<'a>(&self, log: &Log, directory: &'a str) -> EntryHead<'a> {
        EntryHead {
            id: log.id,
            segment: self.segment.base_offset,
            position: self.from.position,
            length: self.to.position - self.from.position,
            directory,
        }
    }

    /// Adds its bytes, as the segment's file has them.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) -> Result<(), StorageError> {
        let position = u64::from(self.from.position);
        if self.segment.append_kept(position, self.bytes(), out) {
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
    /// Whether what waits now is likely to be for the journal. Cheap, and without locks; [`Log::waiting`] decides.
    pub(crate) fn is_small(&self, bytes_max: usize) -> bool {
        let segments = self.segments.load();
        segments.last().is_some_and(|active| {
            let (from, to) = (active.flushed(), active.end());
            from.position > 0 && (to.position.saturating_sub(from.position) as usize) <= bytes_max
        })
    }

    /// What waits, for who holds the flush lock.
    ///
    /// The journal gets what continues a segment that is on disk with its name and its first bytes: a replay never
    /// makes a file. The rest (a new segment, the leader epochs' file, much at once) is synced where it lies.
    pub(crate) fn waiting(&self, _flushing: &MutexGuard<'_, ()>, bytes_max: usize) -> Waiting {
        let flushed = self.flushed_end_offset();
        // The end first: an epoch is in its file before its first record is counted.
        let end = self.log_end_offset();
        let segments = self.segments.load();
        let Some(active) = segments.last() else {
            return Waiting::Other;
        };
        let (from, to) = (active.flushed(), active.end());
        let epochs_dirty = self.epochs_dirty.load(Ordering::Acquire);
        if end <= flushed && !epochs_dirty {
            return Waiting::Nothing;
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
            return Waiting::Other;
        }
        Waiting::Small(JournalSample {
            segment: Arc::clone(active),
            from,
            to,
        })
    }

    /// Publishes what the journal has on disk; answers the flushed end if it moved.
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

    /// Name of the directory as the journal notes it.
    pub(crate) fn name_in(&self, root: &Path) -> Option<String> {
        let directory = self.dir.read();
        // As text, for most: the one was made by joining something to the other, and taking paths apart costs more than
        // everything else that is noted.
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

    /// Before bytes that are in the journal are taken out of the files, or the files get another name: all that was
    /// appended is on disk in the log's own files, and what the journal has of this log is void.
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

    /// As [`Log::leave_journal`], for who holds the flush lock, so that nothing comes into the journal until it is
    /// given back, and calls [`Log::tell_flushed`] with the answer then.
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
