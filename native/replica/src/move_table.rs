//! Moves between log directories that are ordered but not finished.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex};
use pybroker_model::TopicIdPartition;

/// Pending and running moves.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    table: Mutex<Table>,
    /// Signals that the worker has no moves left.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    by_tip: HashMap<TopicIdPartition, Arc<Move>>,
    waiting: VecDeque<TopicIdPartition>,
    working: bool,
}

/// One move.
#[derive(Debug)]
pub(crate) struct Move {
    /// Position of the destination log directory.
    pub(crate) to: usize,
    pub(crate) cancelled: AtomicBool,
    /// Offset up to which records are copied.
    pub(crate) copied_to: AtomicI64,
}

impl Move {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }
}

impl Moves {
    /// Order a move out of the log directory `from`. Cancels a move of the same partition to another directory. If no
    /// worker runs, call `start_worker`, which returns whether it started one.
    pub(crate) fn order(
        &self,
        tip: TopicIdPartition,
        from: usize,
        to: usize,
        log_start: i64,
        start_worker: impl FnOnce() -> bool,
    ) {
        let mut table = self.table.lock();
        if let Some(earlier) = table.by_tip.get(&tip) {
            if earlier.to == to {
                return;
            }
            earlier.cancel();
            table.by_tip.remove(&tip);
        }
        if from == to {
            return;
        }
        let wanted = Move {
            to,
            cancelled: AtomicBool::new(false),
            copied_to: AtomicI64::new(log_start),
        };
        table.by_tip.insert(tip, Arc::new(wanted));
        table.waiting.push_back(tip);
        if !table.working {
            table.working = start_worker();
        }
    }

    /// Return the next move to carry out. After `None` the worker ends; the next order starts another one.
    pub(crate) fn next(&self) -> Option<(TopicIdPartition, Arc<Move>)> {
        let mut table = self.table.lock();
        while let Some(tip) = table.waiting.pop_front() {
            if let Some(moving) = table.by_tip.get(&tip) {
                return Some((tip, Arc::clone(moving)));
            }
        }
        table.working = false;
        self.idle.notify_all();
        None
    }

    /// Remove a move that completed or failed.
    pub(crate) fn end(&self, tip: TopicIdPartition, ended: &Arc<Move>) {
        let mut table = self.table.lock();
        let current = table.by_tip.get(&tip);
        if current.is_some_and(|moving| Arc::ptr_eq(moving, ended)) {
            table.by_tip.remove(&tip);
        }
    }

    /// Cancel the move of a partition.
    pub(crate) fn cancel(&self, tip: TopicIdPartition) {
        if let Some(moving) = self.table.lock().by_tip.remove(&tip) {
            moving.cancel();
        }
    }

    /// Cancel all moves and wait up to `patience` for the worker to end.
    pub(crate) fn cancel_all(&self, patience: Duration) {
        let mut table = self.table.lock();
        table.waiting.clear();
        for (_, moving) in table.by_tip.drain() {
            moving.cancel();
        }
        self.idle
            .wait_while_for(&mut table, |table| table.working, patience);
    }

    /// Return the moves to the log directory at this position.
    pub(crate) fn to(&self, dir: usize) -> Vec<(TopicIdPartition, Arc<Move>)> {
        let table = self.table.lock();
        let mine = table.by_tip.iter().filter(|(_, moving)| moving.to == dir);
        mine.map(|(tip, moving)| (*tip, Arc::clone(moving)))
            .collect()
    }
}
