//! What deleted partitions leave to the next topic of their name: where idempotent producers may go on.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use pybroker_storage::{Log, ProducerLegacy};

/// Producers that are remembered over all partitions, about 100 bytes each; the partitions deleted first are forgotten
/// first. A producer of a forgotten one goes on with any sequence, as after a restart of the broker.
const PRODUCERS_KEPT: usize = 100_000;

type Place = (Arc<str>, i32);

/// In memory only.
#[derive(Debug, Default)]
pub(crate) struct Legacies {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_place: HashMap<Place, (u64, ProducerLegacy)>,
    /// Oldest first, by number; places that were taken or came again stay in it until it is their turn.
    order: VecDeque<(u64, Place, usize)>,
    last_number: u64,
    /// Producers that `order` stands for.
    producers: usize,
}

impl Legacies {
    /// A partition of this topic name is deleted; nothing is appended to its log any more.
    pub(crate) fn leave(&self, topic: &Arc<str>, index: i32, log: &Log) {
        let legacy = log.producer_legacy();
        let producers = legacy.len();
        if producers == 0 {
            return;
        }
        let mut kept = self.kept.lock();
        let place = (Arc::clone(topic), index);
        kept.last_number += 1;
        let number = kept.last_number;
        kept.order.push_back((number, place.clone(), producers));
        kept.by_place.insert(place, (number, legacy));
        kept.producers += producers;
        while kept.producers > PRODUCERS_KEPT
            && let Some((number, place, producers)) = kept.order.pop_front()
        {
            kept.producers -= producers;
            if kept
                .by_place
                .get(&place)
                .is_some_and(|(current, _)| *current == number)
            {
                kept.by_place.remove(&place);
            }
        }
    }

    /// A new partition of this topic name is made: it takes what was left. Its log is empty, but begins where the old
    /// one ended if a truncation kept the offsets.
    pub(crate) fn hand_over(&self, topic: &Arc<str>, index: i32, log: &Log) {
        let left = self
            .kept
            .lock()
            .by_place
            .remove(&(Arc::clone(topic), index));
        if let Some((_, legacy)) = left
            && log.log_start_offset() == log.log_end_offset()
        {
            log.inherit_producers(legacy);
        }
    }
}
