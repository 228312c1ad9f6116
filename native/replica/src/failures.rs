//! The failure channel of log directories: whoever meets the failure only notes it, a thread of its own draws the
//! consequences. The one who meets it may hold locks of a partition.

use std::sync::OnceLock;

use parking_lot::{Condvar, Mutex};
use pybroker_model::TopicIdPartition;

/// Takes partitions that can be served no more.
pub type OnOffline = Box<dyn Fn(Vec<TopicIdPartition>) + Send + Sync>;

/// Who is told of them.
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
        // A second one would never be called: there is one owner of the control plane.
        assert!(self.0.set(told).is_ok(), "they have an owner");
    }

    pub(crate) fn tell(&self, partitions: Vec<TopicIdPartition>) {
        if let Some(told) = self.0.get() {
            told(partitions);
        }
    }
}

/// Log directories that failed and whose partitions are not offline yet.
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
    /// Notes the failure of the directory with this position. Never blocks for long.
    pub(crate) fn note(&self, dir: usize, reason: &str) {
        self.state.lock().failed.push((dir, reason.to_owned()));
        self.changed.notify_all();
    }

    /// Waits for a failure; `None` once closed.
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

    /// Ends `next`.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}
