//! The interface of a replica's metadata log, and its implementation on a simulated disk.

use pybroker_model::Uuid;
use pybroker_quorum::{
    Batch, Body, EpochEnd, LogIndex, QuorumState, Snapshot, SnapshotHeader, VoterSet,
};

use crate::random::mix;

/// The disk failed a write or a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskError;

/// A metadata log with its snapshots and the quorum state. A flush brings writes to the disk.
pub(crate) trait MetadataLog {
    /// Append batches.
    ///
    /// # Errors
    /// If the disk is full.
    fn append(&mut self, batches: &[Batch<u64>]) -> Result<(), DiskError>;

    /// Truncate the log.
    fn truncate(&mut self, end: i64);

    /// Replace the log by a snapshot.
    fn install(&mut self, snapshot: Snapshot<u64>);

    /// Return up to `batches_max` batches from offset `from` on, below `to`.
    fn read(&self, from: i64, to: i64, batches_max: usize) -> Vec<Batch<u64>>;

    /// Return the latest snapshot.
    fn snapshot(&self) -> &Snapshot<u64>;

    /// Begin a flush of all writes so far.
    fn begin_flush(&mut self, ticket: u64);

    /// End a flush.
    ///
    /// # Errors
    /// If the disk fails; its content is then unknown.
    fn end_flush(&mut self, ticket: u64) -> Result<(), DiskError>;

    /// Begin a write of the quorum state.
    fn begin_state(&mut self, ticket: u64, state: QuorumState);

    /// End a write of the quorum state.
    ///
    /// # Errors
    /// If the disk fails.
    fn end_state(&mut self, ticket: u64) -> Result<(), DiskError>;

    /// Replace the log up to `start` by a snapshot; durable on return.
    fn write_snapshot(&mut self, header: &SnapshotHeader, start: EpochEnd);

    /// Return the state and the log that a starting process finds. All of it is then durable.
    fn recover(&mut self) -> (QuorumState, LogIndex);
}

/// A stored batch.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The batch.
    pub(crate) batch: Batch<u64>,
    /// A hash of the log up to and including this batch.
    pub(crate) chain: u64,
    /// A hash of the batch alone; it replaces the CRC.
    pub(crate) checksum: u64,
}

impl Entry {
    /// Create the entry of a batch that follows a log with the hash `before`.
    #[must_use]
    pub(crate) fn new(batch: Batch<u64>, before: u64) -> Self {
        let checksum = checksum(&batch);
        Self {
            chain: mix(before, checksum),
            checksum,
            batch,
        }
    }

    /// Return whether the batch is undamaged.
    #[must_use]
    pub(crate) fn is_intact(&self) -> bool {
        checksum(&self.batch) == self.checksum
    }
}

fn checksum(batch: &Batch<u64>) -> u64 {
    let uuid = |hash, id: Uuid| {
        mix(
            mix(hash, id.most_significant_bits()),
            id.least_significant_bits(),
        )
    };
    let voters = |hash, set: &VoterSet| {
        set.iter().fold(hash, |hash, key| {
            uuid(mix(hash, key.id as u64), key.directory)
        })
    };
    let place = mix(batch.base_offset as u64, batch.epoch as u64);
    let hash = mix(place, u64::from(batch.records));
    match &batch.body {
        Body::LeaderChange(key) => uuid(mix(hash, key.id as u64), key.directory),
        Body::Voters(set) => voters(mix(hash, 2), set),
        Body::TopicId(id) => uuid(mix(hash, 3), *id),
        Body::Data(data) => mix(mix(hash, 4), *data),
    }
}

/// A snapshot and the batches after it.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    /// The latest snapshot. Its content is the hash of the log that it replaces.
    pub(crate) snapshot: Snapshot<u64>,
    /// The start of the batches, at or before the snapshot's end.
    pub(crate) start: EpochEnd,
    /// The hash of the log before `start`.
    pub(crate) start_chain: u64,
    /// The voters as of `start`, and the topic id's record before it.
    pub(crate) start_header: SnapshotHeader,
    /// The batches.
    pub(crate) entries: Vec<Entry>,
}

impl Contents {
    /// Create a formatted disk.
    #[must_use]
    pub(crate) fn formatted(voters: VoterSet) -> Self {
        let header = SnapshotHeader::bootstrap(voters);
        Self::of(Snapshot { header, content: 0 })
    }

    /// Create contents with only a snapshot.
    #[must_use]
    pub(crate) fn of(snapshot: Snapshot<u64>) -> Self {
        Self {
            start: snapshot.header.id,
            start_chain: snapshot.content,
            start_header: snapshot.header.clone(),
            snapshot,
            entries: Vec::new(),
        }
    }

    /// Return the offset after the last batch.
    #[must_use]
    pub(crate) fn end(&self) -> i64 {
        self.entries
            .last()
            .map_or(self.start.offset, |entry| entry.batch.end_offset())
    }

    /// Return the hash of the log up to `end`, if a batch ends there.
    #[must_use]
    pub(crate) fn chain_at(&self, end: i64) -> Option<u64> {
        if end == self.start.offset {
            return Some(self.start_chain);
        }
        let index = self
            .entries
            .binary_search_by_key(&end, |entry| entry.batch.end_offset());
        index.ok().map(|index| self.entries[index].chain)
    }

    /// Return the index of the first batch that ends after `offset`.
    #[must_use]
    pub(crate) fn index_after(&self, offset: i64) -> usize {
        self.entries
            .partition_point(|entry| entry.batch.end_offset() <= offset)
    }

    /// Append a batch.
    pub(crate) fn push(&mut self, batch: Batch<u64>) {
        let before = self
            .entries
            .last()
            .map_or(self.start_chain, |entry| entry.chain);
        self.entries.push(Entry::new(batch, before));
    }

    /// Remove batches that end after `end`.
    pub(crate) fn truncate(&mut self, end: i64) {
        self.entries.truncate(self.index_after(end));
    }

    /// Return the voters in the last record that has any.
    #[must_use]
    pub(crate) fn voters(&self) -> &VoterSet {
        let latest = self
            .entries
            .iter()
            .rev()
            .find_map(|entry| match &entry.batch.body {
                Body::Voters(voters) => Some(voters),
                _ => None,
            });
        latest.unwrap_or(&self.start_header.voters)
    }

    /// Return the topic id in the log.
    #[must_use]
    pub(crate) fn topic_id(&self) -> Option<Uuid> {
        let latest = self
            .entries
            .iter()
            .rev()
            .find_map(|entry| match entry.batch.body {
                Body::TopicId(id) => Some(id),
                _ => None,
            });
        latest.or(self.start_header.topic_id.map(|(_, id)| id))
    }

    /// Return the index for a state machine.
    #[must_use]
    pub(crate) fn index(&self) -> LogIndex {
        let header = SnapshotHeader {
            id: self.snapshot.header.id,
            ..self.start_header.clone()
        };
        let mut index = LogIndex::starting_at(self.start, &header);
        for entry in &self.entries {
            index.append(&entry.batch);
        }
        index
    }
}
