//! Staged ingests that are open here (R16): who may stage what, how much of it there is, and the way into the logs.
//!
//! Whether an ingest is open, and whether its commit is decided, the control plane says; here is what happens to
//! bytes. Appends take the lock of one attempt's partition only. A commit closes the ingest to appends first.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use pybroker_model::TopicId;

use crate::{Replicas, TopicConfig};

mod attempt;
mod commit;
mod error;
mod life;
mod listing;
mod quota;
mod stage;
#[cfg(test)]
mod tests;

use attempt::Attempt;
pub use commit::Listed;
pub use error::IngestError;
pub use listing::{IngestFigures, IngestState};
pub use quota::IngestLimits;
use quota::Quota;

/// What names an ingest in requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IngestName {
    /// The incarnation it goes to.
    pub topic_id: TopicId,
    /// The client's name for it.
    pub ingest_id: Box<str>,
    /// Of a stream: which batch; else -1.
    pub batch_id: i64,
}

/// An ingest that the control plane has begun.
#[derive(Clone, Debug)]
pub struct NewIngest {
    /// Its name.
    pub name: IngestName,
    /// Name of its directory, of letters, digits, `-` and `_`; holds the epoch, too.
    pub directory: String,
    /// Requests with another one are refused.
    pub epoch: i32,
    /// The rules, as they were when it began.
    pub config: Arc<TopicConfig>,
}

const OPEN: u8 = 0;
const COMMITTING: u8 = 1;
const CLOSED: u8 = 2;

/// By partition, writer and attempt.
type Attempts = HashMap<(i32, i32, i64), Arc<Attempt>>;

struct Ingest {
    new: NewIngest,
    state: AtomicU8,
    touched_ms: AtomicI64,
    /// Held by appends for reading; a commit or an end takes it for writing, so that none is under way.
    gate: RwLock<()>,
    attempts: Mutex<Attempts>,
}

/// All open ingests of this broker.
#[derive(Default)]
pub struct Ingests {
    open: RwLock<HashMap<IngestName, Arc<Ingest>>>,
    quota: Quota,
    /// Of all open ingests, counted for each partition: each has files and a log of its own in memory.
    attempts: AtomicUsize,
    staged_bytes: AtomicU64,
    appended_bytes: AtomicU64,
    commits: AtomicU64,
}

impl std::fmt::Debug for Ingests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingests")
            .field("open", &self.open.read().len())
            .finish_non_exhaustive()
    }
}

impl Ingests {
    /// Sets the limits.
    pub fn set_limits(&self, limits: IngestLimits) {
        self.quota.set(limits);
    }

    fn get(&self, name: &IngestName, epoch: i32) -> Result<Arc<Ingest>, IngestError> {
        let found = self.open.read().get(name).cloned();
        let ingest = found.ok_or(IngestError::Unknown)?;
        if ingest.new.epoch != epoch {
            return Err(IngestError::Fenced {
                requested: epoch,
                current: ingest.new.epoch,
            });
        }
        match ingest.state.load(Ordering::Acquire) {
            OPEN => Ok(ingest),
            COMMITTING => Err(IngestError::Committing),
            _ => Err(IngestError::Unknown),
        }
    }

    /// Admission of an append, before its records are looked at: the milliseconds after which the next one may come.
    /// `shared`: somebody produces at present. `now` is no time of the day: that can step back.
    ///
    /// # Errors
    /// `Unknown`, `Fenced`, `Committing`, `Throttled`.
    pub fn admit(
        &self,
        name: &IngestName,
        epoch: i32,
        bytes: u64,
        shared: bool,
        now: Instant,
    ) -> Result<i32, IngestError> {
        self.get(name, epoch)?;
        let staged = self.staged_bytes.load(Ordering::Relaxed);
        self.quota.admit(bytes, staged, shared, now)
    }
}

impl Replicas {
    /// Open ingests.
    pub fn ingests(&self) -> &Ingests {
        &self.ingests
    }
}
