//! Staged ingests in a log directory: stage the records of attempts, sync them for a commit, and remove them.
//! [`crate::staged`] describes the file layout, and [`Log::attach`] links the files into a log.

use crate::error::StorageError;
use crate::file_names::{INGEST, LOG};
use crate::files;
use crate::log::Log;
use crate::log_dir::LogDir;
use crate::recovery::OpenState;
use crate::scan::Depth;
use crate::staged::{StagedPartition, of_topic};
use crate::{CleanupPolicy, FlushMode, LogConfig};
use pybroker_model::{TimestampType, TopicId, TopicIdPartition};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

mod seal;
#[cfg(test)]
mod tests;

pub use seal::Listing;

/// Totals of an attempt's staged records for one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StagedTotals {
    /// Number of records.
    pub rows: i64,
    /// Bytes of their batches.
    pub bytes: u64,
    /// CRC-32C over the checksum fields of the batches, in order.
    pub crc: u32,
}

impl StagedTotals {
    /// Add one batch to the totals.
    pub fn add(&mut self, rows: i64, bytes: u64, batch_crc: u32) {
        self.rows += rows;
        self.bytes += bytes;
        self.crc = extend_crc(self.crc, batch_crc);
    }
}

/// Return the CRC-32C of the bytes that `crc` covers followed by four more bytes.
fn extend_crc(crc: u32, next: u32) -> u32 {
    // Compute the reflected CRC-32C bit by bit: for four bytes of each batch, a table is not worthwhile.
    let mut state = !crc;
    for byte in next.to_be_bytes() {
        state ^= u32::from(byte);
        for _ in 0..8 {
            state = (state >> 1) ^ (0x82f6_3b78 & (!(state & 1)).wrapping_add(1));
        }
    }
    !state
}

impl LogDir {
    fn ingests(&self) -> PathBuf {
        self.path().join(INGEST)
    }

    /// Return the place of a partition of an ingest; `ingest` must be safe as a file name.
    #[must_use]
    pub fn staged_partition(&self, id: TopicIdPartition, ingest: &str) -> StagedPartition {
        StagedPartition::new(self.path(), id, ingest)
    }

    /// Open an attempt's staged log, or create it; return its totals. After a crash it is checked and truncated like a
    /// log.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn open_staged(
        &self,
        place: &StagedPartition,
        writer: i32,
        attempt: i64,
        topic: &LogConfig,
        now_ms: i64,
    ) -> Result<(Arc<Log>, StagedTotals), StorageError> {
        self.check()?;
        let path = place.attempt(writer, attempt);
        std::fs::create_dir_all(&path).map_err(StorageError::io("create", &path))?;
        let config = Arc::new(staged_config(topic));
        let (log, _) =
            self.open_log_in(path, "", place.id(), config, &OpenState::default(), now_ms)?;
        let totals = totals_of(&log)?;
        Ok((log, totals))
    }

    /// Return whether an attempt has staged anything for the partition.
    #[must_use]
    pub fn has_staged(&self, place: &StagedPartition, writer: i32, attempt: i64) -> bool {
        place.attempt(writer, attempt).is_dir()
    }

    /// Return whether the plan of a commit is on disk here, attached or not.
    ///
    /// # Errors
    /// [`StorageError`] if the existence of the files cannot be determined.
    pub fn has_plan(&self, place: &StagedPartition) -> Result<bool, StorageError> {
        self.check()?;
        for path in [place.plan_path(), place.intent_path()] {
            if path
                .try_exists()
                .map_err(StorageError::io("look for", &path))?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Return whether any ingest has staged records for the partition, or is attaching them: the partition must then
    /// stay on this disk.
    ///
    /// # Errors
    /// [`StorageError`] if a directory cannot be listed.
    pub fn holds_staged(&self, id: TopicIdPartition) -> Result<bool, StorageError> {
        let ingests = files::directories_in(&of_topic(self.path(), id.topic_id))?;
        Ok(ingests
            .iter()
            .any(|ingest| self.staged_partition(id, ingest).path().is_dir()))
    }

    /// Return the ingests in this directory: topic id in hex, name.
    ///
    /// # Errors
    /// [`StorageError`] if a directory cannot be listed.
    pub fn staged_ingests(&self) -> Result<Vec<(String, String)>, StorageError> {
        let mut found = Vec::new();
        for topic in files::directories_in(&self.ingests())? {
            for ingest in files::directories_in(&self.ingests().join(&topic))? {
                found.push((topic.clone(), ingest));
            }
        }
        Ok(found)
    }

    /// Return the staged attempts of an ingest, without opening the files: partition, writer, attempt, bytes.
    ///
    /// # Errors
    /// [`StorageError`] if a directory cannot be listed.
    pub fn staged_attempts(
        &self,
        topic_id: TopicId,
        ingest: &str,
    ) -> Result<Vec<(i32, i32, i64, u64)>, StorageError> {
        let root = of_topic(self.path(), topic_id).join(ingest);
        let mut found = Vec::new();
        for name in files::directories_in(&root)? {
            let Some(partition) = name.strip_prefix('p').and_then(|index| index.parse().ok())
            else {
                continue;
            };
            let path = root.join(&name);
            for attempt in files::directories_in(&path)? {
                if let Some((writer, number)) = attempt_of(&attempt) {
                    found.push((partition, writer, number, size_of(&path.join(&attempt))?));
                }
            }
        }
        Ok(found)
    }

    /// Remove an ingest's files; attached records stay in the logs. Does nothing if there are none.
    ///
    /// # Errors
    /// [`StorageError`]; a retry removes the rest.
    pub fn remove_ingest(&self, topic_hex: &str, ingest: &str) -> Result<(), StorageError> {
        let topic = self.ingests().join(topic_hex);
        remove_tree(&topic.join(ingest))?;
        // Remove the topic's directory with its last ingest. The removal fails if another ingest still uses the
        // directory.
        match std::fs::remove_dir(&topic) {
            Err(error)
                if !matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::DirectoryNotEmpty
                ) =>
            {
                Err(StorageError::io("remove", &topic)(error))
            }
            _ => Ok(()),
        }
    }
}

impl Log {
    /// Close a staged log whose files are about to be removed. A waiting flush then does nothing.
    pub fn discard(&self) {
        let _flushing = self.flush.lock();
        self.staged.store(true, Ordering::Release);
        self.writer.lock().closed = true;
    }
}

/// Parse writer and attempt from the name of `StagedPartition::attempt`; both may be negative.
fn attempt_of(name: &str) -> Option<(i32, i64)> {
    let at = 1 + name.get(1..)?.find('-')?;
    Some((name[..at].parse().ok()?, name[at + 1..].parse().ok()?))
}

/// Return the settings of a staged log: the topic's sizes, but no rolling by time and no removal of segments.
fn staged_config(topic: &LogConfig) -> LogConfig {
    LogConfig {
        segment_ms: i64::MAX,
        segment_jitter_ms: 0,
        retention_ms: -1,
        retention_bytes: -1,
        cleanup_policy: CleanupPolicy {
            delete: false,
            compact: false,
        },
        timestamp_type: TimestampType::CreateTime,
        preallocate: false,
        flush_mode: FlushMode::Commit,
        ..topic.clone()
    }
}

fn totals_of(log: &Log) -> Result<StagedTotals, StorageError> {
    let mut totals = StagedTotals::default();
    for segment in log.segments.load().iter() {
        segment.for_each(Depth::Headers, segment.base_offset, |_, header, _| {
            let rows = i64::from(header.last_offset_delta) + 1;
            totals.add(rows, header.size_in_bytes() as u64, header.crc);
            Ok(true)
        })?;
    }
    Ok(totals)
}

fn size_of(path: &Path) -> Result<u64, StorageError> {
    let mut bytes = 0;
    let mut waiting = vec![path.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        for entry in files::entries(&dir)? {
            let looked_at = entry.metadata();
            let metadata = looked_at.map_err(StorageError::io("look at", &entry.path()))?;
            if metadata.is_dir() {
                waiting.push(entry.path());
            } else if entry.file_name().to_string_lossy().ends_with(LOG) {
                bytes += metadata.len();
            }
        }
    }
    Ok(bytes)
}

fn remove_tree(path: &Path) -> Result<(), StorageError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StorageError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod crc_tests {
    use super::*;
    use pybroker_model::crc32c;

    #[test]
    fn the_chain_is_the_checksum_of_the_fields_one_after_another() {
        let fields = [0x1234_5678_u32, 0, u32::MAX, 0xdead_beef];
        let mut totals = StagedTotals::default();
        let mut bytes = Vec::new();
        for field in fields {
            totals.add(1, 1, field);
            bytes.extend_from_slice(&field.to_be_bytes());
            assert_eq!(totals.crc, crc32c(&bytes));
        }
    }
}
