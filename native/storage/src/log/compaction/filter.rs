//! Decision about each batch of a compaction pass.

use super::keys::KeyOffsets;
use crate::txn_index::AbortedTransaction;
use pybroker_model::{
    BatchBuilder, BatchError, BatchHeader, RecordRef, Records, decompressed_records,
};
use std::collections::{HashMap, HashSet};

/// Aborted transactions by producer.
#[derive(Debug)]
pub(super) struct AbortedRanges(HashMap<i64, Vec<AbortedTransaction>>);

impl AbortedRanges {
    pub(super) fn new(aborted: &[AbortedTransaction]) -> Self {
        let mut ranges: HashMap<i64, Vec<AbortedTransaction>> = HashMap::new();
        for transaction in aborted {
            ranges
                .entry(transaction.producer_id)
                .or_default()
                .push(*transaction);
        }
        Self(ranges)
    }

    /// Return the aborted transaction that a transactional batch (or the marker itself) belongs to.
    pub(super) fn of(&self, header: &BatchHeader) -> Option<AbortedTransaction> {
        if !header.is_transactional() {
            return None;
        }
        let of_producer = self.0.get(&header.producer_id)?;
        let after = of_producer.partition_point(|t| t.first_offset <= header.base_offset);
        let transaction = of_producer.get(after.checked_sub(1)?)?;
        (header.base_offset <= transaction.last_offset).then_some(*transaction)
    }

    pub(super) fn contains(&self, header: &BatchHeader) -> bool {
        self.of(header).is_some()
    }
}

/// The last batch of a producer: its last offset if it has data, and its epoch.
pub(crate) type LastBatch = (Option<i64>, i16);

/// Decision about one batch.
pub(super) enum Verdict {
    Keep,
    Drop,
    Replace(BatchHeader, Vec<u8>),
}

pub(super) struct Filter<'a> {
    keys: &'a KeyOffsets,
    producers: hashbrown::HashMap<i64, LastBatch>,
    aborted: AbortedRanges,
    now_ms: i64,
    delete_retention_ms: i64,
    /// Producers with data of a transaction whose marker the pass has not reached yet.
    committed_with_data: HashSet<i64>,
    /// First offsets of aborted transactions whose data this pass has read.
    aborted_with_data: HashSet<i64>,
    /// Aborted transactions whose markers stay, in the current group.
    aborted_kept: Vec<AbortedTransaction>,
    scratch: Vec<u8>,
}

impl<'a> Filter<'a> {
    pub(super) fn new(
        keys: &'a KeyOffsets,
        producers: hashbrown::HashMap<i64, LastBatch>,
        aborted: &[AbortedTransaction],
        now_ms: i64,
        delete_retention_ms: i64,
    ) -> Self {
        Self {
            keys,
            producers,
            aborted: AbortedRanges::new(aborted),
            now_ms,
            delete_retention_ms,
            committed_with_data: HashSet::new(),
            aborted_with_data: HashSet::new(),
            aborted_kept: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub(super) fn begin_group(&mut self) {
        self.aborted_kept.clear();
    }

    pub(super) fn aborted_kept(&self) -> &[AbortedTransaction] {
        &self.aborted_kept
    }

    pub(super) fn judge(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
    ) -> Result<Verdict, BatchError> {
        if header.base_offset >= self.keys.end() {
            // The pass did not search for newer records beyond the end of its keys. So a tombstone after that end may
            // still hide older records.
            self.aborted_kept
                .extend(self.aborted.of(header).filter(|_| header.is_control()));
            return Ok(Verdict::Keep);
        }
        if header.is_control() {
            return self.judge_marker(header, batch);
        }
        if let Some(transaction) = self.aborted.of(header) {
            if header.record_count > 0 {
                self.aborted_with_data.insert(transaction.first_offset);
            }
            return self.emptied(header);
        }
        if header.is_transactional() && header.record_count > 0 {
            self.committed_with_data.insert(header.producer_id);
        }
        self.judge_records(header, batch)
    }

    /// Keep a marker while the pass finds data of its transaction. After that, keep it until its delete horizon.
    fn judge_marker(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<Verdict, BatchError> {
        let aborted = self.aborted.of(header);
        let has_data = match aborted {
            Some(transaction) => self.aborted_with_data.remove(&transaction.first_offset),
            None => self.committed_with_data.remove(&header.producer_id),
        };
        let expired = header
            .delete_horizon_ms()
            .is_some_and(|horizon| horizon <= self.now_ms);
        if !has_data && expired {
            return self.emptied(header);
        }
        self.aborted_kept.extend(aborted);
        if has_data || header.delete_horizon_ms().is_some() {
            return Ok(Verdict::Keep);
        }
        self.rebuilt(header, batch, true, |_, _| true)
    }

    fn judge_records(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<Verdict, BatchError> {
        if header.record_count == 0 {
            return self.emptied(header);
        }
        let keys = self.keys;
        let tombstones_stay = header
            .delete_horizon_ms()
            .is_none_or(|horizon| self.now_ms < horizon);
        let stays = |record: &RecordRef<'_>, offset: i64| {
            record.key.is_some_and(|key| keys.is_newest(key, offset))
                && (record.value.is_some() || tombstones_stay)
        };
        // Count the remaining records first, because most batches of a clean log stay unchanged.
        let plain = decompressed_records(header, batch, &mut self.scratch)?;
        let records = Records::new(header, plain);
        let (mut kept, mut tombstones) = (0, 0);
        for record in records.clone() {
            let record = record?;
            if stays(&record, records.offset(&record)) {
                kept += 1;
                tombstones += i32::from(record.value.is_none());
            }
        }
        let needs_horizon = tombstones > 0 && header.delete_horizon_ms().is_none();
        if kept == 0 {
            return self.emptied(header);
        }
        if kept == header.record_count && !needs_horizon {
            return Ok(Verdict::Keep);
        }
        self.rebuilt(header, batch, needs_horizon, stays)
    }

    /// Rebuild the batch with the remaining records, and possibly a new delete horizon.
    fn rebuilt(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        set_horizon: bool,
        stays: impl Fn(&RecordRef<'_>, i64) -> bool,
    ) -> Result<Verdict, BatchError> {
        let horizon = set_horizon.then(|| self.now_ms.saturating_add(self.delete_retention_ms));
        let mut builder = BatchBuilder::rewriting(header, horizon)?;
        let plain = decompressed_records(header, batch, &mut self.scratch)?;
        let records = Records::new(header, plain);
        for record in records.clone() {
            let record = record?;
            if !stays(&record, records.offset(&record)) {
                continue;
            }
            // Record timestamps are deltas to the base timestamp, which the delete horizon replaces.
            if set_horizon {
                let timestamp = header.base_timestamp.saturating_add(record.timestamp_delta);
                builder.push_shifted(&record, timestamp);
            } else {
                builder.push_raw(&record, records.timestamp(&record));
            }
        }
        let bytes = builder.build()?;
        Ok(Verdict::Replace(BatchHeader::parse(&bytes)?, bytes))
    }

    /// Decide about a batch without remaining records: keep it as an empty batch while it has its producer's last
    /// sequence.
    fn emptied(&mut self, header: &BatchHeader) -> Result<Verdict, BatchError> {
        let last = self
            .producers
            .get(&header.producer_id)
            .filter(|_| header.has_producer_id());
        let needed = last.is_some_and(|&(last_offset, epoch)| match last_offset {
            Some(offset) => !header.is_control() && offset == header.last_offset(),
            None => header.is_control() && epoch == header.producer_epoch,
        });
        if !needed {
            return Ok(Verdict::Drop);
        }
        if header.record_count == 0 {
            return Ok(Verdict::Keep);
        }
        let bytes = BatchBuilder::rewriting(header, None)?.build()?;
        Ok(Verdict::Replace(BatchHeader::parse(&bytes)?, bytes))
    }
}
