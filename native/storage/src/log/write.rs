//! Writes batches with assigned offsets to the active segment and updates the state in memory.

use super::{Log, Writer};
use crate::config::{FlushMode, LogConfig};
use crate::error::{AppendError, StorageError};
use crate::file_names::LOG;
use crate::producer_state::marker_of;
use pybroker_model::{BatchHeader, Batches, NO_TIMESTAMP};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

impl Log {
    /// Write the epoch of the next record to the epochs' file before the record is written. A leader announces its
    /// epoch with [`Log::begin_epoch`]; a follower learns an epoch from its first record.
    pub(super) fn note_epoch(&self, epoch: i32, start_offset: i64) -> Result<(), StorageError> {
        let known = self.epochs.read().latest();
        if epoch < 0 || known.is_some_and(|latest| latest.epoch >= epoch) {
            if !self.epochs_unwritten.load(Ordering::Acquire) {
                return Ok(());
            }
            return self.rewrite_epochs().map_err(|error| self.fatal(error));
        }
        self.epochs.write().assign(epoch, start_offset);
        self.rewrite_epochs().map_err(|error| self.fatal(error))
    }

    /// Write bytes with assigned offsets, after a roll if they do not fit, and publish them.
    pub(super) fn write(
        &self,
        writer: &mut Writer,
        bytes: &[u8],
        single: Option<&BatchHeader>,
        last_offset: i64,
        now_ms: i64,
    ) -> Result<(), AppendError> {
        let config = self.config.load();
        let max_timestamp = match single {
            Some(header) => header.max_timestamp,
            None => Batches::new(bytes)
                .flatten()
                .map(|(h, _)| h.max_timestamp)
                .max()
                .unwrap_or(NO_TIMESTAMP),
        };
        if self.must_roll(
            &writer.active,
            bytes.len(),
            last_offset,
            max_timestamp,
            now_ms,
            &config,
        )? {
            self.roll_locked(writer, now_ms)?;
        }
        let segment = &writer.active;
        let position = segment.size();
        if config.flush_mode == FlushMode::Commit {
            segment.set_dirty(true);
        }
        let failed = |error| {
            if position == 0 {
                // The segment has no unsynced content, so the cache may close its file.
                segment.set_dirty(false);
            }
            self.fatal(error)
        };
        let file = segment.file(true).map_err(failed)?;
        segment.expect_batch(position).map_err(failed)?;
        if position == 0 && config.preallocate {
            preallocate(file.file(), u64::from(config.segment_bytes));
        }
        let written = if position < config.cached_bytes_max {
            file.file().write_all_at(bytes, position)
        } else {
            segment.write_directly(file.file(), bytes, position)
        };
        if let Err(error) = written {
            let error = StorageError::io("write", &segment.path(LOG))(error);
            // Readers must not see a partial batch: restore the file, or take the directory offline.
            if let Err(undo) = file.file().set_len(position) {
                return Err(self
                    .fatal(StorageError::io("truncate", &segment.path(LOG))(undo))
                    .into());
            }
            return Err(failed(error).into());
        }
        if config.flush_mode == FlushMode::Commit && self.journal.is_some() {
            segment.keep(bytes, position);
        }
        // Recording an aborted transaction is the only step here that needs the disk. An error takes the directory
        // offline: the marker is in the file, and without the index entry consumers would see aborted records.
        self.note_written(writer, bytes, single, position, now_ms, &config)
            .map_err(|error| self.fatal_sync(error))?;
        let end = last_offset + 1;
        writer.active.set_end(end, position + bytes.len() as u64);
        self.log_end.store(end, Ordering::Release);
        Ok(())
    }

    fn note_written(
        &self,
        writer: &mut Writer,
        bytes: &[u8],
        single: Option<&BatchHeader>,
        position: u64,
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<(), StorageError> {
        self.producer_share.limit(&mut writer.producers, config);
        if let Some(header) = single {
            self.note_batch(writer, header, bytes, position, now_ms, config)?;
        } else {
            let mut position = position;
            for (header, batch) in Batches::new(bytes).flatten() {
                self.note_batch(writer, &header, batch, position, now_ms, config)?;
                position += batch.len() as u64;
            }
        }
        self.producer_share.note(&mut writer.producers);
        Ok(())
    }

    fn note_batch(
        &self,
        writer: &mut Writer,
        header: &BatchHeader,
        batch: &[u8],
        position: u64,
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<(), StorageError> {
        writer
            .active
            .note_batch(header, position, config.index_interval_bytes);
        if !header.has_producer_id() {
            return Ok(());
        }
        if !header.is_transactional() && !header.is_control() {
            // In the common case, no other lock is needed.
            writer
                .producers
                .appended(header, now_ms, &mut Default::default());
            return Ok(());
        }
        let mut transactions = self.transactions.lock();
        if header.is_control() {
            if let Some((kind, epoch)) = marker_of(header, batch) {
                let producers = &mut writer.producers;
                let aborted =
                    producers.marker_appended(header, kind, epoch, now_ms, &mut transactions);
                if let Some(aborted) = aborted {
                    writer.active.add_aborted(aborted)?;
                }
            }
        } else {
            writer.producers.appended(header, now_ms, &mut transactions);
        }
        self.has_transactions
            .store(!transactions.is_empty(), Ordering::Release);
        Ok(())
    }
}

/// Reserve blocks without changing the file's size. A failure costs only speed.
#[cfg(target_os = "linux")]
fn preallocate(file: &std::fs::File, bytes: u64) {
    let _ = rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, bytes);
}

#[cfg(not(target_os = "linux"))]
fn preallocate(_: &std::fs::File, _: u64) {}
