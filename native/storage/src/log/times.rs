//! Lookups of offsets by timestamp, for ListOffsets.

use super::Log;
use crate::error::StorageError;
use crate::scan::Depth;
use crate::segment::Segment;
use pybroker_model::{BatchHeader, Records, TimestampType, decompressed_records};
use std::sync::Arc;

/// A record found by timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampAndOffset {
    /// Timestamp of the record, in milliseconds.
    pub timestamp: i64,
    /// Offset of the record.
    pub offset: i64,
    /// Leader epoch of the record, if known.
    pub leader_epoch: Option<i32>,
}

impl Log {
    /// Return the first record, from the log start and below `upper`, whose timestamp is at least `timestamp`; `None`
    /// if there is none.
    ///
    /// # Errors
    /// [`StorageError`] if a segment cannot be read.
    pub fn offset_for_timestamp(
        &self,
        timestamp: i64,
        upper: i64,
    ) -> Result<Option<TimestampAndOffset>, StorageError> {
        let start = self.log_start_offset();
        let segments = self.segments.load_full();
        for segment in &segments[Self::segment_index(&segments, start)..] {
            if segment.base_offset >= upper {
                break;
            }
            let Some((largest, _)) = segment.largest_timestamp()? else {
                continue;
            };
            if largest < timestamp {
                continue;
            }
            let from = segment.lookup_time(timestamp)?.max(start);
            if let Some(found) = self.search(segment, from, start, upper, |t| t >= timestamp)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Return the first record with the largest timestamp below `upper` (KIP-734).
    ///
    /// # Errors
    /// [`StorageError`] if a segment cannot be read.
    pub fn max_timestamp_offset(
        &self,
        upper: i64,
    ) -> Result<Option<TimestampAndOffset>, StorageError> {
        let start = self.log_start_offset();
        let segments = self.segments.load_full();
        let mut best: Option<(i64, Arc<Segment>)> = None;
        for segment in segments[Self::segment_index(&segments, start)..].iter() {
            if segment.base_offset >= upper {
                break;
            }
            let largest = if segment.end_offset() <= upper && segment.base_offset >= start {
                segment.largest_timestamp()?.map(|(timestamp, _)| timestamp)
            } else {
                self.largest_between(segment, start, upper)?
            };
            if let Some(largest) = largest
                && best
                    .as_ref()
                    .is_none_or(|(timestamp, _)| *timestamp < largest)
            {
                best = Some((largest, Arc::clone(segment)));
            }
        }
        let Some((largest, segment)) = best else {
            return Ok(None);
        };
        let from = segment.lookup_time(largest)?.max(start);
        self.search(&segment, from, start, upper, |t| t >= largest)
    }

    fn largest_between(
        &self,
        segment: &Segment,
        start: i64,
        upper: i64,
    ) -> Result<Option<i64>, StorageError> {
        let mut largest = None;
        segment.for_each(Depth::Headers, start, |_, header, _| {
            if header.base_offset >= upper {
                return Ok(false);
            }
            largest = largest.max(Some(header.max_timestamp));
            Ok(true)
        })?;
        Ok(largest)
    }

    fn search(
        &self,
        segment: &Segment,
        from: i64,
        start: i64,
        upper: i64,
        wanted: impl Fn(i64) -> bool,
    ) -> Result<Option<TimestampAndOffset>, StorageError> {
        let mut candidate = None;
        segment.for_each(Depth::Headers, from, |position, header, _| {
            if header.base_offset >= upper {
                return Ok(false);
            }
            // Decompress only a batch whose largest timestamp matches.
            if wanted(header.max_timestamp) {
                candidate = self.first_record(segment, position, header, start, upper, &wanted)?;
            }
            Ok(candidate.is_none())
        })?;
        Ok(candidate)
    }

    fn first_record(
        &self,
        segment: &Segment,
        position: u64,
        header: &BatchHeader,
        start: i64,
        upper: i64,
        wanted: &impl Fn(i64) -> bool,
    ) -> Result<Option<TimestampAndOffset>, StorageError> {
        let answer = |timestamp, offset| TimestampAndOffset {
            timestamp,
            offset,
            leader_epoch: Some(header.partition_leader_epoch).filter(|&epoch| epoch >= 0),
        };
        if header.timestamp_type() == TimestampType::LogAppendTime {
            let offset = header.base_offset.max(start);
            return Ok((offset < upper).then(|| answer(header.max_timestamp, offset)));
        }
        let corrupt = |reason: String| StorageError::Corrupt {
            path: segment.path(crate::file_names::LOG),
            reason: format!("batch at {position}: {reason}"),
        };
        let mut batch = vec![0; header.size_in_bytes()];
        let read = segment
            .file(false)?
            .read_at_most(&mut batch, position)
            .map_err(StorageError::io(
                "read",
                &segment.path(crate::file_names::LOG),
            ))?;
        batch.truncate(read);
        let mut scratch = Vec::new();
        let plain = decompressed_records(header, &batch, &mut scratch)
            .map_err(|e| corrupt(e.to_string()))?;
        let records = Records::new(header, plain);
        for record in records.clone() {
            let record = record.map_err(|e| corrupt(e.to_string()))?;
            let (timestamp, offset) = (records.timestamp(&record), records.offset(&record));
            if offset >= start && offset < upper && wanted(timestamp) {
                return Ok(Some(answer(timestamp, offset)));
            }
        }
        Ok(None)
    }
}
