//! Attaching what is staged, beside the fetches: it takes as long as the disk needs, and the other partitions of this
//! leader go on meanwhile.

use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;
use pybroker_model::TopicIdPartition;
use pybroker_replica::PartitionError;

/// An attach that has come to its end.
pub(super) struct Done {
    pub(super) tip: TopicIdPartition,
    /// Of the leadership that was followed when it began.
    pub(super) leader_epoch: i32,
    /// The log's end.
    pub(super) outcome: Result<i64, PartitionError>,
}

/// Those of one fetcher.
#[derive(Default)]
pub(super) struct Attaches {
    done: Arc<Mutex<Vec<Done>>>,
    under_way: usize,
}

impl Attaches {
    /// Begins one; `waker` is woken when it is done.
    ///
    /// # Errors
    /// The system has no thread left.
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
            done.lock().push(Done {
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

    /// Whether there are any.
    pub(super) const fn are_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// Those that are done since.
    pub(super) fn take(&mut self) -> Vec<Done> {
        let done = std::mem::take(&mut *self.done.lock());
        self.under_way = self.under_way.saturating_sub(done.len());
        done
    }
}
