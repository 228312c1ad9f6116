//! Appends as leader: check the batches, assign offsets, write.

use super::{Log, Writer};
use crate::error::AppendError;
use crate::producer_state::{AppendOrigin, Check, marker_of};
use pybroker_model::{
    BatchHeader, Batches, NO_TIMESTAMP, ValidBatches, set_base_offset, set_leader_epoch,
};
use std::time::Duration;

/// Result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogAppendInfo {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset of the last record: the acknowledgement waits until the high watermark is above it.
    pub last_offset: i64,
    /// Append time, if the topic uses LogAppendTime; else -1.
    pub log_append_time: i64,
    /// Log start offset.
    pub log_start_offset: i64,
    /// Whether the records were in the log already (a retry of an idempotent producer).
    pub duplicate: bool,
}

impl Log {
    /// Return whether an append would wait longer than `patience` for another writer of this log.
    #[must_use]
    pub fn is_busy(&self, patience: Duration) -> bool {
        self.writer.try_lock().is_none() && self.writer.try_lock_for(patience).is_none()
    }

    /// Append batches as the leader of `leader_epoch`: assign their offsets and write them with one system call. On
    /// return readers can see them up to [`Log::log_end_offset`]; they are on disk after the next flush.
    ///
    /// # Errors
    /// [`AppendError`]; the log is then unchanged.
    pub fn append_as_leader(
        &self,
        mut batches: ValidBatches<'_>,
        leader_epoch: i32,
        origin: AppendOrigin,
        now_ms: i64,
    ) -> Result<LogAppendInfo, AppendError> {
        let log_append_time = batches.log_append_time().unwrap_or(NO_TIMESTAMP);
        let single = (batches.count() == 1).then(|| *batches.first());
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        self.check_leads(leader_epoch)?;
        let base_offset = self.log_end_offset();
        let log_start_offset = self.log_start_offset();
        self.producer_share
            .limit(&mut writer.producers, &self.config.load());
        let check = check_producers(&writer, &batches, single.as_ref(), origin)?;
        if let Check::Duplicate(known) = check {
            return Ok(LogAppendInfo {
                base_offset: known.first_offset(),
                last_offset: known.last_offset,
                // A duplicate returns the append time of the original.
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
        let max = self.config.load().segment_bytes;
        if bytes.len() > max as usize {
            let size = bytes.len();
            return Err(AppendError::LargerThanSegment { size, max });
        }
        let last_offset = assign(bytes, single.as_ref(), base_offset, leader_epoch)?;
        self.note_epoch(leader_epoch, base_offset)?;
        let first = single.map(|header| BatchHeader {
            base_offset,
            ..header
        });
        self.write(&mut writer, bytes, first.as_ref(), last_offset, now_ms)?;
        Ok(LogAppendInfo {
            base_offset,
            last_offset,
            log_append_time,
            log_start_offset,
            duplicate: false,
        })
    }

    /// Refuse a leader epoch older than the log's latest.
    pub(super) fn check_leads(&self, leader_epoch: i32) -> Result<(), AppendError> {
        match self.latest_epoch() {
            Some(latest) if latest.epoch > leader_epoch => Err(AppendError::StaleLeaderEpoch {
                got: leader_epoch,
                latest: latest.epoch,
            }),
            _ => Ok(()),
        }
    }
}

fn check_producers(
    writer: &Writer,
    batches: &ValidBatches<'_>,
    single: Option<&BatchHeader>,
    origin: AppendOrigin,
) -> Result<Check, AppendError> {
    let check_one = |header: &BatchHeader, batch: &[u8]| {
        if header.is_control() {
            let epoch = marker_of(header, batch).map_or(i32::MAX, |(_, epoch)| epoch);
            writer.producers.check_marker(header, epoch, origin)?;
        }
        writer.producers.check(header, origin)
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

/// Assign offsets and leader epoch to the batches; return the last offset.
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
