//! The expected content of a metadata log: batches with hashes, which the oracle compares.

use pybroker_model::Uuid;
use pybroker_quorum::{Batch, Body, EpochEnd, Snapshot, SnapshotHeader, VoterSet};

use crate::random::mix;

/// The disk failed a write or a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskError;

/// A stored batch.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The batch.
    pub(crate) batch: Batch<u64>,
    /// A hash of the log up to and including this batch.
    pub(crate) chain: u64,
}

impl Entry {
    /// Create the entry of a batch that follows a log with the hash `before`.
    #[must_use]
    pub(crate) fn new(batch: Batch<u64>, before: u64) -> Self {
        Self {
            chain: mix(before, hash_of(&batch)),
            batch,
        }
    }
}

fn hash_of(batch: &Batch<u64>) -> u64 {
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
}
