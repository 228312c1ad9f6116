//! Producer state carry-over: the sequences with which each producer may continue in the next incarnation of the topic.
//!
//! An idempotent producer that keeps running while its topic is deleted and created again does not notice the change
//! and continues its sequences. A log without state of a producer accepts any first sequence, so a lost batch would go
//! unnoticed. The old log therefore passes on the producer's last batches. The producer may then begin in the new log
//! only with the batch directly after them, or with one of them again, because its acknowledgement may be lost.

use super::{ProducerEntry, ProducerState};
use hashbrown::HashMap;
use pybroker_model::{BatchHeader, increment_sequence};

/// Maximum number of producers whose state a log carries over. Producers that wrote last have precedence.
const PRODUCERS_KEPT: usize = 1000;

/// Producer state carried over from a deleted log to its successor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerLegacy {
    by_id: HashMap<i64, Continuation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Continuation {
    epoch: i16,
    /// First sequences of the remembered batches, which may be retried, and of the batch after them.
    sequences: Vec<i32>,
}

impl ProducerLegacy {
    /// Return the number of producers.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Return whether the state contains the producer. Under another epoch, the producer continues with sequence 0.
    pub(super) fn knows(&self, producer_id: i64) -> bool {
        self.by_id.contains_key(&producer_id)
    }

    /// Forget a producer that has continued in the new log and has expired since.
    pub(super) fn forget(&mut self, producer_id: i64) {
        self.by_id.remove(&producer_id);
    }

    /// Return whether `header` continues its producer's sequence.
    pub(super) fn continues(&self, header: &BatchHeader) -> bool {
        self.by_id.get(&header.producer_id).is_some_and(|known| {
            known.epoch == header.producer_epoch && known.sequences.contains(&header.base_sequence)
        })
    }
}

impl ProducerState {
    /// Return the state to carry over. If the log has no writes, it passes on the state that it inherited.
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

    /// Take over what the deleted topic of the same name knew about its producers.
    pub(crate) fn inherit(&mut self, legacy: ProducerLegacy) {
        self.inherited = legacy;
    }
}
