//! What a log leaves to the next one of its topic's name: where each producer may go on.
//!
//! An idempotent producer that keeps running while its topic is deleted and created again knows nothing of the change
//! and counts on. A log that knows nothing of a producer accepts any first sequence, so a batch lost on its way would go
//! unnoticed. The old log knows what it has taken: only the batch that follows it directly, and those that the old log
//! took last but may not have acknowledged, begin the new log.

use super::{ProducerEntry, ProducerState};
use hashbrown::HashMap;
use pybroker_model::{BatchHeader, increment_sequence};

/// Producers that one log remembers for its successor: those that wrote last.
const PRODUCERS_KEPT: usize = 1000;

/// Where the producers of a deleted log may go on in its successor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerLegacy {
    by_id: HashMap<i64, Continuation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Continuation {
    epoch: i16,
    /// First sequences of the batches kept, which may be sent again, and of the batch after them.
    sequences: Vec<i32>,
}

impl ProducerLegacy {
    /// Producers in it.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether it says where the producer goes on; under another epoch that is sequence 0.
    pub(super) fn knows(&self, producer_id: i64) -> bool {
        self.by_id.contains_key(&producer_id)
    }

    /// The producer has gone on since, and is forgotten after that.
    pub(super) fn forget(&mut self, producer_id: i64) {
        self.by_id.remove(&producer_id);
    }

    /// Whether `header` goes on where its producer was.
    pub(super) fn continues(&self, header: &BatchHeader) -> bool {
        self.by_id.get(&header.producer_id).is_some_and(|known| {
            known.epoch == header.producer_epoch && known.sequences.contains(&header.base_sequence)
        })
    }
}

impl ProducerState {
    /// What this log leaves. A log that nobody wrote to passes on what it was left itself.
    pub(crate) fn legacy(&self) -> ProducerLegacy {
        let mut latest: Vec<(&i64, &ProducerEntry)> = self
            .entries
            .iter()
            .filter(|(_, entry)| !entry.batches.is_empty())
            .collect();
        latest.sort_unstable_by_key(|(_, entry)| std::cmp::Reverse(entry.last_timestamp));
        latest.truncate(PRODUCERS_KEPT);
        let mut by_id = if latest.is_empty() {
            self.inherited.by_id.clone()
        } else {
            HashMap::new()
        };
        for (&id, entry) in latest {
            let mut sequences: Vec<i32> = entry
                .batches
                .iter()
                .map(super::BatchMetadata::first_sequence)
                .collect();
            sequences.push(increment_sequence(entry.last_sequence(), 1));
            let epoch = entry.epoch;
            by_id.insert(id, Continuation { epoch, sequences });
        }
        ProducerLegacy { by_id }
    }

    /// Takes what an older log of the name left.
    pub(crate) fn inherit(&mut self, legacy: ProducerLegacy) {
        self.inherited = legacy;
    }
}
