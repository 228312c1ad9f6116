//! Failure queue of log directories. A thread that detects a failure may hold a partition's locks, so it only queues
//! the failure. A separate thread takes the partitions offline.

use std::sync::OnceLock;

use parking_lot::{Condvar, Mutex};
use pybroker_model::TopicIdPartition;

/// Callback that receives partitions that went offline.
pub type OnOffline = Box<dyn Fn(Vec<TopicIdPartition>) + Send + Sync>;

/// The registered receiver of offline partitions.
#[derive(Default)]
pub(crate) struct OfflineReport(OnceLock<OnOffline>);

impl std::fmt::Debug for OfflineReport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OfflineReport")
            .finish_non_exhaustive()
    }
}

impl OfflineReport {
    pub(crate) fn set(&self, told: OnOffline) {
        // The control plane is the only receiver. A second one would never be called.
        assert!(self.0.set(told).is_ok(), "they have an owner");
    }

    pub(crate) fn tell(&self, partitions: Vec<TopicIdPartition>) {
        if let Some(told) = self.0.get() {
            told(partitions);
        }
    }
}

/// Failed log directories whose partitions are not offline yet.
#[derive(Debug, Default)]
pub(crate) struct FailedDirs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    failed: Vec<(usize, String)>,
    closed: bool,
}

impl FailedDirs {
    /// Queue the failure of the log directory at index `dir`. Holds the lock only briefly.
    pub(crate) fn note(&self, dir: usize, reason: &str) {
        self.state.lock().failed.push((dir, reason.to_owned()));
        self.changed.notify_all();
    }

    /// Wait for a failure. Return `None` after [`Self::close`].
    pub(crate) fn next(&self) -> Option<(usize, String)> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(failed) = state.failed.pop() {
                return Some(failed);
            }
            self.changed.wait(&mut state);
        }
    }

    /// Make `next` return `None`.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}
