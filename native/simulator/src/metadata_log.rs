//! What the simulator needs of a replica's metadata log. A small log on a simulated disk implements it.

use pybroker_model::Uuid;
use pybroker_quorum::{
    Batch, Body, EpochEnd, LogIndex, QuorumState, Snapshot, SnapshotHeader, VoterSet,
};

use crate::random::mix;

/// A write that the disk refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskError;

/// A metadata log with its snapshots and the quorum state. Writes reach the disk when they are flushed.
pub(crate) trait MetadataLog {
    /// Appends batches.
    ///
    /// # Errors
    /// If the disk is full.
    fn append(&mut self, batches: &[Batch<u64>]) -> Result<(), DiskError>;

    /// Cuts the log off.
    fn truncate(&mut self, end: i64);

    /// Replaces the log by a snapshot.
    fn install(&mut self, snapshot: Snapshot<u64>);

    /// Up to `batches_max` batches from `from` on, below `to`.
    fn read(&self, from: i64, to: i64, batches_max: usize) -> Vec<Batch<u64>>;

    /// The latest snapshot.
    fn snapshot(&self) -> &Snapshot<u64>;

    /// Begins a flush of everything that was written so far.
    fn begin_flush(&mut self, ticket: u64);

    /// The flush is done.
    ///
    /// # Errors
    /// If the disk fails: what is on disk is unknown.
    fn end_flush(&mut self, ticket: u64) -> Result<(), DiskError>;

    /// Begins a write of the quorum state.
    fn begin_state(&mut self, ticket: u64, state: QuorumState);

    /// The write is done.
    ///
    /// # Errors
    /// If the disk fails.
    fn end_state(&mut self, ticket: u64) -> Result<(), DiskError>;

    /// Replaces the log up to `start` by a snapshot, at once durable.
    fn write_snapshot(&mut self, header: &SnapshotHeader, start: EpochEnd);

    /// What a process that starts finds. All of it is durable then.
    fn recover(&mut self) -> (QuorumState, LogIndex);
}

/// A batch as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The batch.
    pub(crate) batch: Batch<u64>,
    /// A hash of the log up to and including this batch.
    pub(crate) chain: u64,
    /// A hash of the batch alone, as a CRC protects it.
    pub(crate) checksum: u64,
}

impl Entry {
    /// The entry of a batch behind a log with the hash `before`.
    #[must_use]
    pub(crate) fn new(batch: Batch<u64>, before: u64) -> Self {
        let checksum = checksum(&batch);
        Self {
            chain: mix(before, checksum),
            checksum,
            batch,
        }
    }

    /// Whether the batch is as it was written.
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

/// Batches behind a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    /// The latest snapshot; its content is the hash of the log that it replaces.
    pub(crate) snapshot: Snapshot<u64>,
    /// Where the batches begin, at or before the snapshot's end.
    pub(crate) start: EpochEnd,
    /// The hash of the log before `start`.
    pub(crate) start_chain: u64,
    /// The voters as of `start`, and the topic id's record before it.
    pub(crate) start_header: SnapshotHeader,
    /// The batches.
    pub(crate) entries: Vec<Entry>,
}

impl Contents {
    /// A formatted disk.
    #[must_use]
    pub(crate) fn formatted(voters: VoterSet) -> Self {
        let header = SnapshotHeader::bootstrap(voters);
        Self::of(Snapshot { header, content: 0 })
    }

    /// Nothing but a snapshot.
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

    /// Offset after the last batch.
    #[must_use]
    pub(crate) fn end(&self) -> i64 {
        self.entries
            .last()
            .map_or(self.start.offset, |entry| entry.batch.end_offset())
    }

    /// The hash of the log up to `end`, if a batch ends there.
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

    /// Index of the first batch that does not end before or at `offset`.
    #[must_use]
    pub(crate) fn index_after(&self, offset: i64) -> usize {
        self.entries
            .partition_point(|entry| entry.batch.end_offset() <= offset)
    }

    /// Appends a batch.
    pub(crate) fn push(&mut self, batch: Batch<u64>) {
        let before = self
            .entries
            .last()
            .map_or(self.start_chain, |entry| entry.chain);
        self.entries.push(Entry::new(batch, before));
    }

    /// Cuts off batches that end behind `end`.
    pub(crate) fn truncate(&mut self, end: i64) {
        self.entries.truncate(self.index_after(end));
    }

    /// The voters of the last record that names them.
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

    /// The topic id that the log names.
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

    /// The index that a state machine needs.
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
