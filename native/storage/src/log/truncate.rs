//! Truncation: a follower removes the end of its log if its leader's log differs there.

use super::{Log, Segments, Writer};
use crate::error::StorageError;
use crate::file_names::{self, INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX};
use crate::files;
use crate::producer_state::{ProducerState, Transactions};
use crate::recovery::producers;
use crate::segment::Segment;
use crate::staged::links;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Guard of a truncation, see [`Log::begin_truncation`].
pub(crate) struct TruncationGuard<'a>(&'a Log);

impl Drop for TruncationGuard<'_> {
    fn drop(&mut self) {
        *self.0.truncations.lock() += 1;
    }
}

impl Log {
    /// Remove everything from `offset`; return whether anything was removed. A batch that contains `offset` is removed
    /// completely. Durable on return.
    ///
    /// # Errors
    /// [`StorageError`]; an IO error takes the log directory offline.
    pub fn truncate_to(&self, offset: i64, now_ms: i64) -> Result<bool, StorageError> {
        let _maintenance = self.maintenance.lock();
        let flushing = self.flush.lock();
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        if offset >= self.log_end_offset() {
            // An epoch without records that began at this offset is not in the new leader's log either.
            if self.epochs.write().truncate_from_end(self.log_end_offset()) {
                self.rewrite_epochs().map_err(|e| self.fatal(e))?;
            }
            return Ok(false);
        }
        let moved = self.leave_journal_locked(&flushing)?;
        let first_base = self.segments.load()[0].base_offset;
        if offset < first_base || offset < self.log_start_offset() {
            self.start_over(&mut writer, offset.max(0), now_ms)
                .map_err(|e| self.fatal(e))?;
        } else {
            self.cut(&mut writer, offset).map_err(|e| self.fatal(e))?;
        }
        self.forget_lost_above(self.log_end_offset());
        drop((writer, flushing));
        self.tell_flushed(moved);
        Ok(true)
    }

    /// Remove everything and restart at `offset`: the leader's log starts above this log's end.
    ///
    /// # Errors
    /// As [`Log::truncate_to`].
    pub fn truncate_fully_and_start_at(
        &self,
        offset: i64,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let _maintenance = self.maintenance.lock();
        let flushing = self.flush.lock();
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        let moved = self.leave_journal_locked(&flushing)?;
        self.start_over(&mut writer, offset, now_ms)
            .map_err(|e| self.fatal(e))?;
        self.forget_lost_above(i64::MIN);
        drop((writer, flushing));
        self.tell_flushed(moved);
        Ok(())
    }

    fn cut(&self, writer: &mut Writer, offset: i64) -> Result<(), StorageError> {
        let interval = self.config.load().index_interval_bytes;
        let mut segments: Segments = self.segments.load().as_ref().clone();
        let keep = Self::segment_index(&segments, offset);
        let found = segments[keep].find(offset)?;
        let (position, end) = match found {
            Some(found) => {
                let base = match found.header {
                    Some(header) => header.base_offset,
                    None => segments[keep].header_at(found.position)?.base_offset,
                };
                (found.position, base.min(offset))
            }
            None => (segments[keep].size(), offset),
        };
        let _truncation = self.begin_truncation();
        self.flushed_end.fetch_min(end, Ordering::AcqRel);
        self.synced_end.fetch_min(end, Ordering::AcqRel);
        self.cleaned_to.fetch_min(end, Ordering::AcqRel);
        self.log_end.store(end, Ordering::Release);
        let removed = segments.split_off(keep + 1);
        self.publish_segments(segments.clone());
        // Remove the highest segment first, so that a crash in between leaves no gap in the log.
        for segment in removed.iter().rev() {
            remove_files(segment)?;
        }
        let active = Arc::clone(&segments[keep]);
        links::unshare(&active, position)?;
        active.truncate(position, end, interval)?;
        files::sync_data(active.file(true)?.file())
            .map_err(StorageError::io("sync", &active.path(LOG)))?;
        writer.active = active;
        self.epochs.write().truncate_from_end(end);
        self.rewrite_epochs()?;
        self.remove_snapshots_above(end)?;
        let (state, transactions) = producers::load(
            &self.directory(),
            &segments,
            end,
            self.config.load().producer_ids_per_partition_max,
        )?;
        self.take_producers(writer, state, transactions);
        files::sync_dir(&self.directory())
    }

    fn start_over(
        &self,
        writer: &mut Writer,
        offset: i64,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        let old: Segments = self.segments.load().as_ref().clone();
        let _truncation = self.begin_truncation();
        for segment in old.iter().rev() {
            remove_files(segment)?;
        }
        let active = Arc::new(Segment::fresh(offset, &self.dir, &self.handles, now_ms));
        // Create the file, because its name records the log's new offset.
        active.file(true)?;
        self.publish_segments(vec![Arc::clone(&active)]);
        writer.active = active;
        self.log_start.store(offset, Ordering::Release);
        self.log_end.store(offset, Ordering::Release);
        self.flushed_end.store(offset, Ordering::Release);
        self.synced_end.store(offset, Ordering::Release);
        self.cleaned_to.store(offset, Ordering::Release);
        self.epochs.write().clear();
        self.rewrite_epochs()?;
        self.remove_snapshots_above(-1)?;
        self.take_producers(writer, ProducerState::default(), Transactions::default());
        files::sync_dir(&self.directory())
    }

    /// Start a truncation. While the guard exists, no sync publishes its result if it began before or during the
    /// truncation, because its ends and positions may be among the removed ones.
    pub(crate) fn begin_truncation(&self) -> TruncationGuard<'_> {
        *self.truncations.lock() += 1;
        TruncationGuard(self)
    }

    fn take_producers(
        &self,
        writer: &mut Writer,
        state: ProducerState,
        transactions: Transactions,
    ) {
        writer.producers = state;
        writer.producers.changed = true;
        self.producer_share.note(&mut writer.producers);
        writer.checkpoint_snapshot = None;
        self.has_transactions
            .store(!transactions.is_empty(), Ordering::Release);
        *self.transactions.lock() = transactions;
    }

    fn remove_snapshots_above(&self, offset: i64) -> Result<(), StorageError> {
        let dir = self.directory();
        for snapshot in producers::snapshots(&dir)? {
            if snapshot > offset {
                files::remove(&file_names::of_segment(&dir, snapshot, SNAPSHOT))?;
            }
        }
        Ok(())
    }
}

fn remove_files(segment: &Segment) -> Result<(), StorageError> {
    for suffix in [INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT, LOG] {
        files::remove(&segment.path(suffix))?;
    }
    segment.forget();
    Ok(())
}
