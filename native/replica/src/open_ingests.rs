//! Staged ingests that are open on this broker: the records that each has staged, and limits for all of them.
//!
//! The control plane decides whether an ingest is open and whether it is committed. An append locks only the partition
//! of its attempt.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use pybroker_model::TopicId;

use crate::TopicConfig;

mod attempt;
mod copies;
mod error;
mod quota;
mod topic_debts;

pub(crate) use attempt::{Attempt, StagedLog};
pub use copies::{StagedChunk, StagedCopies};
pub use error::IngestError;
pub use quota::IngestLimits;
use quota::Quota;
pub(crate) use quota::too_many_attempts;
use topic_debts::TopicDebts;

/// Identity of an ingest in requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IngestName {
    /// Topic id of the target topic.
    pub topic_id: TopicId,
    /// The client's name for the ingest.
    pub ingest_id: Box<str>,
    /// Batch number of a streaming query; otherwise -1.
    pub batch_id: i64,
}

/// An ingest that the control plane has begun.
#[derive(Clone, Debug)]
pub struct NewIngest {
    /// The ingest's name.
    pub name: IngestName,
    /// Name of the ingest's directory: letters, digits, `-` and `_`. It contains the epoch.
    pub directory: String,
    /// Epoch of the ingest. Requests with another epoch are refused.
    pub epoch: i32,
    /// The topic's settings when the ingest began.
    pub config: Arc<TopicConfig>,
}

pub(crate) const OPEN: u8 = 0;
pub(crate) const COMMITTING: u8 = 1;
pub(crate) const CLOSED: u8 = 2;

/// Attempts by partition, writer and attempt number.
pub(crate) type Attempts = HashMap<(i32, i32, i64), Arc<Attempt>>;

/// An open ingest.
pub(crate) struct Ingest {
    pub(crate) new: NewIngest,
    pub(crate) state: AtomicU8,
    pub(crate) touched_ms: AtomicI64,
    /// Appends hold this lock for reading. A commit or the end of the ingest takes it for writing, to wait for running
    /// appends.
    pub(crate) gate: RwLock<()>,
    pub(crate) attempts: Mutex<Attempts>,
    /// Attempts listed in a plan, by partition, writer and attempt. Appends to them are refused, even from a replaced
    /// leader that has not noticed its successor.
    pub(crate) sealed: Mutex<HashSet<(i32, i32, i64)>>,
}

/// All open ingests of this broker.
#[derive(Default)]
pub struct Ingests {
    pub(crate) open: RwLock<HashMap<IngestName, Arc<Ingest>>>,
    pub(crate) quota: Quota,
    topic_debts: TopicDebts,
    /// Number of attempts of all open ingests, counted for each partition. Each has files and a log in memory.
    pub(crate) attempts: AtomicUsize,
    pub(crate) staged_bytes: AtomicU64,
    pub(crate) appended_bytes: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) copies: OnceLock<Arc<dyn StagedCopies>>,
}

impl std::fmt::Debug for Ingests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingests")
            .field("open", &self.open.read().len())
            .finish_non_exhaustive()
    }
}

/// Ingest metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestFigures {
    /// Number of open ingests.
    pub open: usize,
    /// Number of attempts that have staged records, counted for each partition.
    pub attempts: usize,
    /// Number of bytes that are staged at present.
    pub staged_bytes: u64,
    /// Bytes staged since the start.
    pub appended_bytes: u64,
    /// Partitions attached since the start.
    pub attached_partitions: u64,
}

impl Ingests {
    /// Set the connection to other brokers. Only the first call has an effect.
    pub fn set_copies(&self, copies: Arc<dyn StagedCopies>) {
        let _ = self.copies.set(copies);
    }

    /// Set the limits.
    pub fn set_limits(&self, limits: IngestLimits) {
        self.quota.set(limits);
    }

    /// Return an ingest to which a leader on another broker copies records. Unlike an append, this is allowed during a
    /// commit.
    pub(crate) fn copied(&self, name: &IngestName, epoch: i32) -> Result<Arc<Ingest>, IngestError> {
        match self.get(name, epoch) {
            Err(IngestError::Committing) => {
                let found = self.open.read().get(name).cloned();
                found.ok_or(IngestError::Unknown)
            }
            found => found,
        }
    }

    pub(crate) fn get(&self, name: &IngestName, epoch: i32) -> Result<Arc<Ingest>, IngestError> {
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

    /// Return the metrics.
    pub fn figures(&self) -> IngestFigures {
        IngestFigures {
            open: self.open.read().len(),
            attempts: self.attempts.load(Ordering::Relaxed),
            staged_bytes: self.staged_bytes.load(Ordering::Relaxed),
            appended_bytes: self.appended_bytes.load(Ordering::Relaxed),
            attached_partitions: self.commits.load(Ordering::Relaxed),
        }
    }

    /// Admit an append before its records are validated; return the milliseconds that the client must wait before the
    /// next one. `shared` means that other producers are active. `now` is monotonic time, because the time of day can
    /// step back.
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
        let ingest = self.get(name, epoch)?;
        let (topic, rate) = (name.topic_id, ingest.new.config.ingest_bytes_per_second);
        self.topic_debts.check(topic, rate, now)?;
        let staged = self.staged_bytes.load(Ordering::Relaxed);
        let wait_ms = self.quota.admit(bytes, staged, shared, now)?;
        Ok(wait_ms.max(self.topic_debts.add(topic, rate, bytes, now)))
    }
}
