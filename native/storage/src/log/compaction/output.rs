//! Files that a compaction pass writes.

use super::{CLEANED_INDEXES, write_synced};
use crate::error::StorageError;
use crate::file_names::{self, CLEANED, INDEX, LOG, TIME_INDEX, TXN_INDEX};
use crate::files;
use crate::index::{OffsetEntry, TimeEntry};
use crate::txn_index::AbortedTransaction;
use pybroker_model::{BatchHeader, NO_TIMESTAMP};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const BUFFER_BYTES: usize = 1 << 20;

/// A new segment: `{base}.log.cleaned` and its index files.
pub(super) struct Output {
    dir: PathBuf,
    base: i64,
    path: PathBuf,
    file: BufWriter<File>,
    position: u64,
    interval: u64,
    since_entry: u64,
    offsets: Vec<u8>,
    times: Vec<u8>,
    largest: TimeEntry,
    last_time: i64,
}

impl Output {
    pub(super) fn create(dir: &Path, base: i64, interval: u32) -> Result<Self, StorageError> {
        let path = file_names::of_segment(dir, base, &format!("{LOG}{CLEANED}"));
        let file = File::create(&path).map_err(StorageError::io("create", &path))?;
        Ok(Self {
            dir: dir.to_path_buf(),
            base,
            path,
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            position: 0,
            interval: u64::from(interval),
            since_entry: 0,
            offsets: Vec::new(),
            times: Vec::new(),
            largest: TimeEntry {
                timestamp: NO_TIMESTAMP,
                relative_offset: 0,
            },
            last_time: NO_TIMESTAMP,
        })
    }

    pub(super) fn push(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<(), StorageError> {
        self.file
            .write_all(batch)
            .map_err(StorageError::io("write", &self.path))?;
        let relative_offset = (header.last_offset() - self.base) as u32;
        if header.max_timestamp > self.largest.timestamp {
            self.largest = TimeEntry {
                timestamp: header.max_timestamp,
                relative_offset,
            };
        }
        if self.since_entry > self.interval {
            let entry = OffsetEntry {
                relative_offset,
                position: self.position as u32,
            };
            self.offsets.extend_from_slice(&entry.to_bytes());
            self.push_time();
            self.since_entry = 0;
        }
        self.since_entry += batch.len() as u64;
        self.position += batch.len() as u64;
        Ok(())
    }

    fn push_time(&mut self) {
        if self.largest.timestamp > self.last_time {
            self.times.extend_from_slice(&self.largest.to_bytes());
            self.last_time = self.largest.timestamp;
        }
    }

    /// Sync all files. Return the size of the log file.
    pub(super) fn finish(mut self, aborted: &[AbortedTransaction]) -> Result<u64, StorageError> {
        self.push_time();
        self.file
            .flush()
            .and_then(|()| files::sync_data(self.file.get_ref()))
            .map_err(StorageError::io("write", &self.path))?;
        let path =
            |suffix| file_names::of_segment(&self.dir, self.base, &format!("{suffix}{CLEANED}"));
        write_synced(&path(INDEX), &self.offsets)?;
        write_synced(&path(TIME_INDEX), &self.times)?;
        if !aborted.is_empty() {
            let bytes: Vec<u8> = aborted.iter().flat_map(|t| t.to_bytes()).collect();
            write_synced(&path(TXN_INDEX), &bytes)?;
        }
        Ok(self.position)
    }

    /// Remove the output files. The originals stay unchanged.
    pub(super) fn discard(self) -> Result<(), StorageError> {
        for suffix in CLEANED_INDEXES {
            files::remove(&file_names::of_segment(
                &self.dir,
                self.base,
                &format!("{suffix}{CLEANED}"),
            ))?;
        }
        files::remove(&self.path)
    }
}
