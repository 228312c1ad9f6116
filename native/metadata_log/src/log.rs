//! The log: executes the actions of the state machine on files.

use std::collections::VecDeque;

use bytes::Bytes;
use pybroker_quorum::{Batch, EpochEnd, QuorumState, SnapshotHeader, VoterSet};

use crate::codec::encode;
use crate::control::{EncodeContext, Endpoint};
use crate::error::LogError;
use crate::files::{FileHandle, Files};
use crate::flushed_file::FlushedFile;
use crate::names;
use crate::recovery::{self, LogParts, RecoveredState};
use crate::segment::Segment;
use crate::snapshot::{SnapshotDownload, SnapshotReader, SnapshotWriter, part_name};
use crate::state_file::StateWrite;

/// Number of flushed bytes after which the log syncs `flushed-offset`.
const FLUSHED_FILE_INTERVAL_BYTES: u64 = 256 * 1024;

/// Number of snapshots that the log keeps regardless of the retention limits.
const SNAPSHOTS_MIN: usize = 2;

/// Limits of the log.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// `metadata.log.segment.bytes`. A segment has at least one batch.
    pub segment_bytes: u64,
    /// `metadata.log.segment.ms`: an append begins another segment if the last segment's first batch is older than
    /// this.
    pub segment_ms: i64,
    /// `metadata.max.retention.bytes`: old snapshots and segments are removed while their total size exceeds this
    /// limit. Negative: no limit.
    pub retention_bytes: i64,
    /// `metadata.max.retention.ms`: older snapshots, and segments that they need, are removed. Negative: no limit.
    pub retention_ms: i64,
    /// Maximum number of written bytes without a flush: the log flushes before it would exceed them. Recovery must use
    /// the same value.
    pub unsynced_bytes_max: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 8 << 20,
            segment_ms: i64::MAX,
            retention_bytes: 0,
            retention_ms: 0,
            unsynced_bytes_max: 1 << 20,
        }
    }
}

/// The open log. One owner appends, truncates and reads; flushes and state writes may run on another thread.
#[derive(Debug)]
pub struct MetadataLog<F: Files> {
    files: F,
    options: LogOptions,
    /// Ascending by base offset. New batches go to the last segment; all others are on disk.
    segments: Vec<Segment<F>>,
    /// The kept snapshots, oldest first. The log begins at the end of the first.
    snapshots: Vec<EpochEnd>,
    end: i64,
    flushed: FlushedFile<F>,
    /// The log end at the start of each running flush.
    flushing: VecDeque<i64>,
    /// Number of written bytes that no completed flush covers.
    unsynced_bytes: u64,
    /// The part of `unsynced_bytes` that each running flush covers.
    flushing_bytes: VecDeque<u64>,
    flushed_file_bytes: u64,
    names_changed: bool,
}

/// A flush that has begun.
#[derive(Debug)]
pub struct Flush<F: Files> {
    files: F,
    name: String,
    segment: <F::File as FileHandle>::Sync,
    flushed: Option<<F::File as FileHandle>::Sync>,
    names: Option<F::NamesSync>,
}

impl<F: Files> Flush<F> {
    /// Bring to disk all data that was written before the flush began.
    ///
    /// # Errors
    /// If the disk fails. The content of the disk is then unknown, and the log must not be used any more.
    pub fn run(&self) -> Result<(), LogError> {
        let error = || LogError::io("sync", self.files.path_of(&self.name));
        F::File::end_sync(&self.segment).map_err(error())?;
        if let Some(flushed) = &self.flushed {
            F::File::end_sync(flushed).map_err(error())?;
        }
        if let Some(names) = &self.names {
            self.files.end_names_sync(names).map_err(error())?;
        }
        Ok(())
    }
}

impl<F: Files> MetadataLog<F> {
    /// Return whether the directory is formatted: formatting writes a first snapshot.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn is_formatted(files: &F) -> Result<bool, LogError> {
        let names = files
            .names()
            .map_err(LogError::io("list", files.path_of("")))?;
        Ok(names.iter().any(|name| names::snapshot_id(name).is_some()))
    }

    /// Format a new directory. `voters` are the first voters of the cluster, or empty for a replica that joins later.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn format(
        files: &F,
        voters: VoterSet,
        endpoints: &[Endpoint],
        timestamp_ms: i64,
    ) -> Result<(), LogError> {
        let header = SnapshotHeader::bootstrap(voters);
        let writer = SnapshotWriter::begin(files, &header, endpoints, timestamp_ms)?;
        writer.finish().map(drop)
    }

    /// Open the log, repair the traces of a crash, and return the initial data of the state machine. All of that data
    /// is durable.
    ///
    /// # Errors
    /// [`LogError::NotFormatted`] if the directory has no snapshot; other errors if the log is damaged or the disk
    /// fails.
    pub fn open(files: F, options: LogOptions) -> Result<(Self, RecoveredState), LogError> {
        let (found, recovered) = recovery::recover(&files, options.unsynced_bytes_max)?;
        let LogParts {
            segments,
            snapshots,
            flushed,
        } = found;
        let log = Self {
            files,
            options,
            segments,
            snapshots,
            end: recovered.index.end_offset(),
            flushed,
            flushing: VecDeque::new(),
            unsynced_bytes: 0,
            flushing_bytes: VecDeque::new(),
            flushed_file_bytes: 0,
            names_changed: false,
        };
        Ok((log, recovered))
    }

    /// Return the offset after the last record.
    #[must_use]
    pub fn end_offset(&self) -> i64 {
        self.end
    }

    /// Return the start of the log: the end of the oldest kept snapshot.
    #[must_use]
    pub fn start(&self) -> EpochEnd {
        self.snapshots.first().copied().unwrap_or_default()
    }

    /// Return the end of the latest snapshot.
    #[must_use]
    pub fn latest_snapshot(&self) -> EpochEnd {
        self.snapshots.last().copied().unwrap_or_default()
    }

    /// Append batches. Return their bytes in the log.
    ///
    /// # Errors
    /// If the disk fails or is full.
    ///
    /// # Panics
    /// If a batch does not begin at the end of the log.
    pub fn append(
        &mut self,
        batches: &[Batch<Bytes>],
        context: &EncodeContext<'_>,
    ) -> Result<Vec<Bytes>, LogError> {
        let mut stored = Vec::with_capacity(batches.len());
        let mut written = 0;
        for batch in batches {
            assert_eq!(batch.base_offset, self.end, "a batch follows upon the log");
            let bytes = encode(batch, context)?;
            let last = self.last();
            // Total size of earlier batches that still wait for the common write call below.
            let waiting: u64 = stored[written..]
                .iter()
                .map(|b: &Bytes| b.len() as u64)
                .sum();
            let size = last.size + waiting + bytes.len() as u64;
            let old = last
                .first_ms
                .is_some_and(|first| context.timestamp_ms - first > self.options.segment_ms);
            if last.size + waiting > 0 && (size > self.options.segment_bytes || old) {
                self.write(&stored[written..])?;
                written = stored.len();
                self.roll()?;
            } else if self.unsynced_bytes + waiting >= self.options.unsynced_bytes_max {
                self.write(&stored[written..])?;
                written = stored.len();
                self.sync_last()?;
            }
            let waiting: u64 = stored[written..]
                .iter()
                .map(|b: &Bytes| b.len() as u64)
                .sum();
            let last = self.last_mut();
            let position = last.size + waiting;
            last.note(batch.base_offset, position);
            last.first_ms.get_or_insert(context.timestamp_ms);
            self.end = batch.end_offset();
            stored.push(bytes);
        }
        self.write(&stored[written..])?;
        Ok(stored)
    }

    /// Write batches to the end of the last segment.
    fn write(&mut self, batches: &[Bytes]) -> Result<(), LogError> {
        let joined;
        let bytes: &[u8] = match batches {
            [] => return Ok(()),
            [one] => one,
            several => {
                joined = several.concat();
                &joined
            }
        };
        let path = self.files.path_of(&self.last().name);
        let last = self.last_mut();
        last.file
            .write_at(bytes, last.size)
            .map_err(LogError::io("write", path))?;
        last.size += bytes.len() as u64;
        self.unsynced_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Begin another segment. Flush the last one first, so that recovery never takes damage in it for a torn tail.
    fn roll(&mut self) -> Result<(), LogError> {
        self.sync_last()?;
        let segment = Segment::create(&self.files, self.end)?;
        self.segments.push(segment);
        self.names_changed = true;
        Ok(())
    }

    fn sync_last(&mut self) -> Result<(), LogError> {
        let last = self.last();
        last.file
            .sync()
            .map_err(LogError::io("sync", self.files.path_of(&last.name)))?;
        self.unsynced_bytes = 0;
        self.flushing_bytes.iter_mut().for_each(|bytes| *bytes = 0);
        Ok(())
    }

    /// Truncate the log at the end of a batch, or at the log's start.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn truncate(&mut self, end: i64) -> Result<(), LogError> {
        if end >= self.end {
            return Ok(());
        }
        if self.flushed.offset > end {
            self.flushed.set_durably(end)?;
        }
        let segments = self.segments.len();
        while self.segments.len() > 1 && self.last().base_offset >= end {
            let name = self.segments.pop().map(|segment| segment.name);
            self.remove(&name.unwrap_or_default())?;
        }
        if self.segments.len() < segments {
            // Without this sync a removed segment could reappear after a crash, with a gap before it.
            self.sync_names()?;
        }
        let position = self.last().position_of(&self.files, end)?;
        let path = self.files.path_of(&self.last().name);
        let last = self.last_mut();
        last.file
            .set_size(position)
            .map_err(LogError::io("truncate", path))?;
        last.forget(position);
        self.end = end;
        for flushing in &mut self.flushing {
            *flushing = (*flushing).min(end);
        }
        Ok(())
    }

    /// Return whole batches between the offsets `from` and `to`. The first batch contains `from`. Return at least one
    /// batch if there is any, and about `bytes_max` bytes if there are several.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn read(&self, from: i64, to: i64, bytes_max: usize) -> Result<Bytes, LogError> {
        if from >= to.min(self.end) {
            return Ok(Bytes::new());
        }
        let after = self
            .segments
            .partition_point(|segment| segment.base_offset <= from);
        let segment = &self.segments[after.saturating_sub(1)];
        segment.read(&self.files, from, to, bytes_max)
    }

    /// Begin a flush of everything written before this call.
    pub fn begin_flush(&mut self) -> Flush<F> {
        self.flushing.push_back(self.end);
        let covered: u64 = self.flushing_bytes.iter().sum();
        let bytes = self.unsynced_bytes.saturating_sub(covered);
        self.flushing_bytes.push_back(bytes);
        self.flushed_file_bytes += bytes;
        let due = self.flushed_file_bytes >= FLUSHED_FILE_INTERVAL_BYTES;
        if due {
            self.flushed_file_bytes = 0;
        }
        Flush {
            files: self.files.clone(),
            name: self.last().name.clone(),
            segment: self.last().file.begin_sync(),
            flushed: due.then(|| self.flushed.begin_sync()),
            names: std::mem::take(&mut self.names_changed).then(|| self.files.begin_names_sync()),
        }
    }

    /// Record that the oldest running flush is complete.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn end_flush(&mut self) -> Result<(), LogError> {
        let bytes = self.flushing_bytes.pop_front().unwrap_or(0);
        self.unsynced_bytes = self.unsynced_bytes.saturating_sub(bytes);
        match self.flushing.pop_front() {
            Some(end) if end > self.flushed.offset => self.flushed.raise(end),
            _ => Ok(()),
        }
    }

    /// Return a task that writes the quorum state.
    #[must_use]
    pub fn state_write(&self, state: QuorumState) -> StateWrite<F> {
        StateWrite::new(self.files.clone(), state)
    }

    /// Begin a snapshot; see [`SnapshotWriter`].
    ///
    /// # Errors
    /// If the disk fails or is full.
    pub fn begin_snapshot(
        &self,
        header: &SnapshotHeader,
        endpoints: &[Endpoint],
        timestamp_ms: i64,
    ) -> Result<SnapshotWriter<F>, LogError> {
        SnapshotWriter::begin(&self.files, header, endpoints, timestamp_ms)
    }

    /// Record that this replica has completed a snapshot, and apply the retention: it removes snapshots except the two
    /// newest ones, and the segments that only they need. Return the new start of the log, or `None` if the leader has
    /// sent a newer snapshot meanwhile.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn snapshot_written(
        &mut self,
        id: EpochEnd,
        now_ms: i64,
    ) -> Result<Option<EpochEnd>, LogError> {
        if id.offset <= self.latest_snapshot().offset {
            if !self.snapshots.contains(&id) {
                self.remove(&names::of_snapshot(id))?;
            }
            return Ok(None);
        }
        self.snapshots.push(id);
        while self.snapshots.len() > SNAPSHOTS_MIN && self.exceeds_retention(now_ms)? {
            let oldest = self.snapshots.remove(0);
            self.remove(&names::of_snapshot(oldest))?;
            self.remove_unneeded_segments()?;
        }
        self.remove_unneeded_segments()?;
        Ok(Some(self.start()))
    }

    fn remove_unneeded_segments(&mut self) -> Result<(), LogError> {
        let start = self.start();
        while self.segments.len() > 1 && self.segments[1].base_offset <= start.offset {
            let segment = self.segments.remove(0);
            self.remove(&segment.name)?;
        }
        Ok(())
    }

    /// Return whether the log is too large, or its oldest snapshot too old.
    fn exceeds_retention(&self, now_ms: i64) -> Result<bool, LogError> {
        let (bytes_max, age_max_ms) = (self.options.retention_bytes, self.options.retention_ms);
        if age_max_ms >= 0 {
            let oldest = self.open_snapshot(self.start())?;
            if now_ms.saturating_sub(oldest.timestamp_ms()) > age_max_ms {
                return Ok(true);
            }
        }
        let Ok(bytes_max) = u64::try_from(bytes_max) else {
            return Ok(false);
        };
        let mut bytes: u64 = self.segments.iter().map(|segment| segment.size).sum();
        for &id in &self.snapshots {
            bytes += self.open_snapshot(id)?.size();
        }
        Ok(bytes > bytes_max)
    }

    /// Begin the download of a snapshot from the leader.
    ///
    /// # Errors
    /// If the disk fails or is full.
    pub fn begin_download(&self, id: EpochEnd) -> Result<SnapshotDownload<F>, LogError> {
        SnapshotDownload::begin(&self.files, id)
    }

    /// Replace the log and its snapshots by a fetched snapshot. On return the snapshot is durable, and the log is empty
    /// and starts at its end.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn install(&mut self, id: EpochEnd) -> Result<(), LogError> {
        if self.flushed.offset > id.offset {
            self.flushed.set_durably(id.offset)?;
        }
        let name = names::of_snapshot(id);
        self.files
            .rename(&part_name(id), &name)
            .map_err(LogError::io("rename", self.files.path_of(&name)))?;
        self.sync_names()?;
        // Remove the last segment first. If a crash interrupts this, recovery finds a log that ends before the snapshot
        // or differs from it, and drops the log.
        while let Some(segment) = self.segments.pop() {
            self.remove(&segment.name)?;
        }
        self.segments.push(Segment::create(&self.files, id.offset)?);
        self.sync_names()?;
        for older in std::mem::replace(&mut self.snapshots, vec![id]) {
            if older != id {
                self.remove(&names::of_snapshot(older))?;
            }
        }
        self.end = id.offset;
        self.unsynced_bytes = 0;
        self.flushing_bytes.iter_mut().for_each(|bytes| *bytes = 0);
        for flushing in &mut self.flushing {
            *flushing = (*flushing).min(id.offset);
        }
        self.flushed.raise(id.offset)
    }

    /// Open one of the kept snapshots.
    ///
    /// # Errors
    /// If the log does not keep this snapshot, or the disk fails.
    pub fn open_snapshot(&self, id: EpochEnd) -> Result<SnapshotReader<F>, LogError> {
        SnapshotReader::open(&self.files, id)
    }

    /// Flush everything before the node stops.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn close(&mut self) -> Result<(), LogError> {
        self.sync_last()?;
        self.sync_names()?;
        self.flushed.set_durably(self.end)
    }

    fn last(&self) -> &Segment<F> {
        let count = self.segments.len();
        &self.segments[count - 1]
    }

    fn last_mut(&mut self) -> &mut Segment<F> {
        let count = self.segments.len();
        &mut self.segments[count - 1]
    }

    fn remove(&self, name: &str) -> Result<(), LogError> {
        self.files
            .remove(name)
            .map_err(LogError::io("remove", self.files.path_of(name)))
    }

    fn sync_names(&self) -> Result<(), LogError> {
        self.files
            .sync_names()
            .map_err(LogError::io("sync", self.files.path_of("")))
    }
}
