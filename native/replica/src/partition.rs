//! One partition hosted here.

use std::sync::Arc;
use std::task::Waker;

use pybroker_model::{ProduceRules, TopicIdPartition, ValidBatches};

use crate::{
    AppendInfo, Commit, EpochEnd, FetchRead, Isolation, ListedOffset, OffsetSpec, PartitionError,
    PartitionRead, Registration,
};

/// One partition hosted here.
#[derive(Debug)]
pub struct Partition {
    tip: TopicIdPartition,
    topic: Arc<str>,
}

impl Partition {
    /// Its identity.
    pub fn tip(&self) -> TopicIdPartition {
        self.tip
    }

    /// Name of its topic.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// What `validate_produce` must check for this topic, now.
    pub fn produce_rules(&self, zstd_allowed: bool, now_ms: i64) -> ProduceRules {
        let _ = (zstd_allowed, now_ms);
        unreachable!("no partition exists yet")
    }

    /// Appends as leader. `required_acks` -1 asks for `min.insync.replicas`; the caller then waits on
    /// [`Partition::committed`]. Schedules the flush of commit mode.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `NotEnoughReplicas`, `Storage`, and what the producer state refuses.
    pub fn append(
        &self,
        batches: ValidBatches<'_>,
        required_acks: i16,
        now_ms: i64,
    ) -> Result<AppendInfo, PartitionError> {
        let _ = (batches, required_acks, now_ms);
        Err(PartitionError::NotLeader)
    }

    /// Ready once `appended` is committed (high watermark above its last offset), or with the reason why it never
    /// will be. A plain future; dropping it takes the waiter out.
    pub fn committed(self: &Arc<Self>, appended: &AppendInfo) -> Commit {
        Commit::new(Arc::clone(self), appended)
    }

    /// Reads for a Fetch.
    ///
    /// # Errors
    /// `NotLeader`, `FencedLeaderEpoch`, `UnknownLeaderEpoch`, `OffsetOutOfRange`, `Storage`.
    pub fn read(&self, fetch: &FetchRead) -> Result<PartitionRead, PartitionError> {
        let _ = fetch;
        Err(PartitionError::NotLeader)
    }

    /// Wakes `waker` once when more than now can be read at `isolation` above `end` (what the last read saw as its
    /// bound: high watermark or last stable offset), or when the partition stops. `None`: it can already; read again.
    pub fn watch(
        self: &Arc<Self>,
        isolation: Isolation,
        end: i64,
        waker: &Waker,
    ) -> Option<Registration> {
        let _ = (isolation, end, waker);
        None
    }

    /// End of what consumers may see.
    pub fn high_watermark(&self) -> i64 {
        0
    }

    /// min(high watermark, first open transaction).
    pub fn last_stable_offset(&self) -> i64 {
        0
    }

    /// First offset there is.
    pub fn log_start_offset(&self) -> i64 {
        0
    }

    /// Offset of the next record.
    pub fn log_end_offset(&self) -> i64 {
        0
    }

    /// The current leader epoch; -1 once stopped.
    pub fn leader_epoch(&self) -> i32 {
        -1
    }

    /// ListOffsets. May read index and log files: call it on the pool for timestamps.
    ///
    /// # Errors
    /// As [`Partition::read`].
    pub fn list_offset(
        &self,
        spec: OffsetSpec,
        isolation: Isolation,
        current_leader_epoch: i32,
    ) -> Result<ListedOffset, PartitionError> {
        let _ = (spec, isolation, current_leader_epoch);
        Err(PartitionError::NotLeader)
    }

    /// OffsetForLeaderEpoch.
    ///
    /// # Errors
    /// As [`Partition::read`].
    pub fn end_offset_for_epoch(
        &self,
        epoch: i32,
        current_leader_epoch: i32,
    ) -> Result<EpochEnd, PartitionError> {
        let _ = (epoch, current_leader_epoch);
        Err(PartitionError::NotLeader)
    }
}
