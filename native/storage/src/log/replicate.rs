//! Appends as follower: the leader's batches with the offsets and epochs that it assigned.

use super::Log;
use crate::error::AppendError;
use pybroker_model::{BatchHeader, Batches};

/// A batch of a Fetch response: its position and header.
type PositionedBatch = (usize, BatchHeader);

impl Log {
    /// Append fetched batches with the leader's offsets and epochs; return the new log end. Skips a partial batch at
    /// the end and batches that are entirely below the log end. Writes consecutive batches together.
    ///
    /// The leader's log may start within a batch, and the leader sends that batch completely. A follower's log without
    /// records then begins with this batch, but keeps its log start.
    ///
    /// # Errors
    /// [`AppendError`]; batches before the faulty one may be appended.
    pub fn append_as_follower(&self, records: &[u8], now_ms: i64) -> Result<i64, AppendError> {
        let batches = checked(records)?;
        let starts = self.make_room_for_the_first(&batches, now_ms)?;
        let mut writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        let end = self.log_end_offset();
        let known = batches.partition_point(|(_, header)| header.last_offset() < end);
        let mut rest = &batches[known..];
        while let Some((position, first)) = rest.first() {
            let end = self.log_end_offset();
            // Compacted logs have gaps: a batch may begin above the end.
            if first.base_offset < end {
                return Err(AppendError::UnexpectedOffset {
                    got: first.base_offset,
                    end,
                });
            }
            let segment_bytes = u64::from(self.config.load().segment_bytes);
            let left = segment_bytes.saturating_sub(writer.active.size());
            let fits = first.size_in_bytes() as u64 <= left;
            let (run, after) = rest.split_at(run(rest, if fits { left } else { segment_bytes }));
            let bytes: usize = run.iter().map(|(_, header)| header.size_in_bytes()).sum();
            self.note_epoch(first.partition_leader_epoch, first.base_offset)?;
            let last = run.last().map_or(end, |(_, header)| header.last_offset());
            self.write(
                &mut writer,
                &records[*position..position + bytes],
                (run.len() == 1).then_some(first),
                last,
                now_ms,
            )?;
            rest = after;
        }
        if let Some(start) = starts {
            self.raise_log_start(start)?;
        }
        Ok(self.log_end_offset())
    }

    /// If the log has no records and its start is within the first of these batches, restart the log at that batch and
    /// return the log start.
    fn make_room_for_the_first(
        &self,
        batches: &[PositionedBatch],
        now_ms: i64,
    ) -> Result<Option<i64>, AppendError> {
        let start = self.log_start_offset();
        let within = |(_, first): &PositionedBatch| {
            first.base_offset < start && first.last_offset() >= start
        };
        if start != self.log_end_offset() || !batches.first().is_some_and(within) {
            return Ok(None);
        }
        self.truncate_fully_and_start_at(batches[0].1.base_offset, now_ms)?;
        Ok(Some(start))
    }
}

/// Parse all whole batches and check their checksums, outside the log's lock.
fn checked(records: &[u8]) -> Result<Vec<PositionedBatch>, AppendError> {
    let mut batches = Vec::new();
    let mut position = 0;
    for batch in Batches::new(records) {
        let (header, bytes) = batch?;
        header.check()?;
        header.check_crc(bytes)?;
        batches.push((position, header));
        position += bytes.len();
    }
    Ok(batches)
}

/// Return how many of the first batches have the same epoch, are in order, and have at most `bytes_max` bytes together.
/// The result is at least one.
fn run(batches: &[PositionedBatch], bytes_max: u64) -> usize {
    let mut bytes = 0;
    let together = batches
        .iter()
        .enumerate()
        .take_while(|(index, (_, header))| {
            bytes += header.size_in_bytes() as u64;
            let follows = index.checked_sub(1).is_none_or(|before| {
                let (_, before) = &batches[before];
                before.last_offset() < header.base_offset
                    && before.partition_leader_epoch == header.partition_leader_epoch
            });
            follows && bytes <= bytes_max
        });
    together.count().max(1)
}
