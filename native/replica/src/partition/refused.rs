//! Batches that a producer will send again. A client has several requests under way: when the first is refused for now,
//! and the partition takes records again by the time of the second, that one is out of sequence, and is told what the
//! first was told. Told `OUT_OF_ORDER_SEQUENCE_NUMBER`, librdkafka begins another epoch and sends again whatever is not
//! acknowledged, also what is in the log already: it would be there twice.
//!
//! A gap is told when it is one. A leader that was paused, and has been replaced without knowing, lacks what its
//! successor took: it finds a gap where there is none, which ends the producer. So the first time it says that it does
//! not lead, and tells the gap only when all in sync have asked it for records since: then nobody else leads.

use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;
use pybroker_model::BatchHeader;

use crate::PartitionError;
use crate::progress::Progress;

/// So many producers are remembered for a partition; what is forgotten is told the gap.
const PRODUCERS_MAX: usize = 1_000;
/// So long a producer that was refused has to come again.
const REMEMBERED_MS: i64 = 60_000;
/// Half of all sequence numbers: they begin anew after the largest.
const HALF: i32 = 1 << 30;

/// Of one partition.
#[derive(Debug, Default)]
pub(super) struct Refused {
    any: AtomicBool,
    /// By producer id and epoch.
    batches: Mutex<HashMap<(i64, i16), FirstRefused>>,
}

#[derive(Debug)]
struct FirstRefused {
    sequence: i32,
    reason: PartitionError,
    until_ms: i64,
    /// It was a gap, seen first after this request of a follower.
    gap: Option<u64>,
}

/// The batch of an idempotent producer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequenced {
    producer: (i64, i16),
    sequence: i32,
}

impl Sequenced {
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

impl Refused {
    /// The batch is in the log: it waits for nothing that was refused before.
    #[inline]
    pub(super) fn appended(&self, batch: Sequenced) {
        if self.any.load(Ordering::Acquire) {
            let mut batches = self.batches.lock();
            // A duplicate of what came before them says nothing of them.
            let come = |first: &FirstRefused| {
                batch.sequence == first.sequence || batch.follows(first.sequence)
            };
            if batches.get(&batch.producer).is_some_and(come) {
                batches.remove(&batch.producer);
            }
            self.any.store(!batches.is_empty(), Ordering::Release);
        }
    }

    /// The refusal of a batch that the log would take although an earlier one was refused for now and is sent again:
    /// nothing in the log says that a batch is missing. `expects_next`: the log knows which sequence of the producer
    /// comes next, and refuses any other.
    pub(super) fn of_earlier(
        &self,
        batch: Sequenced,
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

    /// What the producer is told of a batch that is not appended because of `error`.
    #[cold]
    pub(super) fn told(
        &self,
        batch: Sequenced,
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
                entry.insert(FirstRefused {
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
