//! Limits of the number of remembered producers, for one log and for all logs of a broker.
//!
//! Any client with permission to write can use a new producer id for each batch, and an entry lives for
//! `producer.id.expiration.ms`. At its limit a log forgets the producers that appended longest ago. It accepts their
//! next batch with any sequence, as after an expiration: they lose the protection against duplicates, not the
//! permission to write. A log never forgets an open transaction, because a consumer could read past it.

use super::ProducerState;
use crate::config::LogConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of producers that a log may remember even if the broker has reached its limit. Without it, a client that uses
/// many ids in other logs could displace this log's producers.
const KNOWN_IN_ANY_CASE: usize = 100;

/// A search for the oldest producers visits all of them, so one search drops several: the limit divided by this number,
/// plus one.
const DROPPED_SHARE: usize = 16;

/// Producers known to all logs of a broker.
#[derive(Debug, Default)]
pub struct ProducerCount {
    known: AtomicUsize,
    dropped: AtomicU64,
}

impl ProducerCount {
    /// Return the number of entries in all logs: a producer counts once for each partition that it has written to.
    #[must_use]
    pub fn known(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }

    /// Return the number of entries dropped at a limit since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// One log's part of a [`ProducerCount`]. Only the holder of the log's writer lock changes it.
#[derive(Debug)]
pub(crate) struct ProducerShare {
    all: Arc<ProducerCount>,
    mine: AtomicUsize,
}

impl ProducerShare {
    pub(crate) fn new(all: &Arc<ProducerCount>, mine: usize) -> Self {
        all.known.fetch_add(mine, Ordering::Relaxed);
        Self {
            all: Arc::clone(all),
            mine: AtomicUsize::new(mine),
        }
    }

    /// Limit the log's producers by the settings and by the number in the other logs.
    pub(crate) fn limit(&self, state: &mut ProducerState, config: &LogConfig) {
        let own = config.producer_ids_per_partition_max;
        let limit = if self.all.known() < config.producer_ids_max {
            own
        } else {
            own.min(state.len().max(KNOWN_IN_ANY_CASE))
        };
        state.limit_to(limit);
    }

    /// Publish the number of producers that the log remembers.
    pub(crate) fn note(&self, state: &mut ProducerState) {
        let (before, now) = (self.mine.load(Ordering::Relaxed), state.len());
        if before != now {
            self.mine.store(now, Ordering::Relaxed);
            self.all.known.fetch_add(now, Ordering::Relaxed);
            self.all.known.fetch_sub(before, Ordering::Relaxed);
        }
        let dropped = std::mem::take(&mut state.dropped);
        if dropped > 0 {
            self.all.dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }
}

impl Drop for ProducerShare {
    fn drop(&mut self) {
        let mine = self.mine.load(Ordering::Relaxed);
        self.all.known.fetch_sub(mine, Ordering::Relaxed);
    }
}

/// The maximum number of producers that a log may remember.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit(usize);

impl Default for Limit {
    fn default() -> Self {
        Self(usize::MAX)
    }
}

impl ProducerState {
    /// Set the limit; it applies when the next producer is added.
    pub(crate) fn limit_to(&mut self, limit: usize) {
        self.limit = Limit(limit);
    }

    /// Return the limit if it is reached and all producers have open transactions, so that no other producer can be
    /// added.
    pub(super) fn limit_reached(&self) -> Option<usize> {
        let limit = self.limit.0;
        (self.len() >= limit && self.open_count() >= limit).then_some(limit)
    }

    fn open_count(&self) -> usize {
        let is_open = |(_, entry): &(i64, &super::ProducerEntry)| entry.transaction_start.is_some();
        self.entries().filter(is_open).count()
    }

    /// At the limit, drop producers so that another one can be added.
    pub(super) fn make_room(&mut self) {
        let limit = self.limit.0;
        if self.len() < limit {
            return;
        }
        // Compare offsets instead of times, because in recovery a batch has only the time that its producer wrote.
        let mut idle: Vec<(i64, i64)> = self
            .entries()
            .filter(|(_, entry)| entry.transaction_start.is_none())
            .map(|(id, entry)| (entry.last_offset(), id))
            .collect();
        let count = (self.len() - limit + 1 + limit / DROPPED_SHARE).min(idle.len());
        if count < idle.len() {
            idle.select_nth_unstable(count);
        }
        for (_, id) in &idle[..count] {
            self.entries.remove(id);
            self.inherited.forget(*id);
        }
        self.dropped += count as u64;
        self.changed = true;
    }
}
