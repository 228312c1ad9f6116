//! The state machine's index of its log: the bounds, the starts of epochs, and the control records. The owner stores
//! the batches.

use pybroker_model::Uuid;

use crate::batch::{Batch, Body, EpochEnd, SnapshotHeader};
use crate::keys::VoterSet;

/// An index of the log. It changes in the same order as the owner's log.
#[derive(Debug, Clone)]
pub struct LogIndex {
    /// The start of the log, with the epoch of the record before it.
    start: EpochEnd,
    /// End of the latest snapshot; at or after `start`.
    snapshot: EpochEnd,
    /// First offset of each epoch, ascending; records before `start` excluded.
    pub(crate) epochs: Vec<(i32, i64)>,
    pub(crate) end: i64,
    /// Voter sets, each with the offset after its record. The first set is that of the log's start; it is never
    /// removed.
    pub(crate) voters: Vec<(i64, VoterSet)>,
    /// Offset of the topic id's record, and the id.
    pub(crate) topic_id: Option<(i64, Uuid)>,
}

impl LogIndex {
    /// Return an empty log that starts at the end of `snapshot`.
    #[must_use]
    pub fn new(snapshot: &SnapshotHeader) -> Self {
        Self::starting_at(snapshot.id, snapshot)
    }

    /// Return an empty log that starts at `start`, which is before the snapshot's end if older batches were kept. The
    /// snapshot's voters count as the voters at `start`.
    #[must_use]
    pub fn starting_at(start: EpochEnd, snapshot: &SnapshotHeader) -> Self {
        Self {
            start,
            snapshot: snapshot.id,
            epochs: Vec::new(),
            end: start.offset,
            voters: vec![(start.offset, snapshot.voters.clone())],
            topic_id: snapshot.topic_id,
        }
    }

    /// Return the offset of the first batch.
    #[must_use]
    pub fn start(&self) -> EpochEnd {
        self.start
    }

    /// Return the end of the latest snapshot.
    #[must_use]
    pub fn snapshot(&self) -> EpochEnd {
        self.snapshot
    }

    /// Return the offset after the last record.
    #[must_use]
    pub fn end_offset(&self) -> i64 {
        self.end
    }

    /// Return the epoch of the last record.
    #[must_use]
    pub fn last_epoch(&self) -> i32 {
        self.epochs
            .last()
            .map_or(self.start.epoch, |&(epoch, _)| epoch)
    }

    /// Return the end of the log with its epoch.
    #[must_use]
    pub fn last(&self) -> EpochEnd {
        EpochEnd {
            epoch: self.last_epoch(),
            offset: self.end,
        }
    }

    /// Return the voters at the end of the log.
    #[must_use]
    pub fn voters(&self) -> &VoterSet {
        &self.voters[self.voters.len() - 1].1
    }

    /// Return the latest voter set of the log up to `offset`.
    #[must_use]
    pub fn voters_at(&self, offset: i64) -> &VoterSet {
        let after = self.voters.iter().rposition(|&(end, _)| end <= offset);
        &self.voters[after.unwrap_or(0)].1
    }

    /// Return the offset after the latest voters record, or the log's start if there is none.
    #[must_use]
    pub fn voters_end(&self) -> i64 {
        self.voters[self.voters.len() - 1].0
    }

    /// Return the voter set that the latest voters record replaced.
    pub(crate) fn voters_before(&self) -> &VoterSet {
        &self.voters[self.voters.len().saturating_sub(2)].1
    }

    pub(crate) fn first_voters(&self) -> &VoterSet {
        &self.voters[0].1
    }

    /// Return the offset of the topic id's record, and the id.
    #[must_use]
    pub fn topic_id(&self) -> Option<(i64, Uuid)> {
        self.topic_id
    }

    /// Index a batch at the end of the log.
    ///
    /// # Panics
    /// If the batch does not begin at the log's end, or its epoch is below the last one.
    pub fn append<D>(&mut self, batch: &Batch<D>) {
        assert_eq!(batch.base_offset, self.end, "a batch follows upon the log");
        assert!(batch.epoch >= self.last_epoch(), "epochs do not go back");
        assert!(batch.records > 0, "a batch has records");
        if batch.epoch > self.last_epoch() {
            self.epochs.push((batch.epoch, batch.base_offset));
        }
        self.end = batch.end_offset();
        match &batch.body {
            Body::Voters(voters) => self.voters.push((self.end, voters.clone())),
            Body::TopicId(id) => self.topic_id = Some((batch.base_offset, *id)),
            Body::LeaderChange(_) | Body::Data(_) => {}
        }
    }

    /// Truncate the log at `end`.
    ///
    /// # Panics
    /// If `end` is before the log's start.
    pub fn truncate(&mut self, end: i64) {
        assert!(
            end >= self.start.offset,
            "what a snapshot replaced is not cut off"
        );
        self.end = self.end.min(end);
        self.epochs.retain(|&(_, first)| first < end);
        let kept = self.voters.partition_point(|&(after, _)| after <= end);
        self.voters.truncate(kept.max(1));
        if self.topic_id.is_some_and(|(offset, _)| offset >= end) {
            self.topic_id = None;
        }
    }

    /// Move the start of the log to `start`, which is at or before the end of the written snapshot.
    pub(crate) fn trim(&mut self, start: EpochEnd, snapshot: EpochEnd) {
        let first = self.voters_at(start.offset).clone();
        self.voters.retain(|&(after, _)| after > start.offset);
        self.voters.insert(0, (start.offset, first));
        // The epoch of `start` needs no entry, even if it continues after `start`, because `start` itself names it.
        self.epochs.retain(|&(epoch, _)| epoch > start.epoch);
        self.start = start;
        self.snapshot = snapshot;
    }

    /// Return the latest epoch at or below `epoch`, and its end. If the log has no such epoch, return the log's start.
    #[must_use]
    pub fn end_of_epoch(&self, epoch: i32) -> EpochEnd {
        if epoch < self.start.epoch {
            return self.start;
        }
        let after = self.epochs.partition_point(|&(known, _)| known <= epoch);
        EpochEnd {
            epoch: match after {
                0 => self.start.epoch,
                after => self.epochs[after - 1].0,
            },
            offset: match self.epochs.get(after) {
                Some(&(_, first)) => first,
                None => self.end,
            },
        }
    }

    /// Return the epoch of the record before `offset`. `offset` must be in the log or be its start.
    #[must_use]
    pub fn epoch_before(&self, offset: i64) -> i32 {
        let after = self.epochs.partition_point(|&(_, first)| first < offset);
        match after {
            0 => self.start.epoch,
            after => self.epochs[after - 1].0,
        }
    }
}
