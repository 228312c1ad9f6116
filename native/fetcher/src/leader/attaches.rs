//! Attaches of staged segments, in parallel to the fetches. An attach takes as long as the disk needs; other partitions
//! of this leader continue meanwhile.

use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use pybroker_model::TopicIdPartition;
use pybroker_replica::PartitionError;

/// A completed attach.
pub(super) struct CompletedAttach {
    pub(super) tip: TopicIdPartition,
    /// Leader epoch that the partition followed when the attach began.
    pub(super) leader_epoch: i32,
    /// The log end after the attach.
    pub(super) outcome: Result<i64, PartitionError>,
}

/// Attaches of one fetcher.
#[derive(Default)]
pub(super) struct Attaches {
    done: Arc<Mutex<Vec<CompletedAttach>>>,
    under_way: usize,
}

impl Attaches {
    /// Begin an attach. Its end wakes `waker`.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub(super) fn begin(
        &mut self,
        tip: TopicIdPartition,
        leader_epoch: i32,
        waker: &Waker,
        work: impl FnOnce() -> Result<i64, PartitionError> + Send + 'static,
    ) -> std::io::Result<()> {
        let (done, waker) = (Arc::clone(&self.done), waker.clone());
        let run = move || {
            let outcome = work();
            done.lock().push(CompletedAttach {
                tip,
                leader_epoch,
                outcome,
            });
            waker.wake();
        };
        let thread = std::thread::Builder::new().name("ingest-attach".into());
        thread.spawn(run)?;
        self.under_way += 1;
        Ok(())
    }

    /// Return whether any attach is running.
    pub(super) const fn are_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// Take the completed attaches.
    pub(super) fn take(&mut self) -> Vec<CompletedAttach> {
        let done = std::mem::take(&mut *self.done.lock());
        self.under_way = self.under_way.saturating_sub(done.len());
        done
    }
}
