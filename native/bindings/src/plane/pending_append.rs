//! An append that Python started, on its way to its commit.
//!
//! It is its own waker: whoever raises the high watermark wakes it, it looks, and its completion goes into the
//! control queue. Nothing polls it in between.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use pybroker_replica::{Commit, PartitionError};

use super::control_queue::{Completed, ControlQueue};
use crate::errors::partition_code;

pub(crate) struct PendingAppend {
    queue: Arc<ControlQueue>,
    completed: Completed,
    /// `None` once it has ended.
    commit: Mutex<Option<Commit>>,
}

impl PendingAppend {
    /// Watches `commit`; `completed` is what to report if it succeeds. `Some`: that is known at once, and the queue does
    /// not hear of it.
    pub(crate) fn start(
        queue: &Arc<ControlQueue>,
        completed: Completed,
        commit: Commit,
    ) -> Option<Completed> {
        let pending = Arc::new(Self {
            queue: Arc::clone(queue),
            completed,
            commit: Mutex::new(Some(commit)),
        });
        pending.look()
    }

    /// What to report for an append that failed.
    pub(crate) fn failed(token: u64, error: &PartitionError) -> Completed {
        Completed {
            token,
            error_code: partition_code(error),
            base_offset: -1,
            log_append_time: -1,
        }
    }

    fn look(self: &Arc<Self>) -> Option<Completed> {
        let waker = Waker::from(Arc::clone(self));
        let mut commit = self.commit.lock();
        let waiting = commit.as_mut()?;
        let Poll::Ready(result) = Pin::new(waiting).poll(&mut Context::from_waker(&waker)) else {
            return None;
        };
        *commit = None;
        Some(match result {
            Ok(()) => self.completed,
            Err(error) => Self::failed(self.completed.token, &error),
        })
    }
}

impl Wake for PendingAppend {
    fn wake(self: Arc<Self>) {
        if let Some(completed) = self.look() {
            self.queue.complete(completed);
        }
    }
}
