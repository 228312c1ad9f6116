//! Metrics by topic. A topic gets its counters, one set for each data thread, with its first write or read. This
//! happens only while fewer than `metrics.topics.max` topics have counters; other topics count only in the totals.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use pybroker_model::{BuildIdHasher, TopicId};

use super::Counter;

/// Counters of a topic, as in Kafka's `BrokerTopicMetrics`.
#[derive(Debug, Default)]
pub(crate) struct TopicCounters {
    pub(crate) messages_in: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) bytes_rejected: Counter,
    pub(crate) produce_requests: Counter,
    pub(crate) fetch_requests: Counter,
    pub(crate) failed_produce_requests: Counter,
    pub(crate) failed_fetch_requests: Counter,
}

/// The counters of one topic: a set per data thread, on separate cache lines.
#[derive(Debug)]
pub(crate) struct TopicSlot(Box<[ThreadCounters]>);

#[derive(Debug, Default)]
#[repr(align(64))]
struct ThreadCounters(TopicCounters);

impl TopicSlot {
    /// Return the sum of a counter over all threads.
    pub(crate) fn sum(&self, read: fn(&TopicCounters) -> &Counter) -> u64 {
        self.0.iter().map(|thread| read(&thread.0).get()).sum()
    }
}

/// Topics that have counters. The lock is taken by a scrape, and when a thread finds a topic that it does not know.
#[derive(Debug)]
pub(crate) struct TopicSlots {
    threads: usize,
    slots: Mutex<HashMap<TopicId, Arc<TopicSlot>, BuildIdHasher>>,
    /// A number that changes when threads must look up their topics again.
    generation: AtomicU64,
}

impl TopicSlots {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            slots: Mutex::default(),
            generation: AtomicU64::new(0),
        }
    }

    fn of(&self, id: TopicId, max: usize) -> Option<Arc<TopicSlot>> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(&id) {
            return Some(Arc::clone(slot));
        }
        if slots.len() >= max {
            return None;
        }
        let sets = (0..self.threads)
            .map(|_| ThreadCounters::default())
            .collect();
        let slot = Arc::new(TopicSlot(sets));
        slots.insert(id, Arc::clone(&slot));
        Some(slot)
    }

    /// Return the topics with counters, after removing those for which `is_there` returns false.
    pub(crate) fn all(&self, is_there: impl Fn(TopicId) -> bool) -> Vec<(TopicId, Arc<TopicSlot>)> {
        let mut slots = self.slots.lock();
        let before = slots.len();
        slots.retain(|id, _| is_there(*id));
        if slots.len() < before {
            self.generation.fetch_add(1, Ordering::Release);
        }
        slots
            .iter()
            .map(|(id, slot)| (*id, Arc::clone(slot)))
            .collect()
    }
}

/// One data thread's cache of the topics.
#[derive(Debug)]
pub(crate) struct TopicsOfThread {
    all: Arc<TopicSlots>,
    thread: usize,
    generation: u64,
    known: HashMap<TopicId, Option<Arc<TopicSlot>>, BuildIdHasher>,
}

/// Limit of topics without counters that a thread remembers.
const WITHOUT_MAX: usize = 10_000;

impl TopicsOfThread {
    /// Create the cache of the thread with this number.
    pub(crate) fn new(all: Arc<TopicSlots>, thread: usize) -> Self {
        Self {
            all,
            thread,
            generation: 0,
            known: HashMap::default(),
        }
    }

    /// Return this thread's counters of a topic, if it has any. `max` is `metrics.topics.max`.
    #[inline]
    pub(crate) fn of(&mut self, id: TopicId, max: usize) -> Option<&TopicCounters> {
        if self.generation != self.all.generation.load(Ordering::Acquire) {
            self.forget();
        }
        if !self.known.contains_key(&id) {
            self.ask(id, max);
        }
        let slot = self.known.get(&id)?.as_ref()?;
        slot.0.get(self.thread).map(|set| &set.0)
    }

    #[cold]
    fn forget(&mut self) {
        self.generation = self.all.generation.load(Ordering::Acquire);
        self.known.clear();
    }

    #[cold]
    fn ask(&mut self, id: TopicId, max: usize) {
        if self.known.len() >= max.saturating_add(WITHOUT_MAX) {
            self.known.clear();
        }
        self.known.insert(id, self.all.of(id, max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pybroker_model::Uuid;

    fn id(number: u128) -> TopicId {
        TopicId::new(Uuid::from_u128(number)).expect("not zero")
    }

    #[test]
    fn threads_add_up_and_topics_beyond_the_limit_have_none_until_one_goes() {
        let all = Arc::new(TopicSlots::new(2));
        let mut threads = [0, 1].map(|number| TopicsOfThread::new(Arc::clone(&all), number));
        for thread in &mut threads {
            thread.of(id(1), 2).expect("the first").bytes_in.add(5);
            thread.of(id(2), 2).expect("the second").bytes_in.add(1);
            assert!(thread.of(id(3), 2).is_none());
        }
        let sums = |gone: TopicId| -> Vec<u64> {
            let mut all = all.all(|id| id != gone);
            all.sort_by_key(|(id, _)| *id);
            all.iter()
                .map(|(_, slot)| slot.sum(|set| &set.bytes_in))
                .collect()
        };
        assert_eq!(sums(id(9)), [10, 2]);
        assert_eq!(sums(id(1)), [2]);
        for thread in &mut threads {
            thread.of(id(3), 2).expect("there is room").bytes_in.add(7);
        }
        assert_eq!(sums(id(9)), [2, 14]);
    }
}
