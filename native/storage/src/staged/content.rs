//! Staged bytes in memory: a small attach copies them into the log.

use super::{StagedSegment, staged_file};
use crate::error::StorageError;
use crate::file_names::LOG;
use pybroker_model::{BatchHeader, TimestampType, set_timestamp_type_and_max};

/// Return the staged bytes in order, with the append time if the topic uses LogAppendTime.
pub(crate) fn read_all(
    staged: &[StagedSegment],
    append_time: Option<i64>,
) -> Result<Vec<u8>, StorageError> {
    let mut bytes = Vec::new();
    for one in staged {
        let path = staged_file(one, LOG);
        let content = std::fs::read(&path).map_err(StorageError::io("read", &path))?;
        let corrupt = |reason: String| StorageError::Corrupt {
            path: path.clone(),
            reason,
        };
        if content.len() as u64 != one.bytes {
            return Err(corrupt(format!(
                "{} bytes instead of the planned {}",
                content.len(),
                one.bytes
            )));
        }
        let start = bytes.len();
        bytes.extend_from_slice(&content);
        let mut position = start;
        let mut rows = 0;
        while position < bytes.len() {
            let header = BatchHeader::parse(&bytes[position..])
                .and_then(|header| header.check().map(|()| header))
                .map_err(|error| corrupt(format!("at position {}: {error}", position - start)))?;
            let end = position + header.size_in_bytes();
            let Some(batch) = bytes.get_mut(position..end) else {
                return Err(corrupt("ends inside a batch".into()));
            };
            if let Some(time) = append_time {
                set_timestamp_type_and_max(batch, TimestampType::LogAppendTime, time);
            }
            rows += i64::from(header.last_offset_delta) + 1;
            position = end;
        }
        if rows != one.rows {
            return Err(corrupt(format!(
                "{rows} records instead of the planned {}",
                one.rows
            )));
        }
    }
    Ok(bytes)
}
