//! Refused batches that a producer will retry. A client sends several requests at once. If the first fails with a
//! retriable error and the partition accepts appends again before the second arrives, the second is out of sequence.
//! The partition returns the first request's error for it. With `OUT_OF_ORDER_SEQUENCE_NUMBER` instead, librdkafka
//! would bump its epoch and resend all unacknowledged batches, which would duplicate those already in the log.
//!
//! A leader reports a sequence gap only if it is real. A leader that was paused and replaced lacks its successor's
//! records, so it sees a gap where there is none, and reporting the gap would end the producer. So a leader first
//! returns `NotLeader`. It reports the gap only after all in-sync followers have fetched since then, which proves that
//! no other broker leads.

use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;
use pybroker_model::BatchHeader;

use crate::PartitionError;
use crate::progress::Progress;

/// Maximum number of producers remembered for each partition. Others get the gap error at once.
const PRODUCERS_MAX: usize = 1_000;
/// Milliseconds within which a refused producer must retry.
const REMEMBERED_MS: i64 = 60_000;
/// Half of the sequence number space: sequences wrap around.
const HALF: i32 = 1 << 30;

/// Refused batches of one partition.
#[derive(Debug, Default)]
pub(super) struct RefusedBatches {
    any: AtomicBool,
    /// First refused batch by producer id and epoch.
    batches: Mutex<HashMap<(i64, i16), FirstRefusal>>,
}

#[derive(Debug)]
struct FirstRefusal {
    sequence: i32,
    reason: PartitionError,
    until_ms: i64,
    /// Set if the batch had a sequence gap: the number of the last follower request before the gap was first seen.
    gap: Option<u64>,
}

/// A batch of an idempotent producer.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdempotentBatch {
    producer: (i64, i16),
    sequence: i32,
}

impl IdempotentBatch {
    pub(super) fn of(header: &BatchHeader) -> Option<Self> {
        (header.has_producer_id() && header.base_sequence >= 0).then_some(Self {
            producer: (header.producer_id, header.producer_epoch),
            sequence: header.base_sequence,
        })
    }

    fn follows(self, sequence: i32) -> bool {
        let ahead = self.sequence.wrapping_sub(sequence) & i32::MAX;
        ahead > 0 && ahead < HALF
    }
}

impl RefusedBatches {
    /// Forget the refusal of this batch, or of an earlier batch of its producer, because the batch is in the log.
    #[inline]
    pub(super) fn appended(&self, batch: IdempotentBatch) {
        if self.any.load(Ordering::Acquire) {
            let mut batches = self.batches.lock();
            // A duplicate of a batch before the refused one says nothing about the refused one.
            let come = |first: &FirstRefusal| {
                batch.sequence == first.sequence || batch.follows(first.sequence)
            };
            if batches.get(&batch.producer).is_some_and(come) {
                batches.remove(&batch.producer);
            }
            self.any.store(!batches.is_empty(), Ordering::Release);
        }
    }

    /// If an earlier batch of the producer was refused and will be retried, return that refusal for this batch,
    /// although the log would accept it. The log alone cannot detect that a batch is missing. `expects_next` means that
    /// the log knows the producer's next sequence and refuses any other.
    pub(super) fn of_earlier(
        &self,
        batch: IdempotentBatch,
        now_ms: i64,
        expects_next: impl FnOnce(i64, i16) -> bool,
    ) -> Option<PartitionError> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let batches = self.batches.lock();
        let first = batches.get(&batch.producer)?;
        if now_ms >= first.until_ms || !batch.follows(first.sequence) {
            return None;
        }
        let (reason, (id, epoch)) = (first.reason.clone(), batch.producer);
        drop(batches);
        let is_unconfirmed = matches!(reason, PartitionError::Unconfirmed { .. });
        (is_unconfirmed || !expects_next(id, epoch)).then_some(reason)
    }

    /// Return the error for a batch that failed with `error`, and remember it.
    #[cold]
    pub(super) fn remember(
        &self,
        batch: IdempotentBatch,
        error: PartitionError,
        now_ms: i64,
        progress: &Progress,
    ) -> PartitionError {
        let mut batches = self.batches.lock();
        let known = batches.get(&batch.producer);
        let known = known.filter(|first| now_ms < first.until_ms);
        let (refusal, gap) = match error {
            PartitionError::OutOfOrderSequence(_) => {
                let since = match known {
                    Some(first) if batch.follows(first.sequence) => return first.reason.clone(),
                    Some(first) if batch.sequence == first.sequence => first.gap,
                    _ => None,
                };
                let since = since.unwrap_or_else(|| progress.requests());
                if progress.is_followed_since(since) {
                    return error;
                }
                (PartitionError::NotLeader, Some(since))
            }
            PartitionError::NotLeader
            | PartitionError::NotEnoughReplicas { .. }
            | PartitionError::Unconfirmed { .. }
            | PartitionError::Storage(_) => (error, None),
            other => return other,
        };
        let waits_for_first = known.is_some_and(|first| batch.follows(first.sequence));
        let until_ms = now_ms.saturating_add(REMEMBERED_MS);
        if batches.len() >= PRODUCERS_MAX {
            batches.retain(|_, first| now_ms < first.until_ms);
        }
        let room = batches.len() < PRODUCERS_MAX;
        match batches.entry(batch.producer) {
            Entry::Occupied(mut first) if waits_for_first => first.get_mut().until_ms = until_ms,
            Entry::Vacant(_) if !room => {}
            entry => {
                entry.insert(FirstRefusal {
                    sequence: batch.sequence,
                    reason: refusal.clone(),
                    until_ms,
                    gap,
                });
            }
        }
        self.any.store(!batches.is_empty(), Ordering::Release);
        refusal
    }
}
