//! Snapshots (KIP-630). A file has a control batch with the header, `kraft.version` and the voters, then batches of
//! records, then a control batch with the footer. Offsets count from 0, and every batch has the snapshot's epoch.

use bytes::Bytes;
use pybroker_model::{BatchBuilder, BatchHeader, Codec, Uuid};
use pybroker_quorum::{EpochEnd, SnapshotHeader, VoterSet};

use crate::codec::{controls, finish, record_values, with_epoch};
use crate::control::{Control, EncodeContext, Endpoint, control_batch};
use crate::error::LogError;
use crate::files::{FileHandle, Files};
use crate::names::{self, OWN_PART, PART};
use crate::segment::Segment;

/// Bytes of records in a batch of a snapshot.
const BATCH_BYTES: usize = 256 * 1024;

/// A snapshot that is being written. Dropping it removes the file, unless [`SnapshotWriter::finish`] has completed it.
#[derive(Debug)]
pub struct SnapshotWriter<F: Files> {
    files: F,
    file: F::File,
    id: EpochEnd,
    name: String,
    position: u64,
    next_offset: i64,
    timestamp_ms: i64,
    batch: BatchBuilder,
    finished: bool,
}

impl<F: Files> Drop for SnapshotWriter<F> {
    fn drop(&mut self) {
        if !self.finished {
            // An incomplete file would waste space on a full disk. If the removal fails, recovery removes the file.
            let _ = self.files.remove(&self.name);
        }
    }
}

impl<F: Files> SnapshotWriter<F> {
    /// Begin a snapshot. `timestamp_ms` is the append time of the last record below the snapshot's end.
    ///
    /// # Errors
    /// If the disk fails or is full.
    pub fn begin(
        files: &F,
        header: &SnapshotHeader,
        endpoints: &[Endpoint],
        timestamp_ms: i64,
    ) -> Result<Self, LogError> {
        let name = format!("{}{OWN_PART}", names::of_snapshot(header.id));
        let file = files
            .create(&name)
            .map_err(LogError::io("create", files.path_of(&name)))?;
        let mut writer = Self {
            files: files.clone(),
            file,
            id: header.id,
            name,
            position: 0,
            next_offset: 0,
            timestamp_ms,
            batch: BatchBuilder::new(Codec::None),
            finished: false,
        };
        let topic_id = header.topic_id.map_or(Uuid::METADATA, |(_, id)| id);
        writer.write_controls(&[
            Control::SnapshotHeader {
                last_timestamp_ms: timestamp_ms,
                topic_id_offset: header.topic_id.map(|(offset, _)| offset),
            },
            Control::TopicId(topic_id),
            Control::Voters(header.voters.clone(), endpoints.to_vec()),
        ])?;
        Ok(writer)
    }

    /// Add records. They are written, but not synced.
    ///
    /// # Errors
    /// If the disk fails or is full.
    pub fn append<'a>(
        &mut self,
        values: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), LogError> {
        for value in values {
            self.batch.push(self.timestamp_ms, None, Some(value));
            if self.batch.records_bytes() >= BATCH_BYTES {
                self.write_batch()?;
            }
        }
        Ok(())
    }

    /// Complete the snapshot: make it durable under its final name. The caller must then call
    /// [`crate::MetadataLog::snapshot_written`].
    ///
    /// # Errors
    /// If the disk fails or is full.
    pub fn finish(mut self) -> Result<EpochEnd, LogError> {
        self.write_batch()?;
        self.write_controls(&[Control::SnapshotFooter])?;
        let path = || self.files.path_of(&self.name);
        self.file.sync().map_err(LogError::io("sync", path()))?;
        self.files
            .rename(&self.name, &names::of_snapshot(self.id))
            .map_err(LogError::io("rename", path()))?;
        self.finished = true;
        self.files
            .sync_names()
            .map_err(LogError::io("sync the directory of", path()))?;
        Ok(self.id)
    }

    fn write_controls(&mut self, controls: &[Control]) -> Result<(), LogError> {
        let voters = VoterSet::empty();
        let context = EncodeContext {
            timestamp_ms: self.timestamp_ms,
            voters: &voters,
            endpoints: &[],
        };
        let mut batch = control_batch();
        for control in controls {
            control.push_to(&mut batch, &context);
        }
        self.write(batch)
    }

    fn write_batch(&mut self) -> Result<(), LogError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.batch, BatchBuilder::new(Codec::None));
        self.write(batch)
    }

    fn write(&mut self, batch: BatchBuilder) -> Result<(), LogError> {
        let records = batch.len();
        let batch = with_epoch(batch.base_offset(self.next_offset), self.id.epoch);
        let bytes = finish(batch)?;
        self.file
            .write_at(&bytes, self.position)
            .map_err(LogError::io("write", self.files.path_of(&self.name)))?;
        self.position += bytes.len() as u64;
        self.next_offset += i64::from(records);
        Ok(())
    }
}

/// A snapshot that is being fetched from the leader. Dropping it removes the file, unless
/// [`SnapshotDownload::complete`] has checked it.
#[derive(Debug)]
pub struct SnapshotDownload<F: Files> {
    files: F,
    file: F::File,
    id: EpochEnd,
    position: u64,
    completed: bool,
}

impl<F: Files> Drop for SnapshotDownload<F> {
    fn drop(&mut self) {
        if !self.completed {
            // An incomplete file would waste space. If the removal fails, recovery removes the file.
            let _ = self.files.remove(&part_name(self.id));
        }
    }
}

impl<F: Files> SnapshotDownload<F> {
    /// Begin a download.
    ///
    /// # Errors
    /// If the disk fails or is full.
    pub fn begin(files: &F, id: EpochEnd) -> Result<Self, LogError> {
        let name = part_name(id);
        let file = files
            .create(&name)
            .map_err(LogError::io("create", files.path_of(&name)))?;
        Ok(Self {
            files: files.clone(),
            file,
            id,
            position: 0,
            completed: false,
        })
    }

    /// Return the snapshot's id.
    #[must_use]
    pub fn id(&self) -> EpochEnd {
        self.id
    }

    /// Return the position of the next part.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Add the next part.
    ///
    /// # Errors
    /// If the disk fails or is full.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        self.file
            .write_at(bytes, self.position)
            .map_err(LogError::io(
                "write",
                self.files.path_of(&part_name(self.id)),
            ))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Check the complete snapshot and bring it to disk. [`crate::MetadataLog::install`] then renames it.
    ///
    /// # Errors
    /// If the file is not a complete snapshot with that id, or the disk fails.
    pub fn complete(mut self) -> Result<SnapshotHeader, LogError> {
        let name = part_name(self.id);
        self.file
            .sync()
            .map_err(LogError::io("sync", self.files.path_of(&name)))?;
        let reader = SnapshotReader::open_named(&self.files, name, self.id)?;
        reader.verify()?;
        self.completed = true;
        Ok(reader.header)
    }
}

/// Return the name of a snapshot that is being fetched.
pub(crate) fn part_name(id: EpochEnd) -> String {
    format!("{}{PART}", names::of_snapshot(id))
}

/// A complete snapshot. It stays readable until it is dropped, even if its file is removed.
#[derive(Debug)]
pub struct SnapshotReader<F: Files> {
    files: F,
    segment: Segment<F>,
    header: SnapshotHeader,
    endpoints: Vec<Endpoint>,
    timestamp_ms: i64,
    position: u64,
}

impl<F: Files> SnapshotReader<F> {
    /// Open the snapshot and read its header.
    ///
    /// # Errors
    /// If the file does not exist, or does not begin with the header of a snapshot with this id.
    pub fn open(files: &F, id: EpochEnd) -> Result<Self, LogError> {
        Self::open_named(files, names::of_snapshot(id), id)
    }

    fn open_named(files: &F, name: String, id: EpochEnd) -> Result<Self, LogError> {
        let segment = Segment::open_named(files, name, 0)?;
        let damaged = |reason: &str| segment.damaged(files, 0, reason);
        let (header, bytes) = segment
            .batch_at(files, 0)?
            .ok_or_else(|| damaged("the file is empty"))?;
        let controls = header
            .check_crc(&bytes)
            .map_err(|error| LogError::Batch(error.to_string()))
            .and_then(|()| controls(&header, &bytes))
            .map_err(|error| damaged(&error.to_string()))?;
        let (mut begins, mut topic_id, mut voters) = (None, Uuid::METADATA, None);
        for control in controls {
            match control {
                Control::SnapshotHeader {
                    last_timestamp_ms,
                    topic_id_offset,
                } => begins = Some((last_timestamp_ms, topic_id_offset)),
                Control::TopicId(id) => topic_id = id,
                Control::Voters(set, endpoints) => voters = Some((set, endpoints)),
                Control::LeaderChange(_) | Control::SnapshotFooter => {}
            }
        }
        let (Some((timestamp_ms, topic_id_offset)), Some((voters, endpoints))) = (begins, voters)
        else {
            return Err(damaged("no header or no voters at the beginning"));
        };
        let known = topic_id != Uuid::METADATA;
        Ok(Self {
            files: files.clone(),
            header: SnapshotHeader {
                id,
                voters,
                topic_id: topic_id_offset
                    .filter(|_| known)
                    .map(|offset| (offset, topic_id)),
            },
            endpoints,
            timestamp_ms,
            position: bytes.len() as u64,
            segment,
        })
    }

    /// Check all checksums, and that the snapshot is complete.
    pub(crate) fn verify(&self) -> Result<(), LogError> {
        let (mut next, mut ended) = (0, false);
        let walk = |_: u64, header: &BatchHeader, bytes: Bytes| {
            if ended || header.base_offset != next {
                return Err(format!("offset {}, not {next}", header.base_offset));
            }
            next = header.next_offset();
            if header.is_control() {
                let controls = controls(header, &bytes).map_err(|error| error.to_string())?;
                ended = controls.contains(&Control::SnapshotFooter);
            }
            Ok(())
        };
        if let Some(invalid) = self.segment.walk(&self.files, walk)? {
            return Err(self
                .segment
                .damaged(&self.files, invalid.position, &invalid.reason));
        }
        match ended {
            true => Ok(()),
            false => {
                let size = self.segment.size;
                Err(self.segment.damaged(&self.files, size, "no footer"))
            }
        }
    }

    /// Return the quorum's part of the snapshot.
    #[must_use]
    pub fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    /// Return the addresses of the voters.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Return the append time of the last record that the snapshot replaces.
    #[must_use]
    pub fn timestamp_ms(&self) -> i64 {
        self.timestamp_ms
    }

    /// Return the size of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.segment.size
    }

    /// Return up to `bytes_max` bytes of the file from `position` on, for a lagging replica.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn part(&self, position: u64, bytes_max: usize) -> Result<Bytes, LogError> {
        let position = position.min(self.segment.size);
        self.segment.chunk(&self.files, position, bytes_max)
    }

    /// Return the records of the next batch of data, `None` at the end.
    ///
    /// # Errors
    /// If the disk fails, or the batch is damaged.
    pub fn next_records(&mut self) -> Result<Option<Vec<Bytes>>, LogError> {
        while let Some((header, bytes)) = self.segment.batch_at(&self.files, self.position)? {
            let position = self.position;
            self.position += bytes.len() as u64;
            if header.is_control() {
                continue;
            }
            let values = header
                .check_crc(&bytes)
                .map_err(|error| LogError::Batch(error.to_string()))
                .and_then(|()| record_values(&bytes));
            return values.map(Some).map_err(|error| {
                let reason = error.to_string();
                self.segment.damaged(&self.files, position, &reason)
            });
        }
        Ok(None)
    }
}
