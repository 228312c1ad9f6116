//! Producer state carry-over from a deleted partition to the next topic of its name: idempotent producers continue
//! their sequences.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use pybroker_storage::{Log, ProducerLegacy};

/// Maximum number of producers kept for all partitions, about 100 bytes each. The oldest deletions are forgotten first.
/// A producer of a forgotten partition may continue with any sequence, as after a broker restart.
const PRODUCERS_KEPT: usize = 100_000;

type Place = (Arc<str>, i32);

/// Producer state of deleted partitions; in memory only.
#[derive(Debug, Default)]
pub(crate) struct Legacies {
    table: Mutex<CarryOverTable>,
}

#[derive(Debug, Default)]
struct CarryOverTable {
    by_place: HashMap<Place, (u64, ProducerLegacy)>,
    /// Deleted partitions by number, oldest first. Entries that were handed over or replaced stay until they reach the
    /// front.
    order: VecDeque<(u64, Place, usize)>,
    last_number: u64,
    /// Total number of producers in `order`.
    producers: usize,
}

impl Legacies {
    /// Keep the producer state of a deleted partition, whose log accepts no more appends.
    pub(crate) fn leave(&self, topic: &Arc<str>, index: i32, log: &Log) {
        let legacy = log.producer_legacy();
        let producers = legacy.len();
        if producers == 0 {
            return;
        }
        let mut table = self.table.lock();
        let place = (Arc::clone(topic), index);
        table.last_number += 1;
        let number = table.last_number;
        table.order.push_back((number, place.clone(), producers));
        table.by_place.insert(place, (number, legacy));
        table.producers += producers;
        while table.producers > PRODUCERS_KEPT
            && let Some((number, place, producers)) = table.order.pop_front()
        {
            table.producers -= producers;
            if table
                .by_place
                .get(&place)
                .is_some_and(|(current, _)| *current == number)
            {
                table.by_place.remove(&place);
            }
        }
    }

    /// Give a new partition the producer state that is kept for its name. The new log is empty. If a truncation kept
    /// the offsets, it starts at the old log's end.
    pub(crate) fn hand_over(&self, topic: &Arc<str>, index: i32, log: &Log) {
        let left = self
            .table
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
