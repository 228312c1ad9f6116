//! Producer state: the last sequences of idempotent and transactional producers, and open transactions (KIP-98).
//! Follows Kafka's `ProducerStateManager` and `ProducerAppendInfo`.

use crate::error::AppendError;
use crate::txn_index::AbortedTransaction;
use pybroker_model::{
    BatchHeader, ControlType, Records, decompressed_records, end_transaction_marker_of,
    increment_sequence,
};
use std::collections::BTreeMap;

mod bound;
mod legacy;
pub(crate) mod snapshot;

use bound::Limit;
pub use bound::ProducerCount;
pub(crate) use bound::ProducerShare;
pub use legacy::ProducerLegacy;

/// Number of batches remembered for each producer: as many as a client may have in flight.
pub(crate) const BATCHES_KEPT: usize = 5;
const NO_COORDINATOR_EPOCH: i32 = -1;

/// Source of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A Produce request. The log checks sequences, and control batches were refused earlier. The batch cannot begin a
    /// transaction.
    Client,
    /// A Produce request whose partition the transaction coordinator confirmed (KIP-890). The offset is the log end
    /// when the coordinator was asked. The batch cannot begin a transaction if a transaction of the producer has ended
    /// in the log since.
    Verified(i64),
    /// Like `Verified`, for a producer that has a new epoch for each transaction (KIP-890, version 2): the first
    /// records of a transaction have sequence 0.
    Added(i64),
    /// The group or transaction coordinator: may write markers.
    Coordinator,
    /// The transaction coordinator ends a transaction of version 2. Its marker has a higher epoch than the records, so
    /// that a late duplicate does not end a later transaction.
    Raised,
    /// The batches come from the partition's leader or, during recovery, from the log itself. They are accepted without
    /// producer checks.
    Replication,
}

/// A batch of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchMetadata {
    pub(crate) last_sequence: i32,
    pub(crate) last_offset: i64,
    pub(crate) offset_delta: i32,
    pub(crate) timestamp: i64,
}

impl BatchMetadata {
    pub(crate) const fn first_offset(&self) -> i64 {
        self.last_offset - self.offset_delta as i64
    }

    /// Return the sequence that is `offset_delta` before the last one. Sequences wrap around.
    const fn first_sequence(&self) -> i32 {
        if self.last_sequence < 0 || self.last_sequence >= self.offset_delta {
            self.last_sequence - self.offset_delta
        } else {
            i32::MAX - (self.offset_delta - self.last_sequence) + 1
        }
    }
}

/// State of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProducerEntry {
    pub(crate) epoch: i16,
    pub(crate) coordinator_epoch: i32,
    /// Time of the producer's last append, for `producer.id.expiration.ms`.
    pub(crate) last_timestamp: i64,
    /// The producer's latest batches, oldest first, at most [`BATCHES_KEPT`].
    pub(crate) batches: Vec<BatchMetadata>,
    /// First offset of the producer's open transaction.
    pub(crate) transaction_start: Option<i64>,
    /// Offset of the producer's last marker since the log was opened, or -1. Not stored, because requests to the
    /// coordinator do not outlive a restart.
    pub(crate) last_marker: i64,
}

impl ProducerEntry {
    fn last_sequence(&self) -> i32 {
        self.batches.last().map_or(-1, |batch| batch.last_sequence)
    }

    /// Return the offset of the producer's last append, or -1 if unknown.
    fn last_offset(&self) -> i64 {
        let data = self.batches.last().map_or(-1, |batch| batch.last_offset);
        data.max(self.last_marker)
    }

    fn duplicate_of(&self, header: &BatchHeader) -> Option<BatchMetadata> {
        if header.producer_epoch != self.epoch {
            return None;
        }
        let (first, last) = (header.base_sequence, header.last_sequence());
        self.batches
            .iter()
            .find(|b| b.last_sequence == last && b.first_sequence() == first)
            .copied()
    }
}

/// A producer as DescribeProducers shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveProducer {
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch.
    pub epoch: i16,
    /// Sequence of its last record, -1 if none is known.
    pub last_sequence: i32,
    /// Time of its last append, in milliseconds.
    pub last_timestamp: i64,
    /// Epoch of the coordinator that wrote its last marker, -1 if there is none.
    pub coordinator_epoch: i32,
    /// First offset of its open transaction.
    pub transaction_start: Option<i64>,
}

/// Open transactions, and those whose marker is not yet replicated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Transactions {
    /// Open transactions: first offset → producer id.
    ongoing: BTreeMap<i64, i64>,
    /// Ended transactions whose marker is not replicated: first offset → offset of the marker. Readers must not pass
    /// them before the high watermark does, because a new leader might not have the marker.
    unreplicated: BTreeMap<i64, i64>,
}

impl Transactions {
    pub(crate) fn is_empty(&self) -> bool {
        self.ongoing.is_empty() && self.unreplicated.is_empty()
    }

    /// Return the first offset of a transaction that is undecided at this high watermark.
    pub(crate) fn first_unstable(&mut self, high_watermark: i64) -> Option<i64> {
        self.unreplicated
            .retain(|_, marker| *marker >= high_watermark);
        let ongoing = self.ongoing.keys().next();
        let unreplicated = self.unreplicated.keys().next();
        ongoing.into_iter().chain(unreplicated).min().copied()
    }

    pub(crate) fn ongoing(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.ongoing
            .iter()
            .map(|(&first, &producer)| (first, producer))
    }

    fn complete(&mut self, first_offset: i64, marker: i64) {
        self.ongoing.remove(&first_offset);
        self.unreplicated.insert(first_offset, marker);
    }
}

/// Result of a producer check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The batch is new.
    Fresh,
    /// The batch is in the log already.
    Duplicate(BatchMetadata),
}

/// All producers of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProducerState {
    entries: hashbrown::HashMap<i64, ProducerEntry>,
    /// Whether anything changed since the last snapshot.
    pub(crate) changed: bool,
    /// Producer state that the log took over from the previous incarnation of the topic. Kept in memory only.
    inherited: ProducerLegacy,
    limit: Limit,
    /// Number of producers dropped at the limit and not yet reported to a [`ProducerShare`].
    dropped: u64,
}

impl ProducerState {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (i64, &ProducerEntry)> {
        self.entries.iter().map(|(&id, entry)| (id, entry))
    }

    pub(crate) fn active(&self) -> Vec<ActiveProducer> {
        self.entries()
            .map(|(producer_id, entry)| ActiveProducer {
                producer_id,
                epoch: entry.epoch,
                last_sequence: entry.last_sequence(),
                last_timestamp: entry.last_timestamp,
                coordinator_epoch: entry.coordinator_epoch,
                transaction_start: entry.transaction_start,
            })
            .collect()
    }

    pub(crate) fn insert(&mut self, producer_id: i64, entry: ProducerEntry) {
        self.entries.insert(producer_id, entry);
    }

    /// Check a batch before it is written. As in Kafka, the first batch of an unknown producer may have any sequence,
    /// because producer state expires and topics are re-created on other brokers.
    pub(crate) fn check(
        &self,
        header: &BatchHeader,
        origin: AppendOrigin,
    ) -> Result<Check, AppendError> {
        if !header.has_producer_id() || header.is_control() {
            return Ok(Check::Fresh);
        }
        let producer_id = header.producer_id;
        let gap = |last| AppendError::OutOfOrderSequence {
            producer_id,
            got: header.base_sequence,
            last,
        };
        let Some(entry) = self.entries.get(&producer_id) else {
            if origin == AppendOrigin::Client && header.is_transactional() {
                return Err(unverified(producer_id));
            }
            let from_client = matches!(
                origin,
                AppendOrigin::Client | AppendOrigin::Verified(_) | AppendOrigin::Added(_)
            );
            if from_client && let Some(limit) = self.limit_reached() {
                return Err(AppendError::TooManyProducers { limit });
            }
            // If the deleted topic of the same name knew this producer, the producer's first batch in this log must
            // continue that topic's sequence or begin with 0.
            let is_checked =
                matches!(origin, AppendOrigin::Added(_)) || self.inherited.knows(producer_id);
            return if from_client
                && is_checked
                && header.base_sequence != 0
                && !self.inherited.continues(header)
            {
                Err(gap(-1))
            } else {
                Ok(Check::Fresh)
            };
        };
        if origin == AppendOrigin::Replication {
            return Ok(Check::Fresh);
        }
        if let Some(batch) = entry.duplicate_of(header) {
            return Ok(Check::Duplicate(batch));
        }
        if header.producer_epoch < entry.epoch {
            return Err(AppendError::InvalidProducerEpoch {
                producer_id,
                got: header.producer_epoch,
                current: entry.epoch,
            });
        }
        if header.base_sequence >= 0 {
            let begins = begins_transaction(entry, header);
            let expected = if header.producer_epoch > entry.epoch
                || begins && matches!(origin, AppendOrigin::Added(_))
            {
                0
            } else if entry.batches.is_empty() {
                // The log has only a marker of this epoch, because the epoch's data was removed.
                return check_transaction(entry, header, origin);
            } else {
                increment_sequence(entry.last_sequence(), 1)
            };
            if header.base_sequence != expected {
                return Err(gap(entry.last_sequence()));
            }
        }
        check_transaction(entry, header, origin)
    }

    /// Return whether a transaction that the producer began under this epoch is open in this log.
    pub(crate) fn is_in_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        let entry = self.entries.get(&producer_id);
        entry.is_some_and(|entry| entry.transaction_start.is_some() && entry.epoch == epoch)
    }

    /// Return whether the next sequence of this producer and epoch is known.
    pub(crate) fn expects_next(&self, producer_id: i64, epoch: i16) -> bool {
        let entry = self.entries.get(&producer_id);
        entry.is_some_and(|entry| entry.epoch == epoch && !entry.batches.is_empty())
    }

    /// Check a transaction marker before it is written.
    pub(crate) fn check_marker(
        &self,
        header: &BatchHeader,
        coordinator_epoch: i32,
        origin: AppendOrigin,
    ) -> Result<(), AppendError> {
        let Some(entry) = self.entries.get(&header.producer_id) else {
            return Ok(());
        };
        if origin == AppendOrigin::Replication {
            return Ok(());
        }
        if header.producer_epoch < entry.epoch {
            return Err(AppendError::InvalidProducerEpoch {
                producer_id: header.producer_id,
                got: header.producer_epoch,
                current: entry.epoch,
            });
        }
        if origin == AppendOrigin::Raised
            && entry.transaction_start.is_some()
            && header.producer_epoch == entry.epoch
        {
            return Err(AppendError::InvalidProducerEpoch {
                producer_id: header.producer_id,
                got: header.producer_epoch,
                current: entry.epoch,
            });
        }
        if coordinator_epoch < entry.coordinator_epoch {
            return Err(AppendError::CoordinatorFenced {
                producer_id: header.producer_id,
                got: coordinator_epoch,
                current: entry.coordinator_epoch,
            });
        }
        Ok(())
    }

    /// Record a data batch that is in the log.
    pub(crate) fn appended(
        &mut self,
        header: &BatchHeader,
        now_ms: i64,
        transactions: &mut Transactions,
    ) {
        if !header.has_producer_id() {
            return;
        }
        self.changed = true;
        let entry = self.entry(header.producer_id, header.producer_epoch);
        entry.last_timestamp = now_ms;
        if header.base_sequence >= 0 {
            if entry.batches.len() == BATCHES_KEPT {
                entry.batches.remove(0);
            }
            entry.batches.push(BatchMetadata {
                last_sequence: header.last_sequence(),
                last_offset: header.last_offset(),
                offset_delta: header.last_offset_delta,
                timestamp: header.max_timestamp,
            });
        }
        if header.is_transactional() && entry.transaction_start.is_none() {
            entry.transaction_start = Some(header.base_offset);
            transactions
                .ongoing
                .insert(header.base_offset, header.producer_id);
        }
    }

    /// Record a transaction marker that is in the log. If it aborts a transaction, return that transaction for the
    /// transaction index.
    pub(crate) fn marker_appended(
        &mut self,
        header: &BatchHeader,
        kind: ControlType,
        coordinator_epoch: i32,
        now_ms: i64,
        transactions: &mut Transactions,
    ) -> Option<AbortedTransaction> {
        self.changed = true;
        let entry = self.entry(header.producer_id, header.producer_epoch);
        entry.coordinator_epoch = coordinator_epoch;
        entry.last_timestamp = now_ms;
        let marker = header.last_offset();
        entry.last_marker = marker;
        let first_offset = entry.transaction_start.take()?;
        transactions.complete(first_offset, marker);
        if kind == ControlType::Commit {
            return None;
        }
        let stable = transactions
            .ongoing
            .keys()
            .next()
            .copied()
            .unwrap_or(marker + 1);
        Some(AbortedTransaction {
            producer_id: header.producer_id,
            first_offset,
            last_offset: marker,
            last_stable_offset: stable,
        })
    }

    /// Return the producer's entry. For a newer epoch the entry starts without batches.
    fn entry(&mut self, producer_id: i64, epoch: i16) -> &mut ProducerEntry {
        if !self.entries.contains_key(&producer_id) {
            self.make_room();
        }
        let entry = self
            .entries
            .entry(producer_id)
            .or_insert_with(|| ProducerEntry {
                epoch,
                coordinator_epoch: NO_COORDINATOR_EPOCH,
                last_timestamp: 0,
                batches: Vec::new(),
                transaction_start: None,
                last_marker: -1,
            });
        if entry.epoch != epoch {
            entry.epoch = epoch;
            entry.batches.clear();
        }
        entry
    }

    /// Expire producers that appended nothing for `expiration_ms` and have no open transaction.
    pub(crate) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        let before = self.entries.len();
        let inherited = &mut self.inherited;
        self.entries.retain(|id, entry| {
            let stays = entry.transaction_start.is_some()
                || now_ms.saturating_sub(entry.last_timestamp) < expiration_ms;
            if !stays {
                inherited.forget(*id);
            }
            stays
        });
        self.changed |= self.entries.len() != before;
    }

    /// Return the open transactions of all entries, after a snapshot was loaded.
    pub(crate) fn open_transactions(&self) -> Transactions {
        let ongoing = self
            .entries
            .iter()
            .filter_map(|(&id, entry)| Some((entry.transaction_start?, id)))
            .collect();
        Transactions {
            ongoing,
            unreplicated: BTreeMap::new(),
        }
    }

    /// Return the last batch of each producer (its last offset if it has data, and its epoch). Compaction keeps the
    /// headers of these batches.
    pub(crate) fn last_batches(&self) -> hashbrown::HashMap<i64, (Option<i64>, i16)> {
        let last = |entry: &ProducerEntry| entry.batches.last().map(|batch| batch.last_offset);
        self.entries
            .iter()
            .map(|(&id, entry)| (id, (last(entry), entry.epoch)))
            .collect()
    }
}

/// Check a batch against its producer's transaction. The coordinator must have confirmed a batch that begins a
/// transaction. Otherwise a late batch could open a transaction that never ends and blocks every read_committed reader.
fn check_transaction(
    entry: &ProducerEntry,
    header: &BatchHeader,
    origin: AppendOrigin,
) -> Result<Check, AppendError> {
    let producer_id = header.producer_id;
    if entry.transaction_start.is_some() && !header.is_transactional() {
        return Err(AppendError::InvalidTxnState {
            producer_id,
            reason: "non-transactional batch while a transaction is open",
        });
    }
    let begins = begins_transaction(entry, header);
    match origin {
        AppendOrigin::Client if begins => Err(unverified(producer_id)),
        AppendOrigin::Verified(since) if begins && entry.last_marker >= since => {
            Err(unverified(producer_id))
        }
        // The coordinator may have confirmed this transaction while the marker of the previous one was still in
        // transit. That marker began this epoch, so it does not count. Only a marker after records of this epoch has
        // ended the confirmed transaction.
        AppendOrigin::Added(since)
            if begins
                && entry.last_marker >= since
                && entry.epoch == header.producer_epoch
                && !entry.batches.is_empty() =>
        {
            Err(unverified(producer_id))
        }
        _ => Ok(Check::Fresh),
    }
}

fn begins_transaction(entry: &ProducerEntry, header: &BatchHeader) -> bool {
    let open = entry.transaction_start.is_some() && entry.epoch == header.producer_epoch;
    header.is_transactional() && !open
}

fn unverified(producer_id: i64) -> AppendError {
    AppendError::InvalidTxnState {
        producer_id,
        reason: "the batch belongs to no transaction that is open at its coordinator",
    }
}

/// Return the type and coordinator epoch of a transaction marker.
pub(crate) fn marker_of(header: &BatchHeader, batch: &[u8]) -> Option<(ControlType, i32)> {
    let mut scratch = Vec::new();
    let records = decompressed_records(header, batch, &mut scratch).ok()?;
    let record = Records::new(header, records).next()?.ok()?;
    end_transaction_marker_of(&record)
}

#[cfg(test)]
mod tests;
