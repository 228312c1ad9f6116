//! How many producers are remembered, of one log and of all logs of a broker.
//!
//! Any client that may write can have a new producer id for each batch, and an entry lives for `producer.id.expiration.ms`.
//! At its limit a log forgets the producers that appended longest ago. Their next batch is taken with any sequence, as
//! after an expiration: they lose the protection against duplicates, not the right to write. An open transaction is never
//! forgotten, since a consumer could read past it.

use super::ProducerState;
use crate::config::LogConfig;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Producers that a log may have although the broker knows as many as it may: those of others do not keep honest ones
/// from being remembered.
const KNOWN_IN_ANY_CASE: usize = 100;

/// Looking for the oldest producers visits all of them, so one more than is needed goes for each so many that stay.
const DROPPED_SHARE: usize = 16;

/// Producers known to all logs of a broker.
#[derive(Debug, Default)]
pub struct ProducerCount {
    known: AtomicUsize,
    dropped: AtomicU64,
}

impl ProducerCount {
    /// Entries in all logs: a producer counts once for each partition that it has written to.
    #[must_use]
    pub fn known(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }

    /// Entries dropped at a limit since the start.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// One log's part of a [`ProducerCount`]. Changed by the holder of the log's writer lock only.
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

    /// Limits what the log may know to what the settings and the other logs allow.
    pub(crate) fn limit(&self, state: &mut ProducerState, config: &LogConfig) {
        let own = config.producer_ids_per_partition_max;
        let limit = if self.all.known() < config.producer_ids_max {
            own
        } else {
            own.min(state.len().max(KNOWN_IN_ANY_CASE))
        };
        state.limit_to(limit);
    }

    /// Publishes how many producers the log knows.
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

/// Producers that a log may know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit(usize);

impl Default for Limit {
    fn default() -> Self {
        Self(usize::MAX)
    }
}

impl ProducerState {
    /// Sets how many producers may be known from the next one on.
    pub(crate) fn limit_to(&mut self, limit: usize) {
        self.limit = Limit(limit);
    }

    /// The limit, if another producer can be known only instead of one with an open transaction.
    pub(super) fn limit_reached(&self) -> Option<usize> {
        let limit = self.limit.0;
        (self.len() >= limit && self.open_count() >= limit).then_some(limit)
    }

    fn open_count(&self) -> usize {
        let is_open = |(_, entry): &(i64, &super::ProducerEntry)| entry.transaction_start.is_some();
        self.entries().filter(is_open).count()
    }

    /// Drops producers at the limit, so that another one can be known.
    pub(super) fn make_room(&mut self) {
        let limit = self.limit.0;
        if self.len() < limit {
            return;
        }
        // By offset rather than by time: the time of a batch that recovery reads is what its producer wrote there.
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
