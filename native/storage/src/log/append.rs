//! Appending: check, assign offsets, one write, publish.

use super::{Log, Writer};
use crate::config::{FlushMode, LogConfig};
use crate::error::{AppendError, StorageError};
use crate::file_names::LOG;
use crate::producer_state::{AppendOrigin, Check, marker_of};
use pybroker_model::{
    BatchHeader, Batches, NO_TIMESTAMP, ValidBatches, set_base_offset, set_leader_epoch,
};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset of the last record: the acknowledgement waits until the high watermark is above.
    pub last_offset: i64,
    /// The append time, where the topic stamps it; else -1.
    pub log_append_time: i64,
    /// First readable offset of the log.
    pub log_start_offset: i64,
    /// The records were in the log already (a retry of an idempotent producer).
    pub duplicate: bool,
}

impl Log {
    /// Whether an append would wait longer than `patience` for another one, or for whoever else writes this log.
    #[must_use]
    pub fn is_busy(&self, patience: Duration) -> bool {
        self.writer.try_lock().is_none() && self.writer.try_lock_for(patience).is_none()
    }

    /// Appends batches as the leader of `leader_epoch`: assigns their offsets and writes them with
    /// one system call. The bytes are visible to readers up to [`Log::log_end_offset`] when it
    /// returns, and on disk after the next flush.
    ///
    /// # Errors
    /// [`AppendError`]; the log is then as it was before.
    pub fn append_as_leader(
        &self,
        mut batches: ValidBatches<'_>,
        leader_epoch: i32,
        origin: AppendOrigin,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let log_append_time = batches.log_append_time().unwrap_or(NO_TIMESTAMP);
        let single = (batches.count() == 1).then(|| *batches.first());
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        if let Some(latest) = self.latest_epoch()
            && latest.epoch > leader_epoch
        {
            return Err(AppendError::StaleLeaderEpoch {
                got: leader_epoch,
                latest: latest.epoch,
            });
        }
        let base_offset = self.log_end_offset();
        let log_start_offset = self.log_start_offset();
        let check =
            self.check_producers(&writer, &batches, single.as_ref(), origin, base_offset)?;
        if let Check::Duplicate(known) = check {
            return Ok(Appended {
                base_offset: known.first_offset(),
                last_offset: known.last_offset,
                // The client sees when the original was stored.
                log_append_time: if log_append_time == NO_TIMESTAMP {
                    NO_TIMESTAMP
                } else {
                    known.timestamp
                },
                log_start_offset,
                duplicate: true,
            });
        }
        let bytes = batches.as_mut_bytes();
        let last_offset = assign(bytes, single.as_ref(), base_offset, leader_epoch)?;
        self.note_epoch(leader_epoch, base_offset)?;
        let first = single.map(|header| BatchHeader {
            base_offset,
            ..header
        });
        self.write(&mut writer, bytes, first.as_ref(), last_offset, now_ms)?;
        Ok(Appended {
            base_offset,
            last_offset,
            log_append_time,
            log_start_offset,
            duplicate: false,
        })
    }

    /// Appends what a follower fetched: offsets and epochs stay as the leader assigned them. A
    /// partial batch at the end is left out; batches wholly below the log end are, too. Answers
    /// the new log end.
    ///
    /// # Errors
    /// [`AppendError`]; batches before the faulty one may have been appended.
    pub fn append_as_follower(&self, records: &mut [u8], now_ms: i64) -> Result<i64, AppendError> {
        // Checksums first, outside the lock.
        let mut headers = Vec::new();
        let mut walk = Batches::new(records);
        let mut position = 0;
        for batch in &mut walk {
            let (header, bytes) = batch?;
            header.check()?;
            header.check_crc(bytes)?;
            headers.push((position, header));
            position += bytes.len();
        }
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        for (position, header) in headers {
            let end = self.log_end_offset();
            if header.last_offset() < end {
                continue;
            }
            // Compacted logs have gaps, so a batch may begin above the end.
            if header.base_offset < end {
                return Err(AppendError::UnexpectedOffset {
                    got: header.base_offset,
                    end,
                });
            }
            self.note_epoch(header.partition_leader_epoch, header.base_offset)?;
            let bytes = &records[position..position + header.size_in_bytes()];
            self.write(
                &mut writer,
                bytes,
                Some(&header),
                header.last_offset(),
                now_ms,
            )?;
        }
        Ok(self.log_end_offset())
    }

    fn check_producers(
        &self,
        writer: &Writer,
        batches: &ValidBatches<'_>,
        single: Option<&BatchHeader>,
        origin: AppendOrigin,
        end: i64,
    ) -> Result<Check, AppendError> {
        // Not "is empty": retention may have emptied it, and its producers go on.
        let check_one = |header: &BatchHeader, batch: &[u8]| {
            if header.is_control() {
                let epoch = marker_of(header, batch).map_or(i32::MAX, |(_, epoch)| epoch);
                writer.producers.check_marker(header, epoch, origin)?;
            }
            writer.producers.check(header, origin, end == 0)
        };
        if let Some(header) = single {
            return check_one(header, batches.as_bytes());
        }
        for batch in Batches::new(batches.as_bytes()) {
            let (header, bytes) = batch?;
            if let duplicate @ Check::Duplicate(_) = check_one(&header, bytes)? {
                return Ok(duplicate);
            }
        }
        Ok(Check::Fresh)
    }

    /// Sees to it that the epochs' file knows the epoch of the next record before the record is
    /// written. Leaders have announced theirs with [`Log::begin_epoch`]; a follower learns of it by
    /// the first record.
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

    /// Writes bytes whose offsets are assigned, rolling first if they do not fit, and publishes.
    pub(super) fn write(
        &self,
        writer: &mut Writer,
        bytes: &[u8],
        single: Option<&BatchHeader>,
        last_offset: i64,
        now_ms: i64,
    ) -> Result<(), AppendError> {
        let config = self.config.load();
        if bytes.len() > config.segment_bytes as usize {
            return Err(AppendError::LargerThanSegment {
                size: bytes.len(),
                max: config.segment_bytes,
            });
        }
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
                // Nothing is in it that waits for a sync, so its file may be closed.
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
            // Nobody may read a half batch: put the file back, or give the directory up.
            if let Err(undo) = file.file().set_len(position) {
                return Err(self
                    .fatal(StorageError::io("truncate", &segment.path(LOG))(undo))
                    .into());
            }
            return Err(failed(error).into());
        }
        // Only the note of an aborted transaction needs the disk here. Its marker is written, and a restart will find
        // it: who goes on without the note would show consumers what was aborted.
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
        if let Some(header) = single {
            return self.note_batch(writer, header, bytes, position, now_ms, config);
        }
        let mut position = position;
        for (header, batch) in Batches::new(bytes).flatten() {
            self.note_batch(writer, &header, batch, position, now_ms, config)?;
            position += batch.len() as u64;
        }
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
            // The common case touches no other lock.
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

/// Gives the batches their offsets and epoch; answers the last offset.
pub(super) fn assign(
    bytes: &mut [u8],
    single: Option<&BatchHeader>,
    base_offset: i64,
    leader_epoch: i32,
) -> Result<i64, AppendError> {
    let exhausted = AppendError::OffsetsExhausted { end: base_offset };
    if let Some(header) = single {
        let last = base_offset.checked_add(i64::from(header.last_offset_delta));
        let last = last.filter(|&last| last < i64::MAX).ok_or(exhausted)?;
        set_base_offset(bytes, base_offset);
        set_leader_epoch(bytes, leader_epoch);
        return Ok(last);
    }
    let mut next = base_offset;
    let mut position = 0;
    while position < bytes.len() {
        let header = BatchHeader::parse(&bytes[position..])?;
        let batch = &mut bytes[position..position + header.size_in_bytes()];
        set_base_offset(batch, next);
        set_leader_epoch(batch, leader_epoch);
        next = next
            .checked_add(i64::from(header.last_offset_delta) + 1)
            .ok_or(AppendError::OffsetsExhausted { end: base_offset })?;
        position += batch.len();
    }
    Ok(next - 1)
}

/// Reserves blocks without changing the file's size. Failing costs speed only.
#[cfg(target_os = "linux")]
fn preallocate(file: &std::fs::File, bytes: u64) {
    let _ = rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, bytes);
}

#[cfg(not(target_os = "linux"))]
fn preallocate(_: &std::fs::File, _: u64) {}
