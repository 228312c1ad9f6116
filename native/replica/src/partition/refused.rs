//! Batches that a producer will send again. A client has several requests under way: when the first is refused for now,
//! and the partition takes records again by the time of the second, that one is out of sequence, and is told what the
//! first was told. Told `OUT_OF_ORDER_SEQUENCE_NUMBER`, librdkafka begins another epoch and sends again whatever is not
//! acknowledged, also what is in the log already: it would be there twice.

use std::sync::atomic::{AtomicBool, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use pybroker_model::BatchHeader;

use crate::PartitionError;

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

    /// What the producer is told of a batch that is not appended because of `error`.
    #[cold]
    pub(super) fn told(
        &self,
        batch: Sequenced,
        error: PartitionError,
        now_ms: i64,
    ) -> PartitionError {
        let mut batches = self.batches.lock();
        match error {
            PartitionError::OutOfOrderSequence(_) => match batches.get(&batch.producer) {
                Some(first) if batch.follows(first.sequence) && now_ms < first.until_ms => {
                    first.reason.clone()
                }
                _ => error,
            },
            PartitionError::NotLeader
            | PartitionError::NotEnoughReplicas { .. }
            | PartitionError::Storage(_) => {
                if batches.len() >= PRODUCERS_MAX {
                    batches.retain(|_, first| now_ms < first.until_ms);
                }
                let until_ms = now_ms.saturating_add(REMEMBERED_MS);
                if let Some(first) = batches.get_mut(&batch.producer) {
                    first.until_ms = until_ms;
                    if !batch.follows(first.sequence) {
                        first.sequence = batch.sequence;
                        first.reason = error.clone();
                    }
                } else if batches.len() < PRODUCERS_MAX {
                    let first = FirstRefused {
                        sequence: batch.sequence,
                        reason: error.clone(),
                        until_ms,
                    };
                    batches.insert(batch.producer, first);
                }
                self.any.store(!batches.is_empty(), Ordering::Release);
                error
            }
            other => other,
        }
    }
}
